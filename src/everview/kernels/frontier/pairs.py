"""The operator for pairs: the distance of each requested pair, by a ball around either end.

A tree from the source holds everything reachable, most of it beyond the target. Two balls that meet in the middle hold
a small part of that: a thousandth in a graph of a million nodes. A query therefore costs kilobytes, and most changes
affect few of thousands of queries: an edge finds the balls that contain its ends by the forests' lists
(`vertex_lookup`).

    IDLE      nothing to do; a step begins
    OPENING   an epoch begins: pairs come and go, tree edges are cut
    MENDING   both forests are mended within their radii (`repair`), first ahead, then behind
    MEETING   what has changed is held against the best edges of pairs (`pair_distance`)
    SETTLING  pairs in doubt: balls grow until the best edge is known to be the distance
    CLOSING   differences are collected; the next epoch, or all are said

When it is built (as a new operator with full output, after opening a directory without any) all pairs are in doubt,
balls are their centres, and only SETTLING has work. The same happens when an epoch changes more than the forests hold.

*Wild weights* (see `repair`): if distances can decrease along edges, balls are meaningless. While there are such edges
the balls ahead have no radius, those behind are not used, and the distance is that of the tree ahead.

It returns to the executor, to be called again, whenever its fuel is used up, so that a step can be interrupted in the
middle.
"""

from __future__ import annotations

from everview.kernels.build.native import (
    AGAIN,
    entry,
    inner,
    operator,
    shared,
)
from everview.kernels.frontier.ball_garbage import sweep
from everview.kernels.frontier.balls import (
    BALL_LOGGED,
    BALL_OPEN,
    EMPTY,
    ball_at,
    reset_balls,
    undo_balls,
)
from everview.kernels.frontier.budget import FAULT_BUDGET
from everview.kernels.frontier.epochs import (
    A_WHILE,
    delta_of,
    gather,
    publish,
)
from everview.kernels.frontier.forest import (
    FOREST_ASKED,
    FOREST_BAD,
    FOREST_BALL_LOG,
    FOREST_BALL_LOG_N,
    FOREST_BALLS,
    FOREST_BALLS_FIND,
    FOREST_BUILT,
    FOREST_CHANGES,
    FOREST_CHANGES_N,
    FOREST_ENTRIES,
    FOREST_ENTRIES_N,
    FOREST_EPOCH,
    FOREST_EPOCHS_AT,
    FOREST_FREE_N,
    FOREST_FRESH,
    FOREST_FUEL,
    FOREST_HEADS,
    FOREST_HEADS_OLD,
    FOREST_HEAP,
    FOREST_HEAP_N,
    FOREST_LOG,
    FOREST_LOG_N,
    FOREST_LOUD,
    FOREST_OUT,
    FOREST_OUT_N,
    FOREST_OUTPUT,
    FOREST_PHASE,
    FOREST_RULES,
    FOREST_SERIAL,
    FOREST_SERIALS,
    FOREST_STACK,
    FOREST_STEP,
    FOREST_TABLE,
    FOREST_TABLE_OLD,
    FOREST_WILD,
    FOREST_WILD_BEFORE,
    KEPT,
    RULE_FORWARD,
    RULE_FORWARD_WEIGHT,
    WORST_VALUE,
    forest_words,
    forget,
    free_forest,
    undo,
)
from everview.kernels.frontier.history import BUDGET_LIMIT, BUDGET_USED
from everview.kernels.frontier.offers import (
    adds,
    count_wild,
    there,
    weight_of,
)
from everview.kernels.frontier.pair_changes import (
    ask_and_leave,
    ask_for,
)
from everview.kernels.frontier.pair_distance import (
    AHEAD,
    BEHIND,
    IN_DOUBT,
    PAIR_BEST,
    PAIR_DOUBT,
    PAIR_LIVE,
    PAIR_LOGGED,
    PAIR_SAID,
    PAIR_SOURCE,
    PAIR_TARGET,
    PAIRS_AHEAD,
    PAIRS_BEHIND,
    PAIRS_BUDGET,
    PAIRS_CLOSING,
    PAIRS_GROWTHS,
    PAIRS_IDLE,
    PAIRS_LOG,
    PAIRS_LOG_FROM,
    PAIRS_LOG_N,
    PAIRS_LOOKS,
    PAIRS_MEETING,
    PAIRS_MENDING,
    PAIRS_N,
    PAIRS_NEW,
    PAIRS_OPENED_AHEAD,
    PAIRS_OPENED_BEHIND,
    PAIRS_OPENING,
    PAIRS_RECORDS,
    PAIRS_SEEN_AHEAD,
    PAIRS_SEEN_BEHIND,
    PAIRS_SETTLING,
    PAIRS_STAGE,
    PAIRS_TODO,
    PAIRS_TODO_N,
    PAIRS_USED,
    PAIRS_WASTE,
    PAIRS_WORDS,
    SETTLED,
    TO_LOOK,
    doubt,
    first_pair,
    meet_changed,
    meet_edge,
    next_pair,
    pair_at,
)
from everview.kernels.frontier.pair_settlement import (
    seen,
    settle,
    settle_next,
    shrink_both,
    shrink_left,
)
from everview.kernels.frontier.registry import (
    registry_words,
    strike_all,
)
from everview.kernels.frontier.repair import (
    cut,
    must_start_anew,
    offer,
    regrow,
    spread,
    start_anew,
    trim,
)
from everview.kernels.frontier.vertex_lookup import empty_forest
from everview.kernels.memory import (
    free,
    keep,
    ld,
    reserve,
    st,
)
from everview.kernels.run.step import (
    STEP_BASE,
    STEP_EPOCHS,
    STEP_FAULT,
)
from everview.kernels.trace.batch import (
    BATCH_CAP,
    BATCH_DATA,
    BATCH_ROWS,
    diff_at,
)
from everview.kernels.trace.trace import (
    TRACE_COUNT,
    TRACE_DELTA,
    TRACE_TABLE,
    clear_delta,
)

