"""Gangs: tasks that stay, each with some of the shards. Most of it in one process (`inprocess_gang`), with the real
connections; then on Spark, with processes that die.
"""

from __future__ import annotations

import logging
import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import everview as ev
from everview.expr.language import count, udf
from everview.spark.driver import gang as driver
from everview.spark.driver import long_lived_task, placement
from tests.inside import inside
from tests.spark import inprocess, inprocess_gang
from tests.spark.test_long_lived_task import jobs
from tests.spark.test_session import contents, embedded, feed, program


def connect(state: Path, slots: int = 2, **options: Any) -> Any:
    return ev.connect(inprocess_gang.session(slots), state=str(state), **({"shards": 2, "alone_rows": 0} | options))


def declare(db: Any) -> tuple[Any, Any]:
    t = db.table("t", {"k": int, "x": int})
    return t, db.view("v", t.group_by("k").agg(n=count(), s=t.x.sum()))


def memories(db: Any) -> list[set[int]]:
    """The shards that each member's worker holds."""
    context = inside(db).runtime.cluster.spark.sparkContext
    return [{n for shards in memory.values() for n in shards._held} for memory in context.busy]


@pytest.mark.parametrize(("shards", "slots"), [(1, 1), (3, 2), (4, 4)])
def test_the_same_answers_as_embedded(tmp_path: Path, shards: int, slots: int) -> None:
    with connect(tmp_path, slots, shards=shards) as db:
        feed(db, program(db), 1, 8)
        late = db.view("late", db["edge"].group_by("kind").agg(n=count()))
        assert sum(n for _, n in late.rows()) == len(db["edge"].rows())
        late.drop()
        assert contents(db) == embedded((1, 8))


def test_a_worker_holds_its_own_shards_and_no_others(tmp_path: Path) -> None:
    with connect(tmp_path, slots=2, shards=5, linger=60.0) as db:
        t, v = declare(db)
        for i in range(4):
            t.insert([(k, i) for k in range(20)])
        held = memories(db)
        assert sorted(map(len, held)) == [2, 3] and set.union(*held) == set(range(5))
        assert len(v.rows()) == 20


