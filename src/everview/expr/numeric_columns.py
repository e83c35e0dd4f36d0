"""Arithmetic of numerics over whole columns.

A numeric is interned as a text (`everview.codes.packed`), and its functions are defined value by value on Decimals
(`everview.expr.numeric_functions`). For a column of thousands of values that costs 40 microseconds each: two ids are
looked up, two Decimals made, and the result is packed and interned on its own. Here the same functions are computed on
*digits*: a number is a Python int and its digits after the point. Texts of a column are read from the dictionary in
one call and split, results are written into it in one call, and ints and decimals that are only cast to numerics are
not interned in between.

Results, errors included, are those of `numeric_functions`, which tests compare (`tests/expr/test_numeric_columns.py`).
Only columns of at least `MIN_COLUMN_ROWS` rows come here: for a few rows, values that are cached cost less. Of single
rows only functions of ints and decimals do (`single_of`): an average is a quotient of two codes.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from everview.codes.interner import Interner
from everview.expr import python_function_types
from everview.expr.nodes import Call, Expr, Literal
from everview.expr.numeric_functions import LIMB
from everview.expr.string_functions import RowFailure
from everview.kernels.expressions.scalars import ERROR_DIVISION, ERROR_OVERFLOW
from everview.types import FREE, MOST_DIGITS, DataType

Words = npt.NDArray[np.int64]
Digits = tuple[int, int]
"""A number times 10**n, and n"""

MIN_COLUMN_ROWS = 32
"""Rows from which a column is computed here."""

_INT_DIGITS = 19
_EXACT_KINDS = ("int", "decimal", "numeric")
_POWERS: list[int] = [10**n for n in range(4 * MOST_DIGITS)]


class _Failure(Exception):
    """A row without a value; the argument is its error code."""


class Batch(NamedTuple):
    """A function of columns: the expressions whose codes it needs, and how it computes codes and errors of them."""

    args: tuple[Expr, ...]
    run: Callable[[Sequence[Words], Interner], tuple[Words, Words]]


def batch_of(expr: Call) -> Batch | None:
    """How a call is computed over columns; None if it is not done here."""
    if expr.op not in _MAKERS or not all(a.type.kind in _EXACT_KINDS for a in expr.args):
        return None
    if all(a.type.kind != "numeric" for a in (expr, *expr.args)):
        return None
    if expr.op == "round" and not _rounds(expr):
        return None
    compares = expr.op in _COMPARISONS
    args = tuple(_uncast(a, compares) for a in expr.args)
    wanted = args if compares else expr.args
    readers = [_reader(a.type, inner.type) for a, inner in zip(wanted, args, strict=True)]
    function, finish = _MAKERS[expr.op](expr), _writer(expr)

    def run(codes: Sequence[Words], interner: Interner) -> tuple[Words, Words]:
        columns = [read(c, interner) for read, c in zip(readers, codes, strict=True)]
        errors = np.zeros(len(codes[0]), dtype=np.int64)
        return finish(_each(function, columns, errors), errors, interner), errors

    return Batch(args, run)


def single_of(expr: Call, interner: Interner) -> Callable[[tuple[int, ...]], int] | None:
    """The same for one row, from the codes of its arguments, none of them NULL; it raises `RowFailure`. None unless all
    arguments are ints and decimals, whose codes are their digits, and the result is a numeric.

    >>> from everview.codes import decode_value
    >>> from everview.expr.nodes import ColumnRef
    >>> from everview.types import INT, decimal, numeric
    >>> average = Call(numeric(FREE), "numeric_average", (ColumnRef(decimal(2), 0), ColumnRef(INT, 1)))
    >>> interner = Interner()
    >>> decode_value(average.type, single_of(average, interner)((1000, 3)), interner)
    Decimal('3.3333333333333333')
    """
    if expr.op not in _MAKERS or expr.type.kind != "numeric" or expr.op == "round":
        return None
    if not all(a.type.kind in ("int", "decimal") for a in expr.args):
        return None
    function, text_of = _MAKERS[expr.op](expr), _text_of(expr.type)
    scales = [a.type.scale for a in expr.args]

    def run(codes: tuple[int, ...]) -> int:
        try:
            text = text_of(*function(*zip(codes, scales, strict=True)))
        except _Failure as failure:
            raise RowFailure(failure.args[0]) from None
        if not text:
            raise RowFailure(ERROR_OVERFLOW)
        return interner.packed_id("numeric", f'"{text}"')

    return run


def _each(function: Callable[..., Any], columns: Sequence[list[Digits]], errors: Words) -> list[Any]:
    """The function of each row; None where it failed."""
    try:
        return [function(*row) for row in zip(*columns, strict=True)]
    except _Failure:
        found: list[Any] = []
        for i, row in enumerate(zip(*columns, strict=True)):
            try:
                found.append(function(*row))
            except _Failure as failure:
                errors[i] = failure.args[0]
                found.append(None)
        return found


def _uncast(arg: Expr, compares: bool) -> Expr:
    """An int or decimal that is cast to a numeric with room for all its digits is read as it is; for a comparison, one
    that is cast to any numeric is.
    """
    if not isinstance(arg, Call) or arg.op != "cast_numeric":
        return arg
    inner, target = arg.args[0], arg.type
    if inner.type.kind not in ("int", "decimal"):
        return arg
    fits = target.scale >= inner.type.scale and _INT_DIGITS + target.scale - inner.type.scale <= target.width
    return inner if compares or target.scale == FREE or fits else arg


def _rounds(expr: Call) -> bool:
    if len(expr.args) == 1:
        return True
    by = expr.args[1]
    return isinstance(by, Literal) and type(by.value) is int and 0 <= by.value <= MOST_DIGITS


# ---- codes to digits


def _reader(wanted: DataType, given: DataType) -> Callable[[Words, Interner], list[Digits]]:
    """Read codes of one type as digits of another: a numeric of free scale has no trailing zeros, others have all."""
    if given.kind == "numeric":
        return _free if given.scale == FREE else lambda codes, interner: _scaled(codes, given.scale, interner)
    scale = given.scale
    if wanted.kind != "numeric" or wanted.scale == scale or (wanted.scale == FREE and not scale):
        return lambda codes, interner: [(code, scale) for code in codes.tolist()]
    if wanted.scale == FREE:
        return lambda codes, interner: [_trimmed(code, scale) for code in codes.tolist()]
    more, after = _POWERS[wanted.scale - scale], wanted.scale
    return lambda codes, interner: [(code * more, after) for code in codes.tolist()]


def _texts(codes: Words, interner: Interner) -> list[str]:
    """The texts of numerics; each stands in quotes, and none contains one."""
    payload, _, _ = interner.payloads(codes, "numeric")
    return payload.tobytes().decode("ascii")[1:-1].split('""')


def _scaled(codes: Words, scale: int, interner: Interner) -> list[Digits]:
    return [(int(text), scale) for text in _texts(codes, interner)]


def _free(codes: Words, interner: Interner) -> list[Digits]:
    found = []
    for text in _texts(codes, interner):
        whole, point, after = text.partition(".")
        found.append((int(whole + after), len(after)) if point else (int(text), 0))
    return found


def _trimmed(number: int, scale: int) -> Digits:
    while scale and not number % 10:
        number //= 10
        scale -= 1
    return number, scale


# ---- digits to codes


def _writer(expr: Call) -> Callable[[list[Any], Words, Interner], Words]:
    """A function from results to codes, which notes those that need too many digits."""
    declared = expr.type
    if declared.kind != "numeric":
        return lambda found, errors, interner: np.array([0 if x is None else x for x in found], dtype=np.int64)
    text_of = _text_of(declared)

    def write(found: list[Any], errors: Words, interner: Interner) -> Words:
        texts = []
        for i, digits in enumerate(found):
            text = "0" if digits is None else text_of(*digits)
            if not text:
                errors[i] = ERROR_OVERFLOW
            texts.append(text or "0")
        return interner.encode_packed("numeric", [f'"{text}"' for text in texts])

    return write


def _text_of(declared: DataType) -> Callable[[int, int], str]:
    return _free_text if declared.scale == FREE else _scaled_text(declared)


def _free_text(number: int, scale: int) -> str:
    """A number of free scale, without trailing zeros; empty if it has more than 38 digits on a side of the point."""
    text = str(number) if number >= 0 else str(-number)
    after = ""
    if scale:
        text = text.zfill(scale + 1)
        text, after = text[:-scale], text[-scale:].rstrip("0")
    if len(text) > MOST_DIGITS or len(after) > MOST_DIGITS:
        return ""
    return f"{'-' if number < 0 else ''}{text}{'.' if after else ''}{after}"


def _scaled_text(declared: DataType) -> Callable[[int, int], str]:
    """A number times 10**scale; empty if it has too many digits, or some beyond the scale."""
    limit, after = _POWERS[declared.width or MOST_DIGITS], declared.scale

    def text_of(number: int, scale: int) -> str:
        if scale != after:
            if scale < after:
                number *= _POWERS[after - scale]
            else:
                number, rest = divmod(number, _POWERS[scale - after])
                if rest:
                    return ""
        return str(number) if -limit < number < limit else ""

    return text_of


# ---- functions


def _add(expr: Call) -> Callable[..., Any]:
    def run(a: Digits, b: Digits) -> Digits:
        if a[1] == b[1]:
            return a[0] + b[0], a[1]
        (top, scale), (by, less) = (a, b) if a[1] > b[1] else (b, a)
        return top + by * _POWERS[scale - less], scale

    return run


def _subtract(expr: Call) -> Callable[..., Any]:
    add = _add(expr)
    return lambda a, b: add(a, (-b[0], b[1]))


def _multiply(expr: Call) -> Callable[..., Any]:
    return lambda a, b: (a[0] * b[0], a[1] + b[1])


def _divide(expr: Call) -> Callable[..., Any]:
    """Rounded, halves away from zero, to the scale of PostgreSQL's rule (`numeric_functions.quotient_scale`)."""
    given = expr.type.scale
    known: dict[Digits, tuple[int, int]] = {}

    def run(a: Digits, b: Digits) -> Digits:
        (top, after), (by, by_after) = a, b
        if not by:
            raise _Failure(ERROR_DIVISION)
        scale = given
        if given >= FREE:
            by_weight, by_leading = known.get(b) or known.setdefault(b, _leading(by, by_after))
            weight, leading = _leading(top, after)
            least = python_function_types.DIVISION_SCALE - 4 * (weight - by_weight - (leading <= by_leading))
            scale = min(max(least, after, by_after, 0), MOST_DIGITS)
        above, below = abs(top) * _POWERS[scale + by_after], abs(by) * _POWERS[after]
        found = (2 * above + below) // (2 * below)
        return -found if (top < 0) != (by < 0) else found, scale

    return run


