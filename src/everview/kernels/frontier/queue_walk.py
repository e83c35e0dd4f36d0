"""Many queued slots give what they have to their neighbours, on all threads, as if one had done it after the other.

`bulk_load` takes slots from a queue, the best value first. Slots that stand in the queue already cannot get better,
because every offer is at least as bad as the values that were taken before it. So a part of the queue is walked as one,
in two phases and a bit:

    ask     each thread has a share of the slots, and lists the offers of their edges in order; nothing is changed
    take    each thread has a share of *all* slots: it goes through all lists in order, and lets its slots take the
            first offer that is better; the others are struck out
    then    the slots that took an offer join the queue, in the order of the lists

Order is what makes it the same: every slot hears all offers for it, in the order in which a single thread would have
made them. So values, parents and the queue do not depend on the number of threads.

One thread does it this way, too: when many slots are known, what they will read can be asked for in advance.
"""

from __future__ import annotations

from everview.kernels.build.native import inner, shared, task
from everview.kernels.frontier.edge_hints import STAGE_INDEX, STAGE_ROWS, hint_edges
from everview.kernels.frontier.forest import (
    FOREST_FUEL,
    FOREST_NRULES,
    FOREST_RULES,
    FOREST_STEP,
    RULE_WORDS,
)
from everview.kernels.frontier.load_block import (
    LOAD_HEAD,
    LOAD_LOW,
    LOAD_SLOTS,
    SLOT_DEPTH,
    SLOT_VALUE,
    enqueue,
    hand_on,
    improves,
    queue_at,
    slot_at,
)
from everview.kernels.frontier.offers import (
    FAULT_PATH,
    all_there,
    edges_of,
    fails,
    is_there,
    offered,
    weight_of,
)
from everview.kernels.memory import EVER, alloc_with, call_pointer, free, ld, prefetch, reserve, size_of, st
from everview.kernels.run.step import STEP_FAULT, STEP_SPLIT, STEP_TEAM
from everview.kernels.threads.thread_pool import members, together
from everview.kernels.trace.batch import BATCH_CAP, BATCH_DATA, BATCH_ROWS
from everview.kernels.trace.prefetch import FAR_AHEAD, NEAR_AHEAD
from everview.kernels.trace.search import find_key
from everview.kernels.trace.trace import TRACE_COUNT, TRACE_TABLE

LEAST_AT_ONCE, MOST_AT_ONCE = 16, 8192
"""Slots that are walked as one: so many that hints and threads help, so few that their offers stay in the cache."""

SLOTS_FOR_THREADS = 8
"""A share of the rows from which work is shared (STEP_SPLIT) that so many slots are taken to be: they have edges."""

OFFERS_AHEAD = 16
"""Offers ahead at which a slot is asked for."""

OFFER_TO, OFFER_FROM, OFFER_VALUE, OFFER_WORDS = range(4)
"""An offer: to which slot (-1: it was not taken), from which, and what."""

(
    WALK_CTX,
    WALK_LOAD,
    WALK_TIME,
    WALK_ALL,
    WALK_MEMBER,
    WALK_KEY,
    WALK_FIRST,
    WALK_LAST,
    WALK_PHASE,
    WALK_OFFERS,
    WALK_OFFERS_N,
    WALK_LOOKED,
    WALK_WORDS,
) = range(13)
"""A share: forest, block and time; all shares, and which of them it is; a word for the key of look-ups; its part of the
queue; the phase; its offers, from word 1 of a block that grows; rows that it looked at.
"""

PHASE_ASK, PHASE_TAKE = range(2)


@inner
def _offer(share, s, t, y):
    offers = reserve(share, WALK_OFFERS, WALK_OFFERS_N, OFFER_WORDS, 1)
    n = ld(share, WALK_OFFERS_N)
    at = 1 + n * OFFER_WORDS
    st(offers, at + OFFER_TO, t)
    st(offers, at + OFFER_FROM, s)
    st(offers, at + OFFER_VALUE, y)
    st(share, WALK_OFFERS_N, n + 1)


@inner
def _ask_edges(share, ctx, load, rules, rule, s, time):
    """List the offers of one slot by one rule; the rows that were looked at."""
    low = ld(load, LOAD_LOW)
    node = low + s
    x = ld(load, slot_at(s) + SLOT_VALUE)
    key = ld(share, WALK_KEY)
    trace, column = edges_of(rules, rule, True)
    offers, y = offered(rules, rule, x, ~column)
    looked = 0
    for b in range(ld(trace, TRACE_COUNT)):
        batch = ld(ld(trace, TRACE_TABLE), b)
        data = ld(batch, BATCH_DATA)
        cap = ld(batch, BATCH_CAP)
        rows = ld(batch, BATCH_ROWS)
        plain = all_there(trace, batch, data, time)
        st(key, 0, node)
        i = find_key(batch, key, 1, 0, 1)
        first = i
        while i < rows and ld(data, i) == node:
            if column >= 0 or not offers:
                weight = weight_of(ctx, data, cap, i, column)
                offers, y = offered(rules, rule, x, weight)
                if not offers and fails(rules, rule, x, weight) and is_there(plain, trace, batch, data, i, time):
                    st(ld(ctx, FOREST_STEP), STEP_FAULT, FAULT_PATH)
            if offers:
                t = ld(data, cap + i) - low
                if plain or (improves(load, t, y) and is_there(plain, trace, batch, data, i, time)):
                    _offer(share, s, t, y)
            i += 1
        looked += i - first + 1
    return looked


