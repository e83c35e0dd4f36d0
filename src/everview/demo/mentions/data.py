"""Mentions: who spoke to whom, when, about what. From a file of `src dst unixtime` lines, or made up.

Time is cut into *slots* (an hour each, if the data lasts long enough), because a window over slots is a table: the
slots that are open. A slide deletes some and inserts others, and the join with the mentions does the rest.

Such files have no tags. Tags are made up here, always the same: everybody has a field of their own, by number, and a
mention has the field of the person mentioned, one in four that of the person who writes. The story says so.
"""

from __future__ import annotations

import gzip
import random
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from everview.errors import InputError

Ints = NDArray[np.int64]

SHARED = Path(__file__).resolve().parents[5] / "shared" / "data" / "sx-mathoverflow.txt.gz"
"""Where a checkout's neighbour keeps the real data."""

HOUR = 3600
TAGS = (
    "algebraic-geometry",
    "algebraic-topology",
    "category-theory",
    "combinatorics",
    "differential-geometry",
    "functional-analysis",
    "graph-theory",
    "group-theory",
    "logic",
    "number-theory",
    "probability",
    "set-theory",
)
"""In alphabetical order, so that numbers compare as names do."""


@dataclass(frozen=True)
class Mentions:
    """Mentions in order of time; `tag` holds positions in TAGS."""

    origin: str
    """Where they come from, for people"""
    start: int
    """Unix time at which slot 0 begins"""
    slot_seconds: int
    slot: Ints
    src: Ints
    dst: Ints
    tag: Ints

    def __len__(self) -> int:
        return len(self.slot)

    def between(self, first: int, last: int) -> Mentions:
        """The mentions of slots first to last, the last not included."""
        a, b = np.searchsorted(self.slot, [first, last])
        return replace(self, slot=self.slot[a:b], src=self.src[a:b], dst=self.dst[a:b], tag=self.tag[a:b])

    def to_arrow(self) -> pa.Table:
        """As rows of the table `mention`."""
        names = pa.array(TAGS)
        return pa.table({"slot": self.slot, "src": self.src, "dst": self.dst, "tag": names.take(pa.array(self.tag))})


def load(path: Path | None, slots: int) -> Mentions:
    """The last `slots` slots of a file, of the real data if it is at hand, or else of made-up mentions."""
    if path is None and not SHARED.exists():
        return _in_slots("made-up mentions (the file sx-mathoverflow is not at hand)", *made_up(slots), slots)
    path = path or SHARED
    return _in_slots(f"{path.name}: who answered or commented whom", *read(path), slots)


def read(path: Path) -> tuple[Ints, Ints, Ints]:
    """Who, whom and when, as the lines of a file say."""
    if not path.is_file():
        raise InputError("E_NO_FILE", f"there is no file {path}", "give a file of lines: src dst unixtime")
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
            rows = np.array(file.read().split(), dtype=np.int64).reshape(-1, 3)
    except (ValueError, OSError) as error:
        raise InputError(
            "E_FORMAT", f"{path} cannot be read as mentions: {error}", "every line is: src dst unixtime, whole numbers"
        ) from None
    if len(np.unique(rows[:, 2])) < 2:
        raise InputError("E_FORMAT", f"{path} has no two different times", "a window needs time to slide over")
    return rows[:, 0], rows[:, 1], rows[:, 2]


def _in_slots(origin: str, src: Ints, dst: Ints, time: Ints, slots: int) -> Mentions:
    """Cut time into slots, an hour each or as short as needed to have enough of them, and keep the newest."""
    order = np.argsort(time, kind="stable")
    src, dst, time = src[order], dst[order], time[order]
    end = int(time[-1]) + 1
    seconds = max(1, min(HOUR, (end - int(time[0])) // slots))
    start = end - slots * seconds
    start -= start % seconds
    kept = time >= start
    return Mentions(
        origin, start, seconds, (time[kept] - start) // seconds, src[kept], dst[kept], _tags(src, dst, time)[kept]
    )


def _tags(src: Ints, dst: Ints, time: Ints) -> Ints:
    """See the module's docstring. Multiplication by an odd constant is the hash."""
    about = np.where((time ^ src) % 4 == 0, src, dst)
    return ((about * 2654435761) >> 7) % len(TAGS)


def made_up(slots: int, per_slot: int = 8, people: int = 2500, seed: int = 1) -> tuple[Ints, Ints, Ints]:
    """People who write much and people who write little, within circles; every third mention answers a recent one."""
    dice = random.Random(seed)
    circles = 60
    recent: list[tuple[int, int]] = []
    rows = []
    begin = 1_735_689_600  # 2025-01-01
    for number in range((slots + 1) * per_slot):
        if recent and dice.random() < 0.35:
            dst, src = recent[dice.randrange(len(recent))]
        else:
            src = int(people * dice.random() ** 2.5)
            circle = src % circles if dice.random() < 0.9 else dice.randrange(circles)
            dst = int(people / circles * dice.random() ** 2) * circles + circle
        rows.append((src, dst, begin + number * HOUR // per_slot))
        recent = [*recent[-40:], (src, dst)]
    matrix = np.array(rows, dtype=np.int64)
    return matrix[:, 0], matrix[:, 1], matrix[:, 2]
