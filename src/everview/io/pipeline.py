"""Pipelines: a session's sources and sinks, and the loop that runs them.

`db.source` connects a source to a table, `view.write_to` a view to a sink; `db.run` then takes chunk after chunk from
every source in turn, each in its own transaction, and the sinks follow each transaction as subscribers. One chunk at a
time is in memory, and the next is requested when the last is committed and written: this provides the back-pressure.

While the sources are idle, time still passes: rows that are due (times to live, windows, conditions on now()) leave at
that moment, in their own transaction, which reaches sinks and subscribers like any other. A clock that was set manually
(`db.advance(moment)`) stands still during a run, too.
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import FrameType
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from everview.codes.durations import Duration, seconds
from everview.codes.type_declarations import data_type
from everview.errors import InputError, did_you_mean
from everview.io import changes, notebooks
from everview.io.feed import DEAD_LETTERS, MODES, Feed, Missing, Mode, Policy, Rules
from everview.io.outlet import Outlet
from everview.io.progress import Progress
from everview.io.source import Source
from everview.io.source_inference import as_source
from everview.io.validation import answered, choice_option, flag_option, names_option, schema_option, text_option
from everview.language.relation import relation_of
from everview.session.table import Table
from everview.types import STR, DataType

if TYPE_CHECKING:
    from everview.io.sink import Sink
    from everview.session.core import Core
    from everview.session.view import View

IDLE = 0.2
"""Seconds between polls of idle sources."""


class Pipeline:
    """The sources and sinks of one session."""

    def __init__(self, core: Core) -> None:
        self.core = core
        self.session = core.session
        self.feeds: dict[str, Feed] = {}
        self.outlets: list[Outlet] = []
        self.planned: list[tuple[View, Sink, str]] | None = None
        """For checks only: sinks are listed here and not opened, and nothing runs"""

    def source(
        self,
        name: str,
        source: Any,
        *,
        key: str | Sequence[str] | None,
        mode: Mode | None,
        schema: Mapping[str, Any] | None,
        bad: Policy,
        missing: Missing,
        change_column: str | None,
        max_rows_per_step: int | None,
        every: Duration,
    ) -> Table:
        """Implements `Session.source`."""
        if not isinstance(name, str) or not name:
            raise InputError("E_NAME", f"{name!r} is not a name", "give a non-empty string")
        if name in self.feeds:
            raise InputError("E_NAME", f"table {name!r} already has a source", "give the second source another name")
        keys = None if key is None else names_option("key", key)
        mode = _mode(mode, keys)
        schema = schema_option(schema)
        choice_option("bad", bad, ("fail", "quarantine"))
        choice_option("missing", missing, ("count", "reject"))
        if missing == "reject" and (mode != "changes" or keys is None):
            raise InputError(
                "E_OPTION", 'missing="reject" is about deletions by key', 'use it with mode="changes" and a key'
            )
        if max_rows_per_step is not None:
            _check_limit(max_rows_per_step)
        pause = seconds(every)
        if change_column is not None:
            text_option("change_column", change_column, '"op"')
        source = as_source(source)
        if max_rows_per_step is not None and not source.by_rows:
            raise InputError(
                "E_OPTION",
                f"{source.describe()} comes in batches that Spark makes: max_rows_per_step has no effect",
                "limit the stream itself (maxFilesPerTrigger, maxOffsetsPerTrigger), or write a DataFrame to Parquet",
            )
        source.bind(name, self._directory())
        told = None if schema is not None and mode != "changes" else self._schema(source, mode, schema)
        shape = None
        if mode == "changes":
            assert told is not None
            shape = changes.envelope(told, change_column)
        table = self._table(name, keys or (), schema, told, shape)
        dead = self._dead_letters(name) if bad == "quarantine" else None
        exact = schema is None and told is not None
        rules = Rules(mode, shape, exact, bad, missing, max_rows_per_step, pause)
        self.feeds[name] = Feed(self.core, table, source, rules, dead)
        return table

    def outlet(self, view: View, sink: Sink, mode: Any, every: Duration | None) -> Any:
        """Implements `View.write_to`."""
        if self.planned is not None:
            self.planned.append((view, sink, mode))
            return None
        return Outlet(self, view, sink, mode, every)

    def _directory(self) -> str | None:
        """Where sources may keep their own files; None if the session is in memory."""
        store = self.core.runtime.backing.store
        return None if store is None else f"{store.files.root}/streams"

    def _schema(self, source: Source, mode: Mode, schema: Mapping[str, Any] | None) -> pa.Schema:
        """The source's columns; for a change feed without data those given by the user."""
        try:
            found: pa.Schema = answered(source.describe(), "schema", source.schema(), pa.Schema, "a pyarrow.Schema")
            return found
        except InputError as error:
            if schema is None or mode != "changes" or error.code != "E_SCHEMA":
                raise
            raise InputError(
                "E_SCHEMA", f"{error.message}, nor the shape of its changes", "start with one record in place"
            ) from None

    def _table(
        self,
        name: str,
        keys: tuple[str, ...],
        schema: Mapping[str, Any] | None,
        told: pa.Schema | None,
        shape: changes.Envelope | None,
    ) -> Table:
        """The table: an existing one (after a restart, say) if it matches, else a new one."""
        if name in self.session.tables:
            table = self.session[name]
            assert isinstance(table, Table)
            self._check(table, keys, schema)
            return table
        if schema is None:
            assert told is not None
            schema = types_of(told if shape is None else changes.row_schema(told, shape), keys)
        return self.session.table(name, schema, key=keys or None)

    def _check(self, table: Table, keys: tuple[str, ...], schema: Mapping[str, Any] | None) -> None:
        relation = relation_of(table)
        names = [c.name for c in relation.columns]
        has = {c.name: c.type for c in relation.columns}
        if tuple(names[c] for c in relation.key) != keys:
            known = ", ".join(names[c] for c in relation.key) or "no key"
            raise InputError(
                "E_SCHEMA",
                f"table {relation.label!r} exists with {known}, the source asks for {', '.join(keys) or 'none'}",
                "give the key the table was made with",
            )
        if schema is not None and {n: data_type(t) for n, t in schema.items()} != has:
            raise InputError(
                "E_SCHEMA",
                f"table {relation.label!r} exists with other columns: {table!r}",
                "leave schema= out to take the table as it is, or drop the table",
            )

    def _dead_letters(self, name: str) -> Table:
        table = f"{name}_rejected"
        found = self.session[table] if table in self.session else self.session.table(table, DEAD_LETTERS)
        if not isinstance(found, Table) or {c.name: c.type for c in relation_of(found).columns} != DEAD_LETTERS:
            raise InputError(
                "E_NAME", f"{table!r} is needed for dead letters, but is something else", "rename it, or the source"
            )
        return found

    # running

    def run(self, until: str | Duration | None, progress: bool | None) -> Run:
        """Implements `Session.run`."""
        limit = (
            None if until is None or (isinstance(until, str) and until == "caught_up") else seconds(until, CAUGHT_UP)
        )
        if progress is not None:
            flag_option("progress", progress)
        progress = notebooks.in_notebook() if progress is None else progress
        if not self.feeds:
            raise InputError(
                "E_NO_SOURCE", "there is nothing to run: the session has no source", "add one: db.source(...)"
            )
        if self.core.transactions.pending() is not None or self.core.transactions.queued is not None:
            raise InputError("E_TRANSACTION", "db.run cannot be part of a transaction", "end the transaction first")
        result = Run(self.session.time)
        if self.planned is not None:
            return result
        started = time.monotonic()
        before = [(feed.rows, feed.rejected, feed.late, feed.missing) for feed in self.feeds.values()]
        with _Interrupt() as interrupt, Progress(self, progress) as line:
            begun: list[Feed] = []
            try:
                for feed in self.feeds.values():
                    begun.append(feed)
                    feed.begin(until != "caught_up", interrupt.wake.set)
                result.stopped_by = self._loop(interrupt, line, limit, until == "caught_up")
            finally:
                for feed in begun:
                    feed.end()
            for outlet in self.outlets:
                outlet.flush()
        result.seconds = time.monotonic() - started
        result.time = self.session.time
        for (rows, rejected, late, missing), feed in zip(before, self.feeds.values(), strict=True):
            result.rows[feed.name] = feed.rows - rows
            if feed.rejected > rejected:
                result.rejected[feed.name] = feed.rejected - rejected
            if feed.late > late:
                result.late[feed.name] = feed.late - late
            if feed.missing > missing:
                result.missing[feed.name] = feed.missing - missing
        return result

    def _loop(self, interrupt: _Interrupt, line: Progress, limit: float | None, catch_up: bool) -> str:
        """Process chunks until stopped; return the reason."""
        end = None if limit is None else time.monotonic() + limit
        while True:
            worked = False
            for feed in self.feeds.values():
                if interrupt.happened.is_set():
                    return "interrupt"
                worked = feed.step() or worked
                line.update()
                if end is not None and time.monotonic() >= end:
                    return "time"
            self.core.clock.settle()
            for outlet in self.outlets:
                outlet.tick()
            if catch_up and not worked and all(feed.caught_up for feed in self.feeds.values()):
                return "caught_up"
            if not worked:
                interrupt.wake.wait(self._pause(end))
            interrupt.wake.clear()

    def _pause(self, end: float | None) -> float:
        """Seconds until the next action: polling the sources, expiring rows, ending."""
        due = self.core.clock.waiting()
        left = None if end is None else max(end - time.monotonic(), 0.0)
        return min(seconds for seconds in (IDLE, due, left) if seconds is not None)


