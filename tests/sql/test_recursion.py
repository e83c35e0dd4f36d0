"""Recursion beyond what DuckDB can say: mutual, min inside, loops in loops; against networkx and plain Python."""

from __future__ import annotations

import random
from collections.abc import Iterator

import networkx as nx
import pytest

import everview as ev

Edges = dict[tuple[int, int], int]


def histories(seed: int, steps: int = 8) -> Iterator[tuple[ev.Session, Edges]]:
    """A session with a changing graph e(src, dst, w), and what it holds, after each change."""
    rng = random.Random(seed)
    db = ev.connect()
    table = db.table("e", {"src": int, "dst": int, "w": int})
    edges: Edges = {}
    yield db, edges
    for _ in range(steps):
        gone = rng.sample(sorted(edges), len(edges) // 3)
        new = {(rng.randrange(8), rng.randrange(8)): rng.randint(1, 9) for _ in range(6)}
        with db.transaction():
            table.delete([(*e, edges.pop(e)) for e in gone])
            new = {e: w for e, w in new.items() if e not in edges}
            table.insert([(*e, w) for e, w in new.items()])
        edges.update(new)
        yield db, edges


def test_shortest_paths_by_min_inside_the_recursion() -> None:
    text = """
        CREATE VIEW cheapest AS
        WITH RECURSIVE path(node, cost) AS (
            SELECT node, min(cost) FROM (
                SELECT 0 AS node, 0 AS cost
                UNION ALL
                SELECT e.dst, path.cost + e.w FROM path JOIN e ON e.src = path.node
            ) AS step GROUP BY node)
        SELECT node, cost FROM path"""
    for db, edges in histories(1):
        view = db["cheapest"] if "cheapest" in db else db.sql(text)
        graph = nx.DiGraph()
        graph.add_node(0)
        graph.add_weighted_edges_from((a, b, w) for (a, b), w in edges.items())
        assert sorted(view.rows()) == sorted(nx.single_source_dijkstra_path_length(graph, 0).items())


def test_mutual_recursion() -> None:
    text = """
        CREATE VIEW parity AS
        WITH RECURSIVE
            even(n) AS (SELECT 0 UNION SELECT e.dst FROM odd JOIN e ON e.src = odd.n),
            odd(n) AS (SELECT e.dst FROM even JOIN e ON e.src = even.n)
        SELECT n, 'even' AS p FROM even UNION ALL SELECT DISTINCT n, 'odd' FROM odd"""
    for db, edges in histories(2):
        view = db["parity"] if "parity" in db else db.sql(text)
        even, odd, size = {0}, set[int](), 0
        while len(even) + len(odd) != size:
            size = len(even) + len(odd)
            odd |= {b for a, b in edges if a in even}
            even |= {b for a, b in edges if a in odd}
        assert sorted(view.rows()) == sorted([(n, "even") for n in even] + [(n, "odd") for n in odd])


def test_widest_path_by_max_and_least() -> None:
    text = """
        CREATE VIEW widest AS
        WITH RECURSIVE path(a, b, wide) AS (
            SELECT a, b, max(wide) FROM (
                SELECT src AS a, dst AS b, w AS wide FROM e
                UNION ALL
                SELECT path.a, e.dst, least(path.wide, e.w) FROM path JOIN e ON e.src = path.b
            ) AS step GROUP BY a, b)
        SELECT a, b, wide FROM path"""
    for db, edges in histories(3):
        view = db["widest"] if "widest" in db else db.sql(text)
        best = dict(edges)
        for k in range(8):
            for i in range(8):
                for j in range(8):
                    if (i, k) in best and (k, j) in best:
                        best[i, j] = max(best.get((i, j), 0), min(best[i, k], best[k, j]))
        assert sorted(view.rows()) == sorted((a, b, w) for (a, b), w in best.items())


def test_a_recursion_inside_a_recursion() -> None:
    """Nodes reached from 0 where every step may follow any path of light edges: the inner loop depends on the outer."""
    text = """
        CREATE VIEW far AS
        WITH RECURSIVE far(n) AS (
            SELECT 0
            UNION
            SELECT near.n FROM (
                WITH RECURSIVE near(n) AS (
                    SELECT n FROM far UNION SELECT e.dst FROM near JOIN e ON e.src = near.n WHERE e.w < 5)
                SELECT n FROM near) AS near
            UNION
            SELECT e.dst FROM far JOIN e ON e.src = far.n WHERE e.w > 6)
        SELECT n FROM far"""
    for db, edges in histories(4):
        view = db["far"] if "far" in db else db.sql(text)
        graph = nx.DiGraph((a, b) for (a, b), w in edges.items() if w < 5 or w > 6)
        graph.add_node(0)
        assert sorted(n for (n,) in view.rows()) == sorted({0} | nx.descendants(graph, 0))


def test_union_all_keeps_duplicates_and_fails_on_cycles() -> None:
    db = ev.connect()
    db.sql("CREATE TABLE e (src int, dst int)")
    view = db.sql(
        """
        CREATE VIEW walk AS
        WITH RECURSIVE w(n) AS (SELECT 1 UNION ALL SELECT e.dst FROM w JOIN e ON e.src = w.n) SELECT n FROM w"""
    )
    db.sql("INSERT INTO e VALUES (1, 2), (1, 2), (2, 3)")
    assert sorted(view.rows()) == [(1,), (2,), (2,), (3,), (3,)]
    with pytest.raises(ev.LoopError, match="E_LOOP_LIMIT"):
        db.sql("INSERT INTO e VALUES (3, 3)")
    assert sorted(view.rows()) == [(1,), (2,), (2,), (3,), (3,)]


@pytest.mark.parametrize("depth", [1, 5])
def test_a_chain_is_cut(depth: int) -> None:
    db = ev.connect()
    db.sql("CREATE TABLE e (src int, dst int); INSERT INTO e VALUES (0, 1), (1, 2), (2, 3), (3, 4), (4, 5), (5, 6)")
    view = db.sql(
        """
        CREATE VIEW reach AS
        WITH RECURSIVE r(n) AS (SELECT 0 UNION SELECT e.dst FROM r JOIN e ON e.src = r.n) SELECT n FROM r"""
    )
    db.sql(f"DELETE FROM e WHERE src = {depth}")
    assert sorted(view.rows()) == [(n,) for n in range(depth + 1)]
