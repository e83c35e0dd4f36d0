"""The story of money: what it says is so, its page holds what plain Python says, and what it leaves can be asked."""

from __future__ import annotations

import datetime as dt
import io
import os
import random
import shlex
import subprocess
import sys
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import networkx as nx
import pytest
from rich.console import Console

import everview as ev
from everview.demo import pages
from everview.demo.money import data, page, story, stream, words
from everview.demo.money.data import WINDOW, Event, Moment, Payment, World
from everview.demo.money.program import DRAWN, HOPS, TOLD, install
from everview.demo.money.recompute import Answer, Books, maintained, recompute
from everview.demo.money.screen import Screen
from everview.demo.spark import SparkStart
from everview.errors import InputError
from tests.demo.conftest import Renderer

SRC = Path(__file__).resolve().parents[2] / "src"
ENVIRONMENT = os.environ | {"PYTHONPATH": str(SRC), "COLUMNS": "80", "TERM": "dumb"}

PLOT = [
    "Dan pays Victor 900 with a phone.",
    "Dan and Alice now reach Blackwater Ltd within 5 hops.",
    "Bob's card links two rings: +4 accounts.",
    "Carol now reaches Blackwater Ltd in 6 hops.",
    "Kim, Judy, Ivan and 2 more now reach Orlov Trading within 5 hops.",
    "Heidi, Frank, Erin and Grace now reach Orlov Trading within 5 hops.",
    "Erin's 35 to Corner Bakery of 31 March is cancelled.",
    "A ring of 16 falls apart: 10 + 6 accounts.",
    "Walter's 2,400 to Moonlight Antiques is 30 days old, and leaves.",
    "Alice, Carol, Dan and 2 more no longer reach a sanctioned account.",
    "Walter, Victor, Dan and 2 more now reach Blackwater Ltd within 6 hops.",
    "Alice, Carol, Dan and Victor no longer reach a sanctioned account.",
    "Bob, Alice and Carol now reach Orlov Trading within 6 hops.",
    "Grace, Heidi, Frank and 3 more now reach Blackwater Ltd within 6 hops.",
]
"""What must be told, in this order."""


# what it says


def in_order(said: str) -> str:
    """All of the plot is in what was said, in order; gives that without line breaks."""
    said = " ".join(said.split())
    places = [said.find(sentence) for sentence in PLOT]
    assert -1 not in places, PLOT[places.index(-1)]
    assert places == sorted(places)
    return said


def test_the_plot_is_told_in_order_and_checked(telling: Renderer) -> None:
    said = in_order(telling.said)
    assert said.count("; equal.") == 12
    assert "Without Spark (as you asked)" in telling.said
    assert "all as they were" in said
    assert "What if Moonlight Antiques had never paid Blackwater Ltd 9,000?" in said and "Nothing has changed." in said


def test_lines_fit_into_80_columns_but_for_paths(telling: Renderer) -> None:
    long = [line for line in telling.said.splitlines() if len(line) > 80 and str(telling.home) not in line]
    assert long == []


