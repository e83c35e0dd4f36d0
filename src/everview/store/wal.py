"""The write-ahead log of an embedded session: what it did since the last version, record after record in one file.

A transaction is acknowledged when its record is in the file, so a small change costs one small write and no new
version. `wal/<version>` continues that version; the next version begins a new file, and the old one is nobody's.

    file:    "EVWAL1\\n\\0" | size up to which all was done | record record ...
    record:  "EVW!" | crc32 of the payload | length of the payload | crc32 of the sixteen bytes before | payload

A process that is killed in the middle of a write leaves a torn record at the end, which was never acknowledged: it is
cut off when the file is opened again (and kept beside it, with a warning). A record that is not what was written with
whole ones after it is damage, not a tear: that is an error that names the place, because what follows was acknowledged.

Records are written before what they say is done, and taken out if that fails. The size at the head of the file, which
the writer keeps in a mapped page, tells readers in other processes how far everything was done.

`sync="normal"` hands records to the operating system: they survive the death of the process, not the loss of power in
the next seconds. `sync="full"` waits for the disk.
"""

from __future__ import annotations

import mmap
import os
import struct
import warnings
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

from everview.errors import StoreError
from everview.store.files import no_room, sync_folder
from everview.store.records import damaged

Sync = Literal["normal", "full"]

MAGIC = b"EVWAL1\n\0"
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

    def __init__(self, path: Path, sync: Sync = "normal") -> None:
        self.path = path
        self._full = sync == "full"
        self._process = os.getpid()
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
            self.size = os.fstat(self._handle).st_size
            if self.size < START:
                os.ftruncate(self._handle, 0)
                os.pwrite(self._handle, MAGIC + START.to_bytes(8, "little"), 0)
                self.size = START
                os.fsync(self._handle)
                sync_folder(path.parent)
            self._head = memoryview(mmap.mmap(self._handle, START)).cast("Q")
        except OSError as error:
            raise no_room(str(path), error) from error

    def append(self, payload: bytes) -> int:
        """Write a record; gives the size of the file after it. What could not be written whole is not there."""
        check_process(self._process, str(self.path))
        head = _HEAD.pack(MARK, zlib.crc32(payload), len(payload))
        record = head + _CRC.pack(zlib.crc32(head)) + payload
        try:
            written = os.pwrite(self._handle, record, self.size)
            while written < len(record):
                written += os.pwrite(self._handle, memoryview(record)[written:], self.size + written)
            if self._full:
                os.fdatasync(self._handle)
        except BaseException as error:
            self.cut(self.size)
            if isinstance(error, OSError):
                raise no_room(str(self.path), error) from error
            raise
        self.size += len(record)
        return self.size

    def cut(self, size: int) -> None:
        """Forget everything after this size: what it stands for did not happen."""
        os.ftruncate(self._handle, size)
        self.size = size

    def take_back(self, payload: bytes) -> None:
        """Forget the last record, which is this one."""
        self.cut(self.size - len(payload) - HEAD)

    def done(self) -> None:
        """Everything so far was done: readers may do it too."""
        self._head[1] = self.size

    def sync(self) -> None:
        """Wait until everything is on the disk."""
        os.fdatasync(self._handle)

    def close(self) -> None:
        """Close the file."""
        if self._handle >= 0:
            os.close(self._handle)
            self._handle = -1
            self._head.release()


def read(path: Path, start: int = 0, *, done: bool = False) -> Iterator[tuple[int, bytes]]:
    """The whole records from byte `start` on (0: all), each with the place after it; stops at a torn end, raises at
    damage. `done`: only what was also done, as a reader beside the writer wants it.
    """
    try:
        with open(path, "rb") as file:
            head = file.read(START)
            start = file.seek(max(start, START))
            data = file.read(max(0, int.from_bytes(head[len(MAGIC) :], "little") - start) if done else -1)
    except FileNotFoundError:
        return
    if len(head) < START:
        return
    if head[: len(MAGIC)] != MAGIC:
        raise damaged(str(path), 0, "it does not begin as a write-ahead log does")
    at = 0
    while (end := _whole(data, at)) is not None:
        yield start + end, data[at + HEAD : end]
        at = end
    if at < len(data) and (later := _next_whole(data, at)) is not None:
        what = f"a record is not what was written, and whole ones follow (at byte {start + later})"
        raise damaged(str(path), start + at, what)


def _whole(data: bytes, at: int) -> int | None:
    """Where the record ends that begins here; None if there is no whole one."""
    if at + HEAD > len(data):
        return None
    mark, crc, length = _HEAD.unpack_from(data, at)
    own = _CRC.unpack_from(data, at + _HEAD.size)[0]
    if mark != MARK or own != zlib.crc32(data[at : at + _HEAD.size]):
        return None
    end: int = at + HEAD + length
    if end > len(data) or crc != zlib.crc32(data[at + HEAD : end]):
        return None
    return end


def _next_whole(data: bytes, at: int) -> int | None:
    """The next place at which a whole record begins."""
    at = data.find(MARK, at + 1)
    while at >= 0:
        if _whole(data, at) is not None:
            return at
        at = data.find(MARK, at + 1)
    return None


def repair(path: Path) -> list[bytes]:
    """The records of a log that is about to be continued; a torn end is cut off and kept beside the file."""
    found, end = [], 0
    for end, payload in read(path):  # noqa: B007
        found.append(payload)
    end = max(end, min(START, path.stat().st_size if path.exists() else 0))
    if path.exists() and path.stat().st_size > end:
        _cut_off(path, end)
    return found


def _cut_off(path: Path, end: int) -> None:
    data = path.read_bytes()
    kept = path.with_name(f"{path.name}.torn-{end}")
    try:
        kept.write_bytes(data[end:])
    except OSError:  # no room: the copy is only for the curious
        kept.unlink(missing_ok=True)
    os.truncate(path, end)
    warnings.warn(
        f"{path}: {len(data) - end} bytes of an unfinished record were cut off at byte {end} (kept in {kept.name}); "
        "it was never acknowledged",
        stacklevel=2,
    )


def check_process(opener: int, where: str) -> None:
    """A fork has the parent's memory, but must not write into its log."""
    if os.getpid() != opener:
        raise StoreError(
            "E_FENCED", f"{where} belongs to the process that opened it, not to its forks", "open it in one only"
        )
