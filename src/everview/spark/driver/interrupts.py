"""Ctrl-C on the driver: delivered while the tasks of a step run, deferred while their results are committed.

An interrupt may arrive between any two instructions of the main thread. While the driver waits for tasks this is
harmless: the step is abandoned and its tasks are cancelled. Between committing a version and recording it in memory, an
interrupt would leave a session that disagrees with its own directory. So a step runs with interrupts deferred
(`put_off`), except during the wait for its tasks (`heard`); a deferred interrupt is raised once the step is complete.

An interrupt must not hit a call to the JVM either, because Py4J then loses connections. Jobs therefore run in their own
thread (`Running`), and the main thread only waits for it. While Spark starts, interrupts are deferred altogether
(`until_started`).

Only the main thread receives interrupts, so other threads need not defer them.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # `signal` wraps numbers into enumerations, ten times as slow
import secrets
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

from everview.cancellation import poll
from everview.dataflow import shield
from everview.spark.driver.liveness import unless_lost
from everview.uninterruptible import StartedApart

NOTICE = 0.2
"""Polling interval of a wait, in seconds: interrupts that are not signals (`_thread.interrupt_main`, as notebooks use
it) do not wake a waiting thread.
"""

_usual: list[Any] = []  # the handler to hear interrupts with, while they are put off
_missed: list[tuple[Any, ...]] = []


@contextmanager
def put_off() -> Iterator[None]:
    """Defer interrupts to the end of the block, except inside `heard`.

    >>> import signal
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
    before = _signal.getsignal(_signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or _usual or not callable(before):
        yield
        return
    _usual.append(shield.behind(before))
    _signal.signal(_signal.SIGINT, _note)
    try:
        yield
    finally:
        _usual.clear()
        _signal.signal(_signal.SIGINT, before)
        _catch_up(before)


@contextmanager
def until_started() -> Iterator[None]:
    """Defer interrupts until Spark has started. One that arrives while PySpark waits for its JVM would leave an
    orphaned JVM behind. Afterwards PySpark handles interrupts itself, with its own handler.
    """
    before = _signal.getsignal(_signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(before):
        yield
        return
    missed: list[Any] = []

    def note(*what: Any) -> None:
        missed.append(what)

    _signal.signal(_signal.SIGINT, note)
    try:
        yield
    finally:
        if _signal.getsignal(_signal.SIGINT) is note:
            _signal.signal(_signal.SIGINT, before)
    if missed:
        raise KeyboardInterrupt


@contextmanager
def heard() -> Iterator[None]:
    """Deliver interrupts immediately, even inside `put_off`."""
    if threading.current_thread() is not threading.main_thread() or not _usual:
        yield
        return
    usual = _usual[0]
    try:
        _signal.signal(_signal.SIGINT, usual)
        shield.hear()
        _catch_up(usual)
        yield
    finally:
        _signal.signal(_signal.SIGINT, _note)


def settle() -> None:
    """Restore immediate delivery after a call was cut off inside `put_off`."""
    if _usual and threading.current_thread() is threading.main_thread():
        usual = _usual[0]
        _usual.clear()
        if _signal.getsignal(_signal.SIGINT) is _note:
            _signal.signal(_signal.SIGINT, usual)


def _note(*what: Any) -> None:
    _missed.append(what)


def _catch_up(handler: Any) -> None:
    if _missed:
        what = _missed[-1]
        _missed.clear()
        handler(*what)


@cache
def _job_thread(inheritable: type[Any]) -> type[Any]:
    """A thread that inherits this thread's JVM-side state, and starts even if an exception is raised here."""
    return type("JobThread", (inheritable, StartedApart), {})


class Running:
    """A running Spark job that can be cancelled."""

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
        """Whether the job has ended."""
        return self._over.is_set()

    def wait(self, seconds: float) -> None:
        """Wait until the job has ended, at most this many seconds."""
        self._over.wait(seconds)

    def result(self) -> list[bytes]:
        """The results of its tasks; waits for them. Raises the error of a failed job."""
        with heard():
            while not self.over:
                self.wait(NOTICE)
                poll()
        if self._error is not None:
            raise self._error
        return self._result

    def cancel(self) -> None:
        """Cancel the job. Spark kills busy workers after `spark.python.task.killTimeout`."""
        if not self.over:
            with unless_lost(self._context):
                self._context.cancelJobsWithTag(self._tag)
            StartedApart(target=self._insist, daemon=True, name="everview cancels").start()

    def _insist(self) -> None:
        """Cancel repeatedly until the job has ended: Spark may not have registered it yet."""
        with unless_lost(self._context):
            while not self.over:
                self._context.cancelJobsWithTag(self._tag)
                self.wait(0.5)