@pytest.mark.parametrize(
    ("which", "tail", "answers"),
    [
        (-2, ["sql", "{state}", "-c", story.ASK], ("Grace", "Moonlight Antiques", "Blackwater Ltd")),
        (-1, ["what-if", "{state}", "DELETE FROM transfer WHERE id = 16", "reaches"], ("Grace", "Otis", "Walter")),
    ],
    ids=["sql", "what-if"],
)
def test_the_last_lines_can_be_typed(telling: Renderer, which: int, tail: list[str], answers: tuple[str, ...]) -> None:
    program, *arguments = shlex.split(telling.said.strip().splitlines()[which].strip())
    assert program.endswith(("everview", Path(sys.executable).name))
    wanted = [part.format(state=telling.home / "state") for part in tail]
    assert arguments[-4:] == wanted
    done = subprocess.run(
        [sys.executable, "-m", "everview.cli", *arguments[-4:]],
        capture_output=True,
        text=True,
        env=ENVIRONMENT,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert [word for word in answers if word not in done.stdout] == []


def test_the_state_can_be_read_as_of_a_position(telling: Renderer) -> None:
    """After the story, by another process: history is part of what stays."""
    positions = telling.data["positions"]
    cancelled = next(p for p in positions if any("of 31 March is cancelled" in text for text, _ in p["words"]))
    with ev.connect(str(telling.home / "state"), read_only=True, history=story.HISTORY) as db:
        rings = dict(db["member"].as_of(cancelled["time"] - 1).rows())
        assert rings["Alice"] == rings["Erin"]
        rings = dict(db["member"].as_of(cancelled["time"]).rows())
        assert rings["Alice"] != rings["Erin"]


def test_as_a_command_without_a_terminal(tmp_path: Path) -> None:
    """And with data of one's own: the plot alone is such a file."""
    own = tmp_path / "own.csv"
    own.write_text((SRC / "everview/demo/money/plot.csv").read_text())
    command = [sys.executable, "-m", "everview.cli", "demo", "--embedded", "--fast", "--data", str(own)]
    command += ["--keep", str(tmp_path / "kept")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, env=ENVIRONMENT, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert "\x1b" not in done.stdout
    assert "Bob's card links two rings" in done.stdout
    assert (tmp_path / "kept" / "everview-demo.html").is_file()


def test_through_a_dumb_terminal_and_a_clever_one() -> None:
    world = data.own(10, 20, 36, 6)
    for name, live in (("dumb", False), ("xterm-256color", True)):
        console = Console(file=io.StringIO(), force_terminal=True, width=80, _environ={"TERM": name})
        assert Screen(console, world).live == live


def test_the_screen_fits_into_80_columns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    frames: list[list[str]] = []

    def draw(self: Screen, what: Any) -> None:
        console = Console(file=io.StringIO(), width=200, record=True, force_terminal=True)
        console.print(what)
        frames.append([line.rstrip() for line in console.export_text().splitlines()])

    monkeypatch.setattr(Screen, "_show", draw)
    monkeypatch.setattr(Screen, "live", True)
    plan = story.Plan(people=200, payments=600, step=6, singles=(20, 20), pause=0.0)
    story.run(plan=plan, spark=False, keep=tmp_path, console=Console(file=io.StringIO(), width=80))
    assert max(len(line) for frame in frames for line in frame) <= 80
    assert max(len(frame) for frame in frames) <= 24
    text = "\n".join("\n".join(frame) for frame in frames)
    for part in (
        "this change",
        "from scratch",
        "plain Python",
        "equal ✓",
        "Bob's card links two rings",
        "▀▄▀",  # the sign after the large number, whatever that is on a busy machine
        "as it was",
    ):
        assert part in text
    assert "Carol → Alice → Dan → Victor → Walter → Moonlight Antiques → Blackwater Ltd" in text


# what it computes


def networkx_says(books: Books) -> Answer:
    """The same again by somebody else."""
    recent = [p for p in books.payments.values() if p.at > books.now - WINDOW]
    ties, money = nx.Graph(), nx.DiGraph()
    for p in recent:
        ties.add_edge(p.payer, ("via", p.via))
        money.add_edge(p.payee, p.payer)
        if books.accounts[p.payee] != "shop":
            ties.add_edge(p.payer, p.payee)
    ring: dict[str, str] = {}
    totals: dict[str, tuple[int, int]] = {}
    for part in nx.connected_components(ties):
        members = sorted(node for node in part if isinstance(node, str))
        ring |= dict.fromkeys(members, members[0])
        if len(members) >= 3:
            totals[members[0]] = (len(members), sum(p.amount for p in recent if p.payer in part))
    money.add_nodes_from(books.listed)
    reaches: dict[str, int] = {}
    for goal in books.listed:
        for node, hops in nx.single_source_shortest_path_length(money, goal, cutoff=HOPS).items():
            reaches[node] = min(hops, reaches.get(node, hops))
    return Answer(ring, totals, reaches)


def random_world(dice: random.Random) -> tuple[World, list[Moment]]:
    people = [f"p{n}" for n in range(14)]
    accounts = dict.fromkeys(people, "person") | dict.fromkeys(("s1", "s2"), "shop")
    start = dt.datetime(2026, 1, 31)

    def payment(number: int, at: dt.datetime) -> Payment:
        payer = dice.choice([*people, "s1"])
        via = f"{dice.choice(people)}'s card" if dice.random() < 0.1 else f"{payer}'s card"
        return Payment(number, at, payer, dice.choice(list(accounts)), via, dice.randrange(1, 50))

    archive = [payment(n, start - dt.timedelta(hours=dice.randrange(0, 800))) for n in range(25)]
    paid, listed, moments = list(archive), {"p0"}, []
    for step in range(30):
        now = start + dt.timedelta(days=step)
        luck = dice.random()
        if luck < 0.2 and len(listed) < 3:
            event = Event(now, "list", account=dice.choice([p for p in people if p not in listed]))
            listed.add(event.account)
        elif luck < 0.3 and listed:
            event = Event(now, "delist", account=dice.choice(sorted(listed)))
            listed.discard(event.account)
        elif luck < 0.5 and paid:
            event = Event(now, "cancel", paid.pop(dice.randrange(len(paid))))
        else:
            paid.append(payment(1000 + step, now))
            event = Event(now, "pay", paid[-1])
        moments.append(Moment(now, (event,), True))
    return World("random", accounts, ("p0",), archive, start, moments), moments


@pytest.mark.parametrize("seed", range(4))
def test_views_recomputation_and_networkx_agree(seed: int) -> None:
    world, moments = random_world(random.Random(seed))
    books = Books(world, world.archive)
    with ev.connect() as db:
        db.advance(world.start)
        program = install(db)
        program.table("account").insert(list(world.accounts.items()))
        program.table("sanctioned").insert([(name,) for name in world.listed])
        program.transfer.insert(stream.to_arrow(world.archive))
        mirror = words.Mirror()
        mirror.take({name: list(program[name].counts().items()) for name in TOLD})
        for moment in moments:
            before = db.time
            db.advance(moment.at)
            for event in moment.events:
                paid = event.payment
                if event.what in ("list", "delist"):
                    change = program.table("sanctioned")
                    change.insert([(event.account,)]) if event.what == "list" else change.delete(keys=[event.account])
                elif event.what == "cancel" and paid is not None:
                    program.transfer.delete(keys=[paid.id])
                elif paid is not None:
                    program.transfer.insert([paid])
            books.enter(moment.events, moment.at)
            expected = networkx_says(books)
            assert recompute(books) == maintained(program) == expected
            mirror.take({name: added_up(program[name].changes(since=before)) for name in TOLD})
            check_mirror(mirror, expected, books)


def added_up(changes: list[tuple[Any, int, int]]) -> list[tuple[Any, int]]:
    total: Counter[Any] = Counter()
    for row, _, diff in changes:
        total[row] += diff
    return [(row, diff) for row, diff in total.items() if diff]


def check_mirror(mirror: words.Mirror, expected: Answer, books: Books) -> None:
    """What the words are made of is what the views hold, and a way is a way."""
    assert mirror.reaches == expected.reaches
    assert {min(mirror.members[ring]): total for ring, total in mirror.totals.items()} == expected.totals
    paid = {(p.payer, p.payee) for p in books.payments.values() if p.at > books.now - WINDOW}
    for account, hops in expected.reaches.items():
        way = mirror.way(account)
        assert len(way) == hops + 1 and way[-1] in books.listed
        assert all(step in paid for step in pairwise(way))


# words


def regrouped(before: dict[str, str], after: dict[str, str]) -> words.Regrouped:
    mirror = words.Mirror()
    nothing: dict[str, list[Any]] = {name: [] for name in TOLD}
    mirror.take(nothing | {"member": [(row, 1) for row in before.items()]})
    gone = [(row, -1) for row in before.items() if row not in after.items()]
    come = [(row, 1) for row in after.items() if row not in before.items()]
    return mirror.take(nothing | {"member": gone + come})


def test_rings_merge_and_split_whatever_they_are_called() -> None:
    apart, joined = {"a": "1", "b": "1", "c": "2"}, {"a": "2", "b": "2", "c": "2"}
    assert regrouped(apart, joined).merged == [({"a", "b", "c"}, [{"a", "b"}, {"c"}])] or regrouped(
        apart, joined
    ).merged == [({"a", "b", "c"}, [{"c"}, {"a", "b"}])]
    assert regrouped(apart, joined).split == []
    found = regrouped(joined, apart)
    assert found.merged == [] and [whole for whole, _ in found.split] == [{"a", "b", "c"}]
    renamed = regrouped({"a": "1", "b": "1"}, {"a": "2", "b": "2"})
    assert renamed.merged == renamed.split == []


# data


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (None, "there is no file"),
        ("at,what\n", "has no column amount, id, payee, payer, via"),
        ("{h}2026-01-01,pay,x,a,b,c,1\n", "line 2: invalid literal"),
        ("{h}2026-01-01,steal,1,a,b,c,1\n", "'steal' is none of"),
        ("{h}2026-01-01,pay,1,a,,c,1\n", "a payment has a payer"),
        ("{h}2026-01-01,pay,1,a,b,c,1\n2026-01-02,pay,1,a,b,c,1\n", "line 3: there is a payment 1 already"),
        ("{h}2026-01-01,cancel,1,,,,\n", "no payment 1 comes before it"),
        ("{h}2026-01-01,list,,,,,\n", "whose account is meant"),
        ("{h}2026-01-01,list,,a,,,\n", "no two different times"),
        ("{h}2026-01-01,pay,1,a,b,c,1\n2026-01-02,pay,2,a,b,c,1\n", "puts nobody on the list"),
    ],
)
def test_bad_data_is_refused_with_its_line(tmp_path: Path, text: str | None, complaint: str) -> None:
    path = tmp_path / "own.csv"
    if text is not None:
        path.write_text(text.format(h="at,what,id,payer,payee,via,amount\n"))
    with pytest.raises(InputError) as refused:
        data.load(path, 5)
    assert complaint in str(refused.value)


