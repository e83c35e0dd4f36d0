"""SET dialect: texts are read as another system reads them; what changes meaning follows; views keep what they mean."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import duckdb
import pytest

import everview as ev
from tests.sql import harness

ROWS = """
    (7, 2, 'a,b', date '2026-01-31'), (-7, 2, 'B', date '2026-03-01'), (2, 0, NULL, NULL),
    (NULL, 5, 'c', date '2027-01-01')
"""


def _session() -> ev.Session:
    db = ev.connect()
    db.sql("CREATE TABLE t (a int, b int, s text, d date)")
    db.sql(f"INSERT INTO t VALUES {ROWS}")
    return db


def _asked(dialect: str, text: str) -> list[Any]:
    db = _session()
    db.sql(f"SET dialect = '{dialect}'")
    return db.sql(text).rows()


@pytest.mark.parametrize(
    ("dialect", "half", "by_zero"),
    [
        ("postgres", [3, -3], "E_ROWS"),
        ("redshift", [3, -3], "E_ROWS"),
        ("duckdb", [3.5, -3.5], "E_ROWS"),
        ("spark", [3.5, -3.5], None),
        ("mysql", [3.5, -3.5], None),
        ("sqlite", [3, -3], None),
    ],
)
def test_division(dialect: str, half: list[Any], by_zero: str | None) -> None:
    assert [x for (x,) in _asked(dialect, "SELECT a / 2 FROM t WHERE abs(a) = 7 ORDER BY a DESC")] == half
    if by_zero is None:
        assert _asked(dialect, "SELECT a / b, a % b FROM t WHERE a = 2") == [(None, None)]
    else:
        with pytest.raises(ev.EverviewError) as caught:
            _asked(dialect, "SELECT a / b FROM t WHERE a = 2")
        assert caught.value.code == by_zero


@pytest.mark.parametrize(
    ("dialect", "up", "down"),
    [
        ("postgres", [-7, 2, 7, None], [None, 7, 2, -7]),
        ("duckdb", [-7, 2, 7, None], [7, 2, -7, None]),
        ("spark", [None, -7, 2, 7], [7, 2, -7, None]),
        ("mysql", [None, -7, 2, 7], [7, 2, -7, None]),
    ],
)
def test_order_of_nulls(dialect: str, up: list[Any], down: list[Any]) -> None:
    assert [x for (x,) in _asked(dialect, "SELECT a FROM t ORDER BY a")] == up
    assert [x for (x,) in _asked(dialect, "SELECT a FROM t ORDER BY a DESC")] == down
    assert [x for (x,) in _asked(dialect, "SELECT a FROM t ORDER BY a LIMIT 1")] == up[:1]
    numbered = _asked(dialect, "SELECT a, row_number() OVER (ORDER BY a DESC) AS n FROM t")
    assert [a for a, _ in sorted(numbered, key=lambda r: r[1])] == down


@pytest.mark.parametrize(
    ("dialect", "text", "rows"),
    [
        ("postgres", r"SELECT 'a\nb' AS x", [(r"a\nb",)]),
        ("mysql", r"SELECT 'a\nb' AS x, 'it\'s' AS y", [("a\nb", "it's")]),
        ("spark", r"""SELECT "it's" AS x, 'a\tb' AS y""", [("it's", "a\tb")]),
        ("mysql", "SELECT `a` FROM t WHERE a = 7 || b = 5 ORDER BY `a` DESC", [(7,), (None,)]),
        ("postgres", "SELECT r.`a`, '`' AS `group` FROM `t` AS r WHERE `a` = 7", [(7, "`")]),
        ("mysql", "SELECT concat('x', NULL) AS c, greatest(1, NULL) AS g", [(None, None)]),
        ("postgres", "SELECT concat('x', NULL) AS c, greatest(1, NULL) AS g", [("x", 1)]),
        ("mysql", "SELECT 7 DIV 2 AS x, 5 ^ 3 AS y", [(3, 6)]),
        ("duckdb", "SELECT 7 // 2 AS x, 2 ^ 3 AS y", [(3, 8.0)]),
    ],
)  # fmt: skip
def test_reading(dialect: str, text: str, rows: list[Any]) -> None:
    assert _asked(dialect, text) == rows


DAY = dt.date(2026, 1, 31)


@pytest.mark.parametrize(
    ("dialect", "expression", "value"),
    [
        ("spark", "date_format(d, 'yyyy-MM')", "2026-01"),
        ("spark", "concat_ws(chr(43), array(s, NULL, s))", "a,b+a,b"),
        ("spark", "nvl(NULL, a)", 7),
        ("spark", "datediff(d, date '2026-01-01')", 30),
        ("spark", "date_add(d, 3)", dt.date(2026, 2, 3)),
        ("spark", "add_months(d, 1)", dt.date(2026, 2, 28)),
        ("spark", "trunc(d, 'MM')", dt.date(2026, 1, 1)),
        ("spark", "s rlike '^a'", True),
        ("spark", "CAST(a AS STRING)", "7"),
        ("mysql", "ifnull(NULL, a)", 7),
        ("mysql", "date_format(d, '%d.%m.%Y')", "31.01.2026"),
        ("mysql", "date_add(d, INTERVAL 1 MONTH)", dt.date(2026, 2, 28)),
        ("mysql", "date_sub(d, INTERVAL 1 DAY)", dt.date(2026, 1, 30)),
        ("mysql", "substring_index(s, ',', 1)", "a"),
        ("mysql", "if(a > b, 'x', 'y')", "x"),
        ("duckdb", "strftime(d, '%Y/%m')", "2026/01"),
        ("duckdb", "date_diff('month', d, date '2026-03-01')", 2),
        ("duckdb", "regexp_matches(s, 'b$')", True),
        ("duckdb", "len(s)", 3),
        ("bigquery", "safe_divide(a, b)", 3.5),
        ("snowflake", "iff(a > 1, 1, 0)", 1),
        ("snowflake", "dateadd(day, 1, d)", dt.date(2026, 2, 1)),
        # doubles as whole numbers: away from zero, or to the even neighbour
        *((of, "CAST(a - CAST(4.5 AS DOUBLE PRECISION) AS INT)", 3) for of in ("trino", "snowflake")),
        ("bigquery", "CAST(a - CAST(4.5 AS FLOAT64) AS INT64)", 3),
        ("duckdb", "CAST(a - 4.5::double AS int)", 2),
        ("mysql", "round(CAST(a - 4.5 AS DOUBLE))", 2.0),
        ("mysql", "round(a - 4.5)", 3),
        # before the first character
        *((of, f"substr(s, {at})", "") for of in ("mysql", "trino") for at in ("a - 7", "-9")),
        *((of, "substr(s, a - 7)", "a,b") for of in ("bigquery", "snowflake", "spark")),
        ("trino", "substr(s, -2)", ",b"),
        # days stay days
        *((of, "d + INTERVAL '1' MONTH", dt.date(2026, 2, 28)) for of in ("trino", "mysql", "snowflake")),
        *((of, "d - INTERVAL '1' DAY", dt.date(2026, 1, 30)) for of in ("trino", "mysql")),
        ("bigquery", "date_trunc(d, MONTH)", dt.date(2026, 1, 1)),
        *((of, "date_trunc('month', d)", dt.date(2026, 1, 1)) for of in ("trino", "snowflake")),
        ("duckdb", "date_trunc('month', d)", dt.datetime(2026, 1, 1)),
        # units that have passed, and weeks that begin on Sunday
        ("trino", "date_diff('day', timestamp '2026-01-01 23:00:00', timestamp '2026-01-02 01:00:00')", 0),
        ("snowflake", "datediff(day, '2026-01-01 23:00:00'::timestamp, '2026-01-02 01:00:00'::timestamp)", 1),
        ("tsql", "datediff(week, d, dateadd(day, 1, d))", 1),
        ("snowflake", "datediff(week, d, dateadd(day, 1, d))", 0),
        ("snowflake", "concat(dayname(d), monthname(d))", "SatJan"),
        ("tsql", "len(concat(s, '  '))", 3),
        ("tsql", "isnull(NULL, a)", 7),
        ("snowflake", "round(a / b)", 4),
        ("snowflake", "try_cast(s AS int)", None),
        ("trino", "element_at(split(s, ','), 5)", None),
        ("mysql", "length(concat(s, 'é'))", 5),
        ("bigquery", "length(concat(s, 'é'))", 4),
    ],
)  # fmt: skip
def test_functions_of_other_systems(dialect: str, expression: str, value: Any) -> None:
    assert _asked(dialect, f"SELECT {expression} AS x FROM t WHERE d = '2026-01-31'") == [(value,)]


@pytest.mark.parametrize(
    ("dialect", "text", "words"),
    [
        ("trino", "SELECT date_diff('month', d, d) AS x FROM t", "datediff of months is not supported"),
    ],
)  # fmt: skip
def test_what_is_not_counted_is_refused(dialect: str, text: str, words: str) -> None:
    with pytest.raises(ev.PlanError, match=words):
        _asked(dialect, text)


@pytest.mark.parametrize(
    ("dialect", "aggregate", "value"),
    [
        ("duckdb", "quantile_cont(a, 0.5)", 2.0),
        ("duckdb", "arg_max(s, b)", "c"),
        ("duckdb", "median(b)", 2.0),
        ("duckdb", "approx_count_distinct(b)", 3),
        ("spark", "max_by(s, b)", "c"),
        ("spark", "percentile_approx(a, 0.5)", 2),
        ("spark", "count_if(a > 0)", 2),
        ("spark", "any_value(b) >= 0", True),
    ],
)
def test_aggregates_of_other_systems(dialect: str, aggregate: str, value: Any) -> None:
    assert _asked(dialect, f"SELECT {aggregate} AS x FROM t") == [(value,)]


def test_table_functions_of_other_systems() -> None:
    assert _asked("duckdb", "SELECT i, j FROM range(2) AS r(i), generate_series(1, 2) AS g(j) ORDER BY i, j") == [
        (0, 1), (0, 2), (1, 1), (1, 2)
    ]  # fmt: skip
    assert sorted(_asked("spark", "SELECT explode(array(1, 2)) AS x")) == [(1,), (2,)]


def test_a_view_keeps_what_it_means(tmp_path: Path) -> None:
    """In another dialect, after reopening, and while its rows change."""
    with ev.connect(tmp_path / "db") as db:
        db.sql("CREATE TABLE t (a int, b int)")
        db.sql("SET dialect = 'mysql'; CREATE VIEW exact AS SELECT a, a / b AS q FROM t ORDER BY a LIMIT 2")
        db.sql("CREATE FUNCTION half(x int) RETURNS double LANGUAGE SQL AS 'SELECT x / 2'")
        db.sql("SET dialect = default; CREATE VIEW whole AS SELECT a, a / b AS q FROM t WHERE b <> 0")
        db.sql("INSERT INTO t VALUES (7, 2), (NULL, 3)")
    with ev.connect(tmp_path / "db") as db:
        assert db.sql("SHOW dialect").rows() == [("postgres",)]
        db.sql("INSERT INTO t VALUES (5, 0), (9, 4)")
        assert sorted(db["exact"].rows(), key=repr) == [(5, None), (None, None)]
        assert sorted(db["whole"].rows(), key=repr) == [(7, 3), (9, 2), (None, None)]
        assert db.sql("SELECT half(5) AS h, 5 / 2 AS w").rows() == [(2.5, 2)]


def test_the_dialect_changes_with_the_next_statement() -> None:
    db = _session()
    assert db.sql(r"SELECT 'x'; SET dialect TO mysql; SELECT 'it\'s' AS x").rows() == [("it's",)]
    assert db.sql("SHOW dialect").rows() == [("mysql",)]
    assert db.sql("SET dialect = 'PostgreSQL'; SELECT 5 / 2 AS x").rows() == [(2,)]


def test_queries_of_duckdb_as_views() -> None:
    """The same text asked of DuckDB, and kept up to date here in its dialect."""
    texts = [
        "SELECT a, a / 4 AS q, b // 4 AS w FROM t",
        "SELECT a, x FROM t ORDER BY x DESC, a LIMIT 3",
        "SELECT s, strftime(d, '%Y-%m') AS m, date_diff('month', date '1994-01-01', d) AS n FROM t",
        "SELECT a, median(b) AS m, quantile_cont(x, 0.25) AS q, count(*) FILTER (b > 3) AS n FROM t GROUP BY ALL",
        "SELECT regexp_matches(s, '[ab]') AS r, len(s) AS l, coalesce(s, 'none') || '!' AS t FROM t",
        "SELECT i, v.c FROM range(3) AS r(i) LEFT JOIN v ON v.a = i",
    ]
    db = harness.session()
    db.sql("SET dialect = 'duckdb'")
    blocks = [harness.Block("query", (), text, i) for i, text in enumerate(texts)]
    oracle = harness.Oracle
    try:
        harness.Oracle = _Plain  # type: ignore[misc]
        assert harness.differences(db, blocks, seed=5, batches=4) == {}
    finally:
        harness.Oracle = oracle  # type: ignore[misc]


class _Plain(harness.Oracle):
    """DuckDB as it comes: NULLs last."""

    def __init__(self) -> None:
        super().__init__()
        self.db.execute("RESET default_null_order")
        assert isinstance(self.db, duckdb.DuckDBPyConnection)


@pytest.mark.parametrize(
    ("dialect", "text", "code", "column", "says"),
    [
        ("spark", "SELECT frobnicate(a) FROM t", "E_UNSUPPORTED", 8, "there is no function frobnicate"),
        ("spark", "SELECT lowr(s) FROM t", "E_UNSUPPORTED", 8, "did you mean 'lower'?"),
        ("mysql", "SELECT elt(1, s) FROM t", "E_UNSUPPORTED", 8, "elt is not supported here"),
        ("mysql", "SELECT a, nope FROM t", "E_COLUMN", 11, "there is no column nope"),
        ("postgres", "SET dialect = 'postgre'", "E_DIALECT", 15, "did you mean 'postgres'?"),
        ("duckdb", "SELECT date_diff('dya', d, d) FROM t", "E_UNIT", 8, "did you mean 'day'?"),
    ],
)
def test_errors_have_the_words_of_the_text(dialect: str, text: str, code: str, column: int, says: str) -> None:
    with pytest.raises(ev.EverviewError) as caught:
        _asked(dialect, text)
    assert (caught.value.code, caught.value.column) == (code, column), caught.value  # type: ignore[attr-defined]
    assert says in str(caught.value)


@pytest.mark.parametrize("dialect", ["default", "duckdb", "spark", "mysql", "snowflake", "redshift"])
def test_the_type_of_a_constant_comes_before_the_operators_behind_it(dialect: str) -> None:
    """sqlglot casts the text first, and makes a constant of the result."""
    with ev.connect() as db:
        db.sql(f"SET dialect = '{dialect}'" if dialect != "default" else "SET dialect = default")
        ((moment, day),) = db.sql(
            "SELECT date '2024-02-29'::timestamp AS m, timestamp '2024-02-29 12:00'::date AS d"
        ).rows()
    assert moment.replace(tzinfo=None) == dt.datetime(2024, 2, 29) and type(day) is dt.date
