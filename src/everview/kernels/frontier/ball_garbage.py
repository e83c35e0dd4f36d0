"""Incremental garbage collection: entries of balls, balls, and pairs.

Vertices leave balls when edges are deleted, and whole balls become unused with their pairs. Their entries stay in the
tables and in the balls' lists. Rebuilding all balls without them would pause thousands of pairs for seconds; keeping
them is a leak. Each step therefore continues a little (`sweep`), ball after ball, from the newest entry of each to its
centre:

    a pair that is not live leaves the list of the ball; out of both lists its record is struck
    an entry without a value leaves the tables and the list, and is free for another vertex (`vertex_lookup.take_out`);
    the centre stays until it is the only one, because it ends the list
    a ball that nobody refers to, without entries and pairs, is struck

It runs when a step begins: the logs then refer to nothing that is removed, and if the step fails it need not be undone.
It allocates nothing. While a table is being moved (`vertex_lookup`), it helps with that instead.
"""

from __future__ import annotations

from everview.kernels.build.native import inner, shared
from everview.kernels.frontier.balls import (
    BALL_CENTRE,
    BALL_LAST,
    BALL_OPEN,
    BALL_PAIRS,
    BALL_REFS,
    BALL_SIZE,
    BALL_WORDS,
    ball_at,
)
from everview.kernels.frontier.forest import (
    FOREST_BALLS,
    FOREST_BALLS_N,
    FOREST_ENTRIES,
    FOREST_HEADS,
    FOREST_SWEPT_AT,
    FOREST_SWEPT_BALL,
    FOREST_TABLE,
    NO_PARENT,
    VERTEX_BASE,
    VERTEX_NODE,
    VERTEX_PARENT,
    place,
)
from everview.kernels.frontier.pair_distance import (
    AHEAD,
    PAIR_LIVE,
    PAIR_NEXT_AHEAD,
    PAIR_NEXT_BEHIND,
    PAIR_WORDS,
    PAIRS_AHEAD,
    PAIRS_BEHIND,
    PAIRS_RECORDS,
    PAIRS_WASTE,
    pair_at,
)
from everview.kernels.frontier.registry import strike
from everview.kernels.frontier.vertex_lookup import move_slots, take_out
from everview.kernels.memory import ld, st

STRUCK = -1
"""BALL_OPEN of a record that is free."""

A_LITTLE, MUCH = 8, 1 << 14
"""Entries that a step looks at, and how many at most where more are thought to be waste."""

PER_WASTE = 3
"""Entries that are looked at for each that fell: so a third of all is waste at most, where many come and go."""


@shared
def _sweep_pairs(ctx, forest, side, ball):
    """Take the pairs of a ball that are not live out of its list; how many were looked at."""
    mine, other = PAIR_NEXT_BEHIND, PAIR_NEXT_AHEAD
    if side == AHEAD:
        mine, other = PAIR_NEXT_AHEAD, PAIR_NEXT_BEHIND
    pairs = ld(ctx, PAIRS_RECORDS)
    head = ball_at(ball) + BALL_PAIRS
    before = -1
    number = ld(ld(forest, FOREST_BALLS), head) - 1
    looked = 0
    while number >= 0:
        looked += 1
        at = pair_at(number)
        following = ld(pairs, at + mine)
        if ld(pairs, at + PAIR_LIVE) != 0:
            before = number
        else:
            if before >= 0:
                st(pairs, pair_at(before) + mine, following)
            else:
                st(ld(forest, FOREST_BALLS), head, max(following, 0))
            st(pairs, at + mine, 0)
            if ld(pairs, at + other) == 0:
                strike(ctx, PAIRS_RECORDS, PAIR_WORDS, number)
        number = following - 1
    return looked


@inner
def _next_ball(ctx, forest, side):
    """Go on to the next ball, striking the one that was swept if nothing is left of it; what that cost."""
    balls = ld(forest, FOREST_BALLS)
    number = ld(forest, FOREST_SWEPT_BALL)
    if number < ld(forest, FOREST_BALLS_N):
        at = ball_at(number)
        left = ld(balls, at + BALL_REFS) + ld(balls, at + BALL_LAST) + ld(balls, at + BALL_PAIRS)
        if left == 0 and ld(balls, at + BALL_OPEN) != STRUCK:
            strike(forest, FOREST_BALLS, BALL_WORDS, number)
            st(balls, at + BALL_OPEN, STRUCK)
    number += 1
    if number >= ld(forest, FOREST_BALLS_N):
        number = 0
    st(forest, FOREST_SWEPT_BALL, number)
    st(forest, FOREST_SWEPT_AT, 0)
    return 1 + _sweep_pairs(ctx, forest, side, number)


@inner
def _sweep_entry(forest, number, entry):
    """Look at an entry of a ball, the next one behind SWEPT_AT; whether it went."""
    entries = ld(forest, FOREST_ENTRIES)
    at = place(forest, entry)
    balls = ld(forest, FOREST_BALLS)
    ball = ball_at(number)
    before = ld(forest, FOREST_SWEPT_AT)
    is_last = before == 0 and ld(entries, at + VERTEX_BASE) == 0
    is_centre = ld(entries, at + VERTEX_NODE) == ld(balls, ball + BALL_CENTRE)
    if ld(entries, at + VERTEX_PARENT) != NO_PARENT or (is_centre and not is_last):
        st(forest, FOREST_SWEPT_AT, entry + 1)
        return False
    following = ld(entries, at + VERTEX_BASE)
    if before == 0:
        st(balls, ball + BALL_LAST, following)
    else:
        st(entries, place(forest, before - 1) + VERTEX_BASE, following)
    st(balls, ball + BALL_SIZE, ld(balls, ball + BALL_SIZE) - 1)
    take_out(forest, entry)
    return True


@shared
def _sweep_forest(ctx, side, fuel):
    """Walk on through the balls of one side; how many entries went."""
    forest = ld(ctx, PAIRS_AHEAD) if side == AHEAD else ld(ctx, PAIRS_BEHIND)
    gone = 0
    if move_slots(forest, FOREST_TABLE, fuel) + move_slots(forest, FOREST_HEADS, fuel) != 0:
        return gone
    while fuel > 0 and ld(forest, FOREST_BALLS_N) > 0:
        number = ld(forest, FOREST_SWEPT_BALL)
        before = ld(forest, FOREST_SWEPT_AT)
        following = 0
        if number < ld(forest, FOREST_BALLS_N):
            if before != 0:
                following = ld(ld(forest, FOREST_ENTRIES), place(forest, before - 1) + VERTEX_BASE)
            else:
                following = ld(ld(forest, FOREST_BALLS), ball_at(number) + BALL_LAST)
        fuel -= 1
        if following == 0:
            fuel -= _next_ball(ctx, forest, side)
        elif _sweep_entry(forest, number, following - 1):
            gone += 1
            fuel -= 2
    return gone


@shared
def sweep(ctx):
    """A step begins; see the module."""
    waste = ld(ctx, PAIRS_WASTE)
    fuel = A_LITTLE + min(PER_WASTE * waste, MUCH)
    gone = 0
    for side in range(2):
        gone += _sweep_forest(ctx, side, fuel)
    st(ctx, PAIRS_WASTE, max(waste - gone - (fuel >> 3), 0))  # some of it may be in use again
    return gone
