"""Traces: the history of a collection as a short list of sorted batches.

A trace's table lists its committed batches, oldest and largest first, then the batches of the current step. A step only
*appends*, so undoing it is truncation (`roll_back`). A step is committed in three parts, each for all traces before the
next:

    fold           its batches become one, with advanced times; may find no memory, and can still be undone
    publish        that batch is committed; cannot fail
    settle_folded  the geometric sizes of the list are restored by merging; if there is no memory for that, it waits

Large merges are done in pieces, a bounded amount per commit ("effort" ranges from lazy to eager), during which both
inputs stay readable. The number of batches is logarithmic in the number of rows, as long as there is memory: if the
list gets too long, merges are finished at once.

TRACE_HISTORY says for how many epochs times stay distinguishable outside loops (0: only the present matters to its
readers), TRACE_HOLD is the oldest time that some reader asked to keep. TRACE_CAPTURE, if not 0, is a block whose word 0
receives a copy of each step's change, for subscribers. Between folding and publishing, TRACE_NEXT_SINCE and TRACE_COPY
are what TRACE_SINCE and that word will be; then TRACE_ADDED is the size of the batch.

TRACE_DELTA is the batch that the last pass added, TRACE_STAMP the loop time of that pass: readers at the same loop time
find the change there and the previous state in the rest of the list.

TRACE_PLACE is the trace's place in the executor's list, TRACE_TOUCHED whether the step under way has added to it, and
TRACE_WAKES where the list of its readers begins (see `everview.kernels.run.ready`).
"""

from __future__ import annotations

from everview.kernels.build.native import inner, shared
from everview.kernels.memory import alloc, copy_words, free, grow, keep, ld, st
from everview.kernels.run.ready import NO_PLACE, list_touched, wake
from everview.kernels.run.step import STEP_SPLIT, STEP_TEAM
from everview.kernels.trace.batch import (
    BATCH_CAP,
    BATCH_COLS,
    BATCH_DATA,
    BATCH_DIFF_AT,
    BATCH_DIFF_MASK,
    BATCH_DIFFS,
    BATCH_INDEX,
    BATCH_MAPPED,
    BATCH_ROWS,
    BATCH_TIME_AT,
    BATCH_TIME_MASK,
    batch_words,
    free_batch,
    new_batch,
)
from everview.kernels.trace.merge import (
    MERGE_RESULT,
    advance,
    drop_merge,
    finish_merge,
    merge_now,
    start_merge,
    work_merge,
)

(
    TRACE_COLS,
    TRACE_DIFFS,
    TRACE_COUNT,
    TRACE_TABLE,
    TRACE_MERGES,
    TRACE_ROOM,
    TRACE_OLD,
    TRACE_DELTA,
    TRACE_STAMP,
    TRACE_KEEP,
    TRACE_SINCE,
    TRACE_EFFORT,
    TRACE_STATELESS,
    TRACE_HISTORY,
    TRACE_HOLD,
    TRACE_CAPTURE,
    TRACE_NEXT_SINCE,
    TRACE_COPY,
    TRACE_ADDED,
    TRACE_PLACE,
    TRACE_TOUCHED,
    TRACE_WAKES,
    TRACE_WORDS,
) = range(23)

REWRITE_ROWS = 128  # rows up to which the last batch is simply rewritten
MERGE_NOW_ROWS = 4096  # rows up to which a merge is done in one go
NO_SINCE = -(2**63)


@inner
def new_trace(cols, diffs, keep, since, effort, stateless):
    """An empty trace. `keep`, `since`: how times advance when a step commits; `stateless`: only the delta is of
    interest.
    """
    trace = alloc(TRACE_WORDS)
    room = 16
    st(trace, TRACE_COLS, cols)
    st(trace, TRACE_DIFFS, diffs)
    st(trace, TRACE_COUNT, 0)
    st(trace, TRACE_TABLE, alloc(room))
    st(trace, TRACE_MERGES, alloc(room))
    st(trace, TRACE_ROOM, room)
    st(trace, TRACE_OLD, 0)
    st(trace, TRACE_DELTA, 0)
    st(trace, TRACE_STAMP, -1)
    st(trace, TRACE_KEEP, keep)
    st(trace, TRACE_SINCE, since)
    st(trace, TRACE_EFFORT, effort)
    st(trace, TRACE_STATELESS, stateless)
    st(trace, TRACE_HISTORY, 0)
    st(trace, TRACE_HOLD, 2**62)
    st(trace, TRACE_CAPTURE, 0)
    st(trace, TRACE_NEXT_SINCE, since)
    st(trace, TRACE_COPY, 0)
    st(trace, TRACE_ADDED, 0)
    st(trace, TRACE_PLACE, NO_PLACE)
    st(trace, TRACE_TOUCHED, 0)
    st(trace, TRACE_WAKES, 0)
    return trace


