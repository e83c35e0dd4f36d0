"""`X = range(0, 10)`: a row for every number, as in Python's range."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from everview.errors import InputError

MOST_NUMBERS = 10_000_000
"""Maximum size of a range, to protect against filling the memory by mistake."""


@dataclass(frozen=True)
class Range:
    """Maps rows with a start, a stop and optionally a step after `width` columns to rows with a number there.

    >>> Range(1)("a", 0, 3), Range(0)(5, 0, -2), Range(0)(3, 1)
    ([('a', 0), ('a', 1), ('a', 2)], [(5,), (3,), (1,)], [])
    """

    width: int

    @property
    def __name__(self) -> str:
        return "range"

    def __call__(self, *row: Any) -> list[tuple[Any, ...]]:
        bounds = row[self.width :]
        if None in bounds:
            return []
        if bounds[2:] == (0,):
            raise InputError("E_RANGE", "a range cannot go in steps of 0", "leave the step out, or give another")
        numbers = range(*bounds)
        if len(numbers) > MOST_NUMBERS:
            raise InputError("E_RANGE", f"a range of {len(numbers)} numbers; {MOST_NUMBERS} is the most", "narrow it")
        return [(*row[: self.width], number) for number in numbers]
