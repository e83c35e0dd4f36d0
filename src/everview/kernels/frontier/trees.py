"""The operator: the best value of every vertex, maintained by trees.

    value(v) = best of its own as a source, and of what every edge (u, v, w) makes of value(u)

where an edge never improves a value and is monotone (`forest.KIND`). The operator reads the edges' arrangements in
place, in both directions, and outputs differences like any other: they are its trace, its only state that outlives the
process. Where a loop needs rounds, and a difference for each of them, there is one value and one parent here
(`forest`), repaired epoch by epoch (`repair`).

Several epochs in one step are processed one after the other, each on the edges as of that epoch: rows of the traces
have times, and later ones are skipped.

    IDLE      nothing to do; a step begins
    GROWING   the forest is grown from the sources, at once (`bulk_load`) where that is possible: a newcomer says all of
              it (LOUD), after opening nothing is said, because the output's trace has it
    OPENING   an epoch begins: cut; or, if it changes much of what there is, all that there was is taken back, and said
              anew when it is grown (REGROWN)
    TRIMMING, REGROWING, SPREADING
    CLOSING   its differences are collected; the next epoch, or all are said

It returns to the executor, to be called again, whenever its fuel is used up, so that a step can be interrupted in the
middle.
"""

from __future__ import annotations

from everview.kernels.build.native import entry, inner, operator, shared, task
from everview.kernels.frontier.bulk_load import LOAD_DONE, LOAD_IMPOSSIBLE, grow_at_once, prepare
from everview.kernels.frontier.epochs import SOURCES, WASTE, delta_of, gather, in_phases, publish, source, spare_slots
from everview.kernels.frontier.forest import (
    FLAG_BASED,
    FOREST_BUILT,
    FOREST_ENTRIES,
    FOREST_ENTRIES_N,
    FOREST_EPOCH,
    FOREST_FLIP,
    FOREST_FRESH,
    FOREST_KEY,
    FOREST_LOAD,
    FOREST_LOG,
    FOREST_LOG_FROM,
    FOREST_LOG_N,
    FOREST_LOUD,
    FOREST_NRULES,
    FOREST_OUT,
    FOREST_OUT_MAP,
    FOREST_OUT_N,
    FOREST_OUTPUT,
    FOREST_PHASE,
    FOREST_QUESTIONS,
    FOREST_REGROWN,
    FOREST_RULES,
    FOREST_SERIAL,
    FOREST_SERIALS,
    FOREST_START,
    FOREST_STEP,
    FOREST_WILD,
    FOREST_WILD_BEFORE,
    LOGGED,
    NO_PARENT,
    OWN_VALUE,
    RULE_WORDS,
    VERTEX_BASE,
    VERTEX_FLAGS,
    VERTEX_PARENT,
    VERTEX_VALUE,
    forest_words,
    free_forest,
    hold,
    place,
    push,
)
from everview.kernels.frontier.offers import adds, base_in, count_wild, there
from everview.kernels.frontier.repair import changes_much, cut, must_start_anew, offer, regrow, spread, start_anew, trim
from everview.kernels.frontier.vertex_lookup import empty_forest, forget_entries, found_or_new
from everview.kernels.memory import ld, reserve, st
from everview.kernels.run.step import STEP_BASE, STEP_EPOCHS
from everview.kernels.trace.batch import BATCH_CAP, BATCH_DATA, BATCH_ROWS
from everview.kernels.trace.trace import (
    TRACE_COLS,
    TRACE_COUNT,
    TRACE_TABLE,
    clear_delta,
    trace_rows,
)

PHASE_IDLE, PHASE_GROWING, PHASE_OPENING, PHASE_TRIMMING, PHASE_REGROWING, PHASE_SPREADING, PHASE_CLOSING = range(7)
REGROWING, REGROWN = 1, 2
"""FOREST_REGROWN: the epoch under way starts anew; an earlier one of the step did."""


@inner
def _settle_source(ctx, trace, batch, row, node, value, time):
    """Note a source's value if it is there, and better than what is known of it."""
    one = found_or_new(ctx, node)
    at = place(ctx, one)
    entries = ld(ctx, FOREST_ENTRIES)
    better = ld(entries, at + VERTEX_FLAGS) & FLAG_BASED == 0 or value < ld(entries, at + VERTEX_BASE)
    if better and there(trace, batch, row, time) != 0:
        st(entries, at + VERTEX_BASE, value)
        st(entries, at + VERTEX_FLAGS, FLAG_BASED)


