"""Exchanges: the messages between the shards of several tasks within a step, over direct connections.

A loop may take hundreds of rounds, each of which would cost tens of milliseconds as a Spark job. So tasks that run at
the same time connect to each other once and exchange messages directly: a round is one message to every other task and
one from each. Every message also carries the earliest loop time at which its sender has work, or a failure, and the
strings that user functions have created since the last message: rows are codes, which the receiver may have to decode.

Messages are numbers and raw rows, and nothing in them is executed (`message`). They travel over channels supplied by
the caller; `connect` creates them from sockets. Tasks authenticate each other with the secret that the driver created
for this job (`handshake`, `channel`); other callers are rejected and block nobody (`listener`). Tasks of a barrier
stage learn each other's addresses through the barrier (`meet`), those of a gang through the driver
(`everview.spark.gang`).
"""

from __future__ import annotations

import hashlib
import json
import select
import threading
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from everview.codes.interner import Interner
from everview.dataflow.superstep import Message
from everview.errors import InternalError
from everview.spark.driver.job import bytes_table, table_bytes
from everview.spark.gang.ownership import assign
from everview.spark.transport.channel import Channel, call
from everview.spark.transport.failures import PeerFailed, PeerLost
from everview.spark.transport.handshake import NotAuthenticated
from everview.spark.transport.listener import JobListener
from everview.spark.transport.message import Buffer, Header, bytes_of, pack, unpack, words_in

PATIENCE = 120.0
"""Seconds without a message after which a task gives up on its peers; the step is then retried."""

NOTICE = 0.05
"""Polling interval, in seconds, for a request to stop while waiting for calls."""

AGAIN = "the step is run again"

THREADED_BYTES = 1 << 15
"""Bytes in a round from which a thread sends them: if both ends only sent, neither would read."""


class Line(Protocol):
    """One end of a connection: `everview.spark.transport.channel.Channel`, or a simulator's."""

    def send(self, pieces: Sequence[Buffer]) -> None:
        """Send a message, given in parts."""

    def receive(self) -> Buffer:
        """Wait for a message."""

    def close(self) -> None:
        """Close the connection."""


First = Callable[[Sequence[Line]], Line]
"""Waits for the first connection that has a message or is closed."""


def first_ready(lines: Sequence[Any], seconds: float | None = PATIENCE) -> Any:
    """The first channel that has a message."""
    waiting = select.poll()
    by_number = {}
    for line in lines:
        number = line.socket.fileno()
        by_number[number] = line
        waiting.register(number, select.POLLIN)
    found = waiting.poll(None if seconds is None else 1000 * seconds)
    if not found:
        raise PeerLost("E_PEER", f"another task of this step has not answered for {seconds:.0f} s", AGAIN)
    return by_number[found[0][0]]


class ShardExchange:
    """One task's end of the exchange; see `everview.dataflow.superstep.ShardChannel`. `owners` maps each shard to the
    task that runs it.
    """

    def __init__(self, task: int, peers: dict[int, Line], owners: Sequence[int], first: First = first_ready) -> None:
        self.task = task
        self.tasks = len(peers) + 1
        self.owners = owners
        self.step = 0
        """The number of the step, for tasks that run several."""
        self._peers = peers
        self._first = first
        self._round_number = 0
        self._interner: Interner | None = None
        self._known = 0

    def begin(self, interner: Interner) -> None:
        self._round_number = 0
        self._interner, self._known = interner, len(interner)

    def _new_words(self) -> bytes:
        if self._interner is None or len(self._interner) == self._known:
            return b""
        return table_bytes(self._interner.export(self._known))

    def _learn(self, words: Sequence[Buffer]) -> None:
        """Add dictionary entries from other tasks; known ones are not sent again."""
        if self._interner is not None:
            for table in map(bytes_table, words):
                if table is not None:
                    self._interner.load(table)
            self._known = len(self._interner)

    def exchange(self, messages: list[Message], agenda: int) -> tuple[list[Message], int]:
        """Send all outgoing messages and receive the incoming ones; returns the earliest agenda of all tasks."""
        mine: list[Message] = []
        theirs: dict[int, list[Message]] = {peer: [] for peer in self._peers}
        for message in messages:
            to = self.owners[message[0]]
            (mine if to == self.task else theirs[to]).append(message)
        words = self._new_words()
        self._round_number += 1
        place = [self.step, self._round_number]
        heard = self._round({peer: _round_of(place, rows, agenda, words) for peer, rows in theirs.items()})
        self._learn([words for _, words, *_ in heard])
        for other, _, rows in heard:
            agenda = min(agenda, other)
            mine += rows
        return mine, agenda

    def fail(self, error: BaseException) -> None:
        """Tell waiting tasks that this one cannot continue."""
        if isinstance(error, PeerFailed | PeerLost):
            return  # they know, or will when this task hangs up
        message = pack({"failed": f"{type(error).__name__}: {error}"})
        for line in self._peers.values():
            try:
                line.send(message)
            except OSError:
                continue

    def _round(self, messages: dict[int, list[Buffer]]) -> list[tuple[int, Buffer, list[Message]]]:
        """Send one message to each peer and receive one from each. Large messages are sent by a separate thread, which
        ends with the round, or when this task closes its connections, as it must if the round fails.
        """
        if sum(len(piece) for message in messages.values() for piece in message) <= THREADED_BYTES:
            self._send(messages)
            return self._hear()
        failed: list[PeerLost] = []

        def send() -> None:
            try:
                self._send(messages)
            except PeerLost as error:
                failed.append(error)

        sender = threading.Thread(target=send, daemon=True, name="everview sends")
        sender.start()
        found = self._hear()
        sender.join()
        if failed:
            raise failed[0]
        return found

    def _send(self, messages: dict[int, list[Buffer]]) -> None:
        for peer, message in messages.items():
            try:
                self._peers[peer].send(message)
            except OSError as error:
                raise _lost(peer, error) from error

    def _hear(self) -> list[tuple[int, Buffer, list[Message]]]:
        """A message from each peer, in order."""
        found: dict[int, tuple[int, Buffer, list[Message]]] = {}
        waiting = {id(line): peer for peer, line in self._peers.items()}
        while waiting:
            line = self._first([line for line in self._peers.values() if id(line) in waiting])
            peer = waiting.pop(id(line))
            try:
                header, parts = unpack(line.receive())
            except (OSError, InternalError) as error:
                raise _lost(peer, error) from error
            if "failed" in header:
                raise PeerFailed(header["failed"])
            if header["place"] != [self.step, self._round_number]:
                raise PeerLost("E_PEER", f"task {peer} of this step is at {header['place']}", AGAIN)
            found[peer] = _heard(header, parts)
        return [found[peer] for peer in self._peers]

    def close(self) -> None:
        """Close all connections."""
        for line in self._peers.values():
            line.close()


