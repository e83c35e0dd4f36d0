"""Merges two batches into one, a bounded piece at a time.

A merge is a separate block with two cursors and a growing result, so that it can stop after any number of rows and
continue later: inserting into a trace then never stalls for a large merge (mcsherry-2020 section 4.2). While merging it
*advances* times: `max(t & keep, since)` maps all times that no reader can distinguish to one representative, and
updates that agree on row and representative are added up. Both steps preserve the order of times, so the result is
sorted.

Rows are merged a chunk at a time: first where each comes from, then column by column, then equal ones are added up.
Diffs that are all ones stay one word as long as no two rows are equal, which is so for most tables: the result gets a
column of diffs with the first pair that is (`_widen`).
"""

from __future__ import annotations

from everview.kernels.build.native import inner, shared, task
from everview.kernels.memory import EVER, alloc, alloc_with, copy_words, free, grow, ld, st
from everview.kernels.sums import fits
from everview.kernels.threads.thread_pool import members, new_shares, together
from everview.kernels.trace.batch import (
    BATCH_CAP,
    BATCH_COLS,
    BATCH_DATA,
    BATCH_DIFF_AT,
    BATCH_DIFF_MASK,
    BATCH_DIFFS,
    BATCH_INDEX,
    BATCH_ROWS,
    BATCH_TIME_AT,
    BATCH_TIME_MASK,
    compare_rows,
    diff_at,
    free_batch,
    new_batch,
    time_at,
)
from everview.kernels.trace.buckets import build_index
from everview.kernels.trace.few_rows import NOT_SO, are_few, merge_few
from everview.kernels.trace.search import lower_bound

(
    MERGE_OLDER,
    MERGE_NEWER,
    MERGE_AT_OLDER,
    MERGE_AT_NEWER,
    MERGE_END_OLDER,
    MERGE_END_NEWER,
    MERGE_RESULT,
    MERGE_FIRST_ROW,
    MERGE_DONE_ROWS,
    MERGE_KEEP,
    MERGE_SINCE,
    MERGE_WORDS,
) = range(12)
"""Rows from AT to END are still to be merged; the result has those from MERGE_FIRST_ROW to MERGE_DONE_ROWS."""

DECIDE_ROWS = 512  # rows that are decided on before they are copied


@inner
def start_merge(older, newer, keep, since, alone):
    """Begin merging two batches of one trace; `alone`: one thread writes the result, which may be widened."""
    rows = ld(older, BATCH_ROWS) + ld(newer, BATCH_ROWS)
    merge = alloc_with(MERGE_WORDS, rows)
    one_time = False
    if ld(older, BATCH_TIME_MASK) == 0 and ld(newer, BATCH_TIME_MASK) == 0:
        t = max(time_at(older, ld(older, BATCH_DATA), 0) & keep, since)
        one_time = t == max(time_at(newer, ld(newer, BATCH_DATA), 0) & keep, since)
    ones = alone and ld(older, BATCH_DIFF_MASK) == 0 and ld(newer, BATCH_DIFF_MASK) == 0
    result = new_batch(rows, ld(older, BATCH_COLS), ld(older, BATCH_DIFFS), one_time, ones)
    if ones:
        st(ld(result, BATCH_DATA), ld(result, BATCH_DIFF_AT), 1)
    if one_time:
        st(
            ld(result, BATCH_DATA),
            ld(result, BATCH_TIME_AT),
            max(time_at(older, ld(older, BATCH_DATA), 0) & keep, since),
        )
    st(merge, MERGE_OLDER, older)
    st(merge, MERGE_NEWER, newer)
    st(merge, MERGE_AT_OLDER, 0)
    st(merge, MERGE_AT_NEWER, 0)
    st(merge, MERGE_END_OLDER, ld(older, BATCH_ROWS))
    st(merge, MERGE_END_NEWER, ld(newer, BATCH_ROWS))
    st(merge, MERGE_RESULT, result)
    st(merge, MERGE_FIRST_ROW, 0)
    st(merge, MERGE_DONE_ROWS, 0)
    st(merge, MERGE_KEEP, keep)
    st(merge, MERGE_SINCE, since)
    return merge


@inner
def _can_be_added(batch, data, i, j):
    """Whether the diffs of two rows have sums that fit; if not they stay two rows, see `sums`."""
    for d in range(ld(batch, BATCH_DIFFS)):
        if not fits(diff_at(batch, data, i, d) + diff_at(batch, data, j, d)):
            return False
    return True


