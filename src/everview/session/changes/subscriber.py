"""A subscriber: a function called with each change of a view, and its last error.

An exception in a subscriber does not propagate out of `insert`: the transaction is complete, its author is not
responsible, and other subscribers are waiting. It is kept as `error` and logged to `everview.subscribers` (standard
error unless `logging` is configured). The subscriber is called again for the next change. Sinks differ: their
exceptions propagate (`surfaces`), because a run must end when its output cannot be written. So do exceptions that end
the program, such as KeyboardInterrupt.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from everview.dataflow import shield
from everview.language.relation import relation_of

if TYPE_CHECKING:
    from everview.session.changes.batch import Batch
    from everview.session.reads.subscribable import Subscribable

LOG = logging.getLogger("everview.subscribers")


class Subscriber:
    """The handle returned by `view.subscribe`; call it to unsubscribe.

    >>> import everview as ev, logging
    >>> logging.getLogger("everview.subscribers").disabled = True
    >>> db = ev.connect()
    >>> t = db.table("t", {"x": int})
    >>> stop = db.view("v", t.distinct()).subscribe(lambda batch: 1 / 0)
    >>> t.insert([(1,)])
    >>> stop.error
    ZeroDivisionError('division by zero')
    >>> stop()
    >>> logging.getLogger("everview.subscribers").disabled = False
    """

    def __init__(self, followed: Subscribable, function: Callable[[Batch], Any], *, surfaces: bool = False) -> None:
        self._followed = followed
        self._function = function
        self._surfaces = surfaces
        self._stopped = False
        self.error: Exception | None = None
        """The last exception raised by the function"""

    def tell(self, batch: Batch) -> None:
        """Call the function, unless it was unsubscribed in the meantime."""
        if self._stopped:
            return
        try:
            shield.openly(self._function, batch)
        except Exception as error:
            if self._surfaces:
                raise
            self.error = error
            LOG.exception(
                "a subscriber of %s %r failed at time %d",
                relation_of(self._followed).kind,
                relation_of(self._followed).label,
                batch.time,
            )

    def __call__(self) -> None:
        """Unsubscribe; idempotent."""
        self._stopped = True
        relation_of(self._followed).subscribers = [s for s in relation_of(self._followed).subscribers if s is not self]
