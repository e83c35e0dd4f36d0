"""Work that nothing cuts off: it is done in a thread that nobody else knows.

What one thread raises in another (`PyThreadState_SetAsyncExc`) comes between any two instructions. A step in one
process is one call of a kernel, and whoever comes next sees by its place how far it was (`Dataflow.ended`). What takes
several steps that must all be done or none, a commit on several shards, an entry that is written and then known, has no
such place. So it is done in a thread of its own, whose number no program has, while the caller waits. The exception
meets the waiting caller, and the work goes on to its end.

The caller may be cut off even while it waits, and then leave with the work under way. That is why whoever touches what
the work touches calls `wait` first: a session does so where it is settled (`everview.session.core.Core.settle`).

Signals and limits are heard by the caller, not by the work. Work that is given `hear`, which raises what the caller is
to hear, is asked to stop then (`everview.stopping`), and must leave everything as it was; other work is waited for.

Hazards: the work is in another thread than the turn it belongs to, and must not call what begins a turn. And a new
thread has its maker's number for some microseconds (CPython 3.11): an exception meant for the maker may hit it before
its first instruction. Such a thread is gone without a trace, so it is looked for and started again. Threads that must
begin are started from one of these (`StartedApart`).
"""

from __future__ import annotations

import contextvars
import threading
from _thread import allocate_lock, get_ident, start_new_thread
from collections.abc import Callable
from typing import Any, TypeVar

from everview import stopping
from everview.errors import StoppedError

NOTICE = 0.05
"""Seconds after which a caller that waits looks whether it is to stop, and whether the thread has begun."""

T = TypeVar("T")


class Unbroken:
    """One piece of work at a time that cannot be cut off.

    >>> unbroken = Unbroken()
    >>> unbroken.run(lambda: 6 * 7)
    42
    """

    def __init__(self) -> None:
        self._work: _Work | None = None

    def run(self, work: Callable[[], T], hear: Callable[[], None] | None = None) -> T:
        """Do it, and wait for its end; work inside of work is a part of it."""
        under_way = self._work
        if under_way is not None and under_way.thread == get_ident():
            return work()
        self.wait()
        mine = self._work = _Work(work, hear)
        answer = mine.answer()
        self._work = None
        return answer  # type: ignore[no-any-return]

    def wait(self) -> None:
        """Nothing is under way afterwards; what was cut off before it began does not begin."""
        work = self._work
        if work is not None and work.thread != get_ident():
            work.end()
            self._work = None


class _Work:
    """What is to be done, and what came of it."""

    def __init__(self, work: Callable[[], Any], hear: Callable[[], None] | None) -> None:
        self._work = work
        self._hear = hear
        self._context = contextvars.copy_context()
        self._begun = allocate_lock()  # held by whoever came first: a thread, or who does not want it any more
        self._bell = allocate_lock()
        self._bell.acquire()
        self._stop: stopping.Stop | None = None
        self._value: Any = None
        self._error: BaseException | None = None
        self._over = False
        self.thread = 0

    def _run(self) -> None:
        """In the thread, or in one of several."""
        if not self._begun.acquire(False):
            return
        self.thread = get_ident()
        if self._hear is not None:
            stopping.helpers.add(self.thread)  # users' functions may run in it
        try:
            self._value = self._context.run(self._work)
        except BaseException as error:
            self._error = error
        finally:
            stopping.helpers.discard(self.thread)
            if self._stop is not None:
                stopping.withdraw(self._stop)
            self.thread = 0
            self._over = True
            self._bell.release()

    def _start(self) -> None:
        try:
            start_new_thread(self._run, ())
        except RuntimeError:  # there is no thread to be had
            self._run()

    def answer(self) -> Any:
        """Have it done, and wait for it. What comes meanwhile is raised when it is over."""
        came: BaseException | None = None
        self._start()
        while not self._over:
            try:
                if not self._bell.acquire(timeout=NOTICE):
                    if not self._begun.locked():
                        self._start()
                    elif self._hear is not None and came is None:
                        self._hear()
            except BaseException as error:
                came = came or error
                self._ask()
        failed, self._error = self._error, None
        try:
            if came is not None:
                raise came
            if failed is not None:
                raise failed
            return self._value
        finally:
            del came, failed  # they lead here

    def _ask(self) -> None:
        if self._hear is not None and self._stop is None:
            self._stop = stopping.Stop(lambda: get_ident() == self.thread, _stopped)
            stopping.ask(self._stop)
            if self._over:
                stopping.withdraw(self._stop)

    def end(self) -> None:
        """Have it ended, or never begin."""
        if not self._begun.acquire(False):
            while not self._over:
                self._bell.acquire(timeout=NOTICE)


def _stopped() -> StoppedError:
    return StoppedError("E_CANCELLED", "the call was cut off; nothing was changed", "call it again")


class StartedApart(threading.Thread):
    """A thread that begins, whatever is raised in the one that starts it.

    >>> said = []
    >>> thread = StartedApart(target=said.append, args=(1,))
    >>> thread.start()
    >>> thread.join()
    >>> said
    [1]
    """

    def start(self) -> None:
        Unbroken().run(super().start)


class TimerApart(threading.Timer, StartedApart):
    """A timer likewise."""
