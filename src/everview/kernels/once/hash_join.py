"""Hash joins: a hash table of one side, probed by the other.

Heads are the first row of each slot (-1: none), `chain` the next of the same slot. With one key column whose values are
dense there is a slot for each value (`dense`), without collisions. A NULL key matches nothing: such rows are left out
on either side (`nullable` says for each column whether to check).
"""

from __future__ import annotations

from everview.kernels.build.native import entry, inner
from everview.kernels.memory import raw_load, raw_store
from everview.types import NULL

_FACTOR = -7046029254386353131  # 2**64 / golden ratio, odd


@inner
def hashed(keys, n_keys, row):
    """A hash of a row's keys, its best bits from bit 32 on."""
    h = raw_load(raw_load(keys, 0), row) * _FACTOR
    for k in range(1, n_keys):
        h = ((h ^ (h >> 29)) + raw_load(raw_load(keys, k), row)) * _FACTOR
    return h ^ (h >> 31)


@inner
def same_keys(keys_a, a, keys_b, b, n_keys):
    """Whether two rows have equal keys."""
    for k in range(n_keys):
        if raw_load(raw_load(keys_a, k), a) != raw_load(raw_load(keys_b, k), b):
            return False
    return True


@inner
def _has_null(keys, nullable, n_keys, row):
    for k in range(n_keys):
        if raw_load(nullable, k) != 0 and raw_load(raw_load(keys, k), row) == NULL:
            return True
    return False


@inner
def _slot(keys, n_keys, row, dense, base, slots):
    """The slot of a row's keys; -1 if no row can be there."""
    if dense != 0:
        slot = raw_load(raw_load(keys, 0), row) - base
        return slot if 0 <= slot < slots else -1
    return (hashed(keys, n_keys, row) >> 20) & (slots - 1)


@entry("words", "words", "int", "int", "words", "words", allocates=False)
def build(keys, n_keys, nullable, _n, dense, base, heads, slots, chain, rows):
    """Put all rows into the table; `heads` is -1 everywhere."""
    for back in range(rows):
        row = rows - 1 - back
        if not _has_null(keys, nullable, n_keys, row):
            slot = _slot(keys, n_keys, row, dense, base, slots)
            raw_store(chain, row, raw_load(heads, slot))
            raw_store(heads, slot, row)
    return 0


@inner
def _next(mine, row, keys, n_keys, chain, other):
    """The first row of a chain, from `other` on, with equal keys; -1 if there is none."""
    while other >= 0 and not same_keys(keys, other, mine, row, n_keys):
        other = raw_load(chain, other)
    return other


@entry("words", "words", "words", "int", "int", "words", "words", "words", allocates=False)
def probe(mine, n_keys, nullable, _n, keys, _k, dense, base, heads, slots, chain, _c, first, rows):
    """For each of my rows the first row of the table with the same keys, or -1; how many pairs there are in all."""
    pairs = 0
    for row in range(rows):
        other = -1
        if not _has_null(mine, nullable, n_keys, row):
            slot = _slot(mine, n_keys, row, dense, base, slots)
            if slot >= 0:
                other = _next(mine, row, keys, n_keys, chain, raw_load(heads, slot))
        raw_store(first, row, other)
        while other >= 0:
            pairs += 1
            other = _next(mine, row, keys, n_keys, chain, raw_load(chain, other))
    return pairs


@entry("words", "words", "words", "words", "words", "words", allocates=False)
def pairs(mine, n_keys, keys, _k, chain, _c, first, rows, left, _l, right, _r):
    """All pairs, as numbers of my rows and of the table's."""
    n = 0
    for row in range(rows):
        other = raw_load(first, row)
        while other >= 0:
            raw_store(left, n, row)
            raw_store(right, n, other)
            n += 1
            other = _next(mine, row, keys, n_keys, chain, raw_load(chain, other))
    return n
