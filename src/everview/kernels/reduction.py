"""A reduction's context: what it reads and writes, what kind it is, and scratch blocks that live with it.

Blocks that grow (FOUND, OUT, REQUESTS) hold their own size in word 0. FOUND is the output that should be, at the time
under consideration; OUT collects the differences that are to be said.
"""

from __future__ import annotations

from everview.kernels.memory import alloc, free, grow, ld, st
from everview.kernels.native import inner

(
    INPUT,
    OUTPUT,
    D_SCOPE,
    KEYS,
    KIND,
    SPEC,
    NSPEC,
    TODO,
    D_STREAM,
    D_STEP,
    D_FRESH,
    CURSORS,
    FOUND,
    EPOCH_LIST,
    OUT,
    OUT_N,
    REQUESTS,
    REQUESTS_N,
    ANSWERS,
    ANSWERS_N,
    TOUCHED,
    D_WORDS,
) = range(22)

DISTINCT, POSITIVE, MINIMUM, MAXIMUM, ACCUMULATE, TOP, PYTHON = range(7)
"""KIND. SPEC is a block of numbers: offset and limit for TOP; (aggregate, first accumulator, scale) for ACCUMULATE."""

COUNT_OF, SUM_INT, AVG_INT, SUM_FLOAT, AVG_FLOAT = range(5)

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
    block = ld(ctx, CURSORS)
    if block == 0 or ld(block, 0) < 6 * batches + 8:
        new = alloc(12 * batches + 64)
        st(new, 0, 12 * batches + 64)
        free(block)
        block = new
        st(ctx, CURSORS, block)
    return block


@inner
def put_found(ctx, n, width):
    """Make row n of FOUND writable and give the block."""
    block = ld(ctx, FOUND)
    if 1 + (n + 1) * width > ld(block, 0):
        size = 2 * (1 + (n + 1) * width)
        block = grow(block, size, 1 + n * width)
        st(block, 0, size)
        st(ctx, FOUND, block)
    return block