def test_the_same_world_every_time() -> None:
    one, two = (data.own(200, 500, 36, 6) for _ in range(2))
    assert one == two
    assert len(one.archive) > 450 and len({payment.id for payment in one.archive}) == len(one.archive)
    assert all(p.payer != p.payee for p in one.archive)
    stops = [moment.at for moment in one.moments]
    assert stops == sorted(stops)
    assert sum(moment.told for moment in one.moments) == 12
    assert len(data.fewer(one.moments)) < len(one.moments)
    assert sum(len(m.events) for m in data.fewer(one.moments)) == sum(len(m.events) for m in one.moments)


def test_a_place_that_is_taken_is_refused(tmp_path: Path) -> None:
    (tmp_path / "stream").mkdir()
    (tmp_path / "stream" / "0.parquet").write_text("")
    (tmp_path / "file").write_text("")
    for keep, code in ((tmp_path, "E_NOT_EMPTY"), (tmp_path / "file", "E_FILE")):
        with pytest.raises(InputError) as refused:
            story.run(fast=True, spark=False, keep=keep)
        assert refused.value.code == code


# the page


def test_the_page_holds_what_the_views_held(telling: Renderer) -> None:
    text = telling.page.read_text()
    assert (
        "http" not in text.replace("http://www.w3.org/2000/svg", "") and 'src="' not in text and 'type="range"' in text
    )
    contents = {name: Counter[Any]() for name in page.VIEWS}
    with ev.connect(str(telling.home / "state"), read_only=True, history=story.HISTORY) as db:
        for position in telling.data["positions"]:
            for name, total in contents.items():
                for *row, diff in position[name]:
                    total[tuple(row)] += diff
                assert +total == Counter(db[name].as_of(position["time"]).rows()), (name, position["at"])
    assert set(DRAWN) < set(contents)


