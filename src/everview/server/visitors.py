"""Who is connected, and what each follows: the relations `ev.sessions` and `ev.followers`.

A request over HTTP is over before anybody could look at it, so only what lasts is listed: connections of PostgreSQL's
clients, WebSockets, and streams of server-sent events. Nothing is recorded: rows are made from the connections when
somebody asks.
"""

from __future__ import annotations

import datetime as dt
import itertools
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from everview.system.log import LONGEST, without_passwords
from everview.system.relations import Relation

PROTOCOLS = ("pg", "ws", "events")

SESSIONS = {"id": int, "protocol": str, "user": str, "since": dt.datetime, "state": str, "statement": str}
FOLLOWERS = {"session": int, "relation": str, "position": int, "behind": int}

Followed = tuple[str, int, int]
"""What is followed, the time up to which it was sent, and how many times have passed since."""


def _now() -> dt.datetime:
    return dt.datetime.now(dt.UTC).replace(tzinfo=None)


@dataclass(eq=False)
class Visitor:
    """One connection."""

    protocol: str
    user: Callable[[], str]
    doing: Callable[[], tuple[str, str]]
    """its state (active, idle, idle in transaction, following), and its last statement"""
    following: Callable[[], Iterable[Followed]]
    since: dt.datetime = field(default_factory=_now)


class Visitors:
    """All connections of a server. They come and go on the loop, and are listed from any thread."""

    def __init__(self) -> None:
        self._all: dict[int, Visitor] = {}
        self._numbers = itertools.count(1)

    @contextmanager
    def listed(self, visitor: Visitor) -> Iterator[None]:
        """List a connection while the block lasts."""
        number = next(self._numbers)
        self._all[number] = visitor
        try:
            yield
        finally:
            del self._all[number]

    def counts(self) -> dict[str, int]:
        """How many there are of each protocol."""
        found = Counter(v.protocol for v in list(self._all.values()))
        return {protocol: found[protocol] for protocol in PROTOCOLS}

    def _sessions(self) -> Iterator[tuple[int, str, str, dt.datetime, str, str]]:
        for number, one in list(self._all.items()):
            state, statement = one.doing()
            shown = without_passwords(statement.strip())[:LONGEST]
            yield number, one.protocol, one.user(), one.since, state, shown

    def _followers(self) -> Iterator[tuple[int, str, int, int]]:
        for number, one in list(self._all.items()):
            for followed in list(one.following()):
                yield number, *followed

    def relations(self) -> tuple[Relation, ...]:
        """`ev.sessions` and `ev.followers`"""
        return (
            Relation("sessions", SESSIONS, lambda _: self._sessions()),
            Relation("followers", FOLLOWERS, lambda _: self._followers()),
        )
