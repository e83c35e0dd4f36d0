"""Builds a join by the optimiser's plan: the same rows, joined in another order, or all at once.

Every set of relations becomes a node with one column for each variable that is still read: by a relation that is not
joined yet, a condition that is not tested yet, or a reader of the result. Rows that become equal are merged. A relation
that is looked up in an index that exists stays whole: an index of the columns that are read would be another one.

Conditions that are not equalities between columns are tested as soon as their columns are available, if they cannot
fail; others are tested at the end, on the rows of the full join.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from everview.expr.functions import conjunction
from everview.expr.nodes import ColumnRef, Expr
from everview.optimiser.observed_problem import STRATEGIES
from everview.optimiser.problem import Problem
from everview.optimiser.rules import Best
from everview.optimiser.space import Or
from everview.plan import nodes as plan
from everview.plan.multiway import NaturalJoin, each_once
from everview.sql.select.demand import fails as may_fail


class _Made(NamedTuple):
    node: plan.Node
    variables: list[int]


def rebuilt(join: NaturalJoin, types: plan.Types, best: Best, problem: Problem) -> plan.Node:
    """The join by the chosen plan of a problem; its columns are those of the tree."""
    root = Or((1 << len(join.tree.leaves)) - 1, 0)
    strategy = next((s for s in STRATEGIES if s == best.chosen[root].operator), None)
    if strategy is not None:
        return join.multi_join(join.tree.leaves, types, strategy)
    return _Rebuilding(join, best, problem).whole(root.relations, types)


class _Rebuilding:
    def __init__(self, join: NaturalJoin, best: Best, problem: Problem) -> None:
        self.join = join
        self.best = best
        self.problem = problem
        self.waiting = list(join.tree.conditions)

    def whole(self, mask: int, types: plan.Types) -> plan.Node:
        made = self._tested(self._made(mask), last=True)
        place = {v: i for i, v in enumerate(made.variables)}
        columns = [place[self.join.variable(c)] for c in self.join.tree.columns]
        return plan.Project(made.node, tuple(ColumnRef(t, i) for t, i in zip(types, columns, strict=True)))

    def _made(self, mask: int) -> _Made:
        if mask.bit_count() == 1:
            return self._tested(self._leaf(mask.bit_length() - 1))
        left = self.best.chosen[Or(mask, 0)].left
        a, b = self._made(left), self._made(mask ^ left)
        shared = [v for v in a.variables if v in b.variables]
        a, b = self._as_indexed(left, a, shared), self._as_indexed(mask ^ left, b, shared)
        keys = tuple(tuple(of.variables.index(v) for v in shared) for of in (a, b))
        joined = plan.Join(a.node, b.node, keys[0], keys[1])
        return self._read(self._tested(_narrowed(joined, [*a.variables, *b.variables])), mask)

    def _read(self, made: _Made, mask: int) -> _Made:
        """Without columns that are no longer read."""
        outside = {v for i, of in enumerate(self.join.of_leaf) if not mask >> i & 1 for v in of}
        tested = {self.join.variable(c) for condition in self.waiting for c in condition.columns()}
        read = {*outside, *tested, *(self.join.variable(c) for c in self.join.tree.columns)}
        return _narrowed(made.node, [v if v in read else -1 for v in made.variables])

    def _leaf(self, i: int) -> _Made:
        leaf = self.join.tree.leaves[i]
        once, same = each_once(self.join.of_leaf[i], leaf)
        return _narrowed(plan.Filter(leaf, conjunction(same)) if same else leaf, once)

    def _as_indexed(self, mask: int, made: _Made, shared: Sequence[int]) -> _Made:
        """One side of a join: the relation itself, if the model reads it from an index that is there."""
        if mask.bit_count() > 1:
            return made
        i = mask.bit_length() - 1
        leaf, keys = self.join.tree.leaves[i], sum(1 << v for v in shared)
        if not isinstance(made.node, plan.Project) or made.node.child is not leaf:  # its conditions select rows
            return made
        if not any(front == keys for front, _ in self.problem.relations[i].indexes):
            return made
        return _Made(leaf, [*each_once(self.join.of_leaf[i], leaf)[0]])

    def _tested(self, made: _Made, *, last: bool = False) -> _Made:
        """With the conditions that can be tested here for the first time."""
        place = {v: i for i, v in enumerate(made.variables)}
        willing = [c for c in self.waiting if last or not may_fail(c)]
        ready = [c for c in willing if {self.join.variable(column) for column in c.columns()} <= place.keys()]
        if not ready:
            return made
        self.waiting = [c for c in self.waiting if c not in ready]
        moved = [self._moved(condition, place, made.node.types) for condition in ready]
        return _Made(plan.Filter(made.node, conjunction(moved)), made.variables)

    def _moved(self, condition: Expr, place: dict[int, int], types: plan.Types) -> Expr:
        at = {column: place[self.join.variable(column)] for column in condition.columns()}
        return condition.remap({column: ColumnRef(types[i], i) for column, i in at.items()})


def _narrowed(node: plan.Node, variables: Sequence[int]) -> _Made:
    """One column for each variable."""
    first = {v: i for i, v in reversed(list(enumerate(variables))) if v >= 0}
    kept = sorted(first, key=first.__getitem__)
    exprs = tuple(ColumnRef(node.types[first[v]], first[v]) for v in kept)
    return _Made(node if len(exprs) == len(node.types) else plan.Project(node, exprs), kept)
