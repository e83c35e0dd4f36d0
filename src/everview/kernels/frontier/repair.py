"""One epoch of a forest: what a change cuts is repaired from what still stands.

The central invariant: *(value, depth) of a parent comes before that of its child*; the depth counts edges on which the
value stays the same. A vertex whose pair comes before mine is therefore not my descendant, and may become my parent
without further checks. Cycles cannot support themselves, and most deletions end at the vertex they hit.

    cut      tree edges that went, and sources that got worse: who hung there is suspect
    trim     a suspect hangs itself to another that offers the same value (and comes before it), or falls; the children
             of all that fell are suspect then
    regrow   who fell takes the best offer of those that stand
    offer    new edges and sources make their offers
    spread   Dijkstra, from all that got better or grew again

The potentially long phases stop when FOREST_FUEL is used up and continue on the next call. They return 1 when done.

*Loads.* An epoch that changes more than the forest holds starts from the sources alone, and spreads once, in order:
offers of values that change again before the end would be most of the work. Most are grown by `bulk_load`, not here.

*Wild weights.* If an edge may improve a value the invariant does not hold. While there is such an edge, every epoch
starts from the sources alone and spreads in rounds (Bellman-Ford, the heap ordered by number of edges): correct, but
slow. A path longer than the number of vertices contains a negative cycle. Weights beyond 2**61 are wild, too: then it
depends only on the graph whether a path overflows 64 bits.

*Levels.* Where values tie, a suspect without a parent of an earlier level may hang from another one of its own, as long
as nobody of that level hangs from itself: a vertex on the level is then not below it, and all that are below it are on
later ones (`forest.depth_below`). In a component nearly every vertex finds such a neighbour, and does not fall.

*Who spreads.* A vertex that grew again, and is worse than before, can only help those who fell. Who regrows first
leaves a mark at every neighbour that has no value yet (WANTED), and who regrows later takes the offer of who has one.
So only those spread that are marked, or better than before.

Trap: a regrown vertex may be better than before, by an edge that came in the same epoch: then it spreads.
"""

from __future__ import annotations

from everview.kernels.build.native import inner, shared
from everview.kernels.frontier.balls import enlist, is_open, open_ball, radius_of
from everview.kernels.frontier.edge_hints import STAGE_ENDS, STAGE_INDEX, STAGE_ROWS, hint_entry, hint_first, hint_on
from everview.kernels.frontier.forest import (
    ALONG_SAME,
    FLAG_BASED,
    FLAG_BESIDE,
    FLAG_DOUBT,
    FOREST_BAD,
    FOREST_BAD_N,
    FOREST_CHANGES,
    FOREST_CURSOR,
    FOREST_ENTRIES,
    FOREST_ENTRIES_N,
    FOREST_EPOCHS_AT,
    FOREST_FUEL,
    FOREST_HEAP,
    FOREST_HEAP_N,
    FOREST_KEY,
    FOREST_NRULES,
    FOREST_QUESTIONS,
    FOREST_RULES,
    FOREST_STACK,
    FOREST_STACK_N,
    FOREST_START,
    FOREST_STEP,
    FOREST_WILD,
    NO_PARENT,
    OWN_VALUE,
    RULE_FORWARD,
    RULE_FORWARD_WEIGHT,
    RULE_KIND,
    RULE_WORDS,
    VERTEX_BASE,
    VERTEX_DEPTH,
    VERTEX_FLAGS,
    VERTEX_NODE,
    VERTEX_PARENT,
    VERTEX_VALUE,
    WORST_VALUE,
    ask,
    depth_below,
    hold,
    hold_beside,
    is_level_before,
    may_stand_beside,
    next_suspect,
    place,
    pop,
    push,
    suspect,
    touch,
    turned,
)
from everview.kernels.frontier.offers import (
    FAULT_CYCLE,
    FAULT_PATH,
    LARGE,
    adds,
    base_in,
    edges_of,
    fails,
    first_row,
    is_wild,
    offered,
    read_base,
    settle_base,
    still_held,
    there,
    weight_of,
)
from everview.kernels.frontier.vertex_lookup import find, first_of, found_or_new, hint, new_entry, next_of
from everview.kernels.memory import ld, reserve, st
from everview.kernels.run.step import STEP_FAULT
from everview.kernels.trace.batch import BATCH_CAP, BATCH_DATA, BATCH_ROWS, diff_at
from everview.kernels.trace.prefetch import FAR_AHEAD
from everview.kernels.trace.trace import TRACE_COUNT, TRACE_DELTA, TRACE_TABLE, trace_rows

