"""One shortest path, searched from scratch over the edges' arrangements, guided by an index of landmarks.

Without an index this is Dijkstra's search that stops at the target. With one, d(l, v) and d(v, l) are maintained as a
view for every landmark l, and by the triangle inequality

    d(v, t)  >=  d(l, t) - d(l, v)        d(v, t)  >=  d(v, l) - d(t, l)        d(s, t)  <=  d(s, l) + d(l, t)

The largest of the first two, over all landmarks, is a lower bound of the distance from v to the target. If one distance
is infinite and the other is not, there is no path from v to the target at all. If both are, nothing is known.

*From both ends.* With an index the edges are available in both directions, too. Two Dijkstra searches, along the edges
from the source and against them from the target, touch far fewer vertices than one guided search (A*). Each edge
between them makes a path, an upper bound like that of the best landmark. A vertex is abandoned if its cost and its
bound are no less than that. The search ends when the next vertices on both sides together are no less: then the upper
bound, which is a path's length, is the distance.

The index is read in its arrangement by node. Rows of a vertex are in several batches, including deleted ones: diffs
times values are added up for each landmark, and the remainder is the value.

Hazard: weights must not be negative; the search then returns NEGATIVE.
"""

from __future__ import annotations

from everview.kernels.build.native import entry, inner, shared
from everview.kernels.frontier.history import HASH_FACTOR
from everview.kernels.frontier.offers import adds, there, too_far
from everview.kernels.memory import alloc, free, ld, raw_store, reserve, st, zeros
from everview.kernels.trace.batch import BATCH_CAP, BATCH_DATA, BATCH_ROWS, diff_at, time_at
from everview.kernels.trace.search import find_key
from everview.kernels.trace.trace import TRACE_COUNT, TRACE_TABLE
from everview.types import NULL

(
    SEARCH_EDGES,
    SEARCH_WEIGHT,
    SEARCH_INDEX,
    SEARCH_TIME,
    SEARCH_KEY,
    SEARCH_PLACES,
    SEARCH_PLACES_N,
    SEARCH_FIND,
    SEARCH_FIND_SIZE,
    SEARCH_HEAP,
    SEARCH_HEAP_N,
    SEARCH_MARKS,
    SEARCH_MARKS_N,
    SEARCH_MOST,
    SEARCH_BACK,
    SEARCH_WORDS,
) = range(16)
"""PLACES: (node, least cost so far, whether it is settled) of what was met. MARKS: for each landmark of the target, its
node, the target's two distances, then a count and two sums for the vertex under way. MOST: no path is longer, as far as
is known. BACK: it goes against the edges, its target is where the path begins.
"""

PLACE_WIDTH, MARK_WIDTH = 3, 6

NOT_FOUND, NEGATIVE = -1, -2

FAR = 2**62
"""No bound, and a bound that says there is no way."""


@inner
def _first(search, batch, node):
    key = ld(search, SEARCH_KEY)
    st(key, 0, node)
    return find_key(batch, key, 1, 0, 1)


@inner
def _mark_of(search, landmark, guess):
    """The place of a landmark in MARKS; -1 if the target has none of it. It may be the one at the guess."""
    marks = ld(search, SEARCH_MARKS)
    many = ld(search, SEARCH_MARKS_N)
    if 0 < guess < 1 + many * MARK_WIDTH and ld(marks, guess) == landmark:
        return guess
    for m in range(many):
        if ld(marks, 1 + m * MARK_WIDTH) == landmark:
            return 1 + m * MARK_WIDTH
    return -1


