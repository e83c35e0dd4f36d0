"""Consolidates sorted batches in one pass.

A row that was inserted, deleted and inserted again occurs once for each time, adjacent within a batch, or in several
batches, each sorted. The contents at a time are therefore found by merging all batches: no hashing, and for most rows
only the first column is compared.
"""

from __future__ import annotations

from everview.kernels.build.native import entry, inner
from everview.kernels.memory import raw_load, raw_store
from everview.kernels.once.columns import FOUND_CAP, FOUND_DATA, FOUND_DIFFS, FOUND_ROWS, FOUND_TIMES, FOUND_WORDS


@inner
def _compared(found, a, i, b, j, cols):
    """Whether row i of one batch comes before row j of another (-1), after it (1), or is the same (0)."""
    at_a = raw_load(found, a * FOUND_WORDS + FOUND_DATA)
    at_b = raw_load(found, b * FOUND_WORDS + FOUND_DATA)
    cap_a = raw_load(found, a * FOUND_WORDS + FOUND_CAP)
    cap_b = raw_load(found, b * FOUND_WORDS + FOUND_CAP)
    for c in range(cols):
        left = raw_load(at_a, c * cap_a + i)
        right = raw_load(at_b, c * cap_b + j)
        if left < right:
            return -1
        if left > right:
            return 1
    return 0


@inner
def _weight(found, b, i, time):
    """How often row i of a batch counts at a time."""
    data = raw_load(found, b * FOUND_WORDS + FOUND_DATA)
    times = raw_load(found, b * FOUND_WORDS + FOUND_TIMES)
    moment = raw_load(data, times + i) if times >= 0 else raw_load(data, -1 - times)
    if moment > time:
        return 0
    diffs = raw_load(found, b * FOUND_WORDS + FOUND_DIFFS)
    return raw_load(data, diffs + i) if diffs >= 0 else 1


@inner
def _run_end(found, a, i, b, j, cols):
    """The first row of a batch from i on that does not come before row j of another. Runs are long where one batch
    has nearly all rows, so strides double, then halve.
    """
    rows = raw_load(found, a * FOUND_WORDS + FOUND_ROWS)
    stride = 1
    while i + stride <= rows and _compared(found, a, i + stride - 1, b, j, cols) < 0:
        i += stride
        stride *= 2
    while stride > 0:
        if i + stride <= rows and _compared(found, a, i + stride - 1, b, j, cols) < 0:
            i += stride
        stride //= 2
    return i


@inner
def _alone(found, b, row, end, before, cols, time, count, places, weights):
    """Note the rows from one to another that are there at a time, which no other batch has; how many are noted then."""
    data = raw_load(found, b * FOUND_WORDS + FOUND_DATA)
    cap = raw_load(found, b * FOUND_WORDS + FOUND_CAP)
    times = raw_load(found, b * FOUND_WORDS + FOUND_TIMES)
    diffs = raw_load(found, b * FOUND_WORDS + FOUND_DIFFS)
    moment = raw_load(data, -1 - times) if times < 0 else 0
    total = 0
    while row < end:
        if times >= 0:
            moment = raw_load(data, times + row)
        if moment <= time:
            total += raw_load(data, diffs + row) if diffs >= 0 else 1
        row += 1
        same = row < end and raw_load(data, row - 1) == raw_load(data, row)
        c = 1
        while same and c < cols:
            same = raw_load(data, c * cap + row - 1) == raw_load(data, c * cap + row)
            c += 1
        if not same:
            if total != 0:
                raw_store(places, count, before + row - 1)
                raw_store(weights, count, total)
                count += 1
            total = 0
    return count


@entry("words", "int", "int", "int", "words", "words", "words", allocates=False)
def merged(found, _found, batches, cols, time, heads, _heads, places, _places, weights, _weights):
    """Each row that is there at a time, once: its number among the rows of all batches, and its weight. How many there
    are; `found` is what `batches_of` tells, `heads` has a zero for each batch.

    The batch whose next row comes first is read up to the next row of any other (`_run_end`); only rows that several
    batches begin with are looked up in each.
    """
    count = 0
    while True:
        best = -1
        second = -1
        for b in range(batches):
            i = raw_load(heads, b)
            if i < raw_load(found, b * FOUND_WORDS + FOUND_ROWS):
                if best < 0:
                    best = b
                elif _compared(found, b, i, best, raw_load(heads, best), cols) < 0:
                    second = best
                    best = b
                elif second < 0 or _compared(found, b, i, second, raw_load(heads, second), cols) < 0:
                    second = b
        if best < 0:
            return count
        row = raw_load(heads, best)
        end = raw_load(found, best * FOUND_WORDS + FOUND_ROWS)
        if second >= 0:
            end = _run_end(found, best, row, second, raw_load(heads, second), cols)
        before = 0
        for b in range(best):
            before += raw_load(found, b * FOUND_WORDS + FOUND_ROWS)
        if end > row:  # no other batch has these
            raw_store(heads, best, end)
            count = _alone(found, best, row, end, before, cols, time, count, places, weights)
            continue
        total = 0
        for b in range(batches):
            i = raw_load(heads, b)
            rows = raw_load(found, b * FOUND_WORDS + FOUND_ROWS)
            while i < rows and _compared(found, b, i, best, row, cols) == 0:
                total += _weight(found, b, i, time)
                i += 1
            raw_store(heads, b, i)
        if total != 0:
            raw_store(places, count, before + row)
            raw_store(weights, count, total)
            count += 1


@entry("words", "int", "int", "words", "int", "words", allocates=False)
def gathered(found, _found, batches, column, places, _places, count, values, _values):
    """A column of some rows, which are numbered one batch after the other. Most rows are in the batch of the row before
    them.
    """
    b = 0
    first = 0
    end = raw_load(found, FOUND_ROWS)
    at = raw_load(found, FOUND_DATA) + 8 * column * raw_load(found, FOUND_CAP)
    for i in range(count):
        place = raw_load(places, i)
        if place < first or place >= end:
            b = 0
            first = 0
            end = raw_load(found, FOUND_ROWS)
            while place >= end and b + 1 < batches:
                b += 1
                first = end
                end += raw_load(found, b * FOUND_WORDS + FOUND_ROWS)
            data = raw_load(found, b * FOUND_WORDS + FOUND_DATA)
            at = data + 8 * column * raw_load(found, b * FOUND_WORDS + FOUND_CAP)
        raw_store(values, i, raw_load(at, place - first))
    return count
