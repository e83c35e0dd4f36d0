"""Merging two batches into one, a bounded piece at a time.

A merge is a block of its own with two cursors and a growing result, so that it can stop after any number of rows and
go on later: inserting into a trace then never stalls for a large merge (mcsherry-2020 section 4.2). While it merges
it *advances* times: `max(t & keep, since)` replaces every time that no reader can tell apart from another by one
representative, and updates that agree on row and representative are added up. Both steps keep the order of times, so
the result is sorted.
"""

from __future__ import annotations

from everview.kernels.batch import (
    CAP,
    COLS,
    D_AT,
    D_MASK,
    DATA,
    DIFFS,
    INDEX,
    ROWS,
    T_AT,
    T_MASK,
    build_index,
    compare_rows,
    diff_at,
    free_batch,
    lower_bound,
    new_batch,
    time_at,
)
from everview.kernels.memory import alloc, copy_words, free, ld, st
from everview.kernels.native import inner, shared, task
from everview.kernels.team import both

OLDER, NEWER, AT_OLDER, AT_NEWER, END_OLDER, END_NEWER, RESULT, FIRST_ROW, DONE_ROWS, KEEP, SINCE, M_WORDS = range(12)
"""Rows from AT to END are still to be merged; the result has those from FIRST_ROW to DONE_ROWS."""


@inner
def start_merge(older, newer, keep, since):
    """Begin merging two batches of one trace; 0 if there is no memory."""
    merge = alloc(M_WORDS)
    rows = ld(older, ROWS) + ld(newer, ROWS)
    one_time = False
    if ld(older, T_MASK) == 0 and ld(newer, T_MASK) == 0:
        t = max(time_at(older, ld(older, DATA), 0) & keep, since)
        one_time = t == max(time_at(newer, ld(newer, DATA), 0) & keep, since)
    result = new_batch(rows, ld(older, COLS), ld(older, DIFFS), one_time, False)
    if result == 0 or merge == 0:
        free_batch(result)
        free(merge)
        return 0
    if one_time:
        st(ld(result, DATA), ld(result, T_AT), max(time_at(older, ld(older, DATA), 0) & keep, since))
    st(merge, OLDER, older)
    st(merge, NEWER, newer)
    st(merge, AT_OLDER, 0)
    st(merge, AT_NEWER, 0)
    st(merge, END_OLDER, ld(older, ROWS))
    st(merge, END_NEWER, ld(newer, ROWS))
    st(merge, RESULT, result)
    st(merge, FIRST_ROW, 0)
    st(merge, DONE_ROWS, 0)
    st(merge, KEEP, keep)
    st(merge, SINCE, since)
    return merge


@inner
def _put(result, data, first, out, src, src_data, i, time, cols, diffs):
    """Write row i of a source at row `out` of the result, or add it to row out - 1 if that is the same update (and not
    before row `first`); the new row count.
    """
    cap = ld(result, CAP)
    src_cap = ld(src, CAP)
    if out > first and time_at(result, data, out - 1) == time:
        if compare_rows(data, cap, out - 1, src_data, src_cap, i, cols) == 0:
            at = ld(result, D_AT) + out - 1
            alive = False
            for d in range(diffs):
                total = ld(data, at + d * cap) + diff_at(src, src_data, i, d)
                st(data, at + d * cap, total)
                if total != 0:
                    alive = True
            return out if alive else out - 1
    for c in range(cols):
        st(data, c * cap + out, ld(src_data, c * src_cap + i))
    if ld(result, T_MASK) != 0:
        st(data, ld(result, T_AT) + out, time)
    at = ld(result, D_AT) + out
    for d in range(diffs):
        st(data, at + d * cap, diff_at(src, src_data, i, d))
    return out + 1


@shared
def work_merge(merge, fuel):
    """Merge up to `fuel` rows; True when the merge is complete."""
    a = ld(merge, OLDER)
    b = ld(merge, NEWER)
    result = ld(merge, RESULT)
    i = ld(merge, AT_OLDER)
    j = ld(merge, AT_NEWER)
    out = ld(merge, DONE_ROWS)
    keep = ld(merge, KEEP)
    since = ld(merge, SINCE)
    na = ld(merge, END_OLDER)
    nb = ld(merge, END_NEWER)
    first = ld(merge, FIRST_ROW)
    cols = ld(a, COLS)
    diffs = ld(a, DIFFS)
    a_data = ld(a, DATA)
    b_data = ld(b, DATA)
    a_cap = ld(a, CAP)
    b_cap = ld(b, CAP)
    data = ld(result, DATA)
    while fuel > 0 and (i < na or j < nb):
        fuel -= 1
        take_a = j >= nb
        if not take_a and i < na:
            order = compare_rows(a_data, a_cap, i, b_data, b_cap, j, cols)
            if order == 0:
                ta = max(time_at(a, a_data, i) & keep, since)
                tb = max(time_at(b, b_data, j) & keep, since)
                order = -1 if ta <= tb else 1
            take_a = order < 0
        if take_a:
            out = _put(result, data, first, out, a, a_data, i, max(time_at(a, a_data, i) & keep, since), cols, diffs)
            i += 1
        else:
            out = _put(result, data, first, out, b, b_data, j, max(time_at(b, b_data, j) & keep, since), cols, diffs)
            j += 1
    st(merge, AT_OLDER, i)
    st(merge, AT_NEWER, j)
    st(merge, DONE_ROWS, out)
    return i >= na and j >= nb


