"""Join: every pair of left and right updates with equal keys, at the join of their times.

Joins are bilinear: with A, B the arrangements before this pass and a, b their deltas, the change is a⋈B + (A+a)⋈b. Both
arrangements are sorted with the key columns first. A small delta looks its keys up through the batches' bucket indexes;
otherwise the two sides leapfrog over each other's gaps ("alternating seeks"), so the work is proportional to the
smaller side. Rows are output in chunks through the stream, so an output of any size needs no memory here.

An arrangement from outside the loop is read in place: its times are epochs and count as "before this step" or by their
distance from its start (SUB). The arrangement of a loop variable that is just last round's output is that output's
arrangement, read one round later (ADD).
"""

from __future__ import annotations

from everview.kernels.build.native import inner, operator, shared, task
from everview.kernels.expressions.vm import VM_ROWS
from everview.kernels.memory import EVER, alloc_with, copy_words, free, ld, prefetch, st
from everview.kernels.operators.stream import STREAM_N, STREAM_NSINKS, STREAM_REGS, STREAM_TAIL, flush, flush_full
from everview.kernels.run.scope import SCOPE_FIELDS, SCOPE_NFIELDS, SCOPE_NOW
from everview.kernels.run.step import STEP_BASE, STEP_SPLIT, STEP_TEAM
from everview.kernels.sums import all_small, checked_product, size
from everview.kernels.threads.private_copy import close_stream, private_stream
from everview.kernels.threads.thread_pool import by_chunks, chunk_rows, free_shares, members, new_shares, next_chunk
from everview.kernels.times import lub
from everview.kernels.trace.batch import (
    BATCH_CAP,
    BATCH_COLS,
    BATCH_DATA,
    BATCH_DIFF_AT,
    BATCH_DIFF_MASK,
    BATCH_ROWS,
    BATCH_TIME_AT,
    BATCH_TIME_MASK,
    compare_rows,
    diff_at,
    time_at,
)
from everview.kernels.trace.buckets import bucket
from everview.kernels.trace.search import find_next, gallop, key_end
from everview.kernels.trace.trace import TRACE_COUNT, TRACE_DELTA, TRACE_STAMP, TRACE_TABLE, trace_rows

(
    JOIN_LEFT,
    JOIN_RIGHT,
    JOIN_SCOPE,
    JOIN_KEYS,
    JOIN_LEFT_SUB,
    JOIN_LEFT_ADD,
    JOIN_RIGHT_SUB,
    JOIN_RIGHT_ADD,
    JOIN_STREAM,
    JOIN_STEP,
    JOIN_FRESH,
    JOIN_WORDS,
) = range(12)
"""JOIN_FRESH: the join is new but both arrangements are older; the first pass joins all of them."""

LOOKUP_RATIO = 8  # look keys up one by one if the other batch has this many times more rows

AHEAD_ROWS = 8  # so many rows before it is looked up, a key's rows are asked for


@inner
def _pairs(ctx, d, i, i_end, o, p, p_end, left_is_delta, at_least):
    """Emit all pairs of delta rows [i, i_end) and other rows [p, p_end), which share a key."""
    stream = ld(ctx, JOIN_STREAM)
    scope = ld(ctx, JOIN_SCOPE)
    fields = ld(scope, SCOPE_FIELDS)
    nfields = ld(scope, SCOPE_NFIELDS)
    base = ld(ld(ctx, JOIN_STEP), STEP_BASE)
    d_sub = base * ld(ctx, JOIN_LEFT_SUB if left_is_delta else JOIN_RIGHT_SUB)
    d_add = ld(ctx, JOIN_LEFT_ADD if left_is_delta else JOIN_RIGHT_ADD)
    o_sub = base * ld(ctx, JOIN_RIGHT_SUB if left_is_delta else JOIN_LEFT_SUB)
    o_add = ld(ctx, JOIN_RIGHT_ADD if left_is_delta else JOIN_LEFT_ADD)
    keys = ld(ctx, JOIN_KEYS)
    l = d if left_is_delta else o
    r = o if left_is_delta else d
    l_data = ld(l, BATCH_DATA)
    r_data = ld(r, BATCH_DATA)
    l_cap = ld(l, BATCH_CAP)
    r_cap = ld(r, BATCH_CAP)
    l_cols = ld(l, BATCH_COLS)
    r_cols = ld(r, BATCH_COLS)
    d_data = ld(d, BATCH_DATA)
    o_data = ld(o, BATCH_DATA)
    regs = ld(stream, STREAM_REGS)
    tail = ld(stream, STREAM_TAIL)
    n = ld(stream, STREAM_N)
    o_times = ld(o, BATCH_TIME_AT)  # by hand: to the compiler, each row that is stored might change them
    o_time_mask = ld(o, BATCH_TIME_MASK)
    o_diffs = ld(o, BATCH_DIFF_AT)
    o_diff_mask = ld(o, BATCH_DIFF_MASK)
    sizes = 0
    for x in range(i, i_end):
        t = max(time_at(d, d_data, x) - d_sub, at_least) + d_add
        w = diff_at(d, d_data, x, 0)
        sizes |= size(w)
        for y in range(p, p_end):
            n = flush_full(stream, n)
            a = x if left_is_delta else y
            b = y if left_is_delta else x
            for c in range(l_cols):
                st(regs, c * VM_ROWS + n, ld(l_data, c * l_cap + a))
            for c in range(keys, r_cols):
                st(regs, (l_cols + c - keys) * VM_ROWS + n, ld(r_data, c * r_cap + b))
            o_time = ld(o_data, o_times + (y & o_time_mask)) - o_sub
            st(tail, n, lub(t, max(o_time, 0) + o_add, fields, nfields))
            v = ld(o_data, o_diffs + (y & o_diff_mask))
            sizes |= size(v)
            st(tail, VM_ROWS + n, w * v)
            n += 1
    if not all_small(sizes):  # seldom: now look at each product, and leave if one of them was wrong
        for x in range(i, i_end):
            for y in range(p, p_end):
                checked_product(diff_at(d, d_data, x, 0), diff_at(o, o_data, y, 0))
    st(stream, STREAM_N, n)