UNWANTED, WANTED = 0, 1
"""VERTEX_DEPTH of one that fell: whether its offer was missed by another one that fell."""

FEW = 1024
"""Changes of an epoch up to which it is always mended."""

MENDING = 16
"""Edges that are walked, when a forest is grown at once, in the time in which a change is mended. Measured on a million
nodes with five million edges: 7 us for a deletion, 2 for an insertion, 0.15 for an edge that is walked, and as much
again for what is said. Where changes are cheaper (few of many edges are in the trees) it is too many, and costs no more
than a load does.
"""


@inner
def _sourced(ctx, delta, row):
    """The entry that a changed row of sources is about; FOREST_KEY becomes its question."""
    data = ld(delta, BATCH_DATA)
    cap = ld(delta, BATCH_CAP)
    questions = ld(ctx, FOREST_QUESTIONS)
    for c in range(questions):
        st(ld(ctx, FOREST_KEY), c, ld(data, c * cap + row))
    return found_or_new(ctx, ld(data, questions * cap + row))


@inner
def _queue(ctx, entry):
    """Let an entry that got a value spread it."""
    at = place(ctx, entry)
    entries = ld(ctx, FOREST_ENTRIES)
    if ld(ctx, FOREST_WILD) > 0:
        push(ctx, ld(entries, at + VERTEX_DEPTH), 0, entry)
    else:
        push(ctx, ld(entries, at + VERTEX_VALUE), ld(entries, at + VERTEX_DEPTH), entry)


@inner
def _depth(ctx, x, y, depth):
    """The depth of a child that takes the value y from one with the value x."""
    if ld(ctx, FOREST_WILD) > 0:
        return depth + 1
    return depth_below(x, y, depth)


@inner
def _cut_edge(ctx, rules, rule, delta, row, time):
    """An edge went: whoever hangs from it, in any question, is suspect unless a parallel one holds it."""
    data = ld(delta, BATCH_DATA)
    cap = ld(delta, BATCH_CAP)
    near = ld(data, row)
    far = ld(data, cap + row)
    weight = weight_of(ctx, data, cap, row, ld(rules, rule + RULE_FORWARD_WEIGHT))
    parent = first_of(ctx, near)
    while parent != NO_PARENT:
        ask(ctx, parent)
        child = find(ctx, far) if turned(ctx, rules, rule, place(ctx, parent), True) else NO_PARENT
        if child != NO_PARENT:
            entries = ld(ctx, FOREST_ENTRIES)
            y = ld(entries, place(ctx, child) + VERTEX_VALUE)
            if ld(entries, place(ctx, child) + VERTEX_PARENT) == parent:
                x = ld(entries, place(ctx, parent) + VERTEX_VALUE)
                offers, value = offered(rules, rule, x, weight)
                if offers and value == y and still_held(ctx, rules, rule, near, far, x, y, time) == 0:
                    suspect(ctx, child)
        parent = next_of(ctx, parent)


@inner
def _base_stays(ctx, at, delta, row, time):
    """Whether a changed row of sources does nothing to an entry, as most do where every edge makes its ends sources: it
    came and is no better, or it went and was not the best. If it was, and another value counts, it is only noted as in
    doubt: how often it is there would be asked of every batch.
    """
    entries = ld(ctx, FOREST_ENTRIES)
    if ld(entries, at + VERTEX_FLAGS) & FLAG_BASED == 0:
        return False
    data = ld(delta, BATCH_DATA)
    value = base_in(ctx, data, ld(delta, BATCH_CAP), row)
    base = ld(entries, at + VERTEX_BASE)
    if diff_at(delta, data, row, 0) > 0:
        return value >= base
    if value == base and ld(entries, at + VERTEX_PARENT) != OWN_VALUE:
        st(entries, at + VERTEX_FLAGS, ld(entries, at + VERTEX_FLAGS) | FLAG_DOUBT)
        return True
    return value > base or (value == base and there(ld(ctx, FOREST_START), delta, row, time) != 0)


