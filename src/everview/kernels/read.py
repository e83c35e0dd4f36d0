"""Reading traces from outside a step: contents at a time, changes after a time, the rows of one key.

Results are ordinary batches (sorted and consolidated) that the caller owns.
"""

from __future__ import annotations

from everview.kernels.batch import CAP, COLS, D_MASK, DATA, ROWS, diff_at, free_batch, time_at
from everview.kernels.memory import alloc, ld, st
from everview.kernels.native import REFUSED, entry, inner, operator
from everview.kernels.search import find_key, key_end
from everview.kernels.sort import sort_rows
from everview.kernels.sums import plus
from everview.kernels.trace import COUNT, DELTA, NO_SINCE, T_COLS, TABLE

C_TRACE, C_ROW, C_WORDS = range(3)


@inner
def _copy_row(batch, data, i, rows, at, time):
    cols = ld(batch, COLS)
    cap = ld(batch, CAP)
    for c in range(cols):
        st(rows, at + c, ld(data, c * cap + i))
    st(rows, at + cols, time)
    st(rows, at + cols + 1, diff_at(batch, data, i, 0))


@entry("int", "int", "int", "int", "int", "int", lasting=False)
def _collect(trace, key, keys, after, upto, keep_times):
    """The updates with after < time <= upto whose first `keys` columns equal the words of block `key`."""
    table = ld(trace, TABLE)
    width = ld(trace, T_COLS) + 2
    total = 0
    for b in range(ld(trace, COUNT)):
        batch = ld(table, b)
        start = find_key(batch, key, 1, 0, keys)
        if start < ld(batch, ROWS):
            total += key_end(batch, start, key, 1, 0, keys) - start
    if total == 0:
        return 0
    out = alloc(total * width)
    n = 0
    for b in range(ld(trace, COUNT)):
        batch = ld(table, b)
        data = ld(batch, DATA)
        start = find_key(batch, key, 1, 0, keys)
        if start < ld(batch, ROWS):
            for i in range(start, key_end(batch, start, key, 1, 0, keys)):
                t = time_at(batch, data, i)
                if after < t <= upto:
                    _copy_row(batch, data, i, out, n * width, t if keep_times != 0 else 0)
                    n += 1
    return sort_rows(out, 0, width, 1, n, width - 2, 1, 1, 0)


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


@inner
def _balance(trace, data, cap, i, time):
    """Multiplicity of the row i at `time`."""
    table = ld(trace, TABLE)
    cols = ld(trace, T_COLS)
    total = 0
    for b in range(ld(trace, COUNT)):
        batch = ld(table, b)
        start = find_key(batch, data, cap, i, cols)
        if start < ld(batch, ROWS):
            for k in range(start, key_end(batch, start, data, cap, i, cols)):
                if time_at(batch, ld(batch, DATA), k) <= time:
                    total = plus(total, diff_at(batch, ld(batch, DATA), k, 0))
    return total


@operator
def check(ctx):
    """Refuse the step if its change of a base table takes away rows that are not there."""
    trace = ld(ctx, C_TRACE)
    delta = ld(trace, DELTA)
    if delta == 0 or ld(delta, D_MASK) == 0:  # every diff is 1
        return 0
    data = ld(delta, DATA)
    for i in range(ld(delta, ROWS)):
        if diff_at(delta, data, i, 0) < 0:
            if _balance(trace, data, ld(delta, CAP), i, time_at(delta, data, i)) < 0:
                st(ctx, C_ROW, i)
                return REFUSED
    return 0