@inner
def _ask_for(o, d_data, d_cap, i, keys):
    """Have the rows brought into the cache that row i of the changes will be joined with; nothing waits for them."""
    low, high, _ = bucket(o, d_data, d_cap, i, keys)
    if low < high:
        for c in range(ld(o, BATCH_COLS)):
            prefetch(ld(o, BATCH_DATA), c * ld(o, BATCH_CAP) + low)


@shared
def join_batches(ctx, d, i, d_rows, o, left_is_delta, at_least):
    """Join rows [i, d_rows) of a batch of changes with one batch of the other side. Times of the changes count as no
    earlier than `at_least`.
    """
    keys = ld(ctx, JOIN_KEYS)
    o_rows = ld(o, BATCH_ROWS)
    d_data = ld(d, BATCH_DATA)
    d_cap = ld(d, BATCH_CAP)
    o_data = ld(o, BATCH_DATA)
    o_cap = ld(o, BATCH_CAP)
    p = 0
    if (d_rows - i) * LOOKUP_RATIO < o_rows:
        while i < d_rows:
            if i + AHEAD_ROWS < d_rows and keys > 0:
                _ask_for(o, d_data, d_cap, i + AHEAD_ROWS, keys)
            i_end = min(key_end(d, i, d_data, d_cap, i, keys), d_rows)
            p = find_next(o, p, d_data, d_cap, i, keys)
            if p < o_rows:
                p_end = key_end(o, p, d_data, d_cap, i, keys)
                if p_end > p:
                    _pairs(ctx, d, i, i_end, o, p, p_end, left_is_delta, at_least)
            i = i_end
        return 0
    while i < d_rows and p < o_rows:
        order = compare_rows(d_data, d_cap, i, o_data, o_cap, p, keys)
        if order < 0:
            i = gallop(d, i, o_data, o_cap, p, keys)
        elif order > 0:
            p = gallop(o, p, d_data, d_cap, i, keys)
        else:
            i_end = min(key_end(d, i, d_data, d_cap, i, keys), d_rows)
            p_end = key_end(o, p, d_data, d_cap, i, keys)
            _pairs(ctx, d, i, i_end, o, p, p_end, left_is_delta, at_least)
            i = i_end
            p = p_end
    return 0


(
    JOIN_SHARE_TAKEN,
    JOIN_SHARE_CTX,
    JOIN_SHARE_DELTA,
    JOIN_SHARE_OTHER,
    JOIN_SHARE_BATCHES,
    JOIN_SHARE_LEFT,
    JOIN_SHARE_AT_LEAST,
    JOIN_SHARE_WORDS,
) = range(8)
"""A share of a join: the chunks taken (see `by_chunks`), its context, and what is joined."""


