"""uvicorn in the server's own loop.

Compression of WebSocket messages is off: its state costs hundreds of kilobytes per connection. Sizes and timeouts are
limited before a request reaches us (by uvicorn), and after (`everview.server.http.guard`).
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
from collections.abc import Sequence

import uvicorn

from everview.errors import InputError
from everview.server.engine import Engine
from everview.server.http.app import app
from everview.server.http.resume_tokens import incarnation_of
from everview.server.http.slow_clients import Parting, Prompt
from everview.server.settings import Settings

LONGEST_SAID = 1024 * 1024
"""Maximum size of a WebSocket message in bytes: requests are short, rows come by HTTP, and the first message is
unauthenticated.
"""


class HttpListener:
    """The HTTP port."""

    def __init__(self, engine: Engine, settings: Settings) -> None:
        self.engine = engine
        self.settings = settings
        self.port = 0
        self._server: uvicorn.Server | None = None
        self._running: asyncio.Task[None] | None = None

    async def start(self) -> Sequence[str]:
        """Accept connections."""
        settings = self.settings
        assert settings.http is not None
        bound = _bound(settings.host, settings.http)
        self.port = bound.getsockname()[1]
        incarnation = await self.engine.run(incarnation_of)
        config = uvicorn.Config(
            app(self.engine, settings, incarnation),
            log_config=None,
            access_log=False,
            proxy_headers=False,
            lifespan="off",
            server_header=False,
            date_header=False,
            http=Prompt,
            ws=Parting,
            ws_max_size=LONGEST_SAID,
            ws_per_message_deflate=False,
            limit_concurrency=settings.connections,
            backlog=2048,
            timeout_keep_alive=60,
            timeout_graceful_shutdown=2,
            h11_max_incomplete_event_size=64 * 1024,
            ssl_certfile=settings.certificate or None,
            ssl_keyfile=settings.private_key or None,
        )
        logging.getLogger("uvicorn.error").setLevel(logging.WARNING)
        server = self._server = Quiet(config)
        self._running = asyncio.create_task(server.serve(sockets=[bound]))
        while not server.started:
            if self._running.done():
                await self._running
                raise InputError("E_PORT", f"HTTP does not start on port {settings.http}", "the log says why")
            await asyncio.sleep(0.01)
        return how_to_connect(settings, self.port)

    async def stop(self) -> None:
        """End all connections, including subscriptions: their clients reconnect with their tokens."""
        if self._server is not None and self._running is not None:
            self._server.should_exit = True
            await self._running


class Quiet(uvicorn.Server):
    """uvicorn's server, without signal handling."""

    @contextlib.contextmanager
    def capture_signals(self):  # type: ignore[no-untyped-def]
        """Signals are handled elsewhere."""
        yield


def _bound(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # asyncio sends small answers at once (TCP_NODELAY) only on sockets that say that they are TCP
    found = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        found.bind((host, port))
    except OSError as error:
        found.close()
        raise InputError(
            "E_PORT", f"port {port} of {host} cannot be used: {error.strerror or error}", "choose another with --http"
        ) from None
    found.setblocking(False)
    return found


def how_to_connect(settings: Settings, port: int) -> list[str]:
    """Lines for people."""
    secure = "s" if settings.certificate else ""
    host = f"[{settings.host}]" if ":" in settings.host else settings.host
    place = f"{host}:{port}"
    token = f', token="{settings.token}"' if settings.token else ""
    header = f' -H "Authorization: Bearer {settings.token}"' if settings.token else ""
    return [
        f"HTTP    http{secure}://{place}",
        f'Python  everview.connect("everview{secure}://{place}"{token})',
        f'curl    curl{header} http{secure}://{place}/v1/sql --json \'{{"sql": "SELECT 1 AS x"}}\'',
    ]
