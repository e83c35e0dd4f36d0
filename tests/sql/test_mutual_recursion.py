"""WITH MUTUALLY RECURSIVE is an iteration: compared, round by round, with SQLite.

The reference keeps a table for each query, empty at first, and computes them again and again in the order in which they
are written. Programs are random and may subtract, count and aggregate what they recurse over, so nearly all have
several fixed points, or none: which rows there are depends on the order of evaluation.
"""

from __future__ import annotations

import random
import sqlite3
from collections import Counter

import pytest

import everview as ev
from everview.session.local_shards import local_shards

NAMES = ("a", "b", "c")
MOST_ROUNDS = 25


def branch(rng: random.Random) -> str:
    """A query of columns x and y over the edges and the queries."""
    q, r = rng.choice(NAMES), rng.choice(NAMES)
    return rng.choice(
        (
            "SELECT x, y FROM e",
            "SELECT x, y FROM e",
            f"SELECT x, y FROM {q}",
            f"SELECT e.x, {q}.y FROM e, {q} WHERE e.y = {q}.x",
            f"SELECT l.x, r.y FROM {q} AS l, {r} AS r WHERE l.y = r.x",
            f"SELECT x, min(y) AS y FROM {q} GROUP BY x",
            f"SELECT x, count(*) AS y FROM {q} GROUP BY x",
            f"SELECT max(x) AS x, 3 AS y FROM {q}",
            f"SELECT x, y FROM {q} WHERE x NOT IN (SELECT y FROM {r} WHERE y IS NOT NULL)",
            f"SELECT {q}.x, coalesce(e.y, 0) AS y FROM {q} LEFT JOIN e ON e.x = {q}.y",
            f"SELECT x, y FROM (SELECT DISTINCT x, y FROM {q} WHERE x > 0 ORDER BY x DESC, y DESC LIMIT 2) AS t",
        )
    )


def body(rng: random.Random) -> str:
    """One query: branches, of which the first does not need the others to have rows."""
    parts = ["SELECT x, y FROM e WHERE x <> y", *(branch(rng) for _ in range(rng.randint(1, 2)))]
    if rng.random() < 0.3:
        parts[0] = branch(rng)
    joined = parts[0]
    for part in parts[1:]:
        joined = f"SELECT x, y FROM ({joined}) AS t {rng.choice(('UNION', 'UNION', 'EXCEPT'))} {part}"
    return joined


def iterated(queries: dict[str, str], edges: Counter[tuple[int, int]], rounds: int) -> list[Counter[tuple[int, int]]]:
    """What each query has after some rounds, in the order in which they are written."""
    base = sqlite3.connect(":memory:")
    base.execute("CREATE TABLE e (x, y)")
    base.executemany("INSERT INTO e VALUES (?, ?)", edges.elements())
    for name in queries:
        base.execute(f"CREATE TABLE {name} (x, y)")
    for _ in range(rounds):
        for name, query in queries.items():
            rows = base.execute(query).fetchall()
            base.execute(f"DELETE FROM {name}")
            base.executemany(f"INSERT INTO {name} VALUES (?, ?)", rows)
    return [Counter(base.execute(f"SELECT x, y FROM {name}").fetchall()) for name in queries]


@pytest.mark.parametrize("runtime", ["embedded", "sharded"])
@pytest.mark.parametrize("seed", range(12))
def test_rounds_are_those_of_the_text(runtime: str, seed: int) -> None:
    rng = random.Random(seed)
    queries = {name: body(rng) for name in NAMES}
    rounds = rng.randint(1, MOST_ROUNDS)
    db = ev.connect() if runtime == "embedded" else local_shards(2)
    db.sql("CREATE TABLE e (x int NOT NULL, y int NOT NULL)")
    listed = ", ".join(f"{name} (x bigint, y bigint) AS ({query})" for name, query in queries.items())
    texts = [
        f"WITH MUTUALLY RECURSIVE (RETURN AT RECURSION LIMIT {rounds}) {listed} SELECT x, y FROM {name}"
        for name in NAMES
    ]
    views = [db.sql(f"CREATE VIEW v{i} AS {text}") for i, text in enumerate(texts)]
    edges: Counter[tuple[int, int]] = Counter()
    for _ in range(5):
        added = [(rng.randrange(4), rng.randrange(4)) for _ in range(rng.randint(0, 3))]
        gone = rng.sample(list(edges.elements()), min(edges.total(), rng.randint(0, 2)))
        edges = edges + Counter(added) - Counter(gone)
        with db.transaction():
            db["e"].insert(added)
            db["e"].delete(gone)
        want = iterated(queries, edges, rounds)
        for view, text, rows in zip(views, texts, want, strict=True):
            assert Counter(view.rows()) == rows, text
        assert Counter(db.sql(texts[-1]).rows()) == want[-1], texts[-1]


