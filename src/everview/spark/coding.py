"""Rows coded where they are: a large DataFrame's rows go from Spark's tasks to the shards without seeing the driver.

A coding task takes its partition's record batches, makes codes of them and writes, for each shard, files of the rows
that are the shard's. That needs no agreement: ids of texts are made from the texts (`everview.codes.interner`), and a
row's shard from its first column. What comes back to the driver is small: names of files, new dictionary entries, bad
records.

The step that follows names the files in its job, and each shard reads its own. An upsert is finished there, too: which
rows stand under the new rows' keys, and what differs from a snapshot, a shard knows by itself, so the driver needs no
copy of the table. So does a change feed: all events of a key meet on one shard, which puts them in the order of their
commits and sees what they leave. Without a key events are counted. If more of a row is taken away than there is, the
step fails, and the shard says which rows those are (`Absent`); the feed reports them, or sets them aside and runs the
step again without them.

Dictionaries may disagree if two texts share a hash (`E_CONFLICT`, nearly impossible). Then the rows come to the driver
after all, which has the one dictionary that counts.
"""

from __future__ import annotations

import functools
import pickle
import secrets
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from everview.clock import Afar, values_of
from everview.codes.codec import Codec
from everview.codes.interner import Interner
from everview.dataflow.graph import ABSENT_HINT
from everview.dataflow.operators import Arrangement
from everview.dataflow.spread import ON_ONE
from everview.errors import EverviewError, InputError
from everview.expr.nodes import Expr
from everview.io.changes import Envelope
from everview.io.events import EXTRA, Told, outcome, told
from everview.io.fitting import Fitting
from everview.io.source import Bad
from everview.kernels import exchange
from everview.sharded import inbox_rows
from everview.snapshot import consolidated
from everview.spark.frames import unreadable
from everview.spark.job import bytes_table, table_bytes
from everview.standing import Counted, last_of_each, records, standing, stored
from everview.store.files import Files, open_files
from everview.types import NULL, DataType

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from everview.table import Table

FOLDER = "rows"
"""Where coded rows lie until their step is done; whatever is there when a session opens is of the dead."""

ROWS = 1 << 16
"""Rows that are coded at a time."""

FLUSH_WORDS = 1 << 22
"""Words of codes that a task holds before it writes them."""

Row = tuple[int, ...]

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
    key: tuple[int, ...] = ()
    shape: Envelope | None = None
    """how records say what happened, if they are changes"""
    until: Expr | None = None
    """when a row is due, if the table says so"""
    now: int = 0


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
    cleared: bool = False
    """whether the table was emptied; then the files hold what came after"""
    late: int = 0
    moments: bytes | str = b""
    """when rows are due, or the name of a file of that"""
    failure: EverviewError | None = None


class Absent(InputError):
    """Events take away rows that are not there."""

    table: int
    """the table's node"""
    rows: dict[Row, int]
    """codes in the index's order, and how often too often"""

    @classmethod
    def of(cls, table: int, rows: dict[Row, int]) -> Absent:
        """Without a text, for which one needs the dictionary."""
        error = cls("E_ABSENT", "a row was deleted that is not there", ABSENT_HINT)
        error.table, error.rows = table, rows
        return error


