"""What the terminal shows: one number, what happened in words, the rings, and the way that explains an account.

In a terminal this is one screen, 80 columns wide, that changes in place. In a pipe, a file, a dumb terminal or one that
has no signs but letters it is lines: every moment of the plot, and of the crowd what is news.
"""

from __future__ import annotations

import datetime as dt
import textwrap
from collections import deque
from types import TracebackType

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from everview.demo.money.data import World
from everview.demo.money.digits import large
from everview.demo.money.record import Check, Position, Singles, compared, milliseconds
from everview.demo.money.words import Mirror, Sentence

WIDTH, MARGIN = 80, 14
NEWS = 7
"""Sentences that stay on the screen."""
RINGS = 4
STYLE = {"cause": "bold", "ring": "yellow", "alarm": "red", "relief": "green", "quiet": "dim"}


class Screen:
    """Shows a story; use it as a context."""

    def __init__(self, console: Console, world: World, fed_by: str = "", *, passing: bool = False) -> None:
        """`fed_by` is said at its head; what is `passing` leaves nothing on the screen when it ends."""
        self.console, self.fed_by = console, fed_by
        self._world = world
        self._news: deque[tuple[dt.datetime, Sentence]] = deque(maxlen=NEWS)
        self._checks = 0
        self._check: Check | None = None
        self._live: Live | None = None
        if console.is_terminal and not console.is_dumb_terminal and console.encoding.startswith("utf"):
            self._live = Live(console=console, auto_refresh=False, vertical_overflow="crop", transient=passing)

    @property
    def live(self) -> bool:
        """Whether it is a screen that changes, and not lines."""
        return self._live is not None

    def __enter__(self) -> Screen:
        if self._live:
            self._live.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._live:
            self._live.stop()

    def say(self, text: str) -> None:
        """A line that stays."""
        self.console.print(text, highlight=False)

    def _show(self, what: RenderableType) -> None:
        if self._live:
            self._live.update(what, refresh=True)

    # the acts

    def single(self, singles: Singles, left: int) -> None:
        """A payment was taken, alone."""
        self._show(self.alone(singles, left))

    def alone(self, singles: Singles, left: int) -> Group:
        """The screen for that."""
        taken = len(singles.seconds)
        change = f"{milliseconds(singles.median)}, median of {taken:,} payments"
        said = Text(f"\nTaken one by one, each in a transaction of its own; {left:,} to go.\n")
        for paid in singles.last:
            said.append(f"\n  {paid.at:%-d %b %H:%M}  {paid.payer} pays {paid.payee} {paid.amount:,}", "dim")
        figures = self._figures(singles.median, change, singles.check)
        return Group(self._head(self._world.start, 0.0), figures, said)

    def position(self, position: Position, mirror: Mirror) -> None:
        """A moment has happened, and perhaps was checked."""
        self._take(position.check)
        if not self.live:
            self._lines(position)
        self._news = deque(((at, s) for at, s in self._news if s.tone != "quiet"), maxlen=NEWS)
        self._news.extend((position.at, sentence) for sentence in position.sentences)
        self._show(self.picture(position, mirror))

    def back(self, position: Position, equal: bool) -> None:
        """A position was read again, as of its time."""
        again = "as it was" if equal else "NOT as it was"
        text = Text.assemble(
            (f"{position.at:%a %-d %b %H:%M}  read again as of time {position.time}: ", "bold"),
            (again, "green" if equal else "red"),
        )
        self._show(Group(self._head(position.at, self._part(position.at)), Text(), text, *self._told(position)))

    def _told(self, position: Position) -> list[Text]:
        return [Text(f"  {sentence.text}", STYLE[sentence.tone]) for sentence in position.sentences]

    def _take(self, check: Check | None) -> None:
        if check is not None:
            self._check = check
            self._checks += check.equal

    # lines

    def _lines(self, position: Position) -> None:
        news = [s for s in position.sentences if position.told or s.tone in ("alarm", "relief")]
        texts = [sentence.text for sentence in news] + ([figures_in_words(position)] if position.told else [])
        lines = [line for text in texts for line in textwrap.wrap(text, WIDTH - MARGIN, subsequent_indent="  ")]
        when = f"{position.at:%-d %b %H:%M}"
        for number, line in enumerate(lines):
            self.say(f"{when if not number else '':>{MARGIN - 2}}  {line}")

    # the screen

    def picture(self, position: Position, mirror: Mirror) -> Group:
        """The whole screen."""
        rows = f"{position.came_in} in, {position.came_out} out"
        change = f"{milliseconds(position.seconds)}, rows: {rows}"
        return Group(
            self._head(position.at, self._part(position.at)),
            self._figures(position.seconds, change, self._check),
            Text(),
            *self._sentences(),
            Text("─" * WIDTH, "dim"),
            *self._below(mirror, position.about),
        )

    def _part(self, at: dt.datetime) -> float:
        """How much of the stream's time has passed."""
        moments = self._world.moments
        whole = moments[-1].at - self._world.start if moments else dt.timedelta(1)
        return min(max((at - self._world.start) / whole, 0.0), 1.0)

    def _head(self, at: dt.datetime, part: float) -> Group:
        line = Table.grid(expand=False, padding=0)
        line.add_column(width=WIDTH - 36)
        line.add_column(width=36, justify="right")
        line.add_row(Text("Where does the money go?", "bold"), Text(f"{self.fed_by}  {at:%a %-d %b %H:%M}", "cyan"))
        done = round(part * WIDTH)
        return Group(line, Text.assemble(("━" * done, "cyan"), ("─" * (WIDTH - done), "dim")))

    def _figures(self, seconds: float, change: str, check: Check | None) -> Table:
        """The one big number, and what it is made of."""
        times = check.seconds / seconds if check is not None and seconds else 0.0
        number = large(f"{times:,.0f}×") if times >= 1 else ["", "", ""]
        left = Text("\n".join(f"  {line}" for line in number), "bold green")
        right = Text.assemble(("this change    ", "bold"), change, ("\nfrom scratch   ", "bold"))
        if check is None:
            right.append("not measured yet")
        else:
            right.append(f"{milliseconds(check.seconds)}, plain Python, {check.payments:,} payments")
            right.append(f"\n{'faster':15}" if times >= 1 else "\n", "bold green")
            right.append(f"checked {self._checks} times: equal ✓" if self._checks else "", "green")
        grid = Table.grid(padding=(0, 1))
        grid.add_column(width=24)
        grid.add_column(width=WIDTH - 26)
        grid.add_row(left, right)
        return grid

    def _sentences(self) -> list[Text]:
        found = []
        before = None
        for at, sentence in self._news:
            when = f"{at:%H:%M}" if at != before else ""
            before = at
            line = Text.assemble((f"{when:>5}  ", "dim"), (sentence.text, STYLE[sentence.tone]))
            line.truncate(WIDTH, overflow="ellipsis")
            found.append(line)
        return found + [Text()] * (NEWS - len(found))

    def _below(self, mirror: Mirror, about: str) -> list[RenderableType]:
        flagged = sum(1 for hops in mirror.reaches.values() if hops)
        heading = Text.assemble(
            (f"{flagged} accounts pay a sanctioned one within six hops", "bold red" if flagged else "bold"),
            (f" ({len(mirror.totals):,} rings of three or more)", "dim"),
        )
        found: list[RenderableType] = [heading]
        way = mirror.way(about)
        if way:
            line = Text("  " + " → ".join(way), "red")
            line.truncate(WIDTH, overflow="ellipsis")
            found.append(line)
        return [*found, self._rings(mirror)]

    def _rings(self, mirror: Mirror) -> Table:
        """Rings with such accounts, by what they moved, as bars of one scale."""
        suspects = {mirror.ring[account] for account in mirror.reaches if account in mirror.ring}
        known = sorted((mirror.totals[ring][::-1], ring) for ring in suspects if ring in mirror.totals)[::-1]
        most = known[0][0][0] if known else 1
        table = Table.grid(padding=(0, 1))
        for width in (26, 11, 30, 9):
            table.add_column(width=width, justify="right" if width in (11, 9) else "left", no_wrap=True)
        for (moved, accounts), ring in known[:RINGS]:
            bar = "█" * max(round(30 * moved / most), 1)
            table.add_row(f"  {first_of(mirror, ring)}'s ring", f"{accounts} accounts", Text(bar, "red"), f"{moved:,}")
        return table


def first_of(mirror: Mirror, ring: str) -> str:
    """What people call a ring: the first of its accounts in the alphabet."""
    return min(mirror.members[ring])


def figures_in_words(position: Position) -> str:
    """What a position cost, and what computing everything again would have."""
    said = f"{milliseconds(position.seconds)}, rows: {position.came_in} in, {position.came_out} out"
    check = position.check
    if check is None:
        return f"{said}."
    return f"{said}. From scratch {milliseconds(check.seconds)}, {compared(check.seconds, position.seconds)}; equal."
