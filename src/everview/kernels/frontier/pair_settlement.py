"""Settles pairs in doubt: balls grow until the best edge between them is known to be the distance; and shrink again.

A pair is in doubt when it is new, when its best edge may be gone, or when a complete ball has been opened
(`pair_distance.doubt`). They are processed one after the other: if its radii are too small, the ball with fewer
vertices per sharing pair grows by a step (STAGE is GROW until it has), and its new vertices may be met. Growing never
puts others in doubt.

Balls that reach much farther than their pairs need shrink: when a pair has come nearer, and when the number of a ball's
pairs has halved.
"""

from __future__ import annotations

from everview.kernels.build.native import (
    inner,
    shared,
)
from everview.kernels.frontier.balls import (
    BALL_RADIUS,
    BALL_REFS,
    BALL_SIZE,
    BALL_STEP,
    FARTHEST,
    adapt_step,
    ball_at,
    shrink_ball,
    widen_ball,
)
from everview.kernels.frontier.forest import (
    FOREST_BALL_LOG_N,
    FOREST_BALLS,
    FOREST_BUILT,
    FOREST_LOG_N,
    FOREST_PHASE,
    FOREST_STEP,
    FOREST_WILD,
    WORST_VALUE,
)
from everview.kernels.frontier.pair_distance import (
    AHEAD,
    BEHIND,
    PAIR_AHEAD,
    PAIR_BEHIND,
    PAIR_BEST,
    PAIR_DOUBT,
    PAIR_FAR,
    PAIR_LIVE,
    PAIR_NEAR,
    PAIR_SOURCE,
    PAIR_TARGET,
    PAIRS_AHEAD,
    PAIRS_BEFORE,
    PAIRS_BEHIND,
    PAIRS_CURRENT,
    PAIRS_GROWTHS,
    PAIRS_OPENED_AHEAD,
    PAIRS_OPENED_BEHIND,
    PAIRS_RECORDS,
    PAIRS_SEEN_AHEAD,
    PAIRS_SEEN_BEHIND,
    PAIRS_SETTLING,
    PAIRS_SIDE,
    PAIRS_STAGE,
    PAIRS_TODO,
    PAIRS_TODO_N,
    PAIRS_WASTE,
    SETTLED,
    TO_LOOK,
    first_pair,
    is_exact,
    look,
    meet_changed,
    next_pair,
    pair_at,
    touch_pair,
    value_in,
)
from everview.kernels.frontier.repair import (
    spread,
)
from everview.kernels.memory import (
    ld,
    st,
)
from everview.kernels.run.step import (
    STEP_FAULT,
)

PICK, GROW = range(2)


@inner
def seen(ctx):
    """What the logs have is known."""
    ahead, behind = ld(ctx, PAIRS_AHEAD), ld(ctx, PAIRS_BEHIND)
    st(ctx, PAIRS_SEEN_AHEAD, ld(ahead, FOREST_LOG_N))
    st(ctx, PAIRS_SEEN_BEHIND, ld(behind, FOREST_LOG_N))
    st(ctx, PAIRS_OPENED_AHEAD, ld(ahead, FOREST_BALL_LOG_N))
    st(ctx, PAIRS_OPENED_BEHIND, ld(behind, FOREST_BALL_LOG_N))


@inner
def settle_next(ctx):
    st(ctx, FOREST_PHASE, PAIRS_SETTLING)
    st(ctx, PAIRS_STAGE, PICK)
    st(ctx, PAIRS_CURRENT, -1)


@inner
def _next_in_doubt(ctx):
    """Take a pair from the list of those in doubt: (its number or -1, how much in doubt)."""
    n = ld(ctx, PAIRS_TODO_N) - 1
    if n < 0:
        return -1, SETTLED
    number = ld(ld(ctx, PAIRS_TODO), 1 + n)
    at = pair_at(number) + PAIR_DOUBT
    how = ld(ld(ctx, PAIRS_RECORDS), at)
    st(ctx, PAIRS_TODO_N, n)
    st(ld(ctx, PAIRS_RECORDS), at, SETTLED)
    return number, how


