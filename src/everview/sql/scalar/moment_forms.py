"""Date and time syntax: extract, date_trunc, and date arithmetic of other dialects."""

from __future__ import annotations

import datetime as dt
import re
from typing import TYPE_CHECKING

from sqlglot import exp

from everview.codes.intervals import unit_name
from everview.errors import did_you_mean
from everview.expr import functions
from everview.expr.library.datetimes import COUNTED, EXTRACTED, TRUNCATED
from everview.expr.library.intervals import TRUNCATED_SPANS
from everview.expr.nodes import Expr, Literal
from everview.sql.scalar import (
    calls,
    casts,
    constants,
    division,
    foreign_functions,
    interval_arithmetic,
    strftime,
    zones,
)
from everview.sql.scalar.handlers import Forms
from everview.sql.scalar.type_names import in_words
from everview.sql.text import consumed_parts
from everview.sql.text.error_positions import offset_of
from everview.types import DATE, FLOAT, INT, STR, TIMESTAMP

if TYPE_CHECKING:
    from everview.sql.scalar.scalars import Scalars

FRACTIONS = ("postgres", "redshift", "materialize", "risingwave", "spark", "spark2", "databricks", "hive")
"""Dialects in which extract(second from x) has digits after the point."""

_FROM_SUNDAY = "(extract(doy FROM $1) + 6 - extract(dow FROM $1)) / 7"
_WEEKS = {
    **dict.fromkeys(("mysql", "doris", "starrocks", "singlestore", "bigquery"), _FROM_SUNDAY),
    **dict.fromkeys(
        ("tsql", "fabric"),
        f"{_FROM_SUNDAY} + CASE WHEN (extract(doy FROM $1) - extract(dow FROM $1)) % 7 = 1 THEN 0 ELSE 1 END",
    ),
}
"""Weeks from Sundays: those before the first one are week 0, or in T-SQL a week 1. Elsewhere they are ISO's."""

_UNITS = {"mm": "month", "mon": "month", "yy": "year", "yyyy": "year", "dd": "day", "q": "quarter"}
"""Other words for units of date_trunc."""


_OFFSET = "extract(epoch FROM $1::timestamp - ($1 AT TIME ZONE 'UTC'))::bigint"
_ZONE_PARTS = {"timezone": _OFFSET, "timezone_hour": f"{_OFFSET} / 3600", "timezone_minute": f"{_OFFSET} / 60 % 60"}
"""How far the session's zone is from UTC then, in seconds, whole hours and the minutes left."""

_JULIAN = "2440588 + extract(epoch FROM $1::timestamp) / 86400.0::double precision"


