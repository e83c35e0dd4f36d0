"""Expands rows by their multiplicity, if memory permits.

A view holds each row once, with its multiplicity, which may be any number below 2**62. A view of a few kilobytes can
therefore have more rows than any machine has memory for, and a system that overcommits memory would kill the process.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

import numpy as np
import numpy.typing as npt

from everview.errors import MemoryLimitError

UNCHECKED_ROWS = 2_000_000
"""Up to this many rows are not checked."""

_CGROUP = Path("/sys/fs/cgroup")


def repeated(columns: npt.NDArray[np.int64], counts: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Rows (columns of an array), each repeated by its count; rows with a count below one are dropped.

    >>> repeated(np.array([[7, 8], [1, 2]]), np.array([2, 1])).tolist()
    [[7, 7, 8], [1, 1, 2]]
    >>> repeated(np.array([[7]]), np.array([2**61]))
    Traceback (most recent call last):
        ...
    everview.errors.MemoryLimitError: [E_MEMORY] there are 2,305,843,009,213,693,952 rows, about ... GB; ...
      hint: ...
    """
    if not len(counts) or counts.max() <= 1 <= counts.min():
        return columns
    positive = np.maximum(counts, 0)
    check_room(int(positive.sum(dtype=np.float64)), 8 * len(columns))  # the sum of int64 could overflow
    return np.ascontiguousarray(np.repeat(columns, positive, axis=1))


def check_room(rows: int, bytes_each: int) -> None:
    """Refuse to expand more rows than there is memory for."""
    if rows <= UNCHECKED_ROWS:
        return
    room, wanted = available(), rows * bytes_each
    if wanted > room:
        raise MemoryLimitError(
            "E_MEMORY",
            f"there are {rows:,} rows, about {wanted / 1e9:,.0f} GB; {room / 1e9:,.1f} GB of memory are free",
            "read counts(), which names each row once, or fewer rows: head(n), LIMIT",
        )


def available() -> int:
    """Bytes of available memory, of the machine or of the container.

    >>> available() > 1_000_000
    True
    """
    found = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 2**62
    with suppress(OSError, ValueError, StopIteration):  # the page cache can be reclaimed
        lines = Path("/proc/meminfo").read_text().splitlines()
        found = 1024 * int(next(line for line in lines if line.startswith("MemAvailable")).split()[1])
    with suppress(OSError, ValueError):
        most = int((_CGROUP / "memory.max").read_text())
        found = min(found, max(most - int((_CGROUP / "memory.current").read_text()), 0))
    return found
