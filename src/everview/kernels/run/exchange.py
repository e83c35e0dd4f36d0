"""Exchange: rows in transit to their shards, and the next loop time that all shards agree on.

A row belongs to shard `shard_of(first column)`. Rows for an operator whose input may belong elsewhere wait in its
*outbox*, a batcher outside all loops, with their times; when every shard has stopped at the same instruction, `route`
sorts them by shard and `deliver` puts them into the batchers of their owners, scheduling their loop times. Before a
loop's next pass, the shards agree on the earliest pending time: of their own agendas (`pending`) and of the rows in
transit (`coming`).
"""

from __future__ import annotations

from everview.kernels.build.native import entry, inner
from everview.kernels.memory import ld, raw_load, raw_store, st
from everview.kernels.operators.batcher import BATCHER_SCOPE, BATCHER_WIDTH, BUFFER_ROWS_AT, emptied, room, waiting
from everview.kernels.run.scope import (
    SCOPE_COORDS,
    SCOPE_HEAP,
    SCOPE_HEAP_N,
    SCOPE_NOW,
    SCOPE_OUTER,
    SCOPE_PARENT,
    SCOPE_ROOT,
    slot_of,
)

NO_TIME_LEFT = 2**63 - 1
"""No pending time."""


@inner
def _shard(code, shards):
    h = code * -7046029254386353131
    h ^= (h >> 29) & 0x7FFFFFFFF
    h *= -4658895280553007687
    h ^= (h >> 32) & 0xFFFFFFFF
    return (h & 0x7FFFFFFF) % shards


@entry("words", "int", "words")
def shard_of(codes, n, shards, out, _n):
    """The shard of each code."""
    for i in range(n):
        raw_store(out, i, _shard(raw_load(codes, i), shards))
    return 0


@entry("words", "int", "words")
def count_parts(columns, n, width, counts, shards):
    """Rows of a matrix (`n` words, `width` columns one after the other) for each shard."""
    for i in range(n // width):
        shard = _shard(raw_load(columns, i), shards)
        raw_store(counts, shard, raw_load(counts, shard) + 1)
    return 0


@entry("words", "int", "int", "int", "words", "words")
def part(columns, n, width, time, diff, starts, shards, out, _out):
    """Such rows as a batcher takes them: columns, time and diff. Those of shard `k` begin at word `starts[k]`, which
    moves to their end.
    """
    rows = n // width
    for i in range(rows):
        shard = _shard(raw_load(columns, i), shards)
        at = raw_load(starts, shard)
        for column in range(width):
            raw_store(out, at + column, raw_load(columns, column * rows + i))
        raw_store(out, at + width, time)
        raw_store(out, at + width + 1, diff)
        raw_store(starts, shard, at + width + 2)
    return 0


@entry("int", brief=True, allocates=False)
def boxed(box):
    """Rows waiting in an outbox."""
    buffer = waiting(box, 0)
    return 0 if buffer == 0 else ld(buffer, 0)


@entry("int", "int", "words")
def count_routes(box, shards, counts, _n):
    """Rows of an outbox for each of `shards` shards (all for the first if `shards` is 0)."""
    buffer = waiting(box, 0)
    if buffer == 0:
        return 0
    width = ld(box, BATCHER_WIDTH)
    rows = ld(buffer, 0)
    if shards == 0:
        raw_store(counts, 0, rows)
        return rows
    for i in range(rows):
        s = _shard(ld(buffer, BUFFER_ROWS_AT + i * width), shards)
        raw_store(counts, s, raw_load(counts, s) + 1)
    return rows


@entry("int", "int", "words", "words")
def route(box, shards, starts, _n, out, _out):
    """Empty an outbox into an array, rows of shard s from word `starts[s]` on; moves the starts."""
    buffer = waiting(box, 0)
    width = ld(box, BATCHER_WIDTH)
    for i in range(ld(buffer, 0)):
        at = BUFFER_ROWS_AT + i * width
        s = 0 if shards == 0 else _shard(ld(buffer, at), shards)
        to = raw_load(starts, s)
        for w in range(width):
            raw_store(out, to + w, ld(buffer, at + w))
        raw_store(starts, s, to + width)
    emptied(box, 0)
    return 0


@entry("int", "int", "words")
def deliver(batcher, cols, words, n):
    """Put rows (columns, time, diffs) into an batcher, each at its loop time."""
    width = ld(batcher, BATCHER_WIDTH)
    scope = ld(batcher, BATCHER_SCOPE)
    coords = ld(scope, SCOPE_COORDS)
    rows = n // width
    last = -1
    buffer = 0
    used = 0
    for i in range(rows):
        time = raw_load(words, i * width + cols) & coords
        if time != last:
            if buffer != 0:
                st(buffer, 0, used)
            buffer = room(batcher, slot_of(scope, time), rows - i)
            used = ld(buffer, 0)
            last = time
        at = BUFFER_ROWS_AT + used * width
        for w in range(width):
            st(buffer, at + w, raw_load(words, i * width + w))
        used += 1
    if buffer != 0:
        st(buffer, 0, used)
    return rows


@inner
def _outer_now(scope):
    parent = ld(scope, SCOPE_PARENT)
    return 0 if ld(parent, SCOPE_ROOT) != 0 else ld(parent, SCOPE_NOW)


@entry("int", brief=True, allocates=False)
def pending(scope):
    """The earliest time on a loop's agenda under the outer loop's current time, or NO_TIME_LEFT."""
    if ld(scope, SCOPE_HEAP_N) == 0:
        return NO_TIME_LEFT
    time = ld(ld(scope, SCOPE_HEAP), 0)
    return time if (time & ld(scope, SCOPE_OUTER)) == _outer_now(scope) else NO_TIME_LEFT


@entry("int", "int", "int")
def coming(box, cols, scope):
    """The earliest time that an outbox's rows will put on a loop's agenda under the outer loop's current time."""
    buffer = waiting(box, 0)
    if buffer == 0:
        return NO_TIME_LEFT
    width = ld(box, BATCHER_WIDTH)
    outer = ld(scope, SCOPE_OUTER)
    coords = ld(scope, SCOPE_COORDS)
    now = _outer_now(scope)
    found = NO_TIME_LEFT
    for i in range(ld(buffer, 0)):
        time = ld(buffer, BUFFER_ROWS_AT + i * width + cols)
        if (time & outer) == now:
            found = min(found, time & coords)
    return found


@entry("int", "int", brief=True)
def schedule(scope, time):
    """Put a time on a loop's agenda."""
    return slot_of(scope, time)
