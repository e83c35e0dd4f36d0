"""Payments, and what else happens to a bank: as lines of a file, or as the story's own plot amid a made-up crowd.

A file has a header and a line for every thing that happened, in order of time:

    at,what,id,payer,payee,via,amount
    2026-03-01 00:00,list,,Blackwater Ltd,,,                                  put on the list of sanctioned accounts
    2026-03-05 10:00,pay,2,Alice,Bob,Alice's phone,300                        with the card or phone that was used
    2026-03-31 19:30,cancel,2,,,,                                             payment 2 was none
    2026-04-01 15:00,delist,,Blackwater Ltd,,,
    2026-03-01 00:00,shop,,Corner Bakery,,,                                   is a shop, which everybody pays
    2026-03-31 21:30,wait,,,,,                                                nothing but time passes

`plot.csv` in this package is such a file, and `everview demo --data FILE` takes another. Everything before `start` is
known when the story begins. What comes later is cut into *moments*, which arrive one by one.
"""

from __future__ import annotations

import csv
import datetime as dt
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from typing import Literal, NamedTuple, get_args

from everview.demo.money import crowd
from everview.errors import InputError

What = Literal["pay", "cancel", "list", "delist", "shop", "wait"]

START = dt.datetime(2026, 3, 31, 8)
"""When the story's own stream begins."""
WINDOW = dt.timedelta(days=30)
"""How long a payment counts; `program` says the same in SQL."""
CROWD = 1000
"""The first number of a payment that is none of the plot's."""
COLUMNS = ("at", "what", "id", "payer", "payee", "via", "amount")


class Payment(NamedTuple):
    """A row of the table `transfer`."""

    id: int
    at: dt.datetime
    payer: str
    payee: str
    via: str
    """The card or phone it was made with"""
    amount: int


class Event(NamedTuple):
    """A line of a file."""

    at: dt.datetime
    what: What
    payment: Payment | None = None
    """What is paid, or cancelled"""
    account: str = ""
    """Who is put on the list, or taken off; the shop"""


@dataclass(frozen=True)
class Moment:
    """What arrives at once."""

    at: dt.datetime
    events: tuple[Event, ...]
    told: bool
    """Whether it belongs to the plot, and is told event by event"""

    @property
    def arrives(self) -> bool:
        """Whether it comes with the stream: payments do, the list and the clock are changed by hand."""
        return any(event.payment is not None for event in self.events)


@dataclass(frozen=True)
class World:
    """Everything that happens."""

    origin: str
    """Where it comes from, for people"""
    accounts: dict[str, str]
    """What each is: person or shop"""
    listed: tuple[str, ...]
    """Who is sanctioned at the start"""
    archive: list[Payment]
    """Payments before the start, in order of time"""
    start: dt.datetime
    moments: list[Moment] = field(default_factory=list)


def own(people: int, payments: int, hours: int, step: int) -> World:
    """The plot amid a crowd: this many payments in the month before the start, and then moments every `step` hours."""
    with files(__package__).joinpath("plot.csv").open(encoding="utf-8") as file:
        plot = read(file, "plot.csv")
    end = START + dt.timedelta(hours=hours)
    paid = crowd.payments(people, START - WINDOW, START, payments, end)
    crowded = [
        Payment(n, at, payer, payee, via, amount) for n, (at, payer, payee, via, amount) in enumerate(paid, CROWD)
    ]
    everybody = [*plot, *(Event(payment.at, "pay", payment) for payment in crowded)]
    origin = f"{payments:,} payments of {people:,} people, made up by a seed; the names are nobody's"
    early, late = _split(everybody, START)
    story = [Moment(e.at, (e,), True) for e in late if e.payment is None or e.payment.id < CROWD]
    background = [e for e in late if e.payment is not None and e.payment.id >= CROWD]
    stops = {START + dt.timedelta(hours=h) for h in range(step, hours + 1, step)}
    stops |= {moment.at - dt.timedelta(seconds=30) for moment in story}  # so that each of them is told alone
    moments = sorted([*story, *_cut(background, sorted(stops))], key=lambda moment: moment.at)
    return _world(origin, everybody, early, START, moments)


