"""Steps that follow each other closely share one Spark job; nobody has to wait for it, and nothing depends on it."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

import everview as ev
from everview import count
from everview.spark.driver import long_lived_task as resident
from everview.spark.driver.idle_tasks import LINGER
from tests.inside import inside

pytestmark = pytest.mark.spark


def jobs(spark: Any) -> int:
    """How many jobs there have been."""
    return int(spark.sparkContext._jsc.sc().dagScheduler().nextJobId())


def declare(db: Any) -> tuple[Any, Any]:
    t = db.table("t", {"k": int, "x": int})
    return t, db.view("v", t.group_by("k").agg(n=count(), s=t.x.sum()))


def test_steps_share_a_job_and_give_the_slot_back(spark: Any, tmp_path: Path) -> None:
    with ev.connect(spark, state=str(tmp_path), shards=2, linger=3.0) as db:
        t, v = declare(db)
        t.insert([(0, 0)])
        before = jobs(spark)
        for i in range(1, 20):
            t.insert([(i % 3, i)])
        late = db.view("late", t.filter(t.k == 1))  # a new command reaches the task that stays
        assert jobs(spark) == before and len(late.rows()) == 7
        inside(db).runtime.cluster.linger(0.05)
        t.insert([(0, 20)])
        time.sleep(1.0)
        before = jobs(spark)
        t.insert([(0, 21)])
        assert jobs(spark) == before + 1
        assert sorted(v.rows()) == [(0, 9, 104), (1, 7, 70), (2, 6, 57)]


def test_steps_at_intervals_share_a_job_too(spark: Any, tmp_path: Path) -> None:
    """Intervals longer than the task usually lingers; not if somebody has said how long that is."""
    with ev.connect(spark, state=str(tmp_path), shards=2) as db:
        t, v = declare(db)
        for linger, more in ((None, 0), (LINGER, 4)):
            if linger is not None:
                inside(db).runtime.cluster.linger(linger)
            for i in range(6):
                t.insert([(1, 1)])
                time.sleep(4 * LINGER)
                if i == 1:
                    before = jobs(spark)
            assert jobs(spark) == before + more
        assert v.rows() == [(1, 12, 12)]


def test_a_barrier_stage_gets_all_slots(spark: Any, tmp_path: Path) -> None:
    with ev.connect(spark, state=str(tmp_path), shards=2, linger=60.0) as db:
        t, v = declare(db)
        for rows in (0, 1 << 40, 0, 0, 1 << 40):
            inside(db).runtime.cluster.placing.alone_rows = rows
            t.insert([(1, 1), (2, 2)])
        assert sorted(v.rows()) == [(1, 5, 5), (2, 5, 10)]


def test_workers_that_cannot_reach_the_driver(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Then every step is a job of its own."""
    told = resident.guarded  # type: ignore[attr-defined]

    def elsewhere(name: str, address: Any, *more: Any) -> Any:
        return told(name, ("127.0.0.1", 1), *more)

    monkeypatch.setattr(resident, "guarded", elsewhere)
    with ev.connect(spark, state=str(tmp_path), shards=2) as db:
        t, v = declare(db)
        before = jobs(spark)
        for i in range(3):
            t.insert([(1, i)])
        assert v.rows() == [(1, 3, 3)] and jobs(spark) == before + 3


def test_a_task_that_is_cancelled(spark: Any, tmp_path: Path) -> None:
    """By whoever: the next step starts another."""
    with ev.connect(spark, state=str(tmp_path), shards=2, linger=60.0) as db:
        t, v = declare(db)
        t.insert([(1, 1)])
        spark.sparkContext.cancelAllJobs()
        time.sleep(1.0)
        t.insert([(1, 2)])
        assert v.rows() == [(1, 2, 3)]
