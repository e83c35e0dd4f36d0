"""Repairs the levels of one query after the edges of an epoch have changed, or its sources.

    cut      vertices whose level may have lost its reason: the far ends of deleted edges that led one level down, and
             sources that went
    trim     level by level: a vertex stays if an in-neighbour is one level above it, else it falls, and its
             out-neighbours one level below are in doubt. Levels above are settled by then, so no vertex holds up itself
    regrow   what fell, and is still reached by what stayed, is offered a level
    offer    the same for the far ends of new edges, and for new sources
    spread   offers are taken, the least first, and passed on

(Even and Shiloach, 1981.) Everything is read from the shared arrangements of the edges, as of the epoch: a row that
would change something is verified, others are not (`offers`). The heap has (level, id).
"""

from __future__ import annotations

from everview.kernels.build.native import inner, shared
from everview.kernels.frontier.forest import (
    FOREST_BAD,
    FOREST_BAD_N,
    FOREST_EPOCHS_AT,
    FOREST_FUEL,
    FOREST_HEAP_N,
    FOREST_KEY,
    FOREST_RULES,
    FOREST_START,
    pop,
    push,
)
from everview.kernels.frontier.history import (
    HISTORY_EDGES,
    HISTORY_EDGES_N,
    HISTORY_NEW,
    HISTORY_RECORDS_N,
    HISTORY_UNTIDY,
    id_of,
    node_of,
    question_of,
)
from everview.kernels.frontier.levels import (
    LANES,
    LEVELS_MOST,
    LEVELS_TABLE,
    LEVELS_WIDTH,
    column_of,
    give,
    level_of,
    query,
    seek_source,
    starts_at,
    vertex,
)
from everview.kernels.frontier.offers import adds, all_there, edges_of, first_row, is_there, there
from everview.kernels.frontier.repair import change_at
from everview.kernels.memory import ld, reserve, st
from everview.kernels.trace.batch import BATCH_CAP, BATCH_DATA, BATCH_ROWS, diff_at
from everview.kernels.trace.trace import TRACE_COUNT, TRACE_TABLE

CHANGE_KIND, CHANGE_DIFF, CHANGE_FROM, CHANGE_TO, CHANGE_NODE, CHANGE_WORDS = range(6)
"""A change of the epoch, in HISTORY_EDGES. Of an edge: the ids of its ends (below 0: none), and the far node. Of a
source: the number of its query, its id, its node.
"""

KIND_EDGE, KIND_SOURCE = range(2)


# the changes of an epoch


@inner
def _list_source(ctx, data, cap, row, diff):
    """(query, id) of a changed source; they get numbers if it is new."""
    st(ld(ctx, FOREST_KEY), 0, ld(data, row))
    node = ld(data, cap + row)
    if diff > 0:
        st(ctx, HISTORY_NEW, 1)
        return query(ctx), vertex(ctx, node)
    st(ctx, HISTORY_UNTIDY, 1)
    return question_of(ctx), id_of(ctx, node)


@shared
def list_changes(ctx, epoch):
    """List the changes of an epoch by ids, for all queries."""
    bounds = ld(ctx, FOREST_EPOCHS_AT)
    st(ctx, HISTORY_EDGES_N, 0)
    for i in range(ld(bounds, epoch), ld(bounds, epoch + 1)):
        rule, delta, row = change_at(ctx, i)
        data = ld(delta, BATCH_DATA)
        cap = ld(delta, BATCH_CAP)
        diff = diff_at(delta, data, row, 0)
        near, far = 0, 0
        if rule >= 0:
            near = id_of(ctx, ld(data, row))
            far = id_of(ctx, ld(data, cap + row))
        else:
            near, far = _list_source(ctx, data, cap, row, diff)
        changes = reserve(ctx, HISTORY_EDGES, HISTORY_EDGES_N, CHANGE_WORDS, 1)
        at = 1 + ld(ctx, HISTORY_EDGES_N) * CHANGE_WORDS
        st(changes, at + CHANGE_KIND, KIND_EDGE if rule >= 0 else KIND_SOURCE)
        st(changes, at + CHANGE_DIFF, diff)
        st(changes, at + CHANGE_FROM, near)
        st(changes, at + CHANGE_TO, far)
        st(changes, at + CHANGE_NODE, ld(data, cap + row))
        st(ctx, HISTORY_EDGES_N, ld(ctx, HISTORY_EDGES_N) + 1)
    return 0


