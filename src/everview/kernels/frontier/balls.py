"""Balls: trees that end at a radius, for queries that need only what is near.

A ball is a tree of a forest (`forest`, its query is the ball's number) around one node, its *centre*. It holds every
vertex up to its *radius* away, with its exact distance, and no other. Everything that maintains a tree when edges
change maintains a ball (`repair`); the only difference is that an offer beyond the radius is refused.

*Open.* A ball is open if an offer to a vertex outside was refused: there is more to find. One that is not open holds
everything reachable, whatever its radius.

*Growing.* The radius increases by STEP, and all vertices make their offers again. A step that adds little doubles the
next one, one that adds much halves it: a long path takes few steps, and a ball in a dense graph grows no larger than
necessary.

An unreferenced ball is emptied; its entries stay, like all entries of a forest, until it is grown again. Before a ball
changes it is copied to a log (BALL_LOG), so that a step can be undone.
"""

from __future__ import annotations

from everview.kernels.build.native import inner, shared
from everview.kernels.frontier.forest import (
    FLAG_BASED,
    FOREST_BALL_LOG,
    FOREST_BALL_LOG_N,
    FOREST_BALLS,
    FOREST_BALLS_N,
    FOREST_ENTRIES,
    FOREST_KEY,
    FOREST_SERIAL,
    FOREST_SERIALS,
    NO_PARENT,
    OWN_VALUE,
    VERTEX_BASE,
    VERTEX_DEPTH,
    VERTEX_FLAGS,
    VERTEX_PARENT,
    VERTEX_QUESTION,
    VERTEX_VALUE,
    WORST_VALUE,
    hold,
    place,
    push,
    touch,
)
from everview.kernels.frontier.registry import enrol, record
from everview.kernels.frontier.vertex_lookup import find, found_or_new
from everview.kernels.memory import ld, reserve, st

(
    BALL_CENTRE,
    BALL_ALSO,
    BALL_RADIUS,
    BALL_OPEN,
    BALL_STEP,
    BALL_REFS,
    BALL_LAST,
    BALL_SIZE,
    BALL_PAIRS,
    BALL_WORDS,
) = range(10)
"""A ball's record: its centre (ALSO is 0: keys have two words), see the module; how many pairs refer to it; the last
entry that was made for it, plus one, and how many were; the first of its pairs, plus one.
"""

BALL_LOGGED = 5
"""Words of a copy: the ball's number, and RADIUS, OPEN, STEP, REFS."""

EMPTY = -1
"""The radius of a ball of which nothing is known but its centre."""

FARTHEST = 2**61
"""A radius that no smaller one leads beyond by doubling steps."""


@inner
def ball_at(number):
    return record(number, BALL_WORDS)


@shared
def touch_ball(ctx, number):
    """A ball is about to change: copy it to the log."""
    log = reserve(ctx, FOREST_BALL_LOG, FOREST_BALL_LOG_N, BALL_LOGGED, 1)
    n = ld(ctx, FOREST_BALL_LOG_N)
    to = 1 + n * BALL_LOGGED
    st(log, to, number)
    for w in range(BALL_LOGGED - 1):
        st(log, to + 1 + w, ld(ld(ctx, FOREST_BALLS), ball_at(number) + BALL_RADIUS + w))
    st(ctx, FOREST_BALL_LOG_N, n + 1)
    return 0


@inner
def undo_balls(ctx):
    """The step failed: balls are as they were before."""
    log = ld(ctx, FOREST_BALL_LOG)
    i = ld(ctx, FOREST_BALL_LOG_N) - 1
    while i >= 0:
        at = ball_at(ld(log, 1 + i * BALL_LOGGED)) + BALL_RADIUS
        for w in range(BALL_LOGGED - 1):
            st(ld(ctx, FOREST_BALLS), at + w, ld(log, 2 + i * BALL_LOGGED + w))
        i -= 1
    st(ctx, FOREST_BALL_LOG_N, 0)


# in repairs


