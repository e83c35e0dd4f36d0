"""The write-ahead log on an object store, which has no files to append to: every record is an object.

`wal/<version>.<number>` is a record of the log that continues a version, made by a put that succeeds only if the name
is free. So the log itself decides between two writers: whoever gets a number has it, and nothing that is there is ever
deleted or changed while the log is in use. Beside what sessions write there are records of three more kinds:

- *opened*: whoever opens a log that is there writes one before anything else, so a writer that slept finds its next
  number taken.
- *back*: the record before it was taken back, because what it says could not be done. (Deleting it instead might
  delete what another has read meanwhile.)
- *sealed*: a version is about to be made of all records before this one. Whoever finds a sealed log makes that version
  itself, and the version's name decides who of the two was first; without the seal, a writer that fell asleep just
  before its commit would commit a version without what another appended since.

A writer might also come so late that the log it continues was folded into a version and deleted, where its number is
free again; so a record counts only if, after it was put, the writer is still the owner.

Which records were also *done* (`everview.store.wal`)? All but the last were; and the last one, if the owner's note says
so, which is put again before a transaction is acknowledged. So a transaction is three requests: its record, a look
whether we are the owner still, and that note. The third is what it costs that readers are never behind, that the loss
of any acknowledged record is noticed, and that a record which ends every process that runs it can be told from one that
was acknowledged (`everview.store.attempts`): whoever dies between the second and the third has acknowledged nothing.
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
"""What a record adds to the log's size beside its bytes: reading it back is a request."""
RECORD, OPENED, BACK, SEALED = "", "opened", "back", "sealed"
"""Kinds of records."""
READERS = 16
"""Requests under way at once while a log is read."""


class ObjectWal:
    """A log of objects, open for appending after those that are there. `sealed`: only a version may follow."""

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
        """`fresh`: the version is still to be made; `without_last`: the last record is to be set aside."""
        self._files, self._version, self._owner, self._witness = files, version, owner, witness
        self._process = os.getpid()
        bound = Bound(version) if witness is None else witness.found.of(version)
        done = max(bound.done, _said(owner.before, version))
        self.sealed = False
        self._ends = [0]
        self._next = 0
        self._doubtful = False  # whether a put failed that may have succeeded all the same
        self.payloads: list[bytes] = []
        self.aside = ""  # the file that has a record which was set aside
        places: list[int] = []
        for number, kind, payload in entries(files, version, least=done):
            self._next = number + 1
            if kind == BACK and not self.sealed:
                self.payloads.pop()
                places.pop()
            elif kind == RECORD:
                self.payloads.append(payload)
                places.append(number)
                done = max(done, number)  # what is before it was done, or taken back
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
        """A measure of how much there is, and a place in the log."""
        return self._ends[-1]

    def append(self, payload: bytes) -> int:
        """Write a record; gives the size of the log after it."""
        check_process(self._process, self._files.root)
        self._put(RECORD, payload)
        return self._grown(payload)

    def _put(self, kind: str, payload: bytes = b"") -> None:
        """Put the next object; it counts if nobody else had the number, and we are the owner afterwards."""
        if self._doubtful:
            self._settle()
        name = name_of(self._version, self._next)
        try:
            made = self._files.create(name, records.encode({"by": self._owner.token, "kind": kind}, [payload]))
            holds = made and self._owner.holds()
        except StoreError:
            self._doubtful = True
            raise
        if not holds:  # whoever holds it now may have read the record: it stays
            raise self._fenced()
        self._next += 1

    def _settle(self) -> None:
        """A put failed; if it succeeded all the same, it is taken back."""
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
        """Forget everything after this size: what it stands for did not happen."""
        while self.size > size:
            self._put(BACK)
            self._ends.pop()

    def take_back(self, payload: bytes) -> None:
        """Forget the last record, which is this one."""
        self.cut(self._ends[-2])

    def seal(self) -> None:
        """A version is about to be made of all that is there; E_FENCED if another has taken over."""
        if not self.sealed:
            self._put(SEALED)
            self.sealed = True
        elif not self._owner.holds():
            raise self._fenced()

    def unseal(self) -> None:
        """No version was made: the log goes on."""
        if self.sealed:
            self._put(BACK)
            self.sealed = False

    def done(self) -> None:
        """Everything so far was done: the owner's note says so before anybody is told. E_FENCED if another has taken
        over meanwhile, who then has read the record.
        """
        if not self._owner.confirm(name_of(self._version, self._next)):
            raise self._fenced()

    def begin(self) -> None:
        """Everything that is there was done."""
        self._owner.done, self._owner.prompt = name_of(self._version, self._next), True
        if self._witness is not None:
            self._witness.follows(self._version, self._next, self._next)
            self._owner.settled = True

    def sync(self) -> None:
        """An object that was put is there; a witness says so."""
        if self._witness is not None:
            self._witness.safe(self._next)
            self._owner.settled = True

    def close(self) -> None:
        """Nothing is open."""


def name_of(version: int, number: int) -> str:
    """The name of a record."""
    return f"{FOLDER}/{version:020d}.{number:010d}"


def numbers(files: Files, version: int) -> list[int]:
    """Which records there are."""
    wanted = f"{version:020d}"
    return sorted(int(n.split(".")[1]) for n in files.list(FOLDER) if n.split(".")[0] == wanted)


def entries(files: Files, version: int, start: int = 0, *, least: int = 0) -> Iterator[tuple[int, str, bytes]]:
    """All records from number `start` on: number, kind, payload. There must be `least` of them in all."""
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
    """The records from number `start` on, each with the number after it; `done`: only what was also done. There must
    be `least` of them.
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
    except FileNotFoundError:  # closed: nothing is under way
        return count
    return min(count, max(_said({"done": said}, version), count - 1, 0))


def _said(note: dict[str, Any], version: int) -> int:
    """How many records an owner said were done."""
    said = str(note.get("done", ""))
    return int(said.split(".")[1]) if said.startswith(f"{FOLDER}/{version:020d}.") else 0
