"""Variance and standard deviation of decimals and numerics: exact sums, and PostgreSQL's number of digits.

The engine sums 64-bit ints. A decimal's code has up to 18 digits, and its square 36. The code is therefore split into
limbs of five digits, and the sums of the limbs' products are maintained; the square is

    c = l0 + l1 * 10**5 + l2 * 10**10 + l3 * 10**15
    c * c = l0*l0 + 2*l0*l1 * 10**5 + (2*l0*l2 + l1*l1) * 10**10 + ... + l3*l3 * 10**30

Each coefficient is below 4 * 10**10, so a sum of 200 million of them fits. The limbs are compiled arithmetic. A numeric
is squared in Python, value by value, and its square is summed like other numerics (`everview.sql.select`).

For a changed group the rest is PostgreSQL's formula (numeric.c): (n Σx² - (Σx)²) / (n (n - 1)), rounded once, to as
many digits as a quotient has there.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Any

from everview.codes import packed
from everview.expr.functions import call
from everview.expr.nodes import Expr, Literal
from everview.expr.numeric_functions import quotient_scale
from everview.types import INT, DataType

Moment = Callable[..., Decimal | None]

_LIMB = 10**5
_LIMBS = 4


def squares(x: Expr) -> list[Expr]:
    """The coefficients of a decimal's square, lowest first, as ints to be summed.

    >>> from everview.expr.nodes import ColumnRef
    >>> from everview.types import decimal
    >>> len(squares(ColumnRef(decimal(2), 0)))
    7
    """
    limbs = [_limb(x, i) for i in range(_LIMBS)]
    found = []
    for power in range(2 * _LIMBS - 1):
        pairs = [(i, power - i) for i in range(_LIMBS) if i <= power - i < _LIMBS]
        terms = [_times(limbs[i], limbs[j], 1 if i == j else 2) for i, j in pairs]
        total = terms[0]
        for term in terms[1:]:
            total = call("add", total, term)
        found.append(total)
    return found


def _times(a: Expr, b: Expr, factor: int) -> Expr:
    product = call("mul", a, b)
    return product if factor == 1 else call("mul", product, Literal(INT, factor))


def _limb(x: Expr, at: int) -> Expr:
    """Five digits of a decimal's code; the uppermost limb has its sign, by rounding down."""
    scale = x.type.scale
    if at < _LIMBS - 1:
        x = call("mod", x, _code(_LIMB ** (at + 1), scale))
    return call("floordiv", x, _code(_LIMB**at, scale))


def _code(code: int, scale: int) -> Literal:
    """The decimal with a code."""
    return Literal(DataType("decimal", scale=scale), Decimal(code).scaleb(-scale))


def sum_of_squares(scale: int, *sums: int) -> Decimal:
    """Σx² from the sums of the coefficients of decimals of a scale.

    >>> sum_of_squares(1, 225, 0, 0, 0, 0, 0, 0)
    Decimal('2.25')
    """
    code = sum(part * _LIMB**i for i, part in enumerate(sums))
    return packed.numeric_value(code, 2 * scale)


def of_decimals(moment: Moment) -> Moment:
    """A moment of n, the scale, Σx and the coefficients' sums."""
    return _OF_DECIMALS[moment]


def _quotient(n: int, total: Decimal, squared: Decimal, parts: int) -> tuple[Fraction, int] | None:
    """(n Σx² - (Σx)²) / parts, and its number of digits after the point; None if it is zero."""
    rest = n * Fraction(squared) - Fraction(total) ** 2
    if rest <= 0:
        return None
    after = 2 * max(0, -int(total.as_tuple().exponent))
    scaled = rest * 10**after
    dividend = packed.numeric_value(scaled.numerator // scaled.denominator, after)
    return rest / parts, quotient_scale(dividend, Decimal(parts))


def _half_up(value: Fraction, scale: int) -> int:
    """A positive number times 10**scale, as the nearest int."""
    found: int = math.floor(value * 10**scale + Fraction(1, 2))
    return found


def _variance(n: int, total: Any, squared: Any, parts: int) -> Decimal | None:
    if total is None or squared is None or parts <= 0:
        return None
    found = _quotient(n, total, squared, parts)
    return Decimal(0) if found is None else packed.numeric_value(_half_up(*found), found[1])


def _deviation(n: int, total: Any, squared: Any, parts: int) -> Decimal | None:
    """The root of the rounded variance, rounded to as many digits, as in PostgreSQL."""
    variance = _variance(n, total, squared, parts)
    if variance is None or not variance:
        return variance
    scale = max(0, -int(variance.as_tuple().exponent))
    code = int(variance.scaleb(scale)) * 10**scale  # its root is the root's code
    root = math.isqrt(4 * code)  # twice the root: what is odd is at least a half
    return packed.numeric_value((root + 1) // 2, scale)


def var_samp(n: int, total: Any, squared: Any) -> Decimal | None:
    """The sample variance; NULL for fewer than two values.

    >>> var_samp(3, Decimal("8.0"), Decimal("24.50"))
    Decimal('1.5833333333333333')
    """
    return _variance(n, total, squared, n * (n - 1))


def var_pop(n: int, total: Any, squared: Any) -> Decimal | None:
    """The population variance."""
    return _variance(n, total, squared, n * n)


def stddev_samp(n: int, total: Any, squared: Any) -> Decimal | None:
    """The sample standard deviation."""
    return _deviation(n, total, squared, n * (n - 1))


def stddev_pop(n: int, total: Any, squared: Any) -> Decimal | None:
    """The population standard deviation."""
    return _deviation(n, total, squared, n * n)


def _squared(scale: int, sums: tuple[Any, ...]) -> Decimal | None:
    return None if any(part is None for part in sums) else sum_of_squares(scale, *sums)


def decimal_var_samp(n: int, scale: int, total: Any, *sums: Any) -> Decimal | None:
    """`var_samp` of decimals."""
    return var_samp(n, total, _squared(scale, sums))


def decimal_var_pop(n: int, scale: int, total: Any, *sums: Any) -> Decimal | None:
    """`var_pop` of decimals."""
    return var_pop(n, total, _squared(scale, sums))


def decimal_stddev_samp(n: int, scale: int, total: Any, *sums: Any) -> Decimal | None:
    """`stddev_samp` of decimals."""
    return stddev_samp(n, total, _squared(scale, sums))


def decimal_stddev_pop(n: int, scale: int, total: Any, *sums: Any) -> Decimal | None:
    """`stddev_pop` of decimals."""
    return stddev_pop(n, total, _squared(scale, sums))


_OF_DECIMALS: dict[Moment, Moment] = {
    var_samp: decimal_var_samp,
    var_pop: decimal_var_pop,
    stddev_samp: decimal_stddev_samp,
    stddev_pop: decimal_stddev_pop,
}
