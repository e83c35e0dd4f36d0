"""The write-ahead log on an object store, which has no files to append to: every record is an object.

`wal/<version>.<number>` is a record of the log that continues a version, made by a put that succeeds only if the name
is free. So a writer that was overtaken cannot write over another's record: it finds the number taken and is refused.
It might also come so late that the log it continues was folded into a version and deleted, where its number is free
again; so a record counts only if, after it was put, the writer is still the owner. Whoever takes over claims the
directory before reading the log: then either the record is read there, or the writer is refused.

Readers beside the writer want to know which records were also *done* (`everview.store.wal`). All but the last were, and
the last one when the owner says so with its next sign of life: they are up to `owner.BEAT` seconds behind.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

from everview.errors import StoreError
from everview.store import records
from everview.store.files import Files
from everview.store.owner import NAME, Owner
from everview.store.wal import check_process

FOLDER = "wal"
COST = 1 << 16
"""What a record adds to the log's size beside its bytes: reading it back is a request."""
READERS = 16
"""Requests under way at once while a log is read."""


class ObjectWal:
    """A log of objects, open for appending after those that are there (`payloads`)."""

    def __init__(self, files: Files, version: int, owner: Owner) -> None:
        self._files, self._version, self._owner = files, version, owner
        self._process = os.getpid()
        self.payloads = [payload for _, payload in read(files, version)]
        self._ends = [0]
        for payload in self.payloads:
            self._grown(payload)

    def _grown(self, payload: bytes) -> int:
        self._ends.append(self.size + len(payload) + COST)
        return self.size

    @property
    def size(self) -> int:
        """A measure of how much there is, and a place in the log."""
        return self._ends[-1]

    def append(self, payload: bytes) -> int:
        """Write a record; gives the size of the log after it."""
        check_process(self._process, self._files.root)
        name = name_of(self._version, len(self._ends) - 1)
        try:
            made = self._files.create(name, records.encode({"by": self._owner.token}, [payload]))
        except StoreError:
            self._take_out(name)
            raise
        if not made or not self._owner.holds():  # whoever holds it now may have read the record: it stays
            raise self._fenced()
        return self._grown(payload)

    def _take_out(self, name: str) -> None:
        """A put that failed may have succeeded all the same; if it cannot be undone now, the next one is refused."""
        with suppress(StoreError):
            if self._owner.holds():
                self._files.delete(name)

    def _fenced(self) -> StoreError:
        return StoreError(
            "E_FENCED",
            f"another process has taken over {self._files.root}",
            "this session is outdated: close it and open the directory again",
        )

    def cut(self, size: int) -> None:
        """Forget everything after this size: what it stands for did not happen."""
        while self.size > size:
            self._files.delete(name_of(self._version, len(self._ends) - 2))
            self._ends.pop()

    def take_back(self, payload: bytes) -> None:
        """Forget the last record, which is this one."""
        self.cut(self._ends[-2])

    def done(self) -> None:
        """Everything so far was done: readers are told with the owner's next sign of life."""
        self._owner.done = name_of(self._version, len(self._ends) - 1)

    def sync(self) -> None:
        """An object that was put is there."""

    def close(self) -> None:
        """Nothing is open."""


def name_of(version: int, number: int) -> str:
    """The name of a record."""
    return f"{FOLDER}/{version:020d}.{number:010d}"


def numbers(files: Files, version: int) -> list[int]:
    """Which records there are."""
    wanted = f"{version:020d}"
    return sorted(int(n.split(".")[1]) for n in files.list(FOLDER) if n.split(".")[0] == wanted)


def read(files: Files, version: int, start: int = 0, *, done: bool = False) -> Iterator[tuple[int, bytes]]:
    """The records from number `start` on, each with the number after it; `done`: only what was also done."""
    found = numbers(files, version)
    if found != list(range(len(found))):
        missing = next(i for i, n in enumerate(found) if i != n)
        where = files.where(name_of(version, missing))
        raise StoreError("E_DAMAGED", f"{where} is missing", "restore the object from a copy; nothing was changed")
    end = _done(files, version, len(found)) if done else len(found)
    names = [name_of(version, n) for n in range(start, end)]
    with ThreadPoolExecutor(READERS) as pool:
        for number, (name, data) in enumerate(zip(names, pool.map(files.read, names), strict=True), start):
            yield number + 1, bytes(records.decode(data, files.where(name))[1][0])


def _done(files: Files, version: int, count: int) -> int:
    """How many of the records were done."""
    try:
        said = json.loads(files.read(NAME)).get("done", "")
    except FileNotFoundError:  # closed: nothing is under way
        return count
    known = int(said.split(".")[1]) if said.startswith(f"{FOLDER}/{version:020d}.") else 0
    return min(count, max(known, count - 1, 0))