@dataclass
class Coded(Afar):
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
    exact: bool = True
    """whether events tell rows that go whole, not by their keys"""
    cleared: bool = False
    """whether the table is emptied first"""
    excused: dict[Row, int] = field(default_factory=dict)
    """rows that were taken away too often, in the index's order: let them be there"""
    order: tuple[int, ...] = ()
    """the index's order of columns"""
    until: Expr | None = None
    more: tuple[int, ...] = ()
    """codes that follow those of every row in the files"""

    def dated(self, table: Table, until: int) -> Coded:
        operator = table._arrangement.operator.number
        return replace(self, table=table._id, operator=operator, order=table._arrangement.order, more=(until,))

    def take(self, part: Part, cols: int) -> None:
        """Add what a task made; tasks come in the order of their rows."""
        if part.cleared:
            self.discard()
            self.files, self.rows, self.words, self.cleared = {}, 1, 0, True
        self.rows += part.rows
        self.words += part.rows * (cols + 2)
        self.bad += part.bad
        self.late += part.late
        for shard, name in part.files:
            self.files.setdefault(shard, []).append(name)

    def excuse(self, error: InputError) -> dict[Row, int]:
        """If a step failed because rows were taken away too often, go on without; gives those rows."""
        if not isinstance(error, Absent) or error.table != self.table:
            return {}
        for row, n in error.rows.items():
            self.excused[row] = self.excused.get(row, 0) + n
        return {in_table_order(row, self.order): n for row, n in error.rows.items()}

    def discard(self) -> None:
        """Delete the files."""
        for names in self.files.values():
            for name in names:
                self.store.delete(f"{FOLDER}/{name}")

    def at(self, time: int) -> Input:
        """These rows as a step's input at a time."""
        return Input(
            self.table, self.operator, self.key, self.how, time, self.files, self.words,
            self.exact, self.cleared, self.excused, self.until, self.now, self.more,
        )  # fmt: skip


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
    exact: bool = True
    cleared: bool = False
    excused: dict[Row, int] = field(default_factory=dict)
    until: Expr | None = None
    moment: int = 0
    more: tuple[int, ...] = ()

    def changes(
        self, files: Files, shard: int, arrangement: Arrangement, now: int, interner: Interner
    ) -> np.ndarray | None:
        """What they change on a shard that is at the time `now`, as its inbox takes it."""
        rows, diffs = self._in_time(self._changes(files, shard, arrangement, now), arrangement, interner)
        return inbox_rows(list(rows), self.time, diffs) if len(diffs) else None

    def _in_time(self, changes: Counted, arrangement: Arrangement, interner: Interner) -> Counted:
        """Without changes that mean nothing, because their rows' time was over before they came. What stands under a
        key, a shard has seen itself, so its going is meant.
        """
        rows, diffs = changes
        if self.until is None or not len(diffs):
            return changes
        back = [arrangement.order.index(c) for c in range(arrangement.cols - len(self.more))]
        until = values_of([self.until], np.ascontiguousarray(rows[back]), interner)[0]
        kept = (until > self.moment) | (until == NULL)
        if self.key:
            kept |= diffs < 0
        return rows[:, kept], diffs[kept]

    def _changes(self, files: Files, shard: int, arrangement: Arrangement, now: int) -> Counted:
        if self.how == "changes":
            events = Told.unpacked(_read(files, self.files.get(shard, []), arrangement.cols + EXTRA))
            told = self._by_key if self.key else self._counted
            return told(events, arrangement, now)
        new = _read(files, self.files.get(shard, []), arrangement.cols - len(self.more))
        if self.more:
            new = np.concatenate([new, np.repeat(np.array(self.more)[:, None], new.shape[1], axis=1)])
        if self.key and new.shape[1]:
            new = new[:, last_of_each(new[: len(self.key)])]
        diffs = np.ones(new.shape[1], dtype=np.int64)
        if self.how != "append":
            keys = np.ascontiguousarray(new[: len(self.key)]) if self.how == "upsert" else None
            old = standing(arrangement, now, (), self.key, keys)[list(arrangement.order)]
            diffs = np.repeat(np.array([1, -1]), [new.shape[1], old.shape[1]])
            new = np.concatenate([new, old], axis=1)  # what stays as it is cancels out in the inbox
        return new, diffs

    def _by_key(self, events: Told, arrangement: Arrangement, now: int) -> Counted:
        """What events leave under their keys."""
        found, width = events.in_order(), len(self.key)
        if not len(found.counts):
            return self._emptied(found.codes, found.counts, arrangement, now)
        new, settled, taken = outcome(found.codes, found.counts, width, self.exact)
        if self.cleared:
            return self._emptied(new, np.ones(new.shape[1], dtype=np.int64), arrangement, now)
        keys = np.ascontiguousarray(found.codes[:width, last_of_each(found.codes[:width])])
        old = standing(arrangement, now, (), self.key, keys)[list(arrangement.order)]
        old = old[:, np.isin(records(old[:width]), records(settled)) | np.isin(records(old), records(taken))]
        return np.concatenate([new, old], axis=1), np.repeat(np.array([1, -1]), [new.shape[1], old.shape[1]])

    def _counted(self, events: Told, arrangement: Arrangement, now: int) -> Counted:
        """What events come to without a key: as often as a row came, less as often as it went."""
        rows, diffs = events.codes, events.counts
        if self.excused and len(diffs):
            more = np.array(list(self.excused), dtype=np.int64).T
            mine = np.isin(records(more), records(rows))
            rows = np.concatenate([rows, more[:, mine]], axis=1)
            diffs = np.concatenate([diffs, np.array(list(self.excused.values()))[mine]])
        return self._emptied(rows, diffs, arrangement, now)

    def _emptied(self, rows: np.ndarray, diffs: np.ndarray, arrangement: Arrangement, now: int) -> Counted:
        """Changes of a table that is emptied first, if it is."""
        if not self.cleared:
            return rows, diffs
        old = standing(arrangement, now, (), (), None)[list(arrangement.order)]
        return np.concatenate([rows, old], axis=1), np.concatenate([diffs, np.full(old.shape[1], -1)])

    def absent(
        self, files: Files, shard: int, arrangement: Arrangement, now: int, interner: Interner
    ) -> dict[Row, int]:
        """Rows that events without a key take away from a shard more often than they are there, and how much more."""
        if self.how != "changes" or self.key:
            return {}
        events = Told.unpacked(_read(files, self.files.get(shard, []), arrangement.cols + EXTRA))
        told = self._in_time(self._counted(events, arrangement, now), arrangement, interner)
        rows, diffs = consolidated(*told)
        rows, diffs = np.ascontiguousarray(rows[:, diffs < 0]), diffs[diffs < 0]
        if not len(diffs):
            return {}
        there, counts = stored(arrangement, now, arrangement.order, rows)
        both = np.concatenate([rows, there[list(arrangement.order)]], axis=1), np.concatenate([diffs, counts])
        rows, diffs = consolidated(*both)
        return {tuple(row): -n for row, n in zip(rows.T.tolist(), diffs.tolist(), strict=True) if n < 0}


