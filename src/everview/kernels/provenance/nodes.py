"""Boolean expressions as numbers: reduced ordered decision diagrams, hash-consed.

An expression over variables is a node [label, low, high]: "if the variable is false then low, else high". Variables are
identified by their *labels*, and a node's label is less than those below it, so every function has exactly one diagram
(Bryant, 1986). Equal nodes are shared (`made`), so **two expressions are equivalent exactly if they are the same
number**: rows with expressions are consolidated, compared and arranged like any others.

A node has two numbers. Its *place* in the table is used by the algorithms here. Its *code* is what rows hold: a 63-bit
hash of its label and of the codes of low and high, so it is the same in every process, on every shard, after every
opening, without coordination. Two different nodes with one code would give wrong results; this is checked whenever a
node is created, and stops the step (FAULT_CLASH).

    FALSE = 0, TRUE = 1     the constants: code and place
    BEYOND = 2           an expression beyond the node budget: larger than everything, so whatever it is joined or
                            united with is too large as well, and a loop still converges

Nodes are immutable. Those of the current step are after NODES_COMMITTED; undoing it removes them from the end, so that
each is the first of its chain. Results of operations are cached in a table of fixed size (NODES_MEMO), where newer ones
displace older ones.

Hazards: creating a node can move the table, so read NODES_TABLE again after every `made`. Two threads may work on rows
at once: whoever creates nodes holds the lock (`enter`, `exit_`), and a call that exits for lack of memory leaves it
locked, until the step is undone.
"""

from __future__ import annotations

from everview.kernels.build.native import inner, shared
from everview.kernels.frontier.rollback import OTHER_WORDS
from everview.kernels.memory import add_atomically, alloc, free, grow, ld, st
from everview.kernels.run.step import STEP_FAULT

FALSE, TRUE, BEYOND, FIRST_NODE = range(4)

(
    NODES_TABLE,
    NODES_COUNT,
    NODES_ROOM,
    NODES_COMMITTED,
    NODES_BUCKETS,
    NODES_BUCKETS_N,
    NODES_MEMO,
    NODES_STACK,
    NODES_STACK_ROOM,
    NODES_STAMP,
    NODES_LOCK,
    NODES_MOST,
    NODES_STEP,
    NODES_BATCHER,
    NODES_DEAD,
    NODES_DEAD_N,
    NODES_MADE,
    NODES_PEAK,
    NODES_KEPT,
    NODES_LOADED,
    NODES_WORDS,
) = range(OTHER_WORDS, OTHER_WORDS + 21)
"""A context: the nodes, by place, how many there are (constants included), room for how many, how many of them are from
steps that are complete; BUCKETS finds a place by its code. STACK is what an operation still has to do; STAMP the last
one that nodes were marked with. MOST: how many nodes there may be. STEP: the block of the step under way. BATCHER,
DEAD, KEPT, LOADED: see `node_storage`. MADE and PEAK: how many were ever made, and were there at once.
"""

NODE_CODE, NODE_LABEL, NODE_LOW, NODE_HIGH, NODE_NEXT, NODE_MARK, NODE_WORDS = range(7)

MEMO_SIZE = 1 << 15
"""Results that are remembered; two words each."""

OP_AND, OP_OR = 1, 2

NO_LABEL = 2**63 - 1
"""The label of constants: behind all others."""

FAULT_CLASH, FAULT_NODES, FAULT_UNKNOWN = 11, 12, 13
"""STEP_FAULT: two nodes have one code; there are too many; a row has a code that nobody made."""


@inner
def enter(ctx):
    """Wait until no other thread makes nodes."""
    while add_atomically(ctx, NODES_LOCK, 1) != 0:
        add_atomically(ctx, NODES_LOCK, -1)


@inner
def exit_(ctx):
    """Others may."""
    add_atomically(ctx, NODES_LOCK, -1)


@inner
def mixed(a, b):
    """Two words as one, every bit of which depends on all bits of both."""
    h = a * -7046029254386353131 + b
    h ^= (h >> 30) & 0x3FFFFFFFF
    h *= -4658895280553007687
    h ^= (h >> 27) & 0x1FFFFFFFFF
    h *= -7723592293110705685
    h ^= (h >> 31) & 0x1FFFFFFFF
    return h


@inner
def code_of(label, low, high):
    """The code of a node, by the codes of its two sides."""
    h = mixed(mixed(mixed(0x45565052, label), low), high) & 0x7FFFFFFFFFFFFFFF
    return h if h >= 16 else h + 16


@inner
def node_word(ctx, place, word):
    return ld(ld(ctx, NODES_TABLE), place * NODE_WORDS + word)


@inner
def fault(ctx, what):
    """The step cannot be committed."""
    step = ld(ctx, NODES_STEP)
    if ld(step, STEP_FAULT) == 0:
        st(step, STEP_FAULT, what)


