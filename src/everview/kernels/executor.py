"""The executor: runs a program of operators for one step, loops included, without returning to Python.

A program is a block of instructions, four words each: [what, operator's address, context, jump].

    CALL   call the operator with its context
    LOOP   enter the loop's next pending time, or jump behind its END
    END    leave the pass and jump back to LOOP
    STOP   return to the driver: shards of one dataflow exchange rows and agree on the next loop time here

A step begins, runs and commits in one call (`step`) unless an operator needs Python (a Python reduction or function):
then the call returns PYTHON, the driver serves instruction PC and calls `resume`. Every few thousand instructions the
executor returns YIELD so that Ctrl-C is heard. Anything else that is not DONE has stopped the step, and `abort` puts
all back; so it does where an operator has left from the middle (see `leaving`): PC is the instruction then, or behind
the program if the step was complete and there was no memory to commit it.
"""

from __future__ import annotations

from everview.kernels.inbox import clear_inbox, keep_inbox
from everview.kernels.leaving import attempt, last_failed
from everview.kernels.memory import (
    FOLLOWING,
    add_atomically,
    call_pointer,
    drop_lost,
    faults,
    keep,
    ld,
    new_number,
    raw_load,
    size_of,
    st,
    take_lost,
)
from everview.kernels.native import CALL_PYTHON, DEBUG, entry, inner, task
from everview.kernels.scope import OVERRUN, end_time, keep_scope, next_time, reset_scope
from everview.kernels.step import STEP_BASE, STEP_EPOCHS, STEP_FAULT, STEP_SPLIT, STEP_STOP, STEP_TEAM
from everview.kernels.team import both
from everview.kernels.trace import fold, keep_trace, publish, roll_back, settle_folded, uncommitted

PROGRAM, LENGTH, PC, X_STEP, TRACES, NTRACES, SCOPES, NSCOPES, INBOXES, NINBOXES, NEXT_TRACE, X_WORDS = range(12)

CALL, LOOP, END, STOP = range(4)
DONE, PYTHON_NEEDED, YIELD, ROUNDS, OVERFLOW, VIOLATION, MEMORY_FAULT, STOPPED = range(8)

SLICE = 4096  # instructions between looks at Ctrl-C


@inner
def _run(session):
    program = ld(session, PROGRAM)
    length = ld(session, LENGTH)
    pc = ld(session, PC)
    left = SLICE
    while pc < length:
        at = 4 * pc
        what = ld(program, at)
        ctx = ld(program, at + 2)
        if what == CALL:
            st(session, PC, pc)
            answer = call_pointer(ld(program, at + 1), ctx)
            if DEBUG and faults() != 0:
                return MEMORY_FAULT
            if answer != 0:
                return PYTHON_NEEDED if answer == CALL_PYTHON else VIOLATION
            pc += 1
        elif what == LOOP:
            if next_time(ctx):
                pc += 1
            else:
                pc = ld(program, at + 3)
        elif what == STOP:
            st(session, PC, pc)
            return STOPPED
        else:
            end_time(ctx)
            if ld(ctx, OVERRUN) != 0:
                st(session, PC, pc)
                return ROUNDS
            left -= pc - ld(program, at + 3) + 1
            pc = ld(program, at + 3)
            if left < 0:
                st(session, PC, pc)
                return YIELD
    st(session, PC, pc)
    if ld(ld(session, X_STEP), STEP_FAULT) != 0:
        return OVERFLOW
    return DONE


@task
def _fold_traces(session):
    """Fold traces, one after the other, until none is left."""
    s = ld(session, X_STEP)
    time = ld(s, STEP_BASE) + ld(s, STEP_EPOCHS)
    while True:
        i = add_atomically(session, NEXT_TRACE, 1)
        if i >= ld(session, NTRACES):
            return 0
        fold(ld(ld(session, TRACES), i), time)


