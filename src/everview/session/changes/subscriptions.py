"""Subscriptions: the changes of each step, delivered to subscribers when the step is complete.

Changes are captured during the step (`everview.runtime.captures`), turned into batches after it, and delivered in
order, outside the lock: subscribers may read and change the session. Changes that a subscriber makes are delivered
after all earlier ones.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from everview.dataflow import shield
from everview.dataflow.operators import Trace
from everview.dataflow.read_leases import is_guest
from everview.language.relation import relation_of
from everview.runtime.captures import Captured
from everview.session.changes.subscriber import Subscriber
from everview.session.changes.turns import reads

if TYPE_CHECKING:
    from everview.session.changes.batch import Batch
    from everview.session.core import Core
    from everview.session.reads.subscribable import Subscribable


class Subscriptions:
    """The subscribers of each table and view, and the batches still to be delivered."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._followed: list[Subscribable] = []
        self.pending: deque[Callable[[], Any]] = deque()
        self._delivering = threading.Lock()

    def watch(self, what: Subscribable) -> None:
        """Start capturing the changes of a table or view, including those of a step in progress, on behalf of its
        guest. That step's output is kept when it commits, and the commit waits for the guest.
        """
        if is_guest():
            self._watch(what)
        else:
            self._watch_in_turn(what)

    @reads
    def _watch_in_turn(self, what: Subscribable) -> None:
        self._watch(what)

    def _watch(self, what: Subscribable) -> None:
        what._alive()
        self._core.runtime.sync(relation_of(what).arrangement.operator)
        self._core.runtime.captures.watch(relation_of(what).arrangement)
        if what not in self._followed:
            self._followed.append(what)

    def forget(self, what: Subscribable) -> None:
        """Remove a table or view that was dropped."""
        if what in self._followed:
            self._followed.remove(what)

    def followed(self) -> list[Subscribable]:
        """The tables and views that have subscribers."""
        return list(self._followed)

    def follow(self, followed: list[Subscribable]) -> None:
        """Restore the subscriptions of a dropped table or view that exists again."""
        self._followed = followed

    def take(self, changes: Mapping[Trace, Captured]) -> None:
        """Queue the changes of a completed step for delivery."""
        if not changes:
            return
        calls: list[Callable[[], Any]] = []
        for what in self._followed:
            found = changes.get(relation_of(what).arrangement.trace)
            for batch in what._batches(found) if found is not None else ():
                calls += [_call(subscriber, batch) for subscriber in relation_of(what).subscribers]
        self.pending.extend(calls)

    def settle(self) -> None:
        """Remove tables and views that an interrupted turn has dropped."""
        self._followed = [v for v in self._followed if not relation_of(v).dropped]

    @shield.shielded
    def deliver(self) -> None:
        """Call the subscribers. Changes they make are delivered after all earlier ones. Interrupts are raised while a
        subscriber runs, or after the last one.
        """
        if self._core.lock._is_owned():
            return  # the end of the turn does it
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
        """Wait until everything complete is delivered: another thread that did a read may be delivering."""
        while True:
            self.deliver()
            with self._delivering:
                if not self.pending:
                    return


def _call(subscriber: Subscriber, batch: Batch) -> Callable[[], Any]:
    return lambda: subscriber.tell(batch)
