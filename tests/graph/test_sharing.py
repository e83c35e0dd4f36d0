"""A graph's edges are indexed once in each direction, whatever is installed."""

from __future__ import annotations

from typing import Any

import everview as ev
from everview import col
from everview.graph import Graph

EDGES = [(i % 50, (i * i) % 61) for i in range(600)]


def indexes(db: ev.Session, size: int) -> list[dict[str, Any]]:
    """Arrangements outside loops that hold as many rows as there are edges."""
    return [a for a in db.stats()["arrangements"] if a["scope"] == "outside" and a["updates"] == size]


def install_walkers(db: ev.Session, g: Graph, source: ev.Table) -> None:
    """Everything that walks edges but does not need the simple graph."""
    for name, collection in {
        "reach": g.reach(source),
        "bfs": g.bfs(source),
        "k_hop": g.k_hop(source, 3),
        "wcc": g.wcc(),
        "scc": g.scc(),
        "bipartite": g.bipartite(),
        "rank": g.pagerank(3),
        "two steps": g.rpq(". / ^."),
    }.items():
        db.view(name, collection)


def test_eight_algorithms_share_two_indexes() -> None:
    db = ev.connect()
    edge, source = db.table("edge", {"src": int, "dst": int}), db.table("source", {"node": int})
    rows = sorted(set(EDGES))
    edge.insert(rows)
    install_walkers(db, Graph(edge), source)
    forwards, backwards = indexes(db, len(rows))
    assert forwards["name"] == "arrange edge" and forwards["readers"] >= 8
    assert backwards["name"] == "arrange by [1]" and backwards["readers"] >= 4


def test_a_view_with_weights_is_indexed_once_for_weighted_and_plain_walks() -> None:
    db = ev.connect()
    road = db.table("road", {"id": int, "a": int, "b": int, "km": int}, key="id")
    source = db.table("source", {"node": int})
    road.insert([(i, a, b, i % 7) for i, (a, b) in enumerate(EDGES)])
    edge = db.view("edge", road.filter(col.km < 6).select("a", "b", "km"))
    g = Graph(edge, src="a", dst="b", weight="km")
    size = indexes(db, len(set(edge.rows())))
    db.view("sssp", g.sssp(source))
    install_walkers(db, g, source)
    assert len(indexes(db, len(set(edge.rows())))) == len(size) + 1


def test_dropping_the_views_frees_the_index() -> None:
    db = ev.connect()
    edge, source = db.table("edge", {"src": int, "dst": int}), db.table("source", {"node": int})
    edge.insert(EDGES)
    before = len(db.stats()["arrangements"])
    install_walkers(db, Graph(edge), source)
    for name in db.views:
        db[name].drop()
    assert len(db.stats()["arrangements"]) == before