@task
def _settle_traces(session):
    """Settle traces, one after the other, until none is left."""
    while True:
        i = add_atomically(session, NEXT_TRACE, 1)
        if i >= ld(session, NTRACES):
            return 0
        settle_folded(ld(ld(session, TRACES), i))


@task
def _settle_together(session):
    both(ld(ld(session, X_STEP), STEP_TEAM), _settle_traces(), session, session)
    return 0


@inner
def settle_if_possible(session, team):
    """Restore the sizes of all traces, as far as there is memory: the step is complete, whatever happens here."""
    number = new_number()
    st(session, NEXT_TRACE, 0)
    if attempt(_settle_together() if team != 0 else _settle_traces(), session, number) != 0:
        _reclaim(session, number)


@inner
def _keep_contexts(session, lost):
    """Keep those of some lost blocks that the contexts of operators name: they grow there as they are needed."""
    program = ld(session, PROGRAM)
    for pc in range(ld(session, LENGTH)):
        if ld(program, 4 * pc) == CALL:
            ctx = ld(program, 4 * pc + 2)
            for w in range(size_of(ctx)):
                block = lost
                while block != 0:
                    if block == ld(ctx, w):
                        keep(block)
                    block = raw_load(block, FOLLOWING)


@inner
def _reclaim(session, number):
    """Free what a call that failed has allocated, except for what the session is using."""
    lost = take_lost(number) if number != 0 else 0
    if lost == 0:
        return
    for i in range(ld(session, NTRACES)):
        keep_trace(ld(ld(session, TRACES), i))
    for i in range(ld(session, NINBOXES)):
        keep_inbox(ld(ld(session, INBOXES), i))
    for i in range(ld(session, NSCOPES)):
        keep_scope(ld(ld(session, SCOPES), i))
    _keep_contexts(session, lost)
    drop_lost(lost)


@inner
def _commit(session):
    s = ld(session, X_STEP)
    team = ld(s, STEP_TEAM)
    if team != 0:
        rows = 0
        for i in range(ld(session, NTRACES)):
            rows += uncommitted(ld(ld(session, TRACES), i))
        if rows < ld(s, STEP_SPLIT):
            team = 0
    length = ld(session, LENGTH)
    st(session, PC, length + 1)
    st(session, NEXT_TRACE, 0)
    if team != 0:
        both(team, _fold_traces(), session, session)
    else:
        call_pointer(_fold_traces(), session)
    for i in range(ld(session, NTRACES)):
        publish(ld(ld(session, TRACES), i))
    st(session, PC, length)
    reset_agendas(session)
    settle_if_possible(session, team)


@inner
def reset_agendas(session):
    """Empty the agendas of all loops."""
    scopes = ld(session, SCOPES)
    for i in range(ld(session, NSCOPES)):
        reset_scope(ld(scopes, i))


@entry("int", "int", "int")
def step(session, base, epochs):
    """Begin a step of `epochs` epochs after `base` and run it; commits if that is all there is to do."""
    s = ld(session, X_STEP)
    st(s, STEP_BASE, base)
    st(s, STEP_EPOCHS, epochs)
    st(s, STEP_STOP, 0)
    st(s, STEP_FAULT, 0)
    st(session, PC, 0)
    answer = _run(session)
    if answer == DONE:
        _commit(session)
    return answer


@entry("int", "int")
def resume(session, pc):
    """Go on with the step at instruction `pc`."""
    st(session, PC, pc)
    answer = _run(session)
    if answer == DONE:
        _commit(session)
    return answer


@entry("int", "int", allocates=False)
def abort(session, failed):
    """Undo the step under way: traces, inboxes and agendas are as they were before it. `failed`: the last call of this
    thread has failed, and what it allocated is given back.
    """
    traces = ld(session, TRACES)
    for i in range(ld(session, NTRACES)):
        roll_back(ld(traces, i))
    inboxes = ld(session, INBOXES)
    for i in range(ld(session, NINBOXES)):
        clear_inbox(ld(inboxes, i))
    reset_agendas(session)
    if failed != 0:
        _reclaim(session, last_failed())
    return 0
