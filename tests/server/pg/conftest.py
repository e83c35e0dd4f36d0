"""A server in this process, on a thread of its own, and what clients need to reach it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

import everview as ev
from everview.server.pg.listener import PgListener
from everview.server.server_process import Server
from everview.server.settings import Settings

SETUP = """
    CREATE TABLE sale (id int PRIMARY KEY, shop text NOT NULL, amount decimal(10, 2), day date, at timestamp,
                       ok boolean, w double);
    CREATE VIEW total AS SELECT shop, sum(amount) AS amount, count(*) AS n FROM sale GROUP BY shop;
    INSERT INTO sale VALUES (1, 'north', 5.50, '2026-01-31', '2026-01-31 10:00:00', true, 1.5),
                            (2, 'south', -0.25, NULL, NULL, NULL, NULL);
"""


@dataclass
class Running:
    """A server that runs."""

    server: Server
    loop: asyncio.AbstractEventLoop
    thread: threading.Thread

    @property
    def listener(self) -> PgListener:
        found = self.server.listeners[0]
        assert isinstance(found, PgListener)
        return found

    @property
    def port(self) -> int:
        return self.listener.port

    @property
    def dsn(self) -> str:
        return f"postgresql://everview@127.0.0.1:{self.port}/everview"

    def do(self, function: Any) -> Any:
        """Call a function with the session, on the engine's thread."""
        return asyncio.run_coroutine_threadsafe(self.server.engine.run(function), self.loop).result(60)

    def stop(self) -> None:
        asyncio.run_coroutine_threadsafe(self.server.stop(), self.loop).result(60)
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join(60)
        self.loop.close()


def running(session: ev.Session | None = None, **settings: Any) -> Running:
    """Start a server."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()

    async def start() -> Server:
        server = Server(session or ev.connect(), Settings(**{"pg": 0, **settings}))
        await server.start()
        return server

    server = asyncio.run_coroutine_threadsafe(start(), loop).result(60)
    return Running(server, loop, thread)


@pytest.fixture(scope="module")
def shared() -> Iterator[Running]:
    """One server for the tests of a module that do not get in each other's way."""
    found = running()
    yield found
    found.stop()


@pytest.fixture
def fresh(shared: Running) -> Running:
    """The server with the same tables for every test."""

    def setup(db: ev.Session) -> None:
        for view in list(db.views):
            db[view].drop()
        for table in list(db.tables):
            db[table].drop(cascade=True)
        db.sql(SETUP)

    shared.do(setup)
    return shared
