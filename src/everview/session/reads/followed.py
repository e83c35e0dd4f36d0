"""Contents whose changes can be followed: those of tables and views, asked for afterwards or told as they come.

Both come from one index. `changes(since)` reads the times it still tells apart; `subscribe` has the changes of each
step captured while it runs (`everview.session.changes.subscriptions`).
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import numpy as np

from everview.dataflow.batch_arrays import batch_arrays
from everview.dataflow.lending import is_guest
from everview.errors import CompactedError, InputError
from everview.kernels.trace import read
from everview.kernels.trace.trace import NO_SINCE
from everview.runtime.captures import Captured
from everview.session.changes.batch import Batch
from everview.session.changes.subscriber import Subscriber
from everview.session.changes.turns import reads
from everview.session.reads.contents import Contents, Row
from everview.session.reads.snapshot import check_time, consolidated, in_order


class Followed(Contents):
    """A table or a view, as something that changes."""

    def _alive(self) -> None:
        raise NotImplementedError

    def _refuse_errors(self, time: int | None = None) -> None:
        """Refuse to give contents that lack rows; only views can have such."""

    @reads
    def changes(self, since: int) -> list[tuple[Row, int, int]]:
        """[(row, time, diff), ...] for all times after `since`, in time order. A view's first contents count as a
        change when it was installed; a table's rows have come when they were inserted.
        """
        check_time("changes", since)
        self._refuse_errors()
        columns, times, diffs = self._changes(since)
        rows = self._relation.codec.decode_rows(columns)
        return list(zip(rows, times.tolist(), diffs.tolist(), strict=True))

    @reads
    def _changes(self, since: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Codes, times and diffs of all changes after a time, in time order."""
        self._alive()
        self._core.transactions.catch_up()
        trace = self._relation.arrangement.trace
        self._core.runtime.sync(self._relation.arrangement.operator)
        if since < trace.since and trace.since > self._relation.installed_at:
            raise CompactedError(
                "E_COMPACTED",
                f"changes since {since} are no longer known: history starts at {trace.since}",
                "keep more history with ev.connect(history=...) or db.view(..., history=...)",
            )
        batch = read.collect(
            trace.address, NO_SINCE if since < self._relation.installed_at else since, self._core.time, 1
        )
        columns, times, diffs = batch_arrays(batch, trace.cols)
        read.release(batch)
        rows = in_order(columns, self._relation.arrangement.order)
        if (supposed := self._core.transactions.supposed()) is not None:
            more, counts = supposed.future(self)
            rows, diffs = np.hstack([rows, more]), np.concatenate([diffs, counts])
            times = np.concatenate([times, np.full(len(counts), self._core.time + 1)])
        timed, diffs = consolidated(np.concatenate([np.maximum(times, self._relation.installed_at)[None], rows]), diffs)
        return timed[1:], timed[0], diffs

    def subscribe(self, function: Callable[[Batch], Any] | None = None, *, snapshot: bool = True) -> Any:
        """Call a function with each complete time's changes, the present contents first (unless `snapshot=False`).
        Also a decorator. Rows that cannot be computed (see `errors`) come when they can. Returns a function that stops
        the calls; what the subscriber raised last is its `error`, and was logged: it comes out of nobody's transaction.

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
        """Tell a subscriber of what comes, and first what is there."""
        self._alive()
        self._core.transactions.refuse_supposed(
            f"{self._relation.kind} {self._relation.label!r} cannot be subscribed to"
        )
        alone = nullcontext() if is_guest() else self._core.writing  # nor does one whose step waits for this guest
        with alone:  # no other thread's transaction falls between what is there and what comes
            self._core.transactions.catch_up()
            if first is not None:
                present = self._present()
                if len(present):
                    first(present)
            self._core.subscriptions.watch(self)
            self._relation.subscribers = [*self._relation.subscribers, subscriber]
        return subscriber

    def _present(self) -> Batch:
        """The present contents as a change."""
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
