"""The statistics that the optimiser's session holds, and the quickest way to change them.

One changed statistic is a step of some 30 microseconds. An upsert through the table takes nearly as long again: it
encodes the row, looks up the one that it replaces, and takes turns with other threads. The optimiser is the only one
who changes its session, so it knows what it said last. It commits the old row's deletion and the new row together, as
codes (of an integer: itself).

Hazard: what is remembered must be what the session holds, or a deletion would remove a row that is not there. A change
that was interrupted may have happened or not. So the memory is put aside while a change is under way, and read from the
session again if it did not come back.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from everview.language.relation import relation_of
from everview.runtime.base import ChangeSet
from everview.session.changes.fast_path import commit_alone
from everview.session.core import core_of
from everview.session.session import Session
from everview.session.table import Table

Key = tuple[int, ...]
Facts = dict[str, dict[Key, int]]
"""By table: the last column, by all columns before it."""


class StatisticFacts:
    """Tables whose last column is a statistic and whose other columns are its key.

    >>> import everview as ev
    >>> db = ev.connect()
    >>> facts = StatisticFacts(db, [db.table("rows", {"r": int, "log": int}, key="r")])
    >>> facts.change({"rows": {(1,): 10, (2,): 20}})
    >>> facts.change({"rows": {(1,): 11, (2,): 20}})
    >>> sorted(db["rows"].rows()), db.time
    ([(1, 11), (2, 20)], 2)
    """

    def __init__(self, session: Session, tables: Iterable[Table]) -> None:
        self._core = core_of(session)
        self._tables = {relation_of(table).label: table for table in tables}
        self._held: Facts | None = None

    def change(self, new: Mapping[str, Mapping[Key, int]], more: Iterable[tuple[Table, list[Key], int]] = ()) -> None:
        """Replace statistics by key, in one transaction with other rows that come (1) and go (-1)."""
        held, self._held = self._known(), None
        changes = ChangeSet(more)
        for name, statistics in new.items():
            before, old, now = held[name], [], []
            for key, log in statistics.items():
                was = before.get(key)
                if was != log:
                    now.append((*key, log))
                    if was is not None:
                        old.append((*key, was))
            if old:
                changes.append((self._tables[name], old, -1))
            if now:
                changes.append((self._tables[name], now, 1))
        if changes:
            relation = relation_of(changes[0][0])
            commit_alone(self._core, changes, lambda *_: self._core.transactions.add(changes), relation)
        for name, statistics in new.items():
            held[name].update(statistics)
        self._held = held

    def forget(self) -> None:
        """Statistics were changed by other means."""
        self._held = None

    def _known(self) -> Facts:
        if self._held is None:
            return {name: {row[:-1]: row[-1] for row in table.rows()} for name, table in self._tables.items()}
        return self._held
