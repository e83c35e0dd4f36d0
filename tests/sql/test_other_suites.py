"""What other systems' test suites showed: answers that were wrong, and forms that people write.

Each query is asked at once and kept as a view, on both runtimes. The texts are our own; the answers are PostgreSQL's,
or those of the system whose dialect is set.
"""

from __future__ import annotations

import datetime as dt
import warnings
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest

import everview as ev
from everview.session.local_shards import local_shards
from everview.session.session import Session

D = dt.datetime

POSTGRES: list[tuple[str, list[tuple[Any, ...]]]] = [
    # extract(second) had no digits after the point
    ("SELECT extract(second FROM at), date_part('second', at) FROM m", [(12.5, 12.5), (3.0, 3.0)]),
    ("SELECT extract(second FROM at::time) FROM m", [(12.5,), (3.0,)]),
    ("SELECT extract(second FROM at::date) FROM m", [(0.0,), (0.0,)]),
    # a quoted number beside a decimal was rounded to the column's digits
    ("SELECT x FROM n WHERE x = '1.501'", []),
    ("SELECT x FROM n WHERE x < '1.501'", [(Decimal("1.50"),)]),
    ("SELECT x FROM n WHERE x IN ('1.501', '1.499', '1.5')", [(Decimal("1.50"),)]),
    ("SELECT x FROM n WHERE x BETWEEN '1.495' AND '1.505'", [(Decimal("1.50"),)]),
    # rows of values are compared as SQL has it, not as structs
    ("SELECT ROW(a, 2) < ROW(1, NULL), (a, 1) > (0, NULL) FROM i", [(None, True), (False, True)]),
    ("SELECT ROW(a, 2) = ROW(1, NULL), ROW(a, 2) <> ROW(1, NULL) FROM i", [(None, None), (False, True)]),
    ("SELECT a FROM i WHERE (a, a) <= (1, 1)", [(1,)]),
    ("SELECT a FROM i WHERE (a, a, a) >= (1, 1, 2)", [(2,)]),
    ("SELECT a FROM i WHERE (a, a + 1) > (1, 2)", [(2,)]),
    # a text becomes bytes as PostgreSQL reads them
    (r"SELECT ('\x' || '6' || a)::bytea FROM i", [(b"a",), (b"b",)]),
    ("SELECT s::bytea FROM w", [(b"a\\bA",)]),
    # array_to_string without a word for NULLs
    ("SELECT array_to_string(ARRAY[a, NULL, 5], ',', NULL) FROM i", [("1,5",), ("2,5",)]),
    # values close together and far from zero
    ("SELECT var_pop(7000000000003.0::float8 + 2 * a) FROM i", [(1.0,)]),
    ("SELECT stddev(7000000000003::float8) FROM i", [(0.0,)]),
    # GROUPING SETS inside GROUPING SETS
    (
        "SELECT a, b, count(*) FROM i, (VALUES (1), (2)) AS v(b) "
        "GROUP BY GROUPING SETS (a, GROUPING SETS (b, ROLLUP (a, b)))",
        [
            *[(1, None, 2), (2, None, 2)] * 2,
            *[(None, 1, 2), (None, 2, 2), (None, None, 4)],
            *[(1, 1, 1), (1, 2, 1), (2, 1, 1), (2, 2, 1)],
        ],
    ),
    # a key that is written in several ways is one key: GROUPING SETS took g and t.g for two, and showed NULLs
    ("SELECT a, count(*) FROM i GROUP BY GROUPING SETS ((1), (i.a), ())", [(1, 1), (2, 1)] * 2 + [(None, 2)]),
    (
        "SELECT a, b, count(*), grouping(a, i.b) FROM (SELECT a, a % 2 AS b FROM i) AS i "
        "GROUP BY GROUPING SETS ((i.a), (b), (a, 2))",
        [(1, None, 1, 1), (2, None, 1, 1), (None, 0, 1, 2), (None, 1, 1, 2), (1, 1, 1, 0), (2, 0, 1, 0)],
    ),
    ("SELECT a, count(*) FROM i GROUP BY DISTINCT ROLLUP (a), ROLLUP (i.a)", [(1, 1), (2, 1), (None, 2)]),
    (
        "SELECT a, b, count(*) FROM (SELECT a, a % 2 AS b FROM i) AS i GROUP BY GROUPING SETS ((a, (a, b)), ((b)))",
        [(1, 1, 1), (2, 0, 1), (None, 0, 1), (None, 1, 1)],
    ),
    # a star inside ROW stands for the columns, and was one row in another
    ("SELECT ROW(0, w.*)::text FROM (SELECT a, a + 1 AS b FROM i) AS w", [("(0,1,2)",), ("(0,2,3)",)]),
    # (a, b) is a row wherever a value is, and (row).* are its fields
    ("SELECT (a, (a + 1, 'x'))::text FROM i", [('(1,"(2,x)")',), ('(2,"(3,x)")',)]),
    ("SELECT (r).*, r.a FROM (SELECT ROW(a, 'y') AS r, a FROM i) AS r", [(1, "y", 1), (2, "y", 2)]),
    # one row of VALUES is one row
    ("SELECT (VALUES (a + (VALUES (1)))) FROM i", [(2,), (3,)]),
    # ASOF as Calcite and Snowflake write it
    (
        "SELECT x.a, y.a FROM i AS x LEFT ASOF JOIN i AS y MATCH_CONDITION (x.a > y.a) ON x.a % 1 = y.a % 1",
        [(1, None), (2, 1)],
    ),
    ("SELECT x.a, y.a FROM i AS x ASOF JOIN i AS y MATCH_CONDITION (y.a < x.a)", [(2, 1)]),
    # = ALL and <> ANY
    ("SELECT a = ALL (SELECT 1), a <> ANY (SELECT a FROM i) FROM i", [(True, True), (False, True)]),
    (
        "SELECT a = ALL (SELECT x FROM n WHERE x > 100), a <> SOME (SELECT NULL::int) FROM i WHERE a = 1",
        [(True, None)],
    ),
    ("SELECT a FROM i AS o WHERE a = ALL (SELECT a FROM i WHERE i.a = o.a)", [(1,), (2,)]),
    ("SELECT a FROM i WHERE a <> ALL (SELECT 2)", [(1,)]),
    # quoted constants beside others in VALUES and UNION
    ("SELECT v.x FROM (VALUES (1), ('2'), (NULL)) AS v(x) JOIN i ON i.a = v.x", [(1,), (2,)]),
    ("SELECT a FROM i UNION ALL SELECT '7'", [(1,), (2,), (7,)]),
    # SQL's own intervals
    (
        "SELECT at + interval '1-2' year to month FROM m WHERE at < '2026-01-31 12:01'",
        [(D(2027, 3, 31, 12, 0, 12, 500000),)],
    ),
    (
        "SELECT at - interval '1 04:05' day to minute FROM m WHERE at < '2026-01-31 12:01'",
        [(D(2026, 1, 30, 7, 55, 12, 500000),)],
    ),
    (
        "SELECT at + interval '1:30' minute to second FROM m WHERE at < '2026-01-31 12:01'",
        [(D(2026, 1, 31, 12, 1, 42, 500000),)],
    ),
    # TUMBLE in GROUP BY
    (
        "SELECT TUMBLE_START(at, INTERVAL '1' MINUTE), TUMBLE_END(at, INTERVAL '1' MINUTE), count(*) FROM m "
        "GROUP BY TUMBLE(at, INTERVAL '1' MINUTE)",
        [(D(2026, 1, 31, 12, 0), D(2026, 1, 31, 12, 1), 1), (D(2026, 1, 31, 12, 1), D(2026, 1, 31, 12, 2), 1)],
    ),
    (
        "SELECT window_start, count(*) FROM TABLE(TUMBLE(DATA => TABLE m, TIMECOL => DESCRIPTOR(at), "
        "SIZE => INTERVAL '1' MINUTE)) GROUP BY window_start, window_end",
        [(D(2026, 1, 31, 12, 0), 1), (D(2026, 1, 31, 12, 1), 1)],
    ),
    # Materialize's recursion: a fixed point of bags, too
    (
        "WITH MUTUALLY RECURSIVE odd (n int) AS (SELECT a FROM i WHERE a = 1 UNION ALL SELECT n + 1 FROM even), "
        "even (n int) AS (SELECT n + 1 FROM odd WHERE n < 6) SELECT sum(n) FROM odd",
        [(1 + 3 + 5 + 7,)],
    ),
    # variance of numerics hung where a query is answered at once: a function in Python was never given its new parts
    ("SELECT var_pop(x::numeric), stddev_samp(x::numeric) FROM n", [(Decimal(0), None)]),
    ("SELECT round(variance(a::numeric), 3) FROM i", [(Decimal("0.500"),)]),
    # a group that begins with a class and ? was not counted, so \\1 was empty
    (r"SELECT regexp_replace(a || '.9', '^([+-]?\d+)\.\d*$', '\1') FROM i", [("1",), ("2",)]),
    # the unit behind an interval of several parts was taken for a name
    ("SELECT interval '5 day 1' hour = interval '5 days 01:00' FROM i WHERE a = 1", [(True,)]),
    ("SELECT to_char(at, 'TMMonth') FROM m", [("January",), ("January",)]),
    ("SELECT bool 'of', 'ye'::bool, a = 1 = 'on' FROM i WHERE a = 1", [(False, True, True)]),
    # a group that took no part was an empty text, and an empty match behind another was passed over
    ("SELECT regexp_match(a::text, '(2)?.?') FROM i", [([None],), (["2"],)]),
    ("SELECT regexp_matches(a::text || 'b', 'b*', 'g') FROM i WHERE a = 1", [([""],), (["b"],), ([""],)]),
    # forms that were refused
    ("SELECT E'x\\ty' || a, U&'\\0041' || a, N'k' FROM i WHERE a = 1", [("x\ty1", "A1", "k")]),
    ("SELECT (at, interval '1 hour') OVERLAPS (timestamp '2026-01-31 12:01:00', at) FROM m", [(True,), (False,)]),
    ("SELECT (a, NULL) IS NULL, (a, a) IS NOT NULL, ROW(a, NULL) IS NOT NULL FROM i", [(False, True, False)] * 2),
    (
        "SELECT to_number(a || ',234.5', '9,999.9'), trim_scale(a * 1.50) FROM i",
        [(Decimal("1234.5"), Decimal("1.5")), (Decimal("2234.5"), 3)],
    ),
    (
        "SELECT interval '1 day' + a * interval '1 hour', '2 hours' + interval '1 day' FROM i WHERE a = 1",
        [(ev.Interval(0, 1, 3600_000_000), ev.Interval(0, 1, 7200_000_000))],
    ),
    (
        "SELECT pg_typeof(a), pg_typeof(x), array_to_json(ARRAY[a]) FROM i, n WHERE a = 1",
        [("integer", "numeric", [1])],
    ),
    (
        "SELECT last_day(at), extract(microsecond from at) FROM m WHERE at < '2026-01-31 12:01'",
        [(dt.date(2026, 1, 31), 12500000)],
    ),
    # a table's name is its row; functions that give rows inside of expressions; a time is cut to an interval
    ("SELECT to_jsonb(i), (i).a FROM i", [({"a": 1}, 1), ({"a": 2}, 2)]),
    ("SELECT i.a, count(n) FROM i LEFT JOIN n ON n.x > i.a GROUP BY i.a", [(1, 1), (2, 0)]),
    ("SELECT row_number() OVER (ORDER BY a), row_to_json(i) FROM i", [(1, {"a": 1}), (2, {"a": 2})]),
    ("SELECT generate_series(1, a) * 2, a FROM i", [(2, 1), (2, 2), (4, 2)]),
    ("SELECT date_trunc('hour', at::time) FROM m WHERE at < '2026-01-31 12:01'", [(ev.Interval(0, 0, 43200_000_000),)]),
    ("SELECT encode('abc', 'hex'), '{\"a\":1}'::jsonb @? '$.a'::jsonpath FROM i WHERE a = 1", [("616263", True)]),
]

