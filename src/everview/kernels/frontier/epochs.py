"""Shared by all forms of the operator: its phases, the changes of a step by epoch, and the output of differences.

Several epochs in one step are processed one after the other. The rows that arrived in the traces in the step are
therefore first listed by epoch. The output of all of them is collected, sorted and passed on at the end.
"""

from __future__ import annotations

from everview.kernels.build.native import AGAIN, inner, shared
from everview.kernels.frontier.forest import (
    FOREST_ASKED,
    FOREST_CHANGES,
    FOREST_CHANGES_N,
    FOREST_EPOCHS_AT,
    FOREST_FUEL,
    FOREST_INITIAL,
    FOREST_NRULES,
    FOREST_OUT,
    FOREST_OUT_N,
    FOREST_OUTPUT,
    FOREST_PHASE,
    FOREST_RULES,
    FOREST_SCOPE,
    FOREST_START,
    FOREST_STEP,
    FOREST_STREAM,
    RULE_FORWARD,
    RULE_WORDS,
)
from everview.kernels.memory import alloc, call_pointer, free, ld, reserve, st
from everview.kernels.operators.arrange import TIMES_KEPT, emit
from everview.kernels.run.scope import SCOPE_NOW
from everview.kernels.run.step import STEP_BASE, STEP_EPOCHS
from everview.kernels.trace.batch import BATCH_DATA, BATCH_ROWS, time_at
from everview.kernels.trace.sort import sort_rows
from everview.kernels.trace.trace import TRACE_COLS, TRACE_DELTA, TRACE_STAMP, add_delta, clear_delta, trace_rows

A_WHILE = 200_000
"""FOREST_FUEL of one call: rows of edges to look at, some milliseconds."""

WASTE = 4
"""How many times as many vertices as are in use there may be before a forest or a history is grown again."""

SPARE_SHIFT = 3
"""One slot in `1 << SPARE_SHIFT` edges may be spare: nine words, less than a fifth of what indexes hold of them."""

SOURCES = 3
"""Traces whose changes matter besides the rules' edges: see `source`."""


@inner
def spare_slots(ctx):
    """How many entries of a forest may be of nodes that nothing leads to, for the sake of quick look-ups."""
    return trace_rows(ld(ld(ctx, FOREST_RULES), RULE_FORWARD)) >> SPARE_SHIFT if ld(ctx, FOREST_NRULES) > 0 else 0


@inner
def delta_of(ctx, trace):
    """What came to a trace (0: there is none) in this step; 0 if nothing."""
    if trace == 0:
        return 0
    return ld(trace, TRACE_DELTA) if ld(trace, TRACE_STAMP) == ld(ld(ctx, FOREST_SCOPE), SCOPE_NOW) else 0


@inner
def source(ctx, i):
    """Trace number i whose changes matter: those of the rules' edges, then the sources', what rounds begin with if that
    is something else (0: it is not), and what is asked for (0: everything).
    """
    rules = ld(ctx, FOREST_NRULES)
    if i < rules:
        return ld(ld(ctx, FOREST_RULES), i * RULE_WORDS + RULE_FORWARD)
    if i == rules:
        return ld(ctx, FOREST_START)
    return ld(ctx, FOREST_INITIAL) if i == rules + 1 else ld(ctx, FOREST_ASKED)


@inner
def _epoch_of(ctx, batch, data, row):
    """Which of the step's epochs a row of a change belongs to, counted from 1."""
    step = ld(ctx, FOREST_STEP)
    return min(max(time_at(batch, data, row) - ld(step, STEP_BASE), 1), ld(step, STEP_EPOCHS))


@shared
def gather(ctx):
    """List the step's changes by epoch: CHANGES from EPOCHS_AT[e] on are epoch e's, two words each (source, row)."""
    epochs = ld(ld(ctx, FOREST_STEP), STEP_EPOCHS)
    bounds = alloc(epochs + 3)
    free(ld(ctx, FOREST_EPOCHS_AT))
    st(ctx, FOREST_EPOCHS_AT, bounds)
    for e in range(epochs + 3):
        st(bounds, e, 0)
    total = 0
    for s in range(ld(ctx, FOREST_NRULES) + SOURCES):
        delta = delta_of(ctx, source(ctx, s))
        if delta != 0:
            data = ld(delta, BATCH_DATA)
            for i in range(ld(delta, BATCH_ROWS)):
                e = _epoch_of(ctx, delta, data, i)
                st(bounds, e + 1, ld(bounds, e + 1) + 1)
            total += ld(delta, BATCH_ROWS)
    st(ctx, FOREST_CHANGES_N, 0)
    changes = reserve(ctx, FOREST_CHANGES, FOREST_CHANGES_N, 2, total)
    for e in range(epochs + 2):
        st(bounds, e + 1, ld(bounds, e) + ld(bounds, e + 1))
    for s in range(ld(ctx, FOREST_NRULES) + SOURCES):
        delta = delta_of(ctx, source(ctx, s))
        if delta != 0:
            data = ld(delta, BATCH_DATA)
            for i in range(ld(delta, BATCH_ROWS)):
                e = _epoch_of(ctx, delta, data, i)
                at = ld(bounds, e)
                st(bounds, e, at + 1)
                st(changes, 1 + 2 * at, s)
                st(changes, 2 + 2 * at, i)
    e = epochs + 2  # each bound has moved to the end of its epoch, which is where the next begins
    while e > 0:
        st(bounds, e, ld(bounds, e - 1))
        e -= 1
    st(bounds, 0, 0)
    st(ctx, FOREST_CHANGES_N, total)
    return total


@shared
def publish(ctx):
    """What was said becomes the output's delta; the operator is idle again (its phase is 0)."""
    output = ld(ctx, FOREST_OUTPUT)
    n = ld(ctx, FOREST_OUT_N)
    cols = ld(output, TRACE_COLS)
    batch = sort_rows(ld(ctx, FOREST_OUT), 1, cols + 2, 1, n, cols, 1, 0, ld(ctx, FOREST_STEP)) if n > 0 else 0
    st(ctx, FOREST_OUT_N, 0)
    st(ctx, FOREST_PHASE, 0)
    if batch == 0:
        clear_delta(output)
        return 0
    add_delta(output, batch, ld(ld(ctx, FOREST_SCOPE), SCOPE_NOW), ld(ctx, FOREST_STEP))
    emit(ld(ctx, FOREST_STREAM), batch, TIMES_KEPT)
    return 0


@inner
def in_phases(ctx, begin, advance):
    """A step of an operator, or the next part of one that was left: `begin` says whether there is anything to do, then
    `advance` is called as long as it says that there is more. Both are addresses; a phase of 0 is idle.
    """
    if ld(ctx, FOREST_PHASE) == 0 and call_pointer(begin, ctx) == 0:
        return 0
    st(ctx, FOREST_FUEL, A_WHILE)
    while call_pointer(advance, ctx) != 0:
        if ld(ctx, FOREST_FUEL) < 0:
            return AGAIN
    return 0