@inner
def _move(batch, data, first, out, i, time):
    """Move row i of a batch down to row `out`, or add it to row out - 1 if that is the same update (and not before row
    `first`); the new row count.
    """
    cols = ld(batch, BATCH_COLS)
    diffs = ld(batch, BATCH_DIFFS)
    cap = ld(batch, BATCH_CAP)
    if out > first and time_at(batch, data, out - 1) == time:
        if compare_rows(data, cap, out - 1, data, cap, i, cols) == 0 and _can_be_added(batch, data, out - 1, i):
            at = ld(batch, BATCH_DIFF_AT) + out - 1
            alive = False
            for d in range(diffs):
                total = ld(data, at + d * cap) + diff_at(batch, data, i, d)
                st(data, at + d * cap, total)
                if total != 0:
                    alive = True
            return out if alive else out - 1
    for c in range(cols):
        st(data, c * cap + out, ld(data, c * cap + i))
    if ld(batch, BATCH_TIME_MASK) != 0:
        st(data, ld(batch, BATCH_TIME_AT) + out, time)
    at = ld(batch, BATCH_DIFF_AT) + out
    for d in range(diffs):
        st(data, at + d * cap, diff_at(batch, data, i, d))
    return out + 1


@inner
def _advanced(batch, data, i, keep, since):
    """Time of row i as the result has it."""
    return max(time_at(batch, data, i) & keep, since)


@inner
def _interleave(merge, order, n):
    """Decide where the next n rows of the result come from: `order` gets row numbers of the older batch, and those of
    the newer one as their complements. Which is next is hard to foresee, so choosing is done without branches.
    """
    a = ld(merge, MERGE_OLDER)
    b = ld(merge, MERGE_NEWER)
    keep = ld(merge, MERGE_KEEP)
    since = ld(merge, MERGE_SINCE)
    i = ld(merge, MERGE_AT_OLDER)
    j = ld(merge, MERGE_AT_NEWER)
    a_rows = ld(merge, MERGE_END_OLDER)
    b_rows = ld(merge, MERGE_END_NEWER)
    cols = ld(a, BATCH_COLS)
    a_data = ld(a, BATCH_DATA)
    b_data = ld(b, BATCH_DATA)
    a_cap = ld(a, BATCH_CAP)
    b_cap = ld(b, BATCH_CAP)
    k = 0
    while k < n and i < a_rows and j < b_rows:
        x = 0
        y = 0
        c = 0
        while x == y and c < cols:
            x = ld(a_data, c * a_cap + i)
            y = ld(b_data, c * b_cap + j)
            c += 1
        older = x < y
        if x == y:
            older = _advanced(a, a_data, i, keep, since) <= _advanced(b, b_data, j, keep, since)
        st(order, k, i if older else ~j)
        i += older
        j += not older
        k += 1
    while k < n and i < a_rows:
        st(order, k, i)
        i += 1
        k += 1
    while k < n:
        st(order, k, ~j)
        j += 1
        k += 1
    st(merge, MERGE_AT_OLDER, i)
    st(merge, MERGE_AT_NEWER, j)


@inner
def _fetch(merge, order, n, out):
    """Write the n rows of `order` into the result from row `out` on, column by column."""
    a = ld(merge, MERGE_OLDER)
    b = ld(merge, MERGE_NEWER)
    result = ld(merge, MERGE_RESULT)
    a_data = ld(a, BATCH_DATA)
    b_data = ld(b, BATCH_DATA)
    data = ld(result, BATCH_DATA)
    cap = ld(result, BATCH_CAP)
    for c in range(ld(a, BATCH_COLS)):
        a_at = c * ld(a, BATCH_CAP)
        b_at = c * ld(b, BATCH_CAP)
        for k in range(n):
            row = ld(order, k)
            st(data, c * cap + out + k, ld(a_data if row >= 0 else b_data, a_at + row if row >= 0 else b_at + ~row))
    if ld(result, BATCH_TIME_MASK) != 0:
        for k in range(n):
            row = ld(order, k)
            time = time_at(a, a_data, row) if row >= 0 else time_at(b, b_data, ~row)
            st(data, ld(result, BATCH_TIME_AT) + out + k, max(time & ld(merge, MERGE_KEEP), ld(merge, MERGE_SINCE)))
    if ld(result, BATCH_DIFF_MASK) == 0:
        return
    for d in range(ld(a, BATCH_DIFFS)):
        for k in range(n):
            row = ld(order, k)
            diff = diff_at(a, a_data, row, d) if row >= 0 else diff_at(b, b_data, ~row, d)
            st(data, ld(result, BATCH_DIFF_AT) + d * cap + out + k, diff)


