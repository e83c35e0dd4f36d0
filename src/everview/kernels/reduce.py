"""Reduce: one output per key and time, by recomputing touched keys at the times that matter.

At loop time T the touched keys are those of the input's new batch and those put on the agenda for T earlier (see
`interesting`). For each of them, and for each epoch of this step that has a change of the key at or before T, the
reduction is evaluated over the input's `history` at (T, epoch) by `aggregate` and compared with what the output says
there so far (`said`); the difference, as a multiset, is the new output at exactly that time. The output's own trace
remembers it.

With a team, the smaller half of the touched keys is reduced here and the larger half on the helper.
"""

from __future__ import annotations

from everview.kernels.aggregate import evaluate
from everview.kernels.arrange import take
from everview.kernels.batch import CAP, DATA, ROWS, compare_rows, free_batch
from everview.kernels.history import bound_of, locate, start_cursors
from everview.kernels.inbox import new_inbox
from everview.kernels.interesting import plan_times
from everview.kernels.memory import alloc, call_pointer, copy_words, free, ld, st
from everview.kernels.native import CALL_PYTHON, inner, operator, task
from everview.kernels.reduce_python import ask
from everview.kernels.reduction import (
    ANSWERS,
    CURSORS,
    D_FRESH,
    D_SCOPE,
    D_STEP,
    D_WORDS,
    EPOCH_LIST,
    FOUND,
    INPUT,
    KEYS,
    KIND,
    OUT,
    OUT_N,
    OUTPUT,
    PYTHON,
    REQUESTS,
    REQUESTS_N,
    TODO,
    TOUCHED,
    cursors_for,
    reserve,
)
from everview.kernels.said import publish, settle_time, sort_out
from everview.kernels.scope import FIELDS, NFIELDS, NOW, SLOT_NOW
from everview.kernels.search import key_end, lower_bound
from everview.kernels.step import STEP_SPLIT, STEP_TEAM
from everview.kernels.team import both
from everview.kernels.trace import COUNT, DELTA, STAMP, T_COLS, TABLE, clear_delta, compact
from everview.kernels.twin import close_box, twin_scope

H_CTX, H_DELTA, H_FROM, H_TO, H_TODO, H_TODO_FROM, H_TODO_TO, H_TOUCHED, H_WORDS = range(9)
"""A share of the touched keys: rows of the input's delta and of the agenda. H_TOUCHED counts those of all shares."""


@inner
def _reduce_key(ctx, key_data, key_cap, key_row, touched, cursors, out_at, now):
    """Bring one key up to date at this loop time."""
    keys = ld(ctx, KEYS)
    locate(ld(ctx, INPUT), key_data, key_cap, key_row, keys, touched, cursors, 1)
    epochs = plan_times(ctx, key_data, key_cap, key_row, cursors, now)
    if ld(ctx, KIND) == PYTHON:
        for e in range(epochs):
            ask(ctx, key_data, key_cap, key_row, cursors, now | ld(ld(ctx, EPOCH_LIST), 1 + e), -1)
        return
    locate(ld(ctx, OUTPUT), key_data, key_cap, key_row, keys, touched, cursors, out_at)
    fields = ld(ld(ctx, D_SCOPE), FIELDS)
    nfields = ld(ld(ctx, D_SCOPE), NFIELDS)
    first_out = ld(ctx, OUT_N)
    for e in range(epochs):
        time = now | ld(ld(ctx, EPOCH_LIST), 1 + e)
        bound = bound_of(ld(ctx, D_STEP), now, time, fields, nfields)
        found = evaluate(ctx, cursors, time, bound)
        settle_time(ctx, key_data, key_cap, key_row, cursors, out_at, time, bound, found, first_out)
    if epochs > 1:
        sort_out(ctx, first_out)


@task
def _reduce_share(share):
    """Bring the keys of a share up to date; their output is appended to OUT in order."""
    ctx = ld(share, H_CTX)
    delta = ld(share, H_DELTA)
    todo = ld(share, H_TODO)
    trace = ld(ctx, INPUT)
    output = ld(ctx, OUTPUT)
    keys = ld(ctx, KEYS)
    now = ld(ld(ctx, D_SCOPE), NOW)
    touched = ld(share, H_TOUCHED)
    in_count = ld(trace, COUNT)
    cursors = cursors_for(ctx, in_count + ld(output, COUNT))
    out_at = 1 + 3 * in_count
    start_cursors(trace, cursors, 1)
    start_cursors(output, cursors, out_at)
    i = ld(share, H_FROM)
    d_rows = ld(share, H_TO)
    j = ld(share, H_TODO_FROM)
    t_rows = ld(share, H_TODO_TO)
    while i < d_rows or j < t_rows:
        order = -1
        if i >= d_rows:
            order = 1
        elif j < t_rows:
            order = compare_rows(ld(delta, DATA), ld(delta, CAP), i, ld(todo, DATA), ld(todo, CAP), j, keys)
        source = delta if order <= 0 else todo
        row = i if order <= 0 else j
        data = ld(source, DATA)
        cap = ld(source, CAP)
        _reduce_key(ctx, data, cap, row, touched, cursors, out_at, now)
        if order >= 0:
            j += 1
        if order <= 0:
            i = key_end(delta, i, data, cap, row, keys)
    return 0


