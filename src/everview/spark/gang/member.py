"""A task's end of a gang: meet the others when the driver says so, run steps on its shards, report.

A member does one thing at a time. While it waits for the others, in a meeting or in the middle of a step, it listens to
the driver as well, who may have heard first that somebody is lost. So no member waits for one that is not there any
more, and nobody needs a clock. A member that hangs up on the others tells them by that: a step that cannot go on here
ends for everybody.

What it talks over is given (`Lines`): sockets, or a simulator's.
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
    Order,
    Report,
    Roster,
    Said,
    Stands,
    read,
    written,
)
from everview.spark.transport.exchange import Line, ShardExchange
from everview.spark.transport.failures import PeerFailed, PeerLost
from everview.spark.transport.message import Buffer

Held = tuple[tuple[int, int, str], ...]


class Lines(Protocol):
    """What connects a member to others."""

    def first(self, lines: Sequence[Line]) -> Line:
        """Wait for the first of some lines that has something to say, or is hung up."""

    def listen(self, generation: int) -> Address:
        """Be ready to be called by others of a generation; earlier ones are called off."""

    def connect(self, roster: Roster, stop: Callable[[], bool]) -> dict[int, Line]:
        """Lines to all others by rank. Raises `PeerLost` if one cannot be reached, or if it is to stop."""

    def speaks(self, line: Line) -> bool:
        """Whether a line has something to say now."""


class Work(Protocol):
    """What a worker does for a member."""

    def held(self) -> Held:
        """The shards that this process holds."""

    def run(
        self, order: Order, parts: Sequence[Buffer], shards: Sequence[int], exchange: ShardExchange
    ) -> tuple[str, Sequence[Buffer]]:
        """Run a step on some shards: how it went, and the answer. Raises `PeerLost` if the others are."""


class GivenUp(PeerLost):
    """The driver has given the step up."""


class Member:
    """One member, from the driver's first word to its last."""

    def __init__(self, driver: Line, lines: Lines, work: Work) -> None:
        self._driver = driver
        self._lines = lines
        self._work = work
        self._exchange: ShardExchange | None = None
        self._generation = 0
        self._step = 0

    def serve(self) -> None:
        """Do what the driver says until it hangs up."""
        try:
            said, parts = self._listen()
            while True:
                if isinstance(said, Meet):
                    said, parts = self._meet(said)
                    continue
                if isinstance(said, Order):
                    self._say(*self._run(said, parts))
                said, parts = self._listen()  # other words are about steps and meetings that are over
        except _HungUp:
            return
        finally:
            self._hang_up()

    def _listen(self) -> tuple[Said, list[memoryview]]:
        try:
            return read(self._driver.receive())
        except (OSError, InternalError):
            raise _HungUp from None

    def _say(self, said: Said, *parts: Buffer) -> None:
        try:
            self._driver.send(written(said, parts))
        except OSError:
            raise _HungUp from None

    def _hang_up(self) -> None:
        if self._exchange is not None:
            self._exchange.close()
            self._exchange = None

    # meetings

    def _meet(self, meet: Meet) -> tuple[Said, list[memoryview]]:
        """Meet the others; gives what the driver said next."""
        self._hang_up()
        self._generation = meet.generation
        at = self._lines.listen(meet.generation)
        self._say(Here(meet.generation, at, self._work.held()))
        said, parts = self._listen()
        if not isinstance(said, Roster) or said.generation != meet.generation:
            return said, parts  # it was called off
        try:
            peers = self._lines.connect(said, lambda: self._lines.speaks(self._driver))
        except PeerLost:
            connected = False
        else:
            connected = True
            self._exchange = ShardExchange(said.rank, peers, said.owners, self._first)
        self._say(Stands(meet.generation, connected))
        return self._listen()

    # steps

    def _run(self, order: Order, parts: Sequence[Buffer]) -> tuple[Said, Buffer]:
        """Run a step; gives the report. Whatever does not go well ends the generation."""
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
        """The first of the others' lines that has something to say, unless the driver gives the step up."""
        while True:
            line = self._lines.first([*lines, self._driver])
            if line is not self._driver:
                return line
            try:
                said, _ = self._listen()
            except _HungUp:
                raise GivenUp("E_PEER", "the driver has hung up") from None
            if isinstance(said, GiveUp) and said.step == self._step:
                raise GivenUp("E_PEER", "the driver has given the step up")


class _HungUp(Exception):
    """The driver needs this member no more."""