@shared
def _begin_pair(ctx, time):
    """Take up the next pair in doubt, and look for its best edge if that is needed; 0: there is none."""
    number, how = _next_in_doubt(ctx)
    if number < 0:
        return 0
    at = pair_at(number)
    pairs = ld(ctx, PAIRS_RECORDS)
    if ld(pairs, at + PAIR_LIVE) == 0:
        return 1
    ahead = ld(ctx, PAIRS_AHEAD)
    if ld(ahead, FOREST_WILD) > 0:
        touch_pair(ctx, number)
        st(
            ld(ctx, PAIRS_RECORDS),
            at + PAIR_BEST,
            value_in(ahead, ld(pairs, at + PAIR_AHEAD), ld(pairs, at + PAIR_TARGET)),
        )
    elif ld(pairs, at + PAIR_SOURCE) == ld(pairs, at + PAIR_TARGET):
        touch_pair(ctx, number)
        st(ld(ctx, PAIRS_RECORDS), at + PAIR_BEST, 0)
    else:
        if how == TO_LOOK:
            look(ctx, number, time)
        st(ctx, PAIRS_CURRENT, number)
    return 1


@inner
def _grow(ctx, number):
    """Let the ball of a pair grow that is smaller, for each of the pairs that share it."""
    pairs = ld(ctx, PAIRS_RECORDS)
    at = pair_at(number)
    ahead, behind = ld(ctx, PAIRS_AHEAD), ld(ctx, PAIRS_BEHIND)
    there_ball, back_ball = ld(pairs, at + PAIR_AHEAD), ld(pairs, at + PAIR_BEHIND)
    balls, others = ld(ahead, FOREST_BALLS), ld(behind, FOREST_BALLS)
    here, yonder = ball_at(there_ball), ball_at(back_ball)
    cost = ld(balls, here + BALL_SIZE) * ld(others, yonder + BALL_REFS)
    side = AHEAD if cost <= ld(others, yonder + BALL_SIZE) * ld(balls, here + BALL_REFS) else BEHIND
    best = ld(pairs, at + PAIR_BEST)
    most = 2 * FARTHEST
    if side == AHEAD:
        if best < WORST_VALUE:
            most = best - 1 - ld(others, yonder + BALL_RADIUS)
        st(ctx, PAIRS_BEFORE, ld(balls, here + BALL_SIZE))
        widen_ball(ahead, there_ball, most)
    else:
        if best < WORST_VALUE:
            most = best - 1 - ld(balls, here + BALL_RADIUS)
        st(ctx, PAIRS_BEFORE, ld(others, yonder + BALL_SIZE))
        widen_ball(behind, back_ball, most)
    st(ctx, PAIRS_SIDE, side)
    st(ctx, PAIRS_STAGE, GROW)
    st(ctx, PAIRS_GROWTHS, ld(ctx, PAIRS_GROWTHS) + 1)


@shared
def _grown(ctx, time):
    """A ball has grown: its new vertices may be met."""
    side = ld(ctx, PAIRS_SIDE)
    at = pair_at(ld(ctx, PAIRS_CURRENT))
    ahead, behind = ld(ctx, PAIRS_AHEAD), ld(ctx, PAIRS_BEHIND)
    if side == AHEAD:
        adapt_step(ahead, ld(ld(ctx, PAIRS_RECORDS), at + PAIR_AHEAD), ld(ctx, PAIRS_BEFORE))
        meet_changed(ctx, AHEAD, ld(ctx, PAIRS_SEEN_AHEAD), time)
    else:
        adapt_step(behind, ld(ld(ctx, PAIRS_RECORDS), at + PAIR_BEHIND), ld(ctx, PAIRS_BEFORE))
        meet_changed(ctx, BEHIND, ld(ctx, PAIRS_SEEN_BEHIND), time)
    if ld(ctx, FOREST_BUILT) == 0:  # there is nothing to go back to
        for forest in (ahead, behind):
            st(forest, FOREST_LOG_N, 0)
            st(forest, FOREST_BALL_LOG_N, 0)
    seen(ctx)
    st(ctx, PAIRS_STAGE, PICK)
    return 0


@inner
def settle(ctx, time):
    """The next part of settling pairs; whether all are."""
    if ld(ctx, PAIRS_STAGE) == GROW:
        forest = ld(ctx, PAIRS_AHEAD) if ld(ctx, PAIRS_SIDE) == AHEAD else ld(ctx, PAIRS_BEHIND)
        if spread(forest, time) != 0:
            _grown(ctx, time)
        return False
    if ld(ctx, PAIRS_CURRENT) < 0 and _begin_pair(ctx, time) == 0:
        return True
    number = ld(ctx, PAIRS_CURRENT)
    if number >= 0:
        if is_exact(ctx, number) or ld(ld(ctx, FOREST_STEP), STEP_FAULT) != 0:
            st(ctx, PAIRS_CURRENT, -1)
        else:
            _grow(ctx, number)
    return False


# balls that are larger than they need be


