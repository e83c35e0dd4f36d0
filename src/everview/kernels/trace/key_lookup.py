"""The rows under keys in one call: the look-ups before a change of a table with a key.

`read.collect_key` returns a batch that Python copies and frees: four calls and three arrays. `under_key` is for the one
row, or none, that a table with a key has; `under_keys` for thousands of keys.
"""

from __future__ import annotations

from everview.kernels.build.native import entry
from everview.kernels.memory import alloc, free, ld, raw_load, raw_store, st
from everview.kernels.trace.batch import BATCH_CAP, BATCH_DATA, BATCH_ROWS, diff_at, free_batch, time_at
from everview.kernels.trace.read import collect_rows, copy_row
from everview.kernels.trace.search import find_key, key_end
from everview.kernels.trace.sort import sort_rows
from everview.kernels.trace.trace import NO_SINCE, TRACE_COLS, TRACE_COUNT, TRACE_TABLE

TOO_MANY = -1
"""Answer if there are more rows than there is room for."""


@entry("int", "text", "int", "words", lasting=False)
def under_key(trace, key, size, upto, out, room):
    """Write the rows at time `upto` that begin with the words of `key`, each followed by its multiplicity; how many."""
    keys = size // 8
    block = alloc(max(keys, 1))
    for i in range(keys):
        st(block, i, raw_load(key, i))
    batch = collect_rows(trace, block, keys, NO_SINCE, upto, 0)
    free(block)
    if batch == 0:
        return 0
    cols = ld(trace, TRACE_COLS)
    data = ld(batch, BATCH_DATA)
    cap = ld(batch, BATCH_CAP)
    rows = ld(batch, BATCH_ROWS)
    if rows * (cols + 1) > room:
        rows = TOO_MANY
    for i in range(rows):
        for c in range(cols):
            raw_store(out, i * (cols + 1) + c, ld(data, c * cap + i))
        raw_store(out, i * (cols + 1) + cols, diff_at(batch, data, i, 0))
    free_batch(batch)
    return rows


@entry("int", "matrix", "int", lasting=False)
def under_keys(trace, keys, columns, n, upto):
    """The rows at time `upto` that begin with one of `n` keys, given as columns, as one batch (0 if none), which the
    caller owns. What is under a key that is given twice is there twice.
    """
    block = alloc(max(columns * n, 1))
    for i in range(columns * n):
        st(block, i, raw_load(keys, i))
    table = ld(trace, TRACE_TABLE)
    width = ld(trace, TRACE_COLS) + 2
    total = 0
    for b in range(ld(trace, TRACE_COUNT)):
        batch = ld(table, b)
        for j in range(n):
            start = find_key(batch, block, n, j, columns)
            if start < ld(batch, BATCH_ROWS):
                total += key_end(batch, start, block, n, j, columns) - start
    if total == 0:
        free(block)
        return 0
    out = alloc(total * width)
    rows = 0
    for b in range(ld(trace, TRACE_COUNT)):
        batch = ld(table, b)
        data = ld(batch, BATCH_DATA)
        for j in range(n):
            start = find_key(batch, block, n, j, columns)
            if start < ld(batch, BATCH_ROWS):
                for i in range(start, key_end(batch, start, block, n, j, columns)):
                    if time_at(batch, data, i) <= upto:
                        copy_row(batch, data, i, out, rows * width, 0)
                        rows += 1
    free(block)
    return sort_rows(out, 0, width, 1, rows, width - 2, 1, 1, 0)
