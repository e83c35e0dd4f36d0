"""Watermarks: the progress of a table's event time, late rows, and closed windows.

`WATERMARK FOR ts AS ts - INTERVAL '5 seconds'` declares that rows arrive at most 5 seconds out of order. The
*watermark* is the maximum of `ts - 5 seconds` over all rows so far. A row whose `ts` is before it is *late*: it is
dropped and counted. All rows of a transaction are compared with the watermark from before the transaction, so their
order does not matter; then the watermark advances.

Everything before the watermark is complete, so a window that ends there can be emitted once and for all:

    Watermark        drops late rows; its own table holds the watermark and the number of late rows, in one row
    ClosedWindows    the ends of windows up to the watermark, in a separate table

A view with EMIT ON WINDOW CLOSE joins its windows with that table by their ends. A step costs in proportion to the
windows it closes; open windows are arranged but not shown. Rows of a closed window can be neither deleted nor updated
(E_APPEND), so such a view is append-only. The table's TTL may still remove rows.

Both are followers (`everview.session.clock`), although they do not depend on the clock: their changes are part of the
transaction that brings the rows.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np

from everview.errors import InputError
from everview.expr.nodes import Expr
from everview.expr.resolve import Column
from everview.language.relation import relation_of
from everview.session.clock.agenda import Moments
from everview.session.clock.follower import Change, Follower, Words, contents, rows_of, words
from everview.types import INT, NULL, TIMESTAMP

if TYPE_CHECKING:
    from everview.session.core import Core
    from everview.session.table import Table


class Watermark(Follower):
    """A table that drops late rows."""

    remembered = ("late", "reached")

    owner = True

    def __init__(self, core: Core, table: Table, time: Expr, mark: Expr) -> None:
        super().__init__(core, table)
        self.time, self.mark = time, mark
        self.reached: int = NULL
        """the watermark; NULL before the first row with a time"""
        self._move(contents(core.runtime, table))
        columns = [Column("watermark", TIMESTAMP.optional()), Column("late", INT)]
        self.own = core.definitions.tables.hidden(
            f"{relation_of(table).stored_as} watermark", columns, (0, 1), self._row(), table
        )

        self.restored: list[tuple[int, ...]] = []
        """rows that late ones of the last transaction would have replaced"""

    def _row(self) -> Words:
        return words([(self.reached, self.late)], 2)

    def resume(self, now: int) -> None:
        kept = contents(self.core.runtime, self.mirror)
        if kept.shape[1]:
            self.reached, self.late = map(int, kept[:, 0])

    def changes(self, mine: list[tuple[Words, int]], moments: list[int], before: int, now: int) -> list[Change]:
        """Undo late rows; advance the watermark by the others."""
        old, made = self._row(), list[Change]()
        dropped = self._late(mine)
        width = rows_of(self.table)
        self.restored = self._replaced(mine, dropped) if dropped else []
        if dropped:
            made.append((self.table, words((row for row, n in dropped.items() for _ in range(n)), width), -1))
            made.append((self.table, words(self.restored, width), 1))
            self.late += dropped.total()
        for rows, diff in mine:
            if diff > 0:
                self._move(rows)
        if not np.array_equal(old, self._row()):
            made += [(self.own, old, -1), (self.own, self._row(), 1)]
        return made

    def _late(self, mine: list[tuple[Words, int]]) -> Counter[tuple[int, ...]]:
        """The late rows, except those that only replace rows deleted in the same transaction."""
        found: Counter[tuple[int, ...]] = Counter()
        if self.reached == NULL:
            return found
        for rows, diff in mine:
            if diff > 0:
                time = self._values([self.time], rows)[0]
                found.update(map(tuple, rows[:, (time < self.reached) & (time != NULL)].T.tolist()))
        if found:
            for rows, diff in mine:
                if diff < 0:
                    found.subtract(row for row in map(tuple, rows.T.tolist()) if row in found)
        return +found

    def _replaced(self, mine: list[tuple[Words, int]], dropped: Counter[tuple[int, ...]]) -> list[tuple[int, ...]]:
        """In a table with a key: the rows that late ones would have replaced, and that stay."""
        key = relation_of(self.table).key
        if not key:
            return []
        keys = {tuple(row[k] for k in key) for row in dropped}
        leaving = [row for rows, diff in mine if diff < 0 for row in map(tuple, rows.T.tolist())]
        return [row for row in leaving if tuple(row[k] for k in key) in keys]

    def _move(self, rows: Words) -> None:
        marks = self._values([self.mark], rows)[0]
        self.reached = int(marks[marks != NULL].max(initial=self.reached))  # NULL is less than all moments


class ClosedWindows(Follower):
    """The ends of a table's windows that the watermark has passed."""

    def __init__(self, core: Core, table: Table, ends: tuple[Expr, ...], strict: bool) -> None:
        super().__init__(core, table)
        self.ends = ends
        self.strict = strict
        """whether a window that ends at the watermark can still grow, as session windows can"""
        self.watermark = watermark_of(core, table)
        self._waiting = Moments()
        self._taken: list[int] = []
        self.closed = NULL
        """windows are closed up to this end"""
        self._wait(contents(core.runtime, table))
        closed = words(((end,) for end in self._close()), 1)
        column = [Column("window_end", TIMESTAMP)]
        self.own = core.definitions.tables.hidden(f"{relation_of(table).stored_as} closed", column, (0,), closed, table)

    def queues(self) -> list[Moments]:
        return [self.queue, self._waiting]

    def memory(self) -> Any:
        self._taken = []
        return self.late, self.closed

    def recall(self, memory: Any) -> None:
        self.late, self.closed = memory
        self._waiting.add(self._taken)

    def resume(self, now: int) -> None:
        self._waiting.clear()
        self.closed = self._reached()
        self._wait(contents(self.core.runtime, self.table))

    def changes(self, mine: list[tuple[Words, int]], moments: list[int], before: int, now: int) -> list[Change]:
        self._refuse_corrections(mine)
        for rows, diff in mine:
            if diff > 0:
                self._wait(rows)
        return [(self.own, words(((end,) for end in self._close()), 1), 1)]

    def _refuse_corrections(self, mine: list[tuple[Words, int]]) -> None:
        """Refuse to delete or change rows of a closed window: its result is final."""
        leaving: Counter[tuple[int, ...]] = Counter()
        for rows, diff in mine:
            if diff < 0 and self.closed != NULL:
                ends = self._values(self.ends, rows)
                time = self._values([self.watermark.time], rows)[0]
                told = ((ends <= self.closed) & (ends > time) & (time != NULL)).any(axis=0)
                leaving.update(map(tuple, rows[:, told].T.tolist()))
        if not leaving:
            return
        leaving.subtract(self.watermark.restored)
        for rows, diff in mine:
            if diff > 0:  # the same row again: no change
                leaving.subtract(row for row in map(tuple, rows.T.tolist()) if row in leaving)
        for row in +leaving:
            values = relation_of(self.table).codec.decode_row(row)
            raise InputError(
                "E_APPEND",
                f"{relation_of(self.table).label}: {values} is in a window that is closed, "
                "and that EMIT ON WINDOW CLOSE has told",
                "drop the views with EMIT ON WINDOW CLOSE first; rows that are older go by the table's TTL",
            )

    def _reached(self) -> int:
        """The end up to which the watermark closes windows."""
        reached = self.watermark.reached
        return reached - self.strict if reached != NULL else NULL

    def _wait(self, rows: Words) -> None:
        """Register the ends of open windows; those of late rows, which are dropped, are harmless."""
        for ends in self._values(self.ends, rows):
            self._waiting.add(np.unique(ends[(ends > self.closed) & (ends != NULL)]))

    def _close(self) -> list[int]:
        self.closed = self._reached()
        self._taken = self._waiting.take(self.closed)
        return self._taken


def watermark_of(core: Core, table: Table) -> Watermark:
    """A table's watermark; raises if it has none."""
    return next(f for f in core.clock.agenda.of(table) if isinstance(f, Watermark))
