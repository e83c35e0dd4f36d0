"""What the driver asks of tasks and what they answer.

A job names the committed version it starts from and brings everything that is not committed yet: the input rows, new
dictionary entries, the commands that build the dataflow. Its answer is what the step added to every shard. A job is a
pure function of the two, so Spark may run its tasks as often as it likes.

Answers are data (`message`): the driver runs nothing of what comes back. A job is a pickle, like the functions that
Spark ships: workers run what their own driver asks of them, and take it from nobody else (`proof`).
"""

from __future__ import annotations

import mmap
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from everview.codes.declare import data_type
from everview.dataflow.replica import Added, Command, Install, Keep, MakeTable, Replica
from everview.errors import StoreError
from everview.plan import legacy
from everview.plan import nodes as plan
from everview.plan.frozen import Functions, freeze, thaw
from everview.spark import failures
from everview.spark.message import Buffer, pack, unpack
from everview.store import records
from everview.store.files import Files
from everview.store.manifest import BUILT, Manifest, Ref
from everview.store.store import BATCHES


@dataclass(frozen=True)
class Job:
    """A step to run from a version on; `epochs` 0: bring the operators of the last command up to date."""

    root: str
    """the store's directory"""
    version: int
    time: int
    lineage: dict[int, str]
    """which attempts made the latest versions: a shard in a worker's memory that came from another is outdated"""
    attempt: str
    shards: int
    epochs: int
    commands: int
    """how many of the commands (which travel by themselves) build the dataflow this job runs on"""
    fingerprint: str
    merge_effort: int
    inputs: dict[int, list[tuple[int, bytes]]]
    input_files: dict[int, str]
    """the inputs of a large step: a file for each shard"""
    dictionary: bytes
    """new entries, if they are few"""
    stored: tuple[Ref, ...] = ()
    """many new entries, in the store already"""
    coded: tuple[Any, ...] = ()
    """rows that lie in files already (`everview.spark.coded`)"""
    forget: float = 0.0
    """seconds for which a worker keeps shards that another has taken over"""
    forgotten: int = 0
    """the version at which the dictionary was last freed of words that nobody needs (`everview.store.words`)"""


@dataclass
class Answer:
    """What a task's shards added, or why the step failed."""

    packed: dict[int, Buffer] = field(default_factory=dict)
    files: list[tuple[int, int, Ref]] = field(default_factory=list)
    """(operator, shard, file) of batches that are too large to travel"""
    dictionary: Buffer = b""
    failure: dict[str, Any] | None = None

    @classmethod
    def failed(cls, error: BaseException) -> Answer:
        """The answer of a step that cannot be run, however often it is tried."""
        return cls(failure=failures.told(error))

    def error(self) -> Exception | None:
        """Why the step failed."""
        return None if self.failure is None else failures.made(self.failure)

    def added(self, shard: int) -> Added:
        """What a shard added, but for the batches in files."""
        return Added(words_of(self.packed[shard]))

    def message(self) -> list[Buffer]:
        """The answer as a message, in pieces.

        >>> answer = Answer({2: bytes(8)}, [(7, 2, Ref(1, 8, "a.arrow", 5))], b"words")
        >>> Answer.read(b"".join(answer.message())) == answer
        True
        """
        header = {
            "shards": list(self.packed),
            "files": [[o, s, r.rows, r.size, r.file, r.crc, [r.until, r.up, r.down]] for o, s, r in self.files],
            "failure": self.failure,
        }
        return pack(header, [self.dictionary, *self.packed.values()])

    @classmethod
    def read(cls, data: Buffer) -> Answer:
        """The answer in a message."""
        header, (dictionary, *packed) = unpack(data)
        files = [(o, s, _ref(*told)) for o, s, *told in header["files"]]
        return cls(dict(zip(header["shards"], packed, strict=True)), files, dictionary, header["failure"])


def _ref(rows: int, size: int, file: str, crc: int, tally: list[int]) -> Ref:
    until, up, down = tally
    return Ref(rows, size, file, crc, until=until, up=up, down=down)


def words_of(data: Buffer) -> np.ndarray:
    """Words that travelled as bytes, in an array that kernels accept (they want it writable)."""
    return np.frombuffer(bytearray(data), dtype=np.int64)


def write_rows(files: Files, name: str, parts: Iterable[tuple[int, np.ndarray]]) -> None:
    """Write a shard's input; it need not outlive this process."""
    data: list[Any] = []
    for operator, rows in parts:
        data += [np.array([operator, len(rows)], dtype=np.int64).tobytes(), rows.data]
    files.write(f"{BATCHES}/{name}", data, lasting=False)


def read_rows(files: Files, name: str) -> list[tuple[int, np.ndarray]]:
    """A shard's input."""
    name = f"{BATCHES}/{name}"
    words = np.frombuffer(map_privately(files, name) or bytearray(files.read(name)), dtype=np.int64)
    parts, at = [], 0
    while at < len(words):
        operator, count = words[at : at + 2].tolist()
        parts.append((operator, words[at + 2 : at + 2 + count]))
        at += 2 + count
    return parts


