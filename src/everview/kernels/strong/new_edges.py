"""New edges: one between two components closes a cycle if its far end leads back to its near one.

All components of the epoch are known by now, but for the new edges. An edge from u to v, in different ones, is asked
for by a search from both ends: what v reaches, and what reaches u. Everything on a path from v to u becomes one
component: what both sides have.

The largest component, which most paths pass in real graphs, is not walked. If v leads to it and it leads to u, it is on
a path, and so are those of the set ahead that lead to it, and those of the set behind that it leads to. Only one
component may be treated like that: what lies between two that nobody has walked would not be found.

*Components stay as they are until all new edges were looked at.* What merges is noted as a union of sets (`_unite`),
and applied at the end. Otherwise the largest component would grow in between, and what leads from a part that it has
just got back to it would never be found: a cycle through it and a second new edge is found by the search for that edge
alone.
"""

from __future__ import annotations

from everview.kernels.build.native import inner, shared
from everview.kernels.frontier.forest import (
    FLAG_BASED,
    FOREST_ENTRIES,
    FOREST_EPOCHS_AT,
    FOREST_FUEL,
    FOREST_RULES,
    NO_PARENT,
    VERTEX_BASE,
    VERTEX_DEPTH,
    VERTEX_FLAGS,
    place,
    touch,
)
from everview.kernels.frontier.offers import adds, first_row, still_held, there
from everview.kernels.frontier.repair import change_at
from everview.kernels.frontier.vertex_lookup import find
from everview.kernels.memory import ld, reserve, st
from everview.kernels.strong.component import (
    COMP_MEMBER,
    COMP_SIZE,
    MARK_LOW,
    MARK_THIRD,
    MARK_UNITED,
    STRONG_AHEAD,
    STRONG_BEHIND,
    STRONG_BIG,
    STRONG_CHANGE_AT,
    STRONG_COMPS,
    STRONG_MARKS,
    STRONG_MET,
    STRONG_MOST_WORK,
    STRONG_SEARCHING,
    STRONG_SET,
    STRONG_SET_N,
    STRONG_UNITED,
    STRONG_UNITED_ID,
    STRONG_UNITED_N,
    STRONG_WORK,
    add_hole,
    comp_of,
    grown,
    has_hops,
    hop_of,
    lower,
    make_dirty,
    mark_at,
    new_record,
    record_at,
    tick,
    touch_record,
)
from everview.kernels.strong.search import (
    NOWHERE,
    SIDE_BIG,
    SIDE_N,
    SIDE_WORK,
    begin_side,
    edges_at,
    expand,
    is_complete,
    is_in,
    node_of,
    side_of,
    spend,
)
from everview.kernels.trace.batch import BATCH_CAP, BATCH_DATA, BATCH_ROWS, diff_at
from everview.kernels.trace.trace import TRACE_COUNT, TRACE_TABLE

MERGE_DONE, MERGE_PAUSED, MERGE_TOO_MUCH = range(3)
"""What `merge_changes` returns; see `deleted_edges`."""

ASKING, COMPLETING = 1, 2
"""STRONG_SEARCHING: whether there is a path; there is one, and everything on one is wanted."""


@inner
def _around(ctx):
    """The component that is not walked."""
    big = ld(ctx, STRONG_BIG)
    return big if big != 0 else NOWHERE


@inner
def _begin(ctx, ahead, entry):
    begin_side(ctx, ahead, entry)
    if comp_of(ctx, entry) == _around(ctx):
        side = side_of(ahead)
        st(ctx, side + SIDE_N, 0)
        st(ctx, side + SIDE_BIG, 1)


@inner
def _is_united(ctx, entry):
    return ld(ld(ctx, STRONG_MARKS), mark_at(entry) + MARK_UNITED) == ld(ctx, STRONG_UNITED_ID)


@inner
def _root(ctx, entry):
    """The vertex that stands for all that merge with a united one; paths to it are halved on the way."""
    marks = ld(ctx, STRONG_MARKS)
    while True:
        above = ld(marks, mark_at(entry) + MARK_LOW)
        if above == entry:
            return entry
        st(marks, mark_at(entry) + MARK_LOW, ld(marks, mark_at(above) + MARK_LOW))
        entry = above


@inner
def _with_big(ctx, root):
    """Whether the largest component merges with what a vertex stands for."""
    big = ld(ctx, STRONG_BIG)
    if big == 0:
        return False
    member = ld(ld(ctx, STRONG_COMPS), record_at(big) + COMP_MEMBER)
    return _is_united(ctx, member) and _root(ctx, member) == root


@inner
def _is_settled(ctx, u, v):
    """Whether everything on a path from v to u is known to merge: it does where the largest component was not met."""
    if not _is_united(ctx, u) or not _is_united(ctx, v):
        return False
    root = _root(ctx, u)
    return root == _root(ctx, v) and not _with_big(ctx, root)


