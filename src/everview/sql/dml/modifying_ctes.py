"""Data-modifying WITH queries: WITH gone AS (DELETE FROM t ... RETURNING *) INSERT INTO u SELECT * FROM gone.

All of them, and the main statement, are one transaction and see the tables as before it, as in PostgreSQL; RETURNING is
the only way to see the changes. While the statement is bound, such a query is an empty table with the types of its
RETURNING; on execution, the rows are inlined into the plans of its readers.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import TYPE_CHECKING, Any

from sqlglot import exp

from everview.plan import nodes as plan
from everview.sql.answers.result import Result
from everview.sql.select.scopes import Field, Relation
from everview.sql.text.error_positions import Source

if TYPE_CHECKING:
    from everview.sql.statements import Do, Statements

CHANGES = (exp.Insert, exp.Update, exp.Delete, exp.Merge)

_NUMBERS = count(1)


def changing(node: exp.Expr) -> list[exp.CTE]:
    """The data-modifying WITH queries of a statement."""
    clause = node.args.get("with_")
    return [] if clause is None else [c for c in clause.expressions if isinstance(c.this, CHANGES)]


def bound(sql: Statements, node: exp.Expr, source: Source, handler: Callable[..., Do], handlers: Any) -> Do:
    """Bind a statement with such queries before it."""
    clause = node.args["with_"]
    if clause.args.get("recursive"):
        raise source.refuse(node, "WITH RECURSIVE and queries that change rows do not go together", "leave it out")
    steps: list[tuple[plan.Table | None, Do]] = []
    for i, cte in enumerate(clause.expressions):
        if isinstance(cte.this, CHANGES):
            steps.append(_step(sql, cte, clause.expressions[:i], source, handlers))
    last = handler(sql, node, source)

    def do() -> Any:
        with sql.session.transaction():
            staged = sql.core.transactions.pending()
            sql.snapshot = len(staged or ())
            try:
                for place, step in steps:
                    answer = step()
                    if place is not None:
                        sql.written[place] = _constant(answer, place)
                return last()
            finally:
                sql.snapshot = None
                sql.written.clear()

    return do


def _step(
    sql: Statements, cte: exp.CTE, before: list[exp.CTE], source: Source, handlers: Any
) -> tuple[plan.Table | None, Do]:
    node = cte.this
    if node.args.get("with_") is not None:
        raise source.refuse(node, "WITH inside a query that changes rows is not supported", "put it before the others")
    if before:
        node.args["with_"] = exp.With(expressions=[])
        node.args["with_"].args["expressions"] = list(before)
    try:
        do = handlers[type(node)](sql, node, source)
    finally:
        node.args.pop("with_", None)
    returning = sql.returning
    sql.returning = None
    if node.args.get("returning") is None or returning is None:
        sql.given[id(node)] = None
        return None, do
    place = plan.Table(-1 - next(_NUMBERS), tuple(e.type for _, e in returning))
    sql.given[id(node)] = Relation(place, tuple(Field(name) for name, _ in returning))
    return place, do


def _constant(answer: Result, place: plan.Table) -> plan.Node:
    return plan.Constant(tuple(map(tuple, answer.rows())), place.types)
