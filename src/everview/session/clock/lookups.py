"""Processing-time look-up joins: each row of a table with its match in another table at the time of arrival.

`orders JOIN rates FOR SYSTEM_TIME AS OF PROCTIME() AS r ON r.currency = orders.currency` joins each order with the
rates as they were before the order's transaction, and keeps the result: later changes of rates have no effect. Deleting
an order deletes its result; of equal orders the oldest goes first.

A `LookupJoin` is a follower (`everview.session.clock`) of the left table. Its own table holds the result: the columns
of both, whether there was a match, and the arrival number. An unmatched row is stored with NULLs, so that its arrival
is known. Look-ups use an index of the other table by the keys.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from everview.expr.nodes import ColumnRef, Expr
from everview.expr.resolve import Column
from everview.language.relation import relation_of
from everview.plan import nodes as plan
from everview.session.clock.follower import Change, Follower, Words, at_key, contents, counted, rows_of, words
from everview.types import BOOL, INT, NULL

if TYPE_CHECKING:
    from everview.dataflow.operators import Arrangement
    from everview.session.core import Core
    from everview.session.table import Table

Row = tuple[int, ...]


class LookupJoin(Follower):
    """A table's rows with their matches in another table on arrival."""

    remembered = ("late", "number")

    def __init__(self, core: Core, table: Table, keys: tuple[Expr, ...], other: Table, by: tuple[int, ...]) -> None:
        super().__init__(core, table)
        self.keys, self.other, self.by = keys, other, by
        self.number = 0
        refs = [ColumnRef(c.type, i) for i, c in enumerate(relation_of(other).columns)]
        projected = plan.Project(relation_of(other).node, (*(refs[i] for i in by), *refs))
        self.index = core.definitions.install(projected, tuple(range(len(by))))
        columns = [
            *relation_of(table).columns,
            *(Column(c.name, c.type.optional()) for c in relation_of(other).columns),
            Column("found", BOOL),
            Column("number", INT),
        ]
        there = words(self._joined(contents(core.runtime, table)), len(columns))
        name = f"{relation_of(table).stored_as} with {relation_of(other).stored_as}"
        self.own = core.definitions.tables.hidden(name, columns, range(len(columns)), there, table)
        relation_of(self.own).partner = other

    def indexes(self) -> list[Arrangement]:
        return [self.index]

    def resume(self, now: int) -> None:
        self.number = int(contents(self.core.runtime, self.mirror)[-1].max(initial=self.number))

    def changes(self, mine: list[tuple[Words, int]], moments: list[int], before: int, now: int) -> list[Change]:
        new: list[Row] = []
        for rows, diff in mine:
            if diff > 0:
                new += self._joined(rows)
        taken = [row for rows, diff in mine if diff < 0 for row in map(tuple, rows.T.tolist())]
        gone = self._taken(taken, new) if taken else []
        width = rows_of(self.mirror)
        return [(self.own, words(new, width), 1), (self.own, words(gone, width), -1)]

    def _joined(self, rows: Words) -> list[Row]:
        """Newly arrived rows with their matches."""
        keys = self._values(self.keys, rows).T.tolist()
        known: dict[Row, list[Row]] = {}
        found: list[Row] = []
        for row, key in zip(map(tuple, rows.T.tolist()), map(tuple, keys), strict=True):
            self.number += 1
            if key not in known:
                known[key] = [] if NULL in key else self._partners(key)
            found += [(*row, *partner, 1, self.number) for partner in known[key]]
            if not known[key]:
                found.append((*row, *(NULL,) * rows_of(self.other), 0, self.number))
        return found

    def _partners(self, key: Row) -> list[Row]:
        there = counted(*at_key(self.core.runtime, self.index, key))
        return [row[len(key) :] for row, n in sorted(there.items()) for _ in range(n)]

    def _taken(self, taken: list[Row], new: list[Row]) -> list[Row]:
        """What goes with deleted rows: for each the oldest stored result, even one from the same transaction."""
        width = rows_of(self.table)
        there: dict[Row, dict[int, list[Row]]] = {}
        gone: list[Row] = []
        for row in taken:
            if row not in there:
                kept = counted(*at_key(self.core.runtime, relation_of(self.mirror).arrangement, row))
                mine = [*(r for r, n in kept.items() for _ in range(n)), *(r for r in new if r[:width] == row)]
                there[row] = {}
                for joined in mine:
                    there[row].setdefault(joined[-1], []).append(joined)
            if there[row]:  # otherwise the row does not exist, which the step reports
                gone += there[row].pop(min(there[row]))
        return gone
