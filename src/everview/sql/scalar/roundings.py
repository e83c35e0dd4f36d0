"""Doubles as whole numbers and as texts, by the dialect of the text.

round(2.5::double)     3, halves away from zero; 2 in PostgreSQL
CAST(2.5 AS int)       2 in Spark, Hive, SQLite and SQL Server
CAST(3.0 AS text)      3.0 where systems print a point
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from sqlglot import exp

from everview.expr import functions
from everview.expr.nodes import Expr, Literal
from everview.sql.scalar.handlers import Forms
from everview.types import FREE, INT

if TYPE_CHECKING:
    from everview.sql.scalar.scalars import Scalars

JAVA = ("hive", "spark", "spark2", "databricks")
"""Spark and its relatives."""

HALF_EVEN = ("postgres", "redshift", "materialize", "risingwave")
"""Dialects in which round of a double takes the even neighbour of a half."""

NEAREST_EVEN = (*HALF_EVEN, "mysql")
"""MySQL too, whose doubles are rounded by C; its decimals are not."""

AWAY = ("bigquery", "snowflake", "trino", "presto", "athena")
"""Dialects in which a double that is cast to an int is rounded away from zero; elsewhere to the even neighbour."""

CUTTING = (*JAVA, "sqlite", "tsql", "fabric", "clickhouse")
"""Dialects in which a number that is cast to an int loses its fraction."""

PRINTED_AS = {
    **dict.fromkeys((*JAVA, "trino", "presto", "athena"), "java_text"),
    **dict.fromkeys(("duckdb", "sqlite"), "pointed_text"),
}
"""How doubles become texts; elsewhere as in PostgreSQL, without a point if they are whole."""


def on_round(scalars: Scalars, node: exp.Round) -> Expr:
    """round(x[, digits])"""
    value = scalars.bind(node.this)
    digits = node.args.get("decimals")
    given = [value] if digits is None else [value, scalars.bind(digits)]
    if value.type.kind == "float" and scalars.source.dialect not in NEAREST_EVEN:
        return scalars.call("half_up", *given)
    wanted = given[1] if len(given) > 1 else Literal(INT, 0)
    known = wanted.value if isinstance(wanted, Literal) else None
    if wanted.type.kind == "int" and (not isinstance(known, int) or known not in range(MOST_ROUNDED)):
        rounded = scalars.call("round_to", value, wanted)
    else:
        rounded = scalars.call("round", *given)
    return _with_digits(scalars, rounded, known) if isinstance(known, int) else rounded


MOST_ROUNDED = 16
"""The compiled function rounds to fewer digits after the point than this, and to no place before it."""


def _with_digits(scalars: Scalars, value: Expr, digits: int) -> Expr:
    """A rounded number with no more digits after the point than it was rounded to, as PostgreSQL prints it."""
    kept = max(digits, 0)
    if scalars.source.dialect not in HALF_EVEN or value.type.scale <= kept:
        return value
    if value.type.kind not in ("decimal", "numeric"):
        return value
    if value.type.scale >= FREE and digits > 0:
        return value  # a number without a scale prints the digits that it has
    return functions.cast(value, replace(value.type, scale=kept, width=0 if value.type.kind == "decimal" else 38))


def on_floor(scalars: Scalars, node: exp.Floor | exp.Ceil) -> Expr:
    """floor(x), ceil(x)"""
    value = scalars.bind(node.this)
    return _with_digits(scalars, scalars.call("floor" if isinstance(node, exp.Floor) else "ceil", value), 0)


def whole(scalars: Scalars, value: Expr) -> Expr:
    """A number without a fraction, as a cast to an int has it."""
    if scalars.source.dialect in AWAY and value.type.kind == "float":
        return scalars.call("half_up", value)
    if scalars.source.dialect not in CUTTING:
        return scalars.call("round", value)
    up, down = scalars.call("ceil", value), scalars.call("floor", value)
    below = scalars.call("lt", value, functions.cast(Literal(INT, 0), value.type.optional(False)))
    return scalars.call("case", below, up, down)


def text_of_double(scalars: Scalars, value: Expr) -> Expr:
    """A double as a text."""
    return scalars.call(PRINTED_AS.get(scalars.source.dialect, "float_text"), value)


FORMS: Forms = {exp.Round: on_round, exp.Floor: on_floor, exp.Ceil: on_floor}
