"""The rows of a table that satisfy conditions on now()."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np
import numpy.typing as npt

from everview.dataflow.operators import Arrangement
from everview.expr.nodes import Expr
from everview.expr.row_interpreter import FewRows
from everview.language.relation import relation_of
from everview.session.clock.follower import (
    Change,
    Follower,
    Words,
    contents,
    counted,
    rows_of,
    words,
)
from everview.types import NULL

if TYPE_CHECKING:
    from everview.session.core import Core
    from everview.session.table import Table


@dataclass(frozen=True)
class Term:
    """A condition on now(): `expr` > now ("until"), or `expr` <= now ("from")."""

    expr: Expr
    side: Literal["until", "from"]


class TemporalFilter(Follower):
    """The rows of a table that pass tests against the clock, in a separate table."""

    def __init__(self, core: Core, table: Table, tests: tuple[Term, ...]) -> None:
        super().__init__(core, table)
        self.tests = tests
        self._exprs = [t.expr for t in tests]
        self._until = [t.side == "until" for t in tests]
        self._few = FewRows(tuple(self._exprs), None, core.interner)
        self._indexes = [self._index(t.expr) for t in tests]
        rows = contents(core.runtime, table)
        self._wait(rows, self.seen)
        kept = rows[:, self._pass(rows, self.seen)]
        name, order = f"{relation_of(table).stored_as} now", range(rows.shape[0])
        self.own = core.definitions.tables.hidden(name, relation_of(table).columns, order, kept, table)

    def indexes(self) -> list[Arrangement]:
        return self._indexes

    def resume(self, now: int) -> None:
        self.queue.clear()
        self._wait(contents(self.core.runtime, self.table), now)

    def _wait(self, rows: Words, now: int) -> None:
        self._wait_for(self._values(self._exprs, rows), now)

    def _wait_for(self, values: Words, now: int) -> None:
        for some in values:
            self.queue.add(np.unique(some[(some > now) & (some != NULL)]))

    def _pass(self, rows: Words, now: int) -> npt.NDArray[np.bool_]:
        return self._passing(self._values(self._exprs, rows), now)

    def _passing(self, values: Words, now: int) -> npt.NDArray[np.bool_]:
        kept = np.ones(values.shape[1], dtype=np.bool_)
        for test, some in zip(self.tests, values, strict=True):
            kept &= (some != NULL) & ((some > now) if test.side == "until" else (some <= now))
        return kept

    def changes(self, mine: list[tuple[Words, int]], moments: list[int], before: int, now: int) -> list[Change]:
        made: list[Change] = self._turned(moments, before, now) if moments else []
        for rows, diff in mine:
            few = self._few.lists(rows)
            kept = self._one_by_one(few, diff > 0, now) if few is not None else self._together(rows, diff > 0, now)
            made.append((self.own, rows if len(kept) == rows.shape[1] else np.ascontiguousarray(rows[:, kept]), diff))
        return made

    def _turned(self, moments: list[int], before: int, now: int) -> list[Change]:
        """Existing rows whose due time has come."""
        found: dict[tuple[int, ...], int] = {}
        for index in self._indexes:
            found.update(counted(*self._found(index, moments)))
        turned = words(found, rows_of(self.table))
        counts = np.array(list(found.values()), dtype=np.int64)
        was, comes = self._pass(turned, before), self._pass(turned, now)
        return [
            (self.own, np.repeat(turned[:, comes & ~was], counts[comes & ~was], axis=1), 1),
            (self.own, np.repeat(turned[:, was & ~comes], counts[was & ~comes], axis=1), -1),
        ]

    def _together(self, rows: Words, wait: bool, now: int) -> Words:
        """Which of many rows pass; `wait` registers their due times."""
        values = self._values(self._exprs, rows)
        if wait:
            self._wait_for(values, now)
        return np.flatnonzero(self._passing(values, now))

    def _one_by_one(self, values: list[list[int] | None], wait: bool, now: int) -> list[int]:
        """The same for few rows."""
        kept = []
        for i, moments in enumerate(values):
            if moments is None:
                continue
            known = [moment for moment in moments if moment != NULL]
            if wait:
                self.queue.add([moment for moment in known if moment > now])
            if len(known) == len(moments) and all(
                moment > now if until else moment <= now for moment, until in zip(moments, self._until, strict=True)
            ):
                kept.append(i)
        return kept
