"""now() in SELECT lists, ORs, CASE, FILTER and with months: a view at any moment is what a SELECT then says."""

from __future__ import annotations

import datetime as dt
import random
from pathlib import Path
from typing import Any

import pytest

import everview as ev
from everview.session.local_shards import local_shards

TABLE = "CREATE TABLE t (id int, ts timestamp, d date, z timestamptz, k int)"
VIEWS = {
    "flag": "SELECT id, ts > now() - INTERVAL '3 days' AS recent, NOT ts <= now() AS future FROM t",
    "either": "SELECT id FROM t WHERE ts > now() - INTERVAL '2 days' OR k = 1",
    "both": "SELECT id FROM t WHERE (ts < now() OR d = current_date) AND z > now() - INTERVAL '5 days'",
    "word": """SELECT id, CASE WHEN ts > now() THEN 'to come'
               WHEN ts BETWEEN now() - INTERVAL '2 days' AND now() THEN 'new' ELSE 'old' END AS word FROM t""",
    "counts": """SELECT k, count(*) AS n, count(*) FILTER (WHERE ts > now() - INTERVAL '1 day') AS today,
                 sum(CASE WHEN d < current_date THEN 1 ELSE 0 END) AS past FROM t GROUP BY k""",
    "by_flag": "SELECT ts > now() - INTERVAL '4 days' AS recent, count(*) AS n FROM t GROUP BY 1",
    "months": "SELECT id FROM t WHERE ts > now() - INTERVAL '1 month'",
    "months_left": "SELECT id FROM t WHERE ts <= now() + INTERVAL '1 month 2 days'",
    "equal": "SELECT id, ts >= now() - INTERVAL '2 months' AS a, ts < now() - INTERVAL '2 months' AS b FROM t",
    "months_of_days": "SELECT id FROM t WHERE d >= current_date - INTERVAL '1 month'",
    "days_after": """SELECT id, d > current_date - INTERVAL '3 months' AS a, d < current_date + INTERVAL '1 month' AS b
                     FROM t""",
    "year": "SELECT id FROM t WHERE ts BETWEEN now() - INTERVAL '1 year' AND now() - INTERVAL '1 month'",
    "zoned": "SELECT id FROM t WHERE z > now() - INTERVAL '36 hours'",
    "age": "SELECT id, current_date - d AS days, now()::date > d AS past FROM t",
    "this_month": "SELECT id FROM t WHERE date_trunc('month', d) = date_trunc('month', current_date)",
    "hour": "SELECT id, date_trunc('hour', now()) AS hour FROM t WHERE k = 2",
    "joined": """SELECT a.id, b.id AS other, b.ts > now() - INTERVAL '2 days' AS f FROM t a JOIN t b ON a.k = b.k
                 WHERE a.ts < now() OR b.z < now()""",
    "ranked": "SELECT id, ts > now() AS f, row_number() OVER (PARTITION BY k ORDER BY id, ts) AS n FROM t",
    "derived": "SELECT q.f, count(*) AS n FROM (SELECT id, ts > now() AS f FROM t WHERE k <> 1) q GROUP BY q.f",
    "alone": "SELECT current_date AS today, extract(year FROM current_date) AS year",
}
START = dt.datetime(2024, 2, 25, 10)


def _row(chance: random.Random, now: dt.datetime) -> tuple[Any, ...]:
    moment = now + dt.timedelta(hours=chance.randrange(-24 * 40, 24 * 40), minutes=chance.choice((0, 0, 17)))
    near = now + dt.timedelta(hours=chance.randrange(-100, 100))
    ts = chance.choice([moment, near, near.replace(hour=0, minute=0), None])
    day = chance.choice([moment.date(), near.date(), None])
    return chance.randrange(5), ts, day, chance.choice([near.replace(tzinfo=dt.UTC), None]), chance.randrange(3)


def _check(db: ev.Session) -> None:
    for name, text in VIEWS.items():
        ours, asked = db[name].rows(), db.sql(text).rows()
        assert sorted(ours, key=repr) == sorted(asked, key=repr), (name, db.now)


