"""The server process: a session, its engine, and its listeners.

A listener has `start`, which accepts connections from then on and returns how to connect, and `stop`. All of them share
the engine and one event loop. When all have started, one line says `ready`. SIGTERM and Ctrl-C shut down in order: no
new connections, existing ones are asked to end, running work finishes, the session is closed. A second signal does not
wait.

The server also advances the session's clock: rows with a TTL expire, windows close and now() advances even while nobody
writes (`_keep_time`). A read-only session follows its writer at the same pace.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from everview.errors import EverviewError, InputError
from everview.server.engine import Engine
from everview.server.settings import Settings
from everview.session.core import core_of

if TYPE_CHECKING:
    from everview.session.session import Session

LOG = logging.getLogger("everview.server")

EVERY = 0.5
"""Seconds between clock updates."""


class Listener(Protocol):
    """A way in."""

    async def start(self) -> Sequence[str]:
        """Accept connections from now on; gives lines that say how to connect."""

    async def stop(self) -> None:
        """Accept no more, and end those there are."""


MakeListener = Callable[[Engine, Settings], Listener]


def listeners(settings: Settings) -> list[MakeListener]:
    """The ways in that are wanted; what each needs is loaded when it is."""
    found: list[MakeListener] = []
    if settings.http is not None:
        found.append(_http)
    if settings.pg is not None:
        found.append(_pg)
    return found


def _http(engine: Engine, settings: Settings) -> Listener:
    try:
        from everview.server.http.listener import HttpListener
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("everview"):
            raise
        raise InputError(
            "E_OPTION", f"HTTP needs {error.name}, which is not installed", "pip install 'everview[server]'"
        ) from None
    return HttpListener(engine, settings)


def _pg(engine: Engine, settings: Settings) -> Listener:
    from everview.server.pg.listener import PgListener

    return PgListener(engine, settings)


@dataclass
class Server:
    """A session with its listeners; for programs that have a loop of their own.

    >>> import asyncio, everview as ev
    >>> async def main():
    ...     server = Server(ev.connect(), Settings(http=0, token="secret"))
    ...     lines = await server.start()
    ...     await server.stop()
    >>> asyncio.run(main())
    """

    session: Session
    settings: Settings
    engine: Engine = field(init=False)
    listeners: list[Listener] = field(init=False, default_factory=list)
    _time: asyncio.Task[None] = field(init=False)

    async def start(self) -> list[str]:
        """Begin; gives lines that say how to connect."""
        self.settings.check()
        self.engine = Engine(self.session)
        self._time = asyncio.create_task(_keep_time(self.engine))
        lines: list[str] = []
        try:
            for make in listeners(self.settings):
                listener = make(self.engine, self.settings)
                lines += await listener.start()
                self.listeners.append(listener)
        except BaseException:
            await self.stop()
            raise
        return lines

    async def stop(self) -> None:
        """End, in order."""
        self._time.cancel()
        for listener in reversed(self.listeners):
            await listener.stop()
        self.listeners.clear()
        await self.engine.close()


async def serve(session: Session, settings: Settings, show: Callable[[str], None]) -> None:
    """Run a server until a signal says that it is enough."""
    enough = asyncio.Event()
    loop = asyncio.get_running_loop()

    def heard(number: signal.Signals) -> None:
        enough.set()
        loop.remove_signal_handler(number)  # the second one does what it always does

    server = Server(session, settings)
    for line in await server.start():
        show(line)
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, heard, number)
    show("ready")
    LOG.info("ready, time %d", session.time)
    try:
        await enough.wait()
    finally:
        LOG.info("closing, time %d", session.time)
        await server.stop()


async def _keep_time(engine: Engine) -> None:
    """Let time pass in the session while nobody writes."""
    while True:
        await asyncio.sleep(EVERY)
        with contextlib.suppress(EverviewError):
            await engine.run(_let_time_pass)


def _let_time_pass(session: Session) -> None:
    core = core_of(session)
    if core.runtime.backing.read_only:
        session.refresh()
    elif core.clock.followers and not core.clock.manual:
        session.advance()
