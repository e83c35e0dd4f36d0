"""Whole numbers that somebody has written, of any length.

Python refuses to read more than 4,300 digits. What people write as a limit, a place or a time is compared with numbers
of 64 bits, so a longer one need only be too large.
"""

from __future__ import annotations

TOO_LARGE = 10**40
"""Larger than every number that fits anywhere."""


def whole_number(text: str) -> int:
    """The number that decimal digits say, or `TOO_LARGE`.

    >>> whole_number("0042"), whole_number("9" * 5000) == TOO_LARGE
    (42, True)
    """
    digits = text.lstrip("0")
    return int(digits or "0") if len(digits) <= 40 else TOO_LARGE
