"""A few rows merged into many: what every small transaction does to the last batches of the traces it changes.

Deciding row by row costs as much for a row that stays as for one that comes. Where there are few of the latter, each is
looked for, and the rows between two of them are copied as they are, column by column.

Rows that could be added up once their times are advanced stay apart: the times stay as they are, unless all of them are
one word, in which the result has the advanced one. The next merge of the result adds them up.
"""

from __future__ import annotations

from everview.kernels.build.native import inner, shared
from everview.kernels.memory import copy_words, ld, st
from everview.kernels.sums import fits
from everview.kernels.trace.batch import (
    BATCH_CAP,
    BATCH_COLS,
    BATCH_DATA,
    BATCH_DIFF_AT,
    BATCH_DIFF_MASK,
    BATCH_DIFFS,
    BATCH_ROWS,
    BATCH_TIME_AT,
    BATCH_TIME_MASK,
    compare_rows,
    diff_at,
    time_at,
)
from everview.kernels.trace.search import lower_bound

MANY_FOR_ONE = 8
"""Rows of the larger batch for one of the smaller from which this is faster than deciding row by row."""

NOT_SO = -1
"""Answer if the general way must be gone."""


@inner
def are_few(older, newer, result, keep):
    """Whether the rows of the newer batch are few enough, and have one diff each. Times of rounds are advanced."""
    if keep != -1 and ld(result, BATCH_TIME_MASK) != 0:
        return False
    return ld(result, BATCH_DIFFS) == 1 and MANY_FOR_ONE * ld(newer, BATCH_ROWS) <= ld(older, BATCH_ROWS)


@inner
def _copy_run(source, start, result, out, n):
    """Copy n rows of a batch, from row `start` on, to row `out` of the result."""
    theirs = ld(source, BATCH_DATA)
    data = ld(result, BATCH_DATA)
    for c in range(ld(result, BATCH_COLS)):
        copy_words(data, c * ld(result, BATCH_CAP) + out, theirs, c * ld(source, BATCH_CAP) + start, n)
    if ld(result, BATCH_TIME_MASK) != 0:
        at = ld(source, BATCH_TIME_AT)
        _copy_column(data, ld(result, BATCH_TIME_AT) + out, theirs, at, ld(source, BATCH_TIME_MASK), start, n)
    if ld(result, BATCH_DIFF_MASK) != 0:
        at = ld(source, BATCH_DIFF_AT)
        _copy_column(data, ld(result, BATCH_DIFF_AT) + out, theirs, at, ld(source, BATCH_DIFF_MASK), start, n)


@inner
def _copy_column(data, to, theirs, at, mask, start, n):
    """Copy n words of a column from word `start` on, or repeat its only one (`mask` is 0)."""
    if mask != 0:
        copy_words(data, to, theirs, at + start, n)
    else:
        for k in range(n):
            st(data, to + k, ld(theirs, at))


@inner
def _put_row(source, row, result, out, diff):
    """Write row `row` of a batch as row `out` of the result."""
    data = ld(result, BATCH_DATA)
    theirs = ld(source, BATCH_DATA)
    for c in range(ld(result, BATCH_COLS)):
        st(data, c * ld(result, BATCH_CAP) + out, ld(theirs, c * ld(source, BATCH_CAP) + row))
    if ld(result, BATCH_TIME_MASK) != 0:
        st(data, ld(result, BATCH_TIME_AT) + out, time_at(source, theirs, row))
    if ld(result, BATCH_DIFF_MASK) != 0:
        st(data, ld(result, BATCH_DIFF_AT) + out, diff)


@inner
def _where(older, low, newer, j, one_time):
    """(The first row of the older batch, from `low` on, that does not come before row j of the newer one, whether it is
    the same update). `one_time`: all times are the same in the result.
    """
    data = ld(older, BATCH_DATA)
    cap = ld(older, BATCH_CAP)
    rows = ld(older, BATCH_ROWS)
    cols = ld(older, BATCH_COLS)
    theirs = ld(newer, BATCH_DATA)
    their_cap = ld(newer, BATCH_CAP)
    time = time_at(newer, theirs, j)
    i = lower_bound(data, cap, low, rows, theirs, their_cap, j, 0, cols)
    while i < rows and compare_rows(data, cap, i, theirs, their_cap, j, cols) == 0:
        if one_time or time_at(older, data, i) >= time:
            return i, one_time or time_at(older, data, i) == time
        i += 1
    return i, False


@shared
def merge_few(older, newer, result):
    """Fill the result, which is empty; how many rows it has then. NOT_SO if diffs that are all ones, one word, get a
    sum, or a sum does not fit.
    """
    data = ld(older, BATCH_DATA)
    theirs = ld(newer, BATCH_DATA)
    rows = ld(older, BATCH_ROWS)
    one_time = ld(result, BATCH_TIME_MASK) == 0
    i = 0
    out = 0
    for j in range(ld(newer, BATCH_ROWS)):
        found, same = _where(older, i, newer, j, one_time)
        _copy_run(older, i, result, out, found - i)
        out += found - i
        i = found
        diff = diff_at(newer, theirs, j, 0)
        if same:
            diff += diff_at(older, data, i, 0)
            if ld(result, BATCH_DIFF_MASK) == 0 or not fits(diff):
                return NOT_SO
            i += 1
        if diff != 0:
            _put_row(newer, j, result, out, diff)
            out += 1
    _copy_run(older, i, result, out, rows - i)
    return out + rows - i
