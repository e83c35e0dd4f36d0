"""Batches: immutable, columnar, sorted runs of updates (row, time, diff).

A batch is a header block and a data block. Column c of row i is word `c * cap + i` of the data; rows are sorted by all
columns from left to right, then by time, and no two rows agree on both. Because the order is lexicographic, *any
prefix of the columns is a usable key*: one arrangement of edge(src, dst) answers lookups by src and by (src, dst).

A time column whose times are all equal, and a diff column of all ones, are stored as a single word (their mask is 0
instead of -1, see `time_at`): a freshly loaded table then takes half the memory. A batch may have several diff
columns: the accumulators of sums and counts (see `reduce`). Large batches have a radix-bucket index on the first
column, measured five times faster than binary search over the whole column.
"""

from __future__ import annotations

from everview.kernels.memory import alloc, call_pointer, free, ld, st
from everview.kernels.native import inner, shared, task
from everview.kernels.team import both

ROWS, COLS, DIFFS, DATA, CAP, T_AT, T_MASK, D_AT, D_MASK, INDEX, KEY_MIN, SHIFT, BUCKETS, MAPPED, B_WORDS = range(15)
"""MAPPED: the columns lie in memory that somebody else owns (see `image.adopt`)."""

INDEX_FROM = 1024  # rows from which a batch gets a bucket index
BUCKET_ROWS = 4  # rows per bucket aimed at


@inner
def new_batch(rows, cols, diffs, constant_time, constant_diff):
    """An unfilled batch with room for `rows` rows; 0 if there is no memory."""
    batch = alloc(B_WORDS)
    if batch == 0:
        return 0
    times = 1 if constant_time else rows
    weights = 1 if constant_diff else rows * diffs
    data = alloc(cols * rows + times + weights + 1)
    if data == 0:
        free(batch)
        return 0
    st(batch, ROWS, rows)
    st(batch, COLS, cols)
    st(batch, DIFFS, diffs)
    st(batch, DATA, data)
    st(batch, CAP, rows)
    st(batch, T_AT, cols * rows)
    st(batch, T_MASK, 0 if constant_time else -1)
    st(batch, D_AT, cols * rows + times)
    st(batch, D_MASK, 0 if constant_diff else -1)
    st(batch, INDEX, 0)
    st(batch, KEY_MIN, 0)
    st(batch, SHIFT, 0)
    st(batch, BUCKETS, 0)
    st(batch, MAPPED, 0)
    return batch


@inner
def free_batch(batch):
    """Give a batch and all it owns back."""
    if batch != 0:
        if ld(batch, MAPPED) == 0:
            free(ld(batch, DATA))
        free(ld(batch, INDEX))
        free(batch)


@inner
def batch_words(batch):
    """Words of memory a batch takes."""
    rows = ld(batch, CAP)
    words = B_WORDS + ld(batch, COLS) * rows + 1 + ld(batch, BUCKETS) + 2
    words += rows if ld(batch, T_MASK) != 0 else 1
    return words + (rows * ld(batch, DIFFS) if ld(batch, D_MASK) != 0 else 1)


@inner
def time_at(batch, data, i):
    """Time of row `i`; `data` is the batch's data block, passed along because callers hold it anyway."""
    return ld(data, ld(batch, T_AT) + (i & ld(batch, T_MASK)))


@inner
def diff_at(batch, data, i, d):
    """Diff number `d` of row `i`."""
    return ld(data, ld(batch, D_AT) + d * ld(batch, CAP) + (i & ld(batch, D_MASK)))


@inner
def compare_rows(data_a, cap_a, i, data_b, cap_b, j, cols):
    """-1, 0 or 1 as the first `cols` columns of row i of one batch sort before, with or after row j of another."""
    for c in range(cols):
        x = ld(data_a, c * cap_a + i)
        y = ld(data_b, c * cap_b + j)
        if x < y:
            return -1
        if x > y:
            return 1
    return 0


X_BATCH, X_FIRST, X_LAST, X_WORDS = range(4)
"""A share of a bucket index: rows of a batch."""


