"""Admission control: everything is checked before a request reaches any other code.

A browser that shows a foreign page sends that page's requests to this machine too. It does not let the page read the
responses, except over a WebSocket, and a foreign host name may resolve to 127.0.0.1. Therefore:

    Host      must be an address of ours, localhost, or a configured name (--name)
    Origin    if present, must be our own or a configured one (--origin); browsers let those read
    token     is required from everybody, on this machine too: `Authorization: Bearer ...` (or Basic, a name and a
              password), or in a WebSocket's first message, because pages cannot send headers with those. Never in a
              URL: those are written into logs.

The principal (`everview.server.identity`) applies to everything done for the request (`WHO`). Oversized requests are
refused while they are read.
"""

from __future__ import annotations

import base64
import ipaddress
import json
import logging
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any
from urllib.parse import urlsplit

from everview.codes.digits import whole_number
from everview.errors import EverviewError, InputError
from everview.server.identity import Identity
from everview.server.settings import Settings, is_local
from everview.session.rights.principal import NOBODY, WHO
from everview.wire.error_records import told

LOG = logging.getLogger("everview.server")

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

OPEN = ("/healthz", "/readyz", "/openapi.json", "/everview.js", "/")
"""Public paths, which reveal nothing about the contents."""

LONGEST_URL = 8192


class Guard:
    """Admits requests to an application."""

    def __init__(self, app: App, settings: Settings, identity: Identity) -> None:
        self.app = app
        self.settings = settings
        self.identity = identity
        self.refused = 0
        """number of requests with a missing or wrong token"""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """An ASGI application."""
        if scope["type"] not in ("http", "websocket"):
            await self.app(scope, receive, send)
            return
        WHO.set(NOBODY)  # until it has authenticated; paths not handled below are closed
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        origin = headers.get("origin", "")
        if scope["type"] == "http" and origin in self.settings.origins:
            send = _readable_from(origin, send)
        try:
            if _asks_first(scope, headers):
                self._check_host(headers.get("host", ""))
                self._check_origin(origin, headers.get("host", ""), scope)
                await _may_send(send)
                return
            self.check(scope, headers)
        except EverviewError as error:
            await _refuse(scope, send, error)
            return
        if scope["type"] == "http":
            receive = self._counting(receive)
        await self.app(scope, receive, send)

    def check(self, scope: Scope, headers: dict[str, str]) -> None:
        """Refuse an inadmissible request."""
        if len(scope["path"]) + len(scope.get("query_string", b"")) > LONGEST_URL:
            raise TooLong("the address")
        self._check_host(headers.get("host", ""))
        if "origin" in headers:
            self._check_origin(headers["origin"], headers.get("host", ""), scope)
        length = headers.get("content-length", "0")
        if not length.isdecimal() or whole_number(length) > self.settings.message:
            raise TooLong("the request")
        if scope["type"] == "http" and scope["path"] not in OPEN:
            self.let_in(*_credentials(headers))

    def let_in(self, token: str, user: str = "", password: str = "") -> None:
        """Authenticate, setting the principal for everything that follows; refuse otherwise."""
        try:
            who = self.identity.of_password(user, password) if user else self.identity.of_token(token)
        except EverviewError:
            self.refused += 1
            LOG.info("somebody was refused over HTTP (%d so far)", self.refused)
            raise
        WHO.set(who)

    def _check_host(self, host: str) -> None:
        name = _hostname(host)
        mine = {self.settings.host, *self.settings.hosts}
        if name in mine or is_local(name) or (self.settings.host in ("0.0.0.0", "::", "") and _is_address(name)):
            return
        raise InputError(
            "E_FORBIDDEN_HOST", f"this server is not known as {name[:80]!r}", f"start it with --name {name[:80]}"
        )

    def _check_origin(self, origin: str, host: str, scope: Scope) -> None:
        scheme = {"ws": "http", "wss": "https"}.get(scope["scheme"], scope["scheme"])
        if origin != f"{scheme}://{host}" and origin not in self.settings.origins:
            raise InputError(
                "E_FORBIDDEN_HOST",
                f"pages of {origin[:80]!r} may not use this server",
                f"start it with --origin {origin[:80]}",
            )

    def _counting(self, receive: Receive) -> Receive:
        """The same messages, up to the size limit."""
        size = 0

        async def counted() -> MutableMapping[str, Any]:
            nonlocal size
            message = await receive()
            size += len(message.get("body", b""))
            if size > self.settings.message:
                raise TooLong("the request")
            return message

        return counted


def _asks_first(scope: Scope, headers: dict[str, str]) -> bool:
    """Whether it is a CORS preflight request."""
    return (
        scope["type"] == "http"
        and scope["method"] == "OPTIONS"
        and "access-control-request-method" in headers
        and "origin" in headers
    )


async def _may_send(send: Send) -> None:
    headers = [
        (b"access-control-allow-methods", b"GET, POST"),
        (b"access-control-allow-headers", b"authorization, content-type, idempotency-key, x-query-id, last-event-id"),
        (b"access-control-max-age", b"600"),
    ]
    await send({"type": "http.response.start", "status": 204, "headers": headers})
    await send({"type": "http.response.body", "body": b""})


def _readable_from(origin: str, send: Send) -> Send:
    """The same responses, readable by pages of this origin."""

    async def sent(message: MutableMapping[str, Any]) -> None:
        if message["type"] == "http.response.start":
            more = [(b"access-control-allow-origin", origin.encode("latin-1")), (b"vary", b"origin")]
            message = {**message, "headers": [*message.get("headers", []), *more]}
        await send(message)

    return sent


class TooLong(InputError):
    """A request beyond the limit."""

    def __init__(self, what: str) -> None:
        super().__init__("E_TOO_LONG", f"{what} is too long", "send less at a time")


def _credentials(headers: dict[str, str]) -> tuple[str, str, str]:
    """A token, or a name and a password."""
    kind, _, given = headers.get("authorization", "").partition(" ")
    if kind.lower() == "basic":
        try:
            user, _, password = base64.b64decode(given.strip(), validate=True).decode().partition(":")
        except (ValueError, UnicodeDecodeError):
            return "", "", ""
        return "", user, password
    return (given.strip() if kind.lower() == "bearer" else ""), "", ""


def _hostname(host: str) -> str:
    if set(host) & set("@/?#\\"):  # not in any host: what comes before or after would be ignored
        return ""
    try:
        return urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return ""


def _is_address(name: str) -> bool:
    try:
        return bool(ipaddress.ip_address(name))
    except ValueError:  # a name may consist of such letters alone: dead.be
        return False


STATUS = {
    "E_AUTH": 401, "E_FORBIDDEN_HOST": 403, "E_FORBIDDEN": 403, "E_TOO_LONG": 413, "E_TIMEOUT": 408, "E_CANCELLED": 499,
    "E_BUSY": 503, "E_CLOSED": 503, "E_MEMORY": 507, "E_COMPACTED": 410, "E_CONFLICT": 409, "E_INTERNAL": 500,
    "E_NOT_FOUND": 404, "E_QUOTA": 429,
}  # fmt: skip
"""HTTP status codes of errors; any other is 400."""


async def _refuse(scope: Scope, send: Send, error: EverviewError) -> None:
    if scope["type"] == "websocket":
        await send({"type": "websocket.close", "code": 1008, "reason": error.code})
        return
    body = json.dumps({"error": told(error)}).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    if error.code == "E_AUTH":
        headers.append((b"www-authenticate", b"Bearer"))
    status = STATUS.get(error.code, 400)
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
