"""Persistence and garbage collection of nodes.

At the end of a step's program its new nodes become rows (code, label, low, high) of a trace, so that they are
committed, undone, written and restored with everything else (`keep_nodes`). A session that opens a directory fills its
table from that trace before it creates or looks up a node (`ready`): codes are hashes, so they are stable.

Operations leave more nodes behind than rows end up with. Between steps unreferenced ones are swept (`sweep_nodes`).
References are found without knowing which columns hold expressions: every word of the traces below the labels is looked
up as a code. A coincidental match keeps a node too many, at worst; the opposite error would be a wrong result. The rows
of swept nodes are retracted in the next step.
"""

from __future__ import annotations

from everview.kernels.build.native import entry, inner, operator, shared
from everview.kernels.memory import alloc, free, ld, raw_load, raw_store, reserve, st
from everview.kernels.operators.batcher import BUFFER_ROWS_AT, room
from everview.kernels.provenance.nodes import (
    FIRST_NODE,
    NODE_CODE,
    NODE_HIGH,
    NODE_LABEL,
    NODE_LOW,
    NODE_MARK,
    NODE_NEXT,
    NODE_WORDS,
    NODES_BATCHER,
    NODES_BUCKETS,
    NODES_BUCKETS_N,
    NODES_COMMITTED,
    NODES_COUNT,
    NODES_DEAD,
    NODES_DEAD_N,
    NODES_KEPT,
    NODES_LOADED,
    NODES_LOCK,
    NODES_MEMO,
    NODES_PEAK,
    NODES_ROOM,
    NODES_STACK,
    NODES_STACK_ROOM,
    NODES_STEP,
    NODES_TABLE,
    begin_nodes,
    clear_memo,
    enter,
    exit_,
    made,
    marked,
    new_stamp,
    node_word,
    place_of,
    rehash,
    take_back,
)
from everview.kernels.run.step import STEP_BASE, STEP_EPOCHS
from everview.kernels.trace.batch import BATCH_CAP, BATCH_COLS, BATCH_DATA, BATCH_ROWS, diff_at, free_batch
from everview.kernels.trace.read import collect_rows
from everview.kernels.trace.sort import sort_rows
from everview.kernels.trace.trace import NO_SINCE, TRACE_COUNT, TRACE_TABLE

ROW_OF_NODE = 4
"""Columns of a node as a row: its code, its label, the codes of low and high."""

EVERY_NODE = 2**62


@inner
def _node_row(ctx, place, block, at):
    """Write a node as a row at some word of a block."""
    st(block, at, node_word(ctx, place, NODE_CODE))
    st(block, at + 1, node_word(ctx, place, NODE_LABEL))
    st(block, at + 2, node_word(ctx, node_word(ctx, place, NODE_LOW), NODE_CODE))
    st(block, at + 3, node_word(ctx, node_word(ctx, place, NODE_HIGH), NODE_CODE))


@operator
def keep_nodes(ctx):
    """Compiled operator, behind all that makes nodes: those of the step become rows, swept ones are taken back."""
    first = ld(ctx, NODES_COMMITTED)
    made_now = ld(ctx, NODES_COUNT) - first
    dead = ld(ctx, NODES_DEAD_N)
    if ld(ctx, NODES_COUNT) > ld(ctx, NODES_PEAK):
        st(ctx, NODES_PEAK, ld(ctx, NODES_COUNT))
    if made_now + dead == 0:
        return 0
    step = ld(ctx, NODES_STEP)
    time = ld(step, STEP_BASE) + ld(step, STEP_EPOCHS)
    buffer = room(ld(ctx, NODES_BATCHER), 0, made_now + dead)
    at = BUFFER_ROWS_AT + ld(buffer, 0) * (ROW_OF_NODE + 2)
    for i in range(made_now):
        _node_row(ctx, first + i, buffer, at)
        st(buffer, at + ROW_OF_NODE, time)
        st(buffer, at + ROW_OF_NODE + 1, 1)
        at += ROW_OF_NODE + 2
    for i in range(dead):
        for c in range(ROW_OF_NODE):
            st(buffer, at + c, ld(ld(ctx, NODES_DEAD), 1 + i * ROW_OF_NODE + c))
        st(buffer, at + ROW_OF_NODE, time)
        st(buffer, at + ROW_OF_NODE + 1, -1)
        at += ROW_OF_NODE + 2
    st(buffer, 0, ld(buffer, 0) + made_now + dead)
    return 0


@operator
def undo_nodes(ctx):
    """The step failed: what it made is gone, whoever held the lock is too."""
    st(ctx, NODES_LOCK, 0)
    take_back(ctx, ld(ctx, NODES_COMMITTED))
    return 0


@operator
def settle_nodes(ctx):
    """The step is committed, with the rows that were taken back."""
    st(ctx, NODES_COMMITTED, ld(ctx, NODES_COUNT))
    st(ctx, NODES_DEAD_N, 0)
    return 0


