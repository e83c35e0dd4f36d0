"""SUBSCRIBE: the changes of a view, table or query as a stream of rows.

    SUBSCRIBE [TO] name | (query)
        [ENVELOPE UPSERT (KEY (columns))]
        [WITH (SNAPSHOT = false, PROGRESS, GRANULARITY = '100 ms')]
        [AS OF time] [UP TO time]

There are three ways to read it: the rows of the statement itself, for drivers that stream; `DECLARE c CURSOR FOR
SUBSCRIBE ...` and FETCH, for those that do not; `COPY (SUBSCRIBE ...) TO STDOUT`, for psql. The syntax is
Materialize's.

Each row begins with the time and a signed count: `ev_time`, `ev_diff`. First come the contents (unless SNAPSHOT is
false), at the time of AS OF, or now; then all later changes, in time order. With PROGRESS there is a column
`ev_progressed` after the time; a row in which it is true means that all changes before that time were sent. UP TO ends
the stream before a time. ENVELOPE UPSERT returns one row for each changed key: `upsert` with the new values, `delete`,
or `key_violation` if the key occurs more than once.

GRANULARITY consolidates changes within that period. The same happens for a client that does not keep up, as soon as
more than `WAITING_ROWS` are pending. If there are still more than `TOO_MANY`, the stream ends with an error that names
the time to resume from (AS OF). A slow client therefore blocks nobody and costs bounded memory.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import threading
import time as clock
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from everview.codes.digits import whole_number
from everview.errors import EverviewError, InputError, StoppedError, did_you_mean
from everview.language.relation import relation_of
from everview.server.fingerprints import stamp_of
from everview.server.pg import messages
from everview.server.pg.answers import Answer, Column, RowWriter
from everview.server.pg.commands import Command, Reader
from everview.server.pg.copy_forms import Form, RowsOut
from everview.server.pg.sqlstates import PgError
from everview.server.pg.wire import Gone
from everview.server.visitors import Followed
from everview.session.changes.batch import Batch
from everview.session.core import core_of
from everview.session.reads import concurrent_reads
from everview.session.reads.snapshot import consolidated
from everview.session.rights.principal import WHO
from everview.sql.ddl import schemas
from everview.sql.rights import shared_queries
from everview.sql.scalar.names import spelled
from everview.sql.text.error_positions import Source
from everview.types import BOOL, INT, STR

if TYPE_CHECKING:
    from everview.server.engine import Engine
    from everview.server.pg.client import Client
    from everview.session.session import Session
    from everview.sql.statements import Statements
    from everview.sql.streams.subscription import Subscription
    from everview.system.observer import System

T = TypeVar("T")

Row = tuple[Any, ...]

WAITING_ROWS = 20_000
"""Pending rows before they are consolidated."""

TOO_MANY = 1_000_000
"""Maximum number of pending rows after that."""

PULSE = 1.0
"""Seconds between progress checks of an idle stream."""


@dataclass
class Wanted:
    """A SUBSCRIBE statement."""

    text: str
    """the same without what the session's SQL does not know"""
    snapshot: bool = True
    progress: bool = False
    granularity: float = 0.0
    since: int | None = None
    until: int | None = None
    key: list[str] = field(default_factory=list)


def read(command: Command) -> Wanted:
    """What a SUBSCRIBE statement says."""
    words = Reader(command, 1)
    words.next_is("TO")
    start = words.words[words.at].start if words.more() else 0
    if words.brackets() is None:
        words.name("a view, a table or a query in brackets")
    stop = words.words[words.at - 1].end
    wanted = Wanted(f"SUBSCRIBE TO {command.text[start:stop]} WITHOUT SNAPSHOT")
    while words.more():
        if words.next_is("ENVELOPE", "UPSERT", "(", "KEY", "("):
            wanted.key = [words.name("a column")]
            while words.next_is(","):
                wanted.key.append(words.name("a column"))
            words.need(")", ")")
        elif words.next_is("WITHOUT", "SNAPSHOT"):
            wanted.snapshot = False
        elif words.next_is("WITH", "("):
            _options(words, wanted)
        elif words.next_is("AS", "OF"):
            wanted.since = _time(words)
        elif words.next_is("UP", "TO"):
            wanted.until = _time(words)
        elif words.next_is("GRANULARITY"):
            wanted.granularity = _seconds(words)
        else:
            hint = "ENVELOPE UPSERT (KEY (...)), WITH (...), AS OF, UP TO and GRANULARITY may follow"
            raise words.error(f"{words.words[words.at].text!r} is not expected here", hint)
    return wanted


