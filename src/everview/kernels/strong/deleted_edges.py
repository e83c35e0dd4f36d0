"""Deleted edges: a component from which an edge went is still one, or falls into parts.

A component shows that it is one by *hops*: each member but the hub has a next vertex on a way to the hub, and a last
one on a way from there. Followed, hops lead to the hub; so they are two trees with the hub as the root. An edge that is
nobody's hop may go: nothing is to be done. Otherwise a vertex has lost its hop. It is a *hole*, and looks for another
neighbour that is not below itself in the tree, by a search that follows the edges from it, through what is below it:

    found      those on the path to it get new hops, and take what is below them along
    complete   nothing that the vertex reaches (say) leads to the hub: this set is no part of the component any more

In the second case the set is *peeled*: no edge leads from it to the rest, so that no component has vertices in both.
Its own components are found by Tarjan's algorithm. Whoever of the rest had a hop into it is a hole now. When no holes
are left, every member reaches the hub and is reached from it.

A neighbour whose way ends at another hole will do: the trees stay trees, and that one is mended later.

Components begin without hops. They are made when the first edge goes, from the edges as of the epoch before, when the
component was one: two searches from the hub. Merging leaves holes, too: those of the parts' hubs.
"""

from __future__ import annotations

from everview.kernels.build.native import inner, shared
from everview.kernels.frontier.forest import (
    FLAG_BASED,
    FOREST_ENTRIES,
    FOREST_FUEL,
    NO_PARENT,
    VERTEX_BASE,
    VERTEX_DEPTH,
    VERTEX_FLAGS,
    place,
    touch,
)
from everview.kernels.frontier.offers import adds, first_row, there
from everview.kernels.frontier.vertex_lookup import find
from everview.kernels.memory import ld, reserve, st
from everview.kernels.strong.component import (
    COMP_FLAGS,
    COMP_HAS_HOPS,
    COMP_MEMBER,
    COMP_SIZE,
    MARK_LOW,
    MARK_THIRD,
    STRONG_CHANGE_AT,
    STRONG_COMPS,
    STRONG_CUTS,
    STRONG_CUTS_N,
    STRONG_HOLES,
    STRONG_HOLES_N,
    STRONG_INSIDE,
    STRONG_MARKS,
    STRONG_MOST_WORK,
    STRONG_SEARCHING,
    STRONG_SIDE,
    STRONG_WORK,
    add_hole,
    comp_of,
    has_hops,
    hop_of,
    make_dirty,
    mark_at,
    record_at,
    set_hop,
    tick,
    touch_record,
    without,
)
from everview.kernels.strong.search import (
    NOWHERE,
    SIDE_AT,
    SIDE_N,
    SIDE_OF,
    begin_side,
    edges_at,
    expand,
    is_complete,
    is_in,
    node_of,
    put,
    side_of,
    spend,
)
from everview.kernels.strong.tarjan import begin_tarjan
from everview.kernels.trace.batch import BATCH_CAP, BATCH_DATA, BATCH_ROWS
from everview.kernels.trace.trace import TRACE_COUNT, TRACE_TABLE

SPLIT_DONE, SPLIT_PAUSED, SPLIT_PEELED, SPLIT_TOO_MUCH = range(4)
"""What `mend` returns: there are no holes; the fuel is used up; a part was peeled and `tarjan` must be run; it would be
cheaper to find all components anew.
"""


@shared
def add_cut(ctx, a, b):
    """The edges from a vertex to another one of its component went."""
    cuts = reserve(ctx, STRONG_CUTS, STRONG_CUTS_N, 2, 1)
    n = ld(ctx, STRONG_CUTS_N)
    st(cuts, 1 + 2 * n, a)
    st(cuts, 2 + 2 * n, b)
    st(ctx, STRONG_CUTS_N, n + 1)
    return 0


