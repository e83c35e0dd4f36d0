"""Queries that other dialects have and PostgreSQL has not: kept as views, they equal DuckDB after every change."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from typing import Any

import duckdb
import pytest

import everview as ev
from everview.session.local_shards import local_shards

SETUP = "CREATE TABLE t (g int, x int, s text)"

QUERIES = (
    # aliases of outputs in HAVING, and in later outputs
    "SELECT g, count(*) AS n FROM t GROUP BY g HAVING n > 1",
    "SELECT g, sum(x) AS x FROM t GROUP BY g HAVING x > 2",
    "SELECT g, sum(x) AS x FROM t GROUP BY g HAVING sum(x) > 2",
    "SELECT g AS k, max(s) AS s FROM t GROUP BY k HAVING k > 1 AND s > 'a'",
    "SELECT sum(x) AS g FROM t GROUP BY CUBE (g, s) HAVING g > 1",
    "SELECT g + 1 AS h, h * 2 AS k, k - h AS d FROM t",
    "SELECT x AS g, g + 1 AS k FROM t",
    "SELECT s, sum(x) AS a, count(*) AS n, a + n AS b FROM t GROUP BY s",
    "SELECT s, row_number() OVER (ORDER BY s, x, g) AS n, n * 2 AS m FROM t",
    # lists that end with a comma, ORDER BY ALL, VALUES
    "SELECT g, x, FROM t",
    "SELECT x, g FROM t ORDER BY ALL LIMIT 3",
    "SELECT x, g FROM t UNION ALL SELECT g, x FROM t ORDER BY ALL DESC LIMIT 4",
    "SELECT col0, t.s FROM (VALUES (1, 'one'), (2, 'two')) JOIN t ON t.g = col0",
    "FROM t SELECT g, count(*) GROUP BY g",
    # PIVOT and UNPIVOT
    "SELECT * FROM t PIVOT (sum(x) FOR g IN (1, 2))",
    "SELECT * FROM (SELECT g, x FROM t) PIVOT (sum(x) FOR g IN (1, 2))",
    "SELECT * FROM t PIVOT (sum(x) AS total, count(*) AS n FOR g IN (1, 2))",
    "SELECT p.one, p.\"b\" FROM t PIVOT (max(x) FOR s IN ('a' AS one, 'b')) AS p WHERE p.g = 1",
    "SELECT * FROM t PIVOT (count(*) FOR s IN ('a', 'b') GROUP BY g)",
    "SELECT * FROM t PIVOT (min(x) FOR s IN ('a', 'b') g IN (1, 2))",
    "SELECT k FROM t PIVOT (sum(x) FOR g IN (1, 2)) AS p (k, one, two)",
    "SELECT * FROM t UNPIVOT (v FOR n IN (g, x))",
    "SELECT n, count(*) FROM t UNPIVOT INCLUDE NULLS (v FOR n IN (g AS first, x)) AS u GROUP BY n",
)


def _texts(rows: list[tuple[Any, ...]]) -> Counter[tuple[str | None, ...]]:
    return Counter(tuple(None if v is None else str(v) for v in row) for row in rows)


@pytest.mark.parametrize("shards", [0, 2])
def test_views_equal_duckdb(shards: int) -> None:
    r, oracle = random.Random(shards), duckdb.connect()
    with local_shards(shards=shards) if shards else ev.connect() as db:
        for session in (db, oracle):
            session.sql(SETUP)
        db.sql("SET dialect = 'duckdb'")
        for i, text in enumerate(QUERIES):
            db.sql(f"CREATE VIEW v{i} AS {text}")
        for _ in range(6):
            values = [(r.choice((1, 2, 3, None)), r.choice((1, 2, 3, None)), r.choice("abc")) for _ in range(3)]
            told = ", ".join(
                f"({'NULL' if g is None else g}, {'NULL' if x is None else x}, '{s}')" for g, x, s in values
            )
            for text in (f"INSERT INTO t VALUES {told}", f"DELETE FROM t WHERE x = {r.choice((1, 2, 3))}"):
                db.sql(text)
                oracle.sql(text)
                for i, query in enumerate(QUERIES):
                    wanted = _texts(oracle.sql(query).fetchall())
                    assert _texts(db[f"v{i}"].rows()) == wanted, query
                    assert _texts(db.sql(query).rows()) == wanted, query
        for i, query in enumerate(QUERIES):
            if query.startswith("SELECT * FROM"):  # others are named by each in its own way
                assert list(db[f"v{i}"].schema()) == oracle.sql(query).columns, query


@pytest.fixture
def db() -> Iterator[ev.Session]:
    with ev.connect() as session:
        session.sql(f"{SETUP}; INSERT INTO t VALUES (1, 1, 'a'), (1, 2, 'b'), (2, 3, 'c'), (2, NULL, 'a')")
        yield session


@pytest.mark.parametrize(
    ("dialect", "text", "columns", "rows"),
    [
        (
            "spark",
            "SELECT g, s, count(*) FROM t GROUP BY g, s GROUPING SETS (g)",
            ["g", "s", "count"],
            [(1, None, 2), (2, None, 2)],
        ),
        # Spark shows NULL for a count of nothing, and names columns otherwise
        (
            "spark",
            "SELECT * FROM t PIVOT (count(x) FOR s IN ('a', 'z'))",
            ["g", "a", "z"],
            [(1, 1, None), (2, 0, None)],
        ),
        (
            "spark",
            "SELECT * FROM (SELECT g, x FROM t) PIVOT (sum(x) AS a, max(x) AS b FOR g IN (1 AS one, 2))",
            ["one_a", "one_b", "2_a", "2_b"],
            [(3, 2, 3, 3)],
        ),
        ("spark", "SELECT * FROM t PIVOT (sum(x) FOR (g, s) IN ((1, 'a'), (2, 'c') AS k))", ["1_a", "k"], [(1, 3)]),
        (
            "spark",
            "SELECT * FROM t UNPIVOT ((a, b) FOR n IN ((g, x) AS gx)) WHERE s = 'b'",
            ["s", "n", "a", "b"],
            [("b", "gx", 1, 2)],
        ),
        ("spark", "SELECT col1 FROM VALUES (1), (2)", ["col1"], [(1,), (2,)]),
        # BigQuery puts the name behind the value, and the aggregate's alias in front
        (
            "bigquery",
            "SELECT * FROM t UNPIVOT (v FOR n IN (x)) WHERE s = 'b'",
            ["g", "s", "v", "n"],
            [(1, "b", 2, "x")],
        ),
        (
            "bigquery",
            "SELECT * FROM (SELECT g, x FROM t) PIVOT (sum(x) AS n FOR g IN (1, 2 AS two))",
            ["n_1", "n_two"],
            [(3, 3)],
        ),
        ("snowflake", "SELECT k, a FROM t PIVOT (max(x) FOR s IN ('a')) AS p (k, a)", ["k", "a"], [(1, 1), (2, None)]),
        ("snowflake", "SELECT x.s FROM t x ASOF JOIN t y MATCH_CONDITION (x.x > y.x) ON x.g = y.g", ["s"], [("b",)]),
        ("mysql", "SELECT g, count(*) AS n FROM t GROUP BY g HAVING n > 1", ["g", "n"], [(1, 2), (2, 2)]),
    ],
)
def test_of_dialects(db: ev.Session, dialect: str, text: str, columns: list[str], rows: list[tuple[Any, ...]]) -> None:
    db.sql(f"SET dialect = '{dialect}'")
    view = db.sql(f"CREATE VIEW v AS {text}")
    found = db.sql(text)
    assert found.columns == columns
    assert _texts(found.rows()) == _texts(view.rows()) == _texts(rows)


@pytest.mark.parametrize(
    ("dialect", "text", "code", "words"),
    [
        ("spark", "SELECT * FROM t PIVOT (sum(y) FOR g IN (1))", "E_COLUMN", "there is no column y"),
        ("spark", "SELECT * FROM t PIVOT (sum(x) FOR (g, s) IN (1))", "E_WIDTH", "as many parts as FOR"),
        ("duckdb", "SELECT * FROM t UNPIVOT ((a, b) FOR n IN (g))", "E_WIDTH", "as many columns"),
        ("duckdb", "SELECT * FROM t PIVOT (sum(x) FOR g IN (1)) AS p (a, b, c)", "E_WIDTH", "p has 2 columns, not 3"),
        ("duckdb", "SELECT g, , x FROM t", "E_SYNTAX", "before or after this comma"),
        # in Spark a star inside a function is its columns, elsewhere t.* is a row
        ("spark", "SELECT count(t.*) FROM t", "E_UNSUPPORTED", "is its columns here"),
        ("hive", "SELECT count(DISTINCT t.*) FROM t", "E_UNSUPPORTED", "is its columns here"),
        ("spark", "SELECT array(t.*) FROM t", "E_UNSUPPORTED", "an array of all columns"),
        ("spark", "SELECT g, x, FROM t", "E_SYNTAX", "before or after this comma"),
    ],
)
def test_refused(db: ev.Session, dialect: str, text: str, code: str, words: str) -> None:
    db.sql(f"SET dialect = '{dialect}'")
    with pytest.raises(ev.PlanError, match=words) as caught:
        db.sql(text)
    assert caught.value.code == code and "line 1, column" in str(caught.value)
