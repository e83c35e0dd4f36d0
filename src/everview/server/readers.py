"""Readers: threads that answer read-only work while the engine's own thread is busy.

A read is tried *in a hurry* (`everview.dataflow.read_leases`): its thread takes a turn of the session if that is free,
reads beside the current step if that lends, and otherwise gives up at once without side effects. It is retried a few
times, because most obstacles are short: the commit of a step, another reader's copy. What does not succeed within
`PATIENCE` seconds goes to the engine's queue.

What a read needs is copied; computing the result requires neither a turn nor the step. A long query therefore blocks
neither the writer nor other reads, as long as there are threads. Roles share them fairly (`everview.server.fairness`),
as on the engine.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from everview import cancellation
from everview.cancellation import Stop
from everview.dataflow.read_leases import MustWait, in_a_hurry
from everview.server.fairness import Queue
from everview.session.limits import cancelled

if TYPE_CHECKING:
    from everview.server.jobs import Job

MAX_THREADS = 16
"""Maximum number of concurrent reads."""

PATIENCE = 0.05
"""Seconds for which a read is tried beside others' work."""

PAUSE = 0.0005
"""Seconds between the first two tries; each pause is twice as long as the last."""


class Readers:
    """The threads; they begin when they are needed."""

    def __init__(self, answer: Callable[[Job], Any], done: Callable[[Job, Any, BaseException | None], None]) -> None:
        self._answer = answer
        self._done = done
        """told when a question is answered, has failed, or (`MustWait`) has to go another way"""
        self._changed = threading.Condition()
        self._waiting: Queue[Job] = Queue()
        self._running: dict[Job, Stop] = {}
        self._threads = 0
        self._idle = 0
        self._closing = False

    def __len__(self) -> int:
        return len(self._waiting)

    @property
    def busy(self) -> bool:
        """Whether anything waits or runs."""
        return bool(self._waiting or self._running)

    def put(self, job: Job, weight: float) -> None:
        """Have a question answered."""
        with self._changed:
            self._waiting.put(job.whose, job, weight)
            if self._idle < len(self._waiting) and self._threads < MAX_THREADS:
                self._threads += 1
                threading.Thread(target=self._serve, daemon=True, name="everview reader").start()
            self._changed.notify()

    def of(self, key: object) -> list[Job]:
        """What waits or runs under a key."""
        with self._changed:
            return [job for job in (*self._waiting, *self._running) if job.key == key]

    def stop(self, job: Job) -> bool:
        """Drop a question that waits, or have one that runs stop; whether it is here."""
        with self._changed:
            if self._waiting.remove(job):
                dropped = True
            elif job in self._running:
                dropped = False
                if not job.to_stop:
                    job.to_stop = True
                    cancellation.ask(self._running[job])
            else:
                return False
        if dropped:
            self._done(job, None, cancelled())
        return True

    def close(self) -> list[Job]:
        """Take no more; gives what waited. What runs is told to stop, and nobody waits for it."""
        with self._changed:
            self._closing = True
            dropped, running = self._waiting.clear(), list(self._running)
            self._changed.notify_all()
        for job in running:
            self.stop(job)
        return dropped

    # the threads

    def _serve(self) -> None:
        while (found := self._next()) is not None:
            job, stop = found
            answer, error = None, None
            began = time.perf_counter()
            try:
                answer = self._tried(job, stop)
            except BaseException as raised:
                error = raised
            with self._changed:
                del self._running[job]
                cancellation.withdraw(stop)
                self._waiting.charge(job.whose, time.perf_counter() - began)
            self._done(job, answer, error)

    def _next(self) -> tuple[Job, Stop] | None:
        me = threading.get_ident()
        with self._changed:
            while not self._waiting and not self._closing:
                self._idle += 1
                self._changed.wait()
                self._idle -= 1
            found = self._waiting.take()
            if found is None:
                return None
            job = found[1]
            stop = self._running[job] = Stop(lambda: threading.get_ident() == me, cancelled)
            return job, stop

    def _tried(self, job: Job, stop: Stop) -> Any:
        end, pause = time.monotonic() + PATIENCE, PAUSE
        while True:
            try:
                with in_a_hurry():
                    return self._answer(job)
            except MustWait:
                if time.monotonic() > end:
                    raise
            if job.to_stop:
                raise stop.error()
            time.sleep(pause)
            pause *= 2
