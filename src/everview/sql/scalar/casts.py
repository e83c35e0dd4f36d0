"""SQL casts: rounding to integers, parsing of quoted constants at bind time, time zones."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from sqlglot import exp

from everview.expr import common_types, functions
from everview.expr.nodes import Expr, Literal
from everview.sql.answers.parameters import Learned
from everview.sql.ddl import domains
from everview.sql.scalar import calls, constants, foreign_functions, names, roundings, zones
from everview.sql.scalar.handlers import Forms
from everview.sql.scalar.type_names import in_words
from everview.sql.text import consumed_parts
from everview.sql.text.dialects import DEFAULT, PRINTING
from everview.sql.text.error_positions import SqlError
from everview.types import BOOL, DATE, FLOAT, INT, STR, DataType, array, small_int

if TYPE_CHECKING:
    from everview.sql.scalar.scalars import Scalars


READ_NOW = frozenset(
    {
        "date",
        "timestamp",
        "timestamptz",
        "time",
        "interval",
        "uuid",
        "json",
        "enum",
        "array",
        "struct",
        "numeric",
        "bool",
        "bytes",
    }
)
"""Types for which a quoted constant is parsed at bind time, so that an error has its position."""

ZONED = ("timestamp", "date", "time", "str")


def on_cast(scalars: Scalars, node: exp.Cast) -> Expr:
    if scalars.compiler.parameters.lacks_type(node.this):
        raise Learned(node.this.name, names.data_type(node.to, scalars.source))
    if names.is_domain(node.to, scalars.source):
        return _to_domain(scalars, node)
    value = scalars.bind(node.this)
    target = names.data_type(node.to, scalars.source)
    if (rounded := _rounded(scalars, node, target)) is not None:
        return rounded
    if isinstance(value, Literal) and constants.is_quoted(value) and _reads_now(value.value, target):
        target = _as_deep(value.value, target) if scalars.source.dialect in PRINTING else target
        return constants.text_as(value.value, target, node.this, scalars.source)
    if (value.type.kind, target.kind) == ("time", "timestamp"):
        raise scalars.source.error(node, "E_TYPE", "a time has no date", "add it to one: date + time")
    is_number = value.type.kind in common_types.NUMBERS and not constants.is_null(value)
    if is_number and target.kind in ("timestamp", "timestamptz", "date"):
        return _moment_of_number(scalars, value, target, node)
    return _limited(scalars, cast_to(scalars, value, target), node.to)


def _as_deep(text: str, target: DataType) -> DataType:
    """The type of '{{1,2},{3,4}}'::int[], which has as many dimensions as the constant.

    >>> _as_deep("{{1,2},{3}}", array(INT))
    array(array(int?)?)
    """
    braces = re.match(r"[\s{]*", text)
    depth, found = braces[0].count("{") if braces is not None else 0, target
    if target.kind != "array" or target.items[0].kind == "array":
        return target
    for _ in range(min(depth, MOST_DIMENSIONS) - 1):
        found = array(found)
    return found


MOST_DIMENSIONS = 6
"""PostgreSQL's limit."""

_ROUNDED = (
    "CASE WHEN $1 >= timestamp '2000-01-01' THEN date_bin({unit}, $1 + {half}, '2000-01-01')"
    " ELSE date_bin({unit}, $1 + {half} - interval '1 microsecond', '2000-01-01') END"
)
"""A moment to some digits after the second: a half is rounded away from 2000, as in PostgreSQL."""


def _rounded(scalars: Scalars, node: exp.Cast, target: DataType) -> Expr | None:
    """A cast to timestamp(3) or timestamptz(3); None if it is to something else."""
    if target.kind not in ("timestamp", "timestamptz") or scalars.source.dialect not in (DEFAULT, "trino", "presto"):
        return None  # without asking for digits, which others may not pass over
    sizes = node.to.expressions
    if len(sizes) != 1 or not sizes[0].this.is_int:
        return None
    digits = int(sizes[0].this.name)
    exact = exp.Cast(this=node.this, to=exp.DataType(this=node.to.this))
    if digits > 5:
        return scalars.bind(exact)
    unit = 10 ** (6 - digits)
    text = _ROUNDED.format(unit=f"interval '{unit} microseconds'", half=f"interval '{unit // 2} microseconds'")
    if target.kind == "timestamptz":
        text = text.replace("$1", "($1 AT TIME ZONE 'UTC')").join(("(", ") AT TIME ZONE 'UTC'"))
    return foreign_functions.composed((text,), "cast", [exact], node, scalars)