@shared
def begin_nodes(ctx):
    """Make room for the first nodes; the constants are there."""
    table = alloc(64 * NODE_WORDS)
    for place in range(FIRST_NODE):
        st(table, place * NODE_WORDS + NODE_CODE, place)
        st(table, place * NODE_WORDS + NODE_LABEL, NO_LABEL)
        st(table, place * NODE_WORDS + NODE_LOW, place)
        st(table, place * NODE_WORDS + NODE_HIGH, place)
        st(table, place * NODE_WORDS + NODE_NEXT, -1)
        st(table, place * NODE_WORDS + NODE_MARK, 0)
    st(ctx, NODES_TABLE, table)
    st(ctx, NODES_ROOM, 64)
    st(ctx, NODES_COUNT, FIRST_NODE)
    st(ctx, NODES_COMMITTED, FIRST_NODE)
    return 0


@inner
def clear_memo(ctx):
    """Forget results: places have changed."""
    memo = ld(ctx, NODES_MEMO)
    if memo != 0:
        for i in range(MEMO_SIZE):
            st(memo, 2 * i, -1)


@shared
def rehash(ctx, buckets):
    """Have so many chains (a power of two), with every node in one, the newest first."""
    old = ld(ctx, NODES_BUCKETS)
    new = alloc(buckets)
    st(ctx, NODES_BUCKETS, new)
    st(ctx, NODES_BUCKETS_N, buckets)
    free(old)
    for i in range(buckets):
        st(new, i, -1)
    table = ld(ctx, NODES_TABLE)
    for place in range(FIRST_NODE, ld(ctx, NODES_COUNT)):
        at = ld(table, place * NODE_WORDS + NODE_CODE) & (buckets - 1)
        st(table, place * NODE_WORDS + NODE_NEXT, ld(new, at))
        st(new, at, place)
    return 0


@shared
def place_of(ctx, code):
    """The place of the node with a code; -1 if there is none."""
    if 0 <= code < FIRST_NODE:
        return code
    if ld(ctx, NODES_BUCKETS_N) == 0:
        return -1
    table = ld(ctx, NODES_TABLE)
    place = ld(ld(ctx, NODES_BUCKETS), code & (ld(ctx, NODES_BUCKETS_N) - 1))
    while place >= 0 and ld(table, place * NODE_WORDS + NODE_CODE) != code:
        place = ld(table, place * NODE_WORDS + NODE_NEXT)
    return place


@inner
def known_place(ctx, code):
    """The place of the node with a code that a row has."""
    place = place_of(ctx, code)
    if place < 0:
        fault(ctx, FAULT_UNKNOWN)
        return BEYOND
    return place


@shared
def made(ctx, label, low, high):
    """The place of a node (low and high by their places), which is made if it is not there."""
    if low == high:
        return low
    if low == BEYOND or high == BEYOND:
        return BEYOND
    code = code_of(label, node_word(ctx, low, NODE_CODE), node_word(ctx, high, NODE_CODE))
    place = place_of(ctx, code)
    if place >= 0:
        if (
            node_word(ctx, place, NODE_LABEL) != label
            or node_word(ctx, place, NODE_LOW) != low
            or node_word(ctx, place, NODE_HIGH) != high
        ):
            fault(ctx, FAULT_CLASH)
        return place
    place = ld(ctx, NODES_COUNT)
    if place >= ld(ctx, NODES_MOST):
        fault(ctx, FAULT_NODES)
        return BEYOND
    if place >= ld(ctx, NODES_ROOM):
        room = 2 * ld(ctx, NODES_ROOM)
        st(ctx, NODES_TABLE, grow(ld(ctx, NODES_TABLE), room * NODE_WORDS, place * NODE_WORDS))
        st(ctx, NODES_ROOM, room)
    if place >= ld(ctx, NODES_BUCKETS_N):
        rehash(ctx, max(2 * ld(ctx, NODES_BUCKETS_N), 128))
    table = ld(ctx, NODES_TABLE)
    at = code & (ld(ctx, NODES_BUCKETS_N) - 1)
    st(table, place * NODE_WORDS + NODE_CODE, code)
    st(table, place * NODE_WORDS + NODE_LABEL, label)
    st(table, place * NODE_WORDS + NODE_LOW, low)
    st(table, place * NODE_WORDS + NODE_HIGH, high)
    st(table, place * NODE_WORDS + NODE_NEXT, ld(ld(ctx, NODES_BUCKETS), at))
    st(table, place * NODE_WORDS + NODE_MARK, 0)
    st(ld(ctx, NODES_BUCKETS), at, place)
    st(ctx, NODES_COUNT, place + 1)
    st(ctx, NODES_MADE, ld(ctx, NODES_MADE) + 1)
    return place


