"""Asking for memory before it is needed: looking up many keys in large batches without waiting for each.

A look-up waits for a word of the index and then for rows, mostly a cache miss each. Where the next keys are known, the
processor can fetch for several of them at once: `hint_index` is called for a key some places ahead, `hint_rows` for a
nearer one, whose word of the index has arrived by then. The look-up itself (`search`) is as before.

Hints change nothing but the time: one for a key that is not there, or that is never looked up, is harmless.
"""

from __future__ import annotations

from everview.kernels.build.native import inner, shared
from everview.kernels.memory import ld, prefetch
from everview.kernels.trace.batch import (
    BATCH_BUCKETS,
    BATCH_CAP,
    BATCH_COLS,
    BATCH_DATA,
    BATCH_INDEX,
    BATCH_KEY_MIN,
    BATCH_KEY_SHIFT,
    BATCH_PARTS,
)
from everview.kernels.trace.trace import TRACE_COUNT, TRACE_TABLE

FAR_AHEAD, NEAR_AHEAD = 8, 4
"""Places ahead at which `hint_index` and `hint_rows` are called."""

HINTED_COLUMNS = 3
"""Columns of rows that are asked for: the key, and what is mostly read with it."""


@inner
def bucket_word(batch, key):
    """The word of a batch's index at which rows begin that have the key in their first column; -1 if there is none."""
    parts = ld(batch, BATCH_PARTS)
    if parts == 1:
        word = ((key >> 1) - ld(batch, BATCH_KEY_MIN)) >> ld(batch, BATCH_KEY_SHIFT)
    else:
        word = (key - ld(batch, BATCH_KEY_MIN)) * parts
    return word if 0 <= word < ld(batch, BATCH_BUCKETS) else -1


@shared
def hint_index(trace, key):
    """A key of one column will be looked up in a trace, some look-ups from now."""
    table = ld(trace, TRACE_TABLE)
    for b in range(ld(trace, TRACE_COUNT)):
        batch = ld(table, b)
        index = ld(batch, BATCH_INDEX)
        if index != 0:
            prefetch(index, bucket_word(batch, key))
    return 0


@shared
def hint_rows(trace, key):
    """The same, soon."""
    table = ld(trace, TRACE_TABLE)
    for b in range(ld(trace, TRACE_COUNT)):
        batch = ld(table, b)
        index = ld(batch, BATCH_INDEX)
        if index != 0:
            word = bucket_word(batch, key)
            if word >= 0:
                data = ld(batch, BATCH_DATA)
                row = ld(index, word)
                last = ld(index, word + 1) - 1
                for c in range(min(ld(batch, BATCH_COLS), HINTED_COLUMNS)):
                    prefetch(data, c * ld(batch, BATCH_CAP) + row)
                    prefetch(data, c * ld(batch, BATCH_CAP) + last)
    return 0