SPARK: list[tuple[str, list[tuple[Any, ...]]]] = [
    (
        "SELECT substr(s, -3), substring(s, -2, 1), substr(s, 0, 2), substr(s, 2) FROM w",
        [("101", "0", "a\\", "\\\\b\\101")],
    ),
    ("SELECT percentile(a, 0.5) FROM i", [(1.5,)]),
    ("SELECT cast(concat(a, '.9') AS int), cast('x' AS int) FROM i", [(1, None), (2, None)]),
    ("SELECT size(array()), array_size(array(a, a)) FROM i WHERE a = 1", [(0, 2)]),
    (
        "SELECT date_add('2011-11-11', a), date_sub('2011-11-11', 1) FROM i WHERE a = 1",
        [(dt.date(2011, 11, 12), dt.date(2011, 11, 10))],
    ),
    ("SELECT cast(a AS timestamp) FROM i", [(D(1970, 1, 1, 0, 0, 1),), (D(1970, 1, 1, 0, 0, 2),)]),
    # posexplode lost the places, explode_outer and posexplode_outer their row of NULLs
    (
        "SELECT a, pos, col FROM i LATERAL VIEW posexplode(array(7, a)) e",
        [(1, 0, 7), (1, 1, 1), (2, 0, 7), (2, 1, 2)],
    ),
    ("SELECT a, p, x FROM i LATERAL VIEW posexplode(array(a)) e AS p, x", [(1, 0, 1), (2, 0, 2)]),
    (
        "SELECT a, x FROM i LATERAL VIEW OUTER explode(filter(array(a), y -> y > 1)) e AS x",
        [(1, None), (2, 2)],
    ),
    ("SELECT a, k, v FROM i LATERAL VIEW explode(map('x', a)) e AS k, v", [(1, "x", 1), (2, "x", 2)]),
    ("SELECT * FROM posexplode_outer(array())", [(None, None)]),
    # functions of elements kept neither order nor NULL
    (
        "SELECT a, filter(array(3, a, 2), x -> x > a), transform(array(9, a), (x, i) -> x * 10 + i) FROM i",
        [(1, [3, 2], [90, 11]), (2, [3], [90, 21])],
    ),
    (
        "SELECT a, concat(array(a), array(7, a)), concat(array(a), cast(NULL AS array<int>)) FROM i",
        [(1, [1, 7, 1], None), (2, [2, 7, 2], None)],
    ),
    ("SELECT a, x'1F' = x'1f', x'00' < x'0f' FROM i WHERE a = 1", [(1, True, True)]),
    ("SELECT a FROM i LEFT SEMI JOIN n", [(1,), (2,)]),
    ("SELECT a FROM i LEFT ANTI JOIN n", []),
    ("SELECT dateadd(DAY, a, date '2022-02-25') FROM i", [(D(2022, 2, 26),), (D(2022, 2, 27),)]),
    ("SELECT dateadd(YEAR, 1, date '2022-02-25'), a FROM i WHERE a = 1", [(D(2023, 2, 25), 1)]),
    ("SELECT filter(cast(NULL AS array<int>), x -> true), a FROM i WHERE a = 1", [(None, 1)]),
    # -128Y was NULL, a text out of range the smallest number, TRY_CAST cut '1.5'
    (
        "SELECT -128Y, -9223372036854775808L, cast('-9223372036854775809' AS long), a FROM i WHERE a = 1",
        [(-128, -(2**63), None, 1)],
    ),
    ("SELECT try_cast(concat(a, '.5') AS int), cast(concat('-.', a) AS int) FROM i", [(None, 0), (None, 0)]),
    # dates became timestamps, a missing year the year 1, letters of templates themselves
    (
        "SELECT date_from_unix_date(a), date '2026-03-31' - interval '1' month FROM i WHERE a = 1",
        [(dt.date(1970, 1, 2), dt.date(2026, 2, 28))],
    ),
    ("SELECT to_date(concat('1', a), 'dd') FROM i", [(dt.date(1970, 1, 11),), (dt.date(1970, 1, 12),)]),
    (
        "SELECT date_format(at, \"EEEE'T'h:mm a, SSS\") FROM m",
        [("SaturdayT12:00 PM, 500",), ("SaturdayT12:01 PM, 000",)],
    ),
    (
        "SELECT convert_timezone('Asia/Tokyo', at) FROM m",
        [(D(2026, 1, 31, 21, 0, 12, 500000),), (D(2026, 1, 31, 21, 1, 3),)],
    ),
    ("SELECT datediff(HOUR, at, timestamp '2026-01-31 10:00:30') FROM m", [(-1,), (-2,)]),
    ("SELECT datediff(SECOND, timestamp '2026-01-31 12:00:00', at) FROM m", [(12,), (63,)]),
    ("SELECT second(at) FROM m", [(12,), (3,)]),
    (
        "SELECT a, b, count(*) FROM i CROSS JOIN (SELECT 7 AS b) GROUP BY a, b GROUPING SETS (a, ())",
        [(1, None, 1), (2, None, 1), (None, None, 2)],
    ),
    (
        "SELECT cast(a || '017-12-11 09:30:00' AS date), cast('2017-2' AS date), to_date('2017') FROM i WHERE a = 2",
        [(dt.date(2017, 12, 11), dt.date(2017, 2, 1), dt.date(2017, 1, 1))],
    ),
    ("SELECT hex(a + 15), unhex(hex('k' || a)), mask('aB-1') FROM i WHERE a = 2", [("11", b"k2", "xX-n")]),
    (
        "SELECT try_add(a, 9223372036854775806), try_divide(a, a - 1), bround(a + 0.5) FROM i",
        [(2**63 - 1, None, Decimal("2")), (None, 2.0, Decimal("2"))],
    ),
    (
        "SELECT levenshtein('kitten', 'sitting'), soundex('Miller'), conv('100', 2, 10), bin(a), "
        "format_number(12332.123456, 4) FROM i WHERE a = 1",
        [(3, "M460", "4", "1", "12,332.1235")],
    ),
    (
        "SELECT months_between('1997-02-28 10:30:00', '1996-10-30'), next_day('2015-01-14', 'TU') FROM i WHERE a = 1",
        [(3.94959677, dt.date(2015, 1, 20))],
    ),
]


