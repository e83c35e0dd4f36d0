"""Sorting and consolidating unsorted updates into a batch.

Rows come from anywhere: word c of row i is word `at + i * row_step + c * col_step` of a block, which covers rows
stored one after the other (batchers) and columns stored one after the other (bulk loads). A row is its columns, its
time, then its diffs.

Many rows are the business of `packed` and `wide_sort`. A handful is sorted by insertion.
"""

from __future__ import annotations

from everview.kernels.build.native import inner, shared
from everview.kernels.memory import alloc, free, ld, st
from everview.kernels.operators.batcher import unchained
from everview.kernels.sums import plus
from everview.kernels.trace.batch import BATCH_CAP, BATCH_DATA, BATCH_DIFF_AT, BATCH_TIME_AT, compare_from, new_batch
from everview.kernels.trace.buckets import build_index
from everview.kernels.trace.packed import sort_many
from everview.kernels.trace.radix import INSERTION_WORDS
from everview.kernels.trace.row_packing import CHAIN


@inner
def _sort_few(src, at, row_step, col_step, n, width, order):
    """Insertion sort of row numbers into block `order`."""
    for i in range(n):
        j = i - 1
        row = at + i * row_step
        while j >= 0 and compare_from(src, col_step, at + ld(order, j) * row_step, src, col_step, row, 0, width) > 0:
            st(order, j + 1, ld(order, j))
            j -= 1
        st(order, j + 1, i)


@shared
def gather(src, at, row_step, col_step, n, cols, diffs, order):
    """Batch of the rows in `order`: equal neighbours are summed, zeros dropped. 0 if nothing is left."""
    width = cols + 1
    kept = 0
    ones = diffs == 1
    one_time = True
    first_time = 0
    i = 0
    while i < n:  # sums go into the first row of each run, so the source block is used up
        row = at + ld(order, i) * row_step
        i += 1
        while i < n:
            other = at + ld(order, i) * row_step
            if compare_from(src, col_step, row, src, col_step, other, 0, width) != 0:
                break
            for d in range(diffs):
                w = (width + d) * col_step
                st(src, row + w, plus(ld(src, row + w), ld(src, other + w)))
            i += 1
        alive = False
        for d in range(diffs):
            if ld(src, row + (width + d) * col_step) != 0:
                alive = True
        if alive:
            t = ld(src, row + cols * col_step)
            if kept == 0:
                first_time = t
            elif t != first_time:
                one_time = False
            if ones and ld(src, row + width * col_step) != 1:
                ones = False
            st(order, kept, (row - at) // row_step)
            kept += 1
    if kept == 0:
        return 0
    batch = new_batch(kept, cols, diffs, one_time, ones)
    data = ld(batch, BATCH_DATA)
    cap = ld(batch, BATCH_CAP)
    for c in range(cols):
        w = at + c * col_step
        for k in range(kept):
            st(data, c * cap + k, ld(src, w + ld(order, k) * row_step))
    w = at + cols * col_step
    for k in range(1 if one_time else kept):
        st(data, ld(batch, BATCH_TIME_AT) + k, ld(src, w + ld(order, k) * row_step))
    for d in range(diffs):
        w = at + (width + d) * col_step
        for k in range(1 if ones else kept):
            st(data, ld(batch, BATCH_DIFF_AT) + d * cap + k, ld(src, w + ld(order, k) * row_step))
    build_index(batch, 0)
    return batch


@shared
def sort_rows(src, at, row_step, col_step, n, cols, diffs, consume, step):
    """A batch of n unsorted updates (0 if they cancel out). The source's diffs may be overwritten.

    `consume`: the source block is freed; CHAIN: it is a batcher's chain of buffers, which are all freed. `step`: the
    block of the step under way, for its pool; or 0.
    """
    if n > INSERTION_WORDS:
        return sort_many(src, at, row_step, col_step, n, cols, diffs, 0, consume, step)
    batch = 0
    if consume == CHAIN:
        src = unchained(src, row_step)
    if n > 0:
        order = alloc(n)
        _sort_few(src, at, row_step, col_step, n, cols + 1, order)
        batch = gather(src, at, row_step, col_step, n, cols, diffs, order)
        free(order)
    if consume != 0:
        free(src)
    return batch


@shared
def sort_columns(src, n, cols, time, step):
    """A batch of n rows given column after column (word c * n + i), all at one time with diff 1; 0 for no rows."""
    return sort_many(src, 0, 1, n, n, cols, 0, time, 0, step) if n > 0 else 0
