"""Labels: the order of variables, maintained along a depth-first walk of the edges (liu-2016, section 3.5).

A diagram's size depends on the order of its variables, and for reachability the order in which a depth-first walk meets
the edges is a good one: paths with a common prefix share it. A row's *label* is its position in that order, a number
with gaps on both sides, so that a new row gets a label between two others without changing theirs. The labels are rows
themselves, (row, label), arranged after this operator: written, undone and sent to shards like any rows.

Where a new edge (x, y) goes is algorithm 3 of the thesis, with `start` of a vertex (its first edge in the order) and
`end` (the last edge of the walk below it, or the edge by which the walk met it):

    (a) x is new, nothing goes out of y    behind all others
    (b) x is new, y has edges              before start[y] if the walk begins with y, else behind all others
    (c) x has only edges coming in         behind end[x]
    (d) x has edges going out              behind end[x], as (c), but start[x] stays

There are three deviations. The walk is not repaired: where the thesis would move the edges below y after the new edge,
they stay, because a row with another label is another variable, and all expressions with it would be recomputed. `end`
is updated only for the nearest PATIENCE vertices above x: the order is slightly worse for deep walks, never wrong. And
an exhausted gap is widened by relabelling some rows after it (`_spread`), which is an ordinary change: what depends on
them is recomputed.

Tables that are not edges use the order of arrival; rows of one time the order of their codes.

The in-memory state is derived from the arranged labels: it is rebuilt from them after a step was undone or a directory
was opened (LABELS_BUILT).
"""

from __future__ import annotations

from everview.kernels.build.native import entry, inner, operator, shared
from everview.kernels.expressions.vm import VM_ROWS
from everview.kernels.frontier.rollback import OTHER_WORDS
from everview.kernels.memory import alloc, free, ld, reserve, st
from everview.kernels.operators.stream import STREAM_N, STREAM_NSINKS, STREAM_REGS, STREAM_TAIL, flush
from everview.kernels.provenance.nodes import mixed
from everview.kernels.run.scope import SCOPE_NOW
from everview.kernels.trace.batch import BATCH_CAP, BATCH_DATA, BATCH_ROWS, diff_at, free_batch, time_at
from everview.kernels.trace.read import collect_rows
from everview.kernels.trace.trace import NO_SINCE, TRACE_DELTA, TRACE_STAMP

(
    LABELS_SOURCE,
    LABELS_KEPT,
    LABELS_STREAM,
    LABELS_SCOPE,
    LABELS_COLS,
    LABELS_EDGES,
    LABELS_BUILT,
    LABELS_ROWS,
    LABELS_ROWS_N,
    LABELS_SPARE,
    LABELS_FIRST,
    LABELS_LAST,
    LABELS_ROW_HEADS,
    LABELS_ROW_HEADS_N,
    LABELS_VERTICES,
    LABELS_VERTICES_N,
    LABELS_VERTEX_HEADS,
    LABELS_VERTEX_HEADS_N,
    LABELS_OUT,
    LABELS_OUT_N,
    LABELS_MOVED,
    LABELS_BASE,
    LABELS_WORDS,
) = range(OTHER_WORDS, OTHER_WORDS + 23)
"""A context: the trace whose delta are the rows that come and go, the one that has the labels, the stream they are said
to; columns of a row, whether the first two are the ends of an edge; the rows in memory (ROWS: a growing block, SPARE
the first that is free, FIRST and LAST in the order of labels), found by ROW_HEADS; the vertices, found by VERTEX_HEADS;
OUT: what is to be said; MOVED: how many rows ever got another label; BASE: all labels are larger.
"""

ROW_LABEL, ROW_BEFORE, ROW_BEHIND, ROW_NEXT, ROW_ENDING, ROW_COLUMNS = range(6)
"""A row in memory: its label, its neighbours in the order, the next row of its chain, the first vertex that ends with
it; then its columns.
"""

ORDERED_CODE, ORDERED_START, ORDERED_END, ORDERED_CHAIN, ORDERED_ENDING, ORDERED_WORDS = range(6)

LABELS_OF_TABLE = 1 << 43
"""Each table has so many labels of its own: those of table n begin with n times as many."""

GAP = 1 << 16
"""What is left free behind the last label."""

PATIENCE = 256
"""Vertices above an edge whose ends are moved along."""

CROWDED = 1 << 10
"""Labels a row should have to itself where rows are spread anew."""

NO_ROW = -1


@inner
def _width(ctx):
    return ROW_COLUMNS + ld(ctx, LABELS_COLS)


