"""Dropped rows of histories: their existence is recorded, but not their value.

A dropped row is recomputed on demand (`edge_contributions`), from the preceding rounds. Round 0 is never dropped, so
that terminates. This requires knowing *that* there was a row, and at which round. There are two ways to record that
(Ammar's Det-Drop and Prob-Drop):

    exact    a set of (id, round) in each question, 8 bytes and its air: a row costs half
    filters  Bloom filters over all questions, about 10 bits a row. A row that is wrongly held to be dropped costs
             working it out, and nothing else: what comes out is right. None is ever missed.

Filters are queried round by round, so they hold only rows of the first FILTER_ROUNDS; later ones are recorded exactly.
A key for "this vertex has some" avoids most of that. A filter cannot delete: rows that vanish stay in it (STALE counts
them), and when there are many the history is rebuilt. A full filter is followed by one twice its size, but no larger
than a part of what is left of a budget: the last key that fits must not cost as much as all before it. If nothing is
left (FILTERS_CLOSED), they are filled beyond what is good for them: then results are as right as ever, changes get
slower, new questions are refused, and when there are many more keys than the history was built with (GROWN_KEYS) it is
rebuilt. Each filter is asked for every round, so there should be few: if the number of keys can be foreseen, the first
has room for all.

*Which rows.* Vertices with few edges are cheap to recompute and rarely needed; hubs are neither. Rows of vertices with
fewer than LEAST_DEGREE edges are therefore dropped, of those with more than MOST_DEGREE none, and of the others a
fraction (CHANCE), chosen by a hash of query, node and round: what is dropped at a small probability is dropped at a
larger one. The choice is made when a row is written, and never re-evaluated: degrees change.
"""

from __future__ import annotations

from everview.kernels.build.native import inner, shared
from everview.kernels.frontier.forest import FOREST_NODE, FOREST_NRULES, FOREST_QUESTIONS, FOREST_RULES, RULE_WORDS
from everview.kernels.frontier.history import (
    BUDGET_LIMIT,
    BUDGET_USED,
    HASH_FACTOR,
    HISTORY_BUDGET,
    HISTORY_CHANCE,
    HISTORY_CLOSED,
    HISTORY_DROPPING,
    HISTORY_EXACT,
    HISTORY_FILTERS,
    HISTORY_FILTERS_N,
    HISTORY_FIXED_FILTER,
    HISTORY_GROWN_KEYS,
    HISTORY_LEAST_DEGREE,
    HISTORY_MOST_DEGREE,
    HISTORY_RECORDS,
    HISTORY_USED,
    LOW_HALF,
    NEVER,
    QUESTION_COLUMNS,
    QUESTION_GONE,
    QUESTION_GONE_N,
    QUESTION_GONE_SIZE,
    QUESTION_LAST,
    hash_key,
    history_words,
    home,
    node_of,
    slots_for,
    word_of,
)
from everview.kernels.frontier.offers import edges_of
from everview.kernels.memory import free, ld, reserve, st, zeros
from everview.kernels.trace.batch import BATCH_DATA, BATCH_ROWS
from everview.kernels.trace.search import find_key
from everview.kernels.trace.trace import TRACE_COUNT, TRACE_TABLE

FILTER_ROUNDS = 256
"""Rounds that filters hold."""

SOME_ROUND = 2**32 - 1
"""The round in the key that stands for any."""

BITS_PER_ROW = 12

SMALLEST = 128
"""Words of a filter."""

FILTERS_OPEN, FILTERS_CLOSED, FILTERS_MAKING_ROOM = range(3)
"""HISTORY_CLOSED: filters may be added; no more in this step; rows are being dropped, which frees more than that."""

FULL = 95
"""Per cent of a budget that may be used before it counts as full."""


# the exact sets: one word a slot, (id + 1, round)


@inner
def gone_slot(records, at, one, at_round):
    """The slot of a dropped row; -1 if it is not there."""
    size = ld(records, at + QUESTION_GONE_SIZE)
    if size == 0:
        return -1
    table = ld(records, at + QUESTION_GONE)
    wanted = word_of(one, at_round)
    slot = home(one, size)
    word = ld(table, slot)
    while word != 0 and word != wanted:
        slot += 1
        if slot == size:
            slot = 0
        word = ld(table, slot)
    return slot if word == wanted else -1


