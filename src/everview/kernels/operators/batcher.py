"""Batchers: buffers of unsorted rows until the pass at their loop time.

A row is stored as consecutive words: its columns, its time, its diffs. Rows of one slot (see `scope`) share a buffer:
word 0 is the number of rows, word 1 its capacity in rows, then the rows. Buffers stay with their slot and are reused,
except large ones, which are freed after the pass that empties them.

A helper thread's output (see `private`) is not copied: its buffer is linked into the slot's *chain*, whose next address
is word 2. New rows always go to the first.
"""

from __future__ import annotations

from everview.kernels.build.native import inner, shared
from everview.kernels.memory import adopt, alloc, copy_words, free, grow, keep, ld, raw_load, st
from everview.kernels.run.ready import wake

(
    BATCHER_WIDTH,
    BATCHER_SCOPE,
    BATCHER_BUFFERS,
    BATCHER_NBUFFERS,
    BATCHER_STEP,
    BATCHER_WAKES,
    BATCHER_WORDS,
) = range(7)
"""BATCHER_STEP, BATCHER_WAKES: the step, and where the list of the instructions begins that take the rows; 0 in loops
and for a helper's own batcher (see `everview.kernels.run.ready`).
"""

BUFFER_NEXT = 2  # word of a buffer with the address of the next one
BUFFER_TRY = 3  # word of a buffer with the number of rows at which to add up equal ones (see `consolidate_buffer`)
BUFFER_ROWS_AT = 4  # words in front of the rows
LARGE_BUFFER_WORDS = 1 << 15  # words from which an emptied buffer is given back
TRY_FROM_WORDS = 1 << 14


@inner
def new_batcher(width, scope):
    """An empty batcher for rows of `width` words (columns, time and diffs)."""
    batcher = alloc(BATCHER_WORDS)
    buffers = alloc(8)
    for i in range(8):
        st(buffers, i, 0)
    st(batcher, BATCHER_WIDTH, width)
    st(batcher, BATCHER_SCOPE, scope)
    st(batcher, BATCHER_BUFFERS, buffers)
    st(batcher, BATCHER_NBUFFERS, 8)
    st(batcher, BATCHER_STEP, 0)
    st(batcher, BATCHER_WAKES, 0)
    return batcher


@inner
def wake_taker(batcher):
    """Let the step visit whoever takes the rows."""
    wakes = ld(batcher, BATCHER_WAKES)
    if wakes != 0:
        wake(ld(batcher, BATCHER_STEP), wakes)


@inner
def free_chain(buffer):
    """Give a buffer back, and those chained to it; 0 is ignored."""
    while buffer != 0:
        following = ld(buffer, BUFFER_NEXT)
        free(buffer)
        buffer = following


@inner
def free_batcher(batcher):
    """Give an batcher back."""
    buffers = ld(batcher, BATCHER_BUFFERS)
    for i in range(ld(batcher, BATCHER_NBUFFERS)):
        free_chain(ld(buffers, i))
    free(buffers)
    free(batcher)


@shared
def room(batcher, slot, rows):
    """The buffer of a slot, with room for `rows` more rows, which its caller is going to write."""
    n = ld(batcher, BATCHER_NBUFFERS)
    if slot >= n:
        more = max(2 * n, slot + 1)
        buffers = grow(ld(batcher, BATCHER_BUFFERS), more, n)
        for i in range(n, more):
            st(buffers, i, 0)
        st(batcher, BATCHER_BUFFERS, buffers)
        st(batcher, BATCHER_NBUFFERS, more)
    buffers = ld(batcher, BATCHER_BUFFERS)
    buffer = ld(buffers, slot)
    width = ld(batcher, BATCHER_WIDTH)
    if buffer == 0:
        cap = max(rows, 8)
        buffer = alloc(BUFFER_ROWS_AT + cap * width)
        st(buffer, 0, 0)
        st(buffer, 1, cap)
        st(buffer, BUFFER_NEXT, 0)
        st(buffer, BUFFER_TRY, TRY_FROM_WORDS)
        st(buffers, slot, buffer)
    else:
        used = ld(buffer, 0)
        if used + rows > ld(buffer, 1):
            cap = max(used + rows, 2 * ld(buffer, 1))
            buffer = grow(buffer, BUFFER_ROWS_AT + cap * width, BUFFER_ROWS_AT + used * width)
            st(buffer, 1, cap)
            st(buffers, slot, buffer)
    if ld(buffer, 0) == 0:
        wake_taker(batcher)
    return buffer


