"""Clients that are slow, or silent: HTTP requests with a bounded beginning, WebSockets with a bounded end, and a short
way for messages that many clients get.

uvicorn waits forever for the rest of a request's head, or of its body. A client that sends a byte now and then, or
nothing, would keep one of the allowed connections, before anybody has asked who it is. So a head must be there
`GREETING` seconds after its first byte, or after the connection; a body may pause for `PAUSE` seconds, and what is left
of one that has been answered already is not waited for.

A closed transport first sends what it still holds. A client that has stopped reading, but stays connected, would keep
it forever: a file descriptor, a message, and one of the allowed connections. Once a connection has been served, its
client therefore has `PARTING` seconds to read the rest and close; then the connection is aborted.

A message that thousands of clients get is the same bytes for each, its WebSocket frame included. It is written to the
transport as it is (`Parting.write`), unless the client has not taken all before: then it goes the usual way, which
waits for the client.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from uvicorn.protocols.http.auto import AutoHTTPProtocol
from uvicorn.protocols.websockets.auto import AutoWebSocketsProtocol

if TYPE_CHECKING:
    from uvicorn.protocols.http.h11_impl import H11Protocol as HttpProtocol
    from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol as Protocol
else:
    HttpProtocol = AutoHTTPProtocol  # whichever uvicorn would take: they have the same methods
    Protocol = AutoWebSocketsProtocol

GREETING = 10.0
"""Seconds within which the head of a request must be there."""

PAUSE = 30.0
"""Seconds after which a request whose body does not go on is over."""

PARTING = 10.0
"""Seconds after which a served connection is aborted; uvicorn waits as long for a client's close frame."""


WRITE = "everview.write"
"""The ASGI extension that writes a frame."""


class Parting(Protocol):
    """uvicorn's WebSocket with a bounded closing time."""

    _cutting: asyncio.TimerHandle | None = None
    _lost = False

    async def run_asgi(self) -> None:
        """Serve it, then make sure that it ends."""
        self.scope["extensions"] = {**(self.scope.get("extensions") or {}), WRITE: {"write": self.write}}
        await super().run_asgi()
        if not self._lost:
            self._cutting = self.loop.call_later(PARTING, self.transport.abort)

    def write(self, frame: bytes) -> bool:
        """Write a whole frame at once; False if it must wait, or the connection is ending."""
        transport = self.transport
        if not self.handshake_complete or self.close_sent or transport.is_closing():
            return False
        if transport.get_write_buffer_size():
            return False
        transport.write(frame)
        return True

    def connection_lost(self, exc: Exception | None) -> None:
        """It has ended normally, or was aborted."""
        self._lost = True
        if self._cutting is not None:
            self._cutting.cancel()
        super().connection_lost(exc)


class Prompt(HttpProtocol):
    """uvicorn's HTTP connection, for clients that send what they have begun."""

    _ending: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """A client has connected."""
        super().connection_made(transport)
        self._within(GREETING)

    def connection_lost(self, exc: Exception | None) -> None:
        """It has gone."""
        self._rest()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """A part of a request, or several requests."""
        before = self.cycle
        super().data_received(data)
        cycle = self.cycle
        if self.transport.get_protocol() is not self:  # it is a WebSocket now, which has its own patience
            self._rest()
        elif cycle is before and (cycle is None or cycle.response_complete):  # a part of a head
            if self._ending is None:
                self._within(GREETING)
        elif cycle.more_body and not cycle.response_complete:
            self._within(PAUSE)
        else:
            self._rest()

    def on_response_complete(self) -> None:
        """A request was answered."""
        super().on_response_complete()
        self._rest()
        if self.cycle.more_body:
            self._within(GREETING)

    def _within(self, seconds: float) -> None:
        self._rest()
        self._ending = self.loop.call_later(seconds, self.transport.abort)

    def _rest(self) -> None:
        if self._ending is not None:
            self._ending.cancel()
            self._ending = None
