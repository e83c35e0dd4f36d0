"""MERGE, rows of assignments, and WITH queries that change rows; MERGE against DuckDB with random statements."""

from __future__ import annotations

import random

import duckdb
import pytest

import everview as ev
from everview.session.local_shards import local_shards


@pytest.fixture(params=[0, 2], ids=["embedded", "shards"])
def db(request: pytest.FixtureRequest) -> ev.Session:
    session = local_shards(shards=request.param) if request.param else ev.connect()
    session.sql("CREATE TABLE t (a int PRIMARY KEY, b int); CREATE TABLE s (a int, b int)")
    session.sql("INSERT INTO t VALUES (1, 1), (2, 2), (3, 3), (9, 9)")
    session.sql("INSERT INTO s VALUES (1, 10), (2, 20), (4, 40), (5, 1)")
    session.sql("CREATE VIEW total AS SELECT count(*) AS n, sum(b) AS b FROM t")
    return session


def test_merge(db: ev.Session) -> None:
    before = db.time
    gone = db.sql("""
        MERGE INTO t USING s ON t.a = s.a
        WHEN MATCHED AND s.b > 10 THEN DELETE
        WHEN MATCHED THEN UPDATE SET b = t.b + s.b
        WHEN NOT MATCHED AND s.b > 1 THEN INSERT (a, b) VALUES (s.a, s.b)
        WHEN NOT MATCHED BY SOURCE AND t.a = 9 THEN UPDATE SET b = 0
        RETURNING t.a, t.b
    """)
    assert sorted(gone.rows()) == [(1, 11), (2, 2), (4, 40), (9, 0)]
    assert sorted(db["t"].rows()) == [(1, 11), (3, 3), (4, 40), (9, 0)]
    assert db["total"].rows() == [(4, 54)] and db.time == before + 1
    db.sql("WITH s AS (SELECT 3 AS a) MERGE INTO t AS x USING s ON x.a = s.a WHEN MATCHED THEN DELETE")
    assert sorted(db["t"].rows()) == [(1, 11), (4, 40), (9, 0)]


@pytest.mark.parametrize(
    ("text", "code", "says"),
    [
        ("USING (SELECT 3 AS a UNION ALL SELECT 3) q ON t.a = q.a WHEN MATCHED THEN DELETE", "E_AMBIGUOUS", "twice"),
        ("USING s ON t.a = s.a WHEN MATCHED THEN DELETE RETURNING *", "E_UNSUPPORTED", "columns of both"),
        ("USING s ON t.a = s.a WHEN MATCHED THEN INSERT VALUES (1, 2)", "E_SYNTAX", "only rows that are not matched"),
        ("USING s ON t.a = s.a WHEN NOT MATCHED THEN INSERT DEFAULT VALUES", "E_NULL", "not allowed"),
        ("USING s ON t.a = s.a WHEN NOT MATCHED THEN INSERT (DEFAULT)", "E_UNSUPPORTED", "VALUES"),
        ("USING s ON t.a = s.a WHEN NOT MATCHED AND s.x > 1 THEN DO NOTHING", "E_COLUMN", "s.x"),
        ("USING s ON t.a = s.a WHEN NOT MATCHED THEN INSERT (a) VALUES (1, 2)", "E_WIDTH", "2 values for 1"),
        ("USING s ON t.a = s.a WHEN NOT MATCHED THEN INSERT VALUES (9, 2)", "E_KEY", "key 9"),
        ("USING s ON t.a = s.x WHEN MATCHED THEN DELETE", "E_COLUMN", "s.x"),
    ],
)
def test_what_is_wrong_with_a_merge_changes_nothing(db: ev.Session, text: str, code: str, says: str) -> None:
    before = sorted(db["t"].rows())
    with pytest.raises(ev.EverviewError, match=says) as caught:
        db.sql(f"MERGE INTO t {text}")
    assert caught.value.code == code
    assert sorted(db["t"].rows()) == before


