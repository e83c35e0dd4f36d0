"""Where two balls meet: the distance of a pair of nodes, from a ball around each.

AHEAD is a forest of balls along the edges, around sources; BEHIND one against them, around targets. A path from source
to target has a last vertex u in the ball ahead; if the ball behind contains the next one, v, its length is

    ahead(u) + weight of (u, v) + behind(v)

and the least of these over all edges is the distance, as long as *it is no more than both radii and one*: let u be the
last within the radius ahead, then v is farther than that, and its remaining distance is small enough for the ball
behind to contain it. Otherwise a ball must grow, unless one of them is complete.

A pair stores its best edge (NEAR, FAR). The best can change because

    a vertex has come to a ball, or nearer: the edges that lead on from it may be better
    an edge came between two balls
    the best edge went, or its ends are farther away or gone: the edges of one ball are all looked at again (`look`)

The pairs of a ball are a list, and those of balls that share many pairs are walked for every vertex that changes: the
price of one source with thousands of targets.
"""

from __future__ import annotations

from everview.kernels.build.native import inner, shared
from everview.kernels.frontier.balls import (
    BALL_LAST,
    BALL_OPEN,
    BALL_PAIRS,
    BALL_RADIUS,
    BALL_SIZE,
    ball_at,
    entry_in,
)
from everview.kernels.frontier.forest import (
    FOREST_BALLS,
    FOREST_ENTRIES,
    FOREST_FUEL,
    FOREST_KEY,
    FOREST_LOG,
    FOREST_LOG_N,
    FOREST_RULES,
    FOREST_SERIALS,
    FOREST_WORDS,
    LOGGED,
    NO_PARENT,
    VERTEX_BASE,
    VERTEX_NODE,
    VERTEX_PARENT,
    VERTEX_QUESTION,
    VERTEX_VALUE,
    WORST_VALUE,
    place,
)
from everview.kernels.frontier.offers import adds, edges_of, first_row, still_held, there, too_far, weight_of
from everview.kernels.frontier.registry import record
from everview.kernels.frontier.vertex_lookup import find, first_of, next_of
from everview.kernels.memory import ld, reserve, st
from everview.kernels.trace.batch import BATCH_CAP, BATCH_DATA, BATCH_ROWS
from everview.kernels.trace.trace import TRACE_COUNT, TRACE_TABLE

(
    PAIRS_AHEAD,
    PAIRS_BEHIND,
    PAIRS_RECORDS,
    PAIRS_N,
    PAIRS_FIND,
    PAIRS_FIND_SIZE,
    PAIRS_FREE,
    PAIRS_LOG,
    PAIRS_LOG_N,
    PAIRS_LOG_FROM,
    PAIRS_TODO,
    PAIRS_TODO_N,
    PAIRS_STAGE,
    PAIRS_CURRENT,
    PAIRS_SIDE,
    PAIRS_BEFORE,
    PAIRS_SEEN_AHEAD,
    PAIRS_SEEN_BEHIND,
    PAIRS_OPENED_AHEAD,
    PAIRS_OPENED_BEHIND,
    PAIRS_WASTE,
    PAIRS_NEW,
    PAIRS_BUDGET,
    PAIRS_USED,
    PAIRS_LOOKS,
    PAIRS_GROWTHS,
    PAIRS_WORDS,
) = range(FOREST_WORDS, FOREST_WORDS + 27)
"""Words behind those of a forest. AHEAD, BEHIND: the contexts of both forests. RECORDS: the registry of pairs. LOG:
copies of pairs, those of the epoch from LOG_FROM on. TODO: pairs whose distance is in doubt. STAGE, CURRENT, SIDE,
BEFORE: where the work is (see `pairs`). SEEN, OPENED: how far the logs of entries and balls have been looked at. WASTE:
about how many entries nobody needs. NEW: whether the step asks something new; BUDGET, USED: see `budget`. LOOKS,
GROWTHS: how often all edges of a ball were looked at, and a ball has grown, since the beginning.
"""

