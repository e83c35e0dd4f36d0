"""Subscribers: each step's change of the views somebody subscribed to, delivered when the step is complete.

Changes are captured while the step runs (`everview.runtime.captures`), made into batches after it, and handed out in
order, outside the lock: a subscriber may read and change the session. What it changes itself is delivered after what
came before.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from everview.dataflow import shield
from everview.dataflow.lending import is_guest
from everview.dataflow.operators import Trace
from everview.language.relation import relation_of
from everview.runtime.captures import Captured
from everview.session.changes.subscriber import Subscriber
from everview.session.changes.turns import reads

if TYPE_CHECKING:
    from everview.session.changes.batch import Batch
    from everview.session.core import Core
    from everview.session.reads.followed import Followed


class Subscriptions:
    """Who subscribed to which table or view, and what is yet to be delivered."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._followed: list[Followed] = []
        self.pending: deque[Callable[[], Any]] = deque()
        self._delivering = threading.Lock()

    def watch(self, what: Followed) -> None:
        """Have each step's change of a table or view delivered to its subscribers: also that of the step under way, for
        its guest. What it adds is kept when it commits, and that waits for the guest.
        """
        if is_guest():
            self._watch(what)
        else:
            self._watch_in_turn(what)

    @reads
    def _watch_in_turn(self, what: Followed) -> None:
        self._watch(what)

    def _watch(self, what: Followed) -> None:
        what._alive()
        self._core.runtime.sync(relation_of(what).arrangement.operator)
        self._core.runtime.captures.watch(relation_of(what).arrangement)
        if what not in self._followed:
            self._followed.append(what)

    def forget(self, what: Followed) -> None:
        """A table or view is dropped."""
        if what in self._followed:
            self._followed.remove(what)

    def followed(self) -> list[Followed]:
        """What somebody follows."""
        return list(self._followed)

    def follow(self, followed: list[Followed]) -> None:
        """Have it as it was: what was dropped is there again."""
        self._followed = followed

    def take(self, changes: Mapping[Trace, Captured]) -> None:
        """A step is complete: what it changed is to be delivered."""
        if not changes:
            return
        calls: list[Callable[[], Any]] = []
        for what in self._followed:
            found = changes.get(relation_of(what).arrangement.trace)
            for batch in what._batches(found) if found is not None else ():
                calls += [_call(subscriber, batch) for subscriber in relation_of(what).subscribers]
        self.pending.extend(calls)

    def settle(self) -> None:
        """Forget what was dropped by a turn that was cut off."""
        self._followed = [v for v in self._followed if not relation_of(v).dropped]

    @shield.shielded
    def deliver(self) -> None:
        """Call subscribers; what they change themselves is delivered after what came before it. An interrupt is heard
        while one of them runs, or when all were called.
        """
        if self._core.lock._is_owned():
            return  # the turn's end does it
        failure: Exception | None = None
        while self.pending and self._delivering.acquire(blocking=False):
            try:
                while self.pending:
                    try:
                        self.pending.popleft()()
                    except Exception as error:
                        failure = failure or error
            finally:
                self._delivering.release()
        if failure is not None:
            raise failure

    def wait(self) -> None:
        """Until everything is delivered that is complete: another thread that has read may be at it."""
        while True:
            self.deliver()
            with self._delivering:
                if not self.pending:
                    return


def _call(subscriber: Subscriber, batch: Batch) -> Callable[[], Any]:
    return lambda: subscriber.tell(batch)