@inner
def _next_edge(ctx, epoch, time):
    """Begin the search for the next new edge between two components; whether there is one."""
    last = ld(ld(ctx, FOREST_EPOCHS_AT), epoch + 1)
    while ld(ctx, STRONG_CHANGE_AT) < last:
        i = ld(ctx, STRONG_CHANGE_AT)
        st(ctx, STRONG_CHANGE_AT, i + 1)
        rule, delta, row = change_at(ctx, i)
        data = ld(delta, BATCH_DATA)
        if rule >= 0 and diff_at(delta, data, row, 0) > 0:
            near = ld(data, row)
            far = ld(data, ld(delta, BATCH_CAP) + row)
            u = find(ctx, near)
            v = find(ctx, far)
            apart = u != v and (comp_of(ctx, u) == 0 or comp_of(ctx, u) != comp_of(ctx, v))
            apart = apart and not _is_settled(ctx, u, v)
            if apart and still_held(ctx, ld(ctx, FOREST_RULES), 0, near, far, 0, 0, time) != 0:
                _begin(ctx, 1, v)
                _begin(ctx, 0, u)
                st(ctx, STRONG_MET, 0)
                st(ctx, STRONG_SEARCHING, ASKING)
                return True
    return False


@inner
def _connected(ctx):
    by_big = ld(ctx, STRONG_AHEAD + SIDE_BIG) != 0 and ld(ctx, STRONG_BEHIND + SIDE_BIG) != 0
    return by_big or ld(ctx, STRONG_MET) != 0


@inner
def _cannot(ctx, ahead):
    """A side is complete and led nowhere."""
    return is_complete(ctx, ahead) and ld(ctx, side_of(ahead) + SIDE_BIG) == 0


@inner
def _choose(ctx, entry, mark):
    """A vertex is on a path."""
    at = mark_at(entry) + MARK_THIRD
    chosen = reserve(ctx, STRONG_SET, STRONG_SET_N, 1, 1)
    if ld(ld(ctx, STRONG_MARKS), at) != mark:
        st(ld(ctx, STRONG_MARKS), at, mark)
        n = ld(ctx, STRONG_SET_N)
        st(chosen, 1 + n, entry)
        st(ctx, STRONG_SET_N, n + 1)


@inner
def _touches(ctx, ahead, entry, comp, time):
    """Whether an edge leads from a vertex to a component (`ahead`), or back."""
    node = node_of(ctx, entry)
    trace = edges_at(ctx, ahead)
    for b in range(ld(trace, TRACE_COUNT)):
        batch = ld(ld(trace, TRACE_TABLE), b)
        data = ld(batch, BATCH_DATA)
        cap = ld(batch, BATCH_CAP)
        rows = ld(batch, BATCH_ROWS)
        row = first_row(ctx, batch, node)
        while row < rows and ld(data, row) == node:
            other = find(ctx, ld(data, cap + row))
            if other != NO_PARENT and comp_of(ctx, other) == comp and adds(batch, data, row, time):
                if there(trace, batch, row, time) != 0:
                    return True
            row += 1
    return False


@inner
def _choose_neighbours(ctx, ahead, entry, mark, time):
    """The neighbours of a vertex, against the direction of a side, that are in its set are on a path too."""
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
            if other != NO_PARENT and is_in(ctx, ahead, other) and adds(batch, data, row, time):
                if there(trace, batch, row, time) != 0:
                    _choose(ctx, other, mark)
            row += 1
    spend(ctx, work)


@shared
def _choose_by_big(ctx, ahead, big, time):
    """Those of a side that lead to the largest component (ahead), or that it leads to (behind)."""
    side = side_of(ahead)
    mark = tick(ctx)
    first = ld(ctx, STRONG_SET_N)
    for i in range(ld(ctx, side + SIDE_N)):
        entry = ld(ld(ctx, side), 1 + i)
        if _touches(ctx, ahead, entry, big, time):
            _choose(ctx, entry, mark)
    i = first
    while i < ld(ctx, STRONG_SET_N):
        _choose_neighbours(ctx, ahead, ld(ld(ctx, STRONG_SET), 1 + i), mark, time)
        i += 1
    return 0


@inner
def _unite(ctx, entry, root):
    """A vertex merges with all that another stands for; who stands for them now."""
    united = reserve(ctx, STRONG_UNITED, STRONG_UNITED_N, 1, 1)
    marks = ld(ctx, STRONG_MARKS)
    if not _is_united(ctx, entry):
        n = ld(ctx, STRONG_UNITED_N)
        st(united, 1 + n, entry)
        st(ctx, STRONG_UNITED_N, n + 1)
        st(marks, mark_at(entry) + MARK_UNITED, ld(ctx, STRONG_UNITED_ID))
        st(marks, mark_at(entry) + MARK_LOW, entry)
    own = _root(ctx, entry)
    if root == NO_PARENT or root == own:
        return own
    st(marks, mark_at(own) + MARK_LOW, root)
    return root