@pytest.fixture(params=[ev.connect, lambda: local_shards(2)], ids=["embedded", "shards"])
def db(request: pytest.FixtureRequest) -> Any:
    make: Callable[[], Session] = request.param
    with make() as session:
        session.sql(r"""
            CREATE TABLE m (at timestamp); CREATE TABLE n (x decimal(9, 2));
            CREATE TABLE i (a int); CREATE TABLE w (s text);
        """)
        yield session


def _fill(db: Session) -> None:
    db.sql(r"""
        INSERT INTO m VALUES ('2026-01-31 12:00:12.5'), ('2026-01-31 12:01:03'), ('2026-02-01 00:00:59.9');
        INSERT INTO n VALUES (1.5), (7); INSERT INTO i VALUES (1), (2), (3); INSERT INTO w VALUES ('a\\b\101'), ('zz');
        DELETE FROM m WHERE at > '2026-02-01'; DELETE FROM n WHERE x = 7; DELETE FROM i WHERE a = 3;
        DELETE FROM w WHERE s = 'zz'
    """)


def _sorted(rows: Any) -> list[Any]:
    return sorted(rows, key=repr)


@pytest.mark.parametrize(("dialect", "cases"), [("postgres", POSTGRES), ("spark", SPARK)], ids=["postgres", "spark"])
def test_answers_of_other_suites(db: Session, dialect: str, cases: list[tuple[str, list[tuple[Any, ...]]]]) -> None:
    db.sql(f"SET dialect = '{dialect}'")
    views = []
    for k, (query, expected) in enumerate(cases):
        names = ", ".join(f"c{c}" for c in range(len(expected[0]) if expected else 1))
        views.append(db.sql(f"CREATE VIEW v{k}({names}) AS {query}"))
    db.sql("SET dialect = default")
    _fill(db)
    db.sql(f"SET dialect = '{dialect}'")
    for (query, expected), view in zip(cases, views, strict=True):
        assert _sorted(db.sql(query).rows()) == _sorted(expected), query
        assert _sorted(view.rows()) == _sorted(expected), query


