"""The write-ahead log of an embedded session: its steps since the last version, as records in one file.

A transaction is acknowledged when its record is in the file, so a small change costs one small write and no new
version. `wal/<version>` continues that version; the next version begins a new file, and the old one is garbage.

    file:    "EVWAL2\\n\\0" | size up to which all was done | record record ...
    record:  "EVW!" | crc32 of the payload | length of the payload | crc32 of the sixteen bytes before | payload

The second checksum of a record is chained to that of the previous record, and that of the first to the version. A
record is therefore valid only where it was written: not in another version's log, and not after a record that was
removed and reappeared when the machine lost power. (In the older format, "EVWAL1", it is not chained.)

A process killed in the middle of a write leaves a torn record at the end, which was never acknowledged: it is cut off
when the file is reopened (and kept beside it, with a warning). Any other deviation is an error with its position,
because the data was acknowledged: a damaged record with intact ones after it, and anything missing below the
acknowledged size. That size is in the file's header (in a page mapped by the writer and followed by readers in other
processes) and in a second file (`everview.store.witness`), in case the whole log is gone, emptied, or replaced by an
older copy.

Records are written before they are executed, and removed if that fails. Beyond the size in the header, only the last
record can therefore be one that was never done.

`sync="normal"` hands records to the operating system: they survive the death of the process, but not a power failure
within seconds. `sync="full"` waits for the disk. After a machine crash, a log written with `sync="normal"` may end
anywhere after what was safe, with its pages in any state: it is cut off at the first invalid record, and the warning
says that acknowledged data may be lost.

A record counts only if the log is still the file of its name after the write. A writer whose directory was moved away,
restored from a copy, or taken over where locks do not hold therefore stops (E_FENCED) before it acknowledges.
"""

from __future__ import annotations

import os
import secrets
import struct
import warnings
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from everview.errors import StoreError
from everview.store.disk import DISK, Disk
from everview.store.files import no_room
from everview.store.records import damaged
from everview.store.witness import Bound, Witness, lost

Sync = Literal["normal", "full"]

MAGIC, ALONE = b"EVWAL2\n\0", b"EVWAL1\n\0"
"""Magic numbers of logs; in the older format records are not chained."""
START = len(MAGIC) + 8
"""The offset of the first record."""
MARK = b"EVW!"
_HEAD = struct.Struct("<4sIQ")
_CRC = struct.Struct("<I")
HEAD = _HEAD.size + _CRC.size