@inner
def _ask(share):
    """List the offers of the share's part of the queue."""
    ctx = ld(share, WALK_CTX)
    load = ld(share, WALK_LOAD)
    rules = ld(ctx, FOREST_RULES)
    low = ld(load, LOAD_LOW)
    queue = queue_at(load)
    last = ld(share, WALK_LAST)
    looked = 0
    st(share, WALK_OFFERS_N, 0)
    for q in range(ld(share, WALK_FIRST), last):
        if q + FAR_AHEAD < last:
            hint_edges(ctx, low + ld(load, queue + q + FAR_AHEAD), 1, STAGE_INDEX)
        if q + NEAR_AHEAD < last:
            hint_edges(ctx, low + ld(load, queue + q + NEAR_AHEAD), 1, STAGE_ROWS)
        s = ld(load, queue + q)
        for r in range(ld(ctx, FOREST_NRULES)):
            looked += _ask_edges(share, ctx, load, rules, r * RULE_WORDS, s, ld(share, WALK_TIME))
    st(share, WALK_LOOKED, looked)
    return 0


@inner
def _take_from(load, offers, n, low, high):
    """Let slots [low, high) take the offers of a list that are better."""
    for k in range(n):
        if k + OFFERS_AHEAD < n:
            ahead = ld(offers, 1 + (k + OFFERS_AHEAD) * OFFER_WORDS + OFFER_TO)
            if low <= ahead < high:
                prefetch(load, slot_at(ahead))
        at = 1 + k * OFFER_WORDS
        t = ld(offers, at + OFFER_TO)
        if low <= t < high:
            y = ld(offers, at + OFFER_VALUE)
            if improves(load, t, y):
                s = ld(offers, at + OFFER_FROM)
                hand_on(load, s, ld(load, slot_at(s) + SLOT_VALUE), ld(load, slot_at(s) + SLOT_DEPTH), t, y)
            else:
                st(offers, at + OFFER_TO, -1)


@inner
def _take(share):
    """Let the share's slots take the best of all offers, in order."""
    load = ld(share, WALK_LOAD)
    shares = ld(share, WALK_ALL)
    n = size_of(shares)
    slots = ld(load, LOAD_SLOTS)
    low = slots * ld(share, WALK_MEMBER) // n
    high = slots * (ld(share, WALK_MEMBER) + 1) // n
    for k in range(n):
        other = ld(shares, k)
        _take_from(load, ld(other, WALK_OFFERS), ld(other, WALK_OFFERS_N), low, high)
    return 0


@task
def _work(share):
    return _ask(share) if ld(share, WALK_PHASE) == PHASE_ASK else _take(share)


@inner
def _run(shares, pool, phase):
    for k in range(size_of(shares)):
        st(ld(shares, k), WALK_PHASE, phase)
    if pool == 0:
        call_pointer(_work(), ld(shares, 0))
    else:
        together(pool, _work(), shares)


@shared
def start_walk(ctx, load, time):
    """Shares for walking queues as of a time."""
    n = members(ld(ld(ctx, FOREST_STEP), STEP_TEAM))
    shares = alloc_with(n, EVER)
    for k in range(n):
        share = alloc_with(WALK_WORDS, EVER)
        st(shares, k, share)
        st(share, WALK_CTX, ctx)
        st(share, WALK_LOAD, load)
        st(share, WALK_TIME, time)
        st(share, WALK_ALL, shares)
        st(share, WALK_MEMBER, k)
        st(share, WALK_KEY, alloc_with(1, EVER))
        offers = alloc_with(1 + LEAST_AT_ONCE * OFFER_WORDS, EVER)
        st(offers, 0, 1 + LEAST_AT_ONCE * OFFER_WORDS)
        st(share, WALK_OFFERS, offers)
        st(share, WALK_OFFERS_N, 0)
        st(share, WALK_LOOKED, 0)
    return shares


@inner
def end_walk(shares):
    """Give shares back; 0 is ignored."""
    if shares != 0:
        for k in range(size_of(shares)):
            share = ld(shares, k)
            free(ld(share, WALK_KEY))
            free(ld(share, WALK_OFFERS))
            free(share)
        free(shares)


@shared
def walk_queue(shares, end):
    """Walk from all slots of the queue before place `end`."""
    share = ld(shares, 0)
    ctx = ld(share, WALK_CTX)
    load = ld(share, WALK_LOAD)
    step = ld(ctx, FOREST_STEP)
    head = ld(load, LOAD_HEAD)
    n = size_of(shares)
    pool = ld(step, STEP_TEAM) if SLOTS_FOR_THREADS * (end - head) >= ld(step, STEP_SPLIT) else 0
    sharing = n if pool != 0 else 1
    for k in range(n):
        st(ld(shares, k), WALK_FIRST, head + (end - head) * min(k, sharing) // sharing)
        st(ld(shares, k), WALK_LAST, head + (end - head) * min(k + 1, sharing) // sharing)
        st(ld(shares, k), WALK_OFFERS_N, 0)
    _run(shares, pool, PHASE_ASK)
    if pool == 0:
        _take_from(load, ld(share, WALK_OFFERS), ld(share, WALK_OFFERS_N), 0, ld(load, LOAD_SLOTS))
    else:
        _run(shares, pool, PHASE_TAKE)
    st(load, LOAD_HEAD, end)
    looked = 0
    for k in range(sharing):
        offers = ld(ld(shares, k), WALK_OFFERS)
        for i in range(ld(ld(shares, k), WALK_OFFERS_N)):
            t = ld(offers, 1 + i * OFFER_WORDS + OFFER_TO)
            if t >= 0:
                enqueue(load, t)
        looked += ld(ld(shares, k), WALK_LOOKED)
    st(ctx, FOREST_FUEL, ld(ctx, FOREST_FUEL) - looked)
    return 0
