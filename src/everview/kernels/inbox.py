"""Inboxes: where rows wait, unsorted, for the pass at their loop time.

A row is stored as consecutive words: its columns, its time, its diffs. Rows of one slot (see `scope`) share a buffer:
word 0 is the number of rows, word 1 its room in rows, then the rows. Buffers stay with their slot and are used again,
except large ones, which are given back after the pass that empties them.

What a helper thread wrote (see `twin`) is not copied: its buffer becomes the next one of the slot's *chain*, whose
address is word 2. New rows always go to the first.
"""

from __future__ import annotations

from everview.kernels.memory import alloc, copy_words, free, grow, keep, ld, st
from everview.kernels.native import inner, shared

WIDTH, BOX_SCOPE, BUFFERS, NBUFFERS, I_WORDS = range(5)

NEXT = 2  # word of a buffer with the address of the next one
TRY = 3  # word of a buffer with the number of rows at which to add up equal ones (see `squeeze`)
ROWS_AT = 4  # words in front of the rows
LARGE = 1 << 15  # words from which an emptied buffer is given back
TRY_FROM = 1 << 14


@inner
def new_inbox(width, scope):
    """An empty inbox for rows of `width` words (columns, time and diffs)."""
    inbox = alloc(I_WORDS)
    buffers = alloc(8)
    for i in range(8):
        st(buffers, i, 0)
    st(inbox, WIDTH, width)
    st(inbox, BOX_SCOPE, scope)
    st(inbox, BUFFERS, buffers)
    st(inbox, NBUFFERS, 8)
    return inbox


@inner
def free_chain(buffer):
    """Give a buffer back, and those chained to it; 0 is ignored."""
    while buffer != 0:
        following = ld(buffer, NEXT)
        free(buffer)
        buffer = following


@inner
def free_inbox(inbox):
    """Give an inbox back."""
    buffers = ld(inbox, BUFFERS)
    for i in range(ld(inbox, NBUFFERS)):
        free_chain(ld(buffers, i))
    free(buffers)
    free(inbox)


@shared
def room(inbox, slot, rows):
    """The buffer of a slot, with room for `rows` more rows."""
    n = ld(inbox, NBUFFERS)
    if slot >= n:
        more = max(2 * n, slot + 1)
        buffers = grow(ld(inbox, BUFFERS), more, n)
        for i in range(n, more):
            st(buffers, i, 0)
        st(inbox, BUFFERS, buffers)
        st(inbox, NBUFFERS, more)
    buffers = ld(inbox, BUFFERS)
    buffer = ld(buffers, slot)
    width = ld(inbox, WIDTH)
    if buffer == 0:
        cap = max(rows, 8)
        buffer = alloc(ROWS_AT + cap * width)
        st(buffer, 0, 0)
        st(buffer, 1, cap)
        st(buffer, NEXT, 0)
        st(buffer, TRY, TRY_FROM)
        st(buffers, slot, buffer)
    else:
        used = ld(buffer, 0)
        if used + rows > ld(buffer, 1):
            cap = max(used + rows, 2 * ld(buffer, 1))
            buffer = grow(buffer, ROWS_AT + cap * width, ROWS_AT + used * width)
            st(buffer, 1, cap)
            st(buffers, slot, buffer)
    return buffer


@inner
def waiting(inbox, slot):
    """The buffer of a slot if rows wait in it, else 0."""
    if slot >= ld(inbox, NBUFFERS):
        return 0
    buffer = ld(ld(inbox, BUFFERS), slot)
    if buffer == 0 or ld(buffer, 0) == 0:
        return 0
    return buffer


@inner
def take_large(inbox, slot):
    """Take a slot's buffers out of the inbox if they are large: whoever took them frees them. False if they are not."""
    buffers = ld(inbox, BUFFERS)
    buffer = ld(buffers, slot)
    if ld(buffer, 1) * ld(inbox, WIDTH) <= LARGE and ld(buffer, NEXT) == 0:
        return False
    st(buffers, slot, 0)
    return True


@inner
def emptied(inbox, slot):
    """The rows of a slot have been taken."""
    buffer = ld(ld(inbox, BUFFERS), slot)
    if take_large(inbox, slot):
        free_chain(buffer)
    else:
        st(buffer, 0, 0)
        st(buffer, TRY, TRY_FROM)


@inner
def chain_rows(buffer):
    """Rows in a buffer and those chained to it."""
    rows = 0
    while buffer != 0:
        rows += ld(buffer, 0)
        buffer = ld(buffer, NEXT)
    return rows


@inner
def unchained(buffer, width):
    """All rows of a chain in one buffer; the chain is freed."""
    if ld(buffer, NEXT) == 0:
        return buffer
    rows = chain_rows(buffer)
    whole = alloc(ROWS_AT + rows * width)
    st(whole, 0, rows)
    st(whole, 1, rows)
    st(whole, NEXT, 0)
    st(whole, TRY, TRY_FROM)
    at = ROWS_AT
    part = buffer
    while part != 0:
        words = ld(part, 0) * width
        copy_words(whole, at, part, ROWS_AT, words)
        at += words
        part = ld(part, NEXT)
    free_chain(buffer)
    return whole


@shared
def add_buffer(inbox, slot, buffer):
    """Add a buffer with rows of the same width to a slot."""
    first = room(inbox, slot, 0)
    if ld(first, 0) == 0:
        free(first)
        st(ld(inbox, BUFFERS), slot, buffer)
    else:
        st(buffer, NEXT, ld(first, NEXT))
        st(first, NEXT, buffer)
    return 0


@inner
def keep_inbox(inbox):
    """An inbox's buffers are in use after a call has failed; see `memory.keep`."""
    buffers = ld(inbox, BUFFERS)
    keep(buffers)
    for i in range(ld(inbox, NBUFFERS)):
        buffer = ld(buffers, i)
        while buffer != 0:
            keep(buffer)
            buffer = ld(buffer, NEXT)


@inner
def clear_inbox(inbox):
    """Forget all rows that wait."""
    buffers = ld(inbox, BUFFERS)
    for i in range(ld(inbox, NBUFFERS)):
        buffer = ld(buffers, i)
        if buffer != 0:
            free_chain(ld(buffer, NEXT))
            st(buffer, NEXT, 0)
            st(buffer, 0, 0)
