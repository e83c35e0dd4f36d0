"""What each slide did: how long it took, and the differences that went in and came out.

The page's slider needs the contents of many windows. It gets the differences between them, as the views' subscribers
do, and adds them up.
"""

from __future__ import annotations

import statistics
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from everview.demo.change_collector import Differences, Listener
from everview.demo.mentions.program import Program
from everview.demo.mentions.recompute import method
from everview.demo.mentions.window import Window

SHOWN = ("member", "size", "favourite", "link")
"""The views whose changes are counted as coming out, and kept for the page."""


@dataclass(frozen=True)
class Slide:
    """One move of the window."""

    window: Window
    seconds: float
    came_in: int
    """Mentions that entered or left the window"""
    came_out: int
    """Changes of the views"""


@dataclass(frozen=True)
class Frame:
    """A slide, or several as one, with what changed, for the page."""

    slide: Slide
    differences: dict[str, Differences]
    slides: int = 1


def together(frames: list[Frame]) -> Frame:
    """Frames that follow one another as one: differences add up, and what came and went again is no difference."""
    differences = {}
    for name in SHOWN:
        total: Counter[tuple[Any, ...]] = Counter()
        for frame in frames:
            for row, diff in frame.differences[name]:
                total[row] += diff
        differences[name] = [(row, diff) for row, diff in total.items() if diff]
    slides = [frame.slide for frame in frames]
    whole = Slide(
        slides[-1].window,
        sum(s.seconds for s in slides),
        sum(s.came_in for s in slides),
        sum(s.came_out for s in slides),
    )
    return Frame(whole, differences, len(frames))


@dataclass
class Act:
    """The slides of a part of the story, next to what computing everything again costs."""

    title: str
    slides: list[Slide] = field(default_factory=list)
    taken: int = 0
    """Mentions that arrived meanwhile"""
    began: float = 0.0
    ended: float = 0.0
    from_scratch: list[float] = field(default_factory=list)
    """Seconds of `recompute`, for some of the windows"""
    all_again: float = 0.0
    """Seconds of a fresh session for one window"""

    def milliseconds(self, part: float = 0.5) -> float:
        """The median slide, or another quantile."""
        ordered = sorted(s.seconds for s in self.slides)
        return ordered[min(int(len(ordered) * part), len(ordered) - 1)] * 1e3 if ordered else 0.0

    @property
    def per_second(self) -> float:
        """Slides per second of slides."""
        return len(self.slides) / total if (total := sum(s.seconds for s in self.slides)) else 0.0

    @property
    def scratch_ms(self) -> float:
        """The median recomputation."""
        return statistics.median(self.from_scratch) * 1e3 if self.from_scratch else 0.0

    def facts(self) -> list[tuple[str, str]]:
        """What there is to say, for the terminal and the page."""
        if not self.slides:
            return []
        found = [
            ("slides", f"{len(self.slides):,}, {self.per_second:,.0f} per second"),
            (
                "a slide, until all views are right",
                f"median {self.milliseconds():.2f} ms, p99 {self.milliseconds(0.99):.1f} ms",
            ),
            (
                "differences in and out",
                f"{_mean(self.slides, 'came_in'):,.1f} and {_mean(self.slides, 'came_out'):,.1f} a slide",
            ),
        ]
        if self.all_again:
            found.append(
                ("all views of this window again", f"{self.all_again * 1e3:.0f} ms{self._times(self.all_again)}")
            )
        if self.from_scratch:
            found.append(
                (
                    f"components and tags with {method()}, from scratch",
                    f"{self.scratch_ms:.2f} ms{self._times(self.scratch_ms / 1e3)}",
                )
            )
        if self.taken:
            took = self.ended - self.began
            found.append(("mentions taken from the stream", f"{self.taken:,} in {took:.1f} s, slides included"))
        return found

    def _times(self, seconds: float) -> str:
        """How that compares with a slide, whichever is faster."""
        ratio = seconds * 1e3 / self.milliseconds()
        return f", the time of {ratio:,.0f} slides" if ratio >= 10 else f", the time of {ratio:.1f} slides"


def _mean(slides: list[Slide], what: str) -> float:
    return statistics.fmean(getattr(s, what) for s in slides)


class Recorder:
    """Listens to the views and tells slides apart."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self._listener = Listener({name: getattr(program, name) for name in ("current", *SHOWN)})

    def slid(self, window: Window, seconds: float) -> Frame:
        """What has changed since the last call is this slide's doing."""
        rows = self._listener.heard()
        came_in = sum(abs(diff) for _, diff in rows.pop("current"))
        return Frame(Slide(window, seconds, came_in, sum(map(len, rows.values()))), rows)

    def present(self, window: Window) -> Frame:
        """The present contents as differences from nothing: where a sequence of frames begins."""
        contents = {name: list(getattr(self.program, name).counts().items()) for name in SHOWN}
        rows = len(self.program.current)
        return Frame(Slide(window, 0.0, rows, sum(map(len, contents.values()))), contents)