def _leading(number: int, scale: int) -> tuple[int, int]:
    """Place and value of the first base-10,000 digit, which is PostgreSQL's base."""
    if not number:
        return 0, 0
    text = str(number) if number > 0 else str(-number)
    weight, first = divmod(len(text) - 1 - scale, 4)
    value = int(text[: first + 1])
    return weight, value * _POWERS[first + 1 - len(text)] if first >= len(text) else value


def _round_to(a: Digits, digits: int) -> Digits:
    """Halves away from zero."""
    number, scale = a
    if scale <= digits:
        return number, scale
    by = _POWERS[scale - digits]
    found = (2 * abs(number) + by) // (2 * by)
    return -found if number < 0 else found, digits


def _cast(expr: Call) -> Callable[..., Any]:
    digits = expr.type.scale
    return lambda a: _round_to(a, digits)


def _round(expr: Call) -> Callable[..., Any]:
    digits = int(expr.args[1].value) if len(expr.args) == 2 else 0  # type: ignore[attr-defined]
    return lambda a, *_: _round_to(a, digits)


def _limb(expr: Call) -> Callable[..., Any]:
    """Ten of a number's digits, with its sign (`numeric_functions.LIMB`)."""
    unit: int = LIMB ** int(expr.args[1].value)  # type: ignore[attr-defined]
    scale = min(expr.args[0].type.scale, MOST_DIGITS)

    def run(a: Digits, _: Digits) -> int:
        number: int = a[0] * _POWERS[scale - a[1]]
        return number // unit % LIMB if number >= 0 else -(-number // unit % LIMB)

    return run


def _compare(test: Callable[[Any, Any], bool]) -> Callable[[Call], Callable[..., Any]]:
    def run(a: Digits, b: Digits) -> bool:
        if a[1] == b[1]:
            return test(a[0], b[0])
        return test(a[0] * _POWERS[b[1]], b[0] * _POWERS[a[1]])

    return lambda expr: run


_COMPARISONS: dict[str, Callable[[Call], Callable[..., Any]]] = {
    "lt": _compare(operator.lt),
    "le": _compare(operator.le),
    "gt": _compare(operator.gt),
    "ge": _compare(operator.ge),
}

_MAKERS: dict[str, Callable[[Call], Callable[..., Any]]] = {
    "add": _add,
    "sub": _subtract,
    "mul": _multiply,
    "div": _divide,
    "numeric_average": _divide,
    "numeric_limb": _limb,
    "cast_numeric": _cast,
    "round": _round,
    "neg": lambda expr: lambda a: (-a[0], a[1]),
    "abs": lambda expr: lambda a: (abs(a[0]), a[1]),
    **_COMPARISONS,
}
"""Functions by name; each is made for the types of a call."""
