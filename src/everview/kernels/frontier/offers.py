"""Offers of edges: reads the shared arrangements of edges and sources, as of a time.

Rows of one vertex are in several batches of a trace, including deleted ones. Consolidating them for every row read
would cost more than everything else. A row is therefore taken as it is; only one that would *change* something (a
better value, a new parent) is verified: whether the diffs of all its copies up to the time have a positive sum
(`there`). That is rare.

Hazard: this is sound because multiplicities of edges and sources are never negative, which the planner ensures.
"""

from __future__ import annotations

from everview.kernels.build.native import inner, shared
from everview.kernels.expressions.scalars import NAN_CODE, float_add, float_add_failure
from everview.kernels.frontier.forest import (
    ALONG_ADD,
    ALONG_ADD_FLOAT,
    ALONG_SAME,
    FLAG_BASED,
    FLAG_DOUBT,
    FOREST_ENTRIES,
    FOREST_FLIP,
    FOREST_KEY,
    FOREST_NODE,
    FOREST_QUESTIONS,
    FOREST_START,
    FOREST_START_VALUE,
    RULE_BACKWARD,
    RULE_BACKWARD_WEIGHT,
    RULE_FORWARD,
    RULE_FORWARD_WEIGHT,
    RULE_KIND,
    RULE_MOST_IN,
    RULE_MOST_OUT,
    VERTEX_BASE,
    VERTEX_FLAGS,
    VERTEX_NODE,
    place,
    touch,
)
from everview.kernels.memory import ld, st
from everview.kernels.sums import plus
from everview.kernels.trace.batch import (
    BATCH_CAP,
    BATCH_DATA,
    BATCH_DIFF_MASK,
    BATCH_ROWS,
    BATCH_TIME_MASK,
    compare_rows,
    diff_at,
    time_at,
)
from everview.kernels.trace.search import find_key
from everview.kernels.trace.trace import TRACE_COLS, TRACE_COUNT, TRACE_TABLE
from everview.types import NULL

FAULT_PATH, FAULT_CYCLE = 3, 4
"""STEP_FAULT: the weights of a path do not fit into 64 bits; a cycle has a negative weight."""

LARGE = 2**61
"""A weight up to this never leads from a value up to this beyond 64 bits."""

LARGE_FLOAT_CODE = (1023 + 1000) << 52
"""The code of 2.0 ** 1000. It would take millions of weights up to this to add up to more than the largest float."""


@inner
def _copies(trace, other, batch, row, time):
    """The sum of the diffs, up to a time, of all copies that one batch of a trace has of a row of another."""
    data = ld(batch, BATCH_DATA)
    cap = ld(batch, BATCH_CAP)
    cols = ld(trace, TRACE_COLS)
    theirs = ld(other, BATCH_DATA)
    their_cap = ld(other, BATCH_CAP)
    rows = ld(other, BATCH_ROWS)
    total = 0
    i = find_key(other, data, cap, row, cols)
    while i < rows and compare_rows(theirs, their_cap, i, data, cap, row, cols) == 0:
        if time_at(other, theirs, i) <= time:
            total = plus(total, diff_at(other, theirs, i, 0))
        i += 1
    return total


@inner
def _only_adds(trace, batch):
    """Whether no row of a batch takes anything away: it has nothing but insertions, or is the trace's oldest and of one
    time. Then its rows are the sums of all there was until that time, which are never negative.
    """
    if ld(batch, BATCH_DIFF_MASK) == 0:
        return True
    return batch == ld(ld(trace, TRACE_TABLE), 0) and ld(batch, BATCH_TIME_MASK) == 0


@shared
def there(trace, batch, row, time):
    """Whether a row of a batch of the trace is there at a time.

    A batch that only adds can but make the sum of a row's diffs larger. Mostly the largest one is like that, and it is
    where the row was found: then it is not read again.
    """
    table = ld(trace, TRACE_TABLE)
    count = ld(trace, TRACE_COUNT)
    known = 0
    if _only_adds(trace, batch) and time_at(batch, ld(batch, BATCH_DATA), row) <= time:
        known = diff_at(batch, ld(batch, BATCH_DATA), row, 0)
    total = known
    for b in range(count):
        if not _only_adds(trace, ld(table, b)):
            total = plus(total, _copies(trace, ld(table, b), batch, row, time))
    if total > 0:
        return 1
    if ld(batch, BATCH_TIME_MASK) != 0:  # the row may stand in its batch at other times too
        total -= known
        known = 0
    for b in range(count):
        if _only_adds(trace, ld(table, b)) and (known == 0 or ld(table, b) != batch):
            total = plus(total, _copies(trace, ld(table, b), batch, row, time))
    return 1 if total > 0 else 0


