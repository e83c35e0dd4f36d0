"""A memory budget for histories: rows are dropped when they use too much, with a computed probability.

A budget is two words that several operators may share: a limit in bytes (0: none) and their total usage. An operator
checks it at the end of its work in a step, so that what is committed is within it:

    above 95 %, or filters that had to be filled too far
                drop so many rows that 85 % are left. What a row's dropping frees is known, so the chance follows. If
                all rows of vertices with few edges are not enough, vertices with more edges come into question: up to
                the 95th, the 99th percentile of degrees, then all
    below 70 %  the chance goes down; rows that are written from now on stay
    above 95 % and nothing left to drop: a step that brings a new question is refused (FAULT_BUDGET). One that does not
                goes on: who was promised an answer keeps it, and the other 5 % are for what changes add to that.
                Filters never take more than 95 %: they are filled beyond what is good for them (`dropped`)

Dropping scans the tables once. The new table of a query has room for all rows that the log may restore, so that the
step can still be undone.

Hazard: an operator only drops its own rows. One that uses little may be refused a query because another, whose edges
have not changed in this step, has not dropped any yet.
"""

from __future__ import annotations

from everview.kernels.build.native import inner, shared
from everview.kernels.frontier.dropped import (
    FILTERS_MAKING_ROOM,
    FILTERS_OPEN,
    FULL,
    chosen,
    degree,
    drop_row,
    overfull,
    room_to_drop,
)
from everview.kernels.frontier.forest import FOREST_STEP
from everview.kernels.frontier.history import (
    BUDGET_LIMIT,
    BUDGET_USED,
    HISTORY_BUDGET,
    HISTORY_CHANCE,
    HISTORY_CLOSED,
    HISTORY_DEGREES,
    HISTORY_EXACT,
    HISTORY_FILTERS_N,
    HISTORY_GROWN_KEYS,
    HISTORY_LEAST_DEGREE,
    HISTORY_LOG,
    HISTORY_LOG_N,
    HISTORY_MOST_DEGREE,
    HISTORY_NEW,
    HISTORY_NODES_N,
    HISTORY_RECORDS,
    HISTORY_RECORDS_N,
    HISTORY_USED,
    LOG_WIDTH,
    QUESTION_COUNT,
    QUESTION_LOGGED,
    QUESTION_ROWS,
    QUESTION_SIZE,
    STORED,
    history_words,
    home,
    node_of,
    question_at,
    slots_for,
)
from everview.kernels.memory import alloc, free, ld, st, zeros
from everview.kernels.run.step import STEP_FAULT

FAULT_BUDGET = 5
"""STEP_FAULT: the budget is spent, and nothing is left to drop."""

ALL = 1 << 32
"""The chance that drops every row."""

AIM = 85
"""Per cent of a budget that dropping leaves in use."""

EXACT_ROW, FILTERED_ROW, STORED_ROW = 12, 2, 24
"""Bytes that a row takes, with its part of empty slots."""

FEW_EDGES = 2
_BUCKETS = 128


@inner
def is_full(budget):
    """Whether a budget (0: none) is used up as far as it may be."""
    limit = 0 if budget == 0 else ld(budget, BUDGET_LIMIT)
    return limit > 0 and ld(budget, BUDGET_USED) * 100 > limit * FULL


@inner
def all_dropped(ctx):
    """Whether nothing is left to drop."""
    return ld(ctx, HISTORY_CHANCE) == ALL and ld(ctx, HISTORY_MOST_DEGREE) == ALL


@inner
def _degrees(ctx):
    """The number of edges of each id, worked out once in a step."""
    if ld(ctx, HISTORY_DEGREES) == 0:
        n = ld(ctx, HISTORY_NODES_N)
        found = alloc(n + 1)
        for one in range(n):
            st(found, one, degree(ctx, node_of(ctx, one)))
        st(ctx, HISTORY_DEGREES, found)
    return ld(ctx, HISTORY_DEGREES)


@inner
def _bucket(edges):
    """Degrees up to 63 by themselves, larger ones by doublings."""
    if edges < 64:
        return edges
    b = 64
    while edges >= 128:
        edges >>= 1
        b += 1
    return b


@shared
def percentile(ctx, part):
    """A degree that so many of 1,000 vertices do not exceed."""
    degrees = _degrees(ctx)
    counts = zeros(_BUCKETS)
    n = ld(ctx, HISTORY_NODES_N)
    for one in range(n):
        b = _bucket(ld(degrees, one))
        st(counts, b, ld(counts, b) + 1)
    seen = 0
    b = 0
    while b < _BUCKETS - 1 and (seen + ld(counts, b)) * 1000 < part * n:
        seen += ld(counts, b)
        b += 1
    free(counts)
    return b if b < 64 else (128 << (b - 64)) - 1


@inner
def _droppable(ctx):
    """How many rows that are kept may be dropped at all."""
    degrees = _degrees(ctx)
    most = ld(ctx, HISTORY_MOST_DEGREE)
    records = ld(ctx, HISTORY_RECORDS)
    total = 0
    for number in range(ld(ctx, HISTORY_RECORDS_N)):
        at = question_at(ctx, number)
        rows = ld(records, at + QUESTION_ROWS)
        for i in range(ld(records, at + QUESTION_SIZE)):
            word = ld(rows, 2 * i)
            if word != 0 and word & (ALL - 1) != 0 and ld(degrees, (word >> 32) - 1) <= most:
                total += 1
    return total


