"""A server in a thread of the test's process, on a port that was free."""

from __future__ import annotations

import concurrent.futures
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import httpx

import everview as ev
from everview.server.server_process import Server
from everview.server.settings import Settings
from everview.server.threaded_server import Beside

TOKEN = "a token for tests"

LONG = 60.0
"""Seconds after which something hangs."""


class Running(Beside):
    """The server; ends with the block."""

    def __init__(self, session: ev.Session | None = None, **settings: Any) -> None:
        found = ev.connect(files=False) if session is None else session
        super().__init__(Server(found, Settings(**{"http": 0, "token": TOKEN, "message": 2_000_000, **settings})))

    def __enter__(self) -> Running:
        self.start()
        return self

    def until_idle(self) -> None:
        """Until the server knows that the clients of the test before have gone."""
        feeds = self.server.engine.feeds
        self.until(lambda: not feeds.subscriptions)

        def end(_: ev.Session) -> None:
            for feed in list(feeds._open):
                feeds.shut(feed)

        self.do(end)
        feeds._known.clear()  # queries that wait for clients who were cut off

    def until(self, true: Callable[[], bool]) -> None:
        """Until something is true that the server brings about; an error if it does not in a long time."""
        end = time.monotonic() + LONG
        while not true():
            assert time.monotonic() < end, "it does not come about"
            self.do(lambda db: None)

    def clear(self) -> None:
        """Begin again: another session, the same sockets."""

        def begin(_: ev.Session) -> None:
            old, new = self.server.engine.session, ev.connect(files=False)
            self.server.engine.session = self.server.engine.feeds.session = self.server.session = new
            old.close()
            self.server.engine.feeds.time = 0

        self.do(begin)

    @contextmanager
    def asking(self, body: Any, headers: dict[str, str]) -> Iterator[Callable[[], Any]]:
        """Ask SQL in another thread; gives a function that waits for the answer."""
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            all_headers = {"authorization": f"Bearer {TOKEN}", **headers}
            asked = pool.submit(
                lambda: httpx.post(
                    f"{self.url}/v1/sql", json=body, headers=all_headers, timeout=60, trust_env=False
                ).json()
            )
            yield lambda: asked.result(60)


def resident() -> int:
    """Bytes that this process holds in memory."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
