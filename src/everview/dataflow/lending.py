"""Reading beside a running step: the step lends what is committed, and takes it back before it commits.

While a step computes it only appends: the committed batches of all traces stay as they are, and show the last complete
time. So a step that may have company (`Dataflow.lender`) is run in two calls. During the first, which is the long one,
*guests* may read committed batches; before the second, the commit, nobody new is let in, and those inside are waited
for. They should only copy what they need.

A guest is a lock that is held while it reads: whatever ends a `with` statement lets it go, so no exception, wherever it
comes, can leave a guest inside for ever. The door may be left open by one; undoing the step closes it
(`Dataflow.abort`).

A session that is used by one thread never lends, and pays nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Lock, get_ident
from typing import TypeVar

from everview.kernels.once.lending import make_room

Answer = TypeVar("Answer")

visitors: set[int] = set()
"""threads that are guests: one that waited for a turn would wait for the step, which waits for its guests"""

hurried: set[int] = set()
"""threads that do not wait for a turn while somebody else has one: they have something better to do"""


class MustWait(Exception):
    """A guest needs a turn after all, or somebody in a hurry."""


def is_guest() -> bool:
    """Whether this thread reads beside a step."""
    return get_ident() in visitors


@contextmanager
def in_a_hurry() -> Iterator[None]:
    """Let this thread's calls raise `MustWait` wherever they would wait for others' calls. What they only read is there
    without waiting, in most cases: beside the step under way, or because there is none.
    """
    me = get_ident()
    hurried.add(me)
    try:
        yield
    finally:
        hurried.discard(me)


class Lender:
    """Lets guests in while a step computes."""

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
        """Let nobody in any more, and wait for those inside. Twice does no harm: it may be cut off, and those that were
        not waited for are still known then.
        """
        with self._door:
            self._open = False
        for guest in self._guests:
            with guest:
                pass
        self._guests = []

    def prepared(self, session: int) -> Lender:
        """With lists of batches that do not move while a step computes."""
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
            try:  # no call before the one that strikes it off: there an exception could come that leaves it a visitor
                visitors.add(me)
                return read()
            except MustWait:
                return None
            finally:
                visitors.discard(me)
