"""Short work, done where it arrives.

Passing a job to the engine's thread and its answer back wakes two threads. For a change of one row that costs several
times the change. So work that is repeated and was short last time is done on the loop's own thread, if nobody else is
using the session at that moment.

What if it turns out to be long this time? It has `AT_MOST` seconds. Then it is stopped, which undoes it, and it is
queued like other work: the loop is held up for a moment, and nobody for longer. It is known as long from then on, until
the engine's thread finds it short again. Therefore such work must be one call of the session, which is done whole or
not at all.

Only sessions in memory do this: a commit to a disk may wait for it.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from everview.session.core import core_of

if TYPE_CHECKING:
    from everview.session.session import Session

SHORT = 0.001
"""Seconds up to which work is short."""

AT_MOST = 0.005
"""Seconds that it may take on the loop."""

MOST_KINDS = 2_000
"""Maximum number of kinds that are known."""


class ShortWork:
    """How long each kind of work took last; a kind is anything that identifies the repeated work.

    >>> known = ShortWork()
    >>> known.took("insert", 0.0002)
    >>> known.is_short("insert"), known.is_short("update")
    (True, False)
    >>> known.took("insert", 0.2)
    >>> known.is_short("insert")
    False
    """

    def __init__(self) -> None:
        self._kinds: dict[Hashable, bool] = {}

    def is_short(self, kind: Hashable) -> bool:
        """Whether it was short last time."""
        return self._kinds.get(kind, False)

    def took(self, kind: Hashable, seconds: float) -> None:
        """Remember how long it took; on any thread."""
        if len(self._kinds) >= MOST_KINDS:
            self._kinds.clear()  # they are learnt again soon
        self._kinds[kind] = seconds <= SHORT


@contextmanager
def nobody_else(session: Session) -> Iterator[bool]:
    """Whether no other thread uses the session; if so, none begins to change it until the block ends."""
    core = core_of(session)
    if not core.runtime.sound or not core.writing.acquire(blocking=False):
        yield False
        return
    try:
        free = core.lock.acquire(blocking=False)
        if free:
            core.lock.release()
        yield free
    finally:
        core.writing.release()
