"""The progress line of a run, rewritten in place on a terminal and in a notebook. Elsewhere it is a plain line every
few seconds while there is activity, and every few minutes otherwise, for logs.
"""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Any

from everview.io.notebooks import Piece, in_notebook, line

if TYPE_CHECKING:
    from everview.io.feed import Feed
    from everview.io.pipeline import Pipeline

PLAIN_EVERY, IDLE_EVERY, LIVE_EVERY = 5.0, 300.0, 0.1


class Progress:
    """Reports the progress of a pipeline on standard error, if requested."""

    def __init__(self, pipeline: Pipeline, wanted: bool) -> None:
        self._pipeline = pipeline
        self._wanted = wanted
        self._live: Any = None
        self._started = time.monotonic()
        self._said = self._started
        self._last = ""
        self._rows = self._total()

    def __enter__(self) -> Progress:
        if self._wanted and in_notebook():
            self._live = _InNotebook(self.text())
        elif self._wanted and sys.stderr.isatty():
            try:
                from rich.console import Console
                from rich.status import Status
            except ImportError:
                return self
            self._live = Status(self.text(), console=Console(stderr=True))
            self._live.start()
        return self

    def __exit__(self, *exc: object) -> None:
        if isinstance(self._live, _InNotebook):
            self._live.update(self.text())  # it stays
            return
        if self._live is not None:
            self._live.stop()
        if self._wanted:
            print(self.text(), file=sys.stderr)

    def _total(self) -> int:
        return sum(feed.rows for feed in self._pipeline.feeds.values())

    def text(self) -> str:
        """Time, rows by source, rows per second, and what was rejected."""
        rate = (self._total() - self._rows) / max(time.monotonic() - self._started, 1e-9)
        return f"{self._state()}; {rate:,.0f} rows/s"

    def _state(self) -> str:
        parts = [f"time {self._pipeline.session.time}"]
        parts += [f"{f.name} {f.rows:,}{_noted(f)}" for f in self._pipeline.feeds.values()]
        return f"everview: {', '.join(parts)}"

    def update(self) -> None:
        """Redraw if due."""
        now = time.monotonic()
        if not self._wanted or now - self._said < (PLAIN_EVERY if self._live is None else LIVE_EVERY):
            return
        if self._live is not None:
            self._said = now
            self._live.update(self.text())
        elif (state := self._state()) != self._last or now - self._said >= IDLE_EVERY:
            self._said, self._last = now, state
            print(self.text(), file=sys.stderr)


def _noted(feed: Feed) -> str:
    """Anomalies of a source's records, in brackets."""
    odd = {"rejected": feed.rejected, "deleted nothing": feed.missing}
    said = ", ".join(f"{count:,} {what}" for what, count in odd.items() if count)
    return f" ({said})" if said else ""


class _InNotebook:
    """A line below the cell."""

    def __init__(self, text: str) -> None:
        self._piece = Piece(line(text))

    def update(self, text: str) -> None:
        self._piece.write(line(text))