@shared
def _plant_sources(ctx, time):
    """All sources, as of a time, are in the heap, from where they spread."""
    wild = ld(ctx, FOREST_WILD)
    trace = ld(ctx, FOREST_START)
    questions = ld(ctx, FOREST_QUESTIONS)
    for b in range(ld(trace, TRACE_COUNT)):
        batch = ld(ld(trace, TRACE_TABLE), b)
        data = ld(batch, BATCH_DATA)
        cap = ld(batch, BATCH_CAP)
        for i in range(ld(batch, BATCH_ROWS)):
            if adds(batch, data, i, time):
                for c in range(questions):
                    st(ld(ctx, FOREST_KEY), c, ld(data, c * cap + i))
                _settle_source(ctx, trace, batch, i, ld(data, questions * cap + i), base_in(ctx, data, cap, i), time)
    for one in range(ld(ctx, FOREST_ENTRIES_N)):
        at = place(ctx, one)
        entries = ld(ctx, FOREST_ENTRIES)
        if ld(entries, at + VERTEX_FLAGS) & FLAG_BASED != 0:
            hold(ctx, one, ld(entries, at + VERTEX_BASE), OWN_VALUE, 0)
            push(ctx, 0 if wild > 0 else ld(entries, at + VERTEX_BASE), 0, one)
    return 0


@shared
def _plant(ctx, time):
    """Begin to grow the forest as of a time."""
    empty_forest(ctx)
    rules = ld(ctx, FOREST_RULES)
    wild = 0
    for r in range(ld(ctx, FOREST_NRULES)):
        wild += count_wild(ctx, rules, r * RULE_WORDS, time)
    st(ctx, FOREST_WILD, wild)
    st(ctx, FOREST_WILD_BEFORE, wild)
    if prepare(ctx) == 0:
        _plant_sources(ctx, time)
    return 0


@inner
def _say(ctx, one, value, time, diff):
    """Append a row of the output."""
    cols = ld(ld(ctx, FOREST_OUTPUT), TRACE_COLS)
    out = reserve(ctx, FOREST_OUT, FOREST_OUT_N, cols + 2, 1)
    n = ld(ctx, FOREST_OUT_N)
    to = 1 + n * (cols + 2)
    entries = ld(ctx, FOREST_ENTRIES)
    at = place(ctx, one)
    which = ld(ctx, FOREST_OUT_MAP)
    for c in range(cols):
        word = ld(which, c)
        st(out, to + c, value ^ ld(ctx, FOREST_FLIP) if word == VERTEX_VALUE else ld(entries, at + word))
    st(out, to + cols, time)
    st(out, to + cols + 1, diff)
    st(ctx, FOREST_OUT_N, n + 1)


@shared
def say_all(ctx, time):
    """Say every value there is."""
    for one in range(ld(ctx, FOREST_ENTRIES_N)):
        entries = ld(ctx, FOREST_ENTRIES)
        at = place(ctx, one)
        if ld(entries, at + VERTEX_PARENT) != NO_PARENT:
            _say(ctx, one, ld(entries, at + VERTEX_VALUE), time, 1)
    return 0


@shared
def say_changes(ctx, time):
    """Say what an epoch has changed: the log has what was."""
    log = ld(ctx, FOREST_LOG)
    for i in range(ld(ctx, FOREST_LOG_FROM), ld(ctx, FOREST_LOG_N)):
        at = 1 + i * LOGGED
        one = ld(log, at)
        was = ld(log, at + 1 + VERTEX_PARENT - VERTEX_VALUE) != NO_PARENT
        before = ld(log, at + 1)
        entries = ld(ctx, FOREST_ENTRIES)
        now = place(ctx, one)
        is_now = ld(entries, now + VERTEX_PARENT) != NO_PARENT
        value = ld(entries, now + VERTEX_VALUE)
        if was != is_now or (was and before != value):
            if was:
                _say(ctx, one, before, time, -1)
            if is_now:
                _say(ctx, one, value, time, 1)
    st(ctx, FOREST_LOG_FROM, ld(ctx, FOREST_LOG_N))
    return 0


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
    if ld(ctx, FOREST_ENTRIES_N) > WASTE * trace_rows(ld(ctx, FOREST_OUTPUT)) + 2 * spare_slots(ctx) + 4096:
        st(ctx, FOREST_BUILT, 0)
    base = ld(ld(ctx, FOREST_STEP), STEP_BASE)
    st(ctx, FOREST_EPOCH, 1)
    if fresh:
        _plant(ctx, base + 1)
        st(ctx, FOREST_LOUD, 1)
        st(ctx, FOREST_PHASE, PHASE_GROWING)
    elif ld(ctx, FOREST_BUILT) == 0:
        _plant(ctx, base)
        st(ctx, FOREST_PHASE, PHASE_GROWING)
    else:
        st(ctx, FOREST_PHASE, PHASE_OPENING)
    gather(ctx)
    return 1


