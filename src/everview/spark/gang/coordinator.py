"""The driver's end of a gang: membership, meetings, and the fate of a step.

A *generation* is a set of members that are all connected to each other, with an assignment of shards. It begins with a
meeting, in which every member reports its address, receives those of the others and calls them. It ends when a member
joins or leaves, or with the first step that fails: whatever is still in flight on its connections is then discarded.
Meetings take milliseconds and are rare, so nothing inside a generation needs repair.

    gathering   a member is missing: wait for Spark to restart it, but not forever (`waited`)
    meeting     `Meet` was sent, not every member is `Here` yet
    calling     the `Roster` was sent, not every member `Stands` yet
    running     `Order`s were sent, not all `Report`s are in
    resting     a generation stands and there is nothing to do

A step that fails for lack of members is retried up to `TRIES` times, each time as a new attempt. Nothing was committed,
so members discard or undo what they did. A deterministic error ends the step.

Events go in (`joined`, `lost`, `heard`, `waited`, `begin`), messages come out (`take`); the caller manages time and
connections.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum, auto

from everview.spark.gang.messages import (
    AGAIN,
    DONE,
    FAILED,
    FromMember,
    GiveUp,
    Here,
    Meet,
    Order,
    Report,
    Roster,
    Stands,
    ToMember,
)
from everview.spark.gang.ownership import assign
from everview.spark.transport.message import Buffer

TRIES = 4
"""Attempts at a step that loses members; Spark's number of task attempts."""

Usable = Callable[[int, str], bool]
"""Whether a shard (version, attempt) can be caught up with the committed version."""


class Phase(Enum):
    """What the coordinator waits for."""

    GATHERING = auto()
    MEETING = auto()
    CALLING = auto()
    RUNNING = auto()
    RESTING = auto()


@dataclass(frozen=True)
class Outcome:
    """The result of a step."""

    how: str
    """DONE; FAILED, with an error in one of the answers; AGAIN after too many attempts"""
    attempt: int
    answers: dict[int, Buffer] = field(default_factory=dict)
    """by rank"""
    why: str = ""


