"""Pushes conditions on a loop's result into the loop: of all paths, only those from one node are computed.

    path(src, dst)   edges, or a path and an edge after it        all pairs, of which
    WHERE src = 3                                                 only those of one node are needed

Every path has the `src` of the path it was derived from: the column *is passed on unchanged*. A row with src = 3
therefore depends only on rows with src = 3, in every round, and the others need not be computed: the filter is applied
to what does not read the loop's variable, and to the initial rows. This is what magic sets do for queries with
constants that stay the same in every round; the Datalog of `db.register` handles all others.

A column of a node *follows* a column of the variable if the node's rows with a value there depend only on the
variable's rows with that value in theirs. Columns of the variable follow themselves; projections, filters, unions,
`distinct` and keys of reductions preserve this; a column of a join follows on its own side, and, as a key, on the
other. What does not read the variable follows everything. A column of the body that follows itself is passed on
unchanged.

The condition must not be able to fail, since it would see intermediate rows that are discarded later. Only loops that
nothing else in the plan reads are narrowed, and none that is installed already: sharing is worth more.
"""

from __future__ import annotations

from collections.abc import Container
from dataclasses import replace

from everview.expr.functions import conjunction, conjuncts
from everview.expr.nodes import Call, ColumnRef, Expr, Literal
from everview.plan import nodes as plan
from everview.plan.check import free_variables, readers
from everview.plan.deep_recursion import Staged, settled
from everview.plan.monotone import TOTAL
from everview.plan.substitute import over_inputs

Follows = frozenset[tuple[int, int]]
"""Columns of a node, each with the column of the loop's variable that it follows."""

MOST_NODES = 200
"""Maximum number of nodes of a body, which is walked recursively."""


def narrowed(node: plan.Node, arranged: Container[plan.Node] = ()) -> plan.Node:
    """The same rows, without computing what a condition discards after the loop; the same node if nothing changes.

    >>> from everview.expr.functions import call
    >>> from everview.types import INT
    >>> edge, path = plan.Table(0, (INT, INT)), plan.Variable(1, 0, (INT, INT))
    >>> further = plan.Join(path, edge, (1,), (0,))
    >>> longer = plan.Project(further, (ColumnRef(INT, 0), ColumnRef(INT, 3)))
    >>> body = plan.Threshold(plan.Union((edge, longer)), "distinct")
    >>> paths = plan.LoopResult(plan.Loop(1, (None,), (body,)), 0)
    >>> from_three = call("eq", ColumnRef(INT, 0), Literal(INT, 3))
    >>> found = narrowed(plan.Filter(paths, from_three))
    >>> type(found).__name__, found.loop.bodies[0].child.inputs[0] == plan.Filter(edge, from_three)
    ('LoopResult', True)
    """
    rewriting = _Rewriting(node, arranged)
    return rewriting.node(node)


class _Rewriting:
    def __init__(self, whole: plan.Node, arranged: Container[plan.Node]) -> None:
        self.arranged = arranged
        self.readers = readers(whole)
        self.done: dict[int, plan.Node] = {}
        self.kept: list[plan.Node] = []  # so that the ids in `done` stay theirs
        self.rewritten = Staged(lambda n: settled(self._node(n)), lambda n: id(n) in self.done or n in self.arranged)

    def node(self, node: plan.Node) -> plan.Node:
        """Rewrite a node, once; installed nodes are unchanged."""
        if id(node) not in self.done:
            self.kept.append(node)
            self.done[id(node)] = node if node in self.arranged else self.rewritten(node)
        return self.done[id(node)]

    def _node(self, node: plan.Node) -> plan.Node:
        found = self._into_loop(node) if isinstance(node, plan.Filter) else None
        return over_inputs(node if found is None else found, self.node)

    def _into_loop(self, top: plan.Filter) -> plan.Node | None:
        """Push the conditions of consecutive filters, as far as possible, into the loop below them."""
        conditions: list[Expr] = []
        below: plan.Node = top
        while isinstance(below, plan.Filter) and below not in self.arranged:
            conditions += conjuncts(below.predicate)
            below = below.child
        if not isinstance(below, plan.LoopResult) or below in self.arranged or self.readers[below] > 1:
            return None
        columns = unchanged(below.loop)
        inside = [c for c in conditions if c.columns() and c.columns() <= columns and is_total(c)]
        if not inside:
            return None
        result = replace(below, loop=_restricted(below.loop, inside))
        outside = [c for c in conditions if c not in inside]
        return plan.Filter(result, conjunction(outside)) if outside else result


def is_total(condition: Expr) -> bool:
    """Whether a condition can be tested on any row without failing."""
    return all(isinstance(e, ColumnRef | Literal) or (isinstance(e, Call) and e.op in TOTAL) for e in condition.walk())


