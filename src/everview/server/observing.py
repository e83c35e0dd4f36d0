"""Following the schema `ev` over the network.

The relations of `ev` are tables of an inner session, with times of its own (`everview.system`). Whoever follows one is
served by a second engine, over that session: the same feeds, commits and resume tokens, only of other times. It is made
when the first client asks for it. While anybody follows, the relations are refreshed every second; then nothing is done
any more.

Because times differ, a connection follows either the database or `ev`, not both. Only superusers and members of
`pg_monitor` may; their connection's stream ends when that right does.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from everview.errors import EverviewError, PlanError
from everview.server.fingerprints import stamp_of
from everview.server.subscription import Subscription, Wanted
from everview.session import doors
from everview.session.core import core_of
from everview.session.rights.principal import WHO, Principal
from everview.sql import statements_of
from everview.sql.answers import system_queries

if TYPE_CHECKING:
    from everview.server.engine import Engine
    from everview.session.session import Session
    from everview.system.observer import System

EVERY = 1.0
"""Seconds between two refreshes."""


@dataclass(eq=False)
class Looking:
    """Somebody who follows `ev`, for the engine that watches rights."""

    who: Principal | None
    stamp: str
    engine: Engine
    subscription: Subscription
    reads: tuple[str, ...] = ()

    def revoke(self, error: EverviewError) -> None:
        """The right is gone; on the engine's thread."""
        self.engine.loop.call_soon_threadsafe(self.subscription.fail, error)


class Observer:
    """What follows the schema `ev` of an engine's session; on the loop."""

    def __init__(self, engine: Engine) -> None:
        self.incarnation = f"ev{secrets.token_hex(7)}"
        """in resume tokens: times of the inner session begin again with every process"""
        self._engine = engine
        self._inner: Engine | None = None
        self._opening = asyncio.Lock()
        self._followers = 0
        self._refreshing: asyncio.Task[None] | None = None

    async def opened(self) -> tuple[Engine, System]:
        """The inner session's engine; E_FORBIDDEN for those who may not look at it."""
        system = await self._engine.run(_looked_at)
        async with self._opening:
            if self._inner is None:
                self._inner = type(self._engine)(system.session, inner=system.lock)
        return self._inner, system

    async def about(self, text: str) -> str | None:
        """A statement without the schema's name, if it is about `ev`."""
        if f"{system_queries.SCHEMA}." not in text.lower():
            return None
        return await self._engine.read(lambda session: system_queries.inside(statements_of(session), text))

    async def wanted(self, given: Sequence[Wanted]) -> list[Wanted] | None:
        """The same subscriptions in terms of the inner session; None if they are none of `ev`."""
        texts = [w.query or f"SUBSCRIBE TO {w.name}" for w in given]
        found = [await self.about(text) for text in texts]
        inside = [_inside(w, text) for w, text in zip(given, found, strict=True) if text is not None]
        if inside and len(inside) < len(given):
            raise apart()
        return inside or None

    @contextlib.asynccontextmanager
    async def looking(self, subscription: Subscription):  # type: ignore[no-untyped-def]
        """Keep a subscription to `ev` supplied, as long as there is the right to it, while the block lasts."""
        engine, who = self._engine, WHO.get()
        stamp = await engine.run(lambda session: stamp_of(session, who, ()))
        looking = Looking(who, stamp, engine, subscription)
        engine.watched[id(looking)] = looking
        try:
            with self.followed():
                yield
        finally:
            engine.watched.pop(id(looking), None)

    @contextlib.contextmanager
    def followed(self) -> Iterator[None]:
        """Refresh while the block lasts."""
        self.follow()
        try:
            yield
        finally:
            self.leave()

    def follow(self) -> None:
        """One more follows."""
        self._followers += 1
        if self._refreshing is None:
            self._refreshing = asyncio.ensure_future(self._refresh())

    def leave(self) -> None:
        """One less follows."""
        self._followers -= 1

    async def _refresh(self) -> None:
        assert self._inner is not None
        system = doors.system(core_of(self._engine.session))
        try:
            while self._followers:
                with contextlib.suppress(EverviewError):
                    await self._inner.run(lambda _: system.refresh())
                await asyncio.sleep(EVERY)
        finally:
            self._refreshing = None

    async def close(self) -> None:
        """End all of it."""
        if self._refreshing is not None:
            self._refreshing.cancel()
            await asyncio.gather(self._refreshing, return_exceptions=True)
        if self._inner is not None:
            await self._inner.close()


def apart() -> EverviewError:
    """The error for what follows the database and `ev` over one connection."""
    what = "the schema ev has times of its own"
    return PlanError("E_UNSUPPORTED", what, "follow it over a connection of its own")


def _inside(given: Wanted, text: str) -> Wanted:
    if given.query:
        return replace(given, query=text)
    return replace(given, name=text.removeprefix("SUBSCRIBE TO ").strip())


def _looked_at(session: Session) -> System:
    core_of(session).access.may_manage("look at ev", look=True)
    system = doors.system(core_of(session))
    system.refresh()
    return system
