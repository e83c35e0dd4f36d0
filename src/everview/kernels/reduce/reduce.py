"""Reduce: one output per key and time, by re-evaluating touched keys at the interesting times.

At loop time T the touched keys are those of the input's new batch and those scheduled for T earlier (see
`interesting`). For each of them, and for each epoch of this step that has a change of the key at or before T, the
reduction is evaluated over the input's `history` at (T, epoch) by `aggregate` and compared with the output there so far
(`corrections`); the difference, as a multiset, is the new output at exactly that time. The output's own trace records
it.

With several threads, each reduces a range of the touched keys.
"""

from __future__ import annotations

from everview.kernels.build.native import CALL_PYTHON, inner, operator, task
from everview.kernels.memory import EVER, alloc, alloc_with, call_pointer, copy_words, free, ld, reserve, st
from everview.kernels.operators.arrange import take
from everview.kernels.operators.batcher import new_batcher
from everview.kernels.reduce.aggregate import evaluate
from everview.kernels.reduce.context import (
    KIND_FAULTS,
    KIND_PYTHON,
    REDUCE_ANSWERS,
    REDUCE_CURSORS,
    REDUCE_EPOCH_LIST,
    REDUCE_FOUND,
    REDUCE_FRESH,
    REDUCE_INPUT,
    REDUCE_KEYS,
    REDUCE_KIND,
    REDUCE_OUT,
    REDUCE_OUT_N,
    REDUCE_OUTPUT,
    REDUCE_REQUESTS,
    REDUCE_REQUESTS_N,
    REDUCE_SCOPE,
    REDUCE_SEEN,
    REDUCE_STEP,
    REDUCE_TODO,
    REDUCE_TOUCHED,
    REDUCE_WATCHED,
    REDUCE_WORDS,
    SEEN_ALL,
    cursors_for,
)
from everview.kernels.reduce.corrections import publish, settle_time, sort_out
from everview.kernels.reduce.history import bound_of, locate, start_cursors
from everview.kernels.reduce.interesting import plan_times
from everview.kernels.reduce.python import ask
from everview.kernels.run.scope import SCOPE_FIELDS, SCOPE_NFIELDS, SCOPE_NOW, SCOPE_SLOT_NOW
from everview.kernels.run.step import STEP_SPLIT, STEP_TEAM
from everview.kernels.threads.private_copy import close_box, private_scope
from everview.kernels.threads.thread_pool import members, new_shares, together
from everview.kernels.trace.batch import BATCH_CAP, BATCH_DATA, BATCH_ROWS, compare_rows, free_batch
from everview.kernels.trace.search import key_end, lower_bound
from everview.kernels.trace.trace import (
    TRACE_COLS,
    TRACE_COUNT,
    TRACE_DELTA,
    TRACE_STAMP,
    TRACE_TABLE,
    clear_delta,
    compact,
)

(
    REDUCE_SHARE_CTX,
    REDUCE_SHARE_DELTA,
    REDUCE_SHARE_FROM,
    REDUCE_SHARE_TO,
    REDUCE_SHARE_TODO,
    REDUCE_SHARE_TODO_FROM,
    REDUCE_SHARE_TODO_TO,
    REDUCE_SHARE_TOUCHED,
    REDUCE_SHARE_WORDS,
) = range(9)
"""A share of the touched keys: rows of the input's delta and of the agenda. REDUCE_SHARE_TOUCHED counts those of all
shares.
"""


@inner
def _reduce_key(ctx, key_data, key_cap, key_row, touched, cursors, out_at, now):
    """Bring one key up to date at this loop time."""
    keys = ld(ctx, REDUCE_KEYS)
    locate(ld(ctx, REDUCE_INPUT), key_data, key_cap, key_row, keys, touched, cursors, 1)
    epochs = plan_times(ctx, key_data, key_cap, key_row, cursors, now)
    if ld(ctx, REDUCE_KIND) == KIND_PYTHON:
        for e in range(epochs):
            ask(ctx, key_data, key_cap, key_row, cursors, now | ld(ld(ctx, REDUCE_EPOCH_LIST), 1 + e), -1)
        return
    locate(ld(ctx, REDUCE_OUTPUT), key_data, key_cap, key_row, keys, touched, cursors, out_at)
    fields = ld(ld(ctx, REDUCE_SCOPE), SCOPE_FIELDS)
    nfields = ld(ld(ctx, REDUCE_SCOPE), SCOPE_NFIELDS)
    first_out = ld(ctx, REDUCE_OUT_N)
    for e in range(epochs):
        time = now | ld(ld(ctx, REDUCE_EPOCH_LIST), 1 + e)
        bound = bound_of(ld(ctx, REDUCE_STEP), now, time, fields, nfields)
        found = evaluate(ctx, cursors, time, bound)
        settle_time(ctx, key_data, key_cap, key_row, cursors, out_at, time, bound, found, first_out)
    if epochs > 1:
        sort_out(ctx, first_out)


