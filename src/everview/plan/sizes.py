"""How many rows a plan has, roughly: known for what is arranged already, guessed from there upwards.

The guesses are the usual ones (an equality with a constant keeps a tenth, a range a third, a join on a key as many
rows as its other side). They only choose the order of joins, never an answer.
"""

from __future__ import annotations

from collections.abc import Callable

from everview.expr.nodes import Call, ColumnRef, Expr, Literal
from everview.plan import nodes as plan
from everview.plan.keys import unique_columns

UNKNOWN = 1000.0
"""Rows of what nothing is known about."""

_KEPT = {"eq": 0.1, "like": 0.1, "lt": 0.33, "le": 0.33, "gt": 0.33, "ge": 0.33, "is_null": 0.1}


class Sizes:
    """Estimates; `known` gives the rows of a node that is arranged, else None.

    >>> from everview.types import INT
    >>> t, u = plan.Table(0, (INT, INT)), plan.Table(1, (INT, INT), key=(0,))
    >>> sizes = Sizes({t: 5000, u: 100}.get)
    >>> sizes.rows(plan.Join(t, u, (1,), (0,))), sizes.rows(plan.Join(t, t, (1,), (0,)))
    (5000.0, 50000.0)
    """

    def __init__(self, known: Callable[[plan.Node], float | None]) -> None:
        self.known = known
        self._made: dict[plan.Node, float] = {}

    def rows(self, node: plan.Node) -> float:
        """About how many rows a node has."""
        if node not in self._made:
            found = self.known(node)
            self._made[node] = float(found) if found is not None else self._guess(node)
        return self._made[node]

    def joined(self, left: float, right: plan.Node, keys: set[int]) -> float:
        """Rows of a join of `left` rows with a node by some of its columns."""
        rows = self.rows(right)
        if any(key <= keys for key in unique_columns(right)):
            return min(left, left * max(rows, 1.0) / max(self._unfiltered(right), 1.0))
        distinct = max(rows / 10.0, 1.0)
        return left * rows / distinct if keys else left * rows

    def _unfiltered(self, node: plan.Node) -> float:
        while isinstance(node, (plan.Filter, plan.Project)):
            node = node.child
        return self.rows(node)

    def _guess(self, node: plan.Node) -> float:
        match node:
            case plan.Filter():
                return self.rows(node.child) * kept(node.predicate)
            case plan.Project() | plan.Negate() | plan.Threshold() | plan.FlatMap():
                return self.rows(node.child)
            case plan.Reduce() | plan.PythonReduce():
                return max(1.0, self.rows(node.child) / 10.0) if node.keys else 1.0
            case plan.TopK():
                return min(self.rows(node.child), float(node.limit) * (UNKNOWN if node.keys else 1.0))
            case plan.Union():
                return sum(self.rows(i) for i in node.inputs if not isinstance(i, plan.Negate))
            case plan.Join():
                return self.joined(self.rows(node.left), node.right, set(node.right_keys))
        return UNKNOWN


def kept(predicate: Expr) -> float:
    """The part of the rows that a condition keeps."""
    if isinstance(predicate, Literal):
        return 1.0 if predicate.value else 0.0
    if not isinstance(predicate, Call):
        return 0.33
    parts = [kept(a) for a in predicate.args] if predicate.op in ("and", "or", "not") else []
    if predicate.op == "and":
        return parts[0] * parts[1]
    if predicate.op == "or":
        return min(1.0, parts[0] + parts[1])
    if predicate.op == "not":
        return 1.0 - parts[0]
    if predicate.op == "eq" and all(isinstance(a, ColumnRef) for a in predicate.args):
        return 0.1
    return _KEPT.get(predicate.op, 0.33)
