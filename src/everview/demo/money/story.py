"""The story, in four acts.

1. *One by one.* A month of payments is known. Its last days are taken payment by payment, each in a transaction of its
   own, and the time of one is compared with computing everything again. Spark starts meanwhile.
2. *A stream.* Payments arrive through Spark, an hour of the crowd or a moment of the plot at a time, while the window
   follows the clock. What each did is told in words, and answers are checked against plain Python as they come.
3. *Backwards.* Every checked position is read again as of its time, and must be as it was.
4. *What if?* A payment that was made is supposed not to have been, and nothing happens.

What stays is a page, and the state: a directory that `everview sql` opens.
"""

from __future__ import annotations

import os
import shlex
import shutil
import sys
import tempfile
import time
from collections import deque
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console

import everview as ev
from everview.demo import pages
from everview.demo.money import data, page, stream
from everview.demo.money.data import Moment, World
from everview.demo.money.program import Program, install
from everview.demo.money.recompute import Books, maintained
from everview.demo.money.record import Check, Position, Recorder, Singles, checked, milliseconds
from everview.demo.money.screen import Screen
from everview.demo.money.supposition import Supposition, suppose
from everview.demo.spark import SparkStart, place

HISTORY = 2_000
"""Times that can be read again; a story has some hundreds."""
ASK = "SELECT account, hops, next FROM step ORDER BY hops, account"
"""What to type next."""


@dataclass(frozen=True)
class Plan:
    """How much of everything, and how long things may take, in seconds."""

    people: int = 12_000
    payments: int = 60_000
    hours: int = 36
    """Of the stream"""
    step: int = 1
    """Hours of the crowd that arrive together"""
    singles: tuple[int, int] = (1_000, 20_000)
    """Payments that are taken one by one: at least, and at most while Spark starts"""
    every: int = 4
    """Of the crowd's positions, one in so many is checked"""
    pieces: int = 40
    """Moments that a file given with --data is cut into"""
    pause: float = 1.0
    """After a moment of the plot, where somebody looks on"""
    patience: float = 25.0
    """Until Spark must have started"""
    busy: float = 14.0
    """If the stream begins later than that, it makes fewer stops"""
    late: float = 40.0
    """From then on nothing waits, and only the plot is checked"""


FAST = Plan(people=1_500, payments=6_000, step=6, singles=(200, 2_000), pieces=15, pause=0.2)


def run(
    *,
    data_file: Path | None = None,
    fast: bool = False,
    spark: bool = True,
    keep: Path | None = None,
    show: bool = True,
    plan: Plan | None = None,
    console: Console | None = None,
    screen: type[Screen] = Screen,
) -> Path:
    """Tell the story on the terminal; returns the path of the page. `show` opens it where there is a display."""
    plan = plan or (FAST if fast else Plan())
    console = console or Console()
    home = keep or Path(tempfile.mkdtemp(prefix="everview-demo-"))
    folder, state = place(home, "stream"), place(home, "state")
    world = data.load(data_file, plan.pieces) if data_file else _own(plan)
    starting = SparkStart(home / "spark.log") if spark else None
    try:
        with ev.connect(str(state), history=HISTORY) as db:
            story = Story(console, plan, world, db, folder, starting, screen)
            story.tell()
        path = page.write(home / "everview-demo.html", world, story.fed_by, story.singles, story.recorder.positions)
    finally:
        if starting is not None:
            starting.stop()
    _leave(console, story, path, state, show)
    return path


def _own(plan: Plan) -> World:
    return data.own(plan.people, plan.payments, plan.hours, plan.step)


def _leave(console: Console, story: Story, path: Path, state: Path, show: bool) -> None:
    """Say what stays, and what to type next."""
    opened = "It is open in your browser" if show and pages.open_page(path) else "Open it in a browser"
    console.print(f"\nThe whole story took {story.seconds:.0f} s. {opened}:", highlight=False)
    console.print(f"  {path}", highlight=False, soft_wrap=True, style="bold")
    console.print("The state is still there. Ask it whose money goes where, and what if it did not:", highlight=False)
    for command in next_commands(state, story.supposed):
        console.print(f"  {command}", highlight=False, soft_wrap=True, style="bold")


