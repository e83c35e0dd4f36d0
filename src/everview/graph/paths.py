"""Paths: reachability, distances, and shortest paths.

One loop throughout: rows with the distance of a node, one edge further in every round, and the least for each node.
Removing an edge increases some distances; the engine retracts, round by round, what that edge had contributed, so
nothing is searched again from the start.

The variable's first column is the current node: the edges are joined on that column, and a loop whose minimum has the
order that the join needs requires no index for its variable.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from everview.errors import PlanError
from everview.expr.language import Expression, col, least, lit, when
from everview.language.collection import Collection

if TYPE_CHECKING:
    from everview.graph.graph import Graph


LAST_PLACE = 10_000.0
"""After the position of the largest float."""


def reach(g: Graph, sources: Collection) -> Collection:
    """See `Graph.reach`."""
    start = g.nodes_of(sources, "sources")
    return g.iterate(start, lambda x: g.hop(x).union_all(start).distinct())


def bfs(g: Graph, sources: Collection, most: int | None = None) -> Collection:
    """See `Graph.bfs` and `Graph.k_hop`."""
    start = g.nodes_of(sources, "sources").select(node=col.node, hops=lit(0))

    def step(x: Collection) -> Collection:
        return g.hop(_below(x, most), hops=col.hops + 1).union_all(start).group_by("node").agg(hops=col.hops.min())

    return g.iterate(start, step)


def sssp(g: Graph, sources: Collection, max_rounds: int | None = None) -> Collection:
    """See `Graph.sssp`."""
    weight = g.weight_of()
    start = g.nodes_of(sources, "sources").select(node=col.node, cost=_zero(g))

    def relax(x: Collection) -> Collection:
        longer = g.hop(x, cost=x.cost + weight).filter(col.cost.is_not_null())
        return longer.union_all(start).group_by("node").agg(cost=col.cost.min())

    if max_rounds is not None:
        return g.iterate(start, relax, max_rounds=max_rounds)
    return g.iterate(start, relax, priority=nearer(col.cost), queued=True)


def nearer(cost: Expression) -> Expression:
    """A queue position: eight for each doubling of the cost, whatever its unit (Meyer and Sanders' delta-stepping with
    growing buckets). A node waits until those that may still bring it nearer have had their turn, so most are expanded
    once. The last position is for infinite costs and NaN."""
    place = least((cost.cast(float).log2() * 8.0 + 512.0).floor(), lit(LAST_PLACE))
    return when(cost > 0, place.cast(int)).otherwise(0)


def widest(g: Graph, sources: Collection) -> Collection:
    """See `Graph.widest`."""
    if g.weight is None:
        raise PlanError("E_COLUMN", "widest needs weights, and the graph has none", 'Graph(edges, weight="...")')
    s, e = g.nodes_of(sources, "sources"), g.edges
    weight = e[g.weight]
    left = s.join(e, s.node == e[g.src]).filter(weight.is_not_null())
    first = left.select(node=e[g.dst], width=weight.if_null(_zero(g)))

    def narrow(x: Collection) -> Collection:
        on = x.join(e, x.node == e[g.src]).filter(weight.is_not_null())
        through = on.select(node=e[g.dst], width=least(x.width, weight))
        return through.union_all(first).group_by("node").agg(width=col.width.max())

    return g.iterate(first, narrow)


def within(g: Graph, k: int, sources: Collection | None = None) -> Collection:
    """See `Graph.within`."""
    start = g.nodes if sources is None else g.nodes_of(sources, "sources")
    return _from_each(g, start, whole_number(k, "k")).select("source", "node", "hops")


def distance(g: Graph, pairs: Collection, max_hops: int | None = None) -> Collection:
    """See `Graph.distance`."""
    wanted = g.pairs_of(pairs, "pairs")
    if g.weight is None and max_hops is not None:
        return _meeting(g, wanted, whole_number(max_hops, "the number of hops"))
    start = wanted.select(node=wanted.source).distinct()
    far = _from_each(g, start, max_hops) if g.weight is None else _far(g, start, max_hops)
    found = wanted.join(far, (wanted.target == far.node) & (wanted.source == far.source))
    if g.weight is None:
        return found.select(source=wanted.source, target=wanted.target, distance=far.hops)
    costs = found.select(source=wanted.source, target=wanted.target, distance=far.cost)
    return costs if max_hops is None else costs.group_by("source", "target").agg(distance=col.distance.min())


def _far(g: Graph, start: Collection, max_hops: int | None) -> Collection:
    """(node, source, cost): the least costs of paths from each source. Without a limit the hops are not needed."""
    return _costs(g, start, max_hops) if max_hops is not None else _least_costs(g, start)


def from_each(g: Graph, start: Collection, *, back: bool = False) -> Collection:
    """(node, source, cost): the distance of every node from each source, or (`back`) to it; by weight if there is
    one."""
    if g.weight is None:
        return _from_each(g, start, None, back=back).select(node=col.node, source=col.source, cost=col.hops)
    return _least_costs(g, start, back=back)


def _least_costs(g: Graph, start: Collection, *, back: bool = False) -> Collection:
    weight = g.weight_of()
    first = start.select(node=col.node, source=col.node, cost=_zero(g))

    def relax(x: Collection) -> Collection:
        further = g.hop(x, back=back, source=x.source, cost=x.cost + weight).filter(col.cost.is_not_null())
        return further.union_all(first).group_by("node", "source").agg(cost=col.cost.min())

    return g.iterate(first, relax, priority=nearer(col.cost), queued=True)


def _meeting(g: Graph, wanted: Collection, most: int) -> Collection:
    """(source, target, distance) for pairs at most so many edges apart.

    Searches start from both ends and go half of the way: if ten edges leave and enter each node, four hops from one end
    are ten thousand nodes, two hops from each are two hundred.
    """
    ahead = _from_each(g, wanted.select(node=wanted.source).distinct(), most - most // 2)
    behind = _from_each(g, wanted.select(node=wanted.target).distinct(), most // 2, back=True)
    there = wanted.join(ahead, wanted.source == ahead.source)
    there = there.select(source=wanted.source, target=wanted.target, node=ahead.node, hops=ahead.hops)
    met = there.join(behind, (there.node == behind.node) & (there.target == behind.source))
    met = met.select(source=there.source, target=there.target, distance=there.hops + behind.hops)
    return met.group_by("source", "target").agg(distance=col.distance.min())


def _from_each(g: Graph, start: Collection, most: int | None, *, back: bool = False) -> Collection:
    """(node, source, hops) for every node within reach of each source, along the edges or back."""
    first = start.select(node=col.node, source=col.node, hops=lit(0))

    def step(x: Collection) -> Collection:
        further = g.hop(_below(x, most), back=back, source=x.source, hops=col.hops + 1)
        return further.union_all(first).group_by("node", "source").agg(hops=col.hops.min())

    return g.iterate(first, step)


def _costs(g: Graph, start: Collection, most: int | None) -> Collection:
    """(node, source, hops, cost): the least costs of paths from each source, with the least hops of such a path.

    Without a limit one row per node is enough: the cheapest, and of these the one with fewest edges. With a limit a
    more expensive path with fewer edges may be what the next node needs, so the least cost is kept for every number of
    edges.
    """
    weight = g.weight_of()
    first = start.select(node=col.node, source=col.node, hops=lit(0), cost=_zero(g))

    def relax(x: Collection) -> Collection:
        further = g.hop(_below(x, most), source=x.source, hops=x.hops + 1, cost=x.cost + weight)
        longer = further.filter(col.cost.is_not_null()).union_all(first)
        if most is None:
            return longer.group_by("node", "source").top(1, by=[col.cost, col.hops])
        return longer.group_by("node", "source", "hops").agg(cost=col.cost.min())

    return g.iterate(first, relax, priority=nearer(col.cost), queued=True) if most is None else g.iterate(first, relax)


def shortest_path(g: Graph, pairs: Collection, max_hops: int | None = None) -> Collection:
    """See `Graph.shortest_path`."""
    wanted = g.pairs_of(pairs, "pairs")
    start = wanted.select(node=wanted.source).distinct()
    far = _costs(g, start, max_hops)
    ends = wanted.join(far, (wanted.target == far.node) & (wanted.source == far.source))
    found = ends.select(node=far.node, source=far.source, target=wanted.target, hops=far.hops, cost=far.cost)
    last = found.group_by("source", "target").top(1, by=[col.cost, col.hops])
    before = _steps_back(g, far)

    def back(x: Collection) -> Collection:
        same = (x.node == before.node) & (x.source == before.source) & (x.hops == before.hops)
        moved = x.join(before, same).filter(x.cost == before.cost)
        earlier = moved.select(
            node=before.before, source=x.source, target=x.target, hops=x.hops - 1, cost=before.cost_before
        )
        return earlier.union_all(last).distinct()

    steps = last.iterate(back)
    return steps.select("source", "target", step=col.hops, node=col.node)


def _steps_back(g: Graph, far: Collection) -> Collection:
    """(node, source, hops, cost, before, cost_before): the step before each node on a shortest path to it.

    Hops decrease by one with every step back, so that edges of weight 0 cannot form a cycle.
    """
    weight, reached = g.weight_of(), far.alias("reached")
    on = g.hop(far, source=far.source, hops=far.hops + 1, cost=far.cost + weight, before=far.node, cost_before=far.cost)
    at = (on.node == reached.node) & (on.source == reached.source) & (on.hops == reached.hops)
    kept = on.join(reached, at).filter(on.cost == reached.cost).select(*(on[name] for name in on.schema()))
    return kept.group_by("node", "source", "hops").top(1, by=g.order_key(col.before))


def _below(x: Collection, most: int | None) -> Collection:
    """The rows that may be extended."""
    return x if most is None else x.filter(x.hops < whole_number(most, "the number of hops"))


def _zero(g: Graph) -> Any:
    return lit(0) if g.weight is None else lit(0).cast(g.edges.schema()[g.weight].optional(False))


def whole_number(n: int, what: str, least: int = 0) -> int:
    """Refuse anything but an integer of at least `least`."""
    if not isinstance(n, int) or isinstance(n, bool) or n < least:
        raise PlanError("E_RANGE", f"{what} is {n!r}", f"give a whole number, {least} or more")
    return n
