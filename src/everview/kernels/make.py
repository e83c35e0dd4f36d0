"""Building blocks for the Python side: making, filling, reading and freeing what the kernels work on."""

from __future__ import annotations

import numpy as np

from everview.kernels.arrange import A_STEP, A_TRACE, PRESET
from everview.kernels.batch import CAP, COLS, DATA, ROWS, diff_at, time_at
from everview.kernels.inbox import ROWS_AT, WIDTH, free_inbox, new_inbox, room
from everview.kernels.join import J_STREAM, join_all
from everview.kernels.leaving import attempt, leave
from everview.kernels.memory import alloc, call_number, free, ld, raw_load, raw_store, st, zeros
from everview.kernels.native import CALL_PYTHON, DEBUG, entry, inner, operator, task
from everview.kernels.reduction import ANSWERS, ANSWERS_N, CURSORS, EPOCH_LIST, FOUND, OUT, REQUESTS, REQUESTS_N
from everview.kernels.scope import free_scope, new_scope
from everview.kernels.sort import sort_columns
from everview.kernels.step import STEP_BASE
from everview.kernels.stream import R_COLS, R_N, REGS, STEP, TAIL, flush, free_stream, new_stream
from everview.kernels.trace import (
    COUNT,
    DELTA,
    TABLE,
    compact,
    free_trace,
    new_trace,
    trace_rows,
    trace_words,
)
from everview.kernels.vm import CHUNK


@inner
def _replay_trace(trace, stream, nested):
    """Send a trace's whole history down a stream (to the one new sink it has), as coming in this step."""
    base = ld(ld(stream, STEP), STEP_BASE)
    regs = ld(stream, REGS)
    tail = ld(stream, TAIL)
    table = ld(trace, TABLE)
    n = 0
    for b in range(ld(trace, COUNT)):
        batch = ld(table, b)
        data = ld(batch, DATA)
        cap = ld(batch, CAP)
        for i in range(ld(batch, ROWS)):
            for c in range(ld(batch, COLS)):
                st(regs, c * CHUNK + n, ld(data, c * cap + i))
            st(tail, n, (time_at(batch, data, i) | 1) if nested != 0 else base + 1)
            st(tail, CHUNK + n, diff_at(batch, data, i, 0))
            n += 1
            if n == CHUNK:
                st(stream, R_N, n)
                flush(stream)
                n = 0
    st(stream, R_N, n)
    flush(stream)


@task
def _join_all(ctx):
    join_all(ctx)
    flush(ld(ctx, J_STREAM))
    return 0


@inner
def _replay_join(ctx, stream):
    """Send all a join has ever said down another stream."""
    own = ld(ctx, J_STREAM)
    st(ctx, J_STREAM, stream)
    code = attempt(_join_all(), ctx, call_number())
    st(ctx, J_STREAM, own)
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
    MAKE_INBOX,
    DROP_INBOX,
    MAKE_STREAM,
    WIDEN_STREAM,
    DROP_STREAM,
    DROP_REDUCE,
) = range(14)


@entry("int", "int", "int", "int", "int", "int", "int")
def _act(what, a, b, c, d, e, f):
    """The compiled side of the functions below: one kernel, because each costs its own time to load at the start."""
    if what == MAKE_BLOCK:
        return zeros(a)
    if what == MAKE_TRACE:
        return new_trace(a, b, c, d, e, f)
    if what == MAKE_INBOX:
        return new_inbox(a, b)
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
    elif what == DROP_INBOX:
        free_inbox(a)
    elif what == WIDEN_STREAM:
        registers = alloc(max(b, ld(a, R_COLS), 1) * CHUNK)
        free(ld(a, REGS))
        st(a, REGS, registers)
    elif what == DROP_STREAM:
        free_stream(a)
    elif what == DROP_REDUCE:
        for field in (CURSORS, FOUND, EPOCH_LIST, OUT, REQUESTS, ANSWERS):
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
    """Send a trace's whole history down a stream (to the one new sink it has), as coming in this step."""
    _act(REPLAY_TRACE, trace, stream, nested, 0, 0, 0)


def replay_join(context: int, stream: int) -> None:
    """Send all a join has ever said down another stream."""
    _act(REPLAY_JOIN, context, stream, 0, 0, 0, 0)


