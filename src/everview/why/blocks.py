"""Many rows at once: what has to be read whole is read as columns.

`everview.why.contents` looks at rows one by one, which is quick for the few that lead to one row and slow for all rows
of a table. A *block* is the same bag as columns of codes with counts, in which a row may stand several times.
Projections, filters and joins of what does not depend on a loop's round are computed on blocks where many rows have to
be looked at; what comes out is a bag again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from everview.expr.evaluate import evaluate
from everview.expr.nodes import ColumnRef
from everview.plan import nodes as plan
from everview.types import NULL
from everview.why import linear
from everview.why.access import Bag, Bound

if TYPE_CHECKING:
    from everview.why.contents import Contents

Words = npt.NDArray[np.int64]

CHEAPER = 20
"""How many times cheaper it is to read a row among many than by itself."""

MOST_PAIRS = 5_000_000
"""Rows that a join may give here."""


class Block(NamedTuple):
    """Columns of codes, and how often each row is there."""

    columns: Words
    counts: Words

    def where(self, kept: npt.NDArray[np.bool_] | Words) -> Block:
        """Some of the rows."""
        return Block(self.columns[:, kept], self.counts[kept])

    def known(self, bound: Bound) -> Block:
        """The rows that agree with what is known."""
        if not bound or not len(self.counts):
            return self
        kept = np.ones(len(self.counts), dtype=np.bool_)
        for column, code in bound.items():
            kept &= self.columns[column] == code
        return self.where(kept)

    def bag(self) -> Bag:
        """The rows with their counts added up."""
        found: Bag = {}
        rows = zip(*self.columns.tolist(), strict=True) if len(self.columns) else iter([()] * len(self.counts))
        for row, n in zip(rows, self.counts.tolist(), strict=True):
            found[row] = found.get(row, 0) + n
        return {row: n for row, n in found.items() if n}


def nothing(width: int) -> Block:
    """No rows."""
    return Block(np.empty((width, 0), dtype=np.int64), np.empty(0, dtype=np.int64))


class Blocks:
    """Plans outside loops as blocks."""

    def __init__(self, contents: Contents) -> None:
        self.contents = contents
        self._known: dict[tuple[int, tuple[tuple[int, int], ...]], tuple[plan.Node, Block]] = {}

    def forget(self) -> None:
        """Forget what was found so far."""
        self._known.clear()

    def of(self, node: plan.Node, bound: Bound) -> Block:
        """The rows of a plan that agree with what is known."""
        key = (id(node), tuple(sorted(bound.items())))
        if key not in self._known:
            self._known[key] = (node, self._made(node, bound))
        return self._known[key][1]

    def _made(self, node: plan.Node, bound: Bound) -> Block:
        kept = self.contents.access.block(node, bound)
        if kept is not None:
            return Block(*kept)
        if isinstance(node, plan.Project | plan.Filter):
            return self._linear(node, bound)
        if isinstance(node, plan.Union):
            parts = [self.of(i, bound) for i in node.inputs]
            return Block(np.hstack([p.columns for p in parts]), np.hstack([p.counts for p in parts]))
        if isinstance(node, plan.Negate):
            below = self.of(node.child, bound)
            return Block(below.columns, -below.counts)
        if isinstance(node, plan.Join):
            return self._join(node, bound)
        bag = self.contents.rows(node, {}, bound)
        if not bag:
            return nothing(len(node.types))
        columns = np.array(list(bag), dtype=np.int64).reshape(len(bag), len(node.types)).T
        return Block(np.ascontiguousarray(columns), np.fromiter(bag.values(), np.int64, len(bag)))

    def _linear(self, node: plan.Project | plan.Filter, bound: Bound) -> Block:
        interner = self.contents.interner
        further = linear.below(node, bound, interner)
        if further is None:
            return nothing(len(node.types))
        child = self.of(node.child, further)
        if not len(child.counts):
            return nothing(len(node.types))
        if isinstance(node, plan.Filter):
            return child.where(evaluate((), node.predicate, child.columns, interner).kept)
        if linear.is_plain(node):
            places = [e.index for e in node.exprs if isinstance(e, ColumnRef)]
            return Block(child.columns[places], child.counts).known(bound)
        made = evaluate(node.exprs, None, child.columns, interner)
        return Block(made.codes, child.counts[made.kept]).known(bound)

    def _join(self, node: plan.Join, bound: Bound) -> Block:
        """The side of which less has to be looked at first; then the other, by its keys if they are few."""
        width = len(node.types)
        order = self.contents.join_order(node, {}, bound)
        if order is None:
            return nothing(width)
        first, sides, looked_up = order
        nodes, keys = (node.left, node.right), (node.left_keys, node.right_keys)
        one = self.of(nodes[first], sides[first])
        if not len(one.counts):
            return nothing(width)
        other = 1 - first
        few = bool(keys[first]) and looked_up(CHEAPER * len(np.unique(one.columns[keys[first][0]])))
        if few:
            wanted = np.unique(one.columns[list(keys[first])], axis=1)
            two = self._looked_up(nodes[other], sides[other], keys[other], wanted)
        else:
            two = self.of(nodes[other], sides[other])
        left, right = (one, two) if first == 0 else (two, one)
        return self._pairs(node, left, right)

    def _looked_up(self, node: plan.Node, bound: Bound, keys: tuple[int, ...], wanted: Words) -> Block:
        parts = []
        for key in wanted.T.tolist():
            known = dict(bound)
            if all(known.setdefault(c, code) == code for c, code in zip(keys, key, strict=True)):
                parts.append(self.of(node, known))
        if not parts:
            return nothing(len(node.types))
        return Block(np.hstack([p.columns for p in parts]), np.hstack([p.counts for p in parts]))

    def _pairs(self, node: plan.Join, left: Block, right: Block) -> Block:
        """Rows with equal keys: found by the first key, compared by the others."""
        if not len(left.counts) or not len(right.counts):
            return nothing(len(node.types))
        if node.left_keys:
            l_key, r_key = node.left_keys[0], node.right_keys[0]
            order = np.argsort(right.columns[r_key], kind="stable")
            ordered = right.columns[r_key][order]
            low = np.searchsorted(ordered, left.columns[l_key], side="left")
            many = np.searchsorted(ordered, left.columns[l_key], side="right") - low
        else:
            order = np.arange(len(right.counts))
            low = np.zeros(len(left.counts), dtype=np.int64)
            many = np.full(len(left.counts), len(right.counts))
        if int(many.sum()) > MOST_PAIRS:
            raise TooMany
        at_left = np.repeat(np.arange(len(many)), many)
        within = np.arange(len(at_left)) - np.repeat(np.cumsum(many) - many, many)
        at_right = order[np.repeat(low, many) + within]
        kept = np.ones(len(at_left), dtype=np.bool_)
        for l, r in zip(node.left_keys, node.right_keys, strict=True):
            codes = left.columns[l][at_left]
            kept &= codes == right.columns[r][at_right]
            if node.left.types[l].nullable and node.right.types[r].nullable:
                kept &= codes != NULL
        at_left, at_right = at_left[kept], at_right[kept]
        columns = np.vstack([left.columns[:, at_left], right.columns[:, at_right]])
        return Block(columns, left.counts[at_left] * right.counts[at_right])


class TooMany(Exception):
    """A join has more rows than are worth having at once."""