def next_commands(state: Path, supposed: Supposition | None) -> list[str]:
    """What to type next.

    >>> shlex.split(next_commands(Path("my state"), None)[0])[-4:] == ["sql", "my state", "-c", ASK]
    True
    """
    where = shlex.quote(str(state))
    found = [f'{program_name()} sql {where} -c "{ASK}"']
    if supposed is not None:
        what = f"DELETE FROM transfer WHERE id = {supposed.payment.id}"
        found.append(f'{program_name()} what-if {where} "{what}" reaches')
    return found


def program_name() -> str:
    """How this program is called here: by its path, if it is not on the PATH."""
    beside = Path(sys.executable).parent / "everview"
    found = shutil.which("everview")
    if found and Path(found).resolve() == beside.resolve():
        return "everview"
    if beside.is_file():
        return shlex.quote(os.path.relpath(beside) if beside.is_relative_to(Path.cwd()) else str(beside))
    return f"{shlex.quote(sys.executable)} -m everview.cli"


class Story:
    """The acts, and what they share."""

    def __init__(
        self,
        console: Console,
        plan: Plan,
        world: World,
        db: ev.Session,
        folder: Path,
        starting: SparkStart | None,
        screen: type[Screen],
    ) -> None:
        self._plan, self._world, self._db, self._folder, self._starting = plan, world, db, folder, starting
        self._began = time.perf_counter()
        self._watch = stream.Stopwatch()
        self._left: deque[Moment] = deque(world.moments)
        self.console, self.screen, self._screens = console, screen(console, world), screen
        self.singles = Singles()
        self.supposed: Supposition | None = None
        self.fed_by = ""

    @property
    def seconds(self) -> float:
        """Since it began."""
        return time.perf_counter() - self._began

    def tell(self) -> None:
        """All of it."""
        self._introduce()
        self._begin()
        self._one_by_one()
        session = self._spark()
        with self.screen:
            self._follow(session)
        with self._screens(self.console, self._world, "back in time", passing=True) as screen:
            self._back(screen)
        self._suppose()

    def _introduce(self) -> None:
        said = (
            f"[bold]{self._world.origin}.[/bold]\n"
            "Kept up to date over the last 30 days: rings of accounts that share cards or\n"
            "phones or pay each other, what each ring moves, and who pays a sanctioned\n"
            "account within six hops. Payments arrive, are cancelled, and grow old."
        )
        if self._starting is not None:
            said += f"\nSpark is starting; what its JVM says goes to {self._starting.log}"
        self.console.print(said + "\n", highlight=False, soft_wrap=True)

    # 1. one by one

    def _begin(self) -> None:
        """The views, over all of the archive but its last days."""
        world, most = self._world, self._plan.singles[1]
        self._db.advance(world.start)
        self._program: Program = install(self._db)
        alone = min(most, len(world.archive) // 3)
        known, self._single_payments = world.archive[:-alone], deque(world.archive[-alone:])
        self._books = Books(world, known)
        with self._db.transaction():
            self._program.table("account").insert(list(world.accounts.items()))
            self._program.table("sanctioned").insert([(account,) for account in world.listed])
            self._program.transfer.insert(stream.to_arrow(known))

    def _one_by_one(self) -> None:
        """Take payments alone, as long as Spark is on its way."""
        least = min(self._plan.singles[0], len(self._single_payments))
        shown = 0.0
        self.singles.check = checked(self._program, self._books)
        with self._screens(self.console, self._world, "one by one", passing=True) as screen:
            while self._single_payments and (len(self.singles.seconds) < least or self._spark_is_on_its_way()):
                payment = self._single_payments.popleft()
                began = time.perf_counter()
                self._program.transfer.insert([payment])
                self.singles.add(payment, time.perf_counter() - began)
                self._books.payments[payment.id] = payment
                if time.perf_counter() - shown > 0.1:
                    screen.single(self.singles, len(self._single_payments))
                    time.sleep(0.05 * (len(self.singles.seconds) > least))  # Spark wants the processor, too
                    shown = time.perf_counter()
        self._books.payments |= {payment.id: payment for payment in self._single_payments}
        self._program.transfer.insert(stream.to_arrow(self._single_payments))
        self.singles.check = self._equal(checked(self._program, self._books))
        self.screen.say(self.singles.in_words())

    def _spark_is_on_its_way(self) -> bool:
        return self._starting is not None and self._starting.on_its_way and self.seconds < self._plan.patience

    def _spark(self) -> Any:
        """A SparkSession, or None; what became of it is said in one line."""
        session, problem = None, "as you asked"
        if self._starting is not None:
            session, problem = self._starting.wait(self._plan.patience - self.seconds)
        self.fed_by = "Spark Structured Streaming" if session else "Everview's own reader of files"
        if session:
            self.screen.say(f"Spark started in {self._starting.took:.0f} s: the stream comes through it.")  # type: ignore[union-attr]
        else:
            self.screen.say(f"Without Spark ({problem}): Everview reads the stream's files itself.")
        self.screen.fed_by = "Spark stream" if session else "without Spark"
        return session

    # 2. a stream

    def _follow(self, session: Any) -> None:
        """The pipeline: files to payments, one transaction each."""
        if self.seconds > self._plan.busy:
            self._left = deque(data.fewer(self._left))
        stream.write(self._folder, (moment for moment in self._left if moment.arrives))
        self.recorder = Recorder(self._program, self._watch)
        first = self.recorder.begin(Moment(self._world.start, (), False))
        self._shown(first, check=True)
        self._by_hand()
        source = stream.Watched(stream.files(self._folder, session), self._arrives, self._taken)
        self._db.source("transfer", source, key="id", mode="changes")
        if self._db.run(until="caught_up").stopped_by == "interrupt":
            raise KeyboardInterrupt

    def _arrives(self) -> None:
        """Rows are here: the clock goes on to their time, and the watch runs."""
        self._prepare(self._left[0])
        self._watch.start()

    def _taken(self) -> None:
        """They are in, and the views are right."""
        self._watch.stop()
        self._happened(self._left.popleft())
        self._by_hand()

    def _by_hand(self) -> None:
        """Moments that do not come with the stream: somebody changes the list, or only time passes."""
        while self._left and not self._left[0].arrives:
            moment = self._left.popleft()
            self._prepare(moment)
            self._happened(moment)

    def _prepare(self, moment: Moment) -> None:
        self._watch.reset()
        stream.slide(self._db, moment.at, self._watch)
        sanctioned = self._program.table("sanctioned")
        for event in moment.events:
            self._watch.start()
            if event.what == "list":
                sanctioned.insert([(event.account,)])
            elif event.what == "delist":
                sanctioned.delete(keys=[event.account])
            self._watch.stop()

    def _happened(self, moment: Moment) -> None:
        self._books.enter(moment.events, moment.at)
        position = self.recorder.happened(moment)
        late = self.seconds > self._plan.late
        self._shown(position, check=moment.told or (not late and position.number % self._plan.every == 0))
        if moment.told and self.screen.live and not late:
            time.sleep(self._plan.pause)

    def _shown(self, position: Position, *, check: bool) -> None:
        if check:
            position.check = self._equal(checked(self._program, self._books))
        self.screen.position(position, self.recorder.mirror)

    @staticmethod
    def _equal(check: Check) -> Check:
        if not check.equal:
            raise AssertionError("the views and plain Python do not agree: please report this")
        return check

    # 3. backwards

    def _back(self, screen: Screen) -> None:
        """Read checked positions again, the last one first."""
        again = [position for position in self.recorder.positions if position.check is not None][::-1]
        began = time.perf_counter()
        for position in again:
            assert position.check is not None
            equal = maintained(self._program, position.time) == position.check.answer
            screen.back(position, equal)
            if not equal:
                raise AssertionError(f"as of {position.time} the answer is another one: please report this")
            if screen.live and self.seconds < self._plan.late:
                time.sleep(self._plan.pause / 6)
        took = (time.perf_counter() - began) / len(again) * 1e3
        screen.say(
            f"Backwards: {len(again)} positions read again as of their time ({took:.0f} ms each), all as they were."
        )

    # 4. what if?

    def _suppose(self) -> None:
        """Ask what would be different, and say that nothing is."""
        self.supposed = found = suppose(self._program, self._books)
        if found is None:
            return
        if not found.equal:
            raise AssertionError("what_if and plain Python do not agree: please report this")
        paid = found.payment
        self.console.print(
            f"What if {paid.payer} had never paid {paid.payee} {paid.amount:,}? {found.lost} accounts would no longer "
            f"reach a sanctioned one ({milliseconds(found.seconds)}; equal). Nothing has changed.",
            highlight=False,
        )
