"""Cooperative cancellation of calls, on request or after a timeout.

To stop a call, register a `Stop` with `ask`. Long calls `poll` at points where it is safe to give up, and raise the
`Stop`'s error there. Polling is nearly free while no stop is requested. Kernels cannot poll;
`everview.dataflow.kernel_interrupts` interrupts those.

A user function that sleeps cannot poll either. In a call with limits such functions run in a helper thread (`beside`)
while the call keeps polling. If the call has to stop, it abandons the helper, which ends after its current row.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from threading import get_ident
from typing import Any

from everview.errors import EverviewError

NOTICE = 0.02
"""Seconds between polls while a function runs in a helper thread."""


class Stop:
    """A request that a call stop."""

    def __init__(self, mine: Callable[[], bool], error: Callable[[], EverviewError]) -> None:
        self.mine = mine
        """whether the requesting thread is the one to be stopped"""
        self.error = error


class LeftBehind(BaseException):
    """Ends a helper thread that no call waits for any more."""


_asked: list[Stop] = []
_left: set[int] = set()
helpers: set[int] = set()
"""helper threads that run user functions"""


def ask(stop: Stop) -> None:
    """Request that a call stop."""
    _asked.append(stop)


def withdraw(stop: Stop) -> None:
    """Withdraw a request, whether or not the call has noticed it; idempotent."""
    if stop in _asked:
        _asked.remove(stop)


def poll() -> None:
    """Raise the error of a pending stop request for this thread, if there is one. Call this where giving up is safe.

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
    """Call a function in a helper thread, polling for stop requests meanwhile."""
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
