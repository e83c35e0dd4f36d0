"""Batches: immutable, columnar, sorted runs of updates (row, time, diff).

A batch is a header block and a data block. Column c of row i is word `c * cap + i` of the data; rows are sorted by all
columns from left to right, then by time, and no two rows agree on both. Because the order is lexicographic, *any
prefix of the columns is a usable key*: one arrangement of edge(src, dst) answers lookups by src and by (src, dst).

A time column whose times are all equal, and a diff column of all ones, are stored as a single word (their mask is 0
instead of -1, see `time_at`): a freshly loaded table then takes half the memory. A batch may have several diff
columns: the accumulators of sums and counts (see `reduce`). Large batches have an index (see `buckets`); keys are
looked for by `search`.
"""

from __future__ import annotations

from everview.kernels.build.native import inner
from everview.kernels.memory import alloc, alloc_with, free, ld, st

(
    BATCH_ROWS,
    BATCH_COLS,
    BATCH_DIFFS,
    BATCH_DATA,
    BATCH_CAP,
    BATCH_TIME_AT,
    BATCH_TIME_MASK,
    BATCH_DIFF_AT,
    BATCH_DIFF_MASK,
    BATCH_MAPPED,
    BATCH_INDEX,
    BATCH_BUCKETS,
    BATCH_KEY_MIN,
    BATCH_KEY_SHIFT,
    BATCH_PARTS,
    BATCH_PART_MIN,
    BATCH_PART_SHIFT,
    BATCH_WORDS,
) = range(18)
"""BATCH_MAPPED: the columns lie in memory that somebody else owns (see `image.adopt`). The words from BATCH_INDEX on
are the index's.
"""


@inner
def no_index(batch):
    """Say that a batch has no index."""
    st(batch, BATCH_INDEX, 0)
    st(batch, BATCH_BUCKETS, 0)


@inner
def move_index(source, batch):
    """Give the index of one batch to another with the same rows."""
    for word in range(BATCH_INDEX, BATCH_WORDS):
        st(batch, word, ld(source, word))
    no_index(source)


@inner
def new_batch(rows, cols, diffs, constant_time, constant_diff):
    """An unfilled batch with room for `rows` rows."""
    times = 1 if constant_time else rows
    weights = 1 if constant_diff else rows * diffs
    words = cols * rows + times + weights + 1
    batch = alloc_with(BATCH_WORDS, words)
    data = alloc(words)
    st(batch, BATCH_ROWS, rows)
    st(batch, BATCH_COLS, cols)
    st(batch, BATCH_DIFFS, diffs)
    st(batch, BATCH_DATA, data)
    st(batch, BATCH_CAP, rows)
    st(batch, BATCH_TIME_AT, cols * rows)
    st(batch, BATCH_TIME_MASK, 0 if constant_time else -1)
    st(batch, BATCH_DIFF_AT, cols * rows + times)
    st(batch, BATCH_DIFF_MASK, 0 if constant_diff else -1)
    st(batch, BATCH_MAPPED, 0)
    no_index(batch)
    return batch


@inner
def free_batch(batch):
    """Give a batch and all it owns back."""
    if batch != 0:
        if ld(batch, BATCH_MAPPED) == 0:
            free(ld(batch, BATCH_DATA))
        free(ld(batch, BATCH_INDEX))
        free(batch)


@inner
def batch_words(batch):
    """Words of memory a batch takes."""
    rows = ld(batch, BATCH_CAP)
    words = BATCH_WORDS + ld(batch, BATCH_COLS) * rows + 1 + ld(batch, BATCH_BUCKETS) + 2
    words += rows if ld(batch, BATCH_TIME_MASK) != 0 else 1
    return words + (rows * ld(batch, BATCH_DIFFS) if ld(batch, BATCH_DIFF_MASK) != 0 else 1)


@inner
def time_at(batch, data, i):
    """Time of row `i`; `data` is the batch's data block, passed along because callers hold it anyway."""
    return ld(data, ld(batch, BATCH_TIME_AT) + (i & ld(batch, BATCH_TIME_MASK)))


@inner
def diff_at(batch, data, i, d):
    """Diff number `d` of row `i`."""
    return ld(data, ld(batch, BATCH_DIFF_AT) + d * ld(batch, BATCH_CAP) + (i & ld(batch, BATCH_DIFF_MASK)))


@inner
def compare_from(data_a, cap_a, i, data_b, cap_b, j, first, end):
    """-1, 0 or 1 as columns [first, end) of row i of one batch sort before, with or after those of row j of another."""
    for c in range(first, end):
        x = ld(data_a, c * cap_a + i)
        y = ld(data_b, c * cap_b + j)
        if x < y:
            return -1
        if x > y:
            return 1
    return 0


@inner
def compare_rows(data_a, cap_a, i, data_b, cap_b, j, cols):
    """The same for the first `cols` columns."""
    return compare_from(data_a, cap_a, i, data_b, cap_b, j, 0, cols)