def on_extract(scalars: Scalars, node: exp.Extract) -> Expr:
    unit, value = node.name.lower(), scalars.bind(node.expression)
    if isinstance(node.this, exp.Literal):
        consumed_parts.read(node.this)  # quotes around a unit mean nothing
    unit = {"microsecond": "microseconds", "millisecond": "milliseconds", "dayofyear": "doy"}.get(unit, unit)
    if (of_zone := _ZONE_PARTS.get(unit)) is not None and value.type.kind == "timestamptz":
        return foreign_functions.composed((of_zone,), unit, [node.expression], node, scalars)
    if unit == "julian" and value.type.kind in ("timestamp", "timestamptz"):
        return foreign_functions.composed((_JULIAN,), unit, [node.expression], node, scalars)
    if unit in ("week", "isoweek", "iso_week", "weekiso"):
        weeks = _WEEKS.get(scalars.source.dialect) if unit == "week" else None
        if weeks is not None:
            return foreign_functions.composed((weeks,), unit, [node.expression], node, scalars)
        unit = "week"
    if unit == "dayofweek" or (unit == "dow" and scalars.source.dialect in JAVA):
        return _from_sunday(scalars, node.expression)
    found = interval_arithmetic.extracted(scalars, unit, value, node)
    if found is not None:
        return found
    if value.type.kind == "time":
        value = functions.cast(value, TIMESTAMP)
    value = (
        functions.cast(value, TIMESTAMP)
        if unit == "epoch" and value.type.kind != "date"
        else zones.local(scalars, value)
    )
    if unit == "second" and scalars.source.dialect in FRACTIONS:
        if value.type.kind == "date":
            value = functions.cast(value, TIMESTAMP)
        minute = scalars.call("date_trunc", Literal(STR, "minute"), value)
        return scalars.call("div", scalars.call("timestamp_diff", value, minute), Literal(FLOAT, 1e6))
    if unit in {"year", "month", "day", "hour", "minute", "second"}:
        return scalars.call(unit, value)
    match unit:
        case "isodow":
            return scalars.call("dayofweek", value)
        case "dow":
            return scalars.call("mod", scalars.call("dayofweek", value), Literal(INT, 7))
        case "epoch":
            return scalars.call("extract_epoch", value)
        case "quarter":
            return scalars.call(
                "floordiv", scalars.call("add", scalars.call("month", value), Literal(INT, 2)), Literal(INT, 3)
            )
        case "doy":
            day = casts.cast_to(scalars, value, DATE)
            first = scalars.call("date_trunc", Literal(STR, "year"), day)
            return scalars.call("add", scalars.call("date_diff_days", day, first), Literal(INT, 1))
        case "milliseconds":
            micros = calls.called("extract_more", [Literal(STR, "microseconds"), value], node, scalars)
            return scalars.call("div", micros, Literal(INT, 1000))
    if unit in EXTRACTED and not (unit == "julian" and value.type.kind != "date"):
        return calls.called("extract_more", [Literal(STR, unit), value], node, scalars)
    units = (
        "year",
        "month",
        "day",
        "hour",
        "minute",
        "second",
        "dow",
        "isodow",
        "doy",
        "quarter",
        "epoch",
        *EXTRACTED,
    )
    what = f"extract({unit} from ...) is not supported"
    at = next((t.start for t in scalars.source.tokens if t.text.lower() == unit.lower()), offset_of(node))
    raise scalars.source.error_at(at, "E_UNSUPPORTED", what, did_you_mean(unit, units))


def _from_sunday(scalars: Scalars, moment: exp.Expr) -> Expr:
    """The day of a week whose first day is Sunday, or 0 in DuckDB and Snowflake."""
    found = scalars.call("mod", scalars.bind(exp.Extract(this=exp.var("isodow"), expression=moment)), Literal(INT, 7))
    zero = scalars.source.dialect in (*FRACTIONS[:4], "duckdb", "snowflake")
    return found if zero else scalars.call("add", found, Literal(INT, 1))


def on_timestamptrunc(scalars: Scalars, node: exp.TimestampTrunc | exp.DateTrunc) -> Expr:
    given = scalars.bind(node.this)
    if given.type.kind == "interval":
        return _cut_interval(scalars, node, given)
    named = node.args.get("zone")
    zone = None if named is None or given.type.kind != "timestamptz" else scalars.bind(named)
    if named is not None and zone is None:
        raise scalars.source.refuse(
            named, f"{in_words(given.type)} has no time zone", "date_trunc('day', timestamptz, zone)"
        )
    if named is not None and isinstance(zone, Literal):
        zones.checked_zone(zone.value, named, scalars.source)
    value = casts.cast_to(scalars, given, TIMESTAMP) if zone is None else scalars.call("zone_local", given, zone)
    unit = _unit(node)
    consumed_parts.understood(node.args["unit"])  # quoted or not
    if unit in TRUNCATED:
        cut = calls.called("trunc_more", [Literal(STR, unit), value], node, scalars)
    else:
        cut = scalars.call("date_trunc", Literal(STR, unit), value)
    if given.type.kind == "time":  # an interval, as in PostgreSQL
        midnight = constants.folded(
            functions.cast(Literal(DATE, dt.date(1970, 1, 1)), TIMESTAMP), scalars.compiler.interner
        )
        return scalars.call("moment_sub", cut, midnight)
    if zone is not None:
        return scalars.call("zone_moment", cut, zone)
    if given.type.kind == "date" and scalars.source.dialect in DAYS_STAY:
        return casts.cast_to(scalars, cut, DATE)
    return zones.absolute(scalars, cut) if given.type.kind == "timestamptz" else cut


