"""Consolidates rows while they wait in a batcher.

A group-by over a large join has a row in its batcher for every pair and few groups. When such a batcher (its rows carry
accumulators, see `stream`) has reached some thousands of rows, equal ones are added up in place; it then stays small
enough for the cache. If that saves less than half, the buffer is left alone until it is emptied.
"""

from __future__ import annotations

from everview.kernels.build.native import shared
from everview.kernels.memory import ld, st
from everview.kernels.operators.batcher import BUFFER_ROWS_AT, BUFFER_TRY, TRY_FROM_WORDS
from everview.kernels.trace.batch import BATCH_CAP, BATCH_DATA, BATCH_ROWS, diff_at, free_batch, time_at
from everview.kernels.trace.sort import sort_rows

NEVER_TRY = 2**62


@shared
def consolidate_buffer(buffer, cols, diffs):
    """Replace the rows of an batcher's buffer by their sums; how many are left."""
    rows = ld(buffer, 0)
    width = cols + 1 + diffs
    batch = sort_rows(buffer, BUFFER_ROWS_AT, width, 1, rows, cols, diffs, 0, 0)
    kept = 0
    if batch != 0:
        kept = ld(batch, BATCH_ROWS)
        data = ld(batch, BATCH_DATA)
        for i in range(kept):
            at = BUFFER_ROWS_AT + i * width
            for c in range(cols):
                st(buffer, at + c, ld(data, c * ld(batch, BATCH_CAP) + i))
            st(buffer, at + cols, time_at(batch, data, i))
            for d in range(diffs):
                st(buffer, at + cols + 1 + d, diff_at(batch, data, i, d))
        free_batch(batch)
    st(buffer, 0, kept)
    st(buffer, BUFFER_TRY, max(TRY_FROM_WORDS, 4 * kept) if 2 * kept <= rows else NEVER_TRY)
    return kept
