"""A server in a thread of the test's process, on a port that was free."""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import httpx

import everview as ev
from everview.server.serving import Server, Settings

TOKEN = "a token for tests"


class Running:
    """The server; ends with the block."""

    def __init__(self, session: ev.Session | None = None, **settings: Any) -> None:
        self.session = ev.connect(files=False) if session is None else session
        self.settings = Settings(**{"http": 0, "token": TOKEN, "message": 2_000_000, **settings})
        self.server = Server(self.session, self.settings)
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._ready = threading.Event()
        self._failed: BaseException | None = None

    def _run(self) -> None:
        asyncio.set_event_loop(self.loop)
        try:
            self.loop.run_until_complete(self.server.start())
        except BaseException as error:
            self._failed = error
            return
        finally:
            self._ready.set()
        self.loop.run_forever()

    def __enter__(self) -> Running:
        self._thread.start()
        self._ready.wait()
        if self._failed is not None:
            raise self._failed
        return self

    def __exit__(self, *exc: object) -> None:
        asyncio.run_coroutine_threadsafe(self.server.stop(), self.loop).result(60)
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join(60)
        self.loop.close()

    @property
    def port(self) -> int:
        return self.server.listeners[0].port  # type: ignore[attr-defined]

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def address(self) -> str:
        return f"everview://127.0.0.1:{self.port}"

    def do(self, work: Callable[[ev.Session], Any]) -> Any:
        """Have the engine do something."""
        return asyncio.run_coroutine_threadsafe(self.server.engine.run(work), self.loop).result(60)

    def until_idle(self) -> None:
        """Until the server knows that the clients of the test before have gone."""
        feeds = self.server.engine.feeds
        while feeds.subscriptions or feeds.known:
            self.do(lambda db: None)

    def clear(self) -> None:
        """Begin again: another session, the same sockets."""

        def begin(_: ev.Session) -> ev.Session:
            old, new = self.server.engine.session, ev.connect(files=False)
            self.server.engine.session = self.server.engine.feeds.session = self.server.session = new
            old.close()
            self.server.engine.feeds.time = 0
            return new

        self.session = self.do(begin)

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
