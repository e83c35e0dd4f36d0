"""Live display of a table or view on the screen, or of its changes as lines.

Meanwhile time must advance. A read-only session follows its writer (`db.refresh`); one with sources reads from them
(`db.run`); any other advances the clock (`db.advance`).
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from everview.session.core import core_of
from everview.session.reads import rendering

if TYPE_CHECKING:
    from everview.session.changes.batch import Batch
    from everview.session.session import Session

EVERY = 0.2
"""Seconds between checks for changes."""


def watch(session: Session, name: str) -> None:
    """Show a table or view, rewritten in place when it changes, until Ctrl-C."""
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

    found = session[name]
    console = Console()
    changed = Changed()
    stop = found.subscribe(changed)
    try:
        with Live(console=console, auto_refresh=False) as screen:
            while True:
                if changed.take():
                    rows = max(console.height - 8, 3)
                    screen.update(Text(f"{found._text(rows)}\n{changed.text()}; Ctrl-C ends"), refresh=True)
                advance(session, EVERY)
    except KeyboardInterrupt:
        pass
    finally:
        stop()


def follow(
    session: Session,
    name: str,
    show: Callable[[str], Any],
    *,
    snapshot: bool = True,
    seconds: float | None = None,
    as_json: bool = False,
) -> None:
    """Print each change of a table or view as a line, until Ctrl-C or for so long."""
    found = session[name]
    names = list(found.schema())
    stop = found.subscribe(lambda batch: _print(batch, name, names, show, as_json), snapshot=snapshot)
    end = None if seconds is None else time.monotonic() + seconds
    try:
        advance(session, 0)
        while end is None or time.monotonic() < end:
            advance(session, EVERY if end is None else min(EVERY, max(end - time.monotonic(), 0)))
    except KeyboardInterrupt:
        pass
    finally:
        stop()


def _print(batch: Batch, name: str, names: list[str], show: Callable[[str], Any], as_json: bool) -> None:
    for *row, diff in rendering.in_order([(*row, diff) for row, diff in batch.rows()]):
        if as_json:
            values = dict(zip(names, row, strict=True))
            show(json.dumps(values | {"_time": batch.time, "_diff": diff}, ensure_ascii=False, default=str))
        else:
            show(f"{name} @{batch.time} {diff:+d}  {', '.join(rendering.cell(v) for v in row)}")


def advance(session: Session, seconds: float) -> None:
    """Let time pass in a session, for this long."""
    core = core_of(session)
    if core.runtime.backing.read_only:
        time.sleep(seconds)
        session.refresh()
    elif getattr(core.attached.get("pipeline"), "feeds", None):
        session.run(f"{seconds}s")
    else:
        time.sleep(seconds)
        session.advance()


class Changed:
    """Whether something has changed since the last check, and what."""

    def __init__(self) -> None:
        self._last: Batch | None = None
        self._fresh = True

    def __call__(self, batch: Batch) -> None:
        self._last, self._fresh = batch, True

    def take(self) -> bool:
        """Whether something changed; not again until something else does."""
        fresh, self._fresh = self._fresh, False
        return fresh

    def text(self) -> str:
        """What the last change was.

        >>> Changed().text()
        'no change yet'
        """
        if self._last is None:
            return "no change yet"
        diffs = [diff for _, diff in self._last.rows()]
        came, went = sum(d for d in diffs if d > 0), -sum(d for d in diffs if d < 0)
        return f"last change at time {self._last.time}: +{came:,} -{went:,}"