def test_one_task_and_a_gang_take_turns(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """By the size of steps and of the state, and the session says which, and why."""
    caplog.set_level(logging.INFO, "everview.spark")
    with connect(tmp_path, alone_rows=100, linger=60.0) as db:
        t, v = declare(db)
        t.insert([(1, 1)])
        assert db.stats()["steps"] == "in one task: steps and state are small"
        t.insert([(2, i) for i in range(200)])
        assert db.stats()["steps"] == "in 2 tasks: steps are large"
        for _ in range(placement.SETTLE_STEPS):
            t.insert([(3, 1)])
        assert db.stats()["steps"] == "in 2 tasks: its tasks are still there"
        t.insert([(3, 1)])
        assert db.stats()["steps"] == "in one task: steps and state are small"
        inside(db).runtime.cluster.placing.alone_bytes = 100
        t.insert([(3, 1)])
        assert db.stats()["steps"].startswith("in 2 tasks: the state has")
        assert sorted(v.rows()) == [(1, 1, 1), (2, 200, sum(range(200))), (3, 18, 18)]
    assert [record.getMessage() for record in caplog.records][1:3] == [
        "steps run in 2 tasks: steps are large",
        "steps run in one task: steps and state are small",
    ]


def test_tasks_end_when_they_are_not_needed(tmp_path: Path) -> None:
    with connect(tmp_path, linger=60.0) as db:
        cluster = inside(db).runtime.cluster
        t, _ = declare(db)
        for i in range(5):
            t.insert([(1, i)])
        gang = cluster._submitter.gang
        assert cluster.spark.sparkContext.jobs == 1 and gang.taken == 2
        gang.give_way()  # another session needs the slots
        assert gang.taken == 0 and cluster.spark.sparkContext.running == 0
        t.insert([(1, 5)])
        cluster.linger(0.0)
        t.insert([(1, 6)])  # now tasks end with their step
        assert cluster.spark.sparkContext.running == 0
        assert db["v"].rows() == [(1, 7, 21)]


def test_shards_move_when_slots_come_and_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(placement, "SLOTS_SECONDS", -1.0)
    with connect(tmp_path, slots=2, shards=6, linger=60.0) as db:
        context = inside(db).runtime.cluster.spark.sparkContext
        t, v = declare(db)
        for slots, expected in ((2, [3, 3]), (3, [2, 2, 2]), (2, [3, 3])):
            context.resize(slots)
            t.insert([(k, slots) for k in range(30)])
            held = memories(db)
            assert sorted(map(len, held)) == expected and set.union(*held) == set(range(6))
        assert sorted(v.rows()) == [(k, 3, 7) for k in range(30)]


def test_a_member_that_does_not_come_is_done_without(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody has its slot. The other has all shards then; when it comes after all it gets its share."""
    monkeypatch.setattr(driver, "MISSING_SECONDS", 0.1)
    with connect(tmp_path, slots=2, shards=4, linger=60.0) as db:
        context = inside(db).runtime.cluster.spark.sparkContext
        leave = threading.Event()
        stranger = threading.Thread(target=context.run, args=(lambda partition: [leave.wait(60)], [[0]]), daemon=True)
        stranger.start()
        while context.running == 0:
            time.sleep(0.01)
        t, v = declare(db)
        t.insert([(k, 1) for k in range(20)])
        gang = inside(db).runtime.cluster._submitter.gang
        assert gang.members == 1 and max(memories(db), key=len) == {0, 1, 2, 3}
        leave.set()
        stranger.join()
        steps = 1
        while gang.members < 2 and steps < 2000:
            t.insert([(k, 1) for k in range(20)])
            steps += 1
        t.insert([(k, 1) for k in range(20)])
        assert sorted(map(len, memories(db))) == [2, 2] and sorted(v.rows()) == [
            (k, steps + 1, steps + 1) for k in range(20)
        ]


def test_a_member_that_dies_in_the_middle_of_a_step(tmp_path: Path) -> None:
    """The step is run again from the last commit, but not for ever."""
    fuse = tmp_path / "fuse"

    def left(deaths: int) -> None:
        fuse.write_text("x" * deaths)

    def burn(x: int) -> int:
        """Ends its worker at 13, as often as is left."""
        if x == 13 and (there := fuse.read_text()):
            fuse.write_text(there[1:])
            inprocess_gang.die()
        return x + 1

    with connect(tmp_path / "state", linger=60.0) as db:
        left(0)
        t = db.table("t", {"x": int})
        v = db.view("v", t.select(y=udf(burn, returns=int)(t.x)))
        t.insert([(x,) for x in range(10)])
        for deaths in (1, 2):
            left(deaths)
            t.insert([(13,)])
        assert sorted(v.rows()) == [*((x + 1,) for x in range(10)), (14,), (14,)] and not fuse.read_text()
        left(100)
        with pytest.raises(ev.EverviewError, match="E_JOB"):
            t.insert([(13,)])
        left(0)
        assert db.time == 3 and len(v.rows()) == 12
        t.insert([(20,)])
        assert sorted(v.rows())[-1] == (21,) and db.check() == []


def test_what_is_refused_leaves_a_gang_that_goes_on(tmp_path: Path) -> None:
    with connect(tmp_path, linger=60.0) as db:
        t, v = declare(db)
        t.insert([(k, 1) for k in range(10)])
        for _ in range(3):
            with pytest.raises(ev.InputError, match="E_ABSENT"):
                t.delete([(3, 99)])
            t.insert([(3, 1)])
        assert ((3, 5, 5), 1) in db.what_if(insert={"t": [(3, 1)]}).changes("v")
        assert (3, 4, 4) in v.rows() and db.time == 4
        assert inside(db).runtime.cluster.spark.sparkContext.jobs == 1


def test_all_runtimes_open_the_same_directory(tmp_path: Path) -> None:
    feeds: list[tuple[int, int]] = []
    ways: list[dict[str, Any]] = [{}, {"alone_rows": 0}, {"alone_rows": None}, {"alone_rows": 0, "shards": 3}]
    for seed, options in enumerate(ways):
        db: Any = ev.connect(str(tmp_path)) if not options else connect(tmp_path, slots=2, **options)
        with db:
            feed(db, program(db), seed, 3)
            feeds.append((seed, 3))
            assert contents(db) == embedded(*feeds)
    with ev.connect(inprocess.session(), state=str(tmp_path)) as db, ev.connect(tmp_path, read_only=True) as reader:
        assert contents(db) == embedded(*feeds) == contents(reader)


@pytest.mark.parametrize(("active", "waits"), [(2, False), (1, True)])
def test_jobs_that_wait_for_slots_are_seen(active: int, waits: bool) -> None:
    stages = {7: SimpleNamespace(numTasks=3, numActiveTasks=active, numCompletedTasks=1), 8: None}
    tracker = SimpleNamespace(
        getActiveJobsIds=lambda: [1, 2],
        getJobInfo=lambda job: SimpleNamespace(stageIds=[7, 8]) if job == 1 else None,
        getStageInfo=stages.get,
    )
    assert driver.others_wait(SimpleNamespace(statusTracker=lambda: tracker)) is waits


# on Spark


@pytest.mark.spark
def test_steps_of_a_gang_share_a_job(spark: Any, tmp_path: Path) -> None:
    with ev.connect(spark, state=str(tmp_path), shards=3, alone_rows=0, linger=60.0) as db:
        t, v = declare(db)
        t.insert([(0, 0)])
        before = jobs(spark)
        for i in range(1, 20):
            t.insert([(i % 3, i)])
        late = db.view("late", t.filter(t.k == 1))  # a new command reaches all members
        assert jobs(spark) == before and len(late.rows()) == 7
        assert sorted(v.rows()) == [(0, 7, 63), (1, 7, 70), (2, 6, 57)]


@pytest.mark.spark
def test_a_job_that_needs_slots_gets_them(spark: Any, tmp_path: Path) -> None:
    """A gang has both slots and steps go on and on; somebody else's job is done nevertheless."""
    with ev.connect(spark, state=str(tmp_path), shards=2, alone_rows=0, linger=60.0) as db:
        t, v = declare(db)
        t.insert([(0, 0)])
        found: list[int] = []
        other = threading.Thread(target=lambda: found.append(spark.sparkContext.parallelize([1, 2], 2).count()))
        other.start()
        steps = 1
        while other.is_alive() and steps < 100_000:
            t.insert([(0, 1)])
            steps += 1
        other.join()
        assert found == [2] and v.rows() == [(0, steps, steps - 1)]
        t.insert([(1, 1)])
        began = time.monotonic()  # and while it rests
        assert spark.sparkContext.parallelize([1, 2], 2).count() == 2 and time.monotonic() - began < 50


@pytest.mark.spark
def test_members_that_cannot_reach_the_driver(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Then every step is a barrier stage of its own."""
    for module in (driver, long_lived_task):
        told: Any = module.guarded
        monkeypatch.setattr(
            module, "guarded", lambda name, address, *more, told=told: told(name, ("127.0.0.1", 1), *more)
        )
    with ev.connect(spark, state=str(tmp_path), shards=2, alone_rows=0) as db:
        t, v = declare(db)
        before = jobs(spark)
        for i in range(2):
            t.insert([(1, i), (2, i)])
        assert sorted(v.rows()) == [(1, 2, 1), (2, 2, 1)] and jobs(spark) == before + 2
        assert inside(db).runtime.cluster._submitter.gang is None
