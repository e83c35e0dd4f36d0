"""Streams: rows in transit from one stateful operator to the batchers of the next ones.

A stateful operator writes its output rows into a chunk of its stream; when the chunk is full, or the operator done, the
chunk goes to every *sink*. A sink is a fused chain of linear operators: it runs a small program over the chunk
(projection, filter), adjusts the times (entering or leaving a loop, feedback), flips signs (negation) and appends the
rows to the batcher of a stateful operator. Union is several sinks with one batcher. Linear operators have no state, so
rows of any time pass at once.

Times change by t' = ((t - SINK_PRE * base) & SINK_AND) + SINK_ADD + SINK_POST * base, where `base` is the last epoch
before this step: times are epochs outside loops and relative to the step inside (see `times`). A sink with a priority
lifts its loop's coordinate to at least (priority, 0). A feedback sink checks the round limit.

Sums and counts turn values into diffs: a sink with accumulators writes, instead of one diff, the diff times 1, times a
value's low or high half, and so on; see `reduce` for how they are decoded.

Rows for which the program failed go, with the error's code as their only column, to the error batcher.
"""

from __future__ import annotations

from everview.kernels.build.native import inner, shared
from everview.kernels.early_exit import shared_words
from everview.kernels.expressions.vm import VM_ROWS, run
from everview.kernels.guarded_calls import CELL_LIMIT
from everview.kernels.memory import alloc, alloc_with, bits_of_float, float_of_bits, free, ld, no_memory, raw_load, st
from everview.kernels.operators.batcher import BATCHER_WIDTH, BUFFER_ROWS_AT, BUFFER_TRY, room
from everview.kernels.operators.consolidate import consolidate_buffer
from everview.kernels.run.scope import SCOPE_COORDS, SCOPE_OVERRUN, slot_of
from everview.kernels.run.step import STEP_BASE
from everview.kernels.sums import all_small, checked_product, size
from everview.types import NULL as NULL_CODE

NULL = NULL_CODE

STREAM_COLS, STREAM_REGS, STREAM_TAIL, STREAM_N, STREAM_MORE, STREAM_SINKS, STREAM_NSINKS, STREAM_STEP, STREAM_WORDS = (
    range(9)
)
"""STREAM_N rows are in the chunk; about STREAM_MORE are to follow, which spares batchers from growing many times."""

(
    SINK_CODE,
    SINK_INSTRUCTIONS,
    SINK_KEEP_REG,
    SINK_ERROR_REG,
    SINK_OUT_REGS,
    SINK_NOUT,
    SINK_SIGN,
    SINK_BATCHER,
    SINK_SCOPE,
    SINK_ERROR_BATCHER,
    SINK_PRE,
    SINK_AND,
    SINK_ADD,
    SINK_POST,
    SINK_PRIORITY_REG,
    SINK_FIELD,
    SINK_PRIORITY_SHIFT,
    SINK_PRIORITY_MAX,
    SINK_LIMIT,
    SINK_LIMIT_STOPS,
    SINK_ERROR_AND,
    SINK_ERROR_POST,
    SINK_ACCUMULATORS,
    SINK_NACC,
    SINK_WORDS,
) = range(25)

NOT_ENTERING = -(2**63)

ACC_ONE, ACC_NOT_NULL, ACC_LOW, ACC_HIGH, ACC_FLOAT = range(5)
"""How an accumulator makes a diff of a value: 1; 1 unless NULL; low or high 32 bits; ACC_FLOAT + k: digit k of a
float.
"""

FLOAT_DIGITS = 8
FLOAT_LOW = -128  # weight of the lowest bit of digit 0; digits are 32 bits, so they reach to 2**128
FLOAT_WORDS = FLOAT_DIGITS + 4
"""Accumulators of a sum of floats: its digits, then how many values are NaN, +inf, -inf, and too large for digits."""

FLOAT_LIMIT = 2.0**126


@inner
def new_stream(cols, registers, step):
    """A stream of rows with `cols` columns whose sinks' programs need `registers` registers."""
    size = max(registers, cols, 1) * VM_ROWS
    stream = alloc_with(STREAM_WORDS, size)
    st(stream, STREAM_COLS, cols)
    st(stream, STREAM_REGS, alloc(size))
    st(stream, STREAM_TAIL, alloc(2 * VM_ROWS))
    st(stream, STREAM_N, 0)
    st(stream, STREAM_MORE, 0)
    st(stream, STREAM_SINKS, 0)
    st(stream, STREAM_NSINKS, 0)
    st(stream, STREAM_STEP, step)
    return stream


