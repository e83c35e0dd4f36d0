"""The oracle's evaluation, with the nodes that its random plans have not: constants and windows.

Windows know every function; of ranges only those up to the last peer.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

from everview.codes.values import with_one_nan
from everview.plan import nodes as plan
from everview.plan.windows import TO_PEERS, Window, WindowCall
from tests.oracle.reference import Bag, Evaluation, Row, Variables, groups, rank


class Whole(Evaluation):
    """Of every plan that SQL makes. All NaNs are one, so that rows with them can be found and grouped."""

    def _compute(self, node: plan.Node, variables: Variables) -> Bag:
        found: Counter[Row] = Counter()
        for row, n in self._rows(node, variables).items():
            found[with_one_nan(row)] += n
        return found

    def _rows(self, node: plan.Node, variables: Variables) -> Bag:
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
    if call.kind in ORDERED:
        return ORDERED[call.kind](call, rows, peers, i)
    seen = [rows[j] for j in _frame(call, rows, peers, i)]
    if call.column is None:
        return len(seen)
    if call.kind in ("first_value", "last_value", "nth_value"):
        place = {"first_value": 0, "last_value": len(seen) - 1, "nth_value": call.number - 1}[call.kind]
        return seen[place][call.column] if 0 <= place < len(seen) else None
    values = [row[call.column] for row in seen if row[call.column] is not None]
    if call.kind == "count":
        return len(values)
    if call.kind == "avg":
        return sum(values) / len(values) if values else None
    return {"sum": sum, "min": min, "max": max}[call.kind](values) if values else None  # type: ignore[operator]


def _frame(call: WindowCall, rows: list[Row], peers: list[Any], i: int) -> list[int]:
    """The places of the rows that a call sees; ranges only up to peers."""
    frame, last = call.frame, len(rows) - 1
    if frame.unit == "rows":
        low = 0 if frame.start is None else i + int(frame.start)
        high = last if frame.end is None else i + int(frame.end)
        return [j for j in range(len(rows)) if low <= j <= high]
    if frame == TO_PEERS:
        return [j for j in range(len(rows)) if not peers[i] < peers[j]]
    assert frame.unit == "groups", f"{frame} is not known here"
    places = {peer: place for place, peer in enumerate(dict.fromkeys(peers))}
    of = [places[peer] for peer in peers]
    low = 0 if frame.start is None else of[i] + int(frame.start)
    high = last if frame.end is None else of[i] + int(frame.end)
    return [j for j in range(len(rows)) if low <= of[j] <= high]


def _beside(call: WindowCall, rows: list[Row], i: int, step: int) -> Any:
    """lag and lead: a row so many before or behind; if there is none, the default of the row itself."""
    assert call.column is not None
    if 0 <= i + step < len(rows):
        return rows[i + step][call.column]
    return None if call.default is None else rows[i][call.default]


def _ntile(call: WindowCall, rows: list[Row], peers: list[Any], i: int) -> int:
    least, more = divmod(len(rows), call.number)
    sizes = [least + 1] * more + [least] * (call.number - more)
    return next(tile for tile in range(1, call.number + 1) if i < sum(sizes[:tile]))


def _rank(peers: list[Any], i: int) -> int:
    return peers.index(peers[i]) + 1


ORDERED: dict[str, Callable[[WindowCall, list[Row], list[Any], int], Any]] = {
    "row_number": lambda call, rows, peers, i: i + 1,
    "rank": lambda call, rows, peers, i: _rank(peers, i),
    "dense_rank": lambda call, rows, peers, i: sum(1 for j in range(i + 1) if j == 0 or peers[j] != peers[j - 1]),
    "percent_rank": lambda call, rows, peers, i: (_rank(peers, i) - 1) / (len(rows) - 1) if len(rows) > 1 else 0.0,
    "cume_dist": lambda call, rows, peers, i: sum(1 for p in peers if not peers[i] < p) / len(rows),
    "ntile": _ntile,
    "lag": lambda call, rows, peers, i: _beside(call, rows, i, -call.number),
    "lead": lambda call, rows, peers, i: _beside(call, rows, i, call.number),
}
