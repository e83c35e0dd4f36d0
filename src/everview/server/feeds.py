"""Feeds: the changes of tables, views and queries, in chunks shared by all subscribers.

The session notifies a feed of each complete time's changes, on the engine's thread, where they are collected as codes.
Periodically all feeds are *cut* together, at the last complete time: what each has collected is consolidated, decoded
once, and passed to the loop as a `Chunk`, which covers the times since the previous cut. Because all feeds are cut at
the same times, a reader of several feeds up to a cut has seen one state of the whole database.

On the loop a feed keeps its last chunks in a bounded ring. A subscriber is just a position in it, a time: chunks
between its position and the last cut are merged on demand, once for all at the same position (`Feed.between`). A
subscriber that has fallen out of the ring is served from the view's own history, and if that does not reach back
either, with its full contents (`Feeds.read`).

The first change after a pause is cut at once; then at most one cut is made every `TICK` seconds.

Ownership: `Feeds`, and a feed's `_pending` and `_source`, belong to the engine's thread; the ring and `subscribers` to
the loop. Chunks are immutable, except for the cached encodings, on the loop.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import math
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Coroutine, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from everview.dataflow.read_leases import MustWait, is_guest
from everview.errors import ClosedError, CompactedError, EverviewError
from everview.language.relation import relation_of
from everview.plan.digest import digest
from everview.server.chunks import Chunk, summed
from everview.server.fingerprints import stamp_of
from everview.server.turnstile import Turnstile
from everview.session.changes.batch import Batch
from everview.session.core import core_of
from everview.session.reads.snapshot import remaining
from everview.session.reads.subscribable import Subscribable as Relation
from everview.session.rights.principal import Principal
from everview.sql.rights import shared_queries
from everview.sql.rights.shares import Share
from everview.sql.statements import Statements
from everview.sql.streams.subscription import Subscription as Subscribable
from everview.sql.streams.subscription import of_text

if TYPE_CHECKING:
    from everview.codes.codec import Codec
    from everview.server.subscription import Subscription
    from everview.session.session import Session
    from everview.types import DataType

HEARTBEAT = 5.0
"""Seconds after which a subscriber without changes is notified of the time."""

BEAT = 0.1
"""Seconds between two shares of them."""

LOOK = 1.0
"""Seconds between looks for dropped relations without a definition."""

TICK = 0.005
"""Minimum seconds between cuts."""

MOST_CELLS = 200_000
"""Maximum number of values in a feed's ring; the last chunk is always kept."""

MERGES = 16
"""Number of cached merges per feed: subscribers at the same position share them."""


