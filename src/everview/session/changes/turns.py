"""Turns: how calls from several threads share a session, and how interrupted calls are cleaned up.

Everything that runs, changes or reads the dataflow does so in a *turn*, one at a time. Two decorators mark calls that
begin one:

    reads     waits until no other thread has a turn
    writes    waits until no other thread has a transaction open, then for the turn

Other threads can therefore read while a transaction is open, and their changes wait for its end. Turns nest: a call
within a turn joins it. There are two locks, `writing` (for transactions) and `lock` (for turns), always acquired in
this order. Both are C objects used in `with` statements, which an exception between two instructions cannot leave
locked.

In the main thread, signals are deferred during a turn (`everview.dataflow.shield`). Exceptions raised from another
thread cannot be deferred and can arrive anywhere. Therefore a turn that ends with a foreign exception leaves the
session `unsettled`, and the next turn begins by settling it (`Core.settle`): the step in progress is completed or
undone, and unreferenced operators are freed. Memory is marked as freed before it is freed, so such an exception can
leak a few bytes at worst. Sequences that must not be interrupted (a commit on several shards, an entry that is written
and then recorded) run in `everview.uninterruptible`.

Subscribers are called after the turn, outside the locks: they may read and change the session.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import wraps
from threading import get_ident
from typing import TYPE_CHECKING, Any, TypeVar

from everview.cancellation import helpers
from everview.dataflow import shield
from everview.dataflow.read_leases import MustWait, hurried, visitors
from everview.errors import EverviewError
from everview.session.limits import limited

if TYPE_CHECKING:
    from everview.session.core import Core

Function = TypeVar("Function", bound=Callable[..., Any])

NONE: Mapping[str, Any] = {}


def reads(function: Function) -> Function:
    """Run the method in a turn. Its first argument has the session's core as `_core`."""

    @wraps(function)
    def call(self: Any, *arguments: Any, **named: Any) -> Any:
        core: Core = self._core
        if core.lock._is_owned():
            return function(self, *arguments, **named)
        if helpers or visitors:
            core.refuse_waiting()
        if hurried and get_ident() in hurried:
            return _in_passing(core, function, (self, *arguments), named)
        try:
            with core.lock:
                return turn(core, function, (self, *arguments), named)
        finally:
            if core.subscriptions.pending:
                core.subscriptions.deliver()

    return call  # type: ignore[return-value]


def writes(function: Function) -> Function:
    """Run the method in a turn that waits for the end of other threads' transactions."""

    @wraps(function)
    def call(self: Any, *arguments: Any, **named: Any) -> Any:
        core: Core = self._core
        if core.lock._is_owned():
            core.changing()  # a function called by a step would wait forever
            with core.writing:
                return function(self, *arguments, **named)
        if helpers or visitors:
            core.refuse_waiting()
        if hurried and get_ident() in hurried:
            raise MustWait
        try:
            with core.writing, core.lock:
                return turn(core, function, (self, *arguments), named)
        finally:
            if core.subscriptions.pending:
                core.subscriptions.deliver()

    return call  # type: ignore[return-value]


def _in_passing(core: Core, function: Callable[..., Any], arguments: tuple[Any, ...], named: Mapping[str, Any]) -> Any:
    """Take a turn without waiting, or not at all (`everview.dataflow.read_leases`). Subscribers are called by the
    threads whose steps they wait for.
    """
    if not core.lock.acquire(blocking=False):
        raise MustWait
    try:
        return turn(core, function, arguments, named)
    finally:
        core.lock.release()


@shield.covered
def turn(core: Core, function: Callable[..., Any], arguments: tuple[Any, ...], named: Mapping[str, Any] = NONE) -> Any:
    """Call a function in a turn, with `lock` held. Does not call subscribers."""
    replaced = shield.up()
    try:
        if core.unsettled or core.released or core.stop is not None:
            core.prepare()
        core.unsettled = True
        try:
            if core.limits and (limits := core.limits.get(get_ident())) is not None:
                answer = limited(core, limits, function, arguments, named)
            else:
                answer = function(*arguments, **named) if named else function(*arguments)
        except EverviewError as error:
            failed(core, error)
            raise
        core.unsettled = False
        return answer
    finally:
        shield.down(replaced)


def failed(core: Core, error: EverviewError) -> None:
    """Handle one of our errors at the end of a turn. If the call was asked to stop, the stop's error takes
    precedence."""
    core.unsettled = _follows_another(error)
    if core.stop is not None:  # regardless of the original error
        raise core.stop.error() from error


def _follows_another(error: BaseException) -> bool:
    """Whether an error was caused by a foreign exception, which another thread may have raised anywhere."""
    while (earlier := error.__context__) is not None:
        if not isinstance(earlier, EverviewError):
            return True
        error = earlier
    return False
