"""Searches for keys in a batch: anywhere, or in ascending order from the last position.

A key is given as row j of some data in columns, `other`, whose columns are `other_cap` words apart.
"""

from __future__ import annotations

from everview.kernels.build.native import inner
from everview.kernels.memory import ld
from everview.kernels.trace.batch import BATCH_CAP, BATCH_DATA, BATCH_ROWS, compare_from
from everview.kernels.trace.buckets import bucket


@inner
def lower_bound_in(data, at, low, high, value):
    """First row in [low, high) whose value in the column that starts at word `at` is not below `value`."""
    while low < high:
        middle = (low + high) >> 1
        if ld(data, at + middle) < value:
            low = middle + 1
        else:
            high = middle
    return low


@inner
def seek_in(data, at, low, high, value):
    """Like `lower_bound_in`, from `low` in doubling steps: the nearer, the faster."""
    if low >= high or ld(data, at + low) >= value:
        return low
    step = 1
    while low + step < high and ld(data, at + low + step) < value:
        low += step
        step <<= 1
    return lower_bound_in(data, at, low + 1, min(low + step, high), value)


@inner
def lower_bound(data, cap, low, high, other, other_cap, j, alike, keys):
    """First row in [low, high) whose key is not before that of row j of another batch, if the first `alike` columns are
    known to agree.
    """
    if keys - alike == 1:
        return lower_bound_in(data, alike * cap, low, high, ld(other, alike * other_cap + j))
    while low < high:
        middle = (low + high) >> 1
        if compare_from(data, cap, middle, other, other_cap, j, alike, keys) < 0:
            low = middle + 1
        else:
            high = middle
    return low


@inner
def _ahead(data, cap, low, high, other, other_cap, j, alike, keys):
    """Like `lower_bound`, from `low` in doubling steps: the nearer, the faster."""
    if low >= high or compare_from(data, cap, low, other, other_cap, j, alike, keys) >= 0:
        return low
    step = 1
    while low + step < high and compare_from(data, cap, low + step, other, other_cap, j, alike, keys) < 0:
        low += step
        step <<= 1
    return lower_bound(data, cap, low + 1, min(low + step, high), other, other_cap, j, alike, keys)


@inner
def find_key(batch, other, other_cap, j, keys):
    """First row of `batch` whose key is not before the key of row j of another batch's data; ROWS if the key is surely
    absent.
    """
    if keys == 0:
        return 0
    low, high, alike = bucket(batch, other, other_cap, j, keys)
    return lower_bound(ld(batch, BATCH_DATA), ld(batch, BATCH_CAP), low, high, other, other_cap, j, alike, keys)


@inner
def find_next(batch, start, other, other_cap, j, keys):
    """Like find_key for ascending keys, of which the last was found at `start`. Keys that begin alike may share a long
    bucket: then only what is left of it is searched.
    """
    if keys == 0:
        return 0
    low, high, alike = bucket(batch, other, other_cap, j, keys)
    if low < start < high:
        return _ahead(ld(batch, BATCH_DATA), ld(batch, BATCH_CAP), start, high, other, other_cap, j, alike, keys)
    return lower_bound(ld(batch, BATCH_DATA), ld(batch, BATCH_CAP), low, high, other, other_cap, j, alike, keys)


@inner
def gallop(batch, start, other, other_cap, j, keys):
    """Like find_key for ascending keys without the index: searches forward from `start` in doubling steps."""
    if keys == 0:
        return 0
    return _ahead(
        ld(batch, BATCH_DATA), ld(batch, BATCH_CAP), start, ld(batch, BATCH_ROWS), other, other_cap, j, 0, keys
    )


@inner
def has_key(data, cap, i, other, other_cap, j, keys):
    """Whether row i has the key. Keys that are sought and not found mostly differ in their last columns."""
    for back in range(keys):
        c = keys - 1 - back
        if ld(data, c * cap + i) != ld(other, c * other_cap + j):
            return False
    return True


@inner
def key_end(batch, start, other, other_cap, j, keys):
    """End of the run of rows from `start` whose key equals that of row j of another batch."""
    rows = ld(batch, BATCH_ROWS)
    if keys == 0:
        return rows
    data = ld(batch, BATCH_DATA)
    cap = ld(batch, BATCH_CAP)
    i = start
    while i < rows and has_key(data, cap, i, other, other_cap, j, keys):
        i += 1
    return i