@inner
def _concerns(ctx, number, together):
    """Whether a change concerns a query: it begins where the query has been, or is its source. `together`: or one of
    the queries in the same word.
    """
    changes = ld(ctx, HISTORY_EDGES)
    for i in range(ld(ctx, HISTORY_EDGES_N)):
        at = 1 + i * CHANGE_WORDS
        near = ld(changes, at + CHANGE_FROM)
        if ld(changes, at + CHANGE_KIND) == KIND_SOURCE:
            if near == number or (together and near // LANES == number // LANES):
                return True
        elif near >= 0:
            if together:
                if ld(ld(ctx, LEVELS_TABLE), near * ld(ctx, LEVELS_WIDTH) + 1 + number // LANES) != 0:
                    return True
            elif level_of(ctx, number, near) != 0:
                return True
    return False


@shared
def next_concerned(ctx, number):
    """The first query from a number on that a change of the epoch concerns; how many there are, if none."""
    last = ld(ctx, HISTORY_RECORDS_N)
    while number < last:
        if number % LANES == 0 and not _concerns(ctx, number, True):
            number += LANES
        elif _concerns(ctx, number, False):
            return number
        else:
            number += 1
    return last


# what goes


@shared
def cut(ctx, number):
    """Put the vertices whose level may have lost its reason into the heap."""
    for i in range(ld(ctx, HISTORY_EDGES_N)):
        changes = ld(ctx, HISTORY_EDGES)
        at = 1 + i * CHANGE_WORDS
        near = ld(changes, at + CHANGE_FROM)
        far = ld(changes, at + CHANGE_TO)
        if ld(changes, at + CHANGE_DIFF) < 0 and far >= 0:
            level = level_of(ctx, number, far)
            if ld(changes, at + CHANGE_KIND) == KIND_SOURCE:
                if near == number and level == 1:
                    push(ctx, level, 0, far)
            elif near >= 0 and level > 1 and level_of(ctx, number, near) == level - 1:
                push(ctx, level, 0, far)
    return 0


@shared
def _offered(ctx, number, one, least, enough, time):
    """The least level that in-neighbours from a level on give a vertex, 0 if none does; no more is looked for once one
    gives it `enough`.
    """
    trace, _ = edges_of(ld(ctx, FOREST_RULES), 0, False)
    node = node_of(ctx, one)
    best = 0
    for b in range(ld(trace, TRACE_COUNT)):
        batch = ld(ld(trace, TRACE_TABLE), b)
        data = ld(batch, BATCH_DATA)
        cap = ld(batch, BATCH_CAP)
        i = first_row(ctx, batch, node)
        begin = i
        while i < ld(batch, BATCH_ROWS) and ld(data, i) == node:
            other = id_of(ctx, ld(data, cap + i))
            level = 0 if other < 0 else level_of(ctx, number, other)
            usable = least <= level <= ld(ctx, LEVELS_MOST) and (best == 0 or level + 1 < best)
            if usable and adds(batch, data, i, time) and there(trace, batch, i, time) != 0:
                best = level + 1
                if best == enough:
                    return best
            i += 1
        st(ctx, FOREST_FUEL, ld(ctx, FOREST_FUEL) - 1 - (i - begin))
    return best


@inner
def _is_held(ctx, number, one, level, time):
    """Whether a vertex has a reason to be at its level."""
    if level == 1:
        return starts_at(ctx, number, node_of(ctx, one), time) != 0
    return _offered(ctx, number, one, level - 1, level, time) == level


@shared
def _doubt_below(ctx, number, one, level):
    """Put out-neighbours of a vertex that fell into the heap, if they were one level below it."""
    trace, _ = edges_of(ld(ctx, FOREST_RULES), 0, True)
    node = node_of(ctx, one)
    for b in range(ld(trace, TRACE_COUNT)):
        batch = ld(ld(trace, TRACE_TABLE), b)
        data = ld(batch, BATCH_DATA)
        cap = ld(batch, BATCH_CAP)
        i = first_row(ctx, batch, node)
        while i < ld(batch, BATCH_ROWS) and ld(data, i) == node:
            other = id_of(ctx, ld(data, cap + i))
            if other >= 0 and level_of(ctx, number, other) == level + 1:
                push(ctx, level + 1, 0, other)
            i += 1
    return 0


@shared
def trim(ctx, number, time):
    """Let fall what has no reason to be at its level; 0 if there is no fuel left."""
    while ld(ctx, FOREST_HEAP_N) > 0:
        if ld(ctx, FOREST_FUEL) < 0:
            return 0
        level, one = pop(ctx)
        if level_of(ctx, number, one) == level and not _is_held(ctx, number, one, level, time):
            fallen = reserve(ctx, FOREST_BAD, FOREST_BAD_N, 1, 1)
            give(ctx, number, one, 0)
            st(fallen, 1 + ld(ctx, FOREST_BAD_N), one)
            st(ctx, FOREST_BAD_N, ld(ctx, FOREST_BAD_N) + 1)
            _doubt_below(ctx, number, one, level)
    return 1


# what comes


@shared
def regrow(ctx, number, time):
    """Offer levels to what fell."""
    for i in range(ld(ctx, FOREST_BAD_N)):
        one = ld(ld(ctx, FOREST_BAD), 1 + i)
        level = _offered(ctx, number, one, 1, 2, time)
        if level != 0:
            push(ctx, level, 0, one)
    st(ctx, FOREST_BAD_N, 0)
    return 0


@shared
def offer(ctx, number):
    """Offer levels to the far ends of new edges, and to new sources."""
    for i in range(ld(ctx, HISTORY_EDGES_N)):
        changes = ld(ctx, HISTORY_EDGES)
        at = 1 + i * CHANGE_WORDS
        near = ld(changes, at + CHANGE_FROM)
        if ld(changes, at + CHANGE_DIFF) > 0:
            if ld(changes, at + CHANGE_KIND) == KIND_SOURCE:
                if near == number:
                    push(ctx, 1, 0, ld(changes, at + CHANGE_TO))
            elif near >= 0:
                level = level_of(ctx, number, near)
                if 0 < level <= ld(ctx, LEVELS_MOST):
                    push(ctx, level + 1, 0, vertex(ctx, ld(changes, at + CHANGE_NODE)))
    return 0


@shared
def plant(ctx, number, time):
    """Offer levels to all sources of a query at a time."""
    trace = ld(ctx, FOREST_START)
    own = column_of(ctx, number)
    for b in range(ld(trace, TRACE_COUNT)):
        batch = ld(ld(trace, TRACE_TABLE), b)
        data = ld(batch, BATCH_DATA)
        i = seek_source(ctx, number, batch)
        while i < ld(batch, BATCH_ROWS) and ld(data, i) == own:
            if adds(batch, data, i, time) and there(trace, batch, i, time) != 0:
                push(ctx, 1, 0, vertex(ctx, ld(data, ld(batch, BATCH_CAP) + i)))
            i += 1
    return 0


@inner
def _pass_on(ctx, number, one, level, time):
    """Offer the next level to the out-neighbours of a vertex."""
    trace, _ = edges_of(ld(ctx, FOREST_RULES), 0, True)
    node = node_of(ctx, one)
    for b in range(ld(trace, TRACE_COUNT)):
        batch = ld(ld(trace, TRACE_TABLE), b)
        data = ld(batch, BATCH_DATA)
        cap = ld(batch, BATCH_CAP)
        plain = all_there(trace, batch, data, time)
        i = first_row(ctx, batch, node)
        begin = i
        while i < ld(batch, BATCH_ROWS) and ld(data, i) == node:
            other = id_of(ctx, ld(data, cap + i))
            known = 0 if other < 0 else level_of(ctx, number, other)
            if (known == 0 or known > level + 1) and is_there(plain, trace, batch, data, i, time):
                push(ctx, level + 1, 0, vertex(ctx, ld(data, cap + i)))
            i += 1
        st(ctx, FOREST_FUEL, ld(ctx, FOREST_FUEL) - 1 - (i - begin))


@shared
def spread(ctx, number, time):
    """Take offers, the least first, and pass them on; 0 if there is no fuel left."""
    while ld(ctx, FOREST_HEAP_N) > 0:
        if ld(ctx, FOREST_FUEL) < 0:
            return 0
        level, one = pop(ctx)
        known = level_of(ctx, number, one)
        if known == 0 or known > level:
            give(ctx, number, one, level)
            if level <= ld(ctx, LEVELS_MOST):
                _pass_on(ctx, number, one, level, time)
    return 1
