"""Versions, the log, checkpoints, owners, pins and garbage of a store."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest
from obstore.store import MemoryStore
from pyarrow import fs

import everview as ev
from everview.codes.interner import Interner
from everview.store import Image, Store, manifest, witness
from everview.store import store as store_module
from everview.store.files import Files, LocalFiles, RemoteFiles
from everview.store.objects import ObjectFiles
from everview.store.owner import myself
from tests.store.disk import full_disk


def image(rows: int, first: int = 0) -> Image:
    return Image.of(np.arange(first, first + rows, dtype=np.int64).reshape(1, rows), 1, 1)


def contents(store: Store, operator: int = 0, shard: int = 0) -> list[int]:
    refs = store.manifest.lists.get((operator, shard), ())
    return sorted(v for ref in refs for v in store.get(ref).columns()[0].tolist())


def dead_process() -> int:
    """The number of a process that is no more."""
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


@pytest.fixture(params=["local", "objects", "subtree"])
def files(request: pytest.FixtureRequest, tmp_path: Path) -> Files:
    if request.param == "local":
        return LocalFiles(tmp_path)
    if request.param == "objects":
        return ObjectFiles("memory://", MemoryStore())
    return RemoteFiles(fs.SubTreeFileSystem(str(tmp_path), fs.LocalFileSystem()), "")


def test_versions_are_found_again(files: Files) -> None:
    with Store(files) as store:
        small, large = store.put(image(3)), store.put(image(5000, 100))
        assert small.inline is not None and large.file
        assert store.commit(1, adds=[(0, 0, small)], commands=(b"make",), marks={"a": "1"}) == 1
        assert store.commit(2, adds=[(0, 0, large), (4, 1, small)], marks={"b": "2"}, sinces={4: 1}) == 2
        assert store.commit(2, replaces={(0, 0): [small], (4, 1): []}, fingerprints=("x",), shards=8) == 3
    with Store(files) as store:
        m = store.manifest
        assert (m.version, m.time, m.shards, m.commands) == (3, 2, 8, (b"make",))
        assert (m.marks, m.sinces, m.fingerprints) == ({"a": "1", "b": "2"}, {4: 1}, ("x",))
        assert list(m.lists) == [(0, 0)] and contents(store) == [0, 1, 2]


def test_a_checkpoint_and_the_log_after_it_say_the_same_as_the_whole_log(files: Files) -> None:
    with Store(files) as store:
        for i in range(store_module.CHECKPOINT_EVERY + 5):
            store.commit(i + 1, adds=[(0, 0, store.put(image(1, i)))], commands=(b"%d" % i,))
        expected = store.manifest
        assert len(files.list("checkpoint")) == 1
        store.collect()
        assert len(files.list("log")) == 5
    with Store(files) as store:
        assert store.manifest == expected


def test_the_dictionary_is_kept(files: Files) -> None:
    interner = Interner()
    first = interner.id("pear")
    with Store(files) as store:
        store.commit(1, dictionary=(store.put_dictionary(interner.export()),))
        seen = len(interner)
        ids = [interner.id(f"word {i}") for i in range(1000)]
        store.commit(2, dictionary=(store.put_dictionary(interner.export(seen)),))
    other = Interner()
    with Store(files, read_only=True) as store:
        for ref in store.manifest.dictionary:
            other.load(store.get_dictionary(ref))
    assert other.value(first) == "pear" and [other.value(i) for i in ids[:2]] == ["word 0", "word 1"]


def test_garbage_is_collected_and_a_reader_keeps_what_it_holds(files: Files) -> None:
    with Store(files) as store:
        for i in range(3):
            store.commit(i, replaces={(0, 0): [store.put(image(2000, i))]})
        store.checkpoint()
        reader = Store(files, read_only=True)
        for i in range(3, 6):
            store.commit(i, replaces={(0, 0): [store.put(image(2000, i))]})
            store.checkpoint()
        store.collect()
        assert contents(reader) == list(range(2, 2002))
        assert [c.version for c in reader.refresh()] == [4, 5, 6]
        assert contents(reader) == list(range(5, 2005))
        reader.close()
        store.collect()
        assert len(files.list("batches")) == 1 and len(files.list("checkpoint")) == 1 and not files.list("log")
        assert contents(store) == list(range(5, 2005))


def test_a_dead_readers_pin_does_not_count(files: Files) -> None:
    with Store(files) as store:
        for i in range(2):
            store.commit(i, replaces={(0, 0): [store.put(image(2000, i))]})
            store.checkpoint()
        files.write("pins/dead", json.dumps({**myself(), "pid": dead_process(), "version": 1}).encode())
        store.collect()
        assert len(files.list("batches")) == 1 and not files.list("pins")


def test_a_reader_that_lost_its_pin_is_told_to_open_again(files: Files) -> None:
    with Store(files) as store:
        store.commit(1, adds=[(0, 0, store.put(image(1)))])
        reader = Store(files, read_only=True)
        assert reader.pin is not None
        reader.pin.release()
        for i in range(2):
            store.commit(2 + i)
            store.checkpoint()
        store.collect()
        with pytest.raises(ev.StoreError, match="E_STALE"):
            reader.refresh()


def test_a_second_writer_is_refused_by_name(files: Files) -> None:
    with Store(files), pytest.raises(ev.StoreError, match=rf"open for writing in process {os.getpid()} on ") as caught:
        Store(files)
    assert caught.value.code == "E_LOCKED"
    Store(files).close()


def test_the_owner_of_before_a_restart_and_a_dead_one_do_not_count(files: Files) -> None:
    files.write("owner", json.dumps({**myself(), "boot": "another"}).encode())
    Store(files).close()
    files.write("owner", json.dumps({**myself(), "pid": dead_process()}).encode())
    Store(files).close()


def test_a_fork_does_not_keep_the_lock(tmp_path: Path) -> None:
    store = Store(tmp_path)
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(write)
        os.read(read, 1)  # until the parent is done
        os._exit(0)
    store.close()
    Store(tmp_path).close()
    os.close(write)
    os.waitpid(child, 0)


def test_an_overtaken_writer_is_fenced(files: Files) -> None:
    first = Store(files)
    first.commit(1)
    assert first.owner is not None
    first.owner.release()  # as if its lock had been lost
    with Store(files) as second:
        second.commit(2)
        with pytest.raises(ev.StoreError, match="E_FENCED"):
            first.commit(2)
        with pytest.raises(ev.StoreError, match="E_FENCED"):
            first.commit(2)
        assert second.commit(3) == 3


def test_an_overtaken_writer_is_fenced_even_if_the_log_was_collected(files: Files) -> None:
    first = Store(files)
    first.commit(1)
    assert first.owner is not None
    first.owner.release()
    with Store(files) as second:
        second.commit(2)
        second.checkpoint()
        second.commit(3)
        second.checkpoint()
        second.collect()
        assert files.list("log") == []
        with pytest.raises(ev.StoreError, match="E_FENCED"):
            first.commit(2)


def three_versions(path: Path) -> Path:
    with Store(path) as store:
        for i in range(3):
            store.commit(i + 1, adds=[(0, 0, store.put(image(2, i * 10)))], marks={"i": str(i)})
    return path / "log" / f"{3:020d}"


def never_acknowledged(path: Path, version: int) -> None:
    """As if the writer had died before this version's commit returned."""
    witness.Witness(LocalFiles(path)).made(version - 1)


