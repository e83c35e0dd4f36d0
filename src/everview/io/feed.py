"""A feed: a source connected to a table, one transaction per chunk.

The transaction holds the chunk's rows, its dead letters and its marks, so after a crash all of them are there or none
is. Work is done on codes (int64 columns, see `everview.io.record_encoder`); remote rows (a large DataFrame's) are
encoded where they are, if the session supports it.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from everview.errors import InputError
from everview.io import changes
from everview.io.events import Told, applied, told
from everview.io.record_encoder import Codes, RecordEncoder, columns_of_rows, text_of
from everview.io.source import Bad, Chunk, Distant, Source, checked, here
from everview.language.relation import relation_of
from everview.session.changes.blocks import Transaction
from everview.session.changes.current_rows import last_of_each
from everview.session.changes.transactions import key_of, no_such_key
from everview.session.reads.snapshot import consolidated
from everview.session.remote import encode_remote
from everview.types import STR, DataType

if TYPE_CHECKING:
    from everview.session.core import Core
    from everview.session.table import Table

Mode = Literal["append", "upsert", "changes", "snapshot"]
MODES: tuple[Mode, ...] = ("append", "upsert", "changes", "snapshot")

Policy = Literal["fail", "quarantine"]

Missing = Literal["count", "reject"]
"""The treatment of deletions of missing keys"""

DEAD_LETTERS: dict[str, DataType] = {"place": STR, "reason": STR, "record": STR}
"""Columns of the table of rejected records."""


@dataclass(frozen=True)
class Rules:
    """How a source's records become changes of its table."""

    mode: Mode
    shape: changes.Envelope | None
    exact: bool
    """Whether columns that the table lacks are refused: yes if its columns were inferred from the source"""
    policy: Policy
    missing: Missing
    limit: int | None
    every: float


class Feed:
    """A source connected to a table; created by `db.source`."""

    def __init__(self, core: Core, table: Table, source: Source, rules: Rules, dead: Table | None) -> None:
        self.core = core
        self.table = table
        self.source = source
        self.rules = rules
        self.dead = dead
        self.name = relation_of(table).label
        self.fitting = RecordEncoder(
            relation_of(table).label,
            relation_of(table).codec,
            exact=rules.exact,
            shape=rules.shape,
            key=relation_of(table).key,
        )
        self.columns = self.fitting.columns
        self.rows = 0
        self.rejected = 0
        self.missing = 0
        """deletions of missing keys"""
        self._late = 0
        self._ready = False
        self._due = 0.0
        self._idle = False

    # running

    def begin(self, follow: bool, wake: Callable[[], None] = lambda: None) -> None:
        """Begin a run."""
        self._open()
        self._due, self._idle = 0.0, False
        self.source.start(follow, wake)

    def end(self) -> None:
        """End the run."""
        self.source.stop()

    @property
    def caught_up(self) -> bool:
        """Whether the source had nothing more when last polled."""
        return self._idle and self.source.caught_up

    @property
    def late(self) -> int:
        """Late records: by the table's time to live, or by the source's own rule."""
        return self._late + self.source.dropped

    def step(self) -> bool:
        """Process one chunk, if there is one, in one transaction."""
        now = time.monotonic()
        if now < self._due:
            return False
        if not self._ready:
            self._open()
        chunk = checked(self.source.describe(), self.source.poll(self.rules.limit))
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
            marks = {k[len(prefix) :]: v for k, v in self.core.runtime.offsets.items() if k.startswith(prefix)}
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
            if marks and all(self.core.runtime.offsets.get(name, "") == text for name, text in marks.items()):
                self.source.committed(chunk)
            else:
                self.source.failed(error)
            raise
        self.source.committed(chunk)

    def _commit(self, chunk: Chunk, marks: Mapping[str, str]) -> None:
        bad = list(chunk.bad)
        late = self.core.clock.late(self.table)
        work = self._prepare(chunk, bad)
        try:
            if bad and self.rules.policy == "fail":
                raise self._refusal(chunk, bad)
            taken = self._transact(work, bad, marks)
        finally:
            work.discard()
        self.rows += taken
        self.rejected += len(bad)
        self.missing += work.missing
        self._late += self.core.clock.late(self.table) - late

    def _transact(self, work: Work, bad: list[Bad], marks: Mapping[str, str]) -> int:
        """Commit a chunk; return its number of records."""
        while True:
            try:
                with Transaction(self.core):
                    taken = work.stage(self, bad)
                    if bad:
                        assert self.dead is not None
                        self.dead.insert([(b.place, b.reason, b.record) for b in bad])
                    for name, value in marks.items():
                        self.core.transactions.set_offset(name, value)
                return taken
            except InputError as error:
                if self.rules.policy == "fail" or not work.excuse(self, error, bad):
                    raise

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
        if isinstance(chunk.rows, Distant):
            coded = self._coded_there(chunk, chunk.rows, bad)
            if coded is not None:
                return coded
        codes, _ = self.fitting.encode(here(chunk.rows), chunk.place, bad)
        if chunk.snapshot:
            return Snapshot(codes)
        return Upserts(codes) if self.rules.mode == "upsert" else Additions(codes)

    def _coded_there(self, chunk: Chunk, rows: Distant, bad: list[Bad]) -> Work | None:
        """Encode many rows where they are, if the session supports it; else bring them here."""
        how = "snapshot" if chunk.snapshot else self.rules.mode
        coded = encode_remote(self.core, self.table, rows, self.fitting, chunk.place, how) if rows.large else None
        if coded is None:
            return None
        bad += coded.bad
        coded.reject = self.rules.missing == "reject"
        return Elsewhere(coded)

    # change feeds

    def _events(self, chunk: Chunk, shape: changes.Envelope, bad: list[Bad]) -> Work:
        if isinstance(chunk.rows, Distant):
            coded = self._coded_there(chunk, chunk.rows, bad)
            if coded is not None:
                return coded
        found = told(self.fitting, shape, here(chunk.rows), chunk.place, bad)
        return Events(found.in_order(), shape.unordered, found.cleared)


