"""Contributions of edges in a round, computed on demand: none are stored.

    value of v after round i + 1 = the best of its own, at round 0, and of what edges (w, v) make of w's after round i

or, where values are summed, the sum of both. The edges are read in the arrangement by their far ends. A row of an edge
is taken as it is; one that would be the best is verified (see `offers`). Sums do not even need that: rows add up with
their diffs.

*Dropped rows.* The value of a vertex after round i is that of its latest row. If that one was dropped, it must first be
recomputed, from the previous round, which may need others. There is no recursion: missing values are pushed on a stack
(NEEDS), the current work is abandoned and restarted when all of them are known. Recomputed values are cached (MEMO)
while the query is processed: otherwise a row would be recomputed once for every path that leads to it.

*Shares.* If ranks are summed, an edge passes on (value * TIMES + weight * OF) // (weight * 2 * OF): the fraction TIMES
/ (2 * OF) of the value, divided by the weight (the number of shares), to the nearest unit.
"""

from __future__ import annotations

from everview.kernels.build.native import inner, shared
from everview.kernels.frontier.dropped import latest_dropped, next_dropped
from everview.kernels.frontier.forest import (
    ALONG_SHARE,
    FOREST_FUEL,
    FOREST_KEY,
    FOREST_NRULES,
    FOREST_QUESTIONS,
    FOREST_RULES,
    FOREST_START,
    FOREST_STEP,
    RULE_KIND,
    RULE_OF,
    RULE_TIMES,
    RULE_WORDS,
)
from everview.kernels.frontier.history import (
    HISTORY_ABSENT,
    HISTORY_DROPPING,
    HISTORY_MEMO,
    HISTORY_NEEDS,
    HISTORY_NEEDS_N,
    HISTORY_RECALLED,
    HISTORY_RECORDS,
    HISTORY_TOTAL,
    NEVER,
    QUESTION_COLUMNS,
    QUESTION_LAST,
    QUESTION_ROWS,
    id_of,
    look,
    make_room,
    node_of,
    put,
    slot_of,
)
from everview.kernels.frontier.offers import (
    FAULT_PATH,
    adds,
    base_in,
    edges_of,
    fails,
    first_row,
    offered,
    there,
    too_far,
    weight_of,
)
from everview.kernels.memory import ld, reserve, st
from everview.kernels.run.step import STEP_FAULT
from everview.kernels.trace.batch import BATCH_CAP, BATCH_DATA, BATCH_ROWS, compare_rows, diff_at, time_at
from everview.kernels.trace.search import find_key
from everview.kernels.trace.trace import TRACE_COUNT, TRACE_TABLE

LARGEST = 2**62


@inner
def value_at(ctx, at, one, at_round, ahead):
    """(whether it is known, the value after a round, the round of the next row if `ahead`). What is not known is put
    on the stack of needs.
    """
    records = ld(ctx, HISTORY_RECORDS)
    latest, value, following = look(records, at + QUESTION_ROWS, one, at_round)
    if latest < 0:
        value = ld(ctx, HISTORY_ABSENT)
    if ld(ctx, HISTORY_DROPPING) == 0:
        return True, value, following
    when = latest_dropped(ctx, at, one, latest, at_round)
    if ahead:
        following = min(following, next_dropped(ctx, at, one, at_round))
    if when <= latest:
        return True, value, following
    slot = slot_of(ctx, HISTORY_MEMO, one, when)
    if slot >= 0:
        return True, ld(ld(ctx, HISTORY_MEMO), 2 * slot + 1), following
    needs = reserve(ctx, HISTORY_NEEDS, HISTORY_NEEDS_N, 2, 1)
    n = ld(ctx, HISTORY_NEEDS_N)
    st(needs, 1 + 2 * n, one)
    st(needs, 2 + 2 * n, when)
    st(ctx, HISTORY_NEEDS_N, n + 1)
    return False, value, following


@inner
def _own_sum(ctx, at, node, time):
    """(how many rows, their sum) a vertex starts with, where values are added up."""
    trace = ld(ctx, FOREST_START)
    table = ld(trace, TRACE_TABLE)
    key = ld(ctx, FOREST_KEY)
    columns = ld(ctx, FOREST_QUESTIONS)
    for c in range(columns):
        st(key, c, ld(ld(ctx, HISTORY_RECORDS), at + QUESTION_COLUMNS + c))
    st(key, columns, node)
    count, total = 0, 0
    for b in range(ld(trace, TRACE_COUNT)):
        batch = ld(table, b)
        data = ld(batch, BATCH_DATA)
        cap = ld(batch, BATCH_CAP)
        rows = ld(batch, BATCH_ROWS)
        i = find_key(batch, key, 1, 0, columns + 1)
        while i < rows and compare_rows(data, cap, i, key, 1, 0, columns + 1) == 0:
            if time_at(batch, data, i) <= time:
                diff = diff_at(batch, data, i, 0)
                count += diff
                total += diff * base_in(ctx, data, cap, i)
            i += 1
    return count, total


