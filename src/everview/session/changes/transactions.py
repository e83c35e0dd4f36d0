"""Transactions: rows are staged while one runs and handed to the runtime when it ends.

That is one *step*, which brings every view up to date or, if anything fails, changes nothing. A batch lets several
transactions, each with its own time, share a step. Deleting what is not there is found by the step itself (a table's
count below zero) and, in a batch, when the transaction ends, so that the error comes where the mistake is.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from threading import get_ident
from typing import TYPE_CHECKING, Any

import numpy as np

from everview.codes.values import decode_value
from everview.dataflow import shield
from everview.dataflow.faults import ABSENT_HINT
from everview.dataflow.lending import visitors
from everview.dataflow.operators import Operator
from everview.dataflow.scopes import MAX_EPOCHS
from everview.errors import ClosedError, ConstraintError, EverviewError, InputError, LoopError, MemoryLimitError
from everview.language.relation import relation_of
from everview.runtime.base import (
    COMMITTED,
    AbsentRows,
    Change,
    ChangeSet,
    RemoteRows,
    StepOutcome,
    columns_of,
    in_table_order,
)
from everview.runtime.captures import Supposed
from everview.session.changes.current_rows import current, how_often
from everview.session.changes.short_way import commit
from everview.session.changes.turns import reads, writes
from everview.session.limits import never_entered
from everview.session.rights.acting import WHO, doing
from everview.stopping import helpers

if TYPE_CHECKING:
    from everview.session.core import Core
    from everview.session.reads.what_if import WhatIf
    from everview.session.relations import TableRelation
    from everview.session.table import Table

Rows = Any
"""Rows' codes: columns as an array, a list of tuples, or `RemoteRows`"""


