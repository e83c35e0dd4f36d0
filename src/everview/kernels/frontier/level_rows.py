"""The operator that maintains levels, and makes rows of them when somebody reads its output.

    IDLE      nothing to do; a step begins
    GROWING   all queries from their sources: a newcomer says all of it (LOUD), else nothing is said
    OPENING   an epoch begins: its changes are listed
    RUNNING   query by query, those that a change concerns: REPAIR_BEGIN, REPAIR_TRIM, REPAIR_SPREAD (`level_repair`)

Its differences go to readers like any operator's, and are added to its trace. When the step commits, the trace is
emptied (`forget_levels`), for levels say the same in much less memory. Who reads the trace calls `unpack` first: it
then has all rows, until the next commit, or for as long as it is held or read by other operators.

It returns to the executor, to be called again, whenever its fuel is used up.
"""

from __future__ import annotations

from everview.kernels.build.native import entry, inner, operator, shared, task
from everview.kernels.frontier.budget import leave_budget
from everview.kernels.frontier.epochs import A_WHILE, SOURCES, WASTE, delta_of, gather, in_phases, publish, source
from everview.kernels.frontier.forest import (
    FOREST_BUILT,
    FOREST_EPOCH,
    FOREST_FRESH,
    FOREST_FUEL,
    FOREST_KEY,
    FOREST_LOG,
    FOREST_LOG_FROM,
    FOREST_LOG_N,
    FOREST_LOUD,
    FOREST_NRULES,
    FOREST_OUT,
    FOREST_OUT_N,
    FOREST_OUTPUT,
    FOREST_PHASE,
    FOREST_REGROWN,
    FOREST_RULES,
    FOREST_START,
    FOREST_STEP,
    RULE_FORWARD,
)
from everview.kernels.frontier.history import (
    HISTORY_NEW,
    HISTORY_NODES_N,
    HISTORY_QUESTION,
    HISTORY_RECORDS_N,
    HISTORY_STAGE,
    HISTORY_UNTIDY,
    node_of,
)
from everview.kernels.frontier.level_repair import cut, list_changes, next_concerned, offer, plant, regrow, spread, trim
from everview.kernels.frontier.levels import (
    LEVELS_WHOLE,
    LOGGED_LEVEL,
    begin_levels,
    column_of,
    free_levels,
    keep_levels_within,
    level_of,
    levels_words,
    next_serial,
    query,
    settle_levels,
    tidy_levels,
)
from everview.kernels.memory import ld, reserve, st
from everview.kernels.run.step import STEP_BASE, STEP_EPOCHS
from everview.kernels.trace.batch import BATCH_DATA, BATCH_ROWS
from everview.kernels.trace.sort import sort_rows
from everview.kernels.trace.trace import (
    TRACE_COUNT,
    TRACE_SINCE,
    TRACE_TABLE,
    clear_delta,
    clear_trace,
    fill_trace,
    trace_rows,
)

KEEP_IDLE, KEEP_GROWING, KEEP_OPENING, KEEP_RUNNING = range(4)
REPAIR_BEGIN, REPAIR_TRIM, REPAIR_SPREAD = range(3)

COLUMNS = 3
"""Of the output: node, query, level."""


# what is said


@inner
def _say(ctx, number, one, level, time, diff):
    """Append a row of the output, if the level is one."""
    if level != 0:
        out = reserve(ctx, FOREST_OUT, FOREST_OUT_N, COLUMNS + 2, 1)
        n = ld(ctx, FOREST_OUT_N)
        to = 1 + n * (COLUMNS + 2)
        st(out, to, node_of(ctx, one))
        st(out, to + 1, column_of(ctx, number))
        st(out, to + 2, level - 1)
        st(out, to + 3, time)
        st(out, to + 4, diff)
        st(ctx, FOREST_OUT_N, n + 1)