@inner
def radius_of(ctx, at):
    """How far the ball of the entry at a place may go; as far as it likes if the forest has no balls."""
    balls = ld(ctx, FOREST_BALLS)
    if balls == 0:
        return WORST_VALUE
    return ld(balls, ball_at(ld(ld(ctx, FOREST_ENTRIES), at + VERTEX_QUESTION)) + BALL_RADIUS)


@inner
def is_open(ctx, at):
    """Whether the ball of the entry at a place is known to be open."""
    balls = ld(ctx, FOREST_BALLS)
    return ld(balls, ball_at(ld(ld(ctx, FOREST_ENTRIES), at + VERTEX_QUESTION)) + BALL_OPEN) != 0


@shared
def open_ball(ctx, at):
    """An edge that is there leads out of the ball of the entry at a place."""
    number = ld(ld(ctx, FOREST_ENTRIES), at + VERTEX_QUESTION)
    if ld(ld(ctx, FOREST_BALLS), ball_at(number) + BALL_OPEN) == 0:
        touch_ball(ctx, number)
        st(ld(ctx, FOREST_BALLS), ball_at(number) + BALL_OPEN, 1)
    return 0


@inner
def enlist(ctx, entry):
    """A new entry joins the list of its ball's. The word of a source's own value links them: the centre is the first of
    all, its own value 0, and ends the list.
    """
    balls = ld(ctx, FOREST_BALLS)
    if balls != 0:
        entries = ld(ctx, FOREST_ENTRIES)
        at = place(ctx, entry)
        ball = ball_at(ld(entries, at + VERTEX_QUESTION))
        st(entries, at + VERTEX_BASE, ld(balls, ball + BALL_LAST))
        st(balls, ball + BALL_LAST, entry + 1)
        st(balls, ball + BALL_SIZE, ld(balls, ball + BALL_SIZE) + 1)


# their life


@inner
def entry_in(ctx, ball, node):
    """The entry of a node in a ball, if it stands there; else NO_PARENT."""
    st(ld(ctx, FOREST_KEY), 0, ball)
    entry = find(ctx, node)
    if entry == NO_PARENT or ld(ld(ctx, FOREST_ENTRIES), place(ctx, entry) + VERTEX_PARENT) == NO_PARENT:
        return NO_PARENT
    return entry


@inner
def _centre(ctx, number):
    """The entry of a ball's centre, made with the ball: the end of its list."""
    st(ld(ctx, FOREST_KEY), 0, number)
    node = ld(ld(ctx, FOREST_BALLS), ball_at(number) + BALL_CENTRE)
    fresh = ld(ld(ctx, FOREST_BALLS), ball_at(number) + BALL_SIZE) == 0
    entry = found_or_new(ctx, node)
    if fresh:
        enlist(ctx, entry)
    return entry


@shared
def _let_fall(ctx, number, radius):
    """Take from a ball all that is farther than a radius, its centre too; how many that were."""
    fallen = 0
    entry = ld(ld(ctx, FOREST_BALLS), ball_at(number) + BALL_LAST) - 1
    while entry >= 0:
        at = place(ctx, entry)
        entries = ld(ctx, FOREST_ENTRIES)
        if ld(entries, at + VERTEX_PARENT) != NO_PARENT and ld(entries, at + VERTEX_VALUE) > radius:
            touch(ctx, entry)
            entries = ld(ctx, FOREST_ENTRIES)
            st(entries, at + VERTEX_FLAGS, ld(entries, at + VERTEX_FLAGS) & ~FLAG_BASED)
            hold(ctx, entry, WORST_VALUE, NO_PARENT, 0)
            fallen += 1
        entry = ld(entries, at + VERTEX_BASE) - 1
    return fallen


@shared
def shrink_ball(ctx, number, radius):
    """Let a ball get smaller; how many entries nobody needs any more."""
    touch_ball(ctx, number)
    at = ball_at(number)
    fallen = _let_fall(ctx, number, radius)
    balls = ld(ctx, FOREST_BALLS)
    st(balls, at + BALL_RADIUS, radius)
    if fallen > 0:
        st(balls, at + BALL_OPEN, 1)
        st(balls, at + BALL_STEP, max(ld(balls, at + BALL_STEP) >> 1, 1))
    return fallen


