"""Evaluates plans on whole columns, for large reads.

`everview.why.contents` processes rows one by one, which is fast for the few that lead to one row and slow for all rows
of a table. Loop-invariant projections, filters and joins are computed on columns (`everview.why.column_blocks`) if many
rows are involved; the result is a bag again.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from everview.expr.nodes import ColumnRef
from everview.plan import nodes as plan
from everview.types import NULL
from everview.why import linear
from everview.why.column_blocks import Bag, Block, Bound, Words, nothing, stacked

if TYPE_CHECKING:
    from everview.why.contents import Contents

SINGLE_ROW_COST = 20
"""The cost ratio of reading a single row to reading one among many."""

MOST_PAIRS = 5_000_000
"""Maximum number of rows of a join here."""


class BulkReads:
    """Plans outside loops as blocks."""

    def __init__(self, contents: Contents) -> None:
        self.contents = contents
        self._known: dict[tuple[int, tuple[tuple[int, int], ...]], tuple[plan.Node, Block]] = {}

    def forget(self) -> None:
        """Clear the cache."""
        self._known.clear()

    def of(self, node: plan.Node, bound: Bound) -> Block:
        """The rows of a plan that agree with what is known."""
        key = (id(node), tuple(sorted(bound.items())))
        if key not in self._known:
            self._known[key] = (node, self._made(node, bound))
        return self._known[key][1]

    def grouping(self, node: plan.Reduce, bound: Bound) -> tuple[plan.Reduce, Bag]:
        """A reduction over only the columns that it reads, and its rows."""
        read = sorted({*node.keys, *(a.column for a in node.aggregates if a.column is not None)})
        at = {c: i for i, c in enumerate(read)}
        keys = tuple(at[k] for k in node.keys)
        aggregates = tuple(a if a.column is None else replace(a, column=at[a.column]) for a in node.aggregates)
        child = plan.Project(node.child, tuple(ColumnRef(node.child.types[c], c) for c in read))
        return plan.Reduce(child, keys, aggregates), self.of(node.child, bound).choose(read).bag()

    def _made(self, node: plan.Node, bound: Bound) -> Block:
        kept = self.contents.access.block(node, bound)
        if kept is not None:
            return kept
        if isinstance(node, plan.Project | plan.Filter):
            return self._linear(node, bound)
        if isinstance(node, plan.Union):
            return stacked([self.of(i, bound) for i in node.inputs], len(node.types))
        if isinstance(node, plan.Negate):
            return self.of(node.child, bound).negated()
        if isinstance(node, plan.Join):
            return self._join(node, bound)
        return Block.of_bag(self.contents.rows(node, {}, bound), len(node.types))

    def _linear(self, node: plan.Project | plan.Filter, bound: Bound) -> Block:
        interner = self.contents.interner
        further = linear.below(node, bound, interner)
        if further is None:
            return nothing(len(node.types))
        child = self.of(node.child, further)
        if not len(child):
            return nothing(len(node.types))
        if isinstance(node, plan.Filter):
            one = linear.narrow(node, interner)
            return child.where(one.run(child.matrix(one.read)).kept)
        if linear.is_plain(node):
            return child.choose(e.index for e in node.exprs if isinstance(e, ColumnRef)).known(bound)
        one = linear.narrow(node, interner)
        made = one.run(child.matrix(one.read))
        return Block.of(made.codes, child.counts[made.kept]).known(bound)

    def _join(self, node: plan.Join, bound: Bound) -> Block:
        """The cheaper side first; then the other, by its keys if they are few."""
        width = len(node.types)
        order = self.contents.join_order(node, {}, bound)
        if order is None:
            return nothing(width)
        first, sides, looked_up = order
        nodes, keys = (node.left, node.right), (node.left_keys, node.right_keys)
        one = self.of(nodes[first], sides[first])
        if not len(one):
            return nothing(width)
        other = 1 - first
        few = bool(keys[first]) and looked_up(SINGLE_ROW_COST * len(np.unique(one.column(keys[first][0]))))
        if few:
            wanted = np.unique(one.matrix(keys[first]), axis=1)
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
        return stacked(parts, len(node.types))

    def _pairs(self, node: plan.Join, left: Block, right: Block) -> Block:
        """Rows with equal keys: matched by the first key, compared by the others."""
        if not len(left) or not len(right):
            return nothing(len(node.types))
        if node.left_keys:
            codes = right.column(node.right_keys[0])
            order = np.argsort(codes, kind="stable")
            ordered, wanted = codes[order], left.column(node.left_keys[0])
            low = np.searchsorted(ordered, wanted, side="left")
            many = np.searchsorted(ordered, wanted, side="right") - low
        else:
            order = np.arange(len(right))
            low = np.zeros(len(left), dtype=np.int64)
            many = np.full(len(left), len(right))
        if int(many.sum()) > MOST_PAIRS:
            raise TooMany
        at_left = np.repeat(np.arange(len(many)), many)
        within = np.arange(len(at_left)) - np.repeat(np.cumsum(many) - many, many)
        at_right = order[np.repeat(low, many) + within]
        kept = np.ones(len(at_left), dtype=np.bool_)
        for l, r in zip(node.left_keys, node.right_keys, strict=True):
            codes = left.column(l)[at_left]
            kept &= codes == right.column(r)[at_right]
            if node.left.types[l].nullable and node.right.types[r].nullable:
                kept &= codes != NULL
        at_left, at_right = at_left[kept], at_right[kept]
        pairs = left.where(at_left), right.where(at_right)
        return pairs[0].beside(pairs[1], pairs[0].counts * pairs[1].counts)


class TooMany(Exception):
    """A join has too many rows to compute at once."""
