"""Describes each step of a plan in words.

`explain` numbers unnamed columns: c0, c1. A sentence about one step stands alone and cannot. Here an unnamed column is
called by what a step above makes of it (`SELECT sum(x) AS total` names the sum below it), else by its expression
(`sum(x)`), else by its position.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from everview.expr.nodes import ColumnRef
from everview.plan.check import postorder
from everview.plan.explain import Explainer, Names, aggregate_text, call_text, describe
from everview.plan.nodes import (
    Filter,
    Guard,
    Join,
    Loop,
    LoopResult,
    Negate,
    Node,
    Project,
    Reduce,
    Threshold,
    TopK,
    Union,
    Variable,
)
from everview.plan.windows import Window


def texts(node: Node, names: Names, labels: Mapping[Node, str]) -> dict[Node, str]:
    """The operation at each node of a plan, without its inputs.

    >>> from everview.plan.nodes import Aggregate, Table
    >>> from everview.types import INT
    >>> table = Table(0, (INT,))
    >>> total = Reduce(table, (), (Aggregate("sum", 0, INT),))
    >>> found = texts(total, {table: ["x"]}, {})
    >>> found[table], found[total]
    ('Table 0 (x int)', 'Reduce: sum(x)')
    >>> texts(total, {table: ["x"], total: ["all"]}, {})[total]
    'Reduce: all = sum(x)'
    """
    wording = _Wording(node, names, labels)
    for _ in wording.lines([node]):
        pass
    return wording.texts


LONGEST = 60
"""Maximum length of an expression that stands for a column's name."""


def shortened(text: str) -> str:
    """A column's expression, shortened: a standard deviation is pages of sums of parts.

    >>> shortened("price * 2"), len(shortened("price + " * 1000))
    ('price * 2', 60)
    """
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 2].rstrip()} …"[:LONGEST]


class _Wording(Explainer):
    def __init__(self, node: Node, names: Names, labels: Mapping[Node, str]) -> None:
        super().__init__(node, names, labels)
        self._above: dict[Node, dict[int, str]] = {}
        for each in reversed(list(postorder(node))):
            self._hand_down(each)

    def _hand_down(self, node: Node) -> None:
        """Propagate the names of a node's columns to those below."""
        names = dict(enumerate(self.known[node])) if node in self.known else self._above.get(node, {})
        match node:
            case Project():
                places = {c: e.index for c, e in enumerate(node.exprs) if isinstance(e, ColumnRef)}
                self._name(node.child, {places[c]: name for c, name in names.items() if c in places})
            case Filter() | Negate() | Guard() | Threshold() | TopK():
                self._name(node.child, names)
            case Union():
                for child in node.inputs:
                    self._name(child, names)
            case Join():
                width = len(node.left.types)
                self._name(node.left, {c: name for c, name in names.items() if c < width})
                self._name(node.right, {c - width: name for c, name in names.items() if c >= width})
            case Window():
                self._name(node.child, {c: name for c, name in names.items() if c < len(node.child.types)})
            case Reduce():
                self._name(node.child, {node.keys[c]: name for c, name in names.items() if c < len(node.keys)})
            case LoopResult():
                self._name_loop(node.loop, node.index, names)

    def _name_loop(self, loop: Loop, index: int, names: dict[int, str]) -> None:
        self._name(loop.bodies[index], names)
        for each in postorder(*loop.bodies):
            if isinstance(each, Variable) and (each.depth, each.index) == (loop.depth, index):
                self._name(each, names)

    def _name(self, node: Node, names: dict[int, str]) -> None:
        self._above[node] = {**names, **self._above.get(node, {})}

    def keys(self, join: Join) -> Iterator[list[str]]:
        for node, keys in ((join.left, join.left_keys), (join.right, join.right_keys)):
            whose = f"{self.labels[node]}." if node in self.labels else ""
            yield [f"{whose}{self.columns[node][k]}" for k in keys]

    def detail(self, node: Node) -> str:
        return "" if isinstance(node, Variable | LoopResult) else super().detail(node)

    def made_up(self, node: Node) -> list[str]:
        made = [f"column {i + 1}" for i in range(len(node.types))]
        below = self.columns.get(node.children()[0], []) if node.children() else []
        match node:
            case Project():
                made = [shortened(describe(e, below)) for e in node.exprs]
            case Reduce():
                made[len(node.keys) :] = [aggregate_text(a, below) for a in node.aggregates]
            case Window():
                made[len(below) :] = [call_text(c, below) for c in node.calls]
        for column, name in self._above.get(node, {}).items():
            made[column] = name
        return made
