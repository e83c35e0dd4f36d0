"""The base class of clock followers: a queue of due times, and ways to find rows.

Future changes are not stored in the dataflow. A follower only keeps a queue of due times, and finds the affected rows
in an index when a time comes. Memory therefore holds current rows, not pending ones.

Followers' own tables are named `everview.…` and belong to the views that read them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from everview.codes.interner import Interner
from everview.codes.multiplicity import repeated
from everview.dataflow.operators import Arrangement
from everview.errors import InternalError
from everview.expr.evaluate import evaluate
from everview.expr.nodes import ColumnRef, Expr
from everview.language.relation import relation_of
from everview.plan import nodes as plan
from everview.runtime.base import RemoteRows, Runtime
from everview.session.clock.agenda import BULK_MOMENTS, Moments
from everview.session.reads.snapshot import read_codes
from everview.types import NULL

if TYPE_CHECKING:
    from everview.session.core import Core
    from everview.session.table import Table

RESERVED_PREFIX = "everview."
"""Reserved prefix of the names of tables that belong to views."""

Words = npt.NDArray[np.int64]
Change = tuple[Any, Any, int]


class Follower(ABC):
    """State derived from a base table that changes with the clock."""

    owner = False
    """whether it changes the table itself"""
    remembered: tuple[str, ...] = ("late",)
    """attributes that a transaction may change and that are not stored in a table"""

    def __init__(self, core: Core, table: Table) -> None:
        self.core = core
        self.table = table
        self.own: Table | None = None
        self.late = 0  # late rows
        self.queue = Moments()
        self.seen: int = core.clock.read()
        """the moment up to which everything was done; the clock may have been read since"""

    def queues(self) -> list[Moments]:
        """All its queues of due times."""
        return [self.queue]

    def memory(self) -> tuple[Any, ...]:
        """A copy of the `remembered` attributes, taken before a transaction."""
        return tuple(getattr(self, name) for name in self.remembered)

    def recall(self, memory: tuple[Any, ...]) -> None:
        """Restore that copy after a failed transaction."""
        for name, value in zip(self.remembered, memory, strict=True):
            setattr(self, name, value)

    @abstractmethod
    def changes(self, mine: list[tuple[Words, int]], moments: list[int], before: int, now: int) -> list[Change]:
        """The changes that follow from a transaction's changes of the table and from the moments since `before`."""

    def respond(self, found: list[tuple[Any, int]], moments: list[int], now: int) -> list[Change]:
        """The changes that follow from changes of the table, wherever their rows are, and from due times."""
        made: list[Change] = []
        width = rows_of(self.table)
        mine = [(_columns(rows, width), diff) for rows, diff in found if not isinstance(rows, RemoteRows)]
        if moments or mine:
            made += [c for c in self.changes(mine, moments, self.seen, now) if c[1].shape[1]]
        for rows, _ in found:
            if isinstance(rows, RemoteRows):
                made += self.take(rows, now)
        return made

    def takes(self, how: str) -> bool:
        """Whether it can handle remote rows that arrive in this way."""
        return False

    def take(self, rows: RemoteRows, now: int) -> list[Change]:
        """The consequences of such rows; dropping late ones is done elsewhere."""
        raise InternalError("E_INTERNAL", f"{type(self).__name__} was given rows that it does not take")

    @abstractmethod
    def resume(self, now: int) -> None:
        """Rebuild the due times after `now` from the contents."""

    @property
    def mirror(self) -> Table:
        """Its own table, which views read."""
        assert self.own is not None
        return self.own

    def indexes(self) -> list[Arrangement]:
        """Arrangements it needs besides those of tables."""
        return []

    def _values(self, exprs: Sequence[Expr], columns: Words) -> Words:
        return values_of(exprs, columns, self.core.interner)

    def _index(self, expr: Expr) -> Arrangement:
        """The table's rows, indexed by the value of an expression."""
        node = relation_of(self.table).node
        refs = [ColumnRef(t, i) for i, t in enumerate(node.types)]
        return self.core.definitions.install(plan.Project(node, (expr, *refs)), (0,))

    def _found(self, index: Arrangement, moments: list[int]) -> tuple[Words, Words]:
        """Rows at some moments (without the indexed value, which is the first column), with multiplicities."""
        columns, counts = _at_keys(self.core.runtime, index, moments)
        return columns[1:], counts


def values_of(exprs: Sequence[Expr], columns: Words, interner: Interner) -> Words:
    """Codes of expressions over rows; NULL on evaluation errors."""
    if all(isinstance(e, ColumnRef) for e in exprs):
        return columns[[e.index for e in exprs if isinstance(e, ColumnRef)]]
    result = evaluate(tuple(exprs), None, columns, interner)
    made = np.full((len(exprs), columns.shape[1]), NULL, dtype=np.int64)
    made[:, result.kept] = result.codes
    return made


def rows_of(table: Table) -> int:
    """The number of columns of a table."""
    return len(relation_of(table).columns)


def _columns(rows: Any, width: int) -> Words:
    """A transaction's rows as columns."""
    return rows if isinstance(rows, np.ndarray) else words(rows, width)


def words(rows: Iterable[Sequence[int]], width: int) -> Words:
    """Rows of codes as columns."""
    return np.ascontiguousarray(np.array(list(rows), dtype=np.int64).reshape(-1, width).T)


def counted(columns: Words, counts: Words) -> dict[tuple[int, ...], int]:
    """Rows with multiplicities."""
    rows = map(tuple, columns.T.tolist())
    return {row: n for row, n in zip(rows, counts.tolist(), strict=True) if n > 0}


def contents(runtime: Runtime, table: Table) -> Words:
    """All rows of a table."""
    columns, counts = at_key(runtime, relation_of(table).arrangement, ())
    return np.ascontiguousarray(repeated(columns, counts))


def _at_keys(runtime: Runtime, index: Arrangement, keys: list[int]) -> tuple[Words, Words]:
    """Rows whose first column is one of the keys."""
    if len(keys) > BULK_MOMENTS:
        columns, counts = at_key(runtime, index, ())
        chosen = np.isin(columns[0], np.array(keys, dtype=np.int64))
        return columns[:, chosen], counts[chosen]
    found = [at_key(runtime, index, (k,)) for k in keys]
    if not found:
        return np.empty((index.cols, 0), dtype=np.int64), np.empty(0, dtype=np.int64)
    return np.concatenate([c for c, _ in found], axis=1), np.concatenate([n for _, n in found])


def at_key(runtime: Runtime, arrangement: Arrangement, key: tuple[int, ...]) -> tuple[Words, Words]:
    """Rows that begin with these codes, in the arrangement's column order."""
    return read_codes(runtime, arrangement, key, runtime.dataflow.time)
