"""What a change means, in words: rings join or fall apart, accounts reach a sanctioned one or no longer do.

Nothing is asked of the views for this. They say what changed, row by row, and `Mirror` keeps what they said; the words
follow from the rows before and after. A moment of the plot is told with its cause. An hour of the crowd is summed up.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Literal

from everview.demo.change_collector import Differences
from everview.demo.money.data import Event, Moment

Tone = Literal["cause", "ring", "alarm", "relief", "quiet"]


@dataclass(frozen=True)
class Sentence:
    """A sentence and what kind of news it is."""

    text: str
    tone: Tone


@dataclass
class Regrouped:
    """What became of rings."""

    merged: list[tuple[set[str], list[set[str]]]] = field(default_factory=list)
    """A ring, and the rings it was made of"""
    split: list[tuple[set[str], list[set[str]]]] = field(default_factory=list)
    """What was a ring, and the rings that are left of it"""


class Mirror:
    """The views as they are, made of nothing but their differences."""

    def __init__(self) -> None:
        self.ring: dict[str, str] = {}
        """account -> its ring"""
        self.members: dict[str, set[str]] = defaultdict(set)
        """ring -> its accounts"""
        self.totals: dict[str, tuple[int, int]] = {}
        """ring -> accounts, money moved"""
        self.reaches: dict[str, int] = {}
        """account -> hops"""
        self.step: dict[str, str] = {}
        """account -> where its money goes next"""

    def take(self, told: dict[str, Differences]) -> Regrouped:
        """Take differences in; what they did to rings."""
        regrouped = self._regroup(told["member"])
        _apply(self.totals, (((ring, (n, moved)), d) for (ring, n, moved), d in told["ring"]))
        _apply(self.reaches, told["reaches"])
        _apply(self.step, (((account, towards), d) for (account, _, towards), d in told["step"]))
        return regrouped

    def way(self, account: str) -> list[str]:
        """The way of an account's money to a sanctioned one: empty if there is none.

        >>> mirror = Mirror()
        >>> mirror.reaches, mirror.step = {"c": 0, "b": 1, "a": 2}, {"a": "b", "b": "c"}
        >>> mirror.way("a"), mirror.way("z")
        (['a', 'b', 'c'], [])
        """
        if account not in self.reaches:
            return []
        way = [account]
        while way[-1] in self.step:
            way.append(self.step[way[-1]])
        return way

    def _regroup(self, told: Differences) -> Regrouped:
        before = {account: ring for (account, ring), diff in told if diff < 0}
        after = {account: ring for (account, ring), diff in told if diff > 0}
        touched = set(before.values()) | set(after.values())
        old = {ring: set(self.members[ring]) for ring in touched}
        _apply(self.ring, told)
        for account, ring in before.items():
            self.members[ring].discard(account)
        for account, ring in after.items():
            self.members[ring].add(account)
        new = [members for ring in touched if (members := set(self.members[ring]))]
        found = Regrouped()
        for members in new:
            parts = [part for part in old.values() if len(part & members) > 0]
            if len(parts) > 1:
                found.merged.append((members, parts))
        for part in old.values():
            left = [members for members in new if members & part]
            if len(left) > 1:
                found.split.append((part, left))
        for ring in touched:
            if not self.members[ring]:
                del self.members[ring]
        return found


def _apply(contents: dict[Any, Any], told: Iterable[tuple[tuple[Any, ...], int]]) -> None:
    """Rows (key, value) that went, then those that came."""
    told = list(told)
    for (key, value), diff in told:
        if diff < 0 and contents.get(key) == value:
            del contents[key]
    for (key, value), diff in told:
        if diff > 0:
            contents[key] = value


Left = list[tuple[Any, ...]]
"""Payments that left the window, as rows of the view `recent`."""


def tell(moment: Moment, mirror: Mirror, before: dict[str, int], regrouped: Regrouped, left: Left) -> list[Sentence]:
    """The sentences of a moment. `before` is who reached a sanctioned account then."""
    came = [account for account in mirror.reaches if account not in before]
    gone = [account for account in before if account not in mirror.reaches]
    if not moment.told:
        return _crowd(moment, regrouped, came, gone, len(left))
    causes = [_cause(event) for event in moment.events] + _aged(left)
    return [*causes, *_rings(moment, regrouped), *_reach(moment, mirror, came, gone)]


def _cause(event: Event) -> Sentence:
    paid = event.payment
    if paid is None:
        what = {
            "list": f"{event.account} is put on the list.",
            "delist": f"{event.account} is taken off the list.",
            "wait": "Nobody does anything.",
            "shop": f"{event.account} is a shop.",
        }
        return Sentence(what[event.what], "cause")
    if event.what == "cancel":
        return Sentence(f"{paid.payer}'s {paid.amount:,} to {paid.payee} of {paid.at:%-d %B} is cancelled.", "cause")
    return Sentence(f"{paid.payer} pays {paid.payee} {paid.amount:,} with {_whose(paid.payer, paid.via)}.", "cause")


def _aged(left: Left, most: int = 2) -> list[Sentence]:
    paid = [f"{payer}'s {amount:,} to {payee} is 30 days old, and leaves." for _, payer, payee, _, amount in left]
    more = f"{len(left)} payments are 30 days old, and leave."
    return [Sentence(text, "cause") for text in (paid if len(left) <= most else [more])]


def _whose(payer: str, via: str) -> str:
    """A payer's own card is `a card`, another's is named.

    >>> _whose("Bob", "Bob's card"), _whose("Erin", "Bob's card")
    ('a card', "Bob's card")
    """
    return f"a {via.removeprefix(payer + chr(39) + 's ')}" if via.startswith(f"{payer}'s ") else via


def _rings(moment: Moment, regrouped: Regrouped) -> list[Sentence]:
    found = []
    for members, parts in regrouped.merged:
        largest = max(len(part) for part in parts)
        how = {2: "two"}.get(len(parts), str(len(parts)))
        grown = len(members) - largest
        found.append(Sentence(f"{_link(moment)} links {how} rings: {_signed(grown)}.", "ring"))
    for _, left in regrouped.split:
        sizes = sorted((len(part) for part in left), reverse=True)
        pieces = " + ".join(map(str, sizes))
        found.append(Sentence(f"A ring of {sum(sizes)} falls apart: {pieces} accounts.", "ring"))
    return found


def _link(moment: Moment) -> str:
    """What made one ring of two: another's card, if that is what it was, or a payment."""
    for event in moment.events:
        if event.payment is not None and not event.payment.via.startswith(f"{event.payment.payer}'s "):
            return event.payment.via
    return "That"


