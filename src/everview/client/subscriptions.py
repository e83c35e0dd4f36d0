"""Client subscriptions: a thread that receives changes, reconnects when disconnected, and calls functions.

A broken connection is re-established, with increasing pauses, using the token of the last applied change; the server
then sends what changed since. If it cannot, because its history does not reach back or the database is another, it
sends the contents, and the function receives the difference from what it had received. The sum of all changes is
therefore always the view's contents. For that the client keeps what was delivered.

Exceptions of a function are handled as in a session: kept as `error`, logged, and the next change is delivered.
"""

from __future__ import annotations

import contextlib
import json
import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from everview.client.results import ClientBatch, Row
from everview.client.transport import Address
from everview.errors import EverviewError, InputError, StoreError
from everview.wire.error_records import error_of
from everview.wire.values import parsed, rows_of

if TYPE_CHECKING:
    from websockets.sync.client import ClientConnection

LOG = logging.getLogger("everview.subscribers")

PAUSES = (0.05, 0.1, 0.25, 0.5, 1.0, 2.0)
"""Seconds before each new attempt; the last one repeats."""


ASKING = 0.05
"""Seconds between progress requests to the server."""


class Following:
    """The handle returned by `subscribe`; call it to unsubscribe."""

    def __init__(
        self,
        address: Address,
        wanted: Mapping[str, Any],
        function: Callable[[ClientBatch], Any],
        snapshot: bool,
        granularity: float,
    ) -> None:
        self.error: Exception | None = None
        """The last exception raised by the function, or why the subscription has ended"""
        self.reconnects = 0
        """number of reconnections"""
        self.time = -1
        """the last time that was delivered, or up to which nothing changed"""
        self._address = address
        self._wanted = dict(wanted)
        self._function = function
        self._snapshot = snapshot
        self._granularity = granularity
        self._held: Counter[Row] = Counter()
        self._columns: list[str] = []
        self._prefix = ""
        self._stopped = threading.Event()
        self._begun = threading.Event()
        self._connected = False
        self._progress = threading.Condition()
        self._refused: EverviewError | None = None
        self._socket: ClientConnection | None = None
        self._thread = threading.Thread(target=self._run, daemon=True, name="everview subscription")

    def begin(self) -> Following:
        """Start receiving; returns when the contents have been delivered."""
        self._thread.start()
        self._begun.wait()
        if self._refused is not None:
            raise self._refused
        return self

    def __call__(self) -> None:
        """Unsubscribe; idempotent."""
        self._stopped.set()
        socket = self._socket
        if socket is not None:
            socket.close()
        if threading.current_thread() is not self._thread:
            self._thread.join(5)

    def _run(self) -> None:
        failures = 0
        while not self._stopped.is_set():
            try:
                self._listen()
            except EverviewError as error:
                self._refused = self.error = error
                break
            except Exception as error:  # whatever a socket raises
                if not self._begun.is_set():
                    self._refused = StoreError(
                        "E_SERVER", f"the server cannot be reached: {error}", "is `everview serve` running there?"
                    )
                    break
            failures = 0 if self._connected else failures + 1
            self._connected = False
            self._stopped.wait(PAUSES[min(failures, len(PAUSES) - 1)])
        self._begun.set()

    def _listen(self) -> None:
        """One connection, until it breaks."""
        connect = _connect()
        with connect(
            self._address.socket, compression=None, max_size=None, proxy=None, ssl=self._address.context()
        ) as socket:
            self._socket = socket
            if self._stopped.is_set():
                return
            _say(
                socket,
                {"type": "hello", **self._address.hello, "format": "exact", "granularity": self._granularity},
            )
            wanted = {"type": "subscribe", "id": 1, **self._wanted, "snapshot": self._snapshot or self.time >= 0}
            if self._prefix and self.time >= 0:
                wanted["resume"] = f"{self._prefix}.{self.time}"
            _say(socket, wanted)
            for text in socket:
                self._heard(parsed(text))
                if self._stopped.is_set():
                    return

    def _heard(self, message: Any) -> None:
        if isinstance(message, list):
            if not self._connected:
                self._connected = True
                self.reconnects += self._begun.is_set()
            self._apply(message)
            self._begun.set()
            with self._progress:
                self._progress.notify_all()
        elif message["type"] == "subscribed":
            self._prefix = message["resume"]
            self._columns = [column["name"] for column in message["columns"]]
        elif message["type"] == "error":
            error = error_of(message["error"])
            if error.code != "E_CLOSED":  # a server that goes away comes back
                raise error

    def _apply(self, frames: list[dict[str, Any]]) -> None:
        changes: list[tuple[Row, int]] = []
        for frame in frames:
            if frame["type"] == "commit":
                self.time = frame["to"]
            elif frame["type"] == "end":
                self._stopped.set()
                self.error = error_of(frame["error"])
            else:
                rows = list(zip(rows_of(frame["rows"]), frame["diffs"], strict=True))
                changes = self._difference(rows) if frame["type"] == "snapshot" else rows
                for row, diff in changes:
                    self._held[row] += diff
                    if not self._held[row]:
                        del self._held[row]
        if changes:
            self._tell(ClientBatch(self.time, self._columns, changes))

    def _difference(self, rows: list[tuple[Row, int]]) -> list[tuple[Row, int]]:
        """The difference between the contents and what was delivered."""
        total = Counter(dict(rows))
        total.subtract(self._held)
        return [(row, diff) for row, diff in total.items() if diff]

    def _tell(self, batch: ClientBatch) -> None:
        if self._stopped.is_set() and self.error is None:
            return
        try:
            self._function(batch)
        except Exception as error:
            self.error = error
            LOG.exception("a subscriber of %r failed at time %d", self._wanted, batch.time)

    def wait_for(self, moment: int, seconds: float = 60.0) -> None:
        """Wait until all times up to this one were delivered; E_TIMEOUT if that takes too long."""
        end = time.monotonic() + seconds
        with self._progress:
            while self.time < moment and not self._stopped.is_set():
                if time.monotonic() > end:
                    raise InputError("E_TIMEOUT", f"time {moment} has not been told of yet", "wait longer")
                socket = self._socket
                if socket is not None:
                    with contextlib.suppress(Exception):  # a broken one is re-established
                        _say(socket, {"type": "sync"})
                self._progress.wait(ASKING)


def _connect() -> Callable[..., ClientConnection]:
    try:
        from websockets.sync.client import connect
    except ModuleNotFoundError:
        raise InputError(
            "E_OPTION", "subscriptions need websockets, which is not installed", "pip install 'everview[client]'"
        ) from None
    return connect


def _say(socket: ClientConnection, message: Mapping[str, Any]) -> None:
    socket.send(json.dumps(message))
