"""Each algorithm of the graph library is kept by what suits it, without being told, and `explain` says what and why."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import everview as ev
from everview.graph import Graph

Made = Callable[[Graph, Any, Any], ev.Collection]

ALGORITHMS: dict[str, tuple[Made, str, str]] = {
    "reach": (lambda g, s, p: g.reach(s), "trees", "histories"),
    "bfs": (lambda g, s, p: g.bfs(s), "trees", "histories"),
    "sssp": (lambda g, s, p: g.sssp(s), "trees", "histories"),
    "distance": (lambda g, s, p: g.distance(p), "halves", "halves"),
    "widest": (lambda g, s, p: g.widest(s), "trees", "histories"),
    "within": (lambda g, s, p: g.within(3, s), "trees", "levels"),
    "k_hop": (lambda g, s, p: g.k_hop(s, 3), "trees", "histories"),
    "wcc": (lambda g, s, p: g.wcc(), "trees", "histories"),
    "scc": (lambda g, s, p: g.scc(), "components", "components"),
    "scc_edges": (lambda g, s, p: g.scc_edges(), "components", "components"),
    "rpq": (lambda g, s, p: g.rpq("a / b*"), "trees", "trees"),
    "label_propagation": (lambda g, s, p: g.label_propagation(3), "rounds", "rounds"),
    "pagerank": (lambda g, s, p: g.pagerank(4), "rounds", "histories"),
    "settled pagerank": (lambda g, s, p: g.pagerank(None), "rounds", "rounds"),
    "landmarks": (lambda g, s, p: g.landmarks(s), "trees", "histories"),
    "k_core": (lambda g, s, p: g.k_core(2), "rounds", "rounds"),
}
"""How it is kept in a graph that is fast, and in one that is lean."""

WHY_NOT = {
    ("label_propagation", "fast"): "its rounds are counted",
    ("label_propagation", "lean"): "its body is not the least or largest value for each key",
    ("pagerank", "fast"): "its rounds are counted",
}


@pytest.mark.parametrize("memory", ["fast", "lean"])
@pytest.mark.parametrize("name", ALGORITHMS)
def test_what_is_kept_is_said(name: str, memory: str) -> None:
    db = ev.connect()
    edge = db.table("edge", {"src": int, "dst": int, "w": int, "label": str})
    source, pair = db.table("source", {"node": int}), db.table("pair", {"a": int, "b": int})
    g = Graph(edge, weight="w", label="label", memory=memory)  # type: ignore[arg-type]
    made, *forms = ALGORITHMS[name]
    view = db.view("v", made(g, source, pair))
    lines = [line for line in view.explain().splitlines() if line.startswith("loop: ")]
    assert lines and all(", because " in line for line in lines)
    assert {line.split(":")[1].split(",")[0].strip() for line in lines} == {forms[memory == "lean"]}
    assert WHY_NOT.get((name, memory), "") in lines[0]
    view.drop()
    plain = db.view("plain", made(g, source, pair), plan="rounds").explain()
    assert "loop: rounds" in plain and "loop: trees" not in plain
