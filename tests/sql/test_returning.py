"""What statements return and assign, against PostgreSQL: RETURNING of joined tables, row assignments, qualified names.

Both runtimes run the same script; after every statement its rows, and those of a view of the table, must be
PostgreSQL's.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

import everview as ev
from everview.session.local_shards import local_shards
from tests.sql.postgres import Postgres, PostgresError

SETUP = """
    CREATE TABLE t (id int PRIMARY KEY, v text, n int);
    CREATE TABLE bag (a int, b text);
    CREATE TABLE s (i int, x text);
    INSERT INTO t VALUES (1, 'a', 1), (2, 'b', 2), (3, NULL, 3), (4, 'd', NULL);
    INSERT INTO bag VALUES (1, 'x'), (1, 'x'), (2, NULL);
    INSERT INTO s VALUES (1, 'one'), (2, 'two'), (7, NULL)
"""

SCRIPT = (
    "UPDATE t SET v = s.x FROM s WHERE s.i = t.id RETURNING t.id, s.x, s.i + 1, v",
    "UPDATE t SET n = q.m FROM (SELECT i, count(*) AS m FROM s GROUP BY i) AS q WHERE q.i = t.id RETURNING *",
    "UPDATE t SET n = n + 1 FROM s JOIN bag ON bag.a = s.i WHERE s.i = t.id AND s.i = 2 RETURNING t.n, bag.b, s.x",
    "WITH q AS (SELECT 3 AS k, 'w' AS w) UPDATE t SET v = q.w FROM q WHERE q.k = id RETURNING q.k, t.*",
    "UPDATE bag SET b = s.x FROM s WHERE s.i = bag.a RETURNING bag.a, bag.b, s.i",
    "UPDATE bag AS z SET b = y.x FROM s AS y WHERE y.i = z.a AND y.i = 99 RETURNING z.a, y.i",
    "DELETE FROM bag USING s WHERE s.i = bag.a AND s.i = 1 RETURNING bag.*, s.x",
    "DELETE FROM t USING s WHERE s.i = t.id AND s.i = 2 RETURNING s.*, t.v",
    "WITH gone AS (DELETE FROM t USING s WHERE s.i = t.id RETURNING s.x, t.id) SELECT x, id FROM gone",
    "UPDATE t SET v = s.x FROM s WHERE s.i = t.id RETURNING nope.x",
    "INSERT INTO t AS old VALUES (3, 'new', 9) ON CONFLICT (id) DO UPDATE SET (v, n) = (excluded.v, old.n * 2) "
    "RETURNING *",
    "INSERT INTO t VALUES (3, 'z', 5) ON CONFLICT (id) DO UPDATE SET (v, n) = ROW(t.v || excluded.v, 0), id = 30 "
    "RETURNING *",
    "INSERT INTO t VALUES (30, 'z', 5) ON CONFLICT (id) DO UPDATE SET (v, n) = (excluded.v)",
    "UPDATE public.t SET v = 'q' WHERE public.t.id = 4 RETURNING id",
    # subqueries see the tables as they were before the statement
    "INSERT INTO t VALUES (40, 'x', 1) RETURNING id, (SELECT count(*) FROM t), (v IN (SELECT x FROM s))::text",
    "DELETE FROM t WHERE id = 40 RETURNING id, (SELECT max(s.i) FROM s WHERE s.i < t.id), "
    "(EXISTS (SELECT FROM t AS y WHERE y.id = t.id))::text",
    "WITH q AS (SELECT 5 AS k) UPDATE t SET n = 0 WHERE id = 30 RETURNING id, (SELECT k + t.n FROM q)",
    "INSERT INTO t VALUES (30, 'c', 5), (31, 'c', 6) ON CONFLICT (id) DO UPDATE SET n = (SELECT max(i) FROM s WHERE "
    "i < excluded.id), v = DEFAULT RETURNING *",
    "INSERT INTO t VALUES (30, 'c', 5) ON CONFLICT (id) DO UPDATE SET (v, n) = (SELECT x, i FROM s WHERE i = t.n) "
    "WHERE EXISTS (SELECT FROM s WHERE s.i = t.n) RETURNING *",
    "WITH RECURSIVE r(k) AS (SELECT 50 UNION ALL SELECT k + 1 FROM r WHERE k < 53), "
    "i AS (INSERT INTO t SELECT k, 'r', k % 2 FROM r RETURNING id, n) SELECT sum(id), max(n), count(*) FROM i",
    "WITH RECURSIVE t AS (DELETE FROM t WHERE id > 50 RETURNING id) SELECT count(*) FROM t",
    "MERGE INTO t USING s ON t.id = s.i WHEN MATCHED THEN UPDATE SET v = DEFAULT, n = s.i "
    "WHEN NOT MATCHED AND s.x IS NOT NULL THEN DO NOTHING WHEN NOT MATCHED THEN INSERT (id, v) VALUES (s.i, DEFAULT)",
    "MERGE INTO ONLY bag AS b USING s ON b.a = s.i WHEN NOT MATCHED THEN INSERT DEFAULT VALUES",
    "UPDATE ONLY t SET n = 8 WHERE id = 3 RETURNING n",
    "DELETE FROM ONLY t WHERE id = 3 RETURNING n",
    "SELECT count(*) FROM ONLY t",
    "SELECT public.t.id, t.v FROM public.t",
    "SELECT public.t.* FROM t WHERE EXISTS (SELECT 1 FROM s WHERE public.s.i <> public.t.id)",
    "SELECT public.x.id FROM t AS x",
    "SELECT other.t.id FROM t",
)


def _rows(rows: list[tuple[Any, ...]]) -> Counter[tuple[str, ...]]:
    return Counter(tuple("" if v is None else str(v) for v in row) for row in rows)


def _theirs(postgres: Postgres, text: str) -> Counter[tuple[str, ...]]:
    return Counter(tuple(line.split("|")) for line in postgres.run(text).splitlines())


@pytest.mark.parametrize("shards", [0, 2])
def test_what_statements_return(postgres: Postgres, shards: int) -> None:
    db = local_shards(shards=shards) if shards else ev.connect()
    for run in (db.sql, postgres.run):
        run(SETUP)
    db.sql("CREATE VIEW copy AS SELECT id, v, n FROM t; CREATE VIEW bags AS SELECT a, b FROM bag")
    refused = 0
    for text in SCRIPT:
        try:
            wanted = _theirs(postgres, text)
        except PostgresError:
            refused += 1
            with pytest.raises(ev.EverviewError):
                db.sql(text)
            continue
        answer = db.sql(text)
        assert _rows([] if answer is None else answer.rows()) == wanted, text
        assert _rows(db["copy"].rows()) == _theirs(postgres, "SELECT id, v, n FROM t"), text
        assert _rows(db["bags"].rows()) == _theirs(postgres, "SELECT a, b FROM bag"), text
    assert refused == 5
    db.close()


def test_subqueries_of_returning_see_the_transaction_but_not_their_statement(postgres: Postgres) -> None:
    db = ev.connect()
    asked = "(SELECT count(*) FROM t), (SELECT sum(n) FROM t AS y WHERE y.v = t.v)"
    script = (
        "INSERT INTO t VALUES (41, 'y', 1)",
        f"INSERT INTO t VALUES (42, 'y', 1) RETURNING {asked}",
        f"UPDATE t SET n = 5 WHERE v = 'y' RETURNING id, {asked}",
        f"INSERT INTO t VALUES (42, 'w', 1) ON CONFLICT (id) DO UPDATE SET n = (SELECT sum(n) FROM t) "
        f"RETURNING n, {asked}",
        f"DELETE FROM t WHERE id = 41 RETURNING {asked}",
    )
    for run in (db.sql, postgres.run):
        run(SETUP)
        run("BEGIN")
        run(script[0])
    for text in script[1:]:
        assert _rows(db.sql(text).rows()) == _theirs(postgres, text), text
    postgres.run("ROLLBACK")


def test_a_failed_transaction_ends_by_every_word() -> None:
    db = ev.connect()
    db.sql("CREATE TABLE t (a int)")
    for word in ("ABORT", "ABORT WORK", "ABORT TRANSACTION", "ROLLBACK"):
        db.sql("BEGIN; INSERT INTO t VALUES (1)")
        with pytest.raises(ev.EverviewError):
            db.sql("SELECT nope FROM t")
        db.sql(word)
        assert db.sql("SELECT a FROM t").rows() == []
    db.sql("BEGIN; INSERT INTO t VALUES (1)")
    with pytest.raises(ev.EverviewError):
        db.sql("SELECT nope FROM t")
    with pytest.raises(ev.EverviewError, match="all of it is undone"):
        db.sql("END")
    assert db.sql("SELECT a FROM t").rows() == []
    db.sql("BEGIN; INSERT INTO t VALUES (2); ABORT AND CHAIN; INSERT INTO t VALUES (3); END")
    assert db.sql("SELECT a FROM t").rows() == [(3,)]
    with pytest.raises(ev.EverviewError, match="no transaction is open"):
        db.sql("ABORT")
    with pytest.raises(ev.EverviewError, match="is not expected here"):
        db.sql("ABORT now")