@inner
def free_stream(stream):
    """Give a stream back (sinks belong to whoever made them)."""
    free(ld(stream, STREAM_REGS))
    free(ld(stream, STREAM_TAIL))
    free(ld(stream, STREAM_SINKS))
    free(stream)


@inner
def float_code(x):
    """Order-preserving code of a float."""
    if x != x:
        return 0x7FF8000000000000
    b = bits_of_float(x)
    return b ^ ((b >> 63) & 0x7FFFFFFFFFFFFFFF)


@inner
def code_float(code):
    """The float with a given code."""
    return float_of_bits(code ^ ((code >> 63) & 0x7FFFFFFFFFFFFFFF))


@inner
def float_digit(code, k):
    """What a float adds to accumulator k of FLOAT_WORDS: a signed digit, or 1 for values that have none.

    Digits make sums exact under any insertions and deletions: bits from 2**-128 to 2**126 are kept, smaller ones are
    truncated.
    """
    x = code_float(code)
    kind = 0
    if x != x:
        kind = FLOAT_DIGITS
    elif x > 1.7976931348623157e308:
        kind = FLOAT_DIGITS + 1
    elif x < -1.7976931348623157e308:
        kind = FLOAT_DIGITS + 2
    elif x >= FLOAT_LIMIT or x <= -FLOAT_LIMIT:
        kind = FLOAT_DIGITS + 3
    if kind != 0 or k >= FLOAT_DIGITS:
        return 1 if k == kind else 0
    sign = 1
    if x < 0:
        sign = -1
        x = -x
    for back in range(FLOAT_DIGITS):
        d = FLOAT_DIGITS - 1 - back
        weight = 2.0 ** (32 * d + FLOAT_LOW)
        digit = int(x / weight)
        if d == k:
            return sign * digit
        x -= digit * weight
    return 0


@inner
def _accumulate(kind, value):
    if kind == ACC_ONE:
        return 1
    if value == NULL:
        return 0
    if kind == ACC_NOT_NULL:
        return 1
    if kind == ACC_LOW:
        return value & 0xFFFFFFFF
    if kind == ACC_HIGH:
        return value >> 32
    return float_digit(value, kind - ACC_FLOAT)


@inner
def _note_error(sink, code, time, diff):
    """Send an error row to the view's error collection, at the epoch it belongs to."""
    box = ld(sink, SINK_ERROR_BATCHER)
    if box == 0:
        return
    buffer = room(box, 0, 1)
    n = ld(buffer, 0)
    at = BUFFER_ROWS_AT + n * ld(box, BATCHER_WIDTH)
    st(buffer, at, code)
    st(buffer, at + 1, time)
    st(buffer, at + 2, diff)
    st(buffer, 0, n + 1)


@inner
def _check_products(stream, keep_reg, accs, nacc, n):
    """Leave if a product of the chunk's diffs and what accumulators make of its values is too large."""
    regs = ld(stream, STREAM_REGS)
    for i in range(n):
        if keep_reg >= 0 and ld(regs, keep_reg * VM_ROWS + i) != 1:
            continue
        for a in range(nacc):
            reg = ld(accs, 2 * a + 1)
            value = ld(regs, reg * VM_ROWS + i) if reg >= 0 else 1
            checked_product(ld(ld(stream, STREAM_TAIL), VM_ROWS + i), _accumulate(ld(accs, 2 * a), value))


