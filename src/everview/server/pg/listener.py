"""The listener for PostgreSQL clients.

Connections are accepted here and not by asyncio's server, because the first byte decides how one continues: a client
may begin TLS directly (libpq 17 and newer, `sslnegotiation=direct`), which is detected by peeking.
"""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import itertools
import logging
import socket
import ssl
from collections.abc import Sequence
from typing import TYPE_CHECKING

from everview.errors import EverviewError, InputError
from everview.server.direct_selector import selector_of
from everview.server.identity import Identity
from everview.server.pg import messages
from everview.server.pg.catalog import Catalog
from everview.server.pg.client import Client
from everview.server.pg.connection import Connection
from everview.server.pg.error_responses import fields_of
from everview.server.pg.settings import Settings as ClientSettings
from everview.server.pg.sqlstates import PgError
from everview.server.pg.startup import PATIENCE, Login, begin
from everview.server.pg.wire import BASIN, Gone, Wire
from everview.session.rights.principal import NOBODY, WHO, Principal

if TYPE_CHECKING:
    from everview.server.engine import Engine
    from everview.server.settings import Settings

LOG = logging.getLogger("everview.server.pg")

TLS_BEGINS = b"\x16"
ALPN = "postgresql"
GRACE = 2.0
"""Seconds for connections to end when the server stops."""


