"""Mathematical functions."""

from __future__ import annotations

import decimal
import math
from collections.abc import Callable
from decimal import Decimal
from typing import Any

from everview.expr.library.signatures import Shelf
from everview.expr.string_functions import ERROR_MORE_ROWS, RowFailure
from everview.kernels.expressions.scalars import ERROR_DIVISION, ERROR_DOMAIN, ERROR_OVERFLOW

SHELF = Shelf()

_DOWN = decimal.Context(prec=120, rounding=decimal.ROUND_DOWN)
_HALF_UP = decimal.Context(prec=120, rounding=decimal.ROUND_HALF_UP)


def _of(function: Callable[..., float]) -> Callable[..., float]:
    """A Python math function: where it is undefined the row fails."""

    def safe(*args: float) -> float:
        try:
            return function(*args)
        except ValueError:
            raise RowFailure(ERROR_DOMAIN) from None
        except OverflowError:
            raise RowFailure(ERROR_OVERFLOW) from None

    return safe


def _trunc(x: Any, digits: int = 0) -> Any:
    """Truncate towards zero, to a number of digits after the point (before it, if negative)."""
    if isinstance(x, float):
        if math.isnan(x) or math.isinf(x) or digits > 300:
            return x
        return float(math.trunc(x)) if digits == 0 else float(_cut(Decimal(repr(x)), digits))
    cut = _cut(Decimal(x), digits)
    return int(cut) if isinstance(x, int) else cut.quantize(Decimal(1).scaleb(_exponent(x)), context=_DOWN)


def _round_to(x: Any, digits: int) -> Any:
    """Round to a number of digits after the point, or before it; halves away from zero."""
    if isinstance(x, float):
        return x if math.isnan(x) or math.isinf(x) or digits > 300 else float(_rounded(Decimal(repr(x)), digits))
    found = _rounded(Decimal(x), digits)
    return int(found) if isinstance(x, int) else found.quantize(Decimal(1).scaleb(_exponent(x)), context=_HALF_UP)


def _rounded(x: Decimal, digits: int) -> Decimal:
    if digits >= -_exponent(x):
        return x
    if x.adjusted() + digits < -1:  # less than half of that unit
        return Decimal(0)
    return _HALF_UP.quantize(x, Decimal(1).scaleb(-digits))


def _cut(x: Decimal, digits: int) -> Decimal:
    if digits >= -_exponent(x):
        return x
    scaled = _DOWN.scaleb(x, max(digits, -60))
    return _DOWN.scaleb(_DOWN.to_integral_value(scaled), -max(digits, -60))


def _exponent(x: Decimal) -> int:
    exponent = x.as_tuple().exponent
    assert isinstance(exponent, int)
    return exponent


def _cbrt(x: float) -> float:
    if math.isnan(x) or math.isinf(x) or x == 0:
        return x
    root = math.copysign(abs(x) ** (1 / 3), x)
    return root - (root**3 - x) / (3 * root * root)  # one Newton step makes 27 give 3


def _cot(x: float) -> float:
    tangent = math.tan(x)
    if tangent == 0:
        raise RowFailure(ERROR_DIVISION)
    return 1 / tangent


def _log(base: float, x: float) -> float:
    if base <= 0 or x <= 0:
        raise RowFailure(ERROR_DOMAIN)
    if base == 1:
        raise RowFailure(ERROR_DIVISION)
    if base in (2, 10):
        return math.log2(x) if base == 2 else math.log10(x)
    return math.log(x) / math.log(base)


def _factorial(n: int) -> int:
    if n < 0:
        raise RowFailure(ERROR_DOMAIN)
    if n > 20:
        raise RowFailure(ERROR_OVERFLOW)
    return math.factorial(n)


def _fitting(function: Callable[..., int]) -> Callable[..., int]:
    """A 64-bit result, or the row fails."""

    def safe(*args: int) -> int:
        found = function(*args)
        if not -(2**63) <= found < 2**63:
            raise RowFailure(ERROR_OVERFLOW)
        return found

    return safe


def _of_scaled(function: Callable[[int, int], int]) -> Callable[[Any, Any], Any]:
    """A function of ints, also of numbers with digits after the point: as if both were counted in their last digit."""
    of_ints = _fitting(function)

    def run(a: Any, b: Any) -> Any:
        if isinstance(a, int):
            return of_ints(a, b)
        scale = max(-_exponent(a), -_exponent(b), 0)
        found = function(*(int(_DOWN.scaleb(x, scale)) for x in (a, b)))
        return _DOWN.scaleb(Decimal(found), -scale)

    return run


