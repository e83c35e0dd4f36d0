"""A store is no larger than what is alive, and the changes of its history, ask for: whatever was inserted and deleted
again, in both runtimes. The measure is a directory into which only what is alive was loaded.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import everview as ev
from everview import count
from everview.language.relation import relation_of
from everview.recovery.directory import Directory
from everview.spark.driver import cluster, compaction
from everview.store import manifest as m
from tests.inside import inside
from tests.spark.inprocess import session

Rows = np.ndarray

FACTOR = 3.0
"""Bytes on disk for each that what is alive would take; 1.0 to 2.6 were measured. Rows that were not loaded at one time
have two columns more, times and diffs: that alone can be 1.7.
"""


@pytest.fixture(autouse=True)
def nothing_is_too_small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files of merges and garbage, also where a few megabytes would be let pass."""
    monkeypatch.setattr(cluster, "COLLECT_GRACE", 0.0)
    monkeypatch.setattr(cluster, "COLLECT_BYTES", 1 << 18)
    monkeypatch.setattr(compaction, "INLINE_BYTES", 1 << 12)


def embedded(where: Path, **options: Any) -> Any:
    return ev.connect(where, **options)


def shards(where: Path, **options: Any) -> Any:
    return ev.connect(session(), state=str(where), shards=2, **options)


def declared(db: Any) -> tuple[Any, Any]:
    t = db.table("t", {"id": int, "k": int, "x": int})
    return t, db.view("v", t.group_by("k").agg(n=count(), s=t.x.sum()))


def rows(start: int, end: int) -> dict[str, Rows]:
    ids = np.arange(start, end)
    return {"id": ids, "k": ids % 1000, "x": ids * 7 % 1013}


def tidied(db: Any) -> None:
    """Let merges under way end, or make a version."""
    if isinstance(inside(db).runtime.backing, Directory):
        db.checkpoint()
        return
    for _, running in list(inside(db).runtime.cluster._merger._running.values()):
        running.result()


def idle(db: Any, epochs: int, *, every: int = 16) -> None:
    """Small epochs that leave nothing."""
    t = db["t"]
    for i in range(epochs):
        (t.delete if i % 2 else t.insert)([(-1, 1, 1)])
        if i % every == 0:
            tidied(db)
    tidied(db)


def disk(where: Path) -> int:
    return sum(file.stat().st_size for file in where.glob("**/*") if file.is_file())


def needed(connect: Callable[..., Any], where: Path, alive: Iterable[dict[str, Rows]]) -> tuple[int, list[Any]]:
    """Bytes of a directory of just these rows, and the view of them."""
    with connect(where, history=0) as db:
        t, v = declared(db)
        for part in alive:
            t.insert(part)
        tidied(db)
        return disk(where), sorted(v.rows())


def check(connect: Callable[..., Any], where: Path, db: Any, alive: list[dict[str, Rows]]) -> None:
    """The store that `db` has in `where` is as small as it should be, and right."""
    size, expected = needed(connect, Path(tempfile.mkdtemp(dir=where.parent)), alive)
    assert disk(where) < FACTOR * size
    assert sorted(db["v"].rows()) == expected


@pytest.mark.parametrize("history", [0, 20])
@pytest.mark.parametrize("connect", [embedded, shards])
def test_what_is_deleted_again_does_not_stay(connect: Callable[..., Any], history: int, tmp_path: Path) -> None:
    """Large batches that cancel; then only small changes, until their history has passed."""
    where = tmp_path / "state"
    with connect(where, history=history) as db:
        t, _ = declared(db)
        t.insert(rows(0, 20_000))
        for _ in range(5):
            t.insert(rows(100_000, 200_000))
            t.delete(rows(100_000, 200_000))
        assert disk(where) > 5_000_000
        idle(db, history + 3 * compaction.LOOK_EVERY)
        check(connect, where, db, [rows(0, 20_000)])
    with connect(where) as db:
        check(connect, where, db, [rows(0, 20_000)])


