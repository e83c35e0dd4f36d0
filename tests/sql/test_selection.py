"""Aggregate selection: paths without end of which only the best are read, after inserts and deletes."""

from __future__ import annotations

import random
from typing import Any

import pytest

import everview as ev
from everview import col
from everview.session.local_shards import local_shards
from tests.why.checker import own_ancestors

PATH = """WITH RECURSIVE path(src, dst, cost, length) AS (
    SELECT src, dst, cost, 1 FROM link
    UNION
    SELECT l.src, p.dst, l.cost + p.cost, p.length + 1 FROM link l JOIN path p ON l.dst = p.src)"""

BOTH = f"""{PATH},
    fewest AS (SELECT src, dst, min(length) AS length FROM path GROUP BY src, dst),
    least AS (SELECT src, dst, min(cost) AS cost FROM path GROUP BY src, dst)
    SELECT 'short' AS kind, p.src, p.dst, p.cost, p.length
    FROM path p JOIN fewest h ON p.src = h.src AND p.dst = h.dst AND p.length = h.length
    UNION ALL
    SELECT 'cheap', p.src, p.dst, p.cost, p.length
    FROM path p JOIN least c ON p.src = c.src AND p.dst = c.dst AND p.cost = c.cost"""
"""The thesis' shortestPath and cheapestPath (liu-2016 §3.1) over one recursion."""

ONLY_LEAST = f"{PATH} SELECT src, dst, min(cost) AS cost FROM path GROUP BY src, dst"

FROM_ONE = f"{PATH} SELECT dst, min(length) AS hops, min(cost) AS cost FROM path WHERE src = 0 GROUP BY src, dst"

CHEAP_ROUTES = f"""{PATH}, least AS (SELECT src, dst, min(cost) AS cost FROM path GROUP BY src, dst)
    SELECT p.src, p.dst, p.length FROM path p JOIN least c ON p.src = c.src AND p.dst = c.dst AND p.cost = c.cost
    WHERE p.length > 1"""

Edge = tuple[int, int, int]
Path = tuple[int, int, int, int]


def paths(edges: set[Edge], most: int) -> set[Path]:
    """All walks of so many edges; costs are positive, so the best of all walks are among those without a circle."""
    found = {(a, b, c, 1) for a, b, c in edges}
    last = found
    for _ in range(most - 1):
        last = {(a, d, c + cost, n + 1) for a, b, c in edges for b2, d, cost, n in last if b == b2}
        found = found | last
    return found


def best(rows: set[Path], column: int) -> set[Path]:
    least: dict[tuple[int, int], int] = {}
    for row in rows:
        least[row[:2]] = min(least.get(row[:2], row[column]), row[column])
    return {row for row in rows if row[column] == least[row[:2]]}


def expected(query: str, edges: set[Edge], nodes: int) -> list[tuple[Any, ...]]:
    every = paths(edges, nodes)
    short, cheap = best(every, 3), best(every, 2)
    if query == BOTH:
        return sorted([("short", *row) for row in short] + [("cheap", *row) for row in cheap])
    if query == ONLY_LEAST:
        return sorted({row[:3] for row in cheap})
    if query == CHEAP_ROUTES:
        return sorted({(a, b, n) for a, b, _, n in cheap if n > 1})
    hops = {row[:2]: row[3] for row in short}
    return sorted({(b, hops[a, b], c) for a, b, c, _ in cheap if a == 0})


@pytest.mark.parametrize("connect", [ev.connect, lambda: local_shards(3)], ids=["embedded", "shards"])
@pytest.mark.parametrize("query", [BOTH, ONLY_LEAST, FROM_ONE, CHEAP_ROUTES], ids=["both", "least", "one", "routes"])
def test_what_had_no_end_has_one(query: str, connect: Any) -> None:
    rng = random.Random(7)
    nodes = 5
    with connect() as db:
        db.sql("CREATE TABLE link (src int, dst int, cost int)")
        db.sql(f"CREATE MATERIALIZED VIEW v AS {query}")
        assert "loop: only the best rows" in db["v"].explain()
        edges: set[Edge] = set()
        for _ in range(12):
            gone = {e for e in edges if rng.random() < 0.3}
            new = {(rng.randrange(nodes), rng.randrange(nodes), rng.randrange(1, 4)) for _ in range(4)} - edges
            with db.transaction():
                db["link"].delete(sorted(gone))
                db["link"].insert(sorted(new))
            edges = (edges - gone) | new
            assert sorted(db["v"].rows()) == expected(query, edges, nodes)


def test_rows_of_the_best_are_explained_by_the_best() -> None:
    with ev.connect() as db:
        db.sql("CREATE TABLE link (src int, dst int, cost int)")
        db.sql(f"CREATE MATERIALIZED VIEW v AS {BOTH}")
        db.sql("INSERT INTO link VALUES (1, 2, 1), (2, 3, 1), (1, 3, 5), (3, 1, 1), (2, 2, 1)")
        view: Any = db["v"]
        for row in sorted(view.rows()):
            found = view.why(row)
            assert not own_ancestors(found) and found.leaves()
        assert view.why(("cheap", 1, 3, 2, 2)).leaves() == {("link", (1, 2, 1)), ("link", (2, 3, 1))}
        assert "min(cost) gives (1, 3, 2) instead" in str(view.why_not(("cheap", 1, 3, 5, 1)))
        assert float(view.probability(("short", 1, 3, 5, 1), {"link": 0.5})) == 0.5