@shared
def ready(ctx):
    """Take the nodes of the trace into the table, once, as committed ones: by falling labels, so that what is below a
    node is there before it.
    """
    if ld(ctx, NODES_LOADED) != 0:
        return 0
    st(ctx, NODES_LOADED, 1)
    batch = collect_rows(ld(ctx, NODES_KEPT), 0, 0, NO_SINCE, EVERY_NODE, 0)
    if batch == 0:
        return 0
    rows = ld(batch, BATCH_ROWS)
    data = ld(batch, BATCH_DATA)
    cap = ld(batch, BATCH_CAP)
    falling = alloc(rows * (ROW_OF_NODE + 1))
    for i in range(rows):
        at = i * (ROW_OF_NODE + 1)
        st(falling, at, -ld(data, cap + i))
        st(falling, at + 1, ld(data, 2 * cap + i))
        st(falling, at + 2, ld(data, 3 * cap + i))
        st(falling, at + 3, 0)
        st(falling, at + 4, diff_at(batch, data, i, 0))
    free_batch(batch)
    batch = sort_rows(falling, 0, ROW_OF_NODE + 1, 1, rows, ROW_OF_NODE - 1, 1, 1, 0)
    if batch == 0:
        return 0
    data = ld(batch, BATCH_DATA)
    cap = ld(batch, BATCH_CAP)
    for i in range(ld(batch, BATCH_ROWS)):
        low = place_of(ctx, ld(data, cap + i))
        high = place_of(ctx, ld(data, 2 * cap + i))
        if diff_at(batch, data, i, 0) > 0 and low >= 0 and high >= 0:
            made(ctx, -ld(data, i), low, high)
    free_batch(batch)
    st(ctx, NODES_COMMITTED, ld(ctx, NODES_COUNT))
    return 0


@inner
def _mark_trace(ctx, trace, stamp):
    """Mark what some word of a trace's rows names."""
    for b in range(ld(trace, TRACE_COUNT)):
        batch = ld(ld(trace, TRACE_TABLE), b)
        data = ld(batch, BATCH_DATA)
        cap = ld(batch, BATCH_CAP)
        for c in range(ld(batch, BATCH_COLS)):
            last = 0
            for i in range(ld(batch, BATCH_ROWS)):
                word = ld(data, c * cap + i)
                if word != last and word >= FIRST_NODE:
                    place = place_of(ctx, word)
                    if place >= 0:
                        marked(ctx, place, stamp, EVERY_NODE)
                last = word


@entry("int", "words")
def sweep_nodes(ctx, traces, n):
    """Forget the nodes that no row of some traces hangs on; how many stay. Between steps."""
    enter(ctx)
    ready(ctx)
    if ld(ctx, NODES_COUNT) <= FIRST_NODE:
        exit_(ctx)
        return 0
    stamp = new_stamp(ctx)
    for t in range(n):
        _mark_trace(ctx, raw_load(traces, t), stamp)
    table = ld(ctx, NODES_TABLE)
    count = ld(ctx, NODES_COUNT)
    lost = 0
    for place in range(FIRST_NODE, count):
        if ld(table, place * NODE_WORDS + NODE_MARK) != stamp:
            lost += 1
    dead = reserve(ctx, NODES_DEAD, NODES_DEAD_N, ROW_OF_NODE, lost)
    at = 1 + ld(ctx, NODES_DEAD_N) * ROW_OF_NODE
    for place in range(FIRST_NODE, count):
        if ld(table, place * NODE_WORDS + NODE_MARK) != stamp:
            _node_row(ctx, place, dead, at)
            at += ROW_OF_NODE
    st(ctx, NODES_DEAD_N, ld(ctx, NODES_DEAD_N) + lost)
    kept = FIRST_NODE
    for place in range(FIRST_NODE):
        st(table, place * NODE_WORDS + NODE_NEXT, place)
    for place in range(FIRST_NODE, count):  # what is below a node stands before it, and has its new place in NEXT
        word = place * NODE_WORDS
        if ld(table, word + NODE_MARK) == stamp:
            to = kept * NODE_WORDS
            st(table, to + NODE_CODE, ld(table, word + NODE_CODE))
            st(table, to + NODE_LABEL, ld(table, word + NODE_LABEL))
            st(table, to + NODE_LOW, ld(table, ld(table, word + NODE_LOW) * NODE_WORDS + NODE_NEXT))
            st(table, to + NODE_HIGH, ld(table, ld(table, word + NODE_HIGH) * NODE_WORDS + NODE_NEXT))
            st(table, to + NODE_MARK, stamp)
            st(table, word + NODE_NEXT, kept)
            kept += 1
    st(ctx, NODES_COUNT, kept)
    st(ctx, NODES_COMMITTED, kept)
    rehash(ctx, ld(ctx, NODES_BUCKETS_N))
    clear_memo(ctx)
    exit_(ctx)
    return kept - FIRST_NODE


@entry("int", "int")
def below(ctx, code):
    """How many nodes an expression has; -1 if nobody made it."""
    enter(ctx)
    ready(ctx)
    place = place_of(ctx, code)
    count = place if place < 0 else marked(ctx, place, new_stamp(ctx), EVERY_NODE)
    exit_(ctx)
    return count


