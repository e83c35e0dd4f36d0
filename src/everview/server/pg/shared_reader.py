"""Reads from many connections at once.

asyncio schedules a handle for every readable socket: a context is entered, a transport method consults its protocol,
and the loop starts over. For a look-up that is answered where its bytes arrive
(`everview.server.pg.pipelined_lookups`), that costs as much as everything else. Unencrypted connections are therefore
read here. They are in one epoll instance, which the loop watches as a single file; whatever is ready is read and
answered, one connection after the other, and then polled again, because by then the next clients have sent requests.

Everything else is still asyncio's: accepting, TLS, writing what does not fit, closing. A transport whose connection is
here has paused reading permanently. Nothing is starved: after `ROUNDS` the loop continues with its other work.
"""

from __future__ import annotations

import asyncio
import logging
import select
import socket
from typing import Protocol

LOG = logging.getLogger("everview.server.pg")

ROUNDS = 8
"""Number of polls before the loop has its turn."""

AT_A_TIME = 64
"""Maximum number of connections per poll."""


class Reads(Protocol):
    """What is told of the bytes of a connection."""

    transport: asyncio.Transport | None

    def data_received(self, data: bytes) -> None:
        """Some have come."""

    def eof_received(self) -> bool:
        """No more will come."""


class Pump:
    """Connections that are read together; on the thread of their loop."""

    def __init__(self, basin: bytearray) -> None:
        self._basin = memoryview(basin)
        self._loop = asyncio.get_running_loop()
        self._ready = select.epoll()
        self._all: dict[int, tuple[socket.socket, Reads]] = {}
        self._loop.add_reader(self._ready.fileno(), self._run)

    @staticmethod
    def of(basin: bytearray) -> Pump | None:
        """One, where the system has what it needs."""
        return Pump(basin) if hasattr(select, "epoll") else None

    def take(self, connection: socket.socket, reads: Reads) -> None:
        """Read this connection from now on; its transport does not."""
        assert reads.transport is not None
        reads.transport.pause_reading()
        if connection.fileno() >= 0 and not reads.transport.is_closing():
            self._all[connection.fileno()] = connection, reads
            self._ready.register(connection.fileno(), select.EPOLLIN)

    def forget(self, connection: socket.socket) -> None:
        """Leave a connection alone, for a while (`take` it again), or because it is to be closed."""
        if self._all.pop(connection.fileno(), None) is not None:
            self._ready.unregister(connection.fileno())

    def close(self) -> None:
        """Read no more."""
        self._loop.remove_reader(self._ready.fileno())
        self._ready.close()
        self._all.clear()

    def _run(self) -> None:
        for _ in range(ROUNDS):
            ready = self._ready.poll(0, AT_A_TIME)
            if not ready:
                return
            for number, _ in ready:
                found = self._all.get(number)
                if found is not None:  # an earlier one may have closed it
                    self._read(*found)

    def _read(self, connection: socket.socket, reads: Reads) -> None:
        transport = reads.transport
        if transport is None or transport.is_closing():
            self.forget(connection)
            return
        try:
            size = connection.recv_into(self._basin)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:  # it broke: closing it tells the conversation
            self.forget(connection)
            transport.abort()
            return
        try:
            if size:
                reads.data_received(bytes(self._basin[:size]))
                return
            self.forget(connection)
            reads.eof_received()
        except Exception:
            LOG.exception("a connection ended in a way that it must not")
            self.forget(connection)
        transport.close()
