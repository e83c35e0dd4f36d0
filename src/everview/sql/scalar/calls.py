"""Functions bound by name: those of `everview.expr.library`, and special cases of SQL.

A quoted constant is parsed as the type its position requires (`make_date('2026', 1, 31)`), as everywhere in SQL. Most
names are the library's; `SPECIAL` has those whose meaning depends on their arguments.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING

from sqlglot import exp

from everview.errors import EverviewError, PlanError, closest, did_you_mean
from everview.expr import functions
from everview.expr.common_types import NUMBERS, NoMatch
from everview.expr.functions import check_pattern
from everview.expr.library import LIBRARY, date_formats, number_formats, other_dialects
from everview.expr.library.intervals import INTERVAL_PARTS
from everview.expr.library.regex_functions import in_re2
from everview.expr.library.signatures import KINDS, Routine
from everview.expr.nodes import Expr, Literal
from everview.expr.string_functions import RowFailure
from everview.sql.scalar import constants, foreign_functions, moments_elsewhere, roundings, zones
from everview.sql.scalar.composite_functions import CALLS
from everview.sql.scalar.type_names import in_words
from everview.sql.text import consumed_parts
from everview.sql.text.call_names import SCALARS, TABLES, all_names
from everview.sql.text.dialects import DEFAULT, PRINTING
from everview.types import BYTES, INT, STR, TIMESTAMP, TIMESTAMPTZ

if TYPE_CHECKING:
    from everview.sql.scalar.scalars import Scalars


def bound(node: exp.Anonymous, scalars: Scalars) -> Expr | None:
    """Bind a function call by name; None if there is no such function."""
    name = node.name.lower()
    if name in foreign_functions.OF_DIALECT.get(scalars.source.dialect, ()):
        return foreign_functions.bound(name, node.expressions, node, scalars)
    if name in CALLS:
        return CALLS[name](node, scalars)
    if name in SPECIAL:
        return SPECIAL[name](node, scalars)
    if name in SCALARS:
        return routine(name, node.expressions, node, scalars)
    return foreign_functions.bound(name, node.expressions, node, scalars)


def of_node(node: exp.Expr, scalars: Scalars) -> Expr | None:
    """The same for a call that sqlglot has a node for, by the name as written: sqlglot's translation to PostgreSQL is
    missing or means something else.
    """
    name = scalars.source.written(node).lower() if isinstance(node, exp.Func) else ""
    is_borrowed = foreign_functions.texts_of(name, scalars.source.dialect) is not None
    if not is_borrowed and name not in other_dialects.SHELF.routines:
        return None
    parts = [dict.get(node.args, part) for part in node.arg_types]
    given = [e for p in parts for e in (p if isinstance(p, list) else [p]) if isinstance(e, exp.Expr)]
    for part in node.arg_types:
        node.args.get(part)  # all of them are read
    return (foreign_functions.bound if is_borrowed else routine)(name, given, node, scalars)


def routine(op: str, given: list[exp.Expr], at: exp.Expr, scalars: Scalars) -> Expr:
    """A library function; errors show the name as written."""
    args = [scalars.bind(a) for a in given]
    if op == "concat_ws" and args and scalars.source.dialect not in PRINTING:
        args = [args[0], *(_listed(scalars, a, args, at) for a in args[1:])]
    if op in ("concat_ws", "format"):
        args = [_as_printed(scalars, a) for a in args]
    if any(a.type.kind == "timestamptz" for a in args) and not _fits(LIBRARY[op], args):
        args = [zones.local(scalars, a) for a in args]  # as the session's clocks show it
    if op == "octet_length" and len(args) == 1 and args[0].type.kind == "char" and args[0].type.width:
        return _padded_octets(args[0], scalars)
    return called(op, _coerced(LIBRARY[op], args, given, scalars), at, scalars)


def _as_printed(scalars: Scalars, value: Expr) -> Expr:
    """Values that are printed by their type: a double without a point, a char(n) with its blanks, hexadecimal bytes."""
    kind, prints_as_postgres = value.type.kind, scalars.source.dialect in PRINTING
    if kind == "float":
        return roundings.text_of_double(scalars, value)
    if kind == "bytes" and prints_as_postgres:
        return scalars.call("bytes_text", value)
    return padded(scalars, value) if kind == "char" and prints_as_postgres else value


def padded(scalars: Scalars, value: Expr) -> Expr:
    """The text of a char(n) with the blanks at its end."""
    text = functions.cast(value, STR.optional(value.type.nullable))
    return scalars.call("padded", text, Literal(INT, value.type.width)) if value.type.width else text


def _padded_octets(value: Expr, scalars: Scalars) -> Expr:
    """The bytes of a char(n), of which the blanks at its end are a part here alone."""
    text = functions.cast(value, STR.optional(value.type.nullable))
    blanks = scalars.call("sub", Literal(INT, value.type.width), scalars.call("length", text))
    return scalars.call("add", scalars.call("octet_length", text), blanks)


def _listed(scalars: Scalars, value: Expr, args: list[Expr], at: exp.Expr) -> Expr:
    """An argument of concat_ws: an array's elements are joined."""
    if value.type.kind != "array":
        return value
    if len(args) > 2:  # an empty one would leave no separator, which array_to_string does not tell
        raise scalars.source.refuse(at, "concat_ws of an array takes no other values", "array_join(a, ',')")
    return scalars.call("array_to_string", value, args[0])


