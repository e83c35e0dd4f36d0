"""Reading traces from outside a step: contents at a time, changes after a time, the rows of one key.

Results are ordinary batches (sorted and consolidated) that the caller owns.
"""

from __future__ import annotations

from everview.kernels.build.native import REFUSED, entry, inner, operator, task
from everview.kernels.memory import EVER, alloc, alloc_with, call_pointer, free, ld, prefetch, raw_load, st
from everview.kernels.run.step import STEP_SPLIT, STEP_TEAM
from everview.kernels.sums import plus
from everview.kernels.threads.team import free_shares, members, new_shares, together
from everview.kernels.trace.batch import (
    BATCH_CAP,
    BATCH_COLS,
    BATCH_DATA,
    BATCH_DIFF_MASK,
    BATCH_INDEX,
    BATCH_ROWS,
    compare_rows,
    diff_at,
    free_batch,
    time_at,
)
from everview.kernels.trace.buckets import bucket
from everview.kernels.trace.search import find_key, key_end
from everview.kernels.trace.sort import sort_rows
from everview.kernels.trace.trace import NO_SINCE, TRACE_COLS, TRACE_COUNT, TRACE_DELTA, TRACE_TABLE

CURSOR_TRACE, CURSOR_ROW, CURSOR_STEP, CURSOR_WORDS = range(4)

CHECK_TRACE, CHECK_FIRST, CHECK_LAST, CHECK_FOUND, CHECK_WORDS = range(5)
"""A share of a check: rows of a trace's last change; CHECK_FOUND: the first that is refused, or -1."""

NEAR_ROWS = 16  # rows whose places are brought into the cache together


@inner
def copy_row(batch, data, i, rows, at, time):
    """Write row i of a batch at word `at` of a block: its columns, a time, its diff."""
    cols = ld(batch, BATCH_COLS)
    cap = ld(batch, BATCH_CAP)
    for c in range(cols):
        st(rows, at + c, ld(data, c * cap + i))
    st(rows, at + cols, time)
    st(rows, at + cols + 1, diff_at(batch, data, i, 0))


@inner
def collect_rows(trace, key, keys, after, upto, keep_times):
    """The updates with after < time <= upto whose first `keys` columns equal the words of block `key`, as one batch."""
    table = ld(trace, TRACE_TABLE)
    width = ld(trace, TRACE_COLS) + 2
    total = 0
    for b in range(ld(trace, TRACE_COUNT)):
        batch = ld(table, b)
        start = find_key(batch, key, 1, 0, keys)
        if start < ld(batch, BATCH_ROWS):
            total += key_end(batch, start, key, 1, 0, keys) - start
    if total == 0:
        return 0
    out = alloc(total * width)
    n = 0
    for b in range(ld(trace, TRACE_COUNT)):
        batch = ld(table, b)
        data = ld(batch, BATCH_DATA)
        start = find_key(batch, key, 1, 0, keys)
        if start < ld(batch, BATCH_ROWS):
            for i in range(start, key_end(batch, start, key, 1, 0, keys)):
                t = time_at(batch, data, i)
                if after < t <= upto:
                    copy_row(batch, data, i, out, n * width, t if keep_times != 0 else 0)
                    n += 1
    return sort_rows(out, 0, width, 1, n, width - 2, 1, 1, 0)


@entry("int", "int", "int", "int", "int", "int", lasting=False)
def _collect(trace, key, keys, after, upto, keep_times):
    return collect_rows(trace, key, keys, after, upto, keep_times)


def collect(trace: int, after: int, upto: int, keep_times: int) -> int:
    """All updates with after < time <= upto as one batch (0 if none); without `keep_times` times are forgotten."""
    return int(_collect(trace, 0, 0, after, upto, keep_times))


def collect_key(trace: int, key: int, keys: int, upto: int) -> int:
    """The rows whose first `keys` columns equal the words of block `key`, at time `upto`, as one batch (0 if none)."""
    return int(_collect(trace, key, keys, NO_SINCE, upto, 0))


@entry("int")
def release(batch):
    """Give a batch back that one of these functions returned."""
    free_batch(batch)
    return 0


@entry("int", "int")
def release_at(block, index):
    """Give the batch back that a word of a block names; the word is 0 then. One call, so that nobody finds the batch
    there that is gone.
    """
    batch = ld(block, index)
    st(block, index, 0)
    free_batch(batch)
    return 0


