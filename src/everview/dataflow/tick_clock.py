"""How long a tick of the processor's counter is (`everview.kernels.run.ticks`).

Its rate is not known in advance. It is measured each time, over the whole time since the clock was made, so that recent
moments are exact.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from everview.kernels.run.ticks import read_ticks

SHORTEST = 1_000_000
"""Nanoseconds over which the counter's rate is measured at least."""


@dataclass(frozen=True)
class TickClock:
    """Turns ticks into nanoseconds, and into moments of `time.perf_counter`."""

    start: tuple[int, int] = field(default_factory=lambda: (time.perf_counter_ns(), read_ticks()))
    """one moment by both clocks"""

    def nanoseconds(self) -> float:
        """The length of a tick; 0 without a counter.

        >>> 0 <= TickClock().nanoseconds() < 1000
        True
        """
        began, first = self.start
        while (passed := time.perf_counter_ns() - began) < SHORTEST:
            pass
        counted = read_ticks() - first
        return passed / counted if counted > 0 else 0.0

    def moment(self, ticks: int, length: float) -> float:
        """What `time.perf_counter` said when the counter was at `ticks`; `length` is that of a tick."""
        began, first = self.start
        return (began + (ticks - first) * length) / 1e9
