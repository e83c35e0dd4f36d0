"""TIMESTAMPDIFF, TIMESTAMPADD, DATE_FORMAT and TO_TIMESTAMP_LTZ, as Flink, Spark and MySQL have them, in views."""

from __future__ import annotations

import datetime as dt
import random

import pytest

import everview as ev
from everview.session.local_shards import local_shards
from everview.sql.text.error_positions import SqlError

SIZES = {"MICROSECOND": 1, "SECOND": 10**6, "MINUTE": 6 * 10**7, "HOUR": 36 * 10**8, "DAY": 864 * 10**8}
SIZES["WEEK"] = 7 * SIZES["DAY"]
MONTHS = {"MONTH": 1, "QUARTER": 3, "YEAR": 12}


def _months(a: dt.datetime, b: dt.datetime) -> int:
    """Whole months from a to b, counted one by one."""
    if b < a:
        return -_months(b, a)
    found = (b.year - a.year) * 12 + b.month - a.month
    return found - ((b.day, b.time()) < (a.day, a.time()))


def _expected(unit: str, a: dt.datetime, b: dt.datetime) -> int:
    if unit in MONTHS:
        found = _months(a, b)
        return abs(found) // MONTHS[unit] * (1 if found >= 0 else -1)
    found = (b - a) // dt.timedelta(microseconds=1)
    return abs(found) // SIZES[unit] * (1 if found >= 0 else -1)


def _moments(seed: int, count: int) -> list[tuple[int, dt.datetime, dt.datetime]]:
    chosen = random.Random(seed)

    def moment() -> dt.datetime:
        day = chosen.choice((1, 27, 28, 29, 30, 31))
        start = dt.datetime(chosen.choice((1960, 2020, 2021)), chosen.choice((1, 3, 5, 12)), 1)
        return start + dt.timedelta(days=day, microseconds=chosen.choice((0, 1, 43_200_000_000)))

    return [(i, moment(), moment()) for i in range(count)]


@pytest.mark.parametrize("shards", [0, 2])
def test_views_of_differences_and_sums_under_changes_of_200_rows(shards: int) -> None:
    units = [*SIZES, *MONTHS]
    rows = _moments(shards, 200)
    with local_shards(shards) if shards else ev.connect() as db:
        db.sql("CREATE TABLE t (id int PRIMARY KEY, a timestamp, b timestamp)")
        listed = ", ".join(f"TIMESTAMPDIFF({unit}, a, b) AS n{i}" for i, unit in enumerate(units))
        db.sql(f"CREATE VIEW v AS SELECT id, {listed} FROM t")
        db.sql(
            "CREATE VIEW w AS SELECT id, TIMESTAMPADD(HOUR, id, a) AS x, TIMESTAMPADD(MONTH, -1, a::date) AS y FROM t"
        )
        db["t"].insert(rows)
        db.sql("INSERT INTO t VALUES (1000, NULL, now())")
        db.sql("DELETE FROM t WHERE id % 3 = 0")
        kept = [row for row in rows if row[0] % 3]
        assert sorted(db["v"].rows())[:-1] == [(i, *(_expected(u, a, b) for u in units)) for i, a, b in kept]
        assert max(db["v"].rows()) == (1000, *(None,) * len(units))
        for i, x, y in sorted(db["w"].rows())[:-1]:
            assert x == rows[i][1] + dt.timedelta(hours=i) and type(y) is dt.date


def _one(db: ev.Session, expression: str) -> object:
    [(found,)] = db.sql(f"SELECT {expression}").rows()
    return found


def test_forms_of_moments() -> None:
    db = ev.connect()
    ts = "timestamp '2020-01-31 12:34:56.789'"
    assert _one(db, f"DATE_FORMAT({ts}, 'yyyy-MM-dd HH:mm:ss.SSS')") == "2020-01-31 12:34:56.789"
    assert _one(db, f"DATE_FORMAT({ts}, '%Y-%m-%d')") == "2020-01-31"
    assert _one(db, "DATE_FORMAT(NULL::timestamp, 'yyyy')") is None
    epoch = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
    assert _one(db, "TO_TIMESTAMP_LTZ(-1500, 3)") == epoch - dt.timedelta(seconds=1.5)
    assert _one(db, "TO_TIMESTAMP_LTZ(86400, 0)") == epoch + dt.timedelta(days=1)
    assert _one(db, "TO_TIMESTAMP_LTZ(1000)") == epoch + dt.timedelta(seconds=1)
    assert _one(db, "TO_TIMESTAMP('2020-01-01 00:00:00')") == dt.datetime(2020, 1, 1)
    assert _one(db, "TO_TIMESTAMP('12.5')") == epoch + dt.timedelta(seconds=12.5)
    assert _one(db, f"TIMESTAMPADD(QUARTER, 1, {ts})") == dt.datetime(2020, 4, 30, 12, 34, 56, 789000)
    db.sql("SET TIME ZONE 'Europe/Berlin'")  # an hour is missing on the 29th
    across = "timestamptz '2020-03-29 00:00:00', timestamptz '2020-03-30 00:00:00'"
    assert _one(db, f"TIMESTAMPDIFF(HOUR, {across})") == 23 and _one(db, f"TIMESTAMPDIFF(DAY, {across})") == 1
    for dialect in ("spark", "mysql"):
        db.sql(f"SET dialect = '{dialect}'")
        assert _one(db, "TIMESTAMPDIFF(MONTH, date '2020-01-31', date '2020-02-29')") == 0


@pytest.mark.parametrize(
    ("expression", "says"),
    [
        ("TIMESTAMPDIFF(DAYY, now(), now())", "did you mean 'day'"),
        ("TIMESTAMPDIFF(DAY, now())", "TIMESTAMPDIFF.DAY, start, end"),
        ("TIMESTAMPADD(DAY, 1)", "TIMESTAMPADD.DAY, 1, moment"),
        ("TO_TIMESTAMP_LTZ(1, 6)", "0 is seconds, 3 is milliseconds"),
        ("DATE_FORMAT(now(), now()::text)", "a template of a moment is a constant"),
        ("DATE_FORMAT(now(), 'QQQQ')", "QQQQ in the template of a moment is not supported"),
    ],
)
def test_what_they_do_not_take(expression: str, says: str) -> None:
    with pytest.raises(SqlError, match=says) as caught:
        ev.connect().sql(f"SELECT {expression}")
    assert caught.value.line == 1 and caught.value.column >= 8
