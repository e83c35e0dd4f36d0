"""The built-in functions: names, types, and exact semantics.

`FUNCTIONS[op]` describes every `op` of a `Call`. This page is the contract between the languages that make calls
(Python, SQL, Datalog), the implementations that run them (`everview.kernels.expressions.vm`, `everview.expr.evaluate`)
and the oracle in the tests, so it is precise enough to implement from. `call(op, *args)` is the only way to make a
`Call`: it checks the types, makes every implicit conversion an explicit cast, and infers the result's type.

Types
    After `call`, arguments have exactly the kinds the function takes: both sides of `add`, of a comparison, all
    branches of `case` have one kind (and one decimal scale), with casts inserted where they were mixed: only
    int -> float, int -> decimal, decimal -> float, date -> timestamp. bool is not a number here
    (cast it). A NULL literal takes any type. Casts name their target in `Call.type` (the scale of `cast_decimal` is
    `Call.type.scale`).

NULL
    Unless said otherwise a function of NULL is NULL ("propagate"), and the result is nullable if an argument is.
    Exceptions: `and or` are three-valued (false and NULL = false, true or NULL = true); `is_null is_not_null` are
    true or false; `coalesce(a, ...)` = `if_null(a, b)` is the first that is not NULL; `nullif(a, b)` is NULL if a =
    b, else a; `case(c1, v1, ..., else)` takes the first condition that is true (NULL is not); `greatest least` skip
    NULLs and are NULL only if all are; `hash` and `tuple_make` treat NULL as an ordinary value.

Row errors
    A function without a result fails for that row: the row becomes an error in the view until its
    input is deleted. `Function.fails`: whether it can. Evaluation is lazy where it matters: an error in a branch of
    `case` not taken, in `coalesce`/`if_null` after the first value, right of a false `and` or of a true `or`, does
    not count. A failing argument fails the function whatever the others are, NULL or not. Kinds of failure:
    division by zero, overflow (out of 64 bits, decimal over 18 digits, dates out of years 1 to 9999, or a nullable
    int, decimal, date or timestamp that would equal the reserved code of NULL), domain (sqrt of a negative), bad
    cast.

Numbers
    int is 64-bit, overflow fails. `div` of ints is float; `floordiv` and `mod` round to minus infinity (Python's
    rule: the remainder has the divisor's sign), for floats too (IEEE floor of a / b, and Python's `%`). Any division
    by zero fails, floats included. So does float arithmetic (`add sub mul div exp pow`) whose result is out of range:
    infinite though its arguments are finite, or zero though a product, quotient or power is not (PostgreSQL's rule).
    Arguments that are inf or NaN give what IEEE says. decimal(s)
    is an integer times 10**-s: `add sub mod floordiv` align to the larger scale (floordiv gives int), `mul` adds
    scales (a total over 18 is a plan error), `div` is float. `pow` is float: 0 to a negative power and a negative to
    a broken power fail. `sqrt` of a negative, `ln log2 log10` of zero or less fail; NaN gives NaN. `floor ceil round`
    keep the type; `round(x, n)` has n digits, 0 <= n <= 15, floats half to even (`rint(x * 10**n) / 10**n`), decimals
    half away from zero. `sign` is int (-1, 0, 1), for floats float with sign(NaN) = NaN and sign(0.0) = sign(-0.0) =
    0.0. `abs neg` of the smallest int fail. `neg(0.0)` is -0.0.

Bits
    `band bor bxor bnot` work on the 64 bits of ints (two's complement). `bshl` loses the bits that leave at the top;
    `bshr` keeps the sign, `bshru` moves zeros in. Moves by less than 0 or more than 63 bits fail (domain).

Comparison
    Floats compare as numbers: -0.0 = 0.0; NaN = NaN and is larger than everything (PostgreSQL's rule). int against
    float compares as floats. Strings compare by code point, bytes by byte, false < true, tuples only for equality
    (by value, NULL items equal). `greatest least` use the same order; of equals the first argument wins.

Casts
    `cast_int`: float and decimal towards zero (NaN, inf, out of range fail), bool 0/1, date days and timestamp
      microseconds since 1970, str `[+-]digits` with surrounding white space allowed.
    `cast_float`: int to nearest, decimal, bool, str as Python's `float()` reads it (also "inf", "nan", white space;
      no underscores; out of range fails).
    `cast_bool`: a number is not zero (NaN is true); str, any case: true t yes y on 1 / false f no n off 0.
    `cast_str`: int plain; float as Python's `repr` (1.0, 1e+22, inf, nan); bool true/false; date 2026-11-15;
      timestamp 2026-11-15 08:30:00, with .ffffff only if not whole seconds; decimal with all its `scale` digits;
      bytes as UTF-8 or fail.
    `cast_bytes`: str as UTF-8.
    `cast_date`: str YYYY-MM-DD, timestamp (its day, also before 1970), int days.
    `cast_timestamp`: date (midnight), int microseconds, str YYYY-MM-DD[(T| )HH:MM[:SS[.f to
      .ffffff]]][Z|+HH:MM|-HH:MM], in UTC unless it says otherwise.
    `cast_decimal`: int, bool; decimal of another scale half away from zero; float `rint(x * 10**scale)` (NaN, inf
      fail); str plain digits with an optional sign, point and white space, no exponent, extra digits half away from
      zero.

Strings
    Positions count code points from 1. `substr(s, start[, n])` is PostgreSQL's: positions before 1 exist and are
    empty, so substr("abc", 0, 2) = "a"; n < 0 fails. `position(s, part)` is 0 if absent, 1 if part is empty.
    `split_part(s, sep, n)`: n from 1, or from the end if negative, "" if there is no such part, 0 fails; an empty
    sep does not split. `lpad rpad (s, n[, fill])` also cut to n from the right end of s; an empty fill cannot pad;
    n < 0 is 0. `trim ltrim rtrim (s[, chars])` take off any of chars, by default " \\t\\n\\r\\v\\f". `replace`
    replaces all, from the left; an empty part changes nothing. `lower upper` map code point to code point
    (`pyarrow.compute.utf8_lower/utf8_upper`). `like(s, pattern)`: % any run, _ any one, backslash escapes, the
    whole string, case counts. `regexp_matches(s, pattern)`: RE2, anywhere in the string. `reverse` reverses code
    points. `length` of bytes counts bytes.

Dates
    timestamps are UTC microseconds. `dayofweek` is ISO: Monday 1 to Sunday 7. `second` is the whole second.
    `date_trunc(unit, x)`: year quarter month week (Monday) day hour minute second; a date stays a date and allows
    no unit below day. `date_diff_days(a, b)` = a - b. `add_months` keeps the day or takes the month's last.
    `extract_epoch` is seconds since 1970 as float. `timestamp_add(t, n)` adds microseconds; `timestamp_diff(a, b)`
    = a - b in microseconds.

Hash
    `hash(a, ...)`: h = 0; for each argument h = mix((h ^ code) + 0x9E3779B97F4A7C15) modulo 2**64, where code is
    the argument's int64 code (NULL's code for NULL, 0.0's for -0.0) and mix is splitmix64's finaliser: z ^= z >>
    30; z *= 0xBF58476D1CE4E5B9; z ^= z >> 27; z *= 0x94D049BB133111EB; z ^= z >> 31. The result is read as a signed
    int. It is equal on all machines because codes are.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Literal as OneOf

import pyarrow as pa
import pyarrow.compute as pc

from everview.errors import PlanError, did_you_mean
from everview.expr import nesting, python_function_types
from everview.expr import type_rules as rules
from everview.expr.common_types import DATE_UNITS, NoMatch, Rule, common_type
from everview.expr.nodes import Call, Expr, Literal
from everview.types import (
    BOOL,
    BYTES,
    DATE,
    FLOAT,
    INT,
    STR,
    TIMESTAMP,
    DataType,
    decimal,
)


@dataclass(frozen=True)
class Function:
    """One built-in: types, treatment of NULL, whether a row can fail, number of arguments, which must be literals."""

    name: str
    doc: str
    rule: Rule
    arity: tuple[int, int | None]
    nulls: OneOf["propagate", "custom"] = "propagate"
    fails: bool = False
    literals: tuple[int, ...] = ()


# --------------------------------------------------------------------------------------- the table


def _table() -> dict[str, Function]:
    found: dict[str, Function] = {}

    def add(
        name: str,
        doc: str,
        rule: Rule,
        low: int,
        high: int | None = -1,
        *,
        custom: bool = False,
        fails: bool = False,
        literals: tuple[int, ...] = (),
    ) -> None:
        found[name] = Function(
            name, doc, rule, (low, low if high == -1 else high), "custom" if custom else "propagate", fails, literals
        )

    add("add", "a + b", rules.sum_or_difference, 2, fails=True)
    add("sub", "a - b", rules.sum_or_difference, 2, fails=True)
    add("mul", "a * b", rules.mul, 2, fails=True)
    add("div", "a / b as float", rules.div, 2, fails=True)
    add("floordiv", "a / b rounded down", rules.floordiv, 2, fails=True)
    add("mod", "what floordiv leaves", rules.arithmetic, 2, fails=True)
    add("neg", "-a", rules.negated, 1, fails=True)
    add("abs", "a without its sign", rules.number, 1, fails=True)
    add("pow", "a to the power b, as float", rules.to_float, 2, fails=True)
    add("sqrt", "square root", rules.to_float, 1, fails=True)
    add("exp", "e to the power a", rules.to_float, 1, fails=True)
    add("ln", "natural logarithm", rules.to_float, 1, fails=True)
    add("log2", "logarithm to base 2", rules.to_float, 1, fails=True)
    add("log10", "logarithm to base 10", rules.to_float, 1, fails=True)
    add("floor", "rounded down", rules.number, 1, fails=True)
    add("ceil", "rounded up", rules.number, 1, fails=True)
    add("round", "rounded to the nearest, with n digits", rules.round, 1, 2, fails=True, literals=(1,))
    add("sign", "-1, 0 or 1", rules.sign, 1)
    add("greatest", "the largest that is not NULL", rules.extreme, 1, None, custom=True)
    add("least", "the smallest that is not NULL", rules.extreme, 1, None, custom=True)

    for name, doc in (("band", "a and b"), ("bor", "a or b"), ("bxor", "a or b, not both")):
        add(name, f"bit by bit, {doc}", rules.fixed((INT, INT), INT), 2)
    add("bnot", "bit by bit, not a", rules.fixed((INT,), INT), 1)
    add("bshl", "a moved b bits up", rules.fixed((INT, INT), INT), 2, fails=True)
    add("bshr", "a moved b bits down, keeping its sign", rules.fixed((INT, INT), INT), 2, fails=True)
    add("bshru", "a moved b bits down, zeros coming in", rules.fixed((INT, INT), INT), 2, fails=True)

    add("eq", "a equals b", rules.equality, 2)
    add("ne", "a differs from b", rules.equality, 2)
    for name, doc in (("lt", "a < b"), ("le", "a <= b"), ("gt", "a > b"), ("ge", "a >= b")):
        add(name, doc, rules.order, 2)
    add("and", "both, three-valued", rules.logic, 2, custom=True)
    add("or", "either, three-valued", rules.logic, 2, custom=True)
    add("not", "not a", rules.logic, 1)

    add("is_null", "a is NULL", rules.anything_to(BOOL), 1, custom=True)
    add("is_not_null", "a is not NULL", rules.anything_to(BOOL), 1, custom=True)
    add("coalesce", "the first that is not NULL", rules.first_value, 1, None, custom=True)
    add("if_null", "a, or b where a is NULL", rules.first_value, 2, custom=True)
    add("nullif", "NULL where a = b, else a", rules.nullif, 2, custom=True)
    add("attempt", "a cast a of b, or NULL where it fails", rules.attempt, 2, custom=True)
    add("case", "the value after the first true condition, else the last", rules.case, 3, None, custom=True)

    add("cast_int", "as int", rules.cast(INT, "float bool decimal str date timestamp"), 1, fails=True)
    add("cast_float", "as float", rules.cast(FLOAT, "int bool decimal str"), 1, fails=True)
    add("cast_bool", "as bool", rules.cast(BOOL, "int float decimal str"), 1, fails=True)
    add("cast_str", "as text", rules.cast(STR, "int float bool decimal date timestamp bytes"), 1, fails=True)
    add("cast_bytes", "as bytes", rules.cast(BYTES, "str"), 1)
    add("cast_date", "as date", rules.cast(DATE, "str timestamp int"), 1, fails=True)
    add("cast_timestamp", "as timestamp", rules.cast(TIMESTAMP, "str date int"), 1, fails=True)
    add(
        "cast_decimal",
        "as decimal of the scale of the result",
        rules.cast(decimal(), "int float bool str"),
        1,
        fails=True,
    )

    add("length", "number of code points (or bytes)", rules.length, 1)
    for name in ("lower", "upper", "reverse"):
        add(name, f"{name} of a text", rules.fixed((STR,), STR), 1)
    for name, side in (("trim", "both ends"), ("ltrim", "the left"), ("rtrim", "the right")):
        add(name, f"without white space (or the given characters) at {side}", rules.fixed((STR, STR), STR), 1, 2)
    add(
        "text_word",
        "eight bytes of a text as an int that sorts like them",
        rules.fixed((STR, INT), INT),
        2,
        literals=(1,),
    )
    add("substr", "n code points from position start", rules.fixed((STR, INT, INT), STR), 2, 3, fails=True)
    add("concat", "one after the other", lambda types: rules.fixed((STR,) * len(types), STR)(types), 1, None)
    for name, doc in (("contains", "b is in a"), ("startswith", "a starts with b"), ("endswith", "a ends with b")):
        add(name, doc, rules.fixed((STR, STR), BOOL), 2)
    add("like", "SQL's LIKE", rules.fixed((STR, STR), BOOL), 2, literals=(1,))
    add("regexp_matches", "the regular expression is found in a", rules.fixed((STR, STR), BOOL), 2, literals=(1,))
    add("replace", "every b in a becomes c", rules.fixed((STR, STR, STR), STR), 3)
    add("split_part", "part n of a split at b", rules.fixed((STR, STR, INT), STR), 3, fails=True)
    add("lpad", "filled at the left to n", rules.fixed((STR, INT, STR), STR), 2, 3)
    add("rpad", "filled at the right to n", rules.fixed((STR, INT, STR), STR), 2, 3)
    add("position", "where b begins in a, from 1, or 0", rules.fixed((STR, STR), INT), 2)

    for name in ("year", "month", "day", "dayofweek"):
        add(name, f"the {name} of a date or timestamp", rules.moment_to(INT), 1)
    for name in ("hour", "minute", "second"):
        add(name, f"the {name} of a timestamp", rules.fixed((TIMESTAMP,), INT), 1)
    add("date_trunc", "b cut to the unit a", rules.date_trunc, 2, fails=True, literals=(0,))
    add("date_add_days", "b days after a", rules.fixed((DATE, INT), DATE), 2, fails=True)
    add("date_diff_days", "days from b to a", rules.fixed((DATE, DATE), INT), 2)
    add("add_months", "b months after a", rules.add_months, 2, fails=True)
    add("extract_epoch", "seconds since 1970", rules.moment_to(FLOAT), 1)
    add("timestamp_add", "b microseconds after a", rules.fixed((TIMESTAMP, INT), TIMESTAMP), 2, fails=True)
    add("timestamp_diff", "microseconds from b to a", rules.fixed((TIMESTAMP, TIMESTAMP), INT), 2)

    add("hash", "a stable 64-bit hash", rules.anything_to(INT), 1, None, custom=True)
    add("tuple_make", "the values as one tuple", rules.tuple_make, 1, None, custom=True)
    add("tuple_get", "item b of the tuple a, from 0", rules.tuple_get, 2, literals=(1,))
    for kind in python_function_types.NEW:
        add(f"cast_{kind}", f"as {kind}", rules.cast(DataType(kind), kind), 1, fails=True)
    python_function_types.add_all(add, common_type, rules.need)
    return found


FUNCTIONS: dict[str, Function] = _table()
"""Every built-in function by name."""

LIBRARY: dict[str, Function] = {}
"""The functions of `everview.expr.library`, which registers them here."""


INTERNAL: dict[str, Function] = {
    name: Function(name, doc, rules.anything_to(INT), (arity, arity), fails=fails)
    for name, doc, arity, fails in (
        ("provenance_variable", "the expression that is the variable of a label", 1, False),
        ("provenance_and", "the conjunction of two expressions, of at most so many nodes", 3, False),
        ("provenance_checked", "the expression, unless it has too many nodes", 1, True),
    )
}
"""Functions used only inside plans, which cannot be called by name (`everview.plan.provenance`)."""


def known(op: str) -> Function | None:
    """The function of that name: built in, of the library, or internal."""
    return FUNCTIONS.get(op) or LIBRARY.get(op) or INTERNAL.get(op)


# ------------------------------------------------------------------------------------ making calls


MOST_DEPTH = 4_400
"""Maximum nesting depth of calls. An operator of SQL takes up to four levels: a division is a CASE of two quotients."""

MOST_DEPTH_ALONE = 220
"""The same outside of SQL, where the recursion limit is Python's default."""

