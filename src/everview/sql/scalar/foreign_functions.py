"""Functions of other systems, defined in terms of ours: pmod, hex, array_slice, try_add and the like.

Each is SQL text over its arguments `$1`, `$2`, ... It is bound at each call, over the types of the arguments there, so
one text serves ints, decimals and doubles. A name has several texts if it takes several numbers of arguments. None
reads tables, and none is volatile.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING

from sqlglot import exp

from everview.errors import PlanError
from everview.expr.nodes import Expr
from everview.plan import nodes as plan
from everview.sql.select.scopes import Field, Relation, Scope
from everview.sql.text import statement_reader
from everview.sql.text.dialects import DEFAULT
from everview.sql.text.error_positions import Source
from everview.types import INT

if TYPE_CHECKING:
    from everview.sql.scalar.scalars import Scalars

BORROWED: dict[str, tuple[str, ...]] = {
    # numbers
    "pmod": ("(($1 % $2) + $2) % $2",),
    "bit_count": ("bit_count($1)",),
    "nanvl": ("CASE WHEN $1::double precision = 'NaN' THEN $2::double precision ELSE $1::double precision END",),
    "isnan": ("$1::double precision = 'NaN'",),
    "iszero": ("$1 = 0",),
    "positive": ("$1",),
    "negative": ("- $1",),
    "cot": ("1 / tan($1)",),
    "e": ("exp(1.0::double precision)",),
    "trim_scale": ("$1::numeric",),
    "scale": ("length(split_part($1::text, '.', 2))",),
    "min_scale": ("length(split_part($1::numeric::text, '.', 2))",),
    "try_add": ("$1 + $2",),
    "try_subtract": ("$1 - $2",),
    "try_multiply": ("$1 * $2",),
    "try_mod": ("$1 % nullif($2, 0)",),
    "try_divide": ("$1::double precision / nullif($2, 0)",),
    "try_to_number": ("to_number($1, $2)",),
    # choosing
    "nvl2": ("CASE WHEN $1 IS NOT NULL THEN $2 ELSE $3 END",),
    "equal_null": ("$1 IS NOT DISTINCT FROM $2",),
    "iff": ("CASE WHEN $1 THEN $2 ELSE $3 END",),
    "nullifzero": ("nullif($1, 0)",),
    "zeroifnull": ("coalesce($1, 0)",),
    # texts
    "char_length": ("length($1)",),
    "len": ("length($1)",),
    "space": ("repeat(' ', $1)",),
    "find_in_set": (
        "CASE WHEN $1 || $2 IS NOT NULL THEN coalesce(array_position(string_to_array($2, ','), $1), 0) END",
    ),
    "endswith": ("right($1, length($2)) = $2",),
    "contains": ("strpos($1, $2) > 0",),
    # arrays
    "array_element": ("($1)[$2]",),
    "array_extract": ("($1)[$2]",),
    "list_extract": ("($1)[$2]",),
    "list_element": ("($1)[$2]",),
    "array_slice": ("($1)[$2:$3]",),
    "list_slice": ("($1)[$2:$3]",),
    "array_pop_back": ("trim_array($1, CASE WHEN cardinality($1) > 0 THEN 1 ELSE 0 END)",),
    "list_pop_back": ("trim_array($1, CASE WHEN cardinality($1) > 0 THEN 1 ELSE 0 END)",),
    "array_pop_front": ("($1)[2:cardinality($1)]",),
    "list_pop_front": ("($1)[2:cardinality($1)]",),
    "list_append": ("array_append($1, $2)",),
    "array_push_back": ("array_append($1, $2)",),
    "list_push_back": ("array_append($1, $2)",),
    "list_prepend": ("array_prepend($1, $2)",),
    "array_push_front": ("array_prepend($2, $1)",),
    "list_length": ("cardinality($1)",),
    "empty": ("cardinality($1) = 0",),
    "array_empty": ("cardinality($1) = 0",),
    "list_empty": ("cardinality($1) = 0",),
    "list_position": ("array_position($1, $2)",),
    "list_indexof": ("array_position($1, $2)",),
    "array_indexof": ("array_position($1, $2)",),
    "array_has": ("$2 = ANY($1)",),
    "list_has": ("$2 = ANY($1)",),
    "list_contains": ("$2 = ANY($1)",),
    "list_concat": ("$1 || $2",),
    "list_cat": ("$1 || $2",),
    "list_distinct": ("array_remove(array_distinct($1), NULL)",),
    "array_union": ("CASE WHEN $1 IS NOT NULL AND $2 IS NOT NULL THEN array_distinct($1 || $2) END",),
    "array_join": ("array_to_string($1, $2)", "array_to_string($1, $2, $3)"),
    "list_to_string": ("array_to_string($1, $2)", "array_to_string($1, $2, $3)"),
    "row_to_json": ("to_json($1)", "to_json($1)"),
    "array_to_json": ("to_json($1)", "to_json($1)"),
    "array_max": ("(array_sort(array_remove($1, NULL)))[cardinality(array_remove($1, NULL))]",),
    "array_min": ("(array_sort(array_remove($1, NULL)))[1]",),
    "map_from_arrays": ("map($1, $2)",),
    "get_json_object": ("jsonb_path_query_first($1::jsonb, $2) #>> '{}'",),
    # moments
    "overlaps": (
        "CASE WHEN least($1, $2) > least($3, $4) THEN CASE WHEN $3 IS NULL OR $4 IS NULL THEN NULL"
        " WHEN least($1, $2) < greatest($3, $4) THEN true WHEN $1 IS NULL OR $2 IS NULL THEN NULL ELSE false END"
        " WHEN least($1, $2) < least($3, $4) THEN CASE WHEN $1 IS NULL OR $2 IS NULL THEN NULL"
        " WHEN least($3, $4) < greatest($1, $2) THEN true WHEN $3 IS NULL OR $4 IS NULL THEN NULL ELSE false END"
        " WHEN least($1, $2) = least($3, $4) AND $1 IS NOT NULL AND $2 IS NOT NULL AND $3 IS NOT NULL"
        " AND $4 IS NOT NULL THEN true END",
    ),
    "make_timestamptz": (
        "make_timestamp($1, $2, $3, $4, $5, $6)::timestamptz",
        "make_timestamp($1, $2, $3, $4, $5, $6) AT TIME ZONE $7",
    ),
    "timestamp_seconds": ("to_timestamp($1)::timestamp",),
    "timestamp_millis": ("timestamp '1970-01-01' + $1 * interval '1 millisecond'",),
    "timestamp_micros": ("timestamp '1970-01-01' + $1 * interval '1 microsecond'",),
    "to_unixtime": ("extract(epoch from $1::timestamp)::bigint",),
    "unix_seconds": ("extract(epoch from $1)::bigint",),
    "unix_date": ("($1::date - date '1970-01-01')",),
    "make_dt_interval": (
        "make_interval(0, 0, 0, $1)",
        "make_interval(0, 0, 0, $1, $2)",
        "make_interval(0, 0, 0, $1, $2, $3)",
        "make_interval(0, 0, 0, $1, $2, $3, $4)",
    ),
    "make_ym_interval": ("make_interval($1)", "make_interval($1, $2)"),
}
"""The SQL text of a function by name, one for each number of arguments."""


_SPARK: dict[str, tuple[str, ...]] = {
    "array_position": ("CASE WHEN $1 IS NOT NULL AND $2 IS NOT NULL THEN coalesce(array_position($1, $2), 0) END",),
    "isnan": ("coalesce($1::double precision = 'NaN', false)",),
    "isnull": ("$1 IS NULL",),
    "isnotnull": ("$1 IS NOT NULL",),
    "weekday": ("extract(isodow FROM $1::timestamp)::int - 1",),
    "slice": (
        "CASE WHEN $2 > 0 THEN ($1)[$2:$2 + $3 - 1] WHEN $2 < 0 AND cardinality($1) + $2 < 0 THEN ($1)[1:0]"
        " WHEN $2 < 0 THEN ($1)[cardinality($1) + $2 + 1:cardinality($1) + $2 + $3] END",
    ),
    "sha2": (
        "CASE $2 WHEN 0 THEN sha256($1) WHEN 256 THEN sha256($1) WHEN 224 THEN sha224($1)"
        " WHEN 384 THEN sha384($1) WHEN 512 THEN sha512($1) END",
    ),
    "make_date": ("make_date($1, $2, $3)",),
    "array_size": ("cardinality($1)",),
    "array_compact": ("array_remove($1, NULL)",),
}
_MICROSECONDS = (
    "(extract(epoch FROM date_trunc('second', $1))::bigint * 1000000 + extract(microseconds FROM $1) % 1000000)::bigint"
)
_DUCKDB: dict[str, tuple[str, ...]] = {
    "prefix": ("starts_with($1, $2)",),
    "suffix": ("right($1, length($2)) = $2",),
    "weekday": ("extract(dow FROM $1)",),
    "isodow": ("extract(isodow FROM $1)",),
    "dayofyear": ("extract(doy FROM $1)",),
    "week": ("extract(week FROM $1)",),
    "weekofyear": ("extract(week FROM $1)",),
    "yearweek": ("extract(isoyear FROM $1) * 100 + extract(week FROM $1)",),
    "isinf": ("abs($1::double precision) = 'Infinity'",),
    "isfinite": ("abs($1::double precision) < 'Infinity'",),
    "list_prepend": ("array_prepend($2, $1)",),
    "list_min": ("(array_sort(array_remove($1, NULL)))[1]",),
    "list_max": ("(array_sort(array_remove($1, NULL)))[cardinality(array_remove($1, NULL))]",),
    "list_has_all": ("$1 @> array_remove($2, NULL)",),
    "list_has_any": ("$1 && $2",),
    "list_unique": ("cardinality(array_remove(array_distinct($1), NULL))",),
    "array_unique": ("cardinality(array_remove(array_distinct($1), NULL))",),
    "sha256": ("sha256($1)", "CASE WHEN $2 = 256 THEN sha256($1) END"),
    "to_base64": ("base64($1)",),
    "from_base64": ("unbase64($1)",),
    "regexp_full_match": ("regexp_like($1, '^(?:' || $2 || ')$')",),
    "array_distinct": ("array_remove(array_distinct($1), NULL)",),
    "list_intersect": ("array_remove(array_distinct(array_intersect($1, $2)), NULL)",),
    "array_has_any": ("$1 && $2",),
    "array_has_all": ("$1 @> array_remove($2, NULL)",),
    "list_cat": ("$1 || $2", "$1 || $2 || $3"),
    "list_concat": ("$1 || $2", "$1 || $2 || $3"),
    **{
        f"to_{unit}": (f"$1 * interval '1 {unit}'",)
        for unit in ("microseconds", "milliseconds", "seconds", "minutes", "hours", "days", "weeks", "months", "years")
    },
    "to_quarters": ("$1 * interval '3 months'",),
    "to_decades": ("$1 * interval '10 years'",),
    "to_centuries": ("$1 * interval '100 years'",),
    "to_millennia": ("$1 * interval '1000 years'",),
    "epoch_us": (_MICROSECONDS,),
    "epoch_ns": (f"{_MICROSECONDS} * 1000",),
    "century": ("extract(century FROM $1)",),
    "decade": ("extract(decade FROM $1)",),
    "millennium": ("extract(millennium FROM $1)",),
    "isoyear": ("extract(isoyear FROM $1)",),
    "dayofmonth": ("extract(day FROM $1)",),
    "microsecond": ("extract(microseconds FROM $1)",),
    "millisecond": ("extract(microseconds FROM $1) / 1000",),
    "map_contains": ("map_contains_key($1, $2)",),
    "element_at": ("array_remove(ARRAY[($1)[$2]], NULL)",),
    "map_extract": ("array_remove(ARRAY[($1)[$2]], NULL)",),
    "map_extract_value": ("($1)[$2]",),
    "greatest_common_divisor": ("gcd($1, $2)",),
    "least_common_multiple": ("lcm($1, $2)",),
    "strlen": ("octet_length($1)",),
    "list_pack": ("ARRAY[$1]", "ARRAY[$1, $2]", "ARRAY[$1, $2, $3]", "ARRAY[$1, $2, $3, $4]"),
    "even": ("CASE WHEN $1 >= 0 THEN ceil($1::double precision / 2) * 2 ELSE floor($1::double precision / 2) * 2 END",),
    "list_reverse_sort": ("array_reverse(array_sort($1))",),
}

OF_DIALECT: dict[str, dict[str, tuple[str, ...]]] = {
    **dict.fromkeys(("spark", "spark2", "databricks", "hive"), _SPARK),
    "duckdb": _DUCKDB,
    "snowflake": {
        "dayname": ("to_char($1::timestamp, 'Dy')",),
        "monthname": ("to_char($1::timestamp, 'Mon')",),
    },
    "mysql": {
        "weekday": ("extract(isodow FROM $1::timestamp)::int - 1",),
        "unix_timestamp": ("extract(epoch FROM $1::timestamp)::bigint",),
        "to_base64": ("base64($1)",),
    },
}
"""Functions whose name means this in one dialect, and elsewhere something else or nothing."""


ATTEMPTED = frozenset({"try_add", "try_subtract", "try_multiply", "try_mod", "try_divide", "try_to_number"})
"""Functions that return NULL on failure; errors in their arguments stay errors."""

NULL_IN = frozenset((name, dialect) for name in ("make_date",) for dialect in ("spark", "spark2", "databricks", "hive"))
"""Functions that do so in some dialects."""


def _arguments(text: str) -> int:
    return max((int(c) for a, c in pairwise(text) if a == "$" and c.isdecimal()), default=0)


@lru_cache(512)
def _parsed(text: str) -> exp.Expr:
    tree = statement_reader.parsed(Source(f"SELECT {text}"))
    assert isinstance(tree, exp.Select)
    found: exp.Expr = tree.expressions[0]
    return found


def bound(name: str, given: list[exp.Expr], at: exp.Expr, scalars: Scalars) -> Expr | None:
    """A call of a function of that name; None if there is none."""
    texts = texts_of(name, scalars.source.dialect)
    return None if texts is None else composed(texts, name, given, at, scalars)


def texts_of(name: str, dialect: str) -> tuple[str, ...] | None:
    """The texts of a function in a dialect; None if there is none."""
    return OF_DIALECT.get(dialect, {}).get(name) or BORROWED.get(name)


def composed(texts: tuple[str, ...], name: str, given: list[exp.Expr], at: exp.Expr, scalars: Scalars) -> Expr:
    """The function that is one of the texts, the one for so many arguments."""
    text = next((t for t in texts if _arguments(t) == len(given)), None)
    if text is None:
        wants = " or ".join(str(_arguments(t)) for t in texts)
        raise scalars.source.error(at, "E_ARITY", f"{name} takes {wants} arguments, not {len(given)}")
    args = [scalars.bind(a) for a in given]
    tree = _parsed(text).copy()
    for parameter in list(tree.find_all(exp.Parameter, exp.Placeholder)):
        column = exp.column(f"a{parameter.name}")
        if parameter is tree:
            tree = column
        else:
            parameter.replace(column)
    outside = scalars.source
    try:
        found = over_values(tree, text, args, scalars)
    except PlanError as error:
        if error.code not in ("E_TYPE", "E_ARITY"):
            raise outside.error(
                at, error.code, f"{name}: {error.message.partition(': ')[2] or error.message}"
            ) from None
        raise outside.error(at, error.code, f"{name} is not of {', '.join(repr(a.type) for a in args)}") from None
    if name not in ATTEMPTED and (name, outside.dialect) not in NULL_IN:
        return found
    return scalars.call("attempt", found, scalars.call("eq", *(scalars.call("is_null", a) for a in args[:2])))


def over_values(tree: exp.Expr, text: str, args: list[Expr], scalars: Scalars, dialect: str = DEFAULT) -> Expr:
    """An expression of the columns a1, a2, ... bound over values that stand for them."""
    compiler, outside = scalars.compiler, scalars.source
    fields = tuple(Field(f"a{i + 1}", "") for i in range(len(args)))
    source = Source(text, zone=outside.zone, dialect=dialect)
    scope = Scope(Relation(plan.Table(-1, tuple(a.type for a in args) or (INT,)), fields or (Field("a1", ""),)), source)
    compiler.source = source
    try:
        return compiler.scalars(scope, {}).bind(tree).remap(dict(enumerate(args)))
    finally:
        compiler.source = outside
