"""Scopes: one per loop (and one for the root), each with an agenda of pending loop times.

While a step runs, rows may be produced for later rounds: a change joined with the output of an old round lands in that
round. The rows wait in batchers, bucketed by *slot*; a scope maps every pending loop time to a slot through a small
hash table, and keeps the pending times in a heap so that the executor can visit them in order. Times are ordered
lexicographically (outer coordinates first), and a nested loop is visited for as long as it has pending times under the
current outer time. Scheduling a time in an inner loop therefore schedules its outer part in the outer loop too.

The outermost scope has one slot, number 0, and no agenda.
"""

from __future__ import annotations

from everview.kernels.build.native import inner, shared
from everview.kernels.memory import alloc, free, grow, keep, ld, st

(
    SCOPE_PARENT,
    SCOPE_COORDS,
    SCOPE_OUTER,
    SCOPE_UNIT,
    SCOPE_NOW,
    SCOPE_SLOT_NOW,
    SCOPE_FIELDS,
    SCOPE_NFIELDS,
    SCOPE_HEAP,
    SCOPE_HEAP_N,
    SCOPE_HASH_TIMES,
    SCOPE_HASH_SLOTS,
    SCOPE_HASH_SIZE,
    SCOPE_HASH_USED,
    SCOPE_SLOTS,
    SCOPE_SPARE,
    SCOPE_SPARE_N,
    SCOPE_LAST_TIME,
    SCOPE_LAST_SLOT,
    SCOPE_OVERRUN,
    SCOPE_PASSES,
    SCOPE_ROOT,
    SCOPE_WORDS,
) = range(23)

SLOT_EMPTY = -1
SLOT_GONE = -2


@inner
def new_scope(parent, coords, outer, unit, fields, nfields):
    """A scope whose loop coordinates (its own and those around it) are the bits `coords` of a time word."""
    scope = alloc(SCOPE_WORDS)
    st(scope, SCOPE_PARENT, parent)
    st(scope, SCOPE_COORDS, coords)
    st(scope, SCOPE_OUTER, outer)
    st(scope, SCOPE_UNIT, unit)
    st(scope, SCOPE_FIELDS, fields)
    st(scope, SCOPE_NFIELDS, nfields)
    st(scope, SCOPE_HEAP, alloc(64))
    st(scope, SCOPE_SPARE, alloc(64))
    st(scope, SCOPE_HASH_TIMES, alloc(64))
    st(scope, SCOPE_HASH_SLOTS, alloc(64))
    st(scope, SCOPE_HASH_SIZE, 64)
    st(scope, SCOPE_ROOT, 1 if parent == 0 else 0)
    reset_scope(scope)
    st(scope, SCOPE_SLOTS, 1 if parent == 0 else 0)
    return scope


@inner
def free_scope(scope):
    """Give a scope back."""
    free(ld(scope, SCOPE_HEAP))
    free(ld(scope, SCOPE_SPARE))
    free(ld(scope, SCOPE_HASH_TIMES))
    free(ld(scope, SCOPE_HASH_SLOTS))
    free(ld(scope, SCOPE_FIELDS))
    free(scope)


@inner
def keep_scope(scope):
    """A scope's blocks are in use after a call has failed; see `memory.keep`."""
    keep(ld(scope, SCOPE_HEAP))
    keep(ld(scope, SCOPE_SPARE))
    keep(ld(scope, SCOPE_HASH_TIMES))
    keep(ld(scope, SCOPE_HASH_SLOTS))


@inner
def reset_if_used(scope):
    """Empty the agenda, if the step has put anything there."""
    if ld(scope, SCOPE_HASH_USED) != 0 or ld(scope, SCOPE_OVERRUN) != 0:
        reset_scope(scope)


@inner
def reset_scope(scope):
    """Empty the agenda."""
    st(scope, SCOPE_NOW, 0)
    st(scope, SCOPE_SLOT_NOW, 0)
    st(scope, SCOPE_HEAP_N, 0)
    st(scope, SCOPE_HASH_USED, 0)
    st(scope, SCOPE_SLOTS, 1 if ld(scope, SCOPE_ROOT) != 0 else 0)
    st(scope, SCOPE_SPARE_N, 0)
    st(scope, SCOPE_LAST_TIME, -1)
    st(scope, SCOPE_LAST_SLOT, -1)
    st(scope, SCOPE_OVERRUN, 0)
    st(scope, SCOPE_PASSES, 0)
    times = ld(scope, SCOPE_HASH_TIMES)
    for i in range(ld(scope, SCOPE_HASH_SIZE)):
        st(times, i, SLOT_EMPTY)


@inner
def _place(time, size):
    h = time * -7046029254386353131
    return (h ^ (h >> 29)) & (size - 1)


@inner
def _rehash(scope):
    size = ld(scope, SCOPE_HASH_SIZE)
    live = 0
    times = ld(scope, SCOPE_HASH_TIMES)
    slots = ld(scope, SCOPE_HASH_SLOTS)
    for i in range(size):
        if ld(times, i) >= 0:
            live += 1
    bigger = size * 2 if live * 4 > size else size
    new_times = alloc(bigger)
    new_slots = alloc(bigger)
    for i in range(bigger):
        st(new_times, i, SLOT_EMPTY)
    for i in range(size):
        t = ld(times, i)
        if t >= 0:
            h = _place(t, bigger)
            while ld(new_times, h) != SLOT_EMPTY:
                h = (h + 1) & (bigger - 1)
            st(new_times, h, t)
            st(new_slots, h, ld(slots, i))
    free(times)
    free(slots)
    st(scope, SCOPE_HASH_TIMES, new_times)
    st(scope, SCOPE_HASH_SLOTS, new_slots)
    st(scope, SCOPE_HASH_SIZE, bigger)
    st(scope, SCOPE_HASH_USED, live)


