"""Time that passes: rows that come and go because a clock moves.

A session has a clock. By default it is the computer's, read once per transaction; after `db.advance(moment)` it moves
only when told to. Four things follow it, each a *follower* of one base table:

    RowTTL           a table's time to live by its rows' own times (TTL ts + INTERVAL '5 minutes')
    ArrivalTTL       a time to live by arrival (TTL INTERVAL '5 minutes'), or a window that mirrors the table
    TemporalFilter   the rows that meet conditions on now(), in a table of their own
    LastRows         the last n rows, or the last n of each partition

Others are in files of their own: watermarks (`watermarks`), truths of conditions (`flags`), look-ups (`lookups`).

Whatever a table's transaction and the passing of time mean for its followers is added to that very transaction, so all
views see both at one time. A future change is nowhere in the dataflow: a follower only keeps a queue of the moments at
which something is due, and finds the rows of a moment in an index when it comes. So memory holds what is there, not
what will leave.

Followers' own tables are called `everview.…` and belong to the views that read them.
"""

from __future__ import annotations

import datetime as dt
import time
import warnings
from bisect import bisect_right
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

from everview.codes.interner import Interner
from everview.dataflow.operators import Arrangement
from everview.errors import EverviewError, InputError
from everview.expr.evaluate import evaluate
from everview.expr.few import FewRows
from everview.expr.nodes import ColumnRef, Expr
from everview.expr.resolve import Column
from everview.language.relation import relation_of
from everview.plan import nodes as plan
from everview.runtime.base import ChangeSet, RemoteRows, Runtime
from everview.session.clock.agenda import BULK_MOMENTS, Agenda, Moments
from everview.session.reads.snapshot import read_codes
from everview.types import INT, NULL, TIMESTAMP

if TYPE_CHECKING:
    from everview.session.core import Core
    from everview.session.table import Table

RESERVED_PREFIX = "everview."
"""The prefix of the names of tables that belong to views; reserved."""

CLOCK_TABLE = "everview.now"
"""The offset that says what the clock showed, where something follows it."""

_EPOCH = dt.datetime(1970, 1, 1)

SET = "everview.clock"
"""The offset that says that the clock was set by hand (`SET_BY_HAND`): it stands still until it is moved again."""

SET_BY_HAND = "set"

Words = npt.NDArray[np.int64]
Change = tuple[Any, Any, int]


def microseconds(moment: dt.datetime) -> int:
    """A moment as the code of a timestamp.

    >>> microseconds(dt.datetime(1970, 1, 1, 0, 0, 1))
    1000000
    """
    if moment.tzinfo is not None:
        moment = moment.astimezone(dt.UTC).replace(tzinfo=None)
    return (moment - _EPOCH) // dt.timedelta(microseconds=1)


def moment_of(code: int) -> dt.datetime:
    """The moment that the code of a timestamp means."""
    return _EPOCH + dt.timedelta(microseconds=code)