def test_a_commit_that_was_acknowledged_and_is_cut_off_or_gone_is_damage(tmp_path: Path) -> None:
    last = three_versions(tmp_path)
    good = last.read_bytes()
    for size in range(0, len(good), 9):
        last.write_bytes(good[:size])
        for read_only in (False, True):
            with pytest.raises(ev.StoreError, match=r"E_DAMAGED.*acknowledged"):
                Store(tmp_path, read_only=read_only)
    last.unlink()
    for read_only in (False, True):
        with pytest.raises(ev.StoreError, match=r"E_DAMAGED.*version 3 was made, but the newest that is there is 2"):
            Store(tmp_path, read_only=read_only)
    last.write_bytes(good)
    Store(tmp_path).close()


def test_the_witness_is_written_over_and_half_of_it_says_nothing(tmp_path: Path) -> None:
    """Versions of shards do not make a new file each; one that is cut off says less, never more."""
    path = tmp_path / witness.NAME
    with Store(tmp_path) as store:
        store.commit(1)
        file, before = path.stat().st_ino, path.read_bytes()
        for version in (2, 3):
            store.commit(version)
            assert witness.load(store.files).version == version
        assert path.stat().st_ino == file
    after = path.read_bytes()
    for size in range(len(after)):
        bound = witness.decode(after[:size] + before[size:])
        assert bound.version in (0, 1, 3)
    path.write_bytes(after)
    Store(tmp_path).close()
    assert path.stat().st_ino == file  # opening it changed nothing


