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


@entry("words", "int", "int", "int", "words", "words", "words", allocates=False)
def merged(found, _found, batches, cols, time, heads, _heads, places, _places, weights, _weights):
    """Each row that is there at a time, once: its number among the rows of all batches, and its weight. How many there
    are; `found` is what `batches_of` tells, `heads` has a zero for each batch.
    """
    count = 0
    while True:
        best = -1
        for b in range(batches):
            i = raw_load(heads, b)
            if i < raw_load(found, b * FOUND_WORDS + FOUND_ROWS):
                if best < 0 or _compared(found, b, i, best, raw_load(heads, best), cols) < 0:
                    best = b
        if best < 0:
            return count
        row = raw_load(heads, best)
        total = 0
        before = 0
        place = 0
        for b in range(batches):
            i = raw_load(heads, b)
            rows = raw_load(found, b * FOUND_WORDS + FOUND_ROWS)
            if b == best:
                place = before + row
            while i < rows and _compared(found, b, i, best, row, cols) == 0:
                total += _weight(found, b, i, time)
                i += 1
            raw_store(heads, b, i)
            before += rows
        if total != 0:
            raw_store(places, count, place)
            raw_store(weights, count, total)
            count += 1
