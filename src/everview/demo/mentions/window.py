"""A slide is a change of the table of open slots: those that are left behind go, those that are reached come.

Forwards, backwards, wider and narrower are the same thing. `Follower` makes slides a source of a pipeline, so that the
window follows a stream: whenever new mentions are in, it opens the slots they reach, some at a time.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import pyarrow as pa

from everview.demo.mentions.program import Program
from everview.io.source import Chunk, Source, Wanted


@dataclass(frozen=True)
class Window:
    """Slots first to last, the last not included."""

    first: int
    last: int

    def moved(self, slots: int) -> Window:
        """The window that many slots later, or earlier.

        >>> Window(10, 20).moved(-3)
        Window(first=7, last=17)
        """
        return Window(self.first + slots, self.last + slots)

    def changes_from(self, before: Window) -> tuple[list[int], list[int]]:
        """The slots that go and those that come.

        >>> Window(3, 6).changes_from(Window(2, 5))
        ([2], [5])
        >>> Window(0, 3).changes_from(Window(7, 9))
        ([7, 8], [0, 1, 2])
        """
        old, new = range(before.first, before.last), range(self.first, self.last)
        return [s for s in old if s not in new], [s for s in new if s not in old]


def slide(program: Program, before: Window, after: Window) -> float:
    """Move the window in one transaction; the seconds until all views are right."""
    gone, come = after.changes_from(before)
    started = time.perf_counter()
    with program.db.transaction():
        program.window.delete([(slot,) for slot in gone])
        program.window.insert([(slot,) for slot in come])
    return time.perf_counter() - started


class Follower(Source):
    """Slides of a window that follows the newest mention, as changes of the table of open slots."""

    def __init__(self, start: Window, step: int, moved: Callable[[Window, float], None]) -> None:
        self.window = start
        self.newest = start.last
        """The slot before which all mentions are known"""
        self._step = step
        self._moved = moved
        self._asked = 0.0

    def schema(self) -> pa.Schema:
        return pa.schema([pa.field("slot", pa.int64(), nullable=False), ("_diff", pa.int64())])

    def open(self, marks: Mapping[str, str], wanted: Wanted | None, snapshots: bool) -> None:
        """There is nothing to go on from: the window's own rows are its position."""

    def poll(self, limit: int | None) -> Chunk | None:
        after = self.window.moved(self._step)
        if after.last > self.newest:
            return None
        gone, come = after.changes_from(self.window)
        rows = pa.table({"slot": gone + come, "_diff": [-1] * len(gone) + [1] * len(come)})
        self._asked = time.perf_counter()
        return Chunk(f"slide to {after}", rows, {"last": str(after.last)})

    def committed(self, chunk: Chunk) -> None:
        seconds = time.perf_counter() - self._asked
        self.window = self.window.moved(self._step)
        self._moved(self.window, seconds)
