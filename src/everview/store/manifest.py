"""Manifests: the contents of a store at a version, and how a commit changes them.

Between epochs all state of a dataflow is in its traces. A *manifest* therefore consists of a list of batches for each
operator (by number) and shard; the commands that build the dataflow; the files of the dictionary; the time; and marks,
the texts that sources and sinks commit with their data. A `Commit` is the change from one version to the next. Both are
written as records (`everview.store.records`); batches of a few rows are inlined, larger ones are files.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, fields, replace
from typing import Any, TypeVar

from everview.errors import StoreError
from everview.store import records
from everview.store.offsets import change_offsets

Place = tuple[int, int]
"""(operator, shard)"""

DECLARED, BUILT = b"E", b"B"
"""Prefixes of the commands of a sharded session: declarations, and what was built on the shards for them. Those of an
embedded session, which builds what is declared, differ.
"""

FORMAT = 2
"""Version of the file format; a store with a later one is refused. 2: batches have tallies."""


@dataclass(frozen=True)
class Ref:
    """A batch or a piece of the dictionary: a file name, or the bytes themselves. The last three are a batch's tally
    (`everview.store.garbage`); `until` is -1 if there is none.
    """

    rows: int
    size: int
    file: str = ""
    crc: int = 0
    inline: bytes | None = field(default=None, repr=False)
    until: int = field(default=-1, repr=False)
    up: int = field(default=0, repr=False)
    down: int = field(default=0, repr=False)


@dataclass(frozen=True)
class Commit:
    """The changes of one version. `adds` append to the lists of batches, `replaces` replace lists (an empty one removes
    it); `shards`, `fingerprints` and `sinces` are unchanged if None or not named.

    `sinces` are the starts of operators' histories; `fingerprints` describe the operators, to detect that a later
    program would build others from the same commands.
    """

    version: int
    time: int
    adds: tuple[tuple[int, int, Ref], ...] = ()
    replaces: tuple[tuple[int, int, tuple[Ref, ...]], ...] = ()
    commands: tuple[bytes, ...] = ()
    history: bool = False  # `commands` and `sinces` are complete and replace the previous ones
    marks: dict[str, str] = field(default_factory=dict)
    dictionary: tuple[Ref, ...] = ()
    whole_dictionary: bool = False  # `dictionary` is complete and replaces the previous one
    sinces: dict[int, int] = field(default_factory=dict)
    fingerprints: tuple[str, ...] | None = None
    shards: int | None = None
    token: str = ""


@dataclass(frozen=True)
class Manifest:
    """The complete contents of a store at one version."""

    version: int = 0
    time: int = 0
    shards: int = 0  # 0: one dataflow without shards, as in embedded sessions
    lists: dict[Place, tuple[Ref, ...]] = field(default_factory=dict)
    commands: tuple[bytes, ...] = ()
    marks: dict[str, str] = field(default_factory=dict)
    dictionary: tuple[Ref, ...] = ()
    sinces: dict[int, int] = field(default_factory=dict)
    fingerprints: tuple[str, ...] = ()
    token: str = ""

    def after(self, commit: Commit) -> Manifest:
        """The manifest after the next commit.

        >>> ref = Ref(1, 8, file="a")
        >>> Manifest().after(Commit(1, 5, adds=((0, 0, ref),), marks={"offset": "7"})).lists
        {(0, 0): (Ref(rows=1, size=8, file='a', crc=0),)}
        """
        assert commit.version == self.version + 1, (commit.version, self.version)
        lists = dict(self.lists)
        for operator, shard, refs in commit.replaces:
            lists[operator, shard] = refs
            if not refs:
                del lists[operator, shard]
        for operator, shard, ref in commit.adds:
            lists[operator, shard] = (*lists.get((operator, shard), ()), ref)
        return replace(
            self,
            version=commit.version,
            time=commit.time,
            shards=commit.shards or self.shards,
            lists=lists,
            commands=commit.commands if commit.history else self.commands + commit.commands,
            marks=change_offsets(dict(self.marks), commit.marks),
            dictionary=commit.dictionary if commit.whole_dictionary else self.dictionary + commit.dictionary,
            sinces=commit.sinces if commit.history else {**self.sinces, **commit.sinces},
            fingerprints=self.fingerprints if commit.fingerprints is None else commit.fingerprints,
            token=commit.token,
        )

    @property
    def built(self) -> tuple[bytes, ...]:
        """The commands that build the shards' dataflow."""
        return tuple(data[1:] for data in self.commands if data[:1] == BUILT)

    @property
    def declared(self) -> tuple[bytes, ...]:
        """The declarations, if the directory is sharded."""
        return tuple(data[1:] for data in self.commands if data[:1] == DECLARED)

    @property
    def is_sharded(self) -> bool:
        """Whether a session in shards wrote it.

        >>> Manifest(commands=(BUILT + b"...",)).is_sharded, Manifest().is_sharded
        (True, False)
        """
        return any(data[:1] == BUILT for data in self.commands)

    def refs(self) -> Iterator[Ref]:
        """Every piece it refers to."""
        for refs in self.lists.values():
            yield from refs
        yield from self.dictionary


