"""A reduction's context: what it reads and writes, what kind it is, and scratch blocks that live with it.

Blocks that grow (REDUCE_FOUND, REDUCE_OUT, REDUCE_REQUESTS) hold their own size in word 0. REDUCE_FOUND is the output
that should be, at the time under consideration; REDUCE_OUT collects the differences that are to be said.
"""

from __future__ import annotations

from everview.kernels.build.native import inner
from everview.kernels.memory import alloc, free, grow, ld, st

(
    REDUCE_INPUT,
    REDUCE_OUTPUT,
    REDUCE_SCOPE,
    REDUCE_KEYS,
    REDUCE_KIND,
    REDUCE_SPEC,
    REDUCE_NSPEC,
    REDUCE_TODO,
    REDUCE_STREAM,
    REDUCE_STEP,
    REDUCE_FRESH,
    REDUCE_CURSORS,
    REDUCE_FOUND,
    REDUCE_EPOCH_LIST,
    REDUCE_OUT,
    REDUCE_OUT_N,
    REDUCE_REQUESTS,
    REDUCE_REQUESTS_N,
    REDUCE_ANSWERS,
    REDUCE_ANSWERS_N,
    REDUCE_TOUCHED,
    REDUCE_WORDS,
) = range(22)

KIND_DISTINCT, KIND_POSITIVE, KIND_MINIMUM, KIND_MAXIMUM, KIND_ACCUMULATE, KIND_TOP, KIND_PYTHON = range(7)
"""REDUCE_KIND. REDUCE_SPEC is a block of numbers: offset and limit for KIND_TOP; (aggregate, first accumulator, scale)
for KIND_ACCUMULATE.
"""

SPEC_COUNT, SPEC_SUM_INT, SPEC_AVG_INT, SPEC_SUM_FLOAT, SPEC_AVG_FLOAT = range(5)

FAULT_OVERFLOW, FAULT_LARGE = 1, 2


@inner
def reserve(ctx, field, count_field, width, rows):
    """Room for `rows` more rows of `width` words in a growing block of the context."""
    block = ld(ctx, field)
    used = ld(ctx, count_field)
    size = 0 if block == 0 else ld(block, 0)
    if 1 + (used + rows) * width > size:
        more = max(2 * size, 1 + (used + rows) * width, 256)
        block = grow(block, more, 0 if block == 0 else 1 + used * width)
        st(block, 0, more)
        st(ctx, field, block)
    return block


@inner
def cursors_for(ctx, batches):
    """Scratch: current row, end and saved start for up to `batches` batches each of input and output."""
    block = ld(ctx, REDUCE_CURSORS)
    if block == 0 or ld(block, 0) < 6 * batches + 8:
        new = alloc(12 * batches + 64)
        st(new, 0, 12 * batches + 64)
        free(block)
        block = new
        st(ctx, REDUCE_CURSORS, block)
    return block


@inner
def put_found(ctx, n, width):
    """Make row n of REDUCE_FOUND writable and give the block."""
    block = ld(ctx, REDUCE_FOUND)
    if 1 + (n + 1) * width > ld(block, 0):
        size = 2 * (1 + (n + 1) * width)
        block = grow(block, size, 1 + n * width)
        st(block, 0, size)
        st(ctx, REDUCE_FOUND, block)
    return block
