"""Which parts of sqlglot's nodes are operands known to handlers; any other part is refused."""

from __future__ import annotations

from sqlglot import exp

SIMPLE: dict[type[exp.Expr], tuple[str, tuple[str, ...]]] = {
    exp.Lower: ("lower", ("this",)),
    exp.Upper: ("upper", ("this",)),
    exp.Reverse: ("reverse", ("this",)),
    exp.Replace: ("replace", ("this", "expression", "replacement")),
    exp.SplitPart: ("split_part", ("this", "delimiter", "part_index")),
    exp.StartsWith: ("startswith", ("this", "expression")),
    exp.Contains: ("contains", ("this", "expression")),
    exp.Abs: ("abs", ("this",)),
    exp.Sqrt: ("sqrt", ("this",)),
    exp.Exp: ("exp", ("this",)),
    exp.Ln: ("ln", ("this",)),
    exp.Pow: ("pow", ("this", "expression")),
    exp.Sign: ("sign", ("this",)),
    exp.BitwiseAnd: ("band", ("this", "expression")),
    exp.BitwiseOr: ("bor", ("this", "expression")),
    exp.BitwiseXor: ("bxor", ("this", "expression")),
    exp.BitwiseNot: ("bnot", ("this",)),
    exp.BitwiseLeftShift: ("bshl", ("this", "expression")),
    exp.BitwiseRightShift: ("bshr", ("this", "expression")),
    exp.Cbrt: ("cbrt", ("this",)),
    exp.Year: ("year", ("this",)),
    exp.Month: ("month", ("this",)),
    exp.Day: ("day", ("this",)),
}
"""Functions with a direct counterpart: its name, and the order of arguments in sqlglot's node."""

OPERANDS = ("this", "expression", "expressions", "negate", "safe", "typed", "coalesce", "is_string", "ignore_nulls")
"""Parts that every handler knows, or that only matter to other dialects."""

PARTS: dict[type[exp.Expr], tuple[str, ...]] = {
    exp.Column: ("this", "table", "db"),
    exp.Alias: ("this", "alias"),
    exp.Interval: ("this", "unit"),
    exp.Between: ("this", "low", "high", "symmetric"),
    exp.In: ("this", "expressions", "query"),
    exp.Case: ("this", "ifs", "default"),
    exp.If: ("this", "true", "false"),
    **dict.fromkeys((exp.Cast, exp.TryCast), ("this", "to", "_type", "safe", "requires_string")),
    exp.Trim: ("this", "expression", "position"),
    exp.Substring: ("this", "start", "length", "zero_start"),
    **dict.fromkeys((exp.DateAdd, exp.DateSub, exp.TsOrDsAdd), ("this", "expression", "unit", "return_type")),
    exp.Round: ("this", "decimals", "casts_non_integer_decimals"),
    exp.DateBin: ("this", "expression", "origin"),
    exp.DateFromParts: ("year", "month", "day"),
    exp.StrPosition: ("this", "substr", "position"),
    exp.RegexpExtract: ("this", "expression", "group", "null_if_pos_overflow"),
    exp.TimestampDiff: ("this", "expression", "unit"),
    exp.DateDiff: ("this", "expression", "unit", "date_part_boundary"),
    **dict.fromkeys(
        (exp.TimeToStr, exp.StrToTime, exp.TsOrDsToDate, exp.StrToDate),
        ("this", "format", "safe", "zone", "default_year", "target_type"),
    ),
    exp.ConvertTimezone: ("source_tz", "target_tz", "timestamp"),
    exp.SubstringIndex: ("this", "delimiter", "count"),
    exp.Overlay: ("this", "expression", "from_", "for_"),
    exp.RegexpLike: ("this", "expression", "flag"),
    exp.Pad: ("this", "expression", "fill_pattern", "is_left"),
    exp.TimestampTrunc: ("this", "unit", "zone", "input_type_preserved"),
    exp.DateTrunc: ("this", "unit", "input_type_preserved"),
    exp.Subquery: ("this",),
    exp.Coalesce: ("this", "expressions", "is_null"),
    exp.Length: ("this", "binary"),
    exp.AtTimeZone: ("this", "zone"),
    exp.MatchAgainst: ("this", "expressions", "modifier"),
    exp.Map: ("keys", "values"),
    exp.Bracket: ("this", "expressions", "_type", "offset", "safe"),
    exp.Array: ("expressions", "value_constructor", "bracket_notation", "_type"),
    exp.JSONExtract: ("this", "expression", "only_json_types"),
    exp.JSONExtractScalar: ("this", "expression", "only_json_types", "scalar_only", "json_subtype"),
}
"""The parts of a node that its handler knows, if not `OPERANDS`; any other part is refused."""
