"""Private copies: what a helper thread writes to while the operator itself uses the originals.

Streams, batchers and agendas have one writer. A share of an operator's work on another thread gets a *private* stream:
the same programs with their own registers, ending in empty batchers of their own, whose loop times are scheduled in a
private scope. Closing the private copy moves its buffers to the original batchers and schedules their times. The order
of arrival does not matter: rows are sorted later.
"""

from __future__ import annotations

from everview.kernels.build.native import inner, shared
from everview.kernels.expressions.vm import VM_ROWS
from everview.kernels.memory import alloc, copy_words, free, ld, size_of, st
from everview.kernels.operators.batcher import (
    BATCHER_BUFFERS,
    BATCHER_NBUFFERS,
    BATCHER_WIDTH,
    add_buffer,
    free_batcher,
    new_batcher,
)
from everview.kernels.operators.stream import (
    SINK_BATCHER,
    SINK_ERROR_BATCHER,
    SINK_SCOPE,
    SINK_WORDS,
    STREAM_MORE,
    STREAM_N,
    STREAM_NSINKS,
    STREAM_REGS,
    STREAM_SINKS,
    STREAM_TAIL,
    STREAM_WORDS,
    free_stream,
)
from everview.kernels.run.scope import (
    SCOPE_COORDS,
    SCOPE_FIELDS,
    SCOPE_HEAP,
    SCOPE_HEAP_N,
    SCOPE_NFIELDS,
    SCOPE_NOW,
    SCOPE_OUTER,
    SCOPE_OVERRUN,
    SCOPE_PARENT,
    SCOPE_ROOT,
    SCOPE_SLOT_NOW,
    SCOPE_UNIT,
    free_scope,
    new_scope,
    slot_of,
)


@shared
def private_scope(scope):
    """A scope with the same times and an empty agenda that schedules nothing in the loops around it."""
    if ld(scope, SCOPE_ROOT) != 0:
        return scope  # has no agenda
    root = scope
    while ld(root, SCOPE_ROOT) == 0:
        root = ld(root, SCOPE_PARENT)
    private = new_scope(
        root,
        ld(scope, SCOPE_COORDS),
        ld(scope, SCOPE_OUTER),
        ld(scope, SCOPE_UNIT),
        ld(scope, SCOPE_FIELDS),
        ld(scope, SCOPE_NFIELDS),
    )
    st(private, SCOPE_NOW, ld(scope, SCOPE_NOW))
    st(private, SCOPE_SLOT_NOW, ld(scope, SCOPE_SLOT_NOW))
    return private


@inner
def _give(private_box, private_slot, box, slot):
    if private_slot < ld(private_box, BATCHER_NBUFFERS):
        buffer = ld(ld(private_box, BATCHER_BUFFERS), private_slot)
        if buffer != 0 and ld(buffer, 0) > 0:
            st(ld(private_box, BATCHER_BUFFERS), private_slot, 0)
            add_buffer(box, slot, buffer)


@shared
def close_box(private_box, private_scope, box, scope):
    """Move all rows of a private batcher to the original and free the private and its scope."""
    if private_scope == scope:
        _give(private_box, 0, box, 0)
    else:
        for i in range(ld(private_scope, SCOPE_HEAP_N)):
            time = ld(ld(private_scope, SCOPE_HEAP), i)
            _give(private_box, slot_of(private_scope, time), box, slot_of(scope, time))
        if ld(private_scope, SCOPE_OVERRUN) != 0:
            st(scope, SCOPE_OVERRUN, 1)
        st(private_scope, SCOPE_FIELDS, 0)  # the original's
        free_scope(private_scope)
    free_batcher(private_box)
    return 0


@shared
def private_stream(stream):
    """A stream with the same sinks into private batchers."""
    private = alloc(STREAM_WORDS)
    copy_words(private, 0, stream, 0, STREAM_WORDS)
    st(private, STREAM_N, 0)
    st(private, STREAM_MORE, 0)
    st(private, STREAM_REGS, alloc(size_of(ld(stream, STREAM_REGS))))
    st(private, STREAM_TAIL, alloc(2 * VM_ROWS))
    sinks = ld(stream, STREAM_NSINKS)
    st(private, STREAM_SINKS, alloc(max(sinks, 1)))
    for s in range(sinks):
        sink = ld(ld(stream, STREAM_SINKS), s)
        copy = alloc(SINK_WORDS)
        copy_words(copy, 0, sink, 0, SINK_WORDS)
        st(copy, SINK_SCOPE, private_scope(ld(sink, SINK_SCOPE)))
        st(copy, SINK_BATCHER, new_batcher(ld(ld(sink, SINK_BATCHER), BATCHER_WIDTH), ld(copy, SINK_SCOPE)))
        if ld(sink, SINK_ERROR_BATCHER) != 0:
            st(copy, SINK_ERROR_BATCHER, new_batcher(ld(ld(sink, SINK_ERROR_BATCHER), BATCHER_WIDTH), 0))
        st(ld(private, STREAM_SINKS), s, copy)
    return private


@shared
def close_stream(private, stream):
    """Move all that went down the private to where the original leads, and free the private."""
    for s in range(ld(stream, STREAM_NSINKS)):
        sink = ld(ld(stream, STREAM_SINKS), s)
        copy = ld(ld(private, STREAM_SINKS), s)
        close_box(ld(copy, SINK_BATCHER), ld(copy, SINK_SCOPE), ld(sink, SINK_BATCHER), ld(sink, SINK_SCOPE))
        if ld(sink, SINK_ERROR_BATCHER) != 0:
            close_box(ld(copy, SINK_ERROR_BATCHER), 0, ld(sink, SINK_ERROR_BATCHER), 0)
        free(copy)
    free_stream(private)
    return 0