@inner
def _cut_source(ctx, delta, row, time):
    """A source changed: it is suspect if its own value was what counted, and is not any more."""
    entry = _sourced(ctx, delta, row)
    entries = ld(ctx, FOREST_ENTRIES)
    at = place(ctx, entry)
    if _base_stays(ctx, at, delta, row, time):
        return
    read_base(ctx, entry, ld(entries, at + VERTEX_NODE), time)
    entries = ld(ctx, FOREST_ENTRIES)
    if ld(entries, at + VERTEX_PARENT) == OWN_VALUE:
        based = ld(entries, at + VERTEX_FLAGS) & FLAG_BASED != 0
        if not based or ld(entries, at + VERTEX_BASE) > ld(entries, at + VERTEX_VALUE):
            suspect(ctx, entry)


@inner
def change_at(ctx, i):
    """Change number i of the step: (rule's place in FOREST_RULES or -1 for a source, its delta, row)."""
    changes = ld(ctx, FOREST_CHANGES)
    source = ld(changes, 1 + 2 * i)
    row = ld(changes, 2 + 2 * i)
    if source == ld(ctx, FOREST_NRULES):
        return -1, ld(ld(ctx, FOREST_START), TRACE_DELTA), row
    rule = source * RULE_WORDS
    return rule, ld(ld(ld(ctx, FOREST_RULES), rule + RULE_FORWARD), TRACE_DELTA), row


@inner
def _hint_change(ctx, i, last):
    """Change number i will be looked at, if it is one before the last: ask for the entries of its ends."""
    if i < last and ld(ctx, FOREST_QUESTIONS) == 0:
        rule, delta, row = change_at(ctx, i)
        data = ld(delta, BATCH_DATA)
        hint(ctx, ld(data, row))
        if rule >= 0:
            hint(ctx, ld(data, ld(delta, BATCH_CAP) + row))


@inner
def _count_changed(ctx, rules, epoch):
    """Bring the number of wild edges up to date with an epoch's changes; what it is now."""
    bounds = ld(ctx, FOREST_EPOCHS_AT)
    wild = ld(ctx, FOREST_WILD)
    for i in range(ld(bounds, epoch), ld(bounds, epoch + 1)):
        rule, delta, row = change_at(ctx, i)
        if rule >= 0 and ld(rules, rule + RULE_KIND) != ALONG_SAME:
            data = ld(delta, BATCH_DATA)
            weight = weight_of(ctx, data, ld(delta, BATCH_CAP), row, ld(rules, rule + RULE_FORWARD_WEIGHT))
            if is_wild(ld(rules, rule + RULE_KIND), weight):
                wild += diff_at(delta, data, row, 0)
    st(ctx, FOREST_WILD, wild)
    return wild


@shared
def must_start_anew(ctx, epoch):
    """Whether an epoch must start from the sources alone: there are wild edges, before or after, or it changes more
    than there is.
    """
    bounds = ld(ctx, FOREST_EPOCHS_AT)
    before = ld(ctx, FOREST_WILD)
    wild = _count_changed(ctx, ld(ctx, FOREST_RULES), epoch)
    many = ld(bounds, epoch + 1) - ld(bounds, epoch)
    return 1 if wild > 0 or before > 0 or many > 2 * ld(ctx, FOREST_ENTRIES_N) + FEW else 0


@shared
def changes_much(ctx, epoch):
    """Whether growing the forest again, at once, is cheaper than to mend what an epoch changes."""
    rules = ld(ctx, FOREST_RULES)
    edges = 0
    for r in range(ld(ctx, FOREST_NRULES)):
        edges += trace_rows(ld(rules, r * RULE_WORDS + RULE_FORWARD))
    bounds = ld(ctx, FOREST_EPOCHS_AT)
    return 1 if MENDING * (ld(bounds, epoch + 1) - ld(bounds, epoch)) > edges + MENDING * FEW else 0