def load(path: Path, pieces: int) -> World:
    """A file's events: the first two thirds are known at the start, the rest comes in so many moments at most."""
    if not path.is_file():
        raise InputError("E_NO_FILE", f"there is no file {path}", f"give a CSV file with the columns {_HEADER}")
    with path.open(encoding="utf-8", newline="") as file:
        events = sorted(read(file, path.name), key=lambda event: event.at)
    if not events or events[0].at == events[-1].at:
        raise InputError("E_FORMAT", f"{path.name} has no two different times", "a stream needs time to pass")
    if not any(event.what == "list" for event in events):
        raise InputError("E_FORMAT", f"{path.name} puts nobody on the list", "add a line: at,list,,account,,,")
    known = len(events) * 2 // 3
    start = max(events[known].at - dt.timedelta(microseconds=1), events[0].at)
    late = [event for event in events if event.at > start]
    size = -(-len(late) // pieces)
    parts = [tuple(late[n : n + size]) for n in range(0, len(late), size)]
    moments = [Moment(part[-1].at, part, True) for part in parts]
    origin = f"{len(events):,} events from {path.name}"
    return _world(origin, events, [event for event in events if event.at <= start], start, moments)


def fewer(moments: Iterable[Moment]) -> list[Moment]:
    """The same with fewer stops: what the crowd does between two moments of the plot is one moment."""
    found: list[Moment] = []
    for moment in moments:
        if found and not found[-1].told and not moment.told:
            found[-1] = Moment(moment.at, found[-1].events + moment.events, False)
        else:
            found.append(moment)
    return found


def read(file: Iterable[str], name: str) -> list[Event]:
    """The events of a file; one that makes no sense is refused with its line."""
    lines = csv.DictReader(file)
    missing = set(COLUMNS) - set(lines.fieldnames or ())
    if missing:
        raise InputError("E_FORMAT", f"{name} has no column {', '.join(sorted(missing))}", f"its header is {_HEADER}")
    paid: dict[int, Payment] = {}
    found = []
    for number, line in enumerate(lines, 2):
        try:
            found.append(_event(line, paid))
        except (ValueError, KeyError, TypeError) as error:
            raise InputError(
                "E_FORMAT", f"{name}, line {number}: {error}", "see the head of everview/demo/money/data.py"
            ) from None
    return found


_HEADER = ",".join(COLUMNS)


def _event(line: dict[str, str], paid: dict[int, Payment]) -> Event:
    at, what = dt.datetime.fromisoformat(line["at"]), line["what"]
    if what not in get_args(What):
        raise ValueError(f"{what!r} is none of {', '.join(get_args(What))}")
    if what == "pay":
        if not (line["payer"] and line["payee"] and line["via"]):
            raise ValueError("a payment has a payer, a payee, and what it was made with")
        payment = Payment(int(line["id"]), at, line["payer"], line["payee"], line["via"], int(line["amount"]))
        if payment.id in paid:
            raise ValueError(f"there is a payment {payment.id} already")
        paid[payment.id] = payment
        return Event(at, "pay", payment)
    if what == "cancel":
        if int(line["id"]) not in paid:
            raise ValueError(f"no payment {line['id']} comes before it")
        return Event(at, "cancel", paid[int(line["id"])])
    if what != "wait" and not line["payer"]:
        raise ValueError("whose account is meant? name it in the column payer")
    return Event(at, what, account=line["payer"])  # type: ignore[arg-type]


def _split(events: Iterable[Event], start: dt.datetime) -> tuple[list[Event], list[Event]]:
    early: list[Event] = []
    late: list[Event] = []
    for event in events:
        (early if event.at < start else late).append(event)
    return early, late


def _cut(events: Iterable[Event], stops: Sequence[dt.datetime]) -> list[Moment]:
    """Events up to each stop as moments; one without any lets the clock go on."""
    left = deque(sorted(events, key=lambda event: event.at))
    found = []
    for stop in stops:
        part = []
        while left and left[0].at <= stop:
            part.append(left.popleft())
        found.append(Moment(stop, tuple(part), False))
    return found


def _world(
    origin: str, everything: list[Event], early: list[Event], start: dt.datetime, moments: list[Moment]
) -> World:
    """The world of these events, those before the start being past."""
    listed: dict[str, None] = {}
    paid: dict[int, Payment] = {}
    for event in sorted(early, key=lambda event: event.at):
        if event.what == "list":
            listed[event.account] = None
        elif event.what == "delist":
            listed.pop(event.account, None)
        elif event.payment is not None and event.what == "pay":
            paid[event.payment.id] = event.payment
        elif event.payment is not None:
            paid.pop(event.payment.id, None)
    return World(origin, _kinds(everything), tuple(listed), list(paid.values()), start, moments)


def _kinds(events: list[Event]) -> dict[str, str]:
    """Everybody who is named, and whether they are a shop."""
    paid = [event.payment for event in events if event.payment is not None]
    named = [payment.payer for payment in paid] + [payment.payee for payment in paid]
    named += [event.account for event in events if event.account]
    shops = {event.account for event in events if event.what == "shop"}.union(crowd.shops())
    return {name: "shop" if name in shops else "person" for name in dict.fromkeys(named)}
