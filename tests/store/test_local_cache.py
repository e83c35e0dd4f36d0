"""Copies of distant batches: made once, mapped, thrown away when there are too many, done without if need be."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import everview as ev
from everview.spark.driver.job import map_privately  # type: ignore[attr-defined]
from everview.spark.workers import state as host
from everview.store.files import Files, LocalFiles
from everview.store.local_cache import LocalCache, with_copies
from tests.spark.inprocess import Context, session


class Distant(LocalFiles):
    """Files that count as elsewhere, and how often they were read."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.reads = 0

    local = None

    def map(self, name: str):
        self.reads += 1
        return super().map(name)


@pytest.fixture
def distant(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Distant:
    monkeypatch.setenv("EVERVIEW_CACHE_DIR", str(tmp_path / "copies"))
    monkeypatch.setenv("EVERVIEW_CACHE_BYTES", "100")
    return Distant(tmp_path / "state")


def copies(tmp_path: Path) -> list[str]:
    return sorted(path.name for path in (tmp_path / "copies").glob("*/*/*/*"))


def test_a_batch_is_fetched_once_and_mapped(distant: Distant, tmp_path: Path) -> None:
    distant.write("batches/1.arrow", b"one")
    distant.write("log/1", b"commit")
    files, other = with_copies(distant), with_copies(distant)
    for each in (files, other, files):
        mapped = map_privately(each, "batches/1.arrow")
        assert mapped is not None and mapped[:] == b"one" == each.map("batches/1.arrow").to_pybytes()
    assert (distant.reads, copies(tmp_path)) == (1, ["batches-1.arrow"])
    assert map_privately(files, "log/1") is None and files.map("log/1").to_pybytes() == files.read("log/1")
    files.write("batches/2.arrow", [b"t", b"wo"])
    assert distant.read("batches/2.arrow") == b"two" and other.map("batches/2.arrow").to_pybytes() == b"two"
    assert distant.reads == 2  # the log's
    files.delete("batches/1.arrow")
    assert copies(tmp_path) == ["batches-2.arrow"]
    with pytest.raises(FileNotFoundError):
        files.map("batches/1.arrow")


def test_what_was_not_asked_for_longest_makes_room(distant: Distant, tmp_path: Path) -> None:
    files = with_copies(distant)
    for i in range(3):
        files.write(f"batches/{i}.arrow", bytes([i]) * 40)
        os.utime(tmp_path / "copies" / next((tmp_path / "copies").glob(f"*/*/*/batches-{i}.arrow")), (i, i))
        if i == 1:
            files.map("batches/0.arrow")  # now the other one is the oldest
    assert copies(tmp_path) == ["batches-0.arrow", "batches-2.arrow"]
    assert files.map("batches/1.arrow").to_pybytes() == b"\1" * 40


def test_without_a_place_for_copies_files_are_read(distant: Distant, tmp_path: Path) -> None:
    (tmp_path / "copies").write_text("a file, where a folder should be")
    distant.write("batches/1.arrow", b"one")
    files = with_copies(distant)
    assert isinstance(files, LocalCache) and files.near("batches/1.arrow") is None
    assert map_privately(files, "batches/1.arrow") is None and files.map("batches/1.arrow").to_pybytes() == b"one"


def test_workers_map_what_is_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A session whose files count as distant for its tasks: their batches are mapped copies."""
    monkeypatch.setenv("EVERVIEW_CACHE_DIR", str(tmp_path / "copies"))
    monkeypatch.setattr(host, "LARGE_WORDS", 1 << 10)
    opened: list[Files] = []

    def open_files(root: str) -> Files:
        opened.append(Distant(Path(root)))
        return opened[-1]

    monkeypatch.setattr(host, "open_files", open_files)
    context = session(workers=1)
    assert isinstance(context.sparkContext, Context)
    with ev.connect(context, state=str(tmp_path / "state"), shards=2) as db:
        t = db.table("t", {"k": int, "s": str})
        v = db.view("v", t.group_by("s").agg(n=ev.count()))
        for step in range(3):
            t.insert([(i, f"s{i % 100}") for i in range(2000 * step, 2000 * step + 2000)])
        assert sorted(v.rows()) == sorted((f"s{i}", 60) for i in range(100))
        worker = next(iter(context.sparkContext._memories[0].values()))
        maps = [m for held in worker._held.values() for found in held._maps.values() for m in found]
        assert maps and copies(tmp_path) and opened