@shared
def cut(ctx, epoch, time, anew):
    """See the module; `anew`: see `must_start_anew`."""
    rules = ld(ctx, FOREST_RULES)
    bounds = ld(ctx, FOREST_EPOCHS_AT)
    last = ld(bounds, epoch + 1)
    for i in range(ld(bounds, epoch), ld(bounds, epoch) + FAR_AHEAD):
        _hint_change(ctx, i, last)
    for i in range(ld(bounds, epoch), last):
        _hint_change(ctx, i + FAR_AHEAD, last)
        rule, delta, row = change_at(ctx, i)
        if rule < 0:
            _cut_source(ctx, delta, row, time)
        elif anew == 0 and diff_at(delta, ld(delta, BATCH_DATA), row, 0) < 0:
            _cut_edge(ctx, rules, rule, delta, row, time)
    return 0


@shared
def start_anew(ctx, time):
    """Let only the sources' own values stand, and spread them."""
    while ld(ctx, FOREST_STACK_N) > 0:
        next_suspect(ctx)
    for entry in range(ld(ctx, FOREST_ENTRIES_N)):
        ask(ctx, entry)
        settle_base(ctx, entry, time)
        at = place(ctx, entry)
        entries = ld(ctx, FOREST_ENTRIES)
        based = ld(entries, at + VERTEX_FLAGS) & FLAG_BASED != 0
        if based or ld(entries, at + VERTEX_PARENT) != NO_PARENT:
            touch(ctx, entry)
            if based:
                hold(ctx, entry, ld(entries, at + VERTEX_BASE), OWN_VALUE, 0)
                _queue(ctx, entry)
            else:
                hold(ctx, entry, WORST_VALUE, NO_PARENT, 0)
    return 0


@inner
def _find_parent(ctx, rules, entry, time, sure):
    """(parent, beside, trace, batch, row) of an edge by which a suspect keeps its value: of one that is there, and
    comes from an earlier level; else `beside`, of one from its own level. `sure`: only if that is there too; else it is
    still to be asked.
    """
    at = place(ctx, entry)
    entries = ld(ctx, FOREST_ENTRIES)
    y = ld(entries, at + VERTEX_VALUE)
    depth = ld(entries, at + VERTEX_DEPTH)
    node = ld(entries, at + VERTEX_NODE)
    has_beside = ld(entries, at + VERTEX_FLAGS) & FLAG_BESIDE
    beside = NO_PARENT
    best_trace = 0
    best_batch = 0
    best_row = 0
    for r in range(ld(ctx, FOREST_NRULES)):
        rule = r * RULE_WORDS
        if not turned(ctx, rules, rule, at, False):
            continue
        trace, column = edges_of(rules, rule, False)
        for b in range(ld(trace, TRACE_COUNT)):
            batch = ld(ld(trace, TRACE_TABLE), b)
            data = ld(batch, BATCH_DATA)
            cap = ld(batch, BATCH_CAP)
            rows = ld(batch, BATCH_ROWS)
            i = first_row(ctx, batch, node)
            while i < rows and ld(data, i) == node:
                other = find(ctx, ld(data, cap + i))
                if other != NO_PARENT:
                    up = place(ctx, other)
                    x = ld(entries, up + VERTEX_VALUE)
                    deep = ld(entries, up + VERTEX_DEPTH)
                    earlier = x < y or (x == y and is_level_before(deep, depth))
                    usable = earlier
                    if not earlier and x == y and beside == NO_PARENT and other != entry:
                        usable = may_stand_beside(depth, deep, has_beside)
                    if usable and ld(entries, up + VERTEX_PARENT) != NO_PARENT and adds(batch, data, i, time):
                        offers, value = offered(rules, rule, x, weight_of(ctx, data, cap, i, column))
                        if offers and value == y and ((not earlier and not sure) or there(trace, batch, i, time) != 0):
                            if earlier:
                                return other, NO_PARENT, trace, batch, i
                            beside = other
                            best_trace = trace
                            best_batch = batch
                            best_row = i
                i += 1
            st(ctx, FOREST_FUEL, ld(ctx, FOREST_FUEL) - 1)
    return NO_PARENT, beside, best_trace, best_batch, best_row


