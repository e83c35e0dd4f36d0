"""Sorts words, with or without a payload word each.

Many words are sorted by radix passes from the lowest digit up, a few hundred by merging, a handful by insertion, since
a pass costs more than that. All sorts are stable and end in one of two pairs of blocks; they return in which.
"""

from __future__ import annotations

from everview.kernels.build.native import inner, shared
from everview.kernels.memory import alloc, free, ld, st

INSERTION_WORDS = 20  # words up to which insertion sort wins
MERGE_SORT_WORDS = 400  # words up to which merge sort wins over radix passes


@inner
def digit_bits(n):
    """Bits that one pass over n words sorts by."""
    return 8 if n < 100_000 else 11


@shared
def radix_sort(words, payload, other_words, other_payload, start, n, bits):
    """Sort n non-negative words of `bits` bits from word `start` on, with their payload (0: none); 1 if the result is
    in the `other_*` blocks.
    """
    digit = digit_bits(n)
    passes = (bits + digit - 1) // digit
    buckets = 1 << digit
    low = buckets - 1
    counts = alloc(passes * buckets + 1)
    for i in range(passes * buckets):
        st(counts, i, 0)
    for i in range(start, start + n):
        x = ld(words, i)
        for p in range(passes):
            at = p * buckets + (x & low)
            st(counts, at, ld(counts, at) + 1)
            x >>= digit
    flipped = False
    for p in range(passes):
        shift = p * digit
        base = p * buckets
        first = (ld(other_words, start) if flipped else ld(words, start)) >> shift
        if ld(counts, base + (first & low)) == n:
            continue
        total = start
        for b in range(buckets):
            c = ld(counts, base + b)
            st(counts, base + b, total)
            total += c
        sw, sp, tw, tp = words, payload, other_words, other_payload
        if flipped:
            sw, sp, tw, tp = other_words, other_payload, words, payload
        if sp == 0:
            for i in range(start, start + n):
                x = ld(sw, i)
                at = base + ((x >> shift) & low)
                to = ld(counts, at)
                st(counts, at, to + 1)
                st(tw, to, x)
        else:
            for i in range(start, start + n):
                x = ld(sw, i)
                at = base + ((x >> shift) & low)
                to = ld(counts, at)
                st(counts, at, to + 1)
                st(tw, to, x)
                st(tp, to, ld(sp, i))
        flipped = not flipped
    free(counts)
    return 1 if flipped else 0


@inner
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


@inner
def _merge_sort(words, payload, other_words, other_payload, n):
    """Bottom-up merge sort."""
    i = 0
    while i < n:
        _insertion(words, payload, i, min(i + INSERTION_WORDS, n))
        i += INSERTION_WORDS
    width = INSERTION_WORDS
    flipped = 0
    while width < n:
        sw, sp, tw, tp = words, payload, other_words, other_payload
        if flipped != 0:
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
        flipped = 1 - flipped
    return flipped


@shared
def sort_pairs(words, payload, other_words, other_payload, n, bits):
    """Sort n words with payload by whatever is fastest for n; 1 if the result is in the `other_*` blocks."""
    if n <= INSERTION_WORDS:
        _insertion(words, payload, 0, n)
        return 0
    if n <= MERGE_SORT_WORDS:
        return _merge_sort(words, payload, other_words, other_payload, n)
    return radix_sort(words, payload, other_words, other_payload, 0, n, bits)
