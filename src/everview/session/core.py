"""The parts of a session. `Session` is the public interface of a `Core`, which has

    runtime         executes the dataflow (`everview.runtime`)
    catalog         tables and views by name, and their definitions as entries
    access          access control
    definitions     creates and drops named objects
    transactions    stages changes and runs them as steps
    by_key          inserts into tables with keys, upserts, deletes by key
    constraints     integrity constraints and referential actions
    defaults        values of missing columns
    subscriptions   delivers the changes of steps
    clock           changes that happen as time passes

The parts reach each other only through the core. For how threads share it, see `everview.session.changes.turns`.
"""

from __future__ import annotations

import threading
import weakref
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from everview.cancellation import Stop, helpers
from everview.dataflow.operators import Trace
from everview.dataflow.read_leases import MustWait, visitors
from everview.errors import ClosedError, InputError
from everview.expr.language import UserFunction
from everview.plan.trust import NOBODY, Trust
from everview.runtime.base import Runtime
from everview.session.changes.constraints import Constraints
from everview.session.changes.defaults import Defaults
from everview.session.changes.keyed_changes import KeyedChanges
from everview.session.changes.subscriptions import Subscriptions
from everview.session.changes.transactions import Transactions
from everview.session.clock.clock import Clock
from everview.session.history import History, kept
from everview.session.limits import WATCH, Limits
from everview.session.names.catalog import Catalog
from everview.session.names.definitions import Definitions
from everview.session.names.plan_history import PlanHistory
from everview.session.rights.access import Access
from everview.session.sql_settings import CURRENT, SqlSettings
from everview.session.statistics import Statistics
from everview.types import DataType

if TYPE_CHECKING:
    from everview.session.session import Session


CORES: weakref.WeakSet[Core] = weakref.WeakSet()
"""The sessions of this process, which share its memory."""


class Core:
    """The parts of one session."""

    def __init__(self, runtime: Runtime, *, history: History = 1000, trust: Trust = NOBODY) -> None:
        self.closed = True  # until construction is complete
        self.runtime = runtime
        self.interner = runtime.interner
        self.history = kept(runtime, history)
        self.writing: Any = threading.RLock()
        self.lock: Any = threading.RLock()
        self.home = threading.get_ident()
        """the thread that created it"""
        self.limits: dict[int, Limits] = {}
        """the limits of calls, by thread"""
        self.stop: Stop | None = None
        """the stop request of the current call, or of one that has just ended"""
        self.unsettled = False
        """whether a turn is in progress or ended unexpectedly"""
        self.released: deque[tuple[Trace, int]] = deque()
        """times that snapshots no longer need; they are released in any thread at any moment"""
        self.catalog = Catalog(trust)
        self.access = Access(self)
        self.clock = Clock(self)
        self.subscriptions = Subscriptions(self)
        self.transactions = Transactions(self)
        self.by_key = KeyedChanges(self)
        self.definitions = Definitions(self)
        self.plans = PlanHistory()
        self.statistics = Statistics(self)
        self.constraints = Constraints(self)
        self.defaults = Defaults(self)
        self.functions: dict[str, UserFunction] = {}
        """Python functions that SQL and Datalog can call, by name"""
        self._sql_settings = SqlSettings()
        self.types: dict[str, DataType] = {}
        """types created by SQL's CREATE TYPE, by name"""
        self.domains: dict[str, str] = {}
        """what CREATE DOMAIN says behind the name: a type, and what holds for its values"""
        self.statement_log: Callable[[Callable[[Any], Any], Any], Any] | None = None
        """runs statements and records them, while that is wanted (`everview.system.log`)"""
        self.attached: dict[str, Any] = {}
        """per-session state of languages and pipelines, by name"""
        self.may_use_files = True
        """whether SQL may read and write files"""
        self.session: Session
        """its public interface"""
        self.closed = False
        CORES.add(self)

    @property
    def time(self) -> int:
        """The last complete time, including transactions queued in a batch."""
        queued = self.transactions.queued
        return self.runtime.dataflow.time + (len(queued) if queued else 0)

    @property
    def zone(self) -> str:
        """The time zone in which SQL reads and writes timestamps."""
        return (CURRENT.get() or self._sql_settings).zone

    @zone.setter
    def zone(self, name: str) -> None:
        (CURRENT.get() or self._sql_settings).zone = name

    @property
    def search_path(self) -> tuple[str, ...]:
        """The schemas in which SQL looks up unqualified names."""
        return (CURRENT.get() or self._sql_settings).search_path

    @search_path.setter
    def search_path(self, path: tuple[str, ...]) -> None:
        (CURRENT.get() or self._sql_settings).search_path = path

    def others(self) -> list[Core]:
        """The other sessions of this process."""
        return [core for core in list(CORES) if core is not self]

    def alive(self) -> None:
        """Raise if the session is closed."""
        if self.closed:
            raise ClosedError("E_CLOSED", "the session is closed", "open a new one with everview.connect()")

    def changing(self) -> None:
        """Call before any change. Refuses changes from user functions that a running step calls."""
        self.alive()
        if self.runtime.dataflow.serving == threading.get_ident():
            raise reentrant()

    def refuse_waiting(self) -> None:
        """Refuse a turn where waiting would deadlock: in a function that runs beside the call that needs its result,
        and in a guest of the current step.
        """
        if threading.get_ident() in helpers:
            raise reentrant()
        if threading.get_ident() in visitors:
            raise MustWait

    def prepare(self) -> None:
        """Called at the start of a turn if needed: release what snapshots held, and settle an interrupted turn."""
        if self.stop is not None:
            WATCH.ended(self)
        while self.released:
            trace, time = self.released.popleft()
            if not self.closed:
                trace.release(time)
        if self.unsettled and not self.closed:
            self.settle()
        self.unsettled = False

    def settle(self) -> None:
        """Restore a consistent state after any interruption; idempotent."""
        self.catalog.uninterruptible.wait()
        self.transactions.settle()
        try:
            outcome = self.runtime.settle()
        except ClosedError:
            self.abandon()
            raise
        if outcome is not None:
            self.subscriptions.take(outcome.changes)
            self.definitions.settle()

    def close(self) -> None:
        """Release everything, once; call it in a turn."""
        if not self.closed:
            self.changing()
            self.catalog.uninterruptible.wait()
            try:
                self.transactions.catch_up()
            finally:
                self.closed = True
                system = self.attached.pop("system", None)
                if system is not None:
                    system.close()
                self.runtime.close()

    def abandon(self) -> None:
        """Release memory and locks without writing, as if the process had died."""
        if not self.closed:
            self.closed = True
            self.catalog.uninterruptible.wait()
            self.runtime.abandon()

    def __del__(self) -> None:
        if not getattr(self, "closed", True):  # garbage-collected without being closed: acknowledged changes are safe
            self.abandon()


def reentrant() -> InputError:
    """Return the error for a function that is called by a step and calls the session."""
    return InputError(
        "E_REENTRANT",
        "a function that a step calls cannot change the session",
        "let it depend on its arguments alone; a subscriber, which is called after the step, may change tables",
    )


def core_of(session: Session) -> Core:
    """The core of a session, for the rest of Everview."""
    return session._core
