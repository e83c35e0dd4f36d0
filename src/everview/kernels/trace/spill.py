"""Moves a trace's batches into file-backed memory, between steps.

A batch in a file is read like any other, but `trace.settle` skips it: a merge in memory would load all of it. The owner
of the files (`everview.runtime.spill`) merges such batches a piece at a time and replaces them by the result.

The bounds-checked build can only check its own blocks, so nothing is moved there: `in_own_memory` returns nothing.
"""

from __future__ import annotations

from everview.kernels.build.native import DEBUG, entry
from everview.kernels.memory import ld, st
from everview.kernels.trace.batch import BATCH_MAPPED, BATCH_ROWS, batch_words, free_batch, move_index
from everview.kernels.trace.buckets import build_index
from everview.kernels.trace.image import mapped_batch
from everview.kernels.trace.trace import TRACE_COUNT, TRACE_MERGES, TRACE_OLD, TRACE_TABLE, settle


@entry("int")
def finish_merges(trace):
    """Merge what is being merged to its end, and what the sizes ask for: then batches can be moved."""
    return settle(trace, 2**62, 2**62)


@entry("int", "int", allocates=False)
def in_own_memory(trace, i):
    """The words of a trace's batch number `i` if it lies in memory of its own and is not being merged, else 0."""
    if DEBUG or i >= ld(trace, TRACE_COUNT):
        return 0
    merges = ld(trace, TRACE_MERGES)
    if ld(merges, i) != 0 or (i > 0 and ld(merges, i - 1) != 0):
        return 0
    batch = ld(ld(trace, TRACE_TABLE), i)
    return batch_words(batch) if ld(batch, BATCH_MAPPED) == 0 else 0


@entry("int", "int", "int", "int", "words")
def lay(trace, first, count, address, header, _n):
    """Batches [first, first + count) of a trace lie at `address` as one, whose image's first words are given: read it
    there, and give theirs back. Address 0: nothing is left of them.
    """
    table = ld(trace, TRACE_TABLE)
    merges = ld(trace, TRACE_MERGES)
    batch = 0
    if address != 0:
        batch = mapped_batch(address, header)
        if count == 1 and ld(ld(table, first), BATCH_ROWS) == ld(batch, BATCH_ROWS):
            move_index(ld(table, first), batch)
        else:
            build_index(batch, 0)
    for i in range(first, first + count):
        free_batch(ld(table, i))
    gone = count
    if batch != 0:
        st(table, first, batch)
        gone = count - 1
    for i in range(first + count, ld(trace, TRACE_COUNT)):
        st(table, i - gone, ld(table, i))
        st(merges, i - gone, ld(merges, i))
    st(trace, TRACE_COUNT, ld(trace, TRACE_COUNT) - gone)
    st(trace, TRACE_OLD, ld(trace, TRACE_COUNT))
    for i in range(gone):
        st(merges, ld(trace, TRACE_COUNT) + i, 0)
    return 0
