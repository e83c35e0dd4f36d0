"""Parsing numbers of any length.

Python refuses to parse more than 4,300 digits. Limits, positions and times are compared with 64-bit numbers, so for
longer ones it is enough to return something too large.
"""

from __future__ import annotations

import math

TOO_LARGE = 10**40
"""Larger than every number that fits anywhere."""


def whole_number(text: str) -> int:
    """The number with these decimal digits, or `TOO_LARGE`.

    >>> whole_number("0042"), whole_number("9" * 5000) == TOO_LARGE
    (42, True)
    """
    digits = text.lstrip("0")
    return int(digits or "0") if len(digits) <= 40 else TOO_LARGE


def float_of(text: str) -> float:
    """Parse a double; `OverflowError` if it overflows or underflows to zero.

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
