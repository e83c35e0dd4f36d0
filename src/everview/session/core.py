"""What a session is made of. `Session` is the public face of a `Core`, which has

    runtime         where the dataflow runs (`everview.runtime`)
    catalog         tables and views by name, and the entries that made them
    access          who may do what with them
    definitions     makes and drops what has a name
    transactions    stages changes and runs them as steps
    by_key          inserts into tables with keys, upserts, deletes by key
    constraints     what tables must not hold, and what follows from deletions
    defaults        values of columns that nobody gives
    subscriptions   tells others what a step changed
    clock           what comes and goes because time passes

The parts know each other through the core alone. How calls from several threads share it: see
`everview.session.changes.turns`.
"""

from __future__ import annotations

import threading
import weakref
from collections import deque
from typing import TYPE_CHECKING, Any

from everview.dataflow.lending import MustWait, visitors
from everview.dataflow.operators import Trace
from everview.errors import ClosedError, InputError
from everview.expr.language import UserFunction
from everview.plan.trust import NOBODY, Trust
from everview.runtime.base import Runtime
from everview.session.changes.by_key import ByKey
from everview.session.changes.constraints import Constraints
from everview.session.changes.defaults import Defaults
from everview.session.changes.subscriptions import Subscriptions
from everview.session.changes.transactions import Transactions
from everview.session.clock.clock import Clock
from everview.session.history import History, kept
from everview.session.limits import WATCH, Limits
from everview.session.names.catalog import Catalog
from everview.session.names.definitions import Definitions
from everview.session.names.plan_history import PlanHistory
from everview.session.rights.access import Access
from everview.session.spoken import HERE, Spoken
from everview.session.statistics import Statistics
from everview.stopping import Stop, helpers
from everview.types import DataType

if TYPE_CHECKING:
    from everview.session.session import Session


CORES: weakref.WeakSet[Core] = weakref.WeakSet()
"""The sessions of this process: they share its memory."""


class Core:
    """The parts of one session."""

    def __init__(self, runtime: Runtime, *, history: History = 1000, trust: Trust = NOBODY) -> None:
        self.closed = True  # until it is complete
        self.runtime = runtime
        self.interner = runtime.interner
        self.history = kept(runtime, history)
        self.writing: Any = threading.RLock()
        self.lock: Any = threading.RLock()
        self.home = threading.get_ident()
        """the thread that made it"""
        self.limits: dict[int, Limits] = {}
        """what calls may take, by thread"""
        self.stop: Stop | None = None
        """the call under way is to stop, or one that has just ended was"""
        self.unsettled = False
        """whether a turn is under way, or ended in a way that nobody foresaw"""
        self.released: deque[tuple[Trace, int]] = deque()
        """times that snapshots do not need any more; they go in any thread, at any moment"""
        self.catalog = Catalog(trust)
        self.access = Access(self)
        self.clock = Clock(self)
        self.subscriptions = Subscriptions(self)
        self.transactions = Transactions(self)
        self.by_key = ByKey(self)
        self.definitions = Definitions(self)
        self.plans = PlanHistory()
        self.statistics = Statistics(self)
        self.constraints = Constraints(self)
        self.defaults = Defaults(self)
        self.functions: dict[str, UserFunction] = {}
        """Python functions that SQL and Datalog may call, by name"""
        self._spoken = Spoken()
        self.types: dict[str, DataType] = {}
        """Types that SQL's CREATE TYPE made, by name"""
        self.attached: dict[str, Any] = {}
        """what languages and pipelines keep for the session, by their names"""
        self.may_use_files = True
        """whether SQL may name files to read and write"""
        self.session: Session
        """its public face"""
        self.closed = False
        CORES.add(self)

    @property
    def time(self) -> int:
        """The last complete time, transactions that wait in a batch included."""
        queued = self.transactions.queued
        return self.runtime.dataflow.time + (len(queued) if queued else 0)

    @property
    def zone(self) -> str:
        """Time zone in which SQL reads and writes moments."""
        return (HERE.get() or self._spoken).zone

    @zone.setter
    def zone(self, name: str) -> None:
        (HERE.get() or self._spoken).zone = name

    @property
    def search_path(self) -> tuple[str, ...]:
        """Schemas in which SQL looks for names that say none."""
        return (HERE.get() or self._spoken).search_path

    @search_path.setter
    def search_path(self, path: tuple[str, ...]) -> None:
        (HERE.get() or self._spoken).search_path = path

    def others(self) -> list[Core]:
        """The other sessions of this process."""
        return [core for core in list(CORES) if core is not self]

    def alive(self) -> None:
        """Refuse if the session is closed."""
        if self.closed:
            raise ClosedError("E_CLOSED", "the session is closed", "open a new one with everview.connect()")

    def changing(self) -> None:
        """Called before anything is changed: a step under way calls users' functions, and those must not."""
        self.alive()
        if self.runtime.dataflow.serving == threading.get_ident():
            raise reentrant()

    def refuse_waiting(self) -> None:
        """Refuse a turn to whoever must not wait for one, because both would wait for ever: a function that runs beside
        the call that needs its answer, and a guest of the step under way.
        """
        if threading.get_ident() in helpers:
            raise reentrant()
        if threading.get_ident() in visitors:
            raise MustWait

    def prepare(self) -> None:
        """Called at the beginning of a turn, if there is anything to do: let go of what snapshots held, and put in
        order what a turn has left that was cut off.
        """
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
        """Put everything in order, whatever was under way; twice does no harm."""
        self.catalog.unbroken.wait()
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
        """Give everything back, once; in a turn."""
        if not self.closed:
            self.changing()
            self.catalog.unbroken.wait()
            try:
                self.transactions.catch_up()
            finally:
                self.closed = True
                system = self.attached.pop("system", None)
                if system is not None:
                    system.close()
                self.runtime.close()

    def abandon(self) -> None:
        """Give memory and locks back and write nothing more, as if the process had died."""
        if not self.closed:
            self.closed = True
            self.catalog.unbroken.wait()
            self.runtime.abandon()

    def __del__(self) -> None:
        if not getattr(self, "closed", True):  # forgotten without being closed: whatever was acknowledged stays
            self.abandon()


def reentrant() -> InputError:
    """The error for a function that a step calls, and that calls the session."""
    return InputError(
        "E_REENTRANT",
        "a function that a step calls cannot change the session",
        "let it depend on its arguments alone; a subscriber, which is called after the step, may change tables",
    )


def core_of(session: Session) -> Core:
    """What a session is made of, for the rest of Everview."""
    return session._core
