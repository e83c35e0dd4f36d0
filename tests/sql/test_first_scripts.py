"""Scripts as people have them: what other systems' dumps, tutorials and models begin with runs whole."""

from __future__ import annotations

import datetime as dt
import re
from pathlib import Path

import pytest

import everview as ev
from everview.sql.text.error_positions import SqlError

DUMP = """
    SET statement_timeout = 0;
    SET client_encoding = 'UTF8';
    SET standard_conforming_strings = on;
    SET check_function_bodies = false;
    SET default_table_access_method = heap;
    CREATE EXTENSION IF NOT EXISTS "uuid-ossp";
    CREATE SCHEMA IF NOT EXISTS app;
    CREATE SEQUENCE app_ids START WITH 1 INCREMENT BY 1 NO MINVALUE NO MAXVALUE CACHE 1;
    CREATE TABLE app.users (
        id bigint DEFAULT nextval('app_ids') NOT NULL,
        name varchar(50) COLLATE "C" NOT NULL,
        created_at timestamp(6) DEFAULT now(),
        tags text[] DEFAULT '{}',
        PRIMARY KEY (id)
    );
    ALTER TABLE ONLY app.users ADD CONSTRAINT users_name_key UNIQUE (name);
    INSERT INTO app.users (name) VALUES ('ann'), ('bob');
    START TRANSACTION ISOLATION LEVEL SERIALIZABLE;
    UPDATE app.users SET name = 'eve' WHERE id = 2;
    COMMIT;
    CREATE MATERIALIZED VIEW app.count AS SELECT count(*) AS n FROM app.users;
    REFRESH MATERIALIZED VIEW app.count;
    VACUUM ANALYZE app.users;
    ANALYZE;
    SELECT setval('app_ids', 100, true)
"""


def test_a_dump() -> None:
    db = ev.connect()
    db.sql(DUMP)
    assert db.sql("INSERT INTO app.users (name) VALUES ('zoe') RETURNING id").rows() == [(101,)]
    assert db.sql("SELECT n FROM app.count").rows() == [(3,)]
    db.sql("TRUNCATE app.users RESTART IDENTITY CASCADE; ALTER SEQUENCE app_ids RESTART WITH 7")
    assert db.sql("INSERT INTO app.users (name) VALUES ('zoe') RETURNING id").rows() == [(7,)]


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("SET statement_timeout = 5", "E_UNSUPPORTED"),
        ("SET client_encoding = 'LATIN1'", "E_UNSUPPORTED"),
        ("CREATE EXTENSION postgis", "E_NAME"),
        ("REFRESH MATERIALIZED VIEW nope", "E_TABLE"),
        ("VACUUM nope", "E_TABLE"),
        ("BEGIN ISOLATION LEVEL nope", "E_"),
        ("ALTER SEQUENCE nope RESTART", "E_NAME"),
        ("CREATE TABLE t (x text COLLATE nope)", "E_UNSUPPORTED"),
        ("CREATE TABLE t (x timestamp(2))", "E_UNSUPPORTED"),
        ("SELECT nextval('nope')", "E_NAME"),
        ("CREATE VIEW v AS SELECT nextval('nope') AS x", "E_"),
    ],
)
def test_what_would_mean_something_else_is_refused(text: str, code: str) -> None:
    with pytest.raises(ev.EverviewError) as error:
        ev.connect().sql(text)
    assert error.value.code.startswith(code), error.value


def test_temporary_is_what_a_session_in_memory_is(tmp_path: Path) -> None:
    db = ev.connect()
    db.sql("CREATE TEMP TABLE t (x int); CREATE TEMPORARY VIEW v AS SELECT x FROM t; INSERT INTO t VALUES (1)")
    db.sql("CREATE TEMP TABLE u AS SELECT x + 1 AS x FROM t")
    assert (db["v"].rows(), db["u"].rows()) == ([(1,)], [(2,)])
    with ev.connect(tmp_path / "db") as kept, pytest.raises(ev.EverviewError, match="a directory keeps everything"):
        kept.sql("CREATE TEMP TABLE t (x int)")


def test_windows_as_flink_and_calcite_write_them() -> None:
    db = ev.connect()
    db.sql("""
        CREATE TABLE bid (auction bigint, price bigint, ts timestamp(3), WATERMARK FOR ts AS ts - INTERVAL '5' SECOND);
        CREATE VIEW a AS SELECT window_start, max(price) AS p
            FROM TABLE(TUMBLE(TABLE bid, DESCRIPTOR(ts), INTERVAL '10' MINUTE)) GROUP BY window_start, window_end;
        CREATE VIEW b AS SELECT window_start, max(price) AS p
            FROM TUMBLE(bid, ts, INTERVAL '10 minutes') GROUP BY window_start, window_end;
        CREATE VIEW c AS SELECT window_start, max(price) AS p
            FROM TUMBLE(TABLE bid, DESCRIPTOR(ts), INTERVAL '10' MINUTES) GROUP BY window_start, window_end;
        CREATE VIEW d AS SELECT window_start, max(price) AS p
            FROM TUMBLE(DATA => TABLE bid, TIMECOL => DESCRIPTOR(ts), SIZE => INTERVAL '10' MINUTES)
            GROUP BY window_start, window_end;
        INSERT INTO bid VALUES
            (1, 5, '2026-01-01 00:01:00'), (1, 7, '2026-01-01 00:09:00'), (2, 1, '2026-01-01 00:10:00')
    """)
    assert len(db["a"].rows()) == 2
    assert all(sorted(db[other].rows()) == sorted(db["a"].rows()) for other in "bcd")