@inner
def _push_heap(scope, time):
    heap = ld(scope, SCOPE_HEAP)
    n = ld(scope, SCOPE_HEAP_N)
    from_size = n
    if n >= 64 and (n & (n - 1)) == 0:
        heap = grow(heap, 2 * n, from_size)
        st(scope, SCOPE_HEAP, heap)
    i = n
    while i > 0:
        up = (i - 1) >> 1
        if ld(heap, up) <= time:
            break
        st(heap, i, ld(heap, up))
        i = up
    st(heap, i, time)
    st(scope, SCOPE_HEAP_N, n + 1)


@inner
def _pop_heap(scope):
    heap = ld(scope, SCOPE_HEAP)
    n = ld(scope, SCOPE_HEAP_N) - 1
    st(scope, SCOPE_HEAP_N, n)
    x = ld(heap, n)
    i = 0
    while True:
        down = 2 * i + 1
        if down >= n:
            break
        if down + 1 < n and ld(heap, down + 1) < ld(heap, down):
            down += 1
        if ld(heap, down) >= x:
            break
        st(heap, i, ld(heap, down))
        i = down
    st(heap, i, x)


@inner
def _find_slot(scope, time):
    """Slot of a pending time in this scope, made and put on the agenda if it is new; the flag says whether it was."""
    size = ld(scope, SCOPE_HASH_SIZE)
    times = ld(scope, SCOPE_HASH_TIMES)
    h = _place(time, size)
    while True:
        t = ld(times, h)
        if t == time:
            return ld(ld(scope, SCOPE_HASH_SLOTS), h), False
        if t == SLOT_EMPTY:
            break
        h = (h + 1) & (size - 1)
    if 2 * (ld(scope, SCOPE_HASH_USED) + 1) > size:
        _rehash(scope)
        size = ld(scope, SCOPE_HASH_SIZE)
        times = ld(scope, SCOPE_HASH_TIMES)
        h = _place(time, size)
        while ld(times, h) != SLOT_EMPTY:
            h = (h + 1) & (size - 1)
    spare = ld(scope, SCOPE_SPARE_N)
    if spare > 0:
        slot = ld(ld(scope, SCOPE_SPARE), spare - 1)
        st(scope, SCOPE_SPARE_N, spare - 1)
    else:
        slot = ld(scope, SCOPE_SLOTS)
        st(scope, SCOPE_SLOTS, slot + 1)
    st(times, h, time)
    st(ld(scope, SCOPE_HASH_SLOTS), h, slot)
    st(scope, SCOPE_HASH_USED, ld(scope, SCOPE_HASH_USED) + 1)
    _push_heap(scope, time)
    return slot, True


@shared
def slot_of(scope, time):
    """Slot for rows at a loop time, which is put on the agenda of this loop and of the loops around it."""
    if ld(scope, SCOPE_ROOT) != 0:
        return 0
    if ld(scope, SCOPE_LAST_TIME) == time:
        return ld(scope, SCOPE_LAST_SLOT)
    slot, fresh = _find_slot(scope, time)
    st(scope, SCOPE_LAST_TIME, time)
    st(scope, SCOPE_LAST_SLOT, slot)
    inner = scope
    while fresh:
        outer = ld(inner, SCOPE_OUTER)
        inner = ld(inner, SCOPE_PARENT)
        if ld(inner, SCOPE_ROOT) != 0:
            break
        _, fresh = _find_slot(inner, time & outer)
    return slot


@inner
def next_time(scope):
    """Enter the next pending time under the outer loop's current time; False if there is none."""
    if ld(scope, SCOPE_HEAP_N) == 0:
        return False
    time = ld(ld(scope, SCOPE_HEAP), 0)
    parent = ld(scope, SCOPE_PARENT)
    if ld(parent, SCOPE_ROOT) == 0 and (time & ld(scope, SCOPE_OUTER)) != ld(parent, SCOPE_NOW):
        return False
    _pop_heap(scope)
    slot, _ = _find_slot(scope, time)
    st(scope, SCOPE_NOW, time)
    st(scope, SCOPE_SLOT_NOW, slot)
    st(scope, SCOPE_PASSES, ld(scope, SCOPE_PASSES) + 1)
    return True


@inner
def end_time(scope):
    """The pass at the current time is over: its slot may be used again."""
    time = ld(scope, SCOPE_NOW)
    size = ld(scope, SCOPE_HASH_SIZE)
    times = ld(scope, SCOPE_HASH_TIMES)
    h = _place(time, size)
    while ld(times, h) != time:
        h = (h + 1) & (size - 1)
    st(times, h, SLOT_GONE)
    n = ld(scope, SCOPE_SPARE_N)
    if n >= 64 and (n & (n - 1)) == 0:
        st(scope, SCOPE_SPARE, grow(ld(scope, SCOPE_SPARE), 2 * n, n))
    st(ld(scope, SCOPE_SPARE), n, ld(scope, SCOPE_SLOT_NOW))
    st(scope, SCOPE_SPARE_N, n + 1)
    st(scope, SCOPE_LAST_TIME, -1)
