"""Finds the clock followers that have work: those of changed tables, and those whose time has come.

A session may have a thousand views with conditions on now(), and a transaction concerns few of them. Nothing here
iterates over all followers: each table has a list of its own, and a heap holds the first due time of each follower.
Heap entries go stale as due times are taken and followers are dropped; this is detected when an entry is popped. A
queue of due times notifies the agenda when it gets an earlier first one.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from everview.session.clock.follower import Follower
    from everview.session.table import Table

BULK_MOMENTS = 64
"""Number of due times from which the whole index is scanned instead of looking up single keys."""

Words = npt.NDArray[np.int64]
Rank = tuple[bool, int]


class Agenda:
    """The followers of each table, and which one is due next."""

    def __init__(self) -> None:
        self._of: dict[Table, dict[Rank, Follower]] = {}
        self.ranked: dict[Rank, Follower] = {}
        """all followers, by rank"""
        self._heap: list[tuple[int, Rank]] = []
        self._added = 0

    @property
    def followers(self) -> list[Follower]:
        """All followers in order. Those that change a table itself come first: what leaves a table also leaves its
        mirrors.
        """
        return [self.ranked[rank] for rank in sorted(self.ranked)]

    def __len__(self) -> int:
        return len(self.ranked)

    def add(self, follower: Follower) -> None:
        self._added += 1
        rank = (not follower.owner, self._added)
        self.ranked[rank] = follower
        self._of.setdefault(follower.table, {})[rank] = follower
        follower.queue.tell(partial(self._note, rank))

    def remove(self, gone: Callable[[Follower], bool]) -> None:
        """Remove the followers that satisfy a predicate."""
        for rank, follower in [*self.ranked.items()]:
            if gone(follower):
                del self.ranked[rank]
                there = self._of[follower.table]
                del there[rank]
                if not there:
                    del self._of[follower.table]

    def restore(self, ranked: dict[Rank, Follower]) -> None:
        """Restore a saved list of followers; their due times have not changed."""
        self.remove(lambda follower: follower not in ranked.values())
        for rank, follower in ranked.items():
            self.ranked[rank] = follower
            self._of.setdefault(follower.table, {})[rank] = follower

    def of(self, table: Table) -> list[Follower]:
        """The followers of one table, in order."""
        there = self._of.get(table)
        return [there[rank] for rank in sorted(there)] if there else []

    def next(self) -> int | None:
        """The next time at which something is due."""
        while self._heap:
            moment, rank = self._heap[0]
            follower = self.ranked.get(rank)
            first = follower.queue.first if follower is not None else None
            if first == moment:
                return moment
            if first is not None and first > moment:
                heapq.heapreplace(self._heap, (first, rank))
            else:  # an earlier one has been queued as well
                heapq.heappop(self._heap)
        return None

    def turns(self, now: int) -> Turns:
        """The followers that have work by then."""
        due: list[tuple[int, Rank]] = []
        while True:
            moment = self.next()
            if moment is None or moment > now:
                break
            due.append(heapq.heappop(self._heap))
        for entry in due:  # they stay queued until their due times are taken
            heapq.heappush(self._heap, entry)
        return Turns(self.ranked, self._of, {rank for _, rank in due})

    def _note(self, rank: Rank, moment: int) -> None:
        heapq.heappush(self._heap, (moment, rank))


class Turns:
    """The followers with work in one transaction, in order: a change made by one may affect those after it."""

    def __init__(self, ranked: dict[Rank, Follower], of: dict[Table, dict[Rank, Follower]], due: set[Rank]) -> None:
        self._ranked = ranked
        self._of = of
        self._queued = due
        self._todo = sorted(due)  # a heap
        self._rank: Rank = (False, 0)

    def touch(self, table: Table) -> None:
        """Record that this table is changed."""
        for rank in self._of.get(table, ()):
            if rank > self._rank and rank not in self._queued:
                self._queued.add(rank)
                heapq.heappush(self._todo, rank)

    def __iter__(self) -> Iterator[Follower]:
        while self._todo:
            self._rank = heapq.heappop(self._todo)
            yield self._ranked[self._rank]


class Moments:
    """A queue of distinct due times. Single ones are kept in a heap, bulk ones in arrays at a tenth of the memory.

    >>> queue = Moments()
    >>> queue.add([30, 10, 20, 10])
    >>> queue.take(20), queue.due(25), len(queue)
    ([10, 20], False, 1)
    >>> queue.add(np.arange(0, 10_000, 10))
    >>> queue.take(20), len(queue)
    ([0, 10, 20], 998)
    """

    def __init__(self) -> None:
        self._heap: list[int] = []
        self._queued: set[int] = set()
        self._runs: list[Words] = []  # each sorted
        self._told: Callable[[int], None] = _nobody

    def __len__(self) -> int:
        return len(self._heap) + sum(map(len, self._runs))

    @property
    def first(self) -> int | None:
        """The earliest."""
        first = self._heap[0] if self._heap else None
        for run in self._runs:
            if first is None or run[0] < first:
                first = int(run[0])
        return first

    def tell(self, told: Callable[[int], None]) -> None:
        """Register a callback for the first due time, called now and whenever it moves earlier."""
        self._told = told
        if self.first is not None:
            told(self.first)

    def copy(self) -> Moments:
        """A copy of the queue without its callback."""
        other = Moments()
        other.become(self)
        return other

    def become(self, other: Moments) -> None:
        """Take over the contents of another queue."""
        self._heap, self._queued, self._runs = list(other._heap), set(other._queued), list(other._runs)
        if self.first is not None:
            self._told(self.first)

    def clear(self) -> None:
        """Remove everything."""
        self._heap, self._queued, self._runs = [], set(), []

    def add(self, moments: Sequence[int] | Words) -> None:
        """Add due times."""
        before = self.first
        self._add(moments)
        first = self.first
        if first is not None and (before is None or first < before):
            self._told(first)

    def _add(self, moments: Sequence[int] | Words) -> None:
        if len(moments) >= BULK_MOMENTS:
            self._runs.append(np.unique(np.asarray(moments, dtype=np.int64)))
            while len(self._runs) > 1 and len(self._runs[-2]) <= 2 * len(self._runs[-1]):
                self._runs.append(np.unique(np.concatenate([self._runs.pop(), self._runs.pop()])))
            return
        for moment in map(int, moments):
            if moment not in self._queued:
                self._queued.add(moment)
                heapq.heappush(self._heap, moment)

    def due(self, now: int) -> bool:
        """Whether anything is due by now."""
        return bool(self._heap and self._heap[0] <= now) or any(run[0] <= now for run in self._runs)

    def take(self, now: int) -> list[int]:
        """Remove and return the times up to now."""
        taken = []
        while self._heap and self._heap[0] <= now:
            taken.append(heapq.heappop(self._heap))
        self._queued.difference_update(taken)
        if any(run[0] <= now for run in self._runs):
            cuts = [int(np.searchsorted(run, now, "right")) for run in self._runs]
            ripe = [run[:cut] for run, cut in zip(self._runs, cuts, strict=True)]
            self._runs = [run[cut:] for run, cut in zip(self._runs, cuts, strict=True) if cut < len(run)]
            taken = np.unique(np.concatenate([np.array(taken, dtype=np.int64), *ripe])).tolist()
        return taken


def _nobody(moment: int) -> None:
    """The callback until one is registered."""
