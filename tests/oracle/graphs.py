"""Graph programs in the public API, and the same questions answered by plain Python, to test one with the other."""

from __future__ import annotations

import heapq
from collections import Counter, defaultdict
from collections.abc import Iterable
from typing import Any

from everview.expr.language import col, count, lit
from everview.language.collection import Collection
from everview.language.loop import fixpoint

Pair = tuple[int, int]


# ---- programs


def reach(edges: Collection, roots: Collection) -> Collection:
    """Nodes that some root leads to: (node)."""

    def grow(x: Collection) -> Collection:
        return x.join(edges, x.node == edges.src).select(node=edges.dst).union_all(roots).distinct()

    return roots.iterate(grow)


def distances(edges: Collection, roots: Collection) -> Collection:
    """Hops from the nearest root: (node, steps)."""
    start = roots.select(node=col.node, steps=lit(0))

    def step(x: Collection) -> Collection:
        hop = x.join(edges, x.node == edges.src).select(node=edges.dst, steps=x.steps + 1)
        return hop.union_all(start).group_by("node").agg(steps=col.steps.min())

    return start.iterate(step)


def components(edges: Collection, prioritized: bool = False) -> Collection:
    """The smallest node of each node's weakly connected component: (node, label)."""
    both = edges.union_all(edges.select(src=edges.dst, dst=edges.src))
    nodes = both.select(node=col.src, label=col.src).distinct()

    def spread(x: Collection) -> Collection:
        moved = x.join(both, x.node == both.src).select(node=both.dst, label=x.label)
        return moved.union_all(nodes).group_by("node").agg(label=col.label.min())

    return nodes.iterate(spread, priority=col.label if prioritized else None)


def _trimmed(edges: Collection) -> Collection:
    """Edges whose ends are in one component of forward label propagation; one half of a round of SCC."""
    nodes = edges.select(node=edges.dst, label=edges.dst).distinct()

    def spread(x: Collection) -> Collection:
        moved = x.join(edges, x.node == edges.src).select(node=edges.dst, label=x.label)
        return moved.union_all(nodes).group_by("node").agg(label=col.label.min())

    label = nodes.iterate(spread)
    at_src, at_dst = label.alias("at_src"), label.alias("at_dst")
    tails = edges.join(at_src, edges.src == at_src.node).select(src=edges.src, dst=edges.dst, one=at_src.label)
    both = tails.join(at_dst, tails.dst == at_dst.node).filter(col.one == at_dst.label)
    return both.select(src=tails.src, dst=tails.dst)


def _turned(edges: Collection) -> Collection:
    return edges.select(src=edges.dst, dst=edges.src)


def strong_edges(edges: Collection) -> Collection:
    """Edges inside strongly connected components (doubly nested loops): (src, dst)."""
    return edges.iterate(lambda x: _turned(_trimmed(_turned(_trimmed(x)))))


def core(edges: Collection, k: int) -> Collection:
    """Edges of the k-core of an undirected graph given in both directions: (src, dst)."""

    def trim(x: Collection) -> Collection:
        keep = x.group_by("src").agg(n=count()).filter(col.n >= k)
        by_src, by_dst = keep.alias("by_src"), keep.alias("by_dst")
        return x.join(by_src, x.src == by_src.src, how="semi").join(by_dst, col.dst == by_dst.src, how="semi")

    return edges.iterate(trim)


def closure(edges: Collection) -> Collection:
    """Pairs joined by a path: (src, dst)."""

    def grow(x: Collection) -> Collection:
        return x.join(edges, x.dst == edges.src).select(src=x.src, dst=edges.dst).union_all(edges).distinct()

    return edges.iterate(grow)


def walks(edges: Collection, length: int) -> Collection:
    """Walks of up to `length` edges, as often as there are such walks: (src, dst)."""

    def grow(x: Collection) -> Collection:
        return x.join(edges, x.dst == edges.src).select(src=x.src, dst=edges.dst).union_all(edges)

    return edges.iterate(grow, max_rounds=length - 1, at_limit="stop")


def same_generation(parents: Collection) -> Collection:
    """Pairs with a common ancestor equally far away: (src, dst) of parents(src=child, dst=parent)."""
    p, q = parents.alias("p"), parents.alias("q")
    siblings = p.join(q, p.dst == q.dst).select(src=p.src, dst=q.src).distinct()

    def grow(x: Collection) -> Collection:
        up = p.join(x, p.dst == x.src).select(child=p.src, other=x.dst)
        down = up.join(q, up.other == q.dst).select(src=up.child, dst=q.src)
        return down.union_all(siblings).distinct()

    return siblings.iterate(grow)


