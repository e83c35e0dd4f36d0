"""One client's subscription to several tables, views and queries, delivered at common times.

`await subscription.next()` returns a `Commit`: the changes of each of them since the previous commit, or initially the
contents. Applied together they are one state of the database. The client may be arbitrarily slow:

1. it receives at most one commit per `granularity` seconds, with changes consolidated;
2. while it does not read, nothing is kept for it: what it missed is merged on demand;
3. if it missed more than the feeds keep, the views' history is used;
4. if that does not reach back, it receives the contents again, as a *reset* that replaces its state.

Nothing is therefore ever lost silently, and a client costs only its position. The sender must give up on a client that
reads nothing at all (`everview.server.http.sockets` does, after a while).
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Literal

from everview.errors import ClosedError, EverviewError, InputError
from everview.server.chunks import Chunk
from everview.server.feeds import HEARTBEAT, Feed, Feeds, whose_rows
from everview.server.fingerprints import stamp_of
from everview.session.core import core_of

if TYPE_CHECKING:
    from everview.server.engine import Engine
    from everview.session.session import Session

GRANULARITY = 0.1
"""Default seconds between two commits."""


@dataclass(frozen=True)
class Wanted:
    """What is to be followed: a table or view by its name, or a query."""

    name: str = ""
    query: str = ""
    since: int | None = None
    """a time up to which the client knows it: it is told what changed after that"""
    snapshot: bool = True
    """whether it is told what is there, if it does not say since when it wants changes"""
    arrow: bool = False
    """whether chunks are needed as Arrow tables"""
    reason: str = ""
    """why it gets contents although it wanted to go on, if it does"""


@dataclass(frozen=True)
class Frame:
    """What one of them has become."""

    id: int
    kind: Literal["snapshot", "changes", "end"]
    chunk: Chunk | None = None
    reset: str = ""
    """for contents that replace what the client had: why"""
    error: EverviewError | None = None
    """for the end: why"""


@dataclass(frozen=True)
class Commit:
    """What a client is told at one time. Frames without rows are left out, apart from contents."""

    start: int
    """the time of the commit that the client was told before; -1 if there is none"""
    time: int
    frames: tuple[Frame, ...]


class Subscription:
    """What a client follows; made by `Engine.subscribe`."""

    def __init__(self, engine: Engine, granularity: float, key: object) -> None:
        self.granularity = granularity
        self.position = -1
        """the time up to which it has been served"""
        self.news = asyncio.Event()
        self.feeds: dict[int, Feed] = {}
        self.engine = engine
        """whose it is"""
        self._key = key
        self._numbers = itertools.count(1)
        self._ready: deque[Commit] = deque()
        self._known = -1
        self._hurried = False
        self._told = float("-inf")
        self._changing = asyncio.Lock()
        self._who = self.who = engine.principal()
        self.reads: tuple[str, ...] = ()
        self.stamp = ""
        """whether this client is still let in (`everview.server.fingerprints.stamp_of`): feeds are shared by those with
        the same rights, who have come with other tokens"""
        self._failed: EverviewError | None = None

    async def add(self, wanted: Sequence[Wanted], ids: Sequence[int] = ()) -> list[int]:
        """Follow more, from the next commit on; gives the numbers that their frames have."""
        engine, feeds = self.engine, self.engine.feeds
        numbers = list(ids) or [next(self._numbers) for _ in wanted]
        if taken := [n for n in numbers if n in self.feeds]:
            raise InputError("E_NAME", f"subscription {taken[0]} already exists", "give each a number of its own")
        whose = "" if engine.is_inner else whose_rows(engine.session)
        engine.quotas.take("subscriptions", self._who, len(wanted))
        found = [feeds.find(w.name, w.query, w.arrow, whose) for w in wanted]
        for feed in found:
            feed.subscribers.add(self)

        def begin(_: object) -> tuple[int, list[tuple[Chunk, bool]]]:
            if self.who is not None and id(self) not in engine.watched:
                self.stamp = stamp_of(engine.session, self.who, self.reads)
                engine.watched[id(self)] = self
            for feed in found:
                feeds.open(feed)
                if feed.who is not None:
                    engine.watched[id(feed)] = feed
            at, chunks = feeds.read([(f, w.since) for f, w in zip(found, wanted, strict=True)])
            told = [len(c) for w, (c, whole) in zip(wanted, chunks, strict=True) if w.snapshot or not whole]
            core_of(engine.session).access.check_rows(max(told, default=0))
            return at, chunks

        async with self._changing:
            try:
                at, chunks = await engine.follow(begin, key=self._key)
            except BaseException:
                engine.quotas.give_back("subscriptions", self._who, len(wanted))
                await self._leave([feed for feed in found if feed not in self.feeds.values()])
                raise
            frames = self._since(at) if self.feeds else []
            for number, feed, each, (chunk, whole) in zip(numbers, found, wanted, chunks, strict=True):
                self.feeds[number] = feed
                reason = each.reason or ("history" if each.since is not None else "")
                if not whole:
                    frames.append(Frame(number, "changes", chunk))
                elif each.snapshot or each.since is not None:
                    frames.append(Frame(number, "snapshot", chunk, reset=reason))
            self._ready.append(Commit(-1, at, tuple(frames)))
            self.position = at
            self.news.set()
            feeds.subscriptions.add(self)
        return numbers

    async def remove(self, number: int) -> None:
        """Follow one less."""
        feed = self.feeds.pop(number, None)
        if feed is not None:
            self.engine.quotas.give_back("subscriptions", self._who)
        if feed is not None and feed not in self.feeds.values():
            await self._leave([feed])

    async def close(self, *, linger: float = 0.0) -> None:
        """Follow nothing any more. Queries that only this client followed are kept for so many seconds: one that was
        cut off comes back, and goes on.
        """
        self.engine.watched.pop(id(self), None)
        self.engine.feeds.subscriptions.discard(self)
        self.engine.feeds.progress.discard(self)
        feeds = list(dict.fromkeys(self.feeds.values()))
        self.engine.quotas.give_back("subscriptions", self._who, len(self.feeds))
        self.feeds.clear()
        await self._leave(feeds, linger)

    async def _leave(self, feeds: Sequence[Feed], linger: float = 0.0) -> None:
        for feed in feeds:
            feed.subscribers.discard(self)
            if feed.subscribers:
                continue
            if feed.query and linger and feed.ended is None:
                self.engine.loop.call_later(linger, self.engine.feeds.give_up, feed, partial(_end, self.engine))
            else:
                await _end(self.engine, feed)

    async def next(self) -> Commit:
        """What there is to tell, when there is something and its time has come."""
        while True:
            if self._failed is not None:
                raise self._failed
            if self._ready:
                return self._told_now(self._ready.popleft())
            await self._wait()
            async with self._changing:
                if self._ready:  # what was added meanwhile comes first
                    continue
                commit = await self._commit()
            if commit.frames or self._due(commit):
                return self._told_now(commit)

    def _told_now(self, commit: Commit) -> Commit:
        self._told = time.monotonic()
        start, self._known = self._known, commit.time
        return replace(commit, start=start)

    def listed(self) -> list[tuple[str, int, int]]:
        """What is followed, up to which time it was sent, and how many have passed since; from any thread."""
        behind = max(self.engine.feeds.time - self.position, 0)
        schema = "ev." if self.engine.is_inner else ""
        found = [schema + feed.name if feed.name else "(query)" for feed in list(self.feeds.values())]
        return [(name, self.position, behind) for name in found]

    def report_progress(self) -> None:
        """Tell of every time, also if nothing that is followed changed."""
        self.engine.feeds.progress.add(self)

    def fail(self, error: EverviewError) -> None:
        """End it with an error."""
        self._failed = error
        self.news.set()

    def revoke(self, error: EverviewError) -> None:
        """End it: its client is no longer let in; on the engine's thread."""
        self.engine.loop.call_soon_threadsafe(self.fail, error)

    def hurry(self) -> None:
        """Tell how far it is with the next commit, whatever that has."""
        self._hurried = True
        self.news.set()

    def _due(self, commit: Commit) -> bool:
        """Whether a commit without frames is worth telling."""
        if not self.feeds:
            return False
        if self._hurried:
            self._hurried = False
            return True
        if commit.time == self._known:
            return False
        return self in self.engine.feeds.progress or time.monotonic() - self._told >= HEARTBEAT

    async def _wait(self) -> None:
        """Until something has happened, and the granularity allows to tell it."""
        await self.news.wait()
        size = self.granularity
        early = self._told + size - time.monotonic() if size else 0.0
        if early > 0:  # all that wait so long wake together, and share what they are told
            moment = time.monotonic()
            await asyncio.sleep(max(size - moment % size, 0.0))
        await self.engine.feeds.turnstile.pass_through()
        self.news.clear()

    async def _commit(self) -> Commit:
        """From the last commit to the last cut."""
        feeds, start = self.engine.feeds, self.position
        behind = {n: f for n, f in self.feeds.items() if f.ended is None and start < f.floor}
        at, read = feeds.time, {}
        if behind:
            wanted = [(feed, start) for feed in behind.values()]
            at, found = await self.engine.run(lambda _: feeds.read(wanted), key=self._key)
            read = dict(zip(behind, found, strict=True))
        frames = self._since(at, read)
        self.position = max(at, start)
        return Commit(-1, self.position, tuple(frames))

    def _since(self, at: int, read: dict[int, tuple[Chunk, bool]] | None = None) -> list[Frame]:
        """What each has become since the last commit, up to a cut."""
        frames = []
        for number, feed in list(self.feeds.items()):
            if read and number in read:
                chunk, whole = read[number]
                if whole:
                    feed.resets += 1
                    frames.append(Frame(number, "snapshot", chunk, reset="slow"))
                elif len(chunk):
                    frames.append(Frame(number, "changes", chunk))
                continue
            between = feed.between(self.position, at)
            if between is not None:
                frames.append(Frame(number, "changes", between))
            if feed.ended is not None:
                frames.append(Frame(number, "end", error=feed.ended))
                del self.feeds[number]
                self.engine.quotas.give_back("subscriptions", self._who)
        return frames


async def _end(engine: Engine, feed: Feed) -> None:
    """Nobody follows it: neither do we."""
    engine.feeds.forget(feed)
    engine.watched.pop(id(feed), None)
    with contextlib.suppress(ClosedError):
        await engine.run(partial(_shut, engine.feeds, feed))


def _shut(feeds: Feeds, feed: Feed, _: Session) -> None:
    feeds.shut(feed)