def called(op: str, args: list[Expr], at: exp.Expr, scalars: Scalars) -> Expr:
    """A call of the library with bound arguments."""
    try:
        _check_constants(op, args)
        return scalars.call(op, *args)
    except PlanError as error:
        written = scalars.source.written(at)
        said = error.message.replace(f"{op} takes", f"{written} takes")
        if isinstance(error, functions.WrongTypes):
            said = f"{written}({', '.join(map(in_words, error.types))}) does not exist"
        hint = error.hint if error.code == "E_PATTERN" else f"{written}: {LIBRARY[op].doc}"
        raise scalars.source.error(at, error.code, said, hint) from None


def check_constants(op: str, args: list[Expr], at: exp.Expr, scalars: Scalars) -> None:
    """Raise the error of an invalid constant pattern or template, at its call."""
    try:
        _check_constants(op, args)
    except PlanError as error:
        raise scalars.source.placed(error, at) from None


def _check_constants(op: str, args: list[Expr]) -> None:
    """An invalid constant pattern or template is an error in the text, not in rows."""
    constant = args[1].value if len(args) > 1 and isinstance(args[1], Literal) else None
    if not isinstance(constant, str):
        return
    if op.startswith("regexp_"):
        check_pattern(in_re2(constant))
    if op in ("to_char", "to_date", "parse_timestamp"):
        try:
            number_formats.template(constant) if args[0].type.kind in NUMBERS | {"numeric"} else date_formats.parts(
                constant
            )
        except RowFailure:
            raise PlanError("E_PATTERN", f"the template {constant!r} cannot be read") from None


def _coerced(function: Routine, args: list[Expr], given: list[exp.Expr], scalars: Scalars) -> list[Expr]:
    """Quoted constants parsed for the first signature that then fits."""
    quoted = [i for i, a in enumerate(args) if constants.is_quoted(a) and not _is_computed(given[i])]
    if not quoted or _fits(function, args):
        return args
    for signature in function.signatures:
        if len(args) < signature.needs or (signature.most is not None and len(args) > signature.most):
            continue
        wanted = signature.wants(len(args))
        tried = list(args)
        for i in quoted:
            if wanted[i] not in ("text", "any", "printed"):
                target = KINDS["float" if wanted[i] == "number" else wanted[i]]
                tried[i] = constants.text_as(args[i].value, target, given[i], scalars.source)  # type: ignore[attr-defined]
        if _fits(function, tried):
            return tried
    return args


def _is_computed(given: exp.Expr) -> bool:
    """Whether a constant is what a call or an operator returned: then its type is no longer open."""
    return isinstance(given.unnest(), (exp.Func, exp.Binary))


def _fits(function: Routine, args: list[Expr]) -> bool:
    try:
        function.rule(tuple(a.type for a in args))
    except NoMatch:
        return False
    return True


