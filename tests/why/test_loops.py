"""Rows of loops: reachability, distances, components and others, however the loop is kept."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import pytest

import everview as ev
from everview import col, lit
from everview.graph import Graph
from everview.language.relation import relation_of
from everview.plan.nodes import Loop
from everview.why.explanation import Question
from everview.why.loop_state import Forest, Rounds
from everview.why.loops import Forward
from tests.oracle.reference import Evaluation
from tests.why.checker import check_why, contents_of, own_ancestors

NODES = 12


@pytest.fixture
def db() -> Iterator[ev.Session]:
    with ev.connect() as session:
        yield session


def graph_of(db: ev.Session, seed: int, edges: int = 22) -> tuple[Any, Any]:
    """A random graph with some nodes to start from, changed a few times."""
    rng = random.Random(seed)
    edge = db.table("edge", {"src": int, "dst": int, "w": int})
    root = db.table("root", {"node": int})
    root.insert([(0,), (5,)])
    rows = [(rng.randrange(NODES), rng.randrange(NODES), rng.randrange(1, 6)) for _ in range(edges)]
    edge.insert(rows)
    for row in rng.sample(rows, 5):
        edge.delete([row])
    edge.insert([(rng.randrange(NODES), rng.randrange(NODES), 1) for _ in range(3)])
    return edge, root


def reach(edge: Any, root: Any) -> Any:
    def step(x: Any) -> Any:
        return x.join(edge, x.node == edge.src).select(node=edge.dst).union_all(root).distinct()

    return root.iterate(step)


def distances(edge: Any, root: Any) -> Any:
    start = root.select(node=col.node, cost=lit(0))

    def step(x: Any) -> Any:
        hop = x.join(edge, x.node == edge.src).select(node=edge.dst, cost=x.cost + edge.w)
        return hop.union_all(start).group_by("node").agg(cost=col.cost.min())

    return start.iterate(step)


def pairs(edge: Any, root: Any) -> Any:
    """Transitive closure by doubling: two rows of earlier rounds make one."""
    given = edge.select(src=edge.src, dst=edge.dst)

    def step(x: Any) -> Any:
        y = x.alias("y")
        return x.join(y, x.dst == y.src).select(src=x.src, dst=y.dst).union_all(given).distinct()

    return given.iterate(step)


def labels(edge: Any, root: Any) -> Any:
    """The least node of each component."""
    both = edge.select(a=edge.src, b=edge.dst).union_all(edge.select(a=edge.dst, b=edge.src)).distinct()
    start = both.select(node=both.a, label=both.a).distinct()

    def step(x: Any) -> Any:
        moved = x.join(both, x.node == both.a).select(node=both.b, label=x.label)
        return moved.union_all(start).group_by("node").agg(label=col.label.min())

    return start.iterate(step)


def the_loop(view: Any) -> Loop:
    return next(n for n in relation_of(view).node.walk() if isinstance(n, Loop))


QUERIES = {"reach": reach, "distances": distances, "pairs": pairs, "labels": labels}


@pytest.mark.parametrize("plan", [None, "rounds"])
@pytest.mark.parametrize("query", QUERIES)
@pytest.mark.parametrize("seed", range(2))
def test_every_row_has_a_well_founded_derivation(db: ev.Session, query: str, plan: Any, seed: int) -> None:
    edge, root = graph_of(db, seed)
    view = db.view("v", QUERIES[query](edge, root), plan=plan)
    edge.insert([(3, 4, 2), (4, 9, 1)])
    contents = contents_of(db)
    evaluation = Evaluation(relation_of(view).node, contents)
    assert view.rows()
    for row in sorted(view.rows())[-8:]:
        assert not own_ancestors(check_why(view, row, contents, evaluation=evaluation))
        check_why(view, row, contents, kept=False, evaluation=evaluation)


@pytest.mark.parametrize(
    ("query", "plan", "kind"),
    [
        ("reach", None, Forest),
        ("distances", None, Forest),
        ("labels", None, Forest),
        ("reach", "rounds", Rounds),
        ("distances", "rounds", Rounds),
        ("pairs", "rounds", Rounds),  # else it is kept as another loop, of one row and an edge, and run again
    ],
)
def test_what_operators_know_is_used(db: ev.Session, query: str, plan: Any, kind: type) -> None:
    edge, root = graph_of(db, 1)
    view = db.view("v", QUERIES[query](edge, root), plan=plan)
    question = Question(view, None)
    loop = the_loop(view)
    used = question.histories.of(loop, {})
    assert type(used) is kind
    for row in view.rows():
        question.derivation(question.row(row))
    assert question.histories.of(loop, {}) is used, "it was given up"


def test_two_loops_of_one_kind_are_run_again(db: ev.Session) -> None:
    edge, root = graph_of(db, 1)
    back = edge.select(src=edge.dst, dst=edge.src, w=edge.w)
    one, two = reach(edge, root), reach(back, root)
    view = db.view("v", one.join(two, one.node == two.node).select(node=one.node), plan="rounds")
    question = Question(view, None)
    loops = {n for n in relation_of(view).node.walk() if isinstance(n, Loop)}
    assert all(type(question.histories.of(loop, {})) is Forward for loop in loops)
    for row in view.rows():
        check_why(view, row, contents_of(db))


@pytest.mark.parametrize("seed", range(3))
def test_strong_components(db: ev.Session, seed: int) -> None:
    edge, _ = graph_of(db, seed)
    view = db.view("scc", Graph(edge, src="src", dst="dst").scc())
    contents = contents_of(db)
    for row in view.rows()[:6]:
        check_why(view, row, contents)


@pytest.mark.parametrize("seed", range(3))
def test_shortest_paths_of_the_library(db: ev.Session, seed: int) -> None:
    edge, root = graph_of(db, seed)
    graph = Graph(edge, src="src", dst="dst", weight="w")
    for name, made in {"sssp": graph.sssp(root), "bfs": graph.bfs(root), "wcc": graph.wcc()}.items():
        view = db.view(name, made)
        contents = contents_of(db)
        for row in view.rows():
            assert not own_ancestors(check_why(view, row, contents))


def test_a_long_path_is_no_deep_recursion(db: ev.Session) -> None:
    edge = db.table("edge", {"src": int, "dst": int, "w": int})
    root = db.table("root", {"node": int})
    root.insert([(0,)])
    edge.insert([(i, i + 1, 1) for i in range(1000)])
    for plan in (None, "rounds"):
        view = db.view(f"v {plan}", reach(edge, root), plan=plan)
        found = view.why((1000,))
        assert len(found.leaves()) == 1001
        assert len(str(found).splitlines()) == 2002
        found.to_dict()
