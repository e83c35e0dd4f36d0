"""Forms whose meaning is another one in other systems: the answers are those of DuckDB and SQLite, asked here, and of
Spark 4 with `spark.sql.ansi.enabled=false`, as it gave them. Each is asked at once and is a view that saw a deletion.
"""

from __future__ import annotations

import datetime as dt
import math
import sqlite3
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import duckdb
import pytest

import everview as ev
from everview.session.local_shards import local_shards

COLUMNS = ("a int", "b int", "s text", "d date", "x double")
ROWS = """
    (7, 2, 'a,b', '2026-01-31', 2.5), (-7, 2, 'B', '2026-03-01', -0.5), (2, 0, NULL, NULL, 3.0),
    (NULL, 5, 'c', '2027-01-01', NULL), (0, -3, '', '2024-02-29', 1.5)
"""

SHARED = """
    round(x) | round(x * 1e10) | round(2.675::double, 2) | cast(x AS int) | cast(x AS varchar) | cast(1e10 AS varchar)
    | cast(1e20::double AS varchar) | x || 'k' | substr('hello', 0, 2) | substr('hello', -7, 4) | substr(s, -1)
"""
DUCKDB = """
    x // 2 | -7.5::decimal(5, 2) // 2 | a // 3 | s SIMILAR TO 'a.*' | NOT s SIMILAR TO 'B|c' | [1, 2, 3][-2:]
    | [1, 2, 3][-2:-1] | [a, b, 3][:-2] | [1, 2, 3][-5:2]
    | sha256('a') | date_add(d, INTERVAL 1 DAY) | time_bucket(INTERVAL '10 days', d) | [1, 2, 3][-1] | [1, 2][a]
    | len([a, b])
    | string_split(s, ',') | str_split('a.b', '.') | string_split('ab', '') | string_split_regex('a1b2', '[0-9]')
    | regexp_extract('100-200', '(\\d+)-(\\d+)', 1) | regexp_extract('100-200', '(\\d+)') | regexp_extract(s, '(z)')
    | regexp_full_match(s, 'B|a') | prefix(s, 'a') | suffix(s, 'b') | to_base64('abc'::blob) | date_part('year', d)
    | date_part('dow', d) | dayofweek(d) | isodow(d) | weekday(d) | dayofyear(d) | weekofyear(d) | week(d) | quarter(d)
    | extract(dayofweek FROM d) | hour(timestamp '2026-01-31 10:20:30') | minute(timestamp '2026-01-31 10:20:30')
    | make_date(2026, 1, b + 4) | list_min([a, b]) | list_max([a, b]) | list_has_all([1, 2], [a]) | list_prepend(1, [a])
    | list_unique([1, a, 7]) | '{"a": {"b": [5, 6]}}'::json ->> '$.a.b[1]' | '{"a": "x"}'::json ->> 'a'
    | json_extract_string('{"a": "' || s || '"}', '$.a') | isinf(x)
"""
SQLITE = """
    x % 2 | a % 2.5 | x % 0 | 0.1 + 0.2 | 0.1 * 3 = 0.3 | 1.5
    | cast(x AS int) | cast(-x AS int) | cast(x AS text) | cast(1e10 AS text) | round(x) | s LIKE 'A%' | s LIKE 'b'
    | 'ABC' LIKE '_' || 'bC' | substr('hello', 0, 2) | substr('hello', -7, 4) | '{"a": "x"}' ->> 'a'
"""

