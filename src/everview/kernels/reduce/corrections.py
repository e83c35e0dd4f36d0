"""Corrections: the correct output minus the output so far.

In the middle of a step, the output so far is any multiset, e.g. {1: +1, 2: +1, 5: -1}; shortcuts that expect a single
value diverge. The new output is therefore the correct output minus everything output so far.
"""

from __future__ import annotations

from everview.kernels.build.native import inner, shared
from everview.kernels.memory import alloc, free, ld, reserve, st
from everview.kernels.operators.arrange import TIMES_KEPT, emit
from everview.kernels.reduce.context import (
    REDUCE_FOUND,
    REDUCE_KEYS,
    REDUCE_OUT,
    REDUCE_OUT_N,
    REDUCE_OUTPUT,
    REDUCE_SCOPE,
    REDUCE_STEP,
    REDUCE_STREAM,
    put_found,
)
from everview.kernels.reduce.history import seen
from everview.kernels.run.scope import SCOPE_FIELDS, SCOPE_NFIELDS, SCOPE_NOW
from everview.kernels.sums import plus
from everview.kernels.trace.batch import (
    BATCH_CAP,
    BATCH_DATA,
    BATCH_DIFF_AT,
    BATCH_ROWS,
    BATCH_TIME_AT,
    diff_at,
    free_batch,
    new_batch,
    time_at,
)
from everview.kernels.trace.buckets import build_index
from everview.kernels.trace.sort import sort_rows
from everview.kernels.trace.trace import TRACE_COLS, TRACE_COUNT, TRACE_TABLE, add_delta, clear_delta


@inner
def _row_less(block, a, b, n):
    for c in range(n):
        x = ld(block, a + c)
        y = ld(block, b + c)
        if x != y:
            return x < y
    return False


@inner
def _sort_found(block, n, width):
    """Sort rows (values, count) of FOUND by value and add up equal ones; the number left, zeros dropped."""
    values = width - 1
    if n > 48:
        copy = alloc(n * (width + 1))  # as updates at time 0, so that the batch sort can do it
        for i in range(n):
            for c in range(values):
                st(copy, i * (width + 1) + c, ld(block, 1 + i * width + c))
            st(copy, i * (width + 1) + values, 0)
            st(copy, i * (width + 1) + values + 1, ld(block, 1 + i * width + values))
        batch = sort_rows(copy, 0, width + 1, 1, n, values, 1, 1, 0)
        if batch == 0:
            return 0
        kept = ld(batch, BATCH_ROWS)
        data = ld(batch, BATCH_DATA)
        for i in range(kept):
            for c in range(values):
                st(block, 1 + i * width + c, ld(data, c * ld(batch, BATCH_CAP) + i))
            st(block, 1 + i * width + values, diff_at(batch, data, i, 0))
        free_batch(batch)
        return kept
    for i in range(1, n):
        j = i
        while j > 0 and _row_less(block, 1 + j * width, 1 + (j - 1) * width, values):
            for c in range(width):
                x = ld(block, 1 + j * width + c)
                st(block, 1 + j * width + c, ld(block, 1 + (j - 1) * width + c))
                st(block, 1 + (j - 1) * width + c, x)
            j -= 1
    kept = 0
    i = 0
    while i < n:
        total = ld(block, 1 + i * width + values)
        k = i + 1
        while k < n and not _row_less(block, 1 + i * width, 1 + k * width, values):
            total = plus(total, ld(block, 1 + k * width + values))
            k += 1
        if total != 0:
            for c in range(values):
                st(block, 1 + kept * width + c, ld(block, 1 + i * width + c))
            st(block, 1 + kept * width + values, total)
            kept += 1
        i = k
    return kept


@inner
def _subtract_output(ctx, cursors, out_at, time, bound, n, first_out):
    """Add to FOUND, negated, what the output says at `time`: its trace, and rows of this pass from `first_out` on; the
    number of rows.
    """
    trace = ld(ctx, REDUCE_OUTPUT)
    scope = ld(ctx, REDUCE_SCOPE)
    fields = ld(scope, SCOPE_FIELDS)
    nfields = ld(scope, SCOPE_NFIELDS)
    keys = ld(ctx, REDUCE_KEYS)
    cols = ld(trace, TRACE_COLS)
    values = cols - keys
    width = values + 1
    table = ld(trace, TRACE_TABLE)
    for b in range(ld(trace, TRACE_COUNT)):
        batch = ld(table, b)
        data = ld(batch, BATCH_DATA)
        cap = ld(batch, BATCH_CAP)
        for i in range(ld(cursors, out_at + 3 * b), ld(cursors, out_at + 3 * b + 1)):
            if seen(time_at(batch, data, i), time, bound, fields, nfields):
                block = put_found(ctx, n, width)
                for c in range(values):
                    st(block, 1 + n * width + c, ld(data, (keys + c) * cap + i))
                st(block, 1 + n * width + values, -diff_at(batch, data, i, 0))
                n += 1
    out = ld(ctx, REDUCE_OUT)
    out_width = cols + 2
    for i in range(first_out, ld(ctx, REDUCE_OUT_N)):
        at = 1 + i * out_width
        if seen(ld(out, at + cols), time, bound, fields, nfields):
            block = put_found(ctx, n, width)
            for c in range(values):
                st(block, 1 + n * width + c, ld(out, at + keys + c))
            st(block, 1 + n * width + values, -ld(out, at + cols + 1))
            n += 1
    return n


