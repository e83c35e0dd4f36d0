"""Rows of loops that are kept as trees: the way down from a row to its parent, and where there is none."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

import everview as ev
from everview import col
from everview.graph import Graph
from everview.why import loop_shortcuts, steps
from tests.why.checker import check_why, contents_of

EDGES = [(0, 1, 5), (0, 1, 2), (1, 2, 1), (2, 3, 1), (3, 1, 1), (0, 4, 9), (4, 4, 1), (3, 5, 4), (4, 5, 3)]


def graph(db: Any) -> tuple[Any, Any]:
    edge = db.table("edge", {"src": int, "dst": int, "label": int})
    root = db.table("root", {"node": int})
    return edge, root


def bodies(edge: Any, root: Any) -> dict[str, Any]:
    """Ways to write down what is reachable."""
    near = edge.select("src", "dst")
    labelled = edge.filter(col.label < 9)
    return {
        "plain": root.iterate(
            lambda f: f.join(near, f.node == near.src).select(node=near.dst).union_all(root).distinct()
        ),
        "labels": root.iterate(
            lambda f: f.join(edge, f.node == edge.src).select(node=edge.dst).union_all(root).distinct()
        ),
        "other way round": root.iterate(
            lambda f: root.union_all(edge.join(f, edge.src == f.node).select(node=edge.dst)).distinct()
        ),
        "filtered": root.iterate(
            lambda f: f.join(labelled, f.node == labelled.src).select(node=labelled.dst).union_all(root).distinct()
        ),
        "computed": root.iterate(
            lambda f: f.join(edge, f.node == edge.src).select(node=edge.dst + 0).union_all(root).distinct()
        ),
    }


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Of every turn of a loop that is explained, whether it was one step."""
    seen: list[bool] = []

    def counted(*given: Any) -> Any:
        found = loop_shortcuts.turn(*given)
        seen.append(found is not None)
        return found

    monkeypatch.setattr(steps, "loop_shortcuts", SimpleNamespace(turn=counted))
    return seen


@pytest.mark.parametrize("name", ["plain", "labels", "other way round", "filtered", "computed"])
def test_every_row_has_the_same_reasons_as_in_rounds(name: str) -> None:
    found = {}
    for plan in (None, "rounds"):
        db = ev.connect()
        edge, root = graph(db)
        view = db.view("reach", bodies(edge, root)[name], plan=plan)
        edge.insert(EDGES)
        root.insert([(0,), (2,)])
        edge.delete([(0, 1, 2)])
        edge.insert([(0, 1, 3)])
        tables = contents_of(db)
        found[plan] = {row: check_why(view, row, tables) for row in view.rows()}
        if name in ("labels", "other way round"):
            assert ("edge", (0, 1, 3)) in found[plan][(1,)].leaves()
        db.close()
    assert found[None].keys() == found["rounds"].keys()


@pytest.mark.parametrize("name", ["plain", "labels", "other way round", "filtered", "computed"])
def test_plain_bodies_are_walked_straight_down(calls: list[bool], name: str) -> None:
    with ev.connect() as db:
        edge, root = graph(db)
        view = db.view("reach", bodies(edge, root)[name])
        edge.insert(EDGES)
        root.insert([(0,)])
        if name == "computed":
            assert len(view.why((5,)).leaves()) >= 3
        else:
            assert len(view.why((5,)).leaves()) == (5 if name == "filtered" else 3)
            assert calls and all(calls)


@pytest.mark.parametrize("name", ["bfs", "sssp", "wcc", "widest", "reach"])
def test_graphs_are_walked_straight_down(calls: list[bool], name: str) -> None:
    """Minima, sums and conditions on the way; parallel edges of which only one gives the value."""
    with ev.connect() as db:
        edge, root = graph(db)
        g = Graph(edge, weight="label")
        view = db.view("v", g.wcc() if name == "wcc" else getattr(g, name)(root))
        edge.insert([*EDGES, (0, 1, 7)])
        root.insert([(0,)])
        tables = contents_of(db)
        for row in view.rows():
            check_why(view, row, tables)
        if name != "widest":
            assert calls and all(calls)


def test_keys_that_are_null_join_nothing() -> None:
    db = ev.connect()
    edge = db.table("edge", {"src": int | None, "dst": int | None})
    root = db.table("root", {"node": int | None})
    view = db.view(
        "reach",
        root.iterate(lambda f: f.join(edge, f.node == edge.src).select(node=edge.dst).union_all(root).distinct()),
    )
    edge.insert([(1, None), (None, 2), (1, 3)])
    root.insert([(1,)])
    tables = contents_of(db)
    assert {row: len(check_why(view, row, tables).leaves()) for row in view.rows()} == {(1,): 1, (None,): 2, (3,): 2}
    db.close()
