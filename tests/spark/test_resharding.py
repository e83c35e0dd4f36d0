"""More shards, or fewer, while a session is used: nobody notices, and everything is where it belongs."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import everview as ev
from everview.spark.driver import shard_count
from everview.store import Store
from everview.store.reshard import Resharding
from tests.inside import inside
from tests.spark import inprocess


def reachable(edges: Counter[tuple[int, int]], root: int) -> list[tuple[int]]:
    found, todo = {root}, [root]
    while todo:
        node = todo.pop()
        for a, b in edges:
            if a == node and b not in found:
                found.add(b)
                todo.append(b)
    return sorted((n,) for n in found)


@pytest.mark.parametrize("seed", range(3))
def test_a_session_goes_on_with_other_shards(tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    if seed == 2:
        monkeypatch.setattr(shard_count, "TASK_BYTES", 0)  # split by tasks
    dice = random.Random(seed)
    edges: Counter[tuple[int, int]] = Counter()
    with ev.connect(inprocess.session(2), state=str(tmp_path), shards=2) as db:
        edge, root = db.table("edge", {"a": int, "b": int}), db.table("root", {"n": int})
        root.insert([(0,)])
        step = lambda seen: (  # noqa: E731
            seen.join(edge, seen.n == edge.a).select(n=edge.b).union_all(root).distinct()
        )
        db.view("reach", ev.fixpoint(step, {"n": int}))
        db.view("degree", edge.group_by("a").agg(n=ev.count()))
        follower = ev.connect(str(tmp_path), read_only=True)
        for shards in (5, 1, 3):
            for _ in range(3):
                come = [(dice.randrange(9), dice.randrange(9)) for _ in range(3)]
                edge.insert(come)
                edges.update(come)
                gone = dice.choice(sorted(edges))
                edge.delete([gone])
                edges -= Counter([gone])
                assert sorted(db["reach"].rows()) == reachable(edges, 0)
                assert sorted(db["degree"].rows()) == sorted(Counter(a for a, _ in edges.elements()).items())
            db.reshard(shards)
            assert inside(db).runtime.cluster.shards == shards
            follower.refresh()
            assert sorted(follower["reach"].rows()) == reachable(edges, 0)
        follower.close()
        edge.insert([(0, 8)])
        edges[0, 8] += 1
        assert sorted(db["reach"].rows()) == reachable(edges, 0)
    with ev.connect(inprocess.session(2), state=str(tmp_path)) as db:
        assert inside(db).runtime.cluster.shards == 3
        assert sorted(db["edge"].rows()) == sorted(edges.elements())
        assert sorted(db["reach"].rows()) == reachable(edges, 0)


def test_steps_go_on_while_it_is_prepared(tmp_path: Path) -> None:
    """What is committed between the two passes is split in the second."""
    with ev.connect(inprocess.session(2), state=str(tmp_path), shards=2) as db:
        t = db.table("t", {"k": int})
        t.insert([(i,) for i in range(2000)])
        way = inside(db).runtime.resharding(4)
        way.prepare()
        t.insert([(i,) for i in range(2000, 2100)])
        t.delete([(7,)])
        inside(db).runtime.backing.store.collect()  # what was prepared is in no version, and stays
        way.take_over()
        t.insert([(7,), (9999,)])
        assert sorted(t.rows()) == [(i,) for i in (*range(2100), 9999)]
        places = inside(db).runtime.backing.store.manifest.lists
        assert {shard for _, shard in places} == {0, 1, 2, 3}


def test_files_that_were_prepared_for_nothing_are_collected(tmp_path: Path) -> None:
    with ev.connect(inprocess.session(1), state=str(tmp_path), shards=1) as db:
        t = db.table("t", {"k": int})
        t.insert([(i,) for i in range(20_000)])
        store: Store = inside(db).runtime.backing.store
        store.collect()
        before = set(store.files.list("batches"))
        way = Resharding(store, 3)
        way.prepare(inside(db).runtime.cluster.partitionings())
        assert set(store.files.list("batches")) > before
        way.give_up()
        store.collect()
        assert set(store.files.list("batches")) == before
        with pytest.raises(ev.InputError, match="E_SHARDS"):
            db.reshard(0)
        assert len(t.rows()) == 20_000


def test_a_session_without_shards_says_so() -> None:
    with ev.connect() as db, pytest.raises(ev.InputError, match="E_SHARDS"):
        db.reshard(2)


def test_a_transaction_with_rows_that_were_coded_for_fewer_shards(tmp_path: Path) -> None:
    import pyarrow as pa

    rows = pa.table({"k": range(50)})
    with ev.connect(inprocess.session(1), state=str(tmp_path), shards=1) as db:
        source = inprocess.Script(rows.schema)
        t = db.source("t", source)
        cluster: Any = inside(db).runtime.cluster
        coded = cluster.encode_remote

        def then_reshard(*arguments: Any) -> Any:
            found = coded(*arguments)
            way = cluster.resharding(2)
            way.prepare()
            way.take_over()
            return found

        cluster.encode_remote = then_reshard
        source.waiting = [inprocess.Rows(rows)]
        with pytest.raises(ev.errors.EverviewError, match="E_SHARDS"):
            db.run(until="caught_up")
        cluster.encode_remote = coded
        db.run(until="caught_up")
        assert sorted(t.rows()) == [(i,) for i in range(50)]


@pytest.mark.spark
def test_a_gang_on_spark(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Batches are split by Spark's tasks, and the gang that comes next has the new shards."""
    monkeypatch.setattr(shard_count, "TASK_BYTES", 0)
    names = Counter(f"name {i % 700}" for i in range(3000))
    with ev.connect(spark, state=str(tmp_path), shards=2, alone_rows=0, linger=5.0) as db:
        t = db.table("t", {"k": int, "name": str})
        loud = db.view("loud", t.select(name=t.name.upper()).group_by("name").agg(n=ev.count()))
        t.insert([(i, f"name {i % 700}") for i in range(3000)])
        for shards in (4, 1):
            db.reshard(shards)
            t.insert([(9000 + shards, f"name {shards}")])
            names[f"name {shards}"] += 1
            assert sorted(loud.rows()) == sorted((name.upper(), n) for name, n in names.items())
    with ev.connect(spark, state=str(tmp_path)) as db:
        assert inside(db).runtime.cluster.shards == 1
        assert len(db["t"].rows()) == 3002