(
    PAIR_SOURCE,
    PAIR_TARGET,
    PAIR_LIVE,
    PAIR_BEST,
    PAIR_NEAR,
    PAIR_FAR,
    PAIR_SAID,
    PAIR_AHEAD,
    PAIR_BEHIND,
    PAIR_NEXT_AHEAD,
    PAIR_NEXT_BEHIND,
    PAIR_STAMP,
    PAIR_DOUBT,
    PAIR_WORDS,
) = range(14)
"""A pair's record: whether it is asked for, the best length and its edge, what was said of it (WORST_VALUE: nothing);
its balls, and the next pair (plus one) of each of them; the epoch in which it was copied; whether it is in TODO.
"""

PAIR_LOGGED = 6
"""Words of a copy: the pair's number, and its words from LIVE to SAID."""

SETTLED, IN_DOUBT, TO_LOOK = range(3)
"""PAIR_DOUBT: nothing is to be done; its radii may not do; its best edge may be gone as well."""

AHEAD, BEHIND = range(2)

PAIRS_IDLE, PAIRS_OPENING, PAIRS_MENDING, PAIRS_MEETING, PAIRS_SETTLING, PAIRS_CLOSING = range(6)
"""FOREST_PHASE: see `pairs`."""


@inner
def pair_at(number):
    return record(number, PAIR_WORDS)


@shared
def touch_pair(ctx, number):
    """A pair is about to change: copy it to the log, unless that was done in this epoch."""
    at = pair_at(number)
    serial = ld(ctx, FOREST_SERIALS)
    if ld(ld(ctx, PAIRS_RECORDS), at + PAIR_STAMP) != serial:
        log = reserve(ctx, PAIRS_LOG, PAIRS_LOG_N, PAIR_LOGGED, 1)
        n = ld(ctx, PAIRS_LOG_N)
        to = 1 + n * PAIR_LOGGED
        pairs = ld(ctx, PAIRS_RECORDS)
        st(log, to, number)
        for w in range(PAIR_LOGGED - 1):
            st(log, to + 1 + w, ld(pairs, at + PAIR_LIVE + w))
        st(ctx, PAIRS_LOG_N, n + 1)
        st(pairs, at + PAIR_STAMP, serial)
    return 0


@shared
def doubt(ctx, number, how):
    """Put a pair on the list of those to be settled."""
    todo = reserve(ctx, PAIRS_TODO, PAIRS_TODO_N, 1, 1)
    pairs = ld(ctx, PAIRS_RECORDS)
    at = pair_at(number)
    before = ld(pairs, at + PAIR_DOUBT)
    if before == SETTLED:
        n = ld(ctx, PAIRS_TODO_N)
        st(todo, 1 + n, number)
        st(ctx, PAIRS_TODO_N, n + 1)
    st(pairs, at + PAIR_DOUBT, max(before, how))
    return 0


@inner
def first_pair(forest, ball):
    """The first pair of a ball; -1 if there is none."""
    return ld(ld(forest, FOREST_BALLS), ball_at(ball) + BALL_PAIRS) - 1


@inner
def next_pair(ctx, number, side):
    return ld(ld(ctx, PAIRS_RECORDS), pair_at(number) + (PAIR_NEXT_AHEAD if side == AHEAD else PAIR_NEXT_BEHIND)) - 1


@inner
def value_in(forest, ball, node):
    """How far a node is from the centre of a ball; WORST_VALUE if it is not in it."""
    entry = entry_in(forest, ball, node)
    if entry == NO_PARENT:
        return WORST_VALUE
    return ld(ld(forest, FOREST_ENTRIES), place(forest, entry) + VERTEX_VALUE)


@inner
def _length(x, weight, y):
    """The length of a path through an edge; WORST_VALUE if it does not fit."""
    if too_far(x, weight) or too_far(x + weight, y):
        return WORST_VALUE
    return x + weight + y


@inner
def _improve(ctx, number, length, near, far):
    """A pair has a better edge."""
    touch_pair(ctx, number)
    pairs = ld(ctx, PAIRS_RECORDS)
    at = pair_at(number)
    st(pairs, at + PAIR_BEST, length)
    st(pairs, at + PAIR_NEAR, near)
    st(pairs, at + PAIR_FAR, far)