def test_parameters_may_stand_side_by_side() -> None:
    db = ev.connect()
    db.sql("CREATE TABLE t (a int, b text); INSERT INTO t VALUES (1, '$x,$y'), (2, 'z'), (3, 'z')")
    found = db.prepare("p", "SELECT a FROM t WHERE a IN ($x,$y)AND b <> '$x,$y' ORDER BY a")
    assert found(x=1, y=3).rows() == [(3,)]
    db.sql("CREATE FUNCTION f(a int, b int) RETURNS int LANGUAGE SQL AS $$ SELECT $1-$2 $$")
    assert db.sql("SELECT f(5, 3)").rows() == [(2,)]


def test_fewer_values_than_columns_are_for_the_first_columns() -> None:
    db = ev.connect()
    db.sql("CREATE TABLE t (a int, b text, c int); CREATE TABLE u (a int NOT NULL, b int NOT NULL, PRIMARY KEY (a))")
    db.sql("CREATE VIEW v AS SELECT b, count(*), sum(c) FROM t GROUP BY b")
    db.sql("INSERT INTO t VALUES (1), (2); INSERT INTO t SELECT 3, 'x'; INSERT INTO t VALUES (4, 'x', 5)")
    assert db["t"].rows() == [(1, None, None), (2, None, None), (3, "x", None), (4, "x", 5)]
    assert db["v"].rows() == [(None, 2, None), ("x", 2, 5)]
    db.sql("DELETE FROM t WHERE b IS NULL; ALTER TABLE t ALTER c SET DEFAULT 7; INSERT INTO t SELECT 6")
    assert db["t"].rows() == [(3, "x", None), (4, "x", 5), (6, None, 7)]
    for text, code, says in (
        ("INSERT INTO u VALUES (1)", "E_NULL", "column 'b': NULL is not allowed$"),
        ("INSERT INTO u SELECT 1", "E_NULL", "column 'b': NULL is not allowed$"),
        ("INSERT INTO u VALUES (1, 2), (3)", "E_WIDTH", "1 values for 2 columns"),
        ("INSERT INTO u (a, b) VALUES (1)", "E_WIDTH", "1 values for 2 columns"),
        ("INSERT INTO u VALUES (1, 2, 3)", "E_WIDTH", "3 values for 2 columns"),
        ("SET dialect = 'duckdb'; INSERT INTO u VALUES (1)", "E_WIDTH", "1 values for 2 columns"),
    ):
        with pytest.raises(ev.errors.EverviewError, match=code) as caught:
            db.sql(text)
        assert re.search(says, caught.value.message)
    assert db["u"].rows() == []


def test_transactions_that_only_read() -> None:
    db = ev.connect()
    db.sql("CREATE TABLE t (a int); INSERT INTO t VALUES (1); CREATE SEQUENCE numbers")
    for begin in (
        "BEGIN READ ONLY",
        "BEGIN WORK ISOLATION LEVEL SERIALIZABLE READ ONLY",
        "START TRANSACTION READ ONLY",
    ):
        for text in ("INSERT INTO t VALUES (2)", "WITH d AS (DELETE FROM t RETURNING a) TABLE d", "TRUNCATE t",
                     "SELECT nextval('numbers')", "COPY t FROM 'none.csv'", "COMMENT ON TABLE t IS 'x'"):  # fmt: skip
            db.sql(f"{begin}; SAVEPOINT s; DESCRIBE t; SHOW TABLES; EXPLAIN SELECT * FROM t; SELECT random()")
            assert db.sql("SELECT a FROM t").rows() == [(1,)]
            with pytest.raises(SqlError, match="E_READ_ONLY"):
                db.sql(text)
            db.sql("ROLLBACK TO s; ROLLBACK AND CHAIN")
            with pytest.raises(SqlError, match="E_READ_ONLY"):
                db.sql(text)
            db.sql("ROLLBACK")
    db.sql("BEGIN READ ONLY; COMMIT; BEGIN READ WRITE; INSERT INTO t VALUES (2); COMMIT; INSERT INTO t VALUES (3)")
    assert db["t"].rows() == [(1,), (2,), (3,)]
    for text, says in (("BEGIN READ ONLYY", "did you mean 'ONLY'"), ("BEGIN TRANSACTIN", "did you mean 'TRANSACTION'")):
        with pytest.raises(SqlError, match=says):
            db.sql(text)


