"""The bytes of one connection: messages in, bytes out, both with bounded buffers.

A `Wire` is asyncio's protocol object. Complete messages are taken from its buffer without waiting, so a client that
sends five messages at once is answered after one wake-up; look-ups are answered without one
(`everview.server.pg.pipelined_lookups`), on unencrypted connections in the loop's selector
(`everview.server.direct_selector`). Reading pauses when much is buffered; `drained` waits when much is to be written.
`gone` is set on disconnection, so that an idle stream notices it too.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
import struct
from collections.abc import Callable

from everview.server.direct_selector import ANSWERED, PASSED_ON, SCHEDULED, DirectSelector
from everview.server.pg import messages
from everview.server.pg.messages import LONGEST, LONGEST_EARLY, violation

HIGH_WATER = 1 << 20
"""Maximum number of buffered bytes before reading pauses, and before `drained` waits."""

BASIN = 1 << 18
"""Bytes read at a time."""

REQUEST = 1 << 13
"""Bytes of a request that is read by the selector; more is read afterwards."""

LOG = logging.getLogger("everview.server.pg")

_LENGTH = struct.Struct(">I")


class Gone(ConnectionError):
    """The client has closed the connection, or it broke."""


class Wire(asyncio.BufferedProtocol):
    """One client's connection. Bytes are first read into a `basin`, which all connections of a loop share: asyncio's
    default, a new block of 256 kB for each read, costs more than a look-up.
    """

    def __init__(self, basin: bytearray | None = None) -> None:
        self._basin = memoryview(bytearray(BASIN) if basin is None else basin)
        self.transport: asyncio.Transport | None = None
        self.gone = asyncio.Event()
        self.longest = LONGEST_EARLY
        """bytes that a message may have"""
        self._buffer = bytearray()
        self._at = 0
        self._waiter: asyncio.Future[None] | None = None
        self._paused = False
        self._direct: tuple[DirectSelector, socket.socket] | None = None
        """what reads requests before its transport does"""
        self._room = asyncio.Event()
        self._room.set()
        self._out: list[bytes] = []
        self.at_once: Callable[[bytes | bytearray, int], tuple[int, bytes] | None] | None = None
        """answers, while the conversation waits for a message, those that need no waiting"""

    # what asyncio calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        transport.set_write_buffer_limits(HIGH_WATER)  # the next piece is made while this one is sent
        self.transport = transport

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._basin

    def buffer_updated(self, nbytes: int) -> None:
        self.data_received(bytes(self._basin[:nbytes]))

    def data_received(self, data: bytes) -> bool:
        """Take what has come; whether all of it was answered at once."""
        if self.at_once is not None and not self._buffer and not self._out and self._room.is_set():
            found = self.at_once(data, 0)
            if found is not None and self.transport is not None and not self.transport.is_closing():
                self.transport.write(found[1])
                if found[0] == len(data):
                    return True
                data = data[found[0] :]
        self._buffer += data
        if self.at_once is not None and self._answered():
            return True
        if len(self._buffer) - self._at > max(HIGH_WATER, self._wanted()) and not self._paused:
            self._pause()
        self._wake()
        return False

    def _answered(self) -> bool:
        """Whether what is there was answered at once, and nothing is left."""
        assert self.at_once is not None and self.transport is not None
        while self._room.is_set() and not self._out and not self.transport.is_closing():
            found = self.at_once(self._buffer, self._at)
            if found is None:
                return False
            self._taken(found[0])
            self.transport.write(found[1])
            if not self._buffer:
                return True
        return False

    def eof_received(self) -> bool:
        self.gone.set()
        self._wake()
        return False

    def connection_lost(self, error: BaseException | None) -> None:
        if self._direct is not None:
            selector, connection = self._direct
            selector.forget(connection.fileno())
            self._direct = None
        self.gone.set()
        self._room.set()
        self._wake()

    def pause_writing(self) -> None:
        self._room.clear()

    def resume_writing(self) -> None:
        self._room.set()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    # reading

    def read_directly(self, selector: DirectSelector, connection: socket.socket) -> None:
        """Let the selector read requests, if they are not encrypted and the connection is still open."""
        assert self.transport is not None
        if self.transport.get_extra_info("ssl_object") is None and connection.fileno() >= 0:
            self._direct = selector, connection
            selector.answer_by(connection.fileno(), self._read)

    def _read(self) -> int:
        """Read a request and answer it, while the conversation waits for one; everything else is the transport's."""
        if self.at_once is None or self._buffer or self._direct is None or self.transport is None:
            return PASSED_ON
        try:
            data = self._direct[1].recv(REQUEST)
        except OSError:
            return PASSED_ON
        if not data:
            return PASSED_ON
        try:
            return ANSWERED if self.data_received(data) else SCHEDULED
        except Exception:
            LOG.exception("a connection ended in a way that it must not")
            self.transport.abort()
            return SCHEDULED

    def _pause(self) -> None:
        self._paused = True
        if self.transport is not None:
            self.transport.pause_reading()

    def _resume(self) -> None:
        self._paused = False
        if self.transport is not None:
            self.transport.resume_reading()

    def _wanted(self) -> int:
        """Bytes of the message that is being read, as far as is known."""
        if len(self._buffer) - self._at < 5:
            return 0
        return min(int(_LENGTH.unpack_from(self._buffer, self._at + 1)[0]) + 1, self.longest + 1)

    def _taken(self, size: int) -> bytes:
        found = bytes(self._buffer[self._at : self._at + size])
        self._at += size
        if self._at == len(self._buffer):
            self._buffer.clear()
            self._at = 0
        elif self._at > HIGH_WATER:
            del self._buffer[: self._at]
            self._at = 0
        if self._paused and len(self._buffer) - self._at < HIGH_WATER // 2:
            self._resume()
        return found

    async def _available(self, size: int) -> None:
        while len(self._buffer) - self._at < size:
            if self.gone.is_set():
                raise Gone
            if self._paused:
                self._resume()
            self._waiter = asyncio.get_running_loop().create_future()
            await self._waiter
            self._waiter = None

    async def exactly(self, size: int) -> bytes:
        """So many bytes, when they are there."""
        await self._available(size)
        return self._taken(size)

    async def message(self) -> messages.Message:
        """The next message, when it is there whole."""
        await self._available(5)
        size = _LENGTH.unpack_from(self._buffer, self._at + 1)[0]
        if not 4 <= size <= self.longest:
            raise violation(f"a message of {size:,} bytes is not taken: {self.longest:,} are the most")
        await self._available(size + 1)
        kind = bytes(self._buffer[self._at : self._at + 1])
        data = self._taken(size + 1)[5:]
        return messages.decode(kind, data)

    def peek(self) -> bytes:
        """The letter of the next message, if it is there; else nothing."""
        return bytes(self._buffer[self._at : self._at + 1])

    @property
    def waits(self) -> int:
        """Bytes that were read and not taken yet."""
        return len(self._buffer) - self._at

    def open_up(self) -> None:
        """The client has logged in: long messages are taken from now on."""
        self.longest = LONGEST

    # writing

    def put(self, data: bytes) -> None:
        """Send this with the next `flush`."""
        self._out.append(data)

    def flush(self) -> None:
        """Hand over what is to be sent."""
        if self._out and self.transport is not None and not self.transport.is_closing():
            self.transport.write(b"".join(self._out))
        self._out.clear()

    async def drained(self) -> None:
        """Send, and wait until there is room for more."""
        self.flush()
        if not self._room.is_set():
            await self._room.wait()
        if self.gone.is_set():
            raise Gone

    async def secured(self, context: ssl.SSLContext) -> None:
        """Go on in TLS; nothing may have been sent before it in the clear, which TLS would not protect."""
        assert self.transport is not None
        if self.waits:
            raise violation("something was sent between asking for TLS and beginning it")
        loop = asyncio.get_running_loop()
        upgraded = await loop.start_tls(self.transport, self, context, server_side=True)
        if upgraded is None:
            raise Gone
        self.transport = upgraded

    def close(self) -> None:
        """Send what is left, and end."""
        self.flush()
        if self.transport is not None:
            self.transport.close()
