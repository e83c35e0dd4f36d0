"""The best plan top-down, as Volcano finds it, and again after costs have changed (liu-2016, §5.2, §5.3).

An OR node is asked for its best plan *below a bound*: what its parent may still spend. A way that costs more already
is given up (branch and bound); then only that the node costs more than the bound is known, which is remembered, too,
and asked again only with a larger one.

After a change the nodes above it are asked again; others answer from memory. What was remembered of a way (its cost,
or that it costs at least so much) holds as long as nothing below it got cheaper, and with `conditional` it is
believed: a way whose remembered cost is no better than the present best is not looked at. `memo="best"` remembers
ways only while they are the best.

Ties: bounds cut what is *dearer*, never what is equal, so the plan is the one that rank tells, as with the others.
"""

from __future__ import annotations

from collections.abc import Mapping

from everview.optimiser.bottom_up import Memo, Work
from everview.optimiser.space import And, Or, Space

_UNBOUNDED = 1 << 62


class TopDown:
    """The best plan of a space, kept.

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
        """Nodes that are known to cost more than this, and no more of."""
        self._at_least: dict[And, int] = {}
        self._all = memo == "all"
        self._conditional = conditional
        self.work = Work()
        self._ask(space.root, _UNBOUNDED)

    def update(self, local: Mapping[And, int]) -> Work:
        """Other costs for some ways: the best plan afterwards, and what was computed for it."""
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
        """Ways, and all that use what they make."""
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
        """The ways of an OR node, the one that was best before first: it gives the tightest bound."""
        ways, held = self.space.ways[goal], self.chosen.get(goal)
        return ways if held is None else [held, *(way for way in ways if way != held)]

    def _cost(self, way: And, limit: int) -> int | None:
        """What a way costs, if that is not above the limit."""
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