COMPARISONS = frozenset({"eq", "ne", "lt", "le", "gt", "ge"})

DEPTH_HINT = "compute parts of it in a step before: select(), or a subquery"


def call(op: str, *args: Expr) -> Expr:
    """The function applied to arguments: types checked, conversions explicit, trivial constants folded.

    >>> from everview.expr.nodes import ColumnRef
    >>> call("add", ColumnRef(INT, 0), Literal(FLOAT.optional(), 0.5)).type
    float?
    """
    function = None if op in INTERNAL else known(op)
    if function is None:
        raise PlanError("E_FUNCTION", f"there is no function {op!r}", did_you_mean(op, FUNCTIONS))
    _check_arity(function, args)
    _check_literals(function, args)
    args = _give_nulls_a_type(function, args)
    if op in COMPARISONS and all(a.type.kind == "interval" for a in args):
        args = tuple(call("interval_order", a) for a in args)
    try:
        wanted, result = function.rule(tuple(a.type for a in args))
    except NoMatch:
        raise WrongTypes(function, [a.type for a in args]) from None
    if function.nulls == "propagate":
        result = result.optional(any(a.type.nullable for a in args))
    if op == "tuple_get":
        result = _tuple_item(args)
    elif op == "struct_get":
        result = _struct_item(args)
    most = MOST_DEPTH if nesting.has_room() else MOST_DEPTH_ALONE
    if max((a.depth for a in args), default=0) >= most:
        raise PlanError("E_DEPTH", f"an expression is nested more than {most} levels deep", DEPTH_HINT)
    if result.kind == "decimal" and op not in CHOICES:
        result = replace(result, width=0)
    cast_args = tuple(a if _is_same_number(a.type, w) else cast(a, w) for a, w in zip(args, wanted, strict=True))
    return _fold(op, result, cast_args)


