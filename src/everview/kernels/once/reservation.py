"""Reserves space in the lists of traces, so that a step need not move them while others read.

A trace's list of batches grows by reallocation (`everview.kernels.trace.trace`). A concurrent reader would then use a
freed list. A step appends few batches, because it folds them as they come: each but the last is more than twice as
large as the next, so there are at most as many as a row count has bits. With that much space, nothing moves before the
step is committed.
"""

from __future__ import annotations

from everview.kernels.build.native import entry
from everview.kernels.memory import grow, ld, st
from everview.kernels.run.executor import EXECUTOR_NTRACES, EXECUTOR_TRACES
from everview.kernels.trace.trace import TRACE_COUNT, TRACE_MERGES, TRACE_ROOM, TRACE_TABLE

MOST_IN_STEP = 66


@entry("int")
def make_room(session):
    """Make sure that no list of batches has to move during the next step."""
    traces = ld(session, EXECUTOR_TRACES)
    for i in range(ld(session, EXECUTOR_NTRACES)):
        trace = ld(traces, i)
        n = ld(trace, TRACE_COUNT)
        if ld(trace, TRACE_ROOM) - n < MOST_IN_STEP:
            room = n + 2 * MOST_IN_STEP
            st(trace, TRACE_TABLE, grow(ld(trace, TRACE_TABLE), room, n))
            st(trace, TRACE_MERGES, grow(ld(trace, TRACE_MERGES), room, n))
            st(trace, TRACE_ROOM, room)
    return 0