@inner
def free_trace(trace):
    """Give a trace and all its batches back."""
    clear_trace(trace)
    free_batch(ld(trace, TRACE_COPY))
    free(ld(trace, TRACE_TABLE))
    free(ld(trace, TRACE_MERGES))
    free(trace)


@inner
def trace_rows(trace):
    """Updates held (not the number of distinct rows)."""
    table = ld(trace, TRACE_TABLE)
    rows = 0
    for i in range(ld(trace, TRACE_COUNT)):
        rows += ld(ld(table, i), BATCH_ROWS)
    return rows


@inner
def uncommitted(trace):
    """Updates that came in the step under way."""
    table = ld(trace, TRACE_TABLE)
    rows = 0
    for i in range(ld(trace, TRACE_OLD), ld(trace, TRACE_COUNT)):
        rows += ld(ld(table, i), BATCH_ROWS)
    return rows


@inner
def trace_words(trace):
    """Words of memory held, merges under way included."""
    table = ld(trace, TRACE_TABLE)
    merges = ld(trace, TRACE_MERGES)
    words = TRACE_WORDS + 2 * ld(trace, TRACE_ROOM)
    for i in range(ld(trace, TRACE_COUNT)):
        words += batch_words(ld(table, i))
        if ld(merges, i) != 0:
            words += batch_words(ld(ld(merges, i), MERGE_RESULT))
    return words


@inner
def _append(trace, batch):
    n = ld(trace, TRACE_COUNT)
    room = ld(trace, TRACE_ROOM)
    if n == room:
        st(trace, TRACE_TABLE, grow(ld(trace, TRACE_TABLE), 2 * room, n))
        st(trace, TRACE_MERGES, grow(ld(trace, TRACE_MERGES), 2 * room, n))
        st(trace, TRACE_ROOM, 2 * room)
    st(ld(trace, TRACE_TABLE), n, batch)
    st(ld(trace, TRACE_MERGES), n, 0)
    st(trace, TRACE_COUNT, n + 1)


@inner
def _remove(trace, i):
    table = ld(trace, TRACE_TABLE)
    merges = ld(trace, TRACE_MERGES)
    n = ld(trace, TRACE_COUNT) - 1
    for k in range(i, n):
        st(table, k, ld(table, k + 1))
        st(merges, k, ld(merges, k + 1))
    st(trace, TRACE_COUNT, n)


@inner
def _merge_last_two(trace, keep, since, thread):
    """Replace the last two batches by their merge; False if nothing was left of them."""
    table = ld(trace, TRACE_TABLE)
    n = ld(trace, TRACE_COUNT)
    batch = merge_now(ld(table, n - 2), ld(table, n - 1), keep, since, thread)
    st(trace, TRACE_COUNT, n - 2)
    if batch == 0:
        return False
    _append(trace, batch)
    return True


@inner
def clear_delta(trace):
    """There is no change at this pass; a stateless trace forgets the last one."""
    if ld(trace, TRACE_STATELESS) != 0:
        free_batch(ld(trace, TRACE_DELTA))
    st(trace, TRACE_DELTA, 0)


@inner
def touch(trace, step):
    """List the trace as one that the step adds to."""
    if ld(trace, TRACE_TOUCHED) == 0 and ld(trace, TRACE_PLACE) != NO_PLACE:
        st(trace, TRACE_TOUCHED, 1)
        list_touched(step, ld(trace, TRACE_PLACE))


@shared
def add_delta(trace, batch, stamp, step):
    """Append the change of this pass, first folding earlier batches of the same step to keep them few, and let the step
    visit its readers.
    """
    touch(trace, step)
    if ld(trace, TRACE_WAKES) != 0:
        wake(step, ld(trace, TRACE_WAKES))
    clear_delta(trace)
    st(trace, TRACE_DELTA, batch)
    st(trace, TRACE_STAMP, stamp)
    if ld(trace, TRACE_STATELESS) != 0:
        return 0
    old = ld(trace, TRACE_OLD)
    table = ld(trace, TRACE_TABLE)
    while ld(trace, TRACE_COUNT) - old >= 2:
        n = ld(trace, TRACE_COUNT)
        older = ld(ld(table, n - 2), BATCH_ROWS)
        newer = ld(ld(table, n - 1), BATCH_ROWS)
        if older > 2 * newer:
            break
        _merge_last_two(trace, -1, NO_SINCE, ld(step, STEP_TEAM) if older + newer >= ld(step, STEP_SPLIT) else 0)
    _append(trace, batch)
    return 0


