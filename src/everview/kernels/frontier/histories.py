"""The lean form of the operator: values after every round as histories, with contributions of edges computed on
demand.

Its output includes that of `trees`, plus sums, and values after a number of rounds. It needs a few words for each
change of a vertex's value from round to round, and nothing for edges. Queries are processed one after the other, each
with its own agenda (`reevaluation`); each epoch of a step on the edges as of that epoch.

    IDLE      nothing to do; a step begins
    GROWING   all questions from the beginning: a newcomer says all of it (LOUD); after opening nothing is said
    OPENING   an epoch begins: its changes are listed
    RUNNING   question by question: STAGE_BEGIN schedules, STAGE_RUN works the agenda off, STAGE_SAY says what changed
    CLOSING   what is newly asked for is said, what is not any more is taken back; the next epoch, or the end

*Only requested vertices are output*, if ASKED is given: a distance between two nodes costs a row of output, not one for
each node on the way. The previous output for a vertex is read from the output's own trace, since it may have been
dropped here; in a step with several epochs, first from REPORTED.

It returns to the executor, to be called again, whenever its fuel is used up, so that a step can be interrupted in the
middle.
"""

from __future__ import annotations

from everview.kernels.build.native import entry, inner, operator, shared, task
from everview.kernels.frontier.budget import all_dropped, keep_within, leave_budget
from everview.kernels.frontier.dropped import filter_keys, overfull
from everview.kernels.frontier.edge_contributions import final_value
from everview.kernels.frontier.epochs import SOURCES, WASTE, delta_of, gather, in_phases, publish, source
from everview.kernels.frontier.forest import (
    FOREST_ASKED,
    FOREST_BUILT,
    FOREST_CHANGES,
    FOREST_EPOCH,
    FOREST_EPOCHS_AT,
    FOREST_FLIP,
    FOREST_FRESH,
    FOREST_FUEL,
    FOREST_INITIAL,
    FOREST_KEY,
    FOREST_LOUD,
    FOREST_NRULES,
    FOREST_OUT,
    FOREST_OUT_N,
    FOREST_OUTPUT,
    FOREST_PHASE,
    FOREST_QUESTIONS,
    FOREST_START,
    FOREST_STEP,
)
from everview.kernels.frontier.history import (
    HASH_FACTOR,
    HISTORY_ABSENT,
    HISTORY_AGENDA,
    HISTORY_AGENDA_N,
    HISTORY_CHANCE,
    HISTORY_GROWN_KEYS,
    HISTORY_LOGGING,
    HISTORY_MEMO,
    HISTORY_NEW,
    HISTORY_NODES_N,
    HISTORY_OUT_KEY,
    HISTORY_QUESTION,
    HISTORY_RECALLED,
    HISTORY_RECORDS,
    HISTORY_RECORDS_N,
    HISTORY_REPORTED,
    HISTORY_REPORTED_FIND,
    HISTORY_REPORTED_N,
    HISTORY_REPORTED_SIZE,
    HISTORY_RERUNS,
    HISTORY_STAGE,
    HISTORY_STALE,
    HISTORY_TOTAL,
    HISTORY_TOUCHED,
    HISTORY_TOUCHED_N,
    HISTORY_UNTIDY,
    QUESTION_COLUMNS,
    QUESTION_ROWS,
    QUESTION_SIZE,
    begin_history,
    empty_table,
    free_history,
    history_rows,
    history_words,
    id_of,
    make_room,
    new_id,
    new_question,
    node_of,
    put,
    question_at,
    question_of,
    slot_of,
    tidy,
)
from everview.kernels.frontier.offers import adds, base_in, there
from everview.kernels.frontier.reevaluation import (
    pop_word,
    push_word,
    run_agenda,
    schedule,
    schedule_around,
    schedule_changes,
    sort_out,
    touched,
)
from everview.kernels.memory import free, ld, reserve, st, zeros
from everview.kernels.run.step import STEP_BASE, STEP_EPOCHS
from everview.kernels.trace.batch import BATCH_CAP, BATCH_DATA, BATCH_ROWS, compare_rows, diff_at, time_at
from everview.kernels.trace.search import find_key
from everview.kernels.trace.trace import TRACE_COLS, TRACE_COUNT, TRACE_DELTA, TRACE_TABLE, clear_delta

WORK_IDLE, WORK_GROWING, WORK_OPENING, WORK_RUNNING, WORK_CLOSING = range(5)
STAGE_BEGIN, STAGE_RUN, STAGE_SAY = range(3)


