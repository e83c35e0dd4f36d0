"""Interrupts that wait: Ctrl-C, SIGTERM and alarms are not raised in the middle of a change.

Python runs a signal's handler between any two instructions of the main thread, and what the handler raises comes out
there: after a kernel has freed a block and before Python knows, say. What follows is a double free. So while a call of
a session is under way (`everview.session.changes.turns`) the handlers of `SIGNALS` are replaced by one that takes note,
and what came meanwhile is handed to the real handler, which raises, when the call is done. A long call listens at
places where giving up is safe: the executor comes up for air and `hear`s, and users' functions are called `openly`.

Whether a signal waits is decided by *where* it comes: the handler looks through the stack for the innermost function
that was marked `covered` or `opened`. Nothing is counted, so nothing can be miscounted, and a handler that was left
behind does no harm. Handlers are exchanged for each call, and not once and for all, because others look at them, too:
`asyncio.run` installs its own only where it finds Python's.

Exchanging handlers takes a tenth or more of a short step. What copes with exceptions anywhere (`sound`: the end of a
transaction in memory does, because other threads may raise them) is done without it while there is no handler but
Python's own for Ctrl-C, which does nothing else. A handler of the program's may call the session; it has to wait.

Only the main thread runs handlers; elsewhere all of this does nothing. What one thread raises in another
(`PyThreadState_SetAsyncExc`) cannot wait: see `everview.session.changes.turns`.
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
"""What programs have handlers for that raise."""

NOTICE = 0.1
"""Seconds after which a wait for other threads looks for interrupts."""

NOTHING: Replaced = []

_covered: set[CodeType] = set()
_opened: set[CodeType] = set()
_usual: dict[int, Handler] = {}  # the handlers that were replaced
_missed: list[int] = []
_main = threading.main_thread().ident
_getsignal = _signal.getsignal
_plain: list[Any] = []  # the handlers of `SIGNALS` as `up` found them the last time
_replaced: Replaced = []  # those of them that it replaced
_shielded: list[Any] = []  # and what it left
_mild = False  # whether all that any of them does is raise KeyboardInterrupt


def _forked() -> None:
    global _main
    _main = get_ident()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)


def covered(function: Function) -> Function:
    """Mark a function: signals wait while it, or what it calls, runs between `up` and `down`."""
    _covered.add(function.__code__)
    return function


def opened(function: Function) -> Function:
    """Mark a function that may be left by an exception anywhere: signals do not wait while it runs."""
    _opened.add(function.__code__)
    return function


@opened
def openly(function: Callable[..., Any], *arguments: Any) -> Any:
    """Call what is not ours, a user's function, say: signals do not wait for it."""
    return function(*arguments)


def up(sound: bool = False) -> Replaced:
    """Have signals wait wherever a function is `covered`; gives what `down` needs. `sound`: an exception may come out
    of any of its instructions, so that nothing needs to wait which only raises one.
    """
    if get_ident() != _main:
        return NOTHING
    found = [*map(_getsignal, SIGNALS)]
    if sound and _mild and found == _plain:
        return NOTHING
    if found == _shielded:  # by a call further out
        return NOTHING
    if found != _plain:
        _learn(found)
        if sound and _mild:
            return NOTHING
    for number, _ in _replaced:
        _signal.signal(number, _note)
    return _replaced


def _learn(found: list[Any]) -> None:
    """Remember handlers as they are, which of them are to be replaced, and what they are then."""
    global _plain, _replaced, _shielded, _mild
    _replaced = [(n, h) for n, h in zip(SIGNALS, found, strict=True) if h is not _note and callable(h)]
    _usual.update(_replaced)
    _shielded = [_note if callable(handler) else handler for handler in found]
    _mild = all(handler is _signal.default_int_handler for _, handler in _replaced)
    _plain = found


def down(replaced: Replaced) -> None:
    """The other end: put handlers back, and raise what came meanwhile, unless somebody further out is covered."""
    for number, handler in replaced:
        _signal.signal(number, handler)
    if _missed and get_ident() == _main and not _waits(_caller(2)):
        hear()


def hear() -> None:
    """A place where a call may be given up: hand the signals that waited to their handlers, which may raise."""
    while _missed and get_ident() == _main:
        number = _missed.pop(0)
        handler = _usual.get(number)
        if handler is not None:
            handler(number, _caller(1))


def shielded(function: Function) -> Function:
    """Have signals wait until the function is done.

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
    """Wait for a lock where signals wait, too: they are heard as long as it is not there."""
    if not lock.acquire(False):
        while not lock.acquire(timeout=NOTICE):
            hear()


def behind(handler: Any) -> Any:
    """The handler that the program has set for Ctrl-C, though another takes note in its place."""
    return _usual.get(_signal.SIGINT, handler) if handler is _note else handler


def _note(number: int, frame: FrameType | None) -> None:
    if _waits(frame):
        if number not in _missed:  # several are one, as for Python itself
            _missed.append(number)
    elif number in _usual:
        _usual[number](number, frame)


def _waits(frame: FrameType | None) -> bool:
    """Whether a signal that comes here has to wait. What `openly` calls has begun, or it has not."""
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