@inner
def _rehang(ctx, rules, entry, time):
    """Hang a suspect somewhere else, where it keeps its value; whether that is possible."""
    at = place(ctx, entry)
    y = ld(ld(ctx, FOREST_ENTRIES), at + VERTEX_VALUE)
    if _is_own(ctx, at, y):
        settle_base(ctx, entry, time)
        if _is_own(ctx, at, y):
            touch(ctx, entry)
            hold(ctx, entry, y, OWN_VALUE, 0)
            return True
    sure = False
    while True:
        parent, beside, trace, batch, row = _find_parent(ctx, rules, entry, time, sure)
        if sure or beside == NO_PARENT or there(trace, batch, row, time) != 0:
            break
        sure = True
    if parent != NO_PARENT:
        touch(ctx, entry)
        entries = ld(ctx, FOREST_ENTRIES)
        up = place(ctx, parent)
        hold(ctx, entry, y, parent, depth_below(ld(entries, up + VERTEX_VALUE), y, ld(entries, up + VERTEX_DEPTH)))
    elif beside != NO_PARENT:
        touch(ctx, entry)
        hold_beside(ctx, entry, y, beside)
    return parent != NO_PARENT or beside != NO_PARENT


@inner
def _is_own(ctx, at, y):
    """Whether a value is the own one of the entry at a place, as far as is known."""
    entries = ld(ctx, FOREST_ENTRIES)
    return ld(entries, at + VERTEX_FLAGS) & FLAG_BASED != 0 and ld(entries, at + VERTEX_BASE) == y


@inner
def _suspect_children(ctx, rules, entry, node):
    """All that hang from an entry that fell are suspect. Whether the edges are there need not be asked."""
    for r in range(ld(ctx, FOREST_NRULES)):
        if not turned(ctx, rules, r * RULE_WORDS, place(ctx, entry), True):
            continue
        trace, _ = edges_of(rules, r * RULE_WORDS, True)
        for b in range(ld(trace, TRACE_COUNT)):
            batch = ld(ld(trace, TRACE_TABLE), b)
            data = ld(batch, BATCH_DATA)
            cap = ld(batch, BATCH_CAP)
            rows = ld(batch, BATCH_ROWS)
            i = first_row(ctx, batch, node)
            first = i
            while i < rows and ld(data, i) == node:
                child = find(ctx, ld(data, cap + i))
                if child != NO_PARENT and ld(ld(ctx, FOREST_ENTRIES), place(ctx, child) + VERTEX_PARENT) == entry:
                    suspect(ctx, child)
                i += 1
            st(ctx, FOREST_FUEL, ld(ctx, FOREST_FUEL) - (i - first))


@inner
def _fall(ctx, entry):
    """A suspect has nowhere to hang: it has no value any more, and is noted with the one that it had."""
    touch(ctx, entry)
    at = place(ctx, entry)
    entries = ld(ctx, FOREST_ENTRIES)
    n = ld(ctx, FOREST_BAD_N)
    st(ld(ctx, FOREST_BAD), 1 + 2 * n, entry)
    st(ld(ctx, FOREST_BAD), 2 + 2 * n, ld(entries, at + VERTEX_VALUE))
    st(ctx, FOREST_BAD_N, n + 1)
    hold(ctx, entry, WORST_VALUE, NO_PARENT, UNWANTED)
    st(entries, at + VERTEX_FLAGS, ld(entries, at + VERTEX_FLAGS) & ~FLAG_BESIDE)


@inner
def _try_suspects(ctx, rules, time):
    """Let all suspects hang themselves elsewhere, or fall; False if the fuel is used up."""
    top = ld(ctx, FOREST_STACK_N)
    if top > 0:
        hint_first(ctx, ld(ctx, FOREST_STACK), top, -1, top, 0)
    while top > 0:
        if ld(ctx, FOREST_FUEL) < 0:
            return False
        reserve(ctx, FOREST_BAD, FOREST_BAD_N, 2, 1)
        hint_on(ctx, ld(ctx, FOREST_STACK), top, -1, top, 0)
        entry = next_suspect(ctx)
        ask(ctx, entry)
        if not _rehang(ctx, rules, entry, time):
            _fall(ctx, entry)
        top = ld(ctx, FOREST_STACK_N)
    return True


