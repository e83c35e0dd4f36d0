"""What each moment did: what went in, what came out, how long it took, and what plain Python makes of it.

A *position* is a moment that has happened. It knows the session's time, so that one can go back to it, and the
differences it made, so that the page's slider can.
"""

from __future__ import annotations

import datetime as dt
import statistics
import time
from collections import Counter, deque
from dataclasses import dataclass, field
from typing import Any

from everview.demo.change_collector import Differences, Listener
from everview.demo.money.data import Moment, Payment
from everview.demo.money.program import DRAWN, TOLD, Program
from everview.demo.money.recompute import Answer, Books, maintained, recompute
from everview.demo.money.stream import Stopwatch
from everview.demo.money.words import Mirror, Sentence, tell

INPUTS = ("recent", "sanctioned")
"""What goes in: payments that arrive, are cancelled or leave the window; the list."""


@dataclass(frozen=True)
class Check:
    """An answer from scratch, and how long it took."""

    answer: Answer
    seconds: float
    payments: int
    """Those inside the window, which were all read"""
    equal: bool


@dataclass
class Position:
    """A moment that has happened."""

    number: int
    at: dt.datetime
    time: int
    """`db.time` after it"""
    told: bool
    sentences: list[Sentence]
    seconds: float
    """Until all views were right"""
    came_in: int
    came_out: int
    differences: dict[str, Differences]
    about: str = ""
    """An account whose way is worth showing"""
    check: Check | None = None


@dataclass
class Singles:
    """Payments that were taken one by one, before the stream."""

    seconds: list[float] = field(default_factory=list)
    last: deque[Payment] = field(default_factory=lambda: deque(maxlen=9))
    """The last few of them"""
    check: Check | None = None

    def add(self, payment: Payment, seconds: float) -> None:
        """One more."""
        self.last.append(payment)
        self.seconds.append(seconds)

    @property
    def median(self) -> float:
        """The median, in seconds."""
        return statistics.median(self.seconds) if self.seconds else 0.0

    def in_words(self) -> str:
        """What they cost."""
        said = f"{len(self.seconds):,} payments, one transaction each: {self.median * 1e3:.2f} ms (median)"
        check = self.check
        if check is None or not self.median:
            return f"{said}."
        return (
            f"{said}.\nEverything from scratch, in plain Python over {check.payments:,} payments: "
            f"{milliseconds(check.seconds)}, {compared(check.seconds, self.median)}."
        )


def milliseconds(seconds: float) -> str:
    """Three digits are enough.

    >>> milliseconds(0.1584), milliseconds(0.00123), milliseconds(0.0000456)
    ('158 ms', '1.23 ms', '0.046 ms')
    """
    ms = seconds * 1e3
    return (
        f"{ms:.0f} ms" if ms >= 100 else f"{ms:.1f} ms" if ms >= 10 else f"{ms:.2f} ms" if ms >= 0.1 else f"{ms:.3f} ms"
    )


def compared(scratch: float, change: float) -> str:
    """How much longer computing from scratch takes, if it does: with little data, or once on a busy machine, not.

    >>> compared(0.158, 0.0002), compared(0.0013, 0.001), compared(0.0001, 0.001)
    ('790 times that', '1.3 times that', 'less than that')
    """
    if scratch < change:
        return "less than that"
    return f"{scratch / change:,.{0 if scratch >= 10 * change else 1}f} times that"


class Recorder:
    """Listens to the views and tells positions apart."""

    def __init__(self, program: Program, watch: Stopwatch) -> None:
        self.program, self._watch = program, watch
        self.mirror = Mirror()
        self.positions: list[Position] = []
        views: dict[str, Any] = {name: program.db[name] for name in (*INPUTS, *TOLD, *DRAWN)}
        self._listener = Listener(views, first=watch.stop)

    def begin(self, moment: Moment) -> Position:
        """The first position: everything that is there before the stream, as differences from nothing."""
        self._listener.heard()
        there = {name: list(self.program[name].counts().items()) for name in (*TOLD, *DRAWN)}
        self.mirror.take(there)
        payments = len(self.program["recent"])
        words = [Sentence(f"{payments:,} payments of the last 30 days are known.", "quiet")]
        return self._add(moment, words, there, came_in=payments, before={}, seconds=0.0)

    def happened(self, moment: Moment) -> Position:
        """What has changed since the last call is this moment's doing."""
        told = {name: _added_up(rows) for name, rows in self._listener.heard().items()}
        before = dict(self.mirror.reaches)
        regrouped = self.mirror.take(told)
        cancelled = {event.payment.id for event in moment.events if event.payment and event.what == "cancel"}
        left = [row for row, diff in told["recent"] if diff < 0 and row[0] not in cancelled]
        words = tell(moment, self.mirror, before, regrouped, left)
        came_in = sum(abs(diff) for name in INPUTS for _, diff in told.pop(name))
        return self._add(moment, words, told, came_in=came_in, before=before, seconds=self._watch.seconds)

    def _add(
        self,
        moment: Moment,
        words: list[Sentence],
        told: dict[str, Differences],
        *,
        came_in: int,
        before: dict[str, int],
        seconds: float,
    ) -> Position:
        position = Position(
            number=len(self.positions),
            at=moment.at,
            time=self.program.db.time,
            told=moment.told,
            sentences=words,
            seconds=seconds,
            came_in=came_in,
            came_out=sum(len(told[name]) for name in TOLD),
            differences=told,
            about=self._about(moment, before),
        )
        self.positions.append(position)
        return position

    def _about(self, moment: Moment, before: dict[str, int]) -> str:
        """The account with the longest way among those that are new, or else the last one that was shown."""
        reaches = self.mirror.reaches
        new = [account for account in reaches if account not in before and reaches[account]]
        shown = self.positions[-1].about if self.positions else ""
        if new and (moment.told or not shown):
            return max(new, key=lambda account: (reaches[account], account))
        return shown if shown in reaches else max(reaches, key=lambda a: (reaches[a], a), default="")


def checked(program: Program, books: Books) -> Check:
    """Compute everything again, and compare. Its time is the processor's: on a busy machine the clock would flatter us,
    because it is more often interrupted than a change, whose time is the clock's.
    """
    started = time.thread_time()
    answer = recompute(books)
    seconds = time.thread_time() - started
    return Check(answer, seconds, len(program["recent"]), answer == maintained(program))


def _added_up(told: Differences) -> Differences:
    """The same differences, one for each row that differs in the end."""
    total: Counter[tuple[Any, ...]] = Counter()
    for row, diff in told:
        total[row] += diff
    return [(row, diff) for row, diff in total.items() if diff]
