"""Subscribers: each step's change of the views somebody listens to, told when the step is complete.

Changes are captured by the traces while the step runs, made into batches after it, and handed out in order, outside the
lock: a subscriber may read and change the session. What it changes itself is told after what came before.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from everview.dataflow.operators import Arrangement
from everview.kernels import make, read
from everview.kernels.trace import CAPTURE
from everview.state import State
from everview.view import Batch


class Listening(State):
    """The part of a session that tells subscribers."""

    def _capture(self, arrangement: Arrangement) -> int:
        """Have each step's change of an arrangement kept for subscribers."""
        with self._lock:
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
        for view in self._listening:
            for batch in view._batches():
                for function in list(view._subscribers):
                    self._deliveries.append(_call(function, batch))
            captured.add(make.peek(view._arrangement.trace.address, CAPTURE))
        for block in captured:
            read.release(make.peek(block, 0))
            make.poke(block, 0, 0)

    def _deliver(self) -> None:
        """Call subscribers; what they change themselves is delivered after what came before it."""
        if self._delivering:
            return
        self._delivering = True
        failure: BaseException | None = None
        try:
            while self._deliveries:
                try:
                    self._deliveries.popleft()()
                except Exception as error:
                    failure = failure or error
        finally:
            self._delivering = False
        if failure is not None:
            raise failure


def _call(function: Callable[[Batch], Any], batch: Batch) -> Callable[[], Any]:
    return lambda: function(batch)
