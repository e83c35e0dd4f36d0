"""Functions of a timestamptz in several zones, against PostgreSQL."""

from __future__ import annotations

from collections import Counter

import pytest

import everview as ev
from tests.sql.postgres import Postgres

MOMENTS = ["2024-01-31 10:07+02", "2024-03-31 00:59:59.5+00", "2024-11-03 05:30+00", "1969-12-31 23:00-05"]

EXPRESSIONS = [
    "to_char(ts, 'YYYY-MM-DD HH24:MI:SS.MS Day')",
    "age(ts, timestamptz '2020-02-29 12:00+00')::text",
    "age(timestamptz '2030-01-01 00:00+00', ts)::text",
    "date_bin('15 minutes', ts, '2024-01-01')::text",
    "date_bin('1 day', ts, timestamptz '2024-01-01 00:00+09')::text",
    "date_bin(interval '7 days', ts, timestamp '2001-01-01')::text",
    "date_trunc('day', ts)::text",
    "extract(hour from ts)::text",
]


@pytest.mark.parametrize("zone", ["UTC", "America/New_York", "Asia/Kolkata"])
def test_functions_of_moments(postgres: Postgres, zone: str) -> None:
    values = ", ".join(f"('{m}')" for m in MOMENTS)
    asked = f"SELECT {', '.join(f'{e} AS c{i}' for i, e in enumerate(EXPRESSIONS))} FROM t ORDER BY ts"
    script = ["CREATE TABLE t (ts timestamptz)", f"INSERT INTO t VALUES {values}", f"SET TIME ZONE '{zone}'"]
    with ev.connect() as db:
        for statement in script:
            db.sql(statement)
            postgres.run(statement)
        assert db.sql(asked).rows() == postgres.rows(asked)


@pytest.mark.parametrize("zone", ["UTC", "Europe/Oslo"])
def test_to_timestamp_is_an_instant(postgres: Postgres, zone: str) -> None:
    """It was a timestamp in UTC, so that AT TIME ZONE converted in the wrong direction."""
    db = ev.connect()
    setup = f"SET TIME ZONE '{zone}'; CREATE TABLE e (n double precision, s text)"
    query = """
        SELECT (to_timestamp(n) AT TIME ZONE 'America/New_York')::text, to_timestamp(n)::text,
               to_timestamp(n)::date::text, to_timestamp(s, 'YYYY-MM-DD HH24:MI')::text,
               (to_timestamp(s, 'YYYY-MM-DD HH24:MI') AT TIME ZONE 'UTC')::text
        FROM e
    """
    columns = "(a, b, c, d, e)"
    for run in (db.sql, postgres.run):
        run(setup)
    db.sql(f"CREATE VIEW v {columns} AS {query}")
    for run in (db.sql, postgres.run):
        run("INSERT INTO e VALUES (0, '2024-07-01 12:00'), (1719831599.5, '2024-01-31 23:59'), (NULL, NULL)")
    assert Counter(db["v"].rows()) == Counter(postgres.rows(query))