@inner
def _row(ctx, row, word):
    return ld(ld(ctx, LABELS_ROWS), 1 + row * _width(ctx) + word)


@inner
def _set_row(ctx, row, word, value):
    st(ld(ctx, LABELS_ROWS), 1 + row * _width(ctx) + word, value)


@inner
def _vertex(ctx, vertex, word):
    return ld(ld(ctx, LABELS_VERTICES), 1 + vertex * ORDERED_WORDS + word)


@inner
def _set_vertex(ctx, vertex, word, value):
    st(ld(ctx, LABELS_VERTICES), 1 + vertex * ORDERED_WORDS + word, value)


@inner
def _hash_of_row(ctx, row):
    h = 0
    for c in range(ld(ctx, LABELS_COLS)):
        h = mixed(h, _row(ctx, row, ROW_COLUMNS + c))
    return h


@inner
def _heads_for(ctx, field, count_field, wanted):
    """Whether the chains had to be made anew, because there are too few for so many members."""
    size = ld(ctx, count_field)
    if wanted <= size:
        return False
    size = max(2 * size, 64)
    while size < wanted:
        size *= 2
    heads = alloc(size)
    free(ld(ctx, field))
    st(ctx, field, heads)
    st(ctx, count_field, size)
    for i in range(size):
        st(heads, i, NO_ROW)
    return True


@inner
def _chain_row(ctx, row):
    heads = ld(ctx, LABELS_ROW_HEADS)
    at = _hash_of_row(ctx, row) & (ld(ctx, LABELS_ROW_HEADS_N) - 1)
    _set_row(ctx, row, ROW_NEXT, ld(heads, at))
    st(heads, at, row)


@inner
def _chain_vertex(ctx, vertex):
    heads = ld(ctx, LABELS_VERTEX_HEADS)
    at = mixed(0, _vertex(ctx, vertex, ORDERED_CODE)) & (ld(ctx, LABELS_VERTEX_HEADS_N) - 1)
    _set_vertex(ctx, vertex, ORDERED_CHAIN, ld(heads, at))
    st(heads, at, vertex)


@shared
def _find_vertex(ctx, code):
    """The vertex with a code, new if there is none."""
    size = ld(ctx, LABELS_VERTEX_HEADS_N)
    if size > 0:
        vertex = ld(ld(ctx, LABELS_VERTEX_HEADS), mixed(0, code) & (size - 1))
        while vertex != NO_ROW and _vertex(ctx, vertex, ORDERED_CODE) != code:
            vertex = _vertex(ctx, vertex, ORDERED_CHAIN)
        if vertex != NO_ROW:
            return vertex
    vertex = ld(ctx, LABELS_VERTICES_N)
    reserve(ctx, LABELS_VERTICES, LABELS_VERTICES_N, ORDERED_WORDS, 1)
    st(ctx, LABELS_VERTICES_N, vertex + 1)
    _set_vertex(ctx, vertex, ORDERED_CODE, code)
    _set_vertex(ctx, vertex, ORDERED_START, NO_ROW)
    _set_vertex(ctx, vertex, ORDERED_END, NO_ROW)
    _set_vertex(ctx, vertex, ORDERED_ENDING, NO_ROW)
    if _heads_for(ctx, LABELS_VERTEX_HEADS, LABELS_VERTEX_HEADS_N, vertex + 1):
        for v in range(vertex):
            _chain_vertex(ctx, v)
    _chain_vertex(ctx, vertex)
    return vertex


@inner
def _end_with(ctx, vertex, row):
    """A vertex that ends nowhere ends with a row."""
    _set_vertex(ctx, vertex, ORDERED_END, row)
    _set_vertex(ctx, vertex, ORDERED_ENDING, _row(ctx, row, ROW_ENDING))
    _set_row(ctx, row, ROW_ENDING, vertex)


@inner
def _end_no_more(ctx, vertex):
    """A vertex no longer ends where it did."""
    row = _vertex(ctx, vertex, ORDERED_END)
    if row == NO_ROW:
        return
    after = _vertex(ctx, vertex, ORDERED_ENDING)
    other = _row(ctx, row, ROW_ENDING)
    if other == vertex:
        _set_row(ctx, row, ROW_ENDING, after)
    else:
        while _vertex(ctx, other, ORDERED_ENDING) != vertex:
            other = _vertex(ctx, other, ORDERED_ENDING)
        _set_vertex(ctx, other, ORDERED_ENDING, after)
    _set_vertex(ctx, vertex, ORDERED_END, NO_ROW)


