"""The Python side's primitives: creating, filling, reading and freeing kernel structures."""

from __future__ import annotations

import numpy as np

from everview.kernels.build.native import CALL_PYTHON, DEBUG, entry, inner, operator, task
from everview.kernels.early_exit import attempt, leave
from everview.kernels.expressions.vm import VM_ROWS
from everview.kernels.memory import alloc, call_number, free, ld, raw_load, raw_store, st, zeros
from everview.kernels.operators.arrange import (
    ARRANGE_BATCHER,
    ARRANGE_PRESET,
    ARRANGE_STEP,
    ARRANGE_TRACE,
    TIMES_IN_LOOP,
    TIMES_NOW,
    emit,
)
from everview.kernels.operators.batcher import (
    BATCHER_STEP,
    BATCHER_WAKES,
    BUFFER_ROWS_AT,
    append_rows,
    free_batcher,
    new_batcher,
    room,
    wake_taker,
)
from everview.kernels.operators.join import JOIN_STREAM, join_all
from everview.kernels.operators.stream import (
    STREAM_COLS,
    STREAM_N,
    STREAM_REGS,
    STREAM_TAIL,
    flush,
    flush_full,
    free_stream,
    new_stream,
)
from everview.kernels.reduce.context import (
    REDUCE_ANSWERS,
    REDUCE_ANSWERS_N,
    REDUCE_CURSORS,
    REDUCE_EPOCH_LIST,
    REDUCE_FOUND,
    REDUCE_OUT,
    REDUCE_REQUESTS,
    REDUCE_REQUESTS_N,
)
from everview.kernels.run.ready import READY_BITS, wake_all
from everview.kernels.run.scope import free_scope, new_scope
from everview.kernels.run.step import STEP_NTOUCHED, STEP_READY, STEP_READY_WORDS, STEP_TOUCHED, STEP_WAKES
from everview.kernels.trace.batch import BATCH_CAP, BATCH_COLS, BATCH_DATA, BATCH_ROWS, diff_at, time_at
from everview.kernels.trace.sort import sort_columns
from everview.kernels.trace.trace import (
    TRACE_COUNT,
    TRACE_DELTA,
    TRACE_PLACE,
    TRACE_TABLE,
    TRACE_TOUCHED,
    TRACE_WAKES,
    compact,
    free_trace,
    new_trace,
    trace_rows,
    trace_words,
)


@inner
def _replay_trace(trace, stream, nested):
    """Send a trace's whole history down a stream (to the one new sink it has), as coming in this step."""
    for b in range(ld(trace, TRACE_COUNT)):
        emit(stream, ld(ld(trace, TRACE_TABLE), b), TIMES_IN_LOOP if nested != 0 else TIMES_NOW)


@task
def _join_all(ctx):
    join_all(ctx)
    flush(ld(ctx, JOIN_STREAM))
    return 0


@inner
def _replay_join(ctx, stream):
    """Send a join's whole past output down another stream."""
    own = ld(ctx, JOIN_STREAM)
    st(ctx, JOIN_STREAM, stream)
    code = attempt(_join_all(), ctx, call_number())
    st(ctx, JOIN_STREAM, own)
    if code != 0:
        leave(code)


(
    MAKE_BLOCK,
    DROP_BLOCK,
    MAKE_TRACE,
    DROP_TRACE,
    COMPACT_TRACE,
    REPLAY_TRACE,
    REPLAY_JOIN,
    DROP_SCOPE,
    MAKE_BATCHER,
    DROP_BATCHER,
    MAKE_STREAM,
    WIDEN_STREAM,
    DROP_STREAM,
    DROP_REDUCE,
) = range(14)


