"""Wake: a change of an arrangement made outside a loop (or one round ago) must get the loop's joins to run.

Joins read such an arrangement in place, so nothing arrives in an inbox of the loop; this operator puts the loop time
on the agenda at which the change becomes visible there.
"""

from __future__ import annotations

from everview.kernels.memory import ld, st
from everview.kernels.native import operator
from everview.kernels.scope import NOW, OVERRUN, slot_of
from everview.kernels.trace import DELTA, STAMP

W_TRACE, W_FROM, W_SCOPE, W_ADD, W_FIELD, W_LIMIT, W_WORDS = range(7)


@operator
def wake(ctx):
    """Compiled operator; see the module."""
    trace = ld(ctx, W_TRACE)
    now = ld(ld(ctx, W_FROM), NOW)
    if ld(trace, DELTA) != 0 and ld(trace, STAMP) == now:
        scope = ld(ctx, W_SCOPE)
        time = now + ld(ctx, W_ADD)
        limit = ld(ctx, W_LIMIT)
        if limit >= 0 and (time & ld(ctx, W_FIELD)) >= limit:
            st(scope, OVERRUN, 1)
        else:
            slot_of(scope, time)
    return 0
