"""Numbered records found by two words: balls by their centre, pairs by their ends.

A registry is five words of a context from `field` on: the block of the records (it grows, its size is in word 0), their
number, a hash table, its size, and a free record (plus one; its second word is the next). A record's first two words
are its key; numbers are stable until a record is struck, so that other memory may refer to them.

Hazard: a new record moves the block; read its address again after `enrol`.
"""

from __future__ import annotations

from everview.kernels.build.native import inner, shared
from everview.kernels.memory import free, ld, reserve_lasting, st, zeros

REGISTRY_WORDS = 5

_KEY_FACTOR = -7046029254386353131


@inner
def _hash(a, b):
    h = a * _KEY_FACTOR
    h = (h ^ (h >> 29) ^ b) * _KEY_FACTOR
    return h ^ (h >> 31)


@inner
def record(number, width):
    """The first word of a record in its block."""
    return 1 + number * width


@inner
def seek(ctx, field, width, a, b):
    """The number of the record with a key; -1 if there is none."""
    size = ld(ctx, field + 3)
    if size == 0:
        return -1
    found = ld(ctx, field + 2)
    records = ld(ctx, field)
    slot = _hash(a, b) & (size - 1)
    while True:
        number = ld(found, slot) - 1
        if number < 0:
            return -1
        at = record(number, width)
        if ld(records, at) == a and ld(records, at + 1) == b:
            return number
        slot = (slot + 1) & (size - 1)


@inner
def _index(records, found, size, number, width):
    at = record(number, width)
    slot = _hash(ld(records, at), ld(records, at + 1)) & (size - 1)
    while ld(found, slot) != 0:
        slot = (slot + 1) & (size - 1)
    st(found, slot, number + 1)


@shared
def _widen(ctx, field, width):
    size = max(2 * ld(ctx, field + 3), 64)
    found = zeros(size)
    old = ld(ctx, field + 2)
    for slot in range(ld(ctx, field + 3)):
        if ld(old, slot) != 0:
            _index(ld(ctx, field), found, size, ld(old, slot) - 1, width)
    st(ctx, field + 2, found)
    st(ctx, field + 3, size)
    free(old)
    return 0


@shared
def enrol(ctx, field, width, a, b):
    """The number of the record with a key; a new one, all zero behind the key, if there is none."""
    number = seek(ctx, field, width, a, b)
    if number >= 0:
        return number
    n = ld(ctx, field + 1)
    records = reserve_lasting(ctx, field, field + 1, width, 1)
    if 2 * (n + 1) > ld(ctx, field + 3):
        _widen(ctx, field, width)
    is_free = ld(ctx, field + 4) != 0
    if is_free:
        n = ld(ctx, field + 4) - 1
        st(ctx, field + 4, ld(records, record(n, width) + 1))
    at = record(n, width)
    for w in range(width):
        st(records, at + w, 0)
    st(records, at, a)
    st(records, at + 1, b)
    _index(records, ld(ctx, field + 2), ld(ctx, field + 3), n, width)
    if not is_free:
        st(ctx, field + 1, n + 1)
    return n


@shared
def strike(ctx, field, width, number):
    """Forget a record that is found by its key: its words are 0, and its number is free."""
    records = ld(ctx, field)
    found = ld(ctx, field + 2)
    mask = ld(ctx, field + 3) - 1
    at = record(number, width)
    hole = _hash(ld(records, at), ld(records, at + 1)) & mask
    while ld(found, hole) != number + 1:
        hole = (hole + 1) & mask
    slot = hole
    while True:  # those behind it move up, each no farther than to where it is looked for first
        slot = (slot + 1) & mask
        other = ld(found, slot) - 1
        if other < 0:
            break
        home = _hash(ld(records, record(other, width)), ld(records, record(other, width) + 1)) & mask
        if (slot - home) & mask >= (slot - hole) & mask:
            st(found, hole, other + 1)
            hole = slot
    st(found, hole, 0)
    for w in range(width):
        st(records, at + w, 0)
    st(records, at + 1, ld(ctx, field + 4))
    st(ctx, field + 4, number + 1)
    return 0


@inner
def strike_all(ctx, field):
    """Forget all records, and give back what they took."""
    for w in (0, 2):
        block = ld(ctx, field + w)
        st(ctx, field + w, 0)
        free(block)
    for w in (1, 3, 4):
        st(ctx, field + w, 0)


@inner
def registry_words(ctx, field):
    """Words of memory that a registry takes."""
    return ld(ctx, field + 3) + (0 if ld(ctx, field) == 0 else ld(ld(ctx, field), 0))