@inner
def _same_as_before(result, data, i):
    """Whether row i of the result is the same update as the row before. Rows differ most in their last columns."""
    cap = ld(result, BATCH_CAP)
    for back in range(ld(result, BATCH_COLS)):
        at = (ld(result, BATCH_COLS) - 1 - back) * cap + i
        if ld(data, at) != ld(data, at - 1):
            return False
    return time_at(result, data, i) == time_at(result, data, i - 1)


@inner
def _first_repeated(result, first, out, n):
    """The first of rows [out, out + n) of the result that is the same update as the row before, if that is not before
    row `first`; out + n if there is none.
    """
    data = ld(result, BATCH_DATA)
    i = max(out, first + 1)
    while i < out + n and not _same_as_before(result, data, i):
        i += 1
    return min(i, out + n)


@inner
def _widen(result, rows):
    """Give a result whose diffs are all ones, one word, a column of them; so far it has `rows` rows."""
    cap = ld(result, BATCH_CAP)
    at = ld(result, BATCH_DIFF_AT)
    data = grow(ld(result, BATCH_DATA), at + cap + 1, at + 1)
    st(result, BATCH_DATA, data)
    st(result, BATCH_DIFF_MASK, -1)
    for i in range(rows):
        st(data, at + i, 1)


@inner
def _move_up(result, start, at, more):
    """Move `more` rows of the result from row `at` to the earlier row `start`."""
    out = ld(result, BATCH_DATA)
    cap = ld(result, BATCH_CAP)
    for c in range(ld(result, BATCH_COLS)):
        copy_words(out, c * cap + start, out, c * cap + at, more)
    if ld(result, BATCH_TIME_MASK) != 0:
        copy_words(out, ld(result, BATCH_TIME_AT) + start, out, ld(result, BATCH_TIME_AT) + at, more)
    for d in range(ld(result, BATCH_DIFFS)):
        copy_words(
            out, ld(result, BATCH_DIFF_AT) + d * cap + start, out, ld(result, BATCH_DIFF_AT) + d * cap + at, more
        )


@inner
def _add_up(result, first, out, n):
    """Add up equal updates among rows [out, out + n) of the result and the row before; where the rows end then. Rows
    between two repeated ones are moved together.
    """
    data = ld(result, BATCH_DATA)
    i = _first_repeated(result, first, out, n)
    end = i
    while i < out + n:
        end = _move(result, data, first, end, i, time_at(result, data, i))
        i += 1
        start = i
        while i < out + n and not _same_as_before(result, data, i):
            i += 1
        if end < start and start < i:
            _move_up(result, end, start, i - start)
        end += i - start
    return end


@inner
def _merge_few(merge):
    """Do a merge that has not begun at once if it adds a few rows to many (see `few_rows`); whether it was done."""
    older = ld(merge, MERGE_OLDER)
    newer = ld(merge, MERGE_NEWER)
    result = ld(merge, MERGE_RESULT)
    if not are_few(older, newer, result, ld(merge, MERGE_KEEP)):
        return False
    if ld(merge, MERGE_AT_OLDER) + ld(merge, MERGE_AT_NEWER) > 0:
        return False
    if ld(merge, MERGE_END_OLDER) < ld(older, BATCH_ROWS) or ld(merge, MERGE_END_NEWER) < ld(newer, BATCH_ROWS):
        return False
    rows = merge_few(older, newer, result)
    if rows == NOT_SO:
        return False
    st(merge, MERGE_AT_OLDER, ld(older, BATCH_ROWS))
    st(merge, MERGE_AT_NEWER, ld(newer, BATCH_ROWS))
    st(merge, MERGE_DONE_ROWS, rows)
    return True


