"""Tarjan's algorithm: the strong components of everything, or of the set of one side of a search.

Depth first, each vertex gets a number. The smallest number that a vertex leads to among those still *open* is its low
one; a vertex whose low number is its own closes a component: itself, and all that were opened after it.

It stops when FOREST_FUEL is used up and continues on the next call: the recursion is a block of frames (a vertex, and
where in its edges it is). Numbers come from the clock of marks, so that nothing is cleared: one that is older than the
search is none.
"""

from __future__ import annotations

from everview.kernels.build.native import inner, shared
from everview.kernels.frontier.forest import (
    FLAG_BASED,
    FOREST_ENTRIES,
    FOREST_ENTRIES_N,
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
    MARK_LOW,
    MARK_THIRD,
    STRONG_BEGAN,
    STRONG_CLOCK,
    STRONG_FRAMES,
    STRONG_FRAMES_N,
    STRONG_MARKS,
    STRONG_OPEN,
    STRONG_OPEN_N,
    STRONG_ROOT_AT,
    STRONG_ROOTS,
    hop_of,
    lower,
    mark_at,
    new_record,
    set_hop,
    tick,
)
from everview.kernels.strong.search import SIDE_N, edges_at, is_in, node_of, side_of
from everview.kernels.trace.batch import BATCH_CAP, BATCH_DATA, BATCH_ROWS
from everview.kernels.trace.trace import TRACE_COUNT, TRACE_TABLE

OF_ALL = 2
"""STRONG_ROOTS: everything; else 1 or 0, the set ahead or that behind."""

CLOSED = -1
"""MARK_LOW of a vertex whose component is known."""

FRAME_VERTEX, FRAME_BATCH, FRAME_ROW, FRAME_WIDTH = range(4)


@shared
def begin_tarjan(ctx, roots):
    """Make ready for the components of everything (OF_ALL), or of a side."""
    st(ctx, STRONG_ROOTS, roots)
    st(ctx, STRONG_ROOT_AT, 0)
    st(ctx, STRONG_FRAMES_N, 0)
    st(ctx, STRONG_OPEN_N, 0)
    st(ctx, STRONG_BEGAN, ld(ctx, STRONG_CLOCK))
    return 0


@inner
def _number(ctx, entry):
    """The number of a vertex; not above STRONG_BEGAN: it has none yet."""
    return ld(ld(ctx, STRONG_MARKS), mark_at(entry) + MARK_THIRD)


@inner
def _visit(ctx, entry):
    frames = reserve(ctx, STRONG_FRAMES, STRONG_FRAMES_N, FRAME_WIDTH, 1)
    opened = reserve(ctx, STRONG_OPEN, STRONG_OPEN_N, 1, 1)
    now = tick(ctx)
    marks = ld(ctx, STRONG_MARKS)
    st(marks, mark_at(entry) + MARK_THIRD, now)
    st(marks, mark_at(entry) + MARK_LOW, now)
    n = ld(ctx, STRONG_OPEN_N)
    st(opened, 1 + n, entry)
    st(ctx, STRONG_OPEN_N, n + 1)
    n = ld(ctx, STRONG_FRAMES_N)
    at = 1 + n * FRAME_WIDTH
    st(frames, at + FRAME_VERTEX, entry)
    st(frames, at + FRAME_BATCH, 0)
    st(frames, at + FRAME_ROW, -1)
    st(ctx, STRONG_FRAMES_N, n + 1)


