"""Reads during a running step: the step lends its committed state and takes it back before it commits.

While a step computes, it only appends: the committed batches of all traces stay as they are and show the last complete
time. A step that may have readers (`Dataflow.lender`) therefore runs in two calls. During the first, long one, *guests*
may read committed batches. Before the second, the commit, no new guests are admitted, and the step waits for the
present ones. Guests should only copy what they need.

A guest holds a lock while it reads. Leaving the `with` statement releases it, so no exception can leave a guest inside
forever. An exception may leave the door open; undoing the step closes it (`Dataflow.abort`).

A session used by a single thread never lends, at no cost.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Lock, get_ident
from typing import TypeVar

from everview.kernels.once.reservation import make_room

Answer = TypeVar("Answer")

visitors: set[int] = set()
"""threads that are guests: one that waited for a turn would wait for the step, which waits for its guests"""

hurried: set[int] = set()
"""threads that do not wait for a turn held by another thread"""


class MustWait(Exception):
    """Raised when a guest, or a thread in a hurry, would have to wait for a turn."""


def is_guest() -> bool:
    """Whether this thread reads beside a step."""
    return get_ident() in visitors


@contextmanager
def in_a_hurry() -> Iterator[None]:
    """Make this thread's calls raise `MustWait` wherever they would wait for other calls. Plain reads mostly succeed
    without waiting: beside the current step, or because there is none.
    """
    me = get_ident()
    hurried.add(me)
    try:
        yield
    finally:
        hurried.discard(me)


class Lender:
    """Admits guests while a step computes."""

    def __init__(self) -> None:
        self._door = Lock()
        self._guests: list[Lock] = []
        self._open = False

    def __enter__(self) -> None:
        with self._door:
            self._open = True

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        """Stop admitting guests, and wait for those inside. Idempotent: if it is interrupted, the remaining guests are
        still known.
        """
        with self._door:
            self._open = False
        for guest in self._guests:
            with guest:
                pass
        self._guests = []

    def prepared(self, session: int) -> Lender:
        """Prepare the lists of batches, so that they do not move during a step."""
        make_room(session)
        return self

    def visit(self, read: Callable[[], Answer]) -> Answer | None:
        """What a guest reads; None if nothing is lent now, or reading needs a turn.

        >>> lender = Lender()
        >>> lender.visit(lambda: "seen") is None
        True
        >>> with lender:
        ...     lender.visit(lambda: "seen")
        'seen'
        """
        me = get_ident()
        if me in visitors:
            return read()  # it is a guest already
        mine = Lock()
        with mine:
            with self._door:
                if not self._open:
                    return None
                self._guests.append(mine)
            try:  # no call before the one that removes it: an exception there would leave it registered
                visitors.add(me)
                return read()
            except MustWait:
                return None
            finally:
                visitors.discard(me)
