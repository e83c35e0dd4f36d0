"""array_agg, string_agg, jsonb_agg and jsonb_object_agg OVER windows, compared with PostgreSQL after every change."""

from __future__ import annotations

import random
from collections.abc import Iterable

import pytest

import everview as ev
from everview.errors import EverviewError
from everview.session.local_shards import local_shards
from tests.sql.postgres import Postgres

SETUP = "CREATE TABLE w (id int PRIMARY KEY, g text, n int, k text NOT NULL)"

CALLS = (
    "array_agg(n) OVER (PARTITION BY g ORDER BY n, id)",
    "array_agg(g) OVER (ORDER BY id ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING EXCLUDE CURRENT ROW)",
    "array_agg(n) FILTER (WHERE k > 'b') OVER (PARTITION BY g ORDER BY id DESC)",
    "string_agg(g, '-') OVER (ORDER BY n, id ROWS 2 PRECEDING)",
    "string_agg(k, '') OVER (PARTITION BY n ORDER BY id)",
    "string_agg(k, ', ') FILTER (WHERE n > 1) OVER (PARTITION BY g ORDER BY id)",
    "jsonb_agg(n) OVER (PARTITION BY k ORDER BY id)",
    "json_agg(g) OVER (ORDER BY id ROWS BETWEEN 2 FOLLOWING AND 3 FOLLOWING)",
    "jsonb_agg(k) FILTER (WHERE n IS NULL OR n < 3) OVER (ORDER BY id GROUPS 1 PRECEDING)",
    "jsonb_object_agg(k, n) OVER (PARTITION BY g ORDER BY id)",
    "jsonb_object_agg(n, k) FILTER (WHERE n IS NOT NULL) OVER (PARTITION BY g ORDER BY id)",
    "array_length(array_agg(id) OVER (PARTITION BY g), 1)",
    "cardinality(array_agg(count(*)) OVER (ORDER BY id))",
)


def written(call: str) -> str:
    return f"SELECT id, ({call})::text AS x FROM w{' GROUP BY id' if 'count(*)' in call else ''}"


def plain(rows: Iterable[tuple[object, ...]]) -> list[tuple[int, str]]:
    return sorted((int(str(i)), "NULL" if x is None else str(x)) for i, x in rows)


@pytest.mark.parametrize("shards", [False, True], ids=["embedded", "shards"])
def test_as_postgres_under_changes(postgres: Postgres, shards: bool) -> None:
    db, rng = local_shards(shards=2) if shards else ev.connect(), random.Random(7)
    for run in (db.sql, postgres.run):
        run(SETUP)
    views = [db.sql(f"CREATE VIEW v{i} AS {written(call)}") for i, call in enumerate(CALLS)]
    for step in range(6):
        values = [
            f"({100 * step + i}, {rng.choice(['NULL', repr('x'), repr('y')])}, {rng.choice(['NULL', 1, 2, 3])}, "
            f"'{rng.choice('abc')}')"
            for i in range(rng.randint(1, 4))
        ]
        change = f"INSERT INTO w VALUES {', '.join(values)}"
        if step % 3 == 2:
            change += "; DELETE FROM w WHERE n = 2; UPDATE w SET g = 'y', n = NULL WHERE k = 'a'"
        for run in (db.sql, postgres.run):
            run(change)
        for call, view in zip(CALLS, views, strict=True):
            expected = plain(postgres.rows(written(call.replace("json_agg(", "jsonb_agg(").replace("bb_", "b_"))))
            assert plain(view.rows()) == expected, call
            assert plain(db.sql(written(call)).rows()) == expected, call


@pytest.mark.parametrize(
    ("call", "words"),
    [
        ("array_agg(DISTINCT n) OVER ()", "DISTINCT and ORDER BY inside a window"),
        ("array_agg(n ORDER BY n) OVER ()", "DISTINCT and ORDER BY inside a window"),
        ("string_agg(k, k) OVER ()", "constant text"),
        ("string_agg(n, ',') OVER ()", "there is no string_agg of int"),
        ("jsonb_object_agg(k) OVER ()", "takes a key and a value"),
    ],
)
def test_refused(call: str, words: str) -> None:
    db = ev.connect()
    db.sql(SETUP)
    with pytest.raises(EverviewError, match=words):
        db.sql(f"SELECT {call} FROM w")


def test_a_key_that_is_null_fails_until_it_is_gone() -> None:
    db = ev.connect()
    db.sql(
        "CREATE TABLE p (k text, n int); CREATE VIEW v AS SELECT jsonb_object_agg(k, n) OVER (ORDER BY n) AS o FROM p"
    )
    db.sql("INSERT INTO p VALUES ('a', 1), (NULL, 2)")
    with pytest.raises(EverviewError, match="could not be computed"):
        db["v"].rows()
    db.sql("DELETE FROM p WHERE k IS NULL")
    assert db["v"].rows() == [({"a": 1},)]
