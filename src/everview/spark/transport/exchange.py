"""The mesh: direct connections between the tasks of a barrier stage, for what shards send each other within a step.

A loop may take hundreds of rounds; as Spark jobs they would cost tens of milliseconds each. The tasks of a barrier
stage run at the same time, so they connect to each other once (addresses go through the barrier) and swap messages
directly: a round is one message to every other task and one from each. Every message also says the earliest loop time
its sender has work for, or that it failed; and it brings the strings that users' functions have made since the last
one, because rows are codes, and the others may have to read them.

Tasks prove to each other that they know the secret which the driver made for this job, and all they say is sealed
(`proof`, `line`); whoever else calls is sent away, and holds up nobody (`door`). What they say is numbers and rows as
they are in memory, and runs nothing (`message`).
"""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Callable, Sequence

from everview.codes.interner import Interner
from everview.dataflow.superstep import Message
from everview.errors import InternalError
from everview.spark.driver.job import bytes_table, table_bytes
from everview.spark.transport.channel import Channel, call
from everview.spark.transport.failures import PeerFailed
from everview.spark.transport.handshake import NotAuthenticated
from everview.spark.transport.listener import JobListener
from everview.spark.transport.message import Buffer, Header, bytes_of, pack, unpack, words_in

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


class ShardExchange:
    """The channel of one task among several; see `everview.dataflow.superstep.ShardChannel`.

    Spark gives tasks to any worker. So that shards need not move with them, tasks say which versions of which shards
    their workers hold (`held`), and all come to the same conclusion who runs which (`owners`).
    """

    def __init__(
        self, task: int, secret: bytes, gather: Callable[[str], list[str]], host: str, shards: int, held: dict[int, int]
    ) -> None:
        self.task = task
        self._secret = secret
        self._peers: dict[int, Channel] = {}
        self._interner: Interner | None = None
        self._known = 0
        door = JobListener(
            [host, "127.0.0.1"], secret
        )  # a name that is not this machine's own is of no use to others either
        try:
            texts = gather(json.dumps({"at": door.address, "held": list(held.items())}))
            everybody = [json.loads(text) for text in texts]
            self.tasks = len(everybody)
            self.owners = assign(shards, [dict(each["held"]) for each in everybody])
            meeting = hashlib.sha256("\n".join(texts).encode()).digest()
            door.open(_purpose(meeting, task))
            for peer in range(task):  # lower numbers are called, higher ones call
                self._call(peer, everybody[peer]["at"], _purpose(meeting, peer))
            while len(self._peers) < self.tasks - 1:
                self._greet(door)
        except BaseException:
            self.close()
            raise
        finally:
            door.close()

    def _call(self, peer: int, address: tuple[str, int], purpose: bytes) -> None:
        where, port = address
        try:
            self._adopt(peer, call((where, port), self._secret, purpose, self.task, PATIENCE))
        except (OSError, NotAuthenticated) as error:
            raise _missing(f"task {peer} is not at {where}:{port}") from error

    def _greet(self, door: JobListener) -> None:
        found = door.admit(PATIENCE)
        if found is None:
            raise _missing(f"{self.tasks - 1 - len(self._peers)} tasks have not called")
        self._adopt(*found)

    def _adopt(self, peer: int, line: Channel) -> None:
        line.socket.settimeout(PATIENCE)
        self._peers[peer] = line

    def begin(self, interner: Interner) -> None:
        self._interner, self._known = interner, len(interner)

    def _new_words(self) -> bytes:
        if self._interner is None or len(self._interner) == self._known:
            return b""
        return table_bytes(self._interner.export(self._known))

    def _learn(self, words: Sequence[Buffer]) -> None:
        """Know what the others have made; what was known before is not told again."""
        if self._interner is not None:
            for table in map(bytes_table, words):
                if table is not None:
                    self._interner.load(table)
            self._known = len(self._interner)

    def exchange(self, messages: list[Message], agenda: int) -> tuple[list[Message], int]:
        """Send everybody what is theirs, receive what is ours; gives the earliest agenda of all."""
        mine: list[Message] = []
        theirs: dict[int, list[Message]] = {peer: [] for peer in self._peers}
        for message in messages:
            to = self.owners[message[0]]
            (mine if to == self.task else theirs[to]).append(message)
        words = self._new_words()
        heard = self._round({peer: _round_of(rows, agenda, words) for peer, rows in theirs.items()})
        self._learn([words for _, words, *_ in heard])
        for other, _, rows in heard:
            agenda = min(agenda, other)
            mine += rows
        return mine, agenda

    def fail(self, error: BaseException) -> None:
        """Tell the others, which wait for messages, that this task cannot go on."""
        if isinstance(error, PeerFailed):
            return  # they know
        message = pack({"failed": f"{type(error).__name__}: {error}"})
        for line in self._peers.values():
            try:
                line.send(message)
            except OSError:
                continue

    def _round(self, messages: dict[int, list[Buffer]]) -> list[tuple[int, Buffer, list[Message]]]:
        """One message to each peer, one from each. Sending has a thread of its own: large messages would block both."""
        failed: list[Exception] = []

        def send_all() -> None:
            for peer, message in messages.items():
                try:
                    self._peers[peer].send(message)
                except (OSError, InternalError) as error:
                    failed.append(error)

        large = sum(len(piece) for message in messages.values() for piece in message) > 1 << 15
        sender = threading.Thread(target=send_all, daemon=True)
        if large:
            sender.start()
        else:
            send_all()
        answers = [unpack(line.receive()) for line in self._peers.values()]
        if large:
            sender.join()
        for header, _ in answers:
            if "failed" in header:
                raise PeerFailed(header["failed"])
        if failed:
            raise failed[0]
        return [_heard(*answer) for answer in answers]

    def close(self) -> None:
        """Hang up."""
        for line in self._peers.values():
            line.close()


def _round_of(messages: list[Message], agenda: int, words: Buffer) -> list[Buffer]:
    """What a task says to another in a round, as a message."""
    header = {"agenda": agenda, "messages": [(int(shard), int(operator)) for shard, operator, _ in messages]}
    return pack(header, [words, *(bytes_of(rows) for *_, rows in messages)])


def _heard(header: Header, parts: list[memoryview]) -> tuple[int, Buffer, list[Message]]:
    """The same as the other end takes it: agenda, new words, messages."""
    words, *rows = parts
    messages = [(s, o, words_in(part)) for (s, o), part in zip(header["messages"], rows, strict=True)]
    return int(header["agenda"]), words, messages


def _purpose(meeting: bytes, task: int) -> bytes:
    """What a call to a task is for: one who met others, in another attempt of the stage, does not belong here."""
    return b"mesh %d " % task + meeting


def _missing(what: str) -> InternalError:
    return InternalError("E_PEER", f"the tasks of a step do not find each other: {what}", "Spark runs the step again")
