"""Slots: a stage never asks for more than there are, and tasks that wait for steps do not hold up others."""

from __future__ import annotations

import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import everview as ev
from everview import count
from everview.spark.driver import idle_tasks
from everview.spark.driver.idle_tasks import Lingering, others
from everview.spark.driver.slots import gang_slots, slots, stage_slots
from everview.uninterruptible import StartedApart
from tests.inside import inside
from tests.spark.strangers import wait_until


@pytest.mark.parametrize(
    ("master", "dynamic", "expected"),
    [("yarn", "false", 6), ("yarn", "true", 1), ("local-cluster[2,1,1024]", "true", 1), ("local[6]", "true", 6)],
)
def test_where_executors_come_and_go_there_are_no_stages(master: str, dynamic: str, expected: int) -> None:
    """Spark refuses them there, but in local mode, where it has no such thing."""
    conf = {"spark.dynamicAllocation.enabled": dynamic}
    context = SimpleNamespace(master=master, defaultParallelism=6, getConf=lambda: conf)
    assert stage_slots(context) == expected


@pytest.mark.parametrize(
    ("master", "conf", "expected"),
    [
        ("yarn", {}, 6),
        ("yarn", {"spark.dynamicAllocation.enabled": "true"}, 1 << 20),
        ("yarn", {"spark.dynamicAllocation.enabled": "true", "spark.dynamicAllocation.maxExecutors": "4"}, 6),
        ("k8s://host", {"spark.dynamicAllocation.enabled": "true", "spark.dynamicAllocation.maxExecutors": "9"}, 9),
        ("local[6]", {"spark.dynamicAllocation.enabled": "true"}, 6),
    ],
)
def test_a_gang_may_have_as_many_tasks_as_the_cluster_may_grow_to(
    master: str, conf: dict[str, str], expected: int
) -> None:
    context = SimpleNamespace(master=master, defaultParallelism=6, getConf=lambda: conf)
    assert gang_slots(context) == expected


class Idle(Lingering):
    """Tasks that say when they ended."""

    def __init__(self, linger: float, longest: float = 0.0) -> None:
        self.there = 0
        self.ended = 0.0
        super().__init__(None, linger, longest)

    @property
    def taken(self) -> int:
        return self.there

    def _drop(self, *, wait: bool = False, cancel: bool = False) -> None:
        self.there, self.ended = 0, time.monotonic()

    def step(self) -> float:
        """Run a step, and return when it ended."""
        with self._lock:
            self._begin()
            self.there = 1
            self._rest()
        return self._answered

    def waits(self) -> float:
        """Wait until they have ended; returns when."""
        assert wait_until(lambda: not self.there and self._watcher is None, 10.0)
        return self.ended


def test_idle_tasks_end_in_time_and_steps_start_no_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[Any] = []

    def start(**what: Any) -> StartedApart:
        started.append(what)
        return StartedApart(**what)

    monkeypatch.setattr(idle_tasks, "StartedApart", start)
    tasks = Idle(linger=0.3)
    for _ in range(200):
        last = tasks.step()
    assert 0.3 <= tasks.waits() - last < 5
    assert len(started) == 1
    again = tasks.step()
    assert 0.3 <= tasks.waits() - again < 5
    assert len(started) == 2
    tasks.close()


def test_a_timeout_shorter_than_the_one_watched_is_kept() -> None:
    """As of a gang, which looks more often than it lingers whether others wait."""
    tasks = Idle(linger=60.0)
    tasks.step()
    assert wait_until(lambda: tasks._looks > time.monotonic() + 50, 5.0)
    with tasks._lock:
        tasks._wait(0.05)
    tasks.waits()
    tasks.close()


def test_steps_at_intervals_are_waited_for() -> None:
    tasks = Idle(linger=0.05, longest=30.0)
    tasks._answered = time.monotonic() - 15
    tasks.step()
    assert not wait_until(lambda: not tasks.there, 0.5)
    last = tasks.step()
    assert tasks.waits() - last < 5
    tasks.close()


def test_tasks_that_leave_are_watched_no_more() -> None:
    tasks = Idle(linger=60.0)
    tasks.step()
    tasks.leave()
    assert tasks.ended <= tasks.waits() < time.monotonic()
    tasks.step()
    tasks.give_way()
    tasks.waits()
    tasks.close()


@pytest.mark.spark
def test_more_parallelism_than_slots(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`spark.default.parallelism` is anybody's to set: a stage of so many tasks would wait for ever."""
    context = spark.sparkContext
    monkeypatch.setattr(type(context), "defaultParallelism", 8)
    assert slots(context) == 2
    with ev.connect(spark, state=str(tmp_path), shards=8, alone_rows=0) as db:
        t = db.table("t", {"k": int})
        v = db.view("v", t.group_by("k").agg(n=count()))
        t.insert([(i % 3,) for i in range(9)])
        assert sorted(v.rows()) == [(0, 3), (1, 3), (2, 3)]


@pytest.mark.spark
def test_sessions_that_wait_let_others_run(spark: Any, tmp_path: Path) -> None:
    """Three sessions that would each keep a slot for a minute, on two slots; then a barrier stage, then Spark's own."""
    databases = [ev.connect(spark, state=str(tmp_path / str(i)), shards=2, linger=60.0) for i in range(3)]
    tables = [db.table("t", {"k": int}) for db in databases]
    started = time.monotonic()
    for i in range(3):
        for t in tables:
            t.insert([(i,)])
    assert len(others(None, spark.sparkContext)) == 1
    assert spark.sparkContext.parallelize([1], 1).count() == 1
    inside(databases[0]).runtime.cluster.placing.alone_rows = 0
    tables[0].insert([(3,)])
    assert sorted(tables[0].rows()) == [(0,), (1,), (2,), (3,)]
    for db in databases:
        db.close()
    assert time.monotonic() - started < 50