def test_a_page_opens_only_where_somebody_looks(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    opened: list[str] = []
    monkeypatch.setattr("webbrowser.open", lambda place: not opened.append(place))  # type: ignore[func-returns-value]
    monkeypatch.setenv("DISPLAY", ":0")
    assert not pages.open_page(tmp_path / "page.html"), "standard output is no terminal here"
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    assert pages.open_page(tmp_path / "page.html")
    assert opened == [(tmp_path / "page.html").resolve().as_uri()]
    monkeypatch.delenv("DISPLAY")
    monkeypatch.delenv("WAYLAND_DISPLAY", raising=False)
    monkeypatch.setattr(sys, "platform", "linux")
    assert not pages.open_page(tmp_path / "page.html")


def test_the_recorded_picture_needs_nothing_from_elsewhere() -> None:
    path = SRC.parent / "docs" / "pictures" / "demo.svg"
    text = path.read_text()
    ElementTree.fromstring(text)
    assert "http" not in text.replace("http://www.w3.org/2000/svg", "")
    assert "Where&#160;does&#160;the&#160;money&#160;go?" in text and "@keyframes" in text


# Spark


def test_without_pyspark_the_reason_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyspark.sql", None)
    starting = SparkStart(tmp_path / "spark.log")
    assert starting.wait(60) == (None, "PySpark is not installed")
    starting.stop()


@pytest.mark.slow
@pytest.mark.spark
def test_through_spark(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "everview.cli", "demo", "--fast", "--keep", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, env=ENVIRONMENT, check=False)
    assert done.returncode == 0, done.stderr
    started = "the stream comes through it" in in_order(done.stdout)
    assert started != ("Without Spark" in done.stdout)
    assert str(tmp_path / "spark.log") in done.stdout
    assert "WARN" not in done.stdout + done.stderr, "what the JVM says goes to its file"
    if started:
        assert "WARN" in (tmp_path / "spark.log").read_text()
