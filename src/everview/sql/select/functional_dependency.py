"""Functional dependency in GROUP BY: all columns of a table whose key is grouped by.

    SELECT c.id, c.name, count(*) FROM customer c JOIN orders o ON o.customer = c.id GROUP BY c.id

A key is unique as long as the table exists, and an unmatched row of an outer join has NULL in all of a table's columns.
Such columns are therefore added to the grouping, which does not change the groups. PostgreSQL does so too, for primary
keys; other systems refuse it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from sqlglot import exp

from everview.expr.nodes import ColumnRef, Expr
from everview.sql.scalar.scalars import Scalars
from everview.sql.select import outputs
from everview.sql.select.scopes import Field

if TYPE_CHECKING:
    from everview.sql.select.compiler import Compiler

Key = tuple[exp.Expr, Expr]
"""A grouping key: as written, and bound."""


def columns(
    compiler: Compiler, by: Sequence[Key], nodes: Sequence[exp.Expr], below: Scalars, unique: Sequence[frozenset[Field]]
) -> list[Key]:
    """Further columns to group by: those that `nodes` refer to, of tables whose key (one of `unique`) is grouped by."""
    fields = below.scope.relation.fields
    grouped = {replace(fields[e.index], plain=True) for _, e in by if isinstance(e, ColumnRef)}  # USING hides one
    tables = {next(iter(key)).table for key in unique if key <= grouped}
    if not tables or len({f.table for k in unique for f in k}) < len(unique):  # one name for two tables
        return []
    have = {e for _, e in by}
    found: dict[Expr, exp.Expr] = {}
    for node in nodes:
        for column in _named(node):
            for place in _places(compiler, column, below):
                ref = below.scope.relation.ref(place)
                if fields[place].table in tables and ref not in have:
                    name = exp.column(fields[place].name, table=fields[place].table or None)
                    found.setdefault(ref, name)
    return [(name, ref) for ref, name in found.items()]


def _named(node: exp.Expr) -> Iterator[exp.Expr]:
    """Columns and stars outside subqueries and aggregates; a window function is not an aggregate."""
    todo = [node]
    while todo:
        each = todo.pop()
        if isinstance(each, (exp.Column, exp.Star)):
            yield each
        elif isinstance(each, exp.Window):
            todo += [*each.this.iter_expressions(), *(e for e in each.iter_expressions() if e is not each.this)]
        elif not isinstance(each, (exp.Query, exp.AggFunc)):
            todo += each.iter_expressions()


def _places(compiler: Compiler, column: exp.Expr, below: Scalars) -> list[int]:
    if outputs.is_star(column):
        table = column.args["table"].name.lower() if isinstance(column, exp.Column) else ""
        fields = below.scope.relation.fields
        return [i for i, f in enumerate(fields) if f.name and (f.table.lower() == table if table else f.plain)]
    assert isinstance(column, exp.Column)
    found = below.scope.matches(column)
    return found if len(found) == 1 else []
