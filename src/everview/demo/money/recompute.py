"""The same answers from scratch, in plain Python: what every answer of the views is checked against.

It shares nothing with the engine: it keeps its own books of what arrived and was cancelled, filters them by time, joins
accounts with union-find, walks back from the sanctioned accounts hop by hop, and adds up. How long that takes is the
time that the story compares a change with.
"""

from __future__ import annotations

import datetime as dt
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from everview.demo.money.data import WINDOW, Event, Payment, World
from everview.demo.money.program import HOPS, Program


@dataclass(frozen=True)
class Answer:
    """What the views say; a ring is called by the first of its accounts in the alphabet."""

    ring: dict[str, str]
    """The ring of each account"""
    totals: dict[str, tuple[int, int]]
    """Accounts and money moved of each ring of three accounts or more"""
    reaches: dict[str, int]
    """Hops to the nearest sanctioned account"""


class Books:
    """What has happened so far."""

    def __init__(self, world: World, payments: Iterable[Payment]) -> None:
        self.accounts = world.accounts
        self.listed = set(world.listed)
        self.payments = {payment.id: payment for payment in payments}
        self.now = world.start

    def enter(self, events: Iterable[Event], now: dt.datetime) -> None:
        """Take note of events, and of the time."""
        self.now = now
        for event in events:
            if event.what == "list":
                self.listed.add(event.account)
            elif event.what == "delist":
                self.listed.discard(event.account)
            elif event.what == "pay" and event.payment is not None:
                self.payments[event.payment.id] = event.payment
            elif event.what == "cancel" and event.payment is not None:
                self.payments.pop(event.payment.id, None)

    def recent(self) -> list[Payment]:
        """The payments inside the window."""
        oldest = self.now - WINDOW
        return [payment for payment in self.payments.values() if payment.at > oldest]


def recompute(books: Books) -> Answer:
    """All answers from all payments in the window."""
    recent = books.recent()
    ring = _rings(recent, books.accounts)
    accounts: dict[str, int] = defaultdict(int)
    for name in ring.values():
        accounts[name] += 1
    moved: dict[str, int] = defaultdict(int)
    for payment in recent:
        moved[ring[payment.payer]] += payment.amount
    totals = {name: (size, moved[name]) for name, size in accounts.items() if size >= 3}
    return Answer(ring, totals, _hops(recent, books.listed))


def _rings(recent: list[Payment], kinds: dict[str, str]) -> dict[str, str]:
    """Union-find over accounts and the cards and phones they used."""
    parent: dict[str, str] = {}

    def root(node: str) -> str:
        top = node
        while parent.setdefault(top, top) != top:
            top = parent[top]
        while parent[node] != top:
            parent[node], node = top, parent[node]
        return top

    for payment in recent:
        parent[root(payment.payer)] = root(payment.via)
        if kinds[payment.payee] != "shop":
            parent[root(payment.payer)] = root(payment.payee)
    found = {node: root(node) for node in parent if node in kinds}
    return _called_by_first(found)


def _called_by_first(ring: dict[str, str]) -> dict[str, str]:
    """The same rings, each called by the first of its accounts in the alphabet."""
    first: dict[str, str] = {}
    for account, name in ring.items():
        if name not in first or account < first[name]:
            first[name] = account
    return {account: first[name] for account, name in ring.items()}


def _hops(recent: list[Payment], listed: Iterable[str]) -> dict[str, int]:
    """Breadth first, against the money."""
    payers: dict[str, list[str]] = defaultdict(list)
    for payment in recent:
        payers[payment.payee].append(payment.payer)
    hops = dict.fromkeys(listed, 0)
    edge = list(hops)
    for hop in range(1, HOPS + 1):
        edge = [payer for account in edge for payer in payers[account] if hops.setdefault(payer, hop) == hop]
        edge = list(dict.fromkeys(edge))
    return hops


def maintained(program: Program, time: int | None = None) -> Answer:
    """What the views say, now or as of a time."""
    at = program.db.time if time is None else time
    rows = {name: program[name].as_of(at).rows() for name in ("member", "ring", "reaches")}
    names = dict(rows["member"])
    ring = _called_by_first(names)
    called = {names[account]: first for account, first in ring.items()}
    totals = {called[name]: (accounts, moved) for name, accounts, moved in rows["ring"]}
    return Answer(ring, totals, dict(rows["reaches"]))
