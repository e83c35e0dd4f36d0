"""Look-ups of forest entries by node number, or by two hash tables that grow and shrink incrementally.

    direct  nodes LOW to LOW + DIRECT - 1 have the entries 0 to DIRECT - 1, in order; only without questions
    table   (question, node) -> entry
    heads   node -> the entries of that node in all questions, linked by VERTEX_NEXT; only for questions

*Direct* entries come from `bulk_load`, where most node numbers in a range are in use: a look-up is arithmetic, where
the table costs two cache misses, which was a third of all the time that repairs took. A direct entry that no path leads
to is like one that fell: it has no parent. Nodes outside the range are in the table.

A word of a table is the entry's number plus one, with a part of the hash above it; 0 is an empty slot, and probing is
linear.

*Growing.* Rehashing ten million entries into a table of twice the size takes half a second, which a step that adds one
vertex must not. A large table therefore stays (OLD) beside its successor, and every new entry moves a few of its slots
(from OLD_AT on). What is not found in the new one is looked up in the old one; for a node in both, the new one has the
later head.

*Removing.* The slots after one that becomes empty move up as far as possible (`_vacate`), so that no tombstones remain.
Nothing is removed while there is an old table.
"""

from __future__ import annotations

from everview.kernels.build.native import entry, inner, shared
from everview.kernels.frontier.forest import (
    FOREST_BAD_N,
    FOREST_BUILT,
    FOREST_DIRECT,
    FOREST_ENTRIES,
    FOREST_ENTRIES_N,
    FOREST_FREE,
    FOREST_FREE_N,
    FOREST_HEADS,
    FOREST_HEADS_N,
    FOREST_HEADS_SIZE,
    FOREST_HEAP_N,
    FOREST_KEY,
    FOREST_LOG_FROM,
    FOREST_LOG_N,
    FOREST_LOW,
    FOREST_QUESTIONS,
    FOREST_SERIAL,
    FOREST_STACK_N,
    FOREST_SWEPT_AT,
    FOREST_SWEPT_BALL,
    FOREST_TABLE,
    FOREST_TABLE_OLD,
    FOREST_TABLE_SIZE,
    NO_PARENT,
    VERTEX_BASE,
    VERTEX_DEPTH,
    VERTEX_FLAGS,
    VERTEX_NEXT,
    VERTEX_NODE,
    VERTEX_PARENT,
    VERTEX_QUESTION,
    VERTEX_STAMP,
    VERTEX_VALUE,
    WORST_VALUE,
    forget,
    place,
)
from everview.kernels.memory import free, ld, prefetch, raw_load, reserve_lasting, st, zeros, zeros_lasting

SIZE, OLD, OLD_SIZE, OLD_AT = range(1, 5)
"""Words of a context behind FOREST_TABLE and FOREST_HEADS."""

AT_ONCE = 1 << 16
"""Slots up to which a table is moved at once."""

MOVED = 4
"""Old slots that a new entry moves: all are moved before the new table is full."""

HASH_MIX = -7046029254386353131
ENTRY_BITS = (1 << 40) - 1


@inner
def _hash_node(node):
    h = node * HASH_MIX
    return h ^ (h >> 29)


@inner
def _hash(ctx, node):
    h = _hash_node(node)
    questions = ld(ctx, FOREST_QUESTIONS)
    if questions > 0:
        key = ld(ctx, FOREST_KEY)
        for c in range(questions):
            h = (h ^ ld(key, c)) * HASH_MIX
            h ^= h >> 31
    return h


@inner
def _tag(h):
    """The part of a word of the tables that comes from the hash: most keys that differ, differ here."""
    return ((h >> 40) & 0x7FFFFF) << 40


@inner
def _hash_of(ctx, entry):
    """The hash of an entry's own key."""
    entries = ld(ctx, FOREST_ENTRIES)
    at = place(ctx, entry)
    h = _hash_node(ld(entries, at + VERTEX_NODE))
    for c in range(ld(ctx, FOREST_QUESTIONS)):
        h = (h ^ ld(entries, at + VERTEX_QUESTION + c)) * HASH_MIX
        h ^= h >> 31
    return h


@inner
def _hash_by(ctx, entry, by_node):
    if by_node:
        return _hash_node(ld(ld(ctx, FOREST_ENTRIES), place(ctx, entry) + VERTEX_NODE))
    return _hash_of(ctx, entry)


# looking


