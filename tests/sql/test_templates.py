"""Templates of moments in other dialects: DuckDB's answers by random templates, others by what they document."""

from __future__ import annotations

import datetime as dt
import random
from collections.abc import Callable

import duckdb
import pytest

import everview as ev

CODES = [*"YymBbdjAaHIpMSfuVGwUWgcxX%", *("-d", "-m", "-H", "-I", "-M", "-S", "-j", "-y")]
TEXTS = ("Day ", "x", "-", " ", "T", "/", '"', "\\", "'", ":", "1", "FM", "th")


def session(dialect: str) -> ev.Session:
    db = ev.connect()
    db.sql(f"SET dialect = '{dialect}'")
    return db


def test_strftime_prints_what_duckdb_prints() -> None:
    draw, db, other = random.Random(7), session("duckdb"), duckdb.connect()
    for _ in range(300):
        moment = dt.datetime(1900, 1, 1) + dt.timedelta(0, draw.randrange(5 * 10**9), draw.randrange(10**6))
        parts = [draw.choice(TEXTS) if draw.random() < 0.4 else "%" + draw.choice(CODES) for _ in range(6)]
        template = "".join(parts).replace("'", "''")
        text = f"SELECT strftime(TIMESTAMP '{moment}', '{template}')"
        assert db.sql(text).rows() == other.execute(text).fetchall(), text


@pytest.mark.parametrize(
    ("text", "template"),
    [
        ("2024-02-04 15:04:05", "%Y-%m-%d %H:%M:%S"),
        ("04/02/24", "%d/%m/%y"),
        ("Sunday, 4 February 2024 3:04 PM", "%A, %-d %B %Y %-I:%M %p"),
        ("2024-035", "%Y-%j"),
        ("2024-02-04T15:04:05.123456", "%Y-%m-%dT%H:%M:%S.%f"),
        ("year 2024 m 2", "year %Y m %m"),
    ],
)
def test_strptime_reads_what_duckdb_reads(text: str, template: str) -> None:
    call = f"SELECT strptime('{text}', '{template}')"
    assert session("duckdb").sql(call).rows() == duckdb.connect().execute(call).fetchall()


MOMENT = "TIMESTAMP '2024-02-04 15:04:05'"


@pytest.mark.parametrize(
    ("dialect", "call", "answer"),
    [
        (
            "mysql",
            f"date_format({MOMENT}, '%W %M %e %c at %h:%i:%s %p, %D')",
            "Sunday February 4 2 at 03:04:05 PM, 4th",
        ),
        ("mysql", f"date_format({MOMENT}, '%U %u %v %w %j')", "05 05 05 0 035"),
        ("trino", f"date_format({MOMENT}, 'Day %d, %W')", "Day 04, Sunday"),
        ("bigquery", f"FORMAT_TIMESTAMP('%e %k %l %P %C Q%Q', {MOMENT})", " 4 15  3 pm 20 Q1"),
        ("bigquery", f"FORMAT_TIMESTAMP('%D %F %R', {MOMENT})", "02/04/24 2024-02-04 15:04"),
        ("bigquery", "FORMAT_TIMESTAMP('%H', TIMESTAMP '2024-02-04 15:04:05+00', 'America/New_York')", "10"),
        ("sqlite", "strftime('%Y, week %W, day %w', '2024-02-04')", "2024, week 05, day 0"),
        ("sqlite", "strftime('%s, %f', '2024-02-04 15:04:05.678')", "1707059045, 05.678"),
        ("snowflake", f"to_char({MOMENT}, 'YYYY-MM-DD\"T\"HH24:MI:SS.FF3 AM')", "2024-02-04T15:04:05.000 PM"),
        ("clickhouse", f"formatDateTime({MOMENT}, '%Y-%m-%d %H:%i:%s %W')", "2024-02-04 15:04:05 Sunday"),
        ("redshift", "to_char(date '2024-02-04', 'DD MON Mon MONTH')", "04 FEB Feb FEBRUARY "),
    ],
)
def test_what_templates_print(dialect: str, call: str, answer: str) -> None:
    assert session(dialect).sql(f"SELECT {call}").rows() == [(answer,)]


