"""Data-modifying WITH queries: WITH gone AS (DELETE FROM t ... RETURNING *) INSERT INTO u SELECT * FROM gone.

All of them, and the main statement, are one transaction and see the tables as before it, as in PostgreSQL; RETURNING is
the only way to see the changes. While the statement is bound, such a query is an empty table with the types of its
RETURNING; on execution, the rows are inlined into the plans of its readers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from sqlglot import exp

from everview.plan import nodes as plan
from everview.sql.answers.result import Result
from everview.sql.dml.affected_rows import written_later
from everview.sql.select.scopes import Field, Relation
from everview.sql.text.error_positions import Source

if TYPE_CHECKING:
    from everview.sql.statements import Do, Statements

CHANGES = (exp.Insert, exp.Update, exp.Delete, exp.Merge)


def changing(node: exp.Expr) -> list[exp.CTE]:
    """The data-modifying WITH queries of a statement."""
    clause = node.args.get("with_")
    return [] if clause is None else [c for c in clause.expressions if isinstance(c.this, CHANGES)]


def bound(sql: Statements, node: exp.Expr, source: Source, handler: Callable[..., Do], handlers: Any) -> Do:
    """Bind a statement with such queries before it."""
    clause = node.args["with_"]
    steps: list[tuple[plan.Table | None, Do]] = []
    for i, cte in enumerate(clause.expressions):
        if isinstance(cte.this, CHANGES):
            recursive = clause.args.get("recursive")
            if recursive:
                _check_reads(cte, clause.expressions[i:], source)
            before = exp.With(expressions=[], recursive=recursive)
            before.args["expressions"] = clause.expressions[:i]  # which keep their parent
            steps.append(_step(sql, cte, before, source, handlers))
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


def _check_reads(cte: exp.CTE, later: list[exp.CTE], source: Source) -> None:
    """Refuse a change that reads its own rows, or those of a query behind it, which RECURSIVE makes visible."""
    names = {c.alias.lower() for c in later}
    for table in cte.this.find_all(exp.Table):
        if table.name.lower() in names and not table.db:
            what = f"a query that changes rows cannot read {table.name}, which is not before it"
            raise source.refuse(table, what, "give the query another name, or put it behind")


def _step(
    sql: Statements, cte: exp.CTE, before: exp.With, source: Source, handlers: Any
) -> tuple[plan.Table | None, Do]:
    node = cte.this
    if node.args.get("with_") is not None:
        raise source.refuse(node, "WITH inside a query that changes rows is not supported", "put it before the others")
    if before.expressions:
        node.args["with_"] = before
    try:
        do = handlers[type(node)](sql, node, source)
    finally:
        node.args.pop("with_", None)
    returning = sql.returning
    sql.returning = None
    if node.args.get("returning") is None or returning is None:
        sql.given[id(node)] = None
        return None, do
    place = written_later(tuple(e.type for _, e in returning))
    sql.given[id(node)] = Relation(place, tuple(Field(name) for name, _ in returning))
    return place, do


def _constant(answer: Result, place: plan.Table) -> plan.Node:
    return plan.Constant(tuple(map(tuple, answer.rows())), place.types)