@inner
def _is(ctx, entry, node):
    entries = ld(ctx, FOREST_ENTRIES)
    at = place(ctx, entry)
    if ld(entries, at + VERTEX_NODE) != node:
        return False
    questions = ld(ctx, FOREST_QUESTIONS)
    if questions > 0:
        key = ld(ctx, FOREST_KEY)
        for c in range(questions):
            if ld(entries, at + VERTEX_QUESTION + c) != ld(key, c):
                return False
    return True


@inner
def _seek(ctx, table, mask, h, node):
    tag = _tag(h)
    slot = h & mask
    while True:
        word = ld(table, slot)
        if word == 0:
            return NO_PARENT
        if word & ~ENTRY_BITS == tag:
            entry = (word & ENTRY_BITS) - 1
            if _is(ctx, entry, node):
                return entry
        slot = (slot + 1) & mask


@shared
def _seek_old(ctx, h, node):
    return _seek(ctx, ld(ctx, FOREST_TABLE + OLD), ld(ctx, FOREST_TABLE + OLD_SIZE) - 1, h, node)


@inner
def find(ctx, node):
    """The entry of a node in the question of FOREST_KEY; NO_PARENT if there is none."""
    direct = ld(ctx, FOREST_DIRECT)
    if direct > 0:
        number = node - ld(ctx, FOREST_LOW)
        if 0 <= number < direct:
            return number
    return _look_up(ctx, node)


@shared
def _look_up(ctx, node):
    """The same by the table."""
    h = _hash(ctx, node)
    entry = _seek(ctx, ld(ctx, FOREST_TABLE), ld(ctx, FOREST_TABLE_SIZE) - 1, h, node)
    if entry == NO_PARENT and ld(ctx, FOREST_TABLE_OLD) != 0:
        entry = _seek_old(ctx, h, node)
    return entry


@entry("int", "int", "words", brief=True)
def find_vertex(ctx, node, question, many):
    """`find` for Python, between steps: in the question that `many` codes say."""
    for c in range(many):
        st(ld(ctx, FOREST_KEY), c, raw_load(question, c))
    return find(ctx, node)


@inner
def hint(ctx, node):
    """A node will be looked up, some look-ups from now (see `hints`)."""
    number = node - ld(ctx, FOREST_LOW)
    if 0 <= number < ld(ctx, FOREST_DIRECT):
        prefetch(ld(ctx, FOREST_ENTRIES), place(ctx, number) + VERTEX_VALUE)


@inner
def _head_slot(ctx, heads, size, node):
    """Where the node is among the heads, or may be put."""
    h = _hash_node(node)
    tag = _tag(h)
    slot = h & (size - 1)
    while True:
        word = ld(heads, slot)
        if word == 0:
            return slot
        head = (word & ENTRY_BITS) - 1
        if word & ~ENTRY_BITS == tag and ld(ld(ctx, FOREST_ENTRIES), place(ctx, head) + VERTEX_NODE) == node:
            return slot
        slot = (slot + 1) & (size - 1)


@inner
def _head(ctx, node):
    """The word of a node among the heads; 0 if there is none."""
    heads = ld(ctx, FOREST_HEADS)
    word = ld(heads, _head_slot(ctx, heads, ld(ctx, FOREST_HEADS_SIZE), node))
    old = ld(ctx, FOREST_HEADS + OLD)
    if word == 0 and old != 0:
        word = ld(old, _head_slot(ctx, old, ld(ctx, FOREST_HEADS + OLD_SIZE), node))
    return word


@inner
def first_of(ctx, node):
    """The first entry of a node, in whatever question; NO_PARENT if there is none. The others follow by `next_of`."""
    if ld(ctx, FOREST_QUESTIONS) == 0:
        return find(ctx, node)
    return (_head(ctx, node) & ENTRY_BITS) - 1


@inner
def next_of(ctx, entry):
    return ld(ld(ctx, FOREST_ENTRIES), place(ctx, entry) + VERTEX_NEXT)


# growing


@shared
def move_slots(ctx, field, many):
    """Move so many slots of the old table of a field to the new one; whether there was an old one."""
    old = ld(ctx, field + OLD)
    if old == 0:
        return 0
    table = ld(ctx, field)
    size = ld(ctx, field + SIZE)
    at = ld(ctx, field + OLD_AT)
    end = min(at + many, ld(ctx, field + OLD_SIZE))
    for i in range(at, end):
        word = ld(old, i)
        if word != 0:
            entry = (word & ENTRY_BITS) - 1
            if field == FOREST_HEADS:
                slot = _head_slot(ctx, table, size, ld(ld(ctx, FOREST_ENTRIES), place(ctx, entry) + VERTEX_NODE))
            else:
                slot = _hash_of(ctx, entry) & (size - 1)
                while ld(table, slot) != 0:
                    slot = (slot + 1) & (size - 1)
            if ld(table, slot) == 0:
                st(table, slot, word)
    st(ctx, field + OLD_AT, end)
    if end == ld(ctx, field + OLD_SIZE):
        st(ctx, field + OLD, 0)
        st(ctx, field + OLD_SIZE, 0)
        free(old)
    return 1


