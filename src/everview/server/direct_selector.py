"""A selector that answers requests itself: the loop hears only of what needs it.

asyncio creates a callback for every readable socket: a handle is scheduled, a context is entered, a transport asks its
protocol for room, and the loop starts over. For a request that is answered where its bytes arrive
(`everview.server.pg.pipelined_lookups`), that costs as much as everything else. A loop made by `new_loop` has a
selector to which protocols can give a function for their socket (`answer_by`). It is called as soon as there are bytes,
and reads and answers them. Then the selector polls again, because by then the next clients have sent requests.

The function returns `PASSED_ON` if it has read nothing: the loop then goes its usual way with that socket. It returns
`SCHEDULED` if it has scheduled callbacks, which the loop has to run. Transports know nothing of this: accepting, TLS,
pausing, writing and closing are as always, and on another loop everything works without it.

Nothing is starved: other sockets and timers that are due end the polling, and so do `ROUNDS`.
"""

from __future__ import annotations

import asyncio
import selectors
import time
from collections.abc import Callable
from weakref import WeakKeyDictionary

PASSED_ON, ANSWERED, SCHEDULED = 0, 1, 2

ROUNDS = 8
"""Number of polls before the loop has its turn."""

Answering = Callable[[], int]


class DirectSelector(selectors.DefaultSelector):
    """A selector, and functions for some of its sockets."""

    def __init__(self) -> None:
        super().__init__()
        self._answering: dict[int, Answering] = {}

    def answer_by(self, number: int, function: Answering) -> None:
        """Call a function when there are bytes to read from a file number. It must not raise."""
        self._answering[number] = function

    def forget(self, number: int) -> None:
        """Leave a file number to the loop."""
        self._answering.pop(number, None)

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """What the loop has to do."""
        if not self._answering:
            return super().select(timeout)
        end = None if timeout is None or timeout <= 0 else time.monotonic() + timeout
        for _ in range(ROUNDS):
            found = super().select(timeout)
            left, scheduled = self._answered(found)
            if left or scheduled or not found or (timeout is not None and timeout <= 0):
                return left
            if end is not None:
                timeout = max(end - time.monotonic(), 0)
        return []

    def _answered(
        self, found: list[tuple[selectors.SelectorKey, int]]
    ) -> tuple[list[tuple[selectors.SelectorKey, int]], bool]:
        """Answer what can be answered: what is left, and whether callbacks were scheduled."""
        left, scheduled = [], False
        for key, events in found:
            function = self._answering.get(key.fd) if events & selectors.EVENT_READ else None
            outcome = PASSED_ON if function is None else function()
            if outcome == PASSED_ON:
                left.append((key, events))
                continue
            scheduled = scheduled or outcome == SCHEDULED
            if events & selectors.EVENT_WRITE:
                left.append((key, selectors.EVENT_WRITE))
        return left, scheduled


_MADE: WeakKeyDictionary[asyncio.AbstractEventLoop, DirectSelector] = WeakKeyDictionary()


def new_loop() -> asyncio.AbstractEventLoop:
    """A loop with such a selector.

    >>> loop = new_loop()
    >>> loop.run_until_complete(asyncio.sleep(0, "done"))
    'done'
    >>> loop.close()
    """
    selector = DirectSelector()
    loop = asyncio.SelectorEventLoop(selector)
    _MADE[loop] = selector
    return loop


def selector_of(loop: asyncio.AbstractEventLoop) -> DirectSelector | None:
    """The selector of a loop, if it is such a loop."""
    return _MADE.get(loop)
