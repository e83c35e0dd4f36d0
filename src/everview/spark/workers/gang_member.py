"""A gang member in a Spark worker: `everview.spark.gang.member` over sockets and this process's shards."""

from __future__ import annotations

import hashlib
import pickle
import select
from collections.abc import Callable, Sequence
from typing import Any

from everview.spark.driver.job import Job
from everview.spark.gang.messages import AGAIN, DONE, FAILED, Address, Order, Roster
from everview.spark.transport.exchange import Line, ShardExchange, connect, first_ready, listener
from everview.spark.transport.listener import JobListener
from everview.spark.transport.message import Buffer
from everview.spark.workers.state import WorkerShards

GANG = b"a member of the gang"
"""The purpose of a member's connection to the driver."""


class SocketLines:
    """TCP connections to other members. A member listens at the local address from which it has called the driver,
    which is in the cluster's network.
    """

    def __init__(self, secret: bytes, host: str) -> None:
        self._secret = secret
        self._host = host
        self._door: JobListener | None = None

    def first(self, lines: Sequence[Line]) -> Line:
        found: Line = first_ready(lines, None)
        return found

    def speaks(self, line: Any) -> bool:
        waiting = select.poll()
        waiting.register(line.socket.fileno(), select.POLLIN)
        return bool(waiting.poll(0))

    def listen(self, generation: int) -> Address:
        self.close()
        self._door = listener(self._host, self._secret)
        return self._door.address

    def connect(self, roster: Roster, stop: Callable[[], bool]) -> dict[int, Line]:
        assert self._door is not None
        meeting = hashlib.sha256(repr((roster.generation, roster.at)).encode()).digest()
        try:
            return connect(roster.rank, self._door, roster.at, self._secret, meeting, stop)
        finally:
            self.close()

    def close(self) -> None:
        """Stop listening."""
        if self._door is not None:
            self._door.close()
            self._door = None


class StepsOnShards:
    """Runs steps on some of a worker's shards."""

    def __init__(self, host: WorkerShards) -> None:
        self._host = host
        self._commands: Sequence[bytes] = ()

    def held(self) -> tuple[tuple[int, int, str], ...]:
        return self._host.held()

    def run(
        self, order: Order, parts: Sequence[Buffer], shards: Sequence[int], exchange: ShardExchange
    ) -> tuple[str, Sequence[Buffer]]:
        job, *commands = parts
        if not order.same:
            self._commands = [bytes(each) for each in commands]
        work: Job = pickle.loads(job)  # our own driver's: the line has proved to be its
        answer = self._host.run(work, self._commands, shards, exchange)
        if answer.failure is None:
            return DONE, answer.message()
        return AGAIN if answer.failure["kind"] == "PeerFailed" else FAILED, answer.message()