def test_now_is_read_once_in_a_statement(db: Session) -> None:
    query = (
        "SELECT now() = current_timestamp, (SELECT now()) = localtimestamp, now() - current_timestamp = interval '0'"
    )
    assert [db.sql(query).rows() for _ in range(5)] == [[(True, True, True)]] * 5


@pytest.mark.parametrize(
    ("text", "code", "words"),
    [
        ("SELECT count(*) FROM i GROUP BY a GROUPING SETS (a)", "E_SYNTAX", "a comma is missing"),
        ("SELECT 'inf'::numeric", "E_TYPE", "'inf' is not a valid numeric"),
        ("SELECT 'nan'::numeric", "E_TYPE", "'nan' is not a valid numeric"),
        ("SELECT a::timestamp FROM i", "E_TYPE", "a number cannot be cast to timestamp"),
        ("SELECT a::date FROM i", "E_TYPE", "a number cannot be cast to date"),
        ("SELECT HOP_END(at, INTERVAL '1' HOUR, INTERVAL '2' HOUR) FROM m", "E_UNSUPPORTED", "not grouped by this HOP"),
        ("SELECT count(*) FROM m GROUP BY HOP(at, INTERVAL '1' HOUR)", "E_ARITY", "in GROUP BY: HOP"),
        (
            "SELECT * FROM TABLE(TUMBLE(DATA => TABLE m, SIZE => INTERVAL '1' DAY, TIMECOL => DESCRIPTOR(at)))",
            "E_SYNTAX",
            "SIZE is not expected here",
        ),
        ("SELECT interval '1:2' year to month", "E_TYPE", "is not from year to month"),
        ("WITH MUTUALLY RECURSIVE r (n) AS (SELECT 1) SELECT * FROM r", "E_SYNTAX", "n has no type"),
        ("WITH MUTUALLY RECURSIVE r (n text) AS (SELECT 1) SELECT * FROM r", "E_RECURSION", "declared as str"),
        ("WITH MUTUALLY RECURSIVE r (n int, k int) AS (SELECT 1) SELECT * FROM r", "E_WIDTH", "1 columns, not 2"),
        ("CREATE TABLE o (a int) WITH (retention_seconds = 5)", "E_UNSUPPORTED", "would change what there is to see"),
        ("CREATE TABLE o (a int) PARTITION BY RANGE (a)", "E_UNSUPPORTED", "not supported in CREATE TABLE"),
        ("CREATE TABLE o (a int) WITH (shape = 'round')", "E_UNSUPPORTED", "shape='round' is not supported"),
        ("CREATE VIEW o WITH (security_barrier = true) AS SELECT 1 AS a", "E_UNSUPPORTED", "would change"),
        ("WITH q AS (SELECT 1), Q AS (SELECT 2) SELECT * FROM q", "E_DUPLICATE", "two queries of WITH are called Q"),
        ("SELECT * FROM unnest(ARRAY[1]) WITH OFFSET", "E_SYNTAX", "WITH ORDINALITY numbers rows"),
        ("UPDATE i SET a = v.* FROM (VALUES (1, 2)) AS v(x, y)", "E_STAR", "not allowed here"),
        ("CREATE TABLE o (a int, b int GENERATED BY DEFAULT AS (a * 2) STORED)", "E_SYNTAX", "GENERATED ALWAYS"),
        ("CREATE TABLE o (a text GENERATED ALWAYS AS IDENTITY)", "E_TYPE", "a whole number"),
        ("SELECT sum(a) OVER (ORDER BY a RANGE '1 day'::interval PRECEDING) FROM i", "E_TYPE", "is not a distance"),
        ("SELECT interval '1 day 2:03' hour", "E_UNSUPPORTED", "more than whole hours"),
        ("SHOW TABLES AS OF 1", "E_UNSUPPORTED", "only a SELECT"),
        ("SELECT * REPLACE (i.a + 1 AS a) FROM i JOIN i AS j ON true", "E_AMBIGUOUS", "several columns a"),
        ("CREATE SINK s INTO i AS SELECT 1", "E_UNSUPPORTED", "does not write into a table"),
        ("CREATE SINK s FROM nope WITH (connector = 'x')", "E_TABLE", "there is no table or view nope"),
        ("CREATE SINK s WITH (connector = 'x')", "E_SYNTAX", "FROM is missing"),
        ("CREATE TABLE o (a int REFERENCES i (a))", "E_NO_KEY", "neither its key nor UNIQUE"),
        ("CREATE TABLE o (a int AS b + 1, b int, c int AS a - 1)", "E_COLUMN", "there is no column a"),
        ("CREATE TABLE o (a int x AS 1 + 1)", "E_TYPE", "there is no type int x"),
        ("WITH MUTUALLY RECURSIVE r (n int x) AS (SELECT 1) SELECT * FROM r", "E_TYPE", "there is no type int x"),
        ("USE public", "E_UNSUPPORTED", "SET search_path"),
        ("CREATE DATABASE d", "E_UNSUPPORTED", "CREATE DATABASE is not supported"),
        ("SELECT 1 AS a UNION SELECT 'x'", "E_TYPE", "'x' is not a valid int"),
        ("SELECT * FROM (SELECT 1 AS a INTO o) AS q", "E_UNSUPPORTED", "INTO makes a table"),
        (
            "SELECT DISTINCT ON (a) a, unnest(ARRAY[1, 2]) FROM i ORDER BY a",
            "E_UNSUPPORTED",
            "stands behind DISTINCT ON",
        ),
        ("SELECT all, a FROM i", "E_SYNTAX", "before or after this comma"),
        ("SELECT a, FROM i", "E_SYNTAX", "before or after this comma"),
        ("SELECT * FROM i PIVOT (sum(a) FOR a IN (1))", "E_UNSUPPORTED", "PIVOT is not supported here"),
        ("SELECT a AS b, b + 1 FROM i", "E_COLUMN", "there is no column b"),
        ("SELECT a AS b FROM i GROUP BY a HAVING b > 1", "E_COLUMN", "there is no column b"),
    ],
)
def test_refused(db: Session, text: str, code: str, words: str) -> None:
    with pytest.raises(ev.PlanError, match=words) as caught:
        db.sql(text)
    assert caught.value.code == code


