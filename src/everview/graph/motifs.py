"""Motifs: every occurrence of a small pattern in the undirected simple graph, once.

A pattern is a list of edges between named corners. Its occurrences are the rows of one join, with an edge of the graph
for each edge of the pattern; such joins are mostly cyclic, so they are maintained worst-case optimally, without
intermediate results (see `everview.plan.multiway`).

*Symmetry breaking* (ammar-2023 §3.5): a triangle would be found six times, once for each naming of its corners. Corners
that the pattern's automorphisms exchange are ordered, `a < b`, so that one naming of each occurrence remains; if the
order of an edge's ends is known, each edge of the graph is needed in one direction only.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import combinations, permutations
from typing import TYPE_CHECKING, Any

from everview.errors import PlanError, did_you_mean
from everview.expr.language import col
from everview.language.collection import Collection

if TYPE_CHECKING:
    from everview.graph.graph import Graph

Edge = tuple[str, str]

PATTERNS: dict[str, tuple[Edge, ...]] = {
    "triangle": tuple(combinations("abc", 2)),
    "diamond": (("a", "b"), ("b", "c"), ("c", "d"), ("d", "a")),
    "4-clique": tuple(combinations("abcd", 2)),
    "house": (*combinations("abcd", 2), ("b", "e"), ("c", "e")),
    "5-clique": tuple(combinations("abcde", 2)),
}
"""Named patterns; diamond and house as in ammar-2023 §3.5."""

MOST_CORNERS = 8


def motif(g: Graph, pattern: str | Iterable[Edge]) -> Collection:
    """See `Graph.motif`."""
    edges = _edges(pattern)
    corners = sorted({corner for edge in edges for corner in edge})
    order = symmetry(edges)
    next_to = g.neighbours
    rising = next_to.filter(g.order_key(col.node) < g.order_key(col.other))
    found: Collection | None = None
    for u, v in _connected(edges):
        low, high = (v, u) if (v, u) in order else (u, v)
        known = (low, high) in order
        one = (rising if known else next_to).select(**{low: col.node, high: col.other})
        shared = [] if found is None else [c for c in (low, high) if c in found.schema()]
        found = one if found is None else found.join(one, shared)
    assert found is not None
    met = {frozenset(edge) for edge in edges}
    for u, v in combinations(corners, 2):
        if (u, v) in order or (v, u) in order:
            low, high = (u, v) if (u, v) in order else (v, u)
            if frozenset((u, v)) not in met:
                found = found.filter(g.order_key(col[low]) < g.order_key(col[high]))
        elif frozenset((u, v)) not in met:
            found = found.filter(col[u] != col[v])
    return found.select(*corners)


def symmetry(edges: Sequence[Edge]) -> set[tuple[str, str]]:
    """Pairs of corners (u, v) with u < v that leave one of every occurrence's namings.

    >>> sorted(symmetry(PATTERNS["triangle"]))
    [('a', 'b'), ('a', 'c'), ('b', 'c')]
    >>> sorted(symmetry([("a", "b"), ("b", "c")]))
    [('a', 'c')]
    """
    corners = sorted({corner for edge in edges for corner in edge})
    met = {frozenset(edge) for edge in edges}
    same = [dict(zip(corners, p, strict=True)) for p in permutations(corners)]
    same = [p for p in same if {frozenset((p[u], p[v])) for u, v in edges} == met]
    found: set[tuple[str, str]] = set()
    for corner in corners:
        found |= {(corner, p[corner]) for p in same if p[corner] != corner}
        same = [p for p in same if p[corner] == corner]
    return found


def _edges(pattern: str | Iterable[Edge]) -> list[Edge]:
    if isinstance(pattern, str):
        if pattern not in PATTERNS:
            raise PlanError("E_PATTERN", f"there is no pattern {pattern!r}", did_you_mean(pattern, PATTERNS))
        return list(PATTERNS[pattern])
    edges = _pairs(pattern)
    corners = {corner for edge in edges for corner in edge}
    if not edges or any(u == v for u, v in edges) or len({frozenset(e) for e in edges}) < len(edges):
        raise PlanError("E_PATTERN", f"{edges!r} is not a pattern", "give edges between different corners, each once")
    if len(corners) > MOST_CORNERS:
        raise PlanError("E_PATTERN", f"the pattern has {len(corners)} corners", f"{MOST_CORNERS} are the most")
    if len(_connected(edges)) < len(edges):
        raise PlanError("E_PATTERN", "the pattern is in pieces", "look for each piece, and join")
    return edges


def _pairs(pattern: Any) -> list[Edge]:
    """Explicitly given edges."""
    edges = list(pattern) if isinstance(pattern, Iterable) else [pattern]
    if not all(isinstance(e, tuple | list) and len(e) == 2 and all(isinstance(c, str) and c for c in e) for e in edges):
        raise PlanError("E_PATTERN", f"{pattern!r} is not a pattern", 'give edges between named corners: [("a", "b")]')
    return [(u, v) for u, v in edges]


def _connected(edges: Sequence[Edge]) -> list[Edge]:
    """The edges in an order in which each touches those before it, as far as they are connected."""
    found = [edges[0]]
    while True:
        seen = {corner for edge in found for corner in edge}
        following = next((e for e in edges if e not in found and set(e) & seen), None)
        if following is None:
            return found
        found.append(following)
