"""A session's clock, and how it extends transactions.

By default this is the system clock, read once per transaction; after `db.advance(moment)` it moves only when advanced.
Four kinds of *followers* of a base table are created here:

    RowTTL           a table's time to live, by a time in the row (TTL ts + INTERVAL '5 minutes')
    ArrivalTTL       a time to live since arrival (TTL INTERVAL '5 minutes'), or a window that mirrors the table
    TemporalFilter   the rows that satisfy conditions on now(), in a separate table
    LastRows         the last n rows, or the last n of each partition

Others are in their own modules: `watermarks`, `flags` (truth values of conditions), `lookups`.

The consequences of a transaction and of the time that has passed are added to that same transaction, so all views see
both at one time.
"""

from __future__ import annotations

import datetime as dt
import time
import warnings
from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from everview.dataflow.operators import Arrangement
from everview.errors import EverviewError, InputError
from everview.language.relation import relation_of
from everview.runtime.base import ChangeSet, RemoteRows
from everview.session.clock.agenda import Agenda, Moments
from everview.session.clock.filters import TemporalFilter, Term
from everview.session.clock.follower import Follower
from everview.session.clock.last_rows import LastRows
from everview.session.clock.lifetimes import ArrivalTTL

if TYPE_CHECKING:
    from everview.session.core import Core
    from everview.session.table import Table

CLOCK_TABLE = "everview.now"
"""The offset that stores the clock's reading, in sessions with followers."""

_EPOCH = dt.datetime(1970, 1, 1)

SET = "everview.clock"
"""The offset that records that the clock was set manually (`SET_BY_HAND`) and stands still until it is advanced."""

SET_BY_HAND = "set"


def microseconds(moment: dt.datetime) -> int:
    """A moment as a timestamp code.

    >>> microseconds(dt.datetime(1970, 1, 1, 0, 0, 1))
    1000000
    """
    if moment.tzinfo is not None:
        moment = moment.astimezone(dt.UTC).replace(tzinfo=None)
    return (moment - _EPOCH) // dt.timedelta(microseconds=1)


def moment_of(code: int) -> dt.datetime:
    """The moment of a timestamp code."""
    return _EPOCH + dt.timedelta(microseconds=code)