def _to_domain(scalars: Scalars, node: exp.Cast) -> Expr:
    """A cast to a domain is one to its type; the row fails if the value violates a condition."""
    consumed_parts.understood(node.to)
    kind, constraints = domains.declared(
        exp.ColumnDef(this=exp.to_identifier("a1"), kind=node.to.copy()), scalars.source
    )
    value = on_cast(scalars, exp.Cast(this=node.this, to=kind))
    failing = _failing(value.type)
    for one in constraints:
        if isinstance(one.kind, exp.CheckColumnConstraint):
            tree = exp.Paren(this=one.kind.this.copy())
            holds = foreign_functions.over_values(tree, tree.sql("postgres"), [value], scalars)
            fails = scalars.call("not", scalars.call("coalesce", holds, Literal(BOOL, True)))
        elif isinstance(one.kind, exp.NotNullColumnConstraint) and not one.kind.args.get("allow_null"):
            fails = scalars.call("is_null", value)
        else:
            continue
        value = scalars.call("case", fails, failing, value)
    return value


def _failing(declared: DataType) -> Expr:
    """A value of a type that cannot be computed: '' is no number, no date and no JSON."""
    text = Literal(STR, "")
    if declared.kind not in ("str", "char", "bytes"):
        return functions.cast(text, declared.optional())
    return functions.cast(functions.cast(functions.cast(text, INT), STR), declared.optional())


def on_trycast(scalars: Scalars, node: exp.TryCast) -> Expr:
    """A cast that returns NULL on failure; errors in its argument stay errors."""
    value = scalars.bind(node.this)
    target = names.data_type(node.to, scalars.source)
    is_cast = not node.args.get("safe")  # CAST, which never fails in these dialects, not TRY_CAST
    is_text = value.type.kind == "str" and target.kind == "int"
    if is_cast and is_text and scalars.source.dialect in ("spark", "spark2", "hive"):
        return _whole_part(scalars, value, target)
    if value.type.kind == "str" and target.kind == "date" and scalars.source.dialect in SPARKS:
        return day_of_text(scalars, value)
    try:
        made = on_cast(scalars, node)
    except SqlError:
        if not constants.is_quoted(value):
            raise
        return Literal(names.data_type(node.to, scalars.source).optional(), None)
    return made if isinstance(made, Literal) else scalars.call("attempt", made, value)


SPARKS = ("spark", "spark2", "databricks", "hive")

SPARK_DAYS = (
    (r"^\s*(\d{4}-\d{1,2}-\d{1,2})(?:[ T].*)?$", r"\1"),
    (r"^\s*(\d{4}-\d{1,2})\s*$", r"\1-1"),
    (r"^\s*(\d{4})\s*$", r"\1-1-1"),
    (r"-(\d)(-|$)", r"-0\1\2"),
    (r"-(\d)$", r"-0\1"),
)
"""What Spark accepts as a date: 2017, 2017-1, and a timestamp, whose time is dropped."""


def day_of_text(scalars: Scalars, text: Expr) -> Expr:
    """Cast a text to a date as Spark does; NULL if invalid."""
    if text.type.kind != "str":
        return cast_to(scalars, text, DATE)
    cut = text
    for pattern, by in SPARK_DAYS:
        cut = calls.called("regexp_replace", [cut, Literal(STR, pattern), Literal(STR, by)], exp.Null(), scalars)
    return scalars.call("attempt", functions.cast(cut, DATE.optional()), text)


def _whole_part(scalars: Scalars, text: Expr, target: DataType) -> Expr:
    """Cast a text to an int as Spark does: '1.23' is 1, an invalid number is NULL."""
    cut = text
    for pattern, by in ((r"^\s*([+-]?\d+)\.\d*\s*$", r"\1"), (r"^\s*[+-]?\.\d+\s*$", "0")):
        given = [cut, Literal(STR, pattern), Literal(STR, by)]
        cut = calls.called("regexp_replace", given, exp.Null(), scalars)
    return scalars.call("attempt", functions.cast(cut, target.optional()), text)