@inner
def trim(batch, rows):
    """The batch cut to its first `rows` rows in memory that fits, constant columns stored once; frees the original. 0
    if empty.
    """
    if rows == 0:
        free_batch(batch)
        return 0
    data = ld(batch, DATA)
    cap = ld(batch, CAP)
    cols = ld(batch, COLS)
    diffs = ld(batch, DIFFS)
    one_time = True
    ones = diffs == 1
    if ld(batch, T_MASK) != 0:
        at = ld(batch, T_AT)
        t = ld(data, at)
        for i in range(rows):
            if ld(data, at + i) != t:
                one_time = False
                break
    if ones and ld(batch, D_MASK) != 0:
        at = ld(batch, D_AT)
        for i in range(rows):
            if ld(data, at + i) != 1:
                ones = False
                break
    shrinks = (one_time and ld(batch, T_MASK) != 0) or (ones and ld(batch, D_MASK) != 0) or rows < cap - (cap >> 3)
    if not shrinks or cap < 64:
        st(batch, ROWS, rows)
        build_index(batch, 0)
        return batch
    new = new_batch(rows, cols, diffs, one_time, ones)
    new_data = ld(new, DATA)
    for c in range(cols):
        copy_words(new_data, c * rows, data, c * cap, rows)
    copy_words(new_data, ld(new, T_AT), data, ld(batch, T_AT), 1 if one_time else rows)
    if ones:
        st(new_data, ld(new, D_AT), 1)
    else:
        for d in range(diffs):
            copy_words(new_data, ld(new, D_AT) + d * rows, data, ld(batch, D_AT) + d * cap, rows)
    free_batch(batch)
    build_index(new, 0)
    return new


@inner
def finish_merge(merge):
    """Take a complete merge apart: frees its inputs, gives the result (0 if everything cancelled)."""
    result = trim(ld(merge, RESULT), ld(merge, DONE_ROWS))
    free_batch(ld(merge, OLDER))
    free_batch(ld(merge, NEWER))
    free(merge)
    return result


@inner
def drop_merge(merge):
    """Give up a merge under way; its inputs stay."""
    free_batch(ld(merge, RESULT))
    free(merge)


@task
def _work(merge):
    return work_merge(merge, 2**62)


@inner
def _work_shared(merge, team):
    """Merge the smaller rows here and the larger ones on the helper, then close the gap between them."""
    older = ld(merge, OLDER)
    newer = ld(merge, NEWER)
    data = ld(older, DATA)
    cols = ld(older, COLS)
    i = ld(older, ROWS) // 2
    i = lower_bound(data, ld(older, CAP), 0, i, data, ld(older, CAP), i, cols)  # its first time
    j = lower_bound(ld(newer, DATA), ld(newer, CAP), 0, ld(newer, ROWS), data, ld(older, CAP), i, cols)
    rest = alloc(M_WORDS)
    copy_words(rest, 0, merge, 0, M_WORDS)
    st(merge, END_OLDER, i)
    st(merge, END_NEWER, j)
    st(rest, AT_OLDER, i)
    st(rest, AT_NEWER, j)
    st(rest, FIRST_ROW, i + j)
    st(rest, DONE_ROWS, i + j)
    both(team, _work(), merge, rest)
    start = ld(merge, DONE_ROWS)
    more = ld(rest, DONE_ROWS) - (i + j)
    if start < i + j:
        result = ld(merge, RESULT)
        out = ld(result, DATA)
        cap = ld(result, CAP)
        for c in range(cols):
            copy_words(out, c * cap + start, out, c * cap + i + j, more)
        if ld(result, T_MASK) != 0:
            copy_words(out, ld(result, T_AT) + start, out, ld(result, T_AT) + i + j, more)
        for d in range(ld(result, DIFFS)):
            copy_words(out, ld(result, D_AT) + d * cap + start, out, ld(result, D_AT) + d * cap + i + j, more)
    st(merge, DONE_ROWS, start + more)
    free(rest)


@shared
def merge_now(older, newer, keep, since, team):
    """Merge two batches at once, with a team if there is one, freeing them; 0 if everything cancelled."""
    merge = start_merge(older, newer, keep, since)
    if team != 0:
        _work_shared(merge, team)
    else:
        work_merge(merge, 2**62)
    return finish_merge(merge)


@inner
def advance(batch, keep, since):
    """Advance the times of one batch in place, adding up what becomes equal; gives the batch (or a smaller one, or 0).
    """
    data = ld(batch, DATA)
    at = ld(batch, T_AT)
    rows = ld(batch, ROWS)
    if ld(batch, T_MASK) == 0:
        st(data, at, max(ld(data, at) & keep, since))
        return batch
    cap = ld(batch, CAP)
    cols = ld(batch, COLS)
    if ld(batch, D_MASK) == 0:  # diffs of one cannot cancel, but they may add up: rewrite as a merge with nothing
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
        full_data = ld(full, DATA)
        for c in range(cols):
            copy_words(full_data, c * rows, data, c * cap, rows)
        copy_words(full_data, ld(full, T_AT), data, at, rows)
        for i in range(rows):
            st(full_data, ld(full, D_AT) + i, 1)
        free_batch(batch)
        return advance_rows(full, keep, since)
    return advance_rows(batch, keep, since)


@inner
def advance_rows(batch, keep, since):
    """The general case of `advance`: per-row times and diffs, compacted in place."""
    data = ld(batch, DATA)
    out = 0
    rows = ld(batch, ROWS)
    at = ld(batch, T_AT)
    cols = ld(batch, COLS)
    diffs = ld(batch, DIFFS)
    for i in range(rows):
        out = _put(batch, data, 0, out, batch, data, i, max(ld(data, at + i) & keep, since), cols, diffs)
    if out == rows:
        return batch
    free(ld(batch, INDEX))  # the bucket index no longer fits
    st(batch, INDEX, 0)
    return trim(batch, out)
