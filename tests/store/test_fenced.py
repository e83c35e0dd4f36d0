"""Two writers: whatever is removed, moved or put to sleep, only one of them is acknowledged."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import everview as ev
from everview.store.disk import FolderHandle
from tests.effort import calls
from tests.inside import inside
from tests.store.durably import die

WRITER = """
import sys
import everview as ev
db = ev.connect(sys.argv[1])
t = db.table("t", {"x": int})
n = 0
while True:
    t.insert([(n,)])
    print(n, flush=True)
    n += 1
"""


def open_with_table(where: Path) -> ev.Session:
    db = ev.connect(where)
    db.table("t", {"x": int})
    return db


def test_removing_the_owners_file_lets_nobody_in(tmp_path: Path) -> None:
    first = open_with_table(tmp_path)
    (tmp_path / "owner").unlink()
    with pytest.raises(ev.StoreError, match="E_LOCKED"):
        ev.connect(tmp_path)
    (tmp_path / "owner").write_text("{}")
    with pytest.raises(ev.StoreError, match="E_LOCKED"):
        ev.connect(tmp_path)
    first["t"].insert([(1,)])
    first.close()
    with ev.connect(tmp_path) as db:
        assert db["t"].rows() == [(1,)]


def test_a_writer_that_sleeps_keeps_its_directory(tmp_path: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", WRITER, str(tmp_path)],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": "src:."},
    )
    assert process.stdout is not None
    said = [int(process.stdout.readline()) for _ in range(20)]
    process.send_signal(signal.SIGSTOP)
    (tmp_path / "owner").unlink()
    with pytest.raises(ev.StoreError, match="E_LOCKED"):
        ev.connect(tmp_path)
    process.send_signal(signal.SIGCONT)
    said += [int(process.stdout.readline()) for _ in range(200)]
    process.kill()
    said += [int(line) for line in process.stdout.read().split()]
    process.wait()
    with ev.connect(tmp_path) as db:
        rows = sorted(x for (x,) in db["t"].rows())
    assert rows in (said, [*said, len(said)])


@pytest.mark.parametrize("how", ["moved", "deleted", "restored"])
def test_a_writer_whose_directory_went_away_is_not_acknowledged(tmp_path: Path, how: str) -> None:
    where = tmp_path / "db"
    first = open_with_table(where)
    first["t"].insert([(1,)])
    if how == "deleted":
        shutil.rmtree(where)
    else:
        where.rename(tmp_path / "away")
    if how == "restored":
        shutil.copytree(tmp_path / "away", where)
        second = ev.connect(where)
        second["t"].insert([(2,)])
    with pytest.raises(ev.StoreError, match="E_FENCED"):
        first["t"].insert([(3,)])
    assert first["t"].rows() == [(1,)]
    with pytest.raises(ev.StoreError, match=r"E_FENCED"):
        first.checkpoint()
    die(first)
    if how == "restored":
        second["t"].insert([(4,)])
        second.close()
        with ev.connect(where) as db:
            assert sorted(db["t"].rows()) == [(1,), (2,), (4,)]
    if how == "moved":
        assert not where.exists()
        with ev.connect(tmp_path / "away") as db:
            assert db["t"].rows() == [(1,)]


def test_where_folders_cannot_be_locked_the_log_itself_keeps_an_old_writer_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unsupported(self: object) -> bool:
        raise OSError("no locks here")

    monkeypatch.setattr(FolderHandle, "lock", unsupported)
    first = open_with_table(tmp_path)
    first["t"].insert([(1,)])
    with pytest.raises(ev.StoreError, match="E_LOCKED"):
        ev.connect(tmp_path)
    (tmp_path / "owner").unlink()
    second = ev.connect(tmp_path)
    second["t"].insert([(2,)])
    for _ in range(2):
        with pytest.raises(ev.StoreError, match="E_FENCED"):
            first["t"].insert([(3,)])
    with pytest.raises(ev.StoreError, match="E_FENCED"):
        first.checkpoint()
    second["t"].insert([(4,)])
    die(first)
    die(second)
    with ev.connect(tmp_path) as db:
        assert sorted(db["t"].rows()) == [(1,), (2,), (4,)]


def test_what_a_check_costs(tmp_path: Path) -> None:
    """Microseconds, because it is a look at the log's name and two numbers stored, and no file is opened."""
    db = open_with_table(tmp_path)
    log = inside(db).runtime.backing._wal
    assert calls(lambda: log._handle.is_at(log.path)) < 20
    assert calls(lambda: log._witness.done(log.size)) < 20
    db.close()
