"""`everview repair`: what is damaged, what was lost, and a new directory with the rest."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import everview as ev
from everview.cli import app
from tests.store.durably import die
from tests.store.test_attempts import run as run_deadly


def command(*arguments: object) -> tuple[int, str]:
    done = CliRunner().invoke(app, ["repair", *map(str, arguments)])
    return done.exit_code, done.output


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    where = tmp_path / "db"
    db = ev.connect(where)
    t = db.table("t", {"x": int})
    db.view("v", t.group_by(k=t.x % 3).agg(n=ev.count()))
    t.insert({"x": np.arange(5000)})
    db.checkpoint()
    for i in range(3):
        t.insert([(i,)])
    die(db)
    return where


def files_of(where: Path) -> dict[str, bytes]:
    return {str(p.relative_to(where)): p.read_bytes() for p in where.rglob("*") if p.is_file()}


def test_a_sound_directory(directory: Path) -> None:
    before = files_of(directory)
    code, said = command(directory)
    assert code == 0 and said == "sound: version 1, and 3 records of the log after it\n"
    assert files_of(directory) == before


def test_records_before_the_damage_are_had_back(directory: Path, tmp_path: Path) -> None:
    log = directory / "wal" / f"{1:020d}"
    data = bytearray(log.read_bytes())
    data[-1] ^= 1
    log.write_bytes(data)
    with pytest.raises(ev.StoreError, match="E_DAMAGED"):
        ev.connect(directory)
    before = files_of(directory)
    code, said = command(directory)
    assert code == 1 and "lost:" in said and said.endswith("back: version 1, and 2 records of the log after it\n")
    code, said = command(directory, "--into", tmp_path / "new")
    assert code == 0 and files_of(directory) == before
    with ev.connect(tmp_path / "new") as db:
        assert len(db["t"].rows()) == 5002 and db.time == 3
        db["t"].insert([(1,)])
    assert command(directory, "--into", tmp_path / "new")[0] == 1  # it is not empty any more


def test_without_its_checkpoint_a_directory_is_not_empty_and_nothing_is_deleted(directory: Path) -> None:
    for path in (*(directory / "checkpoint").iterdir(), *(directory / "log").glob("*")):
        path.unlink()
    before = files_of(directory)
    for read_only in (False, True):
        with pytest.raises(ev.StoreError, match=r"E_DAMAGED.*version 1 was made, but there is none"):
            ev.connect(directory, read_only=read_only)
    after = files_of(directory)
    assert {n: d for n, d in after.items() if n != "owner"} == {n: d for n, d in before.items() if n != "owner"}
    code, said = command(directory)
    assert code == 1 and "version 1 was acknowledged; none can be put together" in said


def test_a_batch_that_is_gone(directory: Path) -> None:
    batch = max((directory / "batches").iterdir(), key=lambda p: p.stat().st_size)
    for damage in (lambda: batch.write_bytes(b""), batch.unlink):
        damage()
        code, said = command(directory)
        assert code == 1 and f"{batch.name} is missing or not what was written" in said


def test_a_record_that_may_have_been_acknowledged_is_set_aside_when_told(tmp_path: Path) -> None:
    where = tmp_path / "db"
    run_deadly(where, 1, 13)
    assert run_deadly(where)[0] == 9
    code, said = command(where)
    assert "ended the process that ran it" in said
    with pytest.warns(UserWarning, match="set aside"):
        code, said = command(where, "--set-aside")
    assert code == 0 and said.startswith("set aside:"), said
    assert run_deadly(where)[:2] == (0, ["open [(1,)]"])