TRIM_AHEAD, REGROW_AHEAD, SPREAD_AHEAD, TRIM_BEHIND, REGROW_BEHIND, SPREAD_BEHIND, SPREAD_ANEW = range(7)

_SMALL = 4096


@shared
def _anew(ctx, time):
    """Let all balls begin with their centres again, and all pairs be in doubt."""
    ahead, behind = ld(ctx, PAIRS_AHEAD), ld(ctx, PAIRS_BEHIND)
    wild = ld(ahead, FOREST_WILD) > 0
    reset_balls(ahead, WORST_VALUE if wild else EMPTY)
    reset_balls(behind, EMPTY)
    start_anew(ahead, time)
    start_anew(behind, time)
    st(behind, FOREST_HEAP_N, 0)
    if not wild:
        st(ahead, FOREST_HEAP_N, 0)
    for number in range(ld(ctx, PAIRS_N)):
        if ld(ld(ctx, PAIRS_RECORDS), pair_at(number) + PAIR_LIVE) != 0:
            doubt(ctx, number, TO_LOOK)
    st(ctx, FOREST_PHASE, PAIRS_MENDING)
    st(ctx, PAIRS_STAGE, SPREAD_ANEW)
    return 0


# the parts of an epoch


@inner
def _open(ctx, epoch, time):
    """Begin an epoch under a number of its own."""
    ahead, behind = ld(ctx, PAIRS_AHEAD), ld(ctx, PAIRS_BEHIND)
    st(ctx, FOREST_SERIALS, ld(ctx, FOREST_SERIALS) + 1)
    for forest in (ahead, behind):
        st(forest, FOREST_SERIALS, ld(forest, FOREST_SERIALS) + 1)
        st(forest, FOREST_SERIAL, ld(forest, FOREST_SERIALS))
    seen(ctx)
    st(ctx, PAIRS_LOG_FROM, ld(ctx, PAIRS_LOG_N))
    ask_and_leave(ctx, epoch)
    anew_ahead = must_start_anew(ahead, epoch)
    anew_behind = must_start_anew(behind, epoch)
    cut(ahead, epoch, time, anew_ahead)
    cut(behind, epoch, time, anew_behind)
    if anew_ahead != 0 or anew_behind != 0:
        _anew(ctx, time)
    else:
        st(ctx, FOREST_PHASE, PAIRS_MENDING)
        st(ctx, PAIRS_STAGE, TRIM_AHEAD)


@inner
def _mend(ctx, epoch, time):
    """The next part of mending a forest."""
    stage = ld(ctx, PAIRS_STAGE)
    forest = ld(ctx, PAIRS_AHEAD) if stage < TRIM_BEHIND or stage == SPREAD_ANEW else ld(ctx, PAIRS_BEHIND)
    done = 0
    if stage == TRIM_AHEAD or stage == TRIM_BEHIND:
        done = trim(forest, time)
    elif stage == REGROW_AHEAD or stage == REGROW_BEHIND:
        done = regrow(forest, time)
        if done != 0:
            offer(forest, epoch, time)
    else:
        done = spread(forest, time)
    if done != 0:
        if stage == SPREAD_ANEW:
            seen(ctx)
            settle_next(ctx)
        elif stage == SPREAD_BEHIND:
            st(ctx, FOREST_PHASE, PAIRS_MEETING)
        else:
            st(ctx, PAIRS_STAGE, stage + 1)