class Clock:
    """A session's clock and its followers."""

    def __init__(self, core: Core) -> None:
        self.core = core
        self.manual = False
        self.now = 0
        self.target: int | None = None
        """the target of a running `advance`"""
        self.agenda = Agenda()
        """the followers"""
        self._shown: deque[tuple[int, int]] = deque(maxlen=core.history + 1)
        """readings at recent times"""

    def read(self) -> int:
        """The present moment; it never goes back."""
        if self.target is not None:
            return max(self.now, self.target)
        return self.now if self.manual else max(self.now, time.time_ns() // 1000)

    def late(self, table: Table) -> int:
        """The number of late rows of a table so far."""
        return sum(f.late for f in self.agenda.of(table))

    def add(self, follower: Follower) -> None:
        """Include a follower in transactions from now on."""
        self.now = self.read()
        self.agenda.add(follower)

    def forget(self, table: Table) -> None:
        """Remove a dropped table and its followers."""
        self.agenda.remove(lambda f: table in (f.table, f.own))

    @property
    def followers(self) -> list[Follower]:
        """All followers, in order."""
        return self.agenda.followers

    def due(self, now: int) -> bool:
        """Whether anything is due by then."""
        next_moment = self.agenda.next()
        return next_moment is not None and next_moment <= now

    def unused(self) -> list[Table]:
        """Tables of followers that no view reads any more."""
        return [f.own for f in self.followers if f.own is not None and not f.owner and not relation_of(f.own).views]

    def indexes(self) -> list[Arrangement]:
        """All arrangements that followers need."""
        return [a for f in self.followers for a in f.indexes()]

    # followers that exist already are shared by identical requests

    def passing(self, table: Table, tests: tuple[Term, ...]) -> Table:
        """The table's rows that satisfy conditions on now()."""
        for f in self.agenda.of(table):
            if isinstance(f, TemporalFilter) and f.tests == tests:
                return f.mirror
        return self._new(TemporalFilter(self.core, table, tests))

    def aging(self, table: Table, size: int) -> Table:
        """The table's rows of the last `size` microseconds."""
        for f in self.agenda.of(table):
            if isinstance(f, ArrivalTTL) and f.size == size and not f.owner:
                return f.mirror
        return self._new(ArrivalTTL(self.core, table, size, owner=False))

    def latest(self, table: Table, size: int, partition: tuple[int, ...]) -> Table:
        """The table's last rows (of each partition)."""
        for f in self.agenda.of(table):
            if isinstance(f, LastRows) and (f.size, f.partition) == (size, partition):
                return f.mirror
        return self._new(LastRows(self.core, table, size, partition))

    def _new(self, follower: Follower) -> Table:
        self.core.definitions.follow(follower)
        return follower.mirror

    def advance(self, moment: dt.datetime | None) -> None:
        """Move to a moment and stay there, or (None) return to the system clock; see `Session.advance`."""
        if self.core.transactions.staged is not None:
            raise InputError(
                "E_TRANSACTION", "the clock cannot move inside a transaction", "advance before or after it"
            )
        wanted = time.time_ns() // 1000 if moment is None else microseconds(moment)
        if moment is not None and wanted < self.now:
            raise InputError("E_CLOCK", f"the clock shows {moment_of(self.now)} already", "it only moves forward")
        before = self.manual, self.now
        self.manual, self.target = moment is not None, wanted
        try:
            if self.due(wanted) or (moment is None and self._by_hand()):
                self.core.transactions.commit_empty()
            self.now = self.read()
        except BaseException:
            self.manual, self.now = before
            raise
        finally:
            self.target = None

    def offsets(self) -> dict[str, str]:
        """The offsets stored with a transaction, so that a reopened session continues from there."""
        kept = {CLOCK_TABLE: str(self.now)}
        if self.manual != self._by_hand():
            kept[SET] = SET_BY_HAND if self.manual else ""
        return kept

    def _by_hand(self) -> bool:
        return self.core.runtime.offsets.get(SET) == SET_BY_HAND

    def resume(self) -> None:
        """Continue from the moment up to which everything due had been done. Later due times follow from the
        contents."""
        now = int(self.core.runtime.offsets.get(CLOCK_TABLE, 0))
        self.manual = self._by_hand()
        self.now = max(self.now, now)
        for follower in self.followers:
            follower.seen = max(follower.seen, now)
            follower.resume(follower.seen)

    @contextmanager
    def showing(self, now: int) -> Iterator[None]:
        """Temporarily set the clock to a past moment, for objects that were created then."""
        before = self.manual, self.now
        self.manual, self.now = True, now
        try:
            yield
        finally:
            self.manual, self.now = before[0], max(before[1], self.now)

    @contextmanager
    def not_after(self, changes: ChangeSet) -> Iterator[None]:
        """Keep the clock at the moment at which rows encoded elsewhere were compared with it."""
        moments = [rows.now for _, rows, _ in changes if isinstance(rows, RemoteRows) and rows.now]
        if not moments:
            yield
            return
        self.target = max(moments)
        try:
            yield
        finally:
            self.target = None

    def catch_up(self) -> None:
        """After opening, do what became due while the session was closed. On failure the session still opens, and the
        next transaction raises the error again.
        """
        try:
            self.settle()
        except EverviewError as error:
            warnings.warn(f"what came to pass since the session was closed cannot be done: {error}", stacklevel=2)

    def waiting(self) -> float | None:
        """Seconds until something is due; None if nothing is, or if the clock is set manually."""
        first = None if self.manual else self.agenda.next()
        return None if first is None else max(first - self.read(), 0) / 1e6

    def note(self) -> None:
        """Record the clock's reading for a completed step."""
        self._shown.append((self.core.runtime.dataflow.time, self.now))

    def at(self, time: int) -> dt.datetime | None:
        """The clock's reading at a recent time; None if unknown or if there are no followers."""
        if not self.agenda:
            return None
        if time >= self.core.runtime.dataflow.time:
            known = self.core.runtime.offsets.get(CLOCK_TABLE)
            return moment_of(int(known)) if known else None
        place = bisect_right(self._shown, time, key=lambda noted: noted[0])
        return moment_of(self._shown[place - 1][1]) if place else None

    def settle(self) -> int:
        """Do what is due as a separate transaction; return the moment up to which that is done."""
        now = self.read()
        if not self.due(now):
            return now
        self.core.transactions.commit_empty()
        return self.now

    def extend(self, work: list[Any], *, exactly: bool = False) -> Callable[[], None]:
        """Extend a transaction by the changes of the followers; return a function that undoes it. Registered due times
        are undone only if `exactly`, which copies queues; otherwise a failed transaction leaves due times at which
        nothing happens.

        Only followers that are due or whose table is changed are called. One that was skipped has `seen` an earlier
        moment than now, and nothing relevant has changed since.
        """
        before, now = self.now, self.read()
        taken: list[tuple[Follower, list[int], int, Any]] = []
        queues: list[tuple[Moments, Moments]] = []
        found: dict[Table, list[tuple[Any, int]]] = {}
        turns = self.agenda.turns(now)

        def note(changes: list[Any]) -> None:
            for table, rows, diff in changes:
                if table in found:
                    found[table].append((rows, diff))
                else:
                    found[table] = [(rows, diff)]
                    turns.touch(table)

        def undo() -> None:
            self.now = before
            for follower, moments, seen, memory in taken:
                follower.queue.add(moments)
                follower.seen = seen
                follower.recall(memory)
            for queue, was in queues:
                queue.become(was)

        try:
            note(work)
            for follower in turns:
                if exactly:
                    queues += [(queue, queue.copy()) for queue in follower.queues()]
                taken.append((follower, [], follower.seen, follower.memory()))
                moments = taken[-1][1]
                moments += follower.queue.take(now)
                made = follower.respond(found.get(follower.table, []), moments, now)
                follower.seen = now
                work.extend(made)
                note(made)
            self.now = now
        except BaseException:
            undo()
            raise
        return undo
