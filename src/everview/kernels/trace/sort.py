"""Sorting and consolidating unsorted updates into a batch.

Rows come from anywhere: word c of row i is word `at + i * row_step + c * col_step` of a block, which covers rows
stored one after the other (batchers) and columns stored one after the other (bulk loads). A row is its columns, its
time, then its diffs.

Rows that fit into one word are the business of `packed`. Wider ones are sorted group of columns by group of columns,
least significant first. A handful of rows is sorted by insertion.
"""

from __future__ import annotations

from everview.kernels.build.native import inner, shared
from everview.kernels.memory import alloc, free, ld, st
from everview.kernels.operators.batcher import unchained
from everview.kernels.sums import plus
from everview.kernels.trace.batch import BATCH_CAP, BATCH_DATA, BATCH_DIFF_AT, BATCH_TIME_AT, compare_from, new_batch
from everview.kernels.trace.buckets import build_index
from everview.kernels.trace.packed import CHAIN, TOO_WIDE, bits_between, sort_packed
from everview.kernels.trace.radix import INSERTION_WORDS, sort_pairs


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


@inner
def _sort_wide(src, at, row_step, col_step, n, width, order):
    """Row numbers in order, for rows of any width: groups of up to 63 bits of columns, the least significant first."""
    other = alloc(n)
    words = alloc(n)
    other_words = alloc(n)
    for i in range(n):
        st(order, i, i)
    here = order
    there = other
    last = width - 1
    while last >= 0:
        first = last
        bits = 0
        low_of_first = 0
        while first >= 0:
            low, high = column_range(src, at + first * col_step, row_step, n)
            b = bits_between(low, high)
            if bits + b > 63:
                break
            bits += b
            first -= 1
        if first == last:  # one column of full 64-bit range: two halves, the high half signed
            c = at + last * col_step
            for half in range(2):
                for i in range(n):
                    x = ld(src, c + ld(here, i) * row_step)
                    st(words, i, (x & 0xFFFFFFFF) if half == 0 else ((x >> 32) + 0x80000000))
                if sort_pairs(words, here, other_words, there, n, 32) != 0:
                    here, there = there, here
            last -= 1
            continue
        if bits > 0:
            for i in range(n):
                st(words, i, 0)
            for c in range(first + 1, last + 1):
                low_of_first, high = column_range(src, at + c * col_step, row_step, n)
                shift = bits_between(low_of_first, high)
                if shift > 0:
                    for i in range(n):
                        x = ld(src, at + c * col_step + ld(here, i) * row_step) - low_of_first
                        st(words, i, (ld(words, i) << shift) | x)
            if sort_pairs(words, here, other_words, there, n, bits) != 0:
                here, there = there, here
        last = first
    if here != order:
        for i in range(n):
            st(order, i, ld(here, i))
    free(other)
    free(words)
    free(other_words)


@inner
def column_range(src, at, row_step, n):
    """Smallest and largest of n words."""
    low = ld(src, at)
    high = low
    for i in range(1, n):
        x = ld(src, at + i * row_step)
        low = min(low, x)
        high = max(high, x)
    return low, high


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

    `consume`: the source block is freed; CHAIN: it is an batcher's chain of buffers, which are all freed. `step`: the
    block of the step under way, for its thread; or 0.
    """
    if n > INSERTION_WORDS:
        batch = sort_packed(src, at, row_step, col_step, n, cols, diffs, 0, consume, step)
        if batch != TOO_WIDE:
            return batch
    batch = 0
    if consume == CHAIN:
        src = unchained(src, row_step)
    if n > 0:
        order = alloc(n)
        if n <= INSERTION_WORDS:
            _sort_few(src, at, row_step, col_step, n, cols + 1, order)
        else:
            _sort_wide(src, at, row_step, col_step, n, cols + 1, order)
        batch = gather(src, at, row_step, col_step, n, cols, diffs, order)
        free(order)
    if consume != 0:
        free(src)
    return batch


@shared
def sort_columns(src, n, cols, time, step):
    """A batch of n rows given column after column (word c * n + i), all at one time with diff 1; 0 for no rows."""
    if n == 0:
        return 0
    batch = sort_packed(src, 0, 1, n, n, cols, 0, time, 0, step)
    if batch != TOO_WIDE:
        return batch
    wide = alloc((cols + 2) * n)
    for i in range(cols * n):
        st(wide, i, ld(src, i))
    for i in range(n):
        st(wide, cols * n + i, time)
        st(wide, (cols + 1) * n + i, 1)
    return sort_rows(wide, 0, 1, n, n, cols, 1, 1, step)
