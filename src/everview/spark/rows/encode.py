"""Encoding rows on the workers: rows of a large DataFrame go from Spark tasks to the shards without passing the driver.

An encoding task converts the record batches of its partition to codes and writes a file for each shard. This needs no
coordination: string ids are hashes of the strings (`everview.codes.interner`), and a row's shard depends on its first
column. Only small data returns to the driver: file names, new dictionary entries, bad records.

The next step names the files in its job, and each shard derives its changes from them (`everview.spark.rows.encoded`).

Dictionaries may disagree if two strings share a hash (`E_CONFLICT`, nearly impossible). In that case the rows go
through the driver, whose dictionary is authoritative.
"""

from __future__ import annotations

import functools
import pickle
import secrets
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from everview.codes.codec import Codec
from everview.codes.interner import Interner
from everview.dataflow.operators import Arrangement
from everview.dataflow.partitioning import HASH_BY_FIRST, SINGLE_SHARD
from everview.errors import EverviewError
from everview.expr.nodes import Expr
from everview.io.changes import Envelope
from everview.io.events import told
from everview.io.record_encoder import RecordEncoder
from everview.session.clock.follower import values_of
from everview.spark.driver.job import bytes_table, table_bytes
from everview.spark.rows.encoded import FOLDER, EncodedRows, Part
from everview.spark.rows.frames import unreadable
from everview.store.files import Files
from everview.store.locations import open_files
from everview.store.stored_dictionary import RESIDENT_ENTRIES
from everview.types import NULL, DataType

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


ENCODE_ROWS = 1 << 16
"""Rows encoded at a time."""

SAMPLED_ROWS = 64
"""Rows of each part that the driver samples to detect hot keys."""

FLUSH_WORDS = 1 << 22
"""Words of codes that a task buffers before writing them."""

INLINE_BYTES = 1 << 20
"""Size up to which new strings of a task are returned in its answer."""


@dataclass(frozen=True)
class Order:
    """The parameters of encoding tasks."""

    root: str
    label: str
    names: tuple[str, ...]
    types: tuple[DataType, ...]
    exact: bool
    place: str
    columns: tuple[int, ...]
    """the columns in the order of the table's index"""
    shards: int
    """1 if all rows are the first shard's"""
    key: tuple[int, ...] = ()
    shape: Envelope | None = None
    """how records encode the kind of change, if they are changes"""
    until: Expr | None = None
    """when a row expires, if the table has such a column"""
    now: int = 0


# on the driver


def encode_rows(frame: DataFrame, fitting: RecordEncoder, place: str, how: str, target: Target) -> EncodedRows | None:
    """Encode the rows of a DataFrame for a table; None if they have to go through the driver."""
    arrangement = target.arrangement
    codec = fitting.codec
    on_one = arrangement.operator.partitioning == SINGLE_SHARD
    order = Order(
        target.files.root, fitting.label, codec.names, codec.types, fitting.exact, place, arrangement.order,
        1 if on_one else target.shards, fitting.key, fitting.shape if how == "changes" else None,
        target.until, target.now,
    )  # fmt: skip
    try:
        answers = frame.mapInArrow(functools.partial(encode_partition, order), "part binary").collect()
    except Exception as error:
        raise unreadable(f"source {fitting.label!r}: {place}", error) from error
    parts: list[Part] = sorted((pickle.loads(bytes(row[0])) for row in answers), key=lambda part: part.number)
    coded = EncodedRows(
        target.files, target.table, arrangement.operator.number, target.key, how,
        order=arrangement.order, until=target.until, now=target.now, shards=target.shards,
    )  # fmt: skip
    if order.shape is not None:
        coded.unordered = order.shape.unordered
    for part in parts:
        coded.take(part, arrangement.cols)
    try:
        _learn(target, codec.interner, parts)
        moments = [np.frombuffer(_back(target.files, part.moments), dtype=np.int64) for part in parts]
        coded.moments = np.unique(np.concatenate([coded.moments, *moments]))
    except EverviewError as error:
        coded.discard()
        if error.code != "E_CONFLICT":
            raise
        return None
    return coded


@dataclass(frozen=True)
class Target:
    """The table that rows are encoded for."""

    files: Files
    table: int
    arrangement: Arrangement
    key: tuple[int, ...]
    shards: int
    until: Expr | None = None
    now: int = 0
    save_entries: Callable[[], None] = lambda: None
    """called after new strings were added, which may be too many to hold"""