@inner
def append_rows(batcher, words, rows):
    """Append rows, given as consecutive words (columns, time, diffs) in memory that is not ours, outside loops."""
    width = ld(batcher, BATCHER_WIDTH)
    buffer = room(batcher, 0, rows)
    at = BUFFER_ROWS_AT + ld(buffer, 0) * width
    for i in range(rows * width):
        st(buffer, at + i, raw_load(words, i))
    st(buffer, 0, ld(buffer, 0) + rows)


@inner
def waiting(batcher, slot):
    """The buffer of a slot if rows wait in it, else 0."""
    if slot >= ld(batcher, BATCHER_NBUFFERS):
        return 0
    buffer = ld(ld(batcher, BATCHER_BUFFERS), slot)
    if buffer == 0 or ld(buffer, 0) == 0:
        return 0
    return buffer


@inner
def take_large(batcher, slot):
    """Take a slot's buffers out of the batcher if they are large: who took them frees them. False if they are not.

    An earlier call may have allocated them. If this one fails from now on, nothing else knows them.
    """
    buffers = ld(batcher, BATCHER_BUFFERS)
    buffer = ld(buffers, slot)
    if ld(buffer, 1) * ld(batcher, BATCHER_WIDTH) <= LARGE_BUFFER_WORDS and ld(buffer, BUFFER_NEXT) == 0:
        return False
    st(buffers, slot, 0)
    while buffer != 0:
        adopt(buffer)
        buffer = ld(buffer, BUFFER_NEXT)
    return True


@inner
def emptied(batcher, slot):
    """The rows of a slot have been taken."""
    buffer = ld(ld(batcher, BATCHER_BUFFERS), slot)
    if take_large(batcher, slot):
        free_chain(buffer)
    else:
        st(buffer, 0, 0)
        st(buffer, BUFFER_TRY, TRY_FROM_WORDS)


@inner
def chain_rows(buffer):
    """Rows in a buffer and those chained to it."""
    rows = 0
    while buffer != 0:
        rows += ld(buffer, 0)
        buffer = ld(buffer, BUFFER_NEXT)
    return rows


@inner
def unchained(buffer, width):
    """All rows of a chain in one buffer; the chain is freed."""
    if ld(buffer, BUFFER_NEXT) == 0:
        return buffer
    rows = chain_rows(buffer)
    whole = alloc(BUFFER_ROWS_AT + rows * width)
    st(whole, 0, rows)
    st(whole, 1, rows)
    st(whole, BUFFER_NEXT, 0)
    st(whole, BUFFER_TRY, TRY_FROM_WORDS)
    at = BUFFER_ROWS_AT
    part = buffer
    while part != 0:
        words = ld(part, 0) * width
        copy_words(whole, at, part, BUFFER_ROWS_AT, words)
        at += words
        part = ld(part, BUFFER_NEXT)
    free_chain(buffer)
    return whole


@shared
def add_buffer(batcher, slot, buffer):
    """Add a buffer with rows of the same width to a slot."""
    first = room(batcher, slot, 0)
    if ld(first, 0) == 0:
        free(first)
        st(ld(batcher, BATCHER_BUFFERS), slot, buffer)
    else:
        st(buffer, BUFFER_NEXT, ld(first, BUFFER_NEXT))
        st(first, BUFFER_NEXT, buffer)
    return 0


@inner
def keep_batcher(batcher):
    """An batcher's buffers are in use after a call has failed; see `memory.keep`."""
    buffers = ld(batcher, BATCHER_BUFFERS)
    keep(buffers)
    for i in range(ld(batcher, BATCHER_NBUFFERS)):
        buffer = ld(buffers, i)
        while buffer != 0:
            keep(buffer)
            buffer = ld(buffer, BUFFER_NEXT)


@inner
def clear_batcher(batcher):
    """Forget all rows that wait."""
    buffers = ld(batcher, BATCHER_BUFFERS)
    for i in range(ld(batcher, BATCHER_NBUFFERS)):
        buffer = ld(buffers, i)
        if buffer != 0:
            free_chain(ld(buffer, BUFFER_NEXT))
            st(buffer, BUFFER_NEXT, 0)
            st(buffer, 0, 0)