class Transactions:
    """What is staged, what is queued, and how it is run."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self.staged: ChangeSet | None = None
        """what the transaction under way has changed so far"""
        self.staged_by = 0
        """the thread whose transaction it is"""
        self.queued: list[ChangeSet] | None = None
        """the transactions that a batch has accepted"""
        self.of_a_turn: ChangeSet | None = None
        """what a transaction stages that was opened inside a turn, and so must end with it"""

    def pending(self) -> ChangeSet | None:
        """What this thread's transaction has staged so far, if one is under way."""
        return self.staged if self.staged_by == get_ident() else None

    def supposed(self) -> WhatIf | None:
        """The `what_if` that this thread is in, if it is in one."""
        staged = self.staged
        if staged is None or self.staged_by != get_ident():
            return None
        return staged.what_if if isinstance(staged, Supposition) else None

    def refuse_supposed(self, what: str) -> None:
        """Refuse what cannot be undone inside `what_if`."""
        if self.supposed() is not None:
            raise InputError(
                "E_WHAT_IF",
                f"{what} inside what_if, after which nothing has happened",
                "do it before or after; inside, tables can be changed and everything can be read",
            )

    def settle(self) -> None:
        """A turn was cut off: a transaction that was opened inside it, and could not be ended, has changed nothing."""
        if self.staged is not None and self.staged is self.of_a_turn:
            self.staged = None
        self.of_a_turn = None

    # staging

    def change(self, table: Table, relation: TableRelation, rows: Any, diff: int) -> None:
        """Encode rows and stage them. What a row in a transaction takes in most sessions is written out here; what may
        be refused, or is to be put in order before, is `stage`'s.
        """
        core, staged = self._core, self.staged
        if relation.dropped:
            self.check_writable(table)
        codes: Rows = relation.codec.encode_few(rows)
        if codes is None:
            codes = relation.codec.encode(rows)
        if (
            staged is not None
            and self.staged_by == get_ident()
            and not (core.unsettled or core.runtime.backing.read_only)
            and WHO.get() is None
        ):
            staged.append((table, codes, diff))
        else:
            self.stage(table, codes, diff)

    def stage(self, table: Table, rows: Rows, diff: int) -> None:
        """Add a change to the transaction under way, or make it one of its own.

        In a transaction of this thread's it is one call of a list's, which needs no turn, unless there is something to
        be settled first: what a turn has left that was cut off may be this very transaction.
        """
        core, staged = self._core, self.staged
        if WHO.get() is not None:
            core.access.may_change(table, rows, diff)
        if staged is not None and not core.unsettled and self.staged_by == get_ident():
            if relation_of(table).dropped or core.runtime.backing.read_only:
                self.check_writable(table)
            staged.append((table, rows, diff))
        elif core.lock._is_owned() or helpers or visitors:
            self._stage_along(table, rows, diff)
        else:  # as `writes` does; this is the way of every single change
            change = table, rows, diff
            try:
                with core.writing, core.lock:
                    commit(core, ChangeSet((change,)), self._stage, change, relation_of(table))
            finally:
                if core.subscriptions.pending:
                    core.subscriptions.deliver()

    @writes
    def _stage_along(self, table: Table, rows: Rows, diff: int) -> None:
        self._stage(table, rows, diff)

    def _stage(self, table: Table, rows: Rows, diff: int) -> None:
        if relation_of(table).dropped or self._core.runtime.backing.read_only:
            self.check_writable(table)
        if self.staged is not None:
            self.staged.append((table, rows, diff))
        else:
            self.accept(ChangeSet(((table, rows, diff),)))

    def check_writable(self, table: Table) -> None:
        """Refuse to change a table that is gone, or follows another process's."""
        if relation_of(table).dropped:
            table._alive()
        backing = self._core.runtime.backing
        if backing.read_only and self.supposed() is None:  # that something changes may be supposed there, too
            backing.check_writable(f"table {relation_of(table).label!r} cannot be changed")

    def set_offset(self, name: str, value: str) -> None:
        """Keep a text under a name together with the transaction under way: both are committed or neither is. Outside
        one it is a transaction of its own; `runtime.offsets` has those that are committed. An empty text removes it.

        >>> import everview as ev
        >>> from everview.session.core import core_of
        >>> db = ev.connect()
        >>> core = core_of(db)
        >>> with db.transaction():
        ...     core.transactions.set_offset("rows read", "17")
        >>> core.runtime.offsets, db.time
        ({'rows read': '17'}, 1)
        """
        with Transaction(self._core):
            assert self.staged is not None
            self.staged.offsets = {**self.staged.offsets, name: value}

    @writes
    def clear(self, table: Table) -> None:
        """Delete all rows of a table."""
        self.check_writable(table)
        with Transaction(self._core):
            table._alive()
            rows = self.current(table, None)
            if rows.size:
                with doing("TRUNCATE"):
                    self.stage(table, rows, -1)

    def present(self, table: Table, keys: list[tuple[int, ...]] | None) -> list[tuple[int, ...]]:
        """Codes of the rows under the given keys (None: all), as the transaction under way sees them, repeated by
        multiplicity.
        """
        return _tuples(self.current(table, None if keys is None else np.array(keys, dtype=np.int64).T))

    def waits(self, table: Table) -> bool:
        """Whether a table is changed by what is staged or queued: then its index is not all there is to see."""
        pending = [*(self.queued or ()), self.staged or ()]
        return any(other is table for changes in pending for other, _, _ in changes)

    def add(self, changes: ChangeSet) -> None:
        """Add changes to the transaction under way, or make them one; in a turn that writes."""
        if WHO.get() is not None:
            for table, rows, diff in changes:
                self._core.access.may_change(table, rows, diff)
        if self.staged is not None:
            self.staged.extend(changes)
        else:
            self.accept(changes)

    def current(self, table: Table, keys: np.ndarray | None) -> np.ndarray:
        """The same as columns."""
        arrangement, runtime = relation_of(table).arrangement, self._core.runtime
        runtime.sync(arrangement.operator)
        pending = [c for changes in self.queued or [] for c in changes] + (self.staged or [])
        staged = [_counted(rows, diff) for other, rows, diff in pending if other is table and len(rows)]
        return current(arrangement, runtime.dataflow.time, staged, relation_of(table).key, keys)

    # running

    def accept(self, changes: ChangeSet) -> None:
        """Run a transaction, or queue it in a batch, in a turn that writes. Subscribers are called after it."""
        core = self._core
        backing = core.runtime.backing
        if core.closed or core.runtime.dataflow.serving:
            core.changing()
        if backing.read_only:
            backing.check_writable("nothing can be committed")
        if core.constraints.acting:
            core.constraints.extend(changes)
        if core.defaults.waiting:
            self._accept_numbered(changes)
        else:
            self._accept(changes)

    def _accept_numbered(self, changes: ChangeSet) -> None:
        """The same, and how far sequences are is committed with it."""
        offsets = self._core.defaults.pending()
        changes.offsets = {**changes.offsets, **offsets}
        self._accept(changes)
        self._core.defaults.kept(offsets)

    def _accept(self, changes: ChangeSet) -> None:
        core = self._core
        if core.clock.agenda.ranked:
            self._run_timed(changes)
        elif self.queued is not None:
            self._queue(changes)
        else:
            outcome = core.runtime.step([changes])
            if outcome is not COMMITTED:
                self.tell(outcome, [changes])

    @writes
    def commit_empty(self) -> None:
        """Run an empty transaction: time has passed."""
        self.accept(ChangeSet())

    def _run_timed(self, changes: ChangeSet) -> None:
        """Run a transaction with what it and the time that passed mean for the clock's followers.

        They look at what is there, so even in a batch it is a step of its own.
        """
        clock = self._core.clock
        self.catch_up()
        with clock.not_after(changes):
            undo = clock.extend(changes)
            changes.offsets = {**changes.offsets, **clock.offsets()}
            try:
                self.run([changes])
            except BaseException:
                undo()
                raise
            clock.note()

    def suppose(self, changes: ChangeSet, wanted: Callable[[], Collection[Operator]]) -> Supposed:
        """What a transaction, with what follows from it (constraints' actions, the passing of time), would change in
        some operators' traces. In a turn.
        """
        core = self._core
        if core.closed or core.runtime.dataflow.serving:
            core.changing()
        if self.queued:
            self.catch_up()
        timed = core.clock.agenda.ranked
        if timed or core.constraints.acting:
            changes = ChangeSet(changes)
        try:
            if core.constraints.acting:
                core.constraints.extend(changes)
            return self._suppose_timed(changes, wanted) if timed else core.runtime.suppose(changes, wanted)
        except EverviewError as error:
            explained = self._explained(error, [changes])
            if explained is error:
                raise
            raise explained from None

    def _suppose_timed(self, work: ChangeSet, wanted: Callable[[], Collection[Operator]]) -> Supposed:
        """The same with what the clock's followers make of it, and of the time that passed."""
        clock = self._core.clock
        with clock.not_after(work):
            undo = clock.extend(work, exactly=True)
            try:
                return self._core.runtime.suppose(work, wanted)
            finally:
                undo()

    def run(self, transactions: list[ChangeSet]) -> None:
        """Run transactions, one time each, as one step; all or none of them."""
        core = self._core
        if core.closed or core.runtime.dataflow.serving:
            core.changing()
        self.tell(core.runtime.step(transactions), transactions)

    def tell(self, outcome: StepOutcome, transactions: list[ChangeSet]) -> None:
        """What a step changed is to be delivered; what went wrong is raised."""
        if outcome.changes:
            self._core.subscriptions.take(outcome.changes)
        if outcome.error is not None:
            raise self._explained(outcome.error, transactions)

    def catch_up(self) -> None:
        """Run the transactions that a batch has accepted so far."""
        if self.queued:
            self._run_queued()

    @reads
    def _run_queued(self) -> None:
        if self.queued:  # else another thread was quicker
            self._core.alive()
            queued, self.queued = self.queued, []
            self.run(queued)

    # errors

    def _explained(self, error: BaseException, transactions: list[ChangeSet]) -> BaseException:
        """What went wrong in a step, in the words of tables and views."""
        if isinstance(error, LoopError):
            self._name_loop(error)
        elif isinstance(error, ConstraintError):
            return self._core.constraints.explained(error, [c for changes in transactions for c in changes])
        elif isinstance(error, InputError) and error.code == "E_ABSENT":
            return self._absent([c for changes in transactions for c in changes], error)
        elif isinstance(error, (InputError, MemoryLimitError)):
            self._name_views(error)
        return error

    def _name_views(self, error: EverviewError) -> None:
        """Say which views the operator is needed for that was running when a step failed."""
        dataflow = self._core.runtime.dataflow
        if error.operator is not None:
            operator = dataflow.numbered[error.operator]
            views = self._core.catalog.views.values()
            names = [
                repr(relation_of(v).label)
                for v in views
                if operator in dataflow.needed([relation_of(v).arrangement.operator])
            ]
            if names:
                error.message = f"view {', '.join(names)}: {error.message}"

    def _name_loop(self, error: LoopError) -> None:
        """Say which views a loop that did not converge belongs to."""
        dataflow = self._core.runtime.dataflow
        if error.loop is not None:
            loop = dataflow.scopes()[error.loop]
            names = [
                repr(relation_of(v).label)
                for v in self._core.catalog.views.values()
                if any(loop.contains(o.scope) for o in dataflow.needed([relation_of(v).arrangement.operator]))
            ]
            error.message = f"view {', '.join(names)}: {error.message}"

    def _absent(self, changes: Iterable[Change], error: InputError) -> InputError:
        """Say which row was deleted without being there."""
        if isinstance(error, AbsentRows):
            table = next(t for t in self._core.catalog.tables.values() if relation_of(t).id == error.table)
            row = in_table_order(next(iter(error.rows)), relation_of(table).arrangement.order)
            error.message = (no_such_key if relation_of(table).key else not_there)(table, row).message
            return error
        here = [c for c in changes if not isinstance(c[1], RemoteRows)]
        for table, rows, diff in here:
            if diff < 0:
                for row in _tuples(rows):
                    have = self.how_often(table, row)
                    net = sum(d * sum(r == row for r in _tuples(other)) for t, other, d in here if t is table)
                    if have + net < 0:
                        return not_there(table, row)
        return error

    def how_often(self, table: Table, row: tuple[int, ...]) -> int:
        """How often a table holds a row, what is staged left aside."""
        runtime = self._core.runtime
        runtime.sync(relation_of(table).arrangement.operator)
        return how_often(relation_of(table).arrangement, runtime.dataflow.time, row)

    # batches

    def _queue(self, changes: ChangeSet) -> None:
        """Accept a transaction for the step that ends the batch."""
        assert self.queued is not None
        for table, rows, diff in changes:
            if diff < 0:
                self._check_queued(table, rows, changes)
        self.queued.append(changes)
        if len(self.queued) == MAX_EPOCHS:
            self.catch_up()

    def _check_queued(self, table: Table, rows: Rows, changes: list[Change]) -> None:
        assert self.queued is not None
        queued: dict[tuple[int, ...], int] = {}
        for batch in (*self.queued, changes):
            for other, codes, diff in batch:
                if other is table:
                    for row in _tuples(codes):
                        queued[row] = queued.get(row, 0) + diff
        for row in _tuples(rows):
            if queued[row] < 0 and self.how_often(table, row) + queued[row] < 0:
                raise not_there(table, row)


