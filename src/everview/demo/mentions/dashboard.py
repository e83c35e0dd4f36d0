"""What the terminal shows: where the window is, how fast it moves, the components in it, and what recomputing costs.

In a terminal this is one screen that changes; anywhere else it is lines, one every second or so.
"""

from __future__ import annotations

import datetime as dt
import time
from types import TracebackType

from rich.console import Console, Group
from rich.live import Live
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from everview.demo.mentions.data import Mentions
from everview.demo.mentions.program import Program
from everview.demo.mentions.record import Act, Slide
from everview.demo.mentions.window import Window

EVERY = {True: 0.1, False: 1.0}
"""Seconds between two pictures: in a terminal, and not."""
LARGEST = 6
"""Components that are listed."""


class Dashboard:
    """Shows one act; use it as a context."""

    def __init__(self, console: Console, mentions: Mentions, program: Program, act: Act, slots: int) -> None:
        self._console, self._mentions, self._program = console, mentions, program
        self._act, self._slots = act, slots
        self._shown = 0.0
        self._live = Live(console=console, auto_refresh=False) if console.is_terminal else None

    def __enter__(self) -> Dashboard:
        self._console.print(f"\n[bold]{self._act.title}[/bold]", soft_wrap=True)
        self._act.began = time.perf_counter()
        if self._live:
            self._live.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._act.ended = time.perf_counter()
        if kind is None and self._act.slides:
            self._show(self._act.slides[-1])
        if self._live:
            self._live.stop()
        if kind is None:
            for what, value in [] if self._live else self._act.facts():
                self._console.print(f"  {what}: {value}", highlight=False, soft_wrap=True)

    def slid(self, slide: Slide) -> None:
        """Add a slide; shows something if it is time to."""
        self._act.slides.append(slide)
        if time.perf_counter() - self._shown > EVERY[self._live is not None]:
            self._show(slide)

    def _show(self, slide: Slide) -> None:
        self._shown = time.perf_counter()
        self._act.ended = self._shown
        if self._live:
            self._live.update(self._screen(slide), refresh=True)
        else:
            self._console.print(self._line(slide), highlight=False, soft_wrap=True)

    # what is shown

    def largest(self) -> list[tuple[int, int, str, int]]:
        """(people, component, favourite tag, its mentions) of the largest components, and how many there are is
        `len(program.size)`.
        """
        tags = {component: (tag, n) for component, tag, n in self._program.favourite.rows()}
        by_size = sorted(((people, component) for component, people in self._program.size.rows()), reverse=True)
        return [(people, component, *tags[component]) for people, component in by_size[:LARGEST]]

    def _line(self, slide: Slide) -> str:
        largest = ", ".join(f"{people} ({tag})" for people, _, tag, _ in self.largest()[:3])
        return (
            f"  {span(self._mentions, slide.window)}: {len(self._program.current):,} mentions, "
            f"{len(self._program.size)} components: {largest}; {slide.seconds * 1e3:.2f} ms, "
            f"differences {slide.came_in} in, {slide.came_out} out"
        )

    def _screen(self, slide: Slide) -> Group:
        facts = Table.grid(padding=(0, 2))
        facts.add_row("mentions in the window", f"{len(self._program.current):,}")
        facts.add_row(
            "this slide", f"{slide.seconds * 1e3:.2f} ms, differences {slide.came_in} in, {slide.came_out} out"
        )
        for what, value in self._act.facts():
            facts.add_row(what, value)
        heading = Text(f"\n{len(self._program.size)} strongly connected components, the largest:", "bold")
        parts = Table(box=None)
        for name in ("people", "named by", "tag used most", "mentions"):
            parts.add_column(name, justify="left" if name.startswith("tag") else "right")
        for people, component, tag, n in self.largest():
            parts.add_row(str(people), str(component), tag, str(n))
        return Group(
            Panel(self._timeline(slide.window), title=span(self._mentions, slide.window)), facts, heading, parts
        )

    def _timeline(self, window: Window) -> Text:
        """All of time as a line, with the window on it."""
        width = max(self._console.width - 6, 20)
        first, last = (round(slot / self._slots * width) for slot in (window.first, window.last))
        last = min(max(last, first + 1), width)
        return Text("─" * first, "dim") + Text("█" * (last - first), "bold cyan") + Text("─" * (width - last), "dim")


def span(mentions: Mentions, window: Window) -> str:
    """A window in words, to the day if slots are hours."""
    form = "%Y-%m-%d" if mentions.slot_seconds * (window.last - window.first) >= 86_400 else "%Y-%m-%d %H:%M:%S"
    moments = [moment(mentions, slot) for slot in (window.first, window.last)]
    return " to ".join(m.strftime(form) for m in moments)


def moment(mentions: Mentions, slot: int) -> dt.datetime:
    """When a slot begins."""
    return dt.datetime.fromtimestamp(mentions.start + slot * mentions.slot_seconds, dt.UTC)
