"""Limits of calls: timeouts, memory per step, and cancellation.

A *call* is a turn (`everview.session.changes.turns`): a statement, a transaction's step, or a read. One watch thread
per process tracks the deadlines. It asks an overdue call to stop (`everview.cancellation`) and denies memory to its
running kernels (`everview.dataflow.kernel_interrupts`) until it has ended. Whatever error that causes is reported as
E_CANCELLED or E_TIMEOUT. The step is undone as after any failure, and the session remains usable.

A call that is already complete when asked to stop stays complete and raises nothing.
"""

from __future__ import annotations

import heapq
import itertools
import math
import os
import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from threading import get_ident
from typing import TYPE_CHECKING, Any

from everview import cancellation
from everview.cancellation import Stop
from everview.dataflow import kernel_interrupts
from everview.dataflow.dataflow import Dataflow
from everview.errors import EverviewError, InputError, MemoryLimitError, StoppedError
from everview.uninterruptible import StartedApart

if TYPE_CHECKING:
    from everview.session.core import Core

LOOK, LONGEST_LOOK = 2, 1000
"""Milliseconds for which memory is denied at a time. If other sessions are active, each period is twice as long as the
last: short ones could miss a kernel that allocates rarely for minutes.
"""

ASIDE = 0.02
"""Seconds in between during which memory is granted, if other sessions are active."""

LINGER = 0.005
"""Seconds after which the watch thread looks again while there are calls with limits."""

