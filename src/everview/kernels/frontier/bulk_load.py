"""Bulk construction of a forest from the edges and the sources as of a time.

Where most of what there is has just come, repairing vertex by vertex (`repair`) would look every neighbour up in a
table of hashes, and order all of them by a heap. Here vertices are *slots*: the node less the smallest one
(`load_block`). Entries are made at the end, in the order of nodes: one for every slot if
most have a value, so that a node's number finds it, else in a table that has their size. That is possible where the
numbers of nodes lie close together (`SPREAD_OUT`), there are no questions, and no edge is wild; everything else is
grown by `repair.spread`. Measured on 100,000 nodes with 500,000 edges, a whole load takes a third of the time.

    SOURCING    the sources' own values: the best for each slot
    ARRANGING   whether they are in order of their nodes, too
    WALKING     from the best value on, each slot gives what it has to its neighbours
    ENTERING    slots become entries

*Without a heap.* If every edge adds the same (hops, labels, reachability), values are assigned in the order in which
they are taken: a queue suffices. It is merged with the sources, if these are in order; each slot is processed once.
Long queues are walked many slots at a time, on all threads (`queue_walk`).

The result is one that repairing could have produced: the pair of a parent comes before that of its child (see
`repair`).

All temporary state is one block, FOREST_LOAD. A failed step frees it, and the forest is rebuilt at the next change:
there is no log.
"""

from __future__ import annotations

from everview.kernels.build.native import inner, shared
from everview.kernels.frontier.epochs import spare_slots
from everview.kernels.frontier.forest import (
    ALONG_ADD,
    ALONG_SAME,
    FLAG_BASED,
    FOREST_ENTRIES,
    FOREST_ENTRIES_N,
    FOREST_FUEL,
    FOREST_HEAP_N,
    FOREST_LOAD,
    FOREST_NRULES,
    FOREST_QUESTIONS,
    FOREST_RULES,
    FOREST_START,
    FOREST_STEP,
    FOREST_WILD,
    NO_PARENT,
    OWN_VALUE,
    RULE_BACKWARD,
    RULE_FORWARD,
    RULE_FORWARD_WEIGHT,
    RULE_KIND,
    RULE_WORDS,
    VERTEX_BASE,
    VERTEX_DEPTH,
    VERTEX_FLAGS,
    VERTEX_NEXT,
    VERTEX_NODE,
    VERTEX_PARENT,
    VERTEX_STAMP,
    VERTEX_VALUE,
    WORST_VALUE,
    depth_below,
    free_load,
    place,
    pop,
    push,
)
from everview.kernels.frontier.load_block import (
    LOAD_AT,
    LOAD_DIRECT,
    LOAD_HEAD,
    LOAD_LOW,
    LOAD_QUEUED,
    LOAD_SLOTS,
    LOAD_STAGE,
    LOAD_STANDING,
    LOAD_TAIL,
    SLOT_BASE,
    SLOT_DEPTH,
    SLOT_PARENT,
    SLOT_VALUE,
    enqueue,
    hand_on,
    improves,
    load_words,
    queue_at,
    slot_at,
)
from everview.kernels.frontier.offers import (
    FAULT_PATH,
    all_there,
    base_in,
    edges_of,
    fails,
    first_row,
    is_there,
    offered,
    weight_of,
)
from everview.kernels.frontier.queue_walk import (
    LEAST_AT_ONCE,
    MOST_AT_ONCE,
    end_walk,
    start_walk,
    walk_queue,
)
from everview.kernels.frontier.vertex_lookup import enter, room_for
from everview.kernels.memory import alloc, ld, st
from everview.kernels.run.step import STEP_FAULT
from everview.kernels.trace.batch import (
    BATCH_CAP,
    BATCH_DATA,
    BATCH_ROWS,
)
from everview.kernels.trace.trace import TRACE_COUNT, TRACE_TABLE, trace_rows

SPREAD_OUT = 1
"""Slots for each row of edges and sources, at most: the block is then no larger than the edges' indexes are."""

DIRECT_UP_TO = 3
"""Slots for each one that has a value up to which every slot has an entry (`vertex_lookup`): less than `epochs.WASTE`,
so that a forest is not grown again and again. With many edges for each node there may be more (`epochs.spare_slots`).
"""

FEW_SLOTS = 4096
"""Slots that there may always be."""

STAGE_SOURCING, STAGE_ARRANGING, STAGE_WALKING, STAGE_ENTERING, STAGE_DONE = range(5)