@inner
def balance(trace, batches, data, cap, i, time):
    """Multiplicity of the row i at `time` in the first so many batches of a trace."""
    table = ld(trace, TRACE_TABLE)
    cols = ld(trace, TRACE_COLS)
    total = 0
    for b in range(batches):
        batch = ld(table, b)
        start = find_key(batch, data, cap, i, cols)
        if start < ld(batch, BATCH_ROWS):
            for k in range(start, key_end(batch, start, data, cap, i, cols)):
                if time_at(batch, ld(batch, BATCH_DATA), k) <= time:
                    total = plus(total, diff_at(batch, ld(batch, BATCH_DATA), k, 0))
    return total


@entry("int", "words", "int", lasting=False)
def how_often(trace, codes, n, time):
    """Multiplicity at `time` of the row with these codes, in the trace's order of columns."""
    row = alloc(n)
    for c in range(n):
        st(row, c, raw_load(codes, c))
    total = balance(trace, ld(trace, TRACE_COUNT), row, 1, 0, time)
    free(row)
    return total


@inner
def _bring_near(trace, data, cap, first, last):
    """Have the rows of the trace brought into the cache that rows [first, last) are compared with: all at once takes
    little longer than one after the other takes for one.
    """
    cols = ld(trace, TRACE_COLS)
    for b in range(ld(trace, TRACE_COUNT) - 1):
        batch = ld(ld(trace, TRACE_TABLE), b)
        if ld(batch, BATCH_INDEX) != 0:
            for i in range(first, last):
                low, _, _ = bucket(batch, data, cap, i, cols)
                for c in range(cols):
                    prefetch(ld(batch, BATCH_DATA), c * ld(batch, BATCH_CAP) + low)


@inner
def _own(delta, data, i, cols):
    """What a change itself adds up to for its row i, until the time of that row."""
    cap = ld(delta, BATCH_CAP)
    total = diff_at(delta, data, i, 0)
    k = i - 1
    while k >= 0 and compare_rows(data, cap, k, data, cap, i, cols) == 0:
        total = plus(total, diff_at(delta, data, k, 0))
        k -= 1
    return total


@task
def _check_rows(share):
    """Find the first of the share's rows that takes away what is not there."""
    trace = ld(share, CHECK_TRACE)
    delta = ld(trace, TRACE_DELTA)
    data = ld(delta, BATCH_DATA)
    cap = ld(delta, BATCH_CAP)
    before = ld(trace, TRACE_COUNT) - 1  # the change is the last batch
    near = ld(share, CHECK_FIRST)
    st(share, CHECK_FOUND, -1)
    for i in range(ld(share, CHECK_FIRST), ld(share, CHECK_LAST)):
        if i == near:
            near = min(i + NEAR_ROWS, ld(share, CHECK_LAST))
            if near - i > 1:
                _bring_near(trace, data, cap, i, near)
        if diff_at(delta, data, i, 0) < 0:
            held = balance(trace, before, data, cap, i, time_at(delta, data, i))
            if plus(held, _own(delta, data, i, ld(trace, TRACE_COLS))) < 0:
                st(share, CHECK_FOUND, i)
                return 0
    return 0


@inner
def _fill_share(share, trace, first, last):
    st(share, CHECK_TRACE, trace)
    st(share, CHECK_FIRST, first)
    st(share, CHECK_LAST, last)
    return share


@inner
def _first_missing(trace, rows, step):
    """The first of a change's rows that takes away what is not there; -1 if there is none."""
    team = ld(step, STEP_TEAM)
    if team == 0 or rows < ld(step, STEP_SPLIT):
        share = _fill_share(alloc(CHECK_WORDS), trace, 0, rows)
        call_pointer(_check_rows(), share)
        found = ld(share, CHECK_FOUND)
        free(share)
        return found
    n = members(team)
    shares = new_shares(team)
    for k in range(n):
        st(shares, k, _fill_share(alloc_with(CHECK_WORDS, EVER), trace, rows * k // n, rows * (k + 1) // n))
    together(team, _check_rows(), shares)
    found = -1
    for k in range(n):
        if found < 0:
            found = ld(ld(shares, k), CHECK_FOUND)
    free_shares(team, shares)
    return found


@operator
def check(ctx):
    """Refuse the step if its change of a base table takes away rows that are not there."""
    trace = ld(ctx, CURSOR_TRACE)
    delta = ld(trace, TRACE_DELTA)
    if delta == 0 or ld(delta, BATCH_DIFF_MASK) == 0:  # every diff is 1
        return 0
    found = _first_missing(trace, ld(delta, BATCH_ROWS), ld(ctx, CURSOR_STEP))
    if found < 0:
        return 0
    st(ctx, CURSOR_ROW, found)
    return REFUSED
