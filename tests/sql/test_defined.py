"""CREATE FUNCTION ... LANGUAGE SQL: what calls mean in views that change, what is kept, what depends on what."""

from __future__ import annotations

from pathlib import Path

import pytest

import everview as ev
from tests.sql import harness

FUNCTIONS = """
    CREATE FUNCTION doubled(x int) RETURNS int LANGUAGE SQL IMMUTABLE AS $$ SELECT 2 * x $$;
    CREATE FUNCTION plus(int, y int) RETURNS int AS 'SELECT $1 + y;' LANGUAGE sql STRICT PARALLEL SAFE;
    CREATE FUNCTION named(a int, b text) RETURNS text RETURN coalesce(b, '?') || doubled(a);
    CREATE FUNCTION above(k int) RETURNS int LANGUAGE SQL STABLE AS $$ SELECT sum(c) FROM v WHERE v.a > k $$;
    CREATE FUNCTION deep(k int) RETURNS int RETURN doubled(above(k));
    CREATE FUNCTION half(x double precision) RETURNS decimal(9, 3) LANGUAGE SQL AS $$ SELECT x / 2 $$;
"""

PAIRS = (
    ("SELECT a, doubled(a) AS d, plus(a, b) AS p FROM t", "SELECT a, 2 * a AS d, a + b AS p FROM t"),
    ("SELECT named(a, s) AS n FROM t", "SELECT coalesce(s, '?') || 2 * a AS n FROM t"),
    ("SELECT plus(doubled(plus(a, 1)), b) AS n FROM t WHERE doubled(b) > 4",
     "SELECT 2 * a + 2 + b AS n FROM t WHERE b > 2"),
    ("SELECT doubled(a) AS k, sum(plus(b, 1)) AS n FROM t GROUP BY doubled(a)",
     "SELECT 2 * a AS k, sum(b + 1) AS n FROM t GROUP BY 1"),
    ("SELECT a, above(a) AS s FROM u", "SELECT a, (SELECT sum(v.c) FROM v WHERE v.a > u.a) AS s FROM u"),
    ("SELECT a, plus(above(c), above(a)) AS s FROM u WHERE above(a) > 2",
     "SELECT a, (SELECT sum(v.c) FROM v WHERE v.a > u.c) + (SELECT sum(v.c) FROM v WHERE v.a > u.a) AS s FROM u "
     "WHERE (SELECT sum(v.c) FROM v WHERE v.a > u.a) > 2"),
    ("SELECT a, max(above(c)) AS s FROM u GROUP BY a HAVING above(a) > 0",
     "SELECT a, max((SELECT sum(v.c) FROM v WHERE v.a > u.c)) AS s FROM u GROUP BY a "
     "HAVING (SELECT sum(v.c) FROM v WHERE v.a > u.a) > 0"),
    ("SELECT a, deep(a) AS s FROM u WHERE deep(c) > 3",
     "SELECT a, 2 * (SELECT sum(v.c) FROM v WHERE v.a > u.a) AS s FROM u "
     "WHERE 2 * (SELECT sum(v.c) FROM v WHERE v.a > u.c) > 3"),
    ("SELECT half(x) AS h FROM t", "SELECT (x / 2)::decimal(9, 3) AS h FROM t"),
    ("SELECT t.a FROM t JOIN u ON doubled(t.a) = plus(u.a, u.c)", "SELECT t.a FROM t JOIN u ON 2 * t.a = u.a + u.c"),
)  # fmt: skip


@pytest.mark.parametrize("shards", [0, 2], ids=["embedded", "two shards"])
def test_views_that_call_functions(shards: int) -> None:
    db = harness.session(shards)
    db.sql(FUNCTIONS)
    blocks = [harness.Block("query", (), f"{a}\n----\n{b}", i) for i, (a, b) in enumerate(PAIRS)]
    assert harness.differences(db, blocks, seed=3, batches=4) == {}


def test_functions_outlive_their_session(tmp_path: Path) -> None:
    with ev.connect(tmp_path / "db") as db:
        db.sql("CREATE TABLE v (a int NOT NULL, c int NOT NULL)")
        db.sql(FUNCTIONS)
        db.sql("CREATE VIEW w AS SELECT plus(a, c) AS n FROM v")
        db.sql("CREATE FUNCTION gone() RETURNS int RETURN 1")
        db.sql("DROP FUNCTION gone")
        db.sql("CREATE OR REPLACE FUNCTION half(x double precision) RETURNS int RETURN x / 2 + 1")
    with ev.connect(tmp_path / "db") as db:
        assert db.sql("SELECT named(4, 'x') AS n, half(6) AS h").rows() == [("x8", 4)]
        db.sql("INSERT INTO v VALUES (1, 2)")
        assert db["w"].rows() == [(3,)]
        with pytest.raises(ev.PlanError, match="there is no function gone"):
            db.sql("SELECT gone()")
        with pytest.raises(ev.PlanError, match="plus is used by w"):
            db.sql("DROP FUNCTION plus")
        db.sql("DROP FUNCTION plus CASCADE")
        assert db.views == ()
    with ev.connect(tmp_path / "db") as db:
        assert db.views == ()
        with pytest.raises(ev.PlanError, match="there is no function plus"):
            db.sql("SELECT plus(1, 2)")