COMPONENTS = """
    WITH MUTUALLY RECURSIVE
        inside (x int, y int) AS (
            SELECT * FROM e EXCEPT ALL SELECT * FROM later
            UNION ALL
            SELECT e.x, e.y FROM e, forward AS f, forward AS g, back AS h, back AS i
            WHERE e.x = f.n AND e.y = g.n AND e.x = h.n AND e.y = i.n AND f.l = g.l AND h.l = i.l),
        forward (n int, l int) AS (
            WITH MUTUALLY RECURSIVE label (n int, l int) AS (
                SELECT y, min(l) FROM (
                    SELECT y, y AS l FROM e UNION ALL SELECT i.y, label.l FROM inside AS i, label WHERE i.x = label.n
                ) AS t GROUP BY y)
            SELECT * FROM label),
        back (n int, l int) AS (
            WITH MUTUALLY RECURSIVE label (n int, l int) AS (
                SELECT x, min(l) FROM (
                    SELECT x, x AS l FROM e UNION ALL SELECT i.x, label.l FROM inside AS i, label WHERE i.y = label.n
                ) AS t GROUP BY x)
            SELECT * FROM label),
        later (x int, y int) AS (SELECT * FROM e)
    SELECT n, l FROM forward UNION SELECT n, l FROM back
"""


@pytest.mark.parametrize("runtime", ["embedded", "sharded"])
def test_a_query_behind_its_reader_is_read_a_round_late(runtime: str) -> None:
    """Strong components, as Materialize's users write them: `later` is not recursive, and was there from the beginning,
    so that no edge ever spread a label.
    """
    db = ev.connect() if runtime == "embedded" else local_shards(2)
    db.sql("CREATE TABLE e (x int NOT NULL, y int NOT NULL)")
    view = db.sql(f"CREATE VIEW c AS {COMPONENTS}")
    db["e"].insert([(i, i + 1) for i in range(10)] + [(4, 2), (8, 6)])
    alone = {n: n for n in range(11)}
    assert dict(view.rows()) == alone | {3: 2, 4: 2, 7: 6, 8: 6}
    db["e"].delete([(4, 2)])
    assert dict(view.rows()) == alone | {7: 6, 8: 6}
    db["e"].insert([(10, 5)])
    assert dict(view.rows()) == alone | dict.fromkeys(range(5, 11), 5)


def test_what_only_grows_is_kept_as_before() -> None:
    """A least fixed point is the same in any order, so it need not be computed in rounds."""
    db = ev.connect()
    db.sql("CREATE TABLE e (x int NOT NULL, y int NOT NULL)")
    view = db.sql(
        "CREATE VIEW r AS WITH MUTUALLY RECURSIVE "
        "r (x int, y int) AS (SELECT * FROM s UNION SELECT r.x, e.y FROM r, e WHERE e.x = r.y), "
        "s (x int, y int) AS (SELECT x, y FROM e WHERE x > 0) SELECT x, y FROM r"
    )
    assert "loop: trees" in str(view.explain())
    db["e"].insert([(0, 1), (1, 2), (2, 3), (5, 6)])
    assert sorted(view.rows()) == [(1, 2), (1, 3), (2, 3), (5, 6)]


def test_what_never_comes_to_rest() -> None:
    """The statement fails at its limit, and nothing is changed."""
    db = ev.connect()
    db.sql("CREATE TABLE e (x int NOT NULL)")
    text = "WITH MUTUALLY RECURSIVE (ERROR AT RECURSION LIMIT 50) r (n int) AS (SELECT x FROM e EXCEPT TABLE r) "
    view = db.sql(f"CREATE VIEW v AS {text} SELECT n FROM r")
    with pytest.raises(ev.LoopError, match="E_LOOP_LIMIT"):
        db.sql("INSERT INTO e VALUES (1)")
    assert view.rows() == db["e"].rows() == []