def test_files_go_also_while_merges_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Under constant change there is always one."""
    monkeypatch.setattr(compaction.Merger, "busy", True)
    with shards(tmp_path / "state", history=0) as db:
        t, _ = declared(db)
        t.insert(rows(0, 20_000))
        for _ in range(5):
            t.insert(rows(100_000, 200_000))
            t.delete(rows(100_000, 200_000))
        idle(db, 3 * compaction.LOOK_EVERY)
        check(shards, tmp_path / "state", db, [rows(0, 20_000)])


@pytest.mark.parametrize("connect", [embedded, shards])
def test_deletes_that_are_each_much_smaller_than_what_is_left(connect: Callable[..., Any], tmp_path: Path) -> None:
    """No two batches are of similar sizes, but all of the first is gone in the end."""
    where = tmp_path / "state"
    with connect(where, history=20) as db:
        t, _ = declared(db)
        t.insert(rows(0, 256_000))
        at, part = 0, 120_000
        while part > 1000:
            t.delete(rows(at, at + part))
            at, part = at + part, part * 47 // 100
        idle(db, 20 + 3 * compaction.LOOK_EVERY)
        check(connect, where, db, [rows(at, 256_000)])


@pytest.mark.parametrize("connect", [embedded, shards])
def test_a_window_that_moves_on(connect: Callable[..., Any], tmp_path: Path) -> None:
    """Every epoch brings rows and takes as many away: there are never more than those of the window, and two histories
    of changes.
    """
    where = tmp_path / "state"
    with connect(where, history=10) as db:
        t, _ = declared(db)
        t.insert(rows(0, 50_000))
        for i in range(120):
            with db.transaction():
                t.delete(rows(i * 3000, (i + 1) * 3000))
                t.insert(rows(50_000 + i * 3000, 50_000 + (i + 1) * 3000))
            if i % 8 == 0:
                tidied(db)
        idle(db, 4, every=1)  # merges that have ended are put in place by the next commits
        number = relation_of(t).arrangement.operator.number
        held = [
            ref
            for (operator, _), refs in inside(db).runtime.backing.store.manifest.lists.items()
            if operator == number
            for ref in refs
        ]
        assert sum(ref.rows for ref in held) < 50_000 + 2 * 10 * 6000
        idle(db, 10 + 3 * compaction.LOOK_EVERY)
        check(connect, where, db, [rows(360_000, 410_000)])


@pytest.mark.slow
@pytest.mark.parametrize("connect", [embedded, shards])
def test_the_usual_history(connect: Callable[..., Any], tmp_path: Path) -> None:
    """A thousand epochs and a few: what was deleted before them is gone, what they changed can be read."""
    where = tmp_path / "state"
    with connect(where) as db:
        t, v = declared(db)
        t.insert(rows(0, 20_000))
        t.insert(rows(100_000, 300_000))
        t.delete(rows(100_000, 300_000))
        before = sorted(v.rows())
        idle(db, 200, every=100)
        assert disk(where) > 4_000_000, "all that is part of history"
        idle(db, 840, every=100)
        check(connect, where, db, [rows(0, 20_000)])
        assert sorted(v.as_of(db.time - 1000).rows()) == before
        assert sorted(v.as_of(db.time - 999).rows()) != before, "this epoch had a row that the next took away"


def test_a_store_that_has_settled_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is rewritten again and again: not what is alive, and what has gone only once."""
    with written(monkeypatch) as sizes, shards(tmp_path, history=20) as db:
        t, _ = declared(db)
        t.insert(rows(0, 200_000))
        t.delete(rows(0, 150_000))
        idle(db, 60)
        assert 1 <= sum(size > 1_000_000 for size in sizes) <= 2, "each shard's list once, or what the steps left"
        sizes.clear()
        idle(db, 5 * 20 * compaction.LOOK_EVERY // 16)
        assert not any(size > 100_000 for size in sizes)


def test_what_is_only_added_is_not_rewritten_for_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with written(monkeypatch) as sizes, shards(tmp_path, history=0) as db:
        t, _ = declared(db)
        for i in range(7):
            t.insert(rows(i * 50_000, (i + 1) * 50_000))
        idle(db, 5 * compaction.LOOK_EVERY)
        table = 7 * 50_000 * 3 * 8
        assert sum(size for size in sizes if size > 100_000) < 2.5 * table


def test_batches_without_a_tally_are_merged_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A directory of an earlier Everview says nothing of its batches."""
    with monkeypatch.context() as earlier:
        plain = m._Parts.ref
        earlier.setattr(m._Parts, "ref", lambda self, ref: plain(self, replace(ref, until=-1)))
        earlier.setattr(m, "FORMAT", 1)
        with shards(tmp_path / "state", history=20) as db:
            t, _ = declared(db)
            t.insert(rows(0, 100_000))
            t.delete(rows(0, 90_000))
    with written(monkeypatch) as sizes, shards(tmp_path / "state", history=20) as db:
        assert all(ref.until < 0 for ref in inside(db).runtime.backing.store.manifest.refs() if ref.file)
        idle(db, 60)
        check(shards, tmp_path / "state", db, [rows(90_000, 100_000)])
        sizes.clear()
        idle(db, 60)
        assert not any(size > 100_000 for size in sizes)


@contextmanager
def written(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """The bytes that each merge reads, from here on."""
    sizes: list[int] = []
    plain = compaction.Request.run

    def run(request: compaction.Request, *given: Any) -> Any:
        sizes.append(request.size)
        return plain(request, *given)

    with monkeypatch.context() as here:
        here.setattr(compaction.Request, "run", run)
        yield sizes