@inner
def _doubt_opened(ctx, side):
    """Pairs may have relied on balls that are open now."""
    forest = ld(ctx, PAIRS_AHEAD) if side == AHEAD else ld(ctx, PAIRS_BEHIND)
    begin = ld(ctx, PAIRS_OPENED_AHEAD) if side == AHEAD else ld(ctx, PAIRS_OPENED_BEHIND)
    for i in range(begin, ld(forest, FOREST_BALL_LOG_N)):
        ball = ld(ld(forest, FOREST_BALL_LOG), 1 + i * BALL_LOGGED)
        at = ball_at(ball)
        was_closed = ld(ld(forest, FOREST_BALL_LOG), 3 + i * BALL_LOGGED) == 0
        if was_closed and ld(ld(forest, FOREST_BALLS), at + BALL_OPEN) != 0:
            number = first_pair(forest, ball)
            while number >= 0:
                if ld(ld(ctx, PAIRS_RECORDS), pair_at(number) + PAIR_LIVE) != 0:
                    doubt(ctx, number, IN_DOUBT)
                number = next_pair(ctx, number, side)


@shared
def _meet(ctx, epoch, time):
    """Hold what an epoch has changed against the best edges of pairs."""
    ahead = ld(ctx, PAIRS_AHEAD)
    meet_changed(ctx, AHEAD, ld(ctx, PAIRS_SEEN_AHEAD), time)
    meet_changed(ctx, BEHIND, ld(ctx, PAIRS_SEEN_BEHIND), time)
    bounds = ld(ahead, FOREST_EPOCHS_AT)
    rules = ld(ahead, FOREST_RULES)
    delta = ld(ld(rules, RULE_FORWARD), TRACE_DELTA)
    for i in range(ld(bounds, epoch), ld(bounds, epoch + 1)):
        row = ld(ld(ahead, FOREST_CHANGES), 2 + 2 * i)
        data = ld(delta, BATCH_DATA)
        cap = ld(delta, BATCH_CAP)
        weight = weight_of(ahead, data, cap, row, ld(rules, RULE_FORWARD_WEIGHT))
        came = 1 if diff_at(delta, data, row, 0) > 0 else 0
        meet_edge(ctx, ld(data, row), ld(data, cap + row), weight, came, time)
    _doubt_opened(ctx, AHEAD)
    _doubt_opened(ctx, BEHIND)
    seen(ctx)
    settle_next(ctx)
    return 0


# what is said


@inner
def _say(ctx, number, value, time, diff):
    """Append a row of the output: target, source, distance."""
    out = reserve(ctx, FOREST_OUT, FOREST_OUT_N, 5, 1)
    n = ld(ctx, FOREST_OUT_N)
    to = 1 + n * 5
    pairs = ld(ctx, PAIRS_RECORDS)
    at = pair_at(number)
    st(out, to, ld(pairs, at + PAIR_TARGET))
    st(out, to + 1, ld(pairs, at + PAIR_SOURCE))
    st(out, to + 2, value)
    st(out, to + 3, time)
    st(out, to + 4, diff)
    st(ctx, FOREST_OUT_N, n + 1)


@inner
def _say_pair(ctx, number, time):
    """Say how a pair has changed."""
    at = pair_at(number)
    said = ld(ld(ctx, PAIRS_RECORDS), at + PAIR_SAID)
    now = ld(ld(ctx, PAIRS_RECORDS), at + PAIR_BEST) if ld(ld(ctx, PAIRS_RECORDS), at + PAIR_LIVE) != 0 else WORST_VALUE
    if now != said:
        if said != WORST_VALUE:
            _say(ctx, number, said, time, -1)
        if now != WORST_VALUE:
            _say(ctx, number, now, time, 1)
        st(ld(ctx, PAIRS_RECORDS), at + PAIR_SAID, now)


