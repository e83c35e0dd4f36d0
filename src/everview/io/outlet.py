"""An outlet: a view connected to a sink.

The outlet subscribes to the view, so the sink receives each time's changes directly after the commit and before the
next transaction. On start, and after a failure of the sink, it catches up from the last time in the sink: with the
view's changes since then or, if the view's history does not reach back that far, with the difference between the sink's
contents and the view's.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from everview.codes.durations import Duration, seconds
from everview.errors import CompactedError, InputError
from everview.io.changes import DIFF
from everview.io.file_sink import FileSink
from everview.io.files import Files
from everview.io.sink import Foreach, Sink, SinkMode
from everview.io.source_inference import as_source
from everview.io.validation import answered, choice_option
from everview.language.relation import relation_of
from everview.session.changes.batch import Batch
from everview.session.changes.subscriber import Subscriber
from everview.session.reads.snapshot import consolidated
from everview.session.view import View
from everview.types import DataType

if TYPE_CHECKING:
    from everview.io.pipeline import Pipeline


class Outlet:
    """A view connected to a sink; created by `view.write_to`, ended by `stop`.

    >>> import everview as ev
    >>> db = ev.connect()
    >>> t = db.table("t", {"x": int})
    >>> outlet = db.view("v", t.distinct()).write_to(ev.io.foreach(lambda batch: None))
    >>> t.insert([(1,)])
    >>> outlet.position
    1
    >>> outlet.stop()
    """

    def __init__(self, pipeline: Pipeline, view: View, sink: Sink, mode: SinkMode, every: Duration | None) -> None:
        choice_option("mode", mode, ("changes", "snapshot"), "E_MODE")
        self.view = view
        self.sink = sink
        self.position: int | None = None
        """The last time that is known to be in the sink"""
        self._pipeline = pipeline
        self._session = pipeline.session
        self._core = pipeline.core
        self._snapshots = mode == "snapshot"
        self._every = 0.0 if every is None else seconds(every)
        self._written = float("-inf")
        self._dirty = self._unfinished = False
        columns: dict[str, DataType] = {c.name: c.type for c in relation_of(view).columns}
        position = sink.open(self._identity() if sink.lasting else "", columns, mode)
        self.position = answered(
            sink.describe(), "open", position, (int, type(None)), "the last time it holds, or None"
        )
        self._check_position()
        self._unsubscribe: Callable[[], None] = view._subscribe(Subscriber(view, self._changed, surfaces=True))
        try:
            self._start()
        except BaseException:
            self._unsubscribe()
            raise
        pipeline.outlets.append(self)

    def __repr__(self) -> str:
        return f"Outlet({relation_of(self.view).label} to {self.sink.describe()}, position {self.position})"

    def _identity(self) -> str:
        """The unique identity of this session's view, created once and stored with the state."""
        mark = f"sink/{relation_of(self.view).label}/{self.sink.describe()}"
        if mark not in self._core.runtime.offsets:
            self._core.transactions.set_offset(mark, uuid.uuid4().hex)
        return self._core.runtime.offsets[mark]

    def _check_position(self) -> None:
        if self.position is not None and self.position > self._session.time:
            raise InputError(
                "E_SINK",
                f"{self.sink.describe()} holds changes up to time {self.position}, but it is {self._session.time} now",
                "it belongs to another session, or the state was set back: empty the sink, or restore the state",
            )

    def _start(self) -> None:
        if self._snapshots:
            if self.position != self._session.time:
                self._replace()
        elif self.position is None:
            self._write(self.view._present())
        else:
            self._catch_up()

    def stop(self) -> None:
        """Write what is pending, then stop."""
        self.flush()
        self._unsubscribe()
        if self in self._pipeline.outlets:
            self._pipeline.outlets.remove(self)

    # changes

    def _changed(self, batch: Batch) -> None:
        if self._snapshots:
            self._dirty = True
            self.tick()
        elif self._unfinished:
            self._catch_up()
        elif self.position is None or batch.time > self.position:
            self._write(batch)

    def _write(self, batch: Batch) -> None:
        if not len(batch):
            return
        self._unfinished = True  # until it has succeeded
        self.sink.write(batch)
        self._unfinished = False
        self.position = batch.time

    def _catch_up(self) -> None:
        since = -1 if self.position is None else self.position
        if since == self._session.time:
            return
        try:
            if since < relation_of(self.view).installed_at and since >= 0:
                raise CompactedError("E_COMPACTED", "the view is younger than the sink's contents")
            columns, times, diffs = self.view._changes(since)
        except CompactedError:
            self._write(self._difference())
            return
        for at in np.unique(times).tolist():
            mine = times == at
            self._write(Batch(at, relation_of(self.view).codec, np.ascontiguousarray(columns[:, mine]), diffs[mine]))

    def _difference(self) -> Batch:
        """The difference between the view and the sink."""
        held = self._held()
        counts = np.array(held[DIFF].to_pylist(), dtype=np.int64)
        codes = relation_of(self.view).codec.encode(held.select([c.name for c in relation_of(self.view).columns]))
        present = self.view._present()
        rows, diffs = consolidated(
            np.concatenate([present._columns, codes], axis=1), np.concatenate([present._diffs, -counts])
        )
        return Batch(present.time, relation_of(self.view).codec, rows, diffs)

    def _held(self) -> pa.Table:
        """The sink's contents, if they have the columns of changes."""
        names = [*(c.name for c in relation_of(self.view).columns), DIFF]
        wanted = f"a table with columns {', '.join(names)}"
        held: pa.Table = answered(self.sink.describe(), "held", self.sink.held(), pa.Table, wanted)
        if not {*names} <= {*held.column_names} or not pa.types.is_integer(held.schema.field(DIFF).type):
            raise InputError("E_ANSWER", f"{self.sink.describe()}: held() has {held.schema.names}", f"answer {wanted}")
        return held

    # contents

    def tick(self) -> None:
        """Write the contents if they changed and are due."""
        if self._dirty and time.monotonic() - self._written >= self._every:
            self._replace()

    def flush(self) -> None:
        """Write what is pending."""
        if self._dirty:
            self._replace()
        elif self._unfinished:
            self._catch_up()

    def _replace(self) -> None:
        now = self._session.time
        self._dirty = True
        self.sink.replace(self.view.to_arrow(), now)
        self._dirty = False
        self._written = time.monotonic()
        self.position = now


def as_sink(given: Any) -> Sink:
    """The sink for a sink, files, a path, or a function."""
    if isinstance(given, Sink):
        return given
    if isinstance(given, str):
        given = as_source(given)
    if isinstance(given, Files):
        return FileSink(given)
    if callable(given):
        return Foreach(given, None)
    raise InputError(
        "E_SINK",
        f"cannot write to {type(given).__name__}",
        'give ev.io.parquet("directory"), a function, or another sink',
    )