@pytest.mark.parametrize(
    ("dialect", "call", "word"),
    [
        ("duckdb", f"strftime({MOMENT}, '%d %q')", "%q"),
        ("mysql", f"date_format({MOMENT}, '%X')", "%X"),
        ("snowflake", f"to_char({MOMENT}, 'Day DD')", "Day"),
        ("bigquery", "PARSE_DATE('%m-%d', '02-04')", "no moment"),
        ("duckdb", "strptime('7', '%w')", "no moment"),
        ("duckdb", "strftime(d, f)", "a constant here"),
    ],
)
def test_templates_that_are_rejected(dialect: str, call: str, word: str) -> None:
    db = session(dialect)
    db.table("t", {"d": "timestamp", "f": str})
    with pytest.raises(ev.EverviewError, match=word) as caught:
        db.sql(f"SELECT {call} FROM t")
    assert caught.value.code in ("E_PATTERN", "E_UNSUPPORTED")


def test_a_view_prints_as_the_dialect_it_was_created_in() -> None:
    db = session("duckdb")
    table = db.table("t", {"d": "timestamp?"})
    view = db.sql("CREATE VIEW v AS SELECT strftime(d, 'week %U of %Y') AS w FROM t")
    db.sql("SET dialect = default")
    rows = [(dt.datetime(2023, 12, 31),), (dt.datetime(2024, 1, 1),), (None,)]
    table.insert(rows)
    assert sorted(view.rows(), key=str) == [("week 00 of 2024",), ("week 53 of 2023",), (None,)]
    table.delete(rows[:1])
    assert sorted(view.rows(), key=str) == [("week 00 of 2024",), (None,)]


def weeks_of_tsql(day: dt.date) -> int:
    return (day.timetuple().tm_yday - 1 + dt.date(day.year, 1, 1).isoweekday() % 7) // 7 + 1


@pytest.mark.parametrize(
    ("dialect", "call", "week"),
    [
        ("bigquery", "EXTRACT(WEEK FROM DATE '{}')", lambda d: int(d.strftime("%U"))),
        ("mysql", "EXTRACT(WEEK FROM DATE '{}')", lambda d: int(d.strftime("%U"))),
        ("tsql", "DATEPART(week, CAST('{}' AS date))", weeks_of_tsql),
        ("tsql", "DATEPART(iso_week, CAST('{}' AS date))", lambda d: d.isocalendar().week),
        ("bigquery", "EXTRACT(ISOWEEK FROM DATE '{}')", lambda d: d.isocalendar().week),
        ("duckdb", "EXTRACT(week FROM DATE '{}')", lambda d: d.isocalendar().week),
    ],
)
def test_weeks_begin_where_the_dialect_says(dialect: str, call: str, week: Callable[[dt.date], int]) -> None:
    days = [dt.date(y, 1, 1) + dt.timedelta(n) for y in range(2017, 2024) for n in (0, 1, 6, 7, 200, 363, 364)]
    found = session(dialect).sql("SELECT " + ", ".join(call.format(d) for d in days)).rows()[0]
    assert list(found) == [week(d) for d in days]


@pytest.mark.parametrize(
    ("text", "rounded"),
    [
        ("'2024-02-04 15:04:05.6789'::timestamp(3)", dt.datetime(2024, 2, 4, 15, 4, 5, 679000)),
        ("'2024-02-04 15:04:59.5'::timestamp(0)", dt.datetime(2024, 2, 4, 15, 5)),
        ("'1999-02-04 15:04:05.5'::timestamp(0)", dt.datetime(1999, 2, 4, 15, 4, 5)),
        ("'2024-02-04 15:04:05.678901'::timestamp(6)", dt.datetime(2024, 2, 4, 15, 4, 5, 678901)),
        ("'2024-02-04 15:04:05.678+00'::timestamptz(1)", dt.datetime(2024, 2, 4, 15, 4, 5, 700000, tzinfo=dt.UTC)),
    ],
)
def test_casts_round_to_the_digits_of_a_timestamp(text: str, rounded: dt.datetime) -> None:
    assert ev.connect().sql(f"SELECT {text}").rows() == [(rounded,)]