def unknown(node: exp.Anonymous, scalars: Scalars) -> EverviewError:
    """Return the error for an unknown or unsupported function; for restricted users it is that of a forbidden one."""
    name = node.name.lower()
    core = scalars.compiler.core
    if name in TABLES:
        return scalars.source.refuse(
            node,
            f"{name} gives rows, so it is not allowed here",
            f"put it into FROM, or alone into SELECT: {name}(...)",
        )
    own = foreign_functions.OF_DIALECT.get(scalars.source.dialect, ())
    known = [
        *own,
        *(name for name in (*core.functions, *core.catalog.sql_functions) if core.access.sees("function", name)),
        *all_names(),
        *CALLS,
        *foreign_functions.BORROWED,
        *_FORMS,
    ]
    if name in known:
        return scalars.source.refuse(node, f"{name} is not supported here")
    close = closest(name, known, alike=0.65)
    hint = f"did you mean {close[0]!r}?" if close else "CREATE FUNCTION makes one; docs/sql.md lists those that exist"
    who = None if scalars.compiler.trusted else core.access.acting()
    if who is not None:
        error = core.access.refused("EXECUTE", "function", name, who)
        error.hint = hint if close else error.hint
        return scalars.source.placed(error, node)
    return scalars.source.refuse(node, f"there is no function {name}", hint)


_FORMS = ("cast", "exists", "any", "all", "some", "row", "array", "grouping")
"""Words that look like functions."""


# ---- special functions


def _to_timestamp(node: exp.Anonymous, scalars: Scalars) -> Expr:
    """to_timestamp(seconds), to_timestamp(text, template): a timestamptz in PostgreSQL, elsewhere a timestamp."""
    op = "epoch_to_timestamp" if len(node.expressions) == 1 else "parse_timestamp"
    if op == "epoch_to_timestamp" and _is_moment(node.expressions[0], scalars):  # as Flink and Spark write a cast
        return scalars.bind(exp.Cast(this=node.expressions[0], to=exp.DataType.build("timestamp", dialect=DEFAULT)))
    found = routine(op, node.expressions, node, scalars)
    if scalars.source.dialect != DEFAULT:
        return found
    if op == "parse_timestamp":
        return zones.absolute(scalars, found)  # a local time
    return constants.folded(functions.cast(found, TIMESTAMPTZ), scalars.compiler.interner)


def _is_moment(node: exp.Expr, scalars: Scalars) -> bool:
    """Whether a text is one of a moment: '12.5' is a number of seconds in PostgreSQL, which reads no other texts."""
    if isinstance(node, exp.Literal):
        return node.is_string and re.match(r"\s*\d{4}-\d", node.name) is not None
    return scalars.bind(node).type.kind == "str"


ORIGINS = {"date_bin": "2000-01-01", "time_bucket": "2000-01-03"}
"""Default origin of bins: 2000-01-01; as in Timescale and DuckDB, weeks begin on Mondays."""


def _date_bin(node: exp.Anonymous, scalars: Scalars) -> Expr:
    """date_bin(interval, moment[, origin]) with a constant interval; also called time_bucket"""
    name = node.name.lower()
    if len(node.expressions) not in (2, 3):
        raise scalars.source.error(node, "E_ARITY", f"{name} takes an interval, a timestamp and an origin")
    stride = node.expressions[0]
    if isinstance(stride, exp.Literal) and stride.is_string:
        stride = exp.Interval(this=stride)
    if not isinstance(stride, exp.Interval):
        return _date_bin_of_rows(node, scalars)
    months, microseconds = constants.interval(stride, scalars.source)
    if months or microseconds <= 0:
        raise scalars.source.error(
            node.expressions[0],
            "E_RANGE",
            f"{name} needs some days, hours, minutes or seconds",
            "date_trunc has months",
        )
    return _binned(node, [Literal(INT, microseconds), *map(scalars.bind, node.expressions[1:])], scalars)


def _date_bin_of_rows(node: exp.Anonymous, scalars: Scalars) -> Expr:
    """date_bin with an interval that is computed"""
    return _binned(node, [scalars.bind(g) for g in node.expressions], scalars)


def _binned(node: exp.Anonymous, args: list[Expr], scalars: Scalars) -> Expr:
    """date_bin with an interval, a moment and optionally an origin. Bins of a timestamptz are in UTC."""
    if len(args) == 2:
        args.append(constants.text_as(ORIGINS[node.name.lower()], TIMESTAMP, node, scalars.source))
    zoned = args[1].type.kind == "timestamptz"
    if zoned:
        if len(node.expressions) == 3:
            args[2] = zones.absolute(scalars, scalars.coerced(args[2], args[1], node.expressions[2]))
        args[1:] = [functions.cast(a, TIMESTAMP) for a in args[1:]]
    made = called("date_bin", _coerced(LIBRARY["date_bin"], args, node.expressions, scalars), node, scalars)
    return functions.cast(made, TIMESTAMPTZ) if zoned else made