@inner
def _next_without_hops(ctx):
    """Begin to make the hops of the next component that was cut and has none; whether there is one."""
    while ld(ctx, STRONG_CHANGE_AT) < ld(ctx, STRONG_CUTS_N):
        i = ld(ctx, STRONG_CHANGE_AT)
        st(ctx, STRONG_CHANGE_AT, i + 1)
        comp = comp_of(ctx, ld(ld(ctx, STRONG_CUTS), 1 + 2 * i))
        if not has_hops(ctx, comp):
            touch_record(ctx, comp)
            comps = ld(ctx, STRONG_COMPS)
            at = record_at(comp)
            st(comps, at + COMP_FLAGS, ld(comps, at + COMP_FLAGS) | COMP_HAS_HOPS)
            hub = ld(comps, at + COMP_MEMBER)
            begin_side(ctx, 1, hub)
            begin_side(ctx, 0, hub)
            for ahead in range(2):
                set_hop(ctx, hub, ahead, 0)
            st(ctx, STRONG_SEARCHING, 1)
            return True
    return False


@shared
def make_hops(ctx, before):
    """Make the hops of components that were cut, as of the epoch before. 1: it is done, 0: the fuel is used up."""
    while True:
        if ld(ctx, STRONG_SEARCHING) == 0 and not _next_without_hops(ctx):
            return 1
        if ld(ctx, FOREST_FUEL) < 0:
            return 0
        side = 1 if not is_complete(ctx, 1) else 0
        if is_complete(ctx, side):
            st(ctx, STRONG_SEARCHING, 0)
        else:
            expand(ctx, side, comp_of(ctx, ld(ctx, side_of(side) + SIDE_OF)), NOWHERE, 1, before)


@shared
def cut_hops(ctx):
    """Whoever's hop an edge was that went is a hole."""
    for i in range(ld(ctx, STRONG_CUTS_N)):
        a = ld(ld(ctx, STRONG_CUTS), 1 + 2 * i)
        b = ld(ld(ctx, STRONG_CUTS), 2 + 2 * i)
        if hop_of(ctx, a, 1) == b + 1:
            set_hop(ctx, a, 1, 0)
            add_hole(ctx, a, 1)
        if hop_of(ctx, b, 0) == a + 1:
            set_hop(ctx, b, 0, 0)
            add_hole(ctx, b, 0)
    st(ctx, STRONG_CUTS_N, 0)
    return 0


@inner
def _next_hole(ctx):
    """Begin to mend the next hole; whether there is one."""
    while ld(ctx, STRONG_HOLES_N) > 0:
        n = ld(ctx, STRONG_HOLES_N) - 1
        st(ctx, STRONG_HOLES_N, n)
        entry = ld(ld(ctx, STRONG_HOLES), 1 + 2 * n)
        side = ld(ld(ctx, STRONG_HOLES), 2 + 2 * n)
        comp = comp_of(ctx, entry)
        if has_hops(ctx, comp) and hop_of(ctx, entry, side) == 0:
            if ld(ld(ctx, STRONG_COMPS), record_at(comp) + COMP_MEMBER) != entry:
                begin_side(ctx, side, entry)
                st(ctx, STRONG_SIDE, side)
                st(ctx, STRONG_INSIDE, tick(ctx))
                st(ctx, STRONG_SEARCHING, 1)
                return True
    return False


@shared
def _is_below(ctx, ahead, entry):
    """Whether a vertex is below the hole: its hops lead to the set that the hole reaches. Then all on the way are."""
    marks = ld(ctx, STRONG_MARKS)
    inside = ld(ctx, STRONG_INSIDE)
    one = entry
    steps = 0
    while not is_in(ctx, ahead, one) and ld(marks, mark_at(one) + MARK_THIRD) != inside:
        hop = hop_of(ctx, one, ahead)
        steps += 1
        if hop == 0:
            spend(ctx, steps)
            return 0
        one = hop - 1
    spend(ctx, steps)
    one = entry
    for _ in range(steps):
        st(marks, mark_at(one) + MARK_THIRD, inside)
        one = hop_of(ctx, one, ahead) - 1
    return 1


@inner
def _rehang(ctx, ahead, entry, exit_):
    """A vertex of the set has a neighbour that is not below the hole: all from the hole to it get new hops."""
    marks = ld(ctx, STRONG_MARKS)
    hole = ld(ctx, side_of(ahead) + SIDE_OF)
    set_hop(ctx, entry, ahead, exit_ + 1)
    while entry != hole:
        above = ld(marks, mark_at(entry) + MARK_LOW)
        set_hop(ctx, above, ahead, entry + 1)
        entry = above