@inner
def _suspect_below(ctx, rules):
    """Let all be suspect that hang from those that fell lately; False if the fuel is used up."""
    fallen = ld(ctx, FOREST_BAD_N)
    j = ld(ctx, FOREST_CURSOR)
    if j < fallen:
        hint_first(ctx, ld(ctx, FOREST_BAD), 1 + 2 * j, 2, fallen - j, 1)
    while j < fallen:
        if ld(ctx, FOREST_FUEL) < 0:
            return False
        hint_on(ctx, ld(ctx, FOREST_BAD), 1 + 2 * j, 2, fallen - j, 1)
        entry = ld(ld(ctx, FOREST_BAD), 1 + 2 * j)
        ask(ctx, entry)
        _suspect_children(ctx, rules, entry, ld(ld(ctx, FOREST_ENTRIES), place(ctx, entry) + VERTEX_NODE))
        j += 1
        st(ctx, FOREST_CURSOR, j)
    return True


@shared
def trim(ctx, time):
    """See the module. In turns all suspects, and all that fell: lists that are known ahead, so that what each needs can
    be fetched (`edge_hints`).
    """
    rules = ld(ctx, FOREST_RULES)
    while ld(ctx, FOREST_STACK_N) > 0 or ld(ctx, FOREST_CURSOR) < ld(ctx, FOREST_BAD_N):
        if not _try_suspects(ctx, rules, time) or not _suspect_below(ctx, rules):
            return 0
    st(ctx, FOREST_CURSOR, 0)
    return 1


@inner
def _best_offer(ctx, rules, entry, time, sure):
    """(parent, value, depth, trace, batch, row) of the best offer for an entry that fell, and of the edge that makes it
    (batch 0: the entry's own value is best, or there is no offer). `sure`: only edges that are there; else that of the
    best one is still to be asked.
    """
    settle_base(ctx, entry, time)
    at = place(ctx, entry)
    entries = ld(ctx, FOREST_ENTRIES)
    node = ld(entries, at + VERTEX_NODE)
    best = WORST_VALUE
    parent = NO_PARENT
    depth = 0
    best_trace = 0
    best_batch = 0
    best_row = 0
    if ld(entries, at + VERTEX_FLAGS) & FLAG_BASED != 0:
        best = ld(entries, at + VERTEX_BASE)
        parent = OWN_VALUE
    for r in range(ld(ctx, FOREST_NRULES)):
        rule = r * RULE_WORDS
        if not turned(ctx, rules, rule, at, False):
            continue
        trace, column = edges_of(rules, rule, False)
        for b in range(ld(trace, TRACE_COUNT)):
            batch = ld(ld(trace, TRACE_TABLE), b)
            data = ld(batch, BATCH_DATA)
            cap = ld(batch, BATCH_CAP)
            rows = ld(batch, BATCH_ROWS)
            i = first_row(ctx, batch, node)
            while i < rows and ld(data, i) == node:
                other = find(ctx, ld(data, cap + i))
                if other != NO_PARENT:
                    up = place(ctx, other)
                    x = ld(entries, up + VERTEX_VALUE)
                    stands = ld(entries, up + VERTEX_PARENT) != NO_PARENT
                    if not stands:
                        st(entries, up + VERTEX_DEPTH, WANTED)
                    if stands and (parent == NO_PARENT or x <= best) and adds(batch, data, i, time):
                        offers, y = offered(rules, rule, x, weight_of(ctx, data, cap, i, column))
                        if offers and (parent == NO_PARENT or y < best):
                            if not sure or there(trace, batch, i, time) != 0:
                                best = y
                                parent = other
                                depth = _depth(ctx, x, y, ld(entries, up + VERTEX_DEPTH))
                                best_trace = trace
                                best_batch = batch
                                best_row = i
                i += 1
            st(ctx, FOREST_FUEL, ld(ctx, FOREST_FUEL) - 1)
    return parent, best, depth, best_trace, best_batch, best_row


@inner
def _regrow(ctx, rules, entry, time):
    """Take the best offer there is for an entry that fell. Mostly the best edge is there, and is the only one asked."""
    sure = False
    while True:
        parent, best, depth, trace, batch, row = _best_offer(ctx, rules, entry, time, sure)
        if sure or batch == 0 or there(trace, batch, row, time) != 0:
            break
        sure = True
    if parent != NO_PARENT and best > radius_of(ctx, place(ctx, entry)):
        open_ball(ctx, place(ctx, entry))
        parent = NO_PARENT
    if parent != NO_PARENT:
        hold(ctx, entry, best, parent, depth)
    return parent != NO_PARENT, best


