"""CREATE TABLE ... AS query: a table with the rows that a query gives now. It does not follow the query: a view does.

Columns have the names and types of the query's. The table is there with all rows, or not at all.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlglot import exp

from everview.session.table import Table
from everview.sql.text.places import Source

if TYPE_CHECKING:
    from everview.sql.statements import Do, Statements


def create_filled(sql: Statements, name: str, node: exp.Create, source: Source) -> Do:
    """CREATE TABLE name AS query"""
    query, compiler = sql.bound(node.expression, source)
    columns = list(query.names)
    for column in columns:
        if columns.count(column) > 1:
            what = f"two columns of the table are called {column}"
            raise source.error(node.expression, "E_DUPLICATE", what, "name them with AS")
    types = query.node.types[query.context : query.width]

    def do() -> Table:
        answer = sql.answer(query, compiler)
        table = sql.session.table(name, dict(zip(columns, types, strict=True)))
        try:
            if len(answer):
                sql.core.transactions.stage(table, answer._codes, 1)
        except BaseException:
            table.drop()
            raise
        sql.affected = len(answer)
        return table

    return do
