"""ASOF joins: each row with the partner valid at its time.

    FROM trade t ASOF [LEFT] JOIN price p ON p.sku = t.sku AND p.at <= t.at

Every distinct row of the left is joined with all partners that satisfy the conditions; of these the first by the time
in the inequality is kept (a maintained top 1, ties broken by the other columns), and the result is joined back to the
left, keeping its multiplicities. A price that arrives late therefore corrects the trades after it.

Hazard: all partners before a row are examined when the row arrives, however old they are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from everview.expr.nodes import Call, Expr
from everview.plan import joins
from everview.plan.nodes import Node, Threshold, TopK

_LATEST = {"ge": True, "gt": True, "le": False, "lt": False}
"""Whether the largest time is the nearest, for `left op right`."""


Split = Callable[[Sequence[Expr], int, str], tuple[joins.Condition, list[Expr]]]
"""Splits conditions into keys and residual; see `everview.sql.select.conditions.split`."""


def joined(
    left: Node, right: Node, conditions: Sequence[Expr], how: str, also: Sequence[Expr], split: Split
) -> Node | None:
    """The join, on conditions over both sides' columns; None if these are not equalities and one inequality."""
    width = len(left.types)
    found = [_nearest(c, width) for c in conditions]
    inequalities = [f for f in found if f is not None]
    equalities = [c for c, f in zip(conditions, found, strict=True) if f is None]
    if len(inequalities) != 1 or not all(isinstance(c, Call) and c.op == "eq" for c in equalities):
        return None
    ((time, latest),) = inequalities
    distinct = Threshold(left, "distinct")
    pairs = joins.inner(distinct, right, split([*conditions, *also], width, "inner")[0])
    below, (at,) = joins.with_columns(pairs, [time])
    nearest = TopK(below, tuple(range(width)), ((at, latest),), 1)
    kept = joins.take(nearest, range(width + len(right.types)))
    keys = [joins.same_keys(a, b) for a, b in zip(joins.refs(left.types), joins.refs(kept.types), strict=False)]
    same = joins.Condition(tuple(k for a, _ in keys for k in a), tuple(k for _, b in keys for k in b))
    back = joins.join(left, kept, same, "left" if how == "left" else "inner")
    return joins.take(back, [*range(width), *range(2 * width, len(back.types))])


def _nearest(condition: Expr, width: int) -> tuple[Expr, bool] | None:
    """The right's time in an inequality between both sides, and whether the largest is wanted."""
    if not isinstance(condition, Call) or condition.op not in _LATEST:
        return None
    a, b = condition.args
    if not a.columns() or not b.columns():
        return None
    if max(a.columns()) < width <= min(b.columns()):
        return b, _LATEST[condition.op]
    if max(b.columns()) < width <= min(a.columns()):
        return a, not _LATEST[condition.op]
    return None