CHOICES = frozenset({"case", "coalesce", "if_null", "nullif", "greatest", "least", "tuple_get", "struct_get"})
"""Functions that return one of their arguments, with its digits."""


def _is_same_number(given: DataType, wanted: DataType) -> bool:
    """Whether a decimal can keep more digits than its type: the code is the same."""
    return given.kind == wanted.kind == "decimal" and given.scale == wanted.scale and not wanted.width


def cast(expr: Expr, target: DataType) -> Expr:
    """Cast an expression to the target's kind and scale, keeping its nullability. A no-op if it has them already.

    >>> cast(Literal(INT, 3), FLOAT)
    Literal(type=float, value=3.0)
    """
    source = expr.type
    result = target.optional(source.nullable)
    if isinstance(expr, Literal) and expr.value is None:
        return Literal(target.optional(), None)
    if source.kind == target.kind == "tuple" or python_function_types.bare(source) == python_function_types.bare(
        target
    ):
        return expr  # tuples of one kind differ at most in the nullability of items
    function = FUNCTIONS.get(f"cast_{target.kind}")
    try:
        rules.need(function is not None)
        assert function is not None
        allowed = python_function_types.castable(source, target)
        if allowed is None:
            function.rule((source,))
        else:
            rules.need(allowed)
    except NoMatch:
        raise NoCast(source, target.optional(False)) from None
    if isinstance(expr, Literal) and source.kind == "int" and target.kind in {"float", "decimal"} and not target.width:
        return literal_cast(expr, result)
    return Call(result, function.name, (expr,))


