"""Traces: the history of a collection as a short list of sorted batches.

A trace's table lists its committed batches, oldest and largest first, then the batches made in the step under way. A
step only *appends*, so undoing it is truncation (`roll_back`). A step is committed in three parts, each for all traces
before the next:

    fold           its batches become one, with advanced times; may find no memory, and can still be undone
    publish        that batch is committed; cannot fail
    settle_folded  the geometric sizes of the list are restored by merging; if there is no memory for that, it waits

Large merges are done in pieces, a bounded amount per commit ("effort" is the knob from lazy to eager), during which
both inputs stay readable. The number of batches is logarithmic in the number of rows, as long as there is memory: if
the list gets too long, merges are finished at once.

HISTORY says for how many epochs times stay distinguishable outside loops (0: only the present matters to its
readers), HOLD is the oldest time that some reader asked to keep. CAPTURE, if not 0, is a block whose word 0 receives
a copy of each step's change, for subscribers. Between folding and publishing, NEXT_SINCE and COPY are what T_SINCE and
that word will be; then ADDED is the size of the batch.

DELTA is the batch that the last pass added, STAMP the loop time of that pass: readers that run at the same loop time
find the change there and the state before it in the rest of the list.
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
    MAPPED,
    ROWS,
    T_AT,
    T_MASK,
    batch_words,
    free_batch,
    new_batch,
)
from everview.kernels.memory import alloc, copy_words, free, grow, keep, ld, st
from everview.kernels.merge import (
    RESULT,
    advance,
    drop_merge,
    finish_merge,
    merge_now,
    start_merge,
    work_merge,
)
from everview.kernels.native import inner, shared
from everview.kernels.step import STEP_SPLIT, STEP_TEAM

(
    T_COLS,
    T_DIFFS,
    COUNT,
    TABLE,
    MERGES,
    ROOM,
    OLD,
    DELTA,
    STAMP,
    T_KEEP,
    T_SINCE,
    EFFORT,
    STATELESS,
    HISTORY,
    HOLD,
    CAPTURE,
    NEXT_SINCE,
    COPY,
    ADDED,
    T_WORDS,
) = range(20)

ALWAYS = 128  # rows up to which the last batch is simply rewritten
AT_ONCE = 4096  # rows up to which a merge is done in one go
NO_SINCE = -(2**63)


@inner
def new_trace(cols, diffs, keep, since, effort, stateless):
    """An empty trace. `keep`, `since`: how times advance when a step commits; `stateless`: only the delta is of
    interest.
    """
    trace = alloc(T_WORDS)
    room = 16
    st(trace, T_COLS, cols)
    st(trace, T_DIFFS, diffs)
    st(trace, COUNT, 0)
    st(trace, TABLE, alloc(room))
    st(trace, MERGES, alloc(room))
    st(trace, ROOM, room)
    st(trace, OLD, 0)
    st(trace, DELTA, 0)
    st(trace, STAMP, -1)
    st(trace, T_KEEP, keep)
    st(trace, T_SINCE, since)
    st(trace, EFFORT, effort)
    st(trace, STATELESS, stateless)
    st(trace, HISTORY, 0)
    st(trace, HOLD, 2**62)
    st(trace, CAPTURE, 0)
    st(trace, NEXT_SINCE, since)
    st(trace, COPY, 0)
    st(trace, ADDED, 0)
    return trace


@inner
def free_trace(trace):
    """Give a trace and all its batches back."""
    clear_trace(trace)
    free_batch(ld(trace, COPY))
    free(ld(trace, TABLE))
    free(ld(trace, MERGES))
    free(trace)


@inner
def trace_rows(trace):
    """Updates held (not the number of distinct rows)."""
    table = ld(trace, TABLE)
    rows = 0
    for i in range(ld(trace, COUNT)):
        rows += ld(ld(table, i), ROWS)
    return rows


@inner
def uncommitted(trace):
    """Updates that came in the step under way."""
    table = ld(trace, TABLE)
    rows = 0
    for i in range(ld(trace, OLD), ld(trace, COUNT)):
        rows += ld(ld(table, i), ROWS)
    return rows


@inner
def trace_words(trace):
    """Words of memory held, merges under way included."""
    table = ld(trace, TABLE)
    merges = ld(trace, MERGES)
    words = T_WORDS + 2 * ld(trace, ROOM)
    for i in range(ld(trace, COUNT)):
        words += batch_words(ld(table, i))
        if ld(merges, i) != 0:
            words += batch_words(ld(ld(merges, i), RESULT))
    return words


@inner
def _append(trace, batch):
    n = ld(trace, COUNT)
    room = ld(trace, ROOM)
    if n == room:
        st(trace, TABLE, grow(ld(trace, TABLE), 2 * room, n))
        st(trace, MERGES, grow(ld(trace, MERGES), 2 * room, n))
        st(trace, ROOM, 2 * room)
    st(ld(trace, TABLE), n, batch)
    st(ld(trace, MERGES), n, 0)
    st(trace, COUNT, n + 1)


@inner
def _remove(trace, i):
    table = ld(trace, TABLE)
    merges = ld(trace, MERGES)
    n = ld(trace, COUNT) - 1
    for k in range(i, n):
        st(table, k, ld(table, k + 1))
        st(merges, k, ld(merges, k + 1))
    st(trace, COUNT, n)


@inner
def _merge_last_two(trace, keep, since, team):
    """Replace the last two batches by their merge; False if nothing was left of them."""
    table = ld(trace, TABLE)
    n = ld(trace, COUNT)
    batch = merge_now(ld(table, n - 2), ld(table, n - 1), keep, since, team)
    st(trace, COUNT, n - 2)
    if batch == 0:
        return False
    _append(trace, batch)
    return True


@inner
def clear_delta(trace):
    """There is no change at this pass; a stateless trace forgets the last one."""
    if ld(trace, STATELESS) != 0:
        free_batch(ld(trace, DELTA))
    st(trace, DELTA, 0)


@shared
def add_delta(trace, batch, stamp, step):
    """Append the change of this pass, first folding earlier batches of the same step to keep them few. `step` is for
    its team.
    """
    clear_delta(trace)
    st(trace, DELTA, batch)
    st(trace, STAMP, stamp)
    if ld(trace, STATELESS) != 0:
        return 0
    old = ld(trace, OLD)
    table = ld(trace, TABLE)
    while ld(trace, COUNT) - old >= 2:
        n = ld(trace, COUNT)
        older = ld(ld(table, n - 2), ROWS)
        newer = ld(ld(table, n - 1), ROWS)
        if older > 2 * newer:
            break
        _merge_last_two(trace, -1, NO_SINCE, ld(step, STEP_TEAM) if older + newer >= ld(step, STEP_SPLIT) else 0)
    _append(trace, batch)
    return 0


@inner
def roll_back(trace):
    """Undo the step under way."""
    clear_delta(trace)
    st(trace, STAMP, -1)
    table = ld(trace, TABLE)
    old = ld(trace, OLD)
    for i in range(old, ld(trace, COUNT)):
        free_batch(ld(table, i))
    st(trace, COUNT, old)
    free_batch(ld(trace, COPY))
    st(trace, COPY, 0)


@inner
def _finish(trace, i):
    """Batches i and i + 1, which are committed, have been merged: put the result in their place."""
    merges = ld(trace, MERGES)
    batch = finish_merge(ld(merges, i))
    st(merges, i, 0)
    _remove(trace, i + 1)
    if batch == 0:
        _remove(trace, i)
    else:
        st(ld(trace, TABLE), i, batch)
    st(trace, OLD, ld(trace, COUNT))


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
    table = ld(trace, TABLE)
    merges = ld(trace, MERGES)
    keep = ld(trace, T_KEEP)
    since = ld(trace, T_SINCE)
    i = 0
    while i < ld(trace, COUNT):
        if ld(merges, i) != 0 and work_merge(ld(merges, i), fuel):
            _finish(trace, i)
        else:
            i += 1
    i = ld(trace, COUNT) - 2
    while i >= 0:
        free_pair = ld(merges, i) == 0 and ld(merges, i + 1) == 0 and (i == 0 or ld(merges, i - 1) == 0)
        if free_pair:
            older = ld(ld(table, i), ROWS)
            newer = ld(ld(table, i + 1), ROWS)
            in_files = ld(ld(table, i), MAPPED) + ld(ld(table, i + 1), MAPPED)
            if in_files == 0 and older <= max(2 * newer, ALWAYS):
                merge = start_merge(ld(table, i), ld(table, i + 1), keep, since)
                st(merges, i, merge)
                if work_merge(merge, max(fuel, at_once)):
                    _finish(trace, i)
                    i = min(i + 1, ld(trace, COUNT) - 1)
        i -= 1
    return 0


@inner
def copy_batch(batch):
    """A copy of a batch, without index."""
    cap = ld(batch, CAP)
    cols = ld(batch, COLS)
    one_time = ld(batch, T_MASK) == 0
    ones = ld(batch, D_MASK) == 0
    new = new_batch(cap, cols, ld(batch, DIFFS), one_time, ones)
    data = ld(new, DATA)
    old = ld(batch, DATA)
    st(new, ROWS, ld(batch, ROWS))
    copy_words(data, 0, old, 0, cols * cap)
    copy_words(data, ld(new, T_AT), old, ld(batch, T_AT), 1 if one_time else cap)
    copy_words(data, ld(new, D_AT), old, ld(batch, D_AT), 1 if ones else cap * ld(batch, DIFFS))
    return new


@inner
def _since_at(trace, time):
    """The time before which epochs need not be told apart once `time` is the last."""
    if ld(trace, T_KEEP) != -1:
        return ld(trace, T_SINCE)
    return max(ld(trace, T_SINCE), min(time - ld(trace, HISTORY), ld(trace, HOLD)))


@shared
def fold(trace, time):
    """The step is complete, `time` the last epoch: make its batches one, with advanced times."""
    if ld(trace, CAPTURE) != 0 and ld(trace, DELTA) != 0:
        st(trace, COPY, copy_batch(ld(trace, DELTA)))
    clear_delta(trace)
    since = _since_at(trace, time)
    st(trace, NEXT_SINCE, since)
    st(trace, STAMP, -1)
    old = ld(trace, OLD)
    if ld(trace, COUNT) == old:
        return 0
    keep = ld(trace, T_KEEP)
    while ld(trace, COUNT) - old >= 2:
        _merge_last_two(trace, keep, since, 0)
    if ld(trace, COUNT) == old:
        return 0
    table = ld(trace, TABLE)
    if keep != -1:
        batch = advance(ld(table, old), keep, since)
        if batch == 0:
            st(trace, COUNT, old)
            return 0
        st(table, old, batch)
    return 0


@inner
def publish(trace):
    """Make a folded step part of the trace; needs no memory."""
    st(trace, T_SINCE, ld(trace, NEXT_SINCE))
    if ld(trace, COPY) != 0:
        capture = ld(trace, CAPTURE)
        free_batch(ld(capture, 0))
        st(capture, 0, ld(trace, COPY))
        st(trace, COPY, 0)
    old = ld(trace, OLD)
    if ld(trace, COUNT) > old:
        st(trace, ADDED, ld(ld(ld(trace, TABLE), old), ROWS))
        st(trace, OLD, ld(trace, COUNT))


@shared
def settle_folded(trace):
    """Keep the list of batches short after a step was added."""
    added = ld(trace, ADDED)
    if added == 0:
        return 0
    st(trace, ADDED, 0)
    settle(trace, ld(trace, EFFORT) * max(added, 64), AT_ONCE)
    if ld(trace, COUNT) > _limit(trace_rows(trace)):
        settle(trace, 2**62, AT_ONCE)
    return added


@shared
def append_committed(trace, batch, time):
    """Append a batch that a step elsewhere has added to its copy of this trace."""
    capture = ld(trace, CAPTURE)
    if capture != 0:
        copy = copy_batch(batch)
        before = ld(capture, 0)
        st(capture, 0, merge_now(before, copy, -1, NO_SINCE, 0) if before != 0 else copy)
    _append(trace, batch)
    st(trace, NEXT_SINCE, _since_at(trace, time))
    publish(trace)
    return settle_folded(trace)


@shared
def clear_trace(trace):
    """Forget all batches: they come again from elsewhere."""
    table = ld(trace, TABLE)
    merges = ld(trace, MERGES)
    for i in range(ld(trace, COUNT)):
        free_batch(ld(table, i))
        if ld(merges, i) != 0:
            drop_merge(ld(merges, i))
    st(trace, COUNT, 0)
    st(trace, OLD, 0)
    return 0


@shared
def compact(trace):
    """Merge everything into at most one batch, with all times advanced."""
    settle(trace, 2**62, 2**62)
    while ld(trace, COUNT) >= 2:
        _merge_last_two(trace, ld(trace, T_KEEP), ld(trace, T_SINCE), 0)
        st(trace, OLD, ld(trace, COUNT))
    if ld(trace, COUNT) == 1:
        table = ld(trace, TABLE)
        batch = advance(ld(table, 0), ld(trace, T_KEEP), ld(trace, T_SINCE))
        st(table, 0, batch)
        if batch == 0:
            st(trace, COUNT, 0)
    st(trace, OLD, ld(trace, COUNT))
    return 0


@inner
def keep_batch(batch):
    """A batch is in use after a call has failed; see `memory.keep`."""
    if batch != 0:
        keep(batch)
        keep(ld(batch, INDEX))
        if ld(batch, MAPPED) == 0:
            keep(ld(batch, DATA))


@inner
def keep_trace(trace):
    """The same for all batches of a trace."""
    table = ld(trace, TABLE)
    merges = ld(trace, MERGES)
    keep(table)
    keep(merges)
    if ld(trace, CAPTURE) != 0:
        keep_batch(ld(ld(trace, CAPTURE), 0))
    for i in range(ld(trace, COUNT)):
        keep_batch(ld(table, i))
        if ld(merges, i) != 0:
            keep(ld(merges, i))
            keep_batch(ld(ld(merges, i), RESULT))
