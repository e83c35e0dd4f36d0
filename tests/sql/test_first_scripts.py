"""Scripts as people have them: what other systems' dumps, tutorials and models begin with runs whole."""

from __future__ import annotations

from pathlib import Path

import pytest

import everview as ev

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
