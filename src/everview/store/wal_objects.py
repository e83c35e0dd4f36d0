"""The write-ahead log on an object store, which cannot append to files: every record is an object.

`wal/<version>.<number>` is a record of the log that continues a version, created by a put that succeeds only if the
name is free. The log itself therefore decides between two writers: whoever gets a number has it, and nothing is deleted
or changed while the log is in use. Besides the sessions' records there are three more kinds:

- *opened*: whoever opens an existing log first writes one, so a suspended writer finds its next number taken.
- *back*: the previous record was removed, because it could not be executed. (Deleting it instead might delete what
  another process has read meanwhile.)
- *sealed*: a version is about to be created from all records before this one. Whoever finds a sealed log creates that
  version itself, and the version's name decides who of the two was first; without the seal, a writer suspended just
  before its commit would commit a version without what another appended since.

A writer might also be so late that its log was folded into a version and deleted, where its number is free again; a
record therefore counts only if the writer is still the owner after the put.

Which records were also *done* (`everview.store.wal`)? All but the last; and the last one, if the owner's note says so,
which is updated before a transaction is acknowledged. A transaction is thus three requests: its record, a check of
ownership, and that note. Because of the third, readers are never behind, the loss of any acknowledged record is
detected, and a record that kills every process can be distinguished from an acknowledged one
(`everview.store.attempts`): a process that dies between the second and the third has acknowledged nothing.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

from everview.errors import StoreError
from everview.store import attempts, records
from everview.store.files import Files
from everview.store.owner import NAME, Owner
from everview.store.wal import check_process
from everview.store.witness import Bound, Witness, lost

FOLDER = "wal"
COST = 1 << 16
"""What a record adds to the log's size besides its bytes: reading it back is a request."""
RECORD, OPENED, BACK, SEALED = "", "opened", "back", "sealed"
"""Kinds of records."""
READERS = 16
"""Concurrent requests while a log is read."""


class ObjectWal:
    """A log of objects, open for appending. `sealed`: only a version may follow."""

    def __init__(
        self,
        files: Files,
        version: int,
        owner: Owner,
        witness: Witness | None = None,
        *,
        fresh: bool = False,
        without_last: bool = False,
    ) -> None:
        """`fresh`: the version is still to be created; `without_last`: the last record is to be set aside."""
        self._files, self._version, self._owner, self._witness = files, version, owner, witness
        self._process = os.getpid()
        bound = Bound(version) if witness is None else witness.found.of(version)
        done = max(bound.done, _said(owner.before, version))
        self.sealed = False
        self._ends = [0]
        self._next = 0
        self._doubtful = False  # whether a failed put may have succeeded
        self.payloads: list[bytes] = []
        self.aside = ""  # the file of a record that was set aside
        places: list[int] = []
        for number, kind, payload in entries(files, version, least=done):
            self._next = number + 1
            if kind == BACK and not self.sealed:
                self.payloads.pop()
                places.pop()
            elif kind == RECORD:
                self.payloads.append(payload)
                places.append(number)
                done = max(done, number)  # what precedes it was done, or removed
            self.sealed = kind == SEALED
        for payload in self.payloads:
            self._grown(payload)
        if not self.sealed and not fresh:
            self._put(OPENED)
        self.doubtful = bool(places) and places[-1] >= done and not self.sealed
        if without_last:
            self._set_aside(places[-1])
        elif witness is not None and self.doubtful:
            bound = replace(bound, done=done, safe=done, unsure=bound.unsure or not owner.before.get("prompt"))
            if attempts.was_tried(files.where(name_of(version, places[-1])), places[-1], bound, witness):
                self._set_aside(places[-1])

    def _set_aside(self, place: int) -> None:
        payload = self.payloads.pop()
        self.aside = attempts.keep(self._files, self._version, place, payload)
        self.take_back(payload)
        where = self._files.where(name_of(self._version, place))
        attempts.warn(self._files, where, self.aside, f"{len(payload)} bytes")

    def _grown(self, payload: bytes) -> int:
        self._ends.append(self.size + len(payload) + COST)
        return self.size

    @property
    def size(self) -> int:
        """The size of the log, and a position in it."""
        return self._ends[-1]

    def append(self, payload: bytes) -> int:
        """Write a record; return the size of the log after it."""
        check_process(self._process, self._files.root)
        self._put(RECORD, payload)
        return self._grown(payload)

    def _put(self, kind: str, payload: bytes = b"") -> None:
        """Put the next object; it counts if the number was free and we are still the owner afterwards."""
        if self._doubtful:
            self._settle()
        name = name_of(self._version, self._next)
        try:
            made = self._files.create(name, records.encode({"by": self._owner.token, "kind": kind}, [payload]))
            holds = made and self._owner.holds()
        except StoreError:
            self._doubtful = True
            raise
        if not holds:  # the new owner may have read the record: it stays
            raise self._fenced()
        self._next += 1

    def _settle(self) -> None:
        """After a failed put: if it succeeded after all, remove it."""
        name = name_of(self._version, self._next)
        try:
            header, _ = records.decode(self._files.read(name), self._files.where(name))
        except FileNotFoundError:
            self._doubtful = False
            return
        if header["by"] != self._owner.token:
            raise self._fenced()
        self._doubtful = False
        if header["kind"] in (RECORD, SEALED):
            self._next += 1
            self._put(BACK)

    def _fenced(self) -> StoreError:
        return StoreError(
            "E_FENCED",
            f"another process has taken over {self._files.root}",
            "this session is outdated: close it and open the directory again",
        )

    def cut(self, size: int) -> None:
        """Truncate to this size: what follows did not happen."""
        while self.size > size:
            self._put(BACK)
            self._ends.pop()

    def take_back(self, payload: bytes) -> None:
        """Remove the last record, which is this one."""
        self.cut(self._ends[-2])

    def seal(self) -> None:
        """Prepare for a version of everything in the log; E_FENCED if another has taken over."""
        if not self.sealed:
            self._put(SEALED)
            self.sealed = True
        elif not self._owner.holds():
            raise self._fenced()

    def unseal(self) -> None:
        """Continue the log: no version was created."""
        if self.sealed:
            self._put(BACK)
            self.sealed = False

    def done(self) -> None:
        """Mark everything so far as done in the owner's note, before it is acknowledged. E_FENCED if another has taken
        over, which then has read the record.
        """
        if not self._owner.confirm(name_of(self._version, self._next)):
            raise self._fenced()

    def begin(self) -> None:
        """Declare everything present as done."""
        self._owner.done, self._owner.prompt = name_of(self._version, self._next), True
        if self._witness is not None:
            self._witness.follows(self._version, self._next, self._next)
            self._owner.settled = True

    def sync(self) -> None:
        """An object is safe once put; record it in the witness."""
        if self._witness is not None:
            self._witness.safe(self._next)
            self._owner.settled = True

    def close(self) -> None:
        """Nothing is open."""


