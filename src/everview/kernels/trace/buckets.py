"""The index of a large batch: the starts of many small key ranges.

Bucket b of the first column begins at row BATCH_INDEX[b]; buckets are ranges of equally many values, as many as make
about BUCKET_ROWS rows each. Looking one up is one access to memory instead of a dozen, measured five times faster than
binary search over the whole column.

Where the first column has few values, each with many rows, as in pairs (from, to) of a closure, every value has a
bucket, which is divided again, by the second column, into BATCH_PARTS. Then BATCH_INDEX[b * BATCH_PARTS + p] is where
part p of value b begins.

Hazard: the difference of two keys may not fit into 64 bits, that of their halves does. So the first column's buckets
are made of halves, except where every value has one.
"""

from __future__ import annotations

from everview.kernels.build.native import inner, shared, task
from everview.kernels.memory import alloc, call_pointer, free, ld, st
from everview.kernels.threads.thread_pool import free_shares, members, new_shares, together
from everview.kernels.trace.batch import (
    BATCH_BUCKETS,
    BATCH_CAP,
    BATCH_COLS,
    BATCH_DATA,
    BATCH_INDEX,
    BATCH_KEY_MIN,
    BATCH_KEY_SHIFT,
    BATCH_PART_MIN,
    BATCH_PART_SHIFT,
    BATCH_PARTS,
    BATCH_ROWS,
)

INDEX_FROM = 160  # rows from which a batch gets an index; smaller ones are mostly rewritten by the next transaction
BUCKET_ROWS = 4  # rows per bucket aimed at

INDEXING_BATCH, INDEXING_INDEX, INDEXING_FIRST, INDEXING_LAST, INDEXING_WORDS = range(5)
"""A share of an index: rows of a batch, and the index that is being made of it."""


@inner
def _number(batch, data, i):
    """Which bucket row i is in."""
    parts = ld(batch, BATCH_PARTS)
    if parts == 1:
        return ((ld(data, i) >> 1) - ld(batch, BATCH_KEY_MIN)) >> ld(batch, BATCH_KEY_SHIFT)
    part = ((ld(data, ld(batch, BATCH_CAP) + i) >> 1) - ld(batch, BATCH_PART_MIN)) >> ld(batch, BATCH_PART_SHIFT)
    return (ld(data, i) - ld(batch, BATCH_KEY_MIN)) * parts + part


@task
def _fill(share):
    """Say where the buckets begin whose first row is one of the share's."""
    batch = ld(share, INDEXING_BATCH)
    data = ld(batch, BATCH_DATA)
    index = ld(share, INDEXING_INDEX)
    first = ld(share, INDEXING_FIRST)
    at = _number(batch, data, first - 1) + 1 if first > 0 else 0
    for i in range(first, ld(share, INDEXING_LAST)):
        b = _number(batch, data, i)
        while at <= b:
            st(index, at, i)
            at += 1
    if ld(share, INDEXING_LAST) == ld(batch, BATCH_ROWS):
        while at <= ld(batch, BATCH_BUCKETS):
            st(index, at, ld(batch, BATCH_ROWS))
            at += 1
    return 0


@inner
def _new_share(batch, index, first, last):
    share = alloc(INDEXING_WORDS)
    st(share, INDEXING_BATCH, batch)
    st(share, INDEXING_INDEX, index)
    st(share, INDEXING_FIRST, first)
    st(share, INDEXING_LAST, last)
    return share


@inner
def _shift_for(span, most):
    """By how many bits numbers from 0 to `span` must be shifted to be at most `most` different ones."""
    shift = 0
    while (span >> shift) + 1 > most:
        shift += 1
    return shift


