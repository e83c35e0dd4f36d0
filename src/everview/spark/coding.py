"""Rows coded where they are: a large DataFrame's rows go from Spark's tasks to the shards without seeing the driver.

A coding task takes its partition's record batches, makes codes of them and writes, for each shard, files of the rows
that are the shard's. That needs no agreement: ids of texts are made from the texts (`everview.codes.interner`), and a
row's shard from its first column. What comes back to the driver is small: names of files, new dictionary entries, bad
records.

The step that follows names the files in its job, and each shard reads its own. An upsert is finished there, too: which
rows stand under the new rows' keys, and what differs from a snapshot, a shard knows by itself, so the driver needs no
copy of the table. So does a keyed table's change feed: all events of a key meet on one shard, which puts them in
the order of their commits and sees what they leave. Without a key events are counted, and a deletion of what is not
there is an error of the feed's: those come to the driver.

Dictionaries may disagree if two texts share a hash (`E_CONFLICT`, nearly impossible). Then the rows come to the driver
after all, which has the one dictionary that counts.
"""

from __future__ import annotations

import functools
import pickle
import secrets
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from everview.codes.codec import Codec
from everview.codes.interner import Interner
from everview.dataflow.operators import ON_ONE, Arrangement
from everview.errors import EverviewError
from everview.io.changes import Envelope
from everview.io.events import EXTRA, Told, outcome, told
from everview.io.fitting import Fitting
from everview.io.source import Bad
from everview.kernels import exchange
from everview.sharded import inbox_rows
from everview.spark.frames import unreadable
from everview.spark.job import bytes_table, table_bytes
from everview.standing import last_of_each, records, standing
from everview.store.files import Files, open_files
from everview.types import DataType

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

FOLDER = "rows"
"""Where coded rows lie until their step is done; whatever is there when a session opens is of the dead."""

ROWS = 1 << 16
"""Rows that are coded at a time."""

FLUSH_WORDS = 1 << 22
"""Words of codes that a task holds before it writes them."""

INLINE_BYTES = 1 << 20
"""Size up to which a task's new texts come back with its answer."""


@dataclass(frozen=True)
class Order:
    """What coding tasks are told."""

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
    shape: Envelope | None = None
    """how records say what happened, if they are changes"""


@dataclass
class Part:
    """What one task made of its partition."""

    number: int
    files: list[tuple[int, str]] = field(default_factory=list)
    """(shard, name), in order"""
    rows: int = 0
    texts: bytes | str = b""
    """new entries of the dictionary, or the name of a file of them"""
    bad: list[Bad] = field(default_factory=list)
    failure: EverviewError | None = None


@dataclass
class Coded:
    """A table's new rows in files, by shard."""

    store: Files
    table: int
    """the table's node"""
    operator: int
    key: tuple[int, ...]
    how: str
    """append, upsert, changes or snapshot"""
    files: dict[int, list[str]] = field(default_factory=dict)
    rows: int = 0
    words: int = 0
    bad: list[Bad] = field(default_factory=list)

    def discard(self) -> None:
        """Delete the files."""
        for names in self.files.values():
            for name in names:
                self.store.delete(f"{FOLDER}/{name}")

    def at(self, time: int) -> Input:
        """These rows as a step's input at a time."""
        return Input(self.table, self.operator, self.key, self.how, time, self.files, self.words)


@dataclass(frozen=True)
class Input:
    """Coded rows in a job."""

    table: int
    operator: int
    key: tuple[int, ...]
    how: str
    time: int
    files: dict[int, list[str]]
    words: int

    def changes(self, files: Files, shard: int, arrangement: Arrangement, now: int) -> np.ndarray | None:
        """What they change on a shard that is at the time `now`, as its inbox takes it."""
        if self.how == "changes":
            return self._after_events(files, shard, arrangement, now)
        new = _read(files, self.files.get(shard, []), arrangement.cols)
        if self.key and new.shape[1]:
            new = new[:, last_of_each(new[: len(self.key)])]
        diffs: np.ndarray | int = 1
        if self.how != "append":
            keys = np.ascontiguousarray(new[: len(self.key)]) if self.how == "upsert" else None
            old = standing(arrangement, now, (), self.key, keys)[list(arrangement.order)]
            diffs = np.repeat(np.array([1, -1]), [new.shape[1], old.shape[1]])
            new = np.concatenate([new, old], axis=1)  # what stays as it is cancels out in the inbox
        return inbox_rows(list(new), self.time, diffs) if new.shape[1] else None

    def _after_events(self, files: Files, shard: int, arrangement: Arrangement, now: int) -> np.ndarray | None:
        """The same for events."""
        found = Told.unpacked(_read(files, self.files.get(shard, []), arrangement.cols + EXTRA)).in_order()
        if not len(found.counts):
            return None
        width = len(self.key)
        new, settled, taken = outcome(found.codes, found.counts, width)
        keys = np.ascontiguousarray(found.codes[:width, last_of_each(found.codes[:width])])
        old = standing(arrangement, now, (), self.key, keys)[list(arrangement.order)]
        gone = np.isin(records(old[:width]), records(settled)) | np.isin(records(old), records(taken))
        rows = np.concatenate([new, old[:, gone]], axis=1)
        diffs = np.repeat(np.array([1, -1]), [new.shape[1], int(gone.sum())])
        return inbox_rows(list(rows), self.time, diffs) if rows.shape[1] else None


