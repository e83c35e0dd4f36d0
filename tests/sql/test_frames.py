"""IGNORE NULLS, RESPECT NULLS and EXCLUDE: random windows as views, under changes, against DuckDB and PostgreSQL.

PostgreSQL has EXCLUDE but no IGNORE NULLS; frames that begin behind their end are left out, which both refuse.
"""

from __future__ import annotations

import os
import random
from collections import Counter

import duckdb
import pytest

import everview as ev
from everview.dataflow.windows import SORTED_BY_ARROW
from everview.session.local_shards import local_shards
from tests.sql.harness import difference
from tests.sql.postgres import Postgres

CREATE = "CREATE TABLE t (id int, g int, o int, x int, f double precision, s text)"
VALUES = (
    "first_value(x)", "last_value(x)", "nth_value(x, 2)", "first_value(s)", "last_value(s)", "nth_value(s, 1)",
    "lag(x)", "lead(x, 2)", "lag(x, 1, -1)", "lead(s)", "lag(x, 0)",
)  # fmt: skip
AGGREGATES = (
    "sum(x)", "count(*)", "count(x)", "min(x)", "max(s)", "sum(f)", "avg(x)", "min(f)", "max(x)", "bool_and(x > 1)",
    "sum(x) FILTER (WHERE o > 1)",
)  # fmt: skip
EXCLUDED = ("", "EXCLUDE CURRENT ROW", "EXCLUDE GROUP", "EXCLUDE TIES", "EXCLUDE NO OTHERS")
ORDERS = ("o", "o DESC", "o NULLS FIRST", "o DESC NULLS LAST")


def _query(r: random.Random) -> tuple[str, bool]:
    """A query with one window function; whether PostgreSQL can be asked."""
    call, unit = r.choice(VALUES + AGGREGATES), r.choice(["ROWS", "GROUPS", "RANGE"])
    order = r.choice(ORDERS) + (", id" if unit == "ROWS" or call in VALUES or r.random() < 0.3 else "")
    reach = [0] if unit == "RANGE" else [-2, -1, 0, 0, 1, 2]
    low, high = sorted((r.choice(reach), r.choice(reach)))
    start = r.choice(["UNBOUNDED PRECEDING", _bound(low), _bound(low)])
    end = r.choice(["UNBOUNDED FOLLOWING", _bound(high), _bound(high)])
    nulls = r.choice(["", " IGNORE NULLS", " RESPECT NULLS"]) if call in VALUES else ""
    call = f"{call[:-1]}{nulls})" if nulls else call
    part = r.choice(["", "PARTITION BY g "])
    frame = f"{unit} BETWEEN {start} AND {end} {r.choice(EXCLUDED)}"
    return f"SELECT id, {call} OVER ({part}ORDER BY {order} {frame}) AS w FROM t", not nulls


def _bound(offset: int) -> str:
    return f"{abs(offset)} {'PRECEDING' if offset < 0 else 'FOLLOWING'}" if offset else "CURRENT ROW"