@inner
def _grow(ctx, base, epoch):
    """Grow the forest as of the time of an epoch, which then says all of it, or as of the time before the step."""
    said = ld(ctx, FOREST_LOUD) != 0 or ld(ctx, FOREST_REGROWN) == REGROWING
    time = base + epoch if said else base
    if ld(ctx, FOREST_LOAD) != 0:
        answer = grow_at_once(ctx, time)
        if answer == LOAD_IMPOSSIBLE:
            _plant_sources(ctx, time)
        if answer != LOAD_DONE:
            return
    elif spread(ctx, time) == 0:
        return
    st(ctx, FOREST_BUILT, 1)
    if said:
        st(ctx, FOREST_FRESH, 0)
        say_all(ctx, time)
        st(ctx, FOREST_EPOCH, epoch + 1)
    if ld(ctx, FOREST_REGROWN) == REGROWING:
        st(ctx, FOREST_REGROWN, REGROWN)
    st(ctx, FOREST_PHASE, PHASE_OPENING)


@shared
def _take_back(ctx, time):
    """All that there is goes: it is said, and there is no way back but to grow the forest again."""
    st(ctx, FOREST_REGROWN, REGROWING)
    for one in range(ld(ctx, FOREST_ENTRIES_N)):
        entries = ld(ctx, FOREST_ENTRIES)
        at = place(ctx, one)
        if ld(entries, at + VERTEX_PARENT) != NO_PARENT:
            _say(ctx, one, ld(entries, at + VERTEX_VALUE), time, -1)
    forget_entries(ctx)
    return 0


@inner
def _open(ctx, epoch, time):
    """Begin an epoch under a number of its own."""
    anew = must_start_anew(ctx, epoch)
    if (anew != 0 or changes_much(ctx, epoch) != 0) and prepare(ctx) != 0:
        _take_back(ctx, time)
        st(ctx, FOREST_PHASE, PHASE_GROWING)
        return
    serial = ld(ctx, FOREST_SERIALS) + 1
    st(ctx, FOREST_SERIALS, serial)
    st(ctx, FOREST_SERIAL, serial)
    cut(ctx, epoch, time, anew)
    if anew != 0:
        start_anew(ctx, time)
        st(ctx, FOREST_PHASE, PHASE_SPREADING)
    else:
        st(ctx, FOREST_PHASE, PHASE_TRIMMING)


@task
def _advance(ctx):
    """Do the next part of the work; whether there is more of it."""
    base = ld(ld(ctx, FOREST_STEP), STEP_BASE)
    epochs = ld(ld(ctx, FOREST_STEP), STEP_EPOCHS)
    phase = ld(ctx, FOREST_PHASE)
    epoch = ld(ctx, FOREST_EPOCH)
    time = base + epoch
    if phase == PHASE_GROWING:
        _grow(ctx, base, epoch)
    elif phase == PHASE_OPENING:
        if epoch > epochs:
            publish(ctx)
            return 0
        _open(ctx, epoch, time)
    elif phase == PHASE_TRIMMING:
        if trim(ctx, time) != 0:
            st(ctx, FOREST_PHASE, PHASE_REGROWING)
    elif phase == PHASE_REGROWING:
        if regrow(ctx, time) != 0:
            offer(ctx, epoch, time)
            st(ctx, FOREST_PHASE, PHASE_SPREADING)
    elif phase == PHASE_SPREADING:
        if spread(ctx, time) != 0:
            st(ctx, FOREST_PHASE, PHASE_CLOSING)
    else:
        say_changes(ctx, time)
        st(ctx, FOREST_EPOCH, epoch + 1)
        st(ctx, FOREST_PHASE, PHASE_OPENING)
    return 1


@operator
def keep_trees(ctx):
    """Compiled operator; see the module."""
    return in_phases(ctx, _begin(), _advance())


TREES_BYTES, DROP_TREES = range(2)


@entry("int", "int", brief=True)
def about_trees(what, ctx):
    """What Python asks of an operator's forest: its size, or to give it back."""
    if what == TREES_BYTES:
        return 8 * forest_words(ctx)
    free_forest(ctx)
    return 0
