"""Slots: a stage never asks for more than there are, and tasks that wait for steps do not hold up others."""

from __future__ import annotations

import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import everview as ev
from everview import count
from everview.spark.driver.idle_tasks import others
from everview.spark.driver.slots import gang_slots, slots, stage_slots
from tests.inside import inside


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