def literal_cast(expr: Literal, target: DataType) -> Literal:
    """An int literal as float or decimal."""
    return Literal(target, float(expr.value) if target.kind == "float" else Decimal(expr.value))


def _cast_hint(target: DataType) -> str:
    if target.kind == "tuple":
        return "tuples are made with ev.tuple_(...)"
    rule_of = {
        "int": "float, bool, decimal, str, date or timestamp",
        "float": "int, bool, decimal or str",
        "bool": "int, float, decimal or str",
        "str": "anything but a tuple",
    }
    return (
        f"{target.kind} can be made of {rule_of[target.kind]}"
        if target.kind in rule_of
        else "cast in two steps, or use a UDF"
    )


def _check_arity(function: Function, args: Sequence[Expr]) -> None:
    low, high = function.arity
    if len(args) < low or (high is not None and len(args) > high):
        wants = str(low) if high == low else f"{low} or more" if high is None else f"{low} to {high}"
        raise PlanError(
            "E_ARITY", f"{function.name} takes {wants} arguments, not {len(args)}", f"{function.name}: {function.doc}"
        )


def _check_literals(function: Function, args: Sequence[Expr]) -> None:
    for position in function.literals:
        if position < len(args) and (not isinstance(args[position], Literal) or args[position].value is None):  # type: ignore[attr-defined]
            raise PlanError(
                "E_LITERAL",
                f"argument {position + 1} of {function.name} must be a constant",
                "give a plain Python value there",
            )
    if function.name == "date_trunc":
        _check_date_unit(args)
    if function.name == "regexp_matches" and isinstance(args[1], Literal) and isinstance(args[1].value, str):
        check_pattern(args[1].value)
    if function.name == "round" and len(args) == 2 and isinstance(args[1], Literal) and args[1].value not in range(16):
        raise PlanError("E_RANGE", f"round to {args[1].value!r} digits", "give a number of digits from 0 to 15")


