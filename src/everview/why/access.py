"""Rows of one moment, found by some of their columns, in what the session keeps anyway.

A question about a row is answered by looking things up: the edges that lead to a node, the members of a group. Tables
are arranged, and so is much of what views are made of. `Access` looks for an arrangement of a plan whose first columns
are known; if there is none it reads the whole of one, once, and sorts it for the length of the question. Nothing is
installed and nothing stays.

A bag here is a dictionary from rows (tuples of codes) to multiplicities that are not zero.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from everview.dataflow.dataflow import batch_arrays
from everview.dataflow.operators import Arrangement
from everview.kernels import make
from everview.kernels.trace import trace as trace_k
from everview.plan import nodes as plan
from everview.session.snapshot import in_order, read_codes

if TYPE_CHECKING:
    from everview.session.core import Core

Row = tuple[int, ...]
Bag = dict[Row, int]
Bound = Mapping[int, int]
"""Columns whose codes are known."""

Words = npt.NDArray[np.int64]

UNSORTED = 32
"""How often all rows are looked at before they are sorted."""

FEW = 16
"""Rows up to which they are looked at one by one."""

NOTHING_BOUND: dict[int, int] = {}


def matches(row: Row, bound: Bound) -> bool:
    """Whether a row has the codes that are known."""
    return all(row[c] == code for c, code in bound.items())


def added(bags: Iterable[Bag]) -> Bag:
    """The sum of bags.

    >>> added([{(1,): 1, (2,): 1}, {(1,): -1}])
    {(2,): 1}
    """
    total: Bag = {}
    for bag in bags:
        for row, count in bag.items():
            total[row] = total.get(row, 0) + count
    return {row: count for row, count in total.items() if count}


class Access:
    """What a session keeps, as of a time."""

    def __init__(self, core: Core, time: int) -> None:
        self.core = core
        self.time = time
        self._readable: dict[int, tuple[plan.Node, list[Arrangement]]] = {}
        self._sorted: dict[tuple[Arrangement, int], tuple[Words, Words]] = {}
        self._scans: dict[tuple[Arrangement, int], int] = {}
        self._all: dict[Arrangement, tuple[Words, Words]] = {}

    def arrangements(self, node: plan.Node) -> list[Arrangement]:
        """Arrangements of a plan outside loops that still know the time."""
        known = self._readable.get(id(node))
        if known is None:
            found = self.core.runtime.builder.arrangements.get((node, ()), [])
            known = self._readable[id(node)] = (node, [a for a in found if self._knows(a)])
        return known[1]

    def _knows(self, arrangement: Arrangement) -> bool:
        trace, operator = arrangement.trace, arrangement.operator
        return not (operator.freed or trace.stateless) and operator.scope.is_root and trace.since <= self.time

    def size(self, node: plan.Node) -> int | None:
        """How many updates an arrangement of the plan holds; None if there is none."""
        found = self.arrangements(node)
        return found[0].trace.measure()[1] if found else None

    def prefix(self, node: plan.Node, columns: Iterable[int]) -> int:
        """How many of these columns are in front in some arrangement of the plan."""
        known = set(columns)
        return max((_leading(a, known) for a in self.arrangements(node)), default=0)

    def rows(self, node: plan.Node, bound: Bound) -> Bag | None:
        """The rows of a plan that is kept; None if it is not."""
        found = self.arrangements(node)
        if not found:
            return None
        best = found[0]
        if bound:
            best = max(found, key=lambda a: _leading(a, bound))
            if not _leading(best, bound):
                return self._scanned(best, bound)
        return self.read(best, bound)

    def read(self, arrangement: Arrangement, bound: Bound) -> Bag:
        """The rows of an arrangement that begin with codes that are known, and agree with the others."""
        start = tuple(bound[c] for c in arrangement.order[: _leading(arrangement, bound)])
        columns, counts = read_codes(self.core.runtime, arrangement, start, self.time)
        return bag_of(columns, counts, bound if len(start) < len(bound) else NOTHING_BOUND)

    def block(self, node: plan.Node, bound: Bound) -> tuple[Words, Words] | None:
        """The rows of a plan that is kept as columns and counts, in which a row may stand several times; None if it is
        not kept.
        """
        found = self.arrangements(node)
        if not found:
            return None
        best = max(found, key=lambda a: _leading(a, bound))
        start = tuple(bound[c] for c in best.order[: _leading(best, bound)])
        columns, counts = read_codes(self.core.runtime, best, start, self.time) if start else self._whole(best)
        if len(start) == len(bound):
            return columns, counts
        kept = np.ones(len(counts), dtype=np.bool_)
        for column, code in bound.items():
            kept &= columns[column] == code
        return columns[:, kept], counts[kept]

    def _scanned(self, arrangement: Arrangement, bound: Bound) -> Bag:
        """The same by looking at all rows; if that is done again and again, they are sorted first."""
        column = min(bound)
        key = (arrangement, column)
        self._scans[key] = self._scans.get(key, 0) + 1
        if self._scans[key] <= UNSORTED:
            columns, counts = self._whole(arrangement)
            at = np.flatnonzero(columns[column] == bound[column])
            return _summed(columns[:, at], counts[at], bound)
        if key not in self._sorted:
            columns, counts = self._whole(arrangement)
            order = np.argsort(columns[column], kind="stable")
            self._sorted[key] = np.ascontiguousarray(columns[:, order]), counts[order]
        columns, counts = self._sorted[key]
        low = int(np.searchsorted(columns[column], bound[column], side="left"))
        high = int(np.searchsorted(columns[column], bound[column], side="right"))
        return _summed(columns[:, low:high], counts[low:high], bound)

    def _whole(self, arrangement: Arrangement) -> tuple[Words, Words]:
        """All updates of an arrangement up to the time, not added up: that would sort them."""
        if arrangement not in self._all:
            self.core.runtime.sync(arrangement.operator)
            trace = arrangement.trace.address
            table = make.peek(trace, trace_k.TRACE_TABLE)
            batches = [make.peek(table, b) for b in range(make.peek(trace, trace_k.TRACE_COUNT))]
            parts = [batch_arrays(batch, arrangement.cols) for batch in batches]
            known = [(of, diffs, times <= self.time) for of, times, diffs in parts]
            kept = [(of[:, now], diffs[now]) if not now.all() else (of, diffs) for of, diffs, now in known]
            none = (np.empty((arrangement.cols, 0), dtype=np.int64), np.empty(0, dtype=np.int64))
            columns = np.concatenate([none[0], *(p[0] for p in kept)], axis=1)
            counts = np.concatenate([none[1], *(p[1] for p in kept)])
            self._all[arrangement] = in_order(columns, arrangement.order), counts
        return self._all[arrangement]


class Supposed(Access):
    """The same with some more rows in tables: what depends on those is not kept, and is computed."""

    def __init__(self, access: Access, rows: Mapping[plan.Table, Bag]) -> None:
        super().__init__(access.core, access.time)
        self._more = rows
        self._touched: dict[int, tuple[plan.Node, bool]] = {}

    def rows(self, node: plan.Node, bound: Bound) -> Bag | None:
        if isinstance(node, plan.Table) and node in self._more:
            there = super().rows(node, bound)
            more = {row: n for row, n in self._more[node].items() if matches(row, bound)}
            return None if there is None else added([there, more])
        return None if self._depends(node) else super().rows(node, bound)

    def block(self, node: plan.Node, bound: Bound) -> tuple[Words, Words] | None:
        if self._depends(node) and not (isinstance(node, plan.Table) and node in self._more):
            return None
        found = super().block(node, bound)
        more = [row for row in self._more.get(node, {}) if matches(row, bound)] if isinstance(node, plan.Table) else []
        if found is None or not more:
            return found
        columns = np.array(more, dtype=np.int64).reshape(len(more), len(node.types)).T
        return np.hstack([found[0], columns]), np.hstack([found[1], np.ones(len(more), dtype=np.int64)])

    def _depends(self, node: plan.Node) -> bool:
        if id(node) not in self._touched:
            touched = any(isinstance(n, plan.Table) and n in self._more for n in node.walk())
            self._touched[id(node)] = (node, touched)
        return self._touched[id(node)][1]


def _leading(arrangement: Arrangement, known: Iterable[int]) -> int:
    """How many of an arrangement's first columns are known."""
    known = known if isinstance(known, (set, dict)) else set(known)
    found = 0
    for column in arrangement.order:
        if column not in known:
            break
        found += 1
    return found


def _summed(columns: Words, counts: Words, bound: Bound) -> Bag:
    """Columns of codes, in which rows may stand several times, as a bag of those that agree with what is known."""
    found: Bag = {}
    for row, n in zip(zip(*columns.tolist(), strict=True), counts.tolist(), strict=True):
        if matches(row, bound):
            found[row] = found.get(row, 0) + n
    return {row: n for row, n in found.items() if n}


def bag_of(columns: npt.NDArray[np.int64], counts: npt.NDArray[np.int64], bound: Bound) -> Bag:
    """Columns of codes as a bag of the rows that agree with what is known."""
    if bound and len(counts) > FEW:
        kept = np.ones(len(counts), dtype=np.bool_)
        for column, code in bound.items():
            kept &= columns[column] == code
        columns, counts, bound = columns[:, kept], counts[kept], NOTHING_BOUND
    if not len(counts):
        return {}
    rows = zip(*columns.tolist(), strict=True) if len(columns) else iter([()] * len(counts))
    if not bound:
        return dict(zip(rows, counts.tolist(), strict=True))
    return {row: n for row, n in zip(rows, counts.tolist(), strict=True) if matches(row, bound)}
