"""State directories of sessions on Spark, without Spark: jobs run in this process (`inprocess`)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import everview as ev
from everview import count, udf
from everview.kernels.build import native
from everview.spark.driver import cluster, compaction
from everview.spark.workers import address_space as room
from everview.spark.workers import state
from tests.inside import inside
from tests.spark.inprocess import session


def test_a_view_with_a_function_is_found_again(tmp_path: Path) -> None:
    """What was declared and what was built are written apart, yet name one function."""
    double = udf(lambda x: 2 * x, returns=int)
    with ev.connect(session(), state=str(tmp_path), shards=2) as db:
        t = db.table("t", {"a": int})
        db.view("v", t.select(x=double(t.a)))
        t.insert([(1,)])
    with ev.connect(str(tmp_path), read_only=True) as reader:
        assert reader["v"].rows() == [(2,)]
    with ev.connect(session(), state=str(tmp_path)) as db:
        db["t"].insert([(2,)])
        assert sorted(db["v"].rows()) == [(2,), (4,)]


def totals(db: Any) -> tuple[Any, Any]:
    t = db.table("t", {"k": int, "x": int})
    return t, db.view("v", t.group_by("k").agg(n=count(), s=t.x.sum()))


def finish_merges(db: Any) -> None:
    for _, running in list(inside(db).runtime.cluster._merger._running.values()):
        running.result()


def churn(tables: tuple[Any, ...], i: int, rows: list[tuple[int, int]], gone: int) -> None:
    """Step i: insert rows into each table, and every third time delete the first ones again."""
    for table in tables:
        table.insert(rows)
        if i % 3 == 2:
            table.delete(rows[:gone])


@pytest.mark.parametrize("at_once, task", [(1 << 40, 1 << 40), (0, 1 << 40), (0, 0)], ids=["at once", "thread", "task"])
def test_lists_stay_short_and_right(tmp_path: Path, monkeypatch: Any, at_once: int, task: int) -> None:
    """Merges wherever they run: 60 versions are a few batches, nothing is lost, files go."""
    monkeypatch.setattr(compaction, "AT_ONCE_BYTES", at_once)
    monkeypatch.setattr(compaction, "TASK_BYTES", task)
    monkeypatch.setattr(compaction, "INLINE_BYTES", 64)  # so that merged batches are files
    monkeypatch.setattr(cluster, "COLLECT_GRACE", 0.0)
    with ev.connect(session(), state=str(tmp_path), shards=2) as db, ev.connect() as other:
        (t, v), (t2, v2) = totals(db), totals(other)
        for i in range(60):
            churn((t, t2), i, [(k % 7, i * k) for k in range(40)], 20)
            finish_merges(db)
        assert sorted(v.rows()) == sorted(v2.rows())
        assert max(map(len, inside(db).runtime.backing.store.manifest.lists.values())) <= 2 * compaction.MERGED_BATCHES
        expected = sorted(v2.rows())
    with ev.connect(session(), state=str(tmp_path)) as db:
        assert sorted(db["v"].rows()) == expected


def test_what_is_deleted_again_does_not_stay(tmp_path: Path, monkeypatch: Any) -> None:
    """Two large batches that cancel, no history that would need them, and then only small changes."""
    monkeypatch.setattr(cluster, "COLLECT_GRACE", 0.0)
    many = [(k % 7, k) for k in range(100_000)]
    with ev.connect(session(), state=str(tmp_path), shards=1, history=0) as db:
        t, v = totals(db)
        t.insert(many)
        t.delete(many)
        for i in range(3 * compaction.LOOK_EVERY):
            t.insert([(1, i)])
            finish_merges(db)
        assert v.rows() == [(1, 3 * compaction.LOOK_EVERY, sum(range(3 * compaction.LOOK_EVERY)))]
        held = sum(ref.rows for refs in inside(db).runtime.backing.store.manifest.lists.values() for ref in refs)
        assert held < 1000, "200,000 updates of rows that are gone would stay"
        inside(db).runtime.backing.store.collect(grace=0.0)
        assert sum(file.stat().st_size for file in tmp_path.glob("**/*.arrow")) < 1 << 19
    with ev.connect(session(), state=str(tmp_path)) as db:
        assert db["v"].rows() == [(1, 3 * compaction.LOOK_EVERY, sum(range(3 * compaction.LOOK_EVERY)))]


@pytest.mark.parametrize("limit", [0, 1 << 30], ids=["files", "inside the job"])
def test_input_travels_either_way(tmp_path: Path, monkeypatch: Any, limit: int) -> None:
    monkeypatch.setattr(cluster, "FILE_BYTES", limit)
    context = session()
    context.sparkContext.attempts = lambda job: 1 + job % 2  # every other task is run twice
    with ev.connect(context, state=str(tmp_path), shards=3) as db:
        t, v = totals(db)
        with db.batch():
            t.insert([(k % 5, k) for k in range(100)])
            t.delete([(0, 0)])
        assert sorted(v.rows()) == [(k, 20 - (k == 0), sum(range(k, 100, 5))) for k in range(5)]
    assert not list(tmp_path.glob("**/*.rows"))


def test_workers_let_go_of_shards_that_others_moved_on(tmp_path: Path) -> None:
    """Of two workers that take turns the one that is behind forgets, the other keeps; nothing else changes."""
    context = session(workers=2)
    with ev.connect(context, state=str(tmp_path), shards=2, forget=0.0) as db:
        t, v = totals(db)
        for i in range(7):
            t.insert([(k % 3, i) for k in range(9)])
            hosts = [memory[str(tmp_path)] for memory in context.sparkContext._memories if memory]
            for each in hosts:
                each.tidy()
            assert sorted(len(each._held) for each in hosts) == [0, 2][2 - len(hosts) :]
        assert sorted(v.rows()) == [(k, 21, 63) for k in range(3)]


def test_workers_keep_shards_for_a_while(tmp_path: Path) -> None:
    context = session(workers=2)
    with ev.connect(context, state=str(tmp_path), shards=2) as db:
        t, _ = totals(db)
        for i in range(4):
            t.insert([(k, i) for k in range(9)])
        for memory in context.sparkContext._memories:
            memory[str(tmp_path)].tidy()
            assert len(memory[str(tmp_path)]._held) == 2


def held(context: Any, path: Path) -> list[Any]:
    """The shards that workers hold."""
    found = [memory[str(path)] for memory in context.sparkContext._memories if str(path) in memory]
    return [shard for each in found for shard in each._held.values()]


@pytest.mark.skipif(native.DEBUG, reason="the bounds-checked build copies what lies in files")
def test_large_batches_lie_in_files_only(tmp_path: Path, monkeypatch: Any) -> None:
    """What a step adds is written, mapped and let go of; what was merged in the store is read from there."""
    monkeypatch.setattr(state, "LARGE_WORDS", 128)
    monkeypatch.setattr(state, "MAPPED_BATCHES", 3)
    monkeypatch.setattr(compaction, "INLINE_BYTES", 512)
    monkeypatch.setattr(compaction, "PIECE_BYTES", 4096)
    context = session(workers=1)
    with ev.connect(context, state=str(tmp_path), shards=2) as db, ev.connect() as other:
        (t, v), (t2, v2) = totals(db), totals(other)
        longest = 0
        for i in range(24):
            churn((t, t2), i, [(k % 101, i * k) for k in range(400)], 100)
            finish_merges(db)
            owned = np.concatenate([each._owned() for each in held(context, tmp_path)])
            longest = max(longest, int(owned[:, 0].max()))
            assert owned[:, 1].sum() < 8 * 128  # some that are small, none that are large
        assert state.MAPPED_BATCHES < longest <= 2 * 2 * compaction.MERGED_BATCHES + state.MAPPED_BATCHES + 3
        assert sorted(v.rows()) == sorted(v2.rows())
        assert sorted(v.as_of(20).rows()) == sorted(v2.as_of(20).rows())


def test_memory_of_many_small_steps_is_given_back(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(state, "OWN_WORDS", 300)
    monkeypatch.setattr(compaction, "INLINE_BYTES", 512)
    context = session(workers=1)
    with ev.connect(context, state=str(tmp_path), shards=2) as db, ev.connect() as other:
        (t, v), (t2, v2) = totals(db), totals(other)
        for i in range(48):
            churn((t, t2), i, [(k % 31, i * k) for k in range(40)], 20)
        if not native.DEBUG:
            assert max(int(each._owned()[:, 1].max()) for each in held(context, tmp_path)) < 1500
        assert sorted(v.rows()) == sorted(v2.rows())


def test_workers_whose_address_space_is_limited(tmp_path: Path, monkeypatch: Any) -> None:
    """They refuse to map what does not fit, with what it takes and what to do; what they hold they go on with."""
    with ev.connect(session(1), state=str(tmp_path), shards=2) as db:
        t, _ = totals(db)
        t.insert([(k % 7, k) for k in range(200_000)])
        monkeypatch.setattr(room, "limit", lambda: room.used() + room.STEP_BYTES + (1 << 20))
        t.insert([(1, 1)])  # the worker has its shards
    with ev.connect(session(1), state=str(tmp_path)) as db:
        with pytest.raises(ev.StoreError, match=r"E_MEMORY.*maps 3 MB of state") as refused:
            db["t"].insert([(1, 2)])
        assert "spark.executor.pyspark.memory" in refused.value.hint
        monkeypatch.setattr(room, "limit", lambda: room.used() + room.STEP_BYTES + (8 << 20))
        db["t"].insert([(1, 2)])
        assert sum(n for _, n, _ in db["v"].rows()) == 200_002
