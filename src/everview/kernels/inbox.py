"""Inboxes: where rows wait, unsorted, for the pass at their loop time.

A row is stored as consecutive words: its columns, its time, its diffs. Rows of one slot (see `scope`) share a buffer:
word 0 is the number of rows, word 1 its room in rows, then the rows. Buffers stay with their slot and are used again,
except large ones, which are given back after the pass that empties them.
"""

from __future__ import annotations

from numba import njit

from everview.kernels.memory import INNER, alloc, free, grow, ld, st
from everview.kernels.operator import shared

WIDTH, BOX_SCOPE, BUFFERS, NBUFFERS, I_WORDS = range(5)

ROWS_AT = 2  # words in front of the rows
LARGE = 1 << 15  # words from which an emptied buffer is given back


@njit(**INNER)
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


@njit(**INNER)
def free_inbox(inbox):
    """Give an inbox back."""
    buffers = ld(inbox, BUFFERS)
    for i in range(ld(inbox, NBUFFERS)):
        free(ld(buffers, i))
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
        st(buffers, slot, buffer)
    else:
        used = ld(buffer, 0)
        if used + rows > ld(buffer, 1):
            cap = max(used + rows, 2 * used)
            buffer = grow(buffer, ROWS_AT + cap * width, ROWS_AT + used * width)
            st(buffer, 1, cap)
            st(buffers, slot, buffer)
    return buffer


@njit(**INNER)
def waiting(inbox, slot):
    """The buffer of a slot if rows wait in it, else 0."""
    if slot >= ld(inbox, NBUFFERS):
        return 0
    buffer = ld(ld(inbox, BUFFERS), slot)
    if buffer == 0 or ld(buffer, 0) == 0:
        return 0
    return buffer


@njit(**INNER)
def emptied(inbox, slot):
    """The rows of a slot have been taken."""
    buffers = ld(inbox, BUFFERS)
    buffer = ld(buffers, slot)
    if ld(buffer, 1) * ld(inbox, WIDTH) > LARGE:
        free(buffer)
        st(buffers, slot, 0)
    else:
        st(buffer, 0, 0)


@njit(**INNER)
def clear_inbox(inbox):
    """Forget all rows that wait."""
    buffers = ld(inbox, BUFFERS)
    for i in range(ld(inbox, NBUFFERS)):
        buffer = ld(buffers, i)
        if buffer != 0:
            st(buffer, 0, 0)
