"""Estimates how much of a list of batches a merge would leave, which bounds the size of a store by its live data.

Deleted rows stay until a merge meets both the row and its deletion, at times that are no longer distinguished. Sizes
alone do not tell when that is worthwhile: a large batch may hold rows that cancel since its history has passed, and
small ones may delete most of a large one. Every large batch therefore carries a tally, computed when it is written: its
latest time, and how many distinct rows it adds and removes over all its times.

The tallies of a list give a lower bound of what a merge leaves (`least`): the rows that one batch adds, without those
that the others remove. A list is *wasteful* when it has more than twice that. After a merge it has exactly the live
rows, and to become wasteful again it needs new rows for at least a fifth of it. The amortised cost is therefore a few
rewritten rows per row, and a list has at most twice its live rows.

>>> base, later = Tally(5, 1000, 0), Tally(6, 0, 400)
>>> least([base, later]), least([Tally(7, 600, 0)])
(600, 600)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import takewhile

import numpy as np

from everview.store.batches import Image
from everview.store.chunked_merge import cut
from everview.store.manifest import Ref

GARBAGE_ROWS = 1024
"""Rows of a list beyond twice the live ones that are not worth a merge."""

PIECE_BYTES = 1 << 24
"""Size of the pieces in which a batch is counted."""


@dataclass(frozen=True)
class Tally:
    """Statistics of a batch: its latest time, how many rows it adds, and how many it removes (or changes: see `of`)."""

    until: int
    up: int
    down: int

    def __add__(self, other: Tally) -> Tally:
        """The tally of two disjoint pieces of one batch."""
        return Tally(max(self.until, other.until), self.up + other.up, self.down + other.down)

    def on(self, ref: Ref) -> Ref:
        """A batch with its tally."""
        return replace(ref, until=self.until, up=self.up, down=self.down)


def of(image: Image, until: int, *, apart: bool) -> Tally:
    """The tally of a batch. `apart`: it belongs to a loop, whose rounds stay distinct forever.

    A row counts as added if its diffs have a positive sum, and as removed if the sum is negative. If rows have several
    diffs the first decides: to remove a row that it added, it must decrease.

    >>> rows, times = np.array([[1, 1, 2, 3]]), np.array([1, 2, 2, 2])
    >>> image = Image.of(rows, times, np.array([[1, -1, 1, -1]]))
    >>> of(image, 2, apart=False), of(image, 2, apart=True)
    (Tally(until=2, up=1, down=1), Tally(until=2, up=2, down=2))
    """
    if image.diff is not None and (apart or image.time is not None):
        return Tally(until, *((image.rows, 0) if image.diff > 0 else (0, image.rows)))
    found = Tally(until, 0, 0)
    for (piece,) in cut([image], PIECE_BYTES):
        found += Tally(until, *_counted(piece, apart or piece.time is not None))
    return found


def _counted(image: Image, apart: bool) -> tuple[int, int]:
    """Rows added and rows removed; `apart`: no row occurs twice."""
    sums = image.weights()
    if not apart:
        columns = image.columns()
        first = np.ones(image.rows, dtype=np.bool_)
        first[1:] = False
        for column in columns:
            first[1:] |= column[1:] != column[:-1]
        sums = np.add.reduceat(sums, np.flatnonzero(first), axis=1)
    up = int((sums[0] > 0).sum())
    return up, int(sums.any(axis=0).sum()) - up


def latest(image: Image) -> int:
    """The latest time of a batch outside loops."""
    return image.time if image.time is not None else int(image.times().max())


def known(ref: Ref) -> Tally | None:
    """The tally of a batch; none if it is small, or older than tallies."""
    return None if ref.until < 0 else Tally(ref.until, ref.up, ref.down)


def least(tallies: Sequence[Tally | None]) -> int:
    """A lower bound of the rows that a merge leaves, from the known tallies; unknown ones remove nothing here (see
    `wasteful`).

    A row added by one batch disappears only if another removes it. A removal (of a row whose first diff does not
    decide, or of a collection with negative rows) may be undone by any other batch.
    """
    given = [t for t in tallies if t is not None]
    up, down = sum(t.up for t in given), sum(t.down for t in given)
    left = (max(t.up - (down - t.down), 0) + max(t.down - (up + down - t.up - t.down), 0) for t in given)
    return max(left, default=0)


def wasteful(refs: Sequence[Ref], settled: int) -> Sequence[Ref]:
    """The first batches of a list, if merging them is worthwhile: up to the first with a time later than `settled`.
    Those without a tally are assumed to remove as many rows as they have.

    >>> old, deletions = Ref(10_000, 8, "a", until=3, up=10_000), Ref(6_000, 8, "b", until=9, down=6_000)
    >>> [len(wasteful([old, deletions], time)) for time in (5, 9)]
    [0, 2]
    >>> len(wasteful([Ref(10_000, 8, "written by an earlier Everview")], 5))
    1
    """
    first = list(takewhile(lambda ref: ref.until <= settled, refs))
    unknown = sum(ref.rows for ref in first if ref.until < 0)
    alive = max(least([known(ref) for ref in first]) - unknown, 0)
    return first if sum(ref.rows for ref in first) > 2 * alive + GARBAGE_ROWS else ()
