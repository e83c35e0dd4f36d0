"""Forms whose meaning is another one in other systems, or that only those have; by the dialect of the text.

    dayofweek(d), hour(d) ...    names for parts of a moment
    time_bucket(INTERVAL '10 days', d)
    split(s, ','), regexp_extract(s, p, 1), locate(p, s, 2)

Functions that are SQL over their arguments are in `foreign_functions`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from sqlglot import exp

from everview.expr import functions
from everview.expr.nodes import Expr, Literal
from everview.sql.scalar import calls, foreign_functions
from everview.sql.scalar.handlers import Forms
from everview.sql.scalar.roundings import HALF_EVEN, JAVA
from everview.sql.text import consumed_parts
from everview.types import DATE, INT

if TYPE_CHECKING:
    from everview.sql.scalar.scalars import Scalars


def on_datebin(scalars: Scalars, node: exp.DateBin) -> Expr:
    """time_bucket(interval, moment[, origin]) of other dialects; of a date it is a date in DuckDB"""
    given = [node.this, node.expression, node.args.get("origin")]
    named = exp.Anonymous(this=scalars.source.written(node).lower(), expressions=[g for g in given if g is not None])
    found = calls.SPECIAL[named.name](named, scalars)
    is_date = scalars.bind(node.expression).type.kind == "date" and scalars.source.dialect == "duckdb"
    return functions.cast(found, DATE) if is_date else found


# ---- parts of moments


def _part(unit: str) -> Callable[[Scalars, exp.Expr], Expr]:
    def bound(scalars: Scalars, node: exp.Expr) -> Expr:
        moment = node.this.this if isinstance(node.this, exp.TsOrDsToDate) else node.this
        return part(scalars, unit, moment)

    return bound


def part(scalars: Scalars, unit: str, moment: exp.Expr) -> Expr:
    """A part of a moment, which may be a text in these dialects."""
    value = scalars.bind(moment)
    if value.type.kind == "str":
        moment = exp.Cast(this=moment, to=exp.DataType.build("timestamp", dialect="postgres"))
    return scalars.bind(exp.Extract(this=exp.var(unit), expression=moment))


def on_dayofweek(scalars: Scalars, node: exp.DayOfWeek) -> Expr:
    """dayofweek(d): Sunday is 1, or 0 in DuckDB and Snowflake"""
    moment = node.this.this if isinstance(node.this, exp.TsOrDsToDate) else node.this
    day = part(scalars, "isodow", moment)
    counted = scalars.call("mod", day, Literal(INT, 7))
    return (
        counted if scalars.source.dialect in ("duckdb", "snowflake") else scalars.call("add", counted, Literal(INT, 1))
    )


def on_datefromparts(scalars: Scalars, node: exp.DateFromParts) -> Expr:
    """make_date(year, month, day)"""
    parts = [node.args[p] for p in ("year", "month", "day") if node.args.get(p) is not None]
    return calls.routine("make_date", parts, node, scalars)


# ---- texts


def on_initcap(scalars: Scalars, node: exp.Initcap) -> Expr:
    """initcap(s); words end at blanks in Spark"""
    consumed_parts.understood(node.expression)  # sqlglot's own
    if scalars.source.dialect in JAVA:
        return scalars.call("initcap_by_blanks", scalars.bind(node.this))
    if scalars.source.dialect not in (*HALF_EVEN, "oracle"):
        raise scalars.refused(node)
    return calls.routine("initcap", [node.this], node, scalars)


def on_split(scalars: Scalars, node: exp.Split) -> Expr:
    """string_split(s, ','): an empty text has one empty part"""
    return _sql("split", [node.this, node.expression], node, scalars)


def on_regexpsplit(scalars: Scalars, node: exp.RegexpSplit) -> Expr:
    """split(s, pattern) of Spark, string_split_regex of DuckDB"""
    if isinstance(node.expression, exp.Literal) and not node.expression.name:
        raise scalars.source.refuse(node.expression, "splitting at every letter is not supported")
    return calls.routine("regexp_split_to_array", [node.this, node.expression], node, scalars)


def on_regexpextract(scalars: Scalars, node: exp.RegexpExtract) -> Expr:
    """regexp_extract(s, pattern[, group]): an empty text if there is none"""
    if scalars.source.dialect not in (*JAVA, "duckdb"):
        raise scalars.refused(node)
    scalars.source.only(node, "this", "expression", "group", "null_if_pos_overflow")
    node.args.get("null_if_pos_overflow")
    number = node.args.get("group") or exp.Literal.number(0 if scalars.source.dialect == "duckdb" else 1)
    return _sql("extract", [node.this, node.expression, number], node, scalars)


def on_strposition(scalars: Scalars, node: exp.StrPosition) -> Expr:
    """position(x in s); locate(x, s, from)"""
    start = node.args.get("position")
    if start is None:
        return scalars.call("position", scalars.bind(node.this), scalars.bind(node.args["substr"]))
    return _sql("locate", [node.args["substr"], node.this, start], node, scalars)


TEXTS = {
    "split": "CASE WHEN $1 = '' THEN ARRAY[''] WHEN $2 = '' THEN string_to_array($1, NULL)"
    " ELSE string_to_array($1, $2) END",
    "extract": "CASE WHEN $1 IS NOT NULL AND $2 IS NOT NULL THEN coalesce(regexp_substr($1, $2, 1, 1, '', $3), '') END",
    "locate": "CASE WHEN $3 < 1 THEN 0 WHEN strpos(substr($2, $3), $1) = 0 THEN 0"
    " ELSE strpos(substr($2, $3), $1) + $3 - 1 END",
}
"""SQL of functions that sqlglot has nodes for."""


def _sql(name: str, given: list[exp.Expr], node: exp.Expr, scalars: Scalars) -> Expr:
    return foreign_functions.composed((TEXTS[name],), name, given, node, scalars)


FORMS: Forms = {
    exp.DateBin: on_datebin,
    exp.DayOfWeek: on_dayofweek,
    **{
        kind: _part(unit)
        for kind, unit in (
            (exp.DayOfWeekIso, "isodow"), (exp.DayOfYear, "doy"), (exp.WeekOfYear, "week"), (exp.Quarter, "quarter"),
            (exp.Hour, "hour"), (exp.Minute, "minute"),
        )
    },
    exp.DateFromParts: on_datefromparts,
    exp.Initcap: on_initcap,
    exp.Split: on_split,
    exp.RegexpSplit: on_regexpsplit,
    exp.RegexpExtract: on_regexpextract,
    exp.StrPosition: on_strposition,
}  # fmt: skip
"""The function for each kind of node."""