class Feed:
    """The changes of one table, view or query, as rows or as Arrow tables."""

    def __init__(self, name: str, query: str = "", arrow: bool = False, whose: str = "") -> None:
        self.name = name
        self.query = query
        self.arrow = arrow
        self.whose = whose
        """for which principals, if not all see the same rows: those with the same value share it"""
        self.names: tuple[str, ...] = ()
        self.types: tuple[DataType, ...] = ()
        self.identity = ""
        """identifies its definition, and changes with it (`identity_of`)"""
        self.subscribers: set[Subscription] = set()
        self.floor = 0
        """the ring has everything after this time"""
        self.ended: EverviewError | None = None
        """why it has ended"""
        self.resets = 0
        self.who: Principal | None = None
        """who opened it, if it is not for everybody"""
        self.reads: tuple[str, ...] = ()
        self.stamp = ""
        """what the right to it depends on (`everview.server.fingerprints.stamp_of`)"""
        self._end: Callable[[Feed, EverviewError], None] | None = None
        self._heard: Callable[[Feed], None] | None = None
        self._ring: deque[Chunk] = deque()
        self._cells = 0
        self._sums: OrderedDict[tuple[int, int], Chunk] = OrderedDict()
        self._pending: list[Batch] = []
        self._source: Subscribable | None = None
        self._snapshot: Chunk | None = None

    @property
    def key(self) -> tuple[str, str, bool, str]:
        """What it is known by."""
        return self.name, self.query, self.arrow, self.whose

    # on the engine's thread

    def open(self, session: Session, at: int, heard: Callable[[Feed], None]) -> None:
        """Start following it; `heard` is called for each of its changes."""
        if self._source is not None:
            return
        self._heard = heard
        sql = Statements(session)  # its own: what one client sets is nothing to the next
        if self.query:
            found = of_text(sql, self.query)
        else:
            found = Subscribable(shared_queries.of_name(sql, self.name), snapshot=False)
        found.listen(self._hear)
        self._source = found
        codec = self._codec()
        self.names, self.types = codec.names, codec.types
        self.identity = identity_of(found._view, self.whose)
        self.who = _anyone_like(core_of(session).access.acting())
        self.reads = getattr(found._view, "reads", ()) or (relation_of(found._view).label,)
        if self.who is not None:
            self.stamp = stamp_of(session, self.who, self.reads)
        self.floor = at

    def _hear(self, batch: Batch) -> None:
        assert self._heard is not None
        self._pending.append(batch)
        self._heard(self)

    def close(self) -> None:
        """Stop following it."""
        if self._source is not None:
            self._source.close()
            self._source = None
        self._pending.clear()

    def revoke(self, error: EverviewError) -> None:
        """End it: the right to it was revoked."""
        if self._end is not None:
            self._end(self, error)

    def dropped(self) -> bool:
        """Whether its relation was dropped."""
        return self._source is not None and relation_of(self._source._view).dropped

    def cut(self, start: int, stop: int) -> Chunk | None:
        """The collected changes as a chunk; None if they cancel."""
        if not self._pending:
            return None
        batches, self._pending[:] = list(self._pending), []
        codes = np.concatenate([b._columns for b in batches], axis=1)
        diffs = np.concatenate([b._diffs for b in batches])
        kept, diffs = remaining(codes, diffs)
        return self._chunk(start, stop, np.ascontiguousarray(codes[:, kept]), diffs) if len(kept) else None

    def contents(self, at: int) -> Chunk:
        """The current contents."""
        assert self._source is not None
        found = self._snapshot
        if found is None or found.stop != at:
            batch = self._source._view._present()
            found = self._snapshot = self._chunk(at, at, batch._columns, batch._diffs)
            if found.cells > MOST_CELLS:
                self._snapshot = None
        return found

    def changes(self, since: int, at: int) -> Chunk:
        """The changes after a time, from the view's history; E_COMPACTED if that does not reach back."""
        assert self._source is not None
        view = self._source._view
        if since < relation_of(view).installed_at:
            raise CompactedError("E_COMPACTED", f"it was made after time {since}", "read its contents")
        codes, _, diffs = view._changes(since)
        kept, diffs = remaining(codes, diffs)
        return self._chunk(since, at, np.ascontiguousarray(codes[:, kept]), diffs)

    def _chunk(self, start: int, stop: int, codes: np.ndarray, diffs: np.ndarray) -> Chunk:
        codec = self._codec()
        rows, columns = ([], codec.to_arrow(codes)) if self.arrow else (codec.decode_rows(codes), None)
        return Chunk(start, stop, codec.names, codec.types, codes, diffs, rows, columns)

    def _codec(self) -> Codec:
        assert self._source is not None
        return relation_of(self._source._view).codec

    # on the loop

    def arrived(self, chunk: Chunk) -> None:
        """Append a chunk from the engine."""
        self._ring.append(chunk)
        self._cells += chunk.cells
        while self._cells > MOST_CELLS and len(self._ring) > 1:
            gone = self._ring.popleft()
            self._cells -= gone.cells
            self.floor = gone.stop

    def between(self, start: int, stop: int) -> Chunk | None:
        """The changes between two cuts, None if there are none; not for times before `floor`."""
        found = [c for c in self._ring if c.stop > start and c.stop <= stop]
        if len(found) < 2:
            return found[0] if found else None
        place = found[0].stop, found[-1].stop
        if place not in self._sums:
            self._sums[place] = summed(found)
            while len(self._sums) > MERGES:
                self._sums.popitem(last=False)
        total = self._sums[place]
        return total if len(total) else None


