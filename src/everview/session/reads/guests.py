"""Reads beside a running step: they see the last complete time and do not wait.

A read that finds another thread in its turn tries to be its guest first (`beside`). If that turn is a step of a
transaction that is computing, what is committed is lent (`everview.dataflow.lending`): the guest copies what it needs,
and that is the answer. Otherwise, and wherever reading needs more than looking, it waits for its turn as ever: while
a view is made, in a session in shards, inside a transaction or `what_if` of its own, for a view with failed rows, and
if transactions of a batch are still to be run.

Steps lend from the moment on when a second thread has read: the first of its reads may have to wait.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from threading import get_ident
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from everview.dataflow.lending import Lender
from everview.dataflow.operators import Arrangement, Operator
from everview.once.leaves import Batch, batches
from everview.runtime.embedded import EmbeddedRuntime
from everview.session.changes.turns import reads
from everview.session.reads.snapshot import Snapshot, consolidated, in_order, keyed_rows
from everview.stopping import helpers

if TYPE_CHECKING:
    from everview.codes.codec import Codec
    from everview.session.core import Core

Answer = TypeVar("Answer")
Function = TypeVar("Function", bound=Callable[..., Any])


def beside(guest: Callable[..., Any]) -> Callable[[Function], Function]:
    """Have a method try something else first if another thread has a turn: `guest` gives its answer from what is
    committed, or None if it has to wait.
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
    """Have steps lend what is committed from now on."""
    dataflow = core.runtime.dataflow
    if dataflow.lender is None and isinstance(core.runtime, EmbeddedRuntime):
        dataflow.lender = Lender()


def visited(core: Core, read: Callable[[], Any]) -> Any:
    """What a guest of the step under way reads; None if there is none, or it has to wait."""
    lend(core)
    lender, transactions, me = core.runtime.dataflow.lender, core.transactions, get_ident()
    if lender is None or core.closed or transactions.queued or transactions.staged_by == me:
        return None
    if me in helpers:  # a function of a step, which must not ask its session; others read beside it
        return None
    return lender.visit(read)


def looked(core: Core, read: Callable[[], Answer]) -> Answer:
    """What somebody reads who only looks: beside the step under way, or in a turn. It must not be None."""
    if core.unsettled and not core.lock._is_owned():
        found: Answer | None = visited(core, read)
        if found is not None:
            return found
    return _in_turn(_Of(core), read)


class _Of:
    """What `reads` asks for its session."""

    def __init__(self, core: Core) -> None:
        self._core = core


@reads
def _in_turn(of: _Of, read: Callable[[], Answer]) -> Answer:
    of._core.alive()
    return read()


def has_failed(operators: list[Operator]) -> bool:
    """Whether some of these operators, which keep errors, hold any."""
    return any(o.trace is None or any(b.rows for b in batches(o.trace.address)) for o in operators)


def present(core: Core, arrangement: Arrangement, codec: Codec) -> Snapshot:
    """The contents at the last complete time, copied."""
    time = core.runtime.dataflow.time
    columns, counts = _added_up([(b, 0, b.rows) for b in batches(arrangement.trace.address)], arrangement, time)
    return Snapshot.copied(core, arrangement, codec, time, (columns, counts))


def keyed(core: Core, arrangement: Arrangement, start: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray]:
    """The rows that begin, in the arrangement's order, with these codes, at the last complete time: columns of codes in
    the collection's order, and how often each is there.
    """
    found = [(b, *_place(b, start)) for b in batches(arrangement.trace.address)]
    return _added_up(found, arrangement, core.runtime.dataflow.time)


def looked_up(
    core: Core, arrangement: Arrangement, codec: Codec, columns: tuple[int, ...], key: Any
) -> list[tuple[Any, ...]]:
    """The rows with a key, at the last complete time; the arrangement has its columns first."""
    return keyed_rows(arrangement, codec, columns, key, lambda start: keyed(core, arrangement, start))


def _place(batch: Batch, start: tuple[int, ...]) -> tuple[int, int]:
    """From where to where a batch has rows that begin with these codes."""
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
    """Rows of several batches, each from a row to another, as columns in the collection's order, and how often each is
    there at a time; copies.
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
