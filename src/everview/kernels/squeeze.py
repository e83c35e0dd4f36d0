"""Adding up rows while they wait.

A group-by over a large join has a row in its inbox for every pair and few groups. When such an inbox (its rows carry
accumulators, see `stream`) has come to some thousands of rows, equal ones are added up in place; it then stays small
enough for the cache. If that saves less than half, the buffer is left alone until it is emptied.
"""

from __future__ import annotations

from everview.kernels.batch import CAP, DATA, ROWS, diff_at, free_batch, time_at
from everview.kernels.inbox import ROWS_AT, TRY, TRY_FROM
from everview.kernels.memory import ld, st
from everview.kernels.native import shared
from everview.kernels.sort import sort_rows

NEVER = 2**62


@shared
def squeeze(buffer, cols, diffs):
    """Replace the rows of an inbox's buffer by their sums; how many are left."""
    rows = ld(buffer, 0)
    width = cols + 1 + diffs
    batch = sort_rows(buffer, ROWS_AT, width, 1, rows, cols, diffs, 0, 0)
    kept = 0
    if batch != 0:
        kept = ld(batch, ROWS)
        data = ld(batch, DATA)
        for i in range(kept):
            at = ROWS_AT + i * width
            for c in range(cols):
                st(buffer, at + c, ld(data, c * ld(batch, CAP) + i))
            st(buffer, at + cols, time_at(batch, data, i))
            for d in range(diffs):
                st(buffer, at + cols + 1 + d, diff_at(batch, data, i, d))
        free_batch(batch)
    st(buffer, 0, kept)
    st(buffer, TRY, max(TRY_FROM, 4 * kept) if 2 * kept <= rows else NEVER)
    return kept