@inner
def _needed(ctx, side, ball, least):
    """The smallest radius, but not below one, with which a ball serves all its pairs; -1: it must stay as it is."""
    forest = ld(ctx, PAIRS_AHEAD) if side == AHEAD else ld(ctx, PAIRS_BEHIND)
    others = ld(ctx, PAIRS_BEHIND) if side == AHEAD else ld(ctx, PAIRS_AHEAD)
    need = least
    number = first_pair(forest, ball)
    while number >= 0:
        at = pair_at(number)
        pairs = ld(ctx, PAIRS_RECORDS)
        if ld(pairs, at + PAIR_LIVE) != 0 and ld(pairs, at + PAIR_SOURCE) != ld(pairs, at + PAIR_TARGET):
            best = ld(pairs, at + PAIR_BEST)
            if best == WORST_VALUE or ld(pairs, at + PAIR_DOUBT) != SETTLED:
                return -1
            other = ball_at(ld(pairs, at + (PAIR_BEHIND if side == AHEAD else PAIR_AHEAD)))
            need = max(need, best - 1 - ld(ld(others, FOREST_BALLS), other + BALL_RADIUS))
        number = next_pair(ctx, number, side)
    return need


@inner
def _look_again(ctx, side, forest, ball, time):
    """The best edges of pairs may have begun or ended in the part of a ball that is gone: there are others as good."""
    number = first_pair(forest, ball)
    while number >= 0:
        pairs = ld(ctx, PAIRS_RECORDS)
        at = pair_at(number)
        if ld(pairs, at + PAIR_LIVE) != 0 and ld(pairs, at + PAIR_SOURCE) != ld(pairs, at + PAIR_TARGET):
            end = ld(pairs, at + (PAIR_NEAR if side == AHEAD else PAIR_FAR))
            if value_in(forest, ball, end) == WORST_VALUE:
                look(ctx, number, time)
        number = next_pair(ctx, number, side)


@shared
def _shrink(ctx, side, ball, least, time):
    """Let a ball be no larger than it need be, nor smaller than a radius."""
    forest = ld(ctx, PAIRS_AHEAD) if side == AHEAD else ld(ctx, PAIRS_BEHIND)
    need = _needed(ctx, side, ball, least)
    if 0 <= need < ld(ld(forest, FOREST_BALLS), ball_at(ball) + BALL_RADIUS):
        fallen = shrink_ball(forest, ball, need)
        st(ctx, PAIRS_WASTE, ld(ctx, PAIRS_WASTE) + fallen)
        if fallen > 0:
            _look_again(ctx, side, forest, ball, time)
    return 0


@inner
def shrink_both(ctx, number, time):
    """If the balls of a pair reach much farther than they need, each gives half of that back."""
    pairs = ld(ctx, PAIRS_RECORDS)
    at = pair_at(number)
    best = ld(pairs, at + PAIR_BEST)
    wild = ld(ld(ctx, PAIRS_AHEAD), FOREST_WILD) > 0
    if wild or ld(pairs, at + PAIR_LIVE) == 0 or best == WORST_VALUE:
        return
    there_ball, back_ball = ld(pairs, at + PAIR_AHEAD), ld(pairs, at + PAIR_BEHIND)
    balls = ld(ld(ctx, PAIRS_AHEAD), FOREST_BALLS)
    others = ld(ld(ctx, PAIRS_BEHIND), FOREST_BALLS)
    here, yonder = ball_at(there_ball), ball_at(back_ball)
    radius = ld(balls, here + BALL_RADIUS)
    excess = radius + ld(others, yonder + BALL_RADIUS) + 1 - best
    steps = ld(balls, here + BALL_STEP) + ld(others, yonder + BALL_STEP)
    if excess > 2 * steps + (best >> 2):
        _shrink(ctx, AHEAD, there_ball, max(radius - (excess >> 1), 0), time)
        _shrink(ctx, BEHIND, back_ball, 0, time)


@inner
def shrink_left(ctx, number, time):
    """The balls of a pair that left may serve much less now: look when the number of their pairs has halved."""
    pairs = ld(ctx, PAIRS_RECORDS)
    at = pair_at(number)
    for side in (AHEAD, BEHIND):
        forest = ld(ctx, PAIRS_AHEAD) if side == AHEAD else ld(ctx, PAIRS_BEHIND)
        ball = ld(pairs, at + (PAIR_AHEAD if side == AHEAD else PAIR_BEHIND))
        refs = ld(ld(forest, FOREST_BALLS), ball_at(ball) + BALL_REFS)
        if refs > 0 and refs & (refs - 1) == 0:
            _shrink(ctx, side, ball, 0, time)
