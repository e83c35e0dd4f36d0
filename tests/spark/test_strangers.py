"""Strangers at the ports of driver and workers while steps run on Spark: no step fails, none waits for them, and every
answer is right.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import everview as ev
from everview import count
from tests.inside import inside
from tests.spark import strangers

pytestmark = pytest.mark.spark


PATIENT = 9.0
"""Seconds for a step on a busy machine: fewer than a stranger has to say something."""


def declare(db: Any) -> None:
    t = db.table("t", {"k": int, "x": int})
    db.view("v", t.group_by("k").agg(n=count(), s=t.x.sum()))


def timed(call: Callable[..., Any], *arguments: Any) -> float:
    began = time.monotonic()
    call(*arguments)
    return time.monotonic() - began


def test_strangers_at_the_drivers_port(spark: Any, tmp_path: Path) -> None:
    """While the task is on its way, while steps run, while it waits for the next, and when it is gone."""
    with ev.connect(spark, state=str(tmp_path / "warm"), shards=2) as db:  # the first worker takes its time
        declare(db)
    spark_own = strangers.listening([os.getpid()])

    def ports() -> set[strangers.Address]:
        return strangers.listening([os.getpid()]) - spark_own

    with strangers.plague(ports) as reached, ev.connect(spark, state=str(tmp_path / "s"), shards=2, linger=0.5) as db:
        times = [timed(declare, db)]
        for i in range(30):
            times.append(timed(db["t"].insert, [(i % 3, i)]))
            time.sleep(0.7 if i % 10 == 9 else 0.02)
        assert sorted(db["v"].rows()) == [(k, 10, sum(range(k, 30, 3))) for k in range(3)]
        assert max(times) < PATIENT, times
        assert inside(db).runtime.cluster._submitter.resident is not None, "it gave up on tasks that stay"
    assert min(reached[kind.__name__] for kind in strangers.KINDS) >= 5, reached


def test_strangers_at_the_workers_ports(spark: Any, tmp_path: Path) -> None:
    """While members of a gang look for each other, which they do for every step here, and while they exchange rows."""
    options: dict[str, Any] = {"shards": 2, "alone_rows": 0, "linger": 0}
    with (
        strangers.plague(strangers.WorkersPorts(), 0.001) as reached,
        ev.connect(spark, state=str(tmp_path), **options) as db,
    ):
        edge = db.table("edge", {"src": int, "dst": int})

        def step(reach: Any) -> Any:
            hop = reach.join(edge, reach.dst == edge.src).select(src=reach.src, dst=edge.dst)
            return hop.union_all(edge).distinct()

        v = db.view("v", edge.iterate(step))
        times = [timed(edge.insert, [(5 * i + j, 5 * i + j + 1) for j in range(5)]) for i in range(4)]
        until = time.monotonic() + 90  # they listen for some milliseconds only
        while sum(reached.values()) < len(strangers.KINDS) and time.monotonic() < until:
            times += [timed(edge.delete, [(19, 20)]), timed(edge.insert, [(19, 20)])]
        assert sorted(v.rows()) == [(a, b) for a in range(20) for b in range(a + 1, 21)]
        assert max(times) < PATIENT, times
    assert sum(reached.values()) >= len(strangers.KINDS), "nobody came near"