@dataclass
class Run:
    """The result of a pipeline run; from `db.run`.

    >>> import everview as ev
    >>> db = ev.connect()
    >>> t = db.source("t", ev.io.rows([(1,), (2,)]), schema={"x": int})
    >>> run = db.run(until="caught_up")
    >>> run.rows, run.time, run.stopped_by
    ({'t': 2}, 1, 'caught_up')
    """

    started_at: int
    """`db.time` before"""
    time: int = 0
    """`db.time` after"""
    rows: dict[str, int] = field(default_factory=dict)
    """Records read, by source"""
    rejected: dict[str, int] = field(default_factory=dict)
    """Records set aside, by source"""
    late: dict[str, int] = field(default_factory=dict)
    """Late records, by source: by the table's time to live, or the watermark of a stream"""
    missing: dict[str, int] = field(default_factory=dict)
    """Deletions of missing keys, by source"""
    seconds: float = 0.0
    stopped_by: str = ""
    """"caught_up", "time" or "interrupt" """

    def _repr_html_(self) -> str:
        return notebooks.line(str(self))

    def __str__(self) -> str:
        taken = ", ".join(f"{name} {rows:,}" for name, rows in self.rows.items())
        bad = ", ".join(f"{name} {rows:,}" for name, rows in self.rejected.items())
        late = ", ".join(f"{name} {rows:,}" for name, rows in self.late.items())
        missing = ", ".join(f"{name} {rows:,}" for name, rows in self.missing.items())
        steps = self.time - self.started_at
        what = f"row{'' if sum(self.rows.values()) == 1 else 's'} in {steps:,} step{'' if steps == 1 else 's'}"
        return (
            f"{taken} {what} and {self.seconds:.1f} s; time {self.time}"
            + (f"; rejected: {bad}" if bad else "")
            + (f"; too late: {late}" if late else "")
            + (f"; deletions that found nothing: {missing}" if missing else "")
            + (f" ({self.stopped_by})" if self.stopped_by else "")
        )


