"""Subscribers: each step's change of the views somebody listens to, told when the step is complete.

Changes are captured by the traces while the step runs, made into batches after it, and handed out in order, after the
turn: a subscriber may read and change the session. What it changes itself is told after what came before, and so is
what other threads change meanwhile: one thread at a time tells subscribers, whoever made the change.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from everview import shield
from everview.dataflow.operators import Arrangement
from everview.kernels import make, read
from everview.kernels.trace import CAPTURE
from everview.state import State
from everview.subscriber import Subscriber
from everview.turns import reads
from everview.view import Batch


class Listening(State):
    """The part of a session that tells subscribers."""

    @reads
    def _capture(self, arrangement: Arrangement) -> int:
        """Have each step's change of an arrangement kept for subscribers."""
        self._alive()
        self._sync(arrangement.operator)
        block = make.peek(arrangement.trace.address, CAPTURE)
        if block == 0:
            block = arrangement.operator.block([0])
            make.poke(arrangement.trace.address, CAPTURE, block)
        self._listening = [
            v for v in self._views.values() if v._arrangement.trace is arrangement.trace or v in self._listening
        ]
        return int(block)

    def _take_batches(self) -> None:
        captured = set()
        told: list[Callable[[], Any]] = []
        for view in self._listening:
            for batch in view._batches():
                told += [_call(subscriber, batch) for subscriber in view._subscribers]
            captured.add(make.peek(view._arrangement.trace.address, CAPTURE))
        self._deliveries.extend(told)
        for block in captured:
            batch_there = make.peek(block, 0)
            make.poke(block, 0, 0)
            read.release(batch_there)

    @shield.shielded
    def _deliver(self) -> None:
        """Call subscribers; what they change themselves is delivered after what came before it. An interrupt is heard
        while one of them runs, or when all were called.
        """
        if self._lock._is_owned():
            return  # the turn's end does it
        failure: Exception | None = None
        while self._deliveries and self._delivering.acquire(blocking=False):
            try:
                while self._deliveries:
                    try:
                        self._deliveries.popleft()()
                    except Exception as error:
                        failure = failure or error
            finally:
                self._delivering.release()
        if failure is not None:
            raise failure


def _call(subscriber: Subscriber, batch: Batch) -> Callable[[], Any]:
    return lambda: subscriber.tell(batch)
