"""Compilation progress: a bar on a terminal, an occasional line elsewhere.

Seconds are wall-clock time, which is what users wait for.
"""

from __future__ import annotations

import sys
import time

WIDTH = 30
EVERY = 15.0
"""Seconds between lines that are not on a terminal."""


class Progress:
    """Tells how many of `total` kernels are done.

    >>> Progress(200, 0.0).line(50, 20.0)
    '[########----------------------] 50 of 200 kernels, 20 s, about 60 s to go'
    """

    def __init__(self, total: int, begun: float | None = None) -> None:
        self.total = total
        self._begun = time.monotonic() if begun is None else begun
        self._told = self._begun

    def line(self, done: int, now: float) -> str:
        """How it stands."""
        share, taken = min(1.0, done / self.total), now - self._begun
        bar = ("#" * round(WIDTH * share)).ljust(WIDTH, "-")
        left = f", about {taken / share - taken:.0f} s to go" if 0.05 < share < 1 else ""
        return f"[{bar}] {min(done, self.total)} of {self.total} kernels, {taken:.0f} s{left}"

    def tell(self, done: int) -> None:
        """Say so, if it is time to."""
        now = time.monotonic()
        if sys.stdout.isatty():
            print(f"\r  {self.line(done, now)}\x1b[K", end="\n" if done >= self.total else "", flush=True)
        elif now - self._told >= EVERY:
            self._told = now
            print(f"  {self.line(done, now)}", flush=True)
