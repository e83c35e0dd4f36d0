"""The functions that are bound by the name as written."""

from __future__ import annotations

from everview.expr.library import LIBRARY

_INSIDE = {
    "log_base",
    "only_row",
    "epoch_to_timestamp",
    "parse_timestamp",
    "regexp_substring",
    "like_pattern",
    "extract_more",
    "trunc_more",
    "units_between",
    "java_text",
    "pointed_text",
    "half_up",
    "initcap_by_blanks",
    "at_zone",
    "round_to",
    "trunc_interval",
    "bytes_part",
    "bytes_place",
    "bytes_trim",
    "bytes_overlay",
    "read_date",
    "read_timestamp",
    "bytes_text",
    "padded",
}
"""Functions of the library that have other SQL names."""

_SYNTAX = {"left", "right", "overlay"}
"""Functions that sqlglot must parse, because they have special syntax."""

SCALARS: frozenset[str] = (
    frozenset({*LIBRARY, "to_timestamp", "time_bucket", "random", "setseed", "gen_random_uuid"}) - _INSIDE - _SYNTAX
)
"""Functions of rows by name."""

AGGREGATES: frozenset[str] = frozenset(
    {
        "any_value", "approx_count_distinct", "approx_distinct", "approx_percentile", "approx_quantile", "arg_max",
        "arg_min", "argmax", "argmin", "bit_and", "bit_or", "bit_xor", "corr", "count_if", "countif", "covar_pop",
        "covar_samp", "first", "last", "max_by", "median", "min_by", "mode", "percentile_cont", "percentile_disc",
        "product", "quantile", "quantile_cont", "quantile_disc", "regr_avgx", "regr_avgy", "regr_count",
        "regr_intercept", "regr_r2", "regr_slope", "regr_sxx", "regr_sxy", "regr_syy",
    }
)  # fmt: skip
"""Aggregates by name."""

_DOCUMENT_ROWS = ("array_elements", "array_elements_text", "object_keys", "each", "each_text")
TABLES: frozenset[str] = frozenset(
    {
        "generate_series",
        "range",
        "unnest",
        "string_to_table",
        "regexp_split_to_table",
        "regexp_matches",
        "jsonb_path_query",
        "generate_subscripts",
    }
    | {f"{head}_{name}" for head in ("json", "jsonb") for name in _DOCUMENT_ROWS}
)
"""Functions that give rows, by name."""

_DOCUMENTS = (
    "array_length", "build_array", "build_object", "extract_path", "extract_path_text", "insert", "pretty", "set",
    "strip_nulls", "typeof",
)  # fmt: skip
TYPED: frozenset[str] = frozenset(
    {
        "arrow_typeof", "make_array", "pg_typeof", "array_dims", "array_ndims",
        "enum_first", "enum_last", "enum_range", "array_fill",
        "array_append", "array_cat", "array_distinct", "array_except", "array_intersect", "array_length", "array_lower",
        "array_position", "array_positions", "array_prepend", "array_remove", "array_replace", "array_sort",
        "array_to_string", "array_upper", "cardinality", "jsonb_path_exists", "jsonb_path_match",
        "jsonb_path_query_array", "jsonb_path_query_first", "list_sort", "map_contains_key", "map_keys", "map_values",
        "row", "string_to_array", "timezone", "to_json", "to_jsonb", "trim_array",
        *(f"{head}_{name}" for name in _DOCUMENTS for head in ("json", "jsonb")),
    }
)  # fmt: skip
"""Functions of arrays, JSON, rows and maps (`everview.sql.scalar.composite_functions`)."""

PARSERS_OWN = frozenset({
    "date_str_to_date", "date_to_date_str", "date_to_di", "di_to_date", "str_to_time", "str_to_unix",
    "time_str_to_date", "time_str_to_time", "time_str_to_unix", "time_to_str", "time_to_time_str", "time_to_unix",
    "ts_or_di_to_di", "ts_or_ds_add", "ts_or_ds_diff", "ts_or_ds_to_date", "ts_or_ds_to_date_str",
    "ts_or_ds_to_datetime", "ts_or_ds_to_time", "ts_or_ds_to_timestamp", "unix_to_str", "unix_to_time",
    "unix_to_time_str",
})  # fmt: skip
"""Names by which sqlglot calls functions of all dialects among itself, and reads them, too."""

LISTS: frozenset[str] = frozenset({"json_agg", "jsonb_agg", "json_object_agg", "jsonb_object_agg"})
"""Aggregates that make one JSON value of a group."""

OTHERS = (
    "abs", "ceil", "floor", "round", "sign", "sqrt", "exp", "ln", "log", "power", "mod", "div", "lower", "upper",
    "length", "reverse", "substring", "left", "right", "trim", "ltrim", "rtrim", "lpad", "rpad", "replace", "overlay",
    "split_part", "position", "strpos", "starts_with", "concat", "coalesce", "nullif", "greatest", "least",
    "extract", "date_trunc", "date_part", "count", "sum", "avg", "min", "max", "bool_and", "bool_or", "every", "stddev",
    "variance", "string_agg", "array_agg", "row_number", "rank", "dense_rank", "lag", "lead", "first_value",
    "last_value", "nth_value", "ntile", "now",
)  # fmt: skip
"""Functions that sqlglot has nodes for."""


def all_names() -> list[str]:
    """Names that a misspelt one may be."""
    return sorted({*SCALARS, *AGGREGATES, *TABLES, *OTHERS} - {"random", "setseed", "gen_random_uuid"})