@shared
def _sum_up(search, node, adding):
    """Add up what the index has of a node, for each landmark; `adding`: also for those that are not in MARKS yet."""
    for m in range(ld(search, SEARCH_MARKS_N)):
        for w in range(3, MARK_WIDTH):
            st(ld(search, SEARCH_MARKS), 1 + m * MARK_WIDTH + w, 0)
    trace = ld(search, SEARCH_INDEX)
    for b in range(ld(trace, TRACE_COUNT)):
        batch = ld(ld(trace, TRACE_TABLE), b)
        data = ld(batch, BATCH_DATA)
        cap = ld(batch, BATCH_CAP)
        rows = ld(batch, BATCH_ROWS)
        i = _first(search, batch, node)
        at = 1 - MARK_WIDTH
        while i < rows and ld(data, i) == node:
            if time_at(batch, data, i) <= ld(search, SEARCH_TIME):
                at = _mark_of(search, ld(data, cap + i), at + MARK_WIDTH)
                if at < 0 and adding != 0:
                    marks = reserve(search, SEARCH_MARKS, SEARCH_MARKS_N, MARK_WIDTH, 1)
                    at = 1 + ld(search, SEARCH_MARKS_N) * MARK_WIDTH
                    st(marks, at, ld(data, cap + i))
                    for w in range(1, MARK_WIDTH):
                        st(marks, at + w, 0)
                    st(search, SEARCH_MARKS_N, ld(search, SEARCH_MARKS_N) + 1)
                if at >= 0:
                    marks = ld(search, SEARCH_MARKS)
                    diff = diff_at(batch, data, i, 0)
                    st(marks, at + 3, ld(marks, at + 3) + diff)
                    st(marks, at + 4, ld(marks, at + 4) + diff * ld(data, 2 * cap + i))
                    st(marks, at + 5, ld(marks, at + 5) + diff * ld(data, 3 * cap + i))
            i += 1
    return 0


@inner
def _distances(marks, at):
    """(d(l, v), d(v, l)) of the vertex that was added up; NULL is infinite."""
    if ld(marks, at + 3) == 0:
        return NULL, NULL
    return ld(marks, at + 4), ld(marks, at + 5)


@shared
def _aim(search, target):
    """Read what the index has of the target."""
    _sum_up(search, target, 1)
    marks = ld(search, SEARCH_MARKS)
    for m in range(ld(search, SEARCH_MARKS_N)):
        at = 1 + m * MARK_WIDTH
        there_to, back = _distances(marks, at)
        st(marks, at + 1, there_to)
        st(marks, at + 2, back)
    return 0


@inner
def _more(bound, whole, part):
    """A bound, or whole - part if that is more; FAR if there is no way."""
    if part == NULL:
        return bound
    if whole == NULL:
        return FAR
    return max(bound, whole - part)


@shared
def _bound(search, node):
    """How far a vertex is from the target at least (or, if the search goes back, the target from the vertex)."""
    _sum_up(search, node, 0)
    marks = ld(search, SEARCH_MARKS)
    bound = 0
    for m in range(ld(search, SEARCH_MARKS_N)):
        at = 1 + m * MARK_WIDTH
        there_to, back = _distances(marks, at)
        if ld(search, SEARCH_BACK) != 0:
            bound = _more(bound, there_to, ld(marks, at + 1))  # d(l, v) - d(l, s)
            bound = _more(bound, ld(marks, at + 2), back)  # d(s, l) - d(v, l)
        else:
            bound = _more(bound, ld(marks, at + 1), there_to)  # d(l, t) - d(l, v)
            bound = _more(bound, back, ld(marks, at + 2))  # d(v, l) - d(t, l)
    return bound


@shared
def _limit(search, source):
    """How far the target is at most: by way of the best landmark. The source was added up last."""
    marks = ld(search, SEARCH_MARKS)
    for m in range(ld(search, SEARCH_MARKS_N)):
        at = 1 + m * MARK_WIDTH
        _, back = _distances(marks, at)
        if back != NULL and ld(marks, at + 1) != NULL and not too_far(back, ld(marks, at + 1)):
            st(search, SEARCH_MOST, min(ld(search, SEARCH_MOST), back + ld(marks, at + 1)))
    return 0


@inner
def _slot(search, node):
    places = ld(search, SEARCH_PLACES)
    found = ld(search, SEARCH_FIND)
    mask = ld(search, SEARCH_FIND_SIZE) - 1
    h = node * HASH_FACTOR
    slot = (h ^ (h >> 29)) & mask
    while ld(found, slot) != 0 and ld(places, 1 + (ld(found, slot) - 1) * PLACE_WIDTH) != node:
        slot = (slot + 1) & mask
    return slot


@inner
def _widen(search):
    size = max(2 * ld(search, SEARCH_FIND_SIZE), 256)
    old = ld(search, SEARCH_FIND)
    st(search, SEARCH_FIND, zeros(size))
    st(search, SEARCH_FIND_SIZE, size)
    free(old)
    for p in range(ld(search, SEARCH_PLACES_N)):
        st(ld(search, SEARCH_FIND), _slot(search, ld(ld(search, SEARCH_PLACES), 1 + p * PLACE_WIDTH)), p + 1)