class Feeds:
    """All feeds of a session."""

    def __init__(self, session: Session, loop: asyncio.AbstractEventLoop, lock: threading.RLock | None = None) -> None:
        self.session = session
        self.time = session.time
        """the last cut, on the loop"""
        self.subscriptions: set[Subscription] = set()
        """all subscriptions, on the loop"""
        self.progress: set[Subscription] = set()
        """those that want to be notified of every time"""
        self.turnstile = Turnstile(loop)
        self._loop = loop
        self._lock = threading.RLock() if lock is None else lock
        """held while feeds are cut: whoever else changes the session holds it, too"""
        self._ending: set[asyncio.Task[None]] = set()
        self._known: dict[tuple[str, str, bool, str], Feed] = {}
        self._open: dict[Feed, None] = {}
        self._queries: dict[tuple[str, bool, str], Feed] = {}
        """the open feeds of queries, by what they are known by"""
        self._changed: deque[Feed] = deque()
        """feeds with changes since the last cut, once for each: a cut costs as much as has changed, however many
        feeds there are"""
        self._definitions = -1
        self._look = 0.0
        self._cut = self.time
        self._next = 0.0
        self._to_beat: list[Subscription] = []
        self._beating = loop.call_later(BEAT, self._beat)

    # on the loop

    def find(self, name: str, query: str, arrow: bool, whose: str = "") -> Feed:
        """The feed of a table, view or query."""
        found = self._known.get((name, query, arrow, whose))
        if found is None or found.ended is not None:
            found = self._known[name, query, arrow, whose] = Feed(name, query, arrow, whose)
        return found

    def forget(self, feed: Feed) -> None:
        """Remove an unused feed; the engine then has to close it."""
        if self._known.get(feed.key) is feed:
            del self._known[feed.key]

    def _beat(self) -> None:
        """Notify some of the idle subscriptions of the time: all within `HEARTBEAT`, but not all at once, which would
        delay those that have something to hear."""
        if not self._to_beat:
            self._to_beat = list(self.subscriptions)
            self._at_once = math.ceil(len(self._to_beat) * BEAT / HEARTBEAT)
        for subscription in self._to_beat[-self._at_once :]:
            if subscription.position < self.time:
                subscription.news.set()
        del self._to_beat[-self._at_once :]
        self._beating = self._loop.call_later(BEAT, self._beat)

    def give_up(self, feed: Feed, end: Callable[[Feed], Coroutine[Any, Any, None]]) -> None:
        """Some time after its last subscriber left: close it, unless there is a new one."""
        if not feed.subscribers and self._known.get(feed.key) is feed:
            ending = self._loop.create_task(end(feed))
            self._ending.add(ending)
            ending.add_done_callback(self._ending.discard)

    @property
    def known(self) -> list[Feed]:
        """Those with subscribers."""
        return list(self._known.values())

    def _arrived(self, stop: int, chunks: list[tuple[Feed, Chunk]], ended: list[tuple[Feed, EverviewError]]) -> None:
        self.time = stop
        told = set(self.progress)
        for feed, chunk in chunks:
            feed.arrived(chunk)
            told |= feed.subscribers
        for feed, error in ended:
            feed.ended = error
            self.forget(feed)
            told |= feed.subscribers
        for subscription in told:
            subscription.news.set()

    # on the engine's thread

    @contextmanager
    def _turn(self) -> Iterator[None]:
        """Feeds are cut by one thread at a time. A guest of a step does not wait for that: the step waits for its
        guests, and who holds the feeds may be about to run one.
        """
        if not self._lock.acquire(blocking=not is_guest()):
            raise MustWait
        try:
            yield
        finally:
            self._lock.release()

    def open(self, feed: Feed) -> None:
        """Start following a feed's relation, at a cut."""
        with self._turn():
            self.flush(now=True)
            feed.open(self.session, self._cut, self._changed.append)
            feed._end = self._revoked
            self._open[feed] = None
            if feed.query:
                self._queries[feed.key[1:]] = feed

    def identity_of_query(self, query: str, arrow: bool) -> str:
        """The key of a query's feed, if it is followed or was until recently."""
        found = self._queries.get((query, arrow, whose_rows(self.session)))
        return found.identity if found is not None else ""

    def _revoked(self, feed: Feed, error: EverviewError) -> None:
        self.shut(feed)
        self._loop.call_soon_threadsafe(self._arrived, self._cut, [], [(feed, error)])

    def shut(self, feed: Feed) -> None:
        """Stop following it."""
        self._open.pop(feed, None)
        if self._queries.get(feed.key[1:]) is feed:
            del self._queries[feed.key[1:]]
        feed.close()

    @contextmanager
    def alone(self) -> Iterator[bool]:
        """Whether nobody cuts the feeds at the moment; if so, nobody does until the block ends."""
        free = self._lock.acquire(blocking=False)
        try:
            yield free
        finally:
            if free:
                self._lock.release()

    def flush(self, *, now: bool = False) -> float | None:
        """Cut all feeds, if there is anything and it is due. Returns the seconds until it is."""
        with self._turn():
            return self._flushed(now)

    def _flushed(self, now: bool) -> float | None:
        if not self._open:
            self._cut = self.session.time
            return None
        dropped = self._dropped()
        if self.session.time == self._cut and not dropped:
            return None
        moment = time.monotonic()
        if moment < self._next and not now:
            return self._next - moment
        self._next = moment + TICK
        core_of(self.session).subscriptions.wait()  # a reader beside a step may be notifying us of it
        start, self._cut = self._cut, self.session.time
        chunks = []
        while self._changed:
            feed = self._changed.popleft()
            if (chunk := feed.cut(start, self._cut)) is not None:
                chunks.append((feed, chunk))
        ended = [(feed, _dropped(feed)) for feed in dropped]
        for feed in dropped:
            self.shut(feed)
        self._loop.call_soon_threadsafe(self._arrived, self._cut, chunks, ended)
        return None

    def _dropped(self) -> list[Feed]:
        """The feeds whose relations were dropped. Looking at all of them is only needed after a definition, or when
        another thread may have been in the middle of one."""
        definitions, moment = core_of(self.session).catalog.version, time.monotonic()
        if definitions == self._definitions and moment < self._look:
            return []
        self._definitions, self._look = definitions, moment + LOOK
        return [feed for feed in self._open if feed.dropped()]

    def read(self, wanted: Iterable[tuple[Feed, int | None]]) -> tuple[int, list[tuple[Chunk, bool]]]:
        """The changes of some feeds after a time, or (None, or where history does not reach back) their contents, all
        at one cut. Each with whether it is contents.
        """
        with self._turn():
            self.flush(now=True)
            return self._cut, self._read(wanted, self._cut)

    def _read(self, wanted: Iterable[tuple[Feed, int | None]], at: int) -> list[tuple[Chunk, bool]]:
        found: list[tuple[Chunk, bool]] = []
        for feed, since in wanted:
            if since is not None and since <= at:
                try:
                    changed = feed.changes(since, at)
                except CompactedError:
                    pass
                else:
                    found.append((changed, False))
                    continue
            found.append((feed.contents(at), True))
        return found

    def close(self) -> None:
        """Stop following everything."""
        self._loop.call_soon_threadsafe(self._beating.cancel)
        for feed in list(self._open):
            self.shut(feed)