@shared
def _say_changes(ctx, time):
    """Say what an epoch has changed: the log names the pairs."""
    for i in range(ld(ctx, PAIRS_LOG_FROM), ld(ctx, PAIRS_LOG_N)):
        number = ld(ld(ctx, PAIRS_LOG), 1 + i * PAIR_LOGGED)
        _say_pair(ctx, number, time)
        if ld(ld(ctx, PAIRS_RECORDS), pair_at(number) + PAIR_LIVE) == 0:
            shrink_left(ctx, number, time)
        else:
            shrink_both(ctx, number, time)
    return 0


@shared
def _finish_growing(ctx, base):
    """All pairs are settled for the first time."""
    loud = ld(ctx, FOREST_LOUD) != 0
    for number in range(ld(ctx, PAIRS_N)):
        if loud:
            _say_pair(ctx, number, base + 1)
        else:
            st(
                ld(ctx, PAIRS_RECORDS),
                pair_at(number) + PAIR_SAID,
                ld(ld(ctx, PAIRS_RECORDS), pair_at(number) + PAIR_BEST),
            )
    st(ctx, PAIRS_LOG_N, 0)
    for forest in (ld(ctx, PAIRS_AHEAD), ld(ctx, PAIRS_BEHIND)):
        st(forest, FOREST_LOG_N, 0)
        st(forest, FOREST_BALL_LOG_N, 0)
    st(ctx, FOREST_BUILT, 1)
    if loud:
        st(ctx, FOREST_FRESH, 0)
        st(ctx, FOREST_EPOCH, 2)
    return 0


# memory


@inner
def pairs_words(ctx):
    """Words of memory that the operator takes when a step is over."""
    words = PAIRS_WORDS + registry_words(ctx, PAIRS_RECORDS)
    for forest in (ld(ctx, PAIRS_AHEAD), ld(ctx, PAIRS_BEHIND)):
        words += forest_words(forest) + registry_words(forest, FOREST_BALLS)
    return words


@inner
def _keep_within(ctx):
    """Note what is taken of the budget; a step that asks something new is refused if that is too much."""
    budget = ld(ctx, PAIRS_BUDGET)
    if budget != 0:
        now = 8 * pairs_words(ctx)
        used = ld(budget, BUDGET_USED) - ld(ctx, PAIRS_USED) + now
        st(budget, BUDGET_USED, used)
        st(ctx, PAIRS_USED, now)
        if ld(ctx, PAIRS_NEW) != 0 and 0 < ld(budget, BUDGET_LIMIT) < used:
            st(ld(ctx, FOREST_STEP), STEP_FAULT, FAULT_BUDGET)


# the operator


@shared
def _plant(ctx, time):
    """Forget everything, and begin with the pairs that are asked for at a time."""
    ahead, behind = ld(ctx, PAIRS_AHEAD), ld(ctx, PAIRS_BEHIND)
    for forest in (ahead, behind):
        empty_forest(forest)
        strike_all(forest, FOREST_BALLS)
        st(forest, FOREST_BALL_LOG_N, 0)
        wild = count_wild(forest, ld(forest, FOREST_RULES), 0, time)
        st(forest, FOREST_WILD, wild)
        st(forest, FOREST_WILD_BEFORE, wild)
    strike_all(ctx, PAIRS_RECORDS)
    st(ctx, PAIRS_LOG_N, 0)
    st(ctx, PAIRS_TODO_N, 0)
    st(ctx, PAIRS_WASTE, 0)
    st(ctx, FOREST_SERIALS, ld(ctx, FOREST_SERIALS) + 1)
    trace = ld(ctx, FOREST_ASKED)
    for b in range(ld(trace, TRACE_COUNT)):
        batch = ld(ld(trace, TRACE_TABLE), b)
        data = ld(batch, BATCH_DATA)
        for i in range(ld(batch, BATCH_ROWS)):
            if adds(batch, data, i, time) and there(trace, batch, i, time) != 0:
                ask_for(ctx, ld(data, ld(batch, BATCH_CAP) + i), ld(data, i))
    _anew(ctx, time)
    return 0


@inner
def _free_state(ctx):
    for forest in (ld(ctx, PAIRS_AHEAD), ld(ctx, PAIRS_BEHIND)):
        strike_all(forest, FOREST_BALLS)
        free_forest(forest)
    strike_all(ctx, PAIRS_RECORDS)


@inner
def _mostly_free(forest):
    """Whether a forest is so much smaller than it was that it is cheap to grow it again, and to give memory back."""
    entries = ld(forest, FOREST_ENTRIES_N)
    return entries > _SMALL and 8 * (entries - ld(forest, FOREST_FREE_N)) < entries