@inner
def _cost_of(search, node):
    """The least cost of a node so far; FAR if it was not met."""
    p = ld(ld(search, SEARCH_FIND), _slot(search, node)) - 1
    return FAR if p < 0 else ld(ld(search, SEARCH_PLACES), 1 + p * PLACE_WIDTH + 1)


@inner
def _push(search, first, place):
    heap = reserve(search, SEARCH_HEAP, SEARCH_HEAP_N, 2, 1)
    i = ld(search, SEARCH_HEAP_N)
    st(search, SEARCH_HEAP_N, i + 1)
    while i > 0:
        up = (i - 1) >> 1
        if ld(heap, 1 + 2 * up) <= first:
            break
        st(heap, 1 + 2 * i, ld(heap, 1 + 2 * up))
        st(heap, 2 + 2 * i, ld(heap, 2 + 2 * up))
        i = up
    st(heap, 1 + 2 * i, first)
    st(heap, 2 + 2 * i, place)


@inner
def _pop(search):
    heap = ld(search, SEARCH_HEAP)
    place = ld(heap, 2)
    n = ld(search, SEARCH_HEAP_N) - 1
    st(search, SEARCH_HEAP_N, n)
    first = ld(heap, 1 + 2 * n)
    last = ld(heap, 2 + 2 * n)
    i = 0
    while True:
        down = 2 * i + 1
        if down >= n:
            break
        if down + 1 < n and ld(heap, 3 + 2 * down) < ld(heap, 1 + 2 * down):
            down += 1
        if ld(heap, 1 + 2 * down) >= first:
            break
        st(heap, 1 + 2 * i, ld(heap, 1 + 2 * down))
        st(heap, 2 + 2 * i, ld(heap, 2 + 2 * down))
        i = down
    st(heap, 1 + 2 * i, first)
    st(heap, 2 + 2 * i, last)
    return place


@shared
def _meet(search, node, cost):
    """A path of a cost leads to a node: note it, if it is the best so far."""
    if 2 * (ld(search, SEARCH_PLACES_N) + 1) > ld(search, SEARCH_FIND_SIZE):
        _widen(search)
    places = reserve(search, SEARCH_PLACES, SEARCH_PLACES_N, PLACE_WIDTH, 1)
    slot = _slot(search, node)
    p = ld(ld(search, SEARCH_FIND), slot) - 1
    if p < 0:
        p = ld(search, SEARCH_PLACES_N)
        st(places, 1 + p * PLACE_WIDTH, node)
        st(places, 1 + p * PLACE_WIDTH + 1, FAR)
        st(search, SEARCH_PLACES_N, p + 1)
        st(ld(search, SEARCH_FIND), slot, p + 1)
    at = 1 + p * PLACE_WIDTH
    if cost < ld(places, at + 1):
        st(places, at + 1, cost)
        st(places, at + 2, 0)
        _push(search, cost, p)
    return 0


@inner
def _settled(search):
    """Take the next node: (whether it was not taken before, node, cost)."""
    at = 1 + _pop(search) * PLACE_WIDTH
    places = ld(search, SEARCH_PLACES)
    first = ld(places, at + 2) == 0
    st(places, at + 2, 1)
    return first, ld(places, at), ld(places, at + 1)


@inner
def _shorter(search, other, node, cost):
    """Whether a path of a cost to a node is better than those known, or one to the other search's nodes is."""
    if cost < _cost_of(search, node):
        return True
    return other != 0 and cost + _cost_of(other, node) < ld(search, SEARCH_MOST)


