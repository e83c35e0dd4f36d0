"""Constraint checks: rows that must not occur, or not more than a number of times.

A constraint is a plan of the violating rows, maintained like any view. `at_most` runs right after the operator that
holds them, inside the step, and rejects the step if one of its changes has raised a row above its limit at any time of
the step. A constraint therefore costs what its plan costs for a change, plus one look-up for each added row.
"""

from __future__ import annotations

from everview.kernels.build.native import REFUSED, operator
from everview.kernels.memory import ld, st
from everview.kernels.trace.batch import BATCH_CAP, BATCH_DATA, BATCH_ROWS, diff_at, time_at
from everview.kernels.trace.read import balance
from everview.kernels.trace.trace import TRACE_COUNT, TRACE_DELTA

GUARD_TRACE, GUARD_ROW, GUARD_MOST, GUARD_WORDS = range(4)
"""The trace; the row of its last change that was refused; how often any row may be there."""


@operator
def at_most(ctx):
    """Refuse the step if a row is there more often than it may be."""
    trace = ld(ctx, GUARD_TRACE)
    delta = ld(trace, TRACE_DELTA)
    if delta == 0:
        return 0
    most = ld(ctx, GUARD_MOST)
    data = ld(delta, BATCH_DATA)
    for i in range(ld(delta, BATCH_ROWS)):
        if diff_at(delta, data, i, 0) > 0:
            if balance(trace, ld(trace, TRACE_COUNT), data, ld(delta, BATCH_CAP), i, time_at(delta, data, i)) > most:
                st(ctx, GUARD_ROW, i)
                return REFUSED
    return 0