def test_a_store_whose_versions_are_all_gone_is_not_an_empty_one(tmp_path: Path) -> None:
    three_versions(tmp_path)
    for path in (tmp_path / "log").iterdir():
        path.unlink()
    for read_only in (False, True):
        with pytest.raises(ev.StoreError, match="E_DAMAGED"):
            Store(tmp_path, read_only=read_only)


def test_a_commit_that_is_an_older_ones_copy_is_damage(tmp_path: Path) -> None:
    last = three_versions(tmp_path)
    last.write_bytes(last.with_name(f"{2:020d}").read_bytes())
    with pytest.raises(ev.StoreError, match=r"E_DAMAGED.*copy of version 2"):
        Store(tmp_path)


@pytest.mark.filterwarnings("ignore:.*never finished")
def test_a_log_file_cut_anywhere_is_a_commit_that_never_was(tmp_path: Path) -> None:
    last = three_versions(tmp_path)
    good = last.read_bytes()
    for size in range(0, len(good), 9):
        last.write_bytes(good[:size])
        never_acknowledged(tmp_path, 3)
        with Store(tmp_path) as store:
            assert store.manifest.version == 2 and store.manifest.marks == {"i": "1"}
            store.commit(3, marks={"i": "again"})
            assert contents(store) == [0, 1, 10, 11]
        last.unlink()


def test_a_reader_ignores_a_torn_commit_and_changes_nothing(tmp_path: Path) -> None:
    last = three_versions(tmp_path)
    last.write_bytes(last.read_bytes()[:-1])
    never_acknowledged(tmp_path, 3)
    with pytest.warns(UserWarning, match="never finished"), Store(tmp_path, read_only=True) as store:
        assert store.manifest.version == 2
    assert last.exists()


def test_a_changed_log_file_is_an_error_that_names_it(tmp_path: Path) -> None:
    last = three_versions(tmp_path)
    good = last.read_bytes()
    for at in range(13, len(good), 11):
        last.write_bytes(good[:at] + bytes([good[at] ^ 4]) + good[at + 1 :])
        with pytest.raises(ev.StoreError, match=f"E_DAMAGED.*{last.name}"):
            Store(tmp_path)
    last.write_bytes(good)
    Store(tmp_path).close()


def test_a_torn_file_in_the_middle_of_the_log_is_an_error(tmp_path: Path) -> None:
    last = three_versions(tmp_path)
    middle = last.with_name(f"{2:020d}")
    good = middle.read_bytes()
    middle.write_bytes(good[:-1])
    with pytest.raises(ev.StoreError, match="E_TORN"):
        Store(tmp_path)
    middle.unlink()
    with pytest.raises(ev.StoreError, match="is missing, though version 3 exists"):
        Store(tmp_path)