@entry("int", "int", "int", "int", "int", "int", "int")
def _act(what, a, b, c, d, e, f):
    """The compiled side of the functions below: one kernel, because each adds to the start-up time."""
    if what == MAKE_BLOCK:
        return zeros(a)
    if what == MAKE_TRACE:
        return new_trace(a, b, c, d, e, f)
    if what == MAKE_BATCHER:
        return new_batcher(a, b)
    if what == MAKE_STREAM:
        return new_stream(a, b, c)
    if what == DROP_BLOCK:
        free(a)
    elif what == DROP_TRACE:
        free_trace(a)
    elif what == COMPACT_TRACE:
        compact(a)
    elif what == REPLAY_TRACE:
        _replay_trace(a, b, c)
    elif what == REPLAY_JOIN:
        _replay_join(a, b)
    elif what == DROP_SCOPE:
        free_scope(a)
    elif what == DROP_BATCHER:
        free_batcher(a)
    elif what == WIDEN_STREAM:
        registers = alloc(max(b, ld(a, STREAM_COLS), 1) * VM_ROWS)
        free(ld(a, STREAM_REGS))
        st(a, STREAM_REGS, registers)
    elif what == DROP_STREAM:
        free_stream(a)
    elif what == DROP_REDUCE:
        for field in (REDUCE_CURSORS, REDUCE_FOUND, REDUCE_EPOCH_LIST, REDUCE_OUT, REDUCE_REQUESTS, REDUCE_ANSWERS):
            free(ld(a, field))
            st(a, field, 0)
    return 0


def make_block(words: int) -> int:
    """A new block of zeros."""
    return _act(MAKE_BLOCK, words, 0, 0, 0, 0, 0)  # type: ignore[no-any-return]


def drop_block(block: int) -> None:
    """Give a block back."""
    _act(DROP_BLOCK, block, 0, 0, 0, 0, 0)


def make_trace(cols: int, diffs: int, keep: int, since: int, effort: int, stateless: int) -> int:
    """See `trace.new_trace`."""
    return _act(MAKE_TRACE, cols, diffs, keep, since, effort, stateless)  # type: ignore[no-any-return]


def drop_trace(trace: int) -> None:
    """See `trace.free_trace`."""
    _act(DROP_TRACE, trace, 0, 0, 0, 0, 0)


def compact_trace(trace: int) -> None:
    """See `trace.compact`."""
    _act(COMPACT_TRACE, trace, 0, 0, 0, 0, 0)


def replay_trace(trace: int, stream: int, nested: int) -> None:
    """Send a trace's whole history down a stream (to its one new sink), at this step's time."""
    _act(REPLAY_TRACE, trace, stream, nested, 0, 0, 0)


def replay_join(context: int, stream: int) -> None:
    """Send a join's whole past output down another stream."""
    _act(REPLAY_JOIN, context, stream, 0, 0, 0, 0)


def drop_scope(scope: int) -> None:
    """See `scope.free_scope`."""
    _act(DROP_SCOPE, scope, 0, 0, 0, 0, 0)


def make_batcher(width: int, scope: int) -> int:
    """See `batcher.new_batcher`."""
    return _act(MAKE_BATCHER, width, scope, 0, 0, 0, 0)  # type: ignore[no-any-return]


def drop_batcher(batcher: int) -> None:
    """See `batcher.free_batcher`."""
    _act(DROP_BATCHER, batcher, 0, 0, 0, 0, 0)


def make_stream(cols: int, registers: int, step: int) -> int:
    """See `stream.new_stream`."""
    return _act(MAKE_STREAM, cols, registers, step, 0, 0, 0)  # type: ignore[no-any-return]


def widen_stream(stream: int, registers: int) -> None:
    """Make room for programs with more registers."""
    _act(WIDEN_STREAM, stream, registers, 0, 0, 0, 0)


def drop_stream(stream: int) -> None:
    """See `stream.free_stream`."""
    _act(DROP_STREAM, stream, 0, 0, 0, 0, 0)


def drop_reduce(context: int) -> None:
    """Give back the scratch blocks of a reduction."""
    _act(DROP_REDUCE, context, 0, 0, 0, 0, 0)