def check_pattern(pattern: str) -> None:
    """Refuse an invalid pattern early, with the error of the engine that will run it."""
    try:
        pc.match_substring_regex(pa.scalar(""), pattern=pattern)
    except pa.ArrowInvalid as error:
        what = str(error).removeprefix("Invalid regular expression: ")
        raise PlanError(
            "E_PATTERN",
            f"the regular expression {pattern!r} cannot be read: {what}",
            "RE2's syntax; a backslash before a sign makes it plain: \\[",
        ) from None


def _check_date_unit(args: Sequence[Expr]) -> None:
    unit = args[0].value if isinstance(args[0], Literal) else None
    allowed = DATE_UNITS[:5] if args[1].type.kind == "date" else DATE_UNITS
    if unit not in allowed:
        raise PlanError("E_UNIT", f"{args[1].type!r} cannot be truncated to {unit!r}", did_you_mean(str(unit), allowed))


def _give_nulls_a_type(function: Function, args: tuple[Expr, ...]) -> tuple[Expr, ...]:
    """Give a bare NULL the type its position requires: each kind is tried until the rule accepts."""
    values = [i for i in range(len(args)) if function.name != "case" or i % 2 or i == len(args) - 1]
    nulls = [i for i, a in enumerate(args) if isinstance(a, Literal) and a.value is None]
    # a case's conditions say nothing about its values
    args = tuple(Literal(BOOL.optional(), None) if i in nulls and i not in values else a for i, a in enumerate(args))
    places = [i for i in nulls if i in values]
    if not places:
        return args
    # a NULL that was cast keeps its type (one that was not is an int)
    cast_before = [args[i].type for i in places if args[i].type.kind != "int"]
    beside = [args[i].type for i in values if i not in places]
    candidates = [*cast_before, *beside, INT, BOOL, FLOAT, STR, DATE, TIMESTAMP]
    for candidate in candidates:
        tried = tuple(Literal(candidate.optional(), None) if i in places else a for i, a in enumerate(args))
        try:
            function.rule(tuple(a.type for a in tried))
        except NoMatch:
            continue
        return tried
    return args


