"""What a state directory is to others: readers without rights, files that are not ours, names that lead elsewhere."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import everview as ev
from everview.io.inbox import Inbox
from everview.recovery.opening import open_directory
from everview.store.disk import Disk
from everview.store.files import LocalFiles
from everview.store.folder_names import folder_of
from tests.store.durably import die


def filled(where: Path) -> None:
    db = ev.connect(where)
    t = db.table("t", {"x": int})
    t.insert({"x": np.arange(2000)})
    db.checkpoint()
    t.insert([(7,)])
    die(db)


class ReadOnly(Disk):
    """A disk on which nothing may be written."""

    def make(self, path: Path, parts: Iterable[Any], *, sync: bool) -> None:
        raise PermissionError(13, "not allowed")

    def folder(self, path: Path) -> None:
        raise PermissionError(13, "not allowed")

    def unlink(self, path: Path) -> None:
        raise PermissionError(13, "not allowed")


def test_reading_needs_no_right_to_write(tmp_path: Path) -> None:
    filled(tmp_path)
    before = {p: p.stat().st_mtime_ns for p in tmp_path.rglob("*")}
    reader = open_directory(LocalFiles(tmp_path, ReadOnly()), read_only=True)  # type: ignore[arg-type]
    assert len(reader["t"].rows()) == 2001
    assert reader.refresh() == 2
    reader.close()
    assert {p: p.stat().st_mtime_ns for p in tmp_path.rglob("*")} == before


def test_files_are_for_their_owner_alone(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        filled(tmp_path / "above" / "db")
    finally:
        os.umask(before)
    for path in (tmp_path / "above").rglob("*"):
        wanted = 0o700 if path.is_dir() else 0o600
        assert stat.S_IMODE(path.stat().st_mode) == wanted, path


def test_files_that_are_not_ours_are_left_alone(tmp_path: Path) -> None:
    filled(tmp_path)
    foreign = ["notes.txt", ".DS_Store"]
    for folder in ("", "log", "checkpoint", "batches", "wal", "pins"):
        (tmp_path / folder).mkdir(exist_ok=True)
        for name in (*foreign, "mine.arrow", "0", "²", "00000000000000000000 (1)", "99999999999999999999.bak"):
            (tmp_path / folder / name).write_bytes(b"not yours")
        (tmp_path / folder / "a folder").mkdir()
    mine = {p: p.read_bytes() for p in tmp_path.rglob("*") if p.is_file() and p.read_bytes() == b"not yours"}
    for number in range(3):
        with ev.connect(tmp_path) as db:
            assert len(db["t"].rows()) == 2001 + number
            db["t"].insert([(number,)])
            db.checkpoint()
        with ev.connect(tmp_path, read_only=True) as reader:
            assert len(reader["t"].rows()) == 2002 + number
    assert {p: p.read_bytes() for p in mine} == mine


NAMES = ["../t", "../../../t", "/tmp/t", "a/b", "nul\0", "x" * 5000, "..", ".", ".hidden", "a\\b", "con:", "\ud800"]


def test_a_name_that_no_file_can_have_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ev.errors.InputError, match="E_OPTION"):
        Inbox(str(tmp_path), "\ud800")


@pytest.mark.parametrize("name", [n for n in NAMES if n != "\ud800"], ids=repr)
def test_names_do_not_lead_out_of_the_directory(tmp_path: Path, name: str) -> None:
    where = tmp_path / "deep" / "state"
    box = Inbox(str(where), name)
    assert box.deliver("7", box.write(pa.table({"x": [1]}).to_batches()))
    assert [p.name for p in tmp_path.iterdir()] == ["deep"] and [p.name for p in where.iterdir()] == ["inbox"]
    assert len(list((where / "inbox").iterdir())) == 1
    assert len({folder_of(n) for n in (*NAMES, "t", "tmp", "a b")}) == len(NAMES) + 3


@pytest.mark.parametrize("name", [n for n in NAMES if n != "\ud800"], ids=repr)
def test_tables_of_any_name_leave_no_files_of_that_name(tmp_path: Path, name: str) -> None:
    where = tmp_path / "deep" / "state"
    for _ in range(2):
        with ev.connect(where) as db:
            t = db.table(name, {"x": int})
            t.insert([(1,)])
            db.checkpoint()
    assert [p.name for p in tmp_path.iterdir()] == ["deep"] and [p.name for p in (tmp_path / "deep").iterdir()] == [
        "state"
    ]
