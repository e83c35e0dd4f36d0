"""Times to live: rows that leave a table, or a window of it, after a while."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import numpy as np

from everview.dataflow.operators import Arrangement
from everview.expr.nodes import ColumnRef, Expr
from everview.expr.resolve import Column
from everview.language.relation import relation_of
from everview.plan import nodes as plan
from everview.runtime.base import RemoteRows
from everview.session.clock.follower import (
    Change,
    Follower,
    Words,
    at_key,
    contents,
    counted,
    rows_of,
    words,
)
from everview.types import NULL, TIMESTAMP

if TYPE_CHECKING:
    from everview.session.core import Core
    from everview.session.table import Table


class RowTTL(Follower):
    """A table whose rows expire at a time of their own."""

    owner = True

    def __init__(self, core: Core, table: Table, until: Expr) -> None:
        super().__init__(core, table)
        self.until = until
        self.index = self._index(until)

    def indexes(self) -> list[Arrangement]:
        return [self.index]

    def takes(self, how: str) -> bool:
        return True

    def take(self, rows: RemoteRows, now: int) -> list[Change]:
        self.queue.add(rows.moments)
        self.late += rows.late
        return []

    def resume(self, now: int) -> None:
        until = self._values([self.until], contents(self.core.runtime, self.table))[0]
        self.queue.clear()
        self.queue.add(np.unique(until[(until > now) & (until != NULL)]))

    def changes(self, mine: list[tuple[Words, int]], moments: list[int], before: int, now: int) -> list[Change]:
        """Remove every expired row, whether it was stored or has just arrived late."""
        columns, counts = self._found(self.index, moments)
        left = counted(columns, counts)
        for rows, diff in mine:
            until = self._values([self.until], rows)[0]
            late = (until <= now) & (until != NULL)
            if diff > 0:
                self.queue.add(np.unique(until[(until > now) & (until != NULL)]))
                self.late += diff * int(late.sum())
            for row in rows[:, late].T.tolist():
                left[tuple(row)] = left.get(tuple(row), 0) + diff
        return [
            (self.table, words([r] * abs(n), rows_of(self.table)), -1 if n > 0 else 1) for r, n in left.items() if n
        ]


class ArrivalTTL(Follower):
    """Rows with their expiry times: a window, or a table's time to live."""

    def __init__(self, core: Core, table: Table, size: int, owner: bool) -> None:
        super().__init__(core, table)
        self.size = size
        self.owner = owner
        rows = contents(core.runtime, table)
        columns = [*relation_of(table).columns, Column("until", TIMESTAMP)]
        name = f"{relation_of(table).stored_as} [size {size / 1e6:g} s]"
        self.own = core.definitions.tables.hidden(
            name, columns, range(len(columns)), self._dated(rows, core.clock.read()), table
        )
        last = len(columns) - 1
        refs = [ColumnRef(c.type, i) for i, c in enumerate(columns)]
        self.index = core.definitions.install(plan.Project(relation_of(self.own).node, (refs[last], *refs)), (0,))

    def indexes(self) -> list[Arrangement]:
        return [self.index]

    def resume(self, now: int) -> None:
        self.queue.clear()
        self.queue.add(np.unique(contents(self.core.runtime, self.mirror)[-1]))

    def takes(self, how: str) -> bool:
        return how == "append" and relation_of(self.table).arrangement.plain

    def take(self, rows: RemoteRows, now: int) -> list[Change]:
        self.queue.add([now + self.size])
        return [(self.own, rows.dated(self.mirror, now + self.size), 1)]

    def _dated(self, rows: Words, now: int) -> Words:
        """Rows that arrive now, with expiry times."""
        if rows.shape[1]:
            self.queue.add([now + self.size])
        until = np.full((1, rows.shape[1]), now + self.size, dtype=np.int64)
        return np.ascontiguousarray(np.concatenate([rows, until]))

    def changes(self, mine: list[tuple[Words, int]], moments: list[int], before: int, now: int) -> list[Change]:
        gone = counted(*self._found(self.index, moments))
        if all(diff > 0 for _, diff in mine):
            made = [(self.own, self._dated(rows, now), 1) for rows, _ in mine]
        else:
            made = self._net(mine, gone, now)
        width = rows_of(self.table)
        old = words((row for row, n in gone.items() for _ in range(n)), width + 1)
        made.append((self.own, old, -1))
        if self.owner:
            made.append((self.table, np.ascontiguousarray(old[:width]), -1))
        return made

    def _net(self, mine: list[tuple[Words, int]], gone: dict[tuple[int, ...], int], now: int) -> list[Change]:
        """Net insertions and deletions. Of equal rows the oldest is deleted first, and rows due now before all others.
        A row that is deleted and reinserted in one transaction therefore starts a new lifetime.
        """
        new, taken = Counter[tuple[int, ...]](), Counter[tuple[int, ...]]()
        for rows, diff in mine:
            (new if diff > 0 else taken).update(map(tuple, rows.T.tolist()))
        lost: list[tuple[int, ...]] = []
        for row, n in taken.items():
            columns, counts = at_key(self.core.runtime, relation_of(self.mirror).arrangement, row)
            for dated, there in sorted(counted(columns, counts).items()):
                take = min(there, n)
                n -= take
                lost += [dated] * take
                if dated in gone:
                    gone[dated] -= take
            new[row] -= n  # inserted and deleted again
        width = rows_of(self.table)
        arrived = self._dated(words((row for row, n in new.items() for _ in range(n)), width), now)
        return [(self.own, arrived, 1), (self.own, words(lost, width + 1), -1)]
