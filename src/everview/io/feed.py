"""A feed: a source tied to a table, one transaction per chunk.

The transaction holds the chunk's rows, its dead letters and its marks, so all of them are there after a crash or none
is. Work is done on codes (int64 columns), never row by row, unless something in a chunk is bad: then its records are
looked at one by one to part the good from the bad.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pyarrow as pa

from everview.codes.declare import arrow_field
from everview.codes.values import encode_value
from everview.errors import EverviewError, InputError, did_you_mean
from everview.io import changes
from everview.io.source import Bad, Chunk, Source
from everview.io.texts import value_of_json
from everview.snapshot import consolidated
from everview.types import STR, DataType

if TYPE_CHECKING:
    from everview.session import Session
    from everview.table import Table

Mode = Literal["append", "upsert", "changes", "snapshot"]
MODES: tuple[Mode, ...] = ("append", "upsert", "changes", "snapshot")

Policy = Literal["fail", "quarantine"]

DEAD_LETTERS: dict[str, DataType] = {"place": STR, "reason": STR, "record": STR}
"""Columns of a table of refused records."""

Codes = tuple[int, ...]


@dataclass(frozen=True)
class Rules:
    """How a source's records become changes of its table."""

    mode: Mode
    shape: changes.Envelope | None
    exact: bool
    """Whether columns that the table has not are refused: yes if its columns were told from the source"""
    policy: Policy
    limit: int | None
    every: float