@inner
def roll_back(trace):
    """Undo the step under way."""
    clear_delta(trace)
    st(trace, TRACE_STAMP, -1)
    table = ld(trace, TRACE_TABLE)
    old = ld(trace, TRACE_OLD)
    for i in range(old, ld(trace, TRACE_COUNT)):
        free_batch(ld(table, i))
    st(trace, TRACE_COUNT, old)
    free_batch(ld(trace, TRACE_COPY))
    st(trace, TRACE_COPY, 0)


@inner
def _finish(trace, i):
    """Batches i and i + 1, which are committed, have been merged: put the result in their place."""
    merges = ld(trace, TRACE_MERGES)
    batch = finish_merge(ld(merges, i))
    st(merges, i, 0)
    _remove(trace, i + 1)
    if batch == 0:
        _remove(trace, i)
    else:
        st(ld(trace, TRACE_TABLE), i, batch)
    st(trace, TRACE_OLD, ld(trace, TRACE_COUNT))


@inner
def _limit(rows):
    n = 6
    while rows > 0:
        n += 1
        rows >>= 1
    return n


@shared
def settle(trace, fuel, at_once):
    """Work on the merges under way and start those that the geometric sizes ask for. Batches in files are left alone:
    whoever keeps the files merges them there, and a merge here would copy them into memory.
    """
    table = ld(trace, TRACE_TABLE)
    merges = ld(trace, TRACE_MERGES)
    keep = ld(trace, TRACE_KEEP)
    since = ld(trace, TRACE_SINCE)
    i = 0
    while i < ld(trace, TRACE_COUNT):
        if ld(merges, i) != 0 and work_merge(ld(merges, i), fuel):
            _finish(trace, i)
        else:
            i += 1
    i = ld(trace, TRACE_COUNT) - 2
    while i >= 0:
        free_pair = ld(merges, i) == 0 and ld(merges, i + 1) == 0 and (i == 0 or ld(merges, i - 1) == 0)
        if free_pair:
            older = ld(ld(table, i), BATCH_ROWS)
            newer = ld(ld(table, i + 1), BATCH_ROWS)
            in_files = ld(ld(table, i), BATCH_MAPPED) + ld(ld(table, i + 1), BATCH_MAPPED)
            if in_files == 0 and older <= max(2 * newer, REWRITE_ROWS):
                merge = start_merge(ld(table, i), ld(table, i + 1), keep, since, True)
                st(merges, i, merge)
                if work_merge(merge, max(fuel, at_once)):
                    _finish(trace, i)
                    i = min(i + 1, ld(trace, TRACE_COUNT) - 1)
        i -= 1
    return 0


@inner
def copy_batch(batch):
    """A copy of a batch, without index."""
    cap = ld(batch, BATCH_CAP)
    cols = ld(batch, BATCH_COLS)
    one_time = ld(batch, BATCH_TIME_MASK) == 0
    ones = ld(batch, BATCH_DIFF_MASK) == 0
    new = new_batch(cap, cols, ld(batch, BATCH_DIFFS), one_time, ones)
    data = ld(new, BATCH_DATA)
    old = ld(batch, BATCH_DATA)
    st(new, BATCH_ROWS, ld(batch, BATCH_ROWS))
    copy_words(data, 0, old, 0, cols * cap)
    copy_words(data, ld(new, BATCH_TIME_AT), old, ld(batch, BATCH_TIME_AT), 1 if one_time else cap)
    copy_words(data, ld(new, BATCH_DIFF_AT), old, ld(batch, BATCH_DIFF_AT), 1 if ones else cap * ld(batch, BATCH_DIFFS))
    return new


@inner
def _since_at(trace, time):
    """The time before which epochs need not be told apart once `time` is the last."""
    if ld(trace, TRACE_KEEP) != -1:
        return ld(trace, TRACE_SINCE)
    return max(ld(trace, TRACE_SINCE), min(time - ld(trace, TRACE_HISTORY), ld(trace, TRACE_HOLD)))


@shared
def fold(trace, time):
    """The step is complete, `time` the last epoch: make its batches one, with advanced times."""
    if ld(trace, TRACE_CAPTURE) != 0 and ld(trace, TRACE_DELTA) != 0:
        st(trace, TRACE_COPY, copy_batch(ld(trace, TRACE_DELTA)))
    clear_delta(trace)
    since = _since_at(trace, time)
    st(trace, TRACE_NEXT_SINCE, since)
    st(trace, TRACE_STAMP, -1)
    old = ld(trace, TRACE_OLD)
    if ld(trace, TRACE_COUNT) == old:
        return 0
    keep = ld(trace, TRACE_KEEP)
    while ld(trace, TRACE_COUNT) - old >= 2:
        _merge_last_two(trace, keep, since, 0)
    if ld(trace, TRACE_COUNT) == old:
        return 0
    table = ld(trace, TRACE_TABLE)
    if keep != -1:
        batch = advance(ld(table, old), keep, since)
        if batch == 0:
            st(trace, TRACE_COUNT, old)
            return 0
        st(table, old, batch)
    return 0


