"""Defers signals: Ctrl-C, SIGTERM and alarms are not raised in the middle of a change.

Python runs signal handlers between any two instructions of the main thread, and an exception from a handler is raised
there: for example after a kernel has freed a block and before Python has recorded it, which would lead to a double
free. During a session call (`everview.session.changes.turns`) the handlers of `SIGNALS` are therefore replaced by one
that records the signal; when the call is done, recorded signals are passed to the real handlers, which may raise. Long
calls do so earlier, at safe points: the executor returns periodically and calls `hear`, and user functions are called
`openly`.

Whether a signal is deferred depends on *where* it arrives: the handler searches the stack for the innermost function
marked `covered` or `opened`. Nothing is counted, so nothing can be miscounted, and a handler left behind is harmless.
Handlers are swapped for each call rather than permanently, because other code inspects them: `asyncio.run` installs its
own only if it finds Python's.

Swapping handlers takes a tenth or more of a short step. Code that tolerates exceptions anywhere (`sound`: an in-memory
commit does, because other threads may raise them) skips it while the only handler is Python's own for Ctrl-C, which
just raises. A handler of the program may call the session, so it has to wait.

Only the main thread runs handlers; elsewhere all of this does nothing. Exceptions raised from another thread
(`PyThreadState_SetAsyncExc`) cannot be deferred: see `everview.session.changes.turns`.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # `signal` wraps numbers into enumerations, ten times as slow
import os
import sys
import threading
from collections.abc import Callable
from functools import wraps
from threading import get_ident
from types import CodeType, FrameType
from typing import Any, TypeVar

Function = TypeVar("Function", bound=Callable[..., Any])
Handler = Callable[[int, FrameType | None], Any]
Replaced = list[tuple[int, Handler]]

SIGNALS = tuple(
    getattr(_signal, name) for name in ("SIGINT", "SIGTERM", "SIGALRM", "SIGHUP", "SIGUSR1") if hasattr(_signal, name)
)
"""Signals whose handlers commonly raise."""

NOTICE = 0.1
"""Seconds between checks for interrupts while waiting for other threads."""

NOTHING: Replaced = []

missed: list[int] = []
"""Signals that were deferred and not yet passed on; if there are none and nothing was replaced, `down` does nothing."""

_covered: set[CodeType] = set()
_opened: set[CodeType] = set()
_usual: dict[int, Handler] = {}  # the replaced handlers
_main = threading.main_thread().ident
_getsignal = _signal.getsignal
_plain: list[Any] = []  # the handlers of `SIGNALS` as last found by `up`
_replaced: Replaced = []  # those that it replaced
_shielded: list[Any] = []  # and the resulting handlers
_mild = False  # whether they do nothing but raise KeyboardInterrupt


def _forked() -> None:
    global _main
    _main = get_ident()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)


def covered(function: Function) -> Function:
    """Mark a function: signals are deferred while it, or anything it calls, runs between `up` and `down`."""
    _covered.add(function.__code__)
    return function


def opened(function: Function) -> Function:
    """Mark a function that tolerates exceptions anywhere: signals are not deferred while it runs."""
    _opened.add(function.__code__)
    return function


@opened
def openly(function: Callable[..., Any], *arguments: Any) -> Any:
    """Call foreign code, such as a user function, without deferring signals."""
    return function(*arguments)


def up(sound: bool = False) -> Replaced:
    """Start deferring signals in `covered` functions; returns the argument for `down`. `sound`: any instruction may
    raise, so handlers that only raise need not wait.
    """
    if get_ident() != _main:
        return NOTHING
    found = [*map(_getsignal, SIGNALS)]
    if found != _plain:
        if found == _shielded:  # by an enclosing call
            return NOTHING
        _learn(found)
    if sound and _mild:
        return NOTHING
    for number, _ in _replaced:
        _signal.signal(number, _note)
    return _replaced


def _learn(found: list[Any]) -> None:
    """Cache the current handlers, which of them to replace, and the result."""
    global _plain, _replaced, _shielded, _mild
    _replaced = [(n, h) for n, h in zip(SIGNALS, found, strict=True) if h is not _note and callable(h)]
    _usual.update(_replaced)
    _shielded = [_note if callable(handler) else handler for handler in found]
    _mild = all(handler is _signal.default_int_handler for _, handler in _replaced)
    _plain = found


def down(replaced: Replaced) -> None:
    """Restore the handlers and raise what arrived meanwhile, unless an enclosing call is covered."""
    for number, handler in replaced:
        _signal.signal(number, handler)
    if missed and get_ident() == _main and not _waits(_caller(2)):
        hear()


def hear() -> None:
    """A safe point: pass deferred signals to their handlers, which may raise."""
    while missed and get_ident() == _main:
        number = missed.pop(0)
        handler = _usual.get(number)
        if handler is not None:
            handler(number, _caller(1))


def shielded(function: Function) -> Function:
    """Defer signals until the function is done.

    >>> import signal
    >>> said = []
    >>> @shielded
    ... def work():
    ...     signal.raise_signal(signal.SIGINT)
    ...     said.append("undisturbed")
    >>> try:
    ...     work()
    ... except KeyboardInterrupt:
    ...     said.append("interrupted")
    >>> said
    ['undisturbed', 'interrupted']
    """

    @wraps(function)
    @covered
    def call(*arguments: Any, **named: Any) -> Any:
        replaced = up()
        try:
            return function(*arguments, **named)
        finally:
            down(replaced)

    return call  # type: ignore[return-value]


def acquire(lock: Any) -> None:
    """Wait for a lock while signals are deferred, passing them on until it is acquired."""
    if not lock.acquire(False):
        while not lock.acquire(timeout=NOTICE):
            hear()


def behind(handler: Any) -> Any:
    """The program's own handler for Ctrl-C, even while it is replaced."""
    return _usual.get(_signal.SIGINT, handler) if handler is _note else handler


def _note(number: int, frame: FrameType | None) -> None:
    if _waits(frame):
        if number not in missed:  # several count as one, as in Python itself
            missed.append(number)
    elif number in _usual:
        _usual[number](number, frame)


def _waits(frame: FrameType | None) -> bool:
    """Whether a signal that arrives here is deferred. What `openly` calls has begun, or it has not."""
    begun = False
    while frame is not None:
        if frame.f_code in _covered:
            return True
        if begun and frame.f_code in _opened:
            return False
        begun, frame = True, frame.f_back
    return False


def _caller(levels: int) -> FrameType | None:
    frame: FrameType | None = sys._getframe(1)
    for _ in range(levels):
        frame = frame.f_back if frame is not None else None
    return frame