@shared
def _say_changes(ctx, time):
    """Say what a query's repair has changed: the log has what was."""
    for i in range(ld(ctx, FOREST_LOG_FROM), ld(ctx, FOREST_LOG_N)):
        log = ld(ctx, FOREST_LOG)
        at = 1 + i * LOGGED_LEVEL
        number = ld(log, at)
        one = ld(log, at + 1)
        before = ld(log, at + 2)
        now = level_of(ctx, number, one)
        if before != now:
            _say(ctx, number, one, before, time, -1)
            _say(ctx, number, one, now, time, 1)
    st(ctx, FOREST_LOG_FROM, ld(ctx, FOREST_LOG_N))
    return 0


# growing


@shared
def _list_queries(ctx):
    """An empty table with the queries that have sources, whenever."""
    begin_levels(ctx)
    trace = ld(ctx, FOREST_START)
    for b in range(ld(trace, TRACE_COUNT)):
        batch = ld(ld(trace, TRACE_TABLE), b)
        data = ld(batch, BATCH_DATA)
        for i in range(ld(batch, BATCH_ROWS)):
            st(ld(ctx, FOREST_KEY), 0, ld(data, i))
            query(ctx)
    return 0


@inner
def _grow(ctx, time, loud):
    """Grow the next query as of a time; whether all are grown."""
    number = ld(ctx, HISTORY_QUESTION)
    if ld(ctx, HISTORY_STAGE) == REPAIR_BEGIN:
        if number == ld(ctx, HISTORY_RECORDS_N):
            st(ctx, FOREST_BUILT, 1)
            return True
        next_serial(ctx)
        plant(ctx, number, time)
        st(ctx, HISTORY_STAGE, REPAIR_SPREAD)
    elif spread(ctx, number, time) != 0:
        if loud:
            _say_changes(ctx, time)
        st(ctx, FOREST_LOG_N, 0)  # the way back from here is to grow all of it again
        st(ctx, FOREST_LOG_FROM, 0)
        st(ctx, HISTORY_QUESTION, number + 1)
        st(ctx, HISTORY_STAGE, REPAIR_BEGIN)
    return False


@inner
def _grown(ctx, epoch, loud):
    """Growing has come to its end: what comes now can be undone by the log."""
    if loud:
        st(ctx, FOREST_FRESH, 0)
        st(ctx, FOREST_EPOCH, epoch + 1)
    else:
        st(ctx, FOREST_REGROWN, 0)
    st(ctx, FOREST_PHASE, KEEP_OPENING)


# the operator


@inner
def _wasteful(ctx):
    """Whether most ids are of nodes that are not in the graph any more."""
    edges = ld(ld(ctx, FOREST_RULES), RULE_FORWARD)
    return ld(ctx, HISTORY_NODES_N) > WASTE * (trace_rows(edges) + trace_rows(ld(ctx, FOREST_START))) + 4096


@task
def _begin(ctx):
    """The step begins. 0: there is nothing to do."""
    fresh = ld(ctx, FOREST_FRESH) != 0
    changed = fresh
    for s in range(ld(ctx, FOREST_NRULES) + SOURCES):
        changed = changed or delta_of(ctx, source(ctx, s)) != 0
    if not changed:
        clear_delta(ld(ctx, FOREST_OUTPUT))
        return 0
    base = ld(ld(ctx, FOREST_STEP), STEP_BASE)
    if fresh or ld(ctx, FOREST_BUILT) == 0 or _wasteful(ctx):
        _list_queries(ctx)
        st(ctx, FOREST_LOUD, 1 if fresh else 0)
        st(ctx, HISTORY_NEW, 1 if fresh else 0)
        st(ctx, FOREST_REGROWN, 0 if fresh else 1)
        st(ctx, FOREST_PHASE, KEEP_GROWING)
    else:
        if ld(ctx, HISTORY_UNTIDY) != 0:
            tidy_levels(ctx, base)
        st(ctx, FOREST_PHASE, KEEP_OPENING)
    st(ctx, FOREST_EPOCH, 1)
    st(ctx, HISTORY_QUESTION, 0)
    st(ctx, HISTORY_STAGE, REPAIR_BEGIN)
    gather(ctx)
    return 1


