"""Predicate pushdown: conditions are tested as early as possible.

    WHERE customer = 3, of totals by customer        totals of the rows with customer = 3
    WHERE day > ..., of a union                      each of its parts
    WHERE a.x = 3, of a join on a.x = b.y            both sides

A condition is pushed below

    a projection, a filter      with the columns replaced by their definitions; not below one that may fail
    a union, a difference, distinct rows
    an aggregate, a top-k, a window          if it reads only the grouping or partitioning columns
    a join                      to the side whose columns it reads; to both if it reads join columns

Outer joins, semi-joins and EXCEPT are made of these: a condition on the preserved side reaches all their parts, where
it is the same filter and is shared; one on the other side makes the part with NULLs empty (`constant_conditions`).

Only conditions that cannot fail are pushed, since they see more rows, and none that calls Python. Errors of
*aggregates* of unwanted groups are no longer found (a sum out of range); all others are. What several readers share is
not split, unless it is a table's: two smaller ones are not cheaper.
"""

from __future__ import annotations

from collections.abc import Container
from dataclasses import replace

from everview.expr.functions import conjunction, conjuncts
from everview.expr.nodes import ColumnRef, Expr, Literal
from everview.plan import nodes as plan
from everview.plan.check import readers
from everview.plan.rewrites.constant_conditions import FALSE, TRUE, folded
from everview.plan.rewrites.traversal import empty, everywhere, never_fails, tables
from everview.plan.windows import Window

THROUGH = plan.Project | plan.Union | plan.Negate | plan.Threshold | plan.Reduce | plan.TopK | Window | plan.Join
"""Nodes that a condition can be pushed below."""

MOST_FILTERS = 30
"""Maximum number of consecutive filters considered: programs create thousands in a row."""

MOST_NODES = 2000
"""Maximum number of nodes of a plan that conditions are pushed below: a plan is a graph, and may have many more
paths."""

MOST_PASSES = 3
"""Maximum number of times that conditions are pushed down."""

MOST_LEVELS = 40
"""Maximum recursion depth of pushing."""


def with_early_filters(node: plan.Node, arranged: Container[plan.Node] = ()) -> plan.Node:
    """The same rows with conditions pushed down.

    >>> from everview.expr.functions import call
    >>> from everview.types import INT
    >>> t, u = plan.Table(0, (INT, INT)), plan.Table(1, (INT, INT))
    >>> x = call("eq", ColumnRef(INT, 0), Literal(INT, 3))
    >>> found = with_early_filters(plan.Filter(plan.Join(t, u, (0,), (0,)), x))
    >>> found == plan.Join(plan.Filter(t, x), plan.Filter(u, x), (0,), (0,))
    True
    """
    found = _pushed(node, arranged)
    if found is node or tables(found) == tables(node):
        return found
    return _pushed(node, arranged, naming=True)


def _pushed(node: plan.Node, arranged: Container[plan.Node], *, naming: bool = False) -> plan.Node:
    """Outer joins read their right side twice. Once all readers of a node have the same filter, the node has one
    reader, and the next pass goes below it.
    """
    for _ in range(MOST_PASSES):
        found = everywhere(node, Pushing.in_plan(node, arranged, naming=naming).changed, arranged)
        if found is node or found == node:
            break
        node = found
    return node