def _told(db: Session, text: str) -> list[str]:
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        db.sql(text)
    return [str(w.message) for w in said if issubclass(w.category, ev.Notice)]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("CREATE TABLE o (a int) APPEND ONLY", ["APPEND ONLY is ignored"]),
        ("CREATE TABLE o (a int) WITH (connector = 'kafka', topic = 'x')", ["no rows are read by connector 'kafka'"]),
        ("CREATE SOURCE o (a int) WITH (connector = 'kafka') FORMAT PLAIN ENCODE JSON", ["CREATE SOURCE", "no rows"]),
        ("CREATE SOURCE o (a int) ROW FORMAT JSON", ["CREATE SOURCE"]),
        (
            "CREATE TABLE o (a int) WITH (connector = 'x') FORMAT UPSERT ENCODE AVRO (k = 'l')",
            ["FORMAT ...", "no rows"],
        ),
        ("CREATE TABLE o (a int METADATA FROM 'k' VIRTUAL, b ROW<c INT, d STRING> METADATA)", ["a META", "b META"]),
        ("CREATE TABLE o (a int NOT NULL FOREIGN KEY REFERENCES i (a))", ["REFERENCES i (a) is ignored"]),
        ("CREATE TABLE o (a int, p timestamptz AS PROCTIME())", ["DEFAULT now()"]),
        ("CREATE CLUSTER c REPLICAS (r1 (SIZE '1'))", ["no clusters"]),
        ("DROP CLUSTER IF EXISTS c CASCADE", ["no clusters"]),
        ("CREATE SECRET s AS 'x'", ["no secrets"]),
        ("CREATE CONNECTION k TO KAFKA (BROKER 'h:9092')", ["no connections"]),
        ("CREATE SINK s FROM i WITH (connector = 'blackhole')", ["nothing is written"]),
        (
            "CREATE SINK s AS SELECT a FROM i WITH (connector = 'kafka') FORMAT PLAIN ENCODE JSON",
            ["nothing is written"],
        ),
        (
            "CREATE SINK s FROM i INTO KAFKA CONNECTION k (TOPIC 't') FORMAT JSON ENVELOPE UPSERT",
            ["nothing is written"],
        ),
        ("ALTER SINK s RENAME TO t", ["no named sinks"]),
        ("DROP SINK s", ["no named sinks"]),
        ("CREATE DEFAULT INDEX ON i", ["keep the indexes that they need"]),
        ("SELECT a FROM i GROUP BY a OPTIONS (AGGREGATE INPUT GROUP SIZE = 9)", ["GROUP SIZE"]),
        ("SET 'sql-client.execution.result-mode' = 'tableau'", ["sql-client.execution.result-mode is ignored"]),
        ("RESET 'table.dml-sync'", []),
        ("CREATE TABLE o (a int, b text) PARTITIONED BY (b)", ["is ignored"]),
        ("CREATE TABLE o (a int) WITH (fillfactor = 70)", ["fillfactor of CREATE TABLE is ignored"]),
        ("CREATE MATERIALIZED VIEW o IN CLUSTER big AS SELECT a FROM i", ["IN CLUSTER big is ignored"]),
        ("CREATE MATERIALIZED VIEW o WITH (source_rate_limit = 0) AS SELECT a FROM i", ["source_rate_limit"]),
        ("CREATE INDEX o ON i (a) INCLUDE (a)", ["INCLUDE of CREATE INDEX is ignored"]),
        ("CREATE TABLE o (a int, p AS PROCTIME())", ["DEFAULT now()"]),
        ("SET enable_hashjoin = off", ["SET enable_hashjoin is ignored"]),
        ("SET 'table.exec.mini-batch.enabled' = 'true'", ["table.exec.mini-batch.enabled is ignored"]),
        ("SET SESSION work_mem TO '1GB'", ["SET work_mem is ignored"]),
        ("CREATE TABLE o (a int, PRIMARY KEY (a) NOT ENFORCED)", ["NOT ENFORCED is ignored"]),
        ("CREATE LOCAL VIEW o AS SELECT a FROM i", []),
        ("CREATE TABLE o (a int array, b varchar(5) array not null)", []),
        ("FLUSH", []),
        ("RESET work_mem", []),
        ("EXPLAIN PLAN FOR SELECT a FROM i", []),
        ("SHOW MATERIALIZED VIEWS", []),
    ],
)
def test_what_is_passed_over_is_said(text: str, words: list[str]) -> None:
    with ev.connect() as db:
        db.sql("CREATE TABLE i (a int)")
        told = _told(db, text)
        assert len(told) == len(words) and all(w in t for w, t in zip(words, told, strict=True)), told
        if "o" in db:
            assert db.sql("SELECT * FROM o").rows() == []