@inner
def _gone_around(records, at, one, at_round):
    """(latest dropped round up to a round or -1, the first after it or NEVER)."""
    latest, following = -1, NEVER
    size = ld(records, at + QUESTION_GONE_SIZE)
    if size > 0:
        table = ld(records, at + QUESTION_GONE)
        slot = home(one, size)
        word = ld(table, slot)
        while word != 0:
            if (word >> 32) - 1 == one:
                when = word & LOW_HALF
                if when > at_round:
                    following = min(following, when)
                else:
                    latest = max(latest, when)
            slot += 1
            if slot == size:
                slot = 0
            word = ld(table, slot)
    return latest, following


@shared
def _resize_gone(records, at, size):
    old = ld(records, at + QUESTION_GONE)
    table = zeros(size)
    for i in range(ld(records, at + QUESTION_GONE_SIZE)):
        word = ld(old, i)
        if word != 0:
            slot = home((word >> 32) - 1, size)
            while ld(table, slot) != 0:
                slot += 1
                if slot == size:
                    slot = 0
            st(table, slot, word)
    st(records, at + QUESTION_GONE, table)
    st(records, at + QUESTION_GONE_SIZE, size)
    free(old)
    return 0


@inner
def gone_put(records, at, one, at_round):
    """Add a row to the exact set, which has room for it."""
    if gone_slot(records, at, one, at_round) < 0:
        table = ld(records, at + QUESTION_GONE)
        size = ld(records, at + QUESTION_GONE_SIZE)
        slot = home(one, size)
        while ld(table, slot) != 0:
            slot += 1
            if slot == size:
                slot = 0
        st(table, slot, word_of(one, at_round))
        st(records, at + QUESTION_GONE_N, ld(records, at + QUESTION_GONE_N) + 1)


@inner
def gone_take_out(records, at, slot):
    """Take a row out of the exact set."""
    table = ld(records, at + QUESTION_GONE)
    size = ld(records, at + QUESTION_GONE_SIZE)
    hole = slot
    i = slot
    while True:
        i = i + 1 if i + 1 < size else 0
        word = ld(table, i)
        if word == 0:
            break
        begin = home((word >> 32) - 1, size)
        stays = begin > hole and begin <= i if hole <= i else begin > hole or begin <= i
        if not stays:
            st(table, hole, word)
            hole = i
    st(table, hole, 0)
    st(records, at + QUESTION_GONE_N, ld(records, at + QUESTION_GONE_N) - 1)


# the filters: (block, words, keys) each


@inner
def _key(ctx, at, one, at_round):
    """The hash of a row, the same in every process."""
    h = hash_key(ld(ctx, HISTORY_RECORDS), at + QUESTION_COLUMNS, ld(ctx, FOREST_QUESTIONS))
    h = (h ^ node_of(ctx, one)) * HASH_FACTOR
    h = (h ^ (h >> 32) ^ at_round) * HASH_FACTOR
    return h ^ (h >> 29)


