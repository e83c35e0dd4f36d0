"""Every type, operator and function that issue 16 names, with edge values: the answers are PostgreSQL's.

`walked/*.txt` are expressions, filled with values by `tests.sql.walking`. `QUERIES` are clauses over a table with two
columns of one type, as views, embedded and in shards, while rows come, change and go.

The default is a sample. `EVERVIEW_WALK=30 pytest -m long -s tests/sql/test_walked.py` fills each line 30 times and
takes all types.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from pathlib import Path

import pytest

import everview as ev
from everview.session.local_shards import local_shards
from tests.sql import walking
from tests.sql.postgres import Postgres, PostgresError
from tests.sql.walking import VALUES

FILES = sorted(walking.FOLDER.glob("*.txt"))


def _prepared(postgres: Postgres) -> ev.Session:
    postgres.run(walking.SETUP)
    postgres.run(walking.TRIED)
    db = ev.connect()
    db.sql(walking.SETUP)
    return db


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_expressions(postgres: Postgres, path: Path) -> None:
    """Each line once, with values that are the same in every run."""
    found = walking.differences(_prepared(postgres), postgres, list(walking.lines(path)), 1, seed=1)
    assert not found, "\n".join(map(str, found))


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_many_expressions(postgres: Postgres, path: Path) -> None:
    most = int(os.environ.get("EVERVIEW_WALK", "10"))
    of = list(walking.lines(path))
    found = walking.differences(_prepared(postgres), postgres, of, most, seed=1)
    print(f"{path.stem}: {sum(len(line.filled(most, 1)) for line in of)} compared, {len(found)} differ")
    assert not found, "\n".join(map(str, found))


TYPES: dict[str, tuple[str, ...]] = {
    "int": tuple(VALUES["int"]),
    "bigint": ("0", "3", "-5", "NULL", "9007199254740993"),
    "double precision": ("0", "1.5", "-2.25", "'Infinity'", "'-Infinity'", "1e308", "1e-300", "NULL", "0.1"),
    "numeric(10,2)": ("0", "1.50", "-2.25", "99999999.99", "-99999999.99", "NULL", "0.01"),
    "numeric(38,9)": ("0", "12345678901234567890.123456789", "-0.000000001", "NULL", "1.5"),
    "text": tuple(VALUES["t"]),
    "varchar(12)": ("''", "'a'", "'Abc'", "'日本'", "NULL", "'b '"),
    "char(4)": ("''", "'a'", "'a  '", "'abcd'", "NULL", "'B'"),
    "date": tuple(VALUES["d"]),
    "timestamp": tuple(VALUES["ts"]),
    "timestamptz": (
        "'2024-02-29 12:34:56.789012+00'", "'2024-03-31 01:30:00+00'", "'1969-12-31 23:59:59.999999-05'",
        "'2024-10-27 00:30+00'", "NULL", "'2024-10-27 01:30+00'", "'2024-06-30 23:59:60+00'",
    ),
    "time": ("'00:00'", "'23:59:59.999999'", "'12:30:15.5'", "NULL", "'00:00:00.000001'"),
    "interval": ("'0'", "'1 month'", "'-1 month 2 days'", "'1 day 02:03:04.5'", "'-5 hours'", "NULL", "'100 years'"),
    "uuid": tuple(VALUES["u"]),
    "jsonb": (
        "'{}'", "'[]'", "'null'", "'{\"a\": 1, \"a\": 2}'", "'[1, 2]'", "'[9]'", "'1e5'", "'\"s\"'", "NULL", "'[[]]'",
    ),
    "int[]": ("'{}'", "'{1,2,3}'", "'{NULL,2}'", "'{3,1,2,1}'", "NULL", "'{5}'"),
    "text[]": tuple(VALUES["ta"]),
    "boolean": ("true", "false", "NULL"),
    "bytea": ("'\\x'", "'\\xdeadbeef'", "'\\x00ff61'", "'abc'", "NULL"),
    "mood": ("'sad'", "'ok'", "'happy'", "NULL"),
    "pair": ("ROW(1, 'a')", "ROW(NULL, NULL)", "ROW(1, NULL)", "ROW(2, 'b')", "NULL"),
}  # fmt: skip
"""A column's type, and values of it."""

