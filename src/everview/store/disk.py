"""The disk interface: exactly the operations that create a store's files.

`LocalFiles`, the write-ahead log and the owner's lock use a `Disk`, so that everything that can be torn, lost or
reordered in a crash of the machine passes through one narrow interface. `Disk` is the real one; tests use a simulated
one that stops at any call and forgets what was not synced (`tests/store/simulated.py`).

The guarantees of a real disk that this relies on: bytes are safe once the file was synced, a name is safe once its
folder was synced (a folder's own name once *its* folder was), renaming and linking are atomic. Everything else may be
lost, in any order, and a file that was being written may have any mixture of old and new pages.

Files are accessible by their owner only (0600, folders 0700): they hold everybody's rows.
"""

from __future__ import annotations

import fcntl
import mmap
import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa

FILE, FOLDER = 0o600, 0o700


class Handle:
    """A file that is written in place."""

    def __init__(self, path: Path) -> None:
        self.number = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, FILE)
        about = os.fstat(self.number)
        self._identity = (about.st_dev, about.st_ino)

    def size(self) -> int:
        """Bytes of the file."""
        return os.fstat(self.number).st_size

    def read(self, size: int) -> bytes:
        """The first bytes."""
        return os.pread(self.number, size, 0)

    def write(self, data: bytes, at: int) -> None:
        """Write all of it at this position."""
        written = os.pwrite(self.number, data, at)
        while written < len(data):
            written += os.pwrite(self.number, memoryview(data)[written:], at + written)

    def truncate(self, size: int) -> None:
        """Truncate the file, or extend it with zeros."""
        os.ftruncate(self.number, size)

    def sync(self) -> None:
        """Wait until everything written is safe."""
        os.fdatasync(self.number)

    def words(self, count: int) -> memoryview:
        """The first eight-byte numbers of the file, mapped: a store is visible to all processes at once."""
        return memoryview(mmap.mmap(self.number, 8 * count)).cast("Q")

    def is_at(self, path: Path) -> bool:
        """Whether this is still the file of that name: about a microsecond."""
        try:
            about = os.stat(path)
        except FileNotFoundError:
            return False
        return (about.st_dev, about.st_ino) == self._identity

    def lock(self) -> bool:
        """Lock it until the process ends, however it ends; False if another has the lock."""
        try:
            fcntl.flock(self.number, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def unlock(self) -> None:
        """Release the lock; also for children being forked, which have a copy."""
        fcntl.flock(self.number, fcntl.LOCK_UN)

    def close(self) -> None:
        """Close it; mappings stay."""
        if self.number >= 0:
            os.close(self.number)
            self.number = -1


class FolderHandle(Handle):
    """A folder to be locked: it cannot be removed while keeping its contents."""

    def __init__(self, path: Path) -> None:
        self.number = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        about = os.fstat(self.number)
        self._identity = (about.st_dev, about.st_ino)


class Disk:
    """The machine's own disk."""

    def read(self, path: Path) -> bytes:
        """The whole file."""
        return path.read_bytes()

    def map(self, path: Path) -> pa.Buffer:
        """The whole file, mapped."""
        with pa.memory_map(str(path), "rb") as source:
            return source.read_buffer()

    def make(self, path: Path, parts: Iterable[Any], *, sync: bool) -> None:
        """A new file with these contents."""
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, FILE), "wb") as file:
            for part in parts:
                file.write(part)
            if sync:
                file.flush()
                os.fsync(file.fileno())

    def open(self, path: Path) -> Handle:
        """Open a file for writing in place, creating it if necessary."""
        return Handle(path)

    def open_folder(self, path: Path) -> Handle:
        """A folder to be locked."""
        return FolderHandle(path)

    def replace(self, old: Path, new: Path) -> None:
        """Rename a file, replacing any file of the new name."""
        os.replace(old, new)

    def link(self, old: Path, new: Path) -> None:
        """Give a file a second name; FileExistsError if it is taken."""
        os.link(old, new)

    def unlink(self, path: Path) -> None:
        """Remove a name; a missing one is fine."""
        path.unlink(missing_ok=True)

    def folder(self, path: Path) -> None:
        """Create a folder and its parents if necessary, and make their names safe."""
        if path.is_dir():
            return
        self.folder(path.parent)
        path.mkdir(mode=FOLDER, exist_ok=True)
        self.sync_above(path)

    def sync_above(self, path: Path) -> None:
        """Make the name of a folder and of its parents safe: whoever created them may have been killed before doing
        so.
        """
        for above in path.parents:
            with suppress(PermissionError):  # one that we cannot read we did not create
                self.sync_folder(above)

    def sync_folder(self, path: Path) -> None:
        """Make a folder's names safe."""
        handle = os.open(path, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)

    def is_folder(self, path: Path) -> bool:
        """Whether there is such a folder."""
        return path.is_dir()

    def exists(self, path: Path) -> bool:
        """Whether there is such a file."""
        return path.exists()

    def size(self, path: Path) -> int:
        """Bytes of a file; -1 if there is none."""
        try:
            return path.stat().st_size
        except FileNotFoundError:
            return -1

    def listed(self, path: Path) -> list[str]:
        """The names of a folder's files, hidden ones included."""
        try:
            return [entry.name for entry in os.scandir(path) if entry.is_file()]
        except FileNotFoundError:
            return []

    def names(self, path: Path) -> dict[str, float]:
        """A folder's files, hidden ones included, each with the time it was written."""
        try:
            return {entry.name: entry.stat().st_mtime for entry in os.scandir(path) if entry.is_file()}
        except FileNotFoundError:
            return {}


DISK = Disk()
"""The disk of this machine."""
