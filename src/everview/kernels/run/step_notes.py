"""Notes of small steps, written by the compiled step itself while somebody keeps a log.

A note that Python takes of a step costs a tenth of a microsecond or two, which is several percent of a single change.
Here it is two reads of the processor's counter and four words in a ring. Only steps with rows of their own (`step`'s
`batcher`) are noted: all others take much longer, and Python notes those (`everview.dataflow.step_notes`).

The ring is [number of notes, notes ...]; a note is [started, ended, time, rows], in ticks. A note under way is in the
place of the next one: `started` is 0 if the step is not to be noted.
"""

from __future__ import annotations

from everview.kernels.build.native import inner
from everview.kernels.memory import ld, st
from everview.kernels.run.ticks import ticks

NOTES_KEPT = 1024
"""Number of notes in a ring, a power of two."""

NOTES_NUMBER, NOTES_FIRST = range(2)
NOTE_STARTED, NOTE_ENDED, NOTE_TIME, NOTE_ROWS, NOTE_WORDS = range(5)
NOTES_WORDS = NOTES_FIRST + NOTES_KEPT * NOTE_WORDS


@inner
def note_place(ring):
    """Where the next note goes."""
    return NOTES_FIRST + (ld(ring, NOTES_NUMBER) & (NOTES_KEPT - 1)) * NOTE_WORDS


@inner
def begin_note(ring, rows):
    """A step with so many rows of its own begins; 0: one that is not to be noted."""
    at = note_place(ring)
    st(ring, at + NOTE_STARTED, ticks() if rows != 0 else 0)
    st(ring, at + NOTE_ROWS, rows)


@inner
def end_note(ring, time):
    """The step under way is committed."""
    at = note_place(ring)
    if ld(ring, at + NOTE_STARTED) != 0:
        st(ring, at + NOTE_ENDED, ticks())
        st(ring, at + NOTE_TIME, time)
        number = ld(ring, NOTES_NUMBER) + 1
        st(ring, NOTES_NUMBER, number)
        st(ring, note_place(ring) + NOTE_STARTED, 0)