def batch_rows(batch: int) -> int:
    """Number of rows of a batch; 0 for no batch."""
    return int(peek(batch, BATCH_ROWS)) if batch else 0


def requested(context: int) -> int:
    """Number of request rows of a Python reduction."""
    return int(peek(context, REDUCE_REQUESTS_N))


@entry("words", brief=True)
def make_filled(values, n):
    """A new block with the given words."""
    block = alloc(max(n, 1))
    for i in range(n):
        st(block, i, raw_load(values, i))
    return block


@entry("int", "int", "words", "int", "int", brief=True)
def replace_list(block, field, words, n, count_field, count):
    """Replace a block's list and its length, freeing the old one. It is one call, so an asynchronous exception arrives
    before or after all of it.
    """
    new = alloc(max(n, 1))
    for i in range(n):
        st(new, i, raw_load(words, i))
    old = ld(block, field)
    st(block, field, new)
    st(block, count_field, count)
    free(old)
    return 0


@entry("int", "int", "words", "words", "words")
def replace_wakes(step, instructions, wakes, n, batchers, nbatchers, traces, ntraces):
    """Write down who has to be visited for what, between steps, for a program of so many instructions (0: it visits
    all); see `everview.kernels.run.ready`. `wakes` are the lists; `batchers` and `traces`, in the executor's order, are
    pairs of an address and where its list begins. All instructions are ready. One call, as `replace_list`.
    """
    bits = 0
    words = (instructions + READY_BITS - 1) // READY_BITS
    if instructions > 0:
        bits = alloc(words)
    lists = alloc(max(n, 1))
    touched = alloc(max(ntraces // 2, 1))
    for i in range(n):
        st(lists, i, raw_load(wakes, i))
    for field, block in ((STEP_READY, bits), (STEP_WAKES, lists), (STEP_TOUCHED, touched)):
        free(ld(step, field))
        st(step, field, block)
    st(step, STEP_READY_WORDS, words)
    st(step, STEP_NTOUCHED, 0)
    wake_all(step)
    for i in range(nbatchers // 2):
        st(raw_load(batchers, 2 * i), BATCHER_STEP, step)
        st(raw_load(batchers, 2 * i), BATCHER_WAKES, raw_load(batchers, 2 * i + 1))
    for i in range(ntraces // 2):
        trace = raw_load(traces, 2 * i)
        st(trace, TRACE_PLACE, i)
        st(trace, TRACE_TOUCHED, 0)
        st(trace, TRACE_WAKES, raw_load(traces, 2 * i + 1))
    return 0


@entry("int", "int", brief=True, allocates=False)
def peek(block, index):
    """A word of a block."""
    return ld(block, index)


@entry("int", "int", "int", brief=True, allocates=False)
def poke(block, index, value):
    """Set a word of a block."""
    st(block, index, value)
    return 0


@entry("int", "words", brief=True, allocates=False)
def _measure(trace, out, _n):
    raw_store(out, 0, ld(trace, TRACE_COUNT))
    raw_store(out, 1, trace_rows(trace))
    raw_store(out, 2, 8 * trace_words(trace))
    return 0


def measure_trace(trace: int) -> tuple[int, int, int]:
    """(batches, updates, bytes) held by a trace."""
    out = np.empty(3, dtype=np.int64)
    _measure(trace, out)
    batches, updates, size = out.tolist()
    return batches, updates, size


@entry("int", "int", "int", "int", "words")
def make_scope(parent, coords, outer, unit, fields, n):
    """See `scope.new_scope`."""
    block = alloc(n)
    for i in range(n):
        st(block, i, raw_load(fields, i))
    return new_scope(parent, coords, outer, unit, block, n)


@entry("int", "words", "int", brief=True)
def push_rows(batcher, words, _n, rows):
    """Append rows, given as consecutive words (columns, time, diff), to a batcher outside loops."""
    append_rows(batcher, words, rows)
    return 0


@entry("int", "matrix", "int", "int")
def push_columns(batcher, columns, cols, n, time, diff):
    """Append rows given as columns, all at one time and with one diff, to an batcher outside loops."""
    buffer = room(batcher, 0, n)
    at = BUFFER_ROWS_AT + ld(buffer, 0) * (cols + 2)
    for i in range(n):
        for c in range(cols):
            st(buffer, at + i * (cols + 2) + c, raw_load(columns, c * n + i))
        st(buffer, at + i * (cols + 2) + cols, time)
        st(buffer, at + i * (cols + 2) + cols + 1, diff)
    st(buffer, 0, ld(buffer, 0) + n)
    return 0


@entry("int", "matrix", "int", lasting=False)
def preset_columns(ctx, columns, cols, n, time):
    """Sort a bulk load straight into the batch that the table's arrange operator will take."""
    if DEBUG:  # only blocks of our own can be checked
        copy = alloc(max(cols * n, 1))
        for c in range(cols):
            for i in range(n):
                st(copy, c * n + i, raw_load(columns, c * n + i))
        st(ctx, ARRANGE_PRESET, sort_columns(copy, n, cols, time, ld(ctx, ARRANGE_STEP)))
        free(copy)
    else:
        st(ctx, ARRANGE_PRESET, sort_columns(columns, n, cols, time, ld(ctx, ARRANGE_STEP)))
    wake_taker(ld(ctx, ARRANGE_BATCHER))
    return 0


@entry("int", "matrix", "words", "words")
def batch_contents(batch, columns, _cols, n, times, _times, diffs, _diffs):
    """Copy a batch into arrays."""
    data = ld(batch, BATCH_DATA)
    cap = ld(batch, BATCH_CAP)
    rows = ld(batch, BATCH_ROWS)
    for c in range(ld(batch, BATCH_COLS)):
        for i in range(rows):
            raw_store(columns, c * n + i, ld(data, c * cap + i))
    for i in range(rows):
        raw_store(times, i, time_at(batch, data, i))
        raw_store(diffs, i, diff_at(batch, data, i, 0))
    return 0


@operator
def serve(ctx):
    """Operator of a linear step in Python: the driver takes the delta of the stateless trace in front of it."""
    trace = ld(ctx, ARRANGE_TRACE)
    return CALL_PYTHON if ld(trace, TRACE_DELTA) != 0 else 0


@entry("int", "matrix", "words", "words")
def emit_columns(stream, columns, cols, rows, times, _times, diffs, _diffs):
    """Send rows given as columns down a stream."""
    regs = ld(stream, STREAM_REGS)
    tail = ld(stream, STREAM_TAIL)
    n = 0
    for i in range(rows):
        for c in range(cols):
            st(regs, c * VM_ROWS + n, raw_load(columns, c * rows + i))
        st(tail, n, raw_load(times, i))
        st(tail, VM_ROWS + n, raw_load(diffs, i))
        n = flush_full(stream, n + 1)
    st(stream, STREAM_N, n)
    flush(stream)
    return 0


@entry("int", "matrix")
def take_requests(ctx, rows, n, width):
    """Copy the request rows into a matrix, one row each."""
    block = ld(ctx, REDUCE_REQUESTS)
    for i in range(n * width):
        raw_store(rows, i, ld(block, 1 + i))
    return 0


@entry("int", "matrix")
def give_answers(ctx, rows, n, width):
    """Pass in the answer rows of a Python reduction."""
    block = alloc(1 + n * width)
    for i in range(n * width):
        st(block, 1 + i, raw_load(rows, i))
    free(ld(ctx, REDUCE_ANSWERS))
    st(ctx, REDUCE_ANSWERS, block)
    st(ctx, REDUCE_ANSWERS_N, n)
    return 0
