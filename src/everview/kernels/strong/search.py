"""Searches along edges, as of an epoch: what a vertex reaches (*ahead*), or what reaches it (*behind*).

A side of a search is a queue of entries, in the order in which they were found, with a mark for each. It is either
*within* a component, or, when components merge, everywhere but in the largest one: that one is not walked, only noted
(BIG), since whoever comes to it reaches all of it.

Rows are taken as they are; only one that leads to a vertex that is new to the side is verified (see
`everview.kernels.frontier.offers`).
"""

from __future__ import annotations

from everview.kernels.build.native import inner, shared
from everview.kernels.frontier.forest import (
    FOREST_ENTRIES,
    FOREST_FUEL,
    FOREST_RULES,
    NO_PARENT,
    RULE_BACKWARD,
    RULE_FORWARD,
    VERTEX_NODE,
    place,
)
from everview.kernels.frontier.offers import adds, first_row, there
from everview.kernels.frontier.vertex_lookup import find
from everview.kernels.memory import ld, reserve, st
from everview.kernels.strong.component import (
    MARK_AHEAD,
    MARK_BEHIND,
    STRONG_AHEAD,
    STRONG_BEHIND,
    STRONG_MARKS,
    STRONG_MET,
    STRONG_WORK,
    comp_of,
    mark_at,
    set_hop,
    tick,
)
from everview.kernels.trace.batch import BATCH_CAP, BATCH_DATA, BATCH_ROWS
from everview.kernels.trace.trace import TRACE_COUNT, TRACE_TABLE

SIDE_N, SIDE_AT, SIDE_ID, SIDE_OF, SIDE_WORK, SIDE_BIG = range(1, 7)
"""Words of a context behind STRONG_AHEAD and STRONG_BEHIND: entries in the queue, how many were expanded, the mark, the
entry it began with (-1: none), rows looked at since the question was asked, whether the largest component was met.
"""

NOWHERE = -1
"""A component that no vertex is in."""


@inner
def edges_at(ctx, ahead):
    """The trace of the edges, from near to far (`ahead`) or back."""
    return ld(ld(ctx, FOREST_RULES), RULE_FORWARD if ahead != 0 else RULE_BACKWARD)


@inner
def side_of(ahead):
    return STRONG_AHEAD if ahead != 0 else STRONG_BEHIND


@inner
def mark_of(ahead):
    return MARK_AHEAD if ahead != 0 else MARK_BEHIND


@inner
def node_of(ctx, entry):
    return ld(ld(ctx, FOREST_ENTRIES), place(ctx, entry) + VERTEX_NODE)


@inner
def is_in(ctx, ahead, entry):
    """Whether a vertex is in the set of a side."""
    return ld(ld(ctx, STRONG_MARKS), mark_at(entry) + mark_of(ahead)) == ld(ctx, side_of(ahead) + SIDE_ID)


@inner
def spend(ctx, rows):
    st(ctx, FOREST_FUEL, ld(ctx, FOREST_FUEL) - rows)
    st(ctx, STRONG_WORK, ld(ctx, STRONG_WORK) + rows)


@shared
def put(ctx, ahead, entry):
    """A vertex is new to a side."""
    side = side_of(ahead)
    queue = reserve(ctx, side, side + SIDE_N, 1, 1)
    n = ld(ctx, side + SIDE_N)
    st(queue, 1 + n, entry)
    st(ctx, side + SIDE_N, n + 1)
    st(ld(ctx, STRONG_MARKS), mark_at(entry) + mark_of(ahead), ld(ctx, side + SIDE_ID))
    return 0


@shared
def begin_side(ctx, ahead, entry):
    """A side has nothing but a vertex."""
    side = side_of(ahead)
    st(ctx, side + SIDE_N, 0)
    st(ctx, side + SIDE_AT, 0)
    st(ctx, side + SIDE_ID, tick(ctx))
    st(ctx, side + SIDE_OF, entry)
    st(ctx, side + SIDE_WORK, 0)
    st(ctx, side + SIDE_BIG, 0)
    put(ctx, ahead, entry)
    return 0


@inner
def is_complete(ctx, ahead):
    side = side_of(ahead)
    return ld(ctx, side + SIDE_AT) == ld(ctx, side + SIDE_N)


@shared
def expand(ctx, ahead, within, around, hops, time):
    """Take the next vertex of a side, and find its neighbours in the component `within` (NOWHERE: in any), but not in
    the component `around`. `hops`: it becomes the hop of those that are new.
    """
    side = side_of(ahead)
    i = ld(ctx, side + SIDE_AT)
    entry = ld(ld(ctx, side), 1 + i)
    st(ctx, side + SIDE_AT, i + 1)
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
            if other != NO_PARENT and not is_in(ctx, ahead, other):
                comp = comp_of(ctx, other)
                if comp == around:
                    if ld(ctx, side + SIDE_BIG) == 0 and adds(batch, data, row, time):
                        st(ctx, side + SIDE_BIG, there(trace, batch, row, time))
                elif (within == NOWHERE or comp == within) and adds(batch, data, row, time):
                    if there(trace, batch, row, time) != 0:
                        put(ctx, ahead, other)
                        if hops != 0:
                            set_hop(ctx, other, 1 - ahead, entry + 1)
                        if is_in(ctx, 1 - ahead, other):
                            st(ctx, STRONG_MET, 1)
            row += 1
    st(ctx, side + SIDE_WORK, ld(ctx, side + SIDE_WORK) + work)
    spend(ctx, work)
    return 0
