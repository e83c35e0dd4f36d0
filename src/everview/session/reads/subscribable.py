"""The changes of tables and views: read on request or pushed to subscribers.

Both come from one index. `changes(since)` reads the times that the index still distinguishes; `subscribe` captures the
changes of each step while it runs (`everview.session.changes.subscriptions`).
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import numpy as np

from everview.dataflow.batch_arrays import batch_arrays
from everview.dataflow.read_leases import is_guest
from everview.errors import CompactedError, InputError
from everview.kernels.trace import read
from everview.kernels.trace.trace import NO_SINCE
from everview.runtime.captures import Captured
from everview.session.changes.batch import Batch
from everview.session.changes.subscriber import Subscriber
from everview.session.changes.turns import reads
from everview.session.reads.contents import Contents, Row
from everview.session.reads.snapshot import check_time, consolidated, in_order


class Subscribable(Contents):
    """A table or view whose changes can be read and subscribed to."""

    def _alive(self) -> None:
        raise NotImplementedError

    def _refuse_errors(self, time: int | None = None) -> None:
        """Raise if rows could not be computed; only views can have such rows."""

    @reads
    def changes(self, since: int) -> list[tuple[Row, int, int]]:
        """[(row, time, diff), ...] for all times after `since`, in time order. A view's initial contents count as a
        change at its installation; a table's rows at their insertion.
        """
        check_time("changes", since)
        self._refuse_errors()
        columns, times, diffs = self._changes(since)
        if not len(diffs):
            return []
        rows = self._relation.codec.decode_rows(columns)
        return list(zip(rows, times.tolist(), diffs.tolist(), strict=True))

    @reads
    def _changes(self, since: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Codes, times and diffs of all changes after a time, in time order."""
        self._alive()
        self._core.transactions.catch_up()
        trace = self._relation.arrangement.trace
        self._core.runtime.sync(self._relation.arrangement.operator)
        known, installed_at = trace.since, self._relation.installed_at
        if since < known and known > installed_at:
            raise CompactedError(
                "E_COMPACTED",
                f"changes since {since} are no longer known: history starts at {known}",
                "keep more history with ev.connect(history=...) or db.view(..., history=...)",
            )
        batch = read.collect(trace.address, NO_SINCE if since < installed_at else since, self._core.time, 1)
        columns, times, diffs = batch_arrays(batch, trace.cols)
        supposed = self._core.transactions.supposed()
        if not batch and supposed is None:  # asked by programs that poll, between changes of a few microseconds
            return columns, times, diffs
        read.release(batch)
        rows = in_order(columns, self._relation.arrangement.order)
        if supposed is not None:
            more, counts = supposed.future(self)
            rows, diffs = np.hstack([rows, more]), np.concatenate([diffs, counts])
            times = np.concatenate([times, np.full(len(counts), self._core.time + 1)])
        timed, diffs = consolidated(np.concatenate([np.maximum(times, installed_at)[None], rows]), diffs)
        return timed[1:], timed[0], diffs

    def subscribe(self, function: Callable[[Batch], Any] | None = None, *, snapshot: bool = True) -> Any:
        """Call a function with the changes of each complete time, after the current contents (unless `snapshot=False`).
        Also a decorator. Rows that cannot be computed (see `errors`) are delivered once they can. Returns a function
        that unsubscribes. Its `error` is the last exception raised by the subscriber; such exceptions are logged and
        never propagate into a transaction.

        >>> import everview as ev
        >>> db = ev.connect()
        >>> t = db.table("t", {"x": int})
        >>> v = db.view("v", t.distinct())
        >>> stop = v.subscribe(print)
        >>> t.insert([(1,), (1,)])
        Batch(time=1, rows=[((1,), 1)])
        >>> stop()
        """
        if function is None:
            return lambda f: self.subscribe(f, snapshot=snapshot)
        if not callable(function):
            raise InputError("E_TYPE", f"{function!r} cannot be called", "subscribe a function of a Batch")
        return self._subscribe(Subscriber(self, function), function if snapshot else None)

    def _subscribe(self, subscriber: Subscriber, first: Callable[[Batch], Any] | None = None) -> Subscriber:
        """Register a subscriber, delivering the current contents first."""
        self._alive()
        self._core.transactions.refuse_supposed(
            f"{self._relation.kind} {self._relation.label!r} cannot be subscribed to"
        )
        alone = nullcontext() if is_guest() else self._core.writing  # nor does one whose step waits for this guest
        with alone:  # no other thread's transaction comes between the snapshot and the first change
            self._core.transactions.catch_up()
            if first is not None:
                present = self._present()
                if len(present):
                    first(present)
            self._core.subscriptions.watch(self)
            self._relation.subscribers = [*self._relation.subscribers, subscriber]
        return subscriber

    def _present(self) -> Batch:
        """The current contents as a change."""
        now = self._now()
        return Batch(now.time, self._relation.codec, *now._contents())

    def _batches(self, captured: Captured) -> list[Batch]:
        """The changes of a step, one batch per time."""
        columns, times, diffs = captured
        columns = in_order(columns, self._relation.arrangement.order)
        return [
            Batch(
                int(time), self._relation.codec, np.ascontiguousarray(columns[:, times == time]), diffs[times == time]
            )
            for time in np.unique(times)
        ]
