"""A turnstile for thousands of tasks that wake at the same moment: a few pass in each iteration of the loop."""

from __future__ import annotations

import asyncio
from collections import deque

TOLD_AT_ONCE = 32
"""Subscribers served per iteration of the loop."""


class Turnstile:
    """Lets a few subscribers pass per iteration of the loop: thousands that wake at one moment would otherwise delay
    all requests.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, few: int = TOLD_AT_ONCE) -> None:
        self._loop = loop
        self._few = few
        self._left = few
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._turning = False

    async def pass_through(self) -> None:
        """Wait for one's turn."""
        if self._left and not self._waiting:
            self._left -= 1
            self._turn()
            return
        mine = self._loop.create_future()
        self._waiting.append(mine)
        self._turn()
        await mine

    def _turn(self) -> None:
        if not self._turning:
            self._turning = True
            self._loop.call_soon(self._next)

    def _next(self) -> None:
        self._turning = False
        self._left = self._few
        while self._left and self._waiting:
            mine = self._waiting.popleft()
            if not mine.done():
                mine.set_result(None)
                self._left -= 1
        if self._waiting:
            self._turn()
