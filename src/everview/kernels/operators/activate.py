"""Activate: lets a change of an arrangement outside a loop (or one round ago) run the loop's joins.

Joins read such an arrangement in place, so nothing arrives in a batcher of the loop; this operator schedules the loop
time at which the change becomes visible there.
"""

from __future__ import annotations

from everview.kernels.build.native import operator
from everview.kernels.memory import ld, st
from everview.kernels.run.scope import SCOPE_NOW, SCOPE_OVERRUN, slot_of
from everview.kernels.trace.trace import TRACE_DELTA, TRACE_STAMP

ACTIVATE_TRACE, ACTIVATE_FROM, ACTIVATE_SCOPE, ACTIVATE_ADD, ACTIVATE_FIELD, ACTIVATE_LIMIT, ACTIVATE_WORDS = range(7)


@operator
def activate(ctx):
    """Compiled operator; see the module."""
    trace = ld(ctx, ACTIVATE_TRACE)
    now = ld(ld(ctx, ACTIVATE_FROM), SCOPE_NOW)
    if ld(trace, TRACE_DELTA) != 0 and ld(trace, TRACE_STAMP) == now:
        scope = ld(ctx, ACTIVATE_SCOPE)
        time = now + ld(ctx, ACTIVATE_ADD)
        limit = ld(ctx, ACTIVATE_LIMIT)
        if limit >= 0 and (time & ld(ctx, ACTIVATE_FIELD)) >= limit:
            st(scope, SCOPE_OVERRUN, 1)
        else:
            slot_of(scope, time)
    return 0