@pytest.mark.parametrize("seed", range(8))
def test_random_merges_equal_duckdb(seed: int) -> None:
    r = random.Random(seed)
    db, oracle = ev.connect(), duckdb.connect()
    for text in ("CREATE TABLE t (a int PRIMARY KEY, b int)", "CREATE TABLE s (a int, b int)"):
        db.sql(text)
        oracle.execute(text)
    view = db.sql("CREATE VIEW v AS SELECT b, count(*) AS n FROM t GROUP BY b")
    for _ in range(8):
        rows = ", ".join(f"({a}, {r.choice([r.randint(0, 9), 'NULL'])})" for a in r.sample(range(12), 5))
        whens = []
        for test in sorted(r.sample(["", " AND s.b > 4", " AND t.b IS NULL", " AND s.a = t.b"], 2), reverse=True):
            whens.append(f"WHEN MATCHED{test} THEN " + r.choice(["DELETE", "UPDATE SET b = s.b", "DO NOTHING"]))
        if r.random() < 0.8:
            whens.append("WHEN NOT MATCHED AND s.b < 7 THEN INSERT (b, a) VALUES (s.b + 1, s.a)")
            whens.append("WHEN NOT MATCHED THEN INSERT VALUES (s.a, 0)")
        if r.random() < 0.5:
            whens.append("WHEN NOT MATCHED BY SOURCE AND t.b > 5 THEN " + r.choice(["DELETE", "UPDATE SET b = b - 1"]))
        merge = f"MERGE INTO t USING s ON t.a = s.a {' '.join(whens)}"
        for text in ("DELETE FROM s", f"INSERT INTO s VALUES {rows}", merge):
            db.sql(text)
            oracle.execute(text)
        pairs = (("SELECT * FROM t", db["t"].rows()), ("SELECT b, count(*) FROM t GROUP BY b", view.rows()))
        for asked, found in pairs:
            assert sorted(found, key=repr) == sorted(oracle.execute(asked).fetchall(), key=repr), (rows, merge)


def test_a_row_of_columns_is_given_a_query(db: ev.Session) -> None:
    db.sql("UPDATE t SET (b, a) = (SELECT max(b), max(a) + 100 FROM s WHERE s.a = t.a + 3) WHERE a = 1")
    assert sorted(db["t"].rows()) == [(2, 2), (3, 3), (9, 9), (104, 40)]
    with pytest.raises(ev.PlanError, match="a row of columns"):
        db.sql("UPDATE t SET (b, a) = (SELECT max(b) FROM s)")


def test_with_queries_that_change_rows(db: ev.Session) -> None:
    db.sql("CREATE TABLE old (a int, b int)")
    before = db.time
    found = db.sql("""
        WITH gone AS (DELETE FROM t WHERE a < 3 RETURNING *),
             kept AS (INSERT INTO old SELECT * FROM gone RETURNING a)
        SELECT gone.a, gone.b, (SELECT count(*) FROM t) AS n, (SELECT count(*) FROM old) AS m
        FROM gone JOIN kept USING (a)
    """)
    assert sorted(found.rows()) == [(1, 1, 4, 0), (2, 2, 4, 0)], "all see the tables as they were before"
    assert sorted(db["t"].rows()) == [(3, 3), (9, 9)] and sorted(db["old"].rows()) == [(1, 1), (2, 2)]
    assert db.time == before + 1 and db["total"].rows() == [(2, 12)]
    db.sql("WITH x(y) AS (UPDATE t SET b = b + 1 RETURNING a), z AS (DELETE FROM s) INSERT INTO old SELECT y, 0 FROM x")
    assert sorted(db["old"].rows()) == [(1, 1), (2, 2), (3, 0), (9, 0)]
    assert sorted(db["t"].rows()) == [(3, 4), (9, 10)] and db["s"].rows() == []


@pytest.mark.parametrize(
    "text",
    [
        "WITH x AS (DELETE FROM t) SELECT * FROM x",
        "SELECT * FROM (WITH x AS (DELETE FROM t RETURNING *) SELECT * FROM x) q",
        "CREATE VIEW w AS WITH x AS (DELETE FROM t RETURNING *) SELECT * FROM x",
        "WITH x AS (DELETE FROM t RETURNING *), y AS (INSERT INTO t VALUES (7, 7), (7, 8)) SELECT * FROM x",
        "WITH x AS (DELETE FROM t RETURNING 1 / (a - 1)) SELECT * FROM x",
        "WITH RECURSIVE x AS (DELETE FROM t RETURNING a) SELECT b FROM x",
    ],
)
def test_if_one_fails_nothing_is_changed(db: ev.Session, text: str) -> None:
    before = sorted(db["t"].rows())
    with pytest.raises(ev.EverviewError):
        db.sql(text)
    assert sorted(db["t"].rows()) == before
    assert db.sql("SELECT count(*) FROM t").rows() == [(4,)]
