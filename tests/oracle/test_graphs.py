"""Recursive graph programs under random edge inserts and deletes: right at every time, by the oracle and by hand."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from everview.expr.language import col
from everview.language.collection import Collection
from everview.language.relation import relation_of
from tests.oracle import graphs
from tests.oracle.harness import Runtime, Scenario, ViewPlan, random_steps, run

EDGE = {"src": int, "dst": int}
NODE = {"node": int}
SEEDS = range(3)


def edge(nodes: int) -> Callable[[random.Random], tuple[int, int]]:
    return lambda source: (source.randrange(nodes), source.randrange(nodes))


def node(nodes: int) -> Callable[[random.Random], tuple[int]]:
    return lambda source: (source.randrange(nodes),)


def watch(
    runtime: Runtime, build: Callable[[Mapping[str, Any]], Collection], steps: list, schemas: Mapping[str, Any]
) -> tuple[dict[str, Counter], dict]:
    """Run with the view there from the start, dropped early, shared late, and in a second session installed late only.

    Gives the last contents of the tables and of the view.
    """
    seen: dict[str, Any] = {}

    def remember(tables: Mapping[str, Any]) -> Collection:
        seen.update(tables, view=build(tables))
        return seen["view"]

    views = [ViewPlan("early", remember), ViewPlan("gone", build, 0, 2), ViewPlan("late", build, 3)]
    oracle = run(Scenario(schemas, views, steps), runtime)
    last = oracle.tables(oracle.time)
    now = {name: Counter(last.get(relation_of(seen[name]).node.id, {})) for name in schemas}
    found = oracle.contents(relation_of(seen["view"]).node, oracle.time)
    run(Scenario(schemas, [ViewPlan("late", build, len(steps) // 2)], steps), runtime)
    return now, found


@pytest.mark.parametrize("seed", SEEDS)
def test_reach_12_nodes_25_edges_10_steps(runtime: Runtime, seed: int) -> None:
    steps = random_steps(seed, 10, {"edge": edge(12), "root": node(12)}, first=4, target=25)
    now, got = watch(runtime, lambda t: graphs.reach(t["edge"], t["root"]), steps, {"edge": EDGE, "root": NODE})
    assert got == {(n,): 1 for n in graphs.python_distances(now["edge"], [r for (r,) in now["root"]])}


@pytest.mark.parametrize("seed", SEEDS)
def test_distances_12_nodes_25_edges_10_steps(runtime: Runtime, seed: int) -> None:
    steps = random_steps(seed, 10, {"edge": edge(12), "root": node(12)}, first=3, target=25)
    now, got = watch(runtime, lambda t: graphs.distances(t["edge"], t["root"]), steps, {"edge": EDGE, "root": NODE})
    assert got == dict.fromkeys(graphs.python_distances(now["edge"], [r for (r,) in now["root"]]).items(), 1)


@pytest.mark.parametrize("prioritized", [False, True], ids=["plain", "prioritized"])
@pytest.mark.parametrize("seed", SEEDS)
def test_components_14_nodes_16_edges_10_steps(runtime: Runtime, seed: int, prioritized: bool) -> None:
    steps = random_steps(seed, 10, {"edge": edge(14)}, first=10, target=16)
    now, got = watch(runtime, lambda t: graphs.components(t["edge"], prioritized), steps, {"edge": EDGE})
    assert got == dict.fromkeys(graphs.python_components(list(now["edge"])).items(), 1)


@pytest.mark.parametrize("seed", range(5))
def test_strong_components_8_nodes_14_edges_8_steps(runtime: Runtime, seed: int) -> None:
    steps = random_steps(seed, 8, {"edge": edge(8)}, first=8, target=14)
    now, got = watch(runtime, lambda t: graphs.strong_edges(t["edge"].distinct()), steps, {"edge": EDGE})
    assert got == dict.fromkeys(graphs.python_strong_edges(now["edge"]), 1)


@pytest.mark.parametrize("k", [2, 3])
@pytest.mark.parametrize("seed", SEEDS)
def test_core_9_nodes_25_edges_10_steps(runtime: Runtime, seed: int, k: int) -> None:
    steps = random_steps(seed, 10, {"edge": edge(9)}, first=15, target=25)

    def build(t: Mapping[str, Any]) -> Collection:
        e = t["edge"].filter(col.src != col.dst)
        return graphs.core(e.union_all(e.select(src=e.dst, dst=e.src)).distinct(), k)

    now, got = watch(runtime, build, steps, {"edge": EDGE})
    both = {p for a, b in now["edge"] if a != b for p in ((a, b), (b, a))}
    assert got == dict.fromkeys(graphs.python_core(both, k), 1)


@pytest.mark.parametrize("seed", SEEDS)
def test_closure_9_nodes_14_edges_10_steps(runtime: Runtime, seed: int) -> None:
    steps = random_steps(seed, 10, {"edge": edge(9)}, first=8, target=14)
    now, got = watch(runtime, lambda t: graphs.closure(t["edge"]), steps, {"edge": EDGE})
    assert got == dict.fromkeys(graphs.python_closure(now["edge"]), 1)


@pytest.mark.parametrize("length", [2, 3, 5])
@pytest.mark.parametrize("seed", SEEDS)
def test_counted_walks_6_nodes_8_edges_8_steps(runtime: Runtime, seed: int, length: int) -> None:
    steps = random_steps(seed, 8, {"edge": edge(6)}, first=6, target=8)
    now, got = watch(runtime, lambda t: graphs.walks(t["edge"], length), steps, {"edge": EDGE})
    assert got == dict(graphs.python_walks(now["edge"], length))


@pytest.mark.parametrize("seed", SEEDS)
def test_same_generation_10_nodes_14_edges_8_steps(runtime: Runtime, seed: int) -> None:
    steps = random_steps(seed, 8, {"parent": edge(10)}, first=8, target=14)
    watch(runtime, lambda t: graphs.same_generation(t["parent"]), steps, {"parent": EDGE})


@pytest.mark.parametrize("order", ["plain", "prioritized", "queued"])
@pytest.mark.parametrize("seed", SEEDS)
def test_cheapest_paths_10_nodes_20_weighted_edges_10_steps(runtime: Runtime, seed: int, order: str) -> None:
    def weighted(source: random.Random) -> tuple[int, int, int]:
        return source.randrange(10), source.randrange(10), source.randrange(7)

    steps = random_steps(seed, 10, {"edge": weighted, "root": node(10)}, first=3, target=20)
    now, got = watch(
        runtime,
        lambda t: graphs.cheapest(t["edge"], t["root"], order),
        steps,
        {"edge": {**EDGE, "weight": int}, "root": NODE},
    )
    assert got == dict.fromkeys(graphs.python_cheapest(now["edge"], [r for (r,) in now["root"]]).items(), 1)


@pytest.mark.parametrize("seed", SEEDS)
def test_even_and_odd_paths_7_nodes_8_edges_8_steps(runtime: Runtime, seed: int) -> None:
    steps = random_steps(seed, 8, {"edge": edge(7)}, first=6, target=8)

    def build(t: Mapping[str, Any]) -> Collection:
        even, odd = graphs.parity(t["edge"])
        return even.select("src", "dst", even=True).union_all(odd.select("src", "dst", even=False))

    watch(runtime, build, steps, {"edge": EDGE})


@pytest.mark.parametrize("seed", SEEDS)
def test_loop_around_strong_components_6_nodes_9_edges_5_steps(runtime: Runtime, seed: int) -> None:
    steps = random_steps(seed, 5, {"edge": edge(6)}, first=6, target=9, most=3)
    now, got = watch(runtime, lambda t: graphs.peeled(t["edge"].distinct()), steps, {"edge": EDGE})
    strong = graphs.python_strong_edges(now["edge"])
    assert got == dict.fromkeys(graphs.python_closure(strong), 1)


@pytest.mark.parametrize("seed", range(2))
def test_strong_components_30_nodes_60_edges_one_change_at_a_time(runtime: Runtime, seed: int) -> None:
    source = random.Random(seed)
    edges = list({(source.randrange(30), source.randrange(30)) for _ in range(60)})
    steps = [[{"edge": dict.fromkeys(edges, 1)}]]
    for _ in range(12):
        old = edges.pop(source.randrange(len(edges)))
        new = (source.randrange(30), source.randrange(30))
        edges.append(new)
        steps.append([{"edge": {old: -1, new: 1} if old != new else {}}])
    now, got = watch(runtime, lambda t: graphs.strong_edges(t["edge"].distinct()), steps, {"edge": EDGE})
    assert got == dict.fromkeys(graphs.python_strong_edges(now["edge"]), 1)
