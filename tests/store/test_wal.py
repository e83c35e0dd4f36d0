"""The write-ahead log: torn ends are cut off, damage is an error, a full disk changes nothing."""

from __future__ import annotations

import os
import zlib
from pathlib import Path

import pytest

import everview as ev
from everview.store import wal
from everview.store.wal import Wal
from everview.store.witness import Bound
from tests.store.disk import full_disk

PAYLOADS = [b"one", b"", b"three" * 100, wal.MARK * 3]


def written(path: Path) -> list[int]:
    log = Wal(path)
    ends = [log.append(p) for p in PAYLOADS]
    log.close()
    return ends


def test_records_come_back(tmp_path: Path) -> None:
    path = tmp_path / "wal" / "0"
    ends = written(path)
    assert [p for _, p in wal.read(path)] == PAYLOADS
    assert [e for e, _ in wal.read(path)] == ends
    assert [p for _, p in wal.read(path, ends[1])] == PAYLOADS[2:]
    assert list(wal.read(tmp_path / "none")) == []


@pytest.mark.filterwarnings("ignore:.*unfinished record")
def test_cut_at_every_byte(tmp_path: Path) -> None:
    path = tmp_path / "0"
    ends = written(path)
    good = path.read_bytes()
    for size in range(len(good)):
        path.write_bytes(good[:size])
        whole = sum(end <= size for end in ends)
        assert wal.repair(path) == PAYLOADS[:whole]
        log = Wal(path)
        log.append(b"more")
        log.close()
        assert [p for _, p in wal.read(path)] == [*PAYLOADS[:whole], b"more"]


def test_a_change_in_the_middle_is_an_error_that_names_the_place(tmp_path: Path) -> None:
    path = tmp_path / "0"
    ends = written(path)
    good = path.read_bytes()
    for at in range(wal.START, ends[-2]):
        path.write_bytes(good[:at] + bytes([good[at] ^ 1]) + good[at + 1 :])
        start = max([e for e in ends if e <= at], default=wal.START)
        with pytest.raises(ev.StoreError, match=f"{path} is damaged at byte {start}"):
            wal.repair(path)
        assert path.stat().st_size == len(good)


def test_the_cut_off_end_is_kept_beside_the_file(tmp_path: Path) -> None:
    path = tmp_path / "0"
    ends = written(path)
    with open(path, "ab") as file:
        file.write(b"EVW!half")
    with pytest.warns(UserWarning, match="8 bytes of an unfinished record"):
        wal.repair(path)
    assert (tmp_path / f"0.torn-{ends[-1]}").read_bytes() == b"EVW!half"


def test_another_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "0").write_bytes(b"not a log at all")
    with pytest.raises(ev.StoreError, match="does not begin as a write-ahead log"):
        wal.repair(tmp_path / "0")


def test_a_record_that_does_not_fit_on_the_disk_is_not_there(tmp_path: Path) -> None:
    log = Wal(tmp_path / "0", sync="full")
    log.append(b"small")
    size = log.size
    with full_disk(size + 100), pytest.raises(ev.StoreError, match="E_DISK"):
        log.append(b"x" * 1000)
    assert log.size == size == (tmp_path / "0").stat().st_size
    log.append(b"later")
    assert [p for _, p in wal.read(tmp_path / "0")] == [b"small", b"later"]


def test_records_taken_back(tmp_path: Path) -> None:
    log = Wal(tmp_path / "0")
    size = log.append(b"stays")
    log.append(b"goes")
    log.cut(size)
    log.append(b"new")
    assert [p for _, p in wal.read(tmp_path / "0")] == [b"stays", b"new"]


def test_readers_see_what_was_done(tmp_path: Path) -> None:
    log = Wal(tmp_path / "0")
    log.append(b"one")
    assert list(wal.read(tmp_path / "0", done=True)) == []
    log.done()
    log.append(b"two")
    [(end, payload)] = wal.read(tmp_path / "0", done=True)
    assert payload == b"one" and list(wal.read(tmp_path / "0", end, done=True)) == []
    log.done()
    assert [p for _, p in wal.read(tmp_path / "0", end, done=True)] == [b"two"]


def test_a_fork_cannot_write(tmp_path: Path) -> None:
    log = Wal(tmp_path / "0")
    log.append(b"mine")
    child = os.fork()
    if child == 0:
        try:
            log.append(b"not mine")
        except ev.StoreError as error:
            os._exit(7 if error.code == "E_FENCED" else 1)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    log.append(b"more")
    assert [p for _, p in wal.read(tmp_path / "0")] == [b"mine", b"more"]


def test_the_checksum_is_of_the_payload(tmp_path: Path) -> None:
    Wal(tmp_path / "0").append(b"abc")
    assert zlib.crc32(b"abc").to_bytes(4, "little") in (tmp_path / "0").read_bytes()


def test_logs_of_before_are_read_and_continued(tmp_path: Path) -> None:
    path = tmp_path / "0"
    data = wal.ALONE + wal.START.to_bytes(8, "little")
    for payload in PAYLOADS:
        head = wal._HEAD.pack(wal.MARK, zlib.crc32(payload), len(payload))
        data += head + zlib.crc32(head).to_bytes(4, "little") + payload
    path.write_bytes(data)
    assert wal.repair(path) == PAYLOADS
    log = Wal(path)
    start = log.append(b"more")
    log.append(b"gone")
    log.cut(start)
    log.close()
    assert [p for _, p in wal.read(path)] == [*PAYLOADS, b"more"] and path.read_bytes()[: len(data)] == data


def test_a_record_counts_only_where_it_was_written(tmp_path: Path) -> None:
    """Not in another version's log, nor behind a record that was taken back."""
    path = tmp_path / "0"
    written(path)
    (tmp_path / "1").write_bytes(path.read_bytes())
    with pytest.raises(ev.StoreError, match="E_DAMAGED"):
        wal.repair(tmp_path / "1")
    log = Wal(tmp_path / "2")
    size = log.append(b"refused")
    old = (tmp_path / "2").read_bytes()
    log.cut(wal.START)
    log.append(b"instead")
    log.append(b"after")
    new = (tmp_path / "2").read_bytes()
    (tmp_path / "2").write_bytes(old + new[size:])
    assert wal.examine(tmp_path / "2", Bound(same_boot=False)).payloads == [b"refused"]