@inner
def key_range(trace, low, high):
    """The smallest and the largest node in the first column of a trace, and of what was known before."""
    for b in range(ld(trace, TRACE_COUNT)):
        batch = ld(ld(trace, TRACE_TABLE), b)
        rows = ld(batch, BATCH_ROWS)
        if rows > 0:
            data = ld(batch, BATCH_DATA)
            low = min(low, ld(data, 0))
            high = max(high, ld(data, rows - 1))
    return low, high


@inner
def _uniform(rules, n):
    """Whether all edges of all rules add the same, which is not negative."""
    kind = ld(rules, RULE_KIND)
    weight = ld(rules, RULE_FORWARD_WEIGHT)
    if kind != ALONG_SAME and (kind != ALONG_ADD or weight >= 0 or ~weight < 0):
        return False
    for r in range(1, n):
        at = r * RULE_WORDS
        if ld(rules, at + RULE_KIND) != kind:
            return False
        if kind == ALONG_ADD and ld(rules, at + RULE_FORWARD_WEIGHT) != weight:
            return False
    return True


@shared
def prepare(ctx):
    """Make ready to grow the forest at once; 0 if it cannot be."""
    n = ld(ctx, FOREST_NRULES)
    if ld(ctx, FOREST_QUESTIONS) != 0 or ld(ctx, FOREST_WILD) != 0 or n == 0:
        return 0
    rules = ld(ctx, FOREST_RULES)
    start = ld(ctx, FOREST_START)
    low, high = key_range(start, 2**63 - 1, -(2**63))
    rows = trace_rows(start)
    for r in range(n):
        low, high = key_range(ld(rules, r * RULE_WORDS + RULE_FORWARD), low, high)
        low, high = key_range(ld(rules, r * RULE_WORDS + RULE_BACKWARD), low, high)
        rows += trace_rows(ld(rules, r * RULE_WORDS + RULE_FORWARD))
    if low > high or (high >> 1) - (low >> 1) > (SPREAD_OUT * rows + FEW_SLOTS) >> 1:
        return 0
    slots = high - low + 1
    free_load(ctx)
    load = alloc(load_words(slots))
    st(ctx, FOREST_LOAD, load)
    st(load, LOAD_STAGE, STAGE_SOURCING)
    st(load, LOAD_AT, 0)
    st(load, LOAD_LOW, low)
    st(load, LOAD_SLOTS, slots)
    st(load, LOAD_QUEUED, 1 if _uniform(rules, n) else 0)
    st(load, LOAD_HEAD, 0)
    st(load, LOAD_TAIL, 0)
    st(load, LOAD_STANDING, 0)
    for s in range(slots):
        at = slot_at(s)
        st(load, at + SLOT_VALUE, WORST_VALUE)
        st(load, at + SLOT_PARENT, NO_PARENT)
        st(load, at + SLOT_BASE, WORST_VALUE)
    st(ctx, FOREST_FUEL, ld(ctx, FOREST_FUEL) - slots)
    return 1


@shared
def _source(ctx, load, time):
    """The sources' own values, from batch number LOAD_AT on. 0: one is as bad as none is, which slots cannot tell."""
    trace = ld(ctx, FOREST_START)
    low = ld(load, LOAD_LOW)
    while ld(load, LOAD_AT) < ld(trace, TRACE_COUNT):
        if ld(ctx, FOREST_FUEL) < 0:
            return 1
        batch = ld(ld(trace, TRACE_TABLE), ld(load, LOAD_AT))
        data = ld(batch, BATCH_DATA)
        cap = ld(batch, BATCH_CAP)
        plain = all_there(trace, batch, data, time)
        for i in range(ld(batch, BATCH_ROWS)):
            x = base_in(ctx, data, cap, i)
            at = slot_at(ld(data, i) - low)
            if x == WORST_VALUE:
                return 0
            if x < ld(load, at + SLOT_BASE) and is_there(plain, trace, batch, data, i, time):
                st(load, at + SLOT_BASE, x)
                st(load, at + SLOT_VALUE, x)
                st(load, at + SLOT_PARENT, OWN_VALUE)
                st(load, at + SLOT_DEPTH, 0)
        st(ctx, FOREST_FUEL, ld(ctx, FOREST_FUEL) - ld(batch, BATCH_ROWS))
        st(load, LOAD_AT, ld(load, LOAD_AT) + 1)
    st(load, LOAD_STAGE, STAGE_ARRANGING)
    return 1