@shared
def meet_from(ctx, side, number, node, x, time):
    """Look at the edges that lead on from a vertex of one ball of a pair, so far from its centre: do they lead into the
    other one, and is that a better way?
    """
    mine = ld(ctx, PAIRS_AHEAD) if side == AHEAD else ld(ctx, PAIRS_BEHIND)
    other = ld(ctx, PAIRS_BEHIND) if side == AHEAD else ld(ctx, PAIRS_AHEAD)
    at = pair_at(number)
    ball = ld(ld(ctx, PAIRS_RECORDS), at + (PAIR_BEHIND if side == AHEAD else PAIR_AHEAD))
    rules = ld(mine, FOREST_RULES)
    trace, column = edges_of(rules, 0, True)
    st(ld(other, FOREST_KEY), 0, ball)
    seen = 1
    for b in range(ld(trace, TRACE_COUNT)):
        batch = ld(ld(trace, TRACE_TABLE), b)
        data = ld(batch, BATCH_DATA)
        cap = ld(batch, BATCH_CAP)
        rows = ld(batch, BATCH_ROWS)
        i = first_row(mine, batch, node)
        while i < rows and ld(data, i) == node:
            seen += 1
            weight = weight_of(mine, data, cap, i, column)
            best = ld(ld(ctx, PAIRS_RECORDS), at + PAIR_BEST)
            if x + weight < best and adds(batch, data, i, time):
                far = ld(data, cap + i)
                entry = find(other, far)
                if entry != NO_PARENT:
                    up = place(other, entry)
                    entries = ld(other, FOREST_ENTRIES)
                    if ld(entries, up + VERTEX_PARENT) != NO_PARENT:
                        length = _length(x, weight, ld(entries, up + VERTEX_VALUE))
                        if length < best and there(trace, batch, i, time) != 0:
                            if side == AHEAD:
                                _improve(ctx, number, length, node, far)
                            else:
                                _improve(ctx, number, length, far, node)
            i += 1
    st(mine, FOREST_FUEL, ld(mine, FOREST_FUEL) - seen)
    return 0


@shared
def look(ctx, number, time):
    """Find the best edge of a pair anew, from the smaller one of its balls."""
    st(ctx, PAIRS_LOOKS, ld(ctx, PAIRS_LOOKS) + 1)
    at = pair_at(number)
    _improve(ctx, number, WORST_VALUE, 0, 0)
    ahead, behind = ld(ctx, PAIRS_AHEAD), ld(ctx, PAIRS_BEHIND)
    there_at = ball_at(ld(ld(ctx, PAIRS_RECORDS), at + PAIR_AHEAD))
    back_at = ball_at(ld(ld(ctx, PAIRS_RECORDS), at + PAIR_BEHIND))
    side = AHEAD
    if ld(ld(behind, FOREST_BALLS), back_at + BALL_SIZE) < ld(ld(ahead, FOREST_BALLS), there_at + BALL_SIZE):
        side = BEHIND
    forest = ahead if side == AHEAD else behind
    entry = ld(ld(forest, FOREST_BALLS), (there_at if side == AHEAD else back_at) + BALL_LAST) - 1
    while entry >= 0:
        entries = ld(forest, FOREST_ENTRIES)
        up = place(forest, entry)
        if ld(entries, up + VERTEX_PARENT) != NO_PARENT:
            meet_from(ctx, side, number, ld(entries, up + VERTEX_NODE), ld(entries, up + VERTEX_VALUE), time)
        entry = ld(entries, up + VERTEX_BASE) - 1
    return 0


