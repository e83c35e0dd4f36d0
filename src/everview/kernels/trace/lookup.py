"""Look-ups of a few rows by key, in one call from Python that makes nothing but an answer.

`read.collect_key` gives a batch, which has to be copied and given back: five calls. A look-up of one row takes longer
in those than in the index. Here the caller brings the room for the key and for the rows, and uses it again.
"""

from __future__ import annotations

from everview.kernels.build.native import entry
from everview.kernels.memory import alloc, free, ld, raw_load, raw_store, st
from everview.kernels.trace.batch import BATCH_CAP, BATCH_COLS, BATCH_DATA, BATCH_ROWS, diff_at, free_batch, time_at
from everview.kernels.trace.read import collect_rows
from everview.kernels.trace.search import find_key, key_end
from everview.kernels.trace.trace import NO_SINCE, TRACE_COLS, TRACE_COUNT, TRACE_TABLE

MOST_UPDATES = 4096
"""Updates of one key that are added up here. A row that changed often has many in its history, and few rows."""


@entry("int", "int", "int", "words", brief=True, lasting=False)
def find(trace, keys, time, room, size):
    """The rows that begin with the first `keys` words of the room, at a time: into the room, row by row, each with how
    often it is there. How many there are; -1 if the room is too small for them, or the key has too long a history.
    """
    width = ld(trace, TRACE_COLS) + 1
    table = ld(trace, TRACE_TABLE)
    key = alloc(keys)
    for c in range(keys):
        st(key, c, raw_load(room, c))
    total = 0
    last = 0
    place = 0
    for b in range(ld(trace, TRACE_COUNT)):
        batch = ld(table, b)
        start = find_key(batch, key, 1, 0, keys)
        if start < ld(batch, BATCH_ROWS):
            found = key_end(batch, start, key, 1, 0, keys) - start
            if found > 0:
                total += found
                last = batch
                place = start
    if total == 0:
        free(key)
        return 0
    if total > MOST_UPDATES:
        free(key)
        return -1
    if total == 1 and width <= size:  # nothing to be added up
        free(key)
        data = ld(last, BATCH_DATA)
        diff = diff_at(last, data, place, 0)
        if time_at(last, data, place) > time or diff == 0:
            return 0
        for c in range(width - 1):
            raw_store(room, c, ld(data, c * ld(last, BATCH_CAP) + place))
        raw_store(room, width - 1, diff)
        return 1
    batch = collect_rows(trace, key, keys, NO_SINCE, time, 0)
    free(key)
    if batch == 0:
        return 0
    rows = ld(batch, BATCH_ROWS)
    if rows * width > size:
        free_batch(batch)
        return -1
    data = ld(batch, BATCH_DATA)
    cap = ld(batch, BATCH_CAP)
    for i in range(rows):
        for c in range(ld(batch, BATCH_COLS)):
            raw_store(room, i * width + c, ld(data, c * cap + i))
        raw_store(room, i * width + width - 1, diff_at(batch, data, i, 0))
    free_batch(batch)
    return rows