class Pushing:
    """Pushes conditions down. `naming`: an empty part is still named, because a view depends on everything it reads."""

    def __init__(self, arranged: Container[plan.Node], shared: Container[plan.Node], *, naming: bool = False) -> None:
        self.arranged = arranged
        self.shared = shared
        self.naming = naming
        self.left = MOST_NODES

    @classmethod
    def in_plan(cls, node: plan.Node, arranged: Container[plan.Node], *, naming: bool = False) -> Pushing:
        """For a plan: what several of its nodes read is shared."""
        shared = {n for n, count in readers(node).items() if count > 1 and not _of_a_table(n)}
        return cls(arranged, shared, naming=naming)

    def may_change(self, node: plan.Node) -> bool:
        """Whether a node's rows can be filtered: others, which need all of them, do not read it."""
        return node not in self.arranged and node not in self.shared

    def changed(self, node: plan.Node) -> plan.Node:
        """Push a filter down."""
        if not isinstance(node, plan.Filter):
            return node
        base: plan.Node = node
        for _ in range(MOST_FILTERS):
            base = base.child if isinstance(base, plan.Filter) else base
        if not isinstance(base, THROUGH) or not self.may_change(base):
            return node
        tested = conjuncts(node.predicate)
        movable = [c for c in tested if c.columns() and never_fails(c)]
        if not movable:
            return node
        made = self.below(node.child, movable, 0)
        stay = [c for c in tested if c not in movable]
        if _below_filters(made) == _below_filters(node):
            return node
        return plan.Filter(made, conjunction(stay)) if stay else made

    def below(self, node: plan.Node, tested: list[Expr], level: int) -> plan.Node:
        """The rows of a node that pass conditions."""
        tested = [c for c in (folded(c) for c in tested) if c != TRUE]
        if _never(tested):
            return plan.Filter(node, FALSE) if self.naming else empty(node.types)
        if not tested:
            return node
        self.left -= 1
        if not self.may_change(node) or level > MOST_LEVELS or self.left < 0:
            return plan.Filter(node, conjunction(tested))
        if isinstance(node, plan.Filter):
            if not never_fails(node.predicate):
                return plan.Filter(node, conjunction(tested))
            both = [*conjuncts(node.predicate), *(c for c in tested if c not in conjuncts(node.predicate))]
            return self.below(node.child, both, level + 1)
        if isinstance(node, plan.Project):
            mapping = dict(enumerate(node.exprs))
            if not all(never_fails(e) for e in node.exprs):
                return plan.Filter(node, conjunction(tested))
            return replace(node, child=self.below(node.child, [c.remap(mapping) for c in tested], level + 1))
        if isinstance(node, plan.Union):
            return replace(node, inputs=tuple(self.below(i, tested, level + 1) for i in node.inputs))
        if isinstance(node, plan.Negate | plan.Threshold):
            return replace(node, child=self.below(node.child, tested, level + 1))
        if isinstance(node, plan.Reduce):
            places = {i: ColumnRef(node.child.types[k], k) for i, k in enumerate(node.keys)}
            return self._by_group(node, tested, places, level)
        if isinstance(node, plan.TopK | Window):
            places = {k: ColumnRef(node.child.types[k], k) for k in node.keys}
            return self._by_group(node, tested, places, level)
        return (
            self._join(node, tested, level) if isinstance(node, plan.Join) else plan.Filter(node, conjunction(tested))
        )

    def _by_group(
        self, node: plan.Reduce | plan.TopK | Window, tested: list[Expr], places: dict[int, ColumnRef], level: int
    ) -> plan.Node:
        """Push conditions on grouping columns below the grouping."""
        inside = [c for c in tested if c.columns() <= places.keys()]
        if not inside:
            return plan.Filter(node, conjunction(tested))
        made = replace(node, child=self.below(node.child, [c.remap(places) for c in inside], level + 1))
        stay = [c for c in tested if c not in inside]
        return plan.Filter(made, conjunction(stay)) if stay else made

    def _join(self, node: plan.Join, tested: list[Expr], level: int) -> plan.Node:
        width = len(node.left.types)
        pairs = list(zip(node.left_keys, node.right_keys, strict=True))
        left = {c: c for c in range(width)} | {width + b: a for a, b in pairs}
        right = {width + c: c for c in range(len(node.right.types))} | dict(pairs)
        sides: list[list[Expr]] = [[], []]
        stay: list[Expr] = []
        for condition in tested:
            taken = False
            for found, places, side in zip(sides, (left, right), (node.left, node.right), strict=True):
                if condition.columns() <= places.keys():
                    mapping = {c: ColumnRef(side.types[places[c]], places[c]) for c in condition.columns()}
                    found.append(condition.remap(mapping))
                    taken = True
            if not taken:
                stay.append(condition)
        ends = [
            self.below(side, found, level + 1) if found else side
            for side, found in zip((node.left, node.right), sides, strict=True)
        ]
        made = replace(node, left=ends[0], right=ends[1])
        return plan.Filter(made, conjunction(stay)) if stay else made


def _of_a_table(node: plan.Node) -> bool:
    """Whether a node only filters or projects a table: doing so twice costs nothing."""
    for _ in range(MOST_FILTERS):
        node = node.child if isinstance(node, plan.Project | plan.Filter) else node
    return isinstance(node, plan.Table)


def _below_filters(node: plan.Node) -> plan.Node:
    while isinstance(node, plan.Filter):
        node = node.child
    return node


def _never(tested: list[Expr]) -> bool:
    """Whether a condition without columns is not true."""
    return any(isinstance(c, Literal) and not c.value for c in tested)
