"""A server in a thread of a program: for programs that expose their data, and for tests.

The session then belongs to the server. The program itself uses a client too: direct use of the session would interleave
with the server's own work, and subscribers would be notified late.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

from everview.server.direct_selector import new_loop
from everview.server.server_process import Server
from everview.server.settings import Settings, random_token

if TYPE_CHECKING:
    from everview.session.session import Session

T = TypeVar("T")


def serve_beside(session: Session, **settings: Any) -> Beside:
    """Serve a session from a thread of this program, on any free port; see `Settings` for the options.

    >>> import everview as ev
    >>> with serve_beside(ev.connect()) as server:
    ...     db = ev.connect(server.address, token=server.token)
    ...     db.table("t", {"x": int}).insert([(1,), (2,)])
    ...     db.sql("SELECT sum(x) AS s FROM t").rows()
    ...     db.close()
    [(3,)]
    """
    said = Settings(**{"http": 0, "token": random_token(), **settings})
    return Beside(Server(session, said)).start()


class Beside:
    """The server; ends with the block, or with `stop`."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.loop = new_loop()
        self._thread = threading.Thread(target=self._run, daemon=True, name="everview server")
        self._ready = threading.Event()
        self._failed: BaseException | None = None

    def start(self) -> Beside:
        """Start; on return, clients can connect."""
        self._thread.start()
        self._ready.wait()
        if self._failed is not None:
            raise self._failed
        return self

    def _run(self) -> None:
        try:
            self.loop.run_until_complete(self.server.start())
        except BaseException as error:
            self._failed = error
            return
        finally:
            self._ready.set()
        self.loop.run_forever()

    def do(self, work: Callable[[Session], T]) -> T:
        """Run a function with the session on the engine's thread."""
        return asyncio.run_coroutine_threadsafe(self.server.engine.run(work), self.loop).result()

    def stop(self) -> None:
        """End; the session is closed."""
        if self._thread.is_alive():
            asyncio.run_coroutine_threadsafe(self.server.stop(), self.loop).result()
            self.loop.call_soon_threadsafe(self.loop.stop)
            self._thread.join()
            self.loop.close()

    def __enter__(self) -> Beside:
        return self

    def __exit__(self, *exc: object) -> None:
        self.stop()

    @property
    def settings(self) -> Settings:
        """The settings, with the actual port."""
        return replace(self.server.settings, http=self.port)

    @property
    def token(self) -> str:
        """The token that clients need."""
        return self.server.settings.token

    @property
    def port(self) -> int:
        """The port of HTTP."""
        return next(p for listener in self.server.listeners if (p := getattr(listener, "port", 0)))

    @property
    def url(self) -> str:
        """For browsers and curl."""
        return f"http{'s' if self.server.settings.certificate else ''}://{self.server.settings.host}:{self.port}"

    @property
    def address(self) -> str:
        """For `everview.connect`."""
        return f"everview{'s' if self.server.settings.certificate else ''}://{self.server.settings.host}:{self.port}"