def unchanged(loop: plan.Loop) -> set[int]:
    """The columns of a loop of one variable that are passed on unchanged."""
    ordered = loop.queued or loop.priority is not None
    if len(loop.bodies) != 1 or (ordered and loop.max_rounds is not None):
        return set()
    body = loop.bodies[0]
    if not _reads(body, loop.depth) or sum(1 for _ in body.walk()) > MOST_NODES:
        return set()
    return {column for column, of in _follows(body, loop.depth) if column == of}


def _reads(node: plan.Node, depth: int) -> bool:
    """Whether a node reads the variable of the enclosing loop at that depth."""
    return (depth, 0) in free_variables(node)


def _follows(node: plan.Node, depth: int) -> Follows:
    """What the columns of a node that reads the variable follow."""
    if isinstance(node, plan.Variable):
        return frozenset((c, c) for c in range(len(node.types)))
    if isinstance(node, plan.Filter | plan.Negate | plan.Threshold):
        return _follows(node.child, depth)
    if isinstance(node, plan.Project):
        places = [(i, e.index) for i, e in enumerate(node.exprs) if isinstance(e, ColumnRef)]
        return frozenset((i, v) for i, j in places for c, v in _follows(node.child, depth) if c == j)
    if isinstance(node, plan.Union):
        return frozenset.intersection(*(_follows(child, depth) for child in node.inputs if _reads(child, depth)))
    if isinstance(node, plan.Reduce):
        return frozenset((i, v) for i, k in enumerate(node.keys) for c, v in _follows(node.child, depth) if c == k)
    if isinstance(node, plan.TopK):
        return frozenset((c, v) for c, v in _follows(node.child, depth) if c in node.keys)
    return _joined(node, depth) if isinstance(node, plan.Join) else frozenset()


def _joined(node: plan.Join, depth: int) -> Follows:
    """A column of a join determines one of its own side, and its key's partner on the other side: each side that reads
    the variable must follow it in a determined one.
    """
    width = len(node.left.types)
    sides = [_follows(side, depth) if _reads(side, depth) else None for side in (node.left, node.right)]
    followed = {v for side in sides for _, v in side or ()}
    keys = list(zip(node.left_keys, node.right_keys, strict=True))
    found = set()
    for column in range(len(node.types)):
        if column < width:
            told = ({column}, {b for a, b in keys if a == column})
        else:
            told = ({a for a, b in keys if b == column - width}, {column - width})
        for v in followed:
            if all(side is None or any((c, v) in side for c in cs) for side, cs in zip(sides, told, strict=True)):
                found.add((column, v))
    return frozenset(found)


def _restricted(loop: plan.Loop, conditions: list[Expr]) -> plan.Loop:
    initial, body = loop.initials[0], loop.bodies[0]
    if initial is not None:
        initial = plan.Filter(initial, conjunction(conditions))
    for condition in conditions:
        body = _Starting(loop.depth, condition).node(body, condition)
    return replace(loop, initials=(initial,), bodies=(body,))


class _Starting:
    """The rows of a body that satisfy a condition, given that the variable's rows do: what does not read it is
    filtered."""

    def __init__(self, depth: int, met: Expr) -> None:
        self.depth = depth
        self.met = met

    def node(self, node: plan.Node, condition: Expr) -> plan.Node:
        """The rows of a node that satisfy a condition on its columns."""
        if not _reads(node, self.depth):
            return plan.Filter(node, condition)
        if isinstance(node, plan.Variable):
            return node if condition == self.met else plan.Filter(node, condition)
        if isinstance(node, plan.Union):
            return plan.Union(tuple(self.node(child, condition) for child in node.inputs))
        if isinstance(node, plan.Filter | plan.Negate | plan.Threshold):
            return replace(node, child=self.node(node.child, condition))
        if isinstance(node, plan.Project):
            return replace(node, child=self.node(node.child, condition.remap(dict(enumerate(node.exprs)))))
        if isinstance(node, plan.TopK) and condition.columns() <= set(node.keys):
            return replace(node, child=self.node(node.child, condition))
        if isinstance(node, plan.Reduce) and condition.columns() <= set(range(len(node.keys))):
            below = {i: ColumnRef(node.child.types[k], k) for i, k in enumerate(node.keys)}
            return replace(node, child=self.node(node.child, condition.remap(below)))
        return self.join(node, condition) if isinstance(node, plan.Join) else plan.Filter(node, condition)

    def join(self, node: plan.Join, condition: Expr) -> plan.Node:
        """On the side that reads the variable, if the condition is about its columns or keys that equal them."""
        width = len(node.left.types)
        left = {c: c for c in range(width)} | {
            width + b: a for a, b in zip(node.left_keys, node.right_keys, strict=True)
        }
        right = {width + c: c for c in range(len(node.right.types))}
        right |= dict(zip(node.left_keys, node.right_keys, strict=True))
        for side, places in (("left", left), ("right", right)):
            child = getattr(node, side)
            if _reads(child, self.depth) and condition.columns() <= places.keys():
                below = condition.remap({c: ColumnRef(child.types[places[c]], places[c]) for c in condition.columns()})
                return replace(node, **{side: self.node(child, below)})  # type: ignore[arg-type]
        return plan.Filter(node, condition)
