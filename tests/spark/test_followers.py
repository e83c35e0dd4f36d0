"""Watermarks, closed windows, look-ups and what follows the clock, in steps that are Spark jobs."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

import everview as ev

pytestmark = [pytest.mark.spark, pytest.mark.slow]

NOON = dt.datetime(2026, 3, 28, 12)
STATEMENTS = """
    CREATE TABLE t (k int, at timestamp, n numeric, WATERMARK FOR at AS at - INTERVAL '5 seconds');
    CREATE TABLE r (k int, name text);
    CREATE VIEW closed AS SELECT window_start, sum(n) AS s FROM TUMBLE(t, at, INTERVAL '10 seconds')
        GROUP BY window_start EMIT ON WINDOW CLOSE;
    CREATE VIEW looked AS SELECT t.k, r.name FROM t LEFT JOIN r FOR SYSTEM_TIME AS OF PROCTIME() AS r ON r.k = t.k;
    CREATE VIEW flags AS SELECT k, at > now() - INTERVAL '1 hour' AS recent, current_date AS day FROM t
"""


def _second(n: int) -> dt.datetime:
    return NOON + dt.timedelta(seconds=n)


def test_what_follows_a_table_on_spark(spark: Any, tmp_path: Path) -> None:
    with ev.connect(spark, state=tmp_path / "state") as db:
        db.advance(NOON)
        db.sql(STATEMENTS)
        db.sql("INSERT INTO r VALUES (1, 'one')")
        table = db["t"]
        assert isinstance(table, ev.Table)
        table.insert([(1, _second(1), Decimal("0.1234567890123456789")), (2, _second(3), Decimal(1))])
        assert db["closed"].rows() == []
        table.insert([(1, _second(16), None)])
    with ev.connect(spark, state=tmp_path / "state") as db:
        assert db["closed"].rows() == [(NOON, Decimal("1.1234567890123456789"))]
        db.sql("UPDATE r SET name = 'uno'")
        table = db["t"]
        assert isinstance(table, ev.Table)
        table.insert([(1, _second(2), None), (1, _second(17), None)])
        assert db.sql("SHOW WATERMARKS").rows() == [("t", _second(12), 1)]
        assert sorted(db["looked"].rows(), key=str) == [(1, "one"), (1, "one"), (1, "uno"), (2, None)]
        db.advance(NOON + dt.timedelta(hours=1, seconds=10))
        assert sorted(db["flags"].rows()) == [
            (1, False, NOON.date()),
            (1, True, NOON.date()),
            (1, True, NOON.date()),
            (2, False, NOON.date()),
        ]
        db.advance(NOON + dt.timedelta(days=1))
        assert {day for _, _, day in db["flags"].rows()} == {dt.date(2026, 3, 29)}
