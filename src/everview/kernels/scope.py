"""Scopes: one per loop (and one for the outside), each with an agenda of loop times that still have work.

While a step runs, rows may be produced for later rounds: a change joined with something an old round said lands in
that round. The rows wait in inboxes, bucketed by *slot*; a scope maps every pending loop time to a slot through a
small hash table, and keeps the pending times in a heap so that the executor can visit them in order. Times order
lexicographically (outer coordinates first), and a loop nested in another is visited for as long as it has pending
times under the current outer time. Scheduling a time in an inner loop therefore schedules its outer part in the outer
loop too.

The outermost scope has one slot, number 0, and no agenda.
"""

from __future__ import annotations

from everview.kernels.memory import alloc, free, grow, keep, ld, st
from everview.kernels.native import inner, shared

(
    PARENT,
    COORDS,
    OUTER,
    UNIT,
    NOW,
    SLOT_NOW,
    FIELDS,
    NFIELDS,
    HEAP,
    HEAP_N,
    HASH_TIMES,
    HASH_SLOTS,
    HASH_SIZE,
    HASH_USED,
    SLOTS,
    SPARE,
    SPARE_N,
    LAST_TIME,
    LAST_SLOT,
    OVERRUN,
    PASSES,
    ROOT,
    S_WORDS,
) = range(23)

EMPTY = -1
GONE = -2


@inner
def new_scope(parent, coords, outer, unit, fields, nfields):
    """A scope whose loop coordinates (its own and those around it) are the bits `coords` of a time word."""
    scope = alloc(S_WORDS)
    st(scope, PARENT, parent)
    st(scope, COORDS, coords)
    st(scope, OUTER, outer)
    st(scope, UNIT, unit)
    st(scope, FIELDS, fields)
    st(scope, NFIELDS, nfields)
    st(scope, HEAP, alloc(64))
    st(scope, SPARE, alloc(64))
    st(scope, HASH_TIMES, alloc(64))
    st(scope, HASH_SLOTS, alloc(64))
    st(scope, HASH_SIZE, 64)
    st(scope, ROOT, 1 if parent == 0 else 0)
    reset_scope(scope)
    st(scope, SLOTS, 1 if parent == 0 else 0)
    return scope


@inner
def free_scope(scope):
    """Give a scope back."""
    free(ld(scope, HEAP))
    free(ld(scope, SPARE))
    free(ld(scope, HASH_TIMES))
    free(ld(scope, HASH_SLOTS))
    free(ld(scope, FIELDS))
    free(scope)


@inner
def keep_scope(scope):
    """A scope's blocks are in use after a call has failed; see `memory.keep`."""
    keep(ld(scope, HEAP))
    keep(ld(scope, SPARE))
    keep(ld(scope, HASH_TIMES))
    keep(ld(scope, HASH_SLOTS))


@inner
def reset_scope(scope):
    """Empty the agenda."""
    st(scope, NOW, 0)
    st(scope, SLOT_NOW, 0)
    st(scope, HEAP_N, 0)
    st(scope, HASH_USED, 0)
    st(scope, SLOTS, 1 if ld(scope, ROOT) != 0 else 0)
    st(scope, SPARE_N, 0)
    st(scope, LAST_TIME, -1)
    st(scope, LAST_SLOT, -1)
    st(scope, OVERRUN, 0)
    st(scope, PASSES, 0)
    times = ld(scope, HASH_TIMES)
    for i in range(ld(scope, HASH_SIZE)):
        st(times, i, EMPTY)


@inner
def _place(time, size):
    h = time * -7046029254386353131
    return (h ^ (h >> 29)) & (size - 1)


@inner
def _rehash(scope):
    size = ld(scope, HASH_SIZE)
    live = 0
    times = ld(scope, HASH_TIMES)
    slots = ld(scope, HASH_SLOTS)
    for i in range(size):
        if ld(times, i) >= 0:
            live += 1
    bigger = size * 2 if live * 4 > size else size
    new_times = alloc(bigger)
    new_slots = alloc(bigger)
    for i in range(bigger):
        st(new_times, i, EMPTY)
    for i in range(size):
        t = ld(times, i)
        if t >= 0:
            h = _place(t, bigger)
            while ld(new_times, h) != EMPTY:
                h = (h + 1) & (bigger - 1)
            st(new_times, h, t)
            st(new_slots, h, ld(slots, i))
    free(times)
    free(slots)
    st(scope, HASH_TIMES, new_times)
    st(scope, HASH_SLOTS, new_slots)
    st(scope, HASH_SIZE, bigger)
    st(scope, HASH_USED, live)