def name_of(version: int, number: int) -> str:
    """The name of a record."""
    return f"{FOLDER}/{version:020d}.{number:010d}"


def numbers(files: Files, version: int) -> list[int]:
    """The numbers of the existing records."""
    wanted = f"{version:020d}"
    return sorted(int(n.split(".")[1]) for n in files.list(FOLDER) if n.split(".")[0] == wanted)


def entries(files: Files, version: int, start: int = 0, *, least: int = 0) -> Iterator[tuple[int, str, bytes]]:
    """All records from number `start` on: number, kind, payload. There must be at least `least` of them in total."""
    found = numbers(files, version)
    if found != list(range(len(found))):
        missing = next(i for i, n in enumerate(found) if i != n)
        raise lost(files.where(name_of(version, missing)), "it is missing, though later records are there")
    if len(found) < least:
        where = files.where(name_of(version, least - 1))
        raise lost(where, f"it is missing: {least} records of this log were acknowledged, {len(found)} are there")
    names = [name_of(version, n) for n in range(start, len(found))]
    with ThreadPoolExecutor(READERS) as pool:
        for number, (name, data) in enumerate(zip(names, pool.map(files.read, names), strict=True), start):
            header, parts = records.decode(data, files.where(name))
            yield number, header.get("kind", RECORD), bytes(parts[0])


def read(
    files: Files, version: int, start: int = 0, *, done: bool = False, least: int = 0
) -> Iterator[tuple[int, bytes]]:
    """The records from number `start` on, each with the number after it; `done`: only what was done. There must be at
    least `least` of them.
    """
    kept: list[tuple[int, bytes]] = []
    count, sealed = start, False
    for number, kind, payload in entries(files, version, start, least=least):
        count = number + 1
        if kind == RECORD:
            kept.append((count, payload))
        elif kind == BACK and not sealed and kept:
            kept.pop()
        sealed = kind == SEALED
    end = _done(files, version, count) if done else count
    yield from ((place, payload) for place, payload in kept if place <= end)


def _done(files: Files, version: int, count: int) -> int:
    """How many of the records were done."""
    try:
        said = json.loads(files.read(NAME)).get("done", "")
    except FileNotFoundError:  # closed: nothing is in progress
        return count
    return min(count, max(_said({"done": said}, version), count - 1, 0))


def _said(note: dict[str, Any], version: int) -> int:
    """The number of records that an owner recorded as done."""
    said = str(note.get("done", ""))
    return int(said.split(".")[1]) if said.startswith(f"{FOLDER}/{version:020d}.") else 0
