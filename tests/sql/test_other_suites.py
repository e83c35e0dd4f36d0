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
    # = ALL and <> ANY
    ("SELECT a = ALL (SELECT 1), a <> ANY (SELECT a FROM i) FROM i", [(True, True), (False, True)]),
    ("SELECT a = ALL (SELECT x FROM n WHERE x > 100), a <> SOME (SELECT NULL::int) FROM i WHERE a = 1", [(True, None)]),
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
    ("SELECT bool 'of', 'ye'::bool, a = 1 = 'on' FROM i WHERE a = 1", [(False, True, True)]),
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
    ("SELECT datediff(HOUR, at, timestamp '2026-01-31 10:00:30') FROM m", [(-1,), (-2,)]),
    ("SELECT datediff(SECOND, timestamp '2026-01-31 12:00:00', at) FROM m", [(12,), (63,)]),
    ("SELECT second(at) FROM m", [(12,), (3,)]),
    (
        "SELECT a, b, count(*) FROM i CROSS JOIN (SELECT 7 AS b) GROUP BY a, b GROUPING SETS (a, ())",
        [(1, None, 1), (2, None, 1), (None, None, 2)],
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
        ("SELECT count(*) FROM m GROUP BY HOP(at, INTERVAL '1' HOUR, INTERVAL '2' HOUR)", "E_UNSUPPORTED", "in FROM"),
        (
            "SELECT * FROM TABLE(TUMBLE(DATA => TABLE m, SIZE => INTERVAL '1' DAY, TIMECOL => DESCRIPTOR(at)))",
            "E_SYNTAX",
            "SIZE is not expected here",
        ),
        ("SELECT interval '1:2' year to month", "E_TYPE", "is not from year to month"),
        ("WITH MUTUALLY RECURSIVE r (n) AS (SELECT 1) SELECT * FROM r", "E_SYNTAX", "n has no type"),
        ("WITH MUTUALLY RECURSIVE r (n text) AS (SELECT 1) SELECT * FROM r", "E_RECURSION", "declared as str"),
        ("WITH MUTUALLY RECURSIVE r (n int, k int) AS (SELECT 1) SELECT * FROM r", "E_WIDTH", "1 columns, not 2"),
        (
            "WITH MUTUALLY RECURSIVE r (n int) AS (SELECT 1 EXCEPT SELECT n FROM r) SELECT * FROM r",
            "E_RECURSION",
            "subtr",
        ),
        ("CREATE TABLE o (a int) WITH (retention_seconds = 5)", "E_UNSUPPORTED", "would change what there is to see"),
        ("CREATE TABLE o (a int) PARTITION BY RANGE (a)", "E_UNSUPPORTED", "not supported in CREATE TABLE"),
        ("CREATE TABLE o (a int) WITH (shape = 'round')", "E_UNSUPPORTED", "shape='round' is not supported"),
        ("CREATE VIEW o WITH (security_barrier = true) AS SELECT 1 AS a", "E_UNSUPPORTED", "would change"),
        ("SELECT 1 AS a UNION SELECT 'x'", "E_TYPE", "'x' is not a valid int"),
        ("SELECT * FROM (SELECT 1 AS a INTO o) AS q", "E_UNSUPPORTED", "INTO makes a table"),
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
