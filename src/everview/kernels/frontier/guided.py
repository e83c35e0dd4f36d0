"""One shortest path, searched from scratch over the edges' arrangement, and guided by an index of landmarks.

Without an index this is Dijkstra's search that stops at the target. With one (Goldberg and Harrelson's ALT) it is A*:
for every landmark l, d(l, v) and d(v, l) are kept as a view, and by the triangle inequality

    d(v, t)  >=  d(l, t) - d(l, v)        d(v, t)  >=  d(v, l) - d(t, l)        d(s, t)  <=  d(s, l) + d(l, t)

The largest of the first two, over all landmarks, is how far v is from the target at least, and orders the search; what
is farther than the last, for some landmark, is not looked at. Strictly farther: paths of equal length go on. Where
one distance is infinite and the other is not, there is no way from v to the target at all. Where both are, nothing
is known.

Reading the bound of a vertex costs more than walking on from it, and most vertices that are met are never walked on
from. So a vertex is first put where its predecessor's bound puts it, which is no more than its own; when its turn comes
its own bound is read, and it waits again if that is more.

The index is read in its arrangement by node. Rows of a vertex lie in several batches, with what was taken back among
them: diffs times values are added up for each landmark, and what is left is the value.

Hazard: weights must not be negative; the search then gives NEGATIVE.
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
    SEARCH_WORDS,
) = range(15)
"""PLACES: (node, least cost so far, whether it is settled, bound or UNREAD) of what was met. MARKS: for each landmark of
the target, its node, the target's two distances, then a count and two sums for the vertex under way. MOST: no path is
longer, as far as is known.
"""

PLACE_WIDTH, MARK_WIDTH = 4, 6

NOT_FOUND, NEGATIVE = -1, -2

FAR = 2**62
"""No bound, and a bound that says there is no way."""

UNREAD = -1


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
    """How far a vertex is from the target at least."""
    if ld(search, SEARCH_INDEX) == 0:
        return 0
    _sum_up(search, node, 0)
    marks = ld(search, SEARCH_MARKS)
    bound = 0
    for m in range(ld(search, SEARCH_MARKS_N)):
        at = 1 + m * MARK_WIDTH
        there_to, back = _distances(marks, at)
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
    least = ld(heap, 1)
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
    return least, place


@shared
def _meet(search, node, cost, least):
    """A path of a cost leads to a node, by way of one from which it is so far to the target at least: note it, if it is
    the best so far.
    """
    if 2 * (ld(search, SEARCH_PLACES_N) + 1) > ld(search, SEARCH_FIND_SIZE):
        _widen(search)
    places = reserve(search, SEARCH_PLACES, SEARCH_PLACES_N, PLACE_WIDTH, 1)
    slot = _slot(search, node)
    p = ld(ld(search, SEARCH_FIND), slot) - 1
    if p < 0:
        p = ld(search, SEARCH_PLACES_N)
        at = 1 + p * PLACE_WIDTH
        st(places, at, node)
        st(places, at + 1, FAR)
        st(places, at + 2, 0)
        st(places, at + 3, UNREAD)
        st(search, SEARCH_PLACES_N, p + 1)
        st(ld(search, SEARCH_FIND), slot, p + 1)
    at = 1 + p * PLACE_WIDTH
    bound = max(ld(places, at + 3), 0)
    if cost < ld(places, at + 1) and bound < FAR and cost + bound <= ld(search, SEARCH_MOST):
        st(places, at + 1, cost)
        st(places, at + 2, 0)
        _push(search, max(cost + bound, least), p)
    return 0


@inner
def _its_turn(search, least, place):
    """Whether a vertex that is first of the heap is the next to be walked on from; it may have to wait again, or lead
    nowhere.
    """
    at = 1 + place * PLACE_WIDTH
    places = ld(search, SEARCH_PLACES)
    if ld(places, at + 2) != 0:
        return False
    if ld(places, at + 3) == UNREAD:
        st(places, at + 3, _bound(search, ld(places, at)))
    bound = ld(places, at + 3)
    whole = ld(places, at + 1) + bound
    if bound >= FAR or whole > ld(search, SEARCH_MOST):
        return False
    if whole > least:
        _push(search, whole, place)
        return False
    return True


@shared
def _walk_on(search, node, cost, least):
    """Follow all edges of a settled node. 0 if one has a negative weight."""
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
            if weight != NULL and ld(data, cap + i) != NULL and adds(batch, data, i, time):
                if there(trace, batch, i, time) != 0:
                    if weight < 0:
                        return 0
                    if weight < FAR - cost:
                        _meet(search, ld(data, cap + i), cost + weight, least)
            i += 1
    return 1


@inner
def _free_all(search):
    for field in (SEARCH_KEY, SEARCH_PLACES, SEARCH_FIND, SEARCH_HEAP, SEARCH_MARKS):
        free(ld(search, field))
    free(search)


@entry("int", "int", "int", "int", "int", "int", "words", lasting=False)
def shortest(edges, weight, index, time, source, target, out, n):
    """The least cost of a path (NOT_FOUND, NEGATIVE), and in `out` how many nodes were settled. `weight` below 0: every
    edge costs 1; `index` 0: there is none.
    """
    search = zeros(SEARCH_WORDS)
    st(search, SEARCH_EDGES, edges)
    st(search, SEARCH_WEIGHT, weight)
    st(search, SEARCH_INDEX, index)
    st(search, SEARCH_TIME, time)
    st(search, SEARCH_KEY, alloc(2))
    st(search, SEARCH_MOST, FAR)
    if index != 0:
        _aim(search, target)
    if index != 0:
        _sum_up(search, source, 0)
        _limit(search, source)
    _meet(search, source, 0, 0)
    answer = NOT_FOUND
    settled = 0
    while ld(search, SEARCH_HEAP_N) > 0:
        least, place = _pop(search)
        if _its_turn(search, least, place):
            at = 1 + place * PLACE_WIDTH
            places = ld(search, SEARCH_PLACES)
            st(places, at + 2, 1)
            settled += 1
            node = ld(places, at)
            cost = ld(places, at + 1)
            if node == target:
                answer = cost
                break
            if _walk_on(search, node, cost, least) == 0:
                answer = NEGATIVE
                break
    raw_store(out, 0, settled)
    _free_all(search)
    return answer