@shared
def _walk_on(search, other, node, cost):
    """Follow all edges of a settled node, which may lead to what the other search (0: there is none) has met. 0 if one
    has a negative weight. Whether an edge is there is asked only if it matters.
    """
    trace = ld(search, SEARCH_EDGES)
    column = ld(search, SEARCH_WEIGHT)
    time = ld(search, SEARCH_TIME)
    for b in range(ld(trace, TRACE_COUNT)):
        batch = ld(ld(trace, TRACE_TABLE), b)
        data = ld(batch, BATCH_DATA)
        cap = ld(batch, BATCH_CAP)
        rows = ld(batch, BATCH_ROWS)
        i = _first(search, batch, node)
        while i < rows and ld(data, i) == node:
            weight = 1 if column < 0 else ld(data, column * cap + i)
            far = ld(data, cap + i)
            if weight != NULL and far != NULL and weight < FAR - cost and adds(batch, data, i, time):
                if (weight < 0 or _shorter(search, other, far, cost + weight)) and there(trace, batch, i, time) != 0:
                    if weight < 0:
                        return 0
                    if other != 0:
                        most = min(ld(search, SEARCH_MOST), cost + weight + _cost_of(other, far))
                        st(search, SEARCH_MOST, most)
                        st(other, SEARCH_MOST, most)
                    _meet(search, far, cost + weight)
            i += 1
    return 1


@inner
def _free_all(search):
    for field in (SEARCH_KEY, SEARCH_PLACES, SEARCH_FIND, SEARCH_HEAP, SEARCH_MARKS):
        free(ld(search, field))
    free(search)


@inner
def _new_search(edges, weight, index, time, back):
    search = zeros(SEARCH_WORDS)
    st(search, SEARCH_EDGES, edges)
    st(search, SEARCH_WEIGHT, weight)
    st(search, SEARCH_INDEX, index)
    st(search, SEARCH_TIME, time)
    st(search, SEARCH_KEY, alloc(2))
    st(search, SEARCH_MOST, FAR)
    st(search, SEARCH_BACK, back)
    _widen(search)
    return search


@entry("int", "int", "int", "int", "int", "words", lasting=False)
def shortest(edges, weight, time, source, target, out, n):
    """The least cost of a path (NOT_FOUND, NEGATIVE), and in `out` how many nodes were settled. `weight` below 0: every
    edge costs 1.
    """
    search = _new_search(edges, weight, 0, time, 0)
    _meet(search, source, 0)
    answer = NOT_FOUND
    settled = 0
    while ld(search, SEARCH_HEAP_N) > 0:
        first, node, cost = _settled(search)
        if first:
            settled += 1
            if node == target:
                answer = cost
                break
            if _walk_on(search, 0, node, cost) == 0:
                answer = NEGATIVE
                break
    raw_store(out, 0, settled)
    _free_all(search)
    return answer


@inner
def _next(search, other):
    """Walk on from the next node of one of two searches, unless it leads to nothing better: (whether it was settled,
    whether all weights are well).
    """
    first, node, cost = _settled(search)
    if not first:
        return False, True
    bound = _bound(search, node)
    if bound >= FAR or cost + bound >= ld(search, SEARCH_MOST):
        return False, True
    return True, _walk_on(search, other, node, cost) != 0


@entry("int", "int", "int", "int", "int", "int", "int", "int", "words", lasting=False)
def shortest_from_both_ends(edges, weight, backward, back_weight, index, time, source, target, out, n):
    """`shortest`, searched from both ends and guided by an index; `backward` has the edges by their far ends."""
    ahead = _new_search(edges, weight, index, time, 0)
    behind = _new_search(backward, back_weight, index, time, 1)
    _aim(ahead, target)
    _aim(behind, source)
    _sum_up(ahead, source, 0)
    _limit(ahead, source)
    st(behind, SEARCH_MOST, ld(ahead, SEARCH_MOST))
    _meet(ahead, source, 0)
    _meet(behind, target, 0)
    settled = 0
    well = True
    while well and source != target and ld(ahead, SEARCH_HEAP_N) > 0 and ld(behind, SEARCH_HEAP_N) > 0:
        if ld(ld(ahead, SEARCH_HEAP), 1) + ld(ld(behind, SEARCH_HEAP), 1) >= ld(ahead, SEARCH_MOST):
            break
        if ld(ahead, SEARCH_HEAP_N) <= ld(behind, SEARCH_HEAP_N):
            counts, well = _next(ahead, behind)
        else:
            counts, well = _next(behind, ahead)
        settled += 1 if counts else 0
    answer = ld(ahead, SEARCH_MOST) if ld(ahead, SEARCH_MOST) < FAR else NOT_FOUND
    if source == target:
        answer = 0
    if not well:
        answer = NEGATIVE
    raw_store(out, 0, settled)
    _free_all(ahead)
    _free_all(behind)
    return answer