# what is said


@inner
def _key_of(ctx, at, one):
    """Put a vertex's node and question into HISTORY_OUT_KEY, in the order of the output."""
    key = ld(ctx, HISTORY_OUT_KEY)
    st(key, 0, node_of(ctx, one))
    for c in range(ld(ctx, FOREST_QUESTIONS)):
        st(key, 1 + c, ld(ld(ctx, HISTORY_RECORDS), at + QUESTION_COLUMNS + c))


@shared
def _told(ctx, trace, time, which):
    """Of the rows of a trace that begin with HISTORY_OUT_KEY, up to a time: how many (which 0), or what the value
    behind the key adds up to (which 1): where there is but one, that one.
    """
    key = ld(ctx, HISTORY_OUT_KEY)
    columns = 1 + ld(ctx, FOREST_QUESTIONS)
    total = 0
    for b in range(ld(trace, TRACE_COUNT)):
        batch = ld(ld(trace, TRACE_TABLE), b)
        data = ld(batch, BATCH_DATA)
        cap = ld(batch, BATCH_CAP)
        rows = ld(batch, BATCH_ROWS)
        i = find_key(batch, key, 1, 0, columns)
        while i < rows and compare_rows(data, cap, i, key, 1, 0, columns) == 0:
            if time_at(batch, data, i) <= time:
                diff = diff_at(batch, data, i, 0)
                total += diff if which == 0 else diff * ld(data, columns * cap + i)
            i += 1
    return total


@inner
def _reported_slot(ctx, number, one):
    """Where a vertex is among those said in this step, or may be put."""
    found = ld(ctx, HISTORY_REPORTED_FIND)
    told = ld(ctx, HISTORY_REPORTED)
    mask = ld(ctx, HISTORY_REPORTED_SIZE) - 1
    word = (number << 32) | one
    h = word * HASH_FACTOR
    slot = (h ^ (h >> 29)) & mask
    while ld(found, slot) != 0 and ld(told, 1 + 3 * (ld(found, slot) - 1)) != word:
        slot = (slot + 1) & mask
    return slot


@shared
def _index_reported(ctx, size):
    """The table by which REPORTED is found, anew."""
    found = zeros(size)
    free(ld(ctx, HISTORY_REPORTED_FIND))
    st(ctx, HISTORY_REPORTED_FIND, found)
    st(ctx, HISTORY_REPORTED_SIZE, size)
    for i in range(ld(ctx, HISTORY_REPORTED_N)):
        word = ld(ld(ctx, HISTORY_REPORTED), 1 + 3 * i)
        st(found, _reported_slot(ctx, word >> 32, word & 0xFFFFFFFF), i + 1)
    return 0


@inner
def _remember(ctx, number, one, is_now, value):
    """Note what is said of a vertex, for the step's later epochs."""
    if ld(ld(ctx, FOREST_STEP), STEP_EPOCHS) > 1:
        n = ld(ctx, HISTORY_REPORTED_N)
        told = reserve(ctx, HISTORY_REPORTED, HISTORY_REPORTED_N, 3, 1)
        if n == 0:
            _index_reported(ctx, 64)
        elif 2 * (n + 1) > ld(ctx, HISTORY_REPORTED_SIZE):
            _index_reported(ctx, 2 * ld(ctx, HISTORY_REPORTED_SIZE))
        slot = _reported_slot(ctx, number, one)
        i = ld(ld(ctx, HISTORY_REPORTED_FIND), slot) - 1
        if i < 0:
            i = n
            st(told, 1 + 3 * i, (number << 32) | one)
            st(ld(ctx, HISTORY_REPORTED_FIND), slot, i + 1)
            st(ctx, HISTORY_REPORTED_N, n + 1)
        st(told, 2 + 3 * i, 1 if is_now else 0)
        st(told, 3 + 3 * i, value)


@inner
def _reported_before(ctx, number, one, base):
    """(whether something is said of the vertex in HISTORY_OUT_KEY, the value that is)."""
    if ld(ctx, HISTORY_REPORTED_N) > 0:
        i = ld(ld(ctx, HISTORY_REPORTED_FIND), _reported_slot(ctx, number, one)) - 1
        if i >= 0:
            told = ld(ctx, HISTORY_REPORTED)
            return ld(told, 2 + 3 * i) != 0, ld(told, 3 + 3 * i)
    output = ld(ctx, FOREST_OUTPUT)
    if _told(ctx, output, base, 0) <= 0:
        return False, 0
    if ld(output, TRACE_COLS) == 1 + ld(ctx, FOREST_QUESTIONS):
        return True, 0
    return True, _told(ctx, output, base, 1)