@shared
def regrow(ctx, time):
    """See the module."""
    rules = ld(ctx, FOREST_RULES)
    fallen = ld(ctx, FOREST_BAD_N)
    j = ld(ctx, FOREST_CURSOR)
    if j < fallen:
        hint_first(ctx, ld(ctx, FOREST_BAD), 1 + 2 * j, 2, fallen - j, 0)
    while j < fallen:
        if ld(ctx, FOREST_FUEL) < 0:
            st(ctx, FOREST_CURSOR, j)
            return 0
        hint_on(ctx, ld(ctx, FOREST_BAD), 1 + 2 * j, 2, fallen - j, 0)
        entry = ld(ld(ctx, FOREST_BAD), 1 + 2 * j)
        ask(ctx, entry)
        wanted = ld(ld(ctx, FOREST_ENTRIES), place(ctx, entry) + VERTEX_DEPTH) == WANTED
        grown, best = _regrow(ctx, rules, entry, time)
        if grown and (wanted or best < ld(ld(ctx, FOREST_BAD), 2 + 2 * j) or best > LARGE):
            _queue(ctx, entry)
        j += 1
    st(ctx, FOREST_BAD_N, 0)
    st(ctx, FOREST_CURSOR, 0)
    return 1


@inner
def _stands(ctx, entry):
    """Whether an entry (NO_PARENT: no entry) has a value."""
    return entry != NO_PARENT and ld(ld(ctx, FOREST_ENTRIES), place(ctx, entry) + VERTEX_PARENT) != NO_PARENT


@inner
def _better(ctx, entry, y):
    """Whether a value is better than what an entry (NO_PARENT: no entry) has."""
    if entry == NO_PARENT:
        return True
    entries = ld(ctx, FOREST_ENTRIES)
    at = place(ctx, entry)
    return y < ld(entries, at + VERTEX_VALUE) or ld(entries, at + VERTEX_PARENT) == NO_PARENT


@inner
def _offer_edge(ctx, rules, rule, delta, row):
    """A new edge makes its offer, in every question."""
    data = ld(delta, BATCH_DATA)
    cap = ld(delta, BATCH_CAP)
    near = ld(data, row)
    far = ld(data, cap + row)
    weight = weight_of(ctx, data, cap, row, ld(rules, rule + RULE_FORWARD_WEIGHT))
    parent = first_of(ctx, near)
    while parent != NO_PARENT:
        up = place(ctx, parent)
        entries = ld(ctx, FOREST_ENTRIES)
        if ld(entries, up + VERTEX_PARENT) != NO_PARENT:
            x = ld(entries, up + VERTEX_VALUE)
            depth = ld(entries, up + VERTEX_DEPTH)
            offers, y = offered(rules, rule, x, weight)
            ask(ctx, parent)
            applies = turned(ctx, rules, rule, up, True)
            if applies and not offers and fails(rules, rule, x, weight):
                st(ld(ctx, FOREST_STEP), STEP_FAULT, FAULT_PATH)
            if applies and offers:
                child = find(ctx, far)
                if y <= radius_of(ctx, up):
                    _take(ctx, child, far, x, y, parent, depth)
                elif not _stands(ctx, child):
                    open_ball(ctx, up)
        parent = next_of(ctx, parent)


@inner
def _take(ctx, child, node, x, y, parent, depth):
    """Let a child (NO_PARENT: the node has no entry yet) take a value from a parent, if it is better."""
    if _better(ctx, child, y):
        if child == NO_PARENT:
            child = new_entry(ctx, node)
            enlist(ctx, child)
        touch(ctx, child)
        hold(ctx, child, y, parent, _depth(ctx, x, y, depth))
        _queue(ctx, child)


@shared
def offer(ctx, epoch, time):
    """See the module."""
    rules = ld(ctx, FOREST_RULES)
    bounds = ld(ctx, FOREST_EPOCHS_AT)
    last = ld(bounds, epoch + 1)
    for i in range(ld(bounds, epoch), last):
        _hint_change(ctx, i + FAR_AHEAD, last)
        rule, delta, row = change_at(ctx, i)
        if rule < 0:
            entry = _sourced(ctx, delta, row)
            entries = ld(ctx, FOREST_ENTRIES)
            at = place(ctx, entry)
            if _better(ctx, entry, ld(entries, at + VERTEX_BASE)):
                settle_base(ctx, entry, time)
            entries = ld(ctx, FOREST_ENTRIES)
            base = ld(entries, at + VERTEX_BASE)
            if ld(entries, at + VERTEX_FLAGS) & FLAG_BASED != 0 and _better(ctx, entry, base):
                touch(ctx, entry)
                hold(ctx, entry, base, OWN_VALUE, 0)
                _queue(ctx, entry)
        elif diff_at(delta, ld(delta, BATCH_DATA), row, 0) > 0:
            _offer_edge(ctx, rules, rule, delta, row)
    return 0