def whose_rows(session: Session) -> str:
    """What determines the rows visible to the current user, as a text: users with the same text share feeds."""
    who = core_of(session).access.acting()
    if who is None:
        return ""
    return json.dumps([who.name, dict(who.attributes)], sort_keys=True)


def _anyone_like(who: Principal | None) -> Principal | None:
    """Somebody with the same rights, whatever token he has: who opens a feed may leave before others."""
    return None if who is None else replace(who, token="", until=None, proof=(who.proof[0], ""))


def _dropped(feed: Feed) -> EverviewError:
    return ClosedError("E_DROPPED", f"{feed.name or 'the query'} was dropped", "subscribe to something else")


def identity_of(view: Relation | Share, whose: str = "") -> str:
    """Identifies a table or view: changes when it is created again or defined differently, and differs between users
    who see different rows.

    >>> import everview as ev
    >>> db = ev.connect()
    >>> t = db.table("t", {"x": int})
    >>> one = identity_of(db.view("v", t.distinct()))
    >>> db["v"].drop()
    >>> identity_of(db.view("v", t.filter(t.x > 1))) == one
    False
    """
    part = hashlib.sha256(whose.encode()).hexdigest()[:12] if whose else ""
    return f"{digest(relation_of(view).node)[:16]}{part}.{relation_of(view).installed_at}"
