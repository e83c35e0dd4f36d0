"""Text syntax: LIKE and the like, ||, trim, substring ... Each is a function of a `Scalars`."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from sqlglot import exp

from everview.expr.library.regex_functions import in_re2, similar
from everview.expr.nodes import Expr, Literal
from everview.expr.string_functions import RowFailure
from everview.sql.scalar import array_forms, calls, casts, constants, foreign_functions
from everview.sql.scalar.handlers import Forms
from everview.sql.scalar.type_names import in_words, sql_name
from everview.sql.text.dialects import PRINTING, version
from everview.types import BOOL, BYTES, INT, STR

if TYPE_CHECKING:
    from everview.sql.scalar.scalars import Scalars


def on_like(scalars: Scalars, node: exp.Like, escape: str = "\\") -> Expr:
    """x LIKE pattern: a constant is compiled, other patterns are evaluated row by row"""
    if isinstance(node.expression, (exp.Any, exp.All)):
        return _like_each(scalars, node, escape)
    value, pattern = scalars.bind(node.this), scalars.bind(node.expression)
    folds_case = isinstance(node, exp.ILike) or scalars.source.dialect == "sqlite"
    if folds_case:
        value = scalars.call("lower", value)
    if not isinstance(pattern, Literal):
        if pattern.type.kind != "str" or value.type.kind != "str":
            kinds = f"{in_words(value.type)} and {in_words(pattern.type)}"
            raise scalars.source.error(node.expression, "E_TYPE", f"LIKE compares texts, not {kinds}", "cast them")
        pattern = scalars.call("lower", pattern) if folds_case else pattern
        return calls.called("like_pattern", [value, pattern, Literal(STR, escape)], node, scalars)
    if pattern.value is None:
        return Literal(BOOL.optional(), None)
    if pattern.type.kind != "str":
        raise scalars.source.error(node.expression, "E_LITERAL", "the pattern of LIKE must be a text")
    if folds_case:
        pattern = Literal(STR, pattern.value.lower())
    return scalars.call("like", value, Literal(STR, _with_backslashes(pattern.value, escape)))


def _like_each(scalars: Scalars, node: exp.Like, escape: str) -> Expr:
    """x [NOT] LIKE ANY | ALL (a, b): one comparison with each of them"""
    some = isinstance(node.expression, exp.Any)
    listed = node.expression.this
    while isinstance(listed, exp.Paren):
        listed = listed.this
    if isinstance(listed, (exp.Tuple, exp.Array)) and listed.expressions:
        given = listed.expressions
    elif isinstance(listed, exp.Literal):
        given = [listed]
    else:
        raise scalars.source.refuse(node, "LIKE ANY and ALL take a list", "x LIKE ANY ('a%', 'b%')")
    each = [on_like(scalars, type(node)(this=node.this, expression=one), escape) for one in given]
    if node.args.get("negate"):  # all of it is negated then: NOT LIKE ALL is like none of them
        some = not some
    found = each[0]
    for one in each[1:]:
        found = scalars.call("or" if some else "and", found, one)
    return found


def on_ilike(scalars: Scalars, node: exp.ILike) -> Expr:
    return on_like(scalars, node)  # type: ignore[arg-type]


def on_escape(scalars: Scalars, node: exp.Escape) -> Expr:
    given = node.expression
    if not isinstance(given, exp.Literal) or not given.is_string or len(given.name) > 1:
        raise scalars.source.error(given, "E_LITERAL", "the escape character of LIKE must be a constant letter")
    if isinstance(node.this, exp.SimilarTo):
        return on_similarto(scalars, node.this, given.name)
    return on_like(scalars, node.this, given.name)


def on_dpipe(scalars: Scalars, node: exp.DPipe) -> Expr:
    a, b = scalars.bind(node.this), scalars.bind(node.expression)
    if "bytes" in (a.type.kind, b.type.kind):
        a, b = _bytes(scalars, a, node.this), _bytes(scalars, b, node.expression)
        if a.type.kind == b.type.kind:
            return scalars.call("bytes_concat", a, b)
    return array_forms.joined(scalars, a, b, node) or scalars.call("concat", _as_text(scalars, a), _as_text(scalars, b))


def _bytes(scalars: Scalars, value: Expr, node: exp.Expr) -> Expr:
    """A quoted constant beside a bytea is one."""
    if not isinstance(value, Literal) or not constants.is_quoted(value):
        return value
    return constants.text_as(value.value, BYTES, node, scalars.source)


def on_concat(scalars: Scalars, node: exp.Concat) -> Expr:
    given = [scalars.bind(x) for x in node.expressions]
    if scalars.source.dialect not in PRINTING and any(g.type.kind == "array" for g in given):
        return _one_array(scalars, node, given)
    texts = [_printed(scalars, g) for g in given]
    if not node.args.get("coalesce"):
        return scalars.call("concat", *texts)
    return scalars.call(
        "concat", *(scalars.call("coalesce", t, Literal(STR, "")) if t.type.nullable else t for t in texts)
    )


def _one_array(scalars: Scalars, node: exp.Concat, given: list[Expr]) -> Expr:
    """concat(array, array) of Spark, DuckDB and others; NULL makes it NULL, or is ignored, as with texts"""
    passed_over = bool(node.args.get("coalesce"))
    if any(g.type.kind != "array" for g in given):
        raise scalars.source.error(node, "E_TYPE", "concat takes arrays, or none of them", "array_append(a, x)")
    found, nulls = given[0], [scalars.call("is_null", g) for g in given if g.type.nullable and not passed_over]
    for one in given[1:]:
        found = scalars.call("array_concat", found, one)
    for null in nulls:
        found = scalars.call("case", null, Literal(found.type.optional(), None), found)
    return found


def _printed(scalars: Scalars, value: Expr) -> Expr:
    """concat() prints values, and bools are printed as t and f; a char(n) with its blanks."""
    if value.type.kind == "char" and scalars.source.dialect in PRINTING:
        return calls.padded(scalars, value)
    if value.type.kind != "bool":
        return _as_text(scalars, value)
    letter = scalars.call("case", value, Literal(STR, "t"), Literal(STR, "f"))
    return scalars.call("case", scalars.call("is_null", value), Literal(STR.optional(), None), letter)


def _as_text(scalars: Scalars, value: Expr) -> Expr:
    return value if value.type.kind == "str" else casts.cast_to(scalars, value, STR)


def on_trim(scalars: Scalars, node: exp.Trim) -> Expr:
    op = {"LEADING": "ltrim", "TRAILING": "rtrim"}.get(node.text("position").upper(), "trim")
    given = [node.this, node.expression] if node.args.get("expression") is not None else [node.this]
    return scalars.call(op, *(scalars.bind(x) for x in given))


def on_left(scalars: Scalars, node: exp.Left) -> Expr:
    return calls.routine("left", [node.this, node.expression], node, scalars)


def on_right(scalars: Scalars, node: exp.Right) -> Expr:
    return calls.routine("right", [node.this, node.expression], node, scalars)


def on_substring(scalars: Scalars, node: exp.Substring) -> Expr:
    """substring(s from 2 for 3), and substring(s from 'pattern')"""
    parts = [scalars.bind(node.args[p]) for p in ("this", "start", "length") if node.args.get(p) is not None]
    if len(parts) == 2 and parts[1].type.kind == "str":
        return calls.called("regexp_substring", parts, node, scalars)
    if scalars.source.dialect not in FROM_THE_LEFT and len(parts) > 1:
        parts[1] = _from_either_end(scalars, parts[0], parts[1])
    return scalars.call("substr", *parts)


FROM_THE_LEFT = ("postgres", "redshift", "materialize", "risingwave", "tsql")
"""Dialects in which a position before the first character is literal; in others -1 is the last character."""


BEFORE_THE_FIRST = ("duckdb", "sqlite")
"""Dialects in which 0 is the position before the first character, as in PostgreSQL; in others it is the first one."""


NOTHING_BEFORE = ("mysql", "trino", "presto", "athena")
"""Dialects in which nothing begins at 0, or before the first character: the text is empty."""


def _from_either_end(scalars: Scalars, text: Expr, start: Expr) -> Expr:
    zero, one = Literal(INT, 0), Literal(INT, 1)
    if isinstance(start, Literal) and isinstance(start.value, int) and start.value > 0:
        return start
    behind = scalars.call("add", scalars.call("add", scalars.call("length", text), start), one)
    whole = scalars.call("case", scalars.call("lt", start, zero), behind, start)
    if scalars.source.dialect in NOTHING_BEFORE:
        outside = scalars.call("lt", whole, one)
        return scalars.call("case", outside, scalars.call("add", scalars.call("length", text), one), whole)
    if scalars.source.dialect in BEFORE_THE_FIRST:
        return whole
    return scalars.call("case", scalars.call("eq", start, zero), one, whole)  # 0 is as good as 1


def on_length(scalars: Scalars, node: exp.Length) -> Expr:
    """length(s); len(list) in DuckDB; bytes in MySQL"""
    value = scalars.bind(node.this)
    in_bytes = node.args.get("binary") and scalars.source.dialect == "mysql"  # BigQuery's is of texts and of bytes
    if in_bytes and value.type.kind == "str":
        return calls.routine("octet_length", [node.this], node, scalars)
    is_list = value.type.kind == "array" and scalars.source.dialect == "duckdb"
    if scalars.source.dialect in ("tsql", "fabric") and value.type.kind == "str":  # blanks at the end do not count
        value = scalars.call("rtrim", value)
    return scalars.call("array_cardinality" if is_list else "length", value)


def on_arraysize(scalars: Scalars, node: exp.ArraySize) -> Expr:
    """size(x), array_size(x) of other dialects: an empty array has the size 0, where array_length is NULL"""
    return scalars.call("array_cardinality", scalars.bind(node.this))


def on_overlay(scalars: Scalars, node: exp.Overlay) -> Expr:
    parts = [node.args[p] for p in ("this", "expression", "from_", "for_") if node.args.get(p) is not None]
    return calls.routine("overlay", parts, node, scalars)


def _plain_pattern(scalars: Scalars, value: Expr, pattern: str) -> Literal:
    """A constant pattern in RE2 syntax: a dot matches any character, including newline."""
    written = in_re2(pattern)
    scalars.call("regexp_matches", value, Literal(STR, written))  # its errors are about the pattern as written
    return Literal(STR, f"(?s){written}" if "." in written else written)


def on_regexplike(scalars: Scalars, node: exp.RegexpLike) -> Expr:
    """s ~ pattern; a constant pattern is checked now, once for all rows."""
    value, pattern = scalars.bind(node.this), scalars.bind(node.expression)
    if isinstance(pattern, Literal) and isinstance(pattern.value, str):
        return scalars.call("regexp_matches", value, _plain_pattern(scalars, value, pattern.value))
    return calls.called("regexp_like", [value, pattern], node, scalars)


def on_regexpilike(scalars: Scalars, node: exp.RegexpILike) -> Expr:
    """s ~* pattern: letters of either case"""
    value, pattern = scalars.bind(node.this), scalars.bind(node.expression)
    if isinstance(pattern, Literal) and isinstance(pattern.value, str):
        plain = _plain_pattern(scalars, value, pattern.value)
        return scalars.call("regexp_matches", value, Literal(STR, f"(?i){plain.value}"))
    return calls.called("regexp_like", [value, pattern, Literal(STR, "i")], node, scalars)


def on_similarto(scalars: Scalars, node: exp.SimilarTo, escape: str = "\\") -> Expr:
    if scalars.source.dialect == "duckdb":  # a regular expression there
        found = foreign_functions.bound("regexp_full_match", [node.this, node.expression], node, scalars)
        assert found is not None
        return found
    value, pattern = scalars.bind(node.this), scalars.bind(node.expression)
    if not isinstance(pattern, Literal) or pattern.type.kind != "str" or pattern.value is None:
        raise scalars.source.error(node.expression, "E_LITERAL", "the pattern of SIMILAR TO must be a constant text")
    try:
        return scalars.call("regexp_matches", value, Literal(STR, f"(?s){similar(pattern.value, escape)}"))
    except RowFailure:
        raise scalars.source.error(node.expression, "E_PATTERN", "the pattern has a [ without ]") from None


def on_pad(scalars: Scalars, node: exp.Pad) -> Expr:
    parts = [node.this, node.expression, node.args.get("fill_pattern")]
    op = "lpad" if node.args.get("is_left") else "rpad"
    return scalars.call(op, *(scalars.bind(x) for x in parts if x is not None))


def on_substringindex(scalars: Scalars, node: exp.SubstringIndex) -> Expr:
    given = [node.this, node.args["delimiter"], node.args["count"]]
    return calls.routine("substring_index", given, node, scalars)


def _with_backslashes(pattern: str, escape: str) -> str:
    """A LIKE pattern with its escape character made a backslash."""
    if escape == "\\":
        return pattern
    result, letters = "", iter(pattern)
    for letter in letters:
        if letter == escape:
            result += "\\" + next(letters, "")
        else:
            result += "\\\\" if letter == "\\" else letter
    return result


def on_hexstring(scalars: Scalars, node: exp.HexString) -> Expr:
    """x'1F': bytes, as in Spark, MySQL and SQLite; a bit string, which is not supported, in PostgreSQL"""
    digits = node.name
    if scalars.source.dialect in PRINTING or len(digits) % 2 or not re.fullmatch("[0-9A-Fa-f]*", digits):
        raise scalars.source.refuse(node, f"x'{digits}' is not supported here", "bytes are written '\\x1f'::bytea")
    return Literal(BYTES, bytes.fromhex(digits))


def on_currentversion(scalars: Scalars, node: exp.CurrentVersion) -> Expr:
    """version(): the emulated PostgreSQL version, and our own"""
    return Literal(STR, version())


def on_typeof(scalars: Scalars, node: exp.Typeof) -> Expr:
    """typeof(x) of Spark and DuckDB: the type's name as in DESCRIBE"""
    return Literal(STR, sql_name(scalars.bind(node.this).type))


FORMS: Forms = {
    exp.CurrentVersion: on_currentversion,
    exp.Typeof: on_typeof,
    exp.Length: on_length,
    exp.HexString: on_hexstring,
    exp.Like: on_like,
    exp.ILike: on_ilike,
    exp.Escape: on_escape,
    exp.DPipe: on_dpipe,
    exp.Concat: on_concat,
    exp.Trim: on_trim,
    exp.ArraySize: on_arraysize,
    exp.Left: on_left,
    exp.Right: on_right,
    exp.Substring: on_substring,
    exp.Overlay: on_overlay,
    exp.RegexpLike: on_regexplike,
    exp.RegexpILike: on_regexpilike,
    exp.SimilarTo: on_similarto,
    exp.Pad: on_pad,
    exp.SubstringIndex: on_substringindex,
}
"""The function for each kind of node."""
