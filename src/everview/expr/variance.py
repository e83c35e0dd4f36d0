"""Variance and standard deviation from sums, so that a change costs the same for groups of any size.

The variance is (Σx² - (Σx)²/n) / n: a small difference of large numbers when values are close together and far from
zero, of which doubles may retain nothing. Each x and each x² is therefore split into a leading part of few digits,
whose sum is exact as long as the values are similar (which is when it matters), and a remainder, whose sum may round:

    x  = x1 + x2        (Veltkamp: 26 bits and the rest)
    x² = p + e          (Dekker: the rounded square and its error, exactly)
    p  = p1 + p2        (24 bits and the rest)

The engine maintains the sums of x1, x2, p1, p2 and e; for a changed group the rest is exact arithmetic on six numbers.
Values whose square is too large for the engine's exact sums (from 2**63), infinities and NaN are errors of their rows.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

from everview.expr import functions
from everview.expr.functions import call
from everview.expr.nodes import Expr, Literal
from everview.types import FLOAT, INT

Moment = Callable[..., float | None]

_LIMIT = 2.0**63

_TINY = 2.0**-450
"""Values below that are treated as zero: products of their parts would be too small for doubles, which is an error."""

NOISE = Fraction(1, 2**100)
"""The rounding error of the squares when all values are equal: e has 53 bits and is 2**53 times smaller than p, and its
sum is rounded several times. A variance below that is treated as zero.
"""

_OLD_NOISE = Fraction(1, 2**72)
"""The same for views created by an older version, which keep the sum of p2 + e with 53 bits."""


def parts(x: Expr) -> tuple[Expr, Expr, Expr, Expr, Expr]:
    """The five expressions to be summed: x1, x2, p1, p2, e."""
    x = functions.cast(x, FLOAT.optional(x.type.nullable))
    too_large = functions.cast(functions.cast(x, INT), FLOAT)  # fails, for such rows only
    x = call("case", call("lt", call("abs", x), Literal(FLOAT, _LIMIT)), x, too_large)
    x = call("case", call("lt", call("abs", x), Literal(FLOAT, _TINY)), Literal(FLOAT, 0.0), x)
    x1, x2 = _cut(x, 27)
    p = call("mul", x, x)
    cross = call("mul", Literal(FLOAT, 2.0), call("mul", x1, x2))
    e = call("add", call("add", call("sub", call("mul", x1, x1), p), cross), call("mul", x2, x2))
    p1, p2 = _cut(p, 29)
    return x1, x2, p1, p2, e


def _cut(x: Expr, bits: int) -> tuple[Expr, Expr]:
    """The leading 53 - bits bits of a float, and the rest."""
    scaled = call("mul", x, Literal(FLOAT, 2.0**bits + 1))
    high = call("sub", scaled, call("sub", scaled, x))
    return high, call("sub", x, high)


def _squares(n: int, *sums: float | None) -> Fraction | None:
    """n times the sum of squared distances from the mean."""
    if any(s is None for s in sums):
        return None
    s1, s2, *squares = (Fraction(s) for s in sums if s is not None)
    all_squares = n * sum(squares, Fraction(0))
    found = all_squares - (s1 + s2) ** 2
    return found if found > all_squares * (NOISE if len(squares) > 2 else _OLD_NOISE) else Fraction(0)


def var_samp(n: int, *sums: float | None) -> float | None:
    """The sample variance; NULL for fewer than two values. `sums` are those of `parts`.

    >>> var_samp(2, 4.0, 0.0, 10.0, 0.0, 0.0)
    2.0
    """
    squares = _squares(n, *sums)
    return None if squares is None or n < 2 else float(squares / (n * (n - 1)))


def var_pop(n: int, *sums: float | None) -> float | None:
    """The population variance."""
    squares = _squares(n, *sums)
    return None if squares is None or n < 1 else float(squares / (n * n))


def stddev_samp(n: int, *sums: float | None) -> float | None:
    """The sample standard deviation."""
    found = var_samp(n, *sums)
    return None if found is None else math.sqrt(found)


def stddev_pop(n: int, *sums: float | None) -> float | None:
    """The population standard deviation."""
    found = var_pop(n, *sums)
    return None if found is None else math.sqrt(found)
