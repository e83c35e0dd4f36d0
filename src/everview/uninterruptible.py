"""Runs critical sections in a private thread, so that asynchronous exceptions cannot interrupt them.

An exception raised from another thread (`PyThreadState_SetAsyncExc`) can arrive between any two instructions. A step
within one process is safe: it is a single kernel call, and `Dataflow.ended` can tell afterwards how far it got. A
sequence that must run completely or not at all is not: a commit on several shards, or an entry that is written and then
recorded in memory. Such work runs here in a thread whose id no program has, while the caller waits. The exception
interrupts the waiting caller, and the work runs to its end.

The caller may be interrupted while it waits and leave with the work still running. Code that touches the same state
must therefore call `wait` first; a session does so when it settles (`everview.session.core.Core.settle`).

Signals and limits reach the caller, not the work. Work started with `hear`, a callback that raises pending interrupts,
is then asked to stop (`everview.cancellation`) and must undo its changes. Other work is waited for.

A thread that has done its work waits a while for more (`_Helper`): a step on Spark commits in one, and starting a
thread for each would take longer than handing the work over.

Hazards: the work runs in a different thread from the turn it belongs to, so it must not call anything that begins a
turn. In CPython 3.11 a new thread also has its creator's id for some microseconds, so an exception meant for the
creator may kill it before its first instruction. Such a thread disappears silently; it is detected and started again.
Use `StartedApart` for threads that must start.
"""

from __future__ import annotations

import contextvars
import os
import threading
from _thread import allocate_lock, get_ident, start_new_thread
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar

from everview import cancellation
from everview.errors import StoppedError

NOTICE = 0.05
"""Seconds between checks, by a waiting caller, whether it should stop and whether the thread has started."""

IDLE_SECONDS = 5.0
"""Seconds for which a thread waits for more work before it ends."""

T = TypeVar("T")


class Uninterruptible:
    """Runs one uninterruptible piece of work at a time.

    >>> uninterruptible = Uninterruptible()
    >>> uninterruptible.run(lambda: 6 * 7)
    42
    """

    def __init__(self) -> None:
        self._work: _Work | None = None

    def run(self, work: Callable[[], T], hear: Callable[[], None] | None = None) -> T:
        """Run the work and wait for its end; nested calls run as part of the outer work."""
        under_way = self._work
        if under_way is not None and under_way.thread == get_ident():
            return work()
        self.wait()
        mine = self._work = _Work(work, hear)
        answer = mine.answer()
        self._work = None
        return answer  # type: ignore[no-any-return]

    def wait(self) -> None:
        """Wait until nothing is running; work that was interrupted before it started is cancelled."""
        work = self._work
        if work is not None and work.thread != get_ident():
            work.end()
            self._work = None


class _Work:
    """A piece of work and its outcome."""

    def __init__(self, work: Callable[[], Any], hear: Callable[[], None] | None) -> None:
        self._work = work
        self._hear = hear
        self._context = contextvars.copy_context()
        self._begun = allocate_lock()  # held by whoever came first: a thread, or a caller that cancels the work
        self._bell = allocate_lock()
        self._bell.acquire()
        self._stop: cancellation.Stop | None = None
        self._value: Any = None
        self._error: BaseException | None = None
        self._done = False
        self.thread = 0

    def claim(self) -> bool:
        """Claim the work for this thread, unless another has, or it was cancelled."""
        return self._begun.acquire(False)

    def run(self) -> None:
        """Run the work in this thread."""
        self.thread = get_ident()
        if self._hear is not None:
            cancellation.helpers.add(self.thread)  # user functions may run in it
        try:
            self._value = self._context.run(self._work)
        except BaseException as error:
            self._error = error
        finally:
            cancellation.helpers.discard(self.thread)
            if self._stop is not None:
                cancellation.withdraw(self._stop)
            self.thread = 0
            self._done = True

    def tell(self) -> None:
        """Wake the caller: the work is over."""
        self._bell.release()

    def _start(self) -> None:
        try:
            helper = _idle.pop()
        except IndexError:
            helper = _Helper()
        try:
            helper.give(self)
        except RuntimeError:  # no thread could be started
            if self.claim():
                self.run()
                self.tell()

    def answer(self) -> Any:
        """Run the work and wait for it. Interrupts that arrive meanwhile are raised afterwards."""
        came: BaseException | None = None
        self._start()
        while not self._done:
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
            del came, failed  # its frames refer back here

    def _ask(self) -> None:
        if self._hear is not None and self._stop is None:
            self._stop = cancellation.Stop(lambda: get_ident() == self.thread, _stopped)
            cancellation.ask(self._stop)
            if self._done:
                cancellation.withdraw(self._stop)

    def end(self) -> None:
        """End the work, or prevent it from starting."""
        if not self._begun.acquire(False):
            while not self._done:
                self._bell.acquire(timeout=NOTICE)


class _Helper:
    """A thread that runs one piece of work after another, for any session.

    It may be lost at any moment: its giver is cut off after taking it from the idle ones, or it ends while it is given
    work. The caller notices that its work has not begun, and starts another.
    """

    def __init__(self) -> None:
        self._bell = allocate_lock()
        self._bell.acquire()
        self._given: _Work | None = None
        self._started = False

    def give(self, work: _Work) -> None:
        """Have it run this work."""
        self._given = work
        if not self._started:
            self._started = True
            start_new_thread(self._serve, ())
        self._bell.release()

    def _serve(self) -> None:
        while self._bell.acquire(timeout=IDLE_SECONDS):
            work, self._given = self._given, None
            if work is not None and work.claim():
                work.run()
                _idle.append(self)  # before the caller knows, whose next work is then given to the same thread
                work.tell()
            else:
                _idle.append(self)
            del work  # it may hold much
        with suppress(ValueError):  # somebody has just taken it, and will notice
            _idle.remove(self)


_idle: list[_Helper] = []
"""helpers without work"""

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_idle.clear)  # threads are not inherited


def _stopped() -> StoppedError:
    return StoppedError("E_CANCELLED", "the call was cut off; nothing was changed", "call it again")


class StartedApart(threading.Thread):
    """A thread that starts even if an exception is raised in its creator.

    >>> said = []
    >>> thread = StartedApart(target=said.append, args=(1,))
    >>> thread.start()
    >>> thread.join()
    >>> said
    [1]
    """

    def start(self) -> None:
        Uninterruptible().run(super().start)
