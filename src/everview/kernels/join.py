"""Join: every pair of left and right updates with equal keys, at the join of their times.

Joins are bilinear: with A, B the arrangements before this pass and a, b their deltas, the change is a⋈B + (A+a)⋈b. Both
arrangements are sorted with the key columns first. A small delta looks its keys up through the batches' bucket
indexes; otherwise the two sides leapfrog over each other's gaps ("alternating seeks"), so the work follows the
smaller side. Rows leave in chunks through the stream, so an output of any size needs no memory here.

An arrangement made outside the loop is read in place: its times are epochs and count as "before this step" or by
their distance from its start (SUB). The arrangement of a loop variable that is nothing but last round's output is
that output's arrangement, read one round later (ADD).
"""

from __future__ import annotations

from everview.kernels.batch import CAP, COLS, DATA, ROWS, compare_rows, diff_at, time_at
from everview.kernels.memory import add_atomically, alloc, copy_words, free, ld, st
from everview.kernels.native import inner, operator, shared, task
from everview.kernels.scope import FIELDS, NFIELDS, NOW
from everview.kernels.search import find_next, gallop, key_end
from everview.kernels.step import STEP_BASE, STEP_SPLIT, STEP_TEAM
from everview.kernels.stream import NSINKS, R_N, REGS, TAIL, flush
from everview.kernels.sums import all_small, checked_product, size
from everview.kernels.team import PIECES, both
from everview.kernels.times import lub
from everview.kernels.trace import COUNT, DELTA, STAMP, TABLE, trace_rows
from everview.kernels.twin import close_stream, twin_stream
from everview.kernels.vm import CHUNK

LEFT, RIGHT, J_SCOPE, J_KEYS, L_SUB, L_ADD, R_SUB, R_ADD, J_STREAM, J_STEP, FRESH, J_WORDS = range(12)
"""FRESH: the join is new but both arrangements are older; the first pass joins all of them."""

SPARSE = 8  # look keys up one by one if the other batch has this many times more rows


@inner
def _pairs(ctx, d, i, i_end, o, p, p_end, left_is_delta, at_least):
    """Emit all pairs of delta rows [i, i_end) and other rows [p, p_end), which share a key."""
    stream = ld(ctx, J_STREAM)
    scope = ld(ctx, J_SCOPE)
    fields = ld(scope, FIELDS)
    nfields = ld(scope, NFIELDS)
    base = ld(ld(ctx, J_STEP), STEP_BASE)
    d_sub = base * ld(ctx, L_SUB if left_is_delta else R_SUB)
    d_add = ld(ctx, L_ADD if left_is_delta else R_ADD)
    o_sub = base * ld(ctx, R_SUB if left_is_delta else L_SUB)
    o_add = ld(ctx, R_ADD if left_is_delta else L_ADD)
    keys = ld(ctx, J_KEYS)
    l = d if left_is_delta else o
    r = o if left_is_delta else d
    l_data = ld(l, DATA)
    r_data = ld(r, DATA)
    l_cap = ld(l, CAP)
    r_cap = ld(r, CAP)
    l_cols = ld(l, COLS)
    r_cols = ld(r, COLS)
    d_data = ld(d, DATA)
    o_data = ld(o, DATA)
    regs = ld(stream, REGS)
    tail = ld(stream, TAIL)
    n = ld(stream, R_N)
    for x in range(i, i_end):
        t = max(time_at(d, d_data, x) - d_sub, at_least) + d_add
        w = diff_at(d, d_data, x, 0)
        sizes = size(w)
        for y in range(p, p_end):
            if n == CHUNK:
                st(stream, R_N, n)
                flush(stream)
                n = 0
            a = x if left_is_delta else y
            b = y if left_is_delta else x
            for c in range(l_cols):
                st(regs, c * CHUNK + n, ld(l_data, c * l_cap + a))
            for c in range(keys, r_cols):
                st(regs, (l_cols + c - keys) * CHUNK + n, ld(r_data, c * r_cap + b))
            st(tail, n, lub(t, max(time_at(o, o_data, y) - o_sub, 0) + o_add, fields, nfields))
            v = diff_at(o, o_data, y, 0)
            sizes |= size(v)
            st(tail, CHUNK + n, w * v)
            n += 1
        if not all_small(sizes):  # seldom: now look at each product, and leave if one of them was wrong
            for y in range(p, p_end):
                checked_product(w, diff_at(o, o_data, y, 0))
    st(stream, R_N, n)