def _options(words: Reader, wanted: Wanted) -> None:
    while True:
        if words.next_is("SNAPSHOT"):
            wanted.snapshot = _flag(words)
        elif words.next_is("PROGRESS"):
            wanted.progress = _flag(words)
        elif words.next_is("GRANULARITY"):
            wanted.granularity = _seconds(words)
        else:
            raise words.error("this option is not known", "there are SNAPSHOT, PROGRESS and GRANULARITY")
        if words.next_is(")"):
            return
        words.need(",")


def _flag(words: Reader) -> bool:
    if not words.next_is("=") and words.more() and words.words[words.at].upper in (",", ")"):
        return True
    said = words.take("true or false").text.lower()
    if said not in ("true", "false", "on", "off"):
        words.at -= 1
        raise words.error("true or false is missing here")
    return said in ("true", "on")


def _time(words: Reader) -> int:
    word = words.take("a time")
    if not word.text.isdecimal():
        words.at -= 1
        raise words.error("a time is a whole number", "times are counted from 0, one for each transaction")
    return whole_number(word.text)


def _seconds(words: Reader) -> float:
    words.next_is("=")
    text = words.take("a duration").text
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*(ms|milliseconds?|s|sec|seconds?|min|minutes?)\s*", text.lower())
    if found is None:
        raise words.error(f"{text!r} is not a duration", "GRANULARITY '100 ms'")
    unit = 0.001 if found[2].startswith(("ms", "milli")) else 60.0 if found[2].startswith("min") else 1.0
    return float(found[1]) * unit


class Feed:
    """What a stream has to tell, between the engine's thread and the loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.news = asyncio.Event()
        self.rows = 0
        self.behind = False
        """whether more waits than may"""
        self.error: EverviewError | None = None
        """why it is over"""
        self._loop = loop
        self._lock = threading.Lock()
        self._batches: deque[Batch] = deque()

    def put(self, batch: Batch) -> None:
        """Tell of a time's changes; on the engine's thread. Must neither raise nor wait."""
        with self._lock:
            self._batches.append(batch)
            self.rows += len(batch)
            if self.rows > WAITING_ROWS and len(self._batches) > 1:
                self._batches = deque([added_up(list(self._batches))])
                self.rows = len(self._batches[0])
            self.behind = self.rows > TOO_MANY and len(self._batches) > 0
        self._loop.call_soon_threadsafe(self.news.set)

    def fail(self, error: EverviewError) -> None:
        """It is over; on the engine's thread."""
        self.error = error
        self._loop.call_soon_threadsafe(self.news.set)

    def taken(self) -> list[Batch]:
        """What has come."""
        with self._lock:
            found, self.rows = list(self._batches), 0
            self._batches.clear()
        self.news.clear()
        return found


def added_up(batches: list[Batch]) -> Batch:
    """Changes of several times as one, at the last of them."""
    if len(batches) == 1:
        return batches[0]
    columns = np.ascontiguousarray(np.concatenate([b._columns for b in batches], axis=1))
    columns, diffs = consolidated(columns, np.concatenate([b._diffs for b in batches]))
    return Batch(batches[-1].time, batches[0]._codec, np.ascontiguousarray(columns), diffs)