@shared
def _widen(ctx, field):
    """Twice the table of a field; its slots are moved at once if they are few."""
    move_slots(ctx, field, 2**62)
    before = ld(ctx, field + SIZE)
    size = max(2 * before, 1024)
    table = zeros_lasting(size)
    st(ctx, field + OLD, ld(ctx, field))
    st(ctx, field + OLD_SIZE, before)
    st(ctx, field + OLD_AT, 0)
    st(ctx, field, table)
    st(ctx, field + SIZE, size)
    if before <= AT_ONCE:
        move_slots(ctx, field, before)
    return 0


@inner
def enter(ctx, node, entry):
    """Put a new entry into the tables."""
    h = _hash(ctx, node)
    table = ld(ctx, FOREST_TABLE)
    mask = ld(ctx, FOREST_TABLE_SIZE) - 1
    slot = h & mask
    while ld(table, slot) != 0:
        slot = (slot + 1) & mask
    st(table, slot, _tag(h) | (entry + 1))
    if ld(ctx, FOREST_QUESTIONS) > 0:
        word = _head(ctx, node)
        if word == 0:
            st(ctx, FOREST_HEADS_N, ld(ctx, FOREST_HEADS_N) + 1)
        else:
            st(ld(ctx, FOREST_ENTRIES), place(ctx, entry) + VERTEX_NEXT, (word & ENTRY_BITS) - 1)
        heads = ld(ctx, FOREST_HEADS)
        slot = _head_slot(ctx, heads, ld(ctx, FOREST_HEADS_SIZE), node)
        st(heads, slot, _tag(_hash_node(node)) | (entry + 1))


@shared
def new_entry(ctx, node):
    """An entry for a node in the question of FOREST_KEY, which has none."""
    questions = ld(ctx, FOREST_QUESTIONS)
    entries = reserve_lasting(ctx, FOREST_ENTRIES, FOREST_ENTRIES_N, VERTEX_QUESTION + questions, 1)
    in_use = ld(ctx, FOREST_ENTRIES_N) - ld(ctx, FOREST_FREE_N) - ld(ctx, FOREST_DIRECT)
    if 2 * (in_use + 1) > ld(ctx, FOREST_TABLE_SIZE):
        _widen(ctx, FOREST_TABLE)
    if questions > 0 and 2 * (ld(ctx, FOREST_HEADS_N) + 1) > ld(ctx, FOREST_HEADS_SIZE):
        _widen(ctx, FOREST_HEADS)
    n = ld(ctx, FOREST_FREE) - 1
    if n >= 0:
        following = ld(entries, place(ctx, n) + VERTEX_NEXT)
        st(ctx, FOREST_FREE, following)
        st(ctx, FOREST_FREE_N, ld(ctx, FOREST_FREE_N) - 1)
    else:
        n = ld(ctx, FOREST_ENTRIES_N)
        st(ctx, FOREST_ENTRIES_N, n + 1)
    at = place(ctx, n)
    st(entries, at + VERTEX_VALUE, WORST_VALUE)
    st(entries, at + VERTEX_PARENT, NO_PARENT)
    st(entries, at + VERTEX_DEPTH, 0)
    st(entries, at + VERTEX_BASE, 0)
    st(entries, at + VERTEX_FLAGS, 0)
    st(entries, at + VERTEX_STAMP, 0)
    st(entries, at + VERTEX_NEXT, NO_PARENT)
    st(entries, at + VERTEX_NODE, node)
    for c in range(questions):
        st(entries, at + VERTEX_QUESTION + c, ld(ld(ctx, FOREST_KEY), c))
    enter(ctx, node, n)
    move_slots(ctx, FOREST_TABLE, MOVED)
    if questions > 0:
        move_slots(ctx, FOREST_HEADS, MOVED)
    return n