@shared
def _begin(ctx):
    """The step begins. 0: there is nothing to do."""
    ahead, behind = ld(ctx, PAIRS_AHEAD), ld(ctx, PAIRS_BEHIND)
    fresh = ld(ctx, FOREST_FRESH) != 0
    edges = delta_of(ctx, ld(ld(ahead, FOREST_RULES), RULE_FORWARD)) != 0
    if not fresh and not edges and delta_of(ctx, ld(ctx, FOREST_ASKED)) == 0:
        clear_delta(ld(ctx, FOREST_OUTPUT))
        return 0
    if not fresh and ld(ctx, FOREST_BUILT) != 0:
        sweep(ctx)
        if _mostly_free(ahead) or _mostly_free(behind):
            st(ctx, FOREST_BUILT, 0)
            _free_state(ctx)
    base = ld(ld(ctx, FOREST_STEP), STEP_BASE)
    st(ctx, FOREST_EPOCH, 1)
    st(ctx, PAIRS_NEW, 0)
    if fresh or ld(ctx, FOREST_BUILT) == 0:
        st(ctx, FOREST_BUILT, 0)
        st(ctx, FOREST_LOUD, 1 if fresh else 0)
        _plant(ctx, base + 1 if fresh else base)
        st(ctx, PAIRS_NEW, 1 if fresh else 0)
    else:
        st(ctx, FOREST_PHASE, PAIRS_OPENING)
    gather(ctx)
    gather(ahead)
    gather(behind)
    return 1


@inner
def _advance(ctx, base, epochs):
    """Do the next part of the work; whether there is more of it."""
    phase = ld(ctx, FOREST_PHASE)
    epoch = ld(ctx, FOREST_EPOCH)
    growing = ld(ctx, FOREST_BUILT) == 0
    time = base + epoch
    if growing and ld(ctx, FOREST_LOUD) == 0:
        time = base
    if phase == PAIRS_OPENING:
        if epoch > epochs:
            _keep_within(ctx)
            publish(ctx)
            return False
        _open(ctx, epoch, time)
    elif phase == PAIRS_MENDING:
        _mend(ctx, epoch, time)
    elif phase == PAIRS_MEETING:
        _meet(ctx, epoch, time)
    elif phase == PAIRS_SETTLING:
        if settle(ctx, time):
            st(ctx, FOREST_PHASE, PAIRS_CLOSING)
    elif growing:
        _finish_growing(ctx, base)
        st(ctx, FOREST_PHASE, PAIRS_OPENING)
    else:
        _say_changes(ctx, time)
        st(ctx, FOREST_EPOCH, epoch + 1)
        st(ctx, FOREST_PHASE, PAIRS_OPENING)
    return True


@operator
def keep_pairs(ctx):
    """Compiled operator; see the module."""
    if ld(ctx, FOREST_PHASE) == PAIRS_IDLE and _begin(ctx) == 0:
        return 0
    ahead, behind = ld(ctx, PAIRS_AHEAD), ld(ctx, PAIRS_BEHIND)
    base = ld(ld(ctx, FOREST_STEP), STEP_BASE)
    epochs = ld(ld(ctx, FOREST_STEP), STEP_EPOCHS)
    st(ahead, FOREST_FUEL, A_WHILE)
    st(behind, FOREST_FUEL, A_WHILE)
    while _advance(ctx, base, epochs):
        if ld(ahead, FOREST_FUEL) < 0 or ld(behind, FOREST_FUEL) < 0:
            return AGAIN
    return 0


# the end of a step


@inner
def _leave_budget(ctx):
    budget = ld(ctx, PAIRS_BUDGET)
    if budget != 0:
        st(budget, BUDGET_USED, ld(budget, BUDGET_USED) - ld(ctx, PAIRS_USED))
        st(ctx, PAIRS_USED, 0)


@inner
def forget_pairs(ctx):
    """The step is committed: there is no way back any more."""
    for forest in (ld(ctx, PAIRS_AHEAD), ld(ctx, PAIRS_BEHIND)):
        forget(forest)
        st(forest, FOREST_BALL_LOG_N, 0)
        block = ld(forest, FOREST_BALL_LOG)
        if block != 0 and ld(block, 0) > KEPT:
            st(forest, FOREST_BALL_LOG, 0)
            free(block)
    for field in (PAIRS_LOG_N, PAIRS_LOG_FROM, PAIRS_TODO_N, FOREST_CHANGES_N, FOREST_OUT_N, FOREST_PHASE, FOREST_LOUD):
        st(ctx, field, 0)
    for field in (PAIRS_LOG, PAIRS_TODO, FOREST_CHANGES, FOREST_OUT):
        block = ld(ctx, field)
        if block != 0 and ld(block, 0) > KEPT:
            st(ctx, field, 0)
            free(block)