def _unit(node: exp.Expr) -> str:
    """The unit of date_trunc: also days, mons and centuries."""
    said = node.text("unit").lower()
    known = unit_name(said)
    plural = {"millisecond": "milliseconds", "microsecond": "microseconds"}
    return _UNITS.get(said) or (plural.get(known, known) if known is not None else said)


def _cut_interval(scalars: Scalars, node: exp.TimestampTrunc | exp.DateTrunc, given: Expr) -> Expr:
    unit = unit_name(node.text("unit")) or node.text("unit").lower()
    consumed_parts.understood(node.args["unit"])
    if unit not in TRUNCATED_SPANS:
        raise scalars.source.error(node, "E_UNIT", f"interval cannot be truncated to {unit!r}", "use 'day' or 'month'")
    return constants.folded(scalars.call("trunc_interval", Literal(STR, unit), given), scalars.compiler.interner)


def on_datetrunc(scalars: Scalars, node: exp.DateTrunc) -> Expr:
    found = on_timestamptrunc(scalars, node)
    is_day = scalars.source.dialect in JAVA and scalars.source.written(node).lower() == "trunc"
    return casts.cast_to(scalars, found, DATE) if is_day else found


def on_datediff(scalars: Scalars, node: exp.DateDiff) -> Expr:
    """datediff: the number of unit boundaries between two moments"""
    unit = Literal(STR, (node.text("unit") or "day").lower())
    node.args.get("date_part_boundary")  # always said
    if node.args.get("unit") is not None and scalars.source.dialect in ELAPSED:
        return _elapsed(scalars, node, unit)
    ends = [casts.cast_to(scalars, scalars.bind(e), TIMESTAMP) for e in (node.this, node.expression)]
    if unit.value == "week" and scalars.source.dialect in ("tsql", "fabric"):  # which begins on Sunday there
        ends = [scalars.call("timestamp_add", end, Literal(INT, constants.DAY)) for end in ends]
    if unit.value not in COUNTED:
        raise scalars.source.error(node, "E_UNIT", f"there is no unit {unit.value}", did_you_mean(unit.value, COUNTED))
    return calls.called("units_between", [unit, *ends], node, scalars)


ELAPSED = ("spark", "databricks", "trino", "presto", "athena")
"""Dialects in which datediff(unit, a, b) counts whole elapsed units, not boundaries."""


def _elapsed(scalars: Scalars, node: exp.DateDiff, unit: Literal) -> Expr:
    """Spark's and Trino's datediff(HOUR, a, b): whole units from a to b. sqlglot would support days alone."""
    lengths = {**constants.MICROSECONDS, **{u: n * constants.DAY for u, n in constants.DAYS.items()}}
    if unit.value not in lengths:
        hint = "use months_between, or count from parts: year(b) - year(a)"
        raise scalars.source.refuse(node, f"datediff of {unit.value}s is not supported in this dialect", hint)
    given = [e.this if isinstance(e, exp.TsOrDsToDate) else e for e in (node.this, node.expression)]
    ends = [casts.cast_to(scalars, scalars.bind(e), TIMESTAMP) for e in given]
    passed = scalars.call("timestamp_diff", *ends)
    return division.quotient(scalars, passed, Literal(INT, lengths[unit.value]))


def on_second(scalars: Scalars, node: exp.Second) -> Expr:
    """second(x) of other dialects: whole"""
    return scalars.call("second", zones.local(scalars, casts.cast_to(scalars, scalars.bind(node.this), TIMESTAMP)))


