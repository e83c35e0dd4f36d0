"""Ctrl-C on the driver: heard while a step's tasks run, put off while what they did is committed.

An interrupt may come between any two instructions of the main thread. While the driver waits for tasks that is what one
wants: the step is given up and its tasks are cancelled. Between making a version and taking note of it, it would leave
a session that does not know what is in its own directory. So a step runs with interrupts `put_off`, except for the wait
for its tasks, where they are `heard`; what was put off is raised when the step is complete.

Nor may an interrupt come in the middle of a call to the JVM: Py4J then loses connections. So jobs run in a thread of
their own (`Running`), and the main thread only waits for it. And while Spark starts they are put off altogether
(`until_started`).

Only the main thread gets interrupts, so elsewhere they need not be put off.
"""

from __future__ import annotations

import secrets
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

from everview.dataflow import shield
from everview.spark.driver.alive import unless_lost
from everview.stopping import poll
from everview.unbroken import StartedApart

NOTICE = 0.2
"""Seconds after which a wait looks for interrupts by itself: those that are no signals (`_thread.interrupt_main`, as
notebooks use it) wake nobody.
"""

_usual: list[Any] = []  # the handler to hear interrupts with, while they are put off
_missed: list[tuple[Any, ...]] = []


@contextmanager
def put_off() -> Iterator[None]:
    """Interrupts are raised at the end, but where they are `heard`.

    >>> said = []
    >>> try:
    ...     with put_off():
    ...         signal.raise_signal(signal.SIGINT)
    ...         said.append("undisturbed")
    ... except KeyboardInterrupt:
    ...     said.append("interrupted")
    >>> said
    ['undisturbed', 'interrupted']
    """
    before = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or _usual or not callable(before):
        yield
        return
    _usual.append(shield.behind(before))
    signal.signal(signal.SIGINT, _note)
    try:
        yield
    finally:
        _usual.clear()
        signal.signal(signal.SIGINT, before)
        _catch_up(before)


@contextmanager
def until_started() -> Iterator[None]:
    """Interrupts are raised when Spark has started: one that comes while PySpark waits for its JVM would leave a JVM
    behind that nobody can end but by its number. PySpark then hears interrupts itself, with a handler of its own.
    """
    before = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(before):
        yield
        return
    missed: list[Any] = []

    def note(*what: Any) -> None:
        missed.append(what)

    signal.signal(signal.SIGINT, note)
    try:
        yield
    finally:
        if signal.getsignal(signal.SIGINT) is note:
            signal.signal(signal.SIGINT, before)
    if missed:
        raise KeyboardInterrupt


@contextmanager
def heard() -> Iterator[None]:
    """Interrupts are raised at once, also where they are put off."""
    if threading.current_thread() is not threading.main_thread() or not _usual:
        yield
        return
    usual = _usual[0]
    try:
        signal.signal(signal.SIGINT, usual)
        shield.hear()
        _catch_up(usual)
        yield
    finally:
        signal.signal(signal.SIGINT, _note)


def settle() -> None:
    """A call was cut off where interrupts were put off: have them raised again, as before it."""
    if _usual and threading.current_thread() is threading.main_thread():
        usual = _usual[0]
        _usual.clear()
        if signal.getsignal(signal.SIGINT) is _note:
            signal.signal(signal.SIGINT, usual)


def _note(*what: Any) -> None:
    _missed.append(what)


def _catch_up(handler: Any) -> None:
    if _missed:
        what = _missed[-1]
        _missed.clear()
        handler(*what)


@cache
def _job_thread(inheritable: type[Any]) -> type[Any]:
    """A thread that has what the JVM knows of this one, and begins whatever is raised here."""
    return type("JobThread", (inheritable, StartedApart), {})


class Running:
    """A Spark job on its way, which can be cancelled."""

    def __init__(self, context: Any, collect: Callable[[], list[bytes]]) -> None:
        from pyspark import InheritableThread, SparkContext  # its jobs are this thread's: the same pool, the same group

        self._context = context
        self._tag = f"everview-{secrets.token_hex(8)}"
        self._collect = collect
        self._result: list[bytes] = []
        self._error: Exception | None = None
        self._over = threading.Event()  # a thread whose `join` is interrupted says that it has ended, also if not
        if isinstance(context, SparkContext):
            _job_thread(InheritableThread)(target=self._watch, daemon=True, name="everview job").start()
        elif getattr(context, "beside", False):  # a stand-in for Spark, which runs tasks beside the driver
            StartedApart(target=self._watch, daemon=True, name="everview job").start()
        else:  # one that runs them in this thread
            with heard():
                self._result = collect()
            self._over.set()

    def _watch(self) -> None:
        try:
            self._context.addJobTag(self._tag)
            self._result = self._collect()
        except Exception as error:
            self._error = error
        finally:
            self._over.set()

    @property
    def over(self) -> bool:
        """Whether it has ended."""
        return self._over.is_set()

    def wait(self, seconds: float) -> None:
        """Wait until it has ended, but no longer than so many seconds."""
        self._over.wait(seconds)

    def result(self) -> list[bytes]:
        """What its tasks say; waits for them. Raises what Spark says of a job that failed."""
        with heard():
            while not self.over:
                self.wait(NOTICE)
                poll()
        if self._error is not None:
            raise self._error
        return self._result

    def cancel(self) -> None:
        """Let Spark end its tasks. Workers that are busy are ended after `spark.python.task.killTimeout`."""
        if not self.over:
            with unless_lost(self._context):
                self._context.cancelJobsWithTag(self._tag)
            StartedApart(target=self._insist, daemon=True, name="everview cancels").start()

    def _insist(self) -> None:
        """Cancel again until it has ended: Spark may not have heard of the job yet."""
        with unless_lost(self._context):
            while not self.over:
                self._context.cancelJobsWithTag(self._tag)
                self.wait(0.5)