@inner
def adds(batch, data, row, time):
    """Whether a row adds something at a time, so that it may be there."""
    return diff_at(batch, data, row, 0) > 0 and time_at(batch, data, row) <= time


@inner
def all_there(trace, batch, data, time):
    """Whether every row of a batch is there: it is the only one, of one time, and has nothing but insertions."""
    if ld(trace, TRACE_COUNT) != 1 or ld(batch, BATCH_TIME_MASK) != 0 or ld(batch, BATCH_DIFF_MASK) != 0:
        return False
    return time_at(batch, data, 0) <= time and diff_at(batch, data, 0, 0) > 0


@inner
def is_there(plain, trace, batch, data, row, time):
    """Whether a row of a batch is there; `plain`: see `all_there`."""
    return plain or (adds(batch, data, row, time) and there(trace, batch, row, time) != 0)


@inner
def first_row(ctx, batch, node):
    """The first row of a batch that may have the node in its first column."""
    key = ld(ctx, FOREST_NODE)
    st(key, 0, node)
    return find_key(batch, key, 1, 0, 1)


@inner
def weight_of(ctx, data, cap, row, column):
    """The weight in a row, or the constant that stands for it."""
    if column < 0:
        return ~column
    return ld(data, column * cap + row) ^ ld(ctx, FOREST_FLIP)


@inner
def offered(rules, rule, x, weight):
    """What an edge of a rule makes of a value: (whether it offers anything, what)."""
    if x > ld(rules, rule + RULE_MOST_IN):
        return False, x
    kind = ld(rules, rule + RULE_KIND)
    y = x
    if kind == ALONG_ADD:
        if too_far(x, weight):
            return False, x
        y = x + weight
    elif kind == ALONG_ADD_FLOAT:
        if _has_no_sum(x, weight):
            return False, x
        y = float_add(x, weight)
    elif kind != ALONG_SAME:
        y = max(x, weight)
    return y <= ld(rules, rule + RULE_MOST_OUT), y


@inner
def _has_no_sum(x, weight):
    """Whether two floats cannot be added: both are finite and their sum is not, or they are infinities of either sign
    (the sum is NaN, though none of them is).
    """
    if float_add_failure(x, weight) != 0:
        return True
    return float_add(x, weight) == NAN_CODE and x != NAN_CODE and weight != NAN_CODE


@inner
def too_far(x, weight):
    """Whether a sum is no value: it does not fit, or is the code that stands for NULL."""
    y = x + weight
    return (x ^ y) & (weight ^ y) < 0 or y == NULL


@inner
def fails(rules, rule, x, weight):
    """Whether an edge that offers nothing does so because the path does not fit into 64 bits, or is infinitely long and
    infinitely short. In a loop, the row would be an error.
    """
    if x > ld(rules, rule + RULE_MOST_IN):
        return False
    kind = ld(rules, rule + RULE_KIND)
    if kind == ALONG_ADD_FLOAT:
        return _has_no_sum(x, weight)
    return kind == ALONG_ADD and too_far(x, weight)


@shared
def still_held(ctx, rules, rule, near, far, x, y, time):
    """Whether an edge of the rule from node `near`, whose value is x, to node `far` is there that offers y: a parallel
    one will do. No row is there less than not at all, so the diffs of all that offer it can be added up in one pass.
    """
    trace = ld(rules, rule + RULE_FORWARD)
    column = ld(rules, rule + RULE_FORWARD_WEIGHT)
    table = ld(trace, TRACE_TABLE)
    key = ld(ctx, FOREST_NODE)
    st(key, 0, near)
    st(key, 1, far)
    total = 0
    for b in range(ld(trace, TRACE_COUNT)):
        batch = ld(table, b)
        data = ld(batch, BATCH_DATA)
        cap = ld(batch, BATCH_CAP)
        rows = ld(batch, BATCH_ROWS)
        i = find_key(batch, key, 1, 0, 2)
        while i < rows and ld(data, i) == near and ld(data, cap + i) == far:
            if time_at(batch, data, i) <= time:
                offers, value = offered(rules, rule, x, weight_of(ctx, data, cap, i, column))
                if offers and value == y:
                    total = plus(total, diff_at(batch, data, i, 0))
            i += 1
    return 1 if total > 0 else 0


