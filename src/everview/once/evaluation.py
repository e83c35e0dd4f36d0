"""Evaluates a whole plan: each node once, only the columns needed, freed after its last reader."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from everview.cancellation import poll
from everview.codes.codec import Codec
from everview.codes.interner import Interner
from everview.once import demand, early_limit, hash_joins, row_order
from everview.once.demand import Demand, Match
from everview.once.early_limit import Early
from everview.once.expressions import filtered, projected
from everview.once.leaves import Batch, scanned
from everview.once.row_groups import consolidated, distinct, reduced
from everview.once.rows import Column, Rows, Words, check_weights, together
from everview.plan import nodes as plan


@dataclass(frozen=True)
class Leaf:
    """Stored rows: batches of an arrangement with this column order, at a time."""

    batches: list[Batch]
    order: tuple[int, ...]
    time: int

    def rows(self, wanted: set[int]) -> Rows:
        """Some columns of all rows."""
        return scanned(self.batches, self.order, sorted(wanted), self.time)


Leaves = Callable[[plan.Node], Leaf | None]
"""The stored rows of a node; None if there are none."""


class Question:
    """A plan to be evaluated: stored rows are read (`fetch`), then the rest is computed (`answer`).

    Raises `Elsewhere` immediately if it cannot be evaluated here. Reading requires the session's turn, or a step that
    lends its committed state; computing requires neither if what was read is a copy.
    """

    def __init__(self, root: plan.Node, leaves: Leaves, interner: Interner) -> None:
        self._root = root
        self._interner = interner
        self._kept: dict[plan.Node, Leaf] = {}
        self._asked = demand.demanded(root, lambda node: leaves(node) is not None)
        for node in self._asked.order:
            leaf = leaves(node)
            if leaf is not None:
                self._kept[node] = leaf
        self._fetched: dict[plan.Node, Rows] = {}
        self._complete: Words | None = None
        """the result, if a part of the stored rows was enough"""

    @property
    def early(self) -> Early | None:
        """How a LIMIT allows an early stop, if it does."""
        return early_limit.found(self._root, lambda n: self._kept[n].order if n in self._kept else None, self._interner)

    def fetch(self, *, copied: bool) -> None:
        """Read the stored rows; `copied`: so that they survive any change of the session."""
        if (stop := self.early) is not None and len(self._kept) == 1:
            self._stop_early(stop)
            return
        for node, leaf in self._kept.items():
            rows = leaf.rows(self._asked.wanted[node])
            self._fetched[node] = _copied(rows) if copied else rows

    def _stop_early(self, stop: Early) -> None:
        """Compute the result from as little as possible."""
        leaf = self._kept[stop.leaf]
        for value, _ in stop.parts(leaf.batches):
            some = Leaf([early_limit.up_to(b, value) for b in leaf.batches], leaf.order, leaf.time)
            self._fetched = {stop.leaf: some.rows(self._asked.wanted[stop.leaf])}
            found = self._computed(lambda words: None)
            if value is None or found.shape[1] >= stop.enough:
                self._complete = found
                return

    def answer(self, may_go_on: Callable[[int], None] = lambda words: None) -> Words:
        """The rows as columns of codes, in the order of an arrangement. `may_go_on` is called periodically with the
        number of words held, and may raise.
        """
        return self._computed(may_go_on) if self._complete is None else self._complete

    def _computed(self, may_go_on: Callable[[int], None]) -> Words:
        asked, held, left = self._asked, self._fetched, dict(self._asked.readers)
        computing = _Answering(asked, self._interner, held)
        for node in reversed(asked.order):
            poll()
            if node not in self._kept:
                held[node] = computing.rows(node)
            may_go_on(sum(rows.size() for rows in held.values()))
            for child in asked.inputs(node, self._kept.__contains__):
                left[child] -= 1
                if not left[child]:
                    held.pop(child, None)
        return row_order.in_code_order(row_order.repeated(held[self._root], range(len(self._root.types))))


def _copied(rows: Rows) -> Rows:
    columns = {number: Column(column.words().copy()) for number, column in rows.columns.items()}
    return Rows(rows.count, columns, None if rows.weights is None else rows.weights.copy())


class _Answering:
    """The rows of one node, from those of its inputs."""

    def __init__(self, asked: Demand, interner: Interner, held: dict[plan.Node, Rows]) -> None:
        self.asked = asked
        self.interner = interner
        self.held = held

    def rows(self, node: plan.Node) -> Rows:
        """The wanted columns of a node's rows."""
        wanted = self.asked.wanted[node]
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
            return row_order.top(node, held[node.child], interner).only(wanted)
        assert isinstance(node, plan.Constant)
        return self._constant(node, wanted)

    def _joined(self, node: plan.Join, wanted: set[int]) -> Rows:
        left, right, width = self.held[node.left], self.held[node.right], len(node.left.types)
        types = node.types
        right_keys = [width + k for k in node.right_keys]
        null = [types[a].nullable or types[b].nullable for a, b in zip(node.left_keys, right_keys, strict=True)]
        moved = Rows(right.count, right.moved(width), right.weights)
        return hash_joins.joined(left, moved, node.left_keys, right_keys, null).only(wanted)

    def _matched(self, match: Match, wanted: set[int]) -> Rows:
        left, right = self.held[match.left], self.held[match.right]
        if not right.is_plain():
            right = distinct(right, range(len(match.right.types)))
        found = hash_joins.matched(left, right, match.left_keys, match.right_keys, match.null(), match.if_found)
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
    """The rows with positive multiplicity."""
    return rows if rows.weights is None else rows.take(np.flatnonzero(rows.weights > 0))
