"""Components: weak and strong connectivity, and two-colourability."""

from __future__ import annotations

from typing import TYPE_CHECKING

from everview.expr.language import col, lit
from everview.graph.labels import along, smallest, smallest_hash
from everview.language.collection import Collection

if TYPE_CHECKING:
    from everview.graph.graph import Graph


def wcc(g: Graph) -> Collection:
    """Implements `Graph.wcc`. Labels spread along both indexes of the edges; a union of them would be a third."""
    return g.by_name(_weak_labels(g), "component")


def _weak_labels(g: Graph) -> Collection:
    def there(x: Collection) -> Collection:
        return g.hop(x, label=x.label)

    def back(x: Collection) -> Collection:
        return g.hop(x, back=True, label=x.label)

    return smallest(g, g.nodes, there, back)


def scc(g: Graph) -> Collection:
    """Implements `Graph.scc`. Along the edges inside components the smallest label reaches the whole component."""
    return g.by_name(smallest(g, g.nodes, along(scc_edges(g)), lean=False), "component")


def scc_edges(g: Graph) -> Collection:
    """See `Graph.scc_edges`.

    The nested loops of the differential dataflow paper: spread labels along the edges and drop those whose ends receive
    different ones, since no cycle runs through them; then the same against the edges; until nothing is dropped.
    """
    e = g.edges
    start = e.select(src=e[g.src], dst=e[g.dst])
    return start.iterate(lambda inside: _trimmed(g, _trimmed(g, inside, g.src, g.dst), g.dst, g.src))


def _trimmed(g: Graph, inside: Collection, near: str, far: str) -> Collection:
    """The edges, read from `near` to `far`, whose ends receive the same label when labels spread along `inside`;
    reversed.

    Only targets have labels: an edge from a node without incoming edges is on no cycle, and finds no match.
    """
    e = g.edges
    label = smallest_hash(e.select(node=e[far]).distinct(), along(inside))
    source, target = label.alias("source"), label.alias("target")
    tagged = e.join(source, e[near] == source.node).join(target, e[far] == target.node)
    return tagged.filter(source.label == target.label).select(src=e[far], dst=e[near])


def bipartite(g: Graph) -> Collection:
    """See `Graph.bipartite`."""
    side = _sides(g)
    odd = _odd_components(g, side)
    names = side.select(component=side.component).distinct()
    good = names.join(odd, names.component == odd.component, how="anti")
    good = good.select(component=col.component, bipartite=lit(True))
    return good.union_all(odd.select(component=col.component, bipartite=lit(False)))


def two_colouring(g: Graph) -> Collection:
    """See `Graph.two_colouring`."""
    side = _sides(g)
    odd = _odd_components(g, side)
    return side.join(odd, side.component == odd.component, how="anti")


def _sides(g: Graph) -> Collection:
    """(node, component, side): the parity of the path from the node that names the component."""
    component = wcc(g)
    start = component.select(node=component.component).distinct().select(node=col.node, hops=lit(0))

    def step(x: Collection) -> Collection:
        there, back = g.hop(x, hops=col.hops + 1), g.hop(x, back=True, hops=col.hops + 1)
        return there.union_all(back, start).group_by("node").agg(hops=col.hops.min())

    hops = start.iterate(step)
    both = component.join(hops, component.node == hops.node)
    return both.select(node=component.node, component=component.component, side=hops.hops % 2)


def _odd_components(g: Graph, side: Collection) -> Collection:
    """(component): those with an edge between nodes of one side: it closes a cycle of odd length."""
    e, near, far = g.edges, side.alias("near"), side.alias("far")
    edge = e.join(near, e[g.src] == near.node).join(far, e[g.dst] == far.node)
    return edge.filter(near.side == far.side).select(component=near.component).distinct()
