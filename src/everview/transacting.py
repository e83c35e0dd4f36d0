"""Transactions: rows are staged while one runs and handed to the dataflow when it ends.

That is one *step*, which brings every view up to date or, if anything fails, changes nothing. A batch lets several
transactions, each with its own time, share a step. Deleting what is not there is found by the step itself (a table's
count below zero) and, in a batch, when the transaction ends, so that the error comes where the mistake is.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from everview import shield
from everview.dataflow.graph import ABSENT_HINT
from everview.dataflow.operators import Arrange, Arrangement
from everview.dataflow.scopes import MAX_EPOCHS
from everview.errors import EverviewError, InputError, LoopError, MemoryLimitError
from everview.kernels import make
from everview.listening import Listening
from everview.marks import change_marks
from everview.standing import how_often, last_of_each, standing
from everview.table import Table
from everview.turns import reads, turn, writes

BULK = 256
"""Rows from which an insert is sorted straight into a batch."""

Change = tuple[Table, "np.ndarray | list[tuple[int, ...]]", int]
"""(table, rows' codes as columns or as tuples, +1 or -1)"""


class Work(list[Change]):
    """What one transaction changes, and the marks that are committed with it."""

    __slots__ = ("marks",)

    def __init__(self, changes: Iterable[Change] = ()) -> None:
        super().__init__(changes)
        self.marks: dict[str, str] = {}


class Transacting(Listening):
    """The part of a session that changes tables."""

    def transaction(self) -> Transaction:
        """Make all changes inside at one time; an exception undoes them. Inside another transaction, it joins it: an
        exception undoes what was changed inside, and the rest is committed with the outer one.

        A transaction belongs to the thread that began it. Other threads read meanwhile; what they change waits.

        >>> import everview as ev
        >>> db = ev.connect()
        >>> t = db.table("t", {"x": int})
        >>> with db.transaction():
        ...     t.insert([(1,)])
        ...     try:
        ...         with db.transaction():
        ...             t.insert([(2,)])
        ...             raise ValueError
        ...     except ValueError:
        ...         t.insert([(3,)])
        >>> sorted(t.rows()), db.time
        ([(1,), (3,)], 1)
        """
        self._alive()
        return Transaction(self)

    def batch(self) -> Together:
        """Run the transactions inside as one step when the block ends; each keeps its own time.

        >>> import everview as ev
        >>> db = ev.connect()
        >>> t = db.table("t", {"x": int})
        >>> v = db.view("v", t.distinct())
        >>> with db.batch():
        ...     t.insert([(1,)])
        ...     t.insert([(2,)])
        >>> v.changes(since=0)
        [((1,), 1, 1), ((2,), 2, 1)]
        """
        self._alive()
        return Together(self)

    def _pending(self) -> Work | None:
        """What this thread's transaction has staged so far, if one is under way."""
        return self._staged if self._staged_by == threading.get_ident() else None

    @writes
    def _stage(self, table: Table, codes: np.ndarray | list[tuple[int, ...]], diff: int) -> None:
        if table._dropped:
            table._alive()
        if self._staged is not None:
            self._staged.append((table, codes, diff))
        else:
            self._accept(Work(((table, codes, diff),)))

    def _code_there(self, table: Table, rows: Any, fitting: Any, place: str, how: str) -> Any:
        """Code rows that are far away where they are, for `_stage`; None if that cannot be done. A session on Spark can
        (`everview.spark.coding`).
        """
        return None

    def _mark(self, name: str, value: str) -> None:
        """Note a text under a name together with the transaction under way: both are committed or neither is. Outside
        one it is a transaction of its own; `_marks` has those that are complete. An empty text takes a mark away.

        >>> import everview as ev
        >>> db = ev.connect()
        >>> with db.transaction():
        ...     db._mark("rows read", "17")
        >>> db._marks, db.time
        ({'rows read': '17'}, 1)
        """
        with self.transaction():
            assert self._staged is not None
            self._staged.marks[name] = value

    @writes
    def _stage_upsert(self, table: Table, codes: np.ndarray) -> None:
        """Replace rows by key: take away what is there under the new rows' keys, then add the last row of each key."""
        with self.transaction():
            table._alive()
            new = np.ascontiguousarray(codes[:, last_of_each(codes[list(table._key)])])
            old = self._standing(table, new[list(table._key)])
            if old.size:
                self._stage(table, old, -1)
            self._stage(table, new, 1)

    @writes
    def _stage_clear(self, table: Table) -> None:
        with self.transaction():
            table._alive()
            rows = self._standing(table, None)
            if rows.size:
                self._stage(table, rows, -1)

    def _present(self, table: Table, keys: list[tuple[int, ...]] | None) -> list[tuple[int, ...]]:
        """Codes of the rows under the given keys (None: all), as the transaction under way sees them, repeated by
        multiplicity.
        """
        return _tuples(self._standing(table, None if keys is None else np.array(keys, dtype=np.int64).T))

    def _standing(self, table: Table, keys: np.ndarray | None) -> np.ndarray:
        """The same as columns."""
        arrangement = table._arrangement
        self._sync(arrangement.operator)
        pending = [c for changes in self._queued or [] for c in changes] + (self._staged or [])
        staged = [_counted(rows, diff) for other, rows, diff in pending if other is table and len(rows)]
        return standing(arrangement, self._graph.time, staged, table._key, keys)

    def _accept(self, changes: Work) -> None:
        """Run a transaction, or queue it in a batch, in a turn that writes. Subscribers are called after it."""
        if self._closed:
            self._alive()
        if self._clock.followers:
            self._commit_timed(changes)
        elif self._queued is not None:
            self._queue(changes)
        else:
            self._step([changes])

    @writes
    def _commit_nothing(self) -> None:
        """A transaction of which nothing is known but that time has passed."""
        self._accept(Work())

    def _commit_timed(self, changes: Work) -> None:
        """Run a transaction with what it and the time that passed mean for the clock's followers.

        They look at what is there, so even in a batch it is a step of its own.
        """
        self._catch_up()
        undo = self._clock.extend(changes)
        try:
            self._step([changes])
        except BaseException:
            undo()
            raise

    def _step(self, transactions: list[Work]) -> None:
        """Run transactions, one time each, as one step; all or none of them."""
        self._changing()
        before = self._graph.time
        self._underway = transactions, before
        try:
            self._run(transactions)
        except LoopError as error:
            self._name_loop(error)
            raise
        except InputError as error:
            if error.code == "E_ABSENT":
                raise self._absent([c for changes in transactions for c in changes], error) from None
            self._name_views(error)
            raise
        except MemoryLimitError as error:
            self._name_views(error)
            raise
        except BaseException:
            if self._graph.time != before:  # it was complete, and only then interrupted
                self._stepped(transactions)
            raise
        self._stepped(transactions)

    def _stepped(self, transactions: list[Work]) -> None:
        """What a complete step means to others: positions of sources, batches of subscribers."""
        for changes in transactions:
            if changes.marks:
                change_marks(self._marks, changes.marks)
        if self._listening:
            self._take_batches()
        self._underway = None

    def _settle(self) -> None:
        super()._settle()
        if self._underway is not None:
            transactions, before = self._underway
            if self._graph.time != before:  # it was complete, and then cut off
                self._stepped(transactions)
            self._underway = None

    def _name_loop(self, error: LoopError) -> None:
        """Say which views a loop that did not converge belongs to."""
        if error.loop is not None:
            loop = self._graph.scopes()[error.loop]
            names = [
                repr(v._name)
                for v in self._views.values()
                if any(loop.contains(o.scope) for o in self._graph.needed([v._arrangement.operator]))
            ]
            error.message = f"view {', '.join(names)}: {error.message}"

    def _name_views(self, error: EverviewError) -> None:
        """Say which views the operator is needed for that was running when a step failed."""
        if error.operator is not None:
            operator = self._graph.numbered[error.operator]
            names = [
                repr(v._name) for v in self._views.values() if operator in self._graph.needed([v._arrangement.operator])
            ]
            if names:
                error.message = f"view {', '.join(names)}: {error.message}"

    def _run(self, transactions: list[Work]) -> None:
        """Bring the dataflow up to date: what another runtime does differently."""
        before = self._graph.time
        try:
            for offset, changes in enumerate(transactions):
                _hand_over(changes, before + 1 + offset)
            self._graph.run(len(transactions))
        except BaseException:
            if self._graph.time == before:
                self._graph.abort()
            raise

    def _absent(self, changes: Iterable[Change], error: InputError) -> InputError:
        """Say which row was deleted without being there."""
        for table, rows, diff in changes:
            if diff < 0:
                for row in _tuples(rows):
                    have = self._how_often(table, row)
                    net = sum(d * sum(r == row for r in _tuples(other)) for t, other, d in changes if t is table)
                    if have + net < 0:
                        return not_there(table, row)
        return error

    def _how_often(self, table: Table, row: tuple[int, ...]) -> int:
        """How often a table holds a row, what is staged left aside."""
        self._sync(table._arrangement.operator)
        return how_often(table._arrangement, self._graph.time, row)

    def _queue(self, changes: Work) -> None:
        """Accept a transaction for the step that ends the batch."""
        assert self._queued is not None
        for table, rows, diff in changes:
            if diff < 0:
                self._check_queued(table, rows, changes)
        self._queued.append(changes)
        if len(self._queued) == MAX_EPOCHS:
            self._catch_up()

    def _check_queued(self, table: Table, rows: np.ndarray | list[tuple[int, ...]], changes: list[Change]) -> None:
        assert self._queued is not None
        queued: dict[tuple[int, ...], int] = {}
        for batch in (*self._queued, changes):
            for other, codes, diff in batch:
                if other is table:
                    for row in _tuples(codes):
                        queued[row] = queued.get(row, 0) + diff
        for row in _tuples(rows):
            if queued[row] < 0 and self._how_often(table, row) + queued[row] < 0:
                raise not_there(table, row)

    def _catch_up(self) -> None:
        """Run the transactions that a batch has accepted so far."""
        if self._queued:
            self._run_queued()

    @reads
    def _run_queued(self) -> None:
        if self._queued:  # else another thread was quicker
            self._alive()
            queued, self._queued = self._queued, []
            self._step(queued)


class Transaction:
    """A transaction under way; see `everview.Session.transaction`."""

    __slots__ = ("_before", "_replaced", "_session")

    def __init__(self, session: Transacting) -> None:
        self._session = session
        self._replaced: list[shield.Replaced] = []
        self._before: list[_Entered] = []

    @shield.covered
    def __enter__(self) -> Transaction:
        replaced = shield.up()  # until `__exit__` is done: an interrupt that comes as it begins must wait
        try:
            self.open(take=not self._session._writing._is_owned())
        except BaseException:
            shield.down(replaced)
            raise
        self._replaced.append(replaced)
        return self

    @shield.covered
    def __exit__(self, kind: object, error: object, traceback: object) -> None:
        try:
            self.end(undo=kind is not None)
        finally:
            shield.down(self._replaced.pop())

    def open(self, *, take: bool = True) -> None:
        """Begin, or join the transaction that this thread has begun; `take` the right to write, if it is not there."""
        session = self._session
        first = session._pending() is None
        try:
            if take:
                shield.acquire(session._writing)
            staged = session._pending()
            self._before.append(_Entered(take, len(staged or ()), dict(staged.marks) if staged is not None else None))
            if staged is None:
                session._staged, session._staged_by = Work(), threading.get_ident()
        except BaseException:  # raised by another thread: this one may hold what it did not hold before
            if first and take and session._writing._is_owned():
                self._before.clear()
                session._staged = None
                session._writing.release()
            raise

    def end(self, *, undo: bool) -> None:
        """Commit what was changed, or take it back."""
        session = self._session
        entered = self._before[-1]
        try:
            if entered.marks is not None:
                if undo and session._staged is not None:
                    del session._staged[entered.changes :]
                    session._staged.marks = entered.marks
            else:
                changes, session._staged = session._staged, None
                if not undo and changes is not None:
                    with session._lock:
                        turn(session, session._accept, changes)
        finally:
            if entered.taken:
                session._writing.release()
            self._before.pop()
            if session._deliveries:
                session._deliver()

    def __del__(self) -> None:
        """An exception that another thread raised here kept `__exit__` from beginning."""
        while self._before and self._session._writing._is_owned():
            self.end(undo=True)


class _Entered(NamedTuple):
    """What there was when a transaction was entered."""

    taken: bool
    """whether the right to write was taken then"""
    changes: int
    """how many the transaction around it had staged"""
    marks: dict[str, str] | None
    """and which marks; None: there was none around it"""


class Together:
    """Transactions that share a step; see `everview.Session.batch`."""

    __slots__ = ("_opened", "_replaced", "_session")

    def __init__(self, session: Transacting) -> None:
        self._session = session
        self._replaced: list[shield.Replaced] = []
        self._opened: list[tuple[bool, bool]] = []
        """For each time it was entered: whether the right to write was taken, and whether there was none around it"""

    @shield.covered
    def __enter__(self) -> None:
        session = self._session
        replaced = shield.up()
        take = not session._writing._is_owned()
        try:
            if take:
                shield.acquire(session._writing)
            self._opened.append((take, session._queued is None))
            if session._queued is None:
                session._queued = []
        except BaseException:  # see `Transaction.open`
            if take and session._writing._is_owned():
                self._opened.clear()
                session._queued = None
                session._writing.release()
            shield.down(replaced)
            raise
        self._replaced.append(replaced)

    @shield.covered
    def __exit__(self, *exc: object) -> None:
        try:
            self._end()
        finally:
            shield.down(self._replaced.pop())

    def _end(self) -> None:
        session = self._session
        taken, first = self._opened[-1]
        try:
            if first:
                try:
                    session._catch_up()
                finally:
                    session._queued = None
        finally:
            if taken:
                session._writing.release()
            self._opened.pop()

    def __del__(self) -> None:
        """See `Transaction.__del__`."""
        while self._opened and self._session._writing._is_owned():
            self._end()


def _tuples(rows: np.ndarray | list[tuple[int, ...]]) -> list[tuple[int, ...]]:
    return rows if isinstance(rows, list) else [tuple(r) for r in rows.T.tolist()]


def not_there(table: Table, row: tuple[int, ...]) -> InputError:
    """The error for deleting a row that a table does not have."""
    shown = table._codec.decode_row(row)
    return InputError("E_ABSENT", f"table {table._label!r}: cannot delete {shown!r}, which is not there", ABSENT_HINT)


def _counted(rows: np.ndarray | list[tuple[int, ...]], diff: int) -> tuple[np.ndarray, np.ndarray]:
    columns = rows if isinstance(rows, np.ndarray) else np.array(rows, dtype=np.int64).T
    return columns, np.full(columns.shape[1], diff, dtype=np.int64)


def _hand_over(changes: list[Change], time: int) -> None:
    """Put a transaction's rows into the tables' inboxes."""
    few: dict[Arrangement, list[int]] = {}
    for table, rows, diff in changes:
        arrangement = table._arrangement
        if isinstance(rows, list):
            words = few.setdefault(arrangement, [])
            for row in rows:
                words += row if arrangement.plain else [row[c] for c in arrangement.order]
                words.append(time)
                words.append(diff)
        else:
            _hand_over_columns(arrangement, rows, time, diff)
    for arrangement, words in few.items():
        make.push_rows(
            arrangement.operator.inbox, np.array(words, dtype=np.int64), len(words) // (arrangement.cols + 2)
        )


def _hand_over_columns(arrangement: Arrangement, rows: np.ndarray, time: int, diff: int) -> None:
    operator = arrangement.operator
    columns = rows if arrangement.plain else np.ascontiguousarray(rows[list(arrangement.order)])
    if diff == 1 and columns.shape[1] >= BULK and isinstance(operator, Arrange) and not operator.has_preset():
        make.preset_columns(operator.context, columns, time)
    else:
        make.push_columns(operator.inbox, columns, time, diff)