@shared
def _look_for_exit(ctx, ahead, time):
    """Take the next vertex of the search, and look at its neighbours; whether the hole is mended."""
    side = side_of(ahead)
    i = ld(ctx, side + SIDE_AT)
    entry = ld(ld(ctx, side), 1 + i)
    st(ctx, side + SIDE_AT, i + 1)
    comp = comp_of(ctx, entry)
    node = node_of(ctx, entry)
    trace = edges_at(ctx, ahead)
    work = 1
    for b in range(ld(trace, TRACE_COUNT)):
        batch = ld(ld(trace, TRACE_TABLE), b)
        data = ld(batch, BATCH_DATA)
        cap = ld(batch, BATCH_CAP)
        rows = ld(batch, BATCH_ROWS)
        row = first_row(ctx, batch, node)
        while row < rows and ld(data, row) == node:
            other = find(ctx, ld(data, cap + row))
            work += 1
            if other != NO_PARENT and comp_of(ctx, other) == comp and not is_in(ctx, ahead, other):
                if adds(batch, data, row, time) and there(trace, batch, row, time) != 0:
                    if _is_below(ctx, ahead, other) == 0:
                        _rehang(ctx, ahead, entry, other)
                        spend(ctx, work)
                        return 1
                    put(ctx, ahead, other)
                    st(ld(ctx, STRONG_MARKS), mark_at(other) + MARK_LOW, entry)
            row += 1
    spend(ctx, work)
    return 0


@inner
def _cut_border(ctx, ahead, entry, comp):
    """Whoever of the rest has a vertex that is peeled as its hop is a hole."""
    node = node_of(ctx, entry)
    trace = edges_at(ctx, 1 - ahead)
    work = 1
    for b in range(ld(trace, TRACE_COUNT)):
        batch = ld(ld(trace, TRACE_TABLE), b)
        data = ld(batch, BATCH_DATA)
        cap = ld(batch, BATCH_CAP)
        rows = ld(batch, BATCH_ROWS)
        row = first_row(ctx, batch, node)
        while row < rows and ld(data, row) == node:
            other = find(ctx, ld(data, cap + row))
            work += 1
            if other != NO_PARENT and hop_of(ctx, other, ahead) == entry + 1 and comp_of(ctx, other) == comp:
                if not is_in(ctx, ahead, other):
                    set_hop(ctx, other, ahead, 0)
                    add_hole(ctx, other, ahead)
            row += 1
    spend(ctx, work)


@shared
def _peel(ctx, ahead):
    """Take the complete set of a side out of its component, and begin to find the components in it."""
    side = side_of(ahead)
    many = ld(ctx, side + SIDE_N)
    comp = comp_of(ctx, ld(ctx, side + SIDE_OF))
    touch_record(ctx, comp)
    make_dirty(ctx, comp)
    for i in range(many):
        entry = ld(ld(ctx, side), 1 + i)
        touch(ctx, entry)
        _cut_border(ctx, ahead, entry, comp)
        entries = ld(ctx, FOREST_ENTRIES)
        at = place(ctx, entry)
        if ld(entries, at + VERTEX_FLAGS) & FLAG_BASED != 0:
            without(ctx, comp, ld(entries, at + VERTEX_BASE))
    comps = ld(ctx, STRONG_COMPS)
    at = record_at(comp)
    left = ld(comps, at + COMP_SIZE) - many
    st(comps, at + COMP_SIZE, left)
    if left == 1:
        hub = ld(comps, at + COMP_MEMBER)
        touch(ctx, hub)
        st(ld(ctx, FOREST_ENTRIES), place(ctx, hub) + VERTEX_DEPTH, 0)
    begin_tarjan(ctx, ahead)
    return 0


@shared
def mend(ctx, time):
    """Go on with the holes; see SPLIT_DONE and the others."""
    while True:
        if ld(ctx, STRONG_SEARCHING) == 0 and not _next_hole(ctx):
            return SPLIT_DONE
        if ld(ctx, FOREST_FUEL) < 0:
            return SPLIT_PAUSED
        if ld(ctx, STRONG_WORK) > ld(ctx, STRONG_MOST_WORK):
            return SPLIT_TOO_MUCH
        side = ld(ctx, STRONG_SIDE)
        if is_complete(ctx, side):
            _peel(ctx, side)
            st(ctx, STRONG_SEARCHING, 0)
            return SPLIT_PEELED
        if _look_for_exit(ctx, side, time) != 0:
            st(ctx, STRONG_SEARCHING, 0)
