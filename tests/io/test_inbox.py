"""Inboxes of state directories: batches are taken once, and what was taken is thrown away."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import everview as ev
from everview.io.inbox import Inbox
from tests.inside import inside


def deliver(state: Path, number: str, *values: int) -> bool:
    box = Inbox(str(state), "t")
    return box.deliver(number, [name for v in values for name in box.write(pa.table({"x": [v]}).to_batches())])


def opened(state: Path) -> tuple[Any, Any]:
    db = ev.connect(state)
    return db, db.source("t", ev.io.inbox(state, "t"), schema={"x": int})


def left(state: Path) -> list[str]:
    return sorted(f.name.partition("-")[0] for f in (state / "inbox" / "t").iterdir())


def marks(db: Any) -> int:
    return sum(name.startswith("source/t/file/") for name in inside(db).runtime.offsets)


def test_what_was_taken_is_thrown_away(tmp_path: Path) -> None:
    """But for each stream's last batch; neither files nor marks pile up, in the session and in its directory."""
    db, t = opened(tmp_path)
    for n in range(30):
        assert deliver(tmp_path, f"a-{n:020d}", n, 100 + n)
        assert deliver(tmp_path, f"b-{n:020d}", 200 + n)
        assert db.run(until="caught_up").rows == {"t": 3}
    assert sorted(t.rows()) == sorted((n + more,) for n in range(30) for more in (0, 100, 200))
    assert deliver(tmp_path, "c-0", 7)
    db.run(until="caught_up")
    assert left(tmp_path) == ["batch"] * 3 + ["part"] * 4 and marks(db) <= 3 * 3
    db.close()
    db, t = opened(tmp_path)
    assert marks(db) <= 3 * 3
    assert db.run(until="caught_up").rows == {"t": 0}
    for stream in "ab":
        assert not deliver(tmp_path, f"{stream}-{29:020d}", 5), "the last batch again"
    assert db.run(until="caught_up").rows == {"t": 0} and len(t.rows()) == 91
    db.close()


def test_death_while_throwing_away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files may be gone, their batch and marks still there: nothing is read again, nothing is missed."""
    db, _ = opened(tmp_path)
    for n in range(3):
        deliver(tmp_path, f"a-{n:020d}", n, 10 + n)
    db.run(until="caught_up")
    discard = Inbox.discard

    def the_first_only(box: Inbox, names: list[str]) -> None:
        discard(box, names[:1])
        raise OSError("no more")

    monkeypatch.setattr(Inbox, "discard", the_first_only)
    deliver(tmp_path, f"a-{3:020d}", 3)
    db.run(until="caught_up")
    db.close()
    monkeypatch.undo()
    db, t = opened(tmp_path)
    deliver(tmp_path, f"a-{4:020d}", 4)
    assert db.run(until="caught_up").rows == {"t": 1}
    assert sorted(t.rows()) == [(n,) for n in (0, 1, 2, 3, 4, 10, 11, 12)]
    assert left(tmp_path) == ["batch", "part"]
    db.close()


def test_the_columns_can_still_be_told(tmp_path: Path) -> None:
    deliver(tmp_path, "a-0", 1)
    for _ in range(2):
        with ev.connect(tmp_path) as db:
            t = db.source("t", ev.io.inbox(tmp_path, "t"))
            db.run(until="caught_up")
            db.run(until="caught_up")
            assert t.rows() == [(1,)]
