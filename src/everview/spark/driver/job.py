"""The requests that the driver sends to tasks, and their answers.

A job names the committed version it starts from and contains everything that is not committed yet: the input rows, new
dictionary entries, the commands that build the dataflow. Its result is what the step added to every shard. A job is a
pure function of the two, so Spark may run its tasks any number of times.

Answers are plain data (`message`): the driver executes nothing that comes back. A job is a pickle, like the functions
that Spark ships; workers accept jobs only from their authenticated driver (`handshake`).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from everview.dataflow.replica import Added
from everview.spark.transport import failures
from everview.spark.transport.message import Buffer, pack, unpack
from everview.store.files import Files
from everview.store.manifest import Ref
from everview.store.mapped import map_privately
from everview.store.store import BATCHES


@dataclass(frozen=True)
class Job:
    """A step to run from a version on; `epochs` 0 brings the operators of the last command up to date."""

    root: str
    """the directory of the store"""
    version: int
    time: int
    lineage: dict[int, str]
    """the attempts that produced the latest versions: a cached shard from another attempt is outdated"""
    attempt: str
    shards: int
    epochs: int
    commands: int
    """how many of the commands (which travel separately) build the dataflow of this job"""
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
    """rows that are already in files (`everview.spark.rows.encoded`)"""
    forget: float = 0.0
    """seconds for which a worker keeps shards that another has taken over"""
    forgotten: int = 0
    """the version of the last garbage collection of the dictionary (`everview.store.dictionary_gc`)"""
    suppose: tuple[int, ...] | None = None
    """the operators whose changes are returned, if the step is to be undone"""


@dataclass
class Answer:
    """What the shards of a task added, or why the step failed."""

    packed: dict[int, Buffer] = field(default_factory=dict)
    files: list[tuple[int, int, Ref]] = field(default_factory=list)
    """(operator, shard, file) of batches that are too large to send"""
    dictionary: Buffer = b""
    failure: dict[str, Any] | None = None
    missing: dict[int, int] = field(default_factory=dict)
    """deletions by key without a match, by table"""

    @classmethod
    def failed(cls, error: BaseException) -> Answer:
        """The answer for a step that fails deterministically."""
        return cls(failure=failures.told(error))

    def error(self) -> Exception | None:
        """Why the step failed."""
        return None if self.failure is None else failures.made(self.failure)

    def added(self, shard: int) -> Added:
        """What a shard added, except for batches in files."""
        return Added(words_of(self.packed[shard]))

    def message(self) -> list[Buffer]:
        """The answer as a message, in parts.

        >>> answer = Answer({2: bytes(8)}, [(7, 2, Ref(1, 8, "a.arrow", 5))], b"words")
        >>> Answer.read(b"".join(answer.message())) == answer
        True
        """
        header = {
            "shards": list(self.packed),
            "files": [[o, s, r.rows, r.size, r.file, r.crc, [r.until, r.up, r.down]] for o, s, r in self.files],
            "failure": self.failure,
            "missing": [*self.missing.items()],
        }
        return pack(header, [self.dictionary, *self.packed.values()])

    @classmethod
    def read(cls, data: Buffer) -> Answer:
        """The answer in a message."""
        header, (dictionary, *packed) = unpack(data)
        files = [(o, s, _ref(*told)) for o, s, *told in header["files"]]
        shards = dict(zip(header["shards"], packed, strict=True))
        return cls(shards, files, dictionary, header["failure"], dict(header["missing"]))


def _ref(rows: int, size: int, file: str, crc: int, tally: list[int]) -> Ref:
    until, up, down = tally
    return Ref(rows, size, file, crc, until=until, up=up, down=down)


def words_of(data: Buffer) -> np.ndarray:
    """Words received as bytes, as a writable array, which kernels require."""
    return np.frombuffer(bytearray(data), dtype=np.int64)


def write_rows(files: Files, name: str, parts: Iterable[tuple[int, np.ndarray]]) -> None:
    """Write the input of a shard to a temporary file."""
    data: list[Any] = []
    for operator, rows in parts:
        data += [np.array([operator, len(rows)], dtype=np.int64).tobytes(), rows.data]
    files.write(f"{BATCHES}/{name}", data, lasting=False)


def read_rows(files: Files, name: str) -> list[tuple[int, np.ndarray]]:
    """Read the input of a shard."""
    name = f"{BATCHES}/{name}"
    words = np.frombuffer(map_privately(files, name) or bytearray(files.read(name)), dtype=np.int64)
    parts, at = [], 0
    while at < len(words):
        operator, count = words[at : at + 2].tolist()
        parts.append((operator, words[at + 2 : at + 2 + count]))
        at += 2 + count
    return parts


def table_bytes(table: pa.Table) -> bytes:
    """An Arrow table as bytes; empty for an empty table."""
    if not len(table):
        return b""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue().to_pybytes())


def bytes_table(data: Buffer) -> pa.Table | None:
    """The Arrow table in these bytes."""
    return pa.ipc.open_stream(pa.py_buffer(data)).read_all() if data else None
