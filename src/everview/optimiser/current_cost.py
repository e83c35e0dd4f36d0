"""The cost of a join's current plan, by the same model as its alternatives.

The state of the current plan exists and costs nothing more; it only pays for changes. A replacement must therefore save
enough to pay for what it has to build.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

from everview.optimiser.model import Model
from everview.optimiser.problem import Problem, logarithm
from everview.plan import nodes as plan

Rows = Callable[[plan.Node], float | None]
"""The number of rows of a materialised node; None if it is not materialised."""


class PresentPlan:
    """A plan of a join: its tree of sets of relations, or how it is joined at once.

    >>> from everview.types import INT
    >>> a, b, c = (plan.Table(i, (INT,)) for i in range(3))
    >>> tree = plan.Project(plan.Join(plan.Join(a, c, (0,), (0,)), b, (0,), (0,)), ())
    >>> present = PresentPlan(tree, [a, b, c])
    >>> present.strategy, [(left, right) for left, right, _, _ in present.joins]
    (None, [(5, 2), (1, 4)])
    """

    def __init__(self, target: plan.Node, leaves: Sequence[plan.Node]) -> None:
        self.strategy: str | None = None
        self.joins: list[tuple[int, int, plan.Node, plan.Node]] = []
        """the masks of both sides, and the nodes, outermost first"""
        self._left = list(enumerate(leaves))
        self._mask(target)

    def _mask(self, node: plan.Node) -> int:
        place = next((i for i, leaf in self._left if leaf == node), None)
        if place is not None:  # the same relation may stand in a join several times
            self._left = [found for found in self._left if found[0] != place]
            return 1 << place
        if isinstance(node, plan.MultiJoin):
            self.strategy = node.strategy
            return sum(1 << i for i, _ in self._left)
        if isinstance(node, plan.Join):
            at = len(self.joins)
            left, right = self._mask(node.left), self._mask(node.right)
            self.joins.insert(at, (left, right, node.left, node.right))
            return left | right
        children = node.children()
        return self._mask(children[0]) if len(children) == 1 else 0

    def cost(self, model: Model) -> int:
        """The cost of continuing with it."""
        if self.strategy is not None:
            return model.at_once(self.strategy)
        total = 0
        for left, right, _, _ in self.joins:
            total += model.joining(left, right)
            total += sum(model.flow(side) for side in (left, right) if side.bit_count() > 1)
        return total

    def seen(self, problem: Problem, rows: Rows) -> dict[int, int]:
        """The logarithms of observed over estimated rows between its joins."""
        plain = Model(replace(problem, pipelines={}, factors={}))
        kept = {mask: rows(node) for mask, node in self._between()}
        return {mask: logarithm(n) - plain.held(mask) for mask, n in kept.items() if n is not None}

    @staticmethod
    def factors(problem: Problem, seen: Mapping[int, int]) -> dict[int, int]:
        """The observed ratios of sets of relations as factors, relative to those of the sets inside them."""
        plain, found = Model(replace(problem, pipelines={}, factors={})), dict[int, int]()
        for mask in sorted(seen, key=lambda m: (m.bit_count(), m)):
            expected = Model(replace(problem, pipelines={}, factors=found)).held(mask)
            found[mask] = plain.held(mask) + seen[mask] - expected
        return {mask: factor for mask, factor in found.items() if factor}

    def _between(self) -> Iterator[tuple[int, plan.Node]]:
        for left, right, left_node, right_node in self.joins:
            yield from ((m, n) for m, n in ((left, left_node), (right, right_node)) if m.bit_count() > 1)