def _learn(target: Target, interner: Interner, parts: Iterable[Part]) -> None:
    """Add the tasks' new strings to the dictionary, as many at a time as may be held."""
    for part in parts:
        if part.failure is not None:
            raise part.failure
        found = bytes_table(_back(target.files, part.texts))
        if found is None:
            continue
        for start in range(0, len(found), RESIDENT_ENTRIES):
            interner.load(found.slice(start, RESIDENT_ENTRIES))
            target.save_entries()


def _back(files: Files, data: bytes | str) -> bytes:
    """A task's result, which may be in a file."""
    if isinstance(data, bytes):
        return data
    name = f"{FOLDER}/{data}"
    found = files.read(name)
    files.delete(name)
    return found


# in tasks


def encode_partition(order: Order, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """For `mapInArrow`: encode the rows of a partition; the result is one row."""
    from pyspark import TaskContext

    context = TaskContext.get()
    part = Part(context.partitionId() if context is not None else 0)
    try:
        _Encoder(order, part).run(batches)
    except EverviewError as error:
        part.failure = error
    yield pa.RecordBatch.from_pydict({"part": [pickle.dumps(part)]})


class _Encoder:
    """Encodes rows and writes them to files, one part of the partition at a time."""

    def __init__(self, order: Order, part: Part) -> None:
        self._order = order
        self._part = part
        self._files = open_files(order.root)
        codec = Codec(order.types, order.names, Interner())
        self._fitting = RecordEncoder(order.label, codec, exact=order.exact, key=order.key)
        self._held: dict[int, list[np.ndarray]] = {}
        self._words = 0
        self._moments: list[np.ndarray] = []

    def run(self, batches: Iterable[pa.RecordBatch]) -> None:
        waiting: list[pa.RecordBatch] = []
        for batch in batches:
            waiting.append(batch)
            if sum(len(b) for b in waiting) >= ENCODE_ROWS:
                self._take(waiting)
                waiting = []
        if waiting:
            self._take(waiting)
        self._flush()
        self._part.texts = self._given_back("texts", table_bytes(self._fitting.codec.interner.export()))
        if self._moments:
            self._part.moments = self._given_back("moments", np.unique(np.concatenate(self._moments)).tobytes())

    def _given_back(self, what: str, data: bytes) -> bytes | str:
        return data if len(data) <= INLINE_BYTES else self._write(what, [data])

    def _take(self, batches: list[pa.RecordBatch]) -> None:
        ordered = self._ordered(pa.Table.from_batches(batches))
        self._part.rows += ordered.shape[1]
        for shard, places in HASH_BY_FIRST.parts(ordered, self._order.shards):
            self._held.setdefault(shard, []).append(ordered[:, places])
        self._words += ordered.size
        if self._words >= FLUSH_WORDS:
            self._flush()

    def _ordered(self, rows: pa.Table) -> np.ndarray:
        """Codes in the column order of the index; for events, also their kind."""
        order, bad = self._order, self._part.bad
        if order.shape is not None:
            events = told(self._fitting, order.shape, rows, order.place, bad)
            if events.cleared:
                self._forget()
            self._note_moments(events.codes[:, events.counts > 0])
            return events.packed(order.columns)
        codes = self._fitting.encode(rows, order.place, bad)[0]
        self._note_moments(codes)
        self._part.samples.append(codes[:, :: max(codes.shape[1] // SAMPLED_ROWS, 1)][:, :SAMPLED_ROWS].copy())
        return codes[list(order.columns)]

    def _note_moments(self, codes: np.ndarray) -> None:
        """Record when rows expire, and count those that had expired on arrival."""
        if self._order.until is not None and codes.shape[1]:
            until = values_of([self._order.until], np.ascontiguousarray(codes), self._fitting.codec.interner)[0]
            until = until[until != NULL]
            self._part.late += int((until <= self._order.now).sum())
            self._moments.append(np.unique(until[until > self._order.now]))

    def _forget(self) -> None:
        """Discard what came before the table was emptied."""
        for _, name in self._part.files:
            self._files.delete(f"{FOLDER}/{name}")
        self._part.files, self._part.rows, self._part.cleared = [], 0, True
        self._held, self._words, self._moments = {}, 0, []

    def _flush(self) -> None:
        for shard, held in self._held.items():
            rows = np.ascontiguousarray(np.concatenate(held, axis=1))
            self._part.files.append((shard, self._write(str(shard), [rows.data])))
        self._held, self._words = {}, 0

    def _write(self, what: str, data: list[Any]) -> str:
        """Write a temporary file for one step, under a name that is unique to this attempt."""
        name = f"{what}-{secrets.token_hex(12)}"
        self._files.write(f"{FOLDER}/{name}", data, lasting=False)
        return name