@shared
def _arrange(ctx, load):
    """Keep to the queue if the sources' values ascend with their nodes; else all go into the heap."""
    slots = ld(load, LOAD_SLOTS)
    last = -(2**63)
    for s in range(slots):
        x = ld(load, slot_at(s) + SLOT_BASE)
        if x != WORST_VALUE:
            if x < last:
                st(load, LOAD_QUEUED, 0)
            last = x
    if ld(load, LOAD_QUEUED) == 0:
        for s in range(slots):
            if ld(load, slot_at(s) + SLOT_BASE) != WORST_VALUE:
                push(ctx, ld(load, slot_at(s) + SLOT_BASE), 0, s)
    st(ctx, FOREST_FUEL, ld(ctx, FOREST_FUEL) - slots)
    st(load, LOAD_AT, 0)
    st(load, LOAD_STAGE, STAGE_WALKING)
    return 0


@inner
def _next_source(load):
    """Move LOAD_AT to the first slot from there on whose own value is what counts; LOAD_SLOTS: there is none."""
    slots = ld(load, LOAD_SLOTS)
    s = ld(load, LOAD_AT)
    while s < slots and ld(load, slot_at(s) + SLOT_PARENT) != OWN_VALUE:
        s += 1
    st(load, LOAD_AT, s)
    return s


@inner
def _next_queued(load):
    """The slot with the best value that was not asked yet, of the queue and the sources; -1 if there is none."""
    s = _next_source(load)
    none_left = s == ld(load, LOAD_SLOTS)
    head = ld(load, LOAD_HEAD)
    if head < ld(load, LOAD_TAIL):
        queued = ld(load, queue_at(load) + head)
        if none_left or ld(load, slot_at(queued) + SLOT_VALUE) < ld(load, slot_at(s) + SLOT_VALUE):
            st(load, LOAD_HEAD, head + 1)
            return queued
    elif none_left:
        return -1
    st(load, LOAD_AT, s + 1)
    return s


@inner
def _queued_before_sources(load):
    """Where a part of the queue ends, from its head on, whose slots all come before the next source; the head if that
    part is too short to be walked as one.
    """
    head = ld(load, LOAD_HEAD)
    end = min(ld(load, LOAD_TAIL), head + MOST_AT_ONCE)
    if end - head < LEAST_AT_ONCE:
        return head
    s = _next_source(load)
    last = ld(load, queue_at(load) + end - 1)
    if s < ld(load, LOAD_SLOTS) and ld(load, slot_at(last) + SLOT_VALUE) >= ld(load, slot_at(s) + SLOT_VALUE):
        return head
    return end


@inner
def _next_heaped(ctx, load):
    """The same of the heap, where what has got better since is passed over."""
    while ld(ctx, FOREST_HEAP_N) > 0:
        first, s = pop(ctx)
        if ld(load, slot_at(s) + SLOT_VALUE) == first:
            return s
    return -1


@inner
def _walk_from(ctx, load, rules, s, queued, time):
    """Offer a slot's value along all edges."""
    low = ld(load, LOAD_LOW)
    x = ld(load, slot_at(s) + SLOT_VALUE)
    deep = ld(load, slot_at(s) + SLOT_DEPTH)
    node = low + s
    for r in range(ld(ctx, FOREST_NRULES)):
        rule = r * RULE_WORDS
        trace, column = edges_of(rules, rule, True)
        offers, y = offered(rules, rule, x, ~column)
        for b in range(ld(trace, TRACE_COUNT)):
            batch = ld(ld(trace, TRACE_TABLE), b)
            data = ld(batch, BATCH_DATA)
            cap = ld(batch, BATCH_CAP)
            rows = ld(batch, BATCH_ROWS)
            plain = all_there(trace, batch, data, time)
            i = first_row(ctx, batch, node)
            first = i
            while i < rows and ld(data, i) == node:
                if column >= 0 or not offers:
                    weight = weight_of(ctx, data, cap, i, column)
                    offers, y = offered(rules, rule, x, weight)
                    if not offers and fails(rules, rule, x, weight) and is_there(plain, trace, batch, data, i, time):
                        st(ld(ctx, FOREST_STEP), STEP_FAULT, FAULT_PATH)
                if offers:
                    t = ld(data, cap + i) - low
                    if improves(load, t, y) and is_there(plain, trace, batch, data, i, time):
                        hand_on(load, s, x, deep, t, y)
                        if queued:
                            enqueue(load, t)
                        else:
                            push(ctx, y, depth_below(x, y, deep), t)
                i += 1
            st(ctx, FOREST_FUEL, ld(ctx, FOREST_FUEL) - (i - first) - 1)