DAY = dt.date
SPARK: dict[str, list[Any]] = {
    # of each row: 7, -7, 2, NULL, 0
    "round(x)": [3.0, -1.0, 3.0, None, 2.0],
    "cast(x AS int)": [2, 0, 3, None, 1],
    "cast(-x * 3 AS bigint)": [-7, 1, -9, None, -4],
    "cast(2.9 AS int) + a": [9, -5, 4, None, 2],
    "cast(x AS string)": ["2.5", "-0.5", "3.0", None, "1.5"],
    "concat(x * 1e9, '')": ["2.5E9", "-5.0E8", "3.0E9", None, "1.5E9"],
    "initcap('hello-wORLD ' || s)": ["Hello-world A,b", "Hello-world B", None, "Hello-world C", "Hello-world "],
    "locate(',', s, 2)": [2, 0, None, 0, 0],
    "split(s, ',')": [["a", "b"], ["B"], None, ["c"], [""]],
    "split('a1b2', '[0-9]')": [["a", "b", ""]] * 5,
    r"regexp_extract('100-200', '(\\d+)-(\\d+)', 2)": ["200"] * 5,
    "regexp_extract(s, '(b)')": ["b", "", None, "", ""],
    "sha2('a', 256)": ["ca978112ca1bbdcafac231b39a23dc4da786eff8147c4e72b9807785afee48bb"] * 5,
    "base64('abc')": ["YWJj"] * 5,
    "format_string('%d-%s %05.1f%%', a, s, x)": [
        "7-a,b 002.5%", "-7-B -00.5%", "2-null 003.0%", "null-c null%", "0- 001.5%"
    ],
    "trunc(d, 'MM')": [DAY(2026, 1, 1), DAY(2026, 3, 1), None, DAY(2027, 1, 1), DAY(2024, 2, 1)],
    "dayofweek(d)": [7, 1, None, 6, 5],
    "weekday(d)": [5, 6, None, 4, 3],
    "dayofyear(d)": [31, 60, None, 1, 60],
    "weekofyear(d)": [5, 9, None, 53, 9],
    "quarter(d)": [1, 1, None, 1, 1],
    "extract(dow FROM d)": [7, 1, None, 6, 5],
    "date_part('month', d)": [1, 3, None, 1, 2],
    "hour(timestamp'2026-01-31 10:20:30.5')": [10] * 5,
    "make_date(2026, b + 11, 31)": [None, None, None, None, DAY(2026, 8, 31)],
    "d - date'2026-01-01'": [dt.timedelta(n) if n is not None else None for n in (30, 59, None, 365, -672)],
    "array_position(array(1, 2, 7), a)": [3, 0, 2, None, 0],
    "slice(array(1, 2, 3, 4), -3, 2)": [[2, 3]] * 5,
    "isnan(x)": [False] * 5,
    "isnull(a)": [False, False, False, True, False],
    "get_json_object('{\"a\":{\"b\":' || b || '}}', '$.a.b')": ["2", "2", "0", "5", "-3"],
    "get_json_object(s, '$.a')": [None] * 5,
}  # fmt: skip


def _expressions(text: str) -> list[str]:
    return [e.strip() for e in text.split(" | ")]


def _plain(value: Any) -> Any:
    if isinstance(value, bool):
        return int(value)
    if isinstance(value, (int, float, Decimal)):
        return "nan" if math.isnan(value) else float(value)
    if isinstance(value, (list, tuple)):
        return tuple(map(_plain, value))
    return value.timedelta() if isinstance(value, ev.Interval) else value


@pytest.fixture(params=[ev.connect, lambda: local_shards(2)], ids=["embedded", "shards"])
def db(request: pytest.FixtureRequest) -> Iterator[ev.Session]:
    with request.param() as session:
        session.sql(f"CREATE TABLE t ({', '.join(COLUMNS)})")
        yield session


def _asked(db: ev.Session, dialect: str, expressions: list[str]) -> dict[str, list[Any]]:
    """The values of expressions for each row; those of a view must be the same."""
    db.sql(f"INSERT INTO t VALUES {ROWS}, (99, 1, 'zz', '2020-01-01', 1.0); SET dialect = '{dialect}'")
    found = {}
    for i, expression in enumerate(expressions):
        query = f"SELECT b, a, {expression} AS r FROM t"
        view = db.sql(f"CREATE VIEW v{i} AS {query}")
        found[expression] = (query, view)
    db.sql("DELETE FROM t WHERE a = 99")
    answers = {}
    for expression, (query, view) in found.items():
        rows = sorted(db.sql(query).rows(), key=repr)
        assert rows == sorted(view.rows(), key=repr), expression
        answers[expression] = [_plain(r) for r in rows]
    return answers


def _of(run: Any, expressions: list[str]) -> dict[str, list[Any]]:
    answers = {}
    for expression in expressions:
        rows = run(f"SELECT b, a, {expression} AS r FROM t").fetchall()
        answers[expression] = [_plain(r) for r in sorted(map(tuple, rows), key=repr)]
    return answers


def test_duckdb(db: ev.Session) -> None:
    expressions = [*_expressions(SHARED), *_expressions(DUCKDB)]
    theirs = duckdb.connect()
    theirs.execute(f"CREATE TABLE t ({', '.join(COLUMNS)}); INSERT INTO t VALUES {ROWS}")
    assert _asked(db, "duckdb", expressions) == _of(theirs.execute, expressions)


def test_sqlite(db: ev.Session) -> None:
    theirs = sqlite3.connect(":memory:")
    theirs.execute(f"CREATE TABLE t ({', '.join(COLUMNS)})")
    theirs.execute(f"INSERT INTO t VALUES {ROWS}")
    expressions = _expressions(SQLITE)
    assert _asked(db, "sqlite", expressions) == _of(theirs.execute, expressions)