def test_tables_as_other_systems_make_them(db: Session) -> None:
    db.sql("""
        CREATE TABLE made (a int NOT NULL, b decimal(10, 3)) AS VALUES (1, 1.5), (2, '2.25');
        CREATE TABLE named (p, q) AS SELECT a, b FROM made;
        SELECT a + 1 AS c INTO chosen FROM made;
        CREATE TABLE noted (a int COMMENT 'first', b AS a * 2) COMMENT 'a table';
        CREATE TABLE same LIKE noted;
        CREATE TYPE place AS (street text, number int);
        CREATE TABLE home (who text, at place); CREATE TABLE row_of (r ROW<x INT, y STRING>);
        CREATE TABLE zoned (at TIMESTAMP_LTZ(3)); INSERT INTO zoned VALUES ('2026-01-31 12:00+01');
        INSERT INTO noted (a) VALUES (3); INSERT INTO same (a) VALUES (4);
        INSERT INTO home VALUES ('Ann', ROW('Main', 1))
    """)
    assert sorted(db.sql("SELECT * FROM made").rows()) == [(1, Decimal("1.500")), (2, Decimal("2.250"))]
    assert sorted(db.sql("SELECT p, q FROM named").rows()) == [(1, Decimal("1.500")), (2, Decimal("2.250"))]
    assert sorted(db.sql("SELECT c FROM chosen").rows()) == [(2,), (3,)]
    assert db.sql("SELECT a, b FROM noted UNION ALL SELECT a, b FROM same").rows() == [(3, 6), (4, 8)]
    assert [row[-1] for row in db.sql("DESCRIBE noted").rows()] == ["a table", "first", None]
    assert db.sql("SELECT (at).number FROM home").rows() == [(1,)]
    assert db.sql("SELECT at FROM zoned").rows() == [(D(2026, 1, 31, 11, tzinfo=dt.UTC),)]
    db.sql("INSERT INTO row_of VALUES (ROW(1, 'a'))")
    assert db.sql("SELECT (r).y, ROW(1, 2) < ROW(2, 1) FROM row_of").rows() == [("a", True)]
    db.sql("CREATE MATERIALIZED VIEW v AS SELECT a FROM made; DROP MATERIALIZED VIEW v")
    assert "v" not in db
    with pytest.raises(ev.InputError, match="twice"):
        db.sql("CREATE TABLE keyed (a int PRIMARY KEY) AS SELECT 1 UNION ALL SELECT 1")
    assert "keyed" not in db


def test_columns_with_a_type_and_an_expression(db: Session) -> None:
    """x int AS a + b, as in RisingWave and MySQL: the value is cast, and may read columns behind it."""
    db.sql("""
        CREATE TABLE c (low int AS v - 1, v int, high int AS v + 1.02, f double AS v + 1.02);
        INSERT INTO c (v) VALUES (1), (2);
        CREATE VIEW total AS SELECT sum(low) AS low, sum(high) AS high FROM c
    """)
    assert sorted(db.sql("SELECT * FROM c").rows()) == [(0, 1, 2, 2.02), (1, 2, 3, 3.02)]
    db.sql("UPDATE c SET v = 5 WHERE v = 2")
    assert db["total"].rows() == [(4, 8)]
    with pytest.raises(ev.EverviewError, match="GENERATED ALWAYS"):
        db.sql("UPDATE c SET low = 1")
    with pytest.raises(ev.PlanError, match="two columns"):
        db.sql("CREATE TABLE d (r ROW<x INT, y INT>, v int AS 1 + 1, v int)")


def test_sources_are_dropped_and_renamed_as_tables(db: Session) -> None:
    db.sql("""
        CREATE SOURCE s (a int) WITH (connector = 'datagen', fields.a.kind = 'sequence') FORMAT PLAIN ENCODE JSON;
        CREATE VIEW v AS SELECT a FROM s;
        ALTER SOURCE s RENAME TO r; INSERT INTO r VALUES (1)
    """)
    assert db["v"].rows() == [(1,)]
    db.sql("DROP SOURCE r CASCADE; CREATE TYPE id AS varchar; CREATE TABLE r (x id NOT NULL); DROP SOURCE IF EXISTS q")
    assert list(db["r"].schema()) == ["x"]


def test_a_recursive_view(db: Session) -> None:
    """CREATE RECURSIVE VIEW v (x) AS query is WITH RECURSIVE v (x) AS (query) SELECT * FROM v."""
    db.sql("CREATE TABLE edge (a int, b int); INSERT INTO edge VALUES (1, 2), (2, 3)")
    view = db.sql("""
        CREATE OR REPLACE RECURSIVE VIEW reach (a, b) AS
        SELECT a, b FROM edge UNION SELECT r.a, e.b FROM reach r JOIN edge e ON r.b = e.a
    """)
    assert _sorted(view.rows()) == [(1, 2), (1, 3), (2, 3)]
    db.sql("DELETE FROM edge WHERE a = 2")
    assert view.rows() == [(1, 2)]
    for text in ("CREATE RECURSIVE VIEW w AS SELECT 1", "CREATE RECURSIVE VIEW w (a)"):
        with pytest.raises(ev.PlanError) as caught:
            db.sql(text)
        assert caught.value.code == "E_SYNTAX", text


def test_rows_of_rows_are_stored(db: Session) -> None:
    db.sql("CREATE TABLE nest (a int, r struct<x int, y struct<p int, q text>>)")
    view = db.sql("CREATE VIEW inner_ AS SELECT a, ((r).y).* FROM nest")
    db.sql("INSERT INTO nest VALUES (1, (2, (3, 'z'))), (4, NULL)")
    assert _sorted(view.rows()) == [(1, 3, "z"), (4, None, None)]
    assert list(view.schema()) == ["a", "p", "q"]
    with pytest.raises(ev.PlanError, match="int has no fields"):
        db.sql("SELECT (a).* FROM nest")


def test_window_time_as_flink_has_it(db: Session) -> None:
    """It is a part of * behind TABLE t and DESCRIPTOR; PARTITION BY may have brackets."""
    db.sql("""
        CREATE TABLE c (a int, b int, ts timestamp);
        CREATE VIEW top AS SELECT window_time, a FROM (
            SELECT *, row_number() OVER (PARTITION BY window_start, window_end ORDER BY b DESC) AS n
            FROM TABLE(TUMBLE(TABLE c, DESCRIPTOR(ts), INTERVAL '10' MINUTE))) WHERE n = 1;
        CREATE VIEW spans AS SELECT a, window_start
        FROM TABLE(SESSION(TABLE c PARTITION BY (a, b), DESCRIPTOR(ts), INTERVAL '10' MINUTE));
        INSERT INTO c VALUES (1, 2, '2026-01-31 12:05'), (2, 3, '2026-01-31 12:06')
    """)
    assert db.sql("SELECT * FROM top").rows() == [(D(2026, 1, 31, 12, 9, 59, 999000), 2)]
    assert _sorted(db["spans"].rows()) == [(1, D(2026, 1, 31, 12, 5)), (2, D(2026, 1, 31, 12, 6))]
    db.sql("DELETE FROM c WHERE a = 2")
    assert db.sql("SELECT a FROM top").rows() == [(1,)]
    with pytest.raises(ev.PlanError, match="there is no column window_time"):
        db.sql("SELECT window_time FROM (SELECT * FROM TUMBLE(c, ts, INTERVAL '10 minutes'))")


