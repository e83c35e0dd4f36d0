"""The write-ahead log of an embedded session: what it did since the last version, record after record in one file.

A transaction is acknowledged when its record is in the file, so a small change costs one small write and no new
version. `wal/<version>` continues that version; the next version begins a new file, and the old one is nobody's.

    file:    "EVWAL2\\n\\0" | size up to which all was done | record record ...
    record:  "EVW!" | crc32 of the payload | length of the payload | crc32 of the sixteen bytes before | payload

The second checksum of a record goes on from that of the record before it, and that of the first from the version, so a
record is only whole where it was written: not in another version's log, and not behind a record that was taken back and
came to light again when the machine lost power. (In logs of before, "EVWAL1", it stands alone.)

A process that is killed in the middle of a write leaves a torn record at the end, which was never acknowledged: it is
cut off when the file is opened again (and kept beside it, with a warning). Anything else that is not what was written
is an error that names the place, because it was acknowledged: a record with whole ones after it, and whatever is
missing below what was done. How far that was, the file itself says (the size at its head, which the writer keeps in a
mapped page and readers in other processes follow) and a second file as well (`everview.store.witness`), for the
case that the log as a whole is gone, emptied, or an older copy of itself.

Records are written before what they say is done, and taken out if that fails. So of what lies behind the size at the
head only the last record can be one that was never done.

`sync="normal"` hands records to the operating system: they survive the death of the process, not the loss of power in
the next seconds. `sync="full"` waits for the disk. After the machine has stopped, what `sync="normal"` left may end
anywhere behind what was safe, in any order of its pages: it is cut off at the first record that is not whole, and the
warning says that it may have been acknowledged.

A record counts only if the log is still the file of its name after it was written, so a writer whose directory was
moved away, restored from a copy, or taken over where locks do not hold, stops (E_FENCED) before it acknowledges.
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
"""How logs begin; those of before had records that stand alone."""
START = len(MAGIC) + 8
"""Where the first record begins."""
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
            if disk.size(path) < START:  # whole at once: half a head would not begin as a log does
                new = path.with_name(f".{path.name}.{os.getpid()}.{secrets.token_hex(4)}")
                disk.make(new, [MAGIC + START.to_bytes(8, "little")], sync=True)
                disk.replace(new, path)
                disk.sync_folder(path.parent)
            self._handle = disk.open(path)
            self.size = self._handle.size()
            self._head = self._handle.words(START // 8)
            self._alone = self._handle.read(len(MAGIC)) == ALONE
            self._chain = self._chain_at(self.size)
        except OSError as error:
            raise no_room(str(path), error) from error
        self._before = (self.size, self._chain)
        self._open = True

    def append(self, payload: bytes) -> int:
        """Write a record; gives the size of the file after it. What could not be written whole is not there."""
        check_process(self._process, str(self.path))
        head = _HEAD.pack(MARK, zlib.crc32(payload), len(payload))
        own = zlib.crc32(head, 0 if self._alone else self._chain)
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
        self._before = (self.size, self._chain)
        self.size += len(record)
        self._chain = own
        return self.size

    def _chain_at(self, size: int) -> int:
        """The checksum that a record at this place goes on from."""
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
        """A version is about to be made of all that is there; E_FENCED if this is not our log any more."""
        if not self._handle.is_at(self.path):
            raise self._fenced()

    def unseal(self) -> None:
        """No version was made: the log goes on."""

    def begin(self) -> None:
        """Everything that is there was done, and is safe; from now on a witness says so, too."""
        self._head[1] = self.size
        self._handle.sync()
        if self._witness is not None:
            self._witness.follows(self._version, self.size, self.size)

    def cut(self, size: int) -> None:
        """Forget everything after this size: what it stands for did not happen."""
        self._handle.truncate(size)
        if size != self.size:
            self._chain = self._before[1] if size == self._before[0] else self._chain_at(size)
        self.size = size

    def take_back(self, payload: bytes) -> None:
        """Forget the last record, which is this one."""
        self.cut(self.size - len(payload) - HEAD)

    def done(self) -> None:
        """Everything so far was done: readers may do it too."""
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
    """The whole records from byte `start` on (0: all), each with the place after it; stops at a torn end, raises at
    damage. `done`: only what was also done, as a reader beside the writer wants it, and all of that; `least`: what
    must have been done, as a witness says.
    """
    try:
        with open(path, "rb") as file:
            head = file.read(START)
            start = file.seek(max(start, START))
            mark = int.from_bytes(head[len(MAGIC) :], "little")
            there = os.fstat(file.fileno()).st_size  # the mark may be damaged: no size to read
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
    """What the first record's checksum goes on from."""
    return zlib.crc32(path.name.encode())


def _first(head: bytes, path: Path) -> int:
    return _seed(path) if head[: len(MAGIC)] == MAGIC else 0


def _next(head: bytes, data: bytes, at: int) -> int:
    """What the checksum of the record after this one goes on from."""
    own: int = _CRC.unpack_from(data, at + _HEAD.size)[0]
    return own if head[: len(MAGIC)] == MAGIC else 0


def _followed(later: int) -> str:
    return f"a record is not what was written, and whole ones follow (at byte {later})"


def not_whole(path: Path, at: int) -> StoreError:
    """The error for a log that has less than was acknowledged."""
    return lost(f"{path} is damaged at byte {at}", "what was acknowledged there is missing or not what was written")


def _whole(data: bytes, at: int, chain: int | None) -> int | None:
    """Where the record ends that begins here and goes on from this checksum (None: from any); None if there is none."""
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
    """The next place at which a whole record begins."""
    at = data.find(MARK, at + 1)
    while at >= 0:
        if _whole(data, at, None) is not None:
            return at
        at = data.find(MARK, at + 1)
    return None


@dataclass
class Found:
    """The records of a log. `done` says up to which byte they were surely done; behind it `unsure` are those of which
    nobody knows, because the machine stopped since, else there is one at most, and it was never acknowledged.
    """

    payloads: list[bytes] = field(default_factory=list)
    ends: list[int] = field(default_factory=lambda: [START])
    done: int = START
    unsure: bool = False


def repair(path: Path, bound: Bound | None = None, disk: Disk = DISK) -> list[bytes]:
    """The records of a log that is about to be continued; a torn end is cut off and kept beside the file."""
    return examine(path, bound, disk, cutting=True).payloads


def whole_records(data: bytes, path: Path) -> tuple[list[bytes], list[int]]:
    """The records up to the first that is not whole, and where they end: the first is where they begin."""
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
    except OSError:  # no room: the copy is only for the curious
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
    """A fork has the parent's memory, but must not write into its log."""
    if os.getpid() != opener:
        raise StoreError(
            "E_FENCED", f"{where} belongs to the process that opened it, not to its forks", "open it in one only"
        )
