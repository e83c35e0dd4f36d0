"""The write-ahead log interface: a growing file, or objects.

What durable and attached sessions need of either. A log requires a place where a name can be claimed by one writer only
(`Files.exclusive`); elsewhere a session with a log is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import Any, Protocol

from everview.errors import StoreError
from everview.store import attempts, wal, wal_objects
from everview.store.files import Files
from everview.store.store import WAL, Store, numbered
from everview.store.witness import Bound


class Log(Protocol):
    """A log open for appending; see `everview.store.wal.Wal`."""

    @property
    def size(self) -> int:
        """The size of the log, and a position in it."""

    def append(self, payload: bytes) -> int:
        """Write a record; return the size after it."""

    def begin(self) -> None:
        """Declare everything present as done and safe."""

    def cut(self, size: int) -> None:
        """Truncate the log to this size."""

    def take_back(self, payload: bytes) -> None:
        """Remove the last record, which is this one."""

    doubtful: bool
    """Whether the last record found may not have been done; otherwise it was acknowledged."""

    sealed: bool
    """Whether only a version may follow, and no further records."""

    def seal(self) -> None:
        """Prepare for a version of everything in the log; E_FENCED if the log is no longer ours."""

    def unseal(self) -> None:
        """Continue the log: no version was created."""

    def done(self) -> None:
        """Mark everything so far as done."""

    def sync(self) -> None:
        """Wait until everything is safe."""

    def close(self) -> None:
        """Release it."""


def open_log(store: Store, version: int, sync: wal.Sync, *, fresh: bool = False) -> tuple[Log, list[bytes]]:
    """The log that continues a version, and its contents; `fresh`: the version is still to be created."""
    files, witness = store.files, store.witness
    assert store.owner is not None and witness is not None
    bound = witness.found.of(version)
    if files.local is not None:
        path = files.local / numbered(WAL, version)
        found = wal.examine(path, bound, files.disk, cutting=True)
        attempts.prepare(files, path, version, found, bound, witness)
        if not store.owner.firm:
            _copy(files, version)
        log = wal.Wal(path, sync, disk=files.disk, witness=witness, version=version)
        log.doubtful = found.ends[-1] > found.done
        return log, found.payloads
    if not files.exclusive:
        raise StoreError(
            "E_TARGET",
            f"{files.root} is on a filesystem that cannot claim a name for one writer, which a log needs",
            "use a local directory or an object store, or run on Spark: everview.connect(spark, state=...)",
        )
    objects = wal_objects.ObjectWal(files, version, store.owner, witness, fresh=fresh)
    return objects, objects.payloads


def _copy(files: Files, version: int) -> None:
    """Where the lock might be lost: a writer to the old file no longer writes the log."""
    name = numbered(WAL, version)
    if files.exists(name):
        files.write(name, files.read(name))


def read_log(
    files: Files, version: int, start: int = 0, *, done: bool = False, bound: Bound | None = None
) -> Iterator[tuple[int, bytes]]:
    """The records from a position on, each with the position after it; `done`: only those that were done."""
    least = 0 if bound is None else bound.of(version).least
    if files.local is not None:
        return wal.read(files.local / numbered(WAL, version), start, done=done, least=least)
    return wal_objects.read(files, version, start, done=done, least=least) if files.exclusive else iter(())


def next_version(store: Store, log: Log, sync: wal.Sync, write: Callable[[], Mapping[str, Any]]) -> Log:
    """Create a version of a log's contents, and return the log that continues it. `write` puts what is new into the
    store and returns what the version brings (see `Store.commit`). On failure the old log continues.
    """
    log.seal()
    try:
        brings = write()
        new, _ = open_log(store, store.manifest.version + 1, sync, fresh=True)
        try:
            log.seal()  # again, because writing takes time
            store.commit(**brings)
        except BaseException:
            new.close()  # it is empty, and belongs to the next attempt
            raise
    except BaseException:
        with suppress(StoreError):
            log.unseal()
        raise
    log.close()
    new.begin()
    return new