def test_lateness_is_a_watermark(db: Session) -> None:
    db.sql("""
        CREATE TABLE late (id int, at timestamp NOT NULL LATENESS INTERVAL 5 SECONDS, n int) APPEND ONLY;
        CREATE MATERIALIZED VIEW closed EMIT ON WINDOW CLOSE AS
        SELECT window_start, count(*) AS n FROM TUMBLE(late, at, INTERVAL '1 minute') GROUP BY window_start;
        INSERT INTO late VALUES (1, '2026-01-31 12:00:10', 1), (2, '2026-01-31 12:01:05', 1);
        INSERT INTO late VALUES (3, '2026-01-31 12:00:59', 1)
    """)
    assert db.sql("SELECT * FROM closed").rows() == [(D(2026, 1, 31, 12, 0), 1)]
    assert db.sql("SHOW WATERMARKS").rows() == [("late", D(2026, 1, 31, 12, 1), 1)]


def test_mz_now_is_now(db: Session) -> None:
    noon = D(2026, 1, 31, 12)
    db.advance(noon)
    view = db.sql("CREATE VIEW fresh AS SELECT at FROM m WHERE mz_now() <= at + INTERVAL '5 minutes'")
    db.sql("INSERT INTO m VALUES ('2026-01-31 11:56'), ('2026-01-31 11:50')")
    assert view.rows() == [(D(2026, 1, 31, 11, 56),)]
    db.advance(noon + dt.timedelta(minutes=2))
    assert view.rows() == []


def test_a_key_decides_the_columns_of_its_table(db: Session) -> None:
    """GROUP BY c.id: c.name is known, too; compared with what grouping by all of them gives, at every change."""
    db.sql("""
        CREATE TABLE c (id int PRIMARY KEY, name text, city text);
        CREATE TABLE o (id int PRIMARY KEY, c int, amount int)
    """)
    short, long = "GROUP BY c.id", "GROUP BY c.id, c.name, c.city"
    queries = [
        "SELECT c.id, c.name, count(o.id) AS n FROM c LEFT JOIN o ON o.c = c.id {}",
        "SELECT c.*, sum(o.amount) AS total FROM c JOIN o ON o.c = c.id {} HAVING c.city <> 'Rome'",
        "SELECT c.name || c.city AS both, max(o.amount) AS most FROM c FULL JOIN o ON o.c = c.id {}",
    ]
    pairs = []
    for k, query in enumerate(queries):
        pairs.append(
            [db.sql(f"CREATE VIEW {word}{k} AS {query.format(by)}") for word, by in (("s", short), ("l", long))]
        )
    changes = [
        "INSERT INTO c VALUES (1, 'Ann', 'Oslo'), (2, 'Bob', 'Rome'), (3, 'Bob', 'Rome')",
        "INSERT INTO o VALUES (1, 1, 5), (2, 1, 6), (3, 2, 7), (4, NULL, 8), (5, 9, 9)",
        "UPDATE c SET name = 'Eve', city = 'Pisa' WHERE id = 2",
        "DELETE FROM o WHERE id = 1; DELETE FROM c WHERE id = 3; UPDATE o SET c = 2 WHERE id = 2",
        "DELETE FROM c",
    ]
    for change in changes:
        db.sql(change)
        for one, other in pairs:
            assert _sorted(one.rows()) == _sorted(other.rows()), change
    for text, column in [
        ("SELECT c.name FROM c GROUP BY c.city", "name"),
        ("SELECT o.amount FROM o GROUP BY o.c", "amount"),
        ("SELECT * FROM c GROUP BY city", "id"),
        ("SELECT c.id, o.amount FROM c JOIN o ON o.c = c.id GROUP BY c.id", "amount"),
        ("SELECT id, name FROM c GROUP BY ROLLUP (id)", "name"),
    ]:
        with pytest.raises(ev.PlanError, match=f"{column}.* is neither grouped by nor aggregated"):
            db.sql(text)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("SELECT date_format(at, 'GGGGG') FROM m", "GGGGG in the template"),
        ("SELECT date_format(at, \"EEEE 'at' h\") FROM m", "words in the template"),
        ("SELECT to_timestamp('1', 'yyy')", "yyy in the template"),
        ("SELECT date_format(at, 'yyyyyyy') FROM m", "yyy in the template"),
    ],
)
def test_letters_of_templates_that_nobody_knows(db: Session, text: str, words: str) -> None:
    db.sql("SET dialect = 'spark'")
    with pytest.raises(ev.PlanError, match=words):
        db.sql(text)


BORROWED_CALLS: list[tuple[str, str, list[Any]]] = [
    ("postgres", "pmod(a, 3)", [1, 2, 2]),
    ("postgres", "nanvl('NaN'::float + a, 5)", [5.0, 5.0, 5.0]),
    ("postgres", "isnan(a::float)", [False, False, False]),
    ("postgres", "equal_null(a, NULL)", [False, False, False]),
    ("postgres", "find_in_set(a::text, '9,2')", [0, 2, 0]),
    ("postgres", "endswith(a::text, '2')", [False, True, False]),
    ("postgres", "array_slice(ARRAY[7, a, 8], 2, 3)", [[1, 8], [2, 8], [-4, 8]]),
    ("postgres", "array_pop_back(ARRAY[7, a])", [[7], [7], [7]]),
    ("postgres", "array_pop_front(ARRAY[7, a])", [[1], [2], [-4]]),
    ("postgres", "array_distinct(ARRAY[a, 2, a, NULL, 2])", [[1, 2, None], [2, None], [-4, 2, None]]),
    ("postgres", "array_union(ARRAY[2], ARRAY[a, a])", [[2, 1], [2], [2, -4]]),
    ("postgres", "array_intersect(ARRAY[2, 1, 2], ARRAY[a])", [[1], [2], []]),
    ("postgres", "array_except(ARRAY[2, 1, 2], ARRAY[a])", [[2], [1], [2, 1]]),
    ("postgres", "array_sort(ARRAY[NULL, 3, a])", [[1, 3, None], [2, 3, None], [-4, 3, None]]),
    ("postgres", "list_contains(ARRAY[1, 2], a)", [True, True, False]),
    (
        "postgres",
        "timestamp_seconds(a)",
        [D(1970, 1, 1, 0, 0, 1), D(1970, 1, 1, 0, 0, 2), D(1969, 12, 31, 23, 59, 56)],
    ),
    ("postgres", "make_ym_interval(0, 13) = interval '1 year 1 month'", [True, True, True]),
    ("spark", "bit_count(a)", [1, 1, 62]),
    ("spark", "element_at(array(7, 8), a)", [7, 8, None]),
    ("spark", "element_at(array(7, 8), -a)", [8, 7, None]),
    ("spark", "element_at(map(1, 'x'), a)", ["x", None, None]),
    ("duckdb", "list_distinct([a, 2, NULL])", [[1, 2], [2], [-4, 2]]),
    ("duckdb", "list_transform([a, 2], x -> x + 1)", [[2, 3], [3, 3], [-3, 3]]),
]