@shared
def _unite_paths(ctx, time):
    """Everything on a path from the far end of an edge to its near one merges."""
    st(ctx, STRONG_SET_N, 0)
    mark = tick(ctx)
    for i in range(ld(ctx, STRONG_AHEAD + SIDE_N)):
        entry = ld(ld(ctx, STRONG_AHEAD), 1 + i)
        if is_in(ctx, 0, entry):
            _choose(ctx, entry, mark)
    root = NO_PARENT
    if ld(ctx, STRONG_AHEAD + SIDE_BIG) != 0 and ld(ctx, STRONG_BEHIND + SIDE_BIG) != 0:
        big = ld(ctx, STRONG_BIG)
        _choose_by_big(ctx, 1, big, time)
        _choose_by_big(ctx, 0, big, time)
        root = _unite(ctx, ld(ld(ctx, STRONG_COMPS), record_at(big) + COMP_MEMBER), root)
    for i in range(ld(ctx, STRONG_SET_N)):
        root = _unite(ctx, ld(ld(ctx, STRONG_SET), 1 + i), root)
    return 0


@shared
def begin_merging(ctx):
    """Nothing merges yet."""
    st(ctx, STRONG_UNITED_N, 0)
    st(ctx, STRONG_UNITED_ID, tick(ctx))
    return 0


@inner
def _join(ctx, entry, comp):
    """A vertex joins a component."""
    touch(ctx, entry)
    entries = ld(ctx, FOREST_ENTRIES)
    at = place(ctx, entry)
    st(entries, at + VERTEX_DEPTH, comp)
    size = record_at(comp) + COMP_SIZE
    st(ld(ctx, STRONG_COMPS), size, ld(ld(ctx, STRONG_COMPS), size) + 1)
    if ld(entries, at + VERTEX_FLAGS) & FLAG_BASED != 0:
        lower(ctx, comp, ld(entries, at + VERTEX_BASE))
    if has_hops(ctx, comp):
        for ahead in range(2):
            if hop_of(ctx, entry, ahead) == 0:
                add_hole(ctx, entry, ahead)


@inner
def _choose_targets(ctx):
    """For each vertex that stands for others, the component that they join (MARK_THIRD): the one that was not walked,
    else the largest, else a new one.
    """
    marks = ld(ctx, STRONG_MARKS)
    united = ld(ctx, STRONG_UNITED)
    many = ld(ctx, STRONG_UNITED_N)
    for i in range(many):
        st(marks, mark_at(ld(united, 1 + i)) + MARK_THIRD, 0)
    for i in range(many):
        entry = ld(united, 1 + i)
        comp = comp_of(ctx, entry)
        at = mark_at(_root(ctx, entry)) + MARK_THIRD
        best = ld(marks, at)
        comps = ld(ctx, STRONG_COMPS)
        larger = ld(comps, record_at(comp) + COMP_SIZE) > ld(comps, record_at(best) + COMP_SIZE)
        if comp == _around(ctx) or (best != _around(ctx) and comp != 0 and larger):
            st(marks, at, comp)
    for i in range(many):
        entry = ld(united, 1 + i)
        if _root(ctx, entry) == entry and ld(marks, mark_at(entry) + MARK_THIRD) == 0:
            st(marks, mark_at(entry) + MARK_THIRD, new_record(ctx, 0, entry))


@shared
def apply_merges(ctx):
    """All new edges were looked at: what merges becomes one component."""
    _choose_targets(ctx)
    marks = ld(ctx, STRONG_MARKS)
    united = ld(ctx, STRONG_UNITED)
    for i in range(ld(ctx, STRONG_UNITED_N)):
        entry = ld(united, 1 + i)
        comp = ld(marks, mark_at(_root(ctx, entry)) + MARK_THIRD)
        touch_record(ctx, comp)
        make_dirty(ctx, comp)
        if comp_of(ctx, entry) != comp:
            _join(ctx, entry, comp)
            grown(ctx, comp)
    return 0


@shared
def merge_changes(ctx, epoch, time):
    """Go on with the new edges of an epoch; see MERGE_DONE and the others."""
    while True:
        if ld(ctx, STRONG_SEARCHING) == 0 and not _next_edge(ctx, epoch, time):
            return MERGE_DONE
        if ld(ctx, FOREST_FUEL) < 0:
            return MERGE_PAUSED
        if ld(ctx, STRONG_WORK) > ld(ctx, STRONG_MOST_WORK):
            return MERGE_TOO_MUCH
        if ld(ctx, STRONG_SEARCHING) == ASKING:
            if _connected(ctx):
                st(ctx, STRONG_SEARCHING, COMPLETING)
            elif _cannot(ctx, 1) or _cannot(ctx, 0) or (is_complete(ctx, 1) and is_complete(ctx, 0)):
                st(ctx, STRONG_SEARCHING, 0)
                continue
        if is_complete(ctx, 1) and is_complete(ctx, 0):
            _unite_paths(ctx, time)
            st(ctx, STRONG_SEARCHING, 0)
            continue
        ahead = ld(ctx, STRONG_AHEAD + SIDE_WORK) <= ld(ctx, STRONG_BEHIND + SIDE_WORK)
        side = 1 if is_complete(ctx, 0) or (ahead and not is_complete(ctx, 1)) else 0
        expand(ctx, side, NOWHERE, _around(ctx), 0, time)
