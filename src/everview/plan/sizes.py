"""Cardinality estimates: exact for what is arranged, estimated from there upwards.

The size of a join depends on how many rows share a key, which a sample of a table's rows shows: with p the probability
that two rows agree, a row matches p times all rows. (1/p is the number of distinct values, if they are equally common.)
Without a sample, ten rows are assumed to share a key. An equality with a constant keeps a tenth, a range a third.

The cost of a join is its output, plus what must be arranged for it: nothing if an arrangement by its keys exists, as a
table's own often does.

These estimates only affect the order of joins, never a result.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence

from everview.expr.nodes import Call, ColumnRef, Expr, Literal
from everview.plan import nodes as plan
from everview.plan.deep_recursion import Staged
from everview.plan.keys import Keys, unique_columns

Columns = tuple[plan.Node, set[int]]
"""Some columns of a node."""

UNKNOWN = 1000.0
"""Assumed size of unknown relations."""

_KEPT = {"eq": 0.1, "like": 0.1, "lt": 0.33, "le": 0.33, "gt": 0.33, "ge": 0.33, "is_null": 0.1}


class Sizes:
    """Estimates. `known` returns the rows of an arranged node, else None; `sample` some codes of a column of one;
    `served` whether it is arranged by some columns.

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
        """The estimated number of rows of a node."""
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
                values = self.values(*partner)  # every row on the right has a match among those
            elif len(keys) > 1:
                values = min(values, self.values(*partner))  # several columns go together, more than values() knows
        return left * self.rows(right) / max(values, 1.0)

    def arranging(self, node: plan.Node, keys: set[int]) -> float:
        """Rows to arrange before a node can be joined by these columns."""
        return 0.0 if self.served(node, keys) else self.rows(node)

    def values(self, node: plan.Node, columns: set[int]) -> float:
        """The estimated number of distinct values of some columns of a node, before filters."""
        below, at = _below(node, columns)
        rows = self.rows(below)
        if len(at) < len(columns):
            return max(rows / 10.0, 1.0)
        if self._identify(below, set(at.values())):
            return rows
        # columns of one key are often correlated: each further one counts less
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
    """The estimated number of distinct values of a column, from how often values of a sample are equal; a tenth of the
    rows, without a sample.

    >>> distinct_values(Counter({1: 50, 2: 50}), 1000) < 2.1, distinct_values(Counter(range(100)), 1000)
    (True, 1000)
    """
    size = sample.total()
    if size < 2:
        return max(rows / 10.0, 1.0)
    equal = sum(n * (n - 1) / 2 for n in sample.values())
    return min(size * (size - 1) / 2 / max(equal, 0.5), rows)


def _below(node: plan.Node, columns: set[int]) -> tuple[plan.Node, dict[int, int]]:
    """The input of a node's filters and projections, and the columns there, as far as they are plain columns."""
    at = {c: c for c in columns}
    while isinstance(node, (plan.Filter, plan.Project)):
        if isinstance(node, plan.Project):
            exprs = node.exprs
            at = {c: e.index for c, i in at.items() if isinstance(e := exprs[i], ColumnRef)}
        node = node.child
    return node, at


def kept(predicate: Expr) -> float:
    """The fraction of rows that a condition keeps."""
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
