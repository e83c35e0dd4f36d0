"""How many rows a plan has, roughly: known for what is arranged already, guessed from there upwards.

A join's size is a matter of how many rows have the same key. Of a sample of a table's rows, the part of pairs that
agree in a column says just that: with p the chance that two rows agree, a row meets p times all rows. (1/p is the
number of distinct values, if they are equally common.) Where there is no sample, ten rows share a key. An equality
with a constant keeps a tenth, a range a third.

What a join costs is what it makes, and what must be arranged for it: nothing where an arrangement by its keys is there
already, as a table's own often is.

These estimates only choose the order of joins, never an answer.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence

from everview.expr.nodes import Call, ColumnRef, Expr, Literal
from everview.plan import nodes as plan
from everview.plan.deep import Staged
from everview.plan.keys import Keys, unique_columns

Columns = tuple[plan.Node, set[int]]
"""Some columns of a node."""

UNKNOWN = 1000.0
"""Rows of what nothing is known about."""

_KEPT = {"eq": 0.1, "like": 0.1, "lt": 0.33, "le": 0.33, "gt": 0.33, "ge": 0.33, "is_null": 0.1}


class Sizes:
    """Estimates. `known` gives the rows of a node that is arranged, else None; `sample` some codes of a column of one;
    `served` whether one is arranged by some columns.

    >>> from everview.types import INT
    >>> t, u = plan.Table(0, (INT, INT)), plan.Table(1, (INT, INT), key=(0,))
    >>> sizes = Sizes({t: 5000, u: 100}.get, lambda node, column: [i % 10 for i in range(100)])
    >>> sizes.rows(plan.Join(t, u, (1,), (0,))), round(sizes.rows(plan.Join(u, t, (0,), (1,))))
    (5000.0, 5000)
    """

    def __init__(
        self,
        known: Callable[[plan.Node], float | None],
        sample: Callable[[plan.Node, int], Sequence[int]] = lambda node, column: (),
        served: Callable[[plan.Node, set[int]], bool] = lambda node, keys: False,
    ) -> None:
        self.known = known
        self.sample = sample
        self.served = served
        self._made: dict[plan.Node, float] = {}
        self._counted = Staged(self._known_or_guessed, self._made.__contains__)
        self._values: dict[tuple[plan.Node, int], float] = {}
        self._keys: dict[plan.Node, Keys] = {}

    def rows(self, node: plan.Node) -> float:
        """About how many rows a node has."""
        if node not in self._made:
            self._made[node] = self._counted(node)
        return self._made[node]

    def joined(self, left: float, right: plan.Node, keys: set[int], partner: Columns | None) -> float:
        """Rows of a join of `left` rows with a node by some of its columns; `partner` are the same columns on the left,
        if they all belong to one node there.
        """
        if not keys:
            return left * self.rows(right)
        values = self.values(right, keys)
        if partner is not None and not self.unique(right, keys):
            if self.unique(*partner):
                values = self.values(*partner)  # every row on the right has a partner among those
            elif len(keys) > 1:
                values = min(values, self.values(*partner))  # several columns go together, more than values() knows
        return left * self.rows(right) / max(values, 1.0)

    def arranging(self, node: plan.Node, keys: set[int]) -> float:
        """Rows to arrange before a node can be joined by these columns."""
        return 0.0 if self.served(node, keys) else self.rows(node)

    def values(self, node: plan.Node, columns: set[int]) -> float:
        """About how many values some columns of a node have, before filters: those that a partner may have."""
        below, at = _below(node, columns)
        rows = self.rows(below)
        if len(at) < len(columns):
            return max(rows / 10.0, 1.0)
        if self._identify(below, set(at.values())):
            return rows
        # columns of one key often go together: each further one counts less
        several = sorted((self._distinct(below, c, rows) for c in set(at.values())), reverse=True)
        return min(float(math.prod(n ** (0.5**i) for i, n in enumerate(several))), rows)

    def unique(self, node: plan.Node, columns: set[int]) -> bool:
        """Whether some columns of a node identify a row."""
        below, at = _below(node, columns)
        return bool(columns) and self._identify(below, set(at.values()))

    def _identify(self, node: plan.Node, columns: set[int]) -> bool:
        if node not in self._keys:
            self._keys[node] = unique_columns(node)
        return any(key <= columns for key in self._keys[node])

    def _distinct(self, node: plan.Node, column: int, rows: float) -> float:
        if (node, column) not in self._values:
            codes = self.sample(node, column)
            self._values[node, column] = distinct_values(Counter(codes), rows)
        return self._values[node, column]

    def _known_or_guessed(self, node: plan.Node) -> float:
        found = self.known(node)
        return float(found) if found is not None else self._guess(node)

    def _guess(self, node: plan.Node) -> float:
        match node:
            case plan.Constant():
                return float(len(node.rows))
            case plan.Filter():
                return self.rows(node.child) * kept(node.predicate)
            case plan.Project() | plan.Negate() | plan.Guard() | plan.Threshold() | plan.FlatMap():
                return self.rows(node.child)
            case plan.Reduce() | plan.PythonReduce():
                return max(1.0, self.rows(node.child) / 10.0) if node.keys else 1.0
            case plan.TopK():
                return min(self.rows(node.child), float(node.limit) * (UNKNOWN if node.keys else 1.0))
            case plan.Union():
                return sum(self.rows(i) for i in node.inputs if not isinstance(i, plan.Negate))
            case plan.Join():
                left = (node.left, set(node.left_keys))
                return self.joined(self.rows(node.left), node.right, set(node.right_keys), left)
        return UNKNOWN


def distinct_values(sample: Counter[int], rows: float) -> float:
    """About how many values a column of so many rows has, by how often those of a sample are equal; a tenth, without.

    >>> distinct_values(Counter({1: 50, 2: 50}), 1000) < 2.1, distinct_values(Counter(range(100)), 1000)
    (True, 1000)
    """
    size = sample.total()
    if size < 2:
        return max(rows / 10.0, 1.0)
    equal = sum(n * (n - 1) / 2 for n in sample.values())
    return min(size * (size - 1) / 2 / max(equal, 0.5), rows)


def _below(node: plan.Node, columns: set[int]) -> tuple[plan.Node, dict[int, int]]:
    """What is below a node's filters and projections, and where columns are there, as far as they are columns."""
    at = {c: c for c in columns}
    while isinstance(node, (plan.Filter, plan.Project)):
        if isinstance(node, plan.Project):
            exprs = node.exprs
            at = {c: e.index for c, i in at.items() if isinstance(e := exprs[i], ColumnRef)}
        node = node.child
    return node, at


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