class PgListener:
    """PostgreSQL's protocol on one port."""

    def __init__(self, engine: Engine, settings: Settings) -> None:
        self.engine = engine
        self.settings = settings
        self.port = 0
        """the port that it listens on"""
        self.catalog = Catalog(engine)
        self.clients: dict[int, tuple[Client, bytes]] = {}
        """those that have logged in, by their process number, with the keys that cancel what they do"""
        self._login = Login(Identity(engine, settings), _context(settings))
        self._numbers = itertools.count(1)
        self._tasks: set[asyncio.Task[None]] = set()
        self._accepting: list[asyncio.Task[None]] = []
        self._sockets: list[socket.socket] = []
        self._wires: set[Wire] = set()
        self._basin = bytearray(BASIN)

    async def start(self) -> Sequence[str]:
        """Listen; gives lines that say how to connect."""
        loop = asyncio.get_running_loop()
        host, port = self.settings.host, self.settings.pg or 0
        found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        for family, _, _, _, address in dict.fromkeys(found):
            bound = _bound(family, str(address[0]), self.port or port)
            self.port = bound.getsockname()[1]
            self._sockets.append(bound)
            self._accepting.append(asyncio.create_task(self._accept(bound)))
        user = "everview"
        secured = "?sslmode=require" if self._login.context is not None else ""
        line = f"PostgreSQL  psql 'postgresql://{user}@{host}:{self.port}/everview{secured}'"
        return [line + (", the password is the token" if self.settings.token else "")]

    async def stop(self) -> None:
        """Accept no more, and tell those there are to go."""
        for accepting in self._accepting:  # closing a socket would not wake one that waits for it
            accepting.cancel()
        await asyncio.gather(*self._accepting, return_exceptions=True)
        for bound in self._sockets:
            bound.close()
        closed = PgError("E_CLOSED", "57P01", "the server is shutting down", "connect again when it is back")
        for client, _ in list(self.clients.values()):
            client.cancel()
            client.wire.put(messages.error_response(fields_of(closed, "FATAL")))
        for wire in list(self._wires):
            wire.close()
        if self._tasks:
            _, left = await asyncio.wait(self._tasks, timeout=GRACE)
            for task in left:
                task.cancel()
            await asyncio.gather(*left, return_exceptions=True)

    def _task(self, work: object) -> None:
        task = asyncio.ensure_future(work)  # type: ignore[call-overload]
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    # accepting

    async def _accept(self, bound: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                accepted, _ = await loop.sock_accept(bound)
            except OSError:
                if bound.fileno() < 0:
                    return
                await asyncio.sleep(0.1)  # no more files can be opened: those there are go on
                continue
            accepted.setblocking(False)
            with contextlib.suppress(OSError):
                accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                accepted.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            self._task(self._connected(accepted))

    async def _connected(self, accepted: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        WHO.set(NOBODY)  # until it has logged in
        wire = Wire(self._basin)
        try:
            async with asyncio.timeout(PATIENCE):
                direct = self._login.context is not None and await _first_byte(accepted) == TLS_BEGINS
                await loop.connect_accepted_socket(lambda: wire, accepted, ssl=self._login.context if direct else None)
            if direct and _protocol(wire) != ALPN:
                return
            await self._served(wire, accepted)
        except (Gone, TimeoutError, ConnectionError, ssl.SSLError, OSError):
            pass
        except asyncio.CancelledError:
            raise
        except Exception:
            LOG.exception("a connection ended in a way that it must not")
        finally:
            self._wires.discard(wire)
            if wire.transport is not None:
                wire.close()
            else:
                accepted.close()

    async def _served(self, wire: Wire, accepted: socket.socket) -> None:
        self._wires.add(wire)
        number = next(self._numbers)
        client: Client | None = None
        counted: Principal | None = None
        try:
            begun = await begin(wire, self._login, self._cancel)
            if begun is None:
                return
            if len(self.clients) >= self.settings.connections:
                raise PgError(
                    "E_BUSY", "53300", f"{len(self.clients):,} clients are already connected", "try again later"
                )
            WHO.set(begun.who)
            self.engine.quotas.take("connections", begun.who)
            counted = begun.who
            client = self._client(wire, begun.options, number, begun.who)
            self.clients[number] = client, begun.key
            for name, value in client.settings.news():
                wire.put(messages.parameter_status(name, value))
            wire.put(messages.backend_key(number, begun.key))
            wire.put(messages.ready(b"I"))
            await wire.drained()
            if (selector := selector_of(asyncio.get_running_loop())) is not None:
                wire.read_directly(selector, accepted)
            with self.engine.visitors.listed(client.visitor()):
                await Connection(client).serve()
        except EverviewError as error:
            wire.put(messages.error_response(fields_of(error, "FATAL")))
            wire.flush()
        finally:
            self.clients.pop(number, None)
            self.engine.quotas.give_back("connections", counted)
            if client is not None:
                client.forget()
                self.engine.cancel(client)

    def _client(self, wire: Wire, options: dict[str, str], number: int, who: Principal) -> Client:
        user = options.pop("user", "") or "everview"
        database = options.pop("database", "") or user
        if options.pop("replication", "") not in ("", "false", "off", "0", "no"):
            raise PgError("E_UNSUPPORTED", "0A000", "replication is not supported", "SUBSCRIBE to views")
        said = _switches(options.pop("options", ""))
        settings = ClientSettings({**options, **said, "session_authorization": user})
        client = Client(wire, self.engine, self.catalog, settings, user, database, who)
        client.process = number
        client.seconds, client.memory = self.settings.seconds, self.settings.memory
        return client

    def _cancel(self, number: int, key: bytes) -> None:
        """Have a connection's statement stop, if the key is right; whoever asks is told nothing."""
        found = self.clients.get(number)
        if found is not None and hmac.compare_digest(found[1], key):
            found[0].cancel()


def _bound(family: int, host: str, port: int) -> socket.socket:
    try:
        found = socket.create_server((host, port), family=family, backlog=200)
    except OSError as error:
        what = f"port {port} of {host} cannot be used: {error.strerror or error}"
        raise InputError("E_PORT", what, "choose another with --pg") from None
    found.setblocking(False)
    return found


def _switches(text: str) -> dict[str, str]:
    """`-c name=value --name=value` as libpq's `options` has them."""
    found: dict[str, str] = {}
    for part in text.replace("\\ ", "\0").replace("-c ", "--").split():
        name, equal, value = part.replace("\0", " ").removeprefix("-c").lstrip("-").partition("=")
        if equal:
            found[name.replace("-", "_")] = value
    return found


def _protocol(wire: Wire) -> str | None:
    assert wire.transport is not None
    secured = wire.transport.get_extra_info("ssl_object")
    chosen: str | None = secured.selected_alpn_protocol() if secured is not None else None
    return chosen


async def _first_byte(accepted: socket.socket) -> bytes:
    """The first byte that the client sends, which stays to be read."""
    loop = asyncio.get_running_loop()
    readable: asyncio.Future[None] = loop.create_future()

    def there() -> None:
        if not readable.done():
            readable.set_result(None)

    loop.add_reader(accepted, there)
    try:
        await readable
    finally:
        loop.remove_reader(accepted)
    return accepted.recv(1, socket.MSG_PEEK)


def _context(settings: Settings) -> ssl.SSLContext | None:
    if not settings.certificate:
        return None
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_cert_chain(settings.certificate, settings.private_key)
    except (OSError, ssl.SSLError) as error:
        raise InputError("E_OPTION", f"the certificate cannot be used: {error}", "give files in PEM") from None
    context.set_alpn_protocols([ALPN])
    return context
