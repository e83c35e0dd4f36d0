"""The write-ahead log of a store, wherever it is: a file that grows, or objects.

What durable and attached sessions need of it, whichever it is. A log needs a place where a name can be claimed by one
writer only (`Files.exclusive`); elsewhere a session that logs is refused.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from everview.errors import StoreError
from everview.store import wal, wal_objects
from everview.store.files import Files
from everview.store.store import WAL, Store, numbered


class Log(Protocol):
    """A log open for appending; see `everview.store.wal.Wal`."""

    @property
    def size(self) -> int:
        """A measure of how much there is, and a place in the log."""

    def append(self, payload: bytes) -> int:
        """Write a record; gives the size after it."""

    def cut(self, size: int) -> None:
        """Forget everything after this size."""

    def take_back(self, payload: bytes) -> None:
        """Forget the last record, which is this one."""

    def done(self) -> None:
        """Everything so far was done."""

    def sync(self) -> None:
        """Wait until everything is safe."""

    def close(self) -> None:
        """Let go of it."""


def open_log(store: Store, version: int, sync: wal.Sync) -> tuple[Log, list[bytes]]:
    """The log that continues a version, and what is in it."""
    files = store.files
    if files.local is not None:
        path = files.local / numbered(WAL, version)
        payloads = wal.repair(path)
        return wal.Wal(path, sync), payloads
    if not files.exclusive:
        raise StoreError(
            "E_TARGET",
            f"{files.root} is on a filesystem that cannot claim a name for one writer, which a log needs",
            "use a local directory or an object store, or run on Spark: everview.connect(spark, state=...)",
        )
    assert store.owner is not None
    log = wal_objects.ObjectWal(files, version, store.owner)
    return log, log.payloads


def read_log(files: Files, version: int, start: int = 0, *, done: bool = False) -> Iterator[tuple[int, bytes]]:
    """The records from a place on, each with the place after it; `done`: only what was also done."""
    if files.local is not None:
        return wal.read(files.local / numbered(WAL, version), start, done=done)
    return wal_objects.read(files, version, start, done=done) if files.exclusive else iter(())


def drop_log(files: Files, version: int) -> None:
    """Delete the log that continues a version, which was never committed."""
    if files.local is not None:
        files.delete(numbered(WAL, version))
    else:
        for number in reversed(wal_objects.numbers(files, version)):
            files.delete(wal_objects.name_of(version, number))