def _moved(db: ev.Session, chance: random.Random, rows: list[tuple[Any, ...]]) -> None:
    db.advance(db.now + dt.timedelta(hours=chance.choice((1, 7, 12, 24, 24 * 9)), minutes=chance.choice((0, 31))))
    table = db["t"]
    assert isinstance(table, ev.Table)
    gone = chance.sample(rows, len(rows) // 4)
    new = [_row(chance, db.now) for _ in range(4)]
    with db.transaction():
        table.delete(gone)
        table.insert(new)
    for row in gone:
        rows.remove(row)
    rows += new


def _installed(db: ev.Session) -> None:
    db.advance(START)
    db.sql(TABLE)
    for name, text in VIEWS.items():
        db.sql(f"CREATE VIEW {name} AS {text}")


@pytest.mark.parametrize(("shards", "steps"), [(0, 10), (2, 3)])
def test_a_view_says_what_a_select_would(shards: int, steps: int) -> None:
    db = local_shards(shards=shards) if shards else ev.connect()
    _installed(db)
    chance, rows = random.Random(11), list[tuple[Any, ...]]()
    for _ in range(steps):
        _moved(db, chance, rows)
        _check(db)
    table = db["t"]
    assert isinstance(table, ev.Table)
    table.delete(rows)
    _check(db)


def test_the_last_days_of_months_hour_by_hour() -> None:
    """A moment a month ago comes four times on the days that February has not."""
    db = ev.connect()
    db.advance(dt.datetime(2023, 3, 27, 22))
    db.sql("CREATE TABLE t (ts timestamp)")
    texts = {
        f"m{i}": f"SELECT ts FROM t WHERE ts {op} now() - INTERVAL '1 month'"
        for i, op in enumerate(("<", "<=", ">", ">="))
    }
    for name, text in texts.items():
        db.sql(f"CREATE VIEW {name} AS {text}")
    db.sql(
        "INSERT INTO t VALUES ('2023-02-28 00:00'), ('2023-02-28 05:00'), ('2023-02-27 05:00'), ('2023-03-01 00:00')"
    )
    flips = 0
    for _ in range(104):
        before = db["m2"].rows()
        db.advance(db.now + dt.timedelta(hours=1))
        flips += before != db["m2"].rows()
        for name, text in texts.items():
            assert sorted(db[name].rows()) == sorted(db.sql(text).rows()), (name, db.now)
    assert flips >= 8


def test_flags_and_days_survive(tmp_path: Path) -> None:
    chance, rows = random.Random(5), list[tuple[Any, ...]]()
    with ev.connect(tmp_path / "db") as db:
        _installed(db)
    for _ in range(2):
        with ev.connect(tmp_path / "db") as db:
            _check(db)
            _moved(db, chance, rows)
            _check(db)


def test_a_time_to_live_by_a_moment_in_a_zone() -> None:
    db = ev.connect()
    db.advance(START)
    db.sql("CREATE TABLE t (z timestamptz) TTL z + INTERVAL '1 hour'")
    db.sql("INSERT INTO t VALUES ('2024-02-25 11:30+02'), ('2024-02-25 12:30+02'), (NULL)")
    assert len(db["t"].rows()) == 3
    db.advance(START + dt.timedelta(minutes=45))
    assert len(db["t"].rows()) == 2


@pytest.mark.parametrize(
    "text",
    [
        "SELECT now() AS n FROM t",
        "SELECT id, now() - ts AS age FROM t",
        "SELECT k, max(ts) > now() AS f FROM t GROUP BY k",
        "SELECT k FROM t GROUP BY k HAVING max(ts) > now()",
        "SELECT a.id FROM t a, t b WHERE a.ts + (b.ts - a.ts) > now() OR a.k = 1",
        "SELECT id FROM t WHERE ts = now() OR k = 1",
        "SELECT a.id FROM t a LEFT JOIN t b ON a.k = b.k WHERE b.ts > now() OR a.k = 1",
    ],
)
def test_what_cannot_be_kept_is_refused(text: str) -> None:
    db = ev.connect()
    db.sql(TABLE)
    with pytest.raises(ev.PlanError):
        db.sql(f"CREATE VIEW v AS {text}")


COMPUTED = (
    "at > now() - interval '1 day' * 2",
    "at > now() - (interval '1 day' + interval '12 hours')",
    "at > now() - 3 * interval '1 month'",
    "at BETWEEN now() AND now() + interval '1 day' * 365 * 20",
    "at > now() - 2 * interval '1 month 1 day' OR id = 1",
)


def test_distances_that_are_computed_from_constants() -> None:
    """The distance from now() may be an expression, as long as it is constant; at any time, a view equals a SELECT."""
    db = ev.connect()
    noon = dt.datetime(2026, 1, 31, 12)
    db.advance(noon)
    db.sql("CREATE TABLE t (id int, at timestamp)")
    views = {c: db.sql(f"CREATE VIEW v{i} AS SELECT id FROM t WHERE {c}") for i, c in enumerate(COMPUTED)}
    hours = (1, 30, 37, 47, 49, 24 * 70, 24 * 92, 24 * 93, -24, -24 * 365 * 20 + 1, -24 * 365 * 20 - 1)
    db["t"].insert([(i, noon - dt.timedelta(hours=h)) for i, h in enumerate(hours)])
    for _ in range(6):
        for condition, view in views.items():
            assert sorted(view.rows()) == sorted(db.sql(f"SELECT id FROM t WHERE {condition}").rows()), condition
        db.advance(db.now + dt.timedelta(days=13, hours=7))
    with pytest.raises(ev.PlanError, match="not a constant distance"):
        db.sql("CREATE VIEW v AS SELECT id FROM t WHERE at > now() - interval '1 month' * id")