# the effect of a chunk on its table


class Work(ABC):
    """Changes of a table, ready to be staged."""

    @property
    def missing(self) -> int:
        """The number of deletions of missing keys, when the transaction is done."""
        return 0

    @abstractmethod
    def stage(self, feed: Feed, bad: list[Bad]) -> int:
        """Stage them in the current transaction; return the number of records."""

    def excuse(self, feed: Feed, error: InputError, bad: list[Bad]) -> bool:
        """Set aside the records that made the transaction fail; return whether there are any."""
        return False

    def discard(self) -> None:  # noqa: B027  # most have nothing to do
        """Called when the transaction has ended, either way."""


@dataclass
class Elsewhere(Work):
    """Rows that were encoded remotely."""

    coded: Any

    @property
    def missing(self) -> int:
        return int(self.coded.missing)

    def stage(self, feed: Feed, bad: list[Bad]) -> int:
        feed.core.transactions.stage(feed.table, self.coded, 1)
        return int(self.coded.rows)

    def excuse(self, feed: Feed, error: InputError, bad: list[Bad]) -> bool:
        absent: dict[Codes, int] = self.coded.excuse(error)
        bad += [b for row, n in absent.items() for b in _absent(feed, row, n)]
        return bool(absent)

    def discard(self) -> None:
        self.coded.discard()


@dataclass
class Additions(Work):
    """Rows to insert."""

    codes: np.ndarray

    def stage(self, feed: Feed, bad: list[Bad]) -> int:
        if self.codes.shape[1]:
            feed.core.transactions.stage(feed.table, self.codes, 1)
        return int(self.codes.shape[1])


@dataclass
class Upserts(Work):
    """Rows that replace those with the same key."""

    codes: np.ndarray

    def stage(self, feed: Feed, bad: list[Bad]) -> int:
        if self.codes.shape[1]:
            feed.core.by_key.upsert(feed.table, self.codes)
        return int(self.codes.shape[1])


