"""How rows entered loops: in which round, and what the previous round held.

A loop applies its bodies round after round: the variables of round n are the bodies' output for those of round n - 1. A
row of the result is explained by the round in which it appeared *and stayed*: it was derived from rows of the previous
round, which appeared in earlier rounds still. Nothing therefore explains itself, whatever the loop does.

    Forward     runs the loop again, keeping every round: always possible, at the cost of the loop
    Rounds      reads the loop's own differences, which carry the round: outside of other loops, as of now
    Forest      reads the trees of a monotone loop (`everview.plan.monotone`), which keep no rounds: a vertex came
                because of its parent; as of now

The last two are shortcuts. They suggest what to examine, and what is found there must be verified to produce the row;
if it does not, the question is asked again with the next of them (`NoWay`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from everview.errors import LoopError
from everview.plan import nodes as plan
from everview.plan.check import free_depths
from everview.why.column_blocks import Bag, Bound, Row
from everview.why.contents import Contents, Given, Inside, Variables

if TYPE_CHECKING:
    from everview.why.loop_state import LoopState

MOST_ROUNDS = 1_000_000

MOST_NARROWED = 1_000
"""The same for a loop that may only terminate because operators drop unread columns."""


@dataclass(frozen=True)
class Came:
    """How a row entered a loop: the round, if known, and the previous contents of the variables; None: it was an
    initial row.
    """

    round: int | None
    before: Variables | None


class History(Protocol):
    """How the rows of one loop were derived."""

    def result(self, index: int, bound: Bound) -> Bag:
        """The loop's result."""

    def came(self, index: int, row: Row, upto: int | None, sign: int) -> Came | None:
        """How a row present in round `upto` (None: the last) was derived; None if unknown."""


class NoWay(Exception):
    """A history does not explain a row."""

    def __init__(self, loop: plan.Loop) -> None:
        super().__init__("a row of a loop is not explained")
        self.loop = loop


class Forward:
    """The loop, run again; with other bodies if only its best rows are read (`everview.plan.selection`)."""

    def __init__(self, contents: Contents, loop: plan.Loop, inside: Inside, narrowed: plan.Loop | None) -> None:
        now: list[Bag] = [{} if i is None else contents.rows(i, inside, {}) for i in loop.initials]
        self.rounds = [Given(now)]
        self._began: dict[tuple[int, Row, int, int], int] = {}
        limit = MOST_ROUNDS if loop.max_rounds is None else loop.max_rounds
        bodies = loop.bodies
        if narrowed is not None:
            limit, bodies = MOST_NARROWED, narrowed.bodies
        for _ in range(limit):
            there = {**inside, loop.depth: self.rounds[-1]}
            new = [contents.rows(body, there, {}) for body in bodies]
            if new == now:
                return
            self.rounds.append(Given(new))
            now = new
        if loop.at_limit == "error":
            raise LoopError("E_LOOP_LIMIT", f"a loop did not converge in {limit} rounds", "look at an earlier time")

    def result(self, index: int, bound: Bound) -> Bag:
        return self.rounds[-1].rows(index, bound)

    def came(self, index: int, row: Row, upto: int | None, sign: int) -> Came | None:
        last = len(self.rounds) - 1 if upto is None else upto
        n = last
        while n > 0 and self.rounds[n - 1].bags[index].get(row, 0) * sign > 0:
            n -= 1
        return Came(n, None if n == 0 else self.rounds[n - 1])


class Histories:
    """The histories of all loops in one question."""

    def __init__(self, contents: Contents, kept: LoopState | None, narrowed: Mapping[plan.Loop, plan.Loop]) -> None:
        self.contents = contents
        self.kept = kept
        self.narrowed = narrowed
        """loops of which only the best rows are kept, and how they are run"""
        self._forward: dict[tuple[int, tuple[int, ...]], tuple[plan.Loop, Forward]] = {}
        self._short: dict[int, tuple[plan.Loop, list[History]]] = {}
        contents.histories = self

    def of(self, loop: plan.Loop, inside: Inside) -> History:
        """The history of a loop: the fastest that has not failed."""
        short = self._shortcuts(loop)
        return short[0] if short else self.forward(loop, inside)

    def forward(self, loop: plan.Loop, inside: Inside) -> Forward:
        """The loop, run again, once for each round of the enclosing loops."""
        key = (id(loop), self.contents.place(loop, inside))
        if key not in self._forward:
            self._forward[key] = (loop, Forward(self.contents, loop, inside, self.narrowed.get(loop)))
        return self._forward[key][1]

    def result(self, node: plan.LoopResult, inside: Inside, bound: Bound) -> Bag:
        """The rows of a loop's result."""
        return self.of(node.loop, inside).result(node.index, bound)

    def narrows(self, node: plan.Node) -> bool:
        """Whether a plan reads a loop of which only the best rows are known."""
        return bool(self.narrowed) and any(isinstance(n, plan.Loop) and n in self.narrowed for n in node.walk())

    def failed(self, loop: plan.Loop) -> bool:
        """Record that a history does not explain a loop's rows; return whether there is another one to try."""
        short = self._shortcuts(loop)
        if not short:
            return False
        short.pop(0)
        self.contents.forget()  # what was read through the shortcut may belong to another loop
        return True

    def _shortcuts(self, loop: plan.Loop) -> list[History]:
        if id(loop) not in self._short:
            found: Sequence[History] = ()
            if self.kept is not None and not free_depths(loop):
                found = self.kept.histories(loop)
            self._short[id(loop)] = (loop, list(found))
        return self._short[id(loop)][1]