def _signed(accounts: int) -> str:
    return f"{accounts:+d} account{'s' if abs(accounts) != 1 else ''}"


def _reach(moment: Moment, mirror: Mirror, came: list[str], gone: list[str]) -> list[Sentence]:
    found = []
    came = [account for account in came if mirror.reaches[account]]
    if came:
        came.sort(key=lambda account: (mirror.reaches[account], account))
        goal = mirror.way(came[0])[-1]
        furthest = mirror.reaches[came[-1]]
        hops = f"in {_hops(furthest)}" if len(came) == 1 else f"within {_hops(furthest)}"
        verb = "now reaches" if len(came) == 1 else "now reach"
        found.append(Sentence(f"{_names(came)} {verb} {goal} {hops}.", "alarm"))
    lost = [account for account in gone if account not in {event.account for event in moment.events}]
    if lost:
        verb = "no longer reaches" if len(lost) == 1 else "no longer reach"
        found.append(Sentence(f"{_names(sorted(lost))} {verb} a sanctioned account.", "relief"))
    return found


def _hops(number: int) -> str:
    return "1 hop" if number == 1 else f"{number} hops"


def _names(accounts: list[str], most: int = 3) -> str:
    """Some names and how many more.

    >>> _names(["Ann"]), _names(["Ann", "Bob"]), _names(list("abcde"))
    ('Ann', 'Ann and Bob', 'a, b, c and 2 more')
    """
    if len(accounts) > most + 1:
        return f"{', '.join(accounts[:most])} and {len(accounts) - most} more"
    return " and ".join([", ".join(accounts[:-1]), accounts[-1]]) if len(accounts) > 1 else accounts[0]


def _crowd(moment: Moment, regrouped: Regrouped, came: list[str], gone: list[str], left: int) -> list[Sentence]:
    if not (moment.events or left):
        return []
    counts = [(len(regrouped.merged), "joined"), (len(regrouped.split), "split")]
    rings = ", ".join(f"{n} rings {what}" if n > 1 else f"{n} ring {what}" for n, what in counts if n)
    reach = [Sentence(f"{_names(sorted(came))} now within six hops.", "alarm")] if came else []
    reach += [Sentence(f"{_names(sorted(gone))} no longer within six hops.", "relief")] if gone else []
    text = f"{len(moment.events)} payments arrive, {left} leave the window"
    return [Sentence(f"{text}: {rings}." if rings else f"{text}.", "quiet"), *reach]
