"""The rows under one key in one call: what a small change of a table with a key looks up before it is made.

`read.collect_key` makes a batch that Python copies and gives back, four calls and three arrays; this is for the one
row, or none, that a table with a key has there.
"""

from __future__ import annotations

from everview.kernels.build.native import entry
from everview.kernels.memory import alloc, free, ld, raw_load, raw_store, st
from everview.kernels.trace.batch import BATCH_CAP, BATCH_DATA, BATCH_ROWS, diff_at, free_batch
from everview.kernels.trace.read import collect_rows
from everview.kernels.trace.trace import NO_SINCE, TRACE_COLS

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
