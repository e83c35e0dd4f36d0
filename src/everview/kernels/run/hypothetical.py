"""Runs, copies and undoes a step in one call: the effect of a change without making it.

The step runs up to its commit. Its additions to traces are folded, as a commit does first, so that whatever could not
be committed fails here, too. Then they are copied as images (`everview.kernels.trace.image`) and undone. Between two
calls nothing of it remains.

Hazard: a step that needs Python, or more space than provided, is returned unfinished, and must be undone by `abort`.
"""

from __future__ import annotations

from everview.kernels.build.native import entry, inner
from everview.kernels.memory import raw_load, raw_store, st
from everview.kernels.run.executor import ENDED_DONE, EXECUTOR_PC, begin, undo
from everview.kernels.trace.image import fold_all, fresh, image_words, write_image

ENDED_NO_ROOM = 8
"""The step is at its end and folded, and does not fit: the room that it needs is in the first word."""

FIRST_ENTRY = 2
"""Where the list of images begins: two words for each, the number of its trace and where it lies."""


@inner
def _copy(traces, n, out):
    """Write how many traces a folded step adds to, the list of the images, and the images."""
    entries = 0
    for i in range(n):
        if fresh(raw_load(traces, i)) != 0:
            entries += 1
    raw_store(out, 1, entries)
    entry_at = FIRST_ENTRY
    at = FIRST_ENTRY + 2 * entries
    for i in range(n):
        batch = fresh(raw_load(traces, i))
        if batch != 0:
            raw_store(out, entry_at, i)
            raw_store(out, entry_at + 1, at)
            entry_at += 2
            at = write_image(batch, out, at)


@inner
def _room(traces, n):
    """Words that `_copy` needs."""
    words = FIRST_ENTRY
    for i in range(n):
        batch = fresh(raw_load(traces, i))
        if batch != 0:
            words += 2 + image_words(batch)
    return words


@entry("int", "int", "int", "text", "words", "words")
def suppose(session, base, batcher, words, size, traces, n, out, room):
    """Run a step of one epoch after `base`, write what it adds to some traces to `out`, of which the first word is the
    size, and undo the step. A few rows go into `batcher` first (0: they are in the batchers already).
    """
    answer = begin(session, base, 1, batcher, words, size)
    if answer != ENDED_DONE:
        return answer
    fold_all(session, base + 1)
    needed = _room(traces, n)
    raw_store(out, 0, needed)
    if needed > room:
        return ENDED_NO_ROOM
    _copy(traces, n, out)
    undo(session)
    st(session, EXECUTOR_PC, 0)
    return ENDED_DONE


@entry("words")
def room_for(traces, n):
    """Words that `copy` needs of a step that is at its end and folded."""
    return _room(traces, n)


@entry("words", "words")
def copy(traces, n, out, _room):
    """The same for a step that is at its end and folded; it is not undone."""
    _copy(traces, n, out)
    return 0
