"""Clock-dependent columns of rows that stay: whether their moments have passed, and the current day (hour, month ...).

A `TemporalFilter` (`filters`) keeps the rows that satisfy conditions on now(). If such a condition is in a SELECT list,
a CASE, an OR or a FILTER, all rows are needed, with its truth value:

    ClockFlags    a table's rows with a column for each of some moments of theirs: whether it is in the future
    Ticks         one row: the start of the current day (hour, month ...)

A row of flags changes when one of its moments passes. A tick changes everything computed from it.
"""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING

import numpy as np

from everview.expr.functions import call
from everview.expr.nodes import ColumnRef, Expr
from everview.expr.resolve import Column
from everview.language.relation import relation_of
from everview.plan import nodes as plan
from everview.session.clock.clock import microseconds, moment_of
from everview.session.clock.follower import Change, Follower, Words, contents, counted, rows_of, words
from everview.types import BOOL, NULL, TIMESTAMP

if TYPE_CHECKING:
    from everview.dataflow.operators import Arrangement
    from everview.session.core import Core
    from everview.session.table import Table


class ClockFlags(Follower):
    """A table's rows with the truth value of `moment > now` for some of their moments; NULL if the moment is NULL."""

    def __init__(self, core: Core, table: Table, moments: tuple[Expr, ...]) -> None:
        super().__init__(core, table)
        self.moments = moments
        self._indexes = [self._known(expr) for expr in moments]
        rows = contents(core.runtime, table)
        self._wait(self._values(moments, rows), self.seen)
        columns = [*relation_of(table).columns, *(Column(f"flag{i}", BOOL.optional()) for i in range(len(moments)))]
        flagged = self._flagged(rows, self.seen)
        name = f"{relation_of(table).stored_as} flags"
        self.own = core.definitions.tables.hidden(name, columns, range(len(columns)), flagged, table)

    def _known(self, expr: Expr) -> Arrangement:
        """The table's rows by a moment, without NULLs."""
        node: plan.Node = relation_of(self.table).node
        if expr.type.nullable:
            node = plan.Filter(node, call("is_not_null", expr))
        refs = [ColumnRef(t, i) for i, t in enumerate(node.types)]
        return self.core.definitions.install(plan.Project(node, (expr, *refs)), (0,))

    def indexes(self) -> list[Arrangement]:
        return self._indexes

    def resume(self, now: int) -> None:
        self.queue.clear()
        self._wait(self._values(self.moments, contents(self.core.runtime, self.table)), now)

    def _wait(self, values: Words, now: int) -> None:
        for some in values:
            self.queue.add(np.unique(some[(some > now) & (some != NULL)]))

    def _flagged(self, rows: Words, now: int) -> Words:
        values = self._values(self.moments, rows)
        flags = np.where(values == NULL, NULL, (values > now).astype(np.int64))
        return np.ascontiguousarray(np.concatenate([rows, flags]))

    def changes(self, mine: list[tuple[Words, int]], moments: list[int], before: int, now: int) -> list[Change]:
        made: list[Change] = self._turned(moments, before, now) if moments else []
        for rows, diff in mine:
            if diff > 0:
                self._wait(self._values(self.moments, rows), now)
            made.append((self.own, self._flagged(rows, now), diff))
        return made

    def _turned(self, moments: list[int], before: int, now: int) -> list[Change]:
        """Existing rows one of whose moments has passed."""
        found: dict[tuple[int, ...], int] = {}
        for index in self._indexes:
            found.update(counted(*self._found(index, moments)))
        rows = words((row for row, n in found.items() for _ in range(n)), rows_of(self.table))
        return [(self.own, self._flagged(rows, before), -1), (self.own, self._flagged(rows, now), 1)]


UNITS = ("second", "minute", "hour", "day", "week", "month", "quarter", "year")
_LENGTH = {"second": 1, "minute": 60, "hour": 3600, "day": 86_400, "week": 604_800}


class Ticks(Follower):
    """The start of the current second, minute, hour, day, week (Monday), month, quarter or year, in one row."""

    remembered = ("late", "start")

    def __init__(self, core: Core, unit: str) -> None:
        self.unit = unit
        self.core = core
        self.start = begin(moment_of(core.clock.read()), unit)
        own = core.definitions.tables.hidden(f"present {unit}", [Column("start", TIMESTAMP)], (0,), self._row(), None)
        super().__init__(core, own)
        self.own = own
        self._wait()

    def _row(self) -> Words:
        return words([(microseconds(self.start),)], 1)

    def _wait(self) -> None:
        self.queue.add([microseconds(following(self.start, self.unit))])

    def resume(self, now: int) -> None:
        ((there,),) = contents(self.core.runtime, self.mirror).tolist()
        self.start = moment_of(there)
        self.queue.clear()
        self._wait()

    def changes(self, mine: list[tuple[Words, int]], moments: list[int], before: int, now: int) -> list[Change]:
        if not moments:
            return []
        old = self._row()
        self.start = begin(moment_of(now), self.unit)
        self._wait()
        return [(self.own, old, -1), (self.own, self._row(), 1)]


def begin(moment: dt.datetime, unit: str) -> dt.datetime:
    """The start of the period that contains a moment.

    >>> begin(dt.datetime(2026, 8, 19, 13), "quarter"), begin(dt.datetime(2026, 8, 19, 13), "week")
    (datetime.datetime(2026, 7, 1, 0, 0), datetime.datetime(2026, 8, 17, 0, 0))
    """
    day = moment.replace(hour=0, minute=0, second=0, microsecond=0)
    match unit:
        case "year":
            return day.replace(month=1, day=1)
        case "quarter":
            return day.replace(month=(day.month - 1) // 3 * 3 + 1, day=1)
        case "month":
            return day.replace(day=1)
        case "week":
            return day - dt.timedelta(days=day.weekday())
    length = dt.timedelta(seconds=_LENGTH[unit])
    return day + (moment - day) // length * length


def following(start: dt.datetime, unit: str) -> dt.datetime:
    """The start of the next period.

    >>> following(dt.datetime(2026, 12, 1), "month")
    datetime.datetime(2027, 1, 1, 0, 0)
    """
    if unit in _LENGTH:
        return start + dt.timedelta(seconds=_LENGTH[unit])
    months = {"month": 1, "quarter": 3, "year": 12}[unit]
    return begin(start + dt.timedelta(days=31 * months), unit)
