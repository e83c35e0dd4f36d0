"""Reductions written in Python, in two halves.

`reduce` writes the groups to evaluate into REQUESTS and returns to the driver; the driver fills ANSWERS;
`reduce_answers` computes and outputs the corrections.
"""

from __future__ import annotations

from everview.kernels.build.native import inner, operator
from everview.kernels.memory import alloc, free, ld, reserve, st
from everview.kernels.reduce.context import (
    REDUCE_ANSWERS,
    REDUCE_ANSWERS_N,
    REDUCE_INPUT,
    REDUCE_KEYS,
    REDUCE_OUT_N,
    REDUCE_OUTPUT,
    REDUCE_REQUESTS,
    REDUCE_REQUESTS_N,
    REDUCE_SCOPE,
    cursors_for,
    put_found,
)
from everview.kernels.reduce.corrections import publish, settle_time, sort_out
from everview.kernels.reduce.history import locate, next_value, rewind, start_cursors
from everview.kernels.run.scope import SCOPE_FIELDS, SCOPE_NFIELDS
from everview.kernels.trace.batch import BATCH_CAP, BATCH_DATA
from everview.kernels.trace.trace import TRACE_COLS, TRACE_COUNT


@inner
def ask(ctx, key_data, key_cap, key_row, cursors, time, bound):
    """PYTHON: write the group at `time` into REQUESTS: a head (-1, time, key...) and its rows (count, 0, values...)."""
    trace = ld(ctx, REDUCE_INPUT)
    scope = ld(ctx, REDUCE_SCOPE)
    keys = ld(ctx, REDUCE_KEYS)
    cols = ld(trace, TRACE_COLS)
    width = 2 + cols
    block = reserve(ctx, REDUCE_REQUESTS, REDUCE_REQUESTS_N, width, 1)
    at = 1 + ld(ctx, REDUCE_REQUESTS_N) * width
    st(block, at, 0)
    st(block, at + 1, time)
    for c in range(keys):
        st(block, at + 2 + c, ld(key_data, c * key_cap + key_row))
    for c in range(keys, cols):
        st(block, at + 2 + c, 0)
    st(ctx, REDUCE_REQUESTS_N, ld(ctx, REDUCE_REQUESTS_N) + 1)
    rewind(trace, cursors, 1)
    while True:
        batch, row, total = next_value(
            trace, cursors, 1, keys, time, bound, ld(scope, SCOPE_FIELDS), ld(scope, SCOPE_NFIELDS)
        )
        if batch == 0:
            break
        if total != 0:
            block = reserve(ctx, REDUCE_REQUESTS, REDUCE_REQUESTS_N, width, 1)
            at = 1 + ld(ctx, REDUCE_REQUESTS_N) * width
            st(block, at, total)
            st(block, at + 1, time)
            for c in range(cols):
                st(block, at + 2 + c, ld(ld(batch, BATCH_DATA), c * ld(batch, BATCH_CAP) + row))
            st(ctx, REDUCE_REQUESTS_N, ld(ctx, REDUCE_REQUESTS_N) + 1)


@operator
def reduce_answers(ctx):
    """Second half of a Python reduction: ANSWERS holds, per request in order, a head (-1, time, key...) and rows
    (count, 0, values...).
    """
    output = ld(ctx, REDUCE_OUTPUT)
    keys = ld(ctx, REDUCE_KEYS)
    cols = ld(output, TRACE_COLS)
    values = cols - keys
    width = 2 + cols
    n = ld(ctx, REDUCE_ANSWERS_N)
    block = ld(ctx, REDUCE_ANSWERS)
    key = alloc(keys + 1)
    cursors = cursors_for(ctx, ld(output, TRACE_COUNT) + 1)
    first_out = 0
    i = 0
    while i < n:
        at = 1 + i * width
        time = ld(block, at + 1)
        same = i > 0
        for c in range(keys):
            if same and ld(key, c) != ld(block, at + 2 + c):
                same = False
            st(key, c, ld(block, at + 2 + c))
        if not same:
            if i > 0:
                sort_out(ctx, first_out)
            first_out = ld(ctx, REDUCE_OUT_N)
        start_cursors(output, cursors, 1)
        locate(output, key, 1, 0, keys, 0, cursors, 1)
        found = 0
        i += 1
        while i < n and ld(block, 1 + i * width) != 0:
            at = 1 + i * width
            into = put_found(ctx, found, values + 1)
            for c in range(values):
                st(into, 1 + found * (values + 1) + c, ld(block, at + 2 + keys + c))
            st(into, 1 + found * (values + 1) + values, ld(block, at))
            found += 1
            i += 1
        settle_time(ctx, key, 1, 0, cursors, 1, time, -1, found, first_out)
    if n > 0:
        sort_out(ctx, first_out)
    free(key)
    st(ctx, REDUCE_REQUESTS_N, 0)
    st(ctx, REDUCE_ANSWERS_N, 0)
    publish(ctx)
    return 0
