"""A subscriber: a function that is told what changes in a view, and what became of it.

What a subscriber raises is its own affair: the transaction that it was told of is complete, the one who made it has
nothing to do with it, and others wait to be told. So it does not come out of `insert`: it is kept as `error`, written
to the log `everview.subscribers` (`logging`; without any set-up that is standard error), and the subscriber is told of
the next change as if nothing had happened. Sinks are different: what goes wrong there comes out (`surfaces`), because
a run must end when its output cannot be written. So do exceptions that mean to end the program, Ctrl-C for one.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from everview.dataflow import shield
from everview.language.relation import relation_of

if TYPE_CHECKING:
    from everview.session.changes.batch import Batch
    from everview.session.reads.followed import Followed

LOG = logging.getLogger("everview.subscribers")


class Subscriber:
    """What `view.subscribe` gives: call it to stop.

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

    def __init__(self, followed: Followed, function: Callable[[Batch], Any], *, surfaces: bool = False) -> None:
        self._followed = followed
        self._function = function
        self._surfaces = surfaces
        self._stopped = False
        self.error: Exception | None = None
        """The last exception that the function raised"""

    def tell(self, batch: Batch) -> None:
        """Call the function, unless it was stopped meanwhile."""
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
        """Stop the calls; twice does no harm."""
        self._stopped = True
        relation_of(self._followed).subscribers = [s for s in relation_of(self._followed).subscribers if s is not self]
