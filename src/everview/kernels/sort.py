"""Sorting and consolidating unsorted updates into a batch.

Rows come from anywhere: word c of row i is word `at + i * row_step + c * col_step` of a block, which covers rows
stored one after the other (inboxes) and columns stored one after the other (bulk loads). A row is its columns, its
time, then its diffs.

If the ranges of all columns and the time together fit into 63 bits, which is the common case, a row is packed into
one word and the words are radix-sorted with the diff (or the row's number) as payload: 10M rows in about 0.3 s. Wider
rows are sorted group of columns by group of columns, least significant first. A handful of rows is sorted by
insertion, a few hundred by merging: radix passes would cost more than the rows.
"""

from __future__ import annotations

from numba import njit

from everview.kernels.batch import CAP, D_AT, DATA, T_AT, build_index, new_batch
from everview.kernels.memory import INNER, alloc, free, ld, st
from everview.kernels.operator import shared

FEW = 20  # rows up to which insertion sort wins
SOME = 400  # rows up to which merge sort wins over radix passes


@njit(**INNER)
def _bits(low, high):
    """Bits needed for numbers from `low` to `high`, counted from `low`.

    Hazard: signed overflow is undefined in compiled code, so `high - low < 0` is no test for it. Halves never overflow.
    """
    if (high >> 1) - (low >> 1) >= 2**62:
        return 64
    span = high - low
    n = 0
    while span > 0:
        n += 1
        span >>= 1
    return n


@shared
def radix_sort(words, payload, other_words, other_payload, n, bits):
    """Sort n non-negative words of `bits` bits with their payload; True if the result is in the `other_*` blocks."""
    digit = 8 if n < 100_000 else 11
    passes = (bits + digit - 1) // digit
    buckets = 1 << digit
    low = buckets - 1
    counts = alloc(passes * buckets + 1)
    for i in range(passes * buckets):
        st(counts, i, 0)
    for i in range(n):
        x = ld(words, i)
        for p in range(passes):
            at = p * buckets + (x & low)
            st(counts, at, ld(counts, at) + 1)
            x >>= digit
    flipped = False
    for p in range(passes):
        shift = p * digit
        base = p * buckets
        first = (ld(other_words, 0) if flipped else ld(words, 0)) >> shift
        if ld(counts, base + (first & low)) == n:
            continue
        total = 0
        for b in range(buckets):
            c = ld(counts, base + b)
            st(counts, base + b, total)
            total += c
        sw, sp, tw, tp = words, payload, other_words, other_payload
        if flipped:
            sw, sp, tw, tp = other_words, other_payload, words, payload
        if sp == 0:
            for i in range(n):
                x = ld(sw, i)
                at = base + ((x >> shift) & low)
                to = ld(counts, at)
                st(counts, at, to + 1)
                st(tw, to, x)
        else:
            for i in range(n):
                x = ld(sw, i)
                at = base + ((x >> shift) & low)
                to = ld(counts, at)
                st(counts, at, to + 1)
                st(tw, to, x)
                st(tp, to, ld(sp, i))
        flipped = not flipped
    free(counts)
    return flipped


@njit(**INNER)
def _insertion(words, payload, start, end):
    for i in range(start + 1, end):
        x = ld(words, i)
        y = ld(payload, i)
        j = i - 1
        while j >= start and ld(words, j) > x:
            st(words, j + 1, ld(words, j))
            st(payload, j + 1, ld(payload, j))
            j -= 1
        st(words, j + 1, x)
        st(payload, j + 1, y)


@njit(**INNER)
def merge_sort(words, payload, other_words, other_payload, n):
    """Stable bottom-up merge sort of words with payload; True if the result is in the `other_*` blocks."""
    i = 0
    while i < n:
        _insertion(words, payload, i, min(i + FEW, n))
        i += FEW
    width = FEW
    flipped = False
    while width < n:
        sw, sp, tw, tp = words, payload, other_words, other_payload
        if flipped:
            sw, sp, tw, tp = other_words, other_payload, words, payload
        low = 0
        while low < n:
            middle = min(low + width, n)
            high = min(low + 2 * width, n)
            i = low
            j = middle
            for k in range(low, high):
                if j >= high or (i < middle and ld(sw, i) <= ld(sw, j)):
                    st(tw, k, ld(sw, i))
                    st(tp, k, ld(sp, i))
                    i += 1
                else:
                    st(tw, k, ld(sw, j))
                    st(tp, k, ld(sp, j))
                    j += 1
            low += 2 * width
        width *= 2
        flipped = not flipped
    return flipped