class Clock:
    """A session's clock and what follows it."""

    def __init__(self, core: Core) -> None:
        self.core = core
        self.manual = False
        self.now = 0
        self.target: int | None = None
        """where `advance` is going"""
        self.agenda = Agenda()
        """what follows the clock"""
        self._shown: deque[tuple[int, int]] = deque(maxlen=core.history + 1)
        """what it showed at the last times"""

    def read(self) -> int:
        """The present moment; it never goes back."""
        if self.target is not None:
            return max(self.now, self.target)
        return self.now if self.manual else max(self.now, time.time_ns() // 1000)

    def late(self, table: Table) -> int:
        """How many rows came to a table, so far, when their time was over."""
        return sum(f.late for f in self.agenda.of(table))

    def add(self, follower: Follower) -> None:
        """Let a follower take part in transactions from now on."""
        self.now = self.read()
        self.agenda.add(follower)

    def forget(self, table: Table) -> None:
        """A table is dropped, with what follows it."""
        self.agenda.remove(lambda f: table in (f.table, f.own))

    @property
    def followers(self) -> list[Follower]:
        """All that follow it, in their order."""
        return self.agenda.followers

    def due(self, now: int) -> bool:
        """Whether something has come to pass by then."""
        next_moment = self.agenda.next()
        return next_moment is not None and next_moment <= now

    def unused(self) -> list[Table]:
        """Tables of followers that no view reads any more."""
        return [f.own for f in self.followers if f.own is not None and not f.owner and not relation_of(f.own).views]

    def indexes(self) -> list[Arrangement]:
        """All arrangements that followers need."""
        return [a for f in self.followers for a in f.indexes()]

    # what there is already is shared by all who ask for the same

    def passing(self, table: Table, tests: tuple[Term, ...]) -> Table:
        """The table's rows that meet conditions on now()."""
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
        """Move to a moment and stay there, or (None) to the computer's time; see `Session.advance`."""
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
        """What is kept with a transaction, so that a session that is opened again goes on from there."""
        kept = {CLOCK_TABLE: str(self.now)}
        if self.manual != self._by_hand():
            kept[SET] = SET_BY_HAND if self.manual else ""
        return kept

    def _by_hand(self) -> bool:
        return self.core.runtime.offsets.get(SET) == SET_BY_HAND

    def resume(self) -> None:
        """Go on at the moment at which everything that was due had been done: what is there says what is due later."""
        now = int(self.core.runtime.offsets.get(CLOCK_TABLE, 0))
        self.manual = self._by_hand()
        self.now = max(self.now, now)
        for follower in self.followers:
            follower.seen = max(follower.seen, now)
            follower.resume(follower.seen)

    @contextmanager
    def showing(self, now: int) -> Iterator[None]:
        """Let the clock show a moment of the past: what is made inside was made then."""
        before = self.manual, self.now
        self.manual, self.now = True, now
        try:
            yield
        finally:
            self.manual, self.now = before[0], max(before[1], self.now)

    @contextmanager
    def not_after(self, changes: ChangeSet) -> Iterator[None]:
        """Rows that were encoded elsewhere were compared with the clock then: it is that moment still."""
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
        """A session was opened: do what came to pass since it was closed. If that cannot be done it can be opened
        nevertheless, and its next transaction says so again.
        """
        try:
            self.settle()
        except EverviewError as error:
            warnings.warn(f"what came to pass since the session was closed cannot be done: {error}", stacklevel=2)

    def waiting(self) -> float | None:
        """Seconds until something is due; None if nothing is, or only when the clock is moved by hand."""
        first = None if self.manual else self.agenda.next()
        return None if first is None else max(first - self.read(), 0) / 1e6

    def note(self) -> None:
        """A step is done: this is what the clock showed at its time."""
        self._shown.append((self.core.runtime.dataflow.time, self.now))

    def at(self, time: int) -> dt.datetime | None:
        """What the clock showed at one of the last times; None if that is not known, or nothing follows it."""
        if not self.agenda:
            return None
        if time >= self.core.runtime.dataflow.time:
            known = self.core.runtime.offsets.get(CLOCK_TABLE)
            return moment_of(int(known)) if known else None
        place = bisect_right(self._shown, time, key=lambda noted: noted[0])
        return moment_of(self._shown[place - 1][1]) if place else None

    def settle(self) -> int:
        """Do what is due, as a transaction of its own; the moment up to which that is done."""
        now = self.read()
        if not self.due(now):
            return now
        self.core.transactions.commit_empty()
        return self.now

    def extend(self, work: list[Any], *, exactly: bool = False) -> Callable[[], None]:
        """Add to a transaction what it and the time that passed mean for the followers; gives what undoes it. That
        they wait for further moments is undone only `exactly`, at the price of copying queues: a transaction that fails
        leaves moments behind at which nothing happens.

        Only those do anything for which something is due or whose table is changed. One that was left alone has `seen`
        an earlier moment than now, and nothing has changed its mind since.
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


class Follower:
    """Something of a base table that the clock changes."""

    owner = False
    """whether it changes the table itself"""
    remembered: tuple[str, ...] = ("late",)
    """the attributes that a transaction may change and that are in no table"""

    def __init__(self, core: Core, table: Table) -> None:
        self.core = core
        self.table = table
        self.own: Table | None = None
        self.late = 0  # rows that came when their time was over
        self.queue = Moments()
        self.seen: int = core.clock.read()
        """the moment up to which everything was done: others may have looked at the clock since"""

    def queues(self) -> list[Moments]:
        """All moments that it waits for."""
        return [self.queue]

    def memory(self) -> tuple[Any, ...]:
        """What is `remembered`; asked for before a transaction takes part."""
        return tuple(getattr(self, name) for name in self.remembered)

    def recall(self, memory: tuple[Any, ...]) -> None:
        """The transaction did not take place: be as before."""
        for name, value in zip(self.remembered, memory, strict=True):
            setattr(self, name, value)

    def changes(self, mine: list[tuple[Words, int]], moments: list[int], before: int, now: int) -> list[Change]:
        """What a transaction's changes of the table and the moments since `before` mean."""
        raise NotImplementedError

    def respond(self, found: list[tuple[Any, int]], moments: list[int], now: int) -> list[Change]:
        """What changes of the table, wherever their rows are, and due moments mean."""
        made: list[Change] = []
        width = rows_of(self.table)
        mine = [(_columns(rows, width), diff) for rows, diff in found if not isinstance(rows, RemoteRows)]
        if moments or mine:
            made += [c for c in self.changes(mine, moments, self.seen, now) if c[1].shape[1]]
        for rows, _ in found:
            if isinstance(rows, RemoteRows):
                made += self.take(rows, now)
        return made

    def takes(self, how: str) -> bool:
        """Whether it can do with what is known of rows that are elsewhere and come in this way."""
        return False

    def take(self, rows: RemoteRows, now: int) -> list[Change]:
        """What such rows mean; that late ones are left out is not its business."""
        raise NotImplementedError

    def resume(self, now: int) -> None:
        """Know again, from what is there, what is due after `now`."""
        raise NotImplementedError

    @property
    def mirror(self) -> Table:
        """Its own table, which views read."""
        assert self.own is not None
        return self.own

    def indexes(self) -> list[Arrangement]:
        """Arrangements it needs besides those of tables."""
        return []

    def _values(self, exprs: Sequence[Expr], columns: Words) -> Words:
        return values_of(exprs, columns, self.core.interner)

    def _index(self, expr: Expr) -> Arrangement:
        """The table's rows by the value of an expression."""
        node = relation_of(self.table).node
        refs = [ColumnRef(t, i) for i, t in enumerate(node.types)]
        return self.core.definitions.install(plan.Project(node, (expr, *refs)), (0,))

    def _found(self, index: Arrangement, moments: list[int]) -> tuple[Words, Words]:
        """Rows (without the indexed value, which comes first) at some moments, and how often each is there."""
        columns, counts = _at_keys(self.core.runtime, index, moments)
        return columns[1:], counts


def values_of(exprs: Sequence[Expr], columns: Words, interner: Interner) -> Words:
    """Codes of expressions over rows; NULL where one cannot be computed."""
    if all(isinstance(e, ColumnRef) for e in exprs):
        return columns[[e.index for e in exprs if isinstance(e, ColumnRef)]]
    result = evaluate(tuple(exprs), None, columns, interner)
    made = np.full((len(exprs), columns.shape[1]), NULL, dtype=np.int64)
    made[:, result.kept] = result.codes
    return made


class RowTTL(Follower):
    """A table whose rows leave when their own time comes."""

    owner = True

    def __init__(self, core: Core, table: Table, until: Expr) -> None:
        super().__init__(core, table)
        self.until = until
        self.index = self._index(until)

    def indexes(self) -> list[Arrangement]:
        return [self.index]

    def takes(self, how: str) -> bool:
        return True

    def take(self, rows: RemoteRows, now: int) -> list[Change]:
        self.queue.add(rows.moments)
        self.late += rows.late
        return []

    def resume(self, now: int) -> None:
        until = self._values([self.until], contents(self.core.runtime, self.table))[0]
        self.queue.clear()
        self.queue.add(np.unique(until[(until > now) & (until != NULL)]))

    def changes(self, mine: list[tuple[Words, int]], moments: list[int], before: int, now: int) -> list[Change]:
        """Of every row whose time has come nothing is left: neither what was there nor what comes too late."""
        columns, counts = self._found(self.index, moments)
        left = counted(columns, counts)
        for rows, diff in mine:
            until = self._values([self.until], rows)[0]
            late = (until <= now) & (until != NULL)
            if diff > 0:
                self.queue.add(np.unique(until[(until > now) & (until != NULL)]))
                self.late += diff * int(late.sum())
            for row in rows[:, late].T.tolist():
                left[tuple(row)] = left.get(tuple(row), 0) + diff
        return [
            (self.table, words([r] * abs(n), rows_of(self.table)), -1 if n > 0 else 1) for r, n in left.items() if n
        ]


@dataclass(frozen=True)
class Term:
    """A condition on now(): `expr` > now ("until"), or `expr` <= now ("from")."""

    expr: Expr
    side: Literal["until", "from"]


class TemporalFilter(Follower):
    """The rows of a table that pass tests against the clock, in a table of their own."""

    def __init__(self, core: Core, table: Table, tests: tuple[Term, ...]) -> None:
        super().__init__(core, table)
        self.tests = tests
        self._exprs = [t.expr for t in tests]
        self._until = [t.side == "until" for t in tests]
        self._few = FewRows(tuple(self._exprs), None, core.interner)
        self._indexes = [self._index(t.expr) for t in tests]
        rows = contents(core.runtime, table)
        self._wait(rows, self.seen)
        kept = rows[:, self._pass(rows, self.seen)]
        name, order = f"{relation_of(table).stored_as} now", range(rows.shape[0])
        self.own = core.definitions.tables.hidden(name, relation_of(table).columns, order, kept, table)

    def indexes(self) -> list[Arrangement]:
        return self._indexes

    def resume(self, now: int) -> None:
        self.queue.clear()
        self._wait(contents(self.core.runtime, self.table), now)

    def _wait(self, rows: Words, now: int) -> None:
        self._wait_for(self._values(self._exprs, rows), now)

    def _wait_for(self, values: Words, now: int) -> None:
        for some in values:
            self.queue.add(np.unique(some[(some > now) & (some != NULL)]))

    def _pass(self, rows: Words, now: int) -> npt.NDArray[np.bool_]:
        return self._passing(self._values(self._exprs, rows), now)

    def _passing(self, values: Words, now: int) -> npt.NDArray[np.bool_]:
        kept = np.ones(values.shape[1], dtype=np.bool_)
        for test, some in zip(self.tests, values, strict=True):
            kept &= (some != NULL) & ((some > now) if test.side == "until" else (some <= now))
        return kept

    def changes(self, mine: list[tuple[Words, int]], moments: list[int], before: int, now: int) -> list[Change]:
        made: list[Change] = self._turned(moments, before, now) if moments else []
        for rows, diff in mine:
            few = self._few.lists(rows)
            kept = self._one_by_one(few, diff > 0, now) if few is not None else self._together(rows, diff > 0, now)
            made.append((self.own, rows if len(kept) == rows.shape[1] else np.ascontiguousarray(rows[:, kept]), diff))
        return made

    def _turned(self, moments: list[int], before: int, now: int) -> list[Change]:
        """Rows that were there and whose moment has come."""
        found: dict[tuple[int, ...], int] = {}
        for index in self._indexes:
            found.update(counted(*self._found(index, moments)))
        turned = words(found, rows_of(self.table))
        counts = np.array(list(found.values()), dtype=np.int64)
        was, comes = self._pass(turned, before), self._pass(turned, now)
        return [
            (self.own, np.repeat(turned[:, comes & ~was], counts[comes & ~was], axis=1), 1),
            (self.own, np.repeat(turned[:, was & ~comes], counts[was & ~comes], axis=1), -1),
        ]

    def _together(self, rows: Words, wait: bool, now: int) -> Words:
        """Which of many rows pass; `wait` for their moments."""
        values = self._values(self._exprs, rows)
        if wait:
            self._wait_for(values, now)
        return np.flatnonzero(self._passing(values, now))

    def _one_by_one(self, values: list[list[int] | None], wait: bool, now: int) -> list[int]:
        """The same of few."""
        kept = []
        for i, moments in enumerate(values):
            if moments is None:
                continue
            known = [moment for moment in moments if moment != NULL]
            if wait:
                self.queue.add([moment for moment in known if moment > now])
            if len(known) == len(moments) and all(
                moment > now if until else moment <= now for moment, until in zip(moments, self._until, strict=True)
            ):
                kept.append(i)
        return kept


class ArrivalTTL(Follower):
    """Rows with the moment at which they have been there for long enough: a window, or a table's time to live."""

    def __init__(self, core: Core, table: Table, size: int, owner: bool) -> None:
        super().__init__(core, table)
        self.size = size
        self.owner = owner
        rows = contents(core.runtime, table)
        columns = [*relation_of(table).columns, Column("until", TIMESTAMP)]
        name = f"{relation_of(table).stored_as} [size {size / 1e6:g} s]"
        self.own = core.definitions.tables.hidden(
            name, columns, range(len(columns)), self._dated(rows, core.clock.read()), table
        )
        last = len(columns) - 1
        refs = [ColumnRef(c.type, i) for i, c in enumerate(columns)]
        self.index = core.definitions.install(plan.Project(relation_of(self.own).node, (refs[last], *refs)), (0,))

    def indexes(self) -> list[Arrangement]:
        return [self.index]

    def resume(self, now: int) -> None:
        self.queue.clear()
        self.queue.add(np.unique(contents(self.core.runtime, self.mirror)[-1]))

    def takes(self, how: str) -> bool:
        return how == "append" and relation_of(self.table).arrangement.plain

    def take(self, rows: RemoteRows, now: int) -> list[Change]:
        self.queue.add([now + self.size])
        return [(self.own, rows.dated(self.mirror, now + self.size), 1)]

    def _dated(self, rows: Words, now: int) -> Words:
        """Rows that arrive now."""
        if rows.shape[1]:
            self.queue.add([now + self.size])
        until = np.full((1, rows.shape[1]), now + self.size, dtype=np.int64)
        return np.ascontiguousarray(np.concatenate([rows, until]))

    def changes(self, mine: list[tuple[Words, int]], moments: list[int], before: int, now: int) -> list[Change]:
        gone = counted(*self._found(self.index, moments))
        if all(diff > 0 for _, diff in mine):
            made = [(self.own, self._dated(rows, now), 1) for rows, _ in mine]
        else:
            made = self._net(mine, gone, now)
        width = rows_of(self.table)
        old = words((row for row, n in gone.items() for _ in range(n)), width + 1)
        made.append((self.own, old, -1))
        if self.owner:
            made.append((self.table, np.ascontiguousarray(old[:width]), -1))
        return made

    def _net(self, mine: list[tuple[Words, int]], gone: dict[tuple[int, ...], int], now: int) -> list[Change]:
        """What came and what was taken. The oldest of equal rows go first, those that are due now before all; so a row
        that is taken and put back in one transaction begins a new life.
        """
        new, taken = Counter[tuple[int, ...]](), Counter[tuple[int, ...]]()
        for rows, diff in mine:
            (new if diff > 0 else taken).update(map(tuple, rows.T.tolist()))
        lost: list[tuple[int, ...]] = []
        for row, n in taken.items():
            columns, counts = at_key(self.core.runtime, relation_of(self.mirror).arrangement, row)
            for dated, there in sorted(counted(columns, counts).items()):
                take = min(there, n)
                n -= take
                lost += [dated] * take
                if dated in gone:
                    gone[dated] -= take
            new[row] -= n  # came and went
        width = rows_of(self.table)
        arrived = self._dated(words((row for row, n in new.items() for _ in range(n)), width), now)
        return [(self.own, arrived, 1), (self.own, words(lost, width + 1), -1)]


class LastRows(Follower):
    """The last rows of a table, or of each partition of it, in the order in which they came."""

    remembered = ("late", "number")

    def __init__(self, core: Core, table: Table, size: int, partition: tuple[int, ...]) -> None:
        super().__init__(core, table)
        self.size = size
        self.partition = partition
        self.number = 0
        columns = [*relation_of(table).columns, Column("number", INT)]
        order = plan.keys_first(partition, len(columns))
        by = "".join(f" by {', '.join(relation_of(table).columns[p].name for p in partition)}" for _ in partition[:1])
        name = f"{relation_of(table).stored_as} [last {size}{by}]"
        _, (_, new, _) = self.changes([(contents(core.runtime, table), 1)], [], 0, 0)
        self.own = core.definitions.tables.hidden(name, columns, order, new, table)

    def changes(self, mine: list[tuple[Words, int]], moments: list[int], before: int, now: int) -> list[Change]:
        parts: dict[tuple[int, ...], tuple[list[tuple[int, ...]], set[tuple[int, ...]]]] = {}
        for rows, diff in mine:
            for row in map(tuple, rows.T.tolist()):
                key = tuple(row[p] for p in self.partition)
                if key not in parts:
                    there = self._part(key)
                    parts[key] = (there, set(there))
                self._apply(parts[key][0], row, diff)
        new, lost = [], []
        for now_there, was in parts.values():
            new += [r for r in now_there if r not in was]
            lost += list(was - set(now_there))
        width = rows_of(self.table) + 1
        return [(self.own, words(lost, width), -1), (self.own, words(new, width), 1)]

    def resume(self, now: int) -> None:
        self.number = int(contents(self.core.runtime, self.mirror)[-1].max(initial=self.number))

    def _part(self, key: tuple[int, ...]) -> list[tuple[int, ...]]:
        """A partition's rows, oldest first."""
        if self.own is None:
            return []
        columns, counts = at_key(self.core.runtime, relation_of(self.own).arrangement, key)
        return sorted(counted(columns, counts), key=lambda row: row[-1])

    def _apply(self, there: list[tuple[int, ...]], row: tuple[int, ...], diff: int) -> None:
        if diff > 0:
            self.number += 1
            there.append((*row, self.number))
            del there[: -self.size]
            return
        for i, dated in enumerate(there):
            if dated[:-1] == row:
                del there[i]
                return


# -------------------------------------------------------------------------------------------- reading


def rows_of(table: Table) -> int:
    """How many columns a table has."""
    return len(relation_of(table).columns)


def _columns(rows: Any, width: int) -> Words:
    """A transaction's rows as columns."""
    return rows if isinstance(rows, np.ndarray) else words(rows, width)


def words(rows: Iterable[Sequence[int]], width: int) -> Words:
    """Rows of codes as columns."""
    return np.ascontiguousarray(np.array(list(rows), dtype=np.int64).reshape(-1, width).T)


def counted(columns: Words, counts: Words) -> dict[tuple[int, ...], int]:
    """Rows and how often each is there."""
    rows = map(tuple, columns.T.tolist())
    return {row: n for row, n in zip(rows, counts.tolist(), strict=True) if n > 0}


def contents(runtime: Runtime, table: Table) -> Words:
    """All rows of a table."""
    columns, counts = at_key(runtime, relation_of(table).arrangement, ())
    return np.ascontiguousarray(np.repeat(columns, counts, axis=1))


def _at_keys(runtime: Runtime, index: Arrangement, keys: list[int]) -> tuple[Words, Words]:
    """Rows whose first column is one of the keys."""
    if len(keys) > BULK_MOMENTS:
        columns, counts = at_key(runtime, index, ())
        chosen = np.isin(columns[0], np.array(keys, dtype=np.int64))
        return columns[:, chosen], counts[chosen]
    found = [at_key(runtime, index, (k,)) for k in keys]
    if not found:
        return np.empty((index.cols, 0), dtype=np.int64), np.empty(0, dtype=np.int64)
    return np.concatenate([c for c, _ in found], axis=1), np.concatenate([n for _, n in found])


def at_key(runtime: Runtime, arrangement: Arrangement, key: tuple[int, ...]) -> tuple[Words, Words]:
    """Rows that begin, in the arrangement's order, with these codes."""
    return read_codes(runtime, arrangement, key, runtime.dataflow.time)
