"""The best plan bottom-up, as in System R, and incrementally after cost changes (liu-2016, §5.2).

Sets of relations are processed by size; the best alternative of each follows from those of smaller sets. After a change
the same order is used, but only over OR nodes that the change affects: the cost of an alternative rises by the increase
of its own cost and of its children's.

`memo` determines what is remembered between runs: the cost of every alternative ("all"), or only of the best ("best"),
where others are recomputed when needed. *Conditional testing*: if the best alternative did not get more expensive, only
alternatives that got cheaper can beat it, and the others are skipped.

This is a reference for `rules`, written with dictionaries; it counts the nodes it computes, as the thesis does.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from everview.optimiser.space import And, Or, Space

Memo = Literal["all", "best"]


@dataclass
class Work:
    """Nodes computed: OR nodes whose best was searched, AND nodes whose cost was computed."""

    goals: int = 0
    ways: int = 0


class BottomUp:
    """The best plan of a space, maintained.

    >>> from everview.optimiser.problem import Problem, Relation
    >>> chain = Problem(tuple(Relation(n, v, 9999, 9999, {1: 50, 2: 50}) for n, v in (("a", 1), ("b", 3), ("c", 2))))
    >>> twin = BottomUp(Space.of(chain))
    >>> dear = {way: cost + 10**9 for way, cost in twin.local.items() if way.left == 1 and way.goal == twin.space.root}
    >>> twin.chosen[twin.space.root].left, twin.update(dear).goals, twin.chosen[twin.space.root].left
    (1, 1, 3)
    """

    def __init__(self, space: Space, *, memo: Memo = "all", conditional: bool = True) -> None:
        self.space = space
        self.local = space.local_costs()
        self.best: dict[Or, int] = {}
        self.chosen: dict[Or, And] = {}
        self._costs: dict[And, int] | None = {} if memo == "all" else None
        self._conditional = conditional
        self._level = {goal: i for i, goal in enumerate(_by_level(space))}
        self.work = Work()
        for goal in self._level:
            self._find(goal)

    def update(self, local: Mapping[And, int]) -> Work:
        """Change the costs of some alternatives; return the best plan, and what was computed for it."""
        self.work = Work()
        dearer = {way: cost - self.local[way] for way, cost in local.items() if cost != self.local[way]}
        self.local |= local
        todo: dict[Or, dict[And, int]] = {}
        for way, by in dearer.items():
            todo.setdefault(way.goal, {})[way] = by
        while todo:
            goal = min(todo, key=self._level.__getitem__)
            before = self.best[goal]
            self._find_again(goal, todo.pop(goal))
            by = self.best[goal] - before
            for way in self.space.readers[goal] if by else ():
                of = todo.setdefault(way.goal, {})
                of[way] = of.get(way, 0) + by
        return self.work

    def _find_again(self, goal: Or, changed: Mapping[And, int]) -> None:
        """The best alternative of an OR node after cost changes of some of its alternatives."""
        if self._costs is not None:
            for way, by in changed.items():
                self._costs[way] += by
            self.work.ways += len(changed)
        held = self.chosen[goal]
        if not self._conditional or changed.get(held, 0) > 0:
            self._find(goal, again=True)
            return
        self.work.goals += 1
        cheaper = [way for way, by in changed.items() if by < 0]
        several = {way: self._cost(way) for way in {held, *cheaper}}
        self._choose(goal, several)

    def _find(self, goal: Or, *, again: bool = False) -> None:
        """The best of all alternatives of an OR node."""
        self.work.goals += 1
        several = {way: self._cost(way, known=again) for way in self.space.ways[goal]}
        self._choose(goal, several)

    def _cost(self, way: And, *, known: bool = True) -> int:
        if self._costs is not None and known:
            return self._costs[way]
        self.work.ways += 1
        cost = self.local[way] + sum(self.best[goal] for goal in self.space.needs[way])
        if self._costs is not None:
            self._costs[way] = cost
        return cost

    def _choose(self, goal: Or, several: Mapping[And, int]) -> None:
        chosen = min(several, key=lambda way: (several[way], way.rank))
        self.best[goal], self.chosen[goal] = several[chosen], chosen


def _by_level(space: Space) -> list[Or]:
    """OR nodes, each after those that its alternatives need: by the number of relations, rows before arrangements."""
    return sorted(space.ways, key=lambda goal: (goal.relations.bit_count(), goal.key > 0))
