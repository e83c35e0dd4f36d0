"""Fair queueing: work of several principals, taken in turns.

One queue in the order of arrival lets whoever asks most have most: a tenant that sends a thousand statements at once is
served a thousand times before the next. Here each has a queue of its own, and is *charged* for the time that its work
took, divided by its weight. The next job is that of whoever was charged least (start-time fair queueing). Somebody who
comes back after a pause begins where the others are, and cannot save up.

Within one queue the order of arrival stays: what a client asks first is done first.

>>> queue = Queue()
>>> for i in range(3): queue.put("a", f"a{i}")
>>> queue.put("b", "b0")
>>> taken = []
>>> while (found := queue.take()) is not None:
...     taken.append(found[1]); queue.charge(found[0], 1.0)
>>> taken
['a0', 'b0', 'a1', 'a2']
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Generic, TypeVar

T = TypeVar("T")

LEAST = 0.0001
"""Seconds that any work is charged for: what takes no time still takes a turn."""


class Queue(Generic[T]):
    """Work of several, taken in turns; whoever uses it has a lock."""

    def __init__(self) -> None:
        self._waiting: dict[str, deque[T]] = {}
        self._charged: dict[str, float] = {}
        self._weights: dict[str, float] = {}
        self._now = 0.0
        """what whoever was taken last had been charged before: the others are not behind that"""
        self._size = 0

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[T]:
        for waiting in self._waiting.values():
            yield from waiting

    def put(self, whose: str, work: T, weight: float = 1.0) -> None:
        """Let work wait."""
        if whose not in self._waiting:
            self._waiting[whose] = deque()
            self._charged[whose] = max(self._charged.get(whose, 0.0), self._now)
        self._weights[whose] = weight
        self._waiting[whose].append(work)
        self._size += 1

    def take(self) -> tuple[str, T] | None:
        """The work whose turn it is, and whose that is."""
        if not self._waiting:
            return None
        whose = min(self._waiting, key=lambda name: self._charged[name])
        self._now = self._charged[whose]
        waiting = self._waiting[whose]
        work = waiting.popleft()
        if not waiting:
            del self._waiting[whose]
        self._size -= 1
        return whose, work

    def charge(self, whose: str, seconds: float) -> None:
        """Work has taken so long."""
        self._charged[whose] = self._charged.get(whose, self._now) + max(seconds, LEAST) / self._weights.get(whose, 1.0)
        if len(self._charged) > 10_000:  # who has nothing waiting and is not ahead has nothing to remember
            kept = {n: c for n, c in self._charged.items() if n in self._waiting or c > self._now}
            self._charged = kept
            self._weights = {n: w for n, w in self._weights.items() if n in kept}

    def remove(self, work: T) -> bool:
        """Drop work that waits; whether it did."""
        for whose, waiting in self._waiting.items():
            if work in waiting:
                waiting.remove(work)
                self._size -= 1
                if not waiting:
                    del self._waiting[whose]
                return True
        return False

    def of(self, whose: str) -> int:
        """How much of somebody's waits."""
        return len(self._waiting.get(whose, ()))

    def clear(self) -> list[T]:
        """Drop everything; gives it back."""
        found = list(self)
        self._waiting.clear()
        self._size = 0
        return found
