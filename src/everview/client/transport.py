"""Calls to a server: one persistent HTTP connection per thread.

A connection may break at any moment, and then it is unknown whether the call was executed. Read-only calls are retried.
Changes are too, because each has an idempotency key. Anything else, creating a view for instance, fails with E_SERVER
and is left to the caller.
"""

from __future__ import annotations

import base64
import http.client
import json
import ssl
import threading
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from everview.errors import ClosedError, EverviewError, InputError, StoreError
from everview.wire.envelopes import KIND, packed, unpacked
from everview.wire.error_records import error_of

if TYPE_CHECKING:
    import pyarrow as pa

READS = frozenset(
    {
        "hello", "names", "relation", "rows", "count", "counts", "changes", "lookup", "errors", "explain", "text",
        "stats", "memory", "check", "now", "why", "why_not", "trust", "probability", "what_if",
    }
)  # fmt: skip
"""Read-only calls, which may be retried."""

PORT = 8080


@dataclass(frozen=True)
class Address:
    """The address of a server, and the credentials."""

    host: str
    port: int
    secure: bool
    token: str
    timeout: float
    user: str = ""
    """a role, which has a password instead of a token"""
    certificate: str = ""
    """a file with the trusted certificates, if not the system's"""

    def context(self) -> ssl.SSLContext | None:
        """The TLS context."""
        return ssl.create_default_context(cafile=self.certificate or None) if self.secure else None

    @property
    def authorization(self) -> str:
        """The authorization header."""
        if self.user:
            return "Basic " + base64.b64encode(f"{self.user}:{self.token}".encode()).decode()
        return f"Bearer {self.token}" if self.token else ""

    @property
    def hello(self) -> dict[str, str]:
        """The same for the first message of a WebSocket."""
        return {"user": self.user, "password": self.token} if self.user else {"token": self.token}

    @property
    def socket(self) -> str:
        """The address of the WebSocket."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'wss' if self.secure else 'ws'}://{host}:{self.port}/v1/ws"


def address_of(text: str, token: str, timeout: float, certificate: str, user: str = "") -> Address:
    """Parse an address.

    >>> address_of("everview://127.0.0.1:8080", "", 60, "")
    Address(host='127.0.0.1', port=8080, secure=False, token='', timeout=60, user='', certificate='')
    """
    try:
        parts = urlsplit(text)
        port = parts.port or PORT
    except ValueError:
        parts, port = None, 0
    if parts is None or parts.scheme not in ("everview", "everviews") or not parts.hostname:
        raise InputError("E_TARGET", f"{text!r} is not a server's address", 'write "everview://host:port"')
    if parts.username or parts.password or parts.query or parts.path.strip("/"):
        raise InputError(
            "E_TARGET", "a server's address has a host and a port", "give the token as token=..., never in the address"
        )
    return Address(parts.hostname, port, parts.scheme == "everviews", token, timeout, user, certificate)


class Transport:
    """The connections to a server."""

    def __init__(self, address: Address) -> None:
        self.address = address
        self.name = uuid.uuid4().hex
        """identifies this client's calls, to cancel them"""
        self.closed = False
        self._context = address.context()
        self._local = threading.local()

    def call(
        self, do: str, head: Mapping[str, Any] | None = None, tables: Sequence[pa.Table] = ()
    ) -> tuple[dict[str, Any], list[pa.Table]]:
        """Call the server."""
        if self.closed:
            raise ClosedError("E_CLOSED", "the session is closed", "open a new one with everview.connect()")
        body = packed({"do": do, **(head or {})}, tables)
        again = do in READS or (head or {}).get("key") is not None
        status, kind, data = self._sent("/v1/call", body, KIND, again)
        if kind.startswith(KIND) and status == 200:
            return unpacked(data)
        raise self._failed(status, data)

    def cancel(self) -> bool:
        """Cancel this client's calls in any thread."""
        status, _, data = self._sent("/v1/cancel", json.dumps({"id": self.name}).encode(), "application/json", True)
        if status != 200:
            raise self._failed(status, data)
        return bool(json.loads(data)["cancelled"])

    def _sent(self, path: str, body: bytes, kind: str, again: bool) -> tuple[int, str, bytes]:
        headers = {"content-type": kind, "x-query-id": self.name}
        if self.address.authorization:
            headers["authorization"] = self.address.authorization
        for attempt in (0, 1, 2):
            connection = self._connection()
            fresh = connection.sock is None
            try:
                connection.request("POST", path, body, headers)
                answer = connection.getresponse()
                return answer.status, answer.getheader("content-type") or "", answer.read()
            except ConnectionRefusedError as error:
                connection.close()
                raise self._unreachable(error) from None
            except (OSError, http.client.HTTPException) as error:
                connection.close()
                # an idle connection was closed by the server before it read anything of this
                idle = not fresh and isinstance(error, (http.client.RemoteDisconnected, BrokenPipeError))
                if attempt == 2 or isinstance(error, (TimeoutError, ssl.SSLError)) or not (again or idle):
                    raise self._unreachable(error) from None
            except BaseException:  # Ctrl-C: the response would be taken for the next one's
                connection.close()
                raise
        raise AssertionError

    def _connection(self) -> http.client.HTTPConnection:
        found: http.client.HTTPConnection | None = getattr(self._local, "connection", None)
        if found is None:
            address = self.address
            if self._context is not None:
                found = http.client.HTTPSConnection(
                    address.host, address.port, timeout=address.timeout, context=self._context
                )
            else:
                found = http.client.HTTPConnection(address.host, address.port, timeout=address.timeout)
            self._local.connection = found
        return found

    def _unreachable(self, error: BaseException) -> EverviewError:
        where = f"{self.address.host}:{self.address.port}"
        if isinstance(error, TimeoutError):
            what, hint = (
                f"the server at {where} did not answer within {self.address.timeout:g} s",
                "give a longer timeout",
            )
        else:
            what, hint = f"the server at {where} cannot be reached: {error}", "is `everview serve` running there?"
        return StoreError("E_SERVER", what, hint)

    def _failed(self, status: int, data: bytes) -> EverviewError:
        try:
            return error_of(json.loads(data)["error"])
        except (ValueError, KeyError, TypeError):
            return StoreError("E_SERVER", f"the server answered with HTTP status {status}", "is it one of Everview's?")

    def close(self) -> None:
        """Close the connections."""
        self.closed = True
        found = getattr(self._local, "connection", None)
        if found is not None:
            found.close()
