"""The structure of a graph: degrees, cores, triangles, levels."""

from __future__ import annotations

from typing import TYPE_CHECKING

from everview.expr.language import col, count, lit, when
from everview.graph.paths import whole_number
from everview.language.collection import Collection

if TYPE_CHECKING:
    from everview.graph.graph import Graph


def degree(g: Graph) -> Collection:
    """Implements `Graph.degree`. Totals only: no index of the edges is needed."""
    e = g.edges
    out = e.select(node=e[g.src], into=lit(0), out=lit(1))
    into = e.select(node=e[g.dst], into=lit(1), out=lit(0))
    nodes = g.nodes.select(node=col.node, into=lit(0), out=lit(0))
    totals = out.union_all(into, nodes).group_by("node").agg(in_degree=col.into.sum(), out_degree=col.out.sum())
    both = col.in_degree + col.out_degree
    return totals.select(node=col.node, degree=both, in_degree=col.in_degree, out_degree=col.out_degree)


def k_core(g: Graph, k: int) -> Collection:
    """See `Graph.k_core`.

    From all nodes, keep those with k neighbours among the kept, until none is removed. Fewer kept nodes never give a
    node more neighbours, so the sets shrink to the largest stable one.
    """
    whole_number(k, "k")
    if k == 0:
        return g.nodes
    next_to = g.neighbours

    def keep(x: Collection) -> Collection:
        seen = x.join(next_to, x.node == next_to.node).select(node=next_to.other)
        return seen.group_by("node").agg(n=count()).filter(col.n >= k).select("node")

    return g.nodes.iterate(keep)


def triangles(g: Graph) -> Collection:
    """See `Graph.triangles`."""
    up = _upwards(g)
    ab, bc, ac = up.alias("ab"), up.alias("bc"), up.alias("ac")
    wedge = ab.join(bc, ab.high == bc.low).select(a=ab.low, b=ab.high, c=bc.high)
    closed = wedge.join(ac, (wedge.a == ac.low) & (wedge.c == ac.high))
    return closed.select(a=wedge.a, b=wedge.b, c=wedge.c)


def _upwards(g: Graph) -> Collection:
    """(low, high): each edge of the undirected simple graph once, from the smaller node to the larger."""
    next_to = g.neighbours
    rising = next_to.filter(g.order_key(col.node) < g.order_key(col.other))
    return rising.select(low=col.node, high=col.other)


def clustering(g: Graph) -> Collection:
    """See `Graph.clustering`."""
    triangle, next_to, nodes = triangles(g), g.neighbours, g.nodes
    corner = triangle.select(node=col.a, n=lit(0), t=lit(1)).union_all(
        triangle.select(node=col.b, n=lit(0), t=lit(1)), triangle.select(node=col.c, n=lit(0), t=lit(1))
    )
    ends = next_to.select(node=col.node, n=lit(1), t=lit(0))
    alone = nodes.select(node=col.node, n=lit(0), t=lit(0))
    found = corner.union_all(ends, alone).group_by("node").agg(degree=col.n.sum(), triangles=col.t.sum())
    pairs = col.degree * (col.degree - 1)
    return found.with_columns(coefficient=when(col.degree > 1, col.triangles * 2 / pairs).otherwise(0.0))


def levels(g: Graph) -> Collection:
    """See `Graph.levels`.

    First which nodes have one: a node at the end of arbitrarily long walks is on a cycle or after one. The others form
    an acyclic graph, on which longest paths exist.
    """
    nodes = g.nodes
    endless = nodes.iterate(lambda x: g.hop(x).distinct())
    settled = nodes.join(endless, nodes.node == endless.node, how="anti")
    start = settled.select(node=col.node, level=lit(0))
    e = g.edges
    edges = e.join(settled, e[g.dst] == settled.node).select(src=e[g.src], dst=settled.node)

    def longest(x: Collection) -> Collection:
        further = x.join(edges, x.node == edges.src).select(node=edges.dst, level=x.level + 1)
        return further.union_all(start).group_by("node").agg(level=col.level.max())

    return start.iterate(longest)
