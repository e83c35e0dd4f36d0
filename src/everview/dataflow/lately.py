"""History by duration: what changed lately can be told apart, however many times that was.

A trace keeps a number of epochs apart (`Trace.keep_history`). A thousand are an hour or a second, depending on who
writes. So here the oldest time that must be readable is *held* (`Trace.hold`), and moves on with the clock: every now
and then the time is noted, and what was the last complete time when the duration began is the new oldest one. It is
moved in pieces of the duration, so that a step costs a look at the clock and no more; history is never shorter than
said, and longer by such a piece.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from everview.dataflow.operators import Trace

PIECES = 32
"""Into how many pieces the duration is cut."""


class Lately:
    """Keeps what traces said in the last seconds."""

    def __init__(self, seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self.seconds = seconds
        self._clock = clock
        self._noted: deque[tuple[float, int]] = deque()
        self._next = 0.0
        self._oldest = 0
        self._traces: dict[Trace, int] = {}
        """what is held, and since when"""

    def keep(self, traces: Iterable[Trace]) -> None:
        """Keep what these say from now on."""
        for trace in traces:
            if trace not in self._traces:
                self._traces[trace] = self._oldest
                trace.hold(self._oldest)

    def passed(self, now: int) -> None:
        """A time is complete."""
        moment = self._clock()
        if moment < self._next:
            return
        self._next = moment + self.seconds / PIECES
        self._noted.append((moment, now))
        before = self._oldest
        while self._noted and self._noted[0][0] <= moment - self.seconds:
            self._oldest = self._noted.popleft()[1]
        if self._oldest != before:
            self._move()

    def _move(self) -> None:
        traces, self._traces = self._traces, {}
        for trace, held in traces.items():
            if trace.address:  # else it is gone
                trace.hold(self._oldest)
                trace.release(held)
                self._traces[trace] = self._oldest
