"""The oracle's evaluation, with the nodes that its random plans have not: constants and windows.

Windows know the functions that depend on the order only (row_number, rank, dense_rank) and aggregates over a partition,
or up to the last peer.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from everview.plan import nodes as plan
from everview.plan.windows import WHOLE, Window, WindowCall
from tests.oracle.reference import Bag, Evaluation, Row, Variables, groups, rank


class Whole(Evaluation):
    """Of every plan that SQL makes."""

    def _compute(self, node: plan.Node, variables: Variables) -> Bag:
        match node:
            case plan.Constant():
                return Counter(tuple(row) for row in node.rows)
            case Window():
                found: Counter[Row] = Counter()
                for group in groups(self._bag(node.child, variables), node.keys).values():
                    for row, n in windowed(node, group):
                        found[row] += n
                return found
        return super()._compute(node, variables)


def windowed(node: Window, group: Bag) -> list[tuple[Row, int]]:
    """The rows of a partition with their further columns; each copy of a row by itself."""
    order = [(c, descending) for c, descending in node.order]
    rows = [row for row, n in group.items() for _ in range(n)]
    rows.sort(key=lambda row: (tuple(rank(row[c], d) for c, d in order), tuple(rank(v, False) for v in row)))
    peers = [tuple(rank(row[c], d) for c, d in order) for row in rows]
    return [((*row, *(_call(call, rows, peers, i) for call in node.calls)), 1) for i, row in enumerate(rows)]


def _call(call: WindowCall, rows: list[Row], peers: list[Any], i: int) -> Any:
    if call.kind == "row_number":
        return i + 1
    if call.kind == "rank":
        return peers.index(peers[i]) + 1
    if call.kind == "dense_rank":
        return sum(1 for j in range(i + 1) if j == 0 or peers[j] != peers[j - 1])
    seen = rows if call.frame == WHOLE else [row for row, peer in zip(rows, peers, strict=True) if not peers[i] < peer]
    if call.column is None:
        return len(seen)
    values = [row[call.column] for row in seen if row[call.column] is not None]
    if call.kind == "count":
        return len(values)
    return {"sum": sum, "min": min, "max": max}[call.kind](values) if values else None  # type: ignore[operator]