class Feed:
    """A source tied to a table; made by `db.source`."""

    def __init__(self, session: Session, table: Table, source: Source, rules: Rules, dead: Table | None) -> None:
        self.session = session
        self.table = table
        self.source = source
        self.rules = rules
        self.dead = dead
        self.name = table._label
        self.columns: dict[str, DataType] = {c.name: c.type for c in table._columns}
        self.rows = 0
        self.rejected = 0
        self._ready = False
        self._due = 0.0
        self._idle = False

    # running

    def begin(self, follow: bool, wake: Callable[[], None] = lambda: None) -> None:
        """A run begins."""
        self._open()
        self._due, self._idle = 0.0, False
        self.source.start(follow, wake)

    def end(self) -> None:
        """The run ends."""
        self.source.stop()

    @property
    def caught_up(self) -> bool:
        """Whether the source had nothing more when it was last asked."""
        return self._idle and self.source.caught_up

    def step(self) -> bool:
        """Take one chunk, if there is one, in one transaction."""
        now = time.monotonic()
        if now < self._due:
            return False
        if not self._ready:
            self._open()
        chunk = self.source.poll(self.rules.limit)
        self._idle = chunk is None or self.rules.mode == "snapshot"
        if self.rules.mode == "snapshot":
            self._due = now + self.rules.every
        if chunk is None:
            return False
        self._take(chunk)
        return True

    def _open(self) -> None:
        if not self._ready:
            prefix = f"source/{self.name}/"
            marks = {k[len(prefix) :]: v for k, v in self.session._marks.items() if k.startswith(prefix)}
            shape = self.rules.shape
            wanted = self.columns if shape is None else shape.wanted(self.columns)
            self.source.open(marks, wanted, self.rules.mode == "snapshot")
            self._ready = True

    def _take(self, chunk: Chunk) -> None:
        marks = {f"source/{self.name}/{name}": value for name, value in chunk.marks.items()}
        try:
            self._commit(chunk, marks)
        except BaseException as error:
            self._ready = False
            # subscribers and sinks run after the commit: their failure does not undo it
            if marks and marks.items() <= self.session._marks.items():
                self.source.committed(chunk)
            else:
                self.source.failed(error)
            raise
        self.source.committed(chunk)

    def _commit(self, chunk: Chunk, marks: Mapping[str, str]) -> None:
        bad = list(chunk.bad)
        work = self._prepare(chunk, bad)
        if bad and self.rules.policy == "fail":
            raise self._refusal(chunk, bad)
        with self.session.transaction():
            taken = work.stage(self, bad)
            if bad:
                assert self.dead is not None
                self.dead.insert([(b.place, b.reason, b.record) for b in bad])
            for name, value in marks.items():
                self.session._mark(name, value)
        self.rows += taken
        self.rejected += len(bad)

    def _refusal(self, chunk: Chunk, bad: list[Bad]) -> InputError:
        first = bad[0]
        more = f" (and {len(bad) - 1} more)" if len(bad) > 1 else ""
        record = first.record if len(first.record) <= 200 else first.record[:197] + "..."
        return InputError(
            "E_RECORD",
            f"source {self.name!r}: {first.place}: {first.reason}{more}" + (f"\n  record: {record}" if record else ""),
            'correct it, or set bad records aside with db.source(..., bad="quarantine")',
        )

    # records to codes

    def _prepare(self, chunk: Chunk, bad: list[Bad]) -> Work:
        shape = self.rules.shape
        if shape is not None:
            return self._events(chunk, shape, bad)
        codes, _ = self._encode(chunk.rows, chunk.place, bad)
        if chunk.snapshot:
            return Snapshot(codes)
        return Upserts(codes) if self.rules.mode == "upsert" else Additions(codes)

    def _encode(self, rows: pa.Table | list[Any], place: str, bad: list[Bad]) -> tuple[np.ndarray, np.ndarray]:
        """Codes of the rows that fit, and their places among the given."""
        codec = self.table._codec
        try:
            codes = codec.encode(self._fitted(rows))
            return codes, np.arange(codes.shape[1])
        except InputError:
            pass
        good: list[Codes] = []
        kept: list[int] = []
        for i, row in enumerate(rows.to_pylist() if isinstance(rows, pa.Table) else rows):
            try:
                good.append(codec.encode_row(self._fitted_row(row)))
                kept.append(i)
            except InputError as error:
                bad.append(Bad(place, _reason(error), _text(row)))
        return _columns(good, len(self.columns)), np.array(kept, dtype=np.intp)

    def _fitted(self, rows: pa.Table | list[Any]) -> pa.Table | list[Any]:
        """A table's columns as ours: nullable ones may be missing, others only if they were not asked for."""
        if not isinstance(rows, pa.Table):
            return rows
        extra = [n for n in rows.column_names if n not in self.columns]
        if extra and self.rules.exact:
            raise self._unknown(extra[0])
        arrays = {}
        for name, declared in self.columns.items():
            if name in rows.column_names:
                arrays[name] = rows[name]
            elif declared.nullable:
                arrays[name] = pa.nulls(rows.num_rows, arrow_field(name, declared).type)
        return pa.table(arrays) if arrays else rows

    def _fitted_row(self, row: Any) -> Any:
        if not isinstance(row, Mapping):
            return row
        for name in row:
            if name not in self.columns and self.rules.exact and row[name] is not None:
                raise self._unknown(name)
        return {
            name: value_of_json(row.get(name), declared)
            for name, declared in self.columns.items()
            if name in row or declared.nullable
        }

    def _unknown(self, name: str) -> InputError:
        hint = did_you_mean(name, self.columns)
        return InputError("E_COLUMN", f"there is no column {name!r} in table {self.name!r}", hint)

    # change feeds

    def _events(self, chunk: Chunk, shape: changes.Envelope, bad: list[Bad]) -> Work:
        if shape.shape == "debezium":
            return self._debezium(chunk, bad)
        rows = chunk.rows
        if isinstance(rows, pa.Table):
            said = rows[shape.column].to_pylist()
            versions = rows[changes.VERSION].to_pylist() if changes.VERSION in rows.column_names else None
            rows = rows.drop_columns([c for c in shape.extra if c in rows.column_names])
        else:
            said = [row.get(shape.column) for row in rows]
            versions = [row.get(changes.VERSION) for row in rows]
            rows = [{k: v for k, v in row.items() if k not in shape.extra} for row in rows]
        counts, refused = changes.signs(shape, said)
        if refused:
            shown = rows.to_pylist() if isinstance(rows, pa.Table) else rows
            bad.extend(Bad(chunk.place, why, _text({**shown[i], shape.column: said[i]})) for i, why in refused.items())
        codes, kept = self._encode(rows, chunk.place, bad)
        counts = counts[kept]
        order = changes.in_commit_order(counts, None if versions is None else [versions[i] for i in kept])
        order = order[counts[order] != 0]
        found = zip(codes[:, order].T.tolist(), counts[order].tolist(), strict=True)
        return Events([(tuple(row), n) for row, n in found], exact=True)

    def _debezium(self, chunk: Chunk, bad: list[Bad]) -> Work:
        events: list[tuple[Codes | None, int]] = []
        cleared = False
        for record in chunk.rows.to_pylist() if isinstance(chunk.rows, pa.Table) else chunk.rows:
            try:
                found = changes.debezium(record, self.columns, bool(self.table._key))
                coded = [(None, 0) if row is None else (self._code(row, sign), sign) for row, sign in found]
            except (InputError, ValueError) as error:
                bad.append(Bad(chunk.place, _reason(error), _text(record)))
                continue
            if coded and coded[-1][0] is None:
                events, cleared = [], True
            else:
                events += coded
        return Events([(row, n) for row, n in events if row is not None], False, cleared)

    def _code(self, row: dict[str, Any], sign: int) -> Codes:
        """Codes of a row. Of one that goes, a database may send the key alone, and the key is all that is needed."""
        codec, key = self.table._codec, self.table._key
        if sign > 0 or not key:
            return codec.encode_row(row)
        names = codec.names
        coded = {c: encode_value(codec.types[c], row[names[c]], codec.interner) for c in key}
        return tuple(coded.get(c, 0) for c in range(len(names)))


