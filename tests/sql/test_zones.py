"""Functions of a timestamptz in several zones, against PostgreSQL."""

from __future__ import annotations

from collections import Counter

import pytest

import everview as ev
from everview.session.rights.principal import Principal, acting
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


def test_every_way_to_ask_reads_moments_in_the_zone(postgres: Postgres) -> None:
    """SUBSCRIBE, prepared queries and functions took UTC, and did not know types that were created."""
    query = "SELECT ts::date::text AS d, ts::text AS x FROM t WHERE ts < '2020-01-01 05:00'"
    function = "CREATE FUNCTION shown(a timestamptz) RETURNS text LANGUAGE sql AS 'SELECT a::text'"
    with ev.connect() as db:
        for run in (db.sql, postgres.run):
            run("CREATE TABLE t (ts timestamptz)")
            run("INSERT INTO t VALUES ('2020-01-01 00:00+00'), ('2020-01-01 09:00+00'), ('2020-01-01 12:00+00')")
            run("SET TIME ZONE 'America/New_York'")
            run(function)
        expected = Counter(postgres.rows(query))
        assert len(expected) == 2
        assert Counter(db.sql(query).rows()) == expected
        told = db.sql(f"SUBSCRIBE TO ({query})")
        db.sql("CREATE ROLE app LOGIN; GRANT SELECT ON t TO app")
        with acting(Principal("app")):
            theirs = db.sql(f"SUBSCRIBE TO ({query})")
        for one in (told, theirs):
            assert Counter(row for batch in one for row, _ in batch.rows()) == expected
        prepared = db.prepare("p", query.replace("WHERE", "WHERE $k = 1 AND"))
        assert Counter(prepared(1).rows()) == expected
        assert Counter(db.sql("SELECT shown(ts) FROM t").rows()) == Counter(postgres.rows("SELECT shown(ts) FROM t"))
        db.sql("CREATE TYPE mood AS ENUM ('sad', 'glad'); CREATE TABLE m (x text); INSERT INTO m VALUES ('glad')")
        told = db.sql("SUBSCRIBE TO (SELECT x::mood AS y FROM m)")
        assert [batch.rows() for batch in told] == [[(("glad",), 1)]]