@inner
def _cut(source, other, keys):
    """The row behind the key in the middle of a batch; the first row of the other one whose key is not before it."""
    rows = ld(source, ROWS)
    data = ld(source, DATA)
    cap = ld(source, CAP)
    at = key_end(source, rows // 2, data, cap, rows // 2, keys)
    if other == 0:
        return at, 0
    if at == rows:
        return at, ld(other, ROWS)
    return at, lower_bound(ld(other, DATA), ld(other, CAP), 0, ld(other, ROWS), data, cap, at, 0, keys)


@inner
def _reduce_shared(ctx, share, team):
    """Reduce the smaller half of the keys here, the larger half on the helper with a context of its own."""
    keys = ld(ctx, KEYS)
    delta = ld(share, H_DELTA)
    todo = ld(share, H_TODO)
    if ld(share, H_TO) >= ld(share, H_TODO_TO):
        d_cut, t_cut = _cut(delta, todo, keys)
    else:
        t_cut, d_cut = _cut(todo, delta, keys)
    helper = alloc(D_WORDS)
    copy_words(helper, 0, ctx, 0, D_WORDS)
    for field in (CURSORS, OUT, REQUESTS, ANSWERS):
        st(helper, field, 0)
    for field in (FOUND, EPOCH_LIST):
        block = alloc(64)
        st(block, 0, 64)
        st(helper, field, block)
    scope = ld(ctx, D_SCOPE)
    st(helper, D_SCOPE, twin_scope(scope))
    st(helper, TODO, new_inbox(keys + 2, ld(helper, D_SCOPE)))
    theirs = alloc(H_WORDS)
    copy_words(theirs, 0, share, 0, H_WORDS)
    st(theirs, H_CTX, helper)
    st(theirs, H_FROM, d_cut)
    st(theirs, H_TODO_FROM, t_cut)
    st(share, H_TO, d_cut)
    st(share, H_TODO_TO, t_cut)
    both(team, _reduce_share(), share, theirs)
    close_box(ld(helper, TODO), ld(helper, D_SCOPE), ld(ctx, TODO), scope)
    more = ld(helper, OUT_N)
    if more > 0:
        width = ld(ld(ctx, OUTPUT), T_COLS) + 2
        out = reserve(ctx, OUT, OUT_N, width, more)
        copy_words(out, 1 + ld(ctx, OUT_N) * width, ld(helper, OUT), 1, more * width)
        st(ctx, OUT_N, ld(ctx, OUT_N) + more)
    for field in (CURSORS, FOUND, EPOCH_LIST, OUT):
        free(ld(helper, field))
    free(helper)
    free(theirs)


@operator
def reduce(ctx):
    """Compiled operator; see the module."""
    trace = ld(ctx, INPUT)
    scope = ld(ctx, D_SCOPE)
    now = ld(scope, NOW)
    keys = ld(ctx, KEYS)
    st(ctx, OUT_N, 0)  # a step that failed may have left something
    st(ctx, REQUESTS_N, 0)
    if ld(ctx, D_FRESH) != 0:
        st(ctx, D_FRESH, 0)
        compact(trace)
        delta = ld(ld(trace, TABLE), 0) if ld(trace, COUNT) > 0 else 0
    else:
        delta = ld(trace, DELTA) if ld(trace, STAMP) == now else 0
    todo = take(ld(ctx, TODO), ld(scope, SLOT_NOW), keys, 1, ld(ctx, D_STEP))
    if delta == 0 and todo == 0:
        clear_delta(ld(ctx, OUTPUT))
        return 0
    share = alloc(H_WORDS)
    st(share, H_CTX, ctx)
    st(share, H_DELTA, delta)
    st(share, H_FROM, 0)
    st(share, H_TO, 0 if delta == 0 else ld(delta, ROWS))
    st(share, H_TODO, todo)
    st(share, H_TODO_FROM, 0)
    st(share, H_TODO_TO, 0 if todo == 0 else ld(todo, ROWS))
    touched = ld(share, H_TO) + ld(share, H_TODO_TO)
    st(share, H_TOUCHED, touched)
    step = ld(ctx, D_STEP)
    team = ld(step, STEP_TEAM)
    if team != 0 and touched >= ld(step, STEP_SPLIT) and ld(ctx, KIND) != PYTHON and keys > 0:
        _reduce_shared(ctx, share, team)
    else:
        call_pointer(_reduce_share(), share)
    free(share)
    st(ctx, TOUCHED, ld(ctx, TOUCHED) + touched)
    free_batch(todo)
    if ld(ctx, KIND) == PYTHON:
        return CALL_PYTHON
    publish(ctx)
    return 0