def drop_scope(scope: int) -> None:
    """See `scope.free_scope`."""
    _act(DROP_SCOPE, scope, 0, 0, 0, 0, 0)


def make_inbox(width: int, scope: int) -> int:
    """See `inbox.new_inbox`."""
    return _act(MAKE_INBOX, width, scope, 0, 0, 0, 0)  # type: ignore[no-any-return]


def drop_inbox(inbox: int) -> None:
    """See `inbox.free_inbox`."""
    _act(DROP_INBOX, inbox, 0, 0, 0, 0, 0)


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
    return int(peek(batch, ROWS)) if batch else 0


def requested(context: int) -> int:
    """Number of request rows of a Python reduction."""
    return int(peek(context, REQUESTS_N))


@entry("words", brief=True)
def make_filled(values, n):
    """A new block with the given words."""
    block = alloc(max(n, 1))
    for i in range(n):
        st(block, i, raw_load(values, i))
    return block


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
    raw_store(out, 0, ld(trace, COUNT))
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
def push_rows(inbox, words, _n, rows):
    """Append rows, given as consecutive words (columns, time, diff), to an inbox outside loops."""
    width = ld(inbox, WIDTH)
    buffer = room(inbox, 0, rows)
    at = ROWS_AT + ld(buffer, 0) * width
    for i in range(rows * width):
        st(buffer, at + i, raw_load(words, i))
    st(buffer, 0, ld(buffer, 0) + rows)
    return 0


@entry("int", "matrix", "int", "int")
def push_columns(inbox, columns, cols, n, time, diff):
    """Append rows given as columns, all at one time and with one diff, to an inbox outside loops."""
    buffer = room(inbox, 0, n)
    at = ROWS_AT + ld(buffer, 0) * (cols + 2)
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
        st(ctx, PRESET, sort_columns(copy, n, cols, time, ld(ctx, A_STEP)))
        free(copy)
    else:
        st(ctx, PRESET, sort_columns(columns, n, cols, time, ld(ctx, A_STEP)))
    return 0


@entry("int", "matrix", "words", "words")
def batch_contents(batch, columns, _cols, n, times, _times, diffs, _diffs):
    """Copy a batch into arrays."""
    data = ld(batch, DATA)
    cap = ld(batch, CAP)
    rows = ld(batch, ROWS)
    for c in range(ld(batch, COLS)):
        for i in range(rows):
            raw_store(columns, c * n + i, ld(data, c * cap + i))
    for i in range(rows):
        raw_store(times, i, time_at(batch, data, i))
        raw_store(diffs, i, diff_at(batch, data, i, 0))
    return 0


@operator
def serve(ctx):
    """Operator of a linear step in Python: the driver takes the delta of the stateless trace in front of it."""
    trace = ld(ctx, A_TRACE)
    return CALL_PYTHON if ld(trace, DELTA) != 0 else 0


@entry("int", "matrix", "words", "words")
def emit_columns(stream, columns, cols, rows, times, _times, diffs, _diffs):
    """Send rows given as columns down a stream."""
    regs = ld(stream, REGS)
    tail = ld(stream, TAIL)
    n = 0
    for i in range(rows):
        for c in range(cols):
            st(regs, c * CHUNK + n, raw_load(columns, c * rows + i))
        st(tail, n, raw_load(times, i))
        st(tail, CHUNK + n, raw_load(diffs, i))
        n += 1
        if n == CHUNK:
            st(stream, R_N, n)
            flush(stream)
            n = 0
    st(stream, R_N, n)
    flush(stream)
    return 0


@entry("int", "matrix")
def take_requests(ctx, rows, n, width):
    """Copy the request rows into a matrix, one row each."""
    block = ld(ctx, REQUESTS)
    for i in range(n * width):
        raw_store(rows, i, ld(block, 1 + i))
    return 0


@entry("int", "matrix")
def give_answers(ctx, rows, n, width):
    """Hand the answer rows of a Python reduction over."""
    block = alloc(1 + n * width)
    for i in range(n * width):
        st(block, 1 + i, raw_load(rows, i))
    free(ld(ctx, ANSWERS))
    st(ctx, ANSWERS, block)
    st(ctx, ANSWERS_N, n)
    return 0
