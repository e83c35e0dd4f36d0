"""The engine: one thread that owns the session, and a queue of work for it.

`await engine.run(work)` calls `work(session)` on the thread and returns or raises its result. Work is done one item at
a time: in order of submission for one principal, in turns for several (`everview.server.fairness`). That order is the
order of the transactions' times. A job is atomic: no other job interleaves, so a transaction is begun and ended in one
piece. A client that wants several statements in one transaction sends them together.

Work that is repeated and short need not wait for the thread: it is done on the loop (`everview.server.short_work`), if
nobody else uses the session. That, too, counts as the engine's one job at that time.

Reads neither wait for a long step nor block others: `await engine.read(work)` runs in another thread
(`everview.server.readers`), beside the current step, and sees the last complete time.

Work has a `key`, which identifies the requester. `engine.cancel(key)` drops queued work with that key and stops running
work (`everview.session.limits`); either fails with E_CANCELLED and has changed nothing. So does work whose caller
disconnects.

Hazards: work must not wait for the loop or for other work: that would deadlock. It must not keep references beyond its
end, to a view for instance: the next job may drop it. Look it up by name each time.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from bisect import bisect_left
from collections.abc import Callable, Hashable, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from everview.dataflow.read_leases import MustWait
from everview.errors import ClosedError, EverviewError, InputError
from everview.server.fairness import Queue
from everview.server.feeds import Feeds
from everview.server.fingerprints import Known, stamp_of
from everview.server.jobs import Job
from everview.server.observing import Observer
from everview.server.quotas import Quotas
from everview.server.readers import Readers
from everview.server.short_work import AT_MOST, ShortWork, nobody_else
from everview.server.subscription import GRANULARITY, Subscription, Wanted
from everview.server.visitors import Visitors
from everview.session.core import core_of
from everview.session.limits import cancelled, trial
from everview.session.reads.concurrent_reads import lend, visited
from everview.session.rights.access import forbidden
from everview.session.rights.principal import WHO, Principal, acting

if TYPE_CHECKING:
    from everview.session.session import Session

T = TypeVar("T")

MOST_WAITING = 10_000
"""Maximum queue length; more jobs are refused (E_BUSY) rather than kept until they are useless."""

BOUNDS = (0.0001, 0.0005, 0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 30.0)
"""Seconds by which jobs are counted."""

AGAIN = 0.02
"""Seconds between repeated stop requests: between two session calls they are not noticed."""

LOOK = 1.0
"""Seconds between checks for expired tokens."""

GRACE = 5.0
"""Seconds that running work may continue when the engine is closed."""


class Engine:
    """The owner of a session, for callers on one asyncio loop; create it on the running loop.

    >>> import asyncio, everview as ev
    >>> async def main():
    ...     engine = Engine(ev.connect())
    ...     await engine.run(lambda db: db.sql("CREATE TABLE t (x int)"))
    ...     await engine.run(lambda db: db["t"].insert([(1,), (2,)]))
    ...     print(await engine.run(lambda db: db.sql("SELECT sum(x) AS s FROM t").rows()))
    ...     await engine.close()
    >>> asyncio.run(main())
    [(3,)]
    """

    def __init__(
        self, session: Session, *, most_waiting: int = MOST_WAITING, inner: threading.RLock | None = None
    ) -> None:
        self.session = session
        self.loop = asyncio.get_running_loop()
        self.most_waiting = most_waiting
        self.jobs = 0
        """number of jobs done"""
        self.seconds = 0.0
        """total time they took"""
        self.durations = [0] * (len(BOUNDS) + 1)
        """how many took up to each of `BOUNDS`, and longer"""
        self.quotas = Quotas(self)
        """quotas and usage of each role"""
        self.visitors = Visitors()
        """who is connected"""
        self.observer = Observer(self)
        """what follows the schema `ev`"""
        self.is_inner = inner is not None
        """whether the session is one about another: it has no principals, and other threads refresh it, with a lock"""
        attached = core_of(session).attached.setdefault("ev", [])
        attached += [self.quotas.relation(), *self.visitors.relations()]
        self.watched: dict[int, Watched] = {}
        """subscriptions that depend on rights, by identity; on the engine's thread"""
        self._rights = core_of(session).access.version
        self._looked = 0.0
        self._short = ShortWork()
        self._waiting: Queue[Job] = Queue()
        self._running: Job | None = None
        self._flushing: asyncio.TimerHandle | None = None
        """the next cut of the feeds on the loop"""
        self._closing = False
        self._changed = threading.Condition()
        self._guests = threading.Lock()
        self._ended = self.loop.create_future()
        self.feeds = Feeds(session, self.loop, inner)
        lend(core_of(session))
        self._readers = Readers(self._worked, self._read)
        self._thread = threading.Thread(target=self._serve, daemon=True, name="everview engine")
        self._thread.start()

    # asking

    async def run(
        self,
        work: Callable[[Session], T],
        *,
        seconds: float | None = None,
        memory: int | None = None,
        key: object = None,
        kind: Hashable = None,
    ) -> T:
        """Call `work` with the session on the engine's thread. Each of its session calls is limited to so many seconds,
        and so many additional bytes. `kind` identifies work that is repeated and consists of one session call: if it
        was short last time, it may be done at once, on this thread.
        """
        job = self._job(work, seconds, memory, key)
        job.kind = kind
        if kind is not None and self._short.is_short(kind) and self._done_here(job):
            return job.answer.result()  # type: ignore[no-any-return]
        answer: T = await self._answered(job, self._put)
        return answer

    async def read(
        self,
        work: Callable[[Session], T],
        *,
        seconds: float | None = None,
        memory: int | None = None,
        key: object = None,
    ) -> T:
        """The same for read-only work. It runs beside the engine's thread and sees the last complete time; if that is
        not possible, it is queued. It may be started several times, so it must not have side effects.
        """
        answer: T = await self._answered(self._job(work, seconds, memory, key), self._put_beside)
        return answer

    async def beside(self, work: Callable[[], T], *, key: object = None) -> T:
        """Have work done that does not need the session, by a thread that reads, in turns with other roles."""
        job = Job(lambda _: work(), None, None, key, self.loop.create_future(), self.principal())
        answer: T = await self._answered(job, self._put_aside)
        return answer

    async def follow(self, work: Callable[[Session], T], *, key: object = None, **limits: Any) -> T:
        """The same for work that starts a subscription: on the thread, or as a guest of the current step. The step's
        commit waits for the guest, so the step's changes are delivered to the new subscriber.
        """
        if self._running is None:
            return await self.run(work, key=key, **limits)
        return await self.read(lambda session: self._as_guest(work, session), key=key, **limits)

    def _as_guest(self, work: Callable[[Session], T], session: Session) -> T:
        if threading.current_thread() is self._thread:
            return work(session)
        with self._guests:  # one after the other: they share state of the engine's thread
            found = visited(core_of(session), lambda: (work(session),))
        if found is None:
            raise MustWait
        return found[0]  # type: ignore[no-any-return]

    def _job(self, work: Callable[[Session], T], seconds: float | None, memory: int | None, key: object) -> Job:
        who = self.principal()
        if who is not None:
            self.quotas.statement(who)
            limits = self.quotas.of(who)
            if limits:
                seconds = least(seconds, limits["milliseconds"] / 1000 if "milliseconds" in limits else None)
                memory = least(memory, int(limits["memory"]) if "memory" in limits else None)
        return Job(work, seconds, memory, key, self.loop.create_future(), who)

    def principal(self) -> Principal | None:
        """On whose behalf work is done."""
        return None if self.is_inner else WHO.get()

    async def _answered(self, job: Job, put: Callable[[Job], None]) -> Any:
        put(job)
        try:
            return await job.answer
        except asyncio.CancelledError:
            self._stop([job])
            raise

    def _put(self, job: Job) -> None:
        with self._changed:
            if self._closing:
                raise closing()
            if len(self._waiting) + len(self._readers) >= self.most_waiting:
                raise InputError(
                    "E_BUSY", f"{self.most_waiting:,} calls are already waiting for the server", "try again in a while"
                )
            self._waiting.put(job.whose, job, self.quotas.weight(job.who))
            self._changed.notify()

    def _put_beside(self, job: Job) -> None:
        if self._closing or len(self._readers) >= self.most_waiting:
            self._put(job)
        else:
            self._readers.put(job, self.quotas.weight(job.who))

    def _put_aside(self, job: Job) -> None:
        if self._closing:
            raise closing()
        self._readers.put(job, self.quotas.weight(job.who))

    def _read(self, job: Job, answer: Any, error: BaseException | None) -> None:
        """Called on a reader's thread when a read is done."""
        if isinstance(error, MustWait):
            try:
                self._put(job)
            except EverviewError as refused:
                error = refused
            else:
                return
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
            self.loop.call_soon_threadsafe(job.done, answer, error)

    def _done_here(self, job: Job) -> bool:
        """Do short work on the loop, if the session is free; False if it must be queued."""
        with self._changed:
            if self._running is not None or self._waiting or self._closing or self._readers.busy:
                return False
            if job.seconds is not None and job.seconds <= AT_MOST:
                return False  # its own limit is to be reported
            self._running = job
        answer, error, began = None, None, time.perf_counter()
        try:
            with self.feeds.alone() as quiet, nobody_else(self.session) as free:
                if not quiet or not free:
                    return False
                with self.session.limits(seconds=AT_MOST), trial():
                    answer = self._worked(job)
        except BaseException as raised:
            error = raised
        finally:
            with self._changed:
                self._running = None
        took = time.perf_counter() - began
        if isinstance(error, EverviewError) and error.code == "E_TIMEOUT":
            self._short.took(job.kind, took)
            return False
        self._account(job, took)
        if self._flushing is None:
            self._flush_here()
        job.done(answer, error)
        return True

    def _flush_here(self) -> None:
        """Cut the feeds on the loop, now or when it is due: waking the thread for it costs more than a short change.
        The thread does it after its own jobs.
        """
        self._flushing = None
        if self._closing or self._running is not None:
            return
        with self.feeds.alone() as quiet:
            due = self.feeds.flush() if quiet else AGAIN
        if due is not None:
            self._flushing = self.loop.call_later(due, self._flush_here)

    def _check(self, who: Principal | None) -> None:
        """Refuse work of a principal that is no longer admitted."""
        if who is not None and not core_of(self.session).access.alive(who):
            raise InputError("E_AUTH", "the role or the token no longer exists", "log in again")

    def cancel(self, key: object) -> bool:
        """Drop queued work with a key, and stop running work; False if there is none. On the loop."""
        with self._changed:
            found = [job for job in (*self._waiting, self._running) if job is not None and job.key == key]
        return self._stop([*found, *self._readers.of(key)] if key is not None else [])

    def _stop(self, jobs: Sequence[Job]) -> bool:
        with self._changed:
            waiting = [job for job in jobs if self._waiting.remove(job)]
            running = self._running if self._running in jobs else None
            if running is not None:
                running.to_stop = True
        for job in waiting:
            job.done(None, cancelled())
        if running is not None:
            self._press(running)
        elsewhere = [job for job in jobs if job not in waiting and job is not running and self._readers.stop(job)]
        return bool(waiting) or running is not None or bool(elsewhere)

    def _press(self, job: Job) -> None:
        """Stop the running work, repeatedly until it ends: between session calls it cannot notice."""
        with self._changed:
            if self._running is not job:
                return
            self.session.cancel()
        self.loop.call_later(AGAIN, self._press, job)

    @property
    def waiting(self) -> int:
        """The number of queued jobs."""
        return len(self._waiting)

    @property
    def closing(self) -> bool:
        """Whether it accepts no more work."""
        return self._closing

    # following views

    async def subscribe(
        self, wanted: Sequence[Wanted], *, granularity: float = GRANULARITY, key: object = None
    ) -> Subscription:
        """Subscribe to tables, views or queries: the contents at one time, then changes at complete times. At most one
        delivery per `granularity` seconds; changes in between are consolidated.
        """
        subscription = Subscription(self, granularity, key)
        await subscription.add(wanted)
        return subscription

    # ending

    async def close(self) -> None:
        """Close: queued work fails with E_CLOSED, running work gets a moment to finish, the session is closed."""
        await self.observer.close()
        with self._changed:
            self._closing = True
            dropped = self._waiting.clear()
            running = self._running
            self._changed.notify()
        for job in (*dropped, *self._readers.close()):
            job.done(None, closing())
        if running is not None:
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(asyncio.shield(self._ended), GRACE)
            self._stop([running])
        error = await asyncio.shield(self._ended)
        self._thread.join()
        if error is not None:
            raise error

    # the thread

    def _serve(self) -> None:
        error: BaseException | None = None
        while (job := self._next()) is not None:
            self._do(job)
        try:
            self.feeds.close()
            self.session.close()
        except BaseException as raised:
            error = raised
        self.loop.call_soon_threadsafe(self._ended.set_result, error)

    def _next(self) -> Job | None:
        """The next job, when there is one; None at the end. Changes of views are delivered in between."""
        while True:
            due = self.feeds.flush()
            with self._changed:
                if not self._waiting and not self._closing:
                    self._changed.wait(due)
                found = self._waiting.take()
                if found is not None:
                    self._running = found[1]
                    return self._running
                if self._closing:
                    return None

    def _do(self, job: Job) -> None:
        answer, error = None, None
        began = time.perf_counter()
        try:
            if job.to_stop:
                raise cancelled()
            answer = self._worked(job)
        except BaseException as raised:
            error = raised
        with self._changed:
            self._running = None
        self._account(job, time.perf_counter() - began)
        self.loop.call_soon_threadsafe(job.done, answer, error)

    def _account(self, job: Job, took: float) -> None:
        """Count a job that is done, and see whether rights have changed."""
        with self._changed:
            self._waiting.charge(job.whose, took)
        if job.kind is not None:
            self._short.took(job.kind, took)
        self.jobs += 1
        self.seconds += took
        self.durations[bisect_left(BOUNDS, took)] += 1
        if self._rights != core_of(self.session).access.version or time.monotonic() > self._looked + LOOK:
            self._look_at_rights()

    def _worked(self, job: Job) -> Any:
        """The result of a job, run on behalf of its principal and within its limits."""
        self._check(job.who)
        with acting(job.who):
            if job.seconds is None and job.memory is None:
                return job.work(self.session)
            with self.session.limits(seconds=job.seconds, memory=job.memory):
                return job.work(self.session)

    def _look_at_rights(self) -> None:
        """End subscriptions whose rights were revoked or whose token has expired."""
        version, self._looked = core_of(self.session).access.version, time.monotonic()
        changed, self._rights = version != self._rights, version
        known: Known = {}
        for watched in list(self.watched.values()):
            if not changed and (watched.who is None or not watched.who.is_over):
                continue
            if watched.stamp != stamp_of(self.session, watched.who, watched.reads, known):
                self.watched.pop(id(watched), None)
                watched.revoke(forbidden("the rights to what is followed have changed", "subscribe again"))


class Watched(Protocol):
    """A subscription that depends on rights."""

    who: Principal | None
    reads: tuple[str, ...]
    stamp: str

    def revoke(self, error: EverviewError) -> None:
        """End it; on the engine's thread."""


def least(one: T | None, other: T | None) -> T | None:
    """The smaller of two, either of which may be missing."""
    found = [n for n in (one, other) if n is not None]
    return min(found) if found else None  # type: ignore[type-var]


def closing() -> EverviewError:
    """The error for work that comes when the engine is closed."""
    return ClosedError("E_CLOSED", "the server is shutting down", "connect again when it is back")