def cheapest(edges: Collection, roots: Collection, order: str = "plain") -> Collection:
    """Lowest total weight from a root: (node, cost) of edges (src, dst, weight)."""
    start = roots.select(node=col.node, cost=lit(0))

    def relax(x: Collection) -> Collection:
        hop = x.join(edges, x.node == edges.src).select(node=edges.dst, cost=x.cost + edges.weight)
        return hop.union_all(start).group_by("node").agg(cost=col.cost.min())

    return start.iterate(relax, priority=None if order == "plain" else col.cost, queued=order == "queued")


def parity(edges: Collection) -> tuple[Collection, Collection]:
    """Pairs joined by an even, by an odd number of edges."""

    def bodies(even: Collection, odd: Collection) -> tuple[Collection, Collection]:
        def step(x: Collection) -> Collection:
            return x.join(edges, x.dst == edges.src).select(src=x.src, dst=edges.dst)

        return step(odd).distinct(), step(even).union_all(edges).distinct()

    return fixpoint(bodies, {"src": int, "dst": int}, {"src": int, "dst": int})


def peeled(edges: Collection) -> Collection:
    """A loop around SCC (depth 3): again and again add shortcuts over strong pairs, until the strong edges stay.

    x -> strong(x + {(a, c): (a, b), (b, c) strong in x}), which ends with the closure of the strong components.
    """

    def again(x: Collection) -> Collection:
        strong = strong_edges(x)
        s, t = strong.alias("s"), strong.alias("t")
        across = s.join(t, s.dst == t.src).select(src=s.src, dst=t.dst)
        return across.union_all(strong).distinct()

    return edges.iterate(again)


# ---- answers in plain Python


def _successors(edges: Iterable[Pair]) -> dict[int, set[int]]:
    found: dict[int, set[int]] = defaultdict(set)
    for a, b in edges:
        found[a].add(b)
    return found


def python_distances(edges: Iterable[Pair], roots: Iterable[int]) -> dict[int, int]:
    after = _successors(edges)
    found = dict.fromkeys(roots, 0)
    todo = list(found)
    for node in todo:
        for other in after[node]:
            if other not in found:
                found[other] = found[node] + 1
                todo.append(other)
    return found


def python_components(edges: Iterable[Pair]) -> dict[int, int]:
    both = [*edges, *((b, a) for a, b in edges)]
    return {node: min(python_distances(both, [node])) for node in {a for a, _ in both}}


def python_closure(edges: Iterable[Pair]) -> set[Pair]:
    edges = list(edges)
    after = _successors(edges)
    return {(a, b) for a in {a for a, _ in edges} for b in python_distances(edges, after[a])}


def python_strong_edges(edges: Iterable[Pair]) -> set[Pair]:
    paths = python_closure(edges)
    return {(a, b) for a, b in edges if (b, a) in paths}


def python_core(edges: Iterable[Pair], k: int) -> set[Pair]:
    left = set(edges)
    while True:
        degree = Counter(a for a, _ in left)
        kept = {(a, b) for a, b in left if degree[a] >= k and degree[b] >= k}
        if kept == left:
            return left
        left = kept


def python_cheapest(edges: Iterable[tuple[int, int, int]], roots: Iterable[int]) -> dict[int, int]:
    after: dict[int, list[Pair]] = defaultdict(list)
    for a, b, w in edges:
        after[a].append((b, w))
    found: dict[int, int] = {}
    heap = [(0, r) for r in roots]
    heapq.heapify(heap)
    while heap:
        cost, node = heapq.heappop(heap)
        if node not in found:
            found[node] = cost
            for other, w in after[node]:
                heapq.heappush(heap, (cost + w, other))
    return found


def python_walks(edges: Counter[Pair], length: int) -> Counter[Any]:
    total: Counter[Any] = Counter(edges)
    last = Counter(edges)
    for _ in range(length - 1):
        longer: Counter[Any] = Counter()
        for (a, b), n in last.items():
            for (c, d), m in edges.items():
                if b == c:
                    longer[a, d] += n * m
        total += longer
        last = longer
    return total