# What a chunk does to its table.


class Work:
    """Changes of a table that are ready to be staged."""

    def stage(self, feed: Feed, bad: list[Bad]) -> int:
        """Stage them in the transaction under way; how many records they were."""
        raise NotImplementedError


@dataclass
class Additions(Work):
    """Rows that are added."""

    codes: np.ndarray

    def stage(self, feed: Feed, bad: list[Bad]) -> int:
        if self.codes.shape[1]:
            feed.session._stage(feed.table, self.codes, 1)
        return int(self.codes.shape[1])


@dataclass
class Upserts(Work):
    """Rows that replace those with the same key."""

    codes: np.ndarray

    def stage(self, feed: Feed, bad: list[Bad]) -> int:
        if self.codes.shape[1]:
            feed.session._stage_upsert(feed.table, self.codes)
        return int(self.codes.shape[1])


@dataclass
class Snapshot(Work):
    """All rows there are: what differs from those that are known is the change."""

    codes: np.ndarray

    def stage(self, feed: Feed, bad: list[Bad]) -> int:
        codes, key = self.codes, feed.table._key
        if key:
            last = {tuple(k): i for i, k in enumerate(codes[list(key)].T.tolist())}
            codes = np.ascontiguousarray(codes[:, sorted(last.values())])
        known, counts = feed.table._snapshot()._contents()
        rows, diffs = consolidated(
            np.concatenate([codes, known], axis=1), np.concatenate([np.ones(codes.shape[1], np.int64), -counts])
        )
        for sign in (-1, 1):
            times = np.maximum(diffs * sign, 0)
            if times.any():
                feed.session._stage(feed.table, np.ascontiguousarray(np.repeat(rows, times, axis=1)), sign)
        return int(np.abs(diffs).sum())


@dataclass
class Events(Work):
    """Rows that came and went, in order; first the table may be emptied."""

    events: list[tuple[Codes, int]]
    exact: bool
    """Whether a row that goes is told whole; otherwise its key alone counts"""
    cleared: bool = False

    def stage(self, feed: Feed, bad: list[Bad]) -> int:
        if self.cleared:
            feed.session._stage_clear(feed.table)
        if feed.table._key:
            self._by_key(feed)
        else:
            self._counted(feed, bad)
        return len(self.events) + self.cleared

    def _by_key(self, feed: Feed) -> None:
        key = feed.table._key
        keys = list(dict.fromkeys(tuple(row[c] for c in key) for row, _ in self.events))
        old = {tuple(row[c] for c in key): row for row in feed.session._present(feed.table, keys)} if keys else {}
        new: dict[Codes, Codes | None] = {k: old.get(k) for k in keys}
        for row, n in self.events:
            k = tuple(row[c] for c in key)
            if n > 0:
                new[k] = row
            elif not self.exact or new[k] == row:
                new[k] = None
        _stage_rows(feed, [row for k, row in old.items() if new[k] != row], -1)
        _stage_rows(feed, [row for k, row in new.items() if row is not None and old.get(k) != row], 1)

    def _counted(self, feed: Feed, bad: list[Bad]) -> None:
        net: dict[Codes, int] = {}
        for row, n in self.events:
            net[row] = net.get(row, 0) + n
        if feed.rules.policy == "quarantine":
            for row, n in net.items():
                have = 0 if n >= 0 or self.cleared else feed.session._how_often(feed.table, row)
                if have + n < 0:
                    shown = feed.table._codec.decode_row(row)
                    bad += [Bad(feed.source.describe(), "[E_ABSENT] deleted, but not there", _text(shown))] * -(
                        have + n
                    )
                    net[row] = -have
        _stage_rows(feed, [row for row, n in net.items() for _ in range(-n)], -1)
        _stage_rows(feed, [row for row, n in net.items() for _ in range(n)], 1)


def _stage_rows(feed: Feed, rows: Iterable[Codes], sign: int) -> None:
    rows = list(rows)
    if rows:
        feed.session._stage(feed.table, _columns(rows, len(feed.columns)), sign)


def _columns(rows: list[Codes], width: int) -> np.ndarray:
    return np.ascontiguousarray(np.array(rows, dtype=np.int64).reshape(len(rows), width).T)


def _reason(error: Exception) -> str:
    return f"[{error.code}] {error.message}" if isinstance(error, EverviewError) else f"[E_RECORD] {error}"


def _text(record: Any) -> str:
    return json.dumps(record, ensure_ascii=False, default=str)
