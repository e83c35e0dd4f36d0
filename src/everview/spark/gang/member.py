"""A task's end of a gang: meet the others, run steps on its shards, report.

A member does one thing at a time. While it waits for the others, in a meeting or in the middle of a step, it also
listens to the driver, which may learn first that a member is lost. So no member waits for one that is gone, and none
needs a timeout. Closing its connections signals a failure to the others: a step that cannot continue on one member ends
on all.

The connections are supplied by the caller (`Lines`): sockets, or those of a simulator.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from everview.errors import InternalError
from everview.spark.gang.messages import (
    AGAIN,
    DONE,
    Address,
    GiveUp,
    Here,
    Meet,
    Message,
    Order,
    Report,
    Roster,
    Stands,
    read,
    written,
)
from everview.spark.transport.exchange import Line, ShardExchange
from everview.spark.transport.failures import PeerFailed, PeerLost
from everview.spark.transport.message import Buffer

Held = tuple[tuple[int, int, str], ...]


class Lines(Protocol):
    """The connections of a member."""

    def first(self, lines: Sequence[Line]) -> Line:
        """Wait for the first connection that has a message or is closed."""

    def listen(self, generation: int) -> Address:
        """Accept calls from members of a generation; earlier generations are rejected."""

    def connect(self, roster: Roster, stop: Callable[[], bool]) -> dict[int, Line]:
        """Connect to all others, by rank. Raises `PeerLost` if one cannot be reached, or on a request to stop."""

    def speaks(self, line: Line) -> bool:
        """Whether a connection has a message now."""


class Work(Protocol):
    """What a worker does for a member."""

    def held(self) -> Held:
        """The shards that this process holds."""

    def run(
        self, order: Order, parts: Sequence[Buffer], shards: Sequence[int], exchange: ShardExchange
    ) -> tuple[str, Sequence[Buffer]]:
        """Run a step on some shards. Returns its status and answer; raises `PeerLost` if other members are lost."""


class GivenUp(PeerLost):
    """The driver has abandoned the step."""


class Member:
    """One member, from the driver's first message to the last."""

    def __init__(self, driver: Line, lines: Lines, work: Work) -> None:
        self._driver = driver
        self._lines = lines
        self._work = work
        self._exchange: ShardExchange | None = None
        self._generation = 0
        self._step = 0

    def serve(self) -> None:
        """Follow the driver until it closes the connection."""
        try:
            message, parts = self._listen()
            while True:
                if isinstance(message, Meet):
                    message, parts = self._meet(message)
                    continue
                if isinstance(message, Order):
                    self._say(*self._run_order(message, parts))
                message, parts = self._listen()  # other words are about steps and meetings that are over
        except _HungUp:
            return
        finally:
            self._hang_up()

    def _listen(self) -> tuple[Message, list[memoryview]]:
        try:
            return read(self._driver.receive())
        except (OSError, InternalError):
            raise _HungUp from None

    def _say(self, message: Message, *parts: Buffer) -> None:
        try:
            self._driver.send(written(message, parts))
        except OSError:
            raise _HungUp from None

    def _hang_up(self) -> None:
        if self._exchange is not None:
            self._exchange.close()
            self._exchange = None

    # meetings

    def _meet(self, meet: Meet) -> tuple[Message, list[memoryview]]:
        """Meet the others; returns the driver's next message."""
        self._hang_up()
        self._generation = meet.generation
        at = self._lines.listen(meet.generation)
        self._say(Here(meet.generation, at, self._work.held()))
        message, parts = self._listen()
        if not isinstance(message, Roster) or message.generation != meet.generation:
            return message, parts  # it was called off
        try:
            peers = self._lines.connect(message, lambda: self._lines.speaks(self._driver))
        except PeerLost:
            connected = False
        else:
            connected = True
            self._exchange = ShardExchange(message.rank, peers, message.owners, self._first)
        self._say(Stands(meet.generation, connected))
        return self._listen()

    # steps

    def _run_order(self, order: Order, parts: Sequence[Buffer]) -> tuple[Message, Buffer]:
        """Run a step and return the report. Any failure ends the generation."""
        self._step = order.step
        exchange = self._exchange
        if exchange is None or order.generation != self._generation:
            return Report(order.step, AGAIN, "not connected to the others"), b""
        exchange.step = order.step
        own = [shard for shard, rank in enumerate(exchange.owners) if rank == exchange.task]
        how = AGAIN
        try:
            how, answer = self._work.run(order, parts, own, exchange)
            return Report(order.step, how), b"".join(answer)
        except (PeerLost, PeerFailed) as error:
            return Report(order.step, AGAIN, str(error)), b""
        finally:
            if how != DONE:
                self._hang_up()

    def _first(self, lines: Sequence[Line]) -> Line:
        """The first peer connection with a message, unless the driver abandons the step."""
        while True:
            line = self._lines.first([*lines, self._driver])
            if line is not self._driver:
                return line
            try:
                message, _ = self._listen()
            except _HungUp:
                raise GivenUp("E_PEER", "the driver has hung up") from None
            if isinstance(message, GiveUp) and message.step == self._step:
                raise GivenUp("E_PEER", "the driver has given the step up")


class _HungUp(Exception):
    """The driver has closed its connection."""
