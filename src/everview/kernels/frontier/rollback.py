"""The end of a step for operators whose memory changes in place: commit or undo.

A call that runs out of memory leaks blocks; the executor frees those that no context refers to. Tables and filters of
histories are referred to by other blocks, and must be marked (`keep_all`).
"""

from __future__ import annotations

from everview.kernels.build.native import inner
from everview.kernels.frontier.budget import is_full, leave_budget
from everview.kernels.frontier.dropped import gone_put, gone_slot, gone_take_out
from everview.kernels.frontier.forest import (
    FOREST_BUILT,
    FOREST_FORM,
    FOREST_LOUD,
    FOREST_WORDS,
    FORM_HISTORIES,
    FORM_LEVELS,
    FORM_OTHER,
    FORM_PAIRS,
    forget,
    undo,
)
from everview.kernels.frontier.history import (
    DROPPED,
    HISTORY_BUDGET,
    HISTORY_FILTERS,
    HISTORY_FILTERS_N,
    HISTORY_LOG,
    HISTORY_LOG_N,
    HISTORY_RECORDS,
    HISTORY_RECORDS_N,
    LOG_WIDTH,
    QUESTION_CHAIN,
    QUESTION_GONE,
    QUESTION_ROWS,
    STORED,
    empty_history,
    forget_history,
    put,
    question_at,
    slot_of,
    take_out,
    unbuild,
)
from everview.kernels.frontier.levels import forget_levels, undo_levels
from everview.kernels.frontier.pairs import forget_pairs, keep_pairs_blocks, undo_pairs
from everview.kernels.memory import call_pointer, keep, ld, st

OTHER_UNDO, OTHER_FORGET, OTHER_WORDS = range(FOREST_WORDS, FOREST_WORDS + 3)
"""Words of a context of FORM_OTHER: the kernels that are called with it when a step failed, and when it is committed.
They must not allocate. Its own words follow.
"""


@inner
def _spent(ctx):
    """Whether the step was refused because of this history's budget: then what it left behind must not stay. It is
    grown again, and thinned out, before the next change.
    """
    return is_full(ld(ctx, HISTORY_BUDGET))


@inner
def undo_history(ctx):
    """The step failed, wherever it was: the rows are as they were before, or, if they were being grown, not there."""
    log = ld(ctx, HISTORY_LOG)
    records = ld(ctx, HISTORY_RECORDS)
    i = ld(ctx, HISTORY_LOG_N) - 1
    while i >= 0:
        entry = 1 + i * LOG_WIDTH
        at = question_at(ctx, ld(log, entry))
        one = ld(log, entry + 1)
        when = ld(log, entry + 2)
        what = ld(log, entry + 3)
        slot = slot_of(records, at + QUESTION_ROWS, one, when)
        if slot >= 0 and what != STORED:
            take_out(records, at + QUESTION_ROWS, slot)
        gone = gone_slot(records, at, one, when)
        if gone >= 0 and what != DROPPED:
            gone_take_out(records, at, gone)
        if what == STORED:
            put(records, at + QUESTION_ROWS, one, when, ld(log, entry + 4))
        elif what == DROPPED:
            gone_put(records, at, one, when)
        i -= 1
    for number in range(ld(ctx, HISTORY_RECORDS_N)):
        st(records, question_at(ctx, number) + QUESTION_CHAIN, -1)
    if ld(ctx, FOREST_BUILT) == 0 or ld(ctx, FOREST_LOUD) != 0:
        unbuild(ctx)
    if _spent(ctx):
        unbuild(ctx)
        leave_budget(ctx)
        empty_history(ctx)
    forget_history(ctx)


@inner
def undo_all(contexts, n):
    """A step failed: put all forests and histories back."""
    for i in range(n):
        ctx = ld(contexts, i)
        form = ld(ctx, FOREST_FORM)
        if form == FORM_HISTORIES:
            undo_history(ctx)
        elif form == FORM_OTHER:
            call_pointer(ld(ctx, OTHER_UNDO), ctx)
        elif form == FORM_PAIRS:
            undo_pairs(ctx)
        elif form == FORM_LEVELS:
            undo_levels(ctx)
        else:
            undo(ctx)


@inner
def forget_all(contexts, n):
    """A step is committed: what it changed in forests and histories stays."""
    for i in range(n):
        ctx = ld(contexts, i)
        form = ld(ctx, FOREST_FORM)
        if form == FORM_HISTORIES:
            forget_history(ctx)
        elif form == FORM_OTHER:
            call_pointer(ld(ctx, OTHER_FORGET), ctx)
        elif form == FORM_PAIRS:
            forget_pairs(ctx)
        elif form == FORM_LEVELS:
            forget_levels(ctx)
        else:
            forget(ctx)


@inner
def keep_all(contexts, n):
    """After a failure: the blocks that histories name in other blocks are in use."""
    for i in range(n):
        ctx = ld(contexts, i)
        if ld(ctx, FOREST_FORM) == FORM_HISTORIES:
            records = ld(ctx, HISTORY_RECORDS)
            for number in range(ld(ctx, HISTORY_RECORDS_N)):
                at = question_at(ctx, number)
                keep(ld(records, at + QUESTION_ROWS))
                keep(ld(records, at + QUESTION_GONE))
            for f in range(ld(ctx, HISTORY_FILTERS_N)):
                keep(ld(ld(ctx, HISTORY_FILTERS), 1 + 3 * f))
        elif ld(ctx, FOREST_FORM) == FORM_PAIRS:
            keep_pairs_blocks(ctx)
