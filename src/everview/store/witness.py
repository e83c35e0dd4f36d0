"""What must be there: a second file that knows how far a store was acknowledged.

A file that is missing, emptied or exchanged for an older copy cannot say so itself. So the file `acknowledged` says
which version was made last, how far that version's log was done, and how far of it was safe on the disk. Whoever opens
the store and finds less has lost something that was acknowledged: that is E_DAMAGED, whatever else looks well.

    "EVACK1\\n\\0" | version | boot | crc32 of these | done | its complement | safe | its complement | attempts | place

It is a *lower bound*, written after what it speaks of, so one that is old, damaged or gone can only hide a loss, never
invent one. The first part is written as a new file with every version and every opening; the numbers after it are
stored in place, in a mapped page, with every transaction. A number that does not match its complement says nothing.

`boot` is the run of the machine in which it was written. When the machine has stopped since, `sync="normal"` promises
what was safe, not what was done (`everview.store.wal`), so then that is the bound.

`attempts` counts how often somebody began to run the log's record at `place`, which was never acknowledged, and did not
come back (`everview.store.attempts`).

On object stores nothing is mapped: the file is put with every version, at every opening and when a log is closed. What
was done since is in the owner's note, which is put with every transaction (`everview.store.wal_objects`).
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
    """What a store must have at least: a version, and of its log so much. 0 of a log: there need not be one."""

    version: int = 0
    done: int = 0
    safe: int = 0
    same_boot: bool = True
    attempts: int = 0
    place: int = 0
    unsure: bool = False  # whether the machine had stopped before the first of the attempts

    @property
    def least(self) -> int:
        """Up to where the log must be there and whole."""
        return self.done if self.same_boot else self.safe

    def of(self, version: int) -> Bound:
        """What it says about this version's log: nothing, if it speaks of another."""
        return self if self.version == version else Bound(version, same_boot=self.same_boot)


def this_boot() -> bytes:
    """Sixteen bytes that another run of the machine would not have."""
    return hashlib.sha256(boot_id().encode()).digest()[:16] if boot_id() else bytes(16)


def encode(bound: Bound) -> bytes:
    """The bytes of the file.

    >>> decode(encode(Bound(3, 200, 100)))
    Bound(version=3, done=200, safe=100, same_boot=True, attempts=0, place=0, unsure=False)
    """
    head = _FIXED.pack(MAGIC, bound.version, this_boot(), 0)[: _FIXED.size - 8]
    tried = bound.attempts | bound.unsure << 32
    moving = (bound.done, bound.done ^ _ALL, bound.safe, bound.safe ^ _ALL, tried, bound.place)
    return head + zlib.crc32(head).to_bytes(8, "little") + _MOVING.pack(*moving)


def decode(data: bytes) -> Bound:
    """What the file says; nothing, if it is not what was written."""
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
    """What a store must have; nothing is known of one that has no such file."""
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
        """This version was made; of a log nothing is known yet."""
        self._write(Bound(version))

    def follows(self, version: int, done: int, safe: int) -> None:
        """This version's log is there up to here: from now on `done` says how far it is."""
        self._write(Bound(version, done, safe), lasting=True)  # it says in which run of the machine the log is written
        local = self._files.local
        if local is not None:
            self._handle = self._files.disk.open(Path(local) / NAME)
            self._words = self._handle.words(SIZE // 8)

    def done(self, size: int) -> None:
        """The log was done up to here: two stores into memory."""
        words = self._words
        if words is not None:
            words[_DONE] = size
            words[_DONE + 1] = size ^ _ALL

    def safe(self, size: int) -> None:
        """The log is safe up to here."""
        words = self._words
        if words is not None:
            words[_SAFE] = size
            words[_SAFE + 1] = size ^ _ALL
        elif self._files.local is None:
            self._write(Bound(self._bound.version, size, size))

    def attempt(self, bound: Bound) -> None:
        """A record of the log is about to be run that was never acknowledged; this is safe before it is."""
        self._write(bound, lasting=True)

    def came_back(self) -> None:
        """Running that record ended in an error, not in the end of the process: that was no attempt."""
        bound = self._bound
        if bound.attempts:
            self._write(replace(bound, attempts=bound.attempts - 1), lasting=True)

    def _write(self, bound: Bound, *, lasting: bool = False) -> None:
        self.close()
        self._files.write(NAME, encode(bound), lasting=lasting)
        self._bound = bound

    def close(self) -> None:
        """Let go of the mapped page."""
        if self._handle is not None and self._words is not None:
            self._words.release()
            self._handle.close()
        self._handle = self._words = None


def lost(where: str, what: str) -> StoreError:
    """The error for acknowledged data that is not there."""
    return StoreError(
        "E_DAMAGED",
        f"{where}: {what}",
        "restore the directory from a copy; nothing was changed. `everview repair` says what can be recovered",
    )