def test_what_uses_a_function_keeps_it() -> None:
    db = harness.session()
    db.sql(FUNCTIONS)
    db.sql("CREATE VIEW w AS SELECT named(a, s) AS n FROM t")
    for text in ("DROP FUNCTION named", "CREATE OR REPLACE FUNCTION named(a int, b text) RETURNS text RETURN b"):
        with pytest.raises(ev.PlanError) as caught:
            db.sql(text)
        assert caught.value.code == "E_IN_USE" and "used by w" in caught.value.message
    with pytest.raises(ev.PlanError, match="doubled is used by deep, named, w"):
        db.sql("DROP FUNCTION doubled")
    db.sql("DROP VIEW w")
    with pytest.raises(ev.PlanError, match="doubled is used by deep, named"):
        db.sql("DROP FUNCTION doubled(int)")
    db.sql("DROP FUNCTION doubled CASCADE; DROP FUNCTION IF EXISTS named")
    with pytest.raises(ev.PlanError, match="there is no function named"):
        db.sql("SELECT named(1, 'x')")


@pytest.mark.parametrize(
    ("text", "code", "column", "says"),
    [
        ("CREATE FUNCTION f(x int) RETURNS int LANGUAGE SQL AS $$ SELECT x + z $$", "E_COLUMN", 68, "no column z"),
        ("CREATE FUNCTION f(x int) RETURNS int RETURN upper(x)", "E_TYPE", 45, "upper(int) does not exist"),
        ("CREATE FUNCTION f(x imt) RETURNS int RETURN 1", "E_SYNTAX", 21, "did you mean 'int'?"),
        ("CREATE FUNCTION f(x int) RETURNS TABLE (int) LANGUAGE SQL AS 'SELECT 1'", "E_SYNTAX", 34, "names and types"),
        ("CREATE FUNCTION f(x int) RETURNS int LANGUAGE plpgsql AS ''", "E_UNSUPPORTED", 47, "db.function"),
        ("CREATE FUNCTION f(x int) RETURNS int LANGUAGE SQL", "E_SYNTAX", 47, "has no body"),
        ("CREATE FUNCTION f(x int = 3, y int) RETURNS int RETURN x", "E_SYNTAX", 30, "have defaults"),
        ("CREATE FUNCTION f(x int, x int) RETURNS int RETURN x", "E_SYNTAX", 33, "two parameters are called x"),
        ("CREATE FUNCTION lower(x int) RETURNS int RETURN x", "E_NAME", 17, "lower is built in"),
        ("CREATE FUNCTION median(x int) RETURNS int RETURN x", "E_NAME", 17, "median is built in"),
        ("CREATE FUNCTION f(x int) RETURNS int RETURN $2", "E_PARAMETER", 46, "no parameter $2"),
        ("CREATE FUNCTION f(x int) RETURNS int LANGUAGE SQL AS 'SELECT x, x'", "E_WIDTH", 62, "one value, not 2"),
        ("CREATE FUNCTION f(x int) RETURNS int LANGUAGE SQL FROBNICATE RETURN x", "E_SYNTAX", 51, "FROBNICATE"),
        ("SELECT doubled()", "E_ARITY", 8, "takes 1 arguments, not 0"),
        ("SELECT doubled('x')", "E_TYPE", 16, "'x' is not a valid int"),
        ("SELECT dubled(1)", "E_UNSUPPORTED", 8, "did you mean 'doubled'?"),
        ("DROP FUNCTION duobled", "E_FUNCTION", 15, "did you mean 'doubled'?"),
        ("DROP FUNCTION doubled(int, int)", "E_FUNCTION", 15, "has 1 parameters"),
    ],
)  # fmt: skip
def test_mistakes_are_told_at_their_place(text: str, code: str, column: int, says: str) -> None:
    db = harness.session()
    db.sql(FUNCTIONS)
    with pytest.raises(ev.EverviewError) as caught:
        db.sql(text)
    assert (caught.value.code, caught.value.column) == (code, column), caught.value  # type: ignore[attr-defined]
    assert says in str(caught.value)


def test_a_function_that_calls_itself_is_refused() -> None:
    db = ev.connect()
    db.sql("CREATE FUNCTION f(x int) RETURNS int RETURN x; CREATE FUNCTION g(x int) RETURNS int RETURN f(x)")
    with pytest.raises(ev.PlanError, match="f is used by g"):
        db.sql("CREATE OR REPLACE FUNCTION f(x int) RETURNS int RETURN g(x)")
    with pytest.raises(ev.PlanError, match="calls itself"):
        db.sql("CREATE OR REPLACE FUNCTION g(x int) RETURNS int RETURN g(x)")


def test_functions_are_made_between_transactions() -> None:
    db = ev.connect()
    db.sql("BEGIN")
    with pytest.raises(ev.PlanError) as caught:
        db.sql("CREATE FUNCTION f(x int) RETURNS int RETURN x")
    assert caught.value.code == "E_TRANSACTION"
    db.sql("ROLLBACK")


def test_a_query_with_several_rows_fails_where_its_value_is_needed() -> None:
    """PostgreSQL takes the first row, whichever that is."""
    db = ev.connect()
    db.sql("CREATE TABLE t (a int, b int); INSERT INTO t VALUES (1, 10), (2, 20)")
    db.sql("CREATE FUNCTION f(x int) RETURNS int LANGUAGE SQL AS 'SELECT b FROM t WHERE a >= x'")
    assert db.sql("SELECT f(2), f(3)").rows() == [(20, None)]
    with pytest.raises(ev.RowErrors, match="more than one row"):
        db.sql("SELECT f(1)")
