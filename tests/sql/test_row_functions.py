"""Functions of SQL that give rows, parameters with defaults and by name; OVERRIDING; windows as Flink writes them.

Each is a view under inserts and deletes, on both runtimes. The answers are PostgreSQL's, or follow from Flink's manual.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import everview as ev
from everview.session.local_shards import local_shards


@pytest.fixture(params=[ev.connect, lambda: local_shards(2)], ids=["embedded", "shards"])
def db(request: pytest.FixtureRequest) -> Iterator[ev.Session]:
    with request.param() as session:
        session.sql("CREATE TABLE j (id int, t text)")
        yield session


FUNCTIONS = """
    CREATE FUNCTION later(k int) RETURNS TABLE (id int, t text) LANGUAGE SQL AS
        $$ SELECT j.id, j.t FROM j WHERE j.id >= k $$;
    CREATE FUNCTION ids(k int DEFAULT 2) RETURNS SETOF int LANGUAGE SQL AS $$ SELECT id FROM j WHERE id <= $1 $$;
    CREATE FUNCTION named() RETURNS SETOF j LANGUAGE SQL STABLE AS 'SELECT * FROM j WHERE t IS NOT NULL';
    CREATE FUNCTION next_of(k int) RETURNS SETOF j STRICT LANGUAGE SQL AS
        $$ SELECT * FROM j WHERE id > next_of.k ORDER BY id LIMIT 1 $$;
    CREATE FUNCTION priced(a int, b int DEFAULT 10, c text = 'x') RETURNS text LANGUAGE SQL AS
        $$ SELECT c || (a * b)::text $$;