@inner
def _pour(stream, sink, n):
    """Send the chunk's n rows through one sink."""
    regs = ld(stream, STREAM_REGS)
    tail = ld(stream, STREAM_TAIL)
    base = ld(ld(stream, STREAM_STEP), STEP_BASE)
    instructions = ld(sink, SINK_INSTRUCTIONS)
    error_reg = ld(sink, SINK_ERROR_REG)
    keep_reg = ld(sink, SINK_KEEP_REG)
    if instructions > 0:
        run(ld(sink, SINK_CODE), instructions, regs, n)
    outs = ld(sink, SINK_OUT_REGS)
    nout = ld(sink, SINK_NOUT)
    nacc = ld(sink, SINK_NACC)
    accs = ld(sink, SINK_ACCUMULATORS)
    sign = ld(sink, SINK_SIGN)
    box = ld(sink, SINK_BATCHER)
    scope = ld(sink, SINK_SCOPE)
    coords = ld(scope, SCOPE_COORDS)
    pre = base if ld(sink, SINK_PRE) != 0 else NOT_ENTERING
    keep_bits = ld(sink, SINK_AND)
    post = ld(sink, SINK_ADD) + ld(sink, SINK_POST) * base
    priority_reg = ld(sink, SINK_PRIORITY_REG)
    field = ld(sink, SINK_FIELD)
    limit = ld(sink, SINK_LIMIT)
    width = ld(box, BATCHER_WIDTH)
    more = ld(stream, STREAM_MORE) if keep_reg < 0 and priority_reg < 0 else 0
    buffer = 0
    last = -1
    used = 0
    sizes = 0
    for i in range(n):
        if keep_reg >= 0 and ld(regs, keep_reg * VM_ROWS + i) != 1:
            if error_reg >= 0 and ld(regs, error_reg * VM_ROWS + i) != 0:
                t = (ld(tail, i) & ld(sink, SINK_ERROR_AND)) + ld(sink, SINK_ERROR_POST) * base
                _note_error(sink, ld(regs, error_reg * VM_ROWS + i), t, sign * ld(tail, VM_ROWS + i))
            continue
        t = ld(tail, i)
        diff = sign * ld(tail, VM_ROWS + i)
        if error_reg >= 0 and ld(regs, error_reg * VM_ROWS + i) != 0:
            t = (t & ld(sink, SINK_ERROR_AND)) + ld(sink, SINK_ERROR_POST) * base
            _note_error(sink, ld(regs, error_reg * VM_ROWS + i), t, diff)
            continue
        if pre != NOT_ENTERING:
            t = max(t - pre, 1)  # replayed history counts as coming in this step
        t = (t & keep_bits) + post
        if priority_reg >= 0:
            p = min(max(ld(regs, priority_reg * VM_ROWS + i), 0), ld(sink, SINK_PRIORITY_MAX)) << ld(
                sink, SINK_PRIORITY_SHIFT
            )
            if (t & field) < p:
                t = (t & ~field) | p
        if limit >= 0 and (t & field) >= limit:
            if ld(sink, SINK_LIMIT_STOPS) == 0:
                st(scope, SCOPE_OVERRUN, 1)
            continue
        loop_time = t & coords
        if loop_time != last:
            if buffer != 0:
                st(buffer, 0, used)
            buffer = room(box, slot_of(scope, loop_time), n - i + more)
            used = ld(buffer, 0)
            last = loop_time
        at = BUFFER_ROWS_AT + used * width
        for c in range(nout):
            st(buffer, at + c, ld(regs, ld(outs, c) * VM_ROWS + i))
        st(buffer, at + nout, t)
        if nacc == 0:
            st(buffer, at + nout + 1, diff)
        else:
            sizes |= size(diff)
            for a in range(nacc):
                reg = ld(accs, 2 * a + 1)
                value = ld(regs, reg * VM_ROWS + i) if reg >= 0 else 1
                st(buffer, at + nout + 1 + a, diff * _accumulate(ld(accs, 2 * a), value))
        used += 1
    if not all_small(sizes):  # seldom: now look at each product, and leave if one of them was wrong
        _check_products(stream, keep_reg, accs, nacc, n)
    if buffer != 0:
        st(buffer, 0, used)
        if nacc > 0 and used >= ld(buffer, BUFFER_TRY):
            consolidate_buffer(buffer, nout, nacc)


@shared
def flush(stream):
    """Send the chunk to all sinks and empty it."""
    n = ld(stream, STREAM_N)
    if n == 0:
        return 0
    st(stream, STREAM_N, 0)  # whatever happens
    sinks = ld(stream, STREAM_SINKS)
    for s in range(ld(stream, STREAM_NSINKS)):
        _pour(stream, ld(sinks, s), n)
    return 0


PRESSED = 1
"""The limit of memory that stops whoever asks for any; see `everview.dataflow.pressing`."""


@inner
def heed():
    """A point where an operator may be stopped although it allocates nothing, for example because all its rows fail a
    condition."""
    if raw_load(shared_words(), CELL_LIMIT) == PRESSED:
        no_memory(0)


@inner
def flush_full(stream, n):
    """After adding rows, n in total: flush the chunk if it is full. Returns the remaining number."""
    if n < VM_ROWS:
        return n
    heed()
    st(stream, STREAM_N, n)
    flush(stream)
    return 0