def _run(seed: int, shards: int, postgres: Postgres, views: int) -> None:
    r = random.Random(seed)
    db, duck = (local_shards(shards=shards) if shards else ev.connect()), duckdb.connect()
    duck.execute("SET default_null_order = 'nulls_last_on_asc_first_on_desc'; SET threads = 1")
    for run in (db.sql, duck.execute, postgres.run):
        run(CREATE)
    queries = [_query(r) for _ in range(views)]
    for i, (text, _) in enumerate(queries):
        db.sql(f"CREATE VIEW v{i} AS {text}")
    rows: list[tuple[object, ...]] = []
    for step in range(5):
        gone = r.sample(rows, len(rows) // 3)
        new = [_row(r, 100 * step + i) for i in range(r.randrange(1, 10))]
        with db.transaction():
            db["t"].delete(gone)
            db["t"].insert(new)
        rows = [*(row for row in rows if row not in gone), *new]
        duck.execute("DELETE FROM t")
        duck.executemany("INSERT INTO t VALUES (?, ?, ?, ?, ?, ?)", rows)
        values = ", ".join(f"({', '.join('NULL' if v is None else repr(v) for v in row)})" for row in rows)
        postgres.run(f"TRUNCATE t; INSERT INTO t VALUES {values}")
        for i, (text, both) in enumerate(queries):
            found = db[f"v{i}"].rows()
            assert not difference(found, duck.execute(text).fetchall()), text
            if both and "avg" not in text:
                texts = Counter(db.sql(f"SELECT id::text, w::text FROM v{i}").rows())
                asked = postgres.rows(f"SELECT q.id::text, q.w::text FROM ({text}) AS q")
                assert texts == Counter(asked), text
    assert db.check() == []
    db.close()


def _row(r: random.Random, number: int) -> tuple[object, ...]:
    def some(value: object) -> object:
        return None if r.random() < 0.35 else value

    x, f, s = some(r.randint(0, 9)), some(r.choice([0.5, 1.25, -3.0])), some(r.choice("abc"))
    return number, some(r.randint(0, 2)), some(r.randint(0, 4)), x, f, s


@pytest.mark.parametrize(("seed", "shards"), [(1, 0), (2, 0), (3, 2)])
def test_random_frames(seed: int, shards: int, postgres: Postgres) -> None:
    _run(seed, shards, postgres, 12)


@pytest.mark.slow
@pytest.mark.long
def test_many_random_frames(postgres: Postgres) -> None:
    for seed in range(1000, 1000 + int(os.environ.get("EVERVIEW_SEEDS", "40"))):
        postgres.fresh()
        _run(seed, 2 if seed % 5 == 0 else 0, postgres, 30)


@pytest.mark.parametrize(
    "call", ["sum(x) IGNORE NULLS", "row_number() IGNORE NULLS", "count(*) RESPECT NULLS", "max(x IGNORE NULLS)"]
)
def test_nulls_are_not_ignored_where_that_means_nothing(call: str) -> None:
    db = ev.connect()
    db.sql(CREATE)
    with pytest.raises(ev.EverviewError, match="NULLS has no meaning") as caught:
        db.sql(f"SELECT {call} OVER (ORDER BY o) FROM t")
    assert caught.value.code == "E_UNSUPPORTED" and "line 1, column" in str(caught.value)


def test_plans_and_directories_keep_them(tmp_path: object) -> None:
    asked = "last_value(x IGNORE NULLS) OVER (ORDER BY o GROUPS BETWEEN 1 PRECEDING AND 1 FOLLOWING EXCLUDE TIES)"
    db = ev.connect(str(tmp_path))
    db.sql(f"{CREATE}; CREATE VIEW v AS SELECT id, {asked} AS w FROM t")
    db.sql("INSERT INTO t VALUES (1, 0, 1, NULL, 0, ''), (2, 0, 1, 5, 0, ''), (3, 0, 2, NULL, 0, '')")
    found = db["v"].rows()
    assert sorted(found) == [(1, None), (2, 5), (3, 5)]
    assert "ignore nulls groups 1 preceding to 1 following exclude ties" in str(db["v"].explain())
    db.close()
    again = ev.connect(str(tmp_path))
    again.sql("INSERT INTO t VALUES (4, 0, 3, 7, 0, '')")
    assert sorted(again["v"].rows()) == [(1, None), (2, 5), (3, 7), (4, 7)]
    again.close()


def test_many_texts_are_ordered_as_a_few_are() -> None:
    """From so many on Arrow sorts them: by letters, whatever their bytes are."""
    db, r = ev.connect(), random.Random(5)
    db.sql("CREATE TABLE t (s text); CREATE VIEW v AS SELECT s, rank() OVER (ORDER BY s DESC) AS n FROM t")
    texts = {"".join(r.choice("aZé\uffff\U0001f600 \0") for _ in range(r.randrange(6))) for _ in range(400)}
    assert len(texts) > SORTED_BY_ARROW
    db["t"].insert([*((t,) for t in texts), (None,)])
    first = [(None, 1)]  # PostgreSQL's NULLs are first in a falling order
    ranked = [(text, place) for place, text in enumerate(sorted(texts, reverse=True), 2)]
    assert sorted(db["v"].rows(), key=lambda row: row[1]) == [*first, *ranked]


def test_frames_that_reach_beyond_64_bits(postgres: Postgres) -> None:
    """Places and values moved by a bound wrapped around: such frames were empty, or had too much in them."""
    most = 2**63 - 1
    setup = "CREATE TABLE t (x int, b bigint, n numeric(12, 2), f float8)"
    values = enumerate((-most, most - 1, 5, "NULL", most), 1)
    rows = f"INSERT INTO t VALUES {', '.join(f'({x}, {b}, {x}, {x})' for x, b in values)}"
    db = ev.connect()
    for text in (setup, rows):
        db.sql(text)
        postgres.run(text)
    between = [
        f"CURRENT ROW AND {most} FOLLOWING", f"{most} PRECEDING AND CURRENT ROW",
        f"UNBOUNDED PRECEDING AND {most} PRECEDING", f"{most} FOLLOWING AND UNBOUNDED FOLLOWING",
        "5000000000 PRECEDING AND 5000000000 FOLLOWING",
    ]  # fmt: skip
    for unit in ("ROWS", "GROUPS", "RANGE"):
        frames = [f"{key} {unit} BETWEEN {b}" for key in ("b", "x", "b DESC", "n", "f") for b in between]
        outputs = ", ".join(f"count(*) OVER (ORDER BY {frame})" for frame in frames)
        query = f"SELECT x, {outputs} FROM t"
        wanted = Counter(postgres.rows(query))
        assert Counter(tuple(map(str, row)) for row in db.sql(query).rows()) == wanted, unit