"""

VIEWS: dict[str, tuple[str, list[tuple[Any, ...]], list[tuple[Any, ...]]]] = {
    # the query, its rows with j = (1, a), (2, NULL), (3, c), and after the deletion of 1
    "plain": ("SELECT * FROM later(2)", [(2, None), (3, "c")], [(2, None), (3, "c")]),
    "of_rows": (
        "SELECT j.id, r.id AS other FROM j, later(j.id + 1) AS r",
        [(1, 2), (1, 3), (2, 3)],
        [(2, 3)],
    ),
    "renamed": (
        "SELECT j.id, r.a, r.b FROM j LEFT JOIN LATERAL later(j.id + 1) AS r(a, b) ON true",
        [(1, 2, None), (1, 3, "c"), (2, 3, "c"), (3, None, None)],
        [(2, 3, "c"), (3, None, None)],
    ),
    "joined": ("SELECT j.id FROM j JOIN ids(3) AS i ON i = j.id AND j.t IS NOT NULL", [(1,), (3,)], [(3,)]),
    "values_": ("SELECT s FROM ids() s", [(1,), (2,)], [(2,)]),
    "unnamed": ("SELECT ids FROM ids(1)", [(1,)], []),
    "table_rows": ("SELECT n.t, id FROM named() AS n", [("a", 1), ("c", 3)], [("c", 3)]),
    "first_of": (
        "SELECT j.id, n.id AS next FROM j LEFT JOIN next_of(j.id) n ON true",
        [(1, 2), (2, 3), (3, None)],
        [(2, 3), (3, None)],
    ),
    "of_null": ("SELECT * FROM next_of(NULL)", [], []),
    "twice": ("SELECT count(*) AS n FROM later(1) a, later(2) b", [(6,)], [(4,)]),
    "defaults": (
        "SELECT priced(id) AS a, priced(id, 2) AS b, priced(id, c => 'y') AS c, priced(c => 'z', a => id) AS d FROM j",
        [("x10", "x2", "y10", "z10"), ("x20", "x4", "y20", "z20"), ("x30", "x6", "y30", "z30")],
        [("x20", "x4", "y20", "z20"), ("x30", "x6", "y30", "z30")],
    ),
}


def test_rows_of_functions(db: ev.Session) -> None:
    db.sql(FUNCTIONS)
    for name, (query, _, _) in VIEWS.items():
        db.sql(f"CREATE VIEW {name} AS {query}")
    db.sql("INSERT INTO j VALUES (1, 'a'), (2, NULL), (3, 'c')")
    for place in (1, 2):
        for name, case in VIEWS.items():
            expected = sorted(case[place], key=repr)
            assert sorted(db[name].rows(), key=repr) == expected, name
            assert sorted(db.sql(case[0]).rows(), key=repr) == expected, name
        db.sql("DELETE FROM j WHERE id = 1")


def test_functions_are_kept(tmp_path: Path) -> None:
    with ev.connect(tmp_path / "db") as kept:
        kept.sql(f"CREATE TABLE j (id int, t text); {FUNCTIONS} CREATE VIEW v AS SELECT * FROM ids()")
    with ev.connect(tmp_path / "db") as kept:
        kept.sql("INSERT INTO j VALUES (1, 'a'), (7, 'b')")
        assert kept["v"].rows() == [(1,)]
        assert kept.sql("SELECT t, priced(id) FROM later(3)").rows() == [("b", "x70")]
        with pytest.raises(ev.PlanError, match="the function ids is used by v"):
            kept.sql("DROP FUNCTION ids")
        kept.sql("DROP FUNCTION ids CASCADE")
        assert "v" not in kept


@pytest.mark.parametrize(
    ("text", "code", "words"),
    [
        ("SELECT ids(1)", "E_UNSUPPORTED", "ids gives rows"),
        ("SELECT * FROM priced(1)", "E_UNSUPPORTED", "priced gives one value"),
        ("SELECT * FROM later()", "E_ARITY", "later takes 1 arguments, not 0"),
        ("SELECT priced(1, 2, 'x', 4)", "E_ARITY", "priced takes 1 to 3 arguments"),
        ("SELECT priced(1, a => 2)", "E_ARITY", "priced takes 1 to 3 arguments"),
        ("SELECT priced(1, d => 2)", "E_PARAMETER", "no parameter d"),
        ("SELECT * FROM later(1) WITH ORDINALITY", "E_UNSUPPORTED", "WITH ORDINALITY"),
        ("SELECT x FROM later(1)", "E_COLUMN", "there is no column x"),
        ("SET dialect = 'spark'; SELECT * FROM later(1)", "E_UNSUPPORTED", "in the dialect postgres"),
        (
            "CREATE FUNCTION f(a int DEFAULT 1, b int) RETURNS int LANGUAGE SQL AS 'SELECT 1'",
            "E_SYNTAX",
            "have defaults",
        ),
        ("CREATE FUNCTION f(a int DEFAULT 'x') RETURNS int LANGUAGE SQL AS 'SELECT 1'", "E_TYPE", "not a valid int"),
        ("CREATE FUNCTION f() RETURNS TABLE (a int) LANGUAGE SQL AS 'SELECT 1, 2'", "E_WIDTH", ""),
        ("CREATE FUNCTION f() RETURNS SETOF nope LANGUAGE SQL AS 'SELECT 1'", "E_TYPE", "there is no type nope"),
        ("CREATE FUNCTION f() RETURNS SETOF int LANGUAGE SQL AS 'DELETE FROM j'", "E_UNSUPPORTED", "is a query"),
        ("CREATE FUNCTION f() RETURNS SETOF int LANGUAGE SQL AS 'SELECT f FROM f()'", "E_", ""),
    ],
)
def test_refused(text: str, code: str, words: str) -> None:
    with ev.connect() as db:
        db.sql(f"CREATE TABLE j (id int, t text); {FUNCTIONS}")
        with pytest.raises(ev.PlanError, match=words) as caught:
            db.sql(text)
        assert caught.value.code.startswith(code), caught.value


def test_overriding_identities(db: ev.Session) -> None:
    db.sql("""
        CREATE TABLE o (id int GENERATED ALWAYS AS IDENTITY, v text);
        CREATE TABLE p (v text, id int GENERATED BY DEFAULT AS IDENTITY);
        INSERT INTO o (id, v) OVERRIDING SYSTEM VALUE VALUES (100, 'a');
        INSERT INTO o (v) VALUES ('b');
        INSERT INTO o OVERRIDING USER VALUE VALUES (7, 'c');
        INSERT INTO o OVERRIDING SYSTEM VALUE SELECT id + 1, v FROM o WHERE id = 100;
        INSERT INTO o OVERRIDING USER VALUE SELECT 50, 'd';
        INSERT INTO p OVERRIDING USER VALUE VALUES ('x', 9), ('y', 9);
        INSERT INTO p VALUES ('z', 9)
    """)
    assert sorted(db.sql("SELECT * FROM o").rows()) == [(1, "b"), (2, "c"), (3, "d"), (100, "a"), (101, "a")]
    assert sorted(db.sql("SELECT * FROM p").rows()) == [("x", 1), ("y", 2), ("z", 9)]
    for text in (
        "INSERT INTO o VALUES (1, 'x')",
        "UPDATE o SET id = 3",
        "INSERT INTO o OVERRIDING VALUE VALUES (1, 'x')",
    ):
        with pytest.raises(ev.PlanError):
            db.sql(text)


def test_windows_as_flink_has_them(db: ev.Session) -> None:
    """SESSION(TABLE t PARTITION BY ...), window_time and TUMBLE_ROWTIME: the last millisecond of a window."""
    D = dt.datetime
    db.sql("""
        CREATE TABLE bid (who int, price int, ts timestamp(3), WATERMARK FOR ts AS ts - INTERVAL '5' SECOND);
        CREATE VIEW visits AS SELECT who, window_start, window_end, sum(price) AS p
        FROM TABLE(SESSION(TABLE bid PARTITION BY who, DESCRIPTOR(ts), INTERVAL '5' MINUTES))
        GROUP BY who, window_start, window_end;
        CREATE VIEW timed AS SELECT window_time, count(*) AS n
        FROM TABLE(TUMBLE(TABLE bid, DESCRIPTOR(ts), INTERVAL '10' MINUTES)) AS w GROUP BY window_start, w.window_time;
        CREATE VIEW grouped AS SELECT TUMBLE_ROWTIME(ts, INTERVAL '10' MINUTES) AS r, count(*) AS n
        FROM bid GROUP BY TUMBLE(ts, INTERVAL '10' MINUTES);
        CREATE VIEW hops AS SELECT *, 'window_time' AS note
        FROM HOP(bid, ts, INTERVAL '10' MINUTES, INTERVAL '10' MINUTES) WHERE window_time > ts;
        INSERT INTO bid VALUES (1, 5, '2026-01-01 00:01'), (2, 7, '2026-01-01 00:03'), (1, 1, '2026-01-01 00:05');
        INSERT INTO bid VALUES (1, 9, '2026-01-01 00:12')
    """)
    first, second = D(2026, 1, 1, 0, 9, 59, 999000), D(2026, 1, 1, 0, 19, 59, 999000)
    assert sorted(db["visits"].rows()) == [
        (1, D(2026, 1, 1, 0, 1), D(2026, 1, 1, 0, 10), 6),
        (1, D(2026, 1, 1, 0, 12), D(2026, 1, 1, 0, 17), 9),
        (2, D(2026, 1, 1, 0, 3), D(2026, 1, 1, 0, 8), 7),
    ]
    assert sorted(db["timed"].rows()) == sorted(db["grouped"].rows()) == [(first, 3), (second, 1)]
    assert list(db["hops"].schema()) == ["who", "price", "ts", "window_start", "window_end", "note"]
    assert len(db["hops"].rows()) == 4
    db.sql("DELETE FROM bid WHERE price < 6")
    assert sorted(db["timed"].rows()) == [(first, 1), (second, 1)]
    assert [row[3] for row in sorted(db["visits"].rows())] == [9, 7]
    with pytest.raises(ev.PlanError, match="PARTITION BY names columns"):
        db.sql("SELECT * FROM TABLE(SESSION(TABLE bid PARTITION BY , DESCRIPTOR(ts), INTERVAL '5' MINUTES))")
