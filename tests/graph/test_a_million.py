"""A path and a star of a million nodes, in every form: no recursion, nothing that grows with the square."""

from __future__ import annotations

import numpy as np
import pytest

import everview as ev
from everview.graph import Graph

N = 1_000_000
pytestmark = pytest.mark.slow


def session() -> tuple[ev.Session, ev.Table, ev.Table, ev.Table]:
    db = ev.connect()
    edge, source = db.table("edge", {"src": int, "dst": int}), db.table("source", {"node": int})
    return db, edge, source, db.table("pair", {"a": int, "b": int})


def test_a_path() -> None:
    db, edge, source, pair = session()
    g, lean = Graph(edge), Graph(edge, memory="lean")
    hops, part, far = db.view("hops", g.bfs(source)), db.view("part", g.wcc()), db.view("far", g.distance(pair))
    short = db.view("short", lean.bfs(source))
    source.insert([(0,)])
    pair.insert([(0, N), (N, 0), (3, 5)])
    edge.insert(np.column_stack([np.arange(N), np.arange(N) + 1]))
    assert hops.lookup(N) == short.lookup(N) == [(N, N)] and part.lookup(N) == [(N, 0)]
    assert sorted(far.rows()) == [(0, N, N), (3, 5, 2)]
    edge.delete([(N // 2, N // 2 + 1)])
    assert hops.lookup(N) == short.lookup(N) == [] and part.lookup(N) == [(N, N // 2 + 1)]
    assert far.rows() == [(3, 5, 2)]
    edge.insert([(N // 2, N // 2 + 1), (0, N - 7)])
    assert hops.lookup(N) == short.lookup(N) == [(N, 8)] and part.lookup(N) == [(N, 0)]
    assert sorted(far.rows()) == [(0, N, 8), (3, 5, 2)]


def test_a_star() -> None:
    db, edge, source, pair = session()
    g, lean = Graph(edge), Graph(edge, memory="lean")
    hops, part, far = db.view("hops", g.bfs(source)), db.view("part", g.wcc()), db.view("far", g.distance(pair))
    short = db.view("short", lean.bfs(source))
    source.insert([(-1,)])
    pair.insert([(-1, 77), (77, -1), (-1, -1)])
    edge.insert(np.column_stack([np.zeros(N, dtype=np.int64), np.arange(N) + 1]))
    assert hops.rows() == short.rows() == [(-1, 0)] and part.lookup(N) == [(N, 0)]
    edge.insert([(-1, 0)])
    assert hops.lookup(N) == short.lookup(N) == [(N, 2)] and part.lookup(N) == [(N, -1)]
    assert sorted(far.rows()) == [(-1, -1, 0), (-1, 77, 2)]
    edge.delete([(-1, 0)])
    assert hops.rows() == short.rows() == [(-1, 0)] and part.lookup(N) == [(N, 0)]
    assert far.rows() == [(-1, -1, 0)]
