"""Refuses deletions of absent rows: every deletion of a base table finds the row it takes away.

Each deleted row is looked up in every batch of the table, which is a quarter of a bulk change of half deletions. A
look-up waits for the index and then for the rows. So deletions are taken NEAR_ROWS at a time: first the buckets of all
of them are read and their rows asked for, batch by batch, and only then are rows compared. The few of a small change
have nobody to wait beside: their words of all indexes are asked for first. Short buckets are scanned rather than
halved, by the last column first: rows that share a bucket mostly differ there.
"""

from __future__ import annotations

from everview.kernels.build.native import REFUSED, inner, operator, task
from everview.kernels.memory import EVER, alloc, alloc_with, call_pointer, free, ld, prefetch, st
from everview.kernels.run.step import STEP_SPLIT, STEP_TEAM
from everview.kernels.sums import plus
from everview.kernels.threads.thread_pool import free_shares, members, new_shares, together
from everview.kernels.trace.batch import (
    BATCH_CAP,
    BATCH_DATA,
    BATCH_DIFF_MASK,
    BATCH_INDEX,
    BATCH_PARTS,
    BATCH_ROWS,
    compare_rows,
    diff_at,
    time_at,
)
from everview.kernels.trace.buckets import bucket
from everview.kernels.trace.prefetch import hint_index
from everview.kernels.trace.search import has_key, lower_bound
from everview.kernels.trace.trace import TRACE_COLS, TRACE_COUNT, TRACE_DELTA, TRACE_TABLE

CURSOR_TRACE, CURSOR_STEP, CURSOR_WORDS = range(3)
"""The context of a check: the table's trace, the step."""

CHECK_TRACE, CHECK_FIRST, CHECK_LAST, CHECK_FOUND, CHECK_ROWS = range(5)
"""A share of a check: rows of a trace's last change; CHECK_FOUND: the first that is refused, or -1. From CHECK_ROWS on
the deletions under way and, batch by batch, the starts and ends of their buckets.
"""

NEAR_ROWS = 16  # deletions that are looked up together
ALONE_ROWS = 3  # deletions up to which their words of the indexes are asked for
SCANNED_ROWS = 8  # rows that are compared one after the other rather than halved


@inner
def _deletions(share, delta, data, i):
    """Collect the next deletions from row i on: (their number, the row to go on from)."""
    last = ld(share, CHECK_LAST)
    n = 0
    while i < last and n < NEAR_ROWS:
        if diff_at(delta, data, i, 0) < 0:
            st(share, CHECK_ROWS + n, i)
            n += 1
        i += 1
    return n, i


@inner
def _find_buckets(share, batch, at, data, cap, cols, n):
    """Note the buckets of the deletions in a batch from word `at` of the share on, and ask for their rows."""
    theirs = ld(batch, BATCH_DATA)
    their_cap = ld(batch, BATCH_CAP)
    indexed = ld(batch, BATCH_INDEX) != 0
    for k in range(n):
        low, high, _ = bucket(batch, data, cap, ld(share, CHECK_ROWS + k), cols)
        st(share, at + 2 * k, low)
        st(share, at + 2 * k + 1, high)
        if indexed and low < high:
            for c in range(cols):
                prefetch(theirs, c * their_cap + low)


@inner
def _copies(batch, low, high, data, cap, i, cols, time):
    """What rows [low, high) of a batch add up to for a row i, until a time."""
    theirs = ld(batch, BATCH_DATA)
    their_cap = ld(batch, BATCH_CAP)
    if high - low > SCANNED_ROWS:
        alike = 0 if ld(batch, BATCH_INDEX) == 0 or ld(batch, BATCH_PARTS) == 1 else 1
        low = lower_bound(theirs, their_cap, low, high, data, cap, i, alike, cols)
    else:
        while low < high and not has_key(theirs, their_cap, low, data, cap, i, cols):
            low += 1
    total = 0
    while low < high and has_key(theirs, their_cap, low, data, cap, i, cols):
        if time_at(batch, theirs, low) <= time:
            total = plus(total, diff_at(batch, theirs, low, 0))
        low += 1
    return total


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
    table = ld(trace, TRACE_TABLE)
    cols = ld(trace, TRACE_COLS)
    delta = ld(trace, TRACE_DELTA)
    data = ld(delta, BATCH_DATA)
    cap = ld(delta, BATCH_CAP)
    before = ld(trace, TRACE_COUNT) - 1  # the change is the last batch
    buckets = CHECK_ROWS + NEAR_ROWS
    st(share, CHECK_FOUND, -1)
    n, i = _deletions(share, delta, data, ld(share, CHECK_FIRST))
    while n > 0:
        if n <= ALONE_ROWS:
            for k in range(n):
                hint_index(trace, ld(data, ld(share, CHECK_ROWS + k)))
        for b in range(before):
            _find_buckets(share, ld(table, b), buckets + 2 * NEAR_ROWS * b, data, cap, cols, n)
        for k in range(n):
            row = ld(share, CHECK_ROWS + k)
            time = time_at(delta, data, row)
            held = _own(delta, data, row, cols)
            for b in range(before):
                at = buckets + 2 * (NEAR_ROWS * b + k)
                held = plus(held, _copies(ld(table, b), ld(share, at), ld(share, at + 1), data, cap, row, cols, time))
            if held < 0:
                st(share, CHECK_FOUND, row)
                return 0
        n, i = _deletions(share, delta, data, i)
    return 0


@inner
def _share_words(trace):
    return CHECK_ROWS + NEAR_ROWS * (2 * ld(trace, TRACE_COUNT) + 1)


@inner
def _fill_share(share, trace, first, last):
    st(share, CHECK_TRACE, trace)
    st(share, CHECK_FIRST, first)
    st(share, CHECK_LAST, last)
    return share


@inner
def _first_missing(trace, rows, step):
    """The first of a change's rows that takes away what is not there; -1 if there is none."""
    pool = ld(step, STEP_TEAM)
    if pool == 0 or rows < ld(step, STEP_SPLIT):
        share = _fill_share(alloc(_share_words(trace)), trace, 0, rows)
        call_pointer(_check_rows(), share)
        found = ld(share, CHECK_FOUND)
        free(share)
        return found
    n = members(pool)
    shares = new_shares(pool)
    for k in range(n):
        share = alloc_with(_share_words(trace), EVER)
        st(shares, k, _fill_share(share, trace, rows * k // n, rows * (k + 1) // n))
    together(pool, _check_rows(), shares)
    found = -1
    for k in range(n):
        if found < 0:
            found = ld(ld(shares, k), CHECK_FOUND)
    free_shares(pool, shares)
    return found


@operator
def check(ctx):
    """Refuse the step if its change of a base table takes away rows that are not there."""
    trace = ld(ctx, CURSOR_TRACE)
    delta = ld(trace, TRACE_DELTA)
    if delta == 0 or ld(delta, BATCH_DIFF_MASK) == 0:  # every diff is 1
        return 0
    found = _first_missing(trace, ld(delta, BATCH_ROWS), ld(ctx, CURSOR_STEP))
    return 0 if found < 0 else REFUSED
