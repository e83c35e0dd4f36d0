"""A reduction's context: its inputs and outputs, its kind, and its scratch blocks.

Growing blocks (REDUCE_FOUND, REDUCE_OUT, REDUCE_REQUESTS) have their size in word 0. REDUCE_FOUND is the correct output
at the time being evaluated; REDUCE_OUT collects the differences to output.
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
    REDUCE_SEEN,
    REDUCE_WATCHED,
    REDUCE_FOLDING,
    REDUCE_WORDS,
) = range(25)
"""REDUCE_SEEN: what the last run met (SEEN_...). REDUCE_WATCHED, for KIND_FAULTS: the context of the reduction whose
faults are looked for, if its runs tell when there can be none; else 0. REDUCE_FOLDING, for KIND_FOLD: how many values
are in REDUCE_FOUND, from word 1 on, to be made one.
"""

(
    KIND_DISTINCT,
    KIND_POSITIVE,
    KIND_MINIMUM,
    KIND_MAXIMUM,
    KIND_ACCUMULATE,
    KIND_TOP,
    KIND_PYTHON,
    KIND_FAULTS,
    KIND_FOLD,
    KIND_ENOUGH,
) = range(10)
"""REDUCE_KIND. REDUCE_SPEC is a block of numbers: offset and limit for KIND_TOP; (aggregate, first accumulator, detail)
for KIND_ACCUMULATE, and for KIND_FAULTS, which has a row for each group that KIND_ACCUMULATE has none for, because a
sum does not fit. The detail of an average is its scale; that of a sum of ints is 1 if it may be NULL. KIND_FOLD makes
one value of all that are present, by a kernel: word 0 of REDUCE_SPEC is its address, and it is called with the context.
KIND_ENOUGH has a row for each group with as many members as word 0 of REDUCE_SPEC, or more.
"""

SPEC_COUNT, SPEC_SUM_INT, SPEC_AVG_INT, SPEC_SUM_FLOAT, SPEC_AVG_FLOAT = range(5)

SEEN_FAULT, SEEN_ALL = 1, 2
"""Bits of REDUCE_SEEN: a group whose sum does not fit; all groups there are, because the reduction was new."""


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