@inner
def _share(ctx, rules, rule, x, weight):
    """What an edge passes on of a value, or the value plus the weight, or itself."""
    if ld(rules, rule + RULE_KIND) != ALONG_SHARE:
        _, y = offered(rules, rule, x, weight)
        return y
    times = ld(rules, rule + RULE_TIMES)
    if weight <= 0 or weight > LARGEST // (2 * ld(rules, rule + RULE_OF)) or abs(x) > LARGEST // max(times, 1):
        st(ld(ctx, FOREST_STEP), STEP_FAULT, FAULT_PATH)
        return 0
    return (x * times + weight * ld(rules, rule + RULE_OF)) // (weight * 2 * ld(rules, rule + RULE_OF))


@inner
def work_out(ctx, at, one, at_round, time, ahead):
    """(whether it is known, the value after the next round, the first round after this one at which an in-neighbour, or
    the vertex itself, has a row).
    """
    records = ld(ctx, HISTORY_RECORDS)
    rules = ld(ctx, FOREST_RULES)
    node = node_of(ctx, one)
    adding = ld(ctx, HISTORY_TOTAL) != 0
    known, _, following = value_at(ctx, at, one, at_round, True) if ahead else (True, 0, NEVER)
    absent = ld(ctx, HISTORY_ABSENT)
    best, count = absent, 0
    if adding:
        count, best = _own_sum(ctx, at, node, time)
    else:
        first, own, _ = look(records, at + QUESTION_ROWS, one, 0)
        if first == 0:
            best = own
    seen = 0
    for r in range(ld(ctx, FOREST_NRULES)):
        rule = r * RULE_WORDS
        trace, column = edges_of(rules, rule, False)
        for b in range(ld(trace, TRACE_COUNT)):
            batch = ld(ld(trace, TRACE_TABLE), b)
            data = ld(batch, BATCH_DATA)
            cap = ld(batch, BATCH_CAP)
            rows = ld(batch, BATCH_ROWS)
            i = first_row(ctx, batch, node)
            begin = i
            while i < rows and ld(data, i) == node:
                other = id_of(ctx, ld(data, cap + i))
                if other >= 0:
                    told, x, later = value_at(ctx, at, other, at_round, ahead)
                    following = min(following, later)
                    known = known and told
                    if told and x != absent:
                        weight = weight_of(ctx, data, cap, i, column)
                        if adding:
                            if time_at(batch, data, i) <= time:
                                diff = diff_at(batch, data, i, 0)
                                y = diff * _share(ctx, rules, rule, x, weight)
                                if too_far(best, y):
                                    st(ld(ctx, FOREST_STEP), STEP_FAULT, FAULT_PATH)
                                best += y
                                count += diff
                        elif adds(batch, data, i, time):
                            offers, y = offered(rules, rule, x, weight)
                            if not offers and fails(rules, rule, x, weight) and there(trace, batch, i, time) != 0:
                                st(ld(ctx, FOREST_STEP), STEP_FAULT, FAULT_PATH)
                            if offers and (best == absent or y < best) and there(trace, batch, i, time) != 0:
                                best = y
                i += 1
            seen += i - begin + 1
    st(ctx, FOREST_FUEL, ld(ctx, FOREST_FUEL) - seen)
    if adding and count <= 0:
        best = absent
    return known, best, following


@shared
def recall(ctx, at, time):
    """Work out all that is on the stack of needs, and what that needs."""
    while ld(ctx, HISTORY_NEEDS_N) > 0:
        n = ld(ctx, HISTORY_NEEDS_N) - 1
        needs = ld(ctx, HISTORY_NEEDS)
        one = ld(needs, 1 + 2 * n)
        when = ld(needs, 2 + 2 * n)
        if slot_of(ctx, HISTORY_MEMO, one, when) >= 0:
            st(ctx, HISTORY_NEEDS_N, n)
        else:
            make_room(ctx, HISTORY_MEMO)
            known, value, _ = work_out(ctx, at, one, when - 1, time, False)
            if known:
                put(ctx, HISTORY_MEMO, one, when, value)
                st(ctx, HISTORY_NEEDS_N, n)
                st(ctx, HISTORY_RECALLED, ld(ctx, HISTORY_RECALLED) + 1)
    return 0


@inner
def final_value(ctx, at, one, time):
    """The value of a vertex after the last round."""
    last = ld(ld(ctx, HISTORY_RECORDS), at + QUESTION_LAST)
    while True:
        known, value, _ = value_at(ctx, at, one, last, False)
        if known:
            return value
        recall(ctx, at, time)