def _lost(peer: int, error: Exception) -> PeerLost:
    what = error.message if isinstance(error, InternalError) else str(error)
    return PeerLost("E_PEER", f"task {peer} of this step is lost: {what}", AGAIN)


def _round_of(place: list[int], messages: list[Message], agenda: int, words: Buffer) -> list[Buffer]:
    """A task's message to another in one round; `place` is the step and the round."""
    rows = [(int(shard), int(operator)) for shard, operator, _ in messages]
    return pack({"place": place, "agenda": agenda, "messages": rows}, [words, *(bytes_of(r) for *_, r in messages)])


def _heard(header: Header, parts: list[memoryview]) -> tuple[int, Buffer, list[Message]]:
    """The decoded message: agenda, new dictionary entries, shard messages."""
    words, *rows = parts
    messages = [(s, o, words_in(part)) for (s, o), part in zip(header["messages"], rows, strict=True)]
    return int(header["agenda"]), words, messages


# sockets


def listener(host: str, secret: bytes) -> JobListener:
    """A listening socket at the executor's address. A name that does not resolve to this machine is useless to others
    too.
    """
    return JobListener([host, "127.0.0.1"], secret)


def connect(
    task: int,
    door: JobListener,
    at: Sequence[tuple[str, int]],
    secret: bytes,
    meeting: bytes,
    stop: Callable[[], bool] = lambda: False,
) -> dict[int, Line]:
    """Connect to all others of a meeting at the addresses `at`: a task calls lower numbers and is called by higher
    ones. Raises `PeerLost` if one cannot be reached, or on a request to stop.
    """
    peers: dict[int, Line] = {}
    door.open(_purpose(meeting, task))
    try:
        for peer in range(task):
            peers[peer] = _called(peer, at[peer], secret, _purpose(meeting, peer), task)
        left = PATIENCE
        while len(peers) < len(at) - 1:
            found = door.admit(min(NOTICE, left))
            if found is not None:
                peer, line = found
                line.socket.settimeout(PATIENCE)
                peers[peer] = line
            elif stop() or (left := left - NOTICE) <= 0:
                raise _missing(f"{len(at) - 1 - len(peers)} tasks have not called")
    except BaseException:
        for each in peers.values():
            each.close()
        raise
    return dict(sorted(peers.items()))


def _called(peer: int, address: tuple[str, int], secret: bytes, purpose: bytes, task: int) -> Channel:
    where, port = address
    try:
        line = call((where, port), secret, purpose, task, PATIENCE)
    except (OSError, NotAuthenticated) as error:
        raise _missing(f"task {peer} is not at {where}:{port}") from error
    line.socket.settimeout(PATIENCE)
    return line


def meet(
    task: int, secret: bytes, gather: Callable[[str], list[str]], host: str, shards: int, held: dict[int, int]
) -> ShardExchange:
    """The exchange for a task of a barrier stage. `gather` collects one value from every task. Each reports the shard
    versions its worker holds, and all derive the same assignment from them.
    """
    door = listener(host, secret)
    try:
        texts = gather(json.dumps({"at": door.address, "held": list(held.items())}))
        everybody = [json.loads(text) for text in texts]
        owners = assign(shards, [dict(each["held"]) for each in everybody])
        meeting = hashlib.sha256("\n".join(texts).encode()).digest()
        at = [(host, port) for host, port in (each["at"] for each in everybody)]
        return ShardExchange(task, connect(task, door, at, secret, meeting), owners)
    finally:
        door.close()


def _purpose(meeting: bytes, task: int) -> bytes:
    """The purpose of a connection; it keeps out tasks of other attempts of the stage."""
    return b"mesh %d " % task + meeting


def _missing(what: str) -> PeerLost:
    return PeerLost("E_PEER", f"the tasks of a step do not find each other: {what}", AGAIN)
