"""Deep statements: a thousand levels are read, bound and planned, and what is deeper is refused in our words."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import duckdb
import pytest

import everview as ev
from tests.effort import calls

DEEP: dict[str, Callable[[int], str]] = {
    "subqueries": lambda n: "SELECT a FROM " + "(SELECT a FROM " * n + "t" + ") q" * n,
    "brackets": lambda n: "SELECT " + "(" * n + "a" + ")" * n + " FROM t",
    "and": lambda n: "SELECT a FROM t WHERE " + " AND ".join(f"a <> {i + 5}" for i in range(n)),
    "or": lambda n: "SELECT a FROM t WHERE " + " OR ".join(f"a = {i}" for i in range(n)),
    "brackets of and": lambda n: "SELECT a FROM t WHERE " + "(a < 9 AND " * n + "a > 0" + ")" * n,
    "unions": lambda n: " UNION ".join(f"SELECT a FROM t WHERE a <> {i + 5}" for i in range(n)),
    "unions in brackets": lambda n: "(" * n + "SELECT a FROM t" + ") UNION (SELECT a FROM t)" * n,
    "with": lambda n: (
        "WITH c0 AS (SELECT a FROM t), "
        + ", ".join(f"c{i} AS (SELECT a FROM c{i - 1})" for i in range(1, n))
        + f" SELECT a FROM c{n - 1}"
    ),
    "texts": lambda n: "SELECT a FROM t WHERE '' <> " + " || ".join("'x'" for _ in range(n)),
    "case": lambda n: "SELECT " + "CASE WHEN a > 100 THEN 0 ELSE " * n + "a" + " END" * n + " FROM t",
    "case of groups": lambda n: f"{DEEP['case'](n)} GROUP BY a",
    "operators": lambda n: "SELECT a" + " + 0" * n + " FROM t",
    "operators in brackets": lambda n: "SELECT " + "0 + (" * n + "a" + ")" * n + " FROM t",
    "divisions": lambda n: "SELECT a" + " / 1" * n + " FROM t",
    "functions": lambda n: "SELECT " + "abs(" * n + "a" + ")" * n + " FROM t",
    "functions of texts": lambda n: "SELECT length(" + "lower(" * n + "repeat('x', a)" + ")" * n + ") FROM t",
    "coalesce": lambda n: "SELECT " + "coalesce(NULL, " * n + "a" + ")" * n + " FROM t",
    "not": lambda n: "SELECT a FROM t WHERE " + "NOT (" * (n // 2 * 2) + "a > 0" + ")" * (n // 2 * 2),
    "casts": lambda n: "SELECT a" + "::text::int" * (n // 2) + " FROM t",
}
"""Queries that give all rows of t, by what is inside of what."""


@pytest.fixture
def db() -> ev.Session:
    session = ev.connect()
    session.sql("CREATE TABLE t (a int); INSERT INTO t VALUES (1), (2)")
    return session


SLOW = ("unions", "unions in brackets")


@pytest.mark.parametrize("form", [f for f in DEEP if f not in SLOW])
def test_a_thousand_levels(db: ev.Session, form: str) -> None:
    limit = sys.getrecursionlimit()
    text = DEEP[form](1000)
    assert sorted(db.sql(text).rows()) == [(1,), (2,)]
    db.sql(f"CREATE VIEW v AS {text}")
    db["t"].insert([(3,)])
    db["t"].delete([(1,)])
    assert sorted(db["v"].rows()) == [(2,), (3,)]
    assert sys.getrecursionlimit() == limit


@pytest.mark.slow
def test_a_thousand_unions_and_views(db: ev.Session) -> None:
    for form in SLOW:
        assert sorted(db.sql(DEEP[form](1000)).rows()) == [(1,), (2,)]
    for i in range(1000):
        db.sql(f"CREATE VIEW v{i} AS SELECT a FROM {f'v{i - 1}' if i else 't'} WHERE a <> {i + 5}")
    db["t"].insert([(3,), (1004,)])
    assert sorted(db["v999"].rows()) == [(1,), (2,), (3,)]


@pytest.mark.parametrize(
    "condition",
    [
        "NOT (NOT b) IS NULL",
        "NOT (NOT b AND a > 1)",
        "NOT (NOT (b) OR a = 3)",
        "NOT (NOT (NOT b) AND (NOT (a = 2)))",
        "NOT (NOT (b) IS NULL)",
        "NOT (NOT (NOT b)) = (a = 1)",
        "NOT (NOT (NOT b)) AND a = 2",
    ],
)
def test_brackets_of_not_end_where_they_do(condition: str) -> None:
    """They are read in a loop, which must not take what stands behind a bracket for a part of it."""
    db, oracle = ev.connect(), duckdb.connect()
    for run in (db.sql, oracle.execute):
        run("CREATE TABLE t (a int, b boolean); INSERT INTO t VALUES (1, true), (2, false), (3, NULL)")
    query = f"SELECT a, {condition} AS c FROM t ORDER BY a"
    assert db.sql(query).rows() == oracle.execute(query).fetchall()


def test_nested_memberships_are_bound_once_each(db: ev.Session) -> None:
    """Each level was bound twice, so that 20 took hours."""

    def nested(levels: int) -> str:
        return "SELECT a FROM t WHERE a IN " + "(SELECT a FROM t WHERE a IN " * levels + "(1)" + ")" * levels

    few, many = (calls(partial(db.sql, f"EXPLAIN {nested(levels)}")) for levels in (6, 12))
    assert many < 4.2 * few, "twice as deep: bound twice each, it would be 64 times the work"
    db.sql(f"CREATE VIEW v AS {nested(60)}")
    db["t"].insert([(1,)])
    assert db["v"].rows() == [(1,), (1,)]


def test_the_same_subquery_of_other_names(db: ev.Session) -> None:
    """What a name stands for may change between two times that a subquery is asked for."""
    text = """
        WITH RECURSIVE r AS (SELECT 1 AS n UNION SELECT n + 1 FROM r WHERE n < 4 AND n IN (SELECT a FROM t)),
             s AS (SELECT n FROM r WHERE n IN (SELECT a FROM t WHERE a IN (SELECT n FROM r)))
        SELECT n FROM s WHERE n IN (SELECT n FROM s)
    """
    assert sorted(db.sql(text).rows()) == [(1,), (2,)]


@pytest.mark.parametrize("form", ["subqueries", "brackets", "unions in brackets"])
def test_what_is_too_deep_is_refused(db: ev.Session, form: str) -> None:
    with pytest.raises(ev.EverviewError, match="nested too deeply") as caught:
        db.sql(DEEP[form](5_000))
    assert caught.value.code == "E_DEPTH"
    assert db.sql("SELECT count(*) FROM t").rows() == [(2,)]


@pytest.mark.parametrize("text", ["SELECT " + "abs(" * 4000 + "a" + ")" * 4000, "SELECT " + " + ".join(["a"] * 5000)])
def test_expressions_have_a_limit_with_a_place(db: ev.Session, text: str) -> None:
    with pytest.raises(ev.EverviewError, match=r"line 1, column .* nested (more than|too deeply)") as caught:
        db.sql(f"{text} FROM t")
    assert caught.value.code == "E_DEPTH"
    place = 8 if "+" in text else len("SELECT " + "abs(" * 4000)
    assert f"line 1, column {place}:" in str(caught.value)


def test_expressions_in_python_have_a_lower_limit(db: ev.Session) -> None:
    """Nothing makes room on the stack for them."""
    deep: ev.Expression = ev.col.a
    for _ in range(300):
        deep = deep + 1
    with pytest.raises(ev.EverviewError, match="nested") as caught:
        db["t"].select(x=deep)
    assert caught.value.code == "E_DEPTH"


@pytest.mark.parametrize("form", ["case", "functions of texts"])
def test_deep_views_are_there_after_reopening(tmp_path: Path, form: str) -> None:
    with ev.connect(tmp_path / "db") as db:
        db.sql("CREATE TABLE t (a int); INSERT INTO t VALUES (1), (2)")
        db.sql(f"CREATE VIEW v AS {DEEP[form](1000)}")
    with ev.connect(tmp_path / "db") as db:
        db.sql("INSERT INTO t VALUES (3)")
        assert sorted(db["v"].rows()) == [(1,), (2,), (3,)]
        assert len(str(db["v"].explain())) > 1000


def test_a_small_stack_has_room_for_fewer(tmp_path: Path) -> None:
    """On a thread with a small stack a deep text is refused; the process does not end."""
    script = tmp_path / "small.py"
    script.write_text(
        "import threading, everview as ev\n"
        "threading.stack_size(512 << 10)\n"
        "found = []\n"
        "def run():\n"
        "    db = ev.connect()\n"
        "    try:\n"
        "        db.sql('SELECT ' + '(' * 5000 + '1' + ')' * 5000)\n"
        "    except ev.EverviewError as error:\n"
        "        found.append(error.code)\n"
        "thread = threading.Thread(target=run)\n"
        "thread.start(); thread.join()\n"
        "assert found == ['E_DEPTH'], found\n"
    )
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(("opening", "closing"), [("ARRAY[", "]"), ("date(", ")"), ("text(", ")"), ("struct(", ")")])
def test_nested_types_are_refused_before_they_are_parsed(opening: str, closing: str) -> None:
    """sqlglot takes 2**n steps for them: 24 arrays took minutes."""
    db = ev.connect()
    db.sql("SELECT 1")  # imports what reads SQL
    for levels in (11, 40, 1000):
        text = "SELECT " + opening * levels + "1" + closing * levels

        def asked(text: str = text) -> None:
            with pytest.raises(ev.EverviewError) as caught:
                db.sql(text)
            assert caught.value.code == "E_DEPTH" and "line 1, column" in caught.value.message

        assert calls(asked) < 50_000 + 300 * levels
    db.sql("SELECT " + "ARRAY[" * 6 + "1" + "]" * 6)


@pytest.mark.parametrize(
    ("dialect", "opening", "closing", "most"),
    [
        ("postgres", "ROW(", ")", 100),
        ("postgres", "TRY_CAST(", " AS int)", 7),
        ("spark", "CAST(", " AS int)", 7),
        ("postgres", "(VALUES (", "))", 100),
    ],
)
def test_brackets_whose_cost_multiplies(dialect: str, opening: str, closing: str, most: int) -> None:
    """Rows took n**3 steps (950 of them 32 s), casts that may fail and VALUES 2**n (14 of them 11 and 3 s)."""
    db = ev.connect()
    db.sql(f"SET dialect = '{dialect}'")
    at_most = "SELECT " + opening * most + "1" + closing * most
    db.sql("SELECT 1")  # imports what reads SQL
    assert calls(lambda: db.sql(at_most)) < 1_500_000
    if "VALUES" not in opening:
        with pytest.raises(ev.EverviewError) as caught:
            db.sql("SELECT " + opening * 950 + "1" + closing * 950)
        assert caught.value.code == "E_DEPTH" and "line 1, column" in caught.value.message