def _bits_set(of: int | bytes) -> int:
    return (of & 0xFFFF_FFFF_FFFF_FFFF).bit_count() if isinstance(of, int) else int.from_bytes(of).bit_count()


def _sind(x: float) -> float:
    """Exact at multiples of 30 degrees, where the sine is 0, a half or 1."""
    if math.isinf(x):
        raise RowFailure(ERROR_OVERFLOW)
    turn = math.fmod(x, 360.0)
    exact = {0.0: 0.0, 30.0: 0.5, 90.0: 1.0, 150.0: 0.5, 180.0: 0.0, 210.0: -0.5, 270.0: -1.0, 330.0: -0.5}
    found = exact.get(abs(turn))
    return math.sin(math.radians(turn)) if found is None else math.copysign(1.0, turn) * found


def _cosd(x: float) -> float:
    if math.isinf(x):
        raise RowFailure(ERROR_OVERFLOW)
    return _sind(math.fmod(abs(x), 360.0) + 90.0)


def _tand(x: float) -> float:
    down = _cosd(x)
    if down == 0:
        return math.copysign(math.inf, _sind(x))
    return 1.0 if _sind(x) == down else -1.0 if _sind(x) == -down else _sind(x) / down


def _cotd(x: float) -> float:
    over = _tand(x)
    return math.copysign(math.inf, over) if over == 0 else 0.0 if math.isinf(over) else 1.0 / over


_DEGREES: dict[str, Callable[[float], float]] = {
    "sind": _sind,
    "cosd": _cosd,
    "tand": _tand,
    "cotd": _cotd,
    "asind": lambda x: math.degrees(math.asin(x)),
    "acosd": lambda x: math.degrees(math.acos(x)),
    "atand": lambda x: math.degrees(math.atan(x)),
}


def _width_bucket(x: float, low: float, high: float, count: int) -> int:
    """The index of the bucket of x when [low, high) is divided equally; 0 and count + 1 are outside."""
    if count <= 0 or low == high or any(map(math.isnan, (x, low, high))) or math.isinf(low) or math.isinf(high):
        raise RowFailure(ERROR_DOMAIN)
    if high < low:
        x, low, high = -x, -low, -high
    if x < low:
        return 0
    if x >= high:
        return count + 1
    return min(int((x - low) / (high - low) * count) + 1, count)


def _only_row(value: object, rows: int | None) -> object:
    if rows is not None and rows > 1:
        raise RowFailure(ERROR_MORE_ROWS)
    return value


_add = SHELF.add
_add("only_row", "any int -> same", _only_row, "a, unless it is one of several", nulls=True, maybe=True)
_add("trunc", "number [int] -> same", _trunc, "towards zero, with b digits after the point")
_add("round_to", "number int -> same", _round_to, "rounded to b digits after the point, or before it")
_add("cbrt", "float -> float", _cbrt, "cube root")
for _name in ("sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh"):
    _add(_name, "float -> float", _of(getattr(math, _name)), f"{_name} of radians" if len(_name) == 3 else _name)
_add("cot", "float -> float", _of(_cot), "1 / tan")
_add("atan2", "float float -> float", _of(math.atan2), "the angle of the point (b, a)")
_add("degrees", "float -> float", math.degrees, "radians in degrees")
_add("radians", "float -> float", math.radians, "degrees in radians")
_add("pi", "-> float", lambda: math.pi, "the number of the circle")
_add("log_base", "float float -> float", _of(_log), "logarithm of b to base a")
_add("factorial", "int -> int", _factorial, "n!")
_add("gcd", "int int -> int|numeric numeric -> numeric", _of_scaled(math.gcd), "greatest common divisor")
_add("lcm", "int int -> int|numeric numeric -> numeric", _of_scaled(math.lcm), "least common multiple")
_add("width_bucket", "float float float int -> int", _width_bucket, "which of d equal parts of [b, c) a lies in")
_add("bit_count", "int -> int|bytes -> int", _bits_set, "bits that are set")
for _name, _in_degrees in _DEGREES.items():
    _add(_name, "float -> float", _of(_in_degrees), f"{_name[:-1]} of degrees, or in degrees")
_add("atan2d", "float float -> float", lambda y, x: math.degrees(math.atan2(y, x)), "atan2 in degrees")
