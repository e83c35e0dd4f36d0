"""Questions asked once: the same answers with landmarks, with others, and with none, after every change."""

from __future__ import annotations

import random
from decimal import Decimal

import networkx as nx
import numpy as np
import pytest

import everview as ev
from everview.errors import InputError, PlanError
from everview.graph import Graph
from everview.graph.landmarks import Search


@pytest.mark.parametrize("weighted", [True, False])
@pytest.mark.parametrize("memory", ["fast", "lean"])
def test_answers_are_those_of_a_search_from_scratch(weighted: bool, memory: str) -> None:
    dice = random.Random(7)
    db = ev.connect()
    edge = db.table("edge", {"src": int, "dst": int, "w": int})
    mark = db.table("mark", {"node": int})
    g = Graph(edge, weight="w" if weighted else None, memory=memory)  # type: ignore[arg-type]
    index = db.view("index", g.landmarks(mark))
    there: list[tuple[int, int, int]] = []
    n = 12
    marks: set[int] = set()
    for number in range(40):
        with db.transaction():
            for _ in range(dice.choice((1, 3, 8))):
                if there and dice.random() < 0.4:
                    edge.delete([there.pop(dice.randrange(len(there)))])
                else:
                    there.append((dice.randrange(n), dice.randrange(n), dice.choice((0, 1, 2, 7))))
                    edge.insert([there[-1]])
            if number % 5 == 0:
                node = dice.randrange(n)
                (mark.delete if node in marks else mark.insert)([(node,)])
                marks ^= {node}
        known = nx.DiGraph()
        known.add_nodes_from(range(n))
        for a, b, w in there:
            cost = w if weighted else 1
            known.add_edge(a, b, w=min(cost, known[a][b]["w"]) if known.has_edge(a, b) else cost)
        far = dict(nx.all_pairs_dijkstra_path_length(known, weight="w"))
        pairs = [(dice.randrange(n), dice.randrange(n)) for _ in range(12)]
        wanted = [(a, b, far[a][b]) for a, b in pairs if b in far[a]]
        assert g.ask(pairs) == wanted
        assert g.ask(pairs, index=index) == wanted
        rows = {(l, v): (f, b) for l, v, f, b in index.rows()}
        assert rows == {
            (l, v): (far[l].get(v), far[v].get(l)) for l in marks for v in range(n) if v in far[l] or l in far[v]
        }


def test_landmarks_spare_most_of_the_search() -> None:
    dice = np.random.default_rng(2)
    db = ev.connect()
    edge = db.table("edge", {"src": int, "dst": int, "w": int})
    edge.insert(np.column_stack([dice.integers(0, 3000, (12_000, 2)), dice.integers(1, 100, (12_000, 1))]))
    g = Graph(edge, weight="w")
    index = db.view("index", g.landmarks(10))
    assert {row[0] for row in db["edge_landmarks"].rows()} == set(g.busiest(10))
    pairs = [(int(a), int(b)) for a, b in dice.integers(0, 3000, (30, 2))]
    plain, guided = Search(g, edge, None), Search(g, edge, index)
    assert plain.answers(pairs) == guided.answers(pairs)
    assert guided.settled * 10 < plain.settled


def test_strings_and_nodes_that_are_not_there() -> None:
    db = ev.connect()
    road, mark = db.table("road", {"src": str, "dst": str}), db.table("mark", {"node": str})
    road.insert([("a", "b"), ("b", "c"), ("c", "d"), ("x", "y")])
    g = Graph(road)
    index = db.view("index", g.landmarks(mark))
    mark.insert([("b",), ("nowhere",)])
    asked = [("a", "d"), ("a", "y"), ("a", "a"), ("nobody", "a"), ("a", "nobody"), ("nobody", "nobody")]
    wanted = [("a", "d", 3), ("a", "a", 0), ("nobody", "nobody", 0)]
    assert g.ask(asked) == wanted and g.ask(asked, index=index) == wanted
    assert g.busiest(2) == ["b", "d"] and len(g.busiest(100)) == 6


def test_what_cannot_be_asked() -> None:
    db = ev.connect()
    edge, pair = db.table("edge", {"src": int, "dst": int, "w": int}), db.table("pair", {"a": int, "b": int})
    edge.insert([(1, 2, 3), (2, 3, -1)])
    g = Graph(edge, weight="w")
    with pytest.raises(InputError, match="negative"):
        g.ask([(1, 3)])
    with pytest.raises(PlanError, match="values"):
        g.ask(pair)
    with pytest.raises(PlanError, match="landmarks"):
        g.ask([(1, 2)], index=db.view("v", edge))
    with pytest.raises(PlanError, match="neither"):
        Graph(edge.filter(edge.w > 0)).ask([(1, 2)])
    for kind in (float, Decimal):
        other = db.table(f"in_{kind.__name__}", {"src": int, "dst": int, "w": kind})
        other.insert([(1, 2, kind("1.5"))])
        with pytest.raises(PlanError, match="whole numbers"):
            Graph(other, weight="w").ask([(1, 2)])
    with pytest.raises(InputError, match="pair"):
        g.ask([(1, 2, 3)])  # type: ignore[list-item]