@shared
def room_for(ctx, many, direct, low):
    """No entries, and room for so many, and for some more. There are no questions. `direct`: that many of them will be
    those of the nodes from `low` on.
    """
    st(ctx, FOREST_ENTRIES_N, 0)
    reserve_lasting(ctx, FOREST_ENTRIES, FOREST_ENTRIES_N, VERTEX_QUESTION, many + (many >> 3))
    size = 1024
    hashed = many - direct
    while size < 2 * hashed + (hashed >> 2):
        size *= 2
    table = zeros_lasting(size)
    for field in (FOREST_TABLE, FOREST_TABLE_OLD):
        block = ld(ctx, field)
        st(ctx, field, 0)
        free(block)
    st(ctx, FOREST_TABLE, table)
    st(ctx, FOREST_TABLE_SIZE, size)
    for field in (FOREST_TABLE + OLD_SIZE, FOREST_TABLE + OLD_AT, FOREST_FREE, FOREST_FREE_N):
        st(ctx, field, 0)
    st(ctx, FOREST_DIRECT, direct)
    st(ctx, FOREST_LOW, low)
    return 0


@inner
def found_or_new(ctx, node):
    entry = find(ctx, node)
    return new_entry(ctx, node) if entry == NO_PARENT else entry


# leaving


@inner
def _vacate(ctx, field, slot, by_node):
    """Empty a slot; those behind it move up, each no farther than to where it is looked for first."""
    table = ld(ctx, field)
    mask = ld(ctx, field + SIZE) - 1
    hole = slot
    at = slot
    while True:
        at = (at + 1) & mask
        word = ld(table, at)
        if word == 0:
            break
        home = _hash_by(ctx, (word & ENTRY_BITS) - 1, by_node) & mask
        if (at - home) & mask >= (at - hole) & mask:
            st(table, hole, word)
            hole = at
    st(table, hole, 0)


@shared
def take_out(ctx, entry):
    """An entry leaves both tables and is free for another vertex. There is no old table."""
    table = ld(ctx, FOREST_TABLE)
    mask = ld(ctx, FOREST_TABLE_SIZE) - 1
    slot = _hash_of(ctx, entry) & mask
    while ld(table, slot) & ENTRY_BITS != entry + 1:
        slot = (slot + 1) & mask
    _vacate(ctx, FOREST_TABLE, slot, False)
    entries = ld(ctx, FOREST_ENTRIES)
    at = place(ctx, entry)
    if ld(ctx, FOREST_QUESTIONS) > 0:
        node = ld(entries, at + VERTEX_NODE)
        following = ld(entries, at + VERTEX_NEXT)
        heads = ld(ctx, FOREST_HEADS)
        slot = _head_slot(ctx, heads, ld(ctx, FOREST_HEADS_SIZE), node)
        other = (ld(heads, slot) & ENTRY_BITS) - 1
        if other == entry and following == NO_PARENT:
            _vacate(ctx, FOREST_HEADS, slot, True)
            st(ctx, FOREST_HEADS_N, ld(ctx, FOREST_HEADS_N) - 1)
        elif other == entry:
            st(heads, slot, _tag(_hash_node(node)) | (following + 1))
        else:
            while next_of(ctx, other) != entry:
                other = next_of(ctx, other)
            st(entries, place(ctx, other) + VERTEX_NEXT, following)
    st(entries, at + VERTEX_NEXT, ld(ctx, FOREST_FREE))
    st(ctx, FOREST_FREE, entry + 1)
    st(ctx, FOREST_FREE_N, ld(ctx, FOREST_FREE_N) + 1)
    return 0


@inner
def _cleared(ctx, field):
    """Nothing is in the table of a field, which has a size."""
    old = ld(ctx, field + OLD)
    st(ctx, field + OLD, 0)
    st(ctx, field + OLD_SIZE, 0)
    free(old)
    if ld(ctx, field + SIZE) == 0:
        st(ctx, field, zeros(1024))
        st(ctx, field + SIZE, 1024)
    for i in range(ld(ctx, field + SIZE)):
        st(ld(ctx, field), i, 0)


@shared
def forget_entries(ctx):
    """Forget all entries, and what a step has changed of them, keeping the memory they had."""
    for field in (
        FOREST_BUILT, FOREST_ENTRIES_N, FOREST_HEADS_N, FOREST_SERIAL, FOREST_FREE, FOREST_FREE_N, FOREST_DIRECT,
        FOREST_SWEPT_BALL, FOREST_SWEPT_AT, FOREST_LOG_N, FOREST_LOG_FROM, FOREST_HEAP_N, FOREST_STACK_N, FOREST_BAD_N,
    ):  # fmt: skip
        st(ctx, field, 0)
    _cleared(ctx, FOREST_TABLE)
    if ld(ctx, FOREST_QUESTIONS) > 0:
        _cleared(ctx, FOREST_HEADS)
    return 0


@shared
def empty_forest(ctx):
    """Let a step begin with an empty forest."""
    forget(ctx)
    forget_entries(ctx)
    return 0