@inner
def _count_logged(ctx):
    """How many rows the log may put back into each question."""
    records = ld(ctx, HISTORY_RECORDS)
    for number in range(ld(ctx, HISTORY_RECORDS_N)):
        st(records, question_at(ctx, number) + QUESTION_LOGGED, 0)
    log = ld(ctx, HISTORY_LOG)
    for i in range(ld(ctx, HISTORY_LOG_N)):
        if ld(log, 4 + i * LOG_WIDTH) == STORED:
            at = question_at(ctx, ld(log, 1 + i * LOG_WIDTH)) + QUESTION_LOGGED
            st(records, at, ld(records, at) + 1)


@shared
def _thin_out(ctx, number):
    """Drop the rows of a question that are to be dropped now."""
    at = question_at(ctx, number)
    records = ld(ctx, HISTORY_RECORDS)
    degrees = _degrees(ctx)
    rows = ld(records, at + QUESTION_ROWS)
    size = ld(records, at + QUESTION_SIZE)
    kept = 0
    for i in range(size):
        word = ld(rows, 2 * i)
        if word != 0:
            one = (word >> 32) - 1
            when = word & (ALL - 1)
            if chosen(ctx, at, one, when, ld(degrees, one)):
                room_to_drop(ctx, at, when)
                drop_row(ctx, at, one, when)
            else:
                kept += 1
    slots = slots_for(kept + ld(records, at + QUESTION_LOGGED))
    thin = zeros(2 * slots)
    for i in range(size):
        word = ld(rows, 2 * i)
        if word != 0:
            one = (word >> 32) - 1
            if not chosen(ctx, at, one, word & (ALL - 1), ld(degrees, one)):
                slot = home(one, slots)
                while ld(thin, 2 * slot) != 0:
                    slot = slot + 1 if slot + 1 < slots else 0
                st(thin, 2 * slot, word)
                st(thin, 2 * slot + 1, ld(rows, 2 * i + 1))
    st(records, at + QUESTION_ROWS, thin)
    st(records, at + QUESTION_SIZE, slots)
    st(records, at + QUESTION_COUNT, kept)
    free(rows)
    return 0


@inner
def _wider(ctx):
    """Let rows of vertices with more edges be dropped; whether there are any."""
    most = ld(ctx, HISTORY_MOST_DEGREE)
    for part in (950, 990, 1000):
        found = percentile(ctx, part)
        if found > most:
            st(ctx, HISTORY_MOST_DEGREE, found)
            return True
    if most < ALL:
        st(ctx, HISTORY_MOST_DEGREE, ALL)
        return True
    return False


@shared
def shrink(ctx, aim):
    """Drop rows until what is left takes no more than so many bytes, or all are dropped that may be."""
    if ld(ctx, HISTORY_CHANCE) == 0:
        st(ctx, HISTORY_LEAST_DEGREE, FEW_EDGES)
        st(ctx, HISTORY_MOST_DEGREE, max(percentile(ctx, 800), FEW_EDGES))
    _count_logged(ctx)
    st(ctx, HISTORY_CLOSED, FILTERS_MAKING_ROOM)
    saved = STORED_ROW - (EXACT_ROW if ld(ctx, HISTORY_EXACT) != 0 else FILTERED_ROW)
    while True:
        excess = 8 * history_words(ctx) - aim
        if excess <= 0:
            break
        rows = _droppable(ctx)
        chance = ld(ctx, HISTORY_CHANCE)
        if rows * saved <= excess or chance == ALL:
            if chance == ALL and not _wider(ctx):
                break
            st(ctx, HISTORY_CHANCE, ALL)
        else:
            more = (ALL - chance) * (excess * 1024 // (rows * saved) + 8) // 1024
            st(ctx, HISTORY_CHANCE, min(chance + more, ALL))
        if ld(ctx, HISTORY_FILTERS_N) == 0:
            st(ctx, HISTORY_GROWN_KEYS, (rows * ld(ctx, HISTORY_CHANCE) >> 32) * 3 // 2)
        for number in range(ld(ctx, HISTORY_RECORDS_N)):
            _thin_out(ctx, number)
    st(ctx, HISTORY_CLOSED, FILTERS_OPEN)
    return 0


@shared
def keep_within(ctx, last):
    """See the module. `last`: the step's work is done; else a part of it is."""
    budget = ld(ctx, HISTORY_BUDGET)
    if budget == 0:
        return 0
    limit = ld(budget, BUDGET_LIMIT)
    others = ld(budget, BUDGET_USED) - ld(ctx, HISTORY_USED)
    now = 8 * history_words(ctx)
    short = limit > 0 and (others + now) * 100 > limit * AIM and overfull(ctx)
    if limit > 0 and ((others + now) * 100 > limit * FULL or (short and not all_dropped(ctx))):
        shrink(ctx, limit * AIM // 100 - others)
        now = 8 * history_words(ctx)
    elif last != 0 and limit > 0 and (others + now) * 100 < limit * 70:
        st(ctx, HISTORY_CHANCE, max(ld(ctx, HISTORY_CHANCE) * 7 // 8 - 1, 0))
    st(budget, BUDGET_USED, others + now)
    st(ctx, HISTORY_USED, now)
    refused = is_full(budget) or (limit > 0 and all_dropped(ctx) and overfull(ctx))
    if last != 0 and refused and ld(ctx, HISTORY_NEW) != 0:
        st(ld(ctx, FOREST_STEP), STEP_FAULT, FAULT_BUDGET)
    return 0


@inner
def leave_budget(ctx):
    """The operator is gone: so is what it took."""
    budget = ld(ctx, HISTORY_BUDGET)
    if budget != 0:
        st(budget, BUDGET_USED, ld(budget, BUDGET_USED) - ld(ctx, HISTORY_USED))
        st(ctx, HISTORY_USED, 0)
