"""Transactions: changes are staged while one is open and passed to the runtime when it ends.

A commit is one *step*, which brings every view up to date or, on any failure, changes nothing. In a batch several
transactions, each with its own time, share a step. Deletion of absent rows is detected by the step itself (a
multiplicity below zero). In a batch it is detected when the transaction ends, so that the error is raised where the
mistake is.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Collection, Iterable
from threading import get_ident
from typing import TYPE_CHECKING, Any

import numpy as np

from everview.cancellation import helpers
from everview.codes.values import decode_value
from everview.dataflow.operators import Operator
from everview.dataflow.read_leases import visitors
from everview.dataflow.scopes import MAX_EPOCHS
from everview.dataflow.step_errors import ABSENT_HINT
from everview.errors import ConstraintError, EverviewError, InputError, LoopError, MemoryLimitError
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
from everview.session.changes.blocks import Transaction
from everview.session.changes.current_rows import current, how_often
from everview.session.changes.fast_path import commit_alone
from everview.session.changes.turns import reads, writes
from everview.session.rights.principal import WHO, doing

if TYPE_CHECKING:
    from everview.session.core import Core
    from everview.session.reads.what_if import WhatIf
    from everview.session.relations import TableRelation
    from everview.session.table import Table

Rows = Any
"""Encoded rows: columns as an array, a list of tuples, or `RemoteRows`"""


class Transactions:
    """The staged and queued changes of a session, and how they are run."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self.staged: ChangeSet | None = None
        """changes staged by the current transaction"""
        self.staged_by = 0
        """the thread that owns it"""
        self.queued: list[ChangeSet] | None = None
        """transactions accepted by the current batch"""
        self.of_a_turn: ChangeSet | None = None
        """changes staged by a transaction that was opened inside a turn and must end with it"""

    def pending(self) -> ChangeSet | None:
        """The changes staged by this thread's transaction, if it has one."""
        return self.staged if self.staged_by == get_ident() else None

    def supposed(self) -> WhatIf | None:
        """The `what_if` block that this thread is in, if any."""
        staged = self.staged
        if staged is None or self.staged_by != get_ident():
            return None
        return staged.what_if if isinstance(staged, Supposition) else None

    def refuse_supposed(self, what: str) -> None:
        """Refuse an operation that `what_if` could not undo."""
        if self.supposed() is not None:
            raise InputError(
                "E_WHAT_IF",
                f"{what} inside what_if, after which nothing has happened",
                "do it before or after; inside, tables can be changed and everything can be read",
            )

    def settle(self) -> None:
        """Roll back a transaction that was opened inside an interrupted turn and could not be ended."""
        if self.staged is not None and self.staged is self.of_a_turn:
            self.staged = None
        self.of_a_turn = None

    # staging

    def change(self, table: Table, relation: TableRelation, rows: Any, diff: int) -> None:
        """Encode rows and stage them. The common case is written out here; checks and preparation are in `stage`."""
        core, staged = self._core, self.staged
        if relation.dropped:
            self.check_writable(table)
        codes: Rows = relation.codec.encode_few(rows)
        if codes is None:
            codes = relation.codec.encode(rows)
        if staged is None:
            if WHO.get() is None and not (core.lock._is_owned() or helpers or visitors):
                commit_alone(core, ChangeSet(((table, codes, diff),)), self._stage, relation)
                return
        elif (
            self.staged_by == get_ident()
            and not (core.unsettled or core.runtime.backing.read_only)
            and WHO.get() is None
        ):
            staged.append((table, codes, diff))
            return
        self.stage(table, codes, diff)

    def stage(self, table: Table, rows: Rows, diff: int) -> None:
        """Stage a change in the current transaction, or commit it as a transaction of its own.

        Inside a transaction of this thread, staging is one list append and needs no turn, unless an interrupted turn
        must be settled first: its leftovers may be this very transaction.
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
        else:
            commit_alone(core, ChangeSet(((table, rows, diff),)), self._stage, relation_of(table))

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
        """Refuse to change a table that was dropped or that follows another process."""
        if relation_of(table).dropped:
            table._alive()
        backing = self._core.runtime.backing
        if backing.read_only and self.supposed() is None:  # `what_if` may change it there, too
            backing.check_writable(f"table {relation_of(table).label!r} cannot be changed")

    def set_offset(self, name: str, value: str) -> None:
        """Store a text under a name together with the current transaction, or as a transaction of its own. Both are
        committed or neither. An empty text removes the offset; `runtime.offsets` has the committed ones.

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
        """Codes of the rows under the given keys (None: all), as seen by the current transaction, repeated by
        multiplicity.
        """
        return _tuples(self.current(table, None if keys is None else np.array(keys, dtype=np.int64).T))

    def waits(self, table: Table) -> bool:
        """Whether staged or queued changes affect a table, so that its index alone is not current."""
        pending = [*(self.queued or ()), self.staged or ()]
        return any(other is table for changes in pending for other, _, _ in changes)

    def add(self, changes: ChangeSet) -> None:
        """Add changes to the current transaction, or commit them as one; call it in a turn that writes."""
        if WHO.get() is not None:
            for table, rows, diff in changes:
                self._core.access.may_change(table, rows, diff)
        if self.staged is not None:
            self.staged.extend(changes)
        else:
            self.accept(changes)

    def current(self, table: Table, keys: np.ndarray | None) -> np.ndarray:
        """Like `present`, as columns."""
        arrangement, runtime = relation_of(table).arrangement, self._core.runtime
        runtime.sync(arrangement.operator)
        pending = [c for changes in self.queued or [] for c in changes] + (self.staged or [])
        staged = [_counted(rows, diff) for other, rows, diff in pending if other is table and len(rows)]
        return current(arrangement, runtime.dataflow.time, staged, relation_of(table).key, keys)

    # running

    def accept(self, changes: ChangeSet) -> None:
        """Run a transaction, or queue it in a batch; call it in a turn that writes. Subscribers are called
        afterwards."""
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
        """Run a transaction and commit the positions of sequences with it."""
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
        """Run an empty transaction to let time pass."""
        self.accept(ChangeSet())

    def _run_timed(self, changes: ChangeSet) -> None:
        """Run a transaction extended by the changes of clock followers.

        Followers read current contents, so this is a separate step even in a batch.
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
        """Compute what a transaction and its consequences (referential actions, clock followers) would change in some
        operators' traces. Call it in a turn.
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
        """Like `suppose`, including the changes of clock followers."""
        clock = self._core.clock
        with clock.not_after(work):
            undo = clock.extend(work, exactly=True)
            try:
                return self._core.runtime.suppose(work, wanted)
            finally:
                undo()

    def run(self, transactions: list[ChangeSet]) -> None:
        """Run transactions, one time each, as one step; all or none of them commit."""
        core = self._core
        if core.closed or core.runtime.dataflow.serving:
            core.changing()
        self.tell(core.runtime.step(transactions), transactions)

    def tell(self, outcome: StepOutcome, transactions: list[ChangeSet]) -> None:
        """Queue the changes of a step for subscribers; raise its error, if any."""
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
        if self.queued:  # otherwise another thread already did
            self._core.alive()
            queued, self.queued = self.queued, []
            self.run(queued)

    # errors

    def _explained(self, error: BaseException, transactions: list[ChangeSet]) -> BaseException:
        """Translate the error of a step into terms of tables and views."""
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
        """Name the views that need the failed operator."""
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
        """Name the views that contain a loop that did not converge."""
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
        """Name the row that was deleted without being present."""
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
        """The stored multiplicity of a row, ignoring staged changes."""
        runtime = self._core.runtime
        runtime.sync(relation_of(table).arrangement.operator)
        return how_often(relation_of(table).arrangement, runtime.dataflow.time, row)

    # batches

    def _queue(self, changes: ChangeSet) -> None:
        """Queue a transaction for the step that ends the batch."""
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
    """A transaction that will not be committed.

    It holds only a weak reference to the `what_if`. If an asynchronous exception prevents the block's exit, the
    `what_if` dies with the block and its transaction with it (`Transaction.__del__`).
    """

    __slots__ = ("_of",)

    def __init__(self, what_if: WhatIf) -> None:
        super().__init__()
        self._of = weakref.ref(what_if)

    @property
    def what_if(self) -> WhatIf | None:
        """The `what_if` that it belongs to, while that is alive."""
        return self._of()


