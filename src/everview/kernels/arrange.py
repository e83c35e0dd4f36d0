"""Arrange: sort and consolidate what waits in the inbox at this loop time, and add it to the trace.

The new batch is the *delta* that joins and reductions of the same arrangement work from; its rows also go on,
unchanged, to the stream's sinks. With a stateless trace this is plain consolidation: loop variables need it, because
differences that cancel would otherwise circulate for ever.
"""

from __future__ import annotations

from everview.kernels.batch import CAP, COLS, DATA, ROWS, diff_at, time_at
from everview.kernels.inbox import ROWS_AT, WIDTH, emptied, waiting
from everview.kernels.memory import copy_words, ld, st
from everview.kernels.merge import merge_now
from everview.kernels.operator import operator, shared
from everview.kernels.scope import NOW, SLOT_NOW
from everview.kernels.sort import sort_rows
from everview.kernels.stream import NSINKS, R_N, REGS, TAIL, flush
from everview.kernels.trace import NO_SINCE, T_COLS, T_DIFFS, add_delta, clear_delta
from everview.kernels.vm import CHUNK

A_INBOX, A_TRACE, A_SCOPE, A_STREAM, PRESET, A_WORDS = range(6)
"""PRESET: a batch sorted elsewhere (a bulk load) that joins whatever waits in the inbox."""


@shared
def take(inbox, slot, cols, diffs):
    """The rows waiting in a slot as a batch, the slot emptied; 0 if none wait or all cancel."""
    buffer = waiting(inbox, slot)
    if buffer == 0:
        return 0
    batch = sort_rows(buffer, ROWS_AT, ld(inbox, WIDTH), 1, ld(buffer, 0), cols, diffs, True)
    emptied(inbox, slot)
    return batch


@shared
def emit(stream, batch):
    """Send a batch's rows down a stream."""
    if stream == 0 or ld(stream, NSINKS) == 0:
        return 0
    data = ld(batch, DATA)
    cap = ld(batch, CAP)
    regs = ld(stream, REGS)
    tail = ld(stream, TAIL)
    rows = ld(batch, ROWS)
    start = 0
    while start < rows:
        n = min(CHUNK, rows - start)
        for c in range(ld(batch, COLS)):
            copy_words(regs, c * CHUNK, data, c * cap + start, n)
        for i in range(n):
            st(tail, i, time_at(batch, data, start + i))
            st(tail, CHUNK + i, diff_at(batch, data, start + i, 0))
        st(stream, R_N, n)
        flush(stream)
        start += n
    return 0


@operator
def arrange(ctx):
    """Compiled operator; see the module."""
    trace = ld(ctx, A_TRACE)
    scope = ld(ctx, A_SCOPE)
    batch = take(ld(ctx, A_INBOX), ld(scope, SLOT_NOW), ld(trace, T_COLS), ld(trace, T_DIFFS))
    preset = ld(ctx, PRESET)
    if preset != 0:
        batch = merge_now(preset, batch, -1, NO_SINCE) if batch != 0 else preset
        st(ctx, PRESET, 0)
    if batch == 0:
        clear_delta(trace)
        return 0
    add_delta(trace, batch, ld(scope, NOW))
    emit(ld(ctx, A_STREAM), batch)
    return 0