@inner
def publish(trace):
    """Make a folded step part of the trace; needs no memory."""
    st(trace, TRACE_SINCE, ld(trace, TRACE_NEXT_SINCE))
    if ld(trace, TRACE_COPY) != 0:
        capture = ld(trace, TRACE_CAPTURE)
        free_batch(ld(capture, 0))
        st(capture, 0, ld(trace, TRACE_COPY))
        st(trace, TRACE_COPY, 0)
    old = ld(trace, TRACE_OLD)
    if ld(trace, TRACE_COUNT) > old:
        st(trace, TRACE_ADDED, ld(ld(ld(trace, TRACE_TABLE), old), BATCH_ROWS))
        st(trace, TRACE_OLD, ld(trace, TRACE_COUNT))


@shared
def settle_folded(trace):
    """Keep the list of batches short after a step was added."""
    added = ld(trace, TRACE_ADDED)
    if added == 0:
        return 0
    st(trace, TRACE_ADDED, 0)
    settle(trace, ld(trace, TRACE_EFFORT) * max(added, 64), MERGE_NOW_ROWS)
    if ld(trace, TRACE_COUNT) > _limit(trace_rows(trace)):
        settle(trace, 2**62, MERGE_NOW_ROWS)
    return added


@shared
def append_committed(trace, batch, time):
    """Append a batch that a step elsewhere has added to its copy of this trace."""
    capture = ld(trace, TRACE_CAPTURE)
    if capture != 0:
        copy = copy_batch(batch)
        before = ld(capture, 0)
        st(capture, 0, merge_now(before, copy, -1, NO_SINCE, 0) if before != 0 else copy)
    _append(trace, batch)
    st(trace, TRACE_NEXT_SINCE, _since_at(trace, time))
    publish(trace)
    return settle_folded(trace)


@shared
def clear_trace(trace):
    """Forget all batches: they come again from elsewhere."""
    table = ld(trace, TRACE_TABLE)
    merges = ld(trace, TRACE_MERGES)
    for i in range(ld(trace, TRACE_COUNT)):
        free_batch(ld(table, i))
        if ld(merges, i) != 0:
            drop_merge(ld(merges, i))
    st(trace, TRACE_COUNT, 0)
    st(trace, TRACE_OLD, 0)
    return 0


@inner
def fill_trace(trace, batch):
    """Put a batch (0: none) into an empty trace, as if it had always been there."""
    if batch != 0:
        _append(trace, batch)
        st(trace, TRACE_OLD, ld(trace, TRACE_COUNT))


@shared
def compact(trace):
    """Merge everything into at most one batch, with all times advanced."""
    settle(trace, 2**62, 2**62)
    while ld(trace, TRACE_COUNT) >= 2:
        _merge_last_two(trace, ld(trace, TRACE_KEEP), ld(trace, TRACE_SINCE), 0)
        st(trace, TRACE_OLD, ld(trace, TRACE_COUNT))
    if ld(trace, TRACE_COUNT) == 1:
        table = ld(trace, TRACE_TABLE)
        batch = advance(ld(table, 0), ld(trace, TRACE_KEEP), ld(trace, TRACE_SINCE))
        st(table, 0, batch)
        if batch == 0:
            st(trace, TRACE_COUNT, 0)
    st(trace, TRACE_OLD, ld(trace, TRACE_COUNT))
    return 0


@inner
def keep_batch(batch):
    """A batch is in use after a call has failed; see `memory.keep`."""
    if batch != 0:
        keep(batch)
        keep(ld(batch, BATCH_INDEX))
        if ld(batch, BATCH_MAPPED) == 0:
            keep(ld(batch, BATCH_DATA))


@inner
def keep_trace(trace):
    """The same for all batches of a trace."""
    table = ld(trace, TRACE_TABLE)
    merges = ld(trace, TRACE_MERGES)
    keep(table)
    keep(merges)
    if ld(trace, TRACE_CAPTURE) != 0:
        keep_batch(ld(ld(trace, TRACE_CAPTURE), 0))
    for i in range(ld(trace, TRACE_COUNT)):
        keep_batch(ld(table, i))
        if ld(merges, i) != 0:
            keep(ld(merges, i))
            keep_batch(ld(ld(merges, i), MERGE_RESULT))