class NoCast(PlanError):
    """A cast that there is not."""

    def __init__(self, source: DataType, target: DataType) -> None:
        super().__init__("E_TYPE", f"{source!r} cannot be cast to {target!r}", _cast_hint(target))
        self.types = (source, target)


class WrongTypes(PlanError):
    """A function of values of types that it does not take; SQL says so in its own words."""

    def __init__(self, function: Function, types: Sequence[DataType]) -> None:
        super().__init__(
            "E_TYPE",
            f"{function.name}({', '.join(map(repr, types))}) does not exist",
            f"{function.name}: {function.doc}; cast the arguments, e.g. .cast(int)",
        )
        self.function = function.name
        self.types = tuple(types)


def _struct_item(args: Sequence[Expr]) -> DataType:
    items = args[0].type.items
    index = args[1].value if isinstance(args[1], Literal) else -1
    if not 0 <= index < len(items):
        raise PlanError("E_RANGE", f"the row has no field {index}", f"it has {len(items)}, counted from 0")
    return items[index].optional()


def _tuple_item(args: Sequence[Expr]) -> DataType:
    items = args[0].type.items
    index = args[1].value if isinstance(args[1], Literal) else -1
    if not 0 <= index < len(items):
        raise PlanError("E_RANGE", f"the tuple has no item {index}", f"it has {len(items)}, counted from 0")
    return items[index].optional(items[index].nullable or args[0].type.nullable)