CAUGHT_UP = '"caught_up", '
"""The values of `until` other than a duration."""


class _Interrupt:
    """While active, Ctrl-C and SIGTERM end the loop after the current step; a second one ends it at once."""

    def __init__(self) -> None:
        self.happened = threading.Event()
        self.wake = threading.Event()
        """Set when the loop should poll its sources at once"""
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> _Interrupt:
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                self._before[number] = signal.signal(number, self._noticed)
        return self

    def _noticed(self, number: int, frame: FrameType | None) -> None:
        if self.happened.is_set():
            raise KeyboardInterrupt
        self.happened.set()
        self.wake.set()

    def __exit__(self, *exc: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)


def pipeline_of(core: Core) -> Pipeline:
    """The session's pipeline, created on first use."""
    if "pipeline" not in core.attached:
        core.attached["pipeline"] = Pipeline(core)
    found: Pipeline = core.attached["pipeline"]
    return found


def _check_limit(rows: Any) -> None:
    if not isinstance(rows, int) or isinstance(rows, bool) or not 1 <= rows < 1 << 62:
        raise InputError("E_OPTION", f"max_rows_per_step={rows!r} is not a number of rows to take", "give 1 or more")


def _mode(mode: Mode | None, key: tuple[str, ...] | None) -> Mode:
    if mode is None:
        return "append" if not key else "upsert"
    if not isinstance(mode, str) or mode not in MODES:
        raise InputError("E_MODE", f"mode={mode!r} is not known", did_you_mean(str(mode), MODES))
    if mode == "upsert" and not key:
        raise InputError("E_NO_KEY", 'mode="upsert" needs a key', 'say which column it is: key="id"')
    if mode == "append" and key:
        raise InputError(
            "E_MODE", 'mode="append" with a key would let a key come twice', 'use mode="upsert", or leave the key out'
        )
    return mode


def types_of(found: pa.Schema, keys: tuple[str, ...]) -> dict[str, DataType]:
    """Column types from Arrow's; keys are never NULL."""
    types = {}
    for column in found:
        if pa.types.is_null(column.type):
            types[column.name] = STR.optional()
            continue
        try:
            declared = data_type(column)
        except InputError as error:
            raise InputError(
                "E_SCHEMA",
                f"column {column.name!r}: {error.message}",
                "leave it out or give it a type with schema=; in a JSON file, str takes lists and objects as text",
            ) from None
        types[column.name] = declared.optional(False) if column.name in keys else declared
    return types