@shared
def _walk(ctx, load, time):
    """Let every slot give what it has to its neighbours, the best first."""
    rules = ld(ctx, FOREST_RULES)
    queued = ld(load, LOAD_QUEUED) != 0
    shares = 0
    while ld(ctx, FOREST_FUEL) >= 0:
        end = _queued_before_sources(load) if queued else 0
        if queued and end > ld(load, LOAD_HEAD):
            if shares == 0:
                shares = start_walk(ctx, load, time)
            walk_queue(shares, end)
            continue
        s = _next_queued(load) if queued else _next_heaped(ctx, load)
        if s < 0:
            st(load, LOAD_AT, 0)
            st(load, LOAD_STAGE, STAGE_ENTERING)
            break
        _walk_from(ctx, load, rules, s, queued, time)
    end_walk(shares)
    return 0


@inner
def _number(load):
    """Give the slots that have a value their numbers, in order; how many there are."""
    number = queue_at(load)
    n = 0
    for s in range(ld(load, LOAD_SLOTS)):
        st(load, number + s, n)
        if ld(load, slot_at(s) + SLOT_PARENT) != NO_PARENT:
            n += 1
    return n


@inner
def _make_room(ctx, load):
    """Room for all entries: for every slot one (LOAD_DIRECT) if most have a value, else only for those that have."""
    standing = _number(load)
    slots = ld(load, LOAD_SLOTS)
    direct = slots <= DIRECT_UP_TO * standing + FEW_SLOTS + spare_slots(ctx)
    st(load, LOAD_DIRECT, 1 if direct else 0)
    st(load, LOAD_STANDING, slots if direct else standing)
    room_for(ctx, ld(load, LOAD_STANDING), slots if direct else 0, ld(load, LOAD_LOW))


@inner
def _enter(ctx, load, s, one, parent):
    """Make entry number `one` of a slot."""
    entries = ld(ctx, FOREST_ENTRIES)
    at = place(ctx, one)
    base = ld(load, slot_at(s) + SLOT_BASE)
    based = base != WORST_VALUE
    standing = parent != NO_PARENT
    st(entries, at + VERTEX_NODE, ld(load, LOAD_LOW) + s)
    st(entries, at + VERTEX_VALUE, ld(load, slot_at(s) + SLOT_VALUE))
    st(entries, at + VERTEX_PARENT, parent)
    st(entries, at + VERTEX_DEPTH, ld(load, slot_at(s) + SLOT_DEPTH) if standing else 0)
    st(entries, at + VERTEX_BASE, base if based else 0)
    st(entries, at + VERTEX_FLAGS, FLAG_BASED if based else 0)
    st(entries, at + VERTEX_STAMP, 0)
    st(entries, at + VERTEX_NEXT, NO_PARENT)


@shared
def _enter_all(ctx, load):
    """Make the entries, from slot LOAD_AT on."""
    if ld(load, LOAD_AT) == 0:
        _make_room(ctx, load)
    number = queue_at(load)
    direct = ld(load, LOAD_DIRECT) != 0
    s = ld(load, LOAD_AT)
    slots = ld(load, LOAD_SLOTS)
    while s < slots and ld(ctx, FOREST_FUEL) >= 0:
        p = ld(load, slot_at(s) + SLOT_PARENT)
        if direct:
            _enter(ctx, load, s, s, p)
            st(ctx, FOREST_FUEL, ld(ctx, FOREST_FUEL) - 1)
        elif p != NO_PARENT:
            _enter(ctx, load, s, ld(load, number + s), p if p == OWN_VALUE else ld(load, number + p))
            enter(ctx, ld(load, LOAD_LOW) + s, ld(load, number + s))
            st(ctx, FOREST_FUEL, ld(ctx, FOREST_FUEL) - 4)
        s += 1
    st(load, LOAD_AT, s)
    if s == slots:
        st(ctx, FOREST_ENTRIES_N, ld(load, LOAD_STANDING))
        st(load, LOAD_STAGE, STAGE_DONE)
    return 0


LOAD_UNDER_WAY, LOAD_DONE, LOAD_IMPOSSIBLE = range(3)


@shared
def grow_at_once(ctx, time):
    """Go on for as long as there is fuel: LOAD_DONE when the forest is grown; LOAD_IMPOSSIBLE: it must be grown
    otherwise, and nothing of it is there yet.
    """
    load = ld(ctx, FOREST_LOAD)
    while ld(ctx, FOREST_FUEL) >= 0:
        stage = ld(load, LOAD_STAGE)
        if stage == STAGE_SOURCING:
            if _source(ctx, load, time) == 0:
                free_load(ctx)
                return LOAD_IMPOSSIBLE
        elif stage == STAGE_ARRANGING:
            _arrange(ctx, load)
        elif stage == STAGE_WALKING:
            _walk(ctx, load, time)
        elif stage == STAGE_ENTERING:
            _enter_all(ctx, load)
        else:
            free_load(ctx)
            return LOAD_DONE
    return LOAD_UNDER_WAY
