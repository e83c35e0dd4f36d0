"""No memory while a directory is opened: E_MEMORY, and nothing is lost.

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
from everview.kernels.guarding import CELL_FAIL_IN, CELL_FAULTS, CELL_TRACK_FROM
from everview.kernels.memory import cell
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
