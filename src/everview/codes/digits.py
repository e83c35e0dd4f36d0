"""Numbers that somebody has written, of any length.

Python refuses to read more than 4,300 digits. What people write as a limit, a place or a time is compared with numbers
of 64 bits, so a longer one need only be too large.
"""

from __future__ import annotations

import math

TOO_LARGE = 10**40
"""Larger than every number that fits anywhere."""


def whole_number(text: str) -> int:
    """The number that decimal digits say, or `TOO_LARGE`.

    >>> whole_number("0042"), whole_number("9" * 5000) == TOO_LARGE
    (42, True)
    """
    digits = text.lstrip("0")
    return int(digits or "0") if len(digits) <= 40 else TOO_LARGE


def float_of(text: str) -> float:
    """The double that a text says; `OverflowError` if it is too large for one, or so small that nothing is left of it.

    >>> float_of(" 1e3 "), float_of("-Infinity")
    (1000.0, -inf)
    """
    if "_" in text:
        raise ValueError(text)
    found = float(text)
    if (found in (math.inf, -math.inf) and "n" not in text.lower()) or (
        found == 0 and any(digit in "123456789" for digit in text.lower().partition("e")[0])
    ):
        raise OverflowError(text)
    return found