@task
def _reduce_share(share):
    """Bring the keys of a share up to date; their output is appended to REDUCE_OUT in order."""
    ctx = ld(share, REDUCE_SHARE_CTX)
    delta = ld(share, REDUCE_SHARE_DELTA)
    todo = ld(share, REDUCE_SHARE_TODO)
    trace = ld(ctx, REDUCE_INPUT)
    output = ld(ctx, REDUCE_OUTPUT)
    keys = ld(ctx, REDUCE_KEYS)
    now = ld(ld(ctx, REDUCE_SCOPE), SCOPE_NOW)
    touched = ld(share, REDUCE_SHARE_TOUCHED)
    in_count = ld(trace, TRACE_COUNT)
    cursors = cursors_for(ctx, in_count + ld(output, TRACE_COUNT))
    out_at = 1 + 3 * in_count
    start_cursors(trace, cursors, 1)
    start_cursors(output, cursors, out_at)
    i = ld(share, REDUCE_SHARE_FROM)
    d_rows = ld(share, REDUCE_SHARE_TO)
    j = ld(share, REDUCE_SHARE_TODO_FROM)
    t_rows = ld(share, REDUCE_SHARE_TODO_TO)
    while i < d_rows or j < t_rows:
        order = -1
        if i >= d_rows:
            order = 1
        elif j < t_rows:
            order = compare_rows(
                ld(delta, BATCH_DATA), ld(delta, BATCH_CAP), i, ld(todo, BATCH_DATA), ld(todo, BATCH_CAP), j, keys
            )
        source = delta if order <= 0 else todo
        row = i if order <= 0 else j
        data = ld(source, BATCH_DATA)
        cap = ld(source, BATCH_CAP)
        _reduce_key(ctx, data, cap, row, touched, cursors, out_at, now)
        if order >= 0:
            j += 1
        if order <= 0:
            i = key_end(delta, i, data, cap, row, keys)
    return 0


@inner
def _cut(source, other, row, keys):
    """The row behind the key of a row of a batch; the first row of the other one whose key is not before it."""
    rows = ld(source, BATCH_ROWS)
    data = ld(source, BATCH_DATA)
    cap = ld(source, BATCH_CAP)
    at = key_end(source, row, data, cap, row, keys)
    if other == 0:
        return at, 0
    if at == rows:
        return at, ld(other, BATCH_ROWS)
    return at, lower_bound(
        ld(other, BATCH_DATA), ld(other, BATCH_CAP), 0, ld(other, BATCH_ROWS), data, cap, at, 0, keys
    )


@inner
def _own_context(ctx):
    """A context like another, with scratch, output and agenda of its own."""
    own = alloc_with(REDUCE_WORDS, EVER)
    copy_words(own, 0, ctx, 0, REDUCE_WORDS)
    for field in (REDUCE_CURSORS, REDUCE_OUT, REDUCE_REQUESTS, REDUCE_ANSWERS):
        st(own, field, 0)
    for field in (REDUCE_FOUND, REDUCE_EPOCH_LIST):
        block = alloc(64)
        st(block, 0, 64)
        st(own, field, block)
    st(own, REDUCE_SCOPE, private_scope(ld(ctx, REDUCE_SCOPE)))
    st(own, REDUCE_TODO, new_batcher(ld(ctx, REDUCE_KEYS) + 2, ld(own, REDUCE_SCOPE)))
    return own


@inner
def _close_context(own, ctx):
    """Put a context's output behind that of the original, and its agenda into it; and free it."""
    close_box(ld(own, REDUCE_TODO), ld(own, REDUCE_SCOPE), ld(ctx, REDUCE_TODO), ld(ctx, REDUCE_SCOPE))
    st(ctx, REDUCE_SEEN, ld(ctx, REDUCE_SEEN) | ld(own, REDUCE_SEEN))
    more = ld(own, REDUCE_OUT_N)
    if more > 0:
        width = ld(ld(ctx, REDUCE_OUTPUT), TRACE_COLS) + 2
        out = reserve(ctx, REDUCE_OUT, REDUCE_OUT_N, width, more)
        copy_words(out, 1 + ld(ctx, REDUCE_OUT_N) * width, ld(own, REDUCE_OUT), 1, more * width)
        st(ctx, REDUCE_OUT_N, ld(ctx, REDUCE_OUT_N) + more)
    for field in (REDUCE_CURSORS, REDUCE_FOUND, REDUCE_EPOCH_LIST, REDUCE_OUT):
        free(ld(own, field))
    free(own)


