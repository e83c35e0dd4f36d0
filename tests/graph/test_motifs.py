"""Motifs against all ways to place a pattern's corners, under inserts and deletes."""

from __future__ import annotations

import random
from itertools import permutations

import pytest

import everview as ev
from everview.graph import Graph
from everview.graph.motifs import PATTERNS

CUSTOM = {
    "path": (("a", "b"), ("b", "c"), ("c", "d")),
    "paw": (("a", "b"), ("b", "c"), ("a", "c"), ("c", "d")),
    "star": (("hub", "x"), ("hub", "y"), ("hub", "z")),
    "5-cycle": (("a", "b"), ("b", "c"), ("c", "d"), ("d", "e"), ("e", "a")),
}


def occurrences(edges: set[frozenset[int]], pattern: tuple[tuple[str, str], ...]) -> set[frozenset[frozenset[int]]]:
    """The sets of edges that the pattern's edges fall on."""
    corners = sorted({c for e in pattern for c in e})
    nodes = sorted({n for e in edges for n in e})
    found = set()
    for places in permutations(nodes, len(corners)):
        at = dict(zip(corners, places, strict=True))
        image = frozenset(frozenset((at[u], at[v])) for u, v in pattern)
        if image <= edges:
            found.add(image)
    return found


@pytest.mark.parametrize("kind", [int, str])
@pytest.mark.parametrize("name", [*PATTERNS, *CUSTOM])
def test_every_occurrence_once(name: str, kind: type) -> None:
    pattern = PATTERNS.get(name) or CUSTOM[name]
    rng = random.Random(name)
    db = ev.connect()
    table = db.table("e", {"src": kind, "dst": kind})
    view = db.view("motif", Graph(table).motif(name if name in PATTERNS else pattern))
    corners = sorted({c for e in pattern for c in e})
    rows: list[tuple[int, int]] = []
    seen = 0
    for _ in range(4):
        gone = rng.sample(rows, len(rows) // 3)
        new = [(rng.randrange(7), rng.randrange(7)) for _ in range(9)]
        with db.transaction():
            table.delete([(kind(a), kind(b)) for a, b in gone])
            table.insert([(kind(a), kind(b)) for a, b in new])
        for row in gone:
            rows.remove(row)
        rows += new
        edges = {frozenset(e) for e in rows if e[0] != e[1]}
        found = [dict(zip(corners, map(int, row), strict=True)) for row in view.rows()]
        images = [frozenset(frozenset((at[u], at[v])) for u, v in pattern) for at in found]
        assert len(images) == len(set(images))
        assert set(images) == occurrences(edges, pattern)
        seen += len(images)
    assert seen or name in ("5-clique", "house")


def test_cliques_are_joined_at_once() -> None:
    db = ev.connect()
    g = Graph(db.table("e", {"src": int, "dst": int}))
    assert "wco join of 6 inputs" in db.view("k4", g.motif("4-clique")).explain()
    assert "wco join of 3 inputs" in db.view("k3", g.triangles()).explain()


@pytest.mark.parametrize("pattern", ["rectangle", [], [("a", "a")], [("a", "b"), ("b", "a")], [("a", "b"), ("c", "d")]])
def test_what_is_no_pattern(pattern: object) -> None:
    db = ev.connect()
    g = Graph(db.table("e", {"src": int, "dst": int}))
    with pytest.raises(ev.PlanError, match="E_PATTERN"):
        g.motif(pattern)  # type: ignore[arg-type]
