"""Every algorithm against recomputation at every time, while random edges, sources and pairs come and go."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest

from everview import Collection, col
from everview.graph import Graph
from everview.language.relation import relation_of
from tests.graph import reference as ref
from tests.graph.moving import INTS, STRINGS, World, moves, world
from tests.graph.reference import Rows, State

Build = Callable[[World], Collection]
Expect = Callable[[State], Rows]

DENSITY = (24, 10, 40)
"""Edges among 11 nodes: by seed."""

EXPRESSIONS = ["a", "a+ / b", "(a | ^b)*", "a / (b | c){1,2} / ^a?", ".{2}", "a* / . / ^.", "(a / b){2,}", "^(a / b+)"]
EXPRESSIONS += ["!a", "!(a | b)+", "!(a | ^b)", "^!(b | c) / a?", "a{,2} / !b", "(!a | b){,3}"]

# Named by node: the integers' order is the reference's, strings are ordered by hash.
ALIKE: dict[str, tuple[Build, Expect]] = {
    "reach": (lambda w: w.graph.reach(w.sources), ref.reach),
    "bfs": (lambda w: w.graph.bfs(w.sources), ref.bfs),
    "sssp": (lambda w: w.graph.sssp(w.sources), ref.sssp),
    "k_hop_0": (lambda w: w.graph.k_hop(w.sources, 0), lambda s: ref.bfs(s, 0)),
    "k_hop_2": (lambda w: w.graph.k_hop(w.sources, 2), lambda s: ref.bfs(s, 2)),
    "within_2": (lambda w: w.graph.within(2), lambda s: ref.within(s, 2)),
    "distance": (lambda w: w.graph.distance(w.pairs), ref.distance),
    "distance_in_2": (lambda w: w.graph.distance(w.pairs, 2), lambda s: ref.limited_distance(s, 2)),
    **{
        f"hop_distance_in_{most}": (
            lambda w, most=most: Graph(w.tables["edges"]).distance(w.pairs, most),  # type: ignore[misc]
            lambda s, most=most: ref.hop_distance(s, most),  # type: ignore[misc]
        )
        for most in (None, 0, 1, 3, 4)
    },
    "scc_edges": (lambda w: w.graph.scc_edges(), ref.scc_edges),
    "pagerank": (lambda w: w.graph.pagerank(4), lambda s: ref.pagerank(s, 4, (17, 20), 1_000_000)),
    "pagerank_settled": (
        lambda w: w.graph.pagerank(None, unit=1000),
        lambda s: ref.settled_pagerank(s, (17, 20), 1000),
    ),
    "pagerank_of_sources": (
        lambda w: w.graph.pagerank(3, 0.5, sources=w.sources, unit=1000),
        lambda s: ref.pagerank(s, 3, (1, 2), 1000, personal=True),
    ),
    "degree": (lambda w: w.graph.degree(), ref.degree),
    "in_degree": (lambda w: w.graph.in_degree(), lambda s: Counter({(n, i): 1 for n, _, i, _ in ref.degree(s)})),
    "out_degree": (lambda w: w.graph.out_degree(), lambda s: Counter({(n, o): 1 for n, _, _, o in ref.degree(s)})),
    "k_core_2": (lambda w: w.graph.k_core(2), lambda s: ref.k_core(s, 2)),
    "k_core_3": (lambda w: w.graph.k_core(3), lambda s: ref.k_core(s, 3)),
    "levels": (lambda w: w.graph.levels(), ref.levels),
    "clustering": (
        lambda w: w.graph.clustering().with_columns(coefficient=col.coefficient.round(12)),
        ref.clustering,
    ),
    **{
        f"rpq {x}": (lambda w, x=x: w.graph.rpq(x), lambda s, x=x: ref.rpq(s, x))  # type: ignore[misc]
        for x in EXPRESSIONS
    },
    "rpq from sources": (
        lambda w: w.graph.rpq("(a | b)* / ^c?", sources=w.sources),
        lambda s: ref.rpq(s, "(a | b)* / ^c?", from_sources=True),
    ),
}
BY_ORDER: dict[str, tuple[Build, Expect]] = {
    "wcc": (lambda w: w.graph.wcc(), ref.wcc),
    "scc": (lambda w: w.graph.scc(), ref.scc),
    "bipartite": (lambda w: w.graph.bipartite(), ref.bipartite),
    "two_colouring": (lambda w: w.graph.two_colouring(), ref.two_colouring),
    "label_propagation": (lambda w: w.graph.label_propagation(4), lambda s: ref.label_propagation(s, 4)),
    "triangles": (lambda w: w.graph.triangles(), ref.triangles),
    "spanning_forest": (lambda w: w.graph.spanning_forest(), ref.spanning_forest),
}


def check(
    w: World, build: Build, expect: Callable[[State], Any], seed: int, same: Callable[[Rows], Any] = lambda r: r
) -> None:
    """The view from the start, and one installed half-way, say at every time what recomputation says."""
    views = [w.db.view("early", build(w))]
    for number, seen in enumerate(moves(w, seed, 14, DENSITY[seed % len(DENSITY)])):
        if number == 5:
            views.append(w.db.view("late", build(w)))
        for time, state in seen.items():
            for view in views:
                if time >= relation_of(view).installed_at:
                    assert same(Counter(view.as_of(time).rows())) == expect(state), (number, time)


@pytest.mark.parametrize("name", ALIKE | BY_ORDER)
@pytest.mark.parametrize("seed", range(3))
def test_on_integers(name: str, seed: int) -> None:
    build, expect = (ALIKE | BY_ORDER)[name]
    check(world(INTS), build, expect, seed)


@pytest.mark.parametrize("name", ALIKE)
def test_on_strings(name: str) -> None:
    build, expect = ALIKE[name]
    check(world(STRINGS), build, expect, seed=7)


@pytest.mark.parametrize("name", ["wcc", "scc"])
def test_components_of_strings_are_named_by_a_member(name: str) -> None:
    def parts(found: Rows) -> set[frozenset[str]]:
        members: dict[str, set[str]] = {}
        for (node, component), n in found.items():
            assert n == 1
            members.setdefault(component, set()).add(node)
        assert all(component in held for component, held in members.items())
        return {frozenset(held) for held in members.values()}

    build, expect = BY_ORDER[name]

    def wanted(state: State) -> set[frozenset[str]]:
        return parts(expect(state))

    check(world(STRINGS), build, wanted, seed=8, same=parts)


def test_triangles_of_strings_come_once() -> None:
    check(
        world(STRINGS),
        BY_ORDER["triangles"][0],
        ref.triangles,
        seed=9,
        same=lambda found: Counter({tuple(sorted(row)): n for row, n in found.items()}),
    )


def test_forests_of_strings_weigh_what_kruskal_says() -> None:
    def weight(found: Rows) -> tuple[int, int]:
        return len(found), sum(w for _, _, w in found)

    check(
        world(STRINGS), BY_ORDER["spanning_forest"][0], lambda s: weight(ref.spanning_forest(s)), seed=10, same=weight
    )


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("nodes", [INTS, STRINGS], ids=["integers", "strings"])
@pytest.mark.parametrize("most", [None, 2])
def test_shortest_paths_are_paths_and_shortest(seed: int, nodes: tuple[Any, ...], most: int | None) -> None:
    w = world(nodes)
    path = w.db.view("path", w.graph.shortest_path(w.pairs, most))
    for seen in moves(w, seed, 12, 24):
        for time, state in seen.items():
            ways: dict[tuple[Any, Any], dict[int, Any]] = {}
            for source, target, step, node in path.as_of(time).rows():
                assert step not in ways.setdefault((source, target), {})
                ways[source, target][step] = node
            far = ref.distance(state) if most is None else ref.limited_distance(state, most)
            assert {(a, b): cost for a, b, cost in far} == {
                pair: cost_of(state, pair, way) for pair, way in ways.items()
            }


def cost_of(state: State, pair: tuple[Any, Any], way: dict[int, Any]) -> int:
    """The weight of a path, which must lead along edges from one node of the pair to the other."""
    nodes = [way[i] for i in sorted(way)]
    assert sorted(way) == list(range(len(way)))
    assert (nodes[0], nodes[-1]) == pair
    steps = pairwise(nodes)
    return sum(min(w for s, _, t, w in state.edges if (s, t) == step) for step in steps)
