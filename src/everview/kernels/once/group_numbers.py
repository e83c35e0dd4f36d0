"""Numbers groups of equal rows, and computes totals and extremes of groups.

Sums of integers are kept as in the dataflow, in two words that cannot overflow: the sums of the lower and of the upper
halves of the values (see `everview.kernels.reduce.aggregate`).
"""

from __future__ import annotations

from everview.kernels.build.native import entry
from everview.kernels.memory import raw_load, raw_store
from everview.kernels.once.hash_join import hashed, same_keys
from everview.types import NULL


@entry("words", "int", "int", "words", "words", "words", allocates=False)
def number(keys, n_keys, dense, base, table, slots, firsts, room, ids, rows):
    """The group of each row, numbered as they come; `firsts` is a row of each. How many groups there are; -1 if there
    is no room: more than `room`, or more than half of the slots. `table` is -1 everywhere. `dense`: each value has a
    slot of its own.
    """
    groups = 0
    for row in range(rows):
        if dense != 0:
            slot = raw_load(raw_load(keys, 0), row) - base
            group = raw_load(table, slot)
        else:
            slot = (hashed(keys, n_keys, row) >> 20) & (slots - 1)
            group = raw_load(table, slot)
            while group >= 0 and not same_keys(keys, raw_load(firsts, group), keys, row, n_keys):
                slot = (slot + 1) & (slots - 1)
                group = raw_load(table, slot)
        if group < 0:
            if groups == room or (dense == 0 and 2 * groups >= slots):
                return -1
            group = groups
            groups += 1
            raw_store(table, slot, group)
            raw_store(firsts, group, row)
        raw_store(ids, row, group)
    return groups


@entry("words", "int", "int", "int", "words", "words", "words", allocates=False)
def total(ids, rows, values, weights, nullable, count, _c, low, _l, high, _h):
    """Add a column (an address) up by group: how many values, and the two words of their sum. `weights`: address of the
    rows' multiplicities, or 0.
    """
    for row in range(rows):
        value = raw_load(values, row)
        if nullable == 0 or value != NULL:
            group = raw_load(ids, row)
            weight = 1 if weights == 0 else raw_load(weights, row)
            raw_store(count, group, raw_load(count, group) + weight)
            raw_store(low, group, raw_load(low, group) + (value & 0xFFFFFFFF) * weight)
            raw_store(high, group, raw_load(high, group) + (value >> 32) * weight)
    return 0


@entry("words", "int", "int", "int", "words", allocates=False)
def counted(ids, rows, values, weights, nullable, count, _c):
    """How many rows each group has; those with NULL in the column at address `values` are not counted."""
    for row in range(rows):
        if nullable == 0 or raw_load(values, row) != NULL:
            group = raw_load(ids, row)
            raw_store(count, group, raw_load(count, group) + (1 if weights == 0 else raw_load(weights, row)))
    return 0


@entry("words", "int", "int", "int", "words", allocates=False)
def extreme(ids, rows, values, nullable, largest, found, _f):
    """The smallest or largest value of each group; `found` is NULL everywhere, and stays so where there is none."""
    for row in range(rows):
        value = raw_load(values, row)
        if nullable == 0 or value != NULL:
            group = raw_load(ids, row)
            best = raw_load(found, group)
            if best == NULL or (value > best if largest != 0 else value < best):
                raw_store(found, group, value)
    return 0
