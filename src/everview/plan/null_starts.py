"""Loops that start with NULL as a value only where the node is NULL, too.

    part(node, min(label)) starts from (src, src) and (dst, dst) of every edge

Columns of SQL tables may be NULL unless they are declared NOT NULL, so such a start may be (NULL, NULL), if only in
theory. NULL is no value that trees could keep: it is neither better nor worse. But NULL as a node joins nothing: such a
start leads nowhere. The loop is therefore maintained without them. Afterwards the group of the node NULL has
its value: the best of those that led to it, or NULL if there is none.

Hazard: a start (5, NULL) is something else. Its NULL spreads to every node that 5 reaches and that has no other value.
"""

from __future__ import annotations

from collections.abc import Sequence

from everview.expr.functions import call
from everview.expr.nodes import ColumnRef
from everview.plan import nodes as plan
from everview.plan.frontier import Frontier
from everview.plan.loop_ways import NotMonotone


def parted(starts: Sequence[plan.Node], node: int, value: int) -> tuple[list[plan.Node], list[plan.Node]]:
    """The starts without those whose value is NULL, and the latter; NotMonotone if their NULL may spread.

    >>> from everview.types import INT
    >>> edge = plan.Table(0, (INT.optional(True), INT))
    >>> own = plan.Project(edge, (ColumnRef(edge.types[0], 0), ColumnRef(edge.types[0], 0)))
    >>> (known,), (unknown,) = parted([own], 0, 1)
    >>> known.predicate.op, unknown.predicate.op
    ('is_not_null', 'is_null')
    """
    known: list[plan.Node] = []
    unknown: list[plan.Node] = []
    for start in starts:
        kind = bare(start).types[value]
        if not kind.nullable:
            known.append(start)
            continue
        if not _is_same(start, node, value):
            raise NotMonotone("what it starts with may be NULL (declare it NOT NULL, or filter it)")
        tested = ColumnRef(start.types[value], value)
        known.append(plan.Filter(start, call("is_not_null", tested)))
        unknown.append(plan.Filter(start, call("is_null", tested)))
    return known, unknown


def rejoined(found: Frontier, unknown: Sequence[plan.Node]) -> plan.Node:
    """All rows of a loop: those of its `Frontier`, whose starts are not NULL, and of the starts that are."""
    if not unknown:
        return found
    assert found.value is not None
    types, value = found.types, found.value
    node = ColumnRef(types[found.node], found.node)
    own = tuple(ColumnRef(t, i) for i, t in enumerate(types))
    nowhere = plan.Union((plan.Filter(found, call("is_null", node)), *(plan.Project(n, own) for n in unknown)))
    keys = tuple(c for c in range(len(types)) if c != value)
    best = plan.Reduce(nowhere, keys, (plan.Aggregate("max" if found.largest else "min", value, types[value]),))
    order = [keys.index(c) if c != value else len(keys) for c in range(len(types))]
    nameless = plan.Project(best, tuple(ColumnRef(types[c], at) for c, at in enumerate(order)))
    return plan.Union((plan.Filter(found, call("is_not_null", node)), nameless))


def bare(node: plan.Node) -> plan.Node:
    """The node without projections that only declare columns nullable."""
    while isinstance(node, plan.Project):
        same = len(node.exprs) == len(node.child.types)
        if not same or not all(isinstance(e, ColumnRef) and e.index == i for i, e in enumerate(node.exprs)):
            break
        node = node.child
    return node


def _is_same(node: plan.Node, one: int, other: int) -> bool:
    """Whether two columns are copies of the same, so that one is NULL only where the other is."""
    if one == other:
        return True
    if isinstance(node, plan.Union):
        return all(_is_same(each, one, other) for each in node.inputs)
    if isinstance(node, plan.Project):
        a, b = node.exprs[one], node.exprs[other]
        columns = isinstance(a, ColumnRef) and isinstance(b, ColumnRef)
        return columns and _is_same(node.child, a.index, b.index)  # type: ignore[attr-defined]
    if isinstance(node, plan.Filter | plan.Threshold):
        return _is_same(node.child, one, other)
    return False
