"""The mesh: direct connections between the tasks of a barrier stage, for what shards send each other within a step.

A loop may take hundreds of rounds; as Spark jobs they would cost tens of milliseconds each. The tasks of a barrier
stage run at the same time, so they connect to each other once (addresses go through the barrier) and swap parcels
directly: a round is one message to every other task and one from each. Every message also says the earliest loop time
its sender has work for, or that it failed; and it brings the strings that users' functions have made since the last
one, because rows are codes, and the others may have to read them.

A connection starts with a secret that the driver made for this job; whoever does not know it is sent away.
"""

from __future__ import annotations

import json
import pickle
import socket
import struct
import threading
from collections.abc import Callable, Sequence
from typing import NamedTuple

from everview.codes.interner import Interner
from everview.dataflow.lockstep import Parcel
from everview.errors import InternalError
from everview.spark.job import bytes_table, table_bytes, words_of

_LENGTH = struct.Struct("<Q")
PATIENCE = 120.0
"""Seconds without a sign of life after which a task gives up on its peers (Spark then runs the stage again)."""


def assign(shards: int, held: Sequence[dict[int, int]]) -> list[int]:
    """Which task runs each shard: each its share, where possible the one that holds the newest version of it.

    >>> assign(4, [{2: 7, 3: 7, 0: 5}, {0: 7, 3: 6}])
    [1, 1, 0, 0]
    """
    room = [len(range(task, shards, len(held))) for task in range(len(held))]
    owners: dict[int, int] = {}
    known = sorted((-version, shard, task) for task, each in enumerate(held) for shard, version in each.items())
    for shard, task in [(s, t) for _, s, t in known] + [(s, t) for s in range(shards) for t in range(len(held))]:
        if shard not in owners and room[task]:
            owners[shard] = task
            room[task] -= 1
    return [owners[shard] for shard in range(shards)]


class Mesh:
    """The wire of one task among several; see `everview.dataflow.lockstep.Wire`.

    Spark gives tasks to any worker. So that shards need not move with them, tasks say which versions of which shards
    their workers hold (`held`), and all come to the same conclusion who runs which (`owners`).
    """

    def __init__(
        self, task: int, secret: bytes, gather: Callable[[str], list[str]], host: str, shards: int, held: dict[int, int]
    ) -> None:
        self.task = task
        self._secret = secret
        self._peers: dict[int, socket.socket] = {}
        self._interner: Interner | None = None
        self._known = 0
        with socket.create_server((host, 0)) as server:
            server.settimeout(PATIENCE)
            mine = {"at": [host, server.getsockname()[1]], "held": list(held.items())}
            everybody = [json.loads(text) for text in gather(json.dumps(mine))]
            self.tasks = len(everybody)
            self.owners = assign(shards, [dict(each["held"]) for each in everybody])
            for peer in range(task):  # lower numbers are called, higher ones call
                where, port = everybody[peer]["at"]
                self._introduce(peer, socket.create_connection((where, port), timeout=PATIENCE))
            while len(self._peers) < self.tasks - 1:
                self._greet(server.accept()[0])

    def _introduce(self, peer: int, connection: socket.socket) -> None:
        connection.sendall(self._secret + _LENGTH.pack(self.task))
        self._adopt(peer, connection)

    def _greet(self, connection: socket.socket) -> None:
        connection.settimeout(PATIENCE)
        hello = exactly(connection, len(self._secret) + _LENGTH.size)
        if hello[: len(self._secret)] != self._secret:
            connection.close()
            return
        self._adopt(_LENGTH.unpack(hello[len(self._secret) :])[0], connection)

    def _adopt(self, peer: int, connection: socket.socket) -> None:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.settimeout(PATIENCE)
        self._peers[peer] = connection

    def begin(self, interner: Interner) -> None:
        self._interner, self._known = interner, len(interner)

    def _new_words(self) -> bytes:
        if self._interner is None or len(self._interner) == self._known:
            return b""
        return table_bytes(self._interner.export(self._known))

    def _learn(self, words: list[bytes]) -> None:
        """Know what the others have made; what was known before is not told again."""
        if self._interner is not None:
            for table in filter(None, words):
                found = bytes_table(table)
                assert found is not None
                self._interner.load(found)
            self._known = len(self._interner)

    def swap(self, parcels: list[Parcel], agenda: int) -> tuple[list[Parcel], int]:
        """Send everybody what is theirs, receive what is ours; gives the earliest agenda of all."""
        mine: list[Parcel] = []
        theirs: dict[int, list[Parcel]] = {peer: [] for peer in self._peers}
        for parcel in parcels:
            to = self.owners[parcel[0]]
            (mine if to == self.task else theirs[to]).append(parcel)
        words = self._new_words()
        answers = self._round(
            {p: (agenda, [(s, o, r.tobytes()) for s, o, r in rows], words) for p, rows in theirs.items()}
        )
        self._learn([new for *_, new in answers])
        for other, rows, _ in answers:
            agenda = min(agenda, other)
            mine += [(s, o, words_of(data)) for s, o, data in rows]
        return mine, agenda

    def fail(self, error: BaseException) -> None:
        """Tell the others, which wait for parcels, that this task cannot go on."""
        if isinstance(error, PeerFailed):
            return  # they know
        message = pickle.dumps(_Failure(f"{type(error).__name__}: {error}"))
        for connection in self._peers.values():
            try:
                send(connection, message)
            except OSError:
                continue

    def _round(self, messages: dict[int, object]) -> list[tuple[int, list[tuple[int, int, bytes]], bytes]]:
        """One message to each peer, one from each. Sending has a thread of its own: large messages would block both."""
        data = {peer: pickle.dumps(message, protocol=5) for peer, message in messages.items()}
        failures: list[OSError] = []

        def send_all() -> None:
            for peer, message in data.items():
                try:
                    send(self._peers[peer], message)
                except OSError as error:
                    failures.append(error)

        large = sum(map(len, data.values())) > 1 << 15
        sender = threading.Thread(target=send_all, daemon=True)
        if large:
            sender.start()
        else:
            send_all()
        answers = [pickle.loads(receive(connection)) for connection in self._peers.values()]
        if large:
            sender.join()
        for answer in answers:
            if isinstance(answer, _Failure):
                raise PeerFailed(answer.text)
        if failures:
            raise failures[0]
        return answers

    def close(self) -> None:
        """Hang up."""
        for connection in self._peers.values():
            connection.close()


class _Failure(NamedTuple):
    text: str


class PeerFailed(Exception):
    """Another task of the step failed, and says why itself."""


def send(connection: socket.socket, message: bytes) -> None:
    """Send a message whole."""
    connection.sendall(_LENGTH.pack(len(message)))
    connection.sendall(message)


def receive(connection: socket.socket) -> bytes:
    """Wait for a whole message."""
    return exactly(connection, _LENGTH.unpack(exactly(connection, _LENGTH.size))[0])


def exactly(connection: socket.socket, size: int) -> bytes:
    """Wait for so many bytes."""
    data = bytearray(size)
    view = memoryview(data)
    while view:
        count = connection.recv_into(view)
        if not count:
            raise InternalError("E_PEER", "another task of this step is gone", "Spark runs the step again")
        view = view[count:]
    return bytes(data)