@inner
def _say(ctx, value, time, diff):
    """Append a row of the output: the key, and the value if the output has one."""
    cols = ld(ld(ctx, FOREST_OUTPUT), TRACE_COLS)
    out = reserve(ctx, FOREST_OUT, FOREST_OUT_N, cols + 2, 1)
    n = ld(ctx, FOREST_OUT_N)
    to = 1 + n * (cols + 2)
    keys = 1 + ld(ctx, FOREST_QUESTIONS)
    for c in range(keys):
        st(out, to + c, ld(ld(ctx, HISTORY_OUT_KEY), c))
    if cols > keys:
        st(out, to + keys, value)
    st(out, to + cols, time)
    st(out, to + cols + 1, diff)
    st(ctx, FOREST_OUT_N, n + 1)


@inner
def _say_vertex(ctx, number, one, time, base, loud):
    """Say how a vertex has changed, if it is asked for."""
    at = question_at(ctx, number)
    _key_of(ctx, at, one)
    asked = ld(ctx, FOREST_ASKED)
    if asked != 0 and _told(ctx, asked, time if loud else time - 1, 0) <= 0:
        return
    value = final_value(ctx, at, one, time)
    is_now = value != ld(ctx, HISTORY_ABSENT)
    value ^= ld(ctx, FOREST_FLIP)
    was, before = (False, 0) if loud else _reported_before(ctx, number, one, base)
    if was != is_now or (was and before != value):
        if was:
            _say(ctx, before, time, -1)
        if is_now:
            _say(ctx, value, time, 1)
        _remember(ctx, number, one, is_now, value)


@shared
def _say_touched(ctx, number, time, base, loud):
    """Say how the vertices of a question whose rows have changed stand now, each once; 0 if there is no fuel left."""
    n = ld(ctx, HISTORY_TOUCHED_N)
    while n > 0:  # the agenda is empty, and puts them in order
        n -= 1
        push_word(ctx, ld(ld(ctx, HISTORY_TOUCHED), 1 + n))
        st(ctx, HISTORY_TOUCHED_N, n)
    while ld(ctx, HISTORY_AGENDA_N) > 0:
        if ld(ctx, FOREST_FUEL) < 0:
            return 0
        one = pop_word(ctx)
        while ld(ctx, HISTORY_AGENDA_N) > 0 and ld(ld(ctx, HISTORY_AGENDA), 1) == one:
            pop_word(ctx)
        st(ctx, FOREST_FUEL, ld(ctx, FOREST_FUEL) - 4)
        _say_vertex(ctx, number, one, time, base, loud != 0)
    return 1


@shared
def _say_asked(ctx, epoch, time):
    """Say what an epoch asks for first, and take back what it does not ask for any more."""
    if ld(ctx, FOREST_ASKED) == 0:
        return 0
    bounds = ld(ctx, FOREST_EPOCHS_AT)
    changes = ld(ctx, FOREST_CHANGES)
    delta = ld(ld(ctx, FOREST_ASKED), TRACE_DELTA)
    columns = ld(ctx, FOREST_QUESTIONS)
    for i in range(ld(bounds, epoch), ld(bounds, epoch + 1)):
        if ld(changes, 1 + 2 * i) == ld(ctx, FOREST_NRULES) + 2:
            row = ld(changes, 2 + 2 * i)
            data = ld(delta, BATCH_DATA)
            cap = ld(delta, BATCH_CAP)
            for c in range(columns):
                st(ld(ctx, FOREST_KEY), c, ld(data, (1 + c) * cap + row))
            number = question_of(ctx)
            one = id_of(ctx, ld(data, row))
            if number >= 0 and one >= 0:
                at = question_at(ctx, number)
                empty_table(ctx, HISTORY_MEMO)
                value = final_value(ctx, at, one, time)
                if value != ld(ctx, HISTORY_ABSENT):
                    value ^= ld(ctx, FOREST_FLIP)
                    diff = diff_at(delta, data, row, 0)
                    _key_of(ctx, at, one)
                    _say(ctx, value, time, diff)
                    _remember(ctx, number, one, diff > 0, value)
    empty_table(ctx, HISTORY_MEMO)
    return 0


# growing


