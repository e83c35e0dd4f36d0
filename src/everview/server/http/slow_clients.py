"""WebSockets with a bounded end, and a short way for messages that many clients get.

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

from uvicorn.protocols.websockets.auto import AutoWebSocketsProtocol

if TYPE_CHECKING:
    from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol as Protocol
else:
    Protocol = AutoWebSocketsProtocol  # whichever uvicorn would take: they have the same methods

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