class Supposition(ChangeSet):
    """What a transaction changes that will not be committed.

    It does not keep the `what_if` alive: one whose end was cut off by another thread's exceptions dies with the block
    that used it, and its transaction with it (`Transaction.__del__`).
    """

    __slots__ = ("_of",)

    def __init__(self, what_if: WhatIf) -> None:
        super().__init__()
        self._of = weakref.ref(what_if)

    @property
    def what_if(self) -> WhatIf | None:
        """What it is a part of, while somebody uses that."""
        return self._of()


Entered = tuple[bool, int, Mapping[str, str] | None]
"""What there was when a transaction was entered: whether the right to write was taken then, how many changes the
transaction around it had staged, and which offsets (None: there was none around it)."""


class Transaction:
    """A transaction under way; see `everview.Session.transaction`."""

    _replaced: tuple[shield.Replaced, ...] = ()
    _before: tuple[Entered, ...] = ()
    """both for each time it was entered"""

    def __init__(self, core: Core, into: ChangeSet | None = None) -> None:
        self._core = core
        self._into = into

    @shield.covered
    def __enter__(self) -> Transaction:
        replaced = shield.up()  # until `__exit__` is done: an interrupt that comes as it begins must wait
        try:
            self.open(not self._core.writing._is_owned())
        except BaseException:
            shield.down(replaced)
            raise
        self._replaced += (replaced,)
        return self

    @shield.covered
    def __exit__(self, kind: object, error: object, traceback: object) -> None:
        if not self._replaced:
            raise never_entered("transaction")
        try:
            self.end(kind is not None)
        finally:
            replaced, self._replaced = self._replaced[-1], self._replaced[:-1]
            shield.down(replaced)

    def open(self, take: bool = True) -> None:
        """Begin, or join the transaction that this thread has begun; `take` the right to write, if it is not there."""
        core, me = self._core, get_ident()
        if take and (helpers or visitors):
            core.refuse_waiting()
        transactions = core.transactions
        first = transactions.staged is None or transactions.staged_by != me
        try:
            if take and not core.writing.acquire(False):
                shield.acquire(core.writing)
            staged = transactions.staged if transactions.staged_by == me else None
            if staged is None:
                self._before += ((take, 0, None),)
                changes = ChangeSet() if self._into is None else self._into
                if core.lock._is_owned():
                    transactions.of_a_turn = changes
                transactions.staged, transactions.staged_by = changes, me
            else:
                self._before += ((take, len(staged), staged.offsets),)
        except BaseException:  # raised by another thread: this one may hold what it did not hold before
            if first and take:
                self._before = ()
                if transactions.staged_by == me:
                    transactions.staged = None
                try:  # noqa: SIM105  # at once: the call of anything else may be the place of the next exception
                    core.writing.release()
                except RuntimeError:  # it was not there yet
                    pass
            raise

    def end(self, undo: bool) -> None:
        """Commit what was changed, or take it back."""
        core, transactions = self._core, self._core.transactions
        taken, before, offsets = self._before[-1]
        try:
            if offsets is not None:
                if undo and transactions.staged is not None:
                    del transactions.staged[before:]
                    transactions.staged.offsets = offsets
            else:
                changes, transactions.staged = transactions.staged, None
                if undo or changes is None:
                    pass
                elif core.lock._is_owned():  # a part of the turn under way, which puts things in order if it is cut off
                    transactions.accept(changes)
                else:
                    with core.lock:
                        commit(core, changes, transactions.accept, (changes,))
        finally:
            self._before = self._before[:-1]  # no call between this and the release: there nothing is raised
            if taken:
                core.writing.release()
            if core.subscriptions.pending:
                core.subscriptions.deliver()

    def leave(self) -> None:
        """Let go of the session with nothing done; what was staged is in the `ChangeSet` that the transaction was made
        with. One made with it again goes on where this one was.
        """
        core = self._core
        core.transactions.staged = None
        taken, self._before = self._before[-1][0], self._before[:-1]
        if taken:
            core.writing.release()

    def __del__(self) -> None:
        """An exception that another thread raised here kept `__exit__` from beginning."""
        while self._before and self._core.writing._is_owned():
            self.end(True)