@inner
def _plant_questions(ctx, questions):
    """Questions that have nothing in round 0 and something to add in every other."""
    trace = ld(ctx, FOREST_START)
    for b in range(ld(trace, TRACE_COUNT)):
        batch = ld(ld(trace, TRACE_TABLE), b)
        data = ld(batch, BATCH_DATA)
        cap = ld(batch, BATCH_CAP)
        for i in range(ld(batch, BATCH_ROWS)):
            for c in range(questions):
                st(ld(ctx, FOREST_KEY), c, ld(data, c * cap + i))
            new_question(ctx)


@shared
def _plant(ctx, time):
    """An empty history with the values that round 0 has, as of a time."""
    begin_history(ctx)
    trace = ld(ctx, FOREST_INITIAL)
    if trace == 0:
        trace = ld(ctx, FOREST_START)
    questions = ld(ctx, FOREST_QUESTIONS)
    for b in range(ld(trace, TRACE_COUNT)):
        batch = ld(ld(trace, TRACE_TABLE), b)
        data = ld(batch, BATCH_DATA)
        cap = ld(batch, BATCH_CAP)
        for i in range(ld(batch, BATCH_ROWS)):
            if adds(batch, data, i, time) and there(trace, batch, i, time) != 0:
                for c in range(questions):
                    st(ld(ctx, FOREST_KEY), c, ld(data, c * cap + i))
                at = question_at(ctx, new_question(ctx)) + QUESTION_ROWS
                one = new_id(ctx, ld(data, questions * cap + i))
                records = ld(ctx, HISTORY_RECORDS)
                value = base_in(ctx, data, cap, i)
                make_room(records, at)
                slot = slot_of(records, at, one, 0)
                if slot < 0 or value < ld(ld(records, at), 2 * slot + 1):
                    put(records, at, one, 0, value)
    if ld(ctx, HISTORY_TOTAL) != 0:
        _plant_questions(ctx, questions)
    return 0


@shared
def _schedule_all(ctx, number, time):
    """Schedule what follows from round 0 of a question."""
    at = question_at(ctx, number)
    records = ld(ctx, HISTORY_RECORDS)
    rows = ld(records, at + QUESTION_ROWS)
    for i in range(ld(records, at + QUESTION_SIZE)):
        word = ld(rows, 2 * i)
        if word != 0:
            one = (word >> 32) - 1
            touched(ctx, one)
            schedule_around(ctx, one, 0, time)
    if ld(ctx, HISTORY_TOTAL) != 0:
        trace = ld(ctx, FOREST_START)
        questions = ld(ctx, FOREST_QUESTIONS)
        for b in range(ld(trace, TRACE_COUNT)):
            batch = ld(ld(trace, TRACE_TABLE), b)
            data = ld(batch, BATCH_DATA)
            cap = ld(batch, BATCH_CAP)
            for i in range(ld(batch, BATCH_ROWS)):
                same = adds(batch, data, i, time)
                for c in range(questions):
                    same = same and ld(data, c * cap + i) == ld(records, at + QUESTION_COLUMNS + c)
                if same:
                    schedule(ctx, new_id(ctx, ld(data, questions * cap + i)), 0)
    return 0


# the operator


@inner
def _wasteful(ctx):
    """Whether most ids are of nodes that have no rows any more, or filters are full of rows that have vanished."""
    keys = filter_keys(ctx)
    if keys > 0:
        grown = ld(ctx, HISTORY_GROWN_KEYS)
        drifted = 16 * (keys - grown) > grown and all_dropped(ctx) and overfull(ctx)
        return drifted or 4 * ld(ctx, HISTORY_STALE) > keys + 4096
    return ld(ctx, HISTORY_NODES_N) > WASTE * history_rows(ctx) + 4096


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
    if ld(ctx, FOREST_BUILT) != 0 and _wasteful(ctx):
        st(ctx, FOREST_BUILT, 0)
    base = ld(ld(ctx, FOREST_STEP), STEP_BASE)
    st(ctx, FOREST_EPOCH, 1)
    if fresh or ld(ctx, FOREST_BUILT) == 0:
        st(ctx, FOREST_BUILT, 0)
        _plant(ctx, base + 1 if fresh else base)
        st(ctx, FOREST_LOUD, 1 if fresh else 0)
        st(ctx, HISTORY_NEW, 1 if fresh else 0)
        st(ctx, FOREST_PHASE, WORK_GROWING)
    else:
        if ld(ctx, HISTORY_UNTIDY) != 0:
            tidy(ctx)
        st(ctx, HISTORY_LOGGING, 1)
        st(ctx, FOREST_PHASE, WORK_OPENING)
    gather(ctx)
    return 1


