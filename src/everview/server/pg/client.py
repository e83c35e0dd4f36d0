"""The state of a connection: its settings, prepared statements, portals, cursors, and transaction.

A connection has no transaction, one opened by BEGIN, or an implicit one, around the statements of one text or between
two Syncs. The last is PostgreSQL's rule that what was sent together is executed together.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from everview.server.pg import messages
from everview.server.pg.answers import Answer, Column
from everview.server.pg.commands import Command
from everview.server.pg.connection_work import READ_COMMITTED, Work
from everview.server.pg.error_responses import notice
from everview.server.pg.key_lookups import Quick
from everview.server.pg.settings import Settings
from everview.server.pg.sqlstates import PgError
from everview.server.visitors import Visitor
from everview.session.rights.principal import WHO, Principal
from everview.sql.answers.parameter_values import Given

if TYPE_CHECKING:
    from everview.server.engine import Engine
    from everview.server.pg.catalog import Catalog
    from everview.server.pg.subscribe_statements import Live
    from everview.server.pg.wire import Wire
    from everview.session.session import Session

T = TypeVar("T")


@dataclass
class Prepared:
    """A statement that was looked at: its parameters and its columns."""

    command: Command
    text: str
    """what is run: the command's text with blanks behind parameters"""
    given: Given
    oids: tuple[int, ...]
    columns: list[Column] | None
    quick: Quick | None = None
    """how it is looked up, if that is all there is to do"""
    ways: dict[Any, Any] = field(default_factory=dict)
    """how that is done in the formats that were asked for, see `everview.server.pg.pipelined_lookups`"""


@dataclass
class Portal:
    """A prepared statement with values, and how far its answer was sent."""

    prepared: Prepared
    given: Given
    formats: tuple[int, ...]
    answer: Answer | None = None


@dataclass
class Cursor:
    """An answer that is fetched piece by piece."""

    answer: Answer
    held: bool
    """whether it lives on after its transaction"""
    close: Callable[[], None] = lambda: None


class Client:
    """One connection, without its conversation."""

    def __init__(self, wire: Wire, engine: Engine, catalog: Catalog, settings: Settings, user: str, database: str,
                 who: Principal) -> None:  # fmt: skip
        self.wire = wire
        self.engine = engine
        self.catalog = catalog
        self.settings = settings
        self.user = user
        self.who = who
        """the principal that has logged in, acting as the role that SET ROLE said"""
        self.first = who
        """the principal that has logged in"""
        self._roles = {"": who}
        """those that it has been, by role"""
        self.database = database
        self.memory: int | None = None
        self.seconds: float | None = None
        """limits of the server's, for each statement"""
        self.process = 0
        self.work = Work(settings)
        self.prepared: dict[str, Prepared] = {}
        self.shapes: list[Any] = []
        """the bytes of look-ups that were answered before, see `everview.server.pg.pipelined_lookups`"""
        self.portals: dict[str, Portal] = {}
        self.cursors: dict[str, Cursor] = {}
        self.lives: dict[int, Live] = {}
        """its subscriptions"""
        self.said = ""
        """its last statement"""
        self.active = False
        """whether that is under way"""
        self.explicit = False
        """whether BEGIN has opened the transaction"""
        self.failed = False
        """whether a statement of it has failed"""
        self.stop = asyncio.Event()
        """set when what it does is to be cancelled"""

    @property
    def name(self) -> str:
        """What it is called: the role that it acts as, or what it calls itself if it may do everything."""
        return self.user if self.who.free and not self.who.acts_as else self.who.name

    def visitor(self) -> Visitor:
        """What others see of it, in `ev.sessions`."""

        def doing() -> tuple[str, str]:
            return "active" if self.active else "idle in transaction" if self.explicit else "idle", self.said

        return Visitor("pg", lambda: self.name, doing, lambda: [live.listed() for live in list(self.lives.values())])

    # the engine

    async def run(self, function: Callable[[Session], T], kind: Hashable = None) -> T:
        """Have the engine do something, within the limits of a statement; `kind` identifies a repeated change."""
        return await self.engine.run(function, seconds=self.limit, memory=self.memory, key=self, kind=kind)

    async def read(self, function: Callable[[Session], T]) -> T:
        """The same for what only reads: it does not wait for others' steps."""
        return await self.engine.read(function, seconds=self.limit, memory=self.memory, key=self)

    async def follow(self, function: Callable[[Session], T]) -> T:
        """The same for what begins to follow something."""
        return await self.engine.follow(function, seconds=self.limit, memory=self.memory, key=self)

    @property
    def limit(self) -> float | None:
        """Seconds that a statement may take."""
        return min((s for s in (self.settings.seconds, self.seconds) if s), default=None)

    def act_as(self, who: Principal, *, local: bool = False) -> None:
        """Do what follows as another role, or what follows in this transaction; in the connection's own task."""
        self._roles[who.acts_as] = who
        self.settings.set_role(who.acts_as, local=local)
        self._become(who)

    def _become(self, who: Principal) -> None:
        self.who = who
        WHO.set(who)

    def resume_role(self) -> None:
        """Act as the role that the settings have again."""
        role = self.settings.show("role")
        self._become(self._roles["" if role == "none" else role])

    def cancel(self) -> None:
        """Have what it does stop."""
        self.stop.set()
        self.engine.cancel(self)

    def told(self, message: str, hint: str = "", severity: str = "NOTICE", state: str = "00000") -> None:
        """Tell its user something."""
        self.wire.put(messages.notice_response(notice(message, hint, severity, state)))

    # transactions

    @property
    def status(self) -> bytes:
        """Idle, in a transaction, or in one that has failed."""
        return b"I" if not self.explicit else b"E" if self.failed else b"T"

    @property
    def inside(self) -> bool:
        """Whether any transaction is under way."""
        return self.work.changes is not None

    def begin(self, *, explicit: bool, isolation: str = "", read_only: bool | None = None) -> None:
        """Open a transaction, or make one that nobody asked for one that was."""
        self.explicit = explicit or self.explicit
        self.work.implicit = not self.explicit
        if self.inside:
            return
        level = isolation or self.settings.show("default_transaction_isolation")
        only = self.settings.show("default_transaction_read_only") == "on" if read_only is None else read_only
        self.settings.begin()
        self.work.begin(level or READ_COMMITTED, only)
        self.failed = False

    async def commit(self) -> bool:
        """End the transaction; False if it had failed, and so was undone."""
        if self.failed:
            self.rollback()
            return False
        try:
            changes = self.work.changes
            if changes or self.work.defined or (changes is not None and changes.offsets):
                await self.run(self.work.commit)
        except BaseException:
            self.rollback()
            raise
        self.work.forget()
        self._ended(undo=False)
        return True

    def rollback(self) -> None:
        """Undo the transaction."""
        self.work.forget()
        self._ended(undo=True)

    def _ended(self, *, undo: bool) -> None:
        self.settings.end(undo=undo)
        self.resume_role()
        self.explicit = self.failed = False
        self.portals.clear()
        for name in [n for n, c in self.cursors.items() if not c.held]:
            self.cursors.pop(name).close()

    def check_open(self, command: Command) -> None:
        """In a transaction that has failed, only its end is taken."""
        if self.failed and not (
            command.first in ("ROLLBACK", "ABORT", "COMMIT", "END") or command.is_("DISCARD", "ALL")
        ):
            raise PgError("E_TRANSACTION", "25P02", "the transaction has failed before this", "ROLLBACK it")

    def forget(self) -> None:
        """The connection is over."""
        self.work.forget()
        for cursor in self.cursors.values():
            cursor.close()
        self.cursors.clear()