@inner
def _is_unchanged(ctx, cursors, out_at, time, bound, found):
    """Whether the output's trace says plainly what FOUND (at most one row) says: the usual case of a touched key that
    stays as it is.
    """
    trace = ld(ctx, REDUCE_OUTPUT)
    scope = ld(ctx, REDUCE_SCOPE)
    fields = ld(scope, SCOPE_FIELDS)
    nfields = ld(scope, SCOPE_NFIELDS)
    keys = ld(ctx, REDUCE_KEYS)
    values = ld(trace, TRACE_COLS) - keys
    block = ld(ctx, REDUCE_FOUND)
    table = ld(trace, TRACE_TABLE)
    total = 0
    for b in range(ld(trace, TRACE_COUNT)):
        start = ld(cursors, out_at + 3 * b)
        end = ld(cursors, out_at + 3 * b + 1)
        if start < end:
            batch = ld(table, b)
            data = ld(batch, BATCH_DATA)
            cap = ld(batch, BATCH_CAP)
            for i in range(start, end):
                if seen(time_at(batch, data, i), time, bound, fields, nfields):
                    if found == 0:
                        return False
                    for c in range(values):
                        if ld(data, (keys + c) * cap + i) != ld(block, 1 + c):
                            return False
                    total = plus(total, diff_at(batch, data, i, 0))
    return found == 0 or total == ld(block, 1 + values)


@inner
def _emit_corrections(ctx, key_data, key_cap, key_row, time, n):
    """Append FOUND's rows to OUT as updates of the key at `time`."""
    keys = ld(ctx, REDUCE_KEYS)
    cols = ld(ld(ctx, REDUCE_OUTPUT), TRACE_COLS)
    values = cols - keys
    out = reserve(ctx, REDUCE_OUT, REDUCE_OUT_N, cols + 2, n)
    block = ld(ctx, REDUCE_FOUND)
    for i in range(n):
        at = 1 + (ld(ctx, REDUCE_OUT_N) + i) * (cols + 2)
        for c in range(keys):
            st(out, at + c, ld(key_data, c * key_cap + key_row))
        for c in range(values):
            st(out, at + keys + c, ld(block, 1 + i * (values + 1) + c))
        st(out, at + cols, time)
        st(out, at + cols + 1, ld(block, 1 + i * (values + 1) + values))
    st(ctx, REDUCE_OUT_N, ld(ctx, REDUCE_OUT_N) + n)


@shared
def settle_time(ctx, key_data, key_cap, key_row, cursors, out_at, time, bound, found, first_out):
    """FOUND holds the output that should be: emit what differs from the output that is."""
    width = ld(ld(ctx, REDUCE_OUTPUT), TRACE_COLS) - ld(ctx, REDUCE_KEYS) + 1
    if found <= 1 and first_out == ld(ctx, REDUCE_OUT_N) and _is_unchanged(ctx, cursors, out_at, time, bound, found):
        return 0
    n = _subtract_output(ctx, cursors, out_at, time, bound, found, first_out)
    if n > 0:
        n = _sort_found(ld(ctx, REDUCE_FOUND), n, width)
        if n > 0:
            _emit_corrections(ctx, key_data, key_cap, key_row, time, n)
    return 0


@inner
def sort_out(ctx, first):
    """Sort one key's output rows by value, then time: several epochs were appended one after the other."""
    cols = ld(ld(ctx, REDUCE_OUTPUT), TRACE_COLS)
    width = cols + 2
    out = ld(ctx, REDUCE_OUT)
    for i in range(first + 1, ld(ctx, REDUCE_OUT_N)):
        j = i
        while j > first and _row_less(out, 1 + j * width, 1 + (j - 1) * width, cols + 1):
            for c in range(width):
                x = ld(out, 1 + j * width + c)
                st(out, 1 + j * width + c, ld(out, 1 + (j - 1) * width + c))
                st(out, 1 + (j - 1) * width + c, x)
            j -= 1


@inner
def _sorted_batch(out, n, cols):
    """A batch of n > 0 rows (columns, time, diff) that are sorted and consolidated already, from word 1 of `out` on."""
    width = cols + 2
    one_time = True
    ones = True
    time = ld(out, 1 + cols)
    for i in range(n):
        if ld(out, 1 + i * width + cols) != time:
            one_time = False
        if ld(out, 1 + i * width + cols + 1) != 1:
            ones = False
    batch = new_batch(n, cols, 1, one_time, ones)
    data = ld(batch, BATCH_DATA)
    st(data, ld(batch, BATCH_TIME_AT), time)
    st(data, ld(batch, BATCH_DIFF_AT), 1)
    for c in range(cols):
        for i in range(n):
            st(data, c * n + i, ld(out, 1 + i * width + c))
    if not one_time:
        for i in range(n):
            st(data, ld(batch, BATCH_TIME_AT) + i, ld(out, 1 + i * width + cols))
    if not ones:
        for i in range(n):
            st(data, ld(batch, BATCH_DIFF_AT) + i, ld(out, 1 + i * width + cols + 1))
    build_index(batch, 0)
    return batch


@shared
def publish(ctx):
    """The rows collected in OUT, already sorted, become the output's delta."""
    output = ld(ctx, REDUCE_OUTPUT)
    n = ld(ctx, REDUCE_OUT_N)
    if n == 0:
        clear_delta(output)
        return 0
    st(ctx, REDUCE_OUT_N, 0)
    batch = _sorted_batch(ld(ctx, REDUCE_OUT), n, ld(output, TRACE_COLS))
    if n > 1 << 16:
        free(ld(ctx, REDUCE_OUT))
        st(ctx, REDUCE_OUT, 0)
    add_delta(output, batch, ld(ld(ctx, REDUCE_SCOPE), SCOPE_NOW), ld(ctx, REDUCE_STEP))
    emit(ld(ctx, REDUCE_STREAM), batch, TIMES_KEPT)
    return 0
