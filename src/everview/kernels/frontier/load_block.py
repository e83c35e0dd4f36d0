"""The block in which a forest is grown at once (`bulk_load`): the state of every slot, and a queue of them.

What one slot has stands together, so that a neighbour's offer waits for one line of the cache.
"""

from __future__ import annotations

from everview.kernels.build.native import inner
from everview.kernels.frontier.forest import NO_PARENT, WORST_VALUE, depth_below
from everview.kernels.memory import ld, st

(
    LOAD_STAGE,
    LOAD_AT,
    LOAD_LOW,
    LOAD_SLOTS,
    LOAD_QUEUED,
    LOAD_HEAD,
    LOAD_TAIL,
    LOAD_STANDING,
    LOAD_DIRECT,
    LOAD_WORDS,
) = range(10)
"""The block: the stage, and how far it is; the smallest node, how many slots; whether a queue does; where the queue
begins and ends; how many entries there will be; whether every slot has one. Then the slots, SLOT_WORDS each; then a
word for each slot: the queue, and, when all are walked, the numbers of entries.
"""

SLOT_VALUE, SLOT_PARENT, SLOT_DEPTH, SLOT_BASE, SLOT_WORDS = range(5)
"""The best value so far, and the slot it is from; its depth; the source's own value (WORST_VALUE: there is none)."""


@inner
def load_words(slots):
    """The size of a block for so many slots."""
    return LOAD_WORDS + (SLOT_WORDS + 1) * slots


@inner
def slot_at(s):
    """The first word of a slot."""
    return LOAD_WORDS + SLOT_WORDS * s


@inner
def queue_at(load):
    """The first word of the queue."""
    return slot_at(ld(load, LOAD_SLOTS))


@inner
def improves(load, t, y):
    """Whether an offer is better than what a slot has."""
    known = ld(load, slot_at(t) + SLOT_VALUE)
    return y < known or (y == WORST_VALUE and ld(load, slot_at(t) + SLOT_PARENT) == NO_PARENT)


@inner
def hand_on(load, s, x, depth, t, y):
    """Slot t takes the offer y of slot s, which has the value x at a depth."""
    at = slot_at(t)
    st(load, at + SLOT_VALUE, y)
    st(load, at + SLOT_PARENT, s)
    st(load, at + SLOT_DEPTH, depth_below(x, y, depth))


@inner
def enqueue(load, t):
    tail = ld(load, LOAD_TAIL)
    st(load, queue_at(load) + tail, t)
    st(load, LOAD_TAIL, tail + 1)
