"""The recursive queries that are measured, written with the public API only.

`iterate` starts from given rows, `fixpoint` from none; for the queries that have both spellings the body is the same,
since it adds the start rows itself. Bits of a label (`bits`) are the priority of differential-dataflow's own propagate:
small labels spread first, so that few nodes ever hear of a label that loses.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import everview as ev
from everview import col, lit
from everview.language.collection import Collection

Body = Callable[[Collection], Collection]


def bits(label: Any) -> Any:
    """floor(log2(label + 1)): 0 for 0, 1 for 1 and 2, 2 for 3 to 6 ..."""
    return (label + 1).log2().floor().cast(int)


def solve(start: Collection, body: Body, spelling: str, priority: Any = None) -> Collection:
    """The fixed point of a body that adds `start` itself, spelled `iterate` or `fixpoint`."""
    if spelling == "iterate":
        return start.iterate(body, priority=priority)
    return ev.fixpoint(body, dict.fromkeys(start.schema(), int))


def distances(edge: Collection, root: Collection, spelling: str) -> Collection:
    """(node, dist): hops from the nearest root."""
    start = root.select(node=root.node, dist=lit(0))

    def relax(near: Collection) -> Collection:
        hop = near.join(edge, near.node == edge.src).select(node=edge.dst, dist=near.dist + 1)
        return hop.union_all(start).group_by("node").agg(dist=col.dist.min())

    return solve(start, relax, spelling)


def reachable(edge: Collection, root: Collection, spelling: str) -> Collection:
    """(node,): what a root reaches."""

    def step(reached: Collection) -> Collection:
        hop = reached.join(edge, reached.node == edge.src).select(node=edge.dst)
        return hop.union_all(root).distinct()

    return solve(root, step, spelling)


def labelled(node: Collection, start: str = "keyed") -> Collection:
    """(node, label): every node once, labelled with itself.

    Both spellings mean the same, "pairs" being what most people write. The planner sees that the node identifies a
    row from either, and the loop's variable then needs no index.
    """
    if start == "keyed":
        return node.distinct().select(node=col.node, label=col.node)
    return node.select(node=col.node, label=col.node).distinct()


def smallest_label(edge: Collection, start: Collection, spelling: str, priority: Any = None) -> Collection:
    """(node, label): the smallest label of `start` that comes to the node along the edges."""

    def spread(label: Collection) -> Collection:
        hop = label.join(edge, label.node == edge.src).select(node=edge.dst, label=label.label)
        return hop.union_all(start).group_by("node").agg(label=col.label.min())

    return solve(start, spread, spelling, priority)


def components(edge: Collection, spelling: str, prioritized: bool, start: str = "keyed") -> Collection:
    """(node, label): the smallest node of the weakly connected component."""
    both = edge.union_all(edge.select(src=edge.dst, dst=edge.src))
    return smallest_label(
        both, labelled(both.select(node=both.src), start), spelling, bits(col.label) if prioritized else None
    )


def inside_components(edge: Collection, prioritized: bool) -> Collection:
    """(src, dst): the edges inside strongly connected components, by trimming forwards and backwards in turn."""
    back = edge.select(src=edge.dst, dst=edge.src)

    def trim_twice(inside: Collection) -> Collection:
        return _trimmed(_trimmed(inside, edge, prioritized), back, prioritized)

    return edge.iterate(trim_twice)


def _trimmed(inside: Collection, edge: Collection, prioritized: bool) -> Collection:
    """The edges of `edge` whose ends get the same label when labels spread along `inside`, turned round."""
    start = labelled(edge.select(node=edge.dst))
    label = smallest_label(inside, start, "iterate", bits(col.label) if prioritized else None)
    source, target = label.alias("source"), label.alias("target")
    tagged = edge.join(source, edge.src == source.node).join(target, edge.dst == target.node)
    return tagged.filter(source.label == target.label).select(src=edge.dst, dst=edge.src)


def core(edge: Collection, k: int) -> Collection:
    """(src, dst): the edges between nodes that have k or more of these edges."""

    def peel(left: Collection) -> Collection:
        ends = left.select(node=left.src).union_all(left.select(node=left.dst))
        active = ends.group_by("node").agg(n=ev.count()).filter(col.n >= k).select("node")
        source, target = active.alias("source"), active.alias("target")
        inner = edge.join(source, edge.src == source.node).join(target, edge.dst == target.node)
        return inner.select(src=edge.src, dst=edge.dst)

    return edge.iterate(peel)