@task
def _fill_index(share):
    """Say where the buckets start whose first row is one of the share's."""
    batch = ld(share, X_BATCH)
    data = ld(batch, DATA)
    index = ld(batch, INDEX)
    low = ld(batch, KEY_MIN)
    shift = ld(batch, SHIFT)
    first = ld(share, X_FIRST)
    at = 0
    if first > 0:
        at = (((ld(data, first - 1) >> 1) - low) >> shift) + 1
    for i in range(first, ld(share, X_LAST)):
        b = ((ld(data, i) >> 1) - low) >> shift
        while at <= b:
            st(index, at, i)
            at += 1
    if ld(share, X_LAST) == ld(batch, ROWS):
        while at <= ld(batch, BUCKETS):
            st(index, at, ld(batch, ROWS))
            at += 1
    return 0


@inner
def _index_share(batch, first, last):
    share = alloc(X_WORDS)
    st(share, X_BATCH, batch)
    st(share, X_FIRST, first)
    st(share, X_LAST, last)
    return share


@shared
def build_index(batch, team):
    """Give a large batch its bucket index: bucket b of (key / 2 - KEY_MIN) >> SHIFT starts at row INDEX[b]."""
    rows = ld(batch, ROWS)
    if rows < INDEX_FROM or ld(batch, COLS) == 0:
        return 0
    data = ld(batch, DATA)
    low = ld(data, 0) >> 1  # halves: the difference of two keys may not fit into 64 bits, that of their halves does
    span = (ld(data, rows - 1) >> 1) - low
    if span == 0:
        return 0
    shift = 0
    while (span >> shift) + 1 > rows // BUCKET_ROWS:
        shift += 1
    buckets = (span >> shift) + 1
    index = alloc(buckets + 1)
    if index == 0:
        return 0
    st(batch, INDEX, index)
    st(batch, KEY_MIN, low)
    st(batch, SHIFT, shift)
    st(batch, BUCKETS, buckets)
    mine = _index_share(batch, 0, rows // 2 if team != 0 else rows)
    if team != 0:
        theirs = _index_share(batch, rows // 2, rows)
        both(team, _fill_index(), mine, theirs)
        free(theirs)
    else:
        call_pointer(_fill_index(), mine)
    free(mine)
    return 0


@inner
def lower_bound(data, cap, low, high, other, other_cap, j, keys):
    """First row in [low, high) whose first `keys` columns are not before those of row j of another batch."""
    if keys == 1:
        x = ld(other, j)
        while low < high:
            middle = (low + high) >> 1
            if ld(data, middle) < x:
                low = middle + 1
            else:
                high = middle
        return low
    while low < high:
        middle = (low + high) >> 1
        if compare_rows(data, cap, middle, other, other_cap, j, keys) < 0:
            low = middle + 1
        else:
            high = middle
    return low


@inner
def find_key(batch, other, other_cap, j, keys):
    """First row of `batch` whose key is not before the key of row j of another batch's data; ROWS if the key is surely
    absent.
    """
    rows = ld(batch, ROWS)
    data = ld(batch, DATA)
    if keys == 0:
        return 0
    low = 0
    high = rows
    index = ld(batch, INDEX)
    if index != 0:
        offset = (ld(other, j) >> 1) - ld(batch, KEY_MIN)
        if offset < 0:
            return rows
        b = offset >> ld(batch, SHIFT)
        if b >= ld(batch, BUCKETS):
            return rows
        low = ld(index, b)
        high = ld(index, b + 1)
    return lower_bound(data, ld(batch, CAP), low, high, other, other_cap, j, keys)


@inner
def gallop(batch, start, other, other_cap, j, keys):
    """Like find_key for ascending keys: searches forward from `start` in doubling steps."""
    rows = ld(batch, ROWS)
    if keys == 0:
        return 0
    data = ld(batch, DATA)
    cap = ld(batch, CAP)
    if start >= rows or compare_rows(data, cap, start, other, other_cap, j, keys) >= 0:
        return start
    step = 1
    low = start
    while low + step < rows and compare_rows(data, cap, low + step, other, other_cap, j, keys) < 0:
        low += step
        step <<= 1
    return lower_bound(data, cap, low + 1, min(low + step, rows), other, other_cap, j, keys)


@inner
def key_end(batch, start, other, other_cap, j, keys):
    """End of the run of rows from `start` whose key equals that of row j of another batch."""
    rows = ld(batch, ROWS)
    if keys == 0:
        return rows
    data = ld(batch, DATA)
    i = start
    if keys == 1:
        x = ld(other, j)
        while i < rows and ld(data, i) == x:
            i += 1
        return i
    cap = ld(batch, CAP)
    while i < rows and compare_rows(data, cap, i, other, other_cap, j, keys) == 0:
        i += 1
    return i