@njit(**INNER)
def sort_pairs(words, payload, other_words, other_payload, n, bits):
    """Sort words with payload by whatever is fastest for n; True if the result is in the `other_*` blocks."""
    if n <= FEW:
        _insertion(words, payload, 0, n)
        return False
    if n <= SOME:
        return merge_sort(words, payload, other_words, other_payload, n)
    return radix_sort(words, payload, other_words, other_payload, n, bits)


@njit(**INNER)
def _compare(src, a, b, width, col_step):
    for c in range(width):
        x = ld(src, a + c * col_step)
        y = ld(src, b + c * col_step)
        if x < y:
            return -1
        if x > y:
            return 1
    return 0


@njit(**INNER)
def _sort_few(src, at, row_step, col_step, n, width, order):
    """Insertion sort of row numbers into block `order`."""
    for i in range(n):
        j = i - 1
        row = at + i * row_step
        while j >= 0 and _compare(src, at + ld(order, j) * row_step, row, width, col_step) > 0:
            st(order, j + 1, ld(order, j))
            j -= 1
        st(order, j + 1, i)


@njit(**INNER)
def _sort_wide(src, at, row_step, col_step, n, width, order):
    """Row numbers in order, for rows of any width: groups of up to 63 bits of columns, least significant group first.
    """
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
            b = _bits(low, high)
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
                if sort_pairs(words, here, other_words, there, n, 32):
                    here, there = there, here
            last -= 1
            continue
        if bits > 0:
            for i in range(n):
                st(words, i, 0)
            for c in range(first + 1, last + 1):
                low_of_first, high = column_range(src, at + c * col_step, row_step, n)
                shift = _bits(low_of_first, high)
                if shift > 0:
                    for i in range(n):
                        x = ld(src, at + c * col_step + ld(here, i) * row_step) - low_of_first
                        st(words, i, (ld(words, i) << shift) | x)
            if sort_pairs(words, here, other_words, there, n, bits):
                here, there = there, here
        last = first
    if here != order:
        for i in range(n):
            st(order, i, ld(here, i))
    free(other)
    free(words)
    free(other_words)


@njit(**INNER)
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
            if _compare(src, row, other, width, col_step) != 0:
                break
            for d in range(diffs):
                w = (width + d) * col_step
                st(src, row + w, ld(src, row + w) + ld(src, other + w))
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
    data = ld(batch, DATA)
    cap = ld(batch, CAP)
    for c in range(cols):
        w = at + c * col_step
        for k in range(kept):
            st(data, c * cap + k, ld(src, w + ld(order, k) * row_step))
    w = at + cols * col_step
    for k in range(1 if one_time else kept):
        st(data, ld(batch, T_AT) + k, ld(src, w + ld(order, k) * row_step))
    for d in range(diffs):
        w = at + (width + d) * col_step
        for k in range(1 if ones else kept):
            st(data, ld(batch, D_AT) + d * cap + k, ld(src, w + ld(order, k) * row_step))
    build_index(batch)
    return batch