def test_functions_of_other_systems(db: Session) -> None:
    views = []
    for k, (dialect, call, _) in enumerate(BORROWED_CALLS):
        db.sql(f"SET dialect = '{dialect}'")
        views.append(db.sql(f"CREATE VIEW b{k} AS SELECT a, {call} AS x FROM i"))
    db.sql("SET dialect = default; INSERT INTO i VALUES (1), (2), (3), (-4); DELETE FROM i WHERE a = 3")
    for (dialect, call, expected), view in zip(BORROWED_CALLS, views, strict=True):
        db.sql(f"SET dialect = '{dialect}'")
        for rows in (view.rows(), db.sql(f"SELECT a, {call} AS x FROM i").rows()):
            assert dict(rows) == dict(zip((1, 2, -4), expected, strict=True)), call
    db.sql("SET dialect = default")
    for text, code, words in [
        ("SELECT pmod(s, 3) FROM w", "E_TYPE", "pmod is not of str"),
        ("SELECT pmod(a) FROM i", "E_ARITY", "pmod takes 2 arguments, not 1"),
        ("SELECT pmodd(a, 2) FROM i", "E_UNSUPPORTED", "did you mean 'pmod'"),
    ]:
        with pytest.raises(ev.PlanError, match=words) as caught:
            db.sql(text)
        assert caught.value.code == code


def test_offsets_of_bigquery_begin_at_zero(db: Session) -> None:
    db.sql(
        "CREATE TABLE b (i int, a int[]); INSERT INTO b VALUES (1, ARRAY[5, 6]), (2, NULL); SET dialect = 'bigquery'"
    )
    assert _sorted(db.sql("SELECT i, x, o FROM b, UNNEST(a) AS x WITH OFFSET AS o").rows()) == [(1, 5, 0), (1, 6, 1)]


def test_tables_are_replaced(db: Session) -> None:
    db.sql("""
        CREATE TABLE r AS VALUES (1, 2), (3, 4);
        CREATE OR REPLACE TABLE r AS SELECT column1 + 1 AS a FROM r;
        CREATE OR REPLACE TABLE s (id serial PRIMARY KEY, b text); INSERT INTO s (b) VALUES ('x'), ('y');
        CREATE OR REPLACE TABLE s (id serial PRIMARY KEY, c int CHECK (c > 0)); INSERT INTO s (c) VALUES (7)
    """)
    assert _sorted(db.sql("SELECT a FROM r").rows()) == [(2,), (4,)]
    assert db.sql("SELECT id, c FROM s").rows() == [(1, 7)]
    db.sql("CREATE VIEW v AS SELECT c FROM s")
    for text, code in [
        ("CREATE OR REPLACE TABLE s (d int)", "E_IN_USE"),
        ("CREATE OR REPLACE TABLE v (d int)", "E_NAME"),
        ("CREATE OR REPLACE VIEW s AS SELECT 1", "E_NAME"),
        ("CREATE OR REPLACE TABLE IF NOT EXISTS s (d int)", "E_SYNTAX"),
        ("CREATE OR REPLACE TABLE r (a int PRIMARY KEY) AS SELECT 1", "E_UNSUPPORTED"),
        ("CREATE OR REPLACE TABLE r (a int) AS SELECT 'x'", "E_TYPE"),
    ]:
        with pytest.raises(ev.PlanError) as caught:
            db.sql(text)
        assert caught.value.code == code, text
    with pytest.raises(ev.RowErrors):
        db.sql("CREATE OR REPLACE TABLE r AS SELECT 1 / (a - a) AS b FROM r")
    assert _sorted(db.sql("SELECT a FROM r").rows()) == [(2,), (4,)]
    assert db.sql("SELECT c FROM v").rows() == [(7,)]


def test_setval_of_a_query(db: Session) -> None:
    db.sql("CREATE TABLE q (id serial, b text); INSERT INTO q VALUES (41, 'a'), (42, 'b')")
    forms = [
        "SELECT setval('q_id_seq', (SELECT max(id) FROM q))",
        "SELECT setval('q_id_seq', max(id)) FROM q",
        "SELECT setval('q_id_seq', 21 * 2)",
        "SELECT setval(pg_get_serial_sequence('q', 'id'), coalesce((SELECT max(id) FROM q), 1))",
    ]
    for text in forms:
        db.sql("ALTER SEQUENCE q_id_seq RESTART")
        assert db.sql(text).rows() == [(42,)], text
        assert db.sql("SELECT nextval('q_id_seq')").rows() == [(43,)], text
    assert db.sql("SELECT setval('q_id_seq', (SELECT max(id) FROM q), false)").rows() == [(42,)]
    assert db.sql("SELECT nextval('q_id_seq')").rows() == [(42,)]
    db.sql("DELETE FROM q")
    assert db.sql("SELECT setval('q_id_seq', max(id)) FROM q").rows() == [(None,)]
    assert db.sql("SELECT nextval('q_id_seq')").rows() == [(43,)]
    for text, code in [
        ("SELECT setval('q_id_seq', b) FROM q", "E_UNSUPPORTED"),
        ("SELECT setval('q_id_seq', (SELECT max(b) FROM q))", "E_TYPE"),
        ("SELECT setval('q_id_seq', nextval('q_id_seq'))", "E_UNSUPPORTED"),
        ("SELECT setval(pg_get_serial_sequence('q', 'b'), 1)", "E_NAME"),
    ]:
        with pytest.raises(ev.EverviewError) as caught:
            db.sql(text)
        assert caught.value.code == code, text


@pytest.mark.parametrize("dialect", ["spark", "mysql"])
def test_databases_are_schemas(db: Session, dialect: str) -> None:
    db.sql(f"SET dialect = '{dialect}'")
    db.sql("CREATE DATABASE shop; CREATE DATABASE IF NOT EXISTS shop; USE shop; CREATE TABLE q (a int); USE public")
    db.sql("INSERT INTO shop.q VALUES (1)")
    assert db.sql("SELECT a FROM shop.q").rows() == [(1,)]
    with pytest.raises(ev.PlanError, match="there is no table or view q"):
        db.sql("SELECT a FROM q")
    with pytest.raises(ev.PlanError, match="there is no schema shops"):
        db.sql("USE shops")
    db.sql("DROP DATABASE shop CASCADE")
    assert "shop.q" not in db
