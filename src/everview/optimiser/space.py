"""The search space: an and-or graph of all plans for a join.

An OR node is a goal: a set of relations joined, either as rows (`key` 0) or arranged by some variables (`key`, their
mask). An AND node is one way to achieve it: an operator with its own cost, and the OR nodes it needs. A plan picks one
AND node for every OR node it reaches; its cost is the sum of theirs.

The graph follows from the shape of the join alone. Statistics change the costs of its nodes, never the nodes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from everview.optimiser.model import Model
from everview.optimiser.problem import Problem, connected

OPERATORS = ("scan", "index", "arrange", "join", "delta", "wco")
"""The operators of AND nodes; among equally cheap ones the earlier wins, then the one with the smaller left side."""


class Or(NamedTuple):
    """A set of relations, joined; arranged by the variables of `key`, if any."""

    relations: int
    key: int


class And(NamedTuple):
    """An alternative for an OR node; `left` distinguishes joins of one set."""

    goal: Or
    operator: str
    left: int = 0

    @property
    def rank(self) -> tuple[int, int]:
        """The tie-breaker between equally cheap ones."""
        return OPERATORS.index(self.operator), self.left

    def needs(self, problem: Problem) -> tuple[Or, ...]:
        """The OR nodes below."""
        mask = self.goal.relations
        if self.operator == "arrange":
            return (Or(mask, 0),)
        if self.operator == "join":
            right = mask ^ self.left
            key = problem.variables(self.left) & problem.variables(right)
            return Or(self.left, key), Or(right, key)
        return ()


@dataclass(frozen=True)
class Space:
    """The and-or graph of a problem: the alternatives of every OR node, small sets of relations first, and what each
    needs.

    >>> from everview.optimiser.problem import Relation
    >>> clique = Problem(tuple(Relation(name, 1, 9, 9, {1: 9}) for name in "abcde"))
    >>> space = Space.of(clique)
    >>> sum(1 for goal in space.ways if goal.key == 0), sum(way.operator == "join" for way in space.needs)
    (31, 90)
    """

    problem: Problem
    ways: dict[Or, list[And]]
    needs: dict[And, tuple[Or, ...]]
    readers: dict[Or, list[And]]

    @staticmethod
    def of(problem: Problem) -> Space:
        """The graph of a problem."""
        ways: dict[Or, list[And]] = {}
        for way in sorted(_ways(problem), key=lambda way: (way.goal.relations.bit_count(), way.goal, way.rank)):
            ways.setdefault(way.goal, []).append(way)
        needs = {way: way.needs(problem) for several in ways.values() for way in several}
        readers: dict[Or, list[And]] = {goal: [] for goal in ways}
        for way, goals in needs.items():
            for goal in goals:
                readers[goal].append(way)
        return Space(problem, ways, needs, readers)

    @property
    def root(self) -> Or:
        """The goal."""
        return Or(self.problem.whole, 0)

    def local_costs(self) -> dict[And, int]:
        """The own cost of every AND node, by the problem's statistics."""
        model = Model(self.problem)
        return {way: _local(model, way) for way in self.needs}


def _ways(problem: Problem) -> Iterator[And]:
    sets = connected(problem)
    goals = set()
    for left in sets:
        for right in sets:
            key = problem.variables(left) & problem.variables(right)
            if left < right and not left & right and key:
                yield And(Or(left | right, 0), "join", left)
                goals |= {Or(left, key), Or(right, key)}
    for i, relation in enumerate(problem.relations):
        yield And(Or(1 << i, 0), "scan")
        yield from (And(Or(1 << i, key), "index") for key, new in relation.indexes if not new)
    yield from (And(goal, "arrange") for goal in goals if not problem.is_indexed(*goal))
    yield from (And(Or(problem.whole, 0), strategy) for strategy in problem.pipelines)


def _local(model: Model, way: And) -> int:
    mask = way.goal.relations
    if way.operator == "join":
        return model.joining(way.left, mask ^ way.left)
    if way.operator == "arrange":
        return model.arranging(mask)
    return model.at_once(way.operator) if way.operator in ("delta", "wco") else 0
