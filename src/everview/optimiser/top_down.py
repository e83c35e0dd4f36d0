"""The best plan top-down, as in Volcano, and incrementally after cost changes (liu-2016, §5.2, §5.3).

An OR node is searched for its best plan *below a bound*: what its parent may still spend. An alternative that already
costs more is abandoned (branch and bound); then it is only known that the node costs more than the bound. This is
remembered, too, and searched again only with a larger one.

After a change the nodes above it are searched again; others are answered from memory. The remembered cost of an
alternative (or its lower bound) is valid as long as nothing below it got cheaper, and with `conditional` it is used: an
alternative whose remembered cost is no better than the current best is skipped. `memo="best"` remembers alternatives
only while they are the best.

Ties: bounds cut what is *more expensive*, never what is equal, so the plan is the one with the best rank, as with the
others.
"""

from __future__ import annotations

from collections.abc import Mapping

from everview.optimiser.bottom_up import Memo, Work
from everview.optimiser.space import And, Or, Space

_UNBOUNDED = 1 << 62


class TopDown:
    """The best plan of a space, maintained.

    >>> from everview.optimiser.problem import Problem, Relation
    >>> chain = Problem(tuple(Relation(n, v, 9999, 9999, {1: 50, 2: 50}) for n, v in (("a", 1), ("b", 3), ("c", 2))))
    >>> twin = TopDown(Space.of(chain))
    >>> twin.chosen[twin.space.root].left
    1
    """

    def __init__(self, space: Space, *, memo: Memo = "all", conditional: bool = True) -> None:
        self.space = space
        self.local = space.local_costs()
        self.best: dict[Or, int] = {}
        self.chosen: dict[Or, And] = {}
        self._above: dict[Or, int] = {}
        """Nodes that are only known to cost more than this."""
        self._at_least: dict[And, int] = {}
        self._all = memo == "all"
        self._conditional = conditional
        self.work = Work()
        self._ask(space.root, _UNBOUNDED)

    def update(self, local: Mapping[And, int]) -> Work:
        """Change the costs of some alternatives; return the best plan, and what was computed for it."""
        self.work = Work()
        cheaper = {way for way, cost in local.items() if cost < self.local[way]}
        changed = {way for way, cost in local.items() if cost != self.local[way]}
        self.local |= local
        for way in self._reached(cheaper):
            self._at_least.pop(way, None)
        for goal in {way.goal for way in self._reached(changed)}:
            self.best.pop(goal, None)
            self._above.pop(goal, None)
        self._ask(self.space.root, _UNBOUNDED)
        return self.work

    def _reached(self, ways: set[And]) -> set[And]:
        """Alternatives, and everything that uses their results."""
        found, todo = set(ways), list(ways)
        while todo:
            for above in self.space.readers[todo.pop().goal]:
                if above not in found:
                    found.add(above)
                    todo.append(above)
        return found

    def _ask(self, goal: Or, bound: int) -> int | None:
        """The least cost of an OR node, if it is not above the bound."""
        if goal in self.best:
            return self.best[goal] if self.best[goal] <= bound else None
        if self._above.get(goal, -1) >= bound:
            return None
        self.work.goals += 1
        found: tuple[int, tuple[int, int]] | None = None
        for way in self._in_order(goal):
            limit = bound if found is None else min(bound, found[0])
            if self._conditional and self._at_least.get(way, -1) > limit:
                continue
            cost = self._cost(way, limit)
            if cost is not None and (found is None or (cost, way.rank) < found):
                found, self.chosen[goal] = (cost, way.rank), way
        if found is None:
            self._above[goal] = bound
            return None
        self.best[goal] = found[0]
        if not self._all:
            self._forget(goal)
        return found[0]

    def _in_order(self, goal: Or) -> list[And]:
        """The alternatives of an OR node, the previous best first: it gives the tightest bound."""
        ways, held = self.space.ways[goal], self.chosen.get(goal)
        return ways if held is None else [held, *(way for way in ways if way != held)]

    def _cost(self, way: And, limit: int) -> int | None:
        """The cost of an alternative, if it is not above the limit."""
        self.work.ways += 1
        cost = self.local[way]
        for goal in self.space.needs[way]:
            below = self._ask(goal, limit - cost) if cost <= limit else None
            if below is None:
                self._at_least[way] = max(self._at_least.get(way, 0), limit + 1)
                return None
            cost += below
        self._at_least[way] = cost
        return cost if cost <= limit else None

    def _forget(self, goal: Or) -> None:
        for way in self.space.ways[goal]:
            if way != self.chosen[goal]:
                self._at_least.pop(way, None)
