"""No memory while a directory is opened or a checkpoint is written: E_MEMORY, and nothing is lost.

Every allocation of kernels is made to fail in turn, as in tests/oracle/test_memory.py; here the programs are small,
because each failure is an opening.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import everview as ev
from everview import col, count
from everview.dataflow import saved_state
from everview.errors import out_of_memory
from everview.kernels.guarded_calls import CELL_FAIL_IN, CELL_FAULTS, CELL_TRACK_FROM, CELL_TRACKED_WORDS
from everview.kernels.memory import cell
from everview.recovery import directory as directories
from everview.store import garbage
from tests.inside import inside
from tests.store.durably import die, reach

LONG = [pytest.mark.slow, pytest.mark.long]


@pytest.fixture(autouse=True)
def all_blocks_are_tracked() -> Iterator[None]:
    usual = int(cell[CELL_TRACK_FROM])
    cell[CELL_TRACK_FROM] = 0
    yield
    cell[CELL_TRACK_FROM], cell[CELL_FAIL_IN] = usual, 0
    assert cell[CELL_FAULTS] == 0


def state(db: Any) -> Any:
    core = inside(db)
    return db.time, {name: sorted(r.rows()) for name, r in [*core.catalog.tables.items(), *core.catalog.views.items()]}


def grouped(db: Any) -> None:
    t = db.table("t", {"w": str, "n": int})
    db.view("by", t.group_by("w").agg(n=count(), s=col.n.sum()))
    t.insert([(f"word {i}", i) for i in range(5)])
    t.insert([("one more", 7)])


def joined(db: Any) -> None:
    t = db.table("t", {"x": int, "y": int})
    other = t.alias("other")
    db.view("hops", t.join(other, t.y == other.x).select(a=t.x, b=other.y))
    t.insert([(i, i + 1) for i in range(5)])
    t.insert([(9, 2)])


def recursive(db: Any) -> None:
    edge, root = db.table("edge", {"src": int, "dst": int}), db.table("root", {"node": int})
    db.view("reach", reach(edge, root))
    edge.insert([(i, i + 1) for i in range(5)])
    root.insert([(1,)])


@pytest.mark.parametrize("how", ["version", "log"])
@pytest.mark.parametrize("program", [grouped, *(pytest.param(p, marks=LONG) for p in (joined, recursive))])
def test_every_allocation_of_an_opening_fails_in_turn(tmp_path: Path, program: Callable[[Any], None], how: str) -> None:
    db = ev.connect(tmp_path)
    program(db)
    if how == "version":
        db.checkpoint()
    expected = state(db)
    die(db)
    failures = n = left = 0
    while not left:
        n += 1
        cell[CELL_FAIL_IN] = n
        try:
            db = ev.connect(tmp_path)
        except ev.MemoryLimitError as error:
            assert error.code == "E_MEMORY" and cell[CELL_FAIL_IN] == 0
            failures += 1
            continue
        left, cell[CELL_FAIL_IN] = int(cell[CELL_FAIL_IN]), 0  # none is left if it could be done without
        assert state(db) == expected, "everything that was acknowledged"
        die(db)
    assert failures > 20
    with ev.connect(tmp_path) as db:
        assert state(db) == expected and db.check() == []
    assert not (tmp_path / "aside").exists()


def unfinished(where: Path) -> None:
    """A directory whose last transaction, (2,), was never acknowledged."""
    db = ev.connect(where)
    t = db.table("t", {"x": int})
    t.insert([(1,)])
    inside(db).runtime.backing._wal.done = lambda: None
    t.insert([(2,)])
    die(db)


def without_memory(where: Path) -> None:
    """An opening that finds none for the log's last record."""
    needed = 0
    while True:  # the last allocation is in the last record
        cell[CELL_FAIL_IN] = needed + 1
        try:
            db = ev.connect(where)
        except ev.MemoryLimitError:
            needed += 1
            continue
        cell[CELL_FAIL_IN] = 0
        die(db)
        return


def test_a_transaction_without_memory_that_was_not_acknowledged_is_set_aside(tmp_path: Path) -> None:
    """There is memory for all but the last record, which was tried once then."""
    unfinished(tmp_path)
    with pytest.warns(UserWarning, match="never acknowledged; it is set aside"):
        without_memory(tmp_path)
    with ev.connect(tmp_path) as db:
        assert db["t"].rows() == [(1,)]


def wasted(db: Any) -> None:
    """Traces of several batches."""
    t = db.table("t", {"x": int, "y": int})
    db.view("by", t.group_by("x").agg(n=count()))
    rows = [(i, i + 1) for i in range(300)]
    for k in range(3):
        t.insert(rows[100 * k :])
    t.delete(rows[:50])


def test_every_allocation_of_a_checkpoint_fails_in_turn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is written all the same: only the compaction of wasteful traces needs memory, and that can wait."""
    monkeypatch.setattr(garbage, "wasteful", lambda refs, settled: refs)
    failures = n = left = 0
    while not left:
        n += 1
        where = tmp_path / str(n)
        db = ev.connect(where, history=0)
        wasted(db)
        expected, words = state(db), int(cell[CELL_TRACKED_WORDS])
        cell[CELL_FAIL_IN] = n
        db.checkpoint()
        left, cell[CELL_FAIL_IN] = int(cell[CELL_FAIL_IN]), 0
        failures += not left
        assert int(cell[CELL_TRACKED_WORDS]) <= words, "what a compaction allocated that failed is given back"
        assert state(db) == expected
        db["t"].insert([(5, 5)])
        db.checkpoint()
        expected = state(db)
        die(db)
        with ev.connect(where) as db:
            assert state(db) == expected and db.check() == []
    assert failures > 3


@pytest.mark.parametrize("error", [MemoryError(), out_of_memory()])
def test_a_checkpoint_without_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    """Not the kernels', but Python's: for copies of batches."""
    db = ev.connect(tmp_path)
    grouped(db)
    expected = state(db)

    def images(*_: Any) -> Any:
        raise error

    with monkeypatch.context() as patched, pytest.raises(ev.MemoryLimitError, match="E_MEMORY"):
        patched.setattr(saved_state, "images", images)
        db.checkpoint()
    assert state(db) == expected
    db["t"].insert([("after it", 1)])
    db.checkpoint()
    expected = state(db)
    die(db)
    with ev.connect(tmp_path) as db:
        assert state(db) == expected


def test_a_step_is_acknowledged_though_there_is_no_memory_for_the_checkpoint_that_is_due(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(directories, "LOG_BYTES", 1)
    db = ev.connect(tmp_path)
    t = db.table("t", {"x": int})

    def images(*_: Any) -> Any:
        raise out_of_memory()

    with monkeypatch.context() as patched, pytest.warns(UserWarning, match="no new version could be written"):
        patched.setattr(saved_state, "images", images)
        for i in range(200):
            t.insert([(i,)])
    assert len(t.rows()) == 200
    die(db)
    with ev.connect(tmp_path) as db:
        assert len(db["t"].rows()) == 200
