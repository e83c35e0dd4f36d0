"""Quotas: how much of a server a role may use. `ALTER ROLE app QUOTA (views 10, rows 100000, rate 50)`

    connections     WebSockets and PostgreSQL connections that are open at once
    subscriptions   tables, views and queries that are followed at once
    views           tables and views that it owns
    bytes           that these hold, indexes included; checked when another one is made
    milliseconds    that a statement may take (E_TIMEOUT)
    memory          bytes that a statement may add (E_MEMORY)
    rows            that a statement may give, or change
    rate            calls of the engine in a second; so many may come at once
    weight          how much of the engine's time it gets beside others, 1 unless said

A quota belongs to the role that has logged in; quotas of its groups apply too, and the smallest wins. Superusers have
none. Exceeding one fails with E_QUOTA (HTTP 429, SQLSTATE 53400) and changes nothing.

`ev.quotas` shows the usage; other than superusers, users see only their own rows.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from everview.session.core import core_of
from everview.session.rights.access import exceeded
from everview.session.rights.principal import WHO, Principal
from everview.system.relations import Relation

if TYPE_CHECKING:
    from everview.server.engine import Engine
    from everview.session.core import Core

COUNTED = ("connections", "subscriptions")


class Quotas:
    """The usage of each role; on the loop."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._used: dict[str, Counter[str]] = {kind: Counter() for kind in COUNTED}
        self._tokens: dict[str, tuple[float, float]] = {}
        """how many statements each may still send at once, and when that was so"""

    @property
    def _core(self) -> Core:
        return core_of(self._engine.session)

    def of(self, who: Principal | None) -> dict[str, float]:
        """What somebody may use."""
        access = self._core.access
        if who is None or who.free or access.is_free(who):
            return {}
        return access.limits(who.role)

    def limit(self, kind: str, who: Principal | None = None) -> float | None:
        """One of them; None if there is no limit."""
        return self.of(WHO.get() if who is None else who).get(kind)

    def weight(self, who: Principal | None) -> float:
        """How much of the engine's time somebody gets."""
        return self.of(who).get("weight", 1.0)

    @contextmanager
    def counting(self, kind: str, who: Principal | None) -> Iterator[None]:
        """Count one more connection or subscription while the block lasts; E_QUOTA if that is too many."""
        self.take(kind, who)
        try:
            yield
        finally:
            self.give_back(kind, who)

    def take(self, kind: str, who: Principal | None, count: int = 1) -> None:
        """Count so many more; E_QUOTA if that is too many."""
        if who is None:
            return
        most, used = self.of(who).get(kind), self._used[kind]
        if most is not None and used[who.role] + count > most:
            raise exceeded(who.role, kind, most)
        used[who.role] += count

    def give_back(self, kind: str, who: Principal | None, count: int = 1) -> None:
        """Count so many less."""
        if who is None:
            return
        used = self._used[kind]
        used[who.role] -= count
        if used[who.role] <= 0:
            del used[who.role]

    def statement(self, who: Principal | None) -> None:
        """Somebody sends a statement; E_QUOTA if that is one too many in this second."""
        rate = self.of(who).get("rate")
        if who is None or rate is None:
            return
        moment = time.monotonic()
        left, since = self._tokens.get(who.role, (max(rate, 1.0), moment))
        left = min(left + (moment - since) * rate, max(rate, 1.0))
        if left < 1.0:
            self._tokens[who.role] = left, moment
            raise exceeded(who.role, "rate", rate)
        self._tokens[who.role] = left - 1.0, moment

    def rows(self) -> list[tuple[str, str, float, float]]:
        """(role, what, used, allowed) of everybody."""
        core = self._core
        found = []
        for role in list(core.access.roles.values()):
            for kind, most in sorted(core.access.limits(role.name).items()):
                if kind in COUNTED:
                    used = float(self._used[kind][role.name])
                elif kind == "views":
                    used = float(len(core.access.owned(role.name)))
                elif kind == "bytes":
                    used = float(core.access.bytes_of(role.name))
                elif kind == "rate":
                    left = self._tokens.get(role.name, (max(most, 1.0), 0.0))[0]
                    used = max(max(most, 1.0) - left, 0.0)
                else:
                    used = 0.0
                found.append((role.name, kind, used, float(most)))
        return found

    def relation(self) -> Relation:
        """`ev.quotas`"""
        return Relation("quotas", {"role": str, "what": str, "used": float, "allowed": float}, lambda _: self.rows())