@shared
def refer(ctx, node):
    """One more refers to the ball around a node, which begins with its centre alone; its number."""
    number = enrol(ctx, FOREST_BALLS, BALL_WORDS, node, 0)
    entry = _centre(ctx, number)
    touch_ball(ctx, number)
    at = ball_at(number)
    balls = ld(ctx, FOREST_BALLS)
    if ld(balls, at + BALL_REFS) == 0:
        touch(ctx, entry)
        entries = ld(ctx, FOREST_ENTRIES)
        flags = place(ctx, entry) + VERTEX_FLAGS
        st(entries, flags, ld(entries, flags) | FLAG_BASED)
        hold(ctx, entry, 0, OWN_VALUE, 0)
        st(balls, at + BALL_RADIUS, EMPTY)
        st(balls, at + BALL_OPEN, 1)
        st(balls, at + BALL_STEP, 1)
    st(balls, at + BALL_REFS, ld(balls, at + BALL_REFS) + 1)
    return number


@shared
def unrefer(ctx, number):
    """One less refers to a ball; the last one empties it. How many entries nobody needs any more."""
    touch_ball(ctx, number)
    at = ball_at(number)
    balls = ld(ctx, FOREST_BALLS)
    refs = ld(balls, at + BALL_REFS) - 1
    st(balls, at + BALL_REFS, refs)
    if refs > 0:
        return 0
    st(balls, at + BALL_RADIUS, EMPTY)
    return _let_fall(ctx, number, -1)


@shared
def reset_balls(ctx, radius):
    """Let all balls that are referred to begin anew, with a radius; `repair.start_anew` does so with their trees."""
    for number in range(ld(ctx, FOREST_BALLS_N)):
        at = ball_at(number)
        if ld(ld(ctx, FOREST_BALLS), at + BALL_REFS) > 0:
            touch_ball(ctx, number)
            balls = ld(ctx, FOREST_BALLS)
            st(balls, at + BALL_RADIUS, radius)
            st(balls, at + BALL_OPEN, 1)
            st(balls, at + BALL_STEP, 1)
    return 0


@shared
def widen_ball(ctx, number, most):
    """Let a ball grow by its step, but not beyond a radius: all its vertices are queued to make their offers."""
    touch_ball(ctx, number)
    at = ball_at(number)
    balls = ld(ctx, FOREST_BALLS)
    radius = ld(balls, at + BALL_RADIUS)
    st(balls, at + BALL_RADIUS, max(min(radius + ld(balls, at + BALL_STEP), most), radius + 1))
    st(balls, at + BALL_OPEN, 0)
    serial = ld(ctx, FOREST_SERIALS) + 1  # who fell in this epoch may come back, and must be in the log again
    st(ctx, FOREST_SERIALS, serial)
    st(ctx, FOREST_SERIAL, serial)
    entry = ld(balls, at + BALL_LAST) - 1
    while entry >= 0:
        entries = ld(ctx, FOREST_ENTRIES)
        place_of = place(ctx, entry)
        if ld(entries, place_of + VERTEX_PARENT) != NO_PARENT:
            push(ctx, ld(entries, place_of + VERTEX_VALUE), ld(entries, place_of + VERTEX_DEPTH), entry)
        entry = ld(entries, place_of + VERTEX_BASE) - 1
    return 0


@inner
def adapt_step(ctx, number, before):
    """Choose the next step of a ball that has grown from a size."""
    at = ball_at(number)
    balls = ld(ctx, FOREST_BALLS)
    size = ld(balls, at + BALL_SIZE)
    step = ld(balls, at + BALL_STEP)
    if ld(balls, at + BALL_RADIUS) > 0:
        if 2 * size < 3 * before:
            st(balls, at + BALL_STEP, min(2 * step, FARTHEST))
        elif size > 3 * before:
            st(balls, at + BALL_STEP, max(step >> 1, 1))
