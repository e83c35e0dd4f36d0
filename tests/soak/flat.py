"""Is a series flat? What is measured in equal windows of a run: the last third of them against the first.

The first windows do not count: caches fill, lists of batches grow to their usual length, and Python's allocator finds
its size. Of each third the median counts, so a few windows in which the machine was busy with something else do not.

CPU time is no constant, either: on a machine whose other core is busy, the same work takes half as long again. So a
fixed piece of work, the yardstick, is run among the calls, and what a call took is told in units of it.
"""

from __future__ import annotations

import json
import os
import statistics
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

WARMING = 0.25
"""Share of the windows, the first ones, that do not count."""


@dataclass(frozen=True)
class Bound:
    """How much higher the last third of a series may be than the first: by a share of that, and by an amount in any
    case.
    """

    share: float
    amount: float


@dataclass(frozen=True)
class Verdict:
    """A series in a few numbers."""

    first: float
    last: float
    allowed: float | None
    """how much higher the last third may be; None: it is told, not judged"""

    @property
    def flat(self) -> bool:
        return self.allowed is None or self.last - self.first <= self.allowed


def counted(values: Sequence[float]) -> Sequence[float]:
    """The windows after those of warming up."""
    return values[int(len(values) * WARMING) :]


def verdict(values: Sequence[float], bound: Bound | None) -> Verdict:
    """The medians of the first and the last third of the windows that count.

    >>> verdict([9.0, 1.0, 1.0, 1.0, 90.0, 1.0, 1.0, 1.2], Bound(0.1, 0.5))
    Verdict(first=1.0, last=1.1, allowed=0.5)
    """
    seen = counted(values)
    third = max(1, len(seen) // 3)
    first, last = (statistics.median(part) if part else 0.0 for part in (seen[:third], seen[-third:]))
    return Verdict(first, last, None if bound is None else max(bound.amount, bound.share * first))


class Yardstick:
    """A fixed piece of work of the kinds that a call of the load consists of: objects and texts, memory that no cache
    has, calls of the system. On a busy machine the times of small changes spread by 15 %, and by 7 % in units of it;
    without memory and system calls it would be 12 %.
    """

    def __init__(self) -> None:
        self._memory = np.arange(1 << 20, dtype=np.int64) * 2654435761 % (1 << 20)
        self._places = np.arange(5000, dtype=np.int64) * 7919 % (1 << 20)
        self._file = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115

    def measure(self) -> float:
        """Milliseconds of CPU that it takes now."""
        start = time.process_time()
        rows = [{"a": i, "b": str(i), "c": (i, i + 1)} for i in range(150)]
        json.loads(json.dumps([[row["a"], row["b"]] for row in rows]))
        sorted(rows, key=lambda row: str(row["b"]))
        self._memory[self._memory[self._places]]
        self._file.seek(0)
        self._file.write(b"x" * 200)
        os.fstat(self._file.fileno())
        return 1000 * (time.process_time() - start)


def table(verdicts: Mapping[str, Verdict]) -> list[str]:
    """Lines for people.

    >>> print(*table({"memory MB": Verdict(100.0, 130.0, 2.0), "disk MB": Verdict(1.0, 1.0, None)}), sep="\\n")
    measured                first third  last third    change   allowed
    memory MB                   100.000     130.000   +30.000     2.000  NOT FLAT
    disk MB                       1.000       1.000    +0.000         -
    """
    lines = [f"{'measured':<22}{'first third':>13}{'last third':>12}{'change':>10}{'allowed':>10}"]
    for name, seen in verdicts.items():
        allowed = "-" if seen.allowed is None else f"{seen.allowed:.3f}"
        line = f"{name:<22}{seen.first:>13.3f}{seen.last:>12.3f}{seen.last - seen.first:>+10.3f}{allowed:>10}"
        lines.append(line if seen.flat else line + "  NOT FLAT")
    return lines
