"""The story, in three acts.

1. *A long window, small slides.* Over a year of mentions the window moves hour by hour, there and back, and a slide is
   compared with computing everything again. Spark starts meanwhile.
2. *A stream.* The window shrinks to a week. New mentions arrive through Spark, and it follows them hour by hour.
3. *Back again.* It goes back through the same days, and every one must be as it was.

All answers that were recorded are checked against recomputation at the end, and the page is written.
"""

from __future__ import annotations

import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
from rich.console import Console

import everview as ev
from everview.demo.mentions import page, stream
from everview.demo.mentions.dashboard import Dashboard, span
from everview.demo.mentions.data import Mentions, load
from everview.demo.mentions.program import Program, install
from everview.demo.mentions.recompute import Answer, maintained, recompute
from everview.demo.mentions.record import Act, Frame, Recorder, together
from everview.demo.mentions.window import Follower, Window, slide
from everview.demo.spark import SparkStart, place
from everview.session.changes.batch import Batch

DAY = 24
"""Slots of a day, as long as slots are hours."""


@dataclass(frozen=True)
class Plan:
    """How much of everything; lengths in days."""

    archive: int = 390
    """Known at the start"""
    wide: int = 365
    """The long window"""
    week: int = 7
    """The short one"""
    files: int = 4
    """Files of the stream"""
    per_file: int = 20
    hourly: int = 400
    """Slides of the first act, there and back"""
    checks: int = 20
    """Recomputations that are timed in an act"""
    patience: float = 25.0
    """Seconds after the start at which Spark must have started"""
    busy: float = 18.0
    """Seconds after the start from which on the stream is cut to one file, so that the story ends within a minute"""

    @property
    def slots(self) -> int:
        """Of everything."""
        return (self.archive + self.files * self.per_file) * DAY


FAST = Plan(archive=50, wide=42, files=3, per_file=7, hourly=60, checks=5, busy=60.0)


def run(*, data: Path | None = None, fast: bool = False, spark: bool = True, keep: Path | None = None) -> Path:
    """Tell the story on the terminal; gives the path of the page."""
    plan = FAST if fast else Plan()
    console = Console()
    started = time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="everview-demo-") as scratch:
        folder = place(keep or Path(scratch), "mentions")
        starting = SparkStart(folder.parent / "spark.log") if spark else None
        try:
            story = _Story(console, plan, load(data, plan.slots), folder)
            story.introduce()
            with ev.connect() as db:
                story.begin(db)
                story.long_window()
                story.follow(starting, started)
                story.back()
                story.check()
                path = story.leave_page(keep)
        finally:
            if starting is not None:
                starting.stop()
    took = time.perf_counter() - started
    console.print(f"\nThe whole story took {took:.0f} s. [bold]The page: {path}[/bold]", soft_wrap=True)
    return path


