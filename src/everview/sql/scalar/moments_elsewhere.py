"""Functions of moments that Flink, Spark and MySQL have and PostgreSQL does not, in texts of the default dialect.

    TIMESTAMPDIFF(DAY, a, b), TIMESTAMPADD(MONTH, n, ts)
    DATE_FORMAT(ts, 'yyyy-MM-dd HH:mm')         MySQL's '%Y-%m-%d' is told by its percent signs
    TO_TIMESTAMP_LTZ(1577836800000, 3)          a timestamptz, from seconds (0) or milliseconds (3)

TIMESTAMPDIFF counts whole units, towards zero: a month is whole when its day and time of day have come, as PostgreSQL's
age, MySQL and Spark count. (Calcite takes the 29th of February for a month after the 31st of January.)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from sqlglot import exp

from everview.errors import PlanError, did_you_mean
from everview.expr import functions
from everview.expr.nodes import Expr
from everview.sql.scalar import foreign_functions
from everview.sql.scalar.handlers import Forms
from everview.sql.text import consumed_parts, statement_reader
from everview.sql.text.dialects import DEFAULT
from everview.sql.text.error_positions import Source
from everview.types import DATE

if TYPE_CHECKING:
    from everview.sql.scalar.scalars import Scalars

_SIZES = {
    "microsecond": 1, "millisecond": 1_000, "second": 1_000_000, "minute": 60_000_000, "hour": 3_600_000_000,
    "day": 86_400_000_000, "week": 604_800_000_000,
}  # fmt: skip
_MONTHS = {"month": 1, "quarter": 3, "year": 12}
_DAYS = ("day", "week", *_MONTHS)
"""Units by which a date stays one."""


def _microseconds(moment: str) -> str:
    seconds = f"extract(epoch FROM date_trunc('second', {moment}))::bigint"
    return f"({seconds} * 1000000 + extract(microseconds FROM {moment})::bigint % 1000000)"


def _month(moment: str) -> str:
    return f"(extract(year FROM {moment})::bigint * 12 + extract(month FROM {moment})::bigint)"


def _into_month(moment: str) -> str:
    start = f"date_trunc('month', {moment})"
    return f"({_microseconds(moment)} - {_microseconds(start)})"


def _difference(unit: str, moments: tuple[exp.Expr, exp.Expr], scalars: Scalars) -> str:
    """The SQL of whole units from $1 to $2. Hours and shorter units of moments with a zone have one length, also on a
    day when clocks change.
    """
    a, b = "$1::timestamp", "$2::timestamp"
    if unit not in _DAYS and any(scalars.bind(m).type.kind == "timestamptz" for m in moments):
        a, b = (f"({each}tz AT TIME ZONE 'UTC')" for each in (a, b))
    if unit in _SIZES:
        return f"({_microseconds(b)} - {_microseconds(a)}) / {_SIZES[unit]}"
    month = f"({_month(b)} - {_month(a)})"
    into = f"({_into_month(b)} - {_into_month(a)})"
    early = f"CASE WHEN {month} > 0 AND {into} < 0 THEN 1 WHEN {month} < 0 AND {into} > 0 THEN -1 ELSE 0 END"
    return f"({month} - {early}) / {_MONTHS[unit]}"


def _unit(node: exp.Expr, name: str, scalars: Scalars) -> str:
    consumed_parts.understood(node)
    unit = node.name.lower().removeprefix("sql_tsi_")
    known = (*_SIZES, *_MONTHS)
    if unit not in known:
        hint = did_you_mean(unit, known)
        raise scalars.source.error(node, "E_SYNTAX", f"{name} counts no {node.name or 'such thing'}", hint)
    return unit


def _arguments(node: exp.Anonymous, scalars: Scalars, counts: tuple[int, ...], what: str) -> list[exp.Expr]:
    name = node.name.lower()
    if scalars.source.dialect != DEFAULT:
        raise scalars.source.refuse(node, f"there is no function {name}")
    if len(node.expressions) not in counts:
        raise scalars.source.error(node, "E_ARITY", f"{name} has other arguments", what)
    return list(node.expressions)


def _timestampdiff(node: exp.Anonymous, scalars: Scalars) -> Expr:
    unit, start, end = _arguments(node, scalars, (3,), "TIMESTAMPDIFF(DAY, start, end)")
    text = _difference(_unit(unit, "TIMESTAMPDIFF", scalars), (start, end), scalars)
    return foreign_functions.composed((text,), "timestampdiff", [start, end], node, scalars)


def on_timestampdiff(scalars: Scalars, node: exp.TimestampDiff) -> Expr:
    """TIMESTAMPDIFF of the dialects that count whole units, too"""
    if scalars.source.dialect not in ("mysql", "spark", "databricks"):
        raise scalars.refused(node)
    text = _difference(_unit(node.args["unit"], "TIMESTAMPDIFF", scalars), (node.expression, node.this), scalars)
    return foreign_functions.composed((text,), "timestampdiff", [node.expression, node.this], node, scalars)


def _timestampadd(node: exp.Anonymous, scalars: Scalars) -> Expr:
    given, count, moment = _arguments(node, scalars, (3,), "TIMESTAMPADD(DAY, 1, moment)")
    unit = _unit(given, "TIMESTAMPADD", scalars)
    size = {"quarter": "3 month", "week": "7 day"}.get(unit, f"1 {unit}")
    text = f"$2 + $1 * interval '{size}'"
    found = foreign_functions.composed((text,), "timestampadd", [count, moment], node, scalars)
    is_date = unit in _DAYS and scalars.bind(moment).type.kind == "date"
    return functions.cast(found, DATE) if is_date else found


def _to_timestamp_ltz(node: exp.Anonymous, scalars: Scalars) -> Expr:
    given = _arguments(node, scalars, (1, 2), "TO_TIMESTAMP_LTZ(milliseconds, 3)")
    places = given[1].name if len(given) > 1 and isinstance(given[1], exp.Literal) else "3" if len(given) == 1 else ""
    unit = {"0": "second", "3": "millisecond"}.get(places)
    if unit is None:
        hint = "0 is seconds, 3 is milliseconds"
        raise scalars.source.error(given[1], "E_LITERAL", "the precision of TO_TIMESTAMP_LTZ is 0 or 3", hint)
    for each in given[1:]:
        consumed_parts.understood(each)
    text = f"(timestamp '1970-01-01' + $1 * interval '1 {unit}') AT TIME ZONE 'UTC'"
    return foreign_functions.composed((text,), "to_timestamp_ltz", given[:1], node, scalars)


def _date_format(node: exp.Anonymous, scalars: Scalars) -> Expr:
    moment, template = _arguments(node, scalars, (2,), "DATE_FORMAT(moment, 'yyyy-MM-dd')")
    if not isinstance(template, exp.Literal) or not template.is_string:
        what = "a template of a moment is a constant here"
        raise scalars.source.refuse(template, what, "'yyyy-MM-dd', or '%Y-%m-%d'")
    consumed_parts.understood(template)
    dialect = "mysql" if "%" in template.name else "spark"
    written = template.name.replace("'", "\\'")
    inner = Source(f"SELECT date_format(a1, '{written}')", dialect=dialect, zone=scalars.source.zone)
    tree = statement_reader.parsed(inner)
    value = scalars.bind(moment)
    try:
        return foreign_functions.over_values(tree.expressions[0], inner.text, [value], scalars, dialect)
    except PlanError as error:
        message = error.message.partition(": ")[2] or error.message
        raise scalars.source.error(node, error.code, f"date_format: {message}", error.hint) from None


SPECIAL: dict[str, Callable[[exp.Anonymous, Scalars], Expr]] = {
    "timestampdiff": _timestampdiff,
    "timestampadd": _timestampadd,
    "to_timestamp_ltz": _to_timestamp_ltz,
    "date_format": _date_format,
}

FORMS: Forms = {exp.TimestampDiff: on_timestampdiff}
"""The function for each kind of node."""
