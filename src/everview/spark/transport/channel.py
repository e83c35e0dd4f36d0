"""A channel: a connection between two processes of a job, with a MAC on every message.

    length of the body, 64-bit | tag of the length | body | tag of the body

Tags are the first half of an HMAC-SHA-256 under the direction's key (`handshake`), over the message's number on this
channel and the authenticated bytes. So a message that was modified, dropped, repeated, reordered or forged in transit
is detected before its contents are parsed, and a length before memory is allocated for it. Messages are not encrypted:
whoever can read the network can read rows, as with Spark's own traffic unless encryption is configured (docs/spark.md).

One thread may send while another receives.
"""

from __future__ import annotations

import hmac
import socket
import struct
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from everview.errors import InternalError
from everview.spark.transport.handshake import REPLY, Caller, Keys, NotAuthenticated
from everview.spark.transport.message import Buffer

MESSAGE_BYTES = 1 << 36
"""Maximum bytes of a message: more than any task can hold, but a bound."""

SEAL = 16
JOIN = 1 << 16
"""Bytes up to which the parts of a message are joined before sending, to save system calls."""

GREETING = 60.0
"""Seconds that a caller waits for the handshake; the other process may be busy."""

_LENGTH = struct.Struct("<Q")
_HEAD = struct.Struct("<cQQ")  # what is sealed, the message's number, the body's length


class Channel:
    """One end of an authenticated connection."""

    def __init__(self, connection: socket.socket, sending: bytes, receiving: bytes) -> None:
        self.socket = connection
        self._sending, self._receiving = sending, receiving
        self._sent = self._received = 0
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        _notice_the_dead(connection)

    def send(self, pieces: Sequence[Buffer]) -> None:
        """Send one message, given in parts."""
        length = sum(map(len, pieces))
        if length > MESSAGE_BYTES:
            raise _too_large(length)
        head = _LENGTH.pack(length) + _seal(self._sending, b"l", self._sent, length)
        tag = _seal(self._sending, b"b", self._sent, length, pieces)
        self._sent += 1
        if length <= JOIN:
            self.socket.sendall(b"".join([head, *pieces, tag]))
            return
        for piece in (head, *pieces, tag):
            self.socket.sendall(piece)

    def receive(self) -> memoryview:
        """Wait for a whole message. The returned buffer is writable and belongs to the caller."""
        head = exactly(self.socket, _LENGTH.size + SEAL)
        length: int = _LENGTH.unpack_from(head)[0]
        self._check(head[_LENGTH.size :], _seal(self._receiving, b"l", self._received, length))
        if length > MESSAGE_BYTES:
            raise _too_large(length)
        body = memoryview(exactly(self.socket, length + SEAL))
        self._check(body[length:], _seal(self._receiving, b"b", self._received, length, [body[:length]]))
        self._received += 1
        return body[:length]

    def _check(self, tag: Buffer, expected: bytes) -> None:
        if not hmac.compare_digest(tag, expected):
            what = f"message {self._received} of another process of this step is not what was sent"
            raise InternalError("E_PEER", what, "a message was modified on the network; Spark retries the step")

    def close(self) -> None:
        """Close the connection, even if another thread is in the middle of a message."""
        with suppress(OSError):
            self.socket.shutdown(socket.SHUT_RDWR)
        self.socket.close()


def _seal(key: bytes, what: bytes, number: int, length: int, pieces: Sequence[Buffer] = ()) -> bytes:
    head = _HEAD.pack(what, number, length)
    if length <= JOIN:
        return hmac.digest(key, b"".join([head, *pieces]), "sha256")[:SEAL]
    made = hmac.new(key, head, "sha256")
    for piece in pieces:
        made.update(piece)
    return made.digest()[:SEAL]


def call(address: tuple[str, int], secret: bytes, purpose: bytes, number: int, reach: float) -> Channel:
    """Connect to a process of the same job within this many seconds. Raises `OSError` if it cannot be reached, and an
    authentication error if another program answers.
    """
    connection = socket.create_connection(address, timeout=reach)
    try:
        connection.settimeout(GREETING)
        caller = Caller(secret, purpose, number)
        connection.sendall(caller.hello())
        connection.sendall(caller.proof(bytes(exactly(connection, REPLY))))
        connection.settimeout(None)
        return channel_of(connection, caller.keys, calling=True)
    except (TimeoutError, InternalError):  # nothing was said, or nothing more
        connection.close()
        raise NotAuthenticated from None
    except BaseException:
        connection.close()
        raise


def channel_of(connection: socket.socket, keys: Keys, *, calling: bool) -> Channel:
    """The channel over a connection whose ends have authenticated each other."""
    return Channel(connection, *((keys.caller, keys.listener) if calling else (keys.listener, keys.caller)))


def _too_large(length: int) -> InternalError:
    return InternalError("E_PEER", f"a message has {length} bytes, the most is {MESSAGE_BYTES}", "take smaller steps")


def exactly(connection: socket.socket, size: int) -> bytearray:
    """Wait for exactly this many bytes."""
    data = bytearray(size)
    view = memoryview(data)
    while view:
        count = connection.recv_into(view)
        if not count:
            raise InternalError("E_PEER", "another task of this step is gone", "Spark runs the step again")
        view = view[count:]
    return data


def _notice_the_dead(connection: socket.socket) -> None:
    """Enable keep-alive probes that detect a dead machine within a minute; the system's default of two hours is too
    long for a step.
    """
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    settings: dict[str, Any] = {"TCP_KEEPIDLE": 30, "TCP_KEEPINTVL": 10, "TCP_KEEPCNT": 3}
    for name, value in settings.items():
        if hasattr(socket, name):
            with suppress(OSError):
                connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