def refs_of(commit: Commit) -> Iterator[Ref]:
    """Every piece of a commit."""
    yield from (ref for *_, ref in commit.adds)
    for *_, refs in commit.replaces:
        yield from refs
    yield from commit.dictionary


# as records


class _Parts:
    """The binary parts of a record under construction."""

    def __init__(self) -> None:
        self.parts: list[bytes] = []

    def ref(self, ref: Ref) -> list[Any]:
        tally = [] if ref.until < 0 else [ref.until, ref.up, ref.down]
        if ref.inline is None:
            return [ref.rows, ref.size, ref.file, ref.crc, *tally]
        return [ref.rows, ref.size, self.part(ref.inline), 0, *tally]

    def refs(self, refs: Iterable[Ref]) -> list[Any]:
        return [self.ref(r) for r in refs]

    def part(self, data: bytes) -> int:
        self.parts.append(data)
        return len(self.parts) - 1


class _Read:
    """The binary parts of a record that was read."""

    def __init__(self, parts: list[memoryview]) -> None:
        self._parts = parts

    def ref(self, known: list[Any]) -> Ref:
        rows, size, content, *rest = known
        tally = rest[1:]  # after the checksum, which the inside of the record does not need
        if isinstance(content, int):
            return Ref(rows, size, "", 0, self.part(content), *tally)
        return Ref(rows, size, content, rest[0], None, *tally)

    def refs(self, known: list[Any]) -> tuple[Ref, ...]:
        return tuple(self.ref(r) for r in known)

    def part(self, number: int) -> bytes:
        return bytes(self._parts[number])


_WRITERS: dict[str, Callable[[Any, _Parts], Any]] = {
    "adds": lambda adds, made: [[o, s, made.ref(r)] for o, s, r in adds],
    "replaces": lambda replaces, made: [[o, s, made.refs(r)] for o, s, r in replaces],
    "lists": lambda lists, made: [[o, s, made.refs(r)] for (o, s), r in lists.items()],
    "commands": lambda commands, made: [made.part(c) for c in commands],
    "dictionary": lambda refs, made: made.refs(refs),
}
_READERS: dict[str, Callable[[Any, _Read], Any]] = {
    "adds": lambda known, read: tuple((o, s, read.ref(r)) for o, s, r in known),
    "replaces": lambda known, read: tuple((o, s, read.refs(r)) for o, s, r in known),
    "lists": lambda known, read: {(o, s): read.refs(r) for o, s, r in known},
    "commands": lambda known, read: tuple(read.part(c) for c in known),
    "dictionary": lambda known, read: read.refs(known),
    "sinces": lambda known, read: {int(operator): since for operator, since in known.items()},
    "fingerprints": lambda known, read: None if known is None else tuple(known),
}
"""How fields that are not plain JSON are written and read. All others are in the header as they are."""

Record = TypeVar("Record", Commit, Manifest)


def _encode(record: Commit | Manifest) -> bytes:
    made = _Parts()
    header: dict[str, Any] = {"format": FORMAT}
    for each in fields(record):
        value = getattr(record, each.name)
        write = _WRITERS.get(each.name)
        header[each.name] = value if write is None else write(value, made)
    return records.encode(header, made.parts)


def _decode(kind: type[Record], data: Any, where: str) -> Record:
    header, parts = records.decode(data, where)
    check_format(header, where)
    made: dict[str, Any] = {}
    for each in fields(kind):
        known, read = header[each.name], _READERS.get(each.name)
        made[each.name] = known if read is None else read(known, _Read(parts))
    return kind(**made)


def encode_commit(commit: Commit) -> bytes:
    """The record of a commit."""
    return _encode(commit)


def decode_commit(data: Any, where: str) -> Commit:
    """A commit from its record."""
    return _decode(Commit, data, where)


def encode_manifest(manifest: Manifest) -> bytes:
    """The record of a checkpoint."""
    return _encode(manifest)


def decode_manifest(data: Any, where: str) -> Manifest:
    """A manifest from the record of a checkpoint."""
    return _decode(Manifest, data, where)


def check_format(header: records.Header, where: str) -> None:
    """Refuse files of a later version of Everview."""
    if header.get("format", 0) > FORMAT:
        raise StoreError(
            "E_FORMAT", f"{where} was written by a later version of Everview", "install that version, or a newer one"
        )