@inner
def _spread_from(ctx, rules, entry, time):
    """Offer an entry's value along all edges."""
    at = place(ctx, entry)
    entries = ld(ctx, FOREST_ENTRIES)
    x = ld(entries, at + VERTEX_VALUE)
    depth = ld(entries, at + VERTEX_DEPTH)
    node = ld(entries, at + VERTEX_NODE)
    most = radius_of(ctx, at)
    for r in range(ld(ctx, FOREST_NRULES)):
        rule = r * RULE_WORDS
        if not turned(ctx, rules, rule, at, True):
            continue
        trace, column = edges_of(rules, rule, True)
        for b in range(ld(trace, TRACE_COUNT)):
            batch = ld(ld(trace, TRACE_TABLE), b)
            data = ld(batch, BATCH_DATA)
            cap = ld(batch, BATCH_CAP)
            rows = ld(batch, BATCH_ROWS)
            i = first_row(ctx, batch, node)
            first = i
            while i < rows and ld(data, i) == node:
                weight = weight_of(ctx, data, cap, i, column)
                offers, y = offered(rules, rule, x, weight)
                if not offers and fails(rules, rule, x, weight) and there(trace, batch, i, time) != 0:
                    st(ld(ctx, FOREST_STEP), STEP_FAULT, FAULT_PATH)
                if offers and adds(batch, data, i, time):
                    far = ld(data, cap + i)
                    child = find(ctx, far)
                    if y > most:
                        if not is_open(ctx, at) and not _stands(ctx, child) and there(trace, batch, i, time) != 0:
                            open_ball(ctx, at)
                    elif _better(ctx, child, y) and there(trace, batch, i, time) != 0:
                        _take(ctx, child, far, x, y, entry, depth)
                i += 1
            st(ctx, FOREST_FUEL, ld(ctx, FOREST_FUEL) - (i - first) - 1)


@inner
def _hint_queued(ctx, entry, first):
    """An entry is taken from the heap, the first one since a while or not: fetch what it needs, and some of what those
    need that probably follow.
    """
    if first:
        hint_entry(ctx, entry, 1, STAGE_INDEX)
        hint_entry(ctx, entry, 1, STAGE_ROWS)
    heap = ld(ctx, FOREST_HEAP)
    n = ld(ctx, FOREST_HEAP_N)
    for i in range(1, min(n, 3)):
        hint_entry(ctx, ld(heap, 3 + 3 * i), 1, STAGE_INDEX)
    if n > 0:
        hint_entry(ctx, ld(heap, 3), 1, STAGE_ROWS)
    hint_entry(ctx, entry, 1, STAGE_ENDS)


@shared
def spread(ctx, time):
    """See the module."""
    rules = ld(ctx, FOREST_RULES)
    begun = False
    while ld(ctx, FOREST_HEAP_N) > 0:
        if ld(ctx, FOREST_FUEL) < 0:
            return 0
        first, entry = pop(ctx)
        at = place(ctx, entry)
        entries = ld(ctx, FOREST_ENTRIES)
        in_rounds = ld(ctx, FOREST_WILD) > 0
        current = ld(entries, at + VERTEX_DEPTH) if in_rounds else ld(entries, at + VERTEX_VALUE)
        if first == current and ld(entries, at + VERTEX_PARENT) != NO_PARENT:
            if in_rounds and current > ld(ctx, FOREST_ENTRIES_N):
                st(ld(ctx, FOREST_STEP), STEP_FAULT, FAULT_CYCLE)
                st(ctx, FOREST_HEAP_N, 0)
                return 1
            ask(ctx, entry)
            _hint_queued(ctx, entry, not begun)
            begun = True
            _spread_from(ctx, rules, entry, time)
    return 1