@shared
def _new_row(ctx, data, cap, at):
    """Room in memory for a row whose columns are row `at` of some column-major words; not in the order yet."""
    row = ld(ctx, LABELS_SPARE)
    if row != NO_ROW:
        st(ctx, LABELS_SPARE, _row(ctx, row, ROW_NEXT))
    else:
        row = ld(ctx, LABELS_ROWS_N)
        reserve(ctx, LABELS_ROWS, LABELS_ROWS_N, _width(ctx), 1)
        st(ctx, LABELS_ROWS_N, row + 1)
    for c in range(ld(ctx, LABELS_COLS)):
        _set_row(ctx, row, ROW_COLUMNS + c, ld(data, c * cap + at))
    _set_row(ctx, row, ROW_ENDING, NO_ROW)
    _set_row(ctx, row, ROW_LABEL, 0)
    if _heads_for(ctx, LABELS_ROW_HEADS, LABELS_ROW_HEADS_N, ld(ctx, LABELS_ROWS_N)):
        r = ld(ctx, LABELS_FIRST)
        while r != NO_ROW:
            _chain_row(ctx, r)
            r = _row(ctx, r, ROW_BEHIND)
    _chain_row(ctx, row)
    return row


@shared
def _find_row(ctx, data, cap, at):
    """The row in memory with the columns of row `at` of some column-major words."""
    if ld(ctx, LABELS_ROW_HEADS_N) == 0:
        return NO_ROW
    h = 0
    for c in range(ld(ctx, LABELS_COLS)):
        h = mixed(h, ld(data, c * cap + at))
    row = ld(ld(ctx, LABELS_ROW_HEADS), h & (ld(ctx, LABELS_ROW_HEADS_N) - 1))
    while row != NO_ROW:
        same = True
        for c in range(ld(ctx, LABELS_COLS)):
            if _row(ctx, row, ROW_COLUMNS + c) != ld(data, c * cap + at):
                same = False
        if same:
            return row
        row = _row(ctx, row, ROW_NEXT)
    return NO_ROW


@shared
def _link(ctx, row, before):
    """Put a row behind another one in the order; NO_ROW: in front of all."""
    behind = ld(ctx, LABELS_FIRST) if before == NO_ROW else _row(ctx, before, ROW_BEHIND)
    _set_row(ctx, row, ROW_BEFORE, before)
    _set_row(ctx, row, ROW_BEHIND, behind)
    if before == NO_ROW:
        st(ctx, LABELS_FIRST, row)
    else:
        _set_row(ctx, before, ROW_BEHIND, row)
    if behind == NO_ROW:
        st(ctx, LABELS_LAST, row)
    else:
        _set_row(ctx, behind, ROW_BEFORE, row)
    return 0


@shared
def _say(ctx, row, time, diff):
    """A row has its label, or has it no longer."""
    cols = ld(ctx, LABELS_COLS)
    out = reserve(ctx, LABELS_OUT, LABELS_OUT_N, cols + 3, 1)
    at = 1 + ld(ctx, LABELS_OUT_N) * (cols + 3)
    for c in range(cols):
        st(out, at + c, _row(ctx, row, ROW_COLUMNS + c))
    st(out, at + cols, _row(ctx, row, ROW_LABEL))
    st(out, at + cols + 1, time)
    st(out, at + cols + 2, diff)
    st(ctx, LABELS_OUT_N, ld(ctx, LABELS_OUT_N) + 1)
    return 0


@inner
def _relabel(ctx, row, label, time):
    """Give a row another label."""
    _say(ctx, row, time, -1)
    _set_row(ctx, row, ROW_LABEL, label)
    _say(ctx, row, time, 1)
    st(ctx, LABELS_MOVED, ld(ctx, LABELS_MOVED) + 1)


