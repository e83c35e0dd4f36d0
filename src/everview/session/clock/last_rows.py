"""The last n rows of a table, or of each of its partitions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from everview.expr.resolve import Column
from everview.language.relation import relation_of
from everview.plan import nodes as plan
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
from everview.types import INT

if TYPE_CHECKING:
    from everview.session.core import Core
    from everview.session.table import Table


class LastRows(Follower):
    """The last rows of a table, or of each of its partitions, in order of arrival."""

    remembered = ("late", "number")

    def __init__(self, core: Core, table: Table, size: int, partition: tuple[int, ...]) -> None:
        super().__init__(core, table)
        self.size = size
        self.partition = partition
        self.number = 0
        columns = [*relation_of(table).columns, Column("number", INT)]
        order = plan.keys_first(partition, len(columns))
        by = "".join(f" by {', '.join(relation_of(table).columns[p].name for p in partition)}" for _ in partition[:1])
        name = f"{relation_of(table).stored_as} [last {size}{by}]"
        _, (_, new, _) = self.changes([(contents(core.runtime, table), 1)], [], 0, 0)
        self.own = core.definitions.tables.hidden(name, columns, order, new, table)

    def changes(self, mine: list[tuple[Words, int]], moments: list[int], before: int, now: int) -> list[Change]:
        parts: dict[tuple[int, ...], tuple[list[tuple[int, ...]], set[tuple[int, ...]]]] = {}
        for rows, diff in mine:
            for row in map(tuple, rows.T.tolist()):
                key = tuple(row[p] for p in self.partition)
                if key not in parts:
                    there = self._part(key)
                    parts[key] = (there, set(there))
                self._apply(parts[key][0], row, diff)
        new, lost = [], []
        for now_there, was in parts.values():
            new += [r for r in now_there if r not in was]
            lost += list(was - set(now_there))
        width = rows_of(self.table) + 1
        return [(self.own, words(lost, width), -1), (self.own, words(new, width), 1)]

    def resume(self, now: int) -> None:
        self.number = int(contents(self.core.runtime, self.mirror)[-1].max(initial=self.number))

    def _part(self, key: tuple[int, ...]) -> list[tuple[int, ...]]:
        """The rows of a partition, oldest first."""
        if self.own is None:
            return []
        columns, counts = at_key(self.core.runtime, relation_of(self.own).arrangement, key)
        return sorted(counted(columns, counts), key=lambda row: row[-1])

    def _apply(self, there: list[tuple[int, ...]], row: tuple[int, ...], diff: int) -> None:
        if diff > 0:
            self.number += 1
            there.append((*row, self.number))
            del there[: -self.size]
            return
        for i, dated in enumerate(there):
            if dated[:-1] == row:
                del there[i]
                return
