"""Notes of the steps of one dataflow, for a log.

A small step notes itself, in a ring that the executor writes (`everview.kernels.run.step_notes`), and is turned into a
row only when somebody reads the log. What takes longer anyway, or fails, is reported by the runtime: `begin` before it
passes rows in columns, and `ended` for every step of these, and for a small one that did not simply commit.

Hazard: a step that was complete and then interrupted is in the ring and reported, too. The report says more.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from everview.dataflow.tick_clock import TickClock
from everview.kernels import structures
from everview.kernels.run import executor as x
from everview.kernels.run import step_notes as k
from everview.kernels.run.ticks import read_ticks

if TYPE_CHECKING:
    from everview.dataflow.dataflow import Dataflow

Ended = Callable[[float, Any, bool, BaseException | None], None]
"""Told when a step began (by `time.perf_counter`), its transactions, whether it was committed, and its error."""


class StepNotes:
    """Keeps the last notes of a dataflow's steps until `remove`."""

    def __init__(self, dataflow: Dataflow, ended: Ended) -> None:
        self._dataflow = dataflow
        self._ended = ended
        self._clock = TickClock()
        self._began = 0.0
        self._ring = structures.make_block(k.NOTES_WORDS)
        structures.poke(dataflow.session, x.EXECUTOR_NOTES, self._ring)

    @staticmethod
    def possible() -> bool:
        """Whether this processor has a counter."""
        return bool(read_ticks())

    def begin(self) -> None:
        """A step without rows of its own begins."""
        self._began = time.perf_counter()

    def ended(self, transactions: Any, committed: bool = True, error: BaseException | None = None) -> None:
        """Report a step that is not, or not only, in the ring."""
        if not self._began:  # a small one, which has failed
            at = k.NOTES_FIRST + (self._word(k.NOTES_NUMBER) % k.NOTES_KEPT) * k.NOTE_WORDS
            started = self._word(at + k.NOTE_STARTED)
            self._began = self._clock.moment(started, self._clock.nanoseconds()) if started else time.perf_counter()
            structures.poke(self._ring, at + k.NOTE_STARTED, 0)
        began, self._began = self._began, 0.0
        self._ended(began, transactions, committed, error)

    def small(self) -> Iterator[tuple[float, float, int, int]]:
        """The steps in the ring: when they began and ended by `time.perf_counter`, their times and their rows. Call it
        between steps."""
        length = self._clock.nanoseconds()
        number = self._word(k.NOTES_NUMBER)
        for i in range(max(0, number - k.NOTES_KEPT + 1), number):  # the place after the last is the next one's
            at = k.NOTES_FIRST + (i % k.NOTES_KEPT) * k.NOTE_WORDS
            began, end = (self._clock.moment(self._word(at + w), length) for w in (k.NOTE_STARTED, k.NOTE_ENDED))
            yield began, end, self._word(at + k.NOTE_TIME), self._word(at + k.NOTE_ROWS)

    def remove(self) -> None:
        """Take no more notes."""
        structures.poke(self._dataflow.session, x.EXECUTOR_NOTES, 0)
        ring, self._ring = self._ring, 0
        structures.drop_block(ring)

    def _word(self, place: int) -> int:
        return int(structures.peek(self._ring, place))
