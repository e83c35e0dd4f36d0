"""Syntax that is rewritten (`everview.sql.text.equivalent_forms`): views equal PostgreSQL after every change."""

from __future__ import annotations

import random
from collections import Counter

import pytest

import everview as ev
from everview.session.local_shards import local_shards
from tests.sql.postgres import Postgres

SETUP = """
    CREATE TABLE t (id int, g int, s text, x int, j jsonb);
    CREATE TABLE u (g int, s text)
"""

QUERIES = (
    "SELECT id FROM t WHERE (g, s) NOT IN (SELECT g, s FROM u)",
    "SELECT id FROM t WHERE x > 1 AND NOT ((g, s) IN (SELECT g, s FROM u WHERE g > 0))",
    "SELECT id, (g, s) NOT IN (SELECT g, s FROM u) AS missing FROM t",
    "SELECT id, (g, s) IN (SELECT g, s FROM u) AS known FROM t",
    "SELECT id FROM t WHERE x = 1 OR (g, s) IN (SELECT g, s FROM u)",
    "SELECT id FROM t WHERE (g, s, x) NOT IN (SELECT u.g, u.s, t.x FROM u)",
    "SELECT g, count(*) AS n FROM t GROUP BY g HAVING (g, max(s)) NOT IN (SELECT g, s FROM u)",
    "SELECT percentile_cont(ARRAY[0, 0.25, 0.5, 1]) WITHIN GROUP (ORDER BY x)::text AS p FROM t",
    "SELECT g, percentile_disc(ARRAY[0.3, 0.9]) WITHIN GROUP (ORDER BY x DESC)::text AS p FROM t GROUP BY g",
    "SELECT g, percentile_cont(ARRAY[0.5]) WITHIN GROUP (ORDER BY x) FILTER (WHERE x > 1)::text AS p FROM t GROUP BY g",
    "SELECT id, r.a, r.b FROM t, jsonb_to_recordset(t.j) AS r(a int, b text)",
    "SELECT id, r.b FROM t LEFT JOIN jsonb_to_recordset(j) AS r(a int, b text) ON true",
    "SELECT id, r.a, r.c::text AS c FROM t CROSS JOIN LATERAL jsonb_to_record(j -> 0) AS r(a int, c int[])",
    "SELECT id, r.a, r.b::text AS b, r.c IS NULL AS no_c FROM t, jsonb_to_record(j -> 0) AS r(a int, b jsonb, c json)",
    "SELECT id FROM t WHERE (g, s) = ANY (SELECT g, s FROM u)",
    "SELECT id FROM t WHERE (g, s) <> ALL (SELECT g, s FROM u)",
    "SELECT id, (g, s) = SOME (SELECT g, s FROM u WHERE u.g = t.x) AS known FROM t",
    "SELECT id, (g, s) < (SELECT max(g), max(s) FROM u) AS less FROM t",
    "SELECT id FROM t WHERE (g, x) = (SELECT min(g), count(*) FROM u WHERE u.s = t.s)",
    "SELECT id, count(u.*) AS n FROM t LEFT JOIN u ON u.g = t.g GROUP BY id",
    "SELECT i, n FROM (VALUES (1, 'a'), (2, NULL), (3, 'c') ORDER BY 1 DESC LIMIT 2) AS q(i, n) JOIN t ON t.x = i",
    "SELECT id, e FROM t, unnest(ARRAY[[g, x], [id, 7]]) AS e",
    "SELECT id, array_to_string(ARRAY[[g, x], [id, NULL]], ',', '-') AS a, array_dims(ARRAY[[g, x]]) AS d FROM t",
    "SELECT id, $$it's$$ || s AS text, @ (x - 2) AS far, public.t.g FROM public.t",
    'SELECT count(*) AS n FROM t, json_to_recordset(\'[{"a": 1}, {"a": null}]\') AS r(a int) WHERE r.a = t.x',
)

DOCUMENTS = ("[]", '[{"a": 1, "b": "x"}]', '[{"a": 2, "c": [1, 2]}, {"b": "y", "a": 3}]', '[{"b": {"z": null}}]', None)


def _value(value: object) -> str:
    return "NULL" if value is None else str(value) if isinstance(value, int) else f"'{value}'"


def _row(r: random.Random, table: str, number: int) -> str:
    pair = (r.choice((1, 2, None)), r.choice(("a", "b", None)))
    values = pair if table == "u" else (number, *pair, r.choice((1, 2, 3, None)), r.choice(DOCUMENTS))
    return f"INSERT INTO {table} VALUES ({', '.join(map(_value, values))})"


@pytest.mark.parametrize("shards", [0, 2])
def test_views_equal_postgres(postgres: Postgres, shards: int) -> None:
    r = random.Random(shards)
    db = local_shards(shards=shards) if shards else ev.connect()
    for run in (db.sql, postgres.run):
        run(SETUP)
    for i, query in enumerate(QUERIES):
        db.sql(f"CREATE VIEW v{i} AS {query}")
    for step in range(14):
        changes = [_row(r, r.choice("ttu"), step * 10 + i) for i in range(4)]
        changes.append(
            r.choice(("DELETE FROM u WHERE g IS NULL OR s IS NULL", "DELETE FROM t WHERE x = 1", "DELETE FROM u"))
        )
        for change in changes[: 4 + step % 2]:
            db.sql(change)
            postgres.run(change)
        for i, query in enumerate(QUERIES):
            ours = [tuple(None if v is None else _text(v) for v in row) for row in db[f"v{i}"].rows()]
            assert Counter(ours) == Counter(postgres.rows(query)), (query, step)
            assert sorted(map(str, db.sql(query).rows())) == sorted(map(str, db[f"v{i}"].rows()))
    db.close()


def _text(value: object) -> str:
    return str(value).lower()[0] if isinstance(value, bool) else str(value)


def test_their_names(postgres: Postgres) -> None:
    db = ev.connect()
    db.sql(SETUP)
    found = db.sql("SELECT percentile_cont(ARRAY[0.5]) WITHIN GROUP (ORDER BY x) FROM t")
    assert list(found.columns) == ["percentile_cont"] and found.rows() == [(None,)]
