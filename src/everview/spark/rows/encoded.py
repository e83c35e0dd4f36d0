"""Encoded rows: the input files of a step, by shard, and the changes that a shard derives from them.

The files are written by `everview.spark.rows.encode`. Upserts are completed on the shards: a shard knows the current
rows under the new keys, and the difference from a snapshot, so the driver needs no copy of the table. The same holds
for change feeds: all events of a key reach one shard, which orders them by commit and computes their effect. Without a
key, events are counted. If more copies of a row are deleted than exist, the step fails and the shard reports the rows
(`AbsentRows`); the feed then fails, or sets them aside and retries the step without them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from everview.codes.interner import Interner
from everview.dataflow.operators import Arrangement
from everview.errors import EverviewError, InputError
from everview.expr.nodes import Expr
from everview.io.events import EXTRA, Told, applied
from everview.io.source import Bad
from everview.language.relation import relation_of
from everview.runtime.base import AbsentRows, RemoteRows, in_table_order
from everview.runtime.sharded import batcher_rows
from everview.session.changes.current_rows import Counted, current, last_of_each, records, stored
from everview.session.clock.follower import values_of
from everview.session.reads.snapshot import consolidated
from everview.store.files import Files
from everview.types import NULL

if TYPE_CHECKING:
    from everview.session.table import Table

FOLDER = "rows"
"""Folder of encoded rows until their step is done; whatever a session finds there on opening is garbage."""

Row = tuple[int, ...]


@dataclass
class Part:
    """The result of one encoding task."""

    number: int
    files: list[tuple[int, str]] = field(default_factory=list)
    """(shard, name), in order"""
    rows: int = 0
    texts: bytes | str = b""
    """new entries of the dictionary, or the name of a file of them"""
    bad: list[Bad] = field(default_factory=list)
    cleared: bool = False
    """whether the table was emptied; the files then hold what came after"""
    late: int = 0
    moments: bytes | str = b""
    """when rows expire, or the name of a file with that"""
    failure: EverviewError | None = None
    samples: list[np.ndarray] = field(default_factory=list)
    """a sample of the encoded rows, columns in the table's order"""


@dataclass
class EncodedRows(RemoteRows):
    """New rows of a table in files, by shard."""

    store: Files
    table: int
    """the table's node"""
    operator: int
    key: tuple[int, ...]
    how: str
    """append, upsert, changes or snapshot"""
    files: dict[int, list[str]] = field(default_factory=dict)
    shards: int = 0
    """the number of shards when the rows were encoded"""
    words: int = 0
    unordered: bool = False
    """whether a deletion may follow the insertion that replaces its row"""
    cleared: bool = False
    """whether the table is emptied first"""
    excused: dict[Row, int] = field(default_factory=dict)
    """rows deleted too often, in the index's column order: treated as present"""
    order: tuple[int, ...] = ()
    """the index's order of columns"""
    until: Expr | None = None
    more: tuple[int, ...] = ()
    """codes appended to every row of the files"""

    def dated(self, table: Table, until: int) -> EncodedRows:
        operator = relation_of(table).arrangement.operator.number
        return replace(
            self,
            table=relation_of(table).id,
            operator=operator,
            order=relation_of(table).arrangement.order,
            more=(until,),
        )

    def take(self, part: Part, cols: int) -> None:
        """Add the result of a task; tasks are added in the order of their rows."""
        if part.cleared:
            self.discard()
            self.files, self.rows, self.words, self.cleared = {}, 1, 0, True
        self.rows += part.rows
        self.words += part.rows * (cols + 2)
        self.bad += part.bad
        self.late += part.late
        self.samples += part.samples
        for shard, name in part.files:
            self.files.setdefault(shard, []).append(name)

    def excuse(self, error: InputError) -> dict[Row, int]:
        """If a step failed because of excess deletions, exclude those rows and return them."""
        if not isinstance(error, AbsentRows) or error.table != self.table:
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
        """These rows as the input of a step at a time."""
        return Input(
            self.table, self.operator, self.key, self.how, time, self.files, self.words,
            self.unordered, self.cleared, self.excused, self.until, self.now, self.more, self.reject,
        )  # fmt: skip