@inner
def _run(ctx, epoch, time):
    """Do the next part of an epoch's work."""
    number = ld(ctx, HISTORY_QUESTION)
    stage = ld(ctx, HISTORY_STAGE)
    if stage == REPAIR_BEGIN:
        number = next_concerned(ctx, number)
        if number == ld(ctx, HISTORY_RECORDS_N):
            st(ctx, FOREST_EPOCH, epoch + 1)
            st(ctx, FOREST_PHASE, KEEP_OPENING)
            return
        st(ctx, HISTORY_QUESTION, number)
        next_serial(ctx)
        cut(ctx, number)
        st(ctx, HISTORY_STAGE, REPAIR_TRIM)
    elif stage == REPAIR_TRIM:
        if trim(ctx, number, time) != 0:
            regrow(ctx, number, time)
            offer(ctx, number)
            st(ctx, HISTORY_STAGE, REPAIR_SPREAD)
    elif spread(ctx, number, time) != 0:
        _say_changes(ctx, time)
        st(ctx, HISTORY_QUESTION, number + 1)
        st(ctx, HISTORY_STAGE, REPAIR_BEGIN)


@task
def _advance(ctx):
    """Do the next part of the work; whether there is more of it."""
    base = ld(ld(ctx, FOREST_STEP), STEP_BASE)
    epochs = ld(ld(ctx, FOREST_STEP), STEP_EPOCHS)
    phase = ld(ctx, FOREST_PHASE)
    epoch = ld(ctx, FOREST_EPOCH)
    if phase == KEEP_GROWING:
        loud = ld(ctx, FOREST_LOUD) != 0
        if _grow(ctx, base + epoch if loud else base, loud):
            _grown(ctx, epoch, loud)
    elif phase == KEEP_OPENING:
        if epoch > epochs:
            keep_levels_within(ctx)
            publish(ctx)
            return 0
        list_changes(ctx, epoch)
        st(ctx, HISTORY_QUESTION, 0)
        st(ctx, HISTORY_STAGE, REPAIR_BEGIN)
        st(ctx, FOREST_PHASE, KEEP_RUNNING)
    else:
        _run(ctx, epoch, base + epoch)
    return 1


@operator
def keep_levels(ctx):
    """Compiled operator; see the module."""
    return in_phases(ctx, _begin(), _advance())


# reading


@shared
def _say_all(ctx, time):
    """Say every level there is."""
    for number in range(ld(ctx, HISTORY_RECORDS_N)):
        for one in range(ld(ctx, HISTORY_NODES_N)):
            _say(ctx, number, one, level_of(ctx, number, one), time, 1)
    return 0


@shared
def _grow_now(ctx, time):
    """Between steps: a step that failed has left nothing, so grow all queries again."""
    _list_queries(ctx)
    while not _grow(ctx, time, False):
        st(ctx, FOREST_FUEL, A_WHILE)
    return 0


@entry("int", "int")
def unpack(ctx, time):
    """Fill the output's trace with all rows, as of the present; between steps only."""
    if ld(ctx, LEVELS_WHOLE) == 0 and ld(ctx, FOREST_FRESH) == 0:
        output = ld(ctx, FOREST_OUTPUT)
        if ld(ctx, FOREST_BUILT) == 0:
            _grow_now(ctx, time)
        st(ctx, FOREST_OUT_N, 0)
        _say_all(ctx, ld(output, TRACE_SINCE))
        n = ld(ctx, FOREST_OUT_N)
        batch = sort_rows(ld(ctx, FOREST_OUT), 1, COLUMNS + 2, 1, n, COLUMNS, 1, 0, 0) if n > 0 else 0
        clear_trace(output)
        fill_trace(output, batch)
    st(ctx, LEVELS_WHOLE, 1)
    settle_levels(ctx)
    return 0


LEVELS_BYTES, LEVELS_QUESTIONS, DROP_LEVELS = range(3)


@entry("int", "int", brief=True)
def about_levels(what, ctx):
    """What Python asks of the operator: its size, how many queries it has, or to give its memory back."""
    if what == LEVELS_BYTES:
        return 8 * levels_words(ctx)
    if what == LEVELS_QUESTIONS:
        return ld(ctx, HISTORY_RECORDS_N)
    leave_budget(ctx)
    free_levels(ctx)
    return 0