@inner
def _reduce_shared(ctx, share, pool):
    """Reduce a range of the keys on every member, each with a context of its own; the first of them here."""
    keys = ld(ctx, REDUCE_KEYS)
    delta = ld(share, REDUCE_SHARE_DELTA)
    todo = ld(share, REDUCE_SHARE_TODO)
    d_rows = ld(share, REDUCE_SHARE_TO)
    t_rows = ld(share, REDUCE_SHARE_TODO_TO)
    n = members(pool)
    shares = new_shares(pool)
    st(shares, 0, share)
    for k in range(1, n):
        if d_rows >= t_rows:
            d_cut, t_cut = _cut(delta, todo, d_rows * k // n, keys)
        else:
            t_cut, d_cut = _cut(todo, delta, t_rows * k // n, keys)
        theirs = alloc_with(REDUCE_SHARE_WORDS, EVER)
        copy_words(theirs, 0, share, 0, REDUCE_SHARE_WORDS)
        st(theirs, REDUCE_SHARE_CTX, _own_context(ctx))
        st(theirs, REDUCE_SHARE_FROM, d_cut)
        st(theirs, REDUCE_SHARE_TO, d_rows)
        st(theirs, REDUCE_SHARE_TODO_FROM, t_cut)
        st(theirs, REDUCE_SHARE_TODO_TO, t_rows)
        st(shares, k, theirs)
        st(ld(shares, k - 1), REDUCE_SHARE_TO, d_cut)
        st(ld(shares, k - 1), REDUCE_SHARE_TODO_TO, t_cut)
    together(pool, _reduce_share(), shares)
    for k in range(1, n):
        _close_context(ld(ld(shares, k), REDUCE_SHARE_CTX), ctx)
        free(ld(shares, k))
    free(shares)


@inner
def _no_faults(ctx):
    """Whether there is nothing to look for: the reduction it watches, which ran before it, met no fault among the keys
    that were touched, and there was none before.
    """
    watched = ld(ctx, REDUCE_WATCHED)
    if ld(ctx, REDUCE_KIND) != KIND_FAULTS or watched == 0 or ld(ld(ctx, REDUCE_OUTPUT), TRACE_COUNT) > 0:
        return False
    seen = ld(watched, REDUCE_SEEN)
    return seen == SEEN_ALL or (seen == 0 and ld(ctx, REDUCE_FRESH) == 0)


@operator
def reduce(ctx):
    """Compiled operator; see the module."""
    trace = ld(ctx, REDUCE_INPUT)
    scope = ld(ctx, REDUCE_SCOPE)
    now = ld(scope, SCOPE_NOW)
    keys = ld(ctx, REDUCE_KEYS)
    st(ctx, REDUCE_OUT_N, 0)  # a step that failed may have left something
    st(ctx, REDUCE_REQUESTS_N, 0)
    st(ctx, REDUCE_SEEN, SEEN_ALL if ld(ctx, REDUCE_FRESH) != 0 else 0)
    if _no_faults(ctx):
        st(ctx, REDUCE_FRESH, 0)
        clear_delta(ld(ctx, REDUCE_OUTPUT))
        return 0
    if ld(ctx, REDUCE_FRESH) != 0:
        st(ctx, REDUCE_FRESH, 0)
        compact(trace)
        delta = ld(ld(trace, TRACE_TABLE), 0) if ld(trace, TRACE_COUNT) > 0 else 0
    else:
        delta = ld(trace, TRACE_DELTA) if ld(trace, TRACE_STAMP) == now else 0
    todo = take(ld(ctx, REDUCE_TODO), ld(scope, SCOPE_SLOT_NOW), keys, 1, ld(ctx, REDUCE_STEP))
    if delta == 0 and todo == 0:
        clear_delta(ld(ctx, REDUCE_OUTPUT))
        return 0
    rows = (0 if delta == 0 else ld(delta, BATCH_ROWS)) + (0 if todo == 0 else ld(todo, BATCH_ROWS))
    share = alloc_with(REDUCE_SHARE_WORDS, rows)
    st(share, REDUCE_SHARE_CTX, ctx)
    st(share, REDUCE_SHARE_DELTA, delta)
    st(share, REDUCE_SHARE_FROM, 0)
    st(share, REDUCE_SHARE_TO, 0 if delta == 0 else ld(delta, BATCH_ROWS))
    st(share, REDUCE_SHARE_TODO, todo)
    st(share, REDUCE_SHARE_TODO_FROM, 0)
    st(share, REDUCE_SHARE_TODO_TO, 0 if todo == 0 else ld(todo, BATCH_ROWS))
    touched = ld(share, REDUCE_SHARE_TO) + ld(share, REDUCE_SHARE_TODO_TO)
    st(share, REDUCE_SHARE_TOUCHED, touched)
    step = ld(ctx, REDUCE_STEP)
    pool = ld(step, STEP_TEAM)
    if pool != 0 and touched >= ld(step, STEP_SPLIT) and ld(ctx, REDUCE_KIND) != KIND_PYTHON and keys > 0:
        _reduce_shared(ctx, share, pool)
    else:
        call_pointer(_reduce_share(), share)
    free(share)
    st(ctx, REDUCE_TOUCHED, ld(ctx, REDUCE_TOUCHED) + touched)
    free_batch(todo)
    if ld(ctx, REDUCE_KIND) == KIND_PYTHON:
        return CALL_PYTHON
    publish(ctx)
    return 0
