"""A key's history: the rows of one key in all batches of a trace, read at a time.

`locate` sets three words per batch in a block of cursors: the current position, the end and the start of the key's
rows. Reading at a time means adding up the diffs of updates at or before it.
"""

from __future__ import annotations

from everview.kernels.build.native import inner, shared
from everview.kernels.memory import ld, st
from everview.kernels.operators.stream import NULL
from everview.kernels.run.step import STEP_EPOCHS
from everview.kernels.sums import beyond, must_fit, plus
from everview.kernels.times import leq
from everview.kernels.trace.batch import BATCH_CAP, BATCH_DATA, BATCH_ROWS, diff_at, time_at
from everview.kernels.trace.search import find_next, gallop, key_end
from everview.kernels.trace.trace import TRACE_COLS, TRACE_COUNT, TRACE_TABLE

GALLOP_RATIO = 8  # gallop through a batch if it has fewer rows than this times the touched keys


@inner
def bound_of(step, now, time, fields, nfields):
    """A word such that `t <= bound` says whether t is at or before `time`, where words are totally ordered; -1 where
    they are not.

    Outside loops that is the time itself. In a single loop with a single epoch in the step, only the loop coordinate
    can tell times apart.
    """
    if nfields == 1:
        return time
    if nfields == 2 and ld(step, STEP_EPOCHS) == 1:
        return now | ld(fields, 1)
    return -1


@inner
def seen(t, time, bound, fields, nfields):
    """Whether an update at `t` counts at `time`; `bound` as from `bound_of`."""
    if bound >= 0:
        return t <= bound
    return leq(t, time, fields, nfields)


@inner
def start_cursors(trace, cursors, at):
    for b in range(ld(trace, TRACE_COUNT)):
        st(cursors, at + 3 * b, 0)
        st(cursors, at + 3 * b + 1, 0)
        st(cursors, at + 3 * b + 2, 0)


@shared
def locate(trace, data, cap, row, keys, touched, cursors, at):
    """Set the row ranges of one key in all batches of a trace: start in word at + 3b, end in at + 3b + 1."""
    table = ld(trace, TRACE_TABLE)
    for b in range(ld(trace, TRACE_COUNT)):
        batch = ld(table, b)
        w = at + 3 * b
        if ld(batch, BATCH_ROWS) < touched * GALLOP_RATIO:
            start = gallop(batch, ld(cursors, w + 2), data, cap, row, keys)
        else:
            start = find_next(batch, ld(cursors, w + 2), data, cap, row, keys)
        end = start
        if start < ld(batch, BATCH_ROWS):
            end = key_end(batch, start, data, cap, row, keys)
        st(cursors, w, start)
        st(cursors, w + 1, end)
        st(cursors, w + 2, start)
    return 0


@inner
def rewind(trace, cursors, at):
    for b in range(ld(trace, TRACE_COUNT)):
        st(cursors, at + 3 * b, ld(cursors, at + 3 * b + 2))


@inner
def next_value(trace, cursors, at, keys, time, bound, fields, nfields):
    """Step over the smallest value still ahead in the key's ranges: (batch, row, total of its diffs at `time`); batch
    0 at the end.
    """
    table = ld(trace, TRACE_TABLE)
    best = 0
    best_row = 0
    best_data = 0
    best_cap = 0
    batches = ld(trace, TRACE_COUNT)
    cols = ld(trace, TRACE_COLS)
    for b in range(batches):
        i = ld(cursors, at + 3 * b)
        if i < ld(cursors, at + 3 * b + 1):
            batch = ld(table, b)
            data = ld(batch, BATCH_DATA)
            cap = ld(batch, BATCH_CAP)
            smaller = best == 0
            if not smaller:
                for c in range(keys, cols):
                    x = ld(data, c * cap + i)
                    y = ld(best_data, c * best_cap + best_row)
                    if x != y:
                        smaller = x < y
                        break
            if smaller:
                best = batch
                best_row = i
                best_data = data
                best_cap = cap
    if best == 0:
        return 0, 0, 0
    total = 0
    for b in range(batches):
        batch = ld(table, b)
        data = ld(batch, BATCH_DATA)
        cap = ld(batch, BATCH_CAP)
        i = ld(cursors, at + 3 * b)
        end = ld(cursors, at + 3 * b + 1)
        while i < end:
            same = True
            for c in range(keys, cols):
                if ld(data, c * cap + i) != ld(best_data, c * best_cap + best_row):
                    same = False
                    break
            if not same:
                break
            if seen(time_at(batch, data, i), time, bound, fields, nfields):
                total = plus(total, diff_at(batch, data, i, 0))
            i += 1
        st(cursors, at + 3 * b, i)
    return best, best_row, total


@inner
def extreme(trace, cursors, at, keys, time, bound, fields, nfields, largest):
    """(found, value) of the smallest or largest non-NULL value present at `time`; only NULLs: (1, NULL). The largest is
    looked for from the ends of the ranges backwards.
    """
    table = ld(trace, TRACE_TABLE)
    batches = ld(trace, TRACE_COUNT)
    move = -1 if largest else 1
    for b in range(batches):
        st(cursors, at + 3 * b, ld(cursors, at + 3 * b + 1) - 1 if largest else ld(cursors, at + 3 * b + 2))
    null_seen = False
    while True:
        found = False
        best = 0
        for b in range(batches):
            i = ld(cursors, at + 3 * b)
            if ld(cursors, at + 3 * b + 2) <= i < ld(cursors, at + 3 * b + 1):
                batch = ld(table, b)
                x = ld(ld(batch, BATCH_DATA), keys * ld(batch, BATCH_CAP) + i)
                if not found or (x > best if largest else x < best):
                    found = True
                    best = x
        if not found:
            return (1, NULL) if null_seen else (0, 0)
        total = 0
        for b in range(batches):
            i = ld(cursors, at + 3 * b)
            end = ld(cursors, at + 3 * b + 1)
            start = ld(cursors, at + 3 * b + 2)
            if start <= i < end:
                batch = ld(table, b)
                data = ld(batch, BATCH_DATA)
                at_value = keys * ld(batch, BATCH_CAP)
                while start <= i < end and ld(data, at_value + i) == best:
                    if seen(time_at(batch, data, i), time, bound, fields, nfields):
                        total = plus(total, diff_at(batch, data, i, 0))
                    i += move
                st(cursors, at + 3 * b, i)
        if total > 0:
            if best != NULL:
                return 1, best
            null_seen = True


@inner
def total_of(trace, cursors, at, d, time, bound, fields, nfields):
    """Sum of diff number `d` over the key's updates at or before `time`."""
    table = ld(trace, TRACE_TABLE)
    total = 0
    sizes = 0
    for b in range(ld(trace, TRACE_COUNT)):
        batch = ld(table, b)
        data = ld(batch, BATCH_DATA)
        for i in range(ld(cursors, at + 3 * b + 2), ld(cursors, at + 3 * b + 1)):
            if seen(time_at(batch, data, i), time, bound, fields, nfields):
                total += diff_at(batch, data, i, d)
                sizes |= beyond(total)
    must_fit(sizes)
    return total
