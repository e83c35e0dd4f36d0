"""A job: a piece of work for a session, and its waiter."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from everview.session.rights.principal import Principal
    from everview.session.session import Session


@dataclass(eq=False)
class Job:
    """A job, and who waits for it."""

    work: Callable[[Session], Any]
    seconds: float | None
    memory: int | None
    key: object
    answer: asyncio.Future[Any]
    who: Principal | None = None
    """the principal; None for the server itself"""
    to_stop: bool = False
    kind: Hashable = None
    """identifies repeated work (`everview.server.short_work`)"""

    @property
    def whose(self) -> str:
        """The queue it belongs to."""
        return "" if self.who is None else self.who.role

    def done(self, answer: Any, error: BaseException | None) -> None:
        """Notify the waiter; on the loop."""
        if self.answer.done():
            return
        if error is None:
            self.answer.set_result(answer)
        elif isinstance(error, StopIteration):  # a future cannot hold one
            self.answer.set_exception(RuntimeError(repr(error)))
        else:
            self.answer.set_exception(error)
