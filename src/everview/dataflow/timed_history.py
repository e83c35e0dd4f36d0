"""History by duration: recent changes stay distinguishable, however many epochs they span.

A trace keeps a number of epochs distinguishable (`Trace.keep_history`); a thousand may be an hour or a second,
depending on the load. This module instead *holds* the oldest time that must be readable (`Trace.hold`) and advances it
with the clock. It periodically records the current time; the last complete time at the start of the duration becomes
the new oldest one. This happens in fractions of the duration, so that a step only costs a look at the clock. History is
never shorter than requested, and longer by at most one fraction.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from everview.dataflow.operators import Trace

FRACTIONS = 32
"""Number of fractions of the duration."""


class TimedHistory:
    """Keeps the history of traces for some seconds."""

    def __init__(self, seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self.seconds = seconds
        self._clock = clock
        self._noted: deque[tuple[float, int]] = deque()
        self._next = 0.0
        self._oldest = 0
        self._traces: dict[Trace, int] = {}
        """the held traces, and since when"""

    def keep(self, traces: Iterable[Trace]) -> None:
        """Keep the history of these traces from now on."""
        for trace in traces:
            if trace not in self._traces:
                self._traces[trace] = self._oldest
                trace.hold(self._oldest)

    def passed(self, now: int) -> None:
        """Record that a time is complete."""
        moment = self._clock()
        if moment < self._next:
            return
        self._next = moment + self.seconds / FRACTIONS
        self._noted.append((moment, now))
        before = self._oldest
        while self._noted and self._noted[0][0] <= moment - self.seconds:
            self._oldest = self._noted.popleft()[1]
        if self._oldest != before:
            self._move()

    def _move(self) -> None:
        traces, self._traces = self._traces, {}
        for trace, held in traces.items():
            if trace.block:  # otherwise it was freed
                trace.hold(self._oldest)
                trace.release(held)
                self._traces[trace] = self._oldest