def on_dateadd(scalars: Scalars, node: exp.DateAdd, sign: int = 1) -> Expr:
    """date_add(day, 3), date_add(day, INTERVAL 3 DAY): a date stays one if it is moved by days or more"""
    value, amount, unit = scalars.bind(node.this), node.expression, node.text("unit").lower() or "day"
    if isinstance(node, exp.TsOrDsAdd) and scalars.source.dialect in JAVA:
        value = casts.cast_to(scalars, value, DATE)  # their date_add gives a date, of texts and moments too
    if isinstance(amount, exp.Interval) and scalars.source.dialect == "duckdb" and value.type.kind == "date":
        value = casts.cast_to(scalars, value, TIMESTAMP)
    if isinstance(amount, exp.Interval):
        amount, unit = amount.this, amount.text("unit").lower() or "day"
    count = casts.as_type(scalars, amount, INT.optional())
    unit = unit.rstrip("s")
    if sign < 0:
        count = scalars.call("neg", count)
    if unit in constants.MONTHS:
        return scalars.call("add_months", value, scalars.call("mul", count, Literal(INT, constants.MONTHS[unit])))
    if value.type.kind == "date" and unit in constants.DAYS:
        return scalars.call("date_add_days", value, scalars.call("mul", count, Literal(INT, constants.DAYS[unit])))
    microseconds = {**constants.MICROSECONDS, **{u: n * constants.DAY for u, n in constants.DAYS.items()}}.get(unit)
    if microseconds is None:
        raise scalars.source.error(node, "E_UNIT", f"there is no unit {unit}")
    moved = scalars.call("mul", count, Literal(INT, microseconds))
    return scalars.call("timestamp_add", casts.cast_to(scalars, value, TIMESTAMP), moved)


def on_datesub(scalars: Scalars, node: exp.DateSub) -> Expr:
    return on_dateadd(scalars, node, -1)  # type: ignore[arg-type]


def on_tsordsadd(scalars: Scalars, node: exp.TsOrDsAdd) -> Expr:
    return on_dateadd(scalars, node)  # type: ignore[arg-type]


def on_addmonths(scalars: Scalars, node: exp.AddMonths) -> Expr:
    return scalars.call("add_months", scalars.bind(node.this), scalars.bind(node.expression))


JAVA = ("hive", "spark", "spark2", "databricks")
"""Dialects with Java's date templates, and whose dates stay dates when shifted by days and months."""


DAYS_STAY = ("trino", "presto", "athena", "bigquery", "snowflake")
"""Dialects in which date_trunc of a date is a date."""

DAYS_MOVE = (*JAVA, "trino", "presto", "athena", "mysql", "snowflake")
"""Dialects in which a date that is moved by days or months is a date."""

TRANSLATED = "everview translated"
"""Marks a translated function of another dialect: Spark's dateadd(DAY, 1, d) is a timestamp, d + INTERVAL is not."""


def whole_days(scalars: Scalars, day: Expr, by: exp.Interval, sign: int) -> Expr | None:
    """A date shifted by months and days, which is a date in many dialects; None if that does not apply."""
    if scalars.source.dialect not in DAYS_MOVE or day.type.kind != "date" or not isinstance(by.this, exp.Literal):
        return None
    span = constants.span(by, scalars.source)
    if span.microseconds:
        return None
    if span.months:
        day = scalars.call("add_months", day, Literal(INT, sign * span.months))
    return scalars.call("date_add_days", day, Literal(INT, sign * span.days)) if span.days else day


