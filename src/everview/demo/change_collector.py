"""Collects the changes of several views between calls.

A subscriber is called for every complete time. What it receives is stored as is and decoded on request, so that
listening costs next to nothing inside the change that is being measured.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from everview.session.changes.batch import Batch
from everview.session.reads.subscribable import Subscribable

Differences = list[tuple[tuple[Any, ...], int]]
"""Rows with the signed number of times they were inserted (or, below zero, deleted)."""


class Listener:
    """The changes of several views, by name, since the last call of `heard`.

    >>> import everview as ev
    >>> db = ev.connect()
    >>> t = db.table("t", {"x": int})
    >>> listener = Listener({"all": t, "even": db.view("even", t.filter(ev.col.x % 2 == 0))})
    >>> t.insert([(1,), (2,)])
    >>> listener.heard()
    {'all': [((1,), 1), ((2,), 1)], 'even': [((2,), 1)]}
    >>> listener.heard()
    {'all': [], 'even': []}
    """

    def __init__(self, views: Mapping[str, Subscribable], first: Callable[[], None] = lambda: None) -> None:
        """`first` is called on every change, before anything else is done."""
        self._names = list(views)
        self._first = first
        self._batches: list[tuple[str, Batch]] = []
        for name, view in views.items():
            view.subscribe(self._ear(name), snapshot=False)

    def _ear(self, name: str) -> Callable[[Batch], None]:
        def hear(batch: Batch) -> None:
            self._first()
            self._batches.append((name, batch))

        return hear

    def heard(self) -> dict[str, Differences]:
        """The differences of each view since the last call, not consolidated."""
        batches, self._batches = self._batches, []
        found: dict[str, Differences] = {name: [] for name in self._names}
        for name, batch in batches:
            found[name].extend(batch.rows())
        return found