@dataclass(frozen=True)
class Input:
    """Encoded rows in a job."""

    table: int
    operator: int
    key: tuple[int, ...]
    how: str
    time: int
    files: dict[int, list[str]]
    words: int
    unordered: bool = False
    cleared: bool = False
    excused: dict[Row, int] = field(default_factory=dict)
    until: Expr | None = None
    moment: int = 0
    more: tuple[int, ...] = ()
    reject: bool = False

    def changes(
        self, files: Files, shard: int, arrangement: Arrangement, now: int, interner: Interner
    ) -> tuple[np.ndarray | None, dict[Row, int]]:
        """The changes on a shard at time `now`, as batcher input, and the deletions by key that matched nothing and
        were not excused.
        """
        missing: dict[Row, int] = {}
        rows, diffs = self._in_time(self._changes(files, shard, arrangement, now, missing), arrangement, interner)
        return batcher_rows(list(rows), self.time, diffs) if len(diffs) else None, missing

    def _in_time(self, changes: Counted, arrangement: Arrangement, interner: Interner) -> Counted:
        """Drop changes without effect because their rows had expired on arrival. Deletions of current rows under a key
        are kept.
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

    def _changes(
        self, files: Files, shard: int, arrangement: Arrangement, now: int, missing: dict[Row, int]
    ) -> Counted:
        if self.how == "changes":
            events = Told.unpacked(_read(files, self.files.get(shard, []), arrangement.cols + EXTRA))
            if self.key:
                return self._by_key(events, arrangement, now, missing)
            return self._counted(events, arrangement, now)
        new = _read(files, self.files.get(shard, []), arrangement.cols - len(self.more))
        if self.more:
            new = np.concatenate([new, np.repeat(np.array(self.more)[:, None], new.shape[1], axis=1)])
        if self.key and new.shape[1]:
            new = new[:, last_of_each(new[: len(self.key)])]
        diffs = np.ones(new.shape[1], dtype=np.int64)
        if self.how != "append":
            keys = np.ascontiguousarray(new[: len(self.key)]) if self.how == "upsert" else None
            old = current(arrangement, now, (), self.key, keys)[list(arrangement.order)]
            diffs = np.repeat(np.array([1, -1]), [new.shape[1], old.shape[1]])
            new = np.concatenate([new, old], axis=1)  # what stays as it is cancels out in the inbox
        return new, diffs

    def _by_key(self, events: Told, arrangement: Arrangement, now: int, missing: dict[Row, int]) -> Counted:
        """The effect of events on the current rows under their keys."""
        found, width = events.in_order(), len(self.key)
        old = found.codes[:, :0]
        if len(found.counts) and not self.cleared:
            keys = np.ascontiguousarray(found.codes[:width, last_of_each(found.codes[:width])])
            old = current(arrangement, now, (), self.key, keys)[list(arrangement.order)]
        done = applied(found.codes, found.counts, old, width, self.unordered)
        for row in map(tuple, done.missing.T.tolist()):
            missing[row] = missing.get(row, 0) + 1
        for row, n in self.excused.items():
            if row in missing:
                missing[row] -= n
                if missing[row] <= 0:
                    del missing[row]
        changes = np.repeat(np.array([1, -1]), [done.new.shape[1], done.gone.shape[1]])
        return self._emptied(np.concatenate([done.new, done.gone], axis=1), changes, arrangement, now)

    def _counted(self, events: Told, arrangement: Arrangement, now: int) -> Counted:
        """The effect of events without a key: insertions minus deletions of each row."""
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
        old = current(arrangement, now, (), (), None)[list(arrangement.order)]
        return np.concatenate([rows, old], axis=1), np.concatenate([diffs, np.full(old.shape[1], -1)])

    def absent(
        self, files: Files, shard: int, arrangement: Arrangement, now: int, interner: Interner
    ) -> dict[Row, int]:
        """Rows that events without a key delete more often than they exist on a shard, and the excess."""
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


def _read(files: Files, names: Iterable[str], cols: int) -> np.ndarray:
    """The rows of some files, as columns in the index's order."""
    parts = [np.frombuffer(files.map(f"{FOLDER}/{name}"), dtype=np.int64).reshape(cols, -1) for name in names]
    return np.concatenate(parts, axis=1) if parts else np.empty((cols, 0), dtype=np.int64)
