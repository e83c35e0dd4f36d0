"""How much of a list of batches would be left if it were merged: what bounds a store by the data that is alive.

Rows that were deleted stay until a merge meets both the row and its deletion, at times that nobody tells apart any
more. Sizes do not say when that is worth while: a large batch may hold rows that cancel each other since its history
has passed, and small ones may delete most of a large one. So every large batch carries a tally, made when it is
written: its latest time, and how many different rows it adds and takes away over all its times.

From the tallies of a list follows the least that a merge may leave (`least`): the rows that one batch adds, without
those that the others take away. A list is *wasteful* when it has more than twice that. After a merge it has exactly
what is alive, and to become wasteful again it needs new rows for at least a fifth of it. So each row pays for a few
rows of rewriting, however long the store lives, and the rows of a list are at most twice those that are alive.

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
"""Rows of a list beyond twice those alive that are not worth a merge."""

PIECE_BYTES = 1 << 24
"""Size of the pieces in which a batch is counted."""


@dataclass(frozen=True)
class Tally:
    """What is known of a batch: its latest time, how many rows it adds, and how many it takes away (or changes: see
    `of`).
    """

    until: int
    up: int
    down: int

    def __add__(self, other: Tally) -> Tally:
        """The tally of two pieces of one batch, which have no row in common."""
        return Tally(max(self.until, other.until), self.up + other.up, self.down + other.down)

    def on(self, ref: Ref) -> Ref:
        """A batch with its tally."""
        return replace(ref, until=self.until, up=self.up, down=self.down)


def of(image: Image, until: int, *, apart: bool) -> Tally:
    """The tally of a batch. `apart`: it is of a loop, whose rounds are told apart for ever.

    A row counts as added if its diffs add up to more than nothing, else, unless they add up to nothing, as taken away.
    Where rows have several diffs the first decides: to take a row away that it added, it must become less.

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
    """Rows added and rows taken away; `apart`: no row is there twice."""
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
    """The tally that a batch carries; none if it is small, or older than tallies."""
    return None if ref.until < 0 else Tally(ref.until, ref.up, ref.down)


def least(tallies: Sequence[Tally | None]) -> int:
    """The fewest rows that merging batches may leave, where all but those without tally are known; what is not known
    takes away nothing here (see `wasteful`).

    A row that a batch adds is gone only if another takes it away. One that a batch takes away (a row whose first diff
    does not say which, or of a collection of negative rows) any other may undo.
    """
    given = [t for t in tallies if t is not None]
    up, down = sum(t.up for t in given), sum(t.down for t in given)
    left = (max(t.up - (down - t.down), 0) + max(t.down - (up + down - t.up - t.down), 0) for t in given)
    return max(left, default=0)


def wasteful(refs: Sequence[Ref], settled: int) -> Sequence[Ref]:
    """The first batches of a list, if merging them is worth while: up to the first that has a time later than
    `settled`. Those without tally count as taking away as many rows as they have.

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