@shared
def work_merge(merge, fuel):
    """Merge up to `fuel` rows; True when the merge is complete."""
    left = (
        ld(merge, MERGE_END_OLDER) - ld(merge, MERGE_AT_OLDER) + ld(merge, MERGE_END_NEWER) - ld(merge, MERGE_AT_NEWER)
    )
    if left == 0 or (fuel >= left and _merge_few(merge)):
        return True
    order = alloc(min(left, DECIDE_ROWS))
    result = ld(merge, MERGE_RESULT)
    first = ld(merge, MERGE_FIRST_ROW)
    out = ld(merge, MERGE_DONE_ROWS)
    while fuel > 0 and left > 0:
        n = min(fuel, left, DECIDE_ROWS)
        i = ld(merge, MERGE_AT_OLDER)
        j = ld(merge, MERGE_AT_NEWER)
        _interleave(merge, order, n)
        _fetch(merge, order, n, out)
        if ld(result, BATCH_DIFF_MASK) == 0 and _first_repeated(result, first, out, n) < out + n:
            st(merge, MERGE_AT_OLDER, i)  # should there be no memory, this chunk is still to be merged
            st(merge, MERGE_AT_NEWER, j)
            free(order)
            _widen(result, out)
            order = alloc(min(left, DECIDE_ROWS))
            continue
        if ld(result, BATCH_DIFF_MASK) == 0:
            out += n
        else:
            out = _add_up(result, first, out, n)
        st(merge, MERGE_DONE_ROWS, out)
        fuel -= n
        left -= n
    free(order)
    return left == 0


@inner
def trim(batch, rows):
    """The batch cut to its first `rows` rows in memory that fits, constant columns stored once; frees the original. 0
    if empty.
    """
    if rows == 0:
        free_batch(batch)
        return 0
    data = ld(batch, BATCH_DATA)
    cap = ld(batch, BATCH_CAP)
    cols = ld(batch, BATCH_COLS)
    diffs = ld(batch, BATCH_DIFFS)
    one_time = True
    ones = diffs == 1
    if ld(batch, BATCH_TIME_MASK) != 0:
        at = ld(batch, BATCH_TIME_AT)
        t = ld(data, at)
        for i in range(rows):
            if ld(data, at + i) != t:
                one_time = False
                break
    if ones and ld(batch, BATCH_DIFF_MASK) != 0:
        at = ld(batch, BATCH_DIFF_AT)
        for i in range(rows):
            if ld(data, at + i) != 1:
                ones = False
                break
    shrinks = (
        (one_time and ld(batch, BATCH_TIME_MASK) != 0)
        or (ones and ld(batch, BATCH_DIFF_MASK) != 0)
        or rows < cap - (cap >> 3)
    )
    if not shrinks or cap < 64:
        st(batch, BATCH_ROWS, rows)
        build_index(batch, 0)
        return batch
    new = new_batch(rows, cols, diffs, one_time, ones)
    new_data = ld(new, BATCH_DATA)
    for c in range(cols):
        copy_words(new_data, c * rows, data, c * cap, rows)
    copy_words(new_data, ld(new, BATCH_TIME_AT), data, ld(batch, BATCH_TIME_AT), 1 if one_time else rows)
    if ones:
        st(new_data, ld(new, BATCH_DIFF_AT), 1)
    else:
        for d in range(diffs):
            copy_words(new_data, ld(new, BATCH_DIFF_AT) + d * rows, data, ld(batch, BATCH_DIFF_AT) + d * cap, rows)
    build_index(new, 0)
    free_batch(batch)
    return new


@inner
def finish_merge(merge):
    """Take a complete merge apart: frees its inputs, gives the result (0 if everything cancelled)."""
    result = trim(ld(merge, MERGE_RESULT), ld(merge, MERGE_DONE_ROWS))
    free_batch(ld(merge, MERGE_OLDER))
    free_batch(ld(merge, MERGE_NEWER))
    free(merge)
    return result


@inner
def drop_merge(merge):
    """Give up a merge under way; its inputs stay."""
    free_batch(ld(merge, MERGE_RESULT))
    free(merge)


@task
def _work(merge):
    return work_merge(merge, 2**62)


@inner
def _cut(merge, row):
    """Two rows, one of each batch, between which and those before it no update is the same: near `row` of the older."""
    older = ld(merge, MERGE_OLDER)
    newer = ld(merge, MERGE_NEWER)
    data = ld(older, BATCH_DATA)
    cap = ld(older, BATCH_CAP)
    cols = ld(older, BATCH_COLS)
    i = lower_bound(data, cap, 0, row, data, cap, row, 0, cols)  # its first time
    return i, lower_bound(ld(newer, BATCH_DATA), ld(newer, BATCH_CAP), 0, ld(newer, BATCH_ROWS), data, cap, i, 0, cols)


