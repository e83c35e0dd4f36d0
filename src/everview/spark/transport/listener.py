"""A listening socket that admits only processes of the same job.

Anyone who can reach the port may connect: a port scanner, a health check, a broken client. Each caller has GRACE
seconds to authenticate (`handshake`); until then at most a few dozen bytes of fixed sizes are read from it, and nobody
waits for it. One thread serves all callers, so a silent one blocks nobody; callers that fail are disconnected without
an answer. At most CALLERS unauthenticated callers are kept; beyond that the oldest is dropped. An attacker would have
to connect that often within the millisecond that a handshake takes, continuously, to keep others out.
"""

from __future__ import annotations

import queue
import selectors
import socket
import threading
import time
from collections.abc import Sequence
from typing import Any

from everview.spark.transport.channel import Channel, channel_of
from everview.spark.transport.handshake import HELLO, PROOF, Listener, NotAuthenticated
from everview.uninterruptible import StartedApart

GRACE = 10.0
"""Seconds in which a caller must authenticate."""

CALLERS = 64
"""Maximum number of unauthenticated callers."""


class JobListener:
    """A listening socket, on the first of the given addresses that belongs to this machine."""

    def __init__(self, hosts: Sequence[str], secret: bytes) -> None:
        self._server = _listen(hosts)
        self._server.setblocking(False)
        self.address: tuple[str, int] = self._server.getsockname()[:2]
        self._secret = secret
        self._purpose = b""
        self._admitted: queue.SimpleQueue[tuple[int, Channel]] = queue.SimpleQueue()
        self._callers: dict[socket.socket, _Knock] = {}  # the oldest first
        self._bell, self._rope = socket.socketpair()
        self._keeper: threading.Thread | None = None

    def open(self, purpose: bytes) -> None:
        """Start to admit callers for a purpose; others, and earlier ones, stay in the accept queue."""
        self._purpose = purpose
        self._keeper = StartedApart(target=self._keep, daemon=True, name="everview door")
        self._keeper.start()

    def admit(self, seconds: float) -> tuple[int, Channel] | None:
        """The next authenticated caller and its number; None after the timeout."""
        try:
            return self._admitted.get(timeout=seconds)
        except queue.Empty:
            return None

    def close(self) -> None:
        """Stop listening."""
        self._rope.close()
        if self._keeper is not None:
            self._keeper.join()
        self._server.close()
        self._bell.close()
        for caller in [*self._callers]:
            caller.close()
        while (waiting := self.admit(0)) is not None:
            waiting[1].close()

    # in the thread

    def _keep(self) -> None:
        with selectors.DefaultSelector() as ready:
            ready.register(self._server, selectors.EVENT_READ)
            ready.register(self._bell, selectors.EVENT_READ)
            while True:
                until = next((knock.until for knock in self._callers.values()), None)
                found = ready.select(None if until is None else max(0.0, until - time.monotonic()))
                for key, _ in found:
                    if key.fileobj is self._bell:
                        return
                    if key.fileobj is self._server:
                        self._accept(ready)
                    else:
                        self._hear(ready, key.fileobj)
                now = time.monotonic()
                for late in [caller for caller, knock in self._callers.items() if knock.until < now]:
                    self._send_away(ready, late)

    def _accept(self, ready: selectors.BaseSelector) -> None:
        try:
            caller, _ = self._server.accept()
        except OSError:  # gone again, or there are too many open files: those will not be fewer at once
            time.sleep(0.01)
            return
        if len(self._callers) >= CALLERS:
            self._send_away(ready, next(iter(self._callers)))
        caller.setblocking(False)
        self._callers[caller] = _Knock(Listener(self._secret, self._purpose))
        ready.register(caller, selectors.EVENT_READ)

    def _hear(self, ready: selectors.BaseSelector, caller: Any) -> None:
        knock = self._callers.get(caller)
        if knock is None:  # sent away a moment ago
            return
        try:
            number = knock.hear(caller)
            if number is None:
                return
            caller.setblocking(True)
            channel = channel_of(caller, knock.listener.keys, calling=False)  # some systems refuse if it is gone again
        except (OSError, NotAuthenticated):
            self._send_away(ready, caller)
            return
        ready.unregister(caller)
        del self._callers[caller]
        self._admitted.put((number, channel))

    def _send_away(self, ready: selectors.BaseSelector, caller: socket.socket) -> None:
        ready.unregister(caller)
        del self._callers[caller]
        caller.close()


class _Knock:
    """The handshake state of a caller."""

    def __init__(self, listener: Listener) -> None:
        self.listener = listener
        self.until = time.monotonic() + GRACE
        self._wanted = HELLO
        self._said = b""
        self._answered = False

    def hear(self, caller: socket.socket) -> int | None:
        """Read what is available; returns the caller's number once it is authenticated."""
        try:
            more = caller.recv(self._wanted - len(self._said))
        except BlockingIOError:  # there was nothing after all
            return None
        if not more:
            raise NotAuthenticated
        self._said += more
        if len(self._said) < self._wanted:
            return None
        if self._answered:
            return self.listener.who(self._said)
        reply = self.listener.reply(self._said)
        if caller.send(reply) != len(reply):
            raise NotAuthenticated  # its buffer cannot be full by now
        self._wanted, self._said, self._answered = PROOF, b"", True
        return None


def _listen(hosts: Sequence[str]) -> socket.socket:
    failure: OSError | None = None
    for host in hosts:
        name = host.strip("[]")
        try:
            return socket.create_server((name, 0), family=socket.AF_INET6 if ":" in name else socket.AF_INET)
        except OSError as error:
            failure = failure or error
    assert failure is not None
    raise failure