def _tuples(rows: np.ndarray | list[tuple[int, ...]]) -> list[tuple[int, ...]]:
    return rows if isinstance(rows, list) else [tuple(r) for r in rows.T.tolist()]


def not_there(table: Table, row: tuple[int, ...]) -> InputError:
    """Return the error for deleting a row that a table does not have."""
    shown = relation_of(table).codec.decode_row(row)
    return InputError(
        "E_ABSENT", f"table {relation_of(table).label!r}: cannot delete {shown!r}: there is no such row", ABSENT_HINT
    )


def key_of(table: Table, row: tuple[int, ...]) -> dict[str, Any]:
    """The key of a row whose other columns may be unknown."""
    codec = relation_of(table).codec
    return {codec.names[c]: decode_value(codec.types[c], row[c], codec.interner) for c in relation_of(table).key}


def no_such_key(table: Table, row: tuple[int, ...]) -> InputError:
    """Return the error for deleting by a key that a table does not have."""
    shown = ", ".join(f"{name} {value!r}" for name, value in key_of(table, row).items())
    return InputError(
        "E_ABSENT",
        f"table {relation_of(table).label!r}: cannot delete {shown}: there is no such row",
        'a feed that may delete twice is counted with missing="count"; bad="quarantine" sets such records aside',
    )


def _counted(rows: np.ndarray | list[tuple[int, ...]], diff: int) -> tuple[np.ndarray, np.ndarray]:
    columns = columns_of(rows)
    return columns, np.full(columns.shape[1], diff, dtype=np.int64)