def test_spark(db: ev.Session) -> None:
    found = _asked(db, "spark", list(SPARK))
    places = [(2, 7), (2, -7), (0, 2), (5, None), (-3, 0)]
    for expression, values in SPARK.items():
        by_place = {(int(r[0]), None if r[1] is None else int(r[1])): r[2] for r in found[expression]}
        assert [by_place[p] for p in places] == [_plain(v) for v in values], expression


def test_lists_of_spark_leave_out_nulls(db: ev.Session) -> None:
    db.sql("SET dialect = 'spark'")
    db.sql("CREATE VIEW v AS SELECT collect_list(a) AS l, collect_set(a > 1) AS s FROM t")
    db.sql("CREATE VIEW g AS SELECT b, collect_list(a) AS l FROM t GROUP BY b")
    assert db["v"].rows() == [([], [])]
    db.sql("INSERT INTO t (a, b) VALUES (2, 1), (NULL, 1), (NULL, 2), (5, 1)")
    assert db["v"].rows() == [([2, 5], [True])]
    assert sorted(db["g"].rows()) == [(1, [2, 5]), (2, [])]
    db.sql("DELETE FROM t WHERE a > 2")
    assert db["v"].rows() == [([2], [True])]


def test_semi_joins_by_using(db: ev.Session) -> None:
    db.sql("CREATE TABLE u (a int, k int); SET dialect = 'spark'")
    db.sql("CREATE VIEW some AS SELECT t.a FROM t LEFT SEMI JOIN u USING (a)")
    db.sql("CREATE VIEW none AS SELECT t.a FROM t LEFT ANTI JOIN u USING (a)")
    db.sql("INSERT INTO t (a) VALUES (1), (2), (NULL); INSERT INTO u VALUES (2, 1), (2, 2), (3, 1)")
    assert (db["some"].rows(), sorted(db["none"].rows(), key=repr)) == ([(2,)], [(1,), (None,)])
    db.sql("DELETE FROM u WHERE a = 2")
    assert db["some"].rows() == []


@pytest.mark.parametrize(
    ("dialect", "expression"),
    [("duckdb", "format('{}', 1)"), ("mysql", "initcap('a')"), ("spark", "split('ab', '')")],
)
def test_what_would_mean_something_else_is_refused(db: ev.Session, dialect: str, expression: str) -> None:
    db.sql(f"SET dialect = '{dialect}'")
    with pytest.raises(ev.PlanError) as caught:
        db.sql(f"SELECT {expression}")
    assert caught.value.code == "E_UNSUPPORTED"


@pytest.mark.parametrize("dialect", ["duckdb", "spark", "bigquery"])
def test_fields_of_structs(db: ev.Session, dialect: str) -> None:
    db.sql("CREATE TABLE place (id int, at struct<lat int, deep struct<x int>>, t struct<lat int>)")
    db.sql(f"SET dialect = '{dialect}'")
    db.sql("CREATE VIEW v AS SELECT p.id, at.lat AS a, p.at.lat AS b, (at.deep).x AS c FROM place p")
    db.sql("CREATE VIEW g AS SELECT at.lat, count(*) AS n FROM place WHERE at.lat > 0 GROUP BY at.lat")
    db.sql("CREATE VIEW s AS SELECT id FROM place p WHERE EXISTS (SELECT 1 FROM t WHERE t.a = at.lat)")
    db.sql("SET dialect = default")
    db.sql("INSERT INTO place VALUES (1, ROW(5, ROW(6)), NULL), (2, NULL, NULL), (3, ROW(5, ROW(NULL)), ROW(1))")
    db.sql("INSERT INTO t (a) VALUES (5)")
    assert sorted(db["v"].rows()) == [(1, 5, 5, 6), (2, None, None, None), (3, 5, 5, None)]
    assert (db["g"].rows(), sorted(db["s"].rows())) == ([(5, 2)], [(1,), (3,)])
    db.sql("DELETE FROM place WHERE id = 1")
    assert (db["g"].rows(), db["s"].rows()) == ([(5, 1)], [(3,)])
    with pytest.raises(ev.PlanError, match="there is no table at"):
        db.sql("SELECT at.lat FROM place")
    db.sql(f"SET dialect = '{dialect}'")
    with pytest.raises(ev.PlanError, match="the row has no field lon"):
        db.sql("SELECT at.lon FROM place")
    with pytest.raises(ev.PlanError, match=r"there is no column t\.lat"):
        db.sql("SELECT t.lat FROM place, t")