def map_privately(files: Files, name: str) -> mmap.mmap | None:
    """A file as memory that can be written to (kernels want that), which does not change the file; None if it is not
    nearby.
    """
    path = files.near(name)
    if path is None:
        return None
    try:
        with open(path, "rb") as file:
            return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
    except FileNotFoundError:
        if files.local is None:  # the copy has just made room for others
            return None
        raise


class Commands:
    """The commands that built a dataflow, as bytes that can be followed from any point."""

    def __init__(self, functions: Functions) -> None:
        self._functions = functions
        self.encoded: list[bytes] = []
        self._known: list[int] = [0]

    def __len__(self) -> int:
        return len(self.encoded)

    def go_back(self, count: int) -> None:
        """Forget all but the first `count`: the others did not happen."""
        del self.encoded[count:]
        del self._known[count + 1 :]
        self._functions.go_back(self._known[-1])

    def append(self, command: Command) -> None:
        """Add a command."""
        header: dict[str, Any] = {"command": type(command).__name__}
        parts: list[bytes] = []
        if isinstance(command, Install):
            parts.append(freeze(command.node, self._functions))
            new = list(self._functions.unwritten())
            parts += [data for _, data in new]
            header |= {"functions": [name for name, _ in new], "keys": command.keys, "history": command.history}
            header["choice"] = command.choice
        elif isinstance(command, MakeTable):
            node = command.node
            header |= {"id": node.id, "columns": [repr(c) for c in node.columns], "key": node.key}
            header |= {"order": command.order, "name": command.name, "history": command.history, "rows": command.rows}
        else:
            header["roots"] = command.roots
        self.encoded.append(records.encode(header, parts))
        self._known.append(len(self._functions))


def read_command(data: bytes, functions: Functions) -> Command:
    """A command from its bytes; its new functions become known."""
    if data[: len(records.MAGIC)] != records.MAGIC:
        return _read_old(data, functions)
    header, parts = records.decode(data, "a command")
    try:
        if header["command"] == "Install":
            for name, code in zip(header["functions"], parts[1:], strict=True):
                functions.read(str(name), bytes(code))
            node = thaw(bytes(parts[0]), functions)
            return Install(node, _numbers(header["keys"]), int(header["history"]), header["choice"])
        if header["command"] == "MakeTable":
            columns = tuple(data_type(str(c)) for c in header["columns"])
            table = plan.Table(int(header["id"]), columns, _numbers(header["key"]))
            rows = tuple(_numbers(row) for row in header["rows"])
            return MakeTable(table, _numbers(header["order"]), str(header["name"]), int(header["history"]), rows)
        if header["command"] == "Keep":
            return Keep(_numbers(header["roots"]))
    except (KeyError, TypeError, ValueError) as error:
        raise records.damaged("a command", 0, f"{type(error).__name__}: {error}") from None
    raise records.damaged("a command", 0, f"{header['command']!r} is unknown")


def _numbers(given: Any) -> tuple[int, ...]:
    return tuple(int(n) for n in given)


def _read_old(data: bytes, functions: Functions) -> Command:
    kind, new, body = legacy.command(data, functions)
    for name, code in new:
        functions.read(name, code)
    if kind == "Install":
        frozen, keys, history, *choice = body
        return Install(thaw(frozen, functions), keys, history, *(choice or ("binary",)))  # once there was no choice
    if kind == "MakeTable":
        node, order, name, history, rows = body
        return MakeTable(plan.Table(*node), order, name, history, rows)
    return Keep(body)


def rebuild(
    replica: Replica,
    manifest: Manifest,
    functions: Functions,
    where: str,
    follow: Callable[[Command], None] | None = None,
) -> None:
    """Build in a replica what was built on a store's shards, and make sure that it is that: batches go by numbers."""
    found = ""
    for data in manifest.commands:
        if data[:1] == BUILT:
            command = read_command(data[1:], functions)
            replica.load([command]) if follow is None else follow(command)
            found = found if isinstance(command, Keep) else replica.fingerprint()
    check_built(found, manifest.fingerprints, where)


def check_built(found: str, expected: Sequence[str] | None, where: str) -> None:
    """Refuse shards whose operators are not those that would be built today; once nothing was written about that."""
    if expected and found != expected[0]:
        raise StoreError(
            "E_VERSION",
            f"{where} was written by another version of Everview, which built other operators from its views",
            "open it with that version, or load its tables into a new directory",
        )


def table_bytes(table: pa.Table) -> bytes:
    """An Arrow table as bytes; none for an empty one."""
    if not len(table):
        return b""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue().to_pybytes())


def bytes_table(data: Buffer) -> pa.Table | None:
    """The Arrow table in bytes."""
    return pa.ipc.open_stream(pa.py_buffer(data)).read_all() if data else None
