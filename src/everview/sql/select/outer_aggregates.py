"""Aggregates inside a subquery that belong to an outer query.

    SELECT g, (SELECT max(u.x) FROM u WHERE u.y < sum(t.a)) FROM t GROUP BY g

`sum(t.a)` reads nothing of the subquery's own tables, so it is a sum over the groups of `t`: an aggregate belongs to
the innermost query that one of its columns comes from. The outer query searches the subqueries of its SELECT, HAVING
and ORDER BY for such aggregates before it builds its groups, computes them with its own, and marks them (`OUTSIDE`);
inside the subquery they then act like a column of the outer query.

Whether an inner query has a column of some name depends on its FROM. That is bound tentatively, and only if an
aggregate's columns are unqualified.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from sqlglot import exp

from everview.sql.select.from_clause import FromClause
from everview.sql.select.scopes import OUTSIDE, Correlated, Outer, Scope
from everview.sql.text.error_positions import SqlError

if TYPE_CHECKING:
    from everview.sql.select.compiler import Compiler
    from everview.sql.select.query import Env

Found = tuple[exp.Expr, exp.Expr | None]
"""An aggregate and the condition of its FILTER."""


def belonging(compiler: Compiler, nodes: Iterable[exp.Expr], scope: Scope, env: Env) -> list[Found]:
    """The aggregates in subqueries of expressions that belong to the scope's query; marks them."""
    found = [
        (call, condition)
        for node in nodes
        for query in _queries(node)
        for call, condition in _aggregates(query)
        if _is_ours(compiler, query, call, condition, scope, env)
    ]
    for call, _ in found:
        call.meta[OUTSIDE] = True
    return found


def _queries(node: exp.Expr) -> Iterator[exp.Expr]:
    """The subqueries of an expression that are in no other."""
    if isinstance(node, exp.Query):
        yield node
        return
    for child in node.iter_expressions():
        yield from _queries(child)


def _aggregates(query: exp.Expr) -> Iterator[Found]:
    for node in query.walk():
        if isinstance(node, exp.AggFunc) and not isinstance(node, exp.Grouping):
            parent = node.parent
            if isinstance(parent, exp.Filter):
                if not isinstance(parent.parent, exp.Window):
                    yield node, parent.expression.this
            elif not isinstance(parent, (exp.Window, exp.IgnoreNulls, exp.RespectNulls, exp.WithinGroup)):
                yield node, None


def _is_ours(
    compiler: Compiler, query: exp.Expr, call: exp.Expr, condition: exp.Expr | None, scope: Scope, env: Env
) -> bool:
    columns = [c for part in (call, condition) if part is not None for c in part.find_all(exp.Column)]
    if not any(scope.matches(c) for c in columns):
        return False
    level = call.parent_select
    while level is not None:
        if any(_has(compiler, level, c, scope, env) for c in columns):
            return False
        if level is query or level.parent is query:
            return True
        level = level.parent_select
    return True


def _has(compiler: Compiler, select: exp.Expr, column: exp.Column, scope: Scope, env: Env) -> bool:
    """Whether a query inside has a column in its own FROM."""
    source = select.args.get("from_")
    if not isinstance(select, exp.Select) or source is None:
        return False
    if column.table:
        items = [source.this, *(j.this for j in select.args.get("joins") or [])]
        names = [n.alias_or_name.lower() for i in items for n in i.find_all(exp.Table, exp.Subquery, exp.Lateral)]
        return column.table.lower() in names
    try:
        own = FromClause.of(select, compiler, compiler.with_clause(select, env), Outer(scope)).scope()
    except (SqlError, Correlated):
        return True  # errors there are reported when it is bound
    return bool(own.matches(column))
