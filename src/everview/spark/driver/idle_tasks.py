"""Tasks that stay alive after a step, and end when idle or when others need their slots.

Long-lived tasks (one in `long_lived_task`, several in `gang`) wait `linger` seconds for the next step. If steps arrive
at longer regular intervals, as those of a stream do, they wait for the next one, up to `longest` seconds.

Several sessions may share an application, each with such tasks. Before one session starts its own, idle tasks of the
others end (`make_room`, `all_leave`).
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
from everview.uninterruptible import StartedApart

LINGER = 0.2
"""Minimum idle timeout of tasks, in seconds."""

LONGEST = 4.0
"""Maximum idle timeout of tasks, in seconds, if steps arrive at such intervals."""

NOTICE = 0.05
"""Minimum interval, in seconds, at which the idle timeout is looked at during a step."""

LATE = 1.5
"""Factor by which an interval may exceed the previous one without a timeout."""


class Lingering(ABC):
    """Long-lived tasks, seen from the driver. Whoever runs a step holds `_lock`.

    While there are tasks, a thread watches the idle timeout. A step only moves the deadline: starting a timer for each
    took a tenth of a small step.
    """

    def __init__(self, context: Any, linger: float, longest: float) -> None:
        self._context = context
        self._linger = linger
        self._longest = longest
        self._lock = threading.Lock()
        self._deadline = math.inf  # until when the tasks may be idle; infinite during a step
        self._watcher: threading.Thread | None = None
        self._looks = math.inf  # when the watcher looks at the deadline again
        self._sooner = threading.Event()  # has it look at once
        self._answered = -math.inf  # when the last step was done
        self._pause = math.inf  # how long it took from there to the next
        with _registering:
            _all.add(self)
        atexit.register(self.leave)  # tasks that wait while Spark is stopped make Spark complain

    @property
    @abstractmethod
    def taken(self) -> int:
        """The number of slots in use."""

    @abstractmethod
    def _drop(self, *, wait: bool = False, cancel: bool = False) -> None:
        """End the tasks, forcibly if they are to be cancelled, and optionally wait until their slots are free."""

    def _begin(self) -> None:
        """Mark the beginning of a step, during which the tasks may not be ended."""
        self._deadline = math.inf
        self._pause = time.monotonic() - self._answered

    def _rest(self) -> None:
        """Mark the end of a step and start the idle timeout."""
        self._answered = time.monotonic()
        self._wait(patience(self._linger, self._pause, self._longest))

    def _wait(self, seconds: float) -> None:
        self._deadline = time.monotonic() + seconds
        if self._watcher is None:
            watcher = StartedApart(target=self._watch, daemon=True, name="everview idle")
            watcher.start()
            self._watcher = watcher
        elif self._deadline < self._looks:
            self._sooner.set()

    def _watch(self) -> None:
        """End the tasks once they have been idle for long enough."""
        try:
            while not self._over():
                now = time.monotonic()
                looks = self._looks = min(self._deadline, now + max(self._linger, NOTICE))
                if self._deadline >= looks:  # otherwise it was moved before it could be told when this thread looks
                    self._sooner.wait(looks - now)
                    self._sooner.clear()
        finally:
            self._watcher = None

    def _over(self) -> bool:
        """Whether there are no tasks any more; ends those whose idle timeout has expired."""
        if self.taken and self._deadline > time.monotonic():
            return False
        with self._lock:
            if self._deadline <= time.monotonic():
                self._overdue()
            if not self.taken:
                self._watcher = None
            return not self.taken

    def _overdue(self) -> None:
        """The idle timeout has expired."""
        self._drop()

    def give_way(self) -> None:
        """End the tasks unless a step is running."""
        if self._lock.acquire(blocking=False):
            try:
                self._end()
            finally:
                self._lock.release()

    def close(self) -> None:
        """End the tasks for good."""
        self.leave()
        atexit.unregister(self.leave)

    def leave(self) -> None:
        """End the tasks now and wait until their slots are free."""
        with self._lock:
            self._end()

    def _end(self) -> None:
        self._deadline = math.inf
        self._drop(wait=True)
        self._sooner.set()


_all: weakref.WeakSet[Lingering] = weakref.WeakSet()
_registering = threading.Lock()


def others(one: Lingering | None, context: Any) -> list[Lingering]:
    """The other owners of tasks in an application, longest idle first."""
    with _registering:
        known = list(_all)
    found = [each for each in known if each is not one and each._context is context and each.taken]
    return sorted(found, key=lambda each: each._answered)


def make_room(one: Lingering, context: Any, needed: int) -> None:
    """End idle tasks of others until this many slots, plus one, are free."""
    waiting = others(one, context)
    if waiting:
        there = slots(context)
        while waiting and sum(each.taken for each in waiting) + needed + 1 > there:
            waiting.pop(0).give_way()


def all_leave(context: Any, one: Lingering | None = None) -> None:
    """End the idle tasks of all other sessions in an application, because their slots are needed."""
    for each in others(one, context):
        each.give_way()


def patience(linger: float, pause: float, longest: float) -> float:
    """How long to wait for the next step, given the interval between the last two.

    >>> patience(0.2, 0.01, 4.0), patience(0.2, 1.0, 4.0), patience(0.2, 60.0, 4.0), patience(0.2, 1.0, 0.0)
    (0.2, 1.5, 0.2, 0.2)
    """
    expected = LATE * pause
    return max(linger, expected) if expected <= longest else linger