def on_template(scalars: Scalars, node: exp.Expr) -> Expr:
    """date_format, to_date, to_timestamp with a template. sqlglot leaves unknown letters of Java's templates unchanged,
    which would give wrong results.
    """
    template = node.args.get("format")
    if template is not None and strftime.has_templates(scalars.source.dialect):
        return strftime.printed(scalars, node) if isinstance(node, exp.TimeToStr) else strftime.parsed(scalars, node)
    if template is None and isinstance(node, exp.TsOrDsToDate) and scalars.source.dialect in casts.SPARKS:
        node.args.get("safe")  # always said
        value = scalars.bind(node.this)
        return casts.day_of_text(scalars, value)
    if isinstance(template, exp.Literal) and scalars.source.dialect == "redshift":  # MON is not Mon
        consumed_parts.understood(template)
        upper = template.name.replace("%b", "MON").replace("%B", "MONTH")
        node.set("format", exp.Literal.string(upper))
    if template is None or scalars.source.dialect not in JAVA:
        return scalars.bind(scalars.in_our_words(node))
    if not isinstance(template, exp.Literal):
        raise scalars.source.refuse(node, "a template of a moment is a constant here", "'yyyy-MM-dd'")
    if re.search("'[^']*%[^']*'", template.name):  # sqlglot takes the letters between quotes for fields, too
        raise scalars.source.refuse(template, "words in the template of a moment are not supported", "use concat")
    text = re.sub(r"(?<!S)SSS(?!S)", "MS", template.name).replace("%p", "AM")
    known = re.sub(r"'[^']*'|%-?[A-Za-z](?:strict)?|(?<![A-Za-z])(?:MS|AM)(?![A-Za-z])", "", text)
    if found := re.search("[A-Za-z]+", known):
        what = f"{found.group()} in the template of a moment is not supported"
        raise scalars.source.error(template, "E_PATTERN", what, "yyyy, MM, MMM, dd, HH, mm, ss, SSS, EEE and a are")
    text = re.sub("'([^']*)'", r'"\1"', text)
    if not isinstance(node, exp.TimeToStr) and not re.search("%[Yy]", text):  # Java's year is 1970, PostgreSQL's 1
        written = exp.Cast(this=node.this, to=exp.DataType.build("text"))
        node.set("this", exp.DPipe(this=exp.Literal.string("1970 "), expression=written))
        text = f"%Y {text}"
    consumed_parts.understood(template)
    node.set("format", exp.Literal.string(text))
    return scalars.bind(scalars.in_our_words(node))


def on_datefromunixdate(scalars: Scalars, node: exp.DateFromUnixDate) -> Expr:
    """date_from_unix_date(n): a date, where sqlglot would make a timestamp of it"""
    return scalars.call(
        "date_add_days", Literal(DATE, dt.date(1970, 1, 1)), casts.as_type(scalars, node.this, INT.optional())
    )


def on_converttimezone(scalars: Scalars, node: exp.ConvertTimezone) -> Expr:
    """convert_timezone([from,] to, moment): local time there; without `from`, from the session's zone"""
    source = node.args.get("source_tz") or exp.Literal.string(scalars.compiler.core.zone)
    moment = exp.Cast(this=node.args["timestamp"], to=exp.DataType.build("timestamp", dialect="postgres"))
    return scalars.bind(exp.AtTimeZone(this=exp.AtTimeZone(this=moment, zone=source), zone=node.args["target_tz"]))


def on_overlaps(scalars: Scalars, node: exp.Overlaps) -> Expr:
    """(start, end) OVERLAPS (start, end): two times of one length; an end may be an interval"""
    ends: list[exp.Expr] = []
    for side in (node.this, node.expression):
        if not isinstance(side, exp.Tuple) or len(side.expressions) != 2:
            raise scalars.source.refuse(node, "OVERLAPS has two moments at each side", "(a, b) OVERLAPS (c, d)")
        start, end = side.expressions
        if scalars.bind(end).type.kind == "interval":
            end = exp.Add(this=start.copy(), expression=end)
        ends += [start, end]
    found = foreign_functions.bound("overlaps", ends, node, scalars)
    assert found is not None
    return found


FORMS: Forms = {
    **dict.fromkeys((exp.TimeToStr, exp.StrToTime, exp.TsOrDsToDate, exp.StrToDate), on_template),
    exp.DateFromUnixDate: on_datefromunixdate,
    exp.ConvertTimezone: on_converttimezone,
    exp.Extract: on_extract,
    exp.Overlaps: on_overlaps,
    exp.Second: on_second,
    exp.TimestampTrunc: on_timestamptrunc,
    exp.DateTrunc: on_datetrunc,
    exp.DateDiff: on_datediff,
    exp.DateAdd: on_dateadd,
    exp.DateSub: on_datesub,
    exp.TsOrDsAdd: on_tsordsadd,
    exp.AddMonths: on_addmonths,
}
"""The function for each kind of node."""
