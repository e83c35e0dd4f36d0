"""Interesting times: when a touched key must be evaluated, now and later.

A change at time s can change the output not only at s but at every join of s with other times of the same key; missing
those is the classic bug. A key touched at loop time T is therefore scheduled for the smallest times T ∨ c above T, over
all loop times c in its history; being touched there, it continues from there. That reaches every join, because the
smallest ones lead to all others.
"""

from __future__ import annotations

from everview.kernels.build.native import inner
from everview.kernels.memory import grow, ld, st
from everview.kernels.operators.batcher import BUFFER_ROWS_AT, room
from everview.kernels.reduce.context import (
    REDUCE_EPOCH_LIST,
    REDUCE_INPUT,
    REDUCE_KEYS,
    REDUCE_SCOPE,
    REDUCE_STEP,
    REDUCE_TODO,
)
from everview.kernels.run.scope import SCOPE_COORDS, SCOPE_FIELDS, SCOPE_NFIELDS, slot_of
from everview.kernels.run.step import STEP_BASE, STEP_EPOCHS
from everview.kernels.times import leq, lub
from everview.kernels.trace.batch import BATCH_DATA, BATCH_TIME_AT, BATCH_TIME_MASK, time_at
from everview.kernels.trace.trace import TRACE_COUNT, TRACE_TABLE


@inner
def plan_times(ctx, key_data, key_cap, key_row, cursors, now):
    """Collect the epochs to evaluate at this loop time into EPOCH_LIST and put the key on the agenda of later loop
    times; the number of epochs.
    """
    trace = ld(ctx, REDUCE_INPUT)
    scope = ld(ctx, REDUCE_SCOPE)
    step = ld(ctx, REDUCE_STEP)
    coords = ld(scope, SCOPE_COORDS)
    fields = ld(scope, SCOPE_FIELDS)
    nfields = ld(scope, SCOPE_NFIELDS)
    base = ld(step, STEP_BASE)
    nested = nfields > 1
    single = ld(step, STEP_EPOCHS) == 1
    epochs = ld(ctx, REDUCE_EPOCH_LIST)
    count = 0
    if single:
        st(epochs, 1, 1 if nested else base + 1)
        count = 1
        if not nested:
            return count
    table = ld(trace, TRACE_TABLE)
    if single and nfields == 2:
        soonest = -1
        for b in range(ld(trace, TRACE_COUNT)):
            batch = ld(table, b)
            data = ld(batch, BATCH_DATA)
            at = ld(batch, BATCH_TIME_AT)
            mask = ld(batch, BATCH_TIME_MASK)
            for i in range(ld(cursors, 1 + 3 * b), ld(cursors, 2 + 3 * b)):
                c = ld(data, at + (i & mask)) & coords
                if c > now and (soonest < 0 or c < soonest):
                    soonest = c
        if soonest >= 0:
            st(epochs, 2, soonest)
            _add_to_agenda(ctx, key_data, key_cap, key_row, 1, 1)
        return count
    later = 0  # candidates for the agenda are kept behind the epochs, smallest ones only
    for b in range(ld(trace, TRACE_COUNT)):
        batch = ld(table, b)
        data = ld(batch, BATCH_DATA)
        for i in range(ld(cursors, 1 + 3 * b), ld(cursors, 2 + 3 * b)):
            t = time_at(batch, data, i)
            epoch = t & ~coords if nested else t - base
            c = t & coords
            after = now
            if nested:
                after = lub(now, c, fields, nfields)
            if after != now:
                later = _note_later(ctx, after, count, later, fields, nfields)
                epochs = ld(ctx, REDUCE_EPOCH_LIST)
            elif not single and epoch > 0:
                count, later = _note_epoch(ctx, epoch if nested else t, count, later)
                epochs = ld(ctx, REDUCE_EPOCH_LIST)
    if later > 0:
        _add_to_agenda(ctx, key_data, key_cap, key_row, count, later)
    return count


@inner
def _list_room(ctx, used):
    block = ld(ctx, REDUCE_EPOCH_LIST)
    size = ld(block, 0)
    if used + 2 >= size:
        block = grow(block, 2 * size, size)
        st(block, 0, 2 * size)
        st(ctx, REDUCE_EPOCH_LIST, block)
    return block


@inner
def _note_epoch(ctx, epoch, count, later):
    """Insert an epoch into the sorted list in front of the agenda candidates."""
    block = _list_room(ctx, count + later)
    i = count
    while i > 0 and ld(block, i) > epoch:
        i -= 1
    if i > 0 and ld(block, i) == epoch:
        return count, later
    k = count + later
    while k > i:
        st(block, k + 1, ld(block, k))
        k -= 1
    st(block, i + 1, epoch)
    return count + 1, later


@inner
def _note_later(ctx, time, count, later, fields, nfields):
    """Keep the minimal elements of the candidate times."""
    block = _list_room(ctx, count + later)
    kept = 0
    for k in range(later):
        other = ld(block, 1 + count + k)
        if leq(other, time, fields, nfields):
            return later  # something at or before it is there already; nothing was removed so far
    for k in range(later):
        other = ld(block, 1 + count + k)
        if not leq(time, other, fields, nfields):
            st(block, 1 + count + kept, other)
            kept += 1
    st(block, 1 + count + kept, time)
    return kept + 1


@inner
def _add_to_agenda(ctx, key_data, key_cap, key_row, count, later):
    scope = ld(ctx, REDUCE_SCOPE)
    todo = ld(ctx, REDUCE_TODO)
    keys = ld(ctx, REDUCE_KEYS)
    block = ld(ctx, REDUCE_EPOCH_LIST)
    for k in range(later):
        buffer = room(todo, slot_of(scope, ld(block, 1 + count + k)), 1)
        n = ld(buffer, 0)
        at = BUFFER_ROWS_AT + n * (keys + 2)
        for c in range(keys):
            st(buffer, at + c, ld(key_data, c * key_cap + key_row))
        st(buffer, at + keys, 0)
        st(buffer, at + keys + 1, 1)
        st(buffer, 0, n + 1)
