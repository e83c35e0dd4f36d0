"""Exchange: rows on their way to the shard they belong to, and the loop time that all shards agree to visit next.

A row belongs to shard `shard_of(first column)`. Rows for an operator whose input may belong elsewhere wait in its
*outbox*, an inbox outside all loops, with their times; when every shard has stopped at the same instruction, `route`
sorts them by shard and `deliver` puts them into the inboxes of their owners, on the agenda of their loop times.
Before a loop's next pass, the shards agree on the earliest pending time: of their own agendas (`pending`) and of the
rows on their way (`coming`).
"""

from __future__ import annotations

from numba import int64, njit
from numba import types as nb

from everview.kernels.inbox import BOX_SCOPE, ROWS_AT, WIDTH, emptied, room, waiting
from everview.kernels.memory import INNER, OPTIONS, ld, st
from everview.kernels.scope import COORDS, HEAP, HEAP_N, NOW, OUTER, PARENT, ROOT, slot_of

_array = nb.Array(int64, 1, "C")

NOTHING = 2**63 - 1
"""No pending time."""


@njit(**INNER)
def _shard(code, shards):
    h = code * -7046029254386353131
    h ^= (h >> 29) & 0x7FFFFFFFF
    h *= -4658895280553007687
    h ^= (h >> 32) & 0xFFFFFFFF
    return (h & 0x7FFFFFFF) % shards


@njit(nb.void(_array, int64, _array), **OPTIONS)
def shard_of(codes, shards, out):
    """The shard of each code."""
    for i in range(len(codes)):
        out[i] = _shard(codes[i], shards)


@njit(int64(int64), **OPTIONS)
def boxed(box):
    """Rows waiting in an outbox."""
    buffer = waiting(box, 0)
    return 0 if buffer == 0 else ld(buffer, 0)


@njit(int64(int64, int64, _array), **OPTIONS)
def count_routes(box, shards, counts):
    """Rows of an outbox for each of `shards` shards (all for the first if `shards` is 0)."""
    buffer = waiting(box, 0)
    if buffer == 0:
        return 0
    width = ld(box, WIDTH)
    rows = ld(buffer, 0)
    if shards == 0:
        counts[0] = rows
        return rows
    for i in range(rows):
        counts[_shard(ld(buffer, ROWS_AT + i * width), shards)] += 1
    return rows


@njit(int64(int64, int64, _array, _array), **OPTIONS)
def route(box, shards, starts, out):
    """Empty an outbox into an array, rows of shard s from word `starts[s]` on; moves the starts."""
    buffer = waiting(box, 0)
    width = ld(box, WIDTH)
    for i in range(ld(buffer, 0)):
        at = ROWS_AT + i * width
        s = 0 if shards == 0 else _shard(ld(buffer, at), shards)
        to = starts[s]
        for w in range(width):
            out[to + w] = ld(buffer, at + w)
        starts[s] = to + width
    emptied(box, 0)
    return 0


@njit(int64(int64, int64, _array), **OPTIONS)
def deliver(inbox, cols, words):
    """Put rows (columns, time, diffs) into an inbox, each at its loop time."""
    width = ld(inbox, WIDTH)
    scope = ld(inbox, BOX_SCOPE)
    coords = ld(scope, COORDS)
    rows = len(words) // width
    last = -1
    buffer = 0
    used = 0
    for i in range(rows):
        time = words[i * width + cols] & coords
        if time != last:
            if buffer != 0:
                st(buffer, 0, used)
            buffer = room(inbox, slot_of(scope, time), rows - i)
            used = ld(buffer, 0)
            last = time
        at = ROWS_AT + used * width
        for w in range(width):
            st(buffer, at + w, words[i * width + w])
        used += 1
    if buffer != 0:
        st(buffer, 0, used)
    return rows


@njit(**INNER)
def _outer_now(scope):
    parent = ld(scope, PARENT)
    return 0 if ld(parent, ROOT) != 0 else ld(parent, NOW)


@njit(int64(int64), **OPTIONS)
def pending(scope):
    """The earliest time on a loop's agenda under the outer loop's current time, or NOTHING."""
    if ld(scope, HEAP_N) == 0:
        return NOTHING
    time = ld(ld(scope, HEAP), 0)
    return time if (time & ld(scope, OUTER)) == _outer_now(scope) else NOTHING


@njit(int64(int64, int64, int64), **OPTIONS)
def coming(box, cols, scope):
    """The earliest time that an outbox's rows will put on a loop's agenda under the outer loop's current time."""
    buffer = waiting(box, 0)
    if buffer == 0:
        return NOTHING
    width = ld(box, WIDTH)
    outer = ld(scope, OUTER)
    coords = ld(scope, COORDS)
    now = _outer_now(scope)
    found = NOTHING
    for i in range(ld(buffer, 0)):
        time = ld(buffer, ROWS_AT + i * width + cols)
        if (time & outer) == now:
            found = min(found, time & coords)
    return found


@njit(int64(int64, int64), **OPTIONS)
def schedule(scope, time):
    """Put a time on a loop's agenda."""
    return slot_of(scope, time)