@task
def _join_pieces(share):
    """Join pieces of the delta until all are taken."""
    ctx = ld(share, JOIN_SHARE_CTX)
    delta = ld(share, JOIN_SHARE_DELTA)
    table = ld(ld(share, JOIN_SHARE_OTHER), TRACE_TABLE)
    rows = ld(delta, BATCH_ROWS)
    piece = chunk_rows(share, rows, 1)
    while True:
        start = next_chunk(share, piece)
        if start >= rows:
            flush(ld(ctx, JOIN_STREAM))
            return 0
        end = min(start + piece, rows)
        left_is_delta = ld(share, JOIN_SHARE_LEFT)
        for k in range(ld(share, JOIN_SHARE_BATCHES)):
            join_batches(ctx, delta, start, end, ld(table, k), left_is_delta, ld(share, JOIN_SHARE_AT_LEAST))


@inner
def _new_share(ctx, delta, other, batches, left_is_delta, at_least):
    share = alloc_with(JOIN_SHARE_WORDS, EVER)
    st(share, JOIN_SHARE_CTX, ctx)
    st(share, JOIN_SHARE_DELTA, delta)
    st(share, JOIN_SHARE_OTHER, other)
    st(share, JOIN_SHARE_BATCHES, batches)
    st(share, JOIN_SHARE_LEFT, left_is_delta)
    st(share, JOIN_SHARE_AT_LEAST, at_least)
    return share


@inner
def _join_delta(ctx, delta, other, batches, left_is_delta, at_least):
    """Join a batch of changes with the first `batches` batches of a trace; no result is earlier than `at_least`."""
    step = ld(ctx, JOIN_STEP)
    pool = ld(step, STEP_TEAM)
    if pool == 0 or ld(delta, BATCH_ROWS) < ld(step, STEP_SPLIT):
        for k in range(batches):
            o = ld(ld(other, TRACE_TABLE), k)
            join_batches(ctx, delta, 0, ld(delta, BATCH_ROWS), o, left_is_delta, at_least)
        return
    stream = ld(ctx, JOIN_STREAM)
    flush(stream)
    shares = new_shares(pool)
    for k in range(members(pool)):
        own = ctx
        if k > 0:
            own = alloc_with(JOIN_WORDS, EVER)
            copy_words(own, 0, ctx, 0, JOIN_WORDS)
            st(own, JOIN_STREAM, private_stream(stream))
        st(shares, k, _new_share(own, delta, other, batches, left_is_delta, at_least))
    by_chunks(pool, _join_pieces(), shares)
    for k in range(1, members(pool)):
        own = ld(ld(shares, k), JOIN_SHARE_CTX)
        close_stream(ld(own, JOIN_STREAM), stream)
        free(own)
    free_shares(pool, shares)


@inner
def join_all(ctx):
    """Join the whole of both arrangements, as if all of it had just come."""
    left = ld(ctx, JOIN_LEFT)
    right = ld(ctx, JOIN_RIGHT)
    nested = ld(ld(ctx, JOIN_SCOPE), SCOPE_NFIELDS) > 1
    at_least = 1 if nested else ld(ld(ctx, JOIN_STEP), STEP_BASE) + 1
    left_is_delta = trace_rows(left) <= trace_rows(right)
    small = left if left_is_delta else right
    large = right if left_is_delta else left
    for a in range(ld(small, TRACE_COUNT)):
        _join_delta(ctx, ld(ld(small, TRACE_TABLE), a), large, ld(large, TRACE_COUNT), left_is_delta, at_least)


@operator
def join(ctx):
    """Compiled operator; see the module."""
    stream = ld(ctx, JOIN_STREAM)
    left = ld(ctx, JOIN_LEFT)
    right = ld(ctx, JOIN_RIGHT)
    now = ld(ld(ctx, JOIN_SCOPE), SCOPE_NOW)
    st(stream, STREAM_N, 0)  # a step that failed may have left something
    if ld(ctx, JOIN_FRESH) != 0:
        st(ctx, JOIN_FRESH, 0)
        join_all(ctx)
        flush(stream)
        return 0
    a = ld(left, TRACE_DELTA) if ld(left, TRACE_STAMP) + ld(ctx, JOIN_LEFT_ADD) == now else 0
    b = ld(right, TRACE_DELTA) if ld(right, TRACE_STAMP) + ld(ctx, JOIN_RIGHT_ADD) == now else 0
    if (a == 0 and b == 0) or ld(stream, STREAM_NSINKS) == 0:
        return 0
    if a != 0:
        _join_delta(ctx, a, right, ld(right, TRACE_COUNT) - (1 if b != 0 else 0), True, 0)
    if b != 0:
        _join_delta(ctx, b, left, ld(left, TRACE_COUNT), False, 0)
    flush(stream)
    return 0