@shared
def _next_child(ctx, at, time):
    """Go on with a frame: a neighbour that has no number yet; NO_PARENT if there is none left."""
    frames = ld(ctx, STRONG_FRAMES)
    entry = ld(frames, at + FRAME_VERTEX)
    node = node_of(ctx, entry)
    trace = edges_at(ctx, 1)
    marks = ld(ctx, STRONG_MARKS)
    low = mark_at(entry) + MARK_LOW
    began = ld(ctx, STRONG_BEGAN)
    roots = ld(ctx, STRONG_ROOTS)
    b = ld(frames, at + FRAME_BATCH)
    row = ld(frames, at + FRAME_ROW)
    while b < ld(trace, TRACE_COUNT):
        batch = ld(ld(trace, TRACE_TABLE), b)
        data = ld(batch, BATCH_DATA)
        cap = ld(batch, BATCH_CAP)
        rows = ld(batch, BATCH_ROWS)
        if row < 0:
            row = first_row(ctx, batch, node)
        first = row
        while row < rows and ld(data, row) == node:
            other = find(ctx, ld(data, cap + row))
            if other != NO_PARENT and (roots == OF_ALL or is_in(ctx, roots, other)):
                number = _number(ctx, other)
                fresh = number <= began
                lowers = not fresh and number < ld(marks, low) and ld(marks, mark_at(other) + MARK_LOW) != CLOSED
                if (fresh or lowers) and adds(batch, data, row, time) and there(trace, batch, row, time) != 0:
                    if fresh:
                        st(frames, at + FRAME_BATCH, b)
                        st(frames, at + FRAME_ROW, row + 1)
                        st(ctx, FOREST_FUEL, ld(ctx, FOREST_FUEL) - (row - first) - 1)
                        return other
                    st(marks, low, number)
            row += 1
        st(ctx, FOREST_FUEL, ld(ctx, FOREST_FUEL) - (row - first) - 1)
        b += 1
        row = -1
    return NO_PARENT


@inner
def _join_component(ctx, entry, comp):
    """A vertex of a component that was closed."""
    at = place(ctx, entry)
    if comp != 0 or ld(ld(ctx, FOREST_ENTRIES), at + VERTEX_DEPTH) != 0:
        touch(ctx, entry)
        st(ld(ctx, FOREST_ENTRIES), at + VERTEX_DEPTH, comp)
    for ahead in range(2):
        if hop_of(ctx, entry, ahead) != 0:
            set_hop(ctx, entry, ahead, 0)
    entries = ld(ctx, FOREST_ENTRIES)
    if comp != 0 and ld(entries, at + VERTEX_FLAGS) & FLAG_BASED != 0:
        lower(ctx, comp, ld(entries, at + VERTEX_BASE))
    st(ld(ctx, STRONG_MARKS), mark_at(entry) + MARK_LOW, CLOSED)


@shared
def _close(ctx, entry):
    """A component is complete: all that were opened from a vertex on."""
    n = ld(ctx, STRONG_OPEN_N)
    first = n - 1
    while ld(ld(ctx, STRONG_OPEN), 1 + first) != entry:
        first -= 1
    comp = new_record(ctx, n - first, entry) if n - first > 1 else 0
    for i in range(first, n):
        _join_component(ctx, ld(ld(ctx, STRONG_OPEN), 1 + i), comp)
    st(ctx, STRONG_OPEN_N, first)
    return 0


@inner
def _return(ctx, entry):
    """A vertex has no edges left: it closes a component, or passes its low number on."""
    marks = ld(ctx, STRONG_MARKS)
    low = ld(marks, mark_at(entry) + MARK_LOW)
    n = ld(ctx, STRONG_FRAMES_N) - 1
    st(ctx, STRONG_FRAMES_N, n)
    if low == _number(ctx, entry):
        _close(ctx, entry)
    elif n > 0:
        above = mark_at(ld(ld(ctx, STRONG_FRAMES), 1 + (n - 1) * FRAME_WIDTH + FRAME_VERTEX)) + MARK_LOW
        st(marks, above, min(ld(marks, above), low))


@shared
def tarjan(ctx, time):
    """Give every vertex of the set its component. 1: it is done, 0: the fuel is used up."""
    roots = ld(ctx, STRONG_ROOTS)
    while True:
        if ld(ctx, FOREST_FUEL) < 0:
            return 0
        n = ld(ctx, STRONG_FRAMES_N)
        if n > 0:
            at = 1 + (n - 1) * FRAME_WIDTH
            child = _next_child(ctx, at, time)
            if child != NO_PARENT:
                _visit(ctx, child)
            else:
                _return(ctx, ld(ld(ctx, STRONG_FRAMES), at + FRAME_VERTEX))
            continue
        i = ld(ctx, STRONG_ROOT_AT)
        many = ld(ctx, FOREST_ENTRIES_N) if roots == OF_ALL else ld(ctx, side_of(roots) + SIDE_N)
        if i >= many:
            return 1
        st(ctx, STRONG_ROOT_AT, i + 1)
        root = i if roots == OF_ALL else ld(ld(ctx, side_of(roots)), 1 + i)
        if _number(ctx, root) <= ld(ctx, STRONG_BEGAN):
            _visit(ctx, root)
