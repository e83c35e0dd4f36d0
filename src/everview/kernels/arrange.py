"""Arrange: sort and consolidate what waits in the inbox at this loop time, and add it to the trace.

The new batch is the *delta* that joins and reductions of the same arrangement work from; its rows also go on,
unchanged, to the stream's sinks. With a stateless trace this is plain consolidation: loop variables need it, because
differences that cancel would otherwise circulate for ever.
"""

from __future__ import annotations

from everview.kernels.batch import CAP, COLS, DATA, ROWS, diff_at, time_at
from everview.kernels.inbox import ROWS_AT, WIDTH, chain_rows, emptied, take_large, waiting
from everview.kernels.memory import add_atomically, alloc, copy_words, free, ld, st
from everview.kernels.merge import merge_now
from everview.kernels.native import inner, operator, shared, task
from everview.kernels.packed import CHAIN
from everview.kernels.scope import NOW, SLOT_NOW
from everview.kernels.sort import sort_rows
from everview.kernels.step import STEP_SPLIT, STEP_TEAM
from everview.kernels.stream import NSINKS, R_MORE, R_N, REGS, STEP, TAIL, flush
from everview.kernels.team import PIECES, both
from everview.kernels.trace import NO_SINCE, T_COLS, T_DIFFS, add_delta, clear_delta
from everview.kernels.twin import close_stream, twin_stream
from everview.kernels.vm import CHUNK

A_INBOX, A_TRACE, A_SCOPE, A_STREAM, A_STEP, PRESET, A_WORDS = range(7)
"""PRESET: a batch sorted elsewhere (a bulk load) that joins whatever waits in the inbox."""


E_STREAM, E_BATCH, E_NEXT, E_WORDS = range(4)
"""A share of a batch to emit: where to, and the block with the number of the piece that nobody has taken yet."""


@shared
def take(inbox, slot, cols, diffs, step):
    """The rows waiting in a slot as a batch, the slot emptied; 0 if none wait or all cancel."""
    buffer = waiting(inbox, slot)
    if buffer == 0:
        return 0
    width = ld(inbox, WIDTH)
    if take_large(inbox, slot):
        return sort_rows(buffer, ROWS_AT, width, 1, chain_rows(buffer), cols, diffs, CHAIN, step)
    batch = sort_rows(buffer, ROWS_AT, width, 1, ld(buffer, 0), cols, diffs, 0, step)
    emptied(inbox, slot)
    return batch


@inner
def _emit_rows(stream, batch, start, end):
    """Send rows [start, end) of a batch down a stream."""
    data = ld(batch, DATA)
    cap = ld(batch, CAP)
    regs = ld(stream, REGS)
    tail = ld(stream, TAIL)
    while start < end:
        n = min(CHUNK, end - start)
        for c in range(ld(batch, COLS)):
            copy_words(regs, c * CHUNK, data, c * cap + start, n)
        for i in range(n):
            st(tail, i, time_at(batch, data, start + i))
            st(tail, CHUNK + i, diff_at(batch, data, start + i, 0))
        st(stream, R_N, n)
        st(stream, R_MORE, end - start - n)
        flush(stream)
        start += n
    st(stream, R_MORE, 0)


@task
def _emit_pieces(share):
    """Send pieces of the batch down the share's stream until all are taken."""
    batch = ld(share, E_BATCH)
    rows = ld(batch, ROWS)
    piece = max(rows // PIECES, CHUNK)
    while True:
        start = piece * add_atomically(ld(share, E_NEXT), 0, 1)
        if start >= rows:
            return 0
        _emit_rows(ld(share, E_STREAM), batch, start, min(start + piece, rows))


@inner
def _new_share(stream, batch, next_piece):
    share = alloc(E_WORDS)
    st(share, E_STREAM, stream)
    st(share, E_BATCH, batch)
    st(share, E_NEXT, next_piece)
    return share


@shared
def emit(stream, batch):
    """Send a batch's rows down a stream."""
    if stream == 0 or ld(stream, NSINKS) == 0:
        return 0
    step = ld(stream, STEP)
    team = ld(step, STEP_TEAM)
    if team == 0 or ld(batch, ROWS) < ld(step, STEP_SPLIT):
        _emit_rows(stream, batch, 0, ld(batch, ROWS))
        return 0
    next_piece = alloc(1)
    st(next_piece, 0, 0)
    twin = twin_stream(stream)
    mine = _new_share(stream, batch, next_piece)
    theirs = _new_share(twin, batch, next_piece)
    both(team, _emit_pieces(), mine, theirs)
    close_stream(twin, stream)
    free(mine)
    free(theirs)
    free(next_piece)
    return 0


@operator
def arrange(ctx):
    """Compiled operator; see the module."""
    trace = ld(ctx, A_TRACE)
    scope = ld(ctx, A_SCOPE)
    batch = take(ld(ctx, A_INBOX), ld(scope, SLOT_NOW), ld(trace, T_COLS), ld(trace, T_DIFFS), ld(ctx, A_STEP))
    preset = ld(ctx, PRESET)
    if preset != 0 and batch != 0:
        batch = merge_now(preset, batch, -1, NO_SINCE, 0)
        st(ctx, PRESET, 0)
    elif preset != 0:
        batch = preset
    if batch == 0:
        clear_delta(trace)
        return 0
    add_delta(trace, batch, ld(scope, NOW), ld(ctx, A_STEP))
    st(ctx, PRESET, 0)  # it has an owner only now
    emit(ld(ctx, A_STREAM), batch)
    return 0
