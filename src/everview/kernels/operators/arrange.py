"""Arrange: sorts and consolidates the batcher's rows at this loop time, and adds them to the trace.

The new batch is the *delta* from which joins and reductions of the same arrangement work; its rows are also forwarded,
unchanged, to the stream's sinks. With a stateless trace this is plain consolidation: loop variables need it, because
differences that cancel would otherwise circulate forever.
"""

from __future__ import annotations

from everview.kernels.build.native import inner, operator, shared, task
from everview.kernels.expressions.vm import VM_ROWS
from everview.kernels.memory import EVER, alloc_with, copy_words, ld, st
from everview.kernels.operators.batcher import BATCHER_WIDTH, BUFFER_ROWS_AT, chain_rows, emptied, take_large, waiting
from everview.kernels.operators.stream import (
    STREAM_MORE,
    STREAM_N,
    STREAM_NSINKS,
    STREAM_REGS,
    STREAM_STEP,
    STREAM_TAIL,
    flush,
)
from everview.kernels.run.scope import SCOPE_NOW, SCOPE_SLOT_NOW
from everview.kernels.run.step import STEP_BASE, STEP_SPLIT, STEP_TEAM
from everview.kernels.threads.private_copy import close_stream, private_stream
from everview.kernels.threads.thread_pool import by_chunks, chunk_rows, free_shares, members, new_shares, next_chunk
from everview.kernels.trace.batch import BATCH_CAP, BATCH_COLS, BATCH_DATA, BATCH_ROWS, diff_at, time_at
from everview.kernels.trace.merge import merge_now
from everview.kernels.trace.row_packing import CHAIN
from everview.kernels.trace.sort import sort_rows
from everview.kernels.trace.trace import NO_SINCE, TRACE_COLS, TRACE_DIFFS, add_delta, clear_delta

ARRANGE_BATCHER, ARRANGE_TRACE, ARRANGE_SCOPE, ARRANGE_STREAM, ARRANGE_STEP, ARRANGE_PRESET, ARRANGE_WORDS = range(7)
"""ARRANGE_PRESET: a batch sorted elsewhere (a bulk load) that joins whatever waits in the batcher."""


EMIT_TAKEN, EMIT_STREAM, EMIT_BATCH, EMIT_TIMES, EMIT_WORDS = range(5)
"""A share of a batch to emit: the chunks taken (see `by_chunks`), where to, the batch, and at which times."""

TIMES_KEPT, TIMES_NOW, TIMES_IN_LOOP = range(3)
"""At which times rows are emitted: their own; the first epoch of the step under way; in a loop, their own round of that
step.
"""


@shared
def take(batcher, slot, cols, diffs, step):
    """The rows waiting in a slot as a batch, the slot emptied; 0 if none wait or all cancel."""
    buffer = waiting(batcher, slot)
    if buffer == 0:
        return 0
    width = ld(batcher, BATCHER_WIDTH)
    if take_large(batcher, slot):
        return sort_rows(buffer, BUFFER_ROWS_AT, width, 1, chain_rows(buffer), cols, diffs, CHAIN, step)
    batch = sort_rows(buffer, BUFFER_ROWS_AT, width, 1, ld(buffer, 0), cols, diffs, 0, step)
    emptied(batcher, slot)
    return batch


@inner
def _emit_rows(stream, batch, start, end, times):
    """Send rows [start, end) of a batch down a stream."""
    data = ld(batch, BATCH_DATA)
    now = ld(ld(stream, STREAM_STEP), STEP_BASE) + 1
    cap = ld(batch, BATCH_CAP)
    regs = ld(stream, STREAM_REGS)
    tail = ld(stream, STREAM_TAIL)
    while start < end:
        n = min(VM_ROWS, end - start)
        for c in range(ld(batch, BATCH_COLS)):
            copy_words(regs, c * VM_ROWS, data, c * cap + start, n)
        for i in range(n):
            time = time_at(batch, data, start + i)
            if times == TIMES_NOW:
                time = now
            elif times == TIMES_IN_LOOP:
                time |= 1
            st(tail, i, time)
            st(tail, VM_ROWS + i, diff_at(batch, data, start + i, 0))
        st(stream, STREAM_N, n)
        st(stream, STREAM_MORE, end - start - n)
        flush(stream)
        start += n
    st(stream, STREAM_MORE, 0)


@task
def _emit_pieces(share):
    """Send pieces of the batch down the share's stream until all are taken."""
    batch = ld(share, EMIT_BATCH)
    rows = ld(batch, BATCH_ROWS)
    piece = chunk_rows(share, rows, VM_ROWS)
    while True:
        start = next_chunk(share, piece)
        if start >= rows:
            return 0
        _emit_rows(ld(share, EMIT_STREAM), batch, start, min(start + piece, rows), ld(share, EMIT_TIMES))


@inner
def _new_share(stream, batch, times):
    share = alloc_with(EMIT_WORDS, EVER)
    st(share, EMIT_STREAM, stream)
    st(share, EMIT_BATCH, batch)
    st(share, EMIT_TIMES, times)
    return share


@shared
def emit(stream, batch, times):
    """Send a batch's rows down a stream, at which times is one of TIMES_*."""
    if stream == 0 or ld(stream, STREAM_NSINKS) == 0:
        return 0
    step = ld(stream, STREAM_STEP)
    pool = ld(step, STEP_TEAM)
    if pool == 0 or ld(batch, BATCH_ROWS) < ld(step, STEP_SPLIT):
        _emit_rows(stream, batch, 0, ld(batch, BATCH_ROWS), times)
        return 0
    shares = new_shares(pool)
    for k in range(members(pool)):
        st(shares, k, _new_share(private_stream(stream) if k > 0 else stream, batch, times))
    by_chunks(pool, _emit_pieces(), shares)
    for k in range(1, members(pool)):
        close_stream(ld(ld(shares, k), EMIT_STREAM), stream)
    free_shares(pool, shares)
    return 0


@operator
def arrange(ctx):
    """Compiled operator; see the module."""
    trace = ld(ctx, ARRANGE_TRACE)
    scope = ld(ctx, ARRANGE_SCOPE)
    batch = take(
        ld(ctx, ARRANGE_BATCHER),
        ld(scope, SCOPE_SLOT_NOW),
        ld(trace, TRACE_COLS),
        ld(trace, TRACE_DIFFS),
        ld(ctx, ARRANGE_STEP),
    )
    preset = ld(ctx, ARRANGE_PRESET)
    if preset != 0 and batch != 0:
        batch = merge_now(preset, batch, -1, NO_SINCE, 0)
        st(ctx, ARRANGE_PRESET, 0)
    elif preset != 0:
        batch = preset
    if batch == 0:
        clear_delta(trace)
        return 0
    add_delta(trace, batch, ld(scope, SCOPE_NOW), ld(ctx, ARRANGE_STEP))
    st(ctx, ARRANGE_PRESET, 0)  # it has an owner only now
    emit(ld(ctx, ARRANGE_STREAM), batch, TIMES_KEPT)
    return 0
