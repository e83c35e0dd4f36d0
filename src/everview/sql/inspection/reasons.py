"""WHY: derivations in SQL.

    WHY reach ('c')                       why a row is in a view
    WHY NOT reach ('z')                   why another is not; NULL stands for any value
    EXPLAIN WHY SELECT ... FROM ...       why the rows of a query are there

Each may end with AS OF and an earlier time, as far as history reaches. The result is a column of text, the lines of a
tree.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from everview.errors import did_you_mean
from everview.language.relation import relation_of
from everview.plan import joins
from everview.session.names.catalog import QUERY
from everview.sql.answers.result import Result
from everview.sql.rights import visible_relations
from everview.sql.scalar import names
from everview.sql.text import consumed_parts, statement_reader
from everview.sql.text.error_positions import Source
from everview.sql.text.token_reader import Words
from everview.types import DataType

if TYPE_CHECKING:
    from everview.sql.statements import Statements

MOST_ROWS = 10
"""Maximum number of rows of a query that are explained."""


def why(sql: Statements, statement: statement_reader.Statement) -> Result:
    """WHY [NOT] view (values)"""
    words = Words(statement)
    words.need("WHY")
    absent = words.next_is("NOT")
    views = sql.session.views
    name = names.spelled(words.take("a view"), views)
    if name not in views:
        words.at -= 1
        raise words.error(f"there is no view {name}", did_you_mean(name, views) or "only views have reasons", "E_TABLE")
    inside = words.brackets()
    if not inside:
        raise words.error("the row's values are missing here", f"WHY {name} (1, 'a')")
    words.end()
    (row,) = sql.session.sql(f"SELECT {inside.strip()[1:-1]}").rows()
    view = visible_relations.whole(sql.session, name, "WHY")
    types = relation_of(view).node.types
    fitted = tuple(fitting(v, types[i]) if i < len(types) else v for i, v in enumerate(row))
    time = statement.notes.as_of
    found: Any = view.why_not(fitted, time=time) if absent else view.why(fitted, time=time)
    return sql.texts("why", str(found).split("\n"))


def explain_why(sql: Statements, source: Source) -> Result:
    """EXPLAIN WHY query: its rows, each with its explanation."""
    tree = statement_reader.parsed(source)
    if not isinstance(tree, statement_reader.QUERIES):
        raise source.refuse(tree, "only rows of queries have reasons", "EXPLAIN WHY SELECT ..., or WHY view (values)")
    query, compiler = consumed_parts.whole(tree, source, lambda: sql.bound(tree, source))
    if source.notes.as_of is not None:
        with sql.as_of(source, source.notes.as_of, compiler) as (past, now):
            return explain_why(past, now)
    plain = joins.take(query.node, range(query.width))
    collection = sql.collection(compiler, plain, query.names)
    view = sql.session.view(QUERY, collection, plan=sql.how_to_join(plain, source))
    try:
        return sql.texts("why", list(_lines(view)))
    finally:
        view.drop()


def _lines(view: Any) -> Iterator[str]:
    rows = sorted(view.counts(), key=repr)
    for row in rows[:MOST_ROWS]:
        yield from str(view.why(row)).split("\n")
    if len(rows) > MOST_ROWS:
        yield f"... and {len(rows) - MOST_ROWS} more rows"


def fitting(value: Any, declared: DataType) -> Any:
    """A constant as the value that a column of a type would have.

    >>> fitting(Decimal("1.5"), DataType("float")), fitting("2026-11-17", DataType("date"))
    (1.5, datetime.date(2026, 11, 17))
    """
    if value is None or isinstance(value, bool):
        return value
    if declared.kind == "float" and isinstance(value, int | Decimal):
        return float(value)
    if declared.kind == "decimal" and isinstance(value, int | float):
        return Decimal(str(value))
    if isinstance(value, str):
        if declared.kind == "date":
            return dt.date.fromisoformat(value)
        if declared.kind in ("timestamp", "timestamptz"):
            return dt.datetime.fromisoformat(value)
        if declared.kind == "decimal":
            return Decimal(value)
        if declared.kind == "int":
            return int(value)
        if declared.kind == "float":
            return float(value)
    return value