# on the driver


def code(frame: DataFrame, fitting: Fitting, place: str, how: str, target: Target) -> Coded | None:
    """Code a DataFrame's rows for a table; None if they have to come to the driver."""
    arrangement = target.arrangement
    codec = fitting.codec
    on_one = arrangement.operator.spread == ON_ONE
    order = Order(
        target.files.root, fitting.label, codec.names, codec.types, fitting.exact, place, arrangement.order,
        1 if on_one else target.shards, fitting.shape if how == "changes" else None,
    )  # fmt: skip
    try:
        answers = frame.mapInArrow(functools.partial(code_partition, order), "part binary").collect()
    except Exception as error:
        raise unreadable(f"source {fitting.label!r}: {place}", error) from error
    parts: list[Part] = sorted((pickle.loads(bytes(row[0])) for row in answers), key=lambda part: part.number)
    coded = Coded(target.files, target.table, arrangement.operator.number, target.key, how)
    for part in parts:
        coded.rows += part.rows
        coded.words += part.rows * (arrangement.cols + 2)
        coded.bad += part.bad
        for shard, name in part.files:
            coded.files.setdefault(shard, []).append(name)
    try:
        _learn(target.files, codec.interner, parts)
    except EverviewError as error:
        coded.discard()
        if error.code != "E_CONFLICT":
            raise
        return None
    return coded


@dataclass(frozen=True)
class Target:
    """The table that rows are coded for."""

    files: Files
    table: int
    arrangement: Arrangement
    key: tuple[int, ...]
    shards: int


def _learn(files: Files, interner: Interner, parts: Iterable[Part]) -> None:
    """Take the tasks' texts into the dictionary."""
    for part in parts:
        if part.failure is not None:
            raise part.failure
        data = part.texts
        if isinstance(data, str):
            name = f"{FOLDER}/{data}"
            data = files.read(name)
            files.delete(name)
        found = bytes_table(data)
        if found is not None:
            interner.load(found)


# in tasks


def code_partition(order: Order, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """For `mapInArrow`: code a partition's rows; the answer is one row."""
    from pyspark import TaskContext

    context = TaskContext.get()
    part = Part(context.partitionId() if context is not None else 0)
    try:
        _Coder(order, part).run(batches)
    except EverviewError as error:
        part.failure = error
    yield pa.RecordBatch.from_pydict({"part": [pickle.dumps(part)]})


class _Coder:
    """Codes rows and writes them down, a part of the partition at a time."""

    def __init__(self, order: Order, part: Part) -> None:
        self._order = order
        self._part = part
        self._files = open_files(order.root)
        self._fitting = Fitting(order.label, Codec(order.types, order.names, Interner()), exact=order.exact)
        self._held: dict[int, list[np.ndarray]] = {}
        self._words = 0

    def run(self, batches: Iterable[pa.RecordBatch]) -> None:
        waiting: list[pa.RecordBatch] = []
        for batch in batches:
            waiting.append(batch)
            if sum(len(b) for b in waiting) >= ROWS:
                self._take(waiting)
                waiting = []
        if waiting:
            self._take(waiting)
        self._flush()
        texts = table_bytes(self._fitting.codec.interner.export())
        self._part.texts = texts if len(texts) <= INLINE_BYTES else self._write("texts", [texts])

    def _take(self, batches: list[pa.RecordBatch]) -> None:
        ordered = self._ordered(pa.Table.from_batches(batches))
        self._part.rows += ordered.shape[1]
        owner = np.zeros(ordered.shape[1], dtype=np.int64)
        if self._order.shards > 1:
            exchange.shard_of(np.ascontiguousarray(ordered[0]), self._order.shards, owner)
        for shard in np.flatnonzero(np.bincount(owner)).tolist():
            self._held.setdefault(shard, []).append(ordered[:, owner == shard])
        self._words += ordered.size
        if self._words >= FLUSH_WORDS:
            self._flush()

    def _ordered(self, rows: pa.Table) -> np.ndarray:
        """Codes in the index's order of columns; of events also what they say."""
        order, bad = self._order, self._part.bad
        if order.shape is not None:
            return told(self._fitting, order.shape, rows, order.place, bad).packed(order.columns)
        return self._fitting.encode(rows, order.place, bad)[0][list(order.columns)]

    def _flush(self) -> None:
        for shard, held in self._held.items():
            rows = np.ascontiguousarray(np.concatenate(held, axis=1))
            self._part.files.append((shard, self._write(str(shard), [rows.data])))
        self._held, self._words = {}, 0

    def _write(self, what: str, data: list[Any]) -> str:
        """Write a file that need not outlive the step, under a name that no other attempt has."""
        name = f"{what}-{secrets.token_hex(12)}"
        self._files.write(f"{FOLDER}/{name}", data, lasting=False)
        return name


def _read(files: Files, names: Iterable[str], cols: int) -> np.ndarray:
    """The rows of some files, as columns in the index's order."""
    parts = [np.frombuffer(files.map(f"{FOLDER}/{name}"), dtype=np.int64).reshape(cols, -1) for name in names]
    return np.concatenate(parts, axis=1) if parts else np.empty((cols, 0), dtype=np.int64)