UNITS = {"": 1, "b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "kib": 2**10, "mib": 2**20, "gib": 2**30}


MOST_BYTES = 1 << 62
"""More than any computer has, and within what kernels can count."""


def size_of(memory: Any) -> int:
    """Parse a size into bytes.

    >>> size_of("1.5 MB"), size_of("64KiB"), size_of(1000)
    (1500000, 65536, 1000)
    """
    found = None
    if isinstance(memory, int) and not isinstance(memory, bool):
        found = memory
    elif isinstance(memory, str) and (match := re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([a-zA-Z]*)\s*", memory)):
        unit = UNITS.get(match[2].lower())
        found = None if unit is None else int(min(float(match[1]) * unit, MOST_BYTES))
    if found is None or not 0 < found < MOST_BYTES:
        raise InputError("E_RANGE", f"memory={memory!r} is not a size", 'write "64MB", "2GB" or a number of bytes')
    return found


TRIAL: ContextVar[bool] = ContextVar("everview trial", default=False)
"""Whether a call that takes too long is done again elsewhere: nobody is told of the first time."""


@contextmanager
def trial() -> Iterator[None]:
    """Calls inside are done again if they take too long, so logs leave their E_TIMEOUT out."""
    before = TRIAL.set(True)
    try:
        yield
    finally:
        TRIAL.reset(before)


def is_given_up(code: str) -> bool:
    """Whether an error is of a call that is done again."""
    return code == "E_TIMEOUT" and TRIAL.get()


def never_entered(what: str) -> InputError:
    """Return the error for leaving a block that was not entered."""
    return InputError("E_TRANSACTION", f"there is no {what} to end", f"write it as a block: with db.{what}(...): ...")


class Limits:
    """The limits of the calls inside a block; created by `db.limits`."""

    def __init__(self, core: Core, seconds: float | None, memory: int | None) -> None:
        self._core = core
        self.seconds = seconds
        self.memory = memory
        self._outer: list[Limits | None] = []

    def __enter__(self) -> Limits:
        limits = self._core.limits
        outer = limits.get(get_ident())
        self._outer.append(outer)
        limits[get_ident()] = self if outer is None else outer.within(self)
        return self

    def __exit__(self, *exc: object) -> None:
        if not self._outer:
            raise never_entered("limits")
        outer = self._outer.pop()
        if outer is None:
            self._core.limits.pop(get_ident(), None)
        else:
            self._core.limits[get_ident()] = outer

    def within(self, other: Limits) -> Limits:
        """The stricter of both limits."""
        return Limits(
            self._core,
            _smaller(self.seconds, other.seconds),
            _smaller(self.memory, other.memory),  # type: ignore[arg-type]
        )


def _smaller(a: float | None, b: float | None) -> float | None:
    return b if a is None else a if b is None else min(a, b)


class Running:
    """A call with limits."""

    def __init__(self, core: Core, limits: Limits) -> None:
        self.core = core
        self.limits = limits
        self.ended = False

    def __enter__(self) -> None:
        for dataflow in _dataflows(self.core):
            dataflow.timed = True
            if self.limits.memory is not None:
                dataflow.most_words = kernel_interrupts.held() + max(self.limits.memory // 8, 1)
        if self.limits.seconds is not None:
            WATCH.at(time.monotonic() + self.limits.seconds, self)

    def __exit__(self, *exc: object) -> None:
        with WATCH.lock:
            self.ended = True
        for dataflow in _dataflows(self.core):
            dataflow.timed = False
            dataflow.most_words = 0

    def too_long(self) -> StoppedError:
        """Return the timeout error."""
        return StoppedError(
            "E_TIMEOUT",
            f"the call took longer than its limit of {self.limits.seconds:g} s; nothing was changed",
            "ask for less, or give it more: db.limits(seconds=...)",
        )

    def told(self, error: EverviewError) -> EverviewError:
        """Translate an error of the call into one about its limits."""
        if isinstance(error, MemoryLimitError) and self.limits.memory is not None:
            return MemoryLimitError(
                "E_MEMORY",
                f"{error.message.partition(': there is')[0]}: the call needs more memory than its limit of "
                f"{self.limits.memory:,} bytes; nothing was changed",
                "join on more columns, change less at a time, or give it more: db.limits(memory=...)",
            )
        return error


def cancelled() -> StoppedError:
    """Return the error for a cancelled call."""
    return StoppedError(
        "E_CANCELLED", "the call was cancelled; nothing was changed", "call it again, if that was a mistake"
    )


def cancel(core: Core) -> bool:
    """Stop the current call, if there is one; see `Session.cancel`."""
    return WATCH.stop(core, cancelled)


def _dataflows(core: Core) -> list[Dataflow]:
    running, copies = core.runtime.dataflows()
    return [*running, *copies]


def limited(core: Core, limits: Limits, function: Callable[..., Any], arguments: Any, named: Any) -> Any:
    """Call a function with limits; in a turn."""
    running = Running(core, limits)
    try:
        with running:
            return function(*arguments, **named)
    except EverviewError as error:
        raise running.told(error) from None


class Watch:
    """The thread that tracks deadlines and stops overdue calls."""

    def __init__(self) -> None:
        self.lock = threading.Condition()
        self._due: list[tuple[float, int, Running]] = []
        self._number = itertools.count()
        self._stopping: list[Core] = []
        self._presses: dict[Core, int] = {}  # how often each was denied memory while others were active
        self._thread: threading.Thread | None = None
        self._sleeps_until = 0.0
        """when the thread looks again by itself: waking it costs more than most calls"""
        self._asked = False  # since the thread last looked

    def at(self, moment: float, running: Running) -> None:
        """Register a deadline for a call."""
        with self.lock:
            while self._due and self._due[0][2].ended:
                heapq.heappop(self._due)
            heapq.heappush(self._due, (moment, next(self._number), running))
            self._asked = True
            self._begin(tell=moment < self._sleeps_until)

    def stop(self, core: Core, error: Callable[[], EverviewError]) -> bool:
        """Stop the current call; return False if there is none."""
        with self.lock:
            own = core.lock._is_owned() or core.runtime.dataflow.serving == threading.get_ident()
            if core.closed or not core.unsettled or own:  # a function run by a call does not stop that call
                return False
            self._stop(core, error)
            self._begin()
            return True

    def _begin(self, *, tell: bool = True) -> None:
        if self._thread is None or not self._thread.is_alive():
            self._thread = StartedApart(target=self._run, daemon=True, name="everview watch")
            self._thread.start()
        if tell:
            self.lock.notify()

    def _stop(self, core: Core, error: Callable[[], EverviewError]) -> None:
        if core.stop is None:
            core.stop = Stop(core.lock._is_owned, error)
            for dataflow in _dataflows(core):
                dataflow.stopped = True
            cancellation.ask(core.stop)
            self._stopping.append(core)

    def ended(self, core: Core) -> None:
        """Cancel all stop requests for a session's calls."""
        with self.lock:
            self._ended(core)

    def _ended(self, core: Core) -> None:
        stop, core.stop = core.stop, None
        if stop is not None:
            cancellation.withdraw(stop)
        for dataflow in _dataflows(core):
            dataflow.stopped = False
            kernel_interrupts.release(dataflow)
        self._presses.pop(core, None)
        if core in self._stopping:
            self._stopping.remove(core)

    def _run(self) -> None:
        while True:
            with self.lock:
                now = time.monotonic()
                while self._due and (self._due[0][0] <= now or self._due[0][2].ended):
                    running = heapq.heappop(self._due)[2]
                    if not running.ended:
                        self._stop(running.core, running.too_long)
                stops = list(self._stopping)
                if not stops:
                    self._sleep(now)
                    continue
            for core in stops:
                self._press(core)

    def _sleep(self, now: float) -> None:
        """Wait until a deadline, or until told. After recent calls, more are expected: looking again soon is cheaper
        than being woken by each of them.
        """
        until = self._due[0][0] if self._due else math.inf
        lasting = min(until, now + LINGER) if self._asked else until
        self._sleeps_until, self._asked = lasting, False
        self.lock.wait(max(lasting - now, 0) if lasting < math.inf else None)
        self._sleeps_until = 0.0

    def _press(self, core: Core) -> None:
        """Deny memory to a session's kernels for a moment, unless its call has ended."""
        if core.lock.acquire(blocking=False):
            core.lock.release()
            self.ended(core)
            return
        dataflows = _dataflows(core)
        for dataflow in dataflows:
            kernel_interrupts.press(dataflow)
        time.sleep(min(LOOK << self._presses.get(core, 0), LONGEST_LOOK) / 1000)
        if any(other.unsettled for other in core.others()):
            for dataflow in dataflows:
                kernel_interrupts.release(dataflow)
            with self.lock:
                if core in self._stopping:  # a kernel that allocates rarely is caught eventually
                    self._presses[core] = min(self._presses.get(core, 0) + 1, 20)
            time.sleep(ASIDE)


WATCH = Watch()


def _forked() -> None:
    """Reset in a forked child, which has none of the threads or locks."""
    global WATCH
    WATCH = Watch()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)