# on the driver


def code(frame: DataFrame, fitting: Fitting, place: str, how: str, target: Target) -> Coded | None:
    """Code a DataFrame's rows for a table; None if they have to come to the driver."""
    arrangement = target.arrangement
    codec = fitting.codec
    on_one = arrangement.operator.spread == ON_ONE
    order = Order(
        target.files.root, fitting.label, codec.names, codec.types, fitting.exact, place, arrangement.order,
        1 if on_one else target.shards, fitting.key, fitting.shape if how == "changes" else None,
        target.until, target.now,
    )  # fmt: skip
    try:
        answers = frame.mapInArrow(functools.partial(code_partition, order), "part binary").collect()
    except Exception as error:
        raise unreadable(f"source {fitting.label!r}: {place}", error) from error
    parts: list[Part] = sorted((pickle.loads(bytes(row[0])) for row in answers), key=lambda part: part.number)
    coded = Coded(
        target.files, target.table, arrangement.operator.number, target.key, how,
        order=arrangement.order, until=target.until, now=target.now,
    )  # fmt: skip
    if order.shape is not None:
        coded.exact = order.shape.exact
    for part in parts:
        coded.take(part, arrangement.cols)
    try:
        _learn(target.files, codec.interner, parts)
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
    """The table that rows are coded for."""

    files: Files
    table: int
    arrangement: Arrangement
    key: tuple[int, ...]
    shards: int
    until: Expr | None = None
    now: int = 0


def _learn(files: Files, interner: Interner, parts: Iterable[Part]) -> None:
    """Take the tasks' texts into the dictionary."""
    for part in parts:
        if part.failure is not None:
            raise part.failure
        found = bytes_table(_back(files, part.texts))
        if found is not None:
            interner.load(found)


def _back(files: Files, data: bytes | str) -> bytes:
    """What a task gave back, which may be in a file."""
    if isinstance(data, bytes):
        return data
    name = f"{FOLDER}/{data}"
    found = files.read(name)
    files.delete(name)
    return found


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
        codec = Codec(order.types, order.names, Interner())
        self._fitting = Fitting(order.label, codec, exact=order.exact, key=order.key)
        self._held: dict[int, list[np.ndarray]] = {}
        self._words = 0
        self._moments: list[np.ndarray] = []

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
        self._part.texts = self._given_back("texts", table_bytes(self._fitting.codec.interner.export()))
        if self._moments:
            self._part.moments = self._given_back("moments", np.unique(np.concatenate(self._moments)).tobytes())

    def _given_back(self, what: str, data: bytes) -> bytes | str:
        return data if len(data) <= INLINE_BYTES else self._write(what, [data])

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
            events = told(self._fitting, order.shape, rows, order.place, bad)
            if events.cleared:
                self._forget()
            self._note_moments(events.codes[:, events.counts > 0])
            return events.packed(order.columns)
        codes = self._fitting.encode(rows, order.place, bad)[0]
        self._note_moments(codes)
        return codes[list(order.columns)]

    def _note_moments(self, codes: np.ndarray) -> None:
        """Remember when rows are due, and count those that were before they came."""
        if self._order.until is not None and codes.shape[1]:
            until = values_of([self._order.until], np.ascontiguousarray(codes), self._fitting.codec.interner)[0]
            until = until[until != NULL]
            self._part.late += int((until <= self._order.now).sum())
            self._moments.append(np.unique(until[until > self._order.now]))

    def _forget(self) -> None:
        """The table was emptied: what came before does not count."""
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
        """Write a file that need not outlive the step, under a name that no other attempt has."""
        name = f"{what}-{secrets.token_hex(12)}"
        self._files.write(f"{FOLDER}/{name}", data, lasting=False)
        return name


def in_table_order(row: Row, order: tuple[int, ...]) -> Row:
    """A row's codes in the table's order of columns, from those in an index's.

    >>> in_table_order((7, 8, 9), (2, 0, 1))
    (8, 9, 7)
    """
    return tuple(row[order.index(c)] for c in range(len(row)))


def _read(files: Files, names: Iterable[str], cols: int) -> np.ndarray:
    """The rows of some files, as columns in the index's order."""
    parts = [np.frombuffer(files.map(f"{FOLDER}/{name}"), dtype=np.int64).reshape(cols, -1) for name in names]
    return np.concatenate(parts, axis=1) if parts else np.empty((cols, 0), dtype=np.int64)
