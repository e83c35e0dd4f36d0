"""Error messages for users of other libraries: what to write here instead.

A collection is a query, not a frame: it has columns, and methods that make more queries. Any other attribute raises an
error that explains this and suggests what to write, depending on what was tried.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from everview.errors import PlanError, did_you_mean
from everview.expr.language import Expression
from everview.language.relation import relation_of


class UnknownColumn(PlanError, AttributeError):
    """`c.x` where c has no column x; also an AttributeError, so that hasattr works."""


class NotComputed(PlanError, AttributeError):
    """Rows of a query that is not installed were requested. Not a TypeError: `in` would replace it by its own."""


READING = frozenset(
    (
        "as_of",
        "changes",
        "count",
        "counts",
        "errors",
        "head",
        "lookup",
        "replan",
        "provenances",
        "provenance",
        "probability",
        "rows",
        "show",
        "stats",
        "subscribe",
        "to_arrow",
        "to_pandas",
        "to_polars",
        "to_spark",
        "trust",
        "why",
        "why_not",
        "write_to",
    )
)
"""Attributes that tables or views have, and queries do not: their rows."""

CHANGING = frozenset({"clear", "delete", "insert", "upsert"})
"""Attributes that only tables have."""

ELSEWHERE = {
    "aggregate": 'c.group_by("k").agg(total=col.x.sum())',
    "append": "t.insert(rows)",
    "assign": "c.with_columns(x=...)",
    "collect": "v.rows()",
    "columns": "list(c.schema())",
    "describe": "c.schema(), or v.stats()",
    "drop_duplicates": "c.distinct()",
    "dropDuplicates": "c.distinct()",
    "dtypes": "c.schema()",
    "fetchall": "v.rows()",
    "groupBy": 'c.group_by("k").agg(...)',
    "groupby": 'c.group_by("k").agg(...)',
    "merge": "c.join(d, c.x == d.y)",
    "orderBy": "c.top(10, by=col.x.desc()): only the first rows have an order that can be kept",
    "order_by": "c.top(10, by=col.x.desc()): only the first rows have an order that can be kept",
    "printSchema": "c.schema()",
    "query": "c.filter(c.x > 1)",
    "sort": "c.top(10, by=col.x.desc()): only the first rows have an order that can be kept",
    "sort_values": "c.top(10, by=col.x.desc()): only the first rows have an order that can be kept",
    "sum": "c.agg(total=col.x.sum())",
    "take": "v.head(5)",
    "tail": "c.top(5, by=col.x.desc())",
    "toPandas": "v.to_pandas()",
    "union": "c.union_all(d), and .distinct() for each row once",
    "unique": "c.distinct()",
    "where": "c.filter(c.x > 1)",
    "withColumn": "c.with_columns(x=...)",
}
"""Names from other libraries, and the equivalents here."""

KEEP = 'create a view, v = db.view("name", c), and then'


def missing(c: Any, name: str, columns: Sequence[str]) -> PlanError:
    """Return the error for an attribute that is neither a column nor a method."""
    if name in READING:
        return NotComputed(
            "E_NOT_COMPUTED", f"{c!r} is a query, not a view: it has no {name}()", f"{KEEP} v.{name}(...)"
        )
    if name in CHANGING:
        return NotComputed(
            "E_NOT_A_TABLE", f"{c!r} is not a table: it has no {name}()", "change the tables that it is made of"
        )
    methods = [m for m in dir(type(c)) if not m.startswith("_")]
    hint = f"write {ELSEWHERE[name]}" if name in ELSEWHERE else did_you_mean(name, [*columns, *methods])
    if hint.startswith("available"):
        hint = did_you_mean(name, columns).replace("available:", "columns:") + "; methods: dir(c)"
    return UnknownColumn("E_COLUMN", f"{c!r} has no column {name!r}", hint)


def not_a_name(c: Any, given: Any) -> PlanError:
    """Return the error for `c[given]` if that is not the name of a column."""
    name = relation_of(c).label or "c"
    if isinstance(given, Expression):
        what, hint = "a condition is not the name of a column", f"write {name}.filter({given!r})"
    elif isinstance(given, (list, tuple)) and all(isinstance(n, str) for n in given):
        what, hint = "one column has one name", f"write {name}.select({', '.join(map(repr, given))})"
    elif isinstance(given, (int, slice)):
        what, hint = "rows have no numbers", "v.head(n) gives some rows, c.top(n, by=...) the first ones"
    else:
        what, hint = "the name of a column is needed", f"the columns of {c!r} have names"
    return UnknownColumn("E_COLUMN", f"{name}[{given!r}]: {what}", hint)


def not_computed(c: Any, what: str, instead: str) -> PlanError:
    """Return the error for reading the rows of a query that is not installed."""
    return NotComputed("E_NOT_COMPUTED", f"{c!r} is a query, not a view: it cannot be {what}", f"{KEEP} {instead}")
