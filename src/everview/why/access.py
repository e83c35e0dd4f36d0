"""Look-ups of rows as of one time, by some of their columns, in existing arrangements.

A question about a row is answered by look-ups: the edges that lead to a node, the members of a group. Tables are
arranged, and so are many parts of views. `Access` finds an arrangement of a plan whose first columns are known;
otherwise it reads one completely, once, and sorts it for the duration of the question. Nothing is installed or kept.

A bag here is a dictionary from rows (tuples of codes) to nonzero multiplicities.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from everview.dataflow.operators import Arrangement
from everview.plan import nodes as plan
from everview.session.changes.current_rows import how_often
from everview.session.reads.snapshot import read_codes
from everview.why.column_blocks import Bag, Block, Bound, Row, Stored, Words, stacked

if TYPE_CHECKING:
    from everview.session.core import Core

UNSORTED = 32
"""Number of scans before rows are sorted."""

SCANNED_ROWS = 16
"""Number of rows up to which they are scanned one by one."""

NOTHING_BOUND: dict[int, int] = {}


def matches(row: Row, bound: Bound) -> bool:
    """Whether a row has the known codes."""
    for column, code in bound.items():  # noqa: SIM110 (this is called for every row)
        if row[column] != code:
            return False
    return True


def added(bags: Iterable[Bag]) -> Bag:
    """The sum of bags.

    >>> added([{(1,): 1, (2,): 1}, {(1,): -1}])
    {(2,): 1}
    """
    bags = [bag for bag in bags if bag]
    if len(bags) == 1:
        return bags[0]
    total: Bag = {}
    for bag in bags:
        for row, count in bag.items():
            total[row] = total.get(row, 0) + count
    return {row: count for row, count in total.items() if count}


class Access:
    """A session's arrangements, as of a time."""

    def __init__(self, core: Core, time: int) -> None:
        self.core = core
        self.time = time
        self._readable: dict[int, tuple[plan.Node, list[Arrangement]]] = {}
        self._sorted: dict[tuple[Arrangement, int], tuple[Block, Words]] = {}
        self._scans: dict[tuple[Arrangement, int], int] = {}
        self._all: dict[Arrangement, Stored] = {}
        self._best: dict[tuple[int, tuple[int, ...]], tuple[Arrangement, int] | None] = {}

    def arrangements(self, node: plan.Node) -> list[Arrangement]:
        """Arrangements of a plan outside loops that still distinguish the time."""
        known = self._readable.get(id(node))
        if known is None:
            builder = self.core.runtime.builder
            same = (node, *builder.narrowed.get(node, ()))
            found = [a for each in same for a in builder.arrangements.get((each, ()), ())]
            known = self._readable[id(node)] = (node, [a for a in found if self._knows(a)])
        return known[1]

    def _knows(self, arrangement: Arrangement) -> bool:
        trace, operator = arrangement.trace, arrangement.operator
        return not (operator.freed or trace.stateless) and operator.scope.is_root and trace.since <= self.time

    def size(self, node: plan.Node) -> int | None:
        """The number of updates of an arrangement of the plan; None if there is none."""
        found = self.arrangements(node)
        return found[0].trace.measure()[1] if found else None

    def prefix(self, node: plan.Node, columns: Iterable[int]) -> int:
        """How many of these columns come first in some arrangement of the plan."""
        known = set(columns)
        return max((_leading(a, known) for a in self.arrangements(node)), default=0)

    def rows(self, node: plan.Node, bound: Bound) -> Bag | None:
        """The rows of an arranged plan; None if it is not arranged."""
        key = (id(node), tuple(bound))
        if key in self._best:
            best = self._best[key]
        else:
            found = self.arrangements(node)
            places = [(a, _leading(a, bound)) for a in found]
            best = self._best[key] = max(places, key=lambda p: p[1]) if places else None
        if best is None:
            return None
        arrangement, known = best
        if bound and not known:
            return self._scanned(arrangement, bound)
        return self._read(arrangement, bound, known)

    def read(self, arrangement: Arrangement, bound: Bound) -> Bag:
        """The rows of an arrangement that begin with the known codes, and agree with the others."""
        return self._read(arrangement, bound, _leading(arrangement, bound))

    def _read(self, arrangement: Arrangement, bound: Bound, known: int) -> Bag:
        if known == arrangement.cols:
            row = tuple([bound[c] for c in range(known)])
            self.core.runtime.sync(arrangement.operator)
            count = how_often(arrangement, self.time, row)
            return {row: count} if count else {}
        start = tuple([bound[c] for c in arrangement.order[:known]])
        columns, counts = read_codes(self.core.runtime, arrangement, start, self.time)
        return bag_of(columns, counts, bound if known < len(bound) else NOTHING_BOUND)

    def block(self, node: plan.Node, bound: Bound) -> Block | None:
        """The rows of an arranged plan as columns; None if it is not arranged."""
        found = self.arrangements(node)
        if not found:
            return None
        best = max(found, key=lambda a: _leading(a, bound))
        start = tuple(bound[c] for c in best.order[: _leading(best, bound)])
        if start:
            return Block.of(*read_codes(self.core.runtime, best, start, self.time)).known(bound)
        return self._whole(best).known(bound)

    def _scanned(self, arrangement: Arrangement, bound: Bound) -> Bag:
        """The same by a scan; if repeated, the rows are sorted first."""
        column = min(bound)
        key = (arrangement, column)
        self._scans[key] = self._scans.get(key, 0) + 1
        if self._scans[key] <= UNSORTED:
            return self._stored(arrangement).where(column, bound[column]).known(bound).bag()
        if key not in self._sorted:
            block = self._whole(arrangement)
            block = block.where(np.argsort(block.column(column), kind="stable"))
            self._sorted[key] = block, block.column(column)
        block, codes = self._sorted[key]
        low = int(np.searchsorted(codes, bound[column], side="left"))
        high = int(np.searchsorted(codes, bound[column], side="right"))
        return block.where(np.arange(low, high)).known(bound).bag()

    def _stored(self, arrangement: Arrangement) -> Stored:
        if arrangement not in self._all:
            self.core.runtime.sync(arrangement.operator)
            self._all[arrangement] = Stored(arrangement, self.time)
        return self._all[arrangement]

    def _whole(self, arrangement: Arrangement) -> Block:
        """All updates of an arrangement up to the time, not consolidated, which would require sorting."""
        return self._stored(arrangement).block()


