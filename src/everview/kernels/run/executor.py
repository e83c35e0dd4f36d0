"""The executor: runs a program of operators for one step, loops included, without returning to Python.

A program is a block of instructions, four words each: [what, operator's address, context, jump].

    INSTRUCTION_CALL   call the operator with its context; jump is 0, or STAYS_READY
    INSTRUCTION_LOOP   enter the loop's next pending time, or jump behind its INSTRUCTION_END
    INSTRUCTION_END    leave the pass and jump back to INSTRUCTION_LOOP
    INSTRUCTION_STOP   return to the driver: shards of one dataflow exchange rows and agree on the next loop time here

Operators for which nothing has come are not called (`everview.kernels.run.ready`), except those marked STAYS_READY.

A step begins, runs and commits in one call (`step`) unless an operator needs Python (a Python reduction or function):
then the call returns PYTHON, the driver serves instruction PC and calls `resume`. Every few thousand instructions the
executor returns ENDED_YIELD so that Ctrl-C is handled. Anything else but ENDED_DONE has stopped the step, and `abort`
undoes it; likewise if an operator has exited from the middle (see `leaving`): then PC is the instruction, or after the
program if the step was complete and there was no memory to commit it.
"""

from __future__ import annotations

from everview.kernels.build.native import AGAIN, CALL_PYTHON, DEBUG, entry, inner, task
from everview.kernels.early_exit import attempt, last_failed, shared_words
from everview.kernels.frontier.rollback import forget_all, keep_all, undo_all
from everview.kernels.guarded_calls import CELL_TRACKED_WORDS
from everview.kernels.memory import (
    BLOCK_FOLLOWING,
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
from everview.kernels.operators.batcher import BATCHER_WIDTH, append_rows, clear_batcher, keep_batcher
from everview.kernels.run.ready import clear_ready, list_touched, next_ready, set_ready, wake_all
from everview.kernels.run.scope import SCOPE_OVERRUN, end_time, keep_scope, next_time, reset_if_used
from everview.kernels.run.step import (
    STEP_BASE,
    STEP_EPOCHS,
    STEP_FAULT,
    STEP_NTOUCHED,
    STEP_READY,
    STEP_SPLIT,
    STEP_STOP,
    STEP_TEAM,
    STEP_TOUCHED,
)
from everview.kernels.run.step_notes import begin_note, end_note
from everview.kernels.run.ticks import ticks
from everview.kernels.threads.thread_pool import everyone
from everview.kernels.trace.trace import (
    TRACE_TOUCHED,
    fold,
    keep_trace,
    publish,
    roll_back,
    settle_folded,
    uncommitted,
)

(
    EXECUTOR_PROGRAM,
    EXECUTOR_LENGTH,
    EXECUTOR_PC,
    EXECUTOR_STEP,
    EXECUTOR_TRACES,
    EXECUTOR_NTRACES,
    EXECUTOR_SCOPES,
    EXECUTOR_NSCOPES,
    EXECUTOR_BATCHERS,
    EXECUTOR_NBATCHERS,
    EXECUTOR_FORESTS,
    EXECUTOR_NFORESTS,
    EXECUTOR_NEXT_TRACE,
    EXECUTOR_COUNTS,
    EXECUTOR_NCOUNTS,
    EXECUTOR_BEGAN,
    EXECUTOR_PEAK,
    EXECUTOR_TIMES,
    EXECUTOR_NTIMES,
    EXECUTOR_MERGE_TIMES,
    EXECUTOR_NMERGE_TIMES,
    EXECUTOR_NOTES,
    EXECUTOR_WORDS,
) = range(23)
"""EXECUTOR_FORESTS: the contexts of operators whose memory changes in place (see `frontier`); all else is in traces.
EXECUTOR_COUNTS: how many changes each trace has got from committed steps, in the order of the traces.
EXECUTOR_BEGAN, EXECUTOR_PEAK: words of memory that there were when the last step began, and the most there were at the
end of one of its operators.
EXECUTOR_TIMES, EXECUTOR_MERGE_TIMES: ticks that each instruction, and the merging of each trace, has taken; 0 unless
operators are timed (`everview.dataflow.timing`).
EXECUTOR_NOTES: the ring of notes of small steps (`everview.kernels.run.step_notes`); 0 unless there is a log.
"""

INSTRUCTION_CALL, INSTRUCTION_LOOP, INSTRUCTION_END, INSTRUCTION_STOP = range(4)
STAYS_READY = 1
(
    ENDED_DONE,
    ENDED_PYTHON_NEEDED,
    ENDED_YIELD,
    ENDED_ROUNDS,
    ENDED_OVERFLOW,
    ENDED_VIOLATION,
    ENDED_MEMORY_FAULT,
    ENDED_STOPPED,
) = range(8)

INSTRUCTIONS_PER_LOOK = 4096  # instructions between looks at Ctrl-C


@inner
def look_at_memory(session):
    """Take note if there is more of it than before."""
    words = raw_load(shared_words(), CELL_TRACKED_WORDS)
    if words > ld(session, EXECUTOR_PEAK):
        st(session, EXECUTOR_PEAK, words)


@inner
def _run(session):
    program = ld(session, EXECUTOR_PROGRAM)
    length = ld(session, EXECUTOR_LENGTH)
    pc = ld(session, EXECUTOR_PC)
    left = INSTRUCTIONS_PER_LOOK
    times = ld(session, EXECUTOR_TIMES)
    before = ticks() if times != 0 else 0
    ready = ld(ld(session, EXECUTOR_STEP), STEP_READY)
    while True:
        if ready != 0:
            pc = next_ready(ready, pc, length)
        if pc >= length:
            break
        at = 4 * pc
        what = ld(program, at)
        ctx = ld(program, at + 2)
        if what == INSTRUCTION_CALL:
            st(session, EXECUTOR_PC, pc)
            if ready != 0 and ld(program, at + 3) != STAYS_READY:
                clear_ready(ready, pc)
            answer = call_pointer(ld(program, at + 1), ctx)
            look_at_memory(session)
            if times != 0:
                now = ticks()
                st(times, pc, ld(times, pc) + now - before)
                before = now
            if DEBUG and faults() != 0:
                return ENDED_MEMORY_FAULT
            if answer == AGAIN:
                if ready != 0:
                    set_ready(ready, pc)
                return ENDED_YIELD
            if answer != 0:
                return ENDED_PYTHON_NEEDED if answer == CALL_PYTHON else ENDED_VIOLATION
            pc += 1
        elif what == INSTRUCTION_LOOP:
            if next_time(ctx):
                pc += 1
            else:
                pc = ld(program, at + 3)
        elif what == INSTRUCTION_STOP:
            st(session, EXECUTOR_PC, pc)
            return ENDED_STOPPED
        else:
            end_time(ctx)
            if ld(ctx, SCOPE_OVERRUN) != 0:
                st(session, EXECUTOR_PC, pc)
                return ENDED_ROUNDS
            left -= pc - ld(program, at + 3) + 1
            pc = ld(program, at + 3)
            if left < 0:
                st(session, EXECUTOR_PC, pc)
                return ENDED_YIELD
    st(session, EXECUTOR_PC, pc)
    if ld(ld(session, EXECUTOR_STEP), STEP_FAULT) != 0:
        return ENDED_OVERFLOW
    return ENDED_DONE


@inner
def merging(session):
    """The counter, if operators are timed."""
    return ticks() if ld(session, EXECUTOR_MERGE_TIMES) != 0 else 0


@inner
def merged(session, i, before):
    """Add the ticks since `before` to those of a trace."""
    times = ld(session, EXECUTOR_MERGE_TIMES)
    if times != 0:
        st(times, i, ld(times, i) + ticks() - before)


@inner
def touched(session):
    """How many traces the step adds to."""
    return ld(ld(session, EXECUTOR_STEP), STEP_NTOUCHED)


@inner
def touched_place(session, k):
    """The place of the k-th of them among all traces."""
    return ld(ld(ld(session, EXECUTOR_STEP), STEP_TOUCHED), k)


@inner
def touched_trace(session, k):
    """The k-th of them."""
    return ld(ld(session, EXECUTOR_TRACES), touched_place(session, k))


@inner
def touch_all(session):
    """Commit all traces with the step, as shards do."""
    for i in range(ld(session, EXECUTOR_NTRACES)):
        trace = ld(ld(session, EXECUTOR_TRACES), i)
        if ld(trace, TRACE_TOUCHED) == 0:
            st(trace, TRACE_TOUCHED, 1)
            list_touched(ld(session, EXECUTOR_STEP), i)


@inner
def untouch(session):
    """The step is over."""
    for k in range(touched(session)):
        st(touched_trace(session, k), TRACE_TOUCHED, 0)
    st(ld(session, EXECUTOR_STEP), STEP_NTOUCHED, 0)


@task
def _fold_traces(session):
    """Fold traces, one after the other, until none is left."""
    s = ld(session, EXECUTOR_STEP)
    time = ld(s, STEP_BASE) + ld(s, STEP_EPOCHS)
    while True:
        k = add_atomically(session, EXECUTOR_NEXT_TRACE, 1)
        if k >= touched(session):
            return 0
        i = touched_place(session, k)
        before = merging(session)
        fold(ld(ld(session, EXECUTOR_TRACES), i), time)
        merged(session, i, before)


@task
def _settle_traces(session):
    """Settle traces, one after the other, until none is left."""
    while True:
        k = add_atomically(session, EXECUTOR_NEXT_TRACE, 1)
        if k >= touched(session):
            return 0
        i = touched_place(session, k)
        before = merging(session)
        added = settle_folded(ld(ld(session, EXECUTOR_TRACES), i))
        merged(session, i, before)
        if added != 0:
            counts = ld(session, EXECUTOR_COUNTS)
            st(counts, i, ld(counts, i) + added)


@task
def _settle_together(session):
    everyone(ld(ld(session, EXECUTOR_STEP), STEP_TEAM), _settle_traces(), session)
    return 0


@inner
def settle_if_possible(session, pool):
    """Restore the sizes of the step's traces, as far as there is memory: it is complete, whatever happens here."""
    number = new_number()
    st(session, EXECUTOR_NEXT_TRACE, 0)
    if attempt(_settle_together() if pool != 0 else _settle_traces(), session, number) != 0:
        _reclaim(session, number)
    untouch(session)


@inner
def _keep_contexts(session, lost):
    """Keep those of some lost blocks that the contexts of operators name: they grow there as they are needed."""
    program = ld(session, EXECUTOR_PROGRAM)
    for pc in range(ld(session, EXECUTOR_LENGTH)):
        if ld(program, 4 * pc) == INSTRUCTION_CALL:
            ctx = ld(program, 4 * pc + 2)
            for w in range(size_of(ctx)):
                block = lost
                while block != 0:
                    if block == ld(ctx, w):
                        keep(block)
                    block = raw_load(block, BLOCK_FOLLOWING)


@inner
def _reclaim(session, number):
    """Free what a call that failed has allocated, except for what the session is using."""
    lost = take_lost(number) if number != 0 else 0
    if lost == 0:
        return
    for i in range(ld(session, EXECUTOR_NTRACES)):
        keep_trace(ld(ld(session, EXECUTOR_TRACES), i))
    for i in range(ld(session, EXECUTOR_NBATCHERS)):
        keep_batcher(ld(ld(session, EXECUTOR_BATCHERS), i))
    for i in range(ld(session, EXECUTOR_NSCOPES)):
        keep_scope(ld(ld(session, EXECUTOR_SCOPES), i))
    keep_all(ld(session, EXECUTOR_FORESTS), ld(session, EXECUTOR_NFORESTS))
    _keep_contexts(session, lost)
    drop_lost(lost)


@inner
def _commit(session):
    s = ld(session, EXECUTOR_STEP)
    pool = ld(s, STEP_TEAM)
    if ld(s, STEP_READY) == 0:
        touch_all(session)
    if pool != 0:
        rows = 0
        for k in range(touched(session)):
            rows += uncommitted(touched_trace(session, k))
        if rows < ld(s, STEP_SPLIT):
            pool = 0
    length = ld(session, EXECUTOR_LENGTH)
    st(session, EXECUTOR_PC, length + 1)
    st(session, EXECUTOR_NEXT_TRACE, 0)
    if pool != 0:
        everyone(pool, _fold_traces(), session)
    else:
        call_pointer(_fold_traces(), session)
    look_at_memory(session)
    for k in range(touched(session)):
        publish(touched_trace(session, k))
    forget_all(ld(session, EXECUTOR_FORESTS), ld(session, EXECUTOR_NFORESTS))
    st(session, EXECUTOR_PC, length)
    reset_agendas(session)
    settle_if_possible(session, pool)


@inner
def reset_agendas(session):
    """Empty the agendas of all loops."""
    scopes = ld(session, EXECUTOR_SCOPES)
    for i in range(ld(session, EXECUTOR_NSCOPES)):
        reset_if_used(ld(scopes, i))


@inner
def begin(session, base, epochs, batcher, words, size):
    """Begin a step and run it as far as its commit, or to where it stops before."""
    if batcher != 0:
        append_rows(batcher, words, size // (8 * ld(batcher, BATCHER_WIDTH)))
    s = ld(session, EXECUTOR_STEP)
    st(s, STEP_BASE, base)
    st(s, STEP_EPOCHS, epochs)
    st(s, STEP_STOP, 0)
    st(s, STEP_FAULT, 0)
    st(session, EXECUTOR_PC, 0)
    words = raw_load(shared_words(), CELL_TRACKED_WORDS)
    st(session, EXECUTOR_BEGAN, words)
    st(session, EXECUTOR_PEAK, words)
    return _run(session)


@entry("int", "int", "int", "int", "text")
def step(session, base, epochs, batcher, words, size):
    """Begin a step of `epochs` epochs after `base` and run it; commits if that is all there is to do.

    `batcher` first receives a few rows (0: none), so that a small change is one call.
    """
    notes = ld(session, EXECUTOR_NOTES)
    if notes != 0:
        begin_note(notes, size // (8 * ld(batcher, BATCHER_WIDTH)) if batcher != 0 else 0)
    answer = begin(session, base, epochs, batcher, words, size)
    if answer == ENDED_DONE:
        _commit(session)
        if notes != 0:
            end_note(notes, base + epochs)
    return answer


@entry("int", "int")
def resume(session, pc):
    """Go on with the step at instruction `pc`."""
    st(session, EXECUTOR_PC, pc)
    answer = _run(session)
    if answer == ENDED_DONE:
        _commit(session)
        if ld(session, EXECUTOR_NOTES) != 0:
            s = ld(session, EXECUTOR_STEP)
            end_note(ld(session, EXECUTOR_NOTES), ld(s, STEP_BASE) + ld(s, STEP_EPOCHS))
    return answer


@inner
def undo(session):
    """Put traces, batchers and agendas back to what they were before the step under way."""
    for k in range(touched(session)):
        roll_back(touched_trace(session, k))
    untouch(session)
    undo_all(ld(session, EXECUTOR_FORESTS), ld(session, EXECUTOR_NFORESTS))
    batchers = ld(session, EXECUTOR_BATCHERS)
    for i in range(ld(session, EXECUTOR_NBATCHERS)):
        clear_batcher(ld(batchers, i))
    reset_agendas(session)


@entry("int", "int", allocates=False)
def abort(session, failed):
    """Undo the step under way: traces, batchers and agendas are as they were before it. `failed`: the last call of this
    thread has failed, and what it allocated is given back.
    """
    undo(session)
    wake_all(ld(session, EXECUTOR_STEP))
    if failed != 0:
        _reclaim(session, last_failed())
    return 0
