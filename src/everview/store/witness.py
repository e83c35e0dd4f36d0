"""The witness: a second file that records how much of a store was acknowledged.

A file that is missing, emptied or replaced by an older copy cannot reveal that itself. The file `acknowledged`
therefore records the last version, how much of its log was done, and how much of it was safe on disk. If an opened
store has less, something acknowledged was lost: that is E_DAMAGED, however intact the rest looks.

    "EVACK1\\n\\0" | version | boot | crc32 of these | done | its complement | safe | its complement | attempts | place

It is a *lower bound*, written after what it describes, so one that is old, damaged or gone can only hide a loss, never
invent one. An opening writes it as a new file. Each version of shards, and each version's log, is then written over
it: a new file would take a quarter of a small commit, and one that is half written says nothing. The numbers after the
first part are stored in place, in a mapped page, with every transaction. A number that does not match its complement is
ignored.

`boot` identifies the boot of the machine in which it was written. If the machine has stopped since, `sync="normal"`
guarantees what was safe, not what was done (`everview.store.wal`), so then that is the bound.

`attempts` counts how often a process began to run the unacknowledged record at `place` and died
(`everview.store.attempts`).

On object stores nothing is mapped: the file is put with every version, at every opening and when a log is closed. Later
progress is in the owner's note, which is put with every transaction (`everview.store.wal_objects`).
"""

from __future__ import annotations

import hashlib
import struct
import zlib
from dataclasses import dataclass, replace
from pathlib import Path

from everview.errors import StoreError
from everview.store.disk import Handle
from everview.store.files import Files
from everview.store.owner import boot_id

NAME = "acknowledged"
MAGIC = b"EVACK1\n\0"
_FIXED = struct.Struct("<8sQ16sQ")
_MOVING = struct.Struct("<QQQQQQ")
SIZE = _FIXED.size + _MOVING.size
_DONE, _SAFE, _ATTEMPTS, _PLACE = (_FIXED.size // 8 + i for i in (0, 2, 4, 5))
_ALL = (1 << 64) - 1


@dataclass(frozen=True)
class Bound:
    """A lower bound of a store's contents: a version, and so much of its log. 0 of a log: there need not be one."""

    version: int = 0
    done: int = 0
    safe: int = 0
    same_boot: bool = True
    attempts: int = 0
    place: int = 0
    unsure: bool = False  # whether the machine had stopped before the first of the attempts

    @property
    def least(self) -> int:
        """Up to where the log must be present and intact."""
        return self.done if self.same_boot else self.safe

    def of(self, version: int) -> Bound:
        """What it says about this version's log: nothing, if it is about another."""
        return self if self.version == version else Bound(version, same_boot=self.same_boot)


def this_boot() -> bytes:
    """Sixteen bytes that identify this boot of the machine."""
    boot = boot_id()
    return hashlib.sha256(boot.encode()).digest()[:16] if boot else bytes(16)


def encode(bound: Bound) -> bytes:
    """Encode the file.

    >>> decode(encode(Bound(3, 200, 100)))
    Bound(version=3, done=200, safe=100, same_boot=True, attempts=0, place=0, unsure=False)
    """
    head = _FIXED.pack(MAGIC, bound.version, this_boot(), 0)[: _FIXED.size - 8]
    tried = bound.attempts | bound.unsure << 32
    moving = (bound.done, bound.done ^ _ALL, bound.safe, bound.safe ^ _ALL, tried, bound.place)
    return head + zlib.crc32(head).to_bytes(8, "little") + _MOVING.pack(*moving)


def decode(data: bytes) -> Bound:
    """Decode the file; empty if it is invalid."""
    if len(data) != SIZE:
        return Bound()
    magic, version, boot, crc = _FIXED.unpack_from(data)
    if magic != MAGIC or crc != zlib.crc32(data[: _FIXED.size - 8]):
        return Bound()
    done, not_done, safe, not_safe, attempts, place = _MOVING.unpack_from(data, _FIXED.size)
    safe = safe if safe ^ not_safe == _ALL else 0
    done = done if done ^ not_done == _ALL else safe
    same = boot == this_boot() and any(boot)
    return Bound(version, done, safe, same, attempts & 0xFFFFFFFF, place, bool(attempts >> 32))


def load(files: Files) -> Bound:
    """The bound of a store; empty if it has no such file."""
    try:
        return decode(files.read(NAME))
    except FileNotFoundError:
        return Bound()


class Witness:
    """The file, while the store is open for writing."""

    def __init__(self, files: Files) -> None:
        self._files = files
        self.found = load(files)
        self._bound = self.found
        self._handle: Handle | None = None
        self._words: memoryview | None = None

    def made(self, version: int) -> None:
        """Record a new version; nothing is known of its log yet."""
        bound = Bound(version)
        if self._handle is not None and self._words is None:
            self._handle.write(encode(bound), 0)
            self._bound = bound
            return
        self._write(bound)
        if self._files.local is not None:
            self._handle = self._files.disk.open(Path(self._files.local) / NAME)

    def follows(self, version: int, done: int, safe: int) -> None:
        """Record that this version's log exists up to here: from now on `done` updates its progress."""
        self._write(Bound(version, done, safe), lasting=True)  # it says in which run of the machine the log is written
        local = self._files.local
        if local is not None:
            self._handle = self._files.disk.open(Path(local) / NAME)
            self._words = self._handle.words(SIZE // 8)

    def done(self, size: int) -> None:
        """Record that the log was done up to here: two stores into memory."""
        words = self._words
        if words is not None:
            words[_DONE] = size
            words[_DONE + 1] = size ^ _ALL

    def safe(self, size: int) -> None:
        """Record that the log is safe up to here."""
        words = self._words
        if words is not None:
            words[_SAFE] = size
            words[_SAFE + 1] = size ^ _ALL
        elif self._files.local is None:
            self._write(Bound(self._bound.version, size, size))

    def attempt(self, bound: Bound) -> None:
        """Record durably that an unacknowledged record of the log is about to be run."""
        self._write(bound, lasting=True)

    def came_back(self) -> None:
        """Remove that note: running the record ended in an error, not in the death of the process."""
        bound = self._bound
        if bound.attempts:
            self._write(replace(bound, attempts=bound.attempts - 1), lasting=True)

    def _write(self, bound: Bound, *, lasting: bool = False) -> None:
        self.close()
        self._files.write(NAME, encode(bound), lasting=lasting)
        self._bound = bound

    def close(self) -> None:
        """Release the file and the mapped page."""
        if self._words is not None:
            self._words.release()
        if self._handle is not None:
            self._handle.close()
        self._handle = self._words = None


def lost(where: str, what: str) -> StoreError:
    """Return the error for lost acknowledged data."""
    return StoreError(
        "E_DAMAGED",
        f"{where}: {what}",
        "restore the directory from a copy; nothing was changed. `everview repair` says what can be recovered",
    )
