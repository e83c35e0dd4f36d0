"""The write-ahead log of a store, wherever it is: a file that grows, or objects.

What durable and attached sessions need of it, whichever it is. A log needs a place where a name can be claimed by one
writer only (`Files.exclusive`); elsewhere a session that logs is refused.
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
        """A measure of how much there is, and a place in the log."""

    def append(self, payload: bytes) -> int:
        """Write a record; gives the size after it."""

    def begin(self) -> None:
        """Everything that is there was done, and is safe."""

    def cut(self, size: int) -> None:
        """Forget everything after this size."""

    def take_back(self, payload: bytes) -> None:
        """Forget the last record, which is this one."""

    doubtful: bool
    """Whether the last record that was found may not have been done: else it was acknowledged."""

    sealed: bool
    """Whether nothing may be appended but only a version be made."""

    def seal(self) -> None:
        """A version is about to be made of all that is there; E_FENCED if this is not our log any more."""

    def unseal(self) -> None:
        """No version was made: the log goes on."""

    def done(self) -> None:
        """Everything so far was done."""

    def sync(self) -> None:
        """Wait until everything is safe."""

    def close(self) -> None:
        """Let go of it."""


def open_log(store: Store, version: int, sync: wal.Sync, *, fresh: bool = False) -> tuple[Log, list[bytes]]:
    """The log that continues a version, and what is in it; `fresh`: the version is still to be made."""
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
    """Where the lock might be lost: whoever still writes into the old file is no writer of the log any more."""
    name = numbered(WAL, version)
    if files.exists(name):
        files.write(name, files.read(name))


def read_log(
    files: Files, version: int, start: int = 0, *, done: bool = False, bound: Bound | None = None
) -> Iterator[tuple[int, bytes]]:
    """The records from a place on, each with the place after it; `done`: only what was also done."""
    least = 0 if bound is None else bound.of(version).least
    if files.local is not None:
        return wal.read(files.local / numbered(WAL, version), start, done=done, least=least)
    return wal_objects.read(files, version, start, done=done, least=least) if files.exclusive else iter(())


def next_version(store: Store, log: Log, sync: wal.Sync, write: Callable[[], Mapping[str, Any]]) -> Log:
    """Make a version of all that a log says, and begin the log that continues it, which is given back. `write` puts
    what is new into the store and says what the version brings (see `Store.commit`). If it fails, the old log goes on.
    """
    log.seal()
    try:
        brings = write()
        new, _ = open_log(store, store.manifest.version + 1, sync, fresh=True)
        try:
            log.seal()  # again, because writing takes its time
            store.commit(**brings)
        except BaseException:
            new.close()  # it is empty, and the next attempt's
            raise
    except BaseException:
        with suppress(StoreError):
            log.unseal()
        raise
    log.close()
    new.begin()
    return new
