"""Transactions that end the process: the directory opens again without them, and they are kept in a file."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import everview as ev
from everview.recovery.rebuild import Loaded
from everview.store import attempts, witness
from everview.store.files import LocalFiles
from tests.inside import inside
from tests.store.durably import die

DEADLY = """
import os, sys
import everview as ev
from tests.inside import inside

def deadly(x):
    if x == 13 and not os.path.exists(sys.argv[1] + ".mended"):
        os._exit(9)
    return x

db = ev.connect(sys.argv[1])
t = db.table("t", {"x": int})
db.view("v", t.map(deadly, {"y": int}))
print("open", sorted(t.rows()), flush=True)
for x in map(int, sys.argv[2:]):
    t.insert([(x,)])
    print("acknowledged", x, flush=True)
inside(db).abandon()
"""


def run(where: Path, *numbers: int) -> tuple[int, list[str], str]:
    done = subprocess.run(
        [sys.executable, "-c", DEADLY, str(where), *map(str, numbers)],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": "src:."},
    )
    return done.returncode, done.stdout.splitlines(), done.stderr


def test_a_transaction_that_ends_the_process_is_tried_once_more_and_then_set_aside(tmp_path: Path) -> None:
    where = tmp_path / "db"
    assert run(where, 1, 2, 13)[:2] == (9, ["open []", "acknowledged 1", "acknowledged 2"])
    code, said, _ = run(where)
    assert (code, said) == (9, [])  # it was in the log: one attempt
    code, said, errors = run(where, 3)
    assert (code, said) == (0, ["open [(1,), (2,)]", "acknowledged 3"]), errors
    assert "ended the process that ran it and was never acknowledged; it is set aside" in errors
    [kept] = (where / "aside").iterdir()
    assert str(kept) in errors and (13).to_bytes(8, "little") in kept.read_bytes()
    code, said, errors = run(where)
    assert (code, said, "aside" in errors) == (0, ["open [(1,), (2,), (3,)]"], False)
    with ev.connect(where, trust=True) as db:
        db.checkpoint()
    assert kept.exists()


def test_an_attempt_that_succeeds_leaves_no_mark(tmp_path: Path) -> None:
    where = tmp_path / "db"
    run(where, 1, 13)
    (tmp_path / "db.mended").touch()
    for _ in range(3):
        assert run(where)[:2] == (0, ["open [(1,), (13,)]"])
    assert not (where / "aside").exists()


def test_an_opening_that_is_refused_is_no_attempt(tmp_path: Path) -> None:
    """Whoever opens it without the function has not run the record."""
    where = tmp_path / "db"
    assert run(where, 1, 13)[0] == 9
    for _ in range(2):
        with pytest.raises(ev.EverviewError, match="E_TRUST"):
            ev.connect(where)
    (tmp_path / "db.mended").touch()
    assert run(where)[:2] == (0, ["open [(1,), (13,)]"])
    assert not (where / "aside").exists()


def test_what_was_acknowledged_is_never_set_aside(tmp_path: Path) -> None:
    """Openings that die while they run records that were done leave no note at all."""
    where = tmp_path / "db"
    (tmp_path / "db.mended").touch()
    assert run(where, 1, 13)[0] == 0
    (tmp_path / "db.mended").unlink()
    for _ in range(3):
        assert run(where)[:2] == (9, [])
    (tmp_path / "db.mended").touch()
    assert run(where)[:2] == (0, ["open [(1,), (13,)]"])


def test_after_the_machine_stopped_nobody_knows_what_was_acknowledged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    db = ev.connect(tmp_path)
    t = db.table("t", {"x": int})
    t.insert([(1,)])
    inside(db).runtime.backing._wal.done = lambda: None
    t.insert([(2,)])
    die(db)
    monkeypatch.setattr(witness, "boot_id", lambda: "another")
    replay = Loaded.replay

    def dies(self: object, payload: bytes) -> None:
        if payload.endswith((2).to_bytes(8, "little")):
            raise SystemExit
        replay(self, payload)  # type: ignore[arg-type]

    monkeypatch.setattr(Loaded, "replay", dies)
    for _ in range(3):
        monkeypatch.setattr(witness, "boot_id", lambda: os.urandom(4).hex())  # stopped again, each time
        with pytest.raises(SystemExit):
            ev.connect(tmp_path)
    with pytest.raises(ev.StoreError, match=r"E_STUCK.*ended 3 times"):
        ev.connect(tmp_path)
    monkeypatch.setattr(Loaded, "replay", replay)
    assert not (tmp_path / "aside").exists()


def test_several_that_are_set_aside_at_one_place_are_all_kept(tmp_path: Path) -> None:
    """The log is cut where the first one was, so the next one begins there."""
    files = LocalFiles(tmp_path)
    names = [attempts.keep(files, 3, 100, payload) for payload in (b"one", b"two", b"three")]
    assert [files.read(name) for name in names] == [b"one", b"two", b"three"]