def _fold(op: str, result: DataType, args: tuple[Expr, ...]) -> Expr:
    """Fold only what is certain and worthwhile: the sign of a number, casts of NULL (done in `cast`)."""
    if op == "neg" and isinstance(args[0], Literal) and args[0].value is not None and result.kind != "interval":
        value = args[0].value
        if value and not (isinstance(value, float) and math.isnan(value)) and value != -(2**63):
            return Literal(result, -value)
    return Call(result, op, args)


def conjuncts(expr: Expr) -> list[Expr]:
    """The parts of a condition that must all hold.

    >>> from everview.expr.nodes import ColumnRef
    >>> from everview.types import BOOL
    >>> a, b, c = (ColumnRef(BOOL, i) for i in range(3))
    >>> conjuncts(call("and", a, call("and", b, c))) == [a, b, c]
    True
    """
    found: list[Expr] = []
    todo = [expr]
    while todo:
        part = todo.pop()
        if isinstance(part, Call) and part.op == "and":
            todo += reversed(part.args)
        else:
            found.append(part)
    return found


def conjunction(parts: Sequence[Expr], op: OneOf["and", "or"] = "and") -> Expr:
    """All parts joined by `and` (or `or`) as a balanced tree, so that long lists stay shallow."""
    if len(parts) == 1:
        return parts[0]
    middle = len(parts) // 2
    return call(op, conjunction(parts[:middle], op), conjunction(parts[middle:], op))
