"""Levels: how many edges each vertex is away from where each query starts, four bits each.

A query within K edges of its start ("K-hop") needs no parents, and no history: a vertex at level l is there because an
in-neighbour is at level l - 1, which the shared edges tell. Nor does it need its output: levels *are* the answer. So
they are all that is stored, and rows of the answer are made of them when somebody reads it (`level_rows`).

    ids        node -> a small number, the same in all queries (`history`)
    queries    numbered; each is found by its column (`history`)
    table      for each id a stamp, then a word for every sixteen queries: 0, or the level plus one

An id's words are side by side, so that whether a changed edge concerns any of ten thousand queries is seen in a few
cache lines. What a query takes does not depend on how much it reaches: half a byte for each node that some query has
reached.

Like a forest, levels are derived, never written, and undone by a log: before a level changes in an epoch, what it was
is recorded, once (the stamp says so). Undoing needs no memory. Queries that are gone are removed between steps.
"""

from __future__ import annotations

from everview.kernels.build.native import inner, shared
from everview.kernels.frontier.budget import FAULT_BUDGET, leave_budget
from everview.kernels.frontier.forest import (
    FOREST_BAD,
    FOREST_BUILT,
    FOREST_HEAP,
    FOREST_HEAP_N,
    FOREST_KEY,
    FOREST_LOG,
    FOREST_LOG_N,
    FOREST_LOUD,
    FOREST_OUTPUT,
    FOREST_QUESTIONS,
    FOREST_REGROWN,
    FOREST_SERIAL,
    FOREST_SERIALS,
    FOREST_START,
    FOREST_STEP,
    forget,
)
from everview.kernels.frontier.history import (
    BUDGET_LIMIT,
    BUDGET_USED,
    HISTORY_BUDGET,
    HISTORY_NEW,
    HISTORY_NODES_N,
    HISTORY_RECORDS,
    HISTORY_RECORDS_N,
    HISTORY_UNTIDY,
    HISTORY_USED,
    HISTORY_WORDS,
    QUESTION_COLUMNS,
    begin_history,
    find_again,
    forget_history,
    free_history,
    history_words,
    new_id,
    new_question,
    question_at,
    unbuild,
)
from everview.kernels.frontier.offers import adds, there
from everview.kernels.memory import copy_words, free, ld, reserve, st, zeros_lasting
from everview.kernels.run.step import STEP_FAULT
from everview.kernels.trace.batch import BATCH_CAP, BATCH_DATA, BATCH_ROWS
from everview.kernels.trace.search import find_key
from everview.kernels.trace.trace import TRACE_COUNT, TRACE_HISTORY, TRACE_HOLD, TRACE_TABLE, clear_trace

(
    LEVELS_TABLE,
    LEVELS_WIDTH,
    LEVELS_IDS,
    LEVELS_MOST,
    LEVELS_WHOLE,
    LEVELS_READ,
    LEVELS_WORDS,
) = range(HISTORY_WORDS, HISTORY_WORDS + 7)
"""Words behind those of a history, whose ids and records of queries are used. WIDTH: words of an id in TABLE; IDS: for
how many ids it has room; MOST: the largest level. WHOLE: the output's trace has all rows; READ: operators read it in
place, so that it must have.
"""

LANES = 16
"""Queries in a word."""

HIGHEST = 14
"""The largest level that four bits can say, 0 being "none"."""

LOGGED_LEVEL = 3
"""Words of the log: query, id, what was there."""

NO_HOLD = 2**62