class Coordinator:
    """The state machine; it waits for `wanted` members. Members are numbers chosen by the caller.

    >>> gang = Coordinator(shards=2, wanted=1)
    >>> gang.begin()
    >>> gang.joined(7)
    >>> gang.take()
    [(7, Meet(generation=1))]
    >>> gang.heard(7, Here(1, ("127.0.0.1", 99)))
    >>> gang.take()
    [(7, Roster(generation=1, rank=0, at=(('127.0.0.1', 99),), owners=(0, 0)))]
    >>> gang.heard(7, Stands(1, True))
    >>> gang.take(), gang.shards_of(7)
    ([(7, Order(step=1, generation=1, attempt=0, same=False))], (0, 1))
    >>> gang.heard(7, Report(1, DONE), b"what it added")
    >>> gang.outcome
    Outcome(how='done', attempt=0, answers={0: b'what it added'}, why='')
    """

    def __init__(self, shards: int, wanted: int) -> None:
        self.wanted = wanted
        self.phase = Phase.GATHERING
        self.outcome: Outcome | None = None
        self.generations = 0
        self._shards = shards
        self._members: list[int] = []  # the eldest first
        self._roster: list[int] = []  # by rank
        self._owners: tuple[int, ...] = ()
        self._arrived: dict[int, Here] = {}
        self._awaited: set[int] = set()  # whose word is missing in this phase
        self._reports: dict[int, tuple[Report, Buffer]] = {}
        self._spoiled = False  # whether the generation ends with this phase
        self._step = 0
        self._attempt = -1  # of the step that was begun; -1: none
        self._usable: Usable = lambda version, attempt: True
        self._hurried = False  # whether missing members are not waited for
        self._outbox: list[tuple[int, ToMember]] = []

    # what the caller asks

    @property
    def members(self) -> tuple[int, ...]:
        """The members that are present."""
        return tuple(self._members)

    @property
    def missing(self) -> int:
        """The number of members to wait for."""
        return max(0, self.wanted - len(self._members))

    def shards_of(self, member: int) -> tuple[int, ...]:
        """The shards of a member in this generation."""
        rank = self._roster.index(member)
        return tuple(shard for shard, owner in enumerate(self._owners) if owner == rank)

    def take(self) -> list[tuple[int, ToMember]]:
        """The messages to send now."""
        out, self._outbox = self._outbox, []
        return out

    # what happens

    def begin(self, usable: Usable = lambda version, attempt: True) -> None:
        """Request a step."""
        assert self._attempt < 0, "one step at a time"
        self.outcome, self._attempt, self._usable, self._hurried = None, 0, usable, False
        self._go_on()

    def joined(self, member: int) -> None:
        """A member has connected; it joins with the next meeting."""
        self._members.append(member)
        if self.phase in (Phase.GATHERING, Phase.RESTING):
            self.phase = Phase.GATHERING
            self._go_on()
        else:
            self._spoiled = True

    def lost(self, member: int) -> None:
        """A member is gone."""
        if member not in self._members:
            return
        self._members.remove(member)
        if self.phase == Phase.RUNNING and member in self._roster:
            self._spoil()
            self._awaited.discard(member)
            self._decide_if_complete()
        elif member in self._roster or member in self._arrived or member in self._awaited:
            self._gather()

    def waited(self) -> None:
        """The wait for missing members is over: the others proceed without them."""
        self._hurried = True
        if self.phase == Phase.GATHERING:
            self._go_on()

    def heard(self, member: int, message: FromMember, answer: Buffer = b"") -> None:
        """Handle a message from a member; messages of other generations or steps are ignored."""
        if member not in self._awaited:
            return
        if isinstance(message, Here) and self.phase == Phase.MEETING and message.generation == self.generations:
            self._arrived[member] = message
            self._awaited.discard(member)
            if not self._awaited:
                self._introduce()
        elif isinstance(message, Stands) and self.phase == Phase.CALLING and message.generation == self.generations:
            self._awaited.discard(member)
            if not message.connected:
                self._retry(f"member {member} could not reach the others")
            elif not self._awaited:
                self._give_orders()
        elif isinstance(message, Report) and self.phase == Phase.RUNNING and message.step == self._step:
            self._reports[member] = message, answer
            self._awaited.discard(member)
            if message.how != DONE:
                self._spoil()
            self._decide_if_complete()

    # one phase after the other

    def _go_on(self) -> None:
        """Advance to the next phase if there is a step to run."""
        if self._attempt < 0:
            return
        if self.phase == Phase.RESTING:
            self._give_orders()
        elif self._members and (self._hurried or not self.missing):
            self.phase = Phase.MEETING
            self.generations += 1
            self._spoiled = False
            self._arrived = {}
            self._roster = self._members[: self._shards]
            self._awaited = set(self._roster)
            self._outbox += [(member, Meet(self.generations)) for member in self._roster]

    def _gather(self) -> None:
        """End the generation."""
        self.phase = Phase.GATHERING
        self._roster, self._owners, self._arrived, self._awaited, self._spoiled = [], (), {}, set(), False
        self._go_on()

    def _introduce(self) -> None:
        """All members are here: send each the addresses of the others."""
        held = [
            {shard: version for shard, version, attempt in self._arrived[m].held if self._usable(version, attempt)}
            for m in self._roster
        ]
        self._owners = tuple(assign(self._shards, held))
        at = tuple(self._arrived[m].at for m in self._roster)
        self.phase = Phase.CALLING
        self._awaited = set(self._roster)
        self._outbox += [(m, Roster(self.generations, r, at, self._owners)) for r, m in enumerate(self._roster)]

    def _give_orders(self) -> None:
        self.phase = Phase.RUNNING
        self._step += 1
        self._reports = {}
        self._awaited = set(self._roster)
        self._outbox += [(m, Order(self._step, self.generations, self._attempt)) for m in self._roster]

    def _spoil(self) -> None:
        """The step cannot succeed any more: tell members that are still running it to stop."""
        self._spoiled = True
        self._outbox += [(member, GiveUp(self._step)) for member in sorted(self._awaited & set(self._members))]

    def _decide_if_complete(self) -> None:
        if self._awaited:
            return
        reports = [self._reports.get(member) for member in self._roster]
        found = [each for each in reports if each is not None]
        hows = {report.how for report, _ in found}
        if len(found) == len(self._roster) and hows == {DONE}:
            answers = {rank: answer for rank, (_, answer) in enumerate(found)}
            self._end(Outcome(DONE, self._attempt, answers))
        elif FAILED in hows:
            answers = {r: each[1] for r, each in enumerate(reports) if each is not None and each[0].how == FAILED}
            self._spoiled = True
            self._end(Outcome(FAILED, self._attempt, answers))
        else:
            self._retry(next((report.why for report, _ in found if report.why), "a member was lost"))

    def _retry(self, why: str) -> None:
        if self._attempt + 1 >= TRIES:
            self._spoiled = True
            self._end(Outcome(AGAIN, self._attempt, why=why))
        else:
            self._attempt += 1
            self._hurried = False
            self._gather()

    def _end(self, outcome: Outcome) -> None:
        self.outcome, self._attempt = outcome, -1
        self.phase = Phase.RESTING
        if self._spoiled:
            self._gather()
