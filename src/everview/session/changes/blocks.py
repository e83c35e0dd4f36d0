"""Blocks: `with db.transaction():` and `with db.batch():`, and what ends them.

A block takes the write lock, stages what its thread changes, and commits or undoes it at its end. Its end is the hard
part: Ctrl-C, an alarm or an exception from another thread may come at any instruction, and what is then left open would
take in what a handler of the program commits, and be undone later, with it. Two ways prevent that. Signals are deferred
until the block is over (`everview.dataflow.shield`); or a guard, which the `with` statement drops however it ends,
undoes what is still open (`_Guard`). The guard is five times cheaper, and used where a commit may be interrupted
anywhere: in memory, with no subscriber to notify.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from threading import get_ident
from typing import TYPE_CHECKING

from everview.cancellation import helpers
from everview.dataflow import shield
from everview.dataflow.read_leases import visitors
from everview.errors import ClosedError
from everview.runtime.base import ChangeSet
from everview.session.changes.fast_path import commit
from everview.session.limits import never_entered

if TYPE_CHECKING:
    from everview.session.core import Core


Entered = tuple["Entered | None", bool, int, Mapping[str, str] | None, shield.Replaced | None]
"""State saved when a transaction is entered: that of the enclosing entry of the same object, whether the write lock was
taken, the number of changes staged by the enclosing transaction and its offsets (None: there is no enclosing one), and
the signal handlers to restore (None: entered by `open`, which leaves them alone). A linked list costs least."""


class _Exit(property):
    """`Transaction.__exit__`: makes the guard of a `with` statement. Of the class, as `contextlib.ExitStack` reads it,
    it is a function, and nothing is guarded.
    """

    def __call__(self, transaction: Transaction, *exc: object) -> None:
        _leave(transaction, None, *exc)


class _Guard(partial[None]):
    """What a `with` statement calls at its end, and drops however it ends.

    A statement fetches `__exit__` before it calls `__enter__`, and holds what it got until it is left. An interrupt can
    come between the block and the first line of `_leave`. The traceback then keeps `_leave` and its transaction, but
    not the guard, because the call of a `partial` has no frame; so the guard is freed before any handler runs.
    """

    def __del__(self) -> None:
        transaction, outer = self.args
        if transaction.entered is not outer:
            transaction.undo_down_to(outer)


@shield.covered
def _leave(transaction: Transaction, _: Entered | None, *exc: object) -> None:
    """End a block."""
    entered, transaction.guarded = transaction.entered, False
    if entered is None or (replaced := entered[-1]) is None:
        raise never_entered("transaction")
    try:
        transaction.end(exc[0] is not None)
    finally:
        if replaced or shield.missed:
            shield.down(replaced)


class Transaction:
    """An open transaction; see `everview.Session.transaction`. Its blocks end in any case: see `_Guard`."""

    __slots__ = ("_core", "_into", "entered", "guarded")

    def __init__(self, core: Core, into: ChangeSet | None = None) -> None:
        self._core = core
        self._into = into
        self.entered: Entered | None = None
        """one entry per nested `__enter__`, linked"""
        self.guarded = False

    @shield.covered
    def __enter__(self) -> Transaction:
        runtime, take = self._core.runtime, not self._core.writing._is_owned()
        if self.guarded and runtime.sound and not runtime.captures.watched:
            self.guarded = False
            self.open(take, shield.NOTHING)
            return self
        replaced = shield.up()  # until `_leave` is done: an interrupt at its start must wait
        try:
            self.open(take, replaced)
        except BaseException:
            shield.down(replaced)
            raise
        return self

    @_Exit
    def __exit__(self) -> _Guard:
        self.guarded = True
        return _Guard(_leave, self, self.entered)

    def open(self, take: bool = True, replaced: shield.Replaced | None = None) -> None:
        """Begin a transaction, or join the one of this thread; `take` acquires the write lock if it is not held.
        `replaced`: the signal handlers that `_leave` will restore.
        """
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
                self.entered = (self.entered, take, 0, None, replaced)
                changes = ChangeSet() if self._into is None else self._into
                if core.lock._is_owned():
                    transactions.of_a_turn = changes
                transactions.staged, transactions.staged_by = changes, me
            else:
                self.entered = (self.entered, take, len(staged), staged.offsets, replaced)
        except BaseException:  # raised by another thread: this one may now hold a lock it did not hold before
            if first and take:
                self.entered = None
                if transactions.staged_by == me:
                    transactions.staged = None
                try:  # noqa: SIM105  # at once: the call of anything else may be the place of the next exception
                    core.writing.release()
                except RuntimeError:  # it did not exist before
                    pass
            raise

    def end(self, undo: bool) -> None:
        """Commit the changes, or roll them back."""
        core, transactions = self._core, self._core.transactions
        assert self.entered is not None
        outer, taken, before, offsets, replaced = self.entered
        try:
            if offsets is not None:
                if undo and transactions.staged is not None:
                    del transactions.staged[before:]
                    transactions.staged.offsets = offsets
            else:
                changes, transactions.staged = transactions.staged, None
                if undo or changes is None:
                    pass
                elif core.lock._is_owned():  # part of the current turn, which cleans up if it is interrupted
                    transactions.accept(changes)
                else:
                    with core.lock:
                        commit(core, changes, transactions.accept, (changes,), deferred=bool(replaced))
        finally:
            self.entered = outer  # no call between this and the release, so nothing can be raised there
            if taken:
                core.writing.release()
            if core.subscriptions.pending:
                core.subscriptions.deliver()

    def leave(self) -> None:
        """Release the session without committing. The staged changes stay in the `ChangeSet` that the transaction was
        created with; a new transaction with the same one continues from there.
        """
        core = self._core
        core.transactions.staged = None
        assert self.entered is not None
        self.entered, taken, *_ = self.entered
        if taken:
            core.writing.release()

    def undo_down_to(self, outer: Entered | None) -> None:
        """Undo what was entered after `outer`, unless that has ended, too; does nothing on another thread."""
        found = self.entered
        while found is not None and found is not outer:
            found = found[0]
        while found is outer and self.entered is not outer and self._core.writing._is_owned():
            self.end(True)

    def __del__(self) -> None:
        """Clean up if no statement holds a guard: what was opened by a call is forgotten with its owner."""
        if self.entered is not None:
            self.undo_down_to(None)


class Together:
    """Transactions that share a step; see `everview.Session.batch`."""

    __slots__ = ("_core", "_opened", "_replaced")

    def __init__(self, core: Core) -> None:
        self._core = core
        self._replaced: list[shield.Replaced] = []
        self._opened: list[tuple[bool, bool]] = []
        """One entry per nested `__enter__`: whether the write lock was taken, and whether it is the outermost batch"""

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
