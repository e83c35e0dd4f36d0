"""Twins: what a helper thread writes to while the operator itself goes on with the originals.

Streams, inboxes and agendas have one writer. When half of an operator's work is handed to a second thread, that half
gets a *twin* stream: the same programs with registers of their own, ending in empty inboxes of their own, whose loop
times are scheduled in a scope of their own. Closing the twin hands its buffers over to the original inboxes
and schedules their times. The order in which rows arrive never matters: they wait to be
sorted.
"""

from __future__ import annotations

from everview.kernels.inbox import BUFFERS, NBUFFERS, WIDTH, add_buffer, free_inbox, new_inbox
from everview.kernels.memory import alloc, copy_words, free, ld, size_of, st
from everview.kernels.native import inner, shared
from everview.kernels.scope import (
    COORDS,
    FIELDS,
    HEAP,
    HEAP_N,
    NFIELDS,
    NOW,
    OUTER,
    OVERRUN,
    PARENT,
    ROOT,
    SLOT_NOW,
    UNIT,
    free_scope,
    new_scope,
    slot_of,
)
from everview.kernels.stream import (
    BOX,
    BOX_SC,
    ERROR_BOX,
    K_WORDS,
    NSINKS,
    R_MORE,
    R_N,
    R_WORDS,
    REGS,
    SINKS,
    TAIL,
    free_stream,
)
from everview.kernels.vm import CHUNK


@shared
def twin_scope(scope):
    """A scope with the same times and an empty agenda that schedules nothing in the loops around it."""
    if ld(scope, ROOT) != 0:
        return scope  # has no agenda
    root = scope
    while ld(root, ROOT) == 0:
        root = ld(root, PARENT)
    twin = new_scope(root, ld(scope, COORDS), ld(scope, OUTER), ld(scope, UNIT), ld(scope, FIELDS), ld(scope, NFIELDS))
    st(twin, NOW, ld(scope, NOW))
    st(twin, SLOT_NOW, ld(scope, SLOT_NOW))
    return twin


@inner
def _give(twin_box, twin_slot, box, slot):
    if twin_slot < ld(twin_box, NBUFFERS):
        buffer = ld(ld(twin_box, BUFFERS), twin_slot)
        if buffer != 0 and ld(buffer, 0) > 0:
            st(ld(twin_box, BUFFERS), twin_slot, 0)
            add_buffer(box, slot, buffer)


@shared
def close_box(twin_box, twin_scope, box, scope):
    """Move all rows of a twin inbox to the original and free the twin and its scope."""
    if twin_scope == scope:
        _give(twin_box, 0, box, 0)
    else:
        for i in range(ld(twin_scope, HEAP_N)):
            time = ld(ld(twin_scope, HEAP), i)
            _give(twin_box, slot_of(twin_scope, time), box, slot_of(scope, time))
        if ld(twin_scope, OVERRUN) != 0:
            st(scope, OVERRUN, 1)
        st(twin_scope, FIELDS, 0)  # the original's
        free_scope(twin_scope)
    free_inbox(twin_box)
    return 0


@shared
def twin_stream(stream):
    """A stream with the same sinks into twin inboxes."""
    twin = alloc(R_WORDS)
    copy_words(twin, 0, stream, 0, R_WORDS)
    st(twin, R_N, 0)
    st(twin, R_MORE, 0)
    st(twin, REGS, alloc(size_of(ld(stream, REGS))))
    st(twin, TAIL, alloc(2 * CHUNK))
    sinks = ld(stream, NSINKS)
    st(twin, SINKS, alloc(max(sinks, 1)))
    for s in range(sinks):
        sink = ld(ld(stream, SINKS), s)
        copy = alloc(K_WORDS)
        copy_words(copy, 0, sink, 0, K_WORDS)
        st(copy, BOX_SC, twin_scope(ld(sink, BOX_SC)))
        st(copy, BOX, new_inbox(ld(ld(sink, BOX), WIDTH), ld(copy, BOX_SC)))
        if ld(sink, ERROR_BOX) != 0:
            st(copy, ERROR_BOX, new_inbox(ld(ld(sink, ERROR_BOX), WIDTH), 0))
        st(ld(twin, SINKS), s, copy)
    return twin


@shared
def close_stream(twin, stream):
    """Move all that went down the twin to where the original leads, and free the twin."""
    for s in range(ld(stream, NSINKS)):
        sink = ld(ld(stream, SINKS), s)
        copy = ld(ld(twin, SINKS), s)
        close_box(ld(copy, BOX), ld(copy, BOX_SC), ld(sink, BOX), ld(sink, BOX_SC))
        if ld(sink, ERROR_BOX) != 0:
            close_box(ld(copy, ERROR_BOX), 0, ld(sink, ERROR_BOX), 0)
        free(copy)
    free_stream(twin)
    return 0