def test_a_torn_checkpoint_is_passed_over_while_the_log_is_there(tmp_path: Path) -> None:
    three_versions(tmp_path)
    with Store(tmp_path) as store:
        store.checkpoint()
    torn = tmp_path / "checkpoint" / f"{3:020d}"
    torn.write_bytes(torn.read_bytes()[:50])
    with pytest.warns(UserWarning, match="never finished"), Store(tmp_path) as store:
        assert store.manifest.version == 3 and contents(store) == [0, 1, 10, 11, 20, 21]


def test_files_of_a_later_version_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(manifest, "FORMAT", manifest.FORMAT + 1)
    three_versions(tmp_path)
    monkeypatch.undo()
    with pytest.raises(ev.StoreError, match="E_FORMAT"):
        Store(tmp_path)


def test_a_full_disk_leaves_the_store_at_its_version_and_usable(tmp_path: Path) -> None:
    three_versions(tmp_path)
    with Store(tmp_path) as store:
        with full_disk(300):
            with pytest.raises(ev.StoreError, match="E_DISK"):
                store.put(image(5000))
            with pytest.raises(ev.StoreError, match="E_DISK"):
                store.commit(4, adds=[(0, 0, store.put(image(100)))])
        assert store.manifest.version == 3
        assert not [p for p in tmp_path.rglob("*") if p.name.startswith(".")]
        store.commit(4, adds=[(0, 0, store.put(image(1, 99)))])
    with Store(tmp_path) as store:
        assert contents(store)[-1] == 99


def test_opening_what_is_not_there_to_read(tmp_path: Path) -> None:
    with pytest.raises(ev.StoreError, match="there is no Everview store"):
        Store(tmp_path / "nothing", read_only=True)
    assert not (tmp_path / "nothing").exists()
    with pytest.raises(ev.InputError, match="E_TARGET"):
        Store("nonsense://x/y")


WRITER = """
import sys
import numpy as np
from everview.store import Image, Store
store = Store(sys.argv[1])
n = store.manifest.time
while True:
    n += 1
    first = store.put(Image.of(np.array([[n]]), n, 1))
    second = store.put(Image.of(np.full((1, 600), n), n, 1))
    store.commit(n, adds=[(0, 0, first), (1, 0, second)])
    print(n, flush=True)
    if n % 7 == 0:
        store.checkpoint()
        store.collect()
"""


@pytest.mark.slow
def test_killed_writers_lose_nothing_they_acknowledged(tmp_path: Path) -> None:
    rng = np.random.default_rng(5)
    last = 0
    for _ in range(6):
        process = subprocess.Popen(
            [sys.executable, "-c", textwrap.dedent(WRITER), str(tmp_path)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": "src"},
        )
        assert process.stdout is not None and process.stderr is not None
        for _ in range(int(rng.integers(1, 25))):
            line = process.stdout.readline()
            assert line, process.stderr.read()
            last = int(line)
        process.kill()
        last = max([last, *map(int, process.stdout.read().split())])
        process.wait()
        with Store(tmp_path, read_only=True) as store:
            time = store.manifest.time
            assert time in (last, last + 1)
            assert contents(store) == list(range(1, time + 1))
            assert sorted(set(contents(store, 1))) == list(range(1, time + 1))


def test_a_version_and_its_checkpoint_come_between_two_looks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A reader that found no version after its own, and then a later checkpoint, believed that it had been away."""
    with Store(LocalFiles(tmp_path)) as writer:
        writer.commit(1, adds=[(0, 0, writer.put(image(3)))])
        with Store(LocalFiles(tmp_path), read_only=True) as reader:
            looked: list[str] = []
            exists = reader.files.exists

            def just_before(name: str) -> bool:
                found = exists(name)
                if not looked:
                    writer.commit(2, adds=[(0, 0, writer.put(image(5)))])
                    writer.checkpoint()
                looked.append(name)
                return found

            monkeypatch.setattr(reader.files, "exists", just_before)
            assert [commit.time for commit in reader.refresh()] == [2]
            assert looked[0] == looked[1] and reader.manifest.time == 2
