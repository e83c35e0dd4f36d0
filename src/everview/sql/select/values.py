"""VALUES."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqlglot import exp

from everview.expr.nodes import Literal
from everview.plan import joins
from everview.plan.nodes import ONE_ROW, Constant, Node, Project, Union
from everview.sql.scalar.scalars import Scalars
from everview.sql.select import (
    row_types,
)
from everview.sql.select.query import Env, Query
from everview.sql.select.scopes import HIDDEN_FIELD, Outer, Relation, Scope
from everview.sql.text import consumed_parts
from everview.sql.text.dialects import DEFAULT, SPARKS

if TYPE_CHECKING:
    from everview.sql.select.compiler import Compiler


COLUMNS = {
    "duckdb": (0, "col"),
    "mysql": (0, "column_"),
    **dict.fromkeys(SPARKS, (1, "col")),
}
"""What the columns of VALUES are called in a dialect: the number of the first, and what stands before it."""


def bound(compiler: Compiler, node: exp.Values, env: Env, outer: Outer | None) -> Query:
    """The query; with an outer scope its context comes first."""
    start = compiler.context(outer) if outer is not None and outer.positions else Relation(ONE_ROW, (HIDDEN_FIELD,))
    context = len(outer.positions) if outer is not None else 0
    each: list[Node] = []
    for row in node.expressions:
        scope = Scope(start, compiler.source, outer)
        items = row.expressions if isinstance(row, exp.Tuple) else [row]
        exprs = [Scalars(compiler, scope, env).bind(e) for e in items]
        each.append(Project(scope.relation.node, (*joins.refs(start.node.types)[:context], *exprs)))
    rows = row_types.unified(compiler, each, node)
    first, before = COLUMNS.get(compiler.source.dialect, (1, "column"))
    names = tuple(f"{before}{i + first}" for i in range(len(rows[0].types) - context))
    alias = node.args.get("alias")
    if alias is not None and not isinstance(node.parent, (exp.From, exp.Join)):  # VALUES (1, 2) AS t(a, b)
        if not alias.columns and compiler.source.dialect == DEFAULT:  # it would change nothing
            raise compiler.source.refuse(alias, f"{alias.name} is not expected here", "name its columns: AS t (x, y)")
        consumed_parts.understood(alias)
        given = tuple(c.name for c in alias.columns)
        names = (*given, *names[len(given) :])
    if len(rows) == 1:
        return Query(rows[0], names, context, (), True, True)
    return Query(_written(Union(tuple(rows))), names, context)


def _written(rows: Union) -> Node:
    """The rows of VALUES: a constant if nothing in them has to be computed."""
    found: list[tuple[Any, ...]] = []
    for row in rows.inputs:
        if not isinstance(row, Project) or row.child != ONE_ROW:
            return rows
        values = [e for e in row.exprs if isinstance(e, Literal)]
        if len(values) < len(row.exprs):
            return rows
        found.append(tuple(e.value for e in values))
    return Constant(tuple(found), rows.types)
