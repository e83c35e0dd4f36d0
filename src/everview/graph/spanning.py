"""Minimum spanning forests by Borůvka's rounds, maintained.

In every round each tree so far takes the lightest edge that leaves it; the edges taken join the forest. The order of
edges is total (weight, then the two ends), so the edges taken in one round close no cycle and the forest is unique. The
outer loop has at most log2(nodes) rounds; finding the trees of the forest so far is the inner one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from everview.collection import Collection
from everview.expr.language import col, when
from everview.graph.labels import along, labelled, smallest
from everview.loops import fixpoint

if TYPE_CHECKING:
    from everview.graph.graph import Graph


def forest(g: Graph) -> Collection:
    """See `Graph.spanning_forest`."""
    edges = _undirected(g)
    start = labelled(g, g.nodes)

    def boruvka(taken: Collection) -> Collection:
        tree = smallest(g, start, along(taken, "a", "b"), along(taken, "b", "a"))
        return taken.union_all(_lightest(g, edges, tree)).distinct()

    found: Collection = fixpoint(boruvka, edges.schema())
    return found


def _undirected(g: Graph) -> Collection:
    """(a, b, weight): for every two neighbours the lightest edge between them, the smaller node first."""
    e = g.edges
    ends = e.select(src=e[g.src], dst=e[g.dst], weight=g.weight_of())
    proper = ends.filter(col.src != col.dst, col.weight.is_not_null())
    rises = g.order_key(col.src) < g.order_key(col.dst)
    a, b = when(rises, col.src).otherwise(col.dst), when(rises, col.dst).otherwise(col.src)
    return proper.select(a=a, b=b, weight=col.weight).group_by("a", "b").agg(weight=col.weight.min())


def _lightest(g: Graph, edges: Collection, tree: Collection) -> Collection:
    """(a, b, weight): for each tree the first of the edges that leave it."""
    at_a, at_b = tree.alias("at_a"), tree.alias("at_b")
    placed = edges.join(at_a, edges.a == at_a.node).join(at_b, edges.b == at_b.node)
    leaving = placed.filter(at_a.label != at_b.label)
    columns = {"a": edges.a, "b": edges.b, "weight": edges.weight}
    sides = leaving.select(tree=at_a.label, **columns).union_all(leaving.select(tree=at_b.label, **columns))
    first = sides.group_by("tree").top(1, by=[col.weight, g.order_key(col.a), g.order_key(col.b)])
    return first.select("a", "b", "weight")