class Together:
    """Transactions that share a step; see `everview.Session.batch`."""

    __slots__ = ("_core", "_opened", "_replaced")

    def __init__(self, core: Core) -> None:
        self._core = core
        self._replaced: list[shield.Replaced] = []
        self._opened: list[tuple[bool, bool]] = []
        """For each time it was entered: whether the right to write was taken, and whether there was none around it"""

    @shield.covered
    def __enter__(self) -> None:
        core, transactions = self._core, self._core.transactions
        take = not core.writing._is_owned()
        if take and (helpers or visitors):
            core.refuse_waiting()
        replaced = shield.up()
        try:
            if take:
                shield.acquire(core.writing)
            self._opened.append((take, transactions.queued is None))
            if transactions.queued is None:
                transactions.queued = []
        except BaseException:  # see `Transaction.open`
            if take and self._opened:
                self._opened, transactions.queued = [], None
            if take:
                try:  # noqa: SIM105
                    core.writing.release()
                except RuntimeError:
                    pass
            shield.down(replaced)
            raise
        self._replaced.append(replaced)

    @shield.covered
    def __exit__(self, *exc: object) -> None:
        if not self._replaced:
            raise never_entered("batch")
        try:
            self._end()
        finally:
            shield.down(self._replaced.pop())

    def _end(self) -> None:
        core, transactions = self._core, self._core.transactions
        taken, first = self._opened[-1]
        try:
            if first:
                try:
                    transactions.catch_up()
                finally:
                    transactions.queued = None
        finally:
            self._opened = self._opened[:-1]  # see `Transaction.end`
            if taken:
                core.writing.release()

    def __del__(self) -> None:
        """See `Transaction.__del__`."""
        while getattr(self, "_opened", None) and self._core.writing._is_owned():
            with suppress(ClosedError):
                self._end()


