"""A whole plan's rows, now: each node once, as far as it is read, forgotten when its last reader is done."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from everview.codes.codec import Codec
from everview.codes.interner import Interner
from everview.errors import out_of_memory
from everview.once import demand, joining, ordering
from everview.once.demand import Demand, Match
from everview.once.expressions import filtered, projected
from everview.once.grouping import consolidated, distinct, reduced
from everview.once.leaves import Batch, scanned
from everview.once.rows import Column, Rows, Words, check_weights, together
from everview.plan import nodes as plan
from everview.stopping import poll


@dataclass(frozen=True)
class Leaf:
    """Rows that are kept: batches of an arrangement, whose columns are in this order, at a time."""

    batches: list[Batch]
    order: tuple[int, ...]
    time: int

    def rows(self, wanted: set[int]) -> Rows:
        """Some columns of all rows."""
        return scanned(self.batches, self.order, sorted(wanted), self.time)


Leaves = Callable[[plan.Node], Leaf | None]
"""What is kept of a node; None if nothing is."""


def planned(root: plan.Node, leaves: Leaves) -> Demand:
    """What is to be computed for a question; `Elsewhere` if that cannot be done here. Nothing is computed yet."""
    return demand.demanded(root, lambda node: leaves(node) is not None)


def answer(root: plan.Node, leaves: Leaves, interner: Interner, most_words: int | None = None) -> Words:
    """The rows of a plan as columns of codes, in the order of an arrangement. `most_words`: how much may be held."""
    asked = planned(root, leaves)
    held: dict[plan.Node, Rows] = {}
    left = dict(asked.readers)
    for node in reversed(asked.order):
        poll()
        held[node] = _Answering(asked, leaves, interner, held).rows(node)
        if most_words is not None and sum(rows.size() for rows in held.values()) > most_words:
            raise out_of_memory("the query")
        for child in asked.inputs(node, lambda n: leaves(n) is not None):
            left[child] -= 1
            if not left[child]:
                held.pop(child, None)
    return ordering.in_code_order(ordering.repeated(held[root], range(len(root.types))))


class _Answering:
    """One node's rows, from those of the nodes that it reads."""

    def __init__(self, asked: Demand, leaves: Leaves, interner: Interner, held: dict[plan.Node, Rows]) -> None:
        self.asked = asked
        self.leaves = leaves
        self.interner = interner
        self.held = held

    def rows(self, node: plan.Node) -> Rows:
        """The wanted columns of a node's rows."""
        wanted = self.asked.wanted[node]
        leaf = self.leaves(node)
        if leaf is not None:
            return leaf.rows(wanted)
        match = self.asked.matches.get(node)
        if match is not None:
            return self._matched(match, wanted)
        return self._computed(node, wanted)

    def _computed(self, node: plan.Node, wanted: set[int]) -> Rows:
        held, interner = self.held, self.interner
        if isinstance(node, plan.Project):
            return projected(held[node.child], {c: node.exprs[c] for c in sorted(wanted)}, interner)
        if isinstance(node, plan.Filter):
            return filtered(held[node.child], node.predicate, interner).only(wanted)
        if isinstance(node, plan.Join):
            return self._joined(node, wanted)
        if isinstance(node, plan.Union):
            found = together([held[i] for i in node.inputs], sorted(wanted))
            if found.weights is not None:
                check_weights(found.weights)
            return found
        if isinstance(node, plan.Negate):
            return held[node.child].negated().only(wanted)
        if isinstance(node, plan.Reduce):
            return reduced(node, held[node.child], sorted(wanted), interner)
        if isinstance(node, plan.Threshold):
            return self._threshold(node, wanted)
        if isinstance(node, plan.TopK):
            return ordering.top(node, held[node.child], interner).only(wanted)
        assert isinstance(node, plan.Constant)
        return self._constant(node, wanted)

    def _joined(self, node: plan.Join, wanted: set[int]) -> Rows:
        left, right, width = self.held[node.left], self.held[node.right], len(node.left.types)
        types = node.types
        right_keys = [width + k for k in node.right_keys]
        null = [types[a].nullable or types[b].nullable for a, b in zip(node.left_keys, right_keys, strict=True)]
        moved = Rows(right.count, right.moved(width), right.weights)
        return joining.joined(left, moved, node.left_keys, right_keys, null).only(wanted)

    def _matched(self, match: Match, wanted: set[int]) -> Rows:
        left, right = self.held[match.left], self.held[match.right]
        if not right.is_plain():
            right = distinct(right, range(len(match.right.types)))
        found = joining.matched(left, right, match.left_keys, match.right_keys, match.null(), match.there)
        return found.only(wanted)

    def _threshold(self, node: plan.Threshold, wanted: set[int]) -> Rows:
        rows, columns = self.held[node.child], range(len(node.types))
        if node.kind == "distinct":
            if not rows.is_plain():
                rows = _positive(consolidated(rows, columns))
            return distinct(rows, columns).only(wanted)
        return (rows if rows.is_plain() else _positive(consolidated(rows, columns))).only(wanted)

    def _constant(self, node: plan.Constant, wanted: set[int]) -> Rows:
        names = tuple(f"c{i}" for i in range(len(node.types)))
        codes = Codec(node.types, names, self.interner).encode_rows(node.rows)
        return Rows(len(node.rows), {c: Column(np.ascontiguousarray(codes[c])) for c in wanted})


def _positive(rows: Rows) -> Rows:
    """The rows that are there more often than they were taken away."""
    return rows if rows.weights is None else rows.take(np.flatnonzero(rows.weights > 0))
