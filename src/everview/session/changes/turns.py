"""Whose turn it is: how calls from several threads share a session, and how a call that is cut off is cleaned up after.

Everything that touches the dataflow (runs it, changes it, reads it) does so in a *turn*, one at a time. Calls that
begin one are marked here:

    reads     waits until no other thread has a turn
    writes    waits until no other thread has a transaction open, then for the turn

so that other threads read while a transaction is open, and what they change waits for its end. A turn may call what
begins one: it goes on as part of the same turn. There are two locks, `writing` (a transaction's) and `lock` (a
turn's), always taken in this order; both are C objects in `with` statements, because those cannot be left locked by an
exception between two instructions.

In a turn of the main thread signals wait (`everview.dataflow.shield`). What another thread raises in this one cannot
wait; nor can anybody say where it comes. Therefore a turn that ends with an exception that is not one of ours leaves
the session `unsettled`, and the next turn begins by settling it (`Core.settle`): the step under way is complete or
undone, and what no table and no view needs is freed. What is freed is marked as freed before it is, so
that the worst such an exception can do is lose a few bytes. What must be done whole (a commit on several shards, an
entry that is written and then known) is done where nothing is raised (`everview.unbroken`).

Subscribers are told after the turn, outside the locks: they may read and change the session.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import wraps
from threading import get_ident
from typing import TYPE_CHECKING, Any, TypeVar

from everview.dataflow import shield
from everview.dataflow.lending import MustWait, hurried, visitors
from everview.errors import EverviewError
from everview.session.limits import limited
from everview.stopping import helpers

if TYPE_CHECKING:
    from everview.session.core import Core

Function = TypeVar("Function", bound=Callable[..., Any])

NONE: Mapping[str, Any] = {}


def reads(function: Function) -> Function:
    """Do this in a turn. The first argument has the session's core as `_core`."""

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
    """Do this in a turn that waits for the end of other threads' transactions."""

    @wraps(function)
    def call(self: Any, *arguments: Any, **named: Any) -> Any:
        core: Core = self._core
        if core.lock._is_owned():
            core.changing()  # a function that a step calls would wait for ever
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
    """A turn for somebody in a hurry (`everview.dataflow.lending`): now, or not at all. Subscribers are told by those
    whose steps they wait for.
    """
    if not core.lock.acquire(blocking=False):
        raise MustWait
    try:
        return turn(core, function, arguments, named)
    finally:
        core.lock.release()


@shield.covered
def turn(core: Core, function: Callable[..., Any], arguments: tuple[Any, ...], named: Mapping[str, Any] = NONE) -> Any:
    """Call a function in a turn; `lock` is held. Nobody is told what changed."""
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
    """A turn ends with one of our errors. If the call was to stop, that is what is told."""
    core.unsettled = _follows_another(error)
    if core.stop is not None:  # whatever it was that went wrong then
        raise core.stop.error() from error


def _follows_another(error: BaseException) -> bool:
    """Whether an error came of one that is not ours: that may have been raised by another thread, anywhere."""
    while (earlier := error.__context__) is not None:
        if not isinstance(earlier, EverviewError):
            return True
        error = earlier
    return False
