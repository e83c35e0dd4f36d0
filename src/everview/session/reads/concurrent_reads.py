"""Reads during a running step: they return the last complete time without waiting.

A read that finds another thread in its turn first tries to be a guest (`beside`). If that turn is computing a
transaction's step, the committed state is lent (`everview.dataflow.read_leases`): the guest copies what it needs.
Otherwise the read waits for its turn as usual: during view installation, in a sharded session, inside its own
transaction or `what_if`, for a view with failed rows, and while transactions of a batch are queued.

Steps lend only after a second thread has read once, so the first of its reads may have to wait.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from threading import get_ident
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from everview.cancellation import helpers
from everview.dataflow.operators import Arrangement, Operator
from everview.dataflow.read_leases import Lender
from everview.once.leaves import Batch, batches
from everview.runtime.embedded import EmbeddedRuntime
from everview.session.changes.turns import reads
from everview.session.reads.snapshot import Snapshot, consolidated, in_order, keyed_rows

if TYPE_CHECKING:
    from everview.codes.codec import Codec
    from everview.session.core import Core

Answer = TypeVar("Answer")
Function = TypeVar("Function", bound=Callable[..., Any])


def beside(guest: Callable[..., Any]) -> Callable[[Function], Function]:
    """If another thread has the turn, first try `guest`, which answers from committed state or returns None if it has
    to wait.
    """

    def decorate(function: Function) -> Function:
        @wraps(function)
        def call(self: Any, *arguments: Any) -> Any:
            core: Core = self._core
            if get_ident() != core.home:
                lend(core)
            if core.unsettled and not core.lock._is_owned():
                found = visited(core, lambda: guest(self, *arguments))
                if found is not None:
                    return found
            return function(self, *arguments)

        return call  # type: ignore[return-value]

    return decorate


def lend(core: Core) -> None:
    """Make steps lend their committed state from now on."""
    dataflow = core.runtime.dataflow
    if dataflow.lender is None and isinstance(core.runtime, EmbeddedRuntime):
        dataflow.lender = Lender()


def visited(core: Core, read: Callable[[], Any]) -> Any:
    """What a guest of the current step reads; None if there is no step, or the guest has to wait."""
    lend(core)
    lender, transactions, me = core.runtime.dataflow.lender, core.transactions, get_ident()
    if lender is None or core.closed or transactions.queued or transactions.staged_by == me:
        return None
    if me in helpers:  # a user function of a step, which must not call its session; others read beside it
        return None
    return lender.visit(read)


def looked(core: Core, read: Callable[[], Answer]) -> Answer:
    """Run a read-only function beside the current step, or in a turn. It must not return None."""
    if core.unsettled and not core.lock._is_owned():
        found: Answer | None = visited(core, read)
        if found is not None:
            return found
    return _in_turn(_Of(core), read)


class _Of:
    """Provides the `_core` that `reads` expects."""

    def __init__(self, core: Core) -> None:
        self._core = core


@reads
def _in_turn(of: _Of, read: Callable[[], Answer]) -> Answer:
    of._core.alive()
    return read()


def has_failed(operators: list[Operator]) -> bool:
    """Whether any of these error operators holds rows."""
    return any(o.trace is None or any(b.rows for b in batches(o.trace.address)) for o in operators)


def present(core: Core, arrangement: Arrangement, codec: Codec) -> Snapshot:
    """A copy of the contents at the last complete time."""
    time = core.runtime.dataflow.time
    columns, counts = _added_up([(b, 0, b.rows) for b in batches(arrangement.trace.address)], arrangement, time)
    return Snapshot.copied(core, arrangement, codec, time, (columns, counts))


def keyed(core: Core, arrangement: Arrangement, start: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray]:
    """The rows that begin with these codes (in the arrangement's order) at the last complete time: columns of codes in
    the collection's order, and multiplicities.
    """
    found = [(b, *_place(b, start)) for b in batches(arrangement.trace.address)]
    return _added_up(found, arrangement, core.runtime.dataflow.time)


def looked_up(
    core: Core, arrangement: Arrangement, codec: Codec, columns: tuple[int, ...], key: Any
) -> list[tuple[Any, ...]]:
    """The rows with a key at the last complete time; the key columns come first in the arrangement."""
    return keyed_rows(arrangement, codec, columns, key, lambda start: keyed(core, arrangement, start))


def _place(batch: Batch, start: tuple[int, ...]) -> tuple[int, int]:
    """The range of a batch's rows that begin with these codes."""
    first, end = 0, batch.rows
    for number, code in enumerate(start):
        some = batch.column(number)[first:end]
        first, end = (
            first + int(np.searchsorted(some, code, "left")),
            first + int(np.searchsorted(some, code, "right")),
        )
    return first, end


def _added_up(
    parts: list[tuple[Batch, int, int]], arrangement: Arrangement, time: int
) -> tuple[np.ndarray, np.ndarray]:
    """Consolidate row ranges of several batches at a time: copied columns in the collection's order, and
    multiplicities.
    """
    columns, counts = [], []
    for batch, first, end in parts:
        if first == end:
            continue
        some = np.array([batch.column(c)[first:end] for c in range(arrangement.cols)], dtype=np.int64)
        some = some.reshape(arrangement.cols, end - first)
        weights = batch.weights()
        many = np.ones(end - first, dtype=np.int64) if weights is None else weights[first:end].copy()
        moments = batch.moments()
        if not isinstance(moments, int):
            early = moments[first:end] <= time
            some, many = some[:, early], many[early]
        elif moments > time:
            continue
        columns.append(some)
        counts.append(many)
    if not columns:
        return np.empty((arrangement.cols, 0), dtype=np.int64), np.empty(0, dtype=np.int64)
    rows, diffs = np.hstack(columns), np.concatenate(counts)
    if len(columns) > 1 or not bool((diffs == 1).all()) or not isinstance(parts[0][0].moments(), int):
        rows, diffs = consolidated(rows, diffs)
    return np.ascontiguousarray(in_order(rows, arrangement.order)), diffs
