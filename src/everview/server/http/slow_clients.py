"""Closes WebSockets of clients that stop reading.

A closed transport first sends what it still holds. A client that has stopped reading, but stays connected, would keep
it forever: a file descriptor, a message, and one of the allowed connections. Once a connection has been served, its
client therefore has `PARTING` seconds to read the rest and close; then the connection is aborted.
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


class Parting(Protocol):
    """uvicorn's WebSocket with a bounded closing time."""

    _cutting: asyncio.TimerHandle | None = None
    _lost = False

    async def run_asgi(self) -> None:
        """Serve it, then make sure that it ends."""
        await super().run_asgi()
        if not self._lost:
            self._cutting = self.loop.call_later(PARTING, self.transport.abort)

    def connection_lost(self, exc: Exception | None) -> None:
        """It has ended normally, or was aborted."""
        self._lost = True
        if self._cutting is not None:
            self._cutting.cancel()
        super().connection_lost(exc)
