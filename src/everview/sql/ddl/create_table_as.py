"""CREATE TABLE ... AS query: a table with the query's current rows. Unlike a view, it does not follow the query.

Columns have the names and types of the query's. The table is created with all rows, or not at all.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from sqlglot import exp

from everview.plan import joins
from everview.plan import nodes as plan
from everview.session.table import Table
from everview.sql.dml.omitted_columns import fitted
from everview.sql.select.query import Query
from everview.sql.text.error_positions import Source
from everview.types import DataType

if TYPE_CHECKING:
    from everview.sql.statements import Do, Statements


def create_filled(
    sql: Statements, name: str, node: exp.Create, source: Source, away: Callable[[], None] = lambda: None
) -> Do:
    """CREATE TABLE name AS query; `away` drops what it replaces, once the query is answered."""
    query, compiler = sql.bound(node.expression, source)
    columns = list(query.names)
    if isinstance(node.this, exp.Schema):  # CREATE TABLE t (a, b) AS query
        given = [e.name for e in node.this.expressions]
        if len(given) > len(columns):
            raise source.error(
                node.this, "E_WIDTH", f"the query has {len(columns)} columns, {len(given)} names are given"
            )
        columns = [*given, *columns[len(given) :]]
    for column in columns:
        if columns.count(column) > 1:
            what = f"two columns of the table are called {column}"
            raise source.error(node.expression, "E_DUPLICATE", what, "name them with AS")
    types = query.node.types[query.context : query.width]

    def do() -> Table:
        answer = sql.answer(query, compiler)
        codes = answer._codes
        with sql.core.catalog.together():
            away()
            table = sql.session.table(name, dict(zip(columns, types, strict=True)))
        try:
            if len(answer):
                sql.core.transactions.stage(table, codes, 1)
        except BaseException:
            table.drop()
            raise
        sql.affected = len(answer)
        return table

    return do


def filled_rows(
    sql: Statements, node: exp.Create, schema: dict[str, DataType], source: Source
) -> Callable[[], list[tuple[Any, ...]]]:
    """CREATE TABLE name (x int, ...) AS query: the query's rows converted to the columns' types."""
    query, compiler = sql.bound(node.expression, source)
    types = query.node.types[query.context : query.width]
    if len(types) != len(schema):
        raise source.error(node.this, "E_WIDTH", f"the query has {len(types)} columns, the table {len(schema)}")
    refs = joins.refs(query.node.types)[query.context : query.width]
    values = [fitted(r, t, node.expression, source) for r, t in zip(refs, schema.values(), strict=True)]
    wanted = Query(plan.Project(query.node, tuple(values)), tuple(schema))
    return lambda: sql.answer(wanted, compiler).rows()