@inner
def _in_filter(filters, i, h):
    """Whether all eight bits of a key are set: one in each word of a part of the filter."""
    block = ld(filters, 1 + 3 * i)
    words = ld(filters, 2 + 3 * i)
    first = ((((h * HASH_FACTOR) >> 32) & LOW_HALF) * max(words // 8, 1) >> 32) * 8
    for b in range(8):
        if ld(block, min(first + b, words - 1)) >> ((h >> (6 * b)) & 63) & 1 == 0:
            return False
    return True


@inner
def _in_filters(ctx, h):
    filters = ld(ctx, HISTORY_FILTERS)
    for i in range(ld(ctx, HISTORY_FILTERS_N)):
        if _in_filter(filters, i, h):
            return True
    return False


@inner
def _filling(ctx):
    """The filter that takes the next key: the last one, or, if none may be added, that with the fewest keys for its
    size: a small one that is overfull would take every row for a dropped one.
    """
    n = ld(ctx, HISTORY_FILTERS_N)
    best = n - 1
    if ld(ctx, HISTORY_CLOSED) == FILTERS_CLOSED:
        filters = ld(ctx, HISTORY_FILTERS)
        for i in range(n):
            if ld(filters, 3 + 3 * i) * ld(filters, 2 + 3 * best) < ld(filters, 3 + 3 * best) * ld(filters, 2 + 3 * i):
                best = i
    return best


@inner
def _to_filter(ctx, h):
    """Set a key's bits in a filter."""
    i = _filling(ctx)
    filters = ld(ctx, HISTORY_FILTERS)
    if not _in_filters(ctx, h):
        block = ld(filters, 1 + 3 * i)
        words = ld(filters, 2 + 3 * i)
        first = ((((h * HASH_FACTOR) >> 32) & LOW_HALF) * max(words // 8, 1) >> 32) * 8
        for b in range(8):
            w = min(first + b, words - 1)
            st(block, w, ld(block, w) | (1 << ((h >> (6 * b)) & 63)))
        st(filters, 3 + 3 * i, ld(filters, 3 + 3 * i) + 1)


@inner
def filter_keys(ctx):
    """The number of keys in all filters."""
    keys = 0
    for i in range(ld(ctx, HISTORY_FILTERS_N)):
        keys += ld(ld(ctx, HISTORY_FILTERS), 3 + 3 * i)
    return keys


@inner
def overfull(ctx):
    """Whether filters hold more keys than is good for them."""
    words = 0
    for i in range(ld(ctx, HISTORY_FILTERS_N)):
        words += ld(ld(ctx, HISTORY_FILTERS), 2 + 3 * i)
    return ld(ctx, HISTORY_FIXED_FILTER) == 0 and filter_keys(ctx) * BITS_PER_ROW > 64 * words


@inner
def _left(ctx, budget, limit):
    """Words that are left of a budget, up to where it counts as full."""
    others = ld(budget, BUDGET_USED) - ld(ctx, HISTORY_USED)
    return max(limit * FULL // 100 - others, 0) // 8 - history_words(ctx)


@inner
def _first_words(ctx):
    """Words of the first filter."""
    wanted = ld(ctx, HISTORY_GROWN_KEYS) * BITS_PER_ROW // 62  # and a little more
    budget = ld(ctx, HISTORY_BUDGET)
    limit = 0 if budget == 0 else ld(budget, BUDGET_LIMIT)
    if limit > 0:
        making_room = ld(ctx, HISTORY_CLOSED) == FILTERS_MAKING_ROOM
        wanted = min(wanted, (limit // 8 if making_room else _left(ctx, budget, limit)) * 3 // 4)
    return max(wanted, SMALLEST)


@inner
def _next_words(ctx, words):
    """Words of the filter that follows one of so many: of a budget, a quarter of what is left, or a hundredth of it
    all. 0: there is no room.
    """
    budget = ld(ctx, HISTORY_BUDGET)
    limit = 0 if budget == 0 else ld(budget, BUDGET_LIMIT)
    if limit == 0:
        return 2 * words
    if ld(ctx, HISTORY_CLOSED) == FILTERS_MAKING_ROOM:
        return max(min(2 * words, limit // 256), SMALLEST)
    left = _left(ctx, budget, limit)
    more = max(min(2 * words, left // 4), limit // 800, SMALLEST)
    return more if more <= left else 0


@shared
def _new_filter(ctx, words):
    filters = reserve(ctx, HISTORY_FILTERS, HISTORY_FILTERS_N, 3, 1)
    n = ld(ctx, HISTORY_FILTERS_N)
    st(filters, 1 + 3 * n, zeros(words))
    st(filters, 2 + 3 * n, words)
    st(filters, 3 + 3 * n, 0)
    st(ctx, HISTORY_FILTERS_N, n + 1)
    return 0


# both


@inner
def by_filter(ctx, at_round):
    """Whether a row of a round is dropped by a filter, not exactly."""
    return ld(ctx, HISTORY_EXACT) == 0 and at_round <= FILTER_ROUNDS


@shared
def room_to_drop(ctx, at, at_round):
    """Room for one more dropped row."""
    if by_filter(ctx, at_round):
        n = ld(ctx, HISTORY_FILTERS_N)
        fixed = ld(ctx, HISTORY_FIXED_FILTER)
        if n == 0:
            _new_filter(ctx, fixed if fixed > 0 else _first_words(ctx))
        elif fixed == 0:
            filters = ld(ctx, HISTORY_FILTERS)
            words = ld(filters, 2 + 3 * (n - 1))
            full = (ld(filters, 3 + 3 * (n - 1)) + 2) * BITS_PER_ROW > 64 * words
            if full and ld(ctx, HISTORY_CLOSED) != FILTERS_CLOSED:
                more = _next_words(ctx, words)
                if more > 0:
                    _new_filter(ctx, more)
                else:
                    st(ctx, HISTORY_CLOSED, FILTERS_CLOSED)
    else:
        records = ld(ctx, HISTORY_RECORDS)
        rows = ld(records, at + QUESTION_GONE_N) + 1
        if 4 * rows > 3 * ld(records, at + QUESTION_GONE_SIZE):
            _resize_gone(records, at, slots_for(rows + (rows >> 3)))
    return 0


@inner
def drop_row(ctx, at, one, at_round):
    """Note that a row was dropped; there is room for it."""
    st(ctx, HISTORY_DROPPING, 1)
    if by_filter(ctx, at_round):
        _to_filter(ctx, _key(ctx, at, one, at_round))
        _to_filter(ctx, _key(ctx, at, one, SOME_ROUND))
    else:
        gone_put(ld(ctx, HISTORY_RECORDS), at, one, at_round)


@inner
def maybe_dropped(ctx, at, one, at_round):
    """Whether a row is, or may be, one that was dropped."""
    if ld(ctx, HISTORY_DROPPING) == 0:
        return False
    if gone_slot(ld(ctx, HISTORY_RECORDS), at, one, at_round) >= 0:
        return True
    filtered = ld(ctx, HISTORY_FILTERS_N) > 0 and 0 < at_round <= FILTER_ROUNDS
    filtered = filtered and at_round <= ld(ld(ctx, HISTORY_RECORDS), at + QUESTION_LAST)
    return filtered and _in_filters(ctx, _key(ctx, at, one, at_round))


@shared
def latest_dropped(ctx, at, one, after, at_round):
    """The latest round in (after, at_round] at which a row was, or may have been, dropped; -1 if there is none."""
    records = ld(ctx, HISTORY_RECORDS)
    latest, _ = _gone_around(records, at, one, at_round)
    latest = latest if latest > after else -1
    if ld(ctx, HISTORY_FILTERS_N) > 0 and _in_filters(ctx, _key(ctx, at, one, SOME_ROUND)):
        when = min(min(at_round, ld(records, at + QUESTION_LAST)), FILTER_ROUNDS)
        while when > max(max(after, latest), 0):
            if _in_filters(ctx, _key(ctx, at, one, when)):
                return when
            when -= 1
    return latest


@shared
def next_dropped(ctx, at, one, at_round):
    """The first round after one at which a row was, or may have been, dropped; NEVER if there is none."""
    records = ld(ctx, HISTORY_RECORDS)
    _, following = _gone_around(records, at, one, at_round)
    if ld(ctx, HISTORY_FILTERS_N) > 0 and _in_filters(ctx, _key(ctx, at, one, SOME_ROUND)):
        last = min(min(ld(records, at + QUESTION_LAST), FILTER_ROUNDS), following)
        for when in range(max(at_round + 1, 1), last + 1):
            if _in_filters(ctx, _key(ctx, at, one, when)):
                return when
    return following


@shared
def degree(ctx, node):
    """How many rows of edges begin or end at a node."""
    total = 0
    rules = ld(ctx, FOREST_RULES)
    key = ld(ctx, FOREST_NODE)
    for r in range(2 * ld(ctx, FOREST_NRULES)):
        trace, _ = edges_of(rules, (r >> 1) * RULE_WORDS, r & 1 == 0)
        for b in range(ld(trace, TRACE_COUNT)):
            batch = ld(ld(trace, TRACE_TABLE), b)
            data = ld(batch, BATCH_DATA)
            rows = ld(batch, BATCH_ROWS)
            st(key, 0, node)
            i = find_key(batch, key, 1, 0, 1)
            while i < rows and ld(data, i) == node:
                total += 1
                i += 1
    return total


@inner
def chosen(ctx, at, one, at_round, edges):
    """Whether a row of a vertex with so many edges is one to drop."""
    chance = ld(ctx, HISTORY_CHANCE)
    if chance == 0 or at_round == 0 or edges > ld(ctx, HISTORY_MOST_DEGREE):
        return False
    if edges < ld(ctx, HISTORY_LEAST_DEGREE):
        return True
    return (_key(ctx, at, one, at_round) * HASH_FACTOR >> 32) & LOW_HALF < chance