@shared
def meet_changed(ctx, side, begin, time):
    """Look at the vertices of a forest of balls that its log names from a row on; see the module."""
    forest = ld(ctx, PAIRS_AHEAD) if side == AHEAD else ld(ctx, PAIRS_BEHIND)
    for i in range(begin, ld(forest, FOREST_LOG_N)):
        row = 1 + i * LOGGED
        log = ld(forest, FOREST_LOG)
        before = ld(log, row + 1)
        was = ld(log, row + 1 + VERTEX_PARENT - VERTEX_VALUE) != NO_PARENT
        entries = ld(forest, FOREST_ENTRIES)
        up = place(forest, ld(log, row))
        stands = ld(entries, up + VERTEX_PARENT) != NO_PARENT
        value = ld(entries, up + VERTEX_VALUE)
        node = ld(entries, up + VERTEX_NODE)
        better = stands and (not was or value < before)
        worse = was and (not stands or value > before)
        if was and not stands:
            st(ctx, PAIRS_WASTE, ld(ctx, PAIRS_WASTE) + 1)
        number = first_pair(forest, ld(entries, up + VERTEX_QUESTION)) if better or worse else -1
        while number >= 0:
            pairs = ld(ctx, PAIRS_RECORDS)
            at = pair_at(number)
            if ld(pairs, at + PAIR_LIVE) != 0:
                if better:
                    meet_from(ctx, side, number, node, value, time)
                elif ld(pairs, at + (PAIR_NEAR if side == AHEAD else PAIR_FAR)) == node:
                    doubt(ctx, number, TO_LOOK)
            number = next_pair(ctx, number, side)
    return 0


@inner
def _through(behind, ball, x, weight, far):
    """The length of a path through an edge into a ball behind."""
    y = value_in(behind, ball, far)
    return y if y == WORST_VALUE else _length(x, weight, y)


@inner
def _gone(ctx, number, x, best, time):
    """The best edge of a pair may have gone: it is looked for again unless a parallel one is as good."""
    pairs = ld(ctx, PAIRS_RECORDS)
    at = pair_at(number)
    ahead, behind = ld(ctx, PAIRS_AHEAD), ld(ctx, PAIRS_BEHIND)
    far = ld(pairs, at + PAIR_FAR)
    y = value_in(behind, ld(pairs, at + PAIR_BEHIND), far)
    rules = ld(ahead, FOREST_RULES)
    if y == WORST_VALUE or still_held(ahead, rules, 0, ld(pairs, at + PAIR_NEAR), far, x, best - y, time) == 0:
        doubt(ctx, number, TO_LOOK)


@shared
def meet_edge(ctx, near, far, weight, came, time):
    """An edge came or went: what it is to the pairs whose balls ahead have its near end."""
    ahead, behind = ld(ctx, PAIRS_AHEAD), ld(ctx, PAIRS_BEHIND)
    entry = first_of(ahead, near)
    while entry != NO_PARENT:
        entries = ld(ahead, FOREST_ENTRIES)
        up = place(ahead, entry)
        if ld(entries, up + VERTEX_PARENT) != NO_PARENT:
            x = ld(entries, up + VERTEX_VALUE)
            number = first_pair(ahead, ld(entries, up + VERTEX_QUESTION))
            while number >= 0:
                pairs = ld(ctx, PAIRS_RECORDS)
                at = pair_at(number)
                best = ld(pairs, at + PAIR_BEST)
                if ld(pairs, at + PAIR_LIVE) != 0:
                    if came == 0:
                        if ld(pairs, at + PAIR_NEAR) == near and ld(pairs, at + PAIR_FAR) == far and best < WORST_VALUE:
                            _gone(ctx, number, x, best, time)
                    elif x + weight < best:
                        length = _through(behind, ld(pairs, at + PAIR_BEHIND), x, weight, far)
                        if length < best:
                            _improve(ctx, number, length, near, far)
                number = next_pair(ctx, number, AHEAD)
        entry = next_of(ahead, entry)
    return 0


@inner
def is_exact(ctx, number):
    """Whether the best edge of a pair gives its distance: radii are large enough, or one ball holds all there is."""
    pairs = ld(ctx, PAIRS_RECORDS)
    at = pair_at(number)
    if ld(pairs, at + PAIR_SOURCE) == ld(pairs, at + PAIR_TARGET):
        return True
    balls, others = ld(ld(ctx, PAIRS_AHEAD), FOREST_BALLS), ld(ld(ctx, PAIRS_BEHIND), FOREST_BALLS)
    here, yonder = ball_at(ld(pairs, at + PAIR_AHEAD)), ball_at(ld(pairs, at + PAIR_BEHIND))
    if ld(balls, here + BALL_OPEN) == 0 or ld(others, yonder + BALL_OPEN) == 0:
        return True
    best = ld(pairs, at + PAIR_BEST)
    return best < WORST_VALUE and best - 1 - ld(balls, here + BALL_RADIUS) <= ld(others, yonder + BALL_RADIUS)