@inner
def _divide(batch, most):
    """Choose the ranges: at most `most` buckets; how many there are, 0 if there is nothing to tell apart."""
    data = ld(batch, BATCH_DATA)
    rows = ld(batch, BATCH_ROWS)
    low = ld(data, 0) >> 1
    span = (ld(data, rows - 1) >> 1) - low
    shift = _shift_for(span, most)
    st(batch, BATCH_PARTS, 1)
    st(batch, BATCH_KEY_MIN, low)
    st(batch, BATCH_KEY_SHIFT, shift)
    if shift == 0 and ld(batch, BATCH_COLS) > 1:
        values = ld(data, rows - 1) - ld(data, 0) + 1
        parts = _parts(batch, most // values)
        if parts > 1:
            st(batch, BATCH_PARTS, parts)
            st(batch, BATCH_KEY_MIN, ld(data, 0))
            return values * parts
    return (span >> shift) + 1 if span > 0 else 0


@inner
def _parts(batch, most):
    """Choose how the second column divides the rows of one value of the first; the number of parts, at most `most`."""
    if most < 2:
        return 1
    at = ld(batch, BATCH_CAP)
    data = ld(batch, BATCH_DATA)
    low = ld(data, at)
    high = low
    for i in range(ld(batch, BATCH_ROWS)):
        low = min(low, ld(data, at + i))
        high = max(high, ld(data, at + i))
    span = (high >> 1) - (low >> 1)
    shift = _shift_for(span, most)
    st(batch, BATCH_PART_MIN, low >> 1)
    st(batch, BATCH_PART_SHIFT, shift)
    return (span >> shift) + 1


@shared
def build_index(batch, pool):
    """Give a large batch its index. The batch has it only when it is complete: any allocation here may be the last."""
    rows = ld(batch, BATCH_ROWS)
    if rows < INDEX_FROM or ld(batch, BATCH_COLS) == 0:
        return 0
    buckets = _divide(batch, rows // BUCKET_ROWS)
    if buckets == 0:
        return 0
    st(batch, BATCH_BUCKETS, buckets)
    index = alloc(buckets + 1)
    if pool == 0:
        share = _new_share(batch, index, 0, rows)
        call_pointer(_fill(), share)
        free(share)
    else:
        n = members(pool)
        shares = new_shares(pool)
        for k in range(n):
            st(shares, k, _new_share(batch, index, rows * k // n, rows * (k + 1) // n))
        together(pool, _fill(), shares)
        free_shares(pool, shares)
    free(ld(batch, BATCH_INDEX))  # of an earlier attempt that failed later
    st(batch, BATCH_INDEX, index)
    return 0


@inner
def bucket(batch, other, other_cap, j, keys):
    """(low, high, alike): the first row whose key is not before that of row j of another batch's data is one of rows
    [low, high), whose first `alike` columns are the key's, or it is row `high`. BATCH_ROWS twice if the key is surely
    absent.
    """
    rows = ld(batch, BATCH_ROWS)
    index = ld(batch, BATCH_INDEX)
    if index == 0:
        return 0, rows, 0
    key = ld(other, j)
    parts = ld(batch, BATCH_PARTS)
    if parts == 1:
        b = ((key >> 1) - ld(batch, BATCH_KEY_MIN)) >> ld(batch, BATCH_KEY_SHIFT)
        if b < 0 or b >= ld(batch, BATCH_BUCKETS):
            return rows, rows, 0
        return ld(index, b), ld(index, b + 1), 0
    b = _value(batch, key) * parts
    if b < 0:
        return rows, rows, 0
    if keys == 1:
        return ld(index, b), ld(index, b), 1
    p = ((ld(other, other_cap + j) >> 1) - ld(batch, BATCH_PART_MIN)) >> ld(batch, BATCH_PART_SHIFT)
    if p < 0:
        return ld(index, b), ld(index, b), 1
    if p >= parts:
        return ld(index, b + parts), ld(index, b + parts), 1
    return ld(index, b + p), ld(index, b + p + 1), 1


@inner
def _value(batch, key):
    """Which of the first column's values a key is, where each has its buckets; -1 if it is outside of them."""
    low = ld(batch, BATCH_KEY_MIN)
    half = (key >> 1) - (low >> 1)
    if half < 0 or half > ld(batch, BATCH_BUCKETS):  # so that the difference fits
        return -1
    value = key - low
    return value if value * ld(batch, BATCH_PARTS) < ld(batch, BATCH_BUCKETS) else -1