@dataclass
class Snapshot(Work):
    """A complete copy of the rows: the change is the difference from the stored ones."""

    codes: np.ndarray

    def stage(self, feed: Feed, bad: list[Bad]) -> int:
        codes, key = self.codes, relation_of(feed.table).key
        if key:
            last = {tuple(k): i for i, k in enumerate(codes[list(key)].T.tolist())}
            codes = np.ascontiguousarray(codes[:, sorted(last.values())])
        known, counts = feed.table._now()._contents()
        rows, diffs = consolidated(
            np.concatenate([codes, known], axis=1), np.concatenate([np.ones(codes.shape[1], np.int64), -counts])
        )
        for sign in (-1, 1):
            times = np.maximum(diffs * sign, 0)
            if times.any():
                feed.core.transactions.stage(feed.table, np.ascontiguousarray(np.repeat(rows, times, axis=1)), sign)
        return int(np.abs(diffs).sum())


@dataclass
class Events(Work):
    """Insertions and deletions, in order; the table may be emptied first."""

    told: Told
    unordered: bool
    """Whether a deleted row may be listed after its replacement"""
    cleared: bool = False
    _missing: int = 0

    @property
    def missing(self) -> int:
        return self._missing

    def stage(self, feed: Feed, bad: list[Bad]) -> int:
        if self.cleared:
            feed.core.transactions.clear(feed.table)
        if relation_of(feed.table).key:
            self._by_key(feed, bad)
        else:
            self._counted(feed, bad)
        return len(self.told.counts) + self.cleared

    def _by_key(self, feed: Feed, bad: list[Bad]) -> None:
        table, key = feed.table, list(relation_of(feed.table).key)
        first = [*key, *(c for c in range(len(feed.columns)) if c not in key)]
        rows = self.told.codes[first]
        keys = np.ascontiguousarray(rows[: len(key), last_of_each(rows[: len(key)])]) if rows.shape[1] else rows
        old = feed.core.transactions.current(table, keys)[first] if rows.shape[1] else rows
        done = applied(rows, self.told.counts, old, len(key), self.unordered)
        back = [first.index(c) for c in range(len(first))]
        self._missing = self._refuse(feed, done.missing[back], bad)
        for codes, sign in ((done.gone, -1), (done.new, 1)):
            if codes.shape[1]:
                feed.core.transactions.stage(table, np.ascontiguousarray(codes[back]), sign)

    def _refuse(self, feed: Feed, missing: np.ndarray, bad: list[Bad]) -> int:
        """Refuse deletions of missing keys, if so configured; return how many are only counted."""
        if feed.rules.missing == "count":
            return int(missing.shape[1])
        for row in map(tuple, missing.T.tolist()):
            if feed.rules.policy == "fail":
                raise no_such_key(feed.table, row)
            bad += _absent(feed, row, 1)
        return 0

    def _counted(self, feed: Feed, bad: list[Bad]) -> None:
        net: dict[Codes, int] = {}
        for row, n in zip(map(tuple, self.told.codes.T.tolist()), self.told.counts.tolist(), strict=True):
            net[row] = net.get(row, 0) + n
        if feed.rules.policy == "quarantine":
            for row, n in net.items():
                have = 0 if n >= 0 or self.cleared else feed.core.transactions.how_often(feed.table, row)
                if have + n < 0:
                    bad += _absent(feed, row, -have - n)
                    net[row] = -have
        _stage_rows(feed, [row for row, n in net.items() for _ in range(-n)], -1)
        _stage_rows(feed, [row for row, n in net.items() for _ in range(n)], 1)


def _absent(feed: Feed, row: Codes, times: int) -> list[Bad]:
    """Dead letters for a row that was deleted too often."""
    key = relation_of(feed.table).key
    shown = text_of(key_of(feed.table, row) if key else relation_of(feed.table).codec.decode_row(row))
    return [Bad(feed.source.describe(), "[E_ABSENT] deleted, but not there", shown)] * times


def _stage_rows(feed: Feed, rows: Iterable[Codes], sign: int) -> None:
    rows = list(rows)
    if rows:
        feed.core.transactions.stage(feed.table, columns_of_rows(rows, len(feed.columns)), sign)