@inner
def level_of(ctx, number, one):
    """What the table has for an id in a query: 0, or its level plus one."""
    word = ld(ld(ctx, LEVELS_TABLE), one * ld(ctx, LEVELS_WIDTH) + 1 + number // LANES)
    return (word >> (4 * (number % LANES))) & 15


@inner
def put_level(ctx, number, one, level):
    """Change what the table has."""
    table = ld(ctx, LEVELS_TABLE)
    at = one * ld(ctx, LEVELS_WIDTH) + 1 + number // LANES
    shift = 4 * (number % LANES)
    st(table, at, (ld(table, at) & ~(15 << shift)) | (level << shift))


@shared
def give(ctx, number, one, level):
    """Change what the table has, after recording what was there."""
    at = one * ld(ctx, LEVELS_WIDTH)
    serial = ld(ctx, FOREST_SERIAL)
    if ld(ld(ctx, LEVELS_TABLE), at) != serial:
        log = reserve(ctx, FOREST_LOG, FOREST_LOG_N, LOGGED_LEVEL, 1)
        n = ld(ctx, FOREST_LOG_N)
        st(log, 1 + n * LOGGED_LEVEL, number)
        st(log, 2 + n * LOGGED_LEVEL, one)
        st(log, 3 + n * LOGGED_LEVEL, level_of(ctx, number, one))
        st(ctx, FOREST_LOG_N, n + 1)
        st(ld(ctx, LEVELS_TABLE), at, serial)
    put_level(ctx, number, one, level)
    return 0


@inner
def next_serial(ctx):
    """A query begins to change in an epoch: a stamp that no id has."""
    serial = ld(ctx, FOREST_SERIALS) + 1
    st(ctx, FOREST_SERIALS, serial)
    st(ctx, FOREST_SERIAL, serial)


# room


@shared
def _make_room(ctx, ids, words):
    """A table for so many ids, with so many words of queries each."""
    width = 1 + words
    table = zeros_lasting(ids * width)
    old = ld(ctx, LEVELS_TABLE)
    before = ld(ctx, LEVELS_WIDTH)
    for one in range(min(ids, ld(ctx, LEVELS_IDS))):
        copy_words(table, one * width, old, one * before, min(width, before))
    st(ctx, LEVELS_TABLE, table)
    st(ctx, LEVELS_WIDTH, width)
    st(ctx, LEVELS_IDS, ids)
    free(old)
    return 0


@inner
def vertex(ctx, node):
    """The id of a node, which gets one if it has none; room in the table comes first."""
    ids = ld(ctx, HISTORY_NODES_N)
    if ids >= ld(ctx, LEVELS_IDS):
        _make_room(ctx, ids + ids // 8 + 64, ld(ctx, LEVELS_WIDTH) - 1)
    return new_id(ctx, node)


@inner
def query(ctx):
    """The number of the query in FOREST_KEY, which gets one if it has none; room in the table comes first."""
    words = ld(ctx, HISTORY_RECORDS_N) // LANES + 1
    if words >= ld(ctx, LEVELS_WIDTH):
        _make_room(ctx, ld(ctx, LEVELS_IDS), words + words // 8)
    return new_question(ctx)


@inner
def column_of(ctx, number):
    """The column that tells a query apart."""
    return ld(ld(ctx, HISTORY_RECORDS), question_at(ctx, number) + QUESTION_COLUMNS)


# sources


@inner
def seek_source(ctx, number, batch):
    """The first row of a batch of sources that may belong to a query."""
    key = ld(ctx, FOREST_KEY)
    st(key, 0, column_of(ctx, number))
    return find_key(batch, key, 1, 0, 1)


@shared
def has_source(ctx, number, time):
    """Whether a query starts anywhere at a time."""
    trace = ld(ctx, FOREST_START)
    own = column_of(ctx, number)
    for b in range(ld(trace, TRACE_COUNT)):
        batch = ld(ld(trace, TRACE_TABLE), b)
        data = ld(batch, BATCH_DATA)
        i = seek_source(ctx, number, batch)
        while i < ld(batch, BATCH_ROWS) and ld(data, i) == own:
            if adds(batch, data, i, time) and there(trace, batch, i, time) != 0:
                return 1
            i += 1
    return 0


@shared
def starts_at(ctx, number, node, time):
    """Whether a query starts at a node at a time."""
    trace = ld(ctx, FOREST_START)
    own = column_of(ctx, number)
    key = ld(ctx, FOREST_KEY)
    st(key, 0, own)
    st(key, 1, node)
    for b in range(ld(trace, TRACE_COUNT)):
        batch = ld(ld(trace, TRACE_TABLE), b)
        data = ld(batch, BATCH_DATA)
        cap = ld(batch, BATCH_CAP)
        i = find_key(batch, key, 1, 0, 2)
        while i < ld(batch, BATCH_ROWS) and ld(data, i) == own and ld(data, cap + i) == node:
            if adds(batch, data, i, time) and there(trace, batch, i, time) != 0:
                return 1
            i += 1
    return 0


# queries that are gone


@inner
def _take_out(ctx, number):
    """Remove a query that has no levels: the last one gets its number."""
    last = ld(ctx, HISTORY_RECORDS_N) - 1
    if number != last:
        for one in range(ld(ctx, HISTORY_NODES_N)):
            level = level_of(ctx, last, one)
            if level != 0:
                put_level(ctx, number, one, level)
                put_level(ctx, last, one, 0)
        records = ld(ctx, HISTORY_RECORDS)
        width = QUESTION_COLUMNS + ld(ctx, FOREST_QUESTIONS)
        copy_words(records, question_at(ctx, number), records, question_at(ctx, last), width)
    st(ctx, HISTORY_RECORDS_N, last)


@shared
def tidy_levels(ctx, time):
    """Remove the queries that start nowhere, as of the time before a step, and give back what they took up."""
    st(ctx, HISTORY_UNTIDY, 0)
    number = ld(ctx, HISTORY_RECORDS_N) - 1
    while number >= 0:
        if has_source(ctx, number, time) == 0:
            _take_out(ctx, number)
        number -= 1
    find_again(ctx)
    words = ld(ctx, HISTORY_RECORDS_N) // LANES + 1
    if ld(ctx, LEVELS_WIDTH) > 2 * words + 2:
        _make_room(ctx, ld(ctx, LEVELS_IDS), words)
    return 0


# the budget, and the end


@inner
def levels_words(ctx):
    """Words of memory that levels take."""
    words = history_words(ctx) + LEVELS_WORDS - HISTORY_WORDS + ld(ctx, LEVELS_IDS) * ld(ctx, LEVELS_WIDTH)
    for field in (FOREST_LOG, FOREST_HEAP, FOREST_BAD):
        block = ld(ctx, field)
        words += 0 if block == 0 else ld(block, 0)
    return words


@inner
def _free_table(ctx):
    table = ld(ctx, LEVELS_TABLE)
    st(ctx, LEVELS_TABLE, 0)
    st(ctx, LEVELS_WIDTH, 0)
    st(ctx, LEVELS_IDS, 0)
    free(table)


@inner
def free_levels(ctx):
    """Give back all that levels have allocated."""
    free_history(ctx)
    _free_table(ctx)
    st(ctx, FOREST_HEAP_N, 0)
    for field in (FOREST_LOG, FOREST_HEAP, FOREST_BAD):
        block = ld(ctx, field)
        st(ctx, field, 0)
        free(block)


@inner
def keep_levels_within(ctx):
    """Note what is taken of the budget; a step that asks something new is refused if that is too much."""
    budget = ld(ctx, HISTORY_BUDGET)
    now = 8 * levels_words(ctx)
    used = ld(budget, BUDGET_USED) - ld(ctx, HISTORY_USED) + now
    st(budget, BUDGET_USED, used)
    st(ctx, HISTORY_USED, now)
    if ld(ctx, HISTORY_NEW) != 0 and 0 < ld(budget, BUDGET_LIMIT) < used:
        st(ld(ctx, FOREST_STEP), STEP_FAULT, FAULT_BUDGET)


# the way back


@inner
def begin_levels(ctx):
    """An empty table, ready for queries."""
    forget(ctx)
    begin_history(ctx)
    _free_table(ctx)
    st(ctx, FOREST_BUILT, 0)
    _make_room(ctx, 64, 1)


@inner
def settle_levels(ctx):
    """Forget what only a step, or making rows, needs."""
    forget(ctx)
    forget_history(ctx)


@inner
def forget_levels(ctx):
    """The step is committed. The rows that it added are in the levels: unless somebody reads them in the trace, or
    holds a time of it, they go.
    """
    settle_levels(ctx)
    output = ld(ctx, FOREST_OUTPUT)
    held = ld(output, TRACE_HOLD) != NO_HOLD or ld(output, TRACE_HISTORY) != 0 or ld(ctx, LEVELS_READ) != 0
    if ld(ctx, FOREST_BUILT) != 0 and not held:
        clear_trace(output)
        st(ctx, LEVELS_WHOLE, 0)


@inner
def undo_levels(ctx):
    """The step failed, wherever it was: levels are as they were before, or, if they were being grown, not there."""
    log = ld(ctx, FOREST_LOG)
    i = ld(ctx, FOREST_LOG_N) - 1
    while i >= 0:
        at = 1 + i * LOGGED_LEVEL
        put_level(ctx, ld(log, at), ld(log, at + 1), ld(log, at + 2))
        i -= 1
    if ld(ctx, FOREST_LOUD) != 0 or ld(ctx, FOREST_REGROWN) != 0:
        unbuild(ctx)
    else:
        st(ctx, HISTORY_UNTIDY, 1)  # queries that came with the step
    budget = ld(ctx, HISTORY_BUDGET)
    if 0 < ld(budget, BUDGET_LIMIT) < ld(budget, BUDGET_USED):
        unbuild(ctx)  # what the step left behind must not stay: it is grown again when it is needed
        leave_budget(ctx)
        free_levels(ctx)
    settle_levels(ctx)
