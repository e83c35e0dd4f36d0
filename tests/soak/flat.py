"""Is a series flat? What is measured in equal windows of a run, and how much a straight line through it rises.

The line's slope is the median of the slopes between all pairs of windows (Theil and Sen): a few windows in which the
machine was busy with something else do not bend it. The first windows do not count: caches fill, lists of batches grow
to their usual length, and Python's allocator finds its size.
"""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

WARMING = 0.25
"""Share of the windows, the first ones, that do not count."""


@dataclass(frozen=True)
class Bound:
    """How much a series may rise from the first window that counts to the last: by a share of its median, and by an
    amount in any case.
    """

    share: float
    amount: float


def rise(values: Sequence[float]) -> float:
    """How much the line through a series rises from its first value to its last.

    >>> rise([5.0, 5.0, 5.0, 90.0, 5.0, 5.0]), rise([1.0, 2.0, 3.0, 4.0])
    (0.0, 3.0)
    """
    if len(values) < 2:
        return 0.0
    pairs = itertools.combinations(enumerate(values), 2)
    return statistics.median((b - a) / (j - i) for (i, a), (j, b) in pairs) * (len(values) - 1)


def counted(values: Sequence[float]) -> Sequence[float]:
    """The windows after those of warming up."""
    return values[int(len(values) * WARMING) :]


def verdict(values: Sequence[float], bound: Bound) -> dict[str, float | bool]:
    """A series in a few numbers, and whether it is flat.

    >>> verdict([9.0, 1.0, 1.0, 1.0], Bound(0.1, 0.5))
    {'median': 1.0, 'rise': 0.0, 'allowed': 0.5, 'flat': True}
    """
    seen = counted(values)
    middle = statistics.median(seen) if seen else 0.0
    allowed = max(bound.amount, bound.share * middle)
    found = rise(seen)
    return {"median": round(middle, 6), "rise": round(found, 6), "allowed": round(allowed, 6), "flat": found <= allowed}
