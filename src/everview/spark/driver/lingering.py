"""Tasks that stay for a while after a step, and go when they are not needed, or when others need their slots.

Whoever runs steps in tasks that stay (`long_lived_task`: one; `gang`: several) lets them wait `linger` seconds for the
next step. Where steps come at longer intervals, as those of a stream do, they wait for the next one, too, for up to
`longest` seconds.

Several sessions may share an application, and each may have such tasks. Before one starts its own, others that only
wait give way (`make_room`, `all_leave`).
"""

from __future__ import annotations

import atexit
import math
import threading
import time
import weakref
from abc import ABC, abstractmethod
from typing import Any

from everview.spark.driver.slots import slots
from everview.unbroken import TimerApart

LINGER = 0.2
"""Seconds for which tasks wait for the next step, at least."""

LONGEST = 4.0
"""Seconds for which tasks wait at most because steps come at such intervals."""

LATE = 1.5
"""A step may be later than the one before by this factor and still find the tasks."""


class Lingering(ABC):
    """Tasks that stay, as the driver sees them. Who runs steps holds `_lock`."""

    def __init__(self, context: Any, linger: float, longest: float) -> None:
        self._context = context
        self._linger = linger
        self._longest = longest
        self._lock = threading.Lock()
        self._timer: threading.Timer | None = None
        self._answered = -math.inf  # when the last step was done
        self._pause = math.inf  # how long it took from there to the next
        with _registering:
            _all.add(self)
        atexit.register(self.leave)  # tasks that wait while Spark is stopped make Spark complain

    @property
    @abstractmethod
    def taken(self) -> int:
        """How many slots it has."""

    @abstractmethod
    def _drop(self, *, wait: bool = False, cancel: bool = False) -> None:
        """End the tasks, by force if they are to be cancelled, and perhaps wait until their slots are free."""

    def _begin(self) -> None:
        """A step begins: nobody ends the tasks meanwhile."""
        self._stop_timer()
        self._pause = time.monotonic() - self._answered

    def _rest(self) -> None:
        """The step is done: wait for the next, but not for ever."""
        self._answered = time.monotonic()
        self._wait(patience(self._linger, self._pause, self._longest))

    def _wait(self, seconds: float) -> None:
        self._timer = TimerApart(seconds, self._expire)
        self._timer.daemon = True
        self._timer.start()

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _expire(self) -> None:
        with self._lock:
            if self._timer is threading.current_thread():
                self._overdue()

    def _overdue(self) -> None:
        """No step has come for as long as was waited."""
        self._drop()

    def give_way(self) -> None:
        """End the tasks, unless a step is under way."""
        if self._lock.acquire(blocking=False):
            try:
                self._stop_timer()
                self._drop(wait=True)
            finally:
                self._lock.release()

    def close(self) -> None:
        """They are not needed any more."""
        self.leave()
        atexit.unregister(self.leave)

    def leave(self) -> None:
        """End the tasks now, and wait until their slots are free."""
        with self._lock:
            self._stop_timer()
            self._drop(wait=True)


_all: weakref.WeakSet[Lingering] = weakref.WeakSet()
_registering = threading.Lock()


def others(one: Lingering | None, context: Any) -> list[Lingering]:
    """Those who have tasks in an application, but for one; who has waited longest is first."""
    with _registering:
        known = list(_all)
    found = [each for each in known if each is not one and each._context is context and each.taken]
    return sorted(found, key=lambda each: each._answered)


def make_room(one: Lingering, context: Any, needed: int) -> None:
    """Let others that only wait go, until so many slots are free and another one besides."""
    waiting = others(one, context)
    if waiting:
        there = slots(context)
        while waiting and sum(each.taken for each in waiting) + needed + 1 > there:
            waiting.pop(0).give_way()


def all_leave(context: Any, one: Lingering | None = None) -> None:
    """End the tasks that wait for steps, of all sessions of an application but one: their slots are needed."""
    for each in others(one, context):
        each.give_way()


def patience(linger: float, pause: float, longest: float) -> float:
    """How long to wait for the next step, if the last one came so long after the one before.

    >>> patience(0.2, 0.01, 4.0), patience(0.2, 1.0, 4.0), patience(0.2, 60.0, 4.0), patience(0.2, 1.0, 0.0)
    (0.2, 1.5, 0.2, 0.2)
    """
    expected = LATE * pause
    return max(linger, expected) if expected <= longest else linger
