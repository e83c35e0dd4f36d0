"""Calls that are asked to stop: somebody cancels them, or their time is over.

Whoever wants a call to stop adds a `Stop` to those that are asked for (`ask`). Long calls look from time to time
(`poll`), where giving up is safe, and raise its error. Looking costs next to nothing while nobody is asked. Kernels
cannot look; `everview.dataflow.pressing` reaches those.

A user's function that sleeps cannot look either. Where a call has limits, such functions run in a thread beside it
(`beside`): the call looks meanwhile, and leaves the function behind if it has to stop. What was left behind ends with
the row that it is at.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from threading import get_ident
from typing import Any

from everview.errors import EverviewError

NOTICE = 0.02
"""Seconds between looks while a function runs beside a call."""


class Stop:
    """A call that is to stop."""

    def __init__(self, mine: Callable[[], bool], error: Callable[[], EverviewError]) -> None:
        self.mine = mine
        """whether the thread that asks is the one that is to stop"""
        self.error = error


class LeftBehind(BaseException):
    """Ends a thread that nobody waits for any more."""


_asked: list[Stop] = []
_left: set[int] = set()
helpers: set[int] = set()
"""threads in which users' functions run beside calls"""


def ask(stop: Stop) -> None:
    """Have a call stop."""
    _asked.append(stop)


def withdraw(stop: Stop) -> None:
    """It has stopped, or has ended before it heard; twice does no harm."""
    if stop in _asked:
        _asked.remove(stop)


def poll() -> None:
    """A place where this thread's call may be given up: raise the error if it is to stop.

    >>> poll()
    >>> stop = Stop(lambda: True, lambda: EverviewError("E_CANCELLED", "somebody cancelled it"))
    >>> ask(stop)
    >>> try:
    ...     poll()
    ... except EverviewError as error:
    ...     print(error.code)
    E_CANCELLED
    >>> withdraw(stop)
    """
    if _asked or _left:
        _look()


def _look() -> None:
    if get_ident() in _left:
        raise LeftBehind
    for stop in list(_asked):
        if stop.mine():
            raise stop.error()


def beside(function: Callable[..., Any], *arguments: Any) -> Any:
    """Call a function in a thread of its own, and look meanwhile whether to stop."""
    answer: list[Any] = []
    error: list[BaseException] = []
    done = threading.Event()

    def run() -> None:
        helpers.add(get_ident())
        try:
            answer.append(function(*arguments))
        except BaseException as raised:
            error.append(raised)
        finally:
            helpers.discard(get_ident())
            _left.discard(get_ident())
            done.set()

    thread = threading.Thread(target=run, daemon=True, name="everview function")
    thread.start()
    try:
        while not done.wait(NOTICE):
            poll()
    except BaseException:
        if thread.ident is not None:
            _left.add(thread.ident)
            if done.is_set():
                _left.discard(thread.ident)
        raise
    if error:
        raise error[0]
    return answer[0]