def test_null_is_in_no_order() -> None:
    """Groups without any cost, and ends that are not known, stay as they were."""
    with ev.connect() as db:
        db.sql("CREATE TABLE link (src int, dst int, cost int)")
        db.sql(f"CREATE MATERIALIZED VIEW v AS {ONLY_LEAST}")
        db.sql(f"CREATE MATERIALIZED VIEW routes AS {BOTH}")
        db.sql("INSERT INTO link VALUES (1, 2, NULL), (2, 3, 4), (3, NULL, 1), (1, 3, 9), (4, 2, 1)")
        assert set(db["v"].rows()) == {
            (1, 2, None), (2, 3, 4), (3, None, 1), (1, 3, 9), (4, 2, 1), (2, None, 5), (1, None, 10), (4, 3, 5),
            (4, None, 6),
        }  # fmt: skip
        assert ("cheap", 1, 2, None, 1) not in db["routes"].rows()
        assert ("short", 1, 2, None, 1) in db["routes"].rows()


ENDING = "SELECT src, dst, cost, 1 FROM link UNION SELECT l.src, p.dst, {cost}, p.length + 1 FROM link l JOIN path p"

OTHERS = {
    "another condition": (f"{ENDING} ON l.dst = p.src WHERE p.length < 3", "l.cost + p.cost", "min(cost)"),
    "a value of two": (f"{ENDING} ON l.dst = p.src", "l.cost + p.cost * p.length", "min(cost)"),
    "a sum is read": (f"{ENDING} ON l.dst = p.src", "l.cost + p.cost", "sum(cost)"),
    "joined on the value": (f"{ENDING} ON l.dst = p.src AND l.cost = p.cost", "l.cost + p.cost", "min(cost)"),
    "worse values pass": (f"{ENDING} ON l.dst = p.src WHERE p.cost > 1", "l.cost + p.cost", "min(cost)"),
}


@pytest.mark.parametrize("name", OTHERS)
def test_what_reads_more_is_left_as_it_is(name: str) -> None:
    """On graphs without cycles, where they end; equal to the loop as it is written."""
    recursion, cost, read = OTHERS[name]
    recursion = recursion.format(cost=cost)
    query = (
        f"WITH RECURSIVE path(src, dst, cost, length) AS ({recursion}) SELECT src, dst, {read} FROM path GROUP BY 1, 2"
    )
    with ev.connect() as db:
        db.sql("CREATE TABLE link (src int, dst int, cost int)")
        db.sql(f"CREATE MATERIALIZED VIEW v AS {query}")
        assert "only the best rows" not in db["v"].explain()


def test_conditions_that_the_better_pass_are_fine() -> None:
    query = f"{PATH[:-1]} WHERE p.cost < 4) SELECT src, dst, min(cost) AS cost FROM path GROUP BY src, dst"
    with ev.connect() as db:
        db.sql("CREATE TABLE link (src int, dst int, cost int)")
        db.sql(f"CREATE MATERIALIZED VIEW v AS {query}")
        assert "only the best rows" in db["v"].explain()
        db.sql("INSERT INTO link VALUES (1, 2, 3), (2, 3, 3), (3, 1, 3)")
        # a path of cost 3 is made longer, one of cost 6 is not
        assert sorted(db["v"].rows()) == [(1, 2, 3), (1, 3, 6), (2, 1, 6), (2, 3, 3), (3, 1, 3), (3, 2, 6)]


@pytest.mark.parametrize("seed", range(4))
def test_the_largest_of_what_ends(seed: int) -> None:
    """The longest ways through graphs without cycles: equal to the loop as it is written."""
    rng = random.Random(seed)
    with ev.connect() as db:
        edge = db.table("edge", {"src": int, "dst": int, "weight": int})

        def step(p: Any) -> Any:
            longer = p.join(edge, p.dst == edge.src).select(src=p.src, dst=edge.dst, weight=p.weight + edge.weight)
            return edge.union_all(longer).distinct()

        longest = edge.iterate(step).group_by("src", "dst").agg(most=col.weight.max())
        chosen, written = db.view("chosen", longest), db.view("written", longest, plan="rounds")
        assert "only the best rows" in chosen.explain()
        edges: set[Edge] = set()
        for _ in range(6):
            gone = {e for e in edges if rng.random() < 0.3}
            new = {(a, a + rng.randrange(1, 4), rng.randrange(-2, 5)) for a in (rng.randrange(6) for _ in range(5))}
            with db.transaction():
                edge.delete(sorted(gone))
                edge.insert(sorted(new - edges))
            edges = (edges - gone) | new
            assert sorted(chosen.rows()) == sorted(written.rows())