class Wal:
    """A log open for appending.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "wal" / "0"
    >>> log = Wal(path)
    >>> start = log.append(b"one"); log.append(b"two") > start
    True
    >>> log.cut(start); log.close()
    >>> [payload for _, payload in read(path)]
    [b'one']
    """

    sealed = False
    doubtful = False

    def __init__(
        self, path: Path, sync: Sync = "normal", *, disk: Disk = DISK, witness: Witness | None = None, version: int = 0
    ) -> None:
        self.path = path
        self._version = version
        self._witness = witness
        self._full = sync == "full"
        self._process = os.getpid()
        try:
            disk.folder(path.parent)
            if disk.size(path) < START:  # all at once: half a header would not be recognised as a log
                new = path.with_name(f".{path.name}.{os.getpid()}.{secrets.token_hex(4)}")
                disk.make(new, [MAGIC + START.to_bytes(8, "little")], sync=True)
                disk.replace(new, path)
                disk.sync_folder(path.parent)
            self._handle = disk.open(path)
            self.size = self._handle.size()
            self._head = self._handle.words(START // 8)
            self._unchained = self._handle.read(len(MAGIC)) == ALONE
            self._chain = self._chain_at(self.size)
        except OSError as error:
            raise no_room(str(path), error) from error
        self._last_end = (self.size, self._chain)
        self._open = True

    def append(self, payload: bytes) -> int:
        """Write a record; return the file size after it. A partial write is undone."""
        check_process(self._process, str(self.path))
        head = _HEAD.pack(MARK, zlib.crc32(payload), len(payload))
        own = zlib.crc32(head, 0 if self._unchained else self._chain)
        record = head + _CRC.pack(own) + payload
        try:
            self._handle.write(record, self.size)
            if self._full:
                self._handle.sync()
            if not self._handle.is_at(self.path):
                raise self._fenced()
        except BaseException as error:
            self.cut(self.size)
            if isinstance(error, OSError):
                raise no_room(str(self.path), error) from error
            raise
        self._last_end = (self.size, self._chain)
        self.size += len(record)
        self._chain = own
        return self.size

    def _chain_at(self, size: int) -> int:
        """The checksum that a record at this position is chained to."""
        data = self._handle.read(size)
        at, chain = START, _seed(self.path)
        while at < size:
            length = _HEAD.unpack_from(data, at)[2]
            chain = _CRC.unpack_from(data, at + _HEAD.size)[0]
            at += HEAD + length
        return chain

    def _fenced(self) -> StoreError:
        return StoreError(
            "E_FENCED",
            f"{self.path} is not the log of this session any more: it was moved, deleted, or taken over",
            "this session is outdated: close it and open the directory again",
        )

    def seal(self) -> None:
        """Prepare for a version of everything in the log; E_FENCED if the log is no longer ours."""
        if not self._handle.is_at(self.path):
            raise self._fenced()

    def unseal(self) -> None:
        """Continue the log: no version was created."""

    def begin(self) -> None:
        """Declare everything present as done and safe, and record it in the witness from now on."""
        self._head[1] = self.size
        self._handle.sync()
        if self._witness is not None:
            self._witness.follows(self._version, self.size, self.size)

    def cut(self, size: int) -> None:
        """Truncate to this size: what follows did not happen."""
        self._handle.truncate(size)
        if size != self.size:
            self._chain = self._last_end[1] if size == self._last_end[0] else self._chain_at(size)
        self.size = size

    def take_back(self, payload: bytes) -> None:
        """Remove the last record, which is this one."""
        self.cut(self.size - len(payload) - HEAD)

    def done(self) -> None:
        """Mark everything so far as done: readers may apply it."""
        self._head[1] = self.size
        if self._witness is not None:
            self._witness.done(self.size)
            if self._full:
                self._witness.safe(self.size)

    def sync(self) -> None:
        """Wait until everything is on the disk."""
        self._handle.sync()
        if self._witness is not None:
            self._witness.safe(self.size)

    def close(self) -> None:
        """Close the file."""
        if self._open:
            self._open = False
            self._head.release()
            self._handle.close()


def read(path: Path, start: int = 0, *, done: bool = False, least: int = 0) -> Iterator[tuple[int, bytes]]:
    """The intact records from byte `start` on (0: all), each with the position after it; stops at a torn end, raises at
    damage. `done`: only what was done, as a concurrent reader needs it, and all of that; `least`: what must have been
    done, according to a witness.
    """
    try:
        with open(path, "rb") as file:
            head = file.read(START)
            start = file.seek(max(start, START))
            mark = int.from_bytes(head[len(MAGIC) :], "little")
            there = os.fstat(file.fileno()).st_size  # the size may be damaged: do not trust it
            data = file.read(max(0, min(mark, there) - start) if done else -1)
    except FileNotFoundError:
        if least:
            raise lost(str(path), "it is missing, and had transactions that were acknowledged") from None
        return
    if len(head) < START:
        if least:
            raise lost(str(path), "it is cut off, and had transactions that were acknowledged")
        return
    _check_magic(head, path)
    at, chain = 0, _first(head, path) if start == START else None  # None: whatever it is
    while (end := _whole(data, at, chain)) is not None:
        yield start + end, data[at + HEAD : end]
        chain = _next(head, data, at)
        at = end
    if start + at < max(least, mark if done else 0):
        raise not_whole(path, start + at)
    if at < len(data) and (later := _next_whole(data, at)) is not None:
        raise damaged(str(path), start + at, _followed(start + later))


def _check_magic(head: bytes, path: Path) -> None:
    if head[: len(MAGIC)] not in (MAGIC, ALONE):
        raise damaged(str(path), 0, "it does not begin as a write-ahead log does")


def _seed(path: Path) -> int:
    """The initial value of the first record's checksum."""
    return zlib.crc32(path.name.encode())


def _first(head: bytes, path: Path) -> int:
    return _seed(path) if head[: len(MAGIC)] == MAGIC else 0


def _next(head: bytes, data: bytes, at: int) -> int:
    """The initial value of the next record's checksum."""
    own: int = _CRC.unpack_from(data, at + _HEAD.size)[0]
    return own if head[: len(MAGIC)] == MAGIC else 0


def _followed(later: int) -> str:
    return f"a record is not what was written, and whole ones follow (at byte {later})"


def not_whole(path: Path, at: int) -> StoreError:
    """Return the error for a log that has less than was acknowledged."""
    return lost(f"{path} is damaged at byte {at}", "what was acknowledged there is missing or not what was written")


def _whole(data: bytes, at: int, chain: int | None) -> int | None:
    """The end of an intact record that begins here and is chained to this checksum (None: to any); None if there is
    none."""
    if at + HEAD > len(data):
        return None
    mark, crc, length = _HEAD.unpack_from(data, at)
    own = _CRC.unpack_from(data, at + _HEAD.size)[0]
    if mark != MARK or (chain is not None and own != zlib.crc32(data[at : at + _HEAD.size], chain)):
        return None
    end: int = at + HEAD + length
    if end > len(data) or crc != zlib.crc32(data[at + HEAD : end]):
        return None
    return end


def _next_whole(data: bytes, at: int) -> int | None:
    """The next position at which an intact record begins."""
    at = data.find(MARK, at + 1)
    while at >= 0:
        if _whole(data, at, None) is not None:
            return at
        at = data.find(MARK, at + 1)
    return None


@dataclass
class Found:
    """The records of a log. `done` is the byte up to which they were certainly done. After it, `unsure` counts those
    whose state is unknown because the machine stopped since; otherwise there is at most one, which was never
    acknowledged.
    """

    payloads: list[bytes] = field(default_factory=list)
    ends: list[int] = field(default_factory=lambda: [START])
    done: int = START
    unsure: bool = False


def repair(path: Path, bound: Bound | None = None, disk: Disk = DISK) -> list[bytes]:
    """The records of a log that is about to be continued; a torn end is cut off and kept beside the file."""
    return examine(path, bound, disk, cutting=True).payloads


def whole_records(data: bytes, path: Path) -> tuple[list[bytes], list[int]]:
    """The records up to the first that is not intact, and their bounds."""
    found, ends, at, chain = [], [START], START, _first(data, path)
    while (end := _whole(data, at, chain)) is not None:
        found.append(data[at + HEAD : end])
        ends.append(end)
        chain = _next(data, data, at)
        at = end
    return found, ends


def examine(path: Path, bound: Bound | None = None, disk: Disk = DISK, *, cutting: bool = False) -> Found:
    """The same with what is known about them. Nothing is changed unless `cutting`."""
    bound = bound or Bound()
    if disk.size(path) < START:
        if bound.least:
            raise lost(str(path), "the log is missing or emptied, though there were transactions in it")
        return Found()
    data = disk.read(path)
    _check_magic(data, path)
    mark = int.from_bytes(data[len(MAGIC) : START], "little")
    payloads, ends = whole_records(data, path)
    at = ends[-1]
    found = Found(payloads, ends, mark, unsure=not bound.same_boot)
    if at < (max(bound.least, mark) if bound.same_boot else bound.least):
        raise not_whole(path, at)
    if bound.same_boot and (later := _next_whole(data, at)) is not None:
        raise damaged(str(path), at, _followed(later))
    found.done = min(max(mark, bound.done), at)
    if at < len(data) and cutting:
        _cut_off(path, data, at, disk, bound.same_boot)
    return found


def _cut_off(path: Path, data: bytes, end: int, disk: Disk, same_boot: bool) -> None:
    kept = path.with_name(f"{path.name}.torn-{end}")
    try:
        disk.make(kept, [data[end:]], sync=True)
    except OSError:  # no space: the copy is only for diagnosis
        disk.unlink(kept)
    handle = disk.open(path)
    handle.truncate(end)
    handle.sync()
    handle.close()
    what = "it was never acknowledged"
    if not same_boot:
        what = 'the machine stopped before it was on the disk, which only sync="full" waits for'
    warnings.warn(
        f"{path}: {len(data) - end} bytes of an unfinished record were cut off at byte {end} (kept in {kept.name}); "
        + what,
        stacklevel=2,
    )


def check_process(opener: int, where: str) -> None:
    """Refuse to write from a forked child, which has the parent's memory."""
    if os.getpid() != opener:
        raise StoreError(
            "E_FENCED", f"{where} belongs to the process that opened it, not to its forks", "open it in one only"
        )