@inner
def _work_shared(merge, pool):
    """Merge a range of rows on every member, then close the gaps between them."""
    n = members(pool)
    shares = new_shares(pool)
    st(shares, 0, merge)
    for k in range(1, n):
        i, j = _cut(merge, ld(ld(merge, MERGE_OLDER), BATCH_ROWS) * k // n)
        rest = alloc_with(MERGE_WORDS, EVER)
        copy_words(rest, 0, merge, 0, MERGE_WORDS)
        st(rest, MERGE_END_OLDER, ld(ld(merge, MERGE_OLDER), BATCH_ROWS))
        st(rest, MERGE_END_NEWER, ld(ld(merge, MERGE_NEWER), BATCH_ROWS))
        st(rest, MERGE_AT_OLDER, i)
        st(rest, MERGE_AT_NEWER, j)
        st(rest, MERGE_FIRST_ROW, i + j)
        st(rest, MERGE_DONE_ROWS, i + j)
        st(ld(shares, k - 1), MERGE_END_OLDER, i)
        st(ld(shares, k - 1), MERGE_END_NEWER, j)
        st(shares, k, rest)
    together(pool, _work(), shares)
    for k in range(1, n):
        rest = ld(shares, k)
        start = ld(merge, MERGE_DONE_ROWS)
        more = ld(rest, MERGE_DONE_ROWS) - ld(rest, MERGE_FIRST_ROW)
        if start < ld(rest, MERGE_FIRST_ROW):
            _move_up(ld(merge, MERGE_RESULT), start, ld(rest, MERGE_FIRST_ROW), more)
        st(merge, MERGE_DONE_ROWS, start + more)
        free(rest)
    free(shares)


@shared
def merge_now(older, newer, keep, since, pool):
    """Merge two batches at once, with a pool if there is one, freeing them; 0 if everything cancelled."""
    merge = start_merge(older, newer, keep, since, pool == 0)
    if pool != 0:
        _work_shared(merge, pool)
    else:
        work_merge(merge, 2**62)
    return finish_merge(merge)


@inner
def advance(batch, keep, since):
    """Advance the times of one batch in place, adding up what becomes equal; returns it (or a smaller one, or 0)."""
    data = ld(batch, BATCH_DATA)
    at = ld(batch, BATCH_TIME_AT)
    rows = ld(batch, BATCH_ROWS)
    if ld(batch, BATCH_TIME_MASK) == 0:
        st(data, at, max(ld(data, at) & keep, since))
        return batch
    cap = ld(batch, BATCH_CAP)
    cols = ld(batch, BATCH_COLS)
    if (
        ld(batch, BATCH_DIFF_MASK) == 0
    ):  # diffs of one cannot cancel, but they may add up: rewrite as a merge with nothing
        clash = False
        for i in range(rows):
            t = max(ld(data, at + i) & keep, since)
            st(data, at + i, t)
            if i > 0 and ld(data, at + i - 1) == t:
                if compare_rows(data, cap, i - 1, data, cap, i, cols) == 0:
                    clash = True
        if not clash:
            return batch
        full = new_batch(rows, cols, 1, False, False)
        full_data = ld(full, BATCH_DATA)
        for c in range(cols):
            copy_words(full_data, c * rows, data, c * cap, rows)
        copy_words(full_data, ld(full, BATCH_TIME_AT), data, at, rows)
        for i in range(rows):
            st(full_data, ld(full, BATCH_DIFF_AT) + i, 1)
        new = advance_rows(full, keep, since)
        free_batch(batch)
        return new
    return advance_rows(batch, keep, since)


@inner
def advance_rows(batch, keep, since):
    """The general case of `advance`: per-row times and diffs, compacted in place."""
    data = ld(batch, BATCH_DATA)
    out = 0
    rows = ld(batch, BATCH_ROWS)
    at = ld(batch, BATCH_TIME_AT)
    for i in range(rows):
        out = _move(batch, data, 0, out, i, max(ld(data, at + i) & keep, since))
    if out == rows:
        return batch
    free(ld(batch, BATCH_INDEX))  # the bucket index no longer fits
    st(batch, BATCH_INDEX, 0)
    st(batch, BATCH_ROWS, out)  # should there be no memory to trim it
    return trim(batch, out)
