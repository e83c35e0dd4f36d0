"""A disk that exists only in memory, and stops whenever a test wants it to.

Every call is an event with a number. At the number that was chosen the process dies (`Crash`), in the middle of the
call if it is one that writes; from then on every call raises, so no handler of ours can tidy up. What is left is then
one of two things:

- after `kill -9`, everything that was handed to the disk, in order;
- after a loss of power, of each file what was synced and *any* part of what was written since, sector by sector, in any
  mixture; of each folder the names that were synced and some of what happened to names since, in order or not. A rename
  is whole or not at all. That is harsher than the file systems people use.

Nothing here waits or is random by itself: the same seed gives the same history.
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa

from everview.store.disk import Disk


class Crash(BaseException):
    """The process is dead."""


class Node:
    """A file: what it holds, what of it is safe, and what was done to it since."""

    def __init__(self) -> None:
        self.data = bytearray()
        self.safe = b""
        self.since: list[tuple[int, bytes | None]] = []  # (place, bytes), or (size, None) for a cut

    def write(self, data: bytes, at: int) -> None:
        self._apply(self.data, at, data)
        self.since.append((at, data))

    def truncate(self, size: int) -> None:
        self._apply(self.data, size, None)
        self.since.append((size, None))

    @staticmethod
    def _apply(target: bytearray, at: int, data: bytes | None) -> None:
        if data is None:
            del target[at:]
        if len(target) < at:
            target.extend(bytes(at - len(target)))
        if data is not None:
            target[at : at + len(data)] = data

    def sync(self) -> None:
        self.safe, self.since = bytes(self.data), []

    def after_power_loss(self, source: random.Random) -> Node:
        """What the disk has of it: each piece of each write came or did not."""
        left = bytearray(self.safe)
        sector = source.choice((8, 64, 512))
        kept = source.choice((0.0, 0.5, 0.9, 1.0))
        for at, data in self.since:
            if data is None:
                if source.random() < kept:
                    self._apply(left, at, None)
                continue
            place = at
            while place < at + len(data):
                end = min(at + len(data), (place // sector + 1) * sector)
                if source.random() < kept:
                    self._apply(left, place, data[place - at : end - at])
                place = end
        node = Node()
        node.data, node.safe = left, bytes(left)
        return node


class Folder:
    """A folder: its names, those that are safe, and what happened to names since (None: gone)."""

    def __init__(self) -> None:
        self.names: dict[str, Node | Folder] = {}
        self.safe: dict[str, Node | Folder] = {}
        self.since: list[dict[str, Node | Folder | None]] = []

    def change(self, names: dict[str, Node | Folder | None]) -> None:
        self._apply(self.names, names)
        self.since.append(names)

    @staticmethod
    def _apply(target: dict[str, Node | Folder], names: dict[str, Node | Folder | None]) -> None:
        for name, node in names.items():
            if node is None:
                target.pop(name, None)
            else:
                target[name] = node

    def sync(self) -> None:
        self.safe, self.since = dict(self.names), []

    def after_power_loss(self, source: random.Random, known: dict[int, Any]) -> Folder:
        left = dict(self.safe)
        if source.random() < 0.5:  # in order, up to some moment
            chosen = self.since[: source.randint(0, len(self.since))]
        else:
            chosen = [names for names in self.since if source.random() < 0.5]
        for names in chosen:
            self._apply(left, names)
        folder = Folder()
        for name, node in left.items():
            if id(node) not in known:
                more = (source, known) if isinstance(node, Folder) else (source,)
                known[id(node)] = node.after_power_loss(*more)
            folder.names[name] = known[id(node)]
        folder.safe = dict(folder.names)
        return folder


class SimHandle:
    """A file of such a disk, written in place."""

    def __init__(self, disk: SimDisk, node: Any) -> None:
        self._disk, self._node = disk, node

    def size(self) -> int:
        return len(self._node.data)

    def read(self, size: int) -> bytes:
        return bytes(self._node.data[:size])

    def write(self, data: bytes, at: int) -> None:
        self._disk.write(self._node, data, at)

    def truncate(self, size: int) -> None:
        self._disk.event()
        self._node.truncate(size)

    def sync(self) -> None:
        self._disk.event()
        self._node.sync()

    def words(self, count: int) -> Words:
        return Words(self._disk, self._node)

    def is_at(self, path: Path) -> bool:
        return self._disk.find(path) is self._node

    def lock(self) -> bool:
        return True

    def unlock(self) -> None:
        pass

    def close(self) -> None:
        pass


class Words:
    """A mapped page: eight bytes are stored at once."""

    def __init__(self, disk: SimDisk, node: Node) -> None:
        self._disk, self._node = disk, node

    def __setitem__(self, place: int, value: int) -> None:
        self._disk.event()
        self._node.write(value.to_bytes(8, "little"), 8 * place)

    def release(self) -> None:
        pass


class SimDisk(Disk):
    """The disk; `crash_at` is the event at which the process dies."""

    def __init__(self, seed: int) -> None:
        self.source = random.Random(seed)
        self.root = Folder()
        self.events = 0
        self.crash_at = -1
        self.dead = False
        self.boot = 0

    # crashes

    def event(self) -> None:
        """Something is about to happen to the disk."""
        if self.dead:
            raise Crash
        self.events += 1
        if self.events == self.crash_at:
            self.dead = True
            raise Crash

    def die_in(self, events: int) -> None:
        self.crash_at = self.events + events

    def start_again(self, *, power: bool) -> None:
        """The next process begins, after a death or a loss of power."""
        self.dead, self.crash_at = False, -1
        if power:
            self.root = self.root.after_power_loss(self.source, {})
            self.boot += 1

    def write(self, node: Node, data: bytes, at: int) -> None:
        try:
            self.event()
        except Crash:
            if self.events == self.crash_at:
                self.crash_at = -1
                node.write(data[: self.source.randint(0, len(data))], at)
            raise
        node.write(data, at)

    # names

    def find(self, path: Path) -> Any:
        node: Any = self.root
        for part in path.parts[1:]:
            if not isinstance(node, Folder) or part not in node.names:
                return None
            node = node.names[part]
        return node

    def _file(self, path: Path) -> Node:
        node = self.find(path)
        if not isinstance(node, Node):
            raise FileNotFoundError(path)
        return node

    # as a disk

    def read(self, path: Path) -> bytes:
        if self.dead:
            raise Crash
        return bytes(self._file(path).data)

    def map(self, path: Path) -> pa.Buffer:
        return pa.py_buffer(self.read(path))

    def make(self, path: Path, parts: Iterable[Any], *, sync: bool) -> None:
        self.event()
        node = Node()
        self.find(path.parent).change({path.name: node})
        for part in parts:
            self.write(node, bytes(part), len(node.data))
        if sync:
            self.event()
            node.sync()

    def open(self, path: Path) -> Any:
        if self.find(path) is None:
            self.event()
            self.find(path.parent).change({path.name: Node()})
        return SimHandle(self, self._file(path))

    def open_folder(self, path: Path) -> Any:
        return SimHandle(self, self.find(path))

    def replace(self, old: Path, new: Path) -> None:
        self.event()
        self.find(new.parent).change({new.name: self._file(old), old.name: None})

    def link(self, old: Path, new: Path) -> None:
        self.event()
        if self.find(new) is not None:
            raise FileExistsError(new)
        self.find(new.parent).change({new.name: self._file(old)})

    def unlink(self, path: Path) -> None:
        self.event()
        folder = self.find(path.parent)
        if folder is not None and path.name in folder.names:
            folder.change({path.name: None})

    def folder(self, path: Path) -> None:
        if self.find(path) is not None:
            return
        self.folder(path.parent)
        self.event()
        self.find(path.parent).change({path.name: Folder()})
        self.sync_above(path)

    def sync_folder(self, path: Path) -> None:
        self.event()
        self.find(path).sync()

    def is_folder(self, path: Path) -> bool:
        return isinstance(self.find(path), Folder)

    def exists(self, path: Path) -> bool:
        if self.dead:
            raise Crash
        return self.find(path) is not None

    def size(self, path: Path) -> int:
        node = self.find(path)
        return len(node.data) if isinstance(node, Node) else -1

    def listed(self, path: Path) -> list[str]:
        return [*self.names(path)]

    def names(self, path: Path) -> dict[str, float]:
        if self.dead:
            raise Crash
        folder = self.find(path)
        return {} if folder is None else {n: 0.0 for n, node in folder.names.items() if isinstance(node, Node)}
