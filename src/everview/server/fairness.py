"""Fair queueing of work from several principals.

A FIFO queue favours whoever sends most: a tenant that sends a thousand statements at once is served a thousand times
before the next. Here each principal has its own queue and is *charged* the time of its work, divided by its weight. The
next job belongs to whoever was charged least (start-time fair queueing). A principal that returns after a pause starts
level with the others, and cannot accumulate credit.

Within one queue the order of arrival is kept.

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
"""Minimum charge in seconds: even trivial work takes a turn."""


class Queue(Generic[T]):
    """Fairly queued work; the caller holds a lock."""

    def __init__(self) -> None:
        self._waiting: dict[str, deque[T]] = {}
        self._charged: dict[str, float] = {}
        self._weights: dict[str, float] = {}
        self._now = 0.0
        """the charge of the last one served, before it: others are not behind that"""
        self._size = 0

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[T]:
        for waiting in self._waiting.values():
            yield from waiting

    def put(self, whose: str, work: T, weight: float = 1.0) -> None:
        """Enqueue work."""
        if whose not in self._waiting:
            self._waiting[whose] = deque()
            self._charged[whose] = max(self._charged.get(whose, 0.0), self._now)
        self._weights[whose] = weight
        self._waiting[whose].append(work)
        self._size += 1

    def take(self) -> tuple[str, T] | None:
        """The next work, and its principal."""
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
        """Charge a principal for its work."""
        self._charged[whose] = self._charged.get(whose, self._now) + max(seconds, LEAST) / self._weights.get(whose, 1.0)
        if len(self._charged) > 10_000:  # an idle principal that is not ahead needs no record
            kept = {n: c for n, c in self._charged.items() if n in self._waiting or c > self._now}
            self._charged = kept
            self._weights = {n: w for n, w in self._weights.items() if n in kept}

    def remove(self, work: T) -> bool:
        """Remove queued work; return whether it was there."""
        for whose, waiting in self._waiting.items():
            if work in waiting:
                waiting.remove(work)
                self._size -= 1
                if not waiting:
                    del self._waiting[whose]
                return True
        return False

    def of(self, whose: str) -> int:
        """The number of queued items of a principal."""
        return len(self._waiting.get(whose, ()))

    def clear(self) -> list[T]:
        """Remove and return everything."""
        found = list(self)
        self._waiting.clear()
        self._size = 0
        return found
