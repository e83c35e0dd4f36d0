"""Graphs over collections that are none, with columns, numbers and expressions that make no sense: the errors are ours.

What a method answers is made a view and gets an edge, so that what is wrong with a plan comes out too.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

import everview as ev
from everview.graph import Graph
from tests.misuse.calling import Call, Scene, methods, misuse, odd

EXPRESSIONS = [  # type: ignore[var-annotated]
    "", "a", "a/b", "a*", "(a", "a)", "|", "a{2,1}", "a{-1}", "a{99999999999999999999}", "a{,3}", "^", "^a", "!(a|b)",
    "!", "'", "'two words'", ".", "..", "a//b", "a{1000}", "\0", "\ud800", "a b", "*", "(((((((a)))))))", "(" * 300,
    "a|" * 200 + "a", None, 5, b"a", [],
]  # fmt: skip

OPTIONS: dict[str, list[Any]] = {
    "k": [0, 1, 2, -1, 2**63, 1.5, None, "2", True, float("nan"), []],
    "rounds": [0, 1, 3, None, -1, 1.5, "3", True, 2**70, float("inf")],
    "max_rounds": [0, 1, None, -1, 1.5, "3", True, 2**70],
    "max_hops": [0, 1, 2, None, -1, 1.5, "3", True, 2**70],
    "damping": [0, 1, 0.85, -1, 2, None, "0.85", float("nan"), float("inf"), True, []],
    "unit": [0, 1, 1000, -1, 1.5, None, "x", 2**63, True],
    "expression": EXPRESSIONS,
    "pattern": [
        "triangle", "diamond", "4-clique", "no such", "", [], [("a", "b")], [("a", "a")], [("a",)], [("a", "b", "c")],
        [(1, 2)], [("a", "b"), ("c", "d")], "ab", None, 5, [None], [("", "")], {"a": "b"}, ["ab", "bc"],
        iter([("a", "b")]), [(f"n{i}", f"n{i + 1}") for i in range(70)],
    ],
    "src": ["src", "dst", "w", "no such", "", None, 5, ["src"], ev.col.src],
    "dst": ["dst", "src", "w", "no such", "", None, 5, ["dst"]],
    "weight": ["w", "kind", "no such", "", 5, None, ["w"], ev.col.w],
    "label": ["kind", "w", "no such", "", 5, None, ["kind"]],
    "default": [1, None, "x", [], object()],
    "back": [True, False, None, "x"],
    "memory": ["fast", "lean", "no such", None, 5],
    "budget": ["1MB", "60kB", 0, -1, "", "x", None, 1.5, True, 2**70],
    "priority": [ev.col.node, ev.col.nope, 1, "node", None, -1],
    "at_limit": ["error", "stop", "no such", None, 5],
    "queued": [True, False, None, "x"],
    "body": [lambda x: x.distinct(), lambda x: None, lambda x: x, lambda: None, None, 5],
    "index": [None, 5, "index", ev.col.node],
    "many": [0, 1, 3, -1, None, 1.5, "3", True, 2**70],
    "landmarks": [0, 1, 3, -1, None, 1.5, "3", True],
    "pairs": [[], [(1, 2)], [(1, None)], [(1,)], [("a", "b")], [(2**63, 1)], None, 5, "ab", [None], iter([(1, 2)])],
    "what": ["sources", None, 5, ""],
    "name": ["component", "", None, 5, "node"],
}  # fmt: skip


class Graphs(Scene):
    """A session with graphs: of integers and of texts, with and without weights and labels."""

    each = 20

    def session(self) -> ev.Session:
        db = ev.connect()
        edge = db.table("edge", {"src": int, "dst": int, "w": int | None, "kind": str})
        road = db.table("road", {"src": str | None, "dst": str, "w": float})
        db.table("start", {"node": int})
        db.table("pairs", {"a": int, "b": int})
        edge.insert([(1, 2, 3, "a"), (2, 3, None, "b"), (3, 1, -1, "a")])
        self.graphs = [Graph(edge, weight="w", label="kind"), Graph(edge), Graph(road, weight="w")]
        return db

    def odd(self, rng: random.Random, parameter: str) -> Any:
        if parameter in OPTIONS and rng.random() < 0.9:
            return rng.choice(OPTIONS[parameter])
        tables: list[Any] = [self.db["start"], self.db["pairs"], self.db["road"], self.db["edge"].select("kind")]
        return rng.choice([odd(rng, self.db), rng.choice(tables)])

    def calls(self) -> Iterable[Call]:
        start, pairs, edge = self.db["start"], self.db["pairs"], self.db["edge"]
        for g in self.graphs:
            for name, args in {
                "reach": (start,), "bfs": (start,), "sssp": (start,), "k_hop": (start, 2), "within": (2,),
                "motif": ("triangle",), "distance": (pairs,), "shortest_path": (pairs,), "rpq": ("a/b",), "wcc": (),
                "scc": (), "scc_edges": (), "bipartite": (), "two_colouring": (), "pagerank": (3,),
                "label_propagation": (2,), "degree": (), "in_degree": (), "out_degree": (), "k_core": (2,),
                "triangles": (), "clustering": (), "levels": (), "spanning_forest": (), "hop": (start,),
                "nodes_of": (start, "x"), "pairs_of": (pairs, "x"), "weight_of": (1,), "order_key": (ev.col.node,),
                "widest": (start,), "landmarks": (start,), "busiest": (2,), "ask": ([(1, 3)],),
                "iterate": (start, lambda x: x.distinct()),
                "by_name": (start.select(node=start.node, label=start.node), "x"),
            }.items():  # fmt: skip
                yield Call(name, getattr(g, name), args, then=self._install)
        for _ in range(20):
            yield Call("Graph", Graph, (edge, "src", "dst"), then=self._use)
        yield from methods(self.graphs)

    def _use(self, graph: Graph) -> None:
        self._install(graph.wcc())

    def _install(self, answer: Any) -> None:
        if not isinstance(answer, ev.Collection):
            return
        view = self.db.view("made", answer)
        try:
            self.db["edge"].insert([(3, 4, 1, "b")])
            view.rows()
        finally:
            view.drop()

    def check(self) -> None:
        assert set(Counter(self.db["edge"].rows())) >= {(1, 2, 3, "a")}
        assert self.db.check() == []


def test_200_misused_graphs() -> None:
    assert misuse(1, 200, Graphs) == Counter()


@pytest.mark.parametrize(
    ("name", "args", "code"),
    [("iterate", ({}, lambda x: x), "E_TYPE"), ("ask", (5,), "E_TYPE"), ("ask", ([5],), "E_TYPE")],
)
def test_what_was_a_raw_error(name: str, args: tuple[Any, ...], code: str) -> None:
    scene = Graphs()
    with pytest.raises(ev.EverviewError, match=code):
        getattr(scene.graphs[1], name)(*args)


@pytest.mark.parametrize("size", [2**70, "9" * 400 + "GB", 0, -1, "", "many"])
def test_what_is_no_size(size: Any, tmp_path: Path) -> None:
    edge = ev.connect().table("e", {"src": int, "dst": int})
    for call in (lambda: Graph(edge, budget=size), lambda: ev.connect(tmp_path, memory=size)):
        with pytest.raises(ev.EverviewError, match="E_RANGE"):
            call()


def test_a_label_of_minus_signs_is_no_number() -> None:
    edge = ev.connect().table("e", {"src": int, "dst": int, "kind": int})
    with pytest.raises(ev.EverviewError, match="E_RPQ"):
        Graph(edge, label="kind").rpq("'--5'")


@pytest.mark.slow
@pytest.mark.long
def test_10000_misused_graphs() -> None:
    assert sum((misuse(seed, 1000, Graphs) for seed in range(2, 12)), Counter[str]()) == Counter()