class Live(Answer):
    """A subscription, as rows that were not sent yet."""

    def __init__(self, client: Client, wanted: Wanted, columns: list[Column], keys: list[int], place: Place) -> None:
        super().__init__("SUBSCRIBE", columns)
        self.client = client
        self.wanted = wanted
        self.place = place
        self.feed = Feed(asyncio.get_running_loop())
        self.told = 0
        """the last time whose changes were all told"""
        self.ended = False
        self._keys = keys
        self._waiting: deque[Row] = deque()
        self._subscription: Subscription | None = None
        self.who = WHO.get()
        self.reads: tuple[str, ...] = ()
        self.stamp = ""
        self._last = 0.0
        self._counts: dict[Row, dict[Row, int]] = {}
        """with ENVELOPE UPSERT: rows by key, and how often each is there"""

    # on the engine's thread

    def start(self, session: Session) -> None:
        """Begin: what is there, or what changed since, and from now on what comes. In one piece: nothing is missed, and
        nothing told twice.
        """
        wanted = self.wanted
        subscription: Subscription = self.place.inside(session, lambda sql: sql.run(wanted.text))
        try:
            view: Any = subscription._view
            now = session.time
            since = now if wanted.since is None else wanted.since
            if since > now:
                raise InputError("E_FUTURE", f"AS OF {since} has not come yet: it is {now}", "leave AS OF out")
            view._refuse_errors()
            if wanted.snapshot or wanted.key:
                snapshot = view._now() if since == now else view.as_of(since)
                core_of(session).access.check_rows(len(snapshot) if wanted.snapshot else 0)
                self._first = Batch(since, relation_of(view).codec, *snapshot._contents())
            later = [] if since == now else _batches(view, since)
            self.told = since
            subscription.listen(self.feed.put)
            for batch in later:
                self.feed.put(batch)
        except BaseException:
            subscription.close()
            raise
        self._subscription = subscription
        self.reads = getattr(view, "reads", ()) or (relation_of(view).label,)
        if self.place.system is not None:
            self.reads = ()  # the right to look at ev is one of the role
        self.stamp = stamp_of(self.client.engine.session, self.who, self.reads)
        if self.who is not None:
            self.client.engine.watched[id(self)] = self

    def revoke(self, error: EverviewError) -> None:
        """Whoever follows it has no right to it any more."""
        self.feed.fail(error)

    _first: Batch | None = None
    counted = False
    """whether it counts among the subscriptions of its role"""

    def stop(self, session: Session) -> None:
        """No more."""
        self.client.engine.watched.pop(id(self), None)
        if self._subscription is not None:
            self._subscription.close()
            self._subscription = None

    # on the loop

    def begin(self) -> None:
        """Put what is there before what changes."""
        wanted = self.wanted
        if wanted.progress:
            self._waiting.append(self._progress(self.told))
        if self._first is not None:
            if wanted.key:
                self._upserts(self._first, silent=not wanted.snapshot)
            elif wanted.snapshot:
                self._waiting.extend(self._changes(self._first))
            self._first = None
        self._last = clock.monotonic()
        self._check_end(self.told)

    def close(self) -> None:
        """No more; the engine is told when it comes to it."""
        if self.counted:
            self.counted = False
            self.client.engine.quotas.give_back("subscriptions", self.who)
            self.client.lives.pop(id(self), None)
            self.place.leave()
        if self._subscription is not None and not self.client.engine.closing:
            task = asyncio.ensure_future(self._closed())
            _CLOSING.add(task)
            task.add_done_callback(_CLOSING.discard)

    async def _closed(self) -> None:
        with contextlib.suppress(EverviewError):  # the engine is closed already
            await self.place.engine.run(self.stop)

    def listed(self) -> Followed:
        """What is followed, up to which time it was sent, and how many have passed since."""
        inside = _inside(self.wanted)
        name = "(query)" if inside.startswith("(") else f"ev.{inside}" if self.place.system is not None else inside
        return name, self.told, self.place.engine.session.time - self.told if self.feed.rows else 0

    async def rows(self, timeout: float | None) -> list[Row]:
        """What has come, when something has, or the time is over; nothing more if it has ended."""
        deadline = None if timeout is None else clock.monotonic() + timeout
        while True:
            self._collect()
            if self._waiting or self.ended:
                found = list(self._waiting)
                self._waiting.clear()
                return found
            if deadline is not None and clock.monotonic() >= deadline:
                return []
            await self._news(deadline)

    def _collect(self) -> None:
        """Rows of what has come."""
        if self.ended or (self.wanted.granularity and clock.monotonic() < self._last + self.wanted.granularity):
            return
        if self.feed.error is not None:
            raise self.feed.error
        if self.feed.behind:
            raise PgError(
                "E_MEMORY",
                "53400",
                f"the client fell behind: more than {TOO_MANY:,} changes wait",
                f"SUBSCRIBE AS OF {self.told} goes on",
            )
        batches = self.feed.taken()
        if not batches:
            return
        self._last = clock.monotonic()
        until = self.wanted.until
        batches = [b for b in batches if until is None or b.time < until]
        if self.wanted.granularity and batches:
            batches = [added_up(batches)]
        for batch in batches:
            if self.wanted.key:
                self._upserts(batch)
            else:
                self._waiting.extend(self._changes(batch))
            self.told = max(self.told, batch.time)

    async def _news(self, deadline: float | None) -> None:
        """Wait for something to come, or for time to go on."""
        client, wanted = self.client, self.wanted
        look = wanted.progress or wanted.until is not None
        due = [deadline] if deadline is not None else []
        if wanted.granularity and self.feed.rows:
            due.append(self._last + wanted.granularity)
        elif look:
            due.append(clock.monotonic() + max(wanted.granularity, PULSE if not wanted.until else 0.05))
        waits = [asyncio.ensure_future(e.wait()) for e in (client.stop, client.wire.gone)]
        if not (wanted.granularity and self.feed.rows):
            waits.append(asyncio.ensure_future(self.feed.news.wait()))
        try:
            seconds = max(min(due) - clock.monotonic(), 0) if due else None
            await asyncio.wait(waits, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for one in waits:
                one.cancel()
        if client.wire.gone.is_set():
            raise Gone
        if client.stop.is_set():
            raise StoppedError("E_CANCELLED", "the statement was cancelled", "")
        if look and not self.feed.news.is_set():
            await self._look()

    async def _look(self) -> None:
        """How far time has come, all that changed until then told."""
        now = await self.place.engine.run(_complete)
        await asyncio.sleep(0)  # what the engine told before is here now
        self._collect()
        if self.feed.rows:
            return
        if self.wanted.progress and now > self.told:
            self._waiting.append(self._progress(now + 1))
        self.told = max(self.told, now)
        self._check_end(now)

    def _check_end(self, now: int) -> None:
        if self.wanted.until is not None and now >= self.wanted.until - 1:
            self.ended = True

    async def fetched(self, count: int, timeout: float | None) -> list[Row]:
        """For FETCH: so many rows, of whatever has come when the time is over."""
        self._collect()
        if not self._waiting and timeout != 0 and not self.ended:
            await self._wait(timeout)
        size = min(count, len(self._waiting))
        return [self._waiting.popleft() for _ in range(size)]

    async def _wait(self, timeout: float | None) -> None:
        """Until a row waits; FETCH ALL without a time waits for nothing more than what is there."""
        deadline = clock.monotonic() + (0.0 if timeout is None else timeout)
        while not self._waiting and not self.ended and clock.monotonic() < deadline:
            await self._news(deadline)
            self._collect()
        if timeout is None:
            await self._look()

    # rows

    def _progress(self, time: int) -> Row:
        assert self.columns is not None
        return (time, True, *[None] * (len(self.columns) - 2))

    def _head(self, time: int, mark: Any) -> Row:
        return (time, False, mark) if self.wanted.progress else (time, mark)

    def _changes(self, batch: Batch) -> list[Row]:
        return [(*self._head(batch.time, diff), *row) for row, diff in batch.rows()]

    def _upserts(self, batch: Batch, silent: bool = False) -> None:
        """One row for each key that changed."""
        keys = self._keys
        changed: dict[Row, None] = {}
        for row, diff in batch.rows():
            key = tuple(row[k] for k in keys)
            there = self._counts.setdefault(key, {})
            there[row] = there.get(row, 0) + diff
            if not there[row]:
                del there[row]
            changed[key] = None
        for key in changed:
            there = self._counts[key]
            if not there:
                del self._counts[key]
            if silent:
                continue
            others = [i for i in range(len(batch._codec.names)) if i not in keys]
            values: Row = tuple([None] * len(others))
            state = "delete"
            if len(there) == 1 and next(iter(there.values())) == 1:
                row = next(iter(there))
                state, values = "upsert", tuple(row[i] for i in others)
            elif there:
                state = "key_violation"
            self._waiting.append((*self._head(batch.time, state), *key, *values))


_CLOSING: set[asyncio.Future[None]] = set()
"""Tasks that close subscriptions, which nobody waits for."""


def _complete(session: Session) -> int:
    """The last complete time, when its changes were told to everybody."""
    subscriptions = core_of(session).subscriptions
    subscriptions.deliver()
    with subscriptions._delivering:
        return session.time


def _batches(view: Any, since: int) -> list[Batch]:
    """What changed after a time, one batch for each."""
    columns, times, diffs = view._changes(since)
    return [
        Batch(int(t), relation_of(view).codec, np.ascontiguousarray(columns[:, times == t]), diffs[times == t])
        for t in np.unique(times)
    ]


def _inside(wanted: Wanted) -> str:
    """The name, or the query in brackets."""
    return wanted.text.removeprefix("SUBSCRIBE TO ").removesuffix(" WITHOUT SNAPSHOT").strip()


def _shape(sql: Statements, wanted: Wanted) -> tuple[list[str], list[Any]]:
    """Names and types of what is subscribed to; nothing is made."""
    inside = _inside(wanted)
    if inside.startswith("("):
        known = shared_queries.columns_of_known(sql, Source(inside, dialect=sql.dialect))
        if known is not None:
            return [c.name for c in known], [c.type for c in known]
        shape = sql.shape(inside[1:-1], lambda node: None)
        if shape is None:
            raise PgError("E_SYNTAX", "42601", "a query is missing in the brackets", "SUBSCRIBE TO (SELECT ...)")
        return shape.names, shape.types

    there = [*sql.session.views, *sql.session.tables]
    plain = ".".join(p.strip('"') for p in inside.split("."))
    name = schemas.found(sql.core, plain, there)
    if name not in there:
        raise InputError("E_TABLE", f"there is no view or table {plain}", did_you_mean(plain, there))
    sql.core.access.may_read(name)
    found = sql.session[name]
    return list(found.schema()), [c.type for c in relation_of(found).columns]


def _arranged(wanted: Wanted, names: list[str], types: list[Any]) -> tuple[list[Column], list[int]]:
    """The columns of the stream, and which of the view's are the key."""
    head = [Column("ev_time", INT), *([Column("ev_progressed", BOOL)] if wanted.progress else [])]
    keys = []
    for name in wanted.key:
        exact = spelled(name, names)
        if exact not in names:
            raise InputError("E_COLUMN", f"there is no column {name}", did_you_mean(name, names))
        keys.append(names.index(exact))
    if not keys:
        rest = range(len(names))
        return [*head, Column("ev_diff", INT), *(Column(names[i], types[i]) for i in rest)], []
    order = [*keys, *(i for i in range(len(names)) if i not in keys)]
    return [*head, Column("ev_state", STR), *(Column(names[i], types[i]) for i in order)], keys


async def columns(client: Client, command: Command) -> list[Column]:
    """The columns that a SUBSCRIBE will give; it is not begun."""
    wanted, place = await _placed(client, read(command))
    return _arranged(wanted, *await _looked(client, wanted, place))[0]


@dataclass
class Place:
    """Where a subscription is served: by the engine of the database, or by that of the schema `ev`."""

    client: Client
    engine: Engine
    system: System | None = None
    followed: bool = False

    def inside(self, session: Session, function: Callable[[Statements], T]) -> T:
        """Call a function with the SQL of that session; on its engine's thread."""
        if self.system is not None:
            return function(self.system.statements)
        return self.client.work.inside(session, function, apart=True)

    def follow(self) -> None:
        """What is there is needed."""
        if self.system is not None:
            self.followed = True
            self.client.engine.observer.follow()

    def leave(self) -> None:
        """It is not any more."""
        if self.followed:
            self.followed = False
            self.client.engine.observer.leave()


async def _placed(client: Client, wanted: Wanted) -> tuple[Wanted, Place]:
    """Where something is served, and what it is there."""
    observer = client.engine.observer
    text = await observer.about(wanted.text)
    if text is None:
        return wanted, Place(client, client.engine)
    engine, system = await observer.opened()
    return replace(wanted, text=text), Place(client, engine, system)


async def _looked(client: Client, wanted: Wanted, place: Place) -> tuple[list[str], list[Any]]:
    """The columns of what is wanted."""
    if place.system is not None:
        return await place.engine.run(lambda session: place.inside(session, lambda sql: _shape(sql, wanted)))

    def look(session: Session) -> tuple[list[str], list[Any]]:
        shape = lambda: place.inside(session, lambda sql: _shape(sql, wanted))  # noqa: E731
        return concurrent_reads.looked(core_of(session), shape)

    return await client.read(look)


async def open_live(client: Client, command: Command) -> Live:
    """Begin a subscription."""
    wanted, place = await _placed(client, read(command))
    if client.inside and client.work.changes:
        raise PgError(
            "E_TRANSACTION", "25001", "what a transaction has changed cannot be subscribed to", "COMMIT first"
        )
    live = Live(client, wanted, *_arranged(wanted, *await _looked(client, wanted, place)), place)
    client.engine.quotas.take("subscriptions", live.who)
    live.counted = True
    client.lives[id(live)] = live
    place.follow()
    try:
        await (client.follow(live.start) if place.system is None else place.engine.run(live.start))
    except BaseException:
        live.close()
        raise
    live.begin()
    return live


async def stream(
    client: Client, command: Command, *, describe: bool, formats: tuple[int, ...] = (), most: int = 0
) -> None:
    """Send the rows of a SUBSCRIBE as they come, until somebody cancels it or UP TO ends it."""
    live = await open_live(client, command)
    assert live.columns is not None
    wire = client.wire
    try:
        if describe:
            wire.put(messages.row_description([c.field() for c in live.columns]))
        write = RowWriter(live.columns, formats, client.settings.zone)
        count = 0
        await wire.drained()
        while not live.ended or live._waiting:
            rows = await live.rows(None)
            count += len(rows)
            if rows:
                wire.put(write(rows))
            await wire.drained()
        wire.put(messages.command_complete(f"SUBSCRIBE {count}"))
    finally:
        live.close()


async def streamed(client: Client, command: Command) -> Answer:
    """A SUBSCRIBE where rows cannot be streamed."""
    raise PgError("E_UNSUPPORTED", "0A000", "SUBSCRIBE is not allowed here", "DECLARE a cursor for it, or COPY it")


async def copied(client: Client, command: Command, form: Form) -> Answer:
    """COPY (SUBSCRIBE ...) TO STDOUT"""
    live = await open_live(client, command)
    assert live.columns is not None
    wire, out, count = client.wire, RowsOut(form, live.columns, client.settings.zone), 0
    try:
        wire.put(messages.copy_response(b"H", form.binary, len(live.columns)))
        if head := out.head():
            wire.put(messages.copy_data(head))
        await wire.drained()
        while not live.ended or live._waiting:
            rows = await live.rows(None)
            count += len(rows)
            wire.put(b"".join(map(messages.copy_data, out.rows(rows))))
            await wire.drained()
        if tail := out.tail():
            wire.put(messages.copy_data(tail))
        wire.put(messages.COPY_END)
        return Answer(f"COPY {count}")
    finally:
        live.close()