@shared
def join_batches(ctx, d, i, d_rows, o, left_is_delta, at_least):
    """Join rows [i, d_rows) of a batch of changes with one batch of the other side. Times of the changes count as no
    earlier than `at_least`.
    """
    keys = ld(ctx, J_KEYS)
    o_rows = ld(o, ROWS)
    d_data = ld(d, DATA)
    d_cap = ld(d, CAP)
    o_data = ld(o, DATA)
    o_cap = ld(o, CAP)
    p = 0
    if (d_rows - i) * SPARSE < o_rows:
        while i < d_rows:
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


S_CTX, S_DELTA, S_OTHER, S_BATCHES, S_LEFT, S_NEXT, S_WORDS = range(7)
"""A share of a join: its context, what is joined, and the block with the number of the piece nobody has taken yet."""


@task
def _join_pieces(share):
    """Join pieces of the delta until all are taken."""
    ctx = ld(share, S_CTX)
    delta = ld(share, S_DELTA)
    table = ld(ld(share, S_OTHER), TABLE)
    rows = ld(delta, ROWS)
    piece = max(rows // PIECES, 1)
    while True:
        start = piece * add_atomically(ld(share, S_NEXT), 0, 1)
        if start >= rows:
            flush(ld(ctx, J_STREAM))
            return 0
        for k in range(ld(share, S_BATCHES)):
            join_batches(ctx, delta, start, min(start + piece, rows), ld(table, k), ld(share, S_LEFT), 0)


@inner
def _new_share(ctx, delta, other, batches, left_is_delta, next_piece):
    share = alloc(S_WORDS)
    st(share, S_CTX, ctx)
    st(share, S_DELTA, delta)
    st(share, S_OTHER, other)
    st(share, S_BATCHES, batches)
    st(share, S_LEFT, left_is_delta)
    st(share, S_NEXT, next_piece)
    return share


@inner
def _join_delta(ctx, delta, other, batches, left_is_delta):
    """Join a batch of changes with the first `batches` batches of a trace."""
    step = ld(ctx, J_STEP)
    team = ld(step, STEP_TEAM)
    if team == 0 or ld(delta, ROWS) < ld(step, STEP_SPLIT):
        for k in range(batches):
            join_batches(ctx, delta, 0, ld(delta, ROWS), ld(ld(other, TABLE), k), left_is_delta, 0)
        return
    stream = ld(ctx, J_STREAM)
    flush(stream)
    next_piece = alloc(1)
    st(next_piece, 0, 0)
    helper = alloc(J_WORDS)
    copy_words(helper, 0, ctx, 0, J_WORDS)
    st(helper, J_STREAM, twin_stream(stream))
    mine = _new_share(ctx, delta, other, batches, left_is_delta, next_piece)
    theirs = _new_share(helper, delta, other, batches, left_is_delta, next_piece)
    both(team, _join_pieces(), mine, theirs)
    close_stream(ld(helper, J_STREAM), stream)
    free(helper)
    free(mine)
    free(theirs)
    free(next_piece)


@inner
def join_all(ctx):
    """Join the whole of both arrangements, as if all of it had just come."""
    left = ld(ctx, LEFT)
    right = ld(ctx, RIGHT)
    nested = ld(ld(ctx, J_SCOPE), NFIELDS) > 1
    at_least = 1 if nested else ld(ld(ctx, J_STEP), STEP_BASE) + 1
    left_is_delta = trace_rows(left) <= trace_rows(right)
    small = left if left_is_delta else right
    large = right if left_is_delta else left
    for a in range(ld(small, COUNT)):
        for b in range(ld(large, COUNT)):
            d = ld(ld(small, TABLE), a)
            join_batches(ctx, d, 0, ld(d, ROWS), ld(ld(large, TABLE), b), left_is_delta, at_least)


@operator
def join(ctx):
    """Compiled operator; see the module."""
    stream = ld(ctx, J_STREAM)
    left = ld(ctx, LEFT)
    right = ld(ctx, RIGHT)
    now = ld(ld(ctx, J_SCOPE), NOW)
    st(stream, R_N, 0)  # a step that failed may have left something
    if ld(ctx, FRESH) != 0:
        st(ctx, FRESH, 0)
        join_all(ctx)
        flush(stream)
        return 0
    a = ld(left, DELTA) if ld(left, STAMP) + ld(ctx, L_ADD) == now else 0
    b = ld(right, DELTA) if ld(right, STAMP) + ld(ctx, R_ADD) == now else 0
    if (a == 0 and b == 0) or ld(stream, NSINKS) == 0:
        return 0
    if a != 0:
        _join_delta(ctx, a, right, ld(right, COUNT) - (1 if b != 0 else 0), True)
    if b != 0:
        _join_delta(ctx, b, left, ld(left, COUNT), False)
    flush(stream)
    return 0
