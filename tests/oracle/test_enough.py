"""Groups with so many members, asked for in a loop: one reduction that says nothing of groups that stay."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest

import everview as ev
from everview.expr.language import col, count
from everview.language.collection import Collection
from tests.oracle.harness import Runtime, random_steps
from tests.oracle.test_graphs import EDGE, SEEDS, edge, watch

Asked = Callable[[int], object]

ASKED: dict[str, tuple[Asked, int]] = {
    "two or more": (lambda n: col.n >= 2, 2),
    "more than two": (lambda n: col.n > 2, 3),
    "any": (lambda n: col.n >= -1, 1),
}
"""What is asked of a group's count; how many members it must have."""


def peeled(edges: Collection, asked: str) -> Collection:
    """The edges, as often as they are there, between nodes that have enough of these edges."""

    def peel(left: Collection) -> Collection:
        ends = left.select(node=left.src).union_all(left.select(node=left.dst))
        active = ends.group_by("node").agg(n=count()).filter(ASKED[asked][0](0)).select("node")
        source, target = active.alias("source"), active.alias("target")
        inner = edges.join(source, edges.src == source.node).join(target, edges.dst == target.node)
        return inner.select(src=edges.src, dst=edges.dst)

    return edges.iterate(peel)


def repeated(edges: Collection) -> Collection:
    """Edges whose pair is left twice, turned round: two key columns, and what is left alternates."""

    def peel(left: Collection) -> Collection:
        often = left.group_by("src", "dst").agg(n=count()).filter(col.n > 1).select("src", "dst")
        both = edges.join(often, (edges.src == often.src) & (edges.dst == often.dst))
        return both.select(src=edges.dst, dst=edges.src)

    return edges.iterate(peel, max_rounds=5, at_limit="stop")


def taken_away(edges: Collection) -> Collection:
    """A group's members become fewer than none from round to round."""

    def step(left: Collection) -> Collection:
        less = edges.union_all(left.select(src=left.dst, dst=left.src).negate())
        often = less.group_by("src").agg(n=count()).filter(col.n >= 1).select("src")
        return edges.join(often, edges.dst == often.src).select(src=edges.src, dst=edges.dst)

    return edges.iterate(step, max_rounds=4, at_limit="stop")


def python_peeled(edges: Counter, least: int) -> dict:
    left = Counter(edges)
    while True:
        degree: Counter = Counter()
        for (src, dst), n in left.items():
            degree[src] += n
            degree[dst] += n
        kept = Counter({e: n for e, n in left.items() if min(degree[e[0]], degree[e[1]]) >= least})
        if kept == left:
            return dict(left)
        left = kept


@pytest.mark.parametrize("asked", ASKED)
@pytest.mark.parametrize("seed", SEEDS)
def test_peeled_8_nodes_12_edges_10_steps(runtime: Runtime, seed: int, asked: str) -> None:
    steps = random_steps(seed, 10, {"edge": edge(8)}, first=8, target=12)
    now, got = watch(runtime, lambda t: peeled(t["edge"], asked), steps, {"edge": EDGE})
    assert got == python_peeled(now["edge"], ASKED[asked][1])


@pytest.mark.parametrize("build", [repeated, taken_away, lambda e: e.iterate(lambda x: peeled(x, "two or more"))])
@pytest.mark.parametrize("seed", SEEDS)
def test_other_loops_5_nodes_10_steps(runtime: Runtime, seed: int, build: Callable[[Collection], Collection]) -> None:
    watch(
        runtime,
        lambda t: build(t["edge"]),
        random_steps(seed, 10, {"edge": edge(5)}, first=8, target=14),
        {"edge": EDGE},
    )


@pytest.mark.parametrize("build", [lambda e: peeled(e, "two or more"), repeated, taken_away])
def test_it_is_one_reduction(build: Callable[[Collection], Collection]) -> None:
    with ev.connect() as db:
        explained = db.view("v", build(db.table("edge", EDGE))).explain()
        assert "or more by" in explained and "reduce count" not in explained


def test_counts_outside_of_loops_are_shared() -> None:
    with ev.connect() as db:
        t = db.table("edge", EDGE)
        counts = t.group_by("src").agg(n=count())
        db.view("counts", counts)
        assert "or more by" not in db.view("many", counts.filter(col.n >= 3).select("src")).explain()
