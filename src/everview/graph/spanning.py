"""Minimum spanning forests by Borůvka's rounds, maintained.

In every round each tree so far takes the lightest edge that leaves it; the edges taken join the forest. The order of
edges is total (weight, then the two ends), so the edges taken in one round close no cycle and the forest is unique. The
outer loop has at most log2(nodes) rounds; finding the trees of the forest so far is the inner one.

*What it costs.* An edge meets the names of the trees at its ends from all rounds, in pairs: the square of the rounds.
500,000 edges between 100,000 nodes take a minute and 4 GB to load, a change some milliseconds and sometimes seconds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from everview.collection import Collection
from everview.expr.language import col, when
from everview.graph.labels import along, smallest
from everview.loops import fixpoint

if TYPE_CHECKING:
    from everview.graph.graph import Graph


def forest(g: Graph) -> Collection:
    """See `Graph.spanning_forest`."""
    edges = _undirected(g)
    nodes = g.nodes

    def boruvka(taken: Collection) -> Collection:
        tree = smallest(g, nodes, along(taken, "a", "b"), along(taken, "b", "a"))
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
    """(a, b, weight): for each tree the first of the edges that leave it.

    First the first for each node, then among its nodes' for each tree: trees get new labels in every round, and with
    them would all their edges, while whether an edge leaves its tree changes once.
    """
    at_a, at_b = tree.alias("at_a"), tree.alias("at_b")
    placed = edges.join(at_a, edges.a == at_a.node).join(at_b, edges.b == at_b.node)
    leaving = placed.filter(at_a.label != at_b.label).select(a=edges.a, b=edges.b, weight=edges.weight)
    sides = leaving.select("a", "b", "weight", node=col.a).union_all(leaving.select("a", "b", "weight", node=col.b))
    order = [col.weight, g.order_key(col.a), g.order_key(col.b)]
    of_node = sides.group_by("node").top(1, by=order)
    of_tree = of_node.join(tree, of_node.node == tree.node)
    offered = of_tree.select(tree=tree.label, a=of_node.a, b=of_node.b, weight=of_node.weight)
    return offered.group_by("tree").top(1, by=order).select("a", "b", "weight")