def test_messages_say_the_types_of_sql_and_comments_are_on_what_is_there() -> None:
    db = ev.connect()
    db.sql("CREATE TABLE a (id text PRIMARY KEY, n int UNIQUE); CREATE SEQUENCE q; CREATE TYPE mood AS ENUM ('x')")
    db.sql("CREATE TABLE plain (x int); CREATE INDEX i ON a (n); INSERT INTO a VALUES ('x', 1)")
    db.sql("INSERT INTO a VALUES ('x', 2) ON CONFLICT (id, id) DO UPDATE SET n = excluded.n")
    assert db["a"].rows() == [("x", 2)]
    with pytest.raises(SqlError, match="x is int, id is text"):
        db.sql("CREATE TABLE b (x int REFERENCES a (id))")
    with pytest.raises(SqlError, match="after a comma is not supported") as caught:
        db.sql("SELECT * FROM a, LATERAL (SELECT 1 AS k) l RIGHT JOIN plain ON l.k = plain.x")
    assert "PLAN" not in caught.value.hint
    for kind in ("INDEX i", "INDEX a_pkey", "INDEX public.a_n_key", "SEQUENCE q", "TYPE mood", "SCHEMA public"):
        with pytest.warns(ev.Notice, match="is ignored"):
            db.sql(f"COMMENT ON {kind} IS 'x'")
    for kind in ("INDEX j", "INDEX plain_pkey", "SEQUENCE qq", "TYPE moood", "DOMAIN d", "SCHEMA s"):
        with pytest.raises(SqlError, match=f"there is no {kind.split()[0].lower()} {kind.split()[1]}"):
            db.sql(f"COMMENT ON {kind} IS 'x'")


def test_windows_of_spark_may_be_the_first_key() -> None:
    db = ev.connect()
    db.sql("CREATE TABLE t (ts timestamp); INSERT INTO t VALUES ('2021-01-01 00:04'), ('2021-01-01 00:06'), (NULL)")
    db.sql("CREATE VIEW v AS SELECT window.start, count(*) AS n FROM t GROUP BY window(ts, '10 minutes', '5 minutes')")
    start = dt.datetime(2021, 1, 1)
    step = dt.timedelta(minutes=5)
    assert db["v"].rows() == [(start - step, 1), (start, 2), (start + step, 1)]
    db.sql("DELETE FROM t WHERE ts > '2021-01-01 00:05'")
    assert db["v"].rows() == [(start - step, 1), (start, 1)]


def test_tables_of_schemas_in_time_windows() -> None:
    db = ev.connect()
    db.sql("CREATE SCHEMA s; CREATE TABLE s.w (ts timestamp, k int)")
    db.sql("CREATE VIEW s.v AS SELECT window_end, count(*) AS n FROM TUMBLE(s.w, ts, INTERVAL '1 minute') GROUP BY 1")
    db.sql("INSERT INTO s.w VALUES ('2020-01-01 00:01:30', 1), ('2020-01-01 00:01:50', 2)")
    assert db["s.v"].rows() == [(dt.datetime(2020, 1, 1, 0, 2), 2)]
    inner = "SELECT ts, k FROM SESSION(TABLE s.w PARTITION BY k, DESCRIPTOR(ts), INTERVAL '1 minute')"
    both, each = [30, 30], [30, 50]
    for form, expected in (
        ("s.w, ts, INTERVAL '1 minute', k", each),
        ("TABLE s.w PARTITION BY k, DESCRIPTOR(ts), INTERVAL '1 minute'", each),
        ("TABLE s.w, DESCRIPTOR(ts), INTERVAL '1 minute'", both),
        ("(SELECT * FROM s.w) PARTITION BY k, DESCRIPTOR(ts), INTERVAL '1 minute'", each),
        ("TABLE (SELECT * FROM s.w) PARTITION BY (k), DESCRIPTOR(ts), INTERVAL '1 minute'", each),
        ("(SELECT * FROM s.w), DESCRIPTOR(ts), INTERVAL '1 minute'", both),
        (f"({inner}) PARTITION BY k, DESCRIPTOR(ts), INTERVAL '1 minute'", each),
        (f"({inner}), DESCRIPTOR(ts), INTERVAL '1 minute'", both),
        (f"(SELECT * FROM ({inner}) AS q), DESCRIPTOR(ts), INTERVAL '1 minute'", both),
    ):
        starts = db.sql(f"SELECT k, window_start FROM TABLE(SESSION({form})) ORDER BY k").rows()
        assert starts == [(k, dt.datetime(2020, 1, 1, 0, 1, second)) for k, second in enumerate(expected, 1)], form
    with pytest.raises(SqlError, match=r"no table or view s\.ww"):
        db.sql("SELECT k FROM TUMBLE(s.ww, ts, INTERVAL '1 minute')")