@inner
def _push_heap(scope, time):
    heap = ld(scope, HEAP)
    n = ld(scope, HEAP_N)
    from_size = n
    if n >= 64 and (n & (n - 1)) == 0:
        heap = grow(heap, 2 * n, from_size)
        st(scope, HEAP, heap)
    i = n
    while i > 0:
        up = (i - 1) >> 1
        if ld(heap, up) <= time:
            break
        st(heap, i, ld(heap, up))
        i = up
    st(heap, i, time)
    st(scope, HEAP_N, n + 1)


@inner
def _pop_heap(scope):
    heap = ld(scope, HEAP)
    n = ld(scope, HEAP_N) - 1
    st(scope, HEAP_N, n)
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
    size = ld(scope, HASH_SIZE)
    times = ld(scope, HASH_TIMES)
    h = _place(time, size)
    while True:
        t = ld(times, h)
        if t == time:
            return ld(ld(scope, HASH_SLOTS), h), False
        if t == EMPTY:
            break
        h = (h + 1) & (size - 1)
    if 2 * (ld(scope, HASH_USED) + 1) > size:
        _rehash(scope)
        size = ld(scope, HASH_SIZE)
        times = ld(scope, HASH_TIMES)
        h = _place(time, size)
        while ld(times, h) != EMPTY:
            h = (h + 1) & (size - 1)
    spare = ld(scope, SPARE_N)
    if spare > 0:
        slot = ld(ld(scope, SPARE), spare - 1)
        st(scope, SPARE_N, spare - 1)
    else:
        slot = ld(scope, SLOTS)
        st(scope, SLOTS, slot + 1)
    st(times, h, time)
    st(ld(scope, HASH_SLOTS), h, slot)
    st(scope, HASH_USED, ld(scope, HASH_USED) + 1)
    _push_heap(scope, time)
    return slot, True


@shared
def slot_of(scope, time):
    """Slot for rows at a loop time, which is put on the agenda of this loop and of the loops around it."""
    if ld(scope, ROOT) != 0:
        return 0
    if ld(scope, LAST_TIME) == time:
        return ld(scope, LAST_SLOT)
    slot, fresh = _find_slot(scope, time)
    st(scope, LAST_TIME, time)
    st(scope, LAST_SLOT, slot)
    inner = scope
    while fresh:
        outer = ld(inner, OUTER)
        inner = ld(inner, PARENT)
        if ld(inner, ROOT) != 0:
            break
        _, fresh = _find_slot(inner, time & outer)
    return slot


@inner
def next_time(scope):
    """Enter the next pending time under the outer loop's current time; False if there is none."""
    if ld(scope, HEAP_N) == 0:
        return False
    time = ld(ld(scope, HEAP), 0)
    parent = ld(scope, PARENT)
    if ld(parent, ROOT) == 0 and (time & ld(scope, OUTER)) != ld(parent, NOW):
        return False
    _pop_heap(scope)
    slot, _ = _find_slot(scope, time)
    st(scope, NOW, time)
    st(scope, SLOT_NOW, slot)
    st(scope, PASSES, ld(scope, PASSES) + 1)
    return True


@inner
def end_time(scope):
    """The pass at the current time is over: its slot may be used again."""
    time = ld(scope, NOW)
    size = ld(scope, HASH_SIZE)
    times = ld(scope, HASH_TIMES)
    h = _place(time, size)
    while ld(times, h) != time:
        h = (h + 1) & (size - 1)
    st(times, h, GONE)
    n = ld(scope, SPARE_N)
    if n >= 64 and (n & (n - 1)) == 0:
        st(scope, SPARE, grow(ld(scope, SPARE), 2 * n, n))
    st(ld(scope, SPARE), n, ld(scope, SLOT_NOW))
    st(scope, SPARE_N, n + 1)
    st(scope, LAST_TIME, -1)
