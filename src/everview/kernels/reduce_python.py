"""Reductions written in Python, in two halves.

`reduce` writes the groups to evaluate into REQUESTS and asks for the driver; the driver fills ANSWERS;
`reduce_answers` compares with what was said and emits.
"""

from __future__ import annotations

from everview.kernels.batch import CAP, DATA
from everview.kernels.history import locate, next_value, rewind, start_cursors
from everview.kernels.memory import alloc, free, ld, st
from everview.kernels.native import inner, operator
from everview.kernels.reduction import (
    ANSWERS,
    ANSWERS_N,
    D_SCOPE,
    INPUT,
    KEYS,
    OUT_N,
    OUTPUT,
    REQUESTS,
    REQUESTS_N,
    cursors_for,
    put_found,
    reserve,
)
from everview.kernels.said import publish, settle_time, sort_out
from everview.kernels.scope import FIELDS, NFIELDS
from everview.kernels.trace import COUNT, T_COLS


@inner
def ask(ctx, key_data, key_cap, key_row, cursors, time, bound):
    """PYTHON: write the group at `time` into REQUESTS: a head (-1, time, key...) and its rows (count, 0, values...)."""
    trace = ld(ctx, INPUT)
    scope = ld(ctx, D_SCOPE)
    keys = ld(ctx, KEYS)
    cols = ld(trace, T_COLS)
    width = 2 + cols
    block = reserve(ctx, REQUESTS, REQUESTS_N, width, 1)
    at = 1 + ld(ctx, REQUESTS_N) * width
    st(block, at, 0)
    st(block, at + 1, time)
    for c in range(keys):
        st(block, at + 2 + c, ld(key_data, c * key_cap + key_row))
    for c in range(keys, cols):
        st(block, at + 2 + c, 0)
    st(ctx, REQUESTS_N, ld(ctx, REQUESTS_N) + 1)
    rewind(trace, cursors, 1)
    while True:
        batch, row, total = next_value(trace, cursors, 1, keys, time, bound, ld(scope, FIELDS), ld(scope, NFIELDS))
        if batch == 0:
            break
        if total != 0:
            block = reserve(ctx, REQUESTS, REQUESTS_N, width, 1)
            at = 1 + ld(ctx, REQUESTS_N) * width
            st(block, at, total)
            st(block, at + 1, time)
            for c in range(cols):
                st(block, at + 2 + c, ld(ld(batch, DATA), c * ld(batch, CAP) + row))
            st(ctx, REQUESTS_N, ld(ctx, REQUESTS_N) + 1)


@operator
def reduce_answers(ctx):
    """Second half of a Python reduction: ANSWERS holds, per request in order, a head (-1, time, key...) and rows
    (count, 0, values...).
    """
    output = ld(ctx, OUTPUT)
    keys = ld(ctx, KEYS)
    cols = ld(output, T_COLS)
    values = cols - keys
    width = 2 + cols
    n = ld(ctx, ANSWERS_N)
    block = ld(ctx, ANSWERS)
    key = alloc(keys + 1)
    cursors = cursors_for(ctx, ld(output, COUNT) + 1)
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
            first_out = ld(ctx, OUT_N)
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
    st(ctx, REQUESTS_N, 0)
    st(ctx, ANSWERS_N, 0)
    publish(ctx)
    return 0