QUERIES = (
    "SELECT x::text, count(*) FROM t GROUP BY x",
    "SELECT DISTINCT x FROM t",
    "SELECT a.id, b.id FROM t a JOIN t b ON a.x = b.x",
    "SELECT a.id, b.id FROM t a LEFT JOIN t b ON a.x = b.y",
    "SELECT a.id, b.id FROM t a FULL JOIN t b ON a.x = b.x AND a.id < b.id",
    "SELECT id FROM t WHERE x NOT IN (SELECT y FROM t WHERE y IS NOT NULL)",
    "SELECT a.id, b.id FROM t a JOIN t b ON a.x < b.x",
    "SELECT id, x < y, x <= y, x > y, x >= y, x = y, x <> y, x IS DISTINCT FROM y, x IS NULL, x IS NOT NULL FROM t",
    "SELECT g, min(x), max(x) FROM t GROUP BY g",
    "SELECT g, count(x) FILTER (WHERE x > y), count(DISTINCT y) FROM t GROUP BY g",
    "SELECT id, row_number() OVER (ORDER BY x, id), rank() OVER (ORDER BY x DESC) FROM t",
    "SELECT id, lag(x) OVER (ORDER BY id), last_value(x) OVER (PARTITION BY g ORDER BY id) FROM t",
    "SELECT id, min(x) OVER (PARTITION BY g), max(x) OVER (ORDER BY id) FROM t",
    "SELECT g, string_agg(x::text, '|' ORDER BY x, id) FROM t GROUP BY g",
    "SELECT g, string_agg(id::text, ',' ORDER BY x DESC NULLS LAST, id) FROM t GROUP BY g",
    "SELECT DISTINCT ON (g) g, x, id FROM t ORDER BY g, x DESC, id",
    "SELECT id, x FROM t ORDER BY x, id LIMIT 5",
    "SELECT x FROM t UNION SELECT y FROM t",
    "SELECT x FROM t EXCEPT SELECT y FROM t",
    "SELECT id, CASE WHEN g = 1 THEN x ELSE y END, coalesce(x, y), nullif(x, y), greatest(x, y), least(x, y) FROM t",
    "SELECT id, x BETWEEN y AND x, x IN (x, y) FROM t",
    "SELECT g, percentile_disc(0.5) WITHIN GROUP (ORDER BY x) FROM t GROUP BY g",
    "SELECT x, y, count(*), grouping(x) FROM t GROUP BY ROLLUP (x, y)",
    "SELECT id, concat(x, '|', y), concat_ws('-', x, y), format('%s', x) FROM t",
    "SELECT id, (SELECT max(b.x) FROM t b WHERE b.g = a.g) FROM t a",
)

DEFAULT_TYPES = ("char(4)", "jsonb", "mood", "pair", "numeric(38,9)", "double precision", "bytea")
"""In these, something was wrong before this test was written."""


def _rows(rows: list[tuple[str | None, ...]], declared: str) -> list[str]:
    if declared.startswith("char"):  # COPY prints the blanks at the end, a cast to text drops them
        rows = [tuple(v if v is None else v.rstrip(" ") for v in row) for row in rows]
    return sorted(repr(tuple(_plain(v) for v in row)) for row in rows)


def _plain(value: str | None) -> str | None:
    """Numbers by 12 digits; -0 and 0 are equal, and which of them a group shows is open."""
    if (
        value is None
        or not value.strip("-").replace(".", "").replace("e", "").replace("+", "").replace("-", "").isdecimal()
    ):
        return {"true": "t", "false": "f"}.get(value or "", value)
    try:
        return f"{float(value) + 0.0:.12g}"
    except ValueError:
        return value


def _views(db: ev.Session, queries: tuple[str, ...]) -> None:
    for i, query in enumerate(queries):
        width = len(db.sql(f"DESCRIBE {query}").rows())
        db.sql(f"CREATE VIEW v{i} ({', '.join(f'c{n}' for n in range(width))}) AS {query}")


def _texts(db: ev.Session, view: str) -> list[tuple[str | None, ...]]:
    columns = ", ".join(f"{name}::text" for name, *_ in db.sql(f"DESCRIBE {view}").rows())
    return db.sql(f"SELECT {columns} FROM {view}").rows()


def _walk(postgres: Postgres, declared: str, open_session: Callable[[], ev.Session], seed: int) -> None:
    r, db = random.Random(seed), open_session()
    setup = (walking.SETUP, "CREATE TYPE pair AS (a int, b text)",
             f"CREATE TABLE t (id int PRIMARY KEY, g int, x {declared}, y {declared})")  # fmt: skip
    for statement in setup:
        postgres.run(statement)
        db.sql(statement)
    queries = tuple(query for query in QUERIES if _has(postgres, query))  # uuid, jsonb and others have no min there
    assert len(queries) > len(QUERIES) // 2
    _views(db, queries)
    for step in range(3):
        values = TYPES[declared]
        rows = [f"({20 * step + i}, {r.randint(1, 3)}, {r.choice(values)}, {r.choice(values)})" for i in range(20)]
        statements = (
            [f"INSERT INTO t VALUES {row}" for row in rows] if step < 2 else ["UPDATE t SET x = y WHERE id % 4 = 0"]
        )
        statements += [f"DELETE FROM t WHERE id % 3 = {step}"] if step else []
        for statement in statements:
            postgres.run(statement)
            db.sql(statement)
        for i, query in enumerate(queries):
            ours, theirs = _rows(_texts(db, f"v{i}"), declared), _rows(postgres.rows(query), declared)
            assert ours == theirs, f"{declared}, step {step}: {query}"
    db.close()


def _has(postgres: Postgres, query: str) -> bool:
    try:
        postgres.rows(query)
    except PostgresError:
        return False
    return True


@pytest.mark.parametrize("shards", [0, 2], ids=["embedded", "shards"])
@pytest.mark.parametrize("declared", DEFAULT_TYPES)
def test_types_in_views(postgres: Postgres, declared: str, shards: int) -> None:
    _walk(postgres, declared, (lambda: local_shards(shards)) if shards else ev.connect, 7)


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("declared", TYPES)
def test_all_types_in_views(postgres: Postgres, declared: str) -> None:
    for seed in range(int(os.environ.get("EVERVIEW_WALK", "10")) // 5 + 1):
        postgres.fresh()
        _walk(postgres, declared, (lambda: local_shards(2)) if seed % 2 else ev.connect, seed)
