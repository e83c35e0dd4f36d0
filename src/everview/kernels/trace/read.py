"""Reading traces from outside a step: contents at a time, changes after a time, the rows of one key.

Results are ordinary batches (sorted and consolidated) that the caller owns.
"""

from __future__ import annotations

from everview.kernels.build.native import entry, inner
from everview.kernels.memory import alloc, free, ld, raw_load, st
from everview.kernels.sums import plus
from everview.kernels.trace.batch import BATCH_CAP, BATCH_COLS, BATCH_DATA, BATCH_ROWS, diff_at, free_batch, time_at
from everview.kernels.trace.search import find_key, key_end
from everview.kernels.trace.sort import sort_rows
from everview.kernels.trace.trace import NO_SINCE, TRACE_COLS, TRACE_COUNT, TRACE_TABLE


@inner
def copy_row(batch, data, i, rows, at, time):
    """Write row i of a batch at word `at` of a block: its columns, a time, its diff."""
    cols = ld(batch, BATCH_COLS)
    cap = ld(batch, BATCH_CAP)
    for c in range(cols):
        st(rows, at + c, ld(data, c * cap + i))
    st(rows, at + cols, time)
    st(rows, at + cols + 1, diff_at(batch, data, i, 0))


@inner
def collect_rows(trace, key, keys, after, upto, keep_times):
    """The updates with after < time <= upto whose first `keys` columns equal the words of block `key`, as one batch."""
    table = ld(trace, TRACE_TABLE)
    width = ld(trace, TRACE_COLS) + 2
    total = 0
    for b in range(ld(trace, TRACE_COUNT)):
        batch = ld(table, b)
        start = find_key(batch, key, 1, 0, keys)
        if start < ld(batch, BATCH_ROWS):
            total += key_end(batch, start, key, 1, 0, keys) - start
    if total == 0:
        return 0
    out = alloc(total * width)
    n = 0
    for b in range(ld(trace, TRACE_COUNT)):
        batch = ld(table, b)
        data = ld(batch, BATCH_DATA)
        start = find_key(batch, key, 1, 0, keys)
        if start < ld(batch, BATCH_ROWS):
            for i in range(start, key_end(batch, start, key, 1, 0, keys)):
                t = time_at(batch, data, i)
                if after < t <= upto:
                    copy_row(batch, data, i, out, n * width, t if keep_times != 0 else 0)
                    n += 1
    return sort_rows(out, 0, width, 1, n, width - 2, 1, 1, 0)


@entry("int", "int", "int", "int", "int", "int", lasting=False)
def _collect(trace, key, keys, after, upto, keep_times):
    return collect_rows(trace, key, keys, after, upto, keep_times)


def collect(trace: int, after: int, upto: int, keep_times: int) -> int:
    """All updates with after < time <= upto as one batch (0 if none); without `keep_times` times are forgotten."""
    return int(_collect(trace, 0, 0, after, upto, keep_times))


def collect_key(trace: int, key: int, keys: int, upto: int) -> int:
    """The rows whose first `keys` columns equal the words of block `key`, at time `upto`, as one batch (0 if none)."""
    return int(_collect(trace, key, keys, NO_SINCE, upto, 0))


@entry("int")
def release(batch):
    """Give a batch back that one of these functions returned."""
    free_batch(batch)
    return 0


@entry("int", "int")
def release_at(block, index):
    """Give the batch back that a word of a block names; the word is 0 then. One call, so that nobody finds the batch
    there that is gone.
    """
    batch = ld(block, index)
    st(block, index, 0)
    free_batch(batch)
    return 0


@inner
def balance(trace, batches, data, cap, i, time):
    """Multiplicity of the row i at `time` in the first so many batches of a trace."""
    table = ld(trace, TRACE_TABLE)
    cols = ld(trace, TRACE_COLS)
    total = 0
    for b in range(batches):
        batch = ld(table, b)
        start = find_key(batch, data, cap, i, cols)
        if start < ld(batch, BATCH_ROWS):
            for k in range(start, key_end(batch, start, data, cap, i, cols)):
                if time_at(batch, ld(batch, BATCH_DATA), k) <= time:
                    total = plus(total, diff_at(batch, ld(batch, BATCH_DATA), k, 0))
    return total


@entry("int", "words", "int", lasting=False)
def how_often(trace, codes, n, time):
    """Multiplicity at `time` of the row with these codes, in the trace's order of columns."""
    row = alloc(n)
    for c in range(n):
        st(row, c, raw_load(codes, c))
    total = balance(trace, ld(trace, TRACE_COUNT), row, 1, 0, time)
    free(row)
    return total