def _tuples(rows: np.ndarray | list[tuple[int, ...]]) -> list[tuple[int, ...]]:
    return rows if isinstance(rows, list) else [tuple(r) for r in rows.T.tolist()]


def not_there(table: Table, row: tuple[int, ...]) -> InputError:
    """The error for deleting a row that a table does not have."""
    shown = relation_of(table).codec.decode_row(row)
    return InputError(
        "E_ABSENT", f"table {relation_of(table).label!r}: cannot delete {shown!r}: there is no such row", ABSENT_HINT
    )


def key_of(table: Table, row: tuple[int, ...]) -> dict[str, Any]:
    """The key of a row, of which the rest may not be known."""
    codec = relation_of(table).codec
    return {codec.names[c]: decode_value(codec.types[c], row[c], codec.interner) for c in relation_of(table).key}


def no_such_key(table: Table, row: tuple[int, ...]) -> InputError:
    """The error for deleting by a key that a table does not have."""
    shown = ", ".join(f"{name} {value!r}" for name, value in key_of(table, row).items())
    return InputError(
        "E_ABSENT",
        f"table {relation_of(table).label!r}: cannot delete {shown}: there is no such row",
        'a feed that may delete twice is counted with missing="count"; bad="quarantine" sets such records aside',
    )


def _counted(rows: np.ndarray | list[tuple[int, ...]], diff: int) -> tuple[np.ndarray, np.ndarray]:
    columns = columns_of(rows)
    return columns, np.full(columns.shape[1], diff, dtype=np.int64)