@njit(**INNER)
def _sort_packed(src, at, row_step, col_step, n, cols, ranges, bits, with_diff):
    """Batch by the packed path for one diff column. `with_diff` False: all diffs are 1 and not stored in the source."""
    width = cols + 1
    words = alloc(n)
    other_words = alloc(n)
    payload = 0
    other_payload = 0
    if with_diff:
        payload = alloc(n)
        other_payload = alloc(n)
    for i in range(n):
        st(words, i, 0)
    for c in range(width):
        low = ld(ranges, 2 * c)
        shift = ld(ranges, 2 * c + 1)
        if shift > 0:
            w = at + c * col_step
            for i in range(n):
                st(words, i, (ld(words, i) << shift) | (ld(src, w + i * row_step) - low))
    if with_diff:
        w = at + width * col_step
        for i in range(n):
            st(payload, i, ld(src, w + i * row_step))
        if sort_pairs(words, payload, other_words, other_payload, n, bits):
            words, other_words = other_words, words
            payload, other_payload = other_payload, payload
        free(other_payload)
    elif radix_sort(words, 0, other_words, 0, n, bits):
        words, other_words = other_words, words
    free(other_words)
    kept = 0
    ones = True
    i = 0
    while i < n:
        x = ld(words, i)
        total = ld(payload, i) if with_diff else 1
        i += 1
        while i < n and ld(words, i) == x:
            total += ld(payload, i) if with_diff else 1
            i += 1
        if total != 0:
            if total != 1 and not with_diff and ones:  # a duplicate row: from here on diffs must be kept
                payload = alloc(n)
                for k in range(kept):
                    st(payload, k, 1)
                ones = False
            if total != 1:
                ones = False
            st(words, kept, x)
            if payload != 0:
                st(payload, kept, total)
            kept += 1
    batch = 0
    if kept > 0:
        one_time = ld(ranges, 2 * cols + 1) == 0
        batch = new_batch(kept, cols, 1, one_time, ones)
        data = ld(batch, DATA)
        cap = ld(batch, CAP)
        shift = 0
        for back in range(width):
            c = width - 1 - back
            b = ld(ranges, 2 * c + 1)
            low = ld(ranges, 2 * c)
            mask = (1 << b) - 1
            start = c * cap if c < cols else ld(batch, T_AT)
            for k in range(1 if c == cols and one_time else kept):
                st(data, start + k, ((ld(words, k) >> shift) & mask) + low)
            shift += b
        start = ld(batch, D_AT)
        if ones:
            st(data, start, 1)
        else:
            for k in range(kept):
                st(data, start + k, ld(payload, k))
        build_index(batch)
    free(words)
    free(payload)
    return batch


@shared
def sort_rows(src, at, row_step, col_step, n, cols, diffs, with_diff):
    """A batch of n unsorted updates (0 if they cancel out). The source's diffs may be overwritten.

    `with_diff` False means that the source has no diff word: every diff is 1 (only for diffs == 1).
    """
    if n == 0:
        return 0
    width = cols + 1
    if n > FEW and diffs == 1:
        ranges = alloc(2 * width)
        bits = 0
        for c in range(width):
            low, high = column_range(src, at + c * col_step, row_step, n)
            b = _bits(low, high)
            st(ranges, 2 * c, low)
            st(ranges, 2 * c + 1, b)
            bits += b
        batch = -1
        if bits <= 63:
            batch = _sort_packed(src, at, row_step, col_step, n, cols, ranges, bits, with_diff)
        free(ranges)
        if batch != -1:
            return batch
    order = alloc(n)
    if n <= FEW:
        _sort_few(src, at, row_step, col_step, n, width, order)
    else:
        _sort_wide(src, at, row_step, col_step, n, width, order)
    batch = gather(src, at, row_step, col_step, n, cols, diffs, order)
    free(order)
    return batch


@shared
def sort_columns(src, n, cols, time):
    """A batch of n rows given column after column (word c * n + i), all at one time with diff 1; 0 for no rows."""
    if n == 0:
        return 0
    ranges = alloc(2 * cols + 2)
    bits = 0
    for c in range(cols):
        low, high = column_range(src, c * n, 1, n)
        b = _bits(low, high)
        st(ranges, 2 * c, low)
        st(ranges, 2 * c + 1, b)
        bits += b
    st(ranges, 2 * cols, time)
    st(ranges, 2 * cols + 1, 0)
    if bits <= 63:
        batch = _sort_packed(src, 0, 1, n, n, cols, ranges, bits, False)
        free(ranges)
        return batch
    free(ranges)
    wide = alloc((cols + 2) * n)
    for i in range(cols * n):
        st(wide, i, ld(src, i))
    for i in range(n):
        st(wide, cols * n + i, time)
        st(wide, (cols + 1) * n + i, 1)
    batch = sort_rows(wide, 0, 1, n, n, cols, 1, True)
    free(wide)
    return batch