@inner
def _next_question(ctx, growing):
    """A question is done."""
    number = ld(ctx, HISTORY_QUESTION)
    empty_table(ctx, HISTORY_MEMO)
    st(ctx, HISTORY_TOUCHED_N, 0)
    st(ctx, HISTORY_STAGE, STAGE_BEGIN)
    st(ctx, HISTORY_QUESTION, number + 1)
    if growing and number & 15 == 15:
        keep_within(ctx, 0)


@inner
def _work(ctx, time, base, growing):
    """The next stage of the question under way; whether all questions are done."""
    number = ld(ctx, HISTORY_QUESTION)
    if number >= ld(ctx, HISTORY_RECORDS_N):
        st(ctx, HISTORY_QUESTION, 0)
        return True
    stage = ld(ctx, HISTORY_STAGE)
    loud = growing and ld(ctx, FOREST_LOUD) != 0
    if stage == STAGE_BEGIN:
        if growing:
            _schedule_all(ctx, number, time)
        else:
            schedule_changes(ctx, number, time)
        idle = ld(ctx, HISTORY_AGENDA_N) == 0 and ld(ctx, HISTORY_TOUCHED_N) == 0
        if idle:
            _next_question(ctx, growing)
        else:
            st(ctx, HISTORY_STAGE, STAGE_RUN)
    elif stage == STAGE_RUN:
        if run_agenda(ctx, number, time) != 0:
            st(ctx, HISTORY_STAGE, STAGE_SAY)
    elif growing and not loud:
        _next_question(ctx, growing)
    elif _say_touched(ctx, number, time, base, 1 if loud else 0) != 0:
        _next_question(ctx, growing)
    return False


@task
def _advance(ctx):
    """Do the next part of the work; whether there is more of it."""
    base = ld(ld(ctx, FOREST_STEP), STEP_BASE)
    epochs = ld(ld(ctx, FOREST_STEP), STEP_EPOCHS)
    phase = ld(ctx, FOREST_PHASE)
    epoch = ld(ctx, FOREST_EPOCH)
    loud = ld(ctx, FOREST_LOUD) != 0
    if phase == WORK_GROWING:
        if _work(ctx, base + 1 if loud else base, base, True):
            st(ctx, FOREST_BUILT, 1)
            st(ctx, HISTORY_GROWN_KEYS, filter_keys(ctx))
            st(ctx, HISTORY_LOGGING, 1)
            if loud:
                st(ctx, FOREST_FRESH, 0)
                st(ctx, FOREST_EPOCH, 2)
            st(ctx, FOREST_PHASE, WORK_OPENING)
    elif phase == WORK_OPENING:
        if epoch > epochs:
            keep_within(ctx, 1)
            publish(ctx)
            return 0
        sort_out(ctx, epoch)
        st(ctx, FOREST_PHASE, WORK_RUNNING)
    elif phase == WORK_RUNNING:
        if _work(ctx, base + epoch, base, False):
            st(ctx, FOREST_PHASE, WORK_CLOSING)
    else:
        _say_asked(ctx, epoch, base + epoch)
        st(ctx, FOREST_EPOCH, epoch + 1)
        st(ctx, FOREST_PHASE, WORK_OPENING)
    return 1


@operator
def keep_histories(ctx):
    """Compiled operator; see the module."""
    return in_phases(ctx, _begin(), _advance())


(
    HISTORIES_BYTES,
    HISTORIES_ROWS,
    HISTORIES_QUESTIONS,
    HISTORIES_CHANCE,
    HISTORIES_RERUNS,
    HISTORIES_RECALLED,
    DROP_HISTORIES,
) = range(7)


@entry("int", "int", brief=True)
def about_histories(what, ctx):
    """What Python asks of an operator's histories: their size and what was done, or to give them back."""
    if what == HISTORIES_BYTES:
        return 8 * history_words(ctx)
    if what == HISTORIES_ROWS:
        return history_rows(ctx)
    if what == HISTORIES_QUESTIONS:
        return ld(ctx, HISTORY_RECORDS_N)
    if what == HISTORIES_CHANCE:
        return ld(ctx, HISTORY_CHANCE)
    if what == HISTORIES_RERUNS:
        return ld(ctx, HISTORY_RERUNS)
    if what == HISTORIES_RECALLED:
        return ld(ctx, HISTORY_RECALLED)
    leave_budget(ctx)
    free_history(ctx)
    return 0