@shared
def _renumber(ctx, time):
    """The labels of the table are used up at the end: give all rows others, evenly."""
    rows = 0
    row = ld(ctx, LABELS_FIRST)
    while row != NO_ROW:
        rows += 1
        row = _row(ctx, row, ROW_BEHIND)
    apart = min(GAP, LABELS_OF_TABLE // (2 * rows + 2))
    label = ld(ctx, LABELS_BASE)
    row = ld(ctx, LABELS_FIRST)
    while row != NO_ROW:
        label += apart
        _relabel(ctx, row, label, time)
        row = _row(ctx, row, ROW_BEHIND)
    return 0


@shared
def _spread(ctx, before, time):
    """There is no label behind a row: give those behind it others, further apart, as few as will do."""
    low = ld(ctx, LABELS_BASE) if before == NO_ROW else _row(ctx, before, ROW_LABEL)
    last = ld(ctx, LABELS_FIRST) if before == NO_ROW else _row(ctx, before, ROW_BEHIND)
    count = 1
    high = low
    while True:
        behind = _row(ctx, last, ROW_BEHIND)
        high = _row(ctx, last, ROW_LABEL) + 2 * count * CROWDED if behind == NO_ROW else _row(ctx, behind, ROW_LABEL)
        if behind == NO_ROW or high - low >= (count + 1) * CROWDED:
            break
        last = behind
        count += 1
    apart = (high - low) // (count + 1)
    row = last
    while count > 0:
        _relabel(ctx, row, low + count * apart, time)
        row = _row(ctx, row, ROW_BEFORE)
        count -= 1
    return 0


@shared
def _place(ctx, row, before, time):
    """Put a new row behind another one in the order, with a label between its neighbours', and say so."""
    last = ld(ctx, LABELS_LAST)
    base = ld(ctx, LABELS_BASE)
    if last != NO_ROW and _row(ctx, last, ROW_LABEL) >= base + LABELS_OF_TABLE - (GAP << 4):
        _renumber(ctx, time)
    behind = ld(ctx, LABELS_FIRST) if before == NO_ROW else _row(ctx, before, ROW_BEHIND)
    low = base if before == NO_ROW else _row(ctx, before, ROW_LABEL)
    if behind == NO_ROW:
        label = low + GAP
    else:
        if _row(ctx, behind, ROW_LABEL) - low < 2:
            _spread(ctx, before, time)
        label = low + max(1, (_row(ctx, behind, ROW_LABEL) - low) >> 4)
    _link(ctx, row, before)
    _set_row(ctx, row, ROW_LABEL, label)
    _say(ctx, row, time, 1)
    return 0


@inner
def _move_ends(ctx, x, old, row):
    """What ended with `old` and is above x, or is x, ends with the new row behind it."""
    start = _vertex(ctx, x, ORDERED_START)
    first = _row(ctx, row if start == NO_ROW else start, ROW_LABEL)
    vertex = _row(ctx, old, ROW_ENDING)
    patience = PATIENCE
    while vertex != NO_ROW and patience > 0:
        after = _vertex(ctx, vertex, ORDERED_ENDING)
        begins = _vertex(ctx, vertex, ORDERED_START)
        if vertex == x or (begins != NO_ROW and _row(ctx, begins, ROW_LABEL) <= first):
            _end_no_more(ctx, vertex)
            _end_with(ctx, vertex, row)
        vertex = after
        patience -= 1
    if _vertex(ctx, x, ORDERED_END) == old:  # it was beyond patience
        _end_no_more(ctx, x)
        _end_with(ctx, x, row)


@shared
def _insert_edge(ctx, row, time):
    """Algorithm 3: see the module."""
    x = _find_vertex(ctx, _row(ctx, row, ROW_COLUMNS))
    code = _row(ctx, row, ROW_COLUMNS + 1)
    y = _find_vertex(ctx, code)
    end = _vertex(ctx, x, ORDERED_END)
    if end != NO_ROW:  # (c) and (d)
        _place(ctx, row, end, time)
        _move_ends(ctx, x, end, row)
    else:
        before = ld(ctx, LABELS_LAST)
        first = _vertex(ctx, y, ORDERED_START)
        in_front = False
        if first != NO_ROW and x != y:  # (b)
            met_by = _row(ctx, first, ROW_BEFORE)
            in_front = met_by == NO_ROW or _row(ctx, met_by, ROW_COLUMNS + 1) != code
            if in_front:
                before = met_by
        _place(ctx, row, before, time)
        end = _vertex(ctx, y, ORDERED_END)
        _end_with(ctx, x, end if in_front and end != NO_ROW else row)
    if _vertex(ctx, x, ORDERED_START) == NO_ROW:
        _set_vertex(ctx, x, ORDERED_START, row)
    if _vertex(ctx, y, ORDERED_END) == NO_ROW:
        _end_with(ctx, y, row)
    return 0


@shared
def _remove(ctx, row, time):
    """A row is gone: what began or ended with it begins or ends with its neighbour, if that will do."""
    _say(ctx, row, time, -1)
    before = _row(ctx, row, ROW_BEFORE)
    behind = _row(ctx, row, ROW_BEHIND)
    if ld(ctx, LABELS_EDGES) != 0:
        x = _find_vertex(ctx, _row(ctx, row, ROW_COLUMNS))
        if _vertex(ctx, x, ORDERED_START) == row:
            next_of_x = behind != NO_ROW and _row(ctx, behind, ROW_COLUMNS) == _row(ctx, row, ROW_COLUMNS)
            _set_vertex(ctx, x, ORDERED_START, behind if next_of_x else NO_ROW)
        while _row(ctx, row, ROW_ENDING) != NO_ROW:
            vertex = _row(ctx, row, ROW_ENDING)
            start = _vertex(ctx, vertex, ORDERED_START)
            _end_no_more(ctx, vertex)
            if start != NO_ROW and before != NO_ROW and start != row:
                if _row(ctx, start, ROW_LABEL) <= _row(ctx, before, ROW_LABEL):
                    _end_with(ctx, vertex, before)
    if before == NO_ROW:
        st(ctx, LABELS_FIRST, behind)
    else:
        _set_row(ctx, before, ROW_BEHIND, behind)
    if behind == NO_ROW:
        st(ctx, LABELS_LAST, before)
    else:
        _set_row(ctx, behind, ROW_BEFORE, before)
    heads = ld(ctx, LABELS_ROW_HEADS)
    at = _hash_of_row(ctx, row) & (ld(ctx, LABELS_ROW_HEADS_N) - 1)
    other = ld(heads, at)
    if other == row:
        st(heads, at, _row(ctx, row, ROW_NEXT))
    else:
        while _row(ctx, other, ROW_NEXT) != row:
            other = _row(ctx, other, ROW_NEXT)
        _set_row(ctx, other, ROW_NEXT, _row(ctx, row, ROW_NEXT))
    _set_row(ctx, row, ROW_NEXT, ld(ctx, LABELS_SPARE))
    st(ctx, LABELS_SPARE, row)
    return 0


@shared
def forget_labels(ctx):
    """Nothing is in memory."""
    st(ctx, LABELS_BUILT, 0)
    st(ctx, LABELS_ROWS_N, 0)
    st(ctx, LABELS_SPARE, NO_ROW)
    st(ctx, LABELS_FIRST, NO_ROW)
    st(ctx, LABELS_LAST, NO_ROW)
    st(ctx, LABELS_VERTICES_N, 0)
    st(ctx, LABELS_OUT_N, 0)
    for field in (LABELS_ROW_HEADS, LABELS_VERTEX_HEADS):
        heads = ld(ctx, field)
        for i in range(ld(ctx, field + 1)):
            st(heads, i, NO_ROW)
    return 0


@inner
def _close(ctx, vertex, row):
    """The walk leaves a vertex: it ends with the row before."""
    if _vertex(ctx, vertex, ORDERED_START) != NO_ROW:
        _end_no_more(ctx, vertex)
        _end_with(ctx, vertex, row)


@inner
def _labelled_row(ctx, data, cap, at):
    """A row in memory from one of the arranged labels, whose columns are the label, then the row's own."""
    cols = ld(ctx, LABELS_COLS)
    own = alloc(cols + 1)
    for c in range(cols):
        st(own, c, ld(data, (c + 1) * cap + at))
    row = _new_row(ctx, own, 1, 0)
    free(own)
    _set_row(ctx, row, ROW_LABEL, ld(data, at))
    return row


@shared
def _build(ctx):
    """Take the labels that are arranged into memory, in their order, and walk along them for starts and ends."""
    forget_labels(ctx)
    st(ctx, LABELS_BUILT, 1)
    batch = collect_rows(ld(ctx, LABELS_KEPT), 0, 0, NO_SINCE, 2**62, 0)
    if batch == 0:
        return 0
    data = ld(batch, BATCH_DATA)
    cap = ld(batch, BATCH_CAP)
    walk = alloc(ld(batch, BATCH_ROWS) + 1)
    depth = 0
    for i in range(ld(batch, BATCH_ROWS)):
        if diff_at(batch, data, i, 0) <= 0:
            continue
        row = _labelled_row(ctx, data, cap, i)
        _link(ctx, row, ld(ctx, LABELS_LAST))
        if ld(ctx, LABELS_EDGES) == 0:
            continue
        x = _find_vertex(ctx, _row(ctx, row, ROW_COLUMNS))
        y = _find_vertex(ctx, _row(ctx, row, ROW_COLUMNS + 1))
        if _vertex(ctx, x, ORDERED_START) == NO_ROW:
            _set_vertex(ctx, x, ORDERED_START, row)
        while depth > 0 and ld(walk, depth - 1) != x:
            depth -= 1
            _close(ctx, ld(walk, depth), _row(ctx, row, ROW_BEFORE))
        if depth == 0:
            st(walk, 0, x)
            depth = 1
        if _vertex(ctx, y, ORDERED_END) == NO_ROW:
            _end_with(ctx, y, row)
            if y != x:
                st(walk, depth, y)
                depth += 1
    while depth > 0:
        depth -= 1
        _close(ctx, ld(walk, depth), ld(ctx, LABELS_LAST))
    free(walk)
    free_batch(batch)
    return 0


@inner
def _next_time(delta, after):
    """The first time of a batch's rows that is later than another; -1 if none is."""
    data = ld(delta, BATCH_DATA)
    found = -1
    for i in range(ld(delta, BATCH_ROWS)):
        time = time_at(delta, data, i)
        if time > after and (found < 0 or time < found):
            found = time
    return found


@inner
def _send(ctx):
    """Say what is to be said."""
    n = ld(ctx, LABELS_OUT_N)
    st(ctx, LABELS_OUT_N, 0)
    stream = ld(ctx, LABELS_STREAM)
    if n == 0 or stream == 0 or ld(stream, STREAM_NSINKS) == 0:
        return
    cols = ld(ctx, LABELS_COLS) + 1
    out = ld(ctx, LABELS_OUT)
    regs = ld(stream, STREAM_REGS)
    tail = ld(stream, STREAM_TAIL)
    start = 0
    while start < n:
        some = min(VM_ROWS, n - start)
        for i in range(some):
            at = 1 + (start + i) * (cols + 2)
            for c in range(cols):
                st(regs, c * VM_ROWS + i, ld(out, at + c))
            st(tail, i, ld(out, at + cols))
            st(tail, VM_ROWS + i, ld(out, at + cols + 1))
        st(stream, STREAM_N, some)
        flush(stream)
        start += some


@operator
def keep_labels(ctx):
    """Compiled operator; see the module. Its input are rows that are there once, or not at all."""
    trace = ld(ctx, LABELS_SOURCE)
    if ld(trace, TRACE_STAMP) != ld(ld(ctx, LABELS_SCOPE), SCOPE_NOW) or ld(trace, TRACE_DELTA) == 0:
        return 0
    delta = ld(trace, TRACE_DELTA)
    if ld(ctx, LABELS_BUILT) == 0:
        _build(ctx)
    data = ld(delta, BATCH_DATA)
    cap = ld(delta, BATCH_CAP)
    time = _next_time(delta, -1)
    while time >= 0:
        for i in range(ld(delta, BATCH_ROWS)):
            if time_at(delta, data, i) == time and diff_at(delta, data, i, 0) < 0:
                row = _find_row(ctx, data, cap, i)
                if row != NO_ROW:
                    _remove(ctx, row, time)
        for i in range(ld(delta, BATCH_ROWS)):
            if time_at(delta, data, i) == time and diff_at(delta, data, i, 0) > 0:
                row = _new_row(ctx, data, cap, i)
                if ld(ctx, LABELS_EDGES) != 0:
                    _insert_edge(ctx, row, time)
                else:
                    _place(ctx, row, ld(ctx, LABELS_LAST), time)
        time = _next_time(delta, time)
    _send(ctx)
    return 0


@operator
def undo_labels(ctx):
    """The step failed: what is in memory is built anew when it is next needed."""
    forget_labels(ctx)
    return 0


@operator
def settle_labels(ctx):
    """The step is committed."""
    return 0


@entry("int", "int")
def about_labels(what, ctx):
    """0: give a context's memory back. 1: the bytes of it. 2: rows that ever got another label."""
    if what == 0:
        for field in (LABELS_ROWS, LABELS_ROW_HEADS, LABELS_VERTICES, LABELS_VERTEX_HEADS, LABELS_OUT):
            free(ld(ctx, field))
            st(ctx, field, 0)
        return 0
    if what == 2:
        return ld(ctx, LABELS_MOVED)
    words = ld(ctx, LABELS_ROW_HEADS_N) + ld(ctx, LABELS_VERTEX_HEADS_N)
    for field in (LABELS_ROWS, LABELS_VERTICES, LABELS_OUT):
        if ld(ctx, field) != 0:
            words += ld(ld(ctx, field), 0)
    return 8 * words