@inner
def stack_for(ctx, words):
    """The stack, with room for so many words."""
    if words > ld(ctx, NODES_STACK_ROOM):
        room = max(2 * words, 1024)
        st(ctx, NODES_STACK, grow(ld(ctx, NODES_STACK), room, ld(ctx, NODES_STACK_ROOM)))
        st(ctx, NODES_STACK_ROOM, room)
    return ld(ctx, NODES_STACK)


@inner
def _simple(op, a, b):
    """The result where it is plain; -1 where it is not."""
    if a == BEYOND or b == BEYOND:
        return BEYOND
    if a == b:
        return a
    if op == OP_AND:
        if a == FALSE or b == FALSE:
            return FALSE
        if a == TRUE:
            return b
        if b == TRUE:
            return a
    else:
        if a == TRUE or b == TRUE:
            return TRUE
        if a == FALSE:
            return b
        if b == FALSE:
            return a
    return -1


@shared
def applied(ctx, op, a, b):
    """The conjunction or disjunction of two nodes, by places: Bryant's `apply` with a stack of its own.

    A frame is (a, b, what is done of it, the result of its low side).
    """
    if ld(ctx, NODES_MEMO) == 0:
        st(ctx, NODES_MEMO, alloc(2 * MEMO_SIZE))
        clear_memo(ctx)
    memo = ld(ctx, NODES_MEMO)
    depth = 0
    result = -1
    stack = stack_for(ctx, 4)
    st(stack, 0, a)
    st(stack, 1, b)
    st(stack, 2, 0)
    while depth >= 0:
        stack = stack_for(ctx, 4 * (depth + 2))
        at = 4 * depth
        a = ld(stack, at)
        b = ld(stack, at + 1)
        done = ld(stack, at + 2)
        if done == 0:
            result = _simple(op, a, b)
            if result >= 0:
                depth -= 1
                continue
            if a > b:
                a, b = b, a
                st(stack, at, a)
                st(stack, at + 1, b)
        key = (a << 33) | (b << 2) | op
        slot = 2 * (mixed(key, op) & (MEMO_SIZE - 1))
        if done == 0 and ld(memo, slot) == key:
            result = ld(memo, slot + 1)
            depth -= 1
            continue
        label_a = node_word(ctx, a, NODE_LABEL)
        label_b = node_word(ctx, b, NODE_LABEL)
        label = min(label_a, label_b)
        if done == 2:
            result = made(ctx, label, ld(stack, at + 3), result)
            st(memo, slot, key)
            st(memo, slot + 1, result)
            depth -= 1
            continue
        side = NODE_LOW
        if done == 1:
            st(stack, at + 3, result)
            side = NODE_HIGH
        st(stack, at + 2, done + 1)
        st(stack, at + 4, node_word(ctx, a, side) if label_a == label else a)
        st(stack, at + 5, node_word(ctx, b, side) if label_b == label else b)
        st(stack, at + 6, 0)
        depth += 1
    return result


@shared
def marked(ctx, place, stamp, most):
    """Mark the nodes below and at a place that do not have this stamp; how many, or more than `most` as soon as it is
    more.
    """
    if place < FIRST_NODE or node_word(ctx, place, NODE_MARK) == stamp:
        return 0
    count = 1
    n = 1
    stack = stack_for(ctx, 1)
    table = ld(ctx, NODES_TABLE)
    st(stack, 0, place)
    st(table, place * NODE_WORDS + NODE_MARK, stamp)
    while n > 0 and count <= most:
        n -= 1
        place = ld(stack, n)
        stack = stack_for(ctx, n + 2)
        for side in (NODE_LOW, NODE_HIGH):
            below = ld(table, place * NODE_WORDS + side)
            if below >= FIRST_NODE and ld(table, below * NODE_WORDS + NODE_MARK) != stamp:
                st(table, below * NODE_WORDS + NODE_MARK, stamp)
                st(stack, n, below)
                n += 1
                count += 1
    return count


@inner
def new_stamp(ctx):
    """A stamp that no node has."""
    st(ctx, NODES_STAMP, ld(ctx, NODES_STAMP) + 1)
    return ld(ctx, NODES_STAMP)


@inner
def bounded(ctx, place, most):
    """The node at a place, or BEYOND if its expression has more than so many."""
    if place >= FIRST_NODE and marked(ctx, place, new_stamp(ctx), most) > most:
        return BEYOND
    return place


@shared
def take_back(ctx, count):
    """Only the first `count` nodes stay: the others were made by a step that failed."""
    if count < ld(ctx, NODES_COUNT):
        table = ld(ctx, NODES_TABLE)
        buckets = ld(ctx, NODES_BUCKETS)
        mask = ld(ctx, NODES_BUCKETS_N) - 1
        place = ld(ctx, NODES_COUNT) - 1
        while place >= count:
            at = ld(table, place * NODE_WORDS + NODE_CODE) & mask
            st(buckets, at, ld(table, place * NODE_WORDS + NODE_NEXT))
            place -= 1
        st(ctx, NODES_COUNT, count)
        clear_memo(ctx)
    return 0
