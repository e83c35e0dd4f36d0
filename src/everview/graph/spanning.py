"""Minimum spanning forests by Borůvka's rounds, maintained.

In every round each tree takes the lightest edge that leaves it; the edges taken join the forest. The order of edges is
total (weight, then the two ends), so the edges taken in one round close no cycle and the forest is unique. Every round
leaves at most half of the trees, typically a third or a quarter.

*The first rounds are unrolled* in the plan. In a loop an edge meets the names of the trees at its ends from all rounds,
in pairs: the square of the rounds. Unrolled, every round has its own names, and sees no edge that was already inside a
tree. The few remaining trees are left to a loop, which mostly has nothing to do.

*Nodes first, then trees.* In each round the first edge is found for each node, and among these for each tree: otherwise
a renamed tree would take all its edges with it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from everview.expr.language import Expression, col, when
from everview.graph.labels import along, smallest_hash
from everview.language.collection import Collection
from everview.language.loop import fixpoint

if TYPE_CHECKING:
    from everview.graph.graph import Graph

WRITTEN_OUT = 5
"""Unrolled rounds. Of a million nodes with ten neighbours each, about a hundred trees are then left to the loop."""
Ends = tuple[str, str]


def forest(g: Graph) -> Collection:
    """See `Graph.spanning_forest`."""
    order = [col.weight, g.order_key(col.a), g.order_key(col.b)]
    edges, ends = _undirected(g), ("a", "b")
    tree = g.nodes.select(node=col.node, label=col.node.hash())
    names = tree.select(node=tree.label)
    found = []
    for _ in range(WRITTEN_OUT):
        taken = _lightest(edges, ends, tree, order)
        link = _between(taken, ends, tree)
        larger = _larger(names, link, "near", "far")
        tree = tree.join(larger, tree.label == larger.node).select(node=tree.node, label=larger.label)
        names = larger.select(node=larger.label).distinct()
        edges = _between(edges, ends, tree).filter(col.near != col.far).select(*edges.schema())
        found.append(taken)
    return _rest(_between(edges, ends, tree), order).union_all(*found)


def _undirected(g: Graph) -> Collection:
    """(a, b, weight): for every two neighbours the lightest edge between them, the smaller node first."""
    e = g.edges
    ends = e.select(src=e[g.src], dst=e[g.dst], weight=g.weight_of())
    proper = ends.filter(col.src != col.dst, col.weight.is_not_null())
    rises = g.order_key(col.src) < g.order_key(col.dst)
    a, b = when(rises, col.src).otherwise(col.dst), when(rises, col.dst).otherwise(col.src)
    return proper.select(a=a, b=b, weight=col.weight).group_by("a", "b").agg(weight=col.weight.min())


def _lightest(edges: Collection, ends: Ends, tree: Collection, order: list[Expression]) -> Collection:
    """For each tree the first of the edges, all of which leave their trees."""
    names = list(edges.schema())
    one, other = (edges.select(*names, node=edges[end]) for end in ends)
    of_node = one.union_all(other).group_by("node").top(1, by=order)
    offered = of_node.join(tree, of_node.node == tree.node).select(*(of_node[n] for n in names), tree=tree.label)
    return offered.group_by("tree").top(1, by=order).select(*names).distinct()


def _between(edges: Collection, ends: Ends, tree: Collection) -> Collection:
    """The edges with the names of the trees at their ends, `near` and `far`."""
    at_a, at_b = tree.alias("at_a"), tree.alias("at_b")
    placed = edges.join(at_a, edges[ends[0]] == at_a.node).join(at_b, edges[ends[1]] == at_b.node)
    return placed.select(*(edges[name] for name in edges.schema()), near=at_a.label, far=at_b.label)


def _larger(names: Collection, link: Collection, near: str, far: str) -> Collection:
    """(node, label): for each tree's name that of the larger tree it becomes part of through the links."""
    return smallest_hash(names, along(link, near, far), along(link, far, near))


def _rest(left: Collection, order: list[Expression]) -> Collection:
    """(a, b, weight): what further rounds take. Trees are the nodes now, with one edge between any two."""
    rises = col.near < col.far
    pair = {"x": when(rises, col.near).otherwise(col.far), "y": when(rises, col.far).otherwise(col.near)}
    edges = left.select("a", "b", "weight", **pair).group_by("x", "y").top(1, by=order)
    names = edges.select(node=edges.x).union_all(edges.select(node=edges.y)).distinct()

    def boruvka(taken: Collection) -> Collection:
        larger = _larger(names, taken, "x", "y")
        leaving = _between(edges, ("x", "y"), larger).filter(col.near != col.far).select(*edges.schema())
        return taken.union_all(_lightest(leaving, ("x", "y"), larger, order)).distinct()

    found: Collection = fixpoint(boruvka, edges.schema())
    return found.select("a", "b", "weight")
