"""Adding and removing pairs: each refers to a ball around its source and one around its target.

A new pair joins the lists of its balls' pairs and stays there even when it is no longer requested: only LIVE records
that. A failed step therefore has little to undo, and a pair that comes back finds its place. Later steps remove it from
both lists, one after the other (`ball_garbage`).
"""

from __future__ import annotations

from everview.kernels.build.native import (
    inner,
    shared,
)
from everview.kernels.frontier.balls import (
    BALL_PAIRS,
    ball_at,
    refer,
    unrefer,
)
from everview.kernels.frontier.forest import (
    FOREST_ASKED,
    FOREST_BALLS,
    FOREST_CHANGES,
    FOREST_EPOCHS_AT,
    WORST_VALUE,
)
from everview.kernels.frontier.pair_distance import (
    PAIR_AHEAD,
    PAIR_BEHIND,
    PAIR_BEST,
    PAIR_LIVE,
    PAIR_NEXT_AHEAD,
    PAIR_NEXT_BEHIND,
    PAIR_SAID,
    PAIR_WORDS,
    PAIRS_AHEAD,
    PAIRS_BEHIND,
    PAIRS_NEW,
    PAIRS_RECORDS,
    PAIRS_WASTE,
    TO_LOOK,
    doubt,
    pair_at,
    touch_pair,
)
from everview.kernels.frontier.registry import (
    enrol,
    seek,
)
from everview.kernels.memory import (
    ld,
    st,
)
from everview.kernels.trace.batch import (
    BATCH_CAP,
    BATCH_DATA,
    diff_at,
)
from everview.kernels.trace.trace import (
    TRACE_DELTA,
)


@inner
def _enlist_pair(forest, ball, pairs, word, number):
    """Put a pair at the head of a ball's list. An end is -1: 0 says that the pair is in no list yet."""
    balls = ld(forest, FOREST_BALLS)
    head = ball_at(ball) + BALL_PAIRS
    following = ld(balls, head)
    st(pairs, word, following if following != 0 else -1)
    st(balls, head, number + 1)


@shared
def ask_for(ctx, source, target):
    """A pair is asked for."""
    number = enrol(ctx, PAIRS_RECORDS, PAIR_WORDS, source, target)
    at = pair_at(number)
    ahead, behind = ld(ctx, PAIRS_AHEAD), ld(ctx, PAIRS_BEHIND)
    if ld(ld(ctx, PAIRS_RECORDS), at + PAIR_LIVE) != 0:
        return 0
    if ld(ld(ctx, PAIRS_RECORDS), at + PAIR_NEXT_AHEAD) == 0 and ld(ld(ctx, PAIRS_RECORDS), at + PAIR_NEXT_BEHIND) == 0:
        st(ld(ctx, PAIRS_RECORDS), at + PAIR_SAID, WORST_VALUE)
        st(ld(ctx, PAIRS_RECORDS), at + PAIR_BEST, WORST_VALUE)
    touch_pair(ctx, number)
    doubt(ctx, number, TO_LOOK)
    there_ball = refer(ahead, source)
    back_ball = refer(behind, target)
    pairs = ld(ctx, PAIRS_RECORDS)
    st(pairs, at + PAIR_AHEAD, there_ball)
    st(pairs, at + PAIR_BEHIND, back_ball)
    if ld(pairs, at + PAIR_NEXT_AHEAD) == 0:
        _enlist_pair(ahead, there_ball, pairs, at + PAIR_NEXT_AHEAD, number)
    if ld(pairs, at + PAIR_NEXT_BEHIND) == 0:
        _enlist_pair(behind, back_ball, pairs, at + PAIR_NEXT_BEHIND, number)
    st(pairs, at + PAIR_BEST, WORST_VALUE)
    st(pairs, at + PAIR_LIVE, 1)
    st(ctx, PAIRS_NEW, 1)
    return 0


@shared
def leave(ctx, source, target):
    """A pair is not asked for any more."""
    number = seek(ctx, PAIRS_RECORDS, PAIR_WORDS, source, target)
    if number < 0 or ld(ld(ctx, PAIRS_RECORDS), pair_at(number) + PAIR_LIVE) == 0:
        return 0
    touch_pair(ctx, number)
    at = pair_at(number)
    st(ld(ctx, PAIRS_RECORDS), at + PAIR_LIVE, 0)
    waste = unrefer(ld(ctx, PAIRS_AHEAD), ld(ld(ctx, PAIRS_RECORDS), at + PAIR_AHEAD))
    waste += unrefer(ld(ctx, PAIRS_BEHIND), ld(ld(ctx, PAIRS_RECORDS), at + PAIR_BEHIND))
    st(ctx, PAIRS_WASTE, ld(ctx, PAIRS_WASTE) + waste)
    return 0


@shared
def ask_and_leave(ctx, epoch):
    """The pairs that come and go in an epoch: who goes first, so that a ball is not emptied and needed again."""
    bounds = ld(ctx, FOREST_EPOCHS_AT)
    delta = ld(ld(ctx, FOREST_ASKED), TRACE_DELTA)
    for sign in (-1, 1):
        for i in range(ld(bounds, epoch), ld(bounds, epoch + 1)):
            row = ld(ld(ctx, FOREST_CHANGES), 2 + 2 * i)
            data = ld(delta, BATCH_DATA)
            if diff_at(delta, data, row, 0) * sign > 0:
                source, target = ld(data, ld(delta, BATCH_CAP) + row), ld(data, row)
                if sign > 0:
                    ask_for(ctx, source, target)
                else:
                    leave(ctx, source, target)
    return 0
