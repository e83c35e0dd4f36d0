"""The generated inputs are what they say, and the programs that answers are checked against agree with each other."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

FOLDER = Path(__file__).resolve().parents[2] / "benchmarks"


@pytest.fixture
def modules(monkeypatch: pytest.MonkeyPatch) -> tuple[Any, Any]:
    monkeypatch.syspath_prepend(str(FOLDER))
    return importlib.import_module("graphs"), importlib.import_module("peers")


def test_a_change_replaces_an_edge_that_is_there(modules: tuple[Any, Any]) -> None:
    graph = modules[0].generate("tiny")
    present = {tuple(edge) for edge in graph.edges.tolist()}
    for old, new in zip(graph.stream.old.tolist(), graph.stream.new.tolist(), strict=True):
        present.remove(tuple(old))
        assert tuple(new) not in present
        present.add(tuple(new))
    after = graph.stream.after(graph.edges, len(graph.stream.slot))
    assert {tuple(edge) for edge in after.tolist()} == present


def test_generators_are_seeded(modules: tuple[Any, Any]) -> None:
    first, second = (modules[0].generate("tiny") for _ in range(2))
    assert np.array_equal(first.edges, second.edges)
    assert np.array_equal(first.stream.new, second.stream.new)


def test_peers_agree(modules: tuple[Any, Any]) -> None:
    graphs, peers = modules
    graph = graphs.generate("tiny")
    edges, nodes = graph.edges, graph.nodes
    reach = {k: v() for k, v in peers.reach_peers(edges, nodes, 0).items()}
    assert sorted(reach["igraph"]) == reach["scipy"].ravel().tolist() == sorted(reach["duckdb"]["node"].tolist())
    hops = {k: v() for k, v in peers.distance_peers(edges, nodes, 0).items()}
    from_duckdb = np.stack([hops["duckdb"]["node"], hops["duckdb"]["dist"]], axis=1)
    assert np.array_equal(peers.by_row(from_duckdb), hops["scipy"])
    component = {k: v() for k, v in peers.component_peers(edges, nodes).items()}
    from_duckdb = np.stack([component["duckdb"]["node"], component["duckdb"]["label"]], axis=1)
    assert np.array_equal(peers.by_row(from_duckdb), peers.components(edges, nodes))
    core = {k: v() for k, v in peers.core_peers(edges, nodes, 5).items()}
    inside = np.array(core["igraph"]) >= 5
    assert np.array_equal(core["numpy"], peers.by_row(edges[inside[edges].all(axis=1)]))