@inner
def undo_pairs(ctx):
    """The step failed, wherever it was: balls and pairs are as they were before, or, if they were being grown, not
    there.
    """
    pairs = ld(ctx, PAIRS_RECORDS)
    for i in range(ld(ctx, PAIRS_TODO_N)):
        st(pairs, pair_at(ld(ld(ctx, PAIRS_TODO), 1 + i)) + PAIR_DOUBT, SETTLED)
    log = ld(ctx, PAIRS_LOG)
    i = ld(ctx, PAIRS_LOG_N) - 1
    while i >= 0:
        at = pair_at(ld(log, 1 + i * PAIR_LOGGED)) + PAIR_LIVE
        for w in range(PAIR_LOGGED - 1):
            st(pairs, at + w, ld(log, 2 + i * PAIR_LOGGED + w))
        i -= 1
    for forest in (ld(ctx, PAIRS_AHEAD), ld(ctx, PAIRS_BEHIND)):
        undo_balls(forest)
        undo(forest)
    if ld(ctx, FOREST_LOUD) != 0:
        st(ctx, FOREST_BUILT, 0)
        st(ctx, FOREST_FRESH, 1)
    budget = ld(ctx, PAIRS_BUDGET)
    if budget != 0 and 0 < ld(budget, BUDGET_LIMIT) < ld(budget, BUDGET_USED):
        st(ctx, FOREST_BUILT, 0)  # what it left behind must not stay: it is grown again before the next change
        _leave_budget(ctx)
        _free_state(ctx)
    forget_pairs(ctx)


@inner
def keep_pairs_blocks(ctx):
    """After a failure: the blocks that the contexts of both forests name are in use."""
    for forest in (ld(ctx, PAIRS_AHEAD), ld(ctx, PAIRS_BEHIND)):
        for field in (
            FOREST_ENTRIES, FOREST_TABLE, FOREST_TABLE_OLD, FOREST_HEADS, FOREST_HEADS_OLD, FOREST_LOG,
            FOREST_HEAP, FOREST_STACK, FOREST_BAD,
            FOREST_CHANGES, FOREST_OUT, FOREST_EPOCHS_AT, FOREST_BALLS, FOREST_BALLS_FIND, FOREST_BALL_LOG,
        ):  # fmt: skip
            keep(ld(forest, field))


@inner
def free_pairs(ctx):
    """Give back all that the operator has allocated."""
    _leave_budget(ctx)
    _free_state(ctx)
    for forest in (ld(ctx, PAIRS_AHEAD), ld(ctx, PAIRS_BEHIND)):
        block = ld(forest, FOREST_BALL_LOG)
        st(forest, FOREST_BALL_LOG, 0)
        free(block)
    for field in (PAIRS_LOG, PAIRS_TODO, FOREST_CHANGES, FOREST_OUT, FOREST_EPOCHS_AT):
        block = ld(ctx, field)
        st(ctx, field, 0)
        free(block)


(PAIRS_BYTES, PAIRS_COUNT, PAIRS_ENTRIES, PAIRS_LOOKED, PAIRS_GROWN, DROP_PAIRS) = range(6)


@entry("int", "int", brief=True)
def about_pairs(what, ctx):
    """What Python asks of the operator: its size and what was done, or to give everything back."""
    if what == PAIRS_BYTES:
        return 8 * pairs_words(ctx)
    if what == PAIRS_COUNT:
        live = 0
        for number in range(ld(ctx, PAIRS_N)):
            live += ld(ld(ctx, PAIRS_RECORDS), pair_at(number) + PAIR_LIVE)
        return live
    if what == PAIRS_ENTRIES:
        ahead, behind = ld(ctx, PAIRS_AHEAD), ld(ctx, PAIRS_BEHIND)
        in_use = ld(ahead, FOREST_ENTRIES_N) + ld(behind, FOREST_ENTRIES_N)
        return in_use - ld(ahead, FOREST_FREE_N) - ld(behind, FOREST_FREE_N)
    if what == PAIRS_LOOKED:
        return ld(ctx, PAIRS_LOOKS)
    if what == PAIRS_GROWN:
        return ld(ctx, PAIRS_GROWTHS)
    free_pairs(ctx)
    return 0