def _moment_of_number(scalars: Scalars, value: Expr, target: DataType, node: exp.Cast) -> Expr:
    """A number cannot be cast to a moment in PostgreSQL; in Spark and Hive it is seconds since 1970."""
    if target.kind == "date" or scalars.source.dialect not in ("hive", "spark", "spark2", "databricks"):
        hint = "use to_timestamp(seconds)" if target.kind != "date" else "add days to a date: date '1970-01-01' + n"
        raise scalars.source.error(
            node, "E_TYPE", f"a number cannot be cast to {in_words(target.optional(False))}", hint
        )
    return calls.called("epoch_to_timestamp", [functions.cast(value, FLOAT)], node, scalars)


def _limited(scalars: Scalars, value: Expr, kind: exp.DataType) -> Expr:
    """A value within the limits of the type that it is cast to: an int of 32 bits, or n letters of a text."""
    if not names.is_integer(kind, scalars.source) or value.type.kind != "int":
        return _cut(scalars, value, kind)
    if value.type.width and abs(value.type.width) < INTEGER_BITS:
        return value
    narrow = functions.cast(value, small_int(INTEGER_BITS))
    return constants.folded(functions.cast(narrow, INT), scalars.compiler.interner)


INTEGER_BITS = 32


def _cut(scalars: Scalars, value: Expr, kind: exp.DataType) -> Expr:
    """A cast to varchar(n) truncates, as in PostgreSQL; DuckDB ignores n."""
    inside = [d for d in kind.find_all(exp.DataType) if d is not kind and names.most_letters(d)]
    if inside:
        raise scalars.source.refuse(kind, "a cast cuts a varchar(n), not those inside of something", "write text")
    most = names.most_letters(kind)
    if most is None or scalars.source.dialect == "duckdb":
        return value
    return constants.folded(scalars.call("left", value, Literal(INT, most)), scalars.compiler.interner)


def as_type(scalars: Scalars, node: exp.Expr, target: DataType) -> Expr:
    """An expression as a value of a type; a quoted constant is parsed."""
    value = scalars.bind(node)
    if isinstance(value, Literal) and value.type.kind == "str" and value.value is not None and target.kind != "str":
        return constants.text_as(value.value, target, node, scalars.source)
    return cast_to(scalars, value, target)


def cast_to(scalars: Scalars, value: Expr, target: DataType) -> Expr:
    """Cast a value as in SQL."""
    zoned = zoned_cast(scalars, value, target)
    if zoned is not None:
        return zoned
    if target.kind == "str" and value.type.kind in ("float", "timestamp"):
        if value.type.kind == "float":
            return roundings.text_of_double(scalars, value)
        return scalars.call("timestamp_text", value)  # as PostgreSQL prints them
    if target.kind == "int" and value.type.kind in {"float", "decimal", "numeric"}:
        value = roundings.whole(scalars, value)
    if value.type.kind == "str" and target.kind in ("date", "timestamp") and scalars.source.dialect in PRINTING:
        return constants.folded(scalars.call(f"read_{target.kind}", value), scalars.compiler.interner)
    if value.type.kind == "bytes" and target.kind == "str" and scalars.source.dialect in PRINTING:
        return constants.folded(scalars.call("bytes_text", value), scalars.compiler.interner)
    if target.kind == "bytes" and value.type.kind == "str" and scalars.source.dialect == "postgres":
        return constants.folded(scalars.call("text_bytes", value), scalars.compiler.interner)
    return constants.folded(functions.cast(value, target), scalars.compiler.interner)


def zoned_cast(scalars: Scalars, value: Expr, target: DataType) -> Expr | None:
    """A cast from or to timestamptz, which depends on the zone; None for other casts."""
    source = value.type.kind
    if source == "timestamptz" and target.kind in ZONED:
        if target.kind == "str":
            return scalars.call("zone_text", value, zones.zone(scalars))
        return cast_to(scalars, zones.local(scalars, value), target)
    if target.kind == "timestamptz" and source in ("date", "timestamp"):
        return zones.absolute(scalars, value)
    if target.kind == "timestamptz" and source == "str":
        return scalars.call("zone_read", value, zones.zone(scalars))
    return None


def _reads_now(text: str, target: DataType) -> bool:
    """Whether a quoted constant is parsed at bind time: also '1e3' as a decimal, which compiled casts do not
    support."""
    return target.kind in READ_NOW or (
        target.kind == "decimal" and re.fullmatch(r"[-+.\d]+[eE][-+]?\d+", text) is not None
    )


FORMS: Forms = {
    exp.Cast: on_cast,
    exp.TryCast: on_trycast,
}