class _Story:
    """The acts, and what they share."""

    def __init__(self, console: Console, plan: Plan, mentions: Mentions, folder: Path) -> None:
        self._console, self._plan, self._mentions, self._folder = console, plan, mentions, folder
        self._frames: list[Frame] = []
        self._answers: dict[Window, Answer] = {}
        self._acts: list[Act] = []
        self._fed_by = ""

    def introduce(self) -> None:
        """Say what is shown, and what is made up."""
        self._console.print(
            f"[bold]{len(self._mentions):,} mentions[/bold]: {self._mentions.origin}.\n"
            "They have no tags; tags are made up, everybody having a field of their own.\n"
            "Kept up to date for the mentions inside a time window: who is strongly connected with whom, the sizes of "
            "these components, and the tag used most in each.",
            highlight=False,
        )

    def begin(self, db: ev.Session) -> None:
        """Install the views over the archive."""
        self._program: Program = install(db)
        self._recorder = Recorder(self._program)
        self._program.mention.insert(self._mentions.between(0, self._plan.archive * DAY).to_arrow())

    def _act(self, title: str) -> tuple[Act, Dashboard]:
        act = Act(title)
        self._acts.append(act)
        return act, Dashboard(self._console, self._mentions, self._program, act, self._plan.slots)

    # the acts

    def long_window(self) -> None:
        """Slide a long window by one slot, there and back."""
        plan = self._plan
        act, dashboard = self._act(f"1. A window of {plan.wide} days slides by the hour, forwards and backwards")
        window = Window(0, plan.wide * DAY)
        slide(self._program, Window(0, 0), window)
        act.all_again = self._all_again(window)
        self._recorder.slid(window, 0.0)
        there = min(plan.hourly // 2, plan.archive * DAY - window.last)
        every = max(2 * there // plan.checks, 1)
        with dashboard:
            for number in range(2 * there):
                after = window.moved(1 if number < there else -1)
                dashboard.slid(self._recorder.slid(after, slide(self._program, window, after)).slide)
                window = after
                if number % every == 0:
                    self._compare(act, window)
        self._window = window

    def follow(self, starting: SparkStart | None, started: float) -> None:
        """Shrink the window and let it follow a stream."""
        plan = self._plan
        session = self._spark(starting, started + plan.patience - time.perf_counter())
        files = plan.files
        if time.perf_counter() > started + plan.busy:
            files = 1
            self._console.print("\nThis machine is busy: one file of the stream will do.")
        first = plan.archive * DAY
        folder = self._folder
        stream.write(folder, self._mentions, first, first + files * plan.per_file * DAY, plan.per_file * DAY)
        how = "Spark Structured Streaming" if session else "Everview's own reader of files"
        self._fed_by = f"{how}, {files} files"
        act, dashboard = self._act(f"2. A window of {plan.week} days follows new mentions by the hour, through {how}")
        window = Window(first - plan.week * DAY, first)
        slide(self._program, self._window, window)
        act.all_again = self._all_again(window)
        self._recorder.slid(window, 0.0)
        self._frames.append(self._recorder.present(window))
        self._answers[window] = maintained(self._program)
        with dashboard:
            self._window = self._play(folder, session, window, act, dashboard)

    def _play(self, folder: Path, session: object, window: Window, act: Act, dashboard: Dashboard) -> Window:
        """The pipeline: mentions from the stream, slides from a follower."""
        db, plan = self._program.db, self._plan

        today: list[Frame] = []

        def moved(now: Window, seconds: float) -> None:
            today.append(self._recorder.slid(now, seconds))
            dashboard.slid(today[-1].slide)
            if now.last % DAY == 0:  # a picture a day
                self._frames.append(together(today))
                self._answers[now] = maintained(self._program)
                today.clear()
                if now.last % (DAY * max(plan.files * plan.per_file // plan.checks, 1)) == 0:
                    self._compare(act, now)

        follower = Follower(window, 1, moved)
        newest = db.view("newest", self._program.mention.agg(slot=ev.col.slot.max()))

        def arrived(batch: Batch) -> None:
            slots = [row[0] for row, diff in batch.rows() if diff > 0]
            follower.newest = max(slots) // DAY * DAY + DAY

        newest.subscribe(arrived, snapshot=False)
        db.source("mention", stream.source(folder, session))
        db.source("window", follower, mode="changes")
        act.taken = db.run(until="caught_up").rows["mention"]
        return follower.window

    def _spark(self, starting: SparkStart | None, patience: float) -> object:
        if starting is None:
            return None
        if self._console.is_terminal:
            self._console.print("\nWaiting for Spark ...", end="\r")
        session, problem = starting.wait(patience)
        if session is None:
            self._console.print(f"\nWithout Spark: {problem}", highlight=False)
        return session

    def back(self) -> None:
        """Go back through the days of the stream; each must be as it was."""
        dashboard = self._act("3. Back again, day by day: every window must be as it was")[1]
        recorded = list(self._answers)[::-1][1:]
        with dashboard:
            for after in recorded:
                dashboard.slid(self._recorder.slid(after, slide(self._program, self._window, after)).slide)
                self._window = after
                if maintained(self._program) != self._answers[after]:
                    raise AssertionError(f"going back to {span(self._mentions, after)} gave another answer")
        self._console.print(f"  {len(recorded)} windows, each exactly as on the way there.", highlight=False)

    # comparing

    def _compare(self, act: Act, window: Window) -> None:
        """Time a recomputation of this window."""
        held = self._mentions.between(window.first, window.last)
        started = time.perf_counter()
        recompute(held)
        act.from_scratch.append(time.perf_counter() - started)

    def _all_again(self, window: Window) -> float:
        """Seconds until a session that starts with nothing has all views of this window, the best of three."""
        held = self._mentions.between(window.first, window.last).to_arrow()
        return min(self._evaluated(window, held) for _ in range(3))

    @staticmethod
    def _evaluated(window: Window, held: pa.Table) -> float:
        with ev.connect() as db:
            program = install(db)
            program.window.insert([(slot,) for slot in range(window.first, window.last)])
            started = time.perf_counter()
            program.mention.insert(held)
            return time.perf_counter() - started

    def check(self) -> None:
        """Compare every recorded answer with one from scratch."""
        self._console.print("\nChecking the recorded answers against computing them from scratch ...", end=" ")
        for window, answer in self._answers.items():
            if recompute(self._mentions.between(window.first, window.last)) != answer:
                raise AssertionError(f"the answer of {span(self._mentions, window)} is wrong: please report this")
        self._console.print(f"[green]{len(self._answers)} windows, all equal[/green].", highlight=False)

    def leave_page(self, keep: Path | None) -> Path:
        """Write the page where it stays."""
        folder = keep or Path(tempfile.mkdtemp(prefix="everview-demo-page-"))
        return page.write(folder / "everview-demo.html", self._mentions, self._fed_by, self._acts, self._frames)