@inner
def is_wild(kind, weight):
    """Whether a weight may make a path better, or longer than 64 bits; of floats, those that are no finite number too:
    a sum with one is not known to get worse with the other.
    """
    if kind == ALONG_ADD:
        return weight < 0 or weight > LARGE
    return kind == ALONG_ADD_FLOAT and (weight < 0 or weight > LARGE_FLOAT_CODE)


@shared
def count_wild(ctx, rules, rule, time):
    """How many edges of a rule have a wild weight at a time, counted with their multiplicities."""
    total = 0
    kind = ld(rules, rule + RULE_KIND)
    if kind == ALONG_ADD or kind == ALONG_ADD_FLOAT:
        trace = ld(rules, rule + RULE_FORWARD)
        column = ld(rules, rule + RULE_FORWARD_WEIGHT)
        if column < 0 and not is_wild(kind, ~column):
            return 0
        for b in range(ld(trace, TRACE_COUNT)):
            batch = ld(ld(trace, TRACE_TABLE), b)
            data = ld(batch, BATCH_DATA)
            cap = ld(batch, BATCH_CAP)
            for i in range(ld(batch, BATCH_ROWS)):
                if is_wild(kind, weight_of(ctx, data, cap, i, column)) and time_at(batch, data, i) <= time:
                    total = plus(total, diff_at(batch, data, i, 0))
    return total


@inner
def base_in(ctx, data, cap, row):
    """The value of a row of sources; they may have none: then one is as good as another."""
    if ld(ctx, FOREST_START_VALUE) == 0:
        return 0
    return ld(data, (ld(ctx, FOREST_QUESTIONS) + 1) * cap + row) ^ ld(ctx, FOREST_FLIP)


@shared
def read_base(ctx, entry, node, time):
    """Give an entry, in the question of FOREST_KEY, the best value that the sources have for it at a time."""
    trace = ld(ctx, FOREST_START)
    table = ld(trace, TRACE_TABLE)
    key = ld(ctx, FOREST_KEY)
    keys = ld(ctx, FOREST_QUESTIONS) + 1
    st(key, keys - 1, node)
    best = 0
    based = 0
    for b in range(ld(trace, TRACE_COUNT)):
        batch = ld(table, b)
        data = ld(batch, BATCH_DATA)
        cap = ld(batch, BATCH_CAP)
        rows = ld(batch, BATCH_ROWS)
        i = find_key(batch, key, 1, 0, keys)
        while i < rows and compare_rows(data, cap, i, key, 1, 0, keys) == 0:
            if adds(batch, data, i, time):
                value = base_in(ctx, data, cap, i)
                if (based == 0 or value < best) and there(trace, batch, i, time) != 0:
                    best = value
                    based = FLAG_BASED
            i += 1
    touch(ctx, entry)
    entries = ld(ctx, FOREST_ENTRIES)
    at = place(ctx, entry)
    st(entries, at + VERTEX_BASE, best)
    st(entries, at + VERTEX_FLAGS, (ld(entries, at + VERTEX_FLAGS) & ~(FLAG_BASED | FLAG_DOUBT)) | based)
    return based


@inner
def settle_base(ctx, entry, time):
    """Before an entry's own value is used, in the question of FOREST_KEY: read it again if it is in doubt."""
    entries = ld(ctx, FOREST_ENTRIES)
    at = place(ctx, entry)
    if ld(entries, at + VERTEX_FLAGS) & FLAG_DOUBT != 0:
        read_base(ctx, entry, ld(entries, at + VERTEX_NODE), time)


@inner
def edges_of(rules, rule, ahead):
    """(trace, column of the weight) of a rule's edges, from near to far or back."""
    if ahead:
        return ld(rules, rule + RULE_FORWARD), ld(rules, rule + RULE_FORWARD_WEIGHT)
    return ld(rules, rule + RULE_BACKWARD), ld(rules, rule + RULE_BACKWARD_WEIGHT)