@entry("int", "int", "matrix")
def copy_below(ctx, code, out, n, width):
    """Write so many nodes of an expression as rows, its own first."""
    enter(ctx)
    place = place_of(ctx, code)
    if place >= FIRST_NODE and n > 0:
        stamp = new_stamp(ctx)
        table = ld(ctx, NODES_TABLE)
        raw_store(out, 0, place)
        st(table, place * NODE_WORDS + NODE_MARK, stamp)
        found = 1
        i = 0
        while i < found:
            at = raw_load(out, i * width) * NODE_WORDS
            for side in (NODE_LOW, NODE_HIGH):
                under = ld(table, at + side)
                if under >= FIRST_NODE and ld(table, under * NODE_WORDS + NODE_MARK) != stamp and found < n:
                    st(table, under * NODE_WORDS + NODE_MARK, stamp)
                    raw_store(out, found * width, under)
                    found += 1
            raw_store(out, i * width, ld(table, at + NODE_CODE))
            raw_store(out, i * width + 1, ld(table, at + NODE_LABEL))
            raw_store(out, i * width + 2, ld(table, ld(table, at + NODE_LOW) * NODE_WORDS + NODE_CODE))
            raw_store(out, i * width + 3, ld(table, ld(table, at + NODE_HIGH) * NODE_WORDS + NODE_CODE))
            i += 1
    exit_(ctx)
    return 0


@entry("int", "words")
def below_words(ctx, words, n):
    """How many nodes there are in the expressions that some words are codes of; other words are passed over."""
    enter(ctx)
    ready(ctx)
    stamp = new_stamp(ctx)
    count = 0
    for i in range(n):
        if raw_load(words, i) >= FIRST_NODE:
            place = place_of(ctx, raw_load(words, i))
            if place >= 0:
                count += marked(ctx, place, stamp, EVERY_NODE)
    exit_(ctx)
    return count


@entry("int", "words", "matrix")
def copy_below_words(ctx, words, n, out, n_out, width):
    """Write them as rows."""
    enter(ctx)
    stamp = new_stamp(ctx)
    table = ld(ctx, NODES_TABLE)
    found = 0
    done = 0
    for i in range(n):
        place = place_of(ctx, raw_load(words, i)) if raw_load(words, i) >= FIRST_NODE else -1
        if place < 0 or ld(table, place * NODE_WORDS + NODE_MARK) == stamp:
            continue
        st(table, place * NODE_WORDS + NODE_MARK, stamp)
        raw_store(out, found * width, place)
        found += 1
        while done < found:
            at = raw_load(out, done * width) * NODE_WORDS
            for side in (NODE_LOW, NODE_HIGH):
                under = ld(table, at + side)
                if under >= FIRST_NODE and ld(table, under * NODE_WORDS + NODE_MARK) != stamp and found < n_out:
                    st(table, under * NODE_WORDS + NODE_MARK, stamp)
                    raw_store(out, found * width, under)
                    found += 1
            raw_store(out, done * width, ld(table, at + NODE_CODE))
            raw_store(out, done * width + 1, ld(table, at + NODE_LABEL))
            raw_store(out, done * width + 2, ld(table, ld(table, at + NODE_LOW) * NODE_WORDS + NODE_CODE))
            raw_store(out, done * width + 3, ld(table, ld(table, at + NODE_HIGH) * NODE_WORDS + NODE_CODE))
            done += 1
    exit_(ctx)
    return found


@entry("int", "matrix")
def take_nodes(ctx, rows, n, width):
    """Nodes that another shard made, by falling labels: they are as if they had been made here."""
    enter(ctx)
    ready(ctx)
    for i in range(n):
        low = place_of(ctx, raw_load(rows, i * width + 2))
        high = place_of(ctx, raw_load(rows, i * width + 3))
        if low >= 0 and high >= 0:
            made(ctx, raw_load(rows, i * width + 1), low, high)
    exit_(ctx)
    return 0


@entry("int", allocates=False)
def settle_nodes_now(ctx):
    """A step that shards ran together is committed."""
    st(ctx, NODES_COMMITTED, ld(ctx, NODES_COUNT))
    st(ctx, NODES_DEAD_N, 0)
    return 0


NODES_BEGIN, NODES_DROP, NODES_BYTES = range(3)


@entry("int", "int")
def about_nodes(what, ctx):
    """Begin a table, give its memory back, or say how many bytes it has."""
    if what == NODES_BEGIN:
        begin_nodes(ctx)
        return 0
    if what == NODES_DROP:
        for field in (NODES_TABLE, NODES_BUCKETS, NODES_MEMO, NODES_STACK, NODES_DEAD):
            free(ld(ctx, field))
            st(ctx, field, 0)
        return 0
    words = ld(ctx, NODES_ROOM) * NODE_WORDS + ld(ctx, NODES_BUCKETS_N) + ld(ctx, NODES_STACK_ROOM)
    if ld(ctx, NODES_DEAD) != 0:
        words += ld(ld(ctx, NODES_DEAD), 0)
    return 8 * words
