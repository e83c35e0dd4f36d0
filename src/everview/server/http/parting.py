"""The end of a WebSocket whose client takes nothing.

A transport that is closed sends what it still holds before it goes. A client that has stopped reading, and stays, would
keep it for ever: a file, a message, and one of the connections that the server allows. So once a connection has been
served, its client has `PARTING` seconds to take the rest and to say goodbye; then the connection is cut.
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
"""Seconds after which a connection that has been served is cut; uvicorn waits as long for a client's goodbye."""


class Parting(Protocol):
    """uvicorn's WebSocket, which does not outlive by long what served it."""

    _cutting: asyncio.TimerHandle | None = None
    _lost = False

    async def run_asgi(self) -> None:
        """Serve it; then see to it that it ends."""
        await super().run_asgi()
        if not self._lost:
            self._cutting = self.loop.call_later(PARTING, self.transport.abort)

    def connection_lost(self, exc: Exception | None) -> None:
        """It has ended by itself, or was cut."""
        self._lost = True
        if self._cutting is not None:
            self._cutting.cancel()
        super().connection_lost(exc)