def _digest(node: exp.Anonymous, scalars: Scalars) -> Expr:
    """sha256('abc'): PostgreSQL has digests of bytea alone, so that a quoted constant is one."""
    given = node.expressions
    args = [scalars.bind(g) for g in given]
    if (
        scalars.source.dialect != DEFAULT
        or len(args) != 1
        or not constants.is_quoted(args[0])
        or _is_computed(given[0])
    ):
        return routine(node.name.lower(), given, node, scalars)
    data = constants.text_as(args[0].value, BYTES, given[0], scalars.source)  # type: ignore[attr-defined]
    return called(node.name.lower(), [data], node, scalars)


def _age(node: exp.Anonymous, scalars: Scalars) -> Expr:
    """age(a, b); age(b) is from today"""
    given = list(node.expressions)
    if len(given) == 1:
        given = [exp.CurrentDate(), *given]
    return routine("age", given, node, scalars)


def _make_interval(node: exp.Anonymous, scalars: Scalars) -> Expr:
    """make_interval(1, 2), make_interval(days => 3)"""
    parts: list[exp.Expr] = [exp.Literal.number(0)] * len(INTERVAL_PARTS)
    for i, given in enumerate(node.expressions):
        named = isinstance(given, (exp.Kwarg, exp.PropertyEQ))
        name = given.this.name.lower() if named else INTERVAL_PARTS[i] if i < len(INTERVAL_PARTS) else ""
        if name not in INTERVAL_PARTS:
            hint = did_you_mean(name, INTERVAL_PARTS)
            raise scalars.source.error(given, "E_ARITY", f"make_interval has no argument {name or i + 1}", hint)
        parts[INTERVAL_PARTS.index(name)] = given.expression if named else given
    return routine("make_interval", parts, node, scalars)


def _date_part(node: exp.Anonymous, scalars: Scalars) -> Expr:
    """date_part('year', moment), where the parser has no node for it"""
    if len(node.expressions) != 2 or not node.expressions[0].is_string:
        raise scalars.source.error(node, "E_ARITY", "date_part takes a constant unit and a moment")
    unit, moment = node.expressions
    consumed_parts.understood(unit)
    return scalars.bind(exp.Extract(this=exp.var(unit.name), expression=moment))


def _format(node: exp.Anonymous, scalars: Scalars) -> Expr:
    """format(template, ...): %s, %I and %L in PostgreSQL"""
    if scalars.source.dialect in ("duckdb", "sqlite", "trino", "presto", "bigquery"):
        hint = "format_string('%d of %s', a, b), or concat"
        raise scalars.source.refuse(node, "the templates of format are PostgreSQL's here", hint)
    return routine("format", node.expressions, node, scalars)


def _quoted(node: exp.Anonymous, scalars: Scalars) -> Expr:
    """quote_literal(x), quote_nullable(x) of any type: its text, quoted"""
    text = exp.DataType.build("text")
    is_text = [scalars.bind(g).type.kind == "str" for g in node.expressions]
    given = [g if t else exp.Cast(this=g, to=text) for g, t in zip(node.expressions, is_text, strict=True)]
    return routine(node.name.lower(), given, node, scalars)


def _random(node: exp.Anonymous, scalars: Scalars) -> Expr:
    raise scalars.source.refuse(
        node,
        f"{node.name.lower()} gives another value each time, so no answer would stay true",
        "put such values into a table",
    )


SPECIAL: dict[str, Callable[[exp.Anonymous, Scalars], Expr]] = {
    "to_timestamp": _to_timestamp,
    "date_bin": _date_bin,
    "time_bucket": _date_bin,
    "age": _age,
    **dict.fromkeys(("sha224", "sha256", "sha384", "sha512"), _digest),
    "date_part": _date_part,
    "format": _format,
    "make_interval": _make_interval,
    "quote_literal": _quoted,
    "quote_nullable": _quoted,
    "random": _random,
    "setseed": _random,
    "gen_random_uuid": _random,
    **moments_elsewhere.SPECIAL,
}