class Supposed(Access):
    """The same with some additional rows in tables: what depends on those is computed."""

    def __init__(self, access: Access, rows: Mapping[plan.Table, Bag]) -> None:
        super().__init__(access.core, access.time)
        self._extra_rows = rows
        self._touched: dict[int, tuple[plan.Node, bool]] = {}

    def rows(self, node: plan.Node, bound: Bound) -> Bag | None:
        if isinstance(node, plan.Table) and node in self._extra_rows:
            there = super().rows(node, bound)
            more = {row: n for row, n in self._extra_rows[node].items() if matches(row, bound)}
            return None if there is None else added([there, more])
        return None if self._depends(node) else super().rows(node, bound)

    def block(self, node: plan.Node, bound: Bound) -> Block | None:
        if self._depends(node) and not (isinstance(node, plan.Table) and node in self._extra_rows):
            return None
        found = super().block(node, bound)
        here = self._extra_rows.get(node, {}) if isinstance(node, plan.Table) else {}
        more = {row: 1 for row in here if matches(row, bound)}
        if found is None or not more:
            return found
        width = len(node.types)
        return stacked([found, Block.of_bag(more, width)], width)

    def _depends(self, node: plan.Node) -> bool:
        if id(node) not in self._touched:
            touched = any(isinstance(n, plan.Table) and n in self._extra_rows for n in node.walk())
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


def bag_of(columns: npt.NDArray[np.int64], counts: npt.NDArray[np.int64], bound: Bound) -> Bag:
    """Columns of codes as a bag of the rows that agree with what is known."""
    if bound and len(counts) > SCANNED_ROWS:
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
