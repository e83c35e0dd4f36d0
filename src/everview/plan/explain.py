"""A plan as a readable list: one line per node, each sub-plan once, inputs referred to by number.

    r0 := Table edges (src int, dst int)
    r1 := Filter[r0] src > 3
    r2 := Reduce[r1] by src: n = count()

Nodes have no names; `names` supplies the known ones (collections have names), the rest are propagated from below or
made up.
"""

from __future__ import annotations

import html
import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from everview.expr import nodes as expr
from everview.expr.nesting import room_for
from everview.plan.check import free_variables_below, postorder
from everview.plan.frontier import Frontier, StrongLabels
from everview.plan.hot_keys import HotJoin
from everview.plan.nodes import (
    Aggregate,
    Constant,
    Filter,
    FlatMap,
    Join,
    Loop,
    LoopResult,
    MultiJoin,
    Node,
    Project,
    PythonReduce,
    Reduce,
    Table,
    Threshold,
    TopK,
    Variable,
)
from everview.plan.pre_aggregation import Sent
from everview.plan.provenance import Disjunction, Labelled
from everview.plan.windows import TO_PEERS, WHOLE, Window, WindowCall

Names = Mapping[Node, Sequence[str]]

MOST_SHOWN = 3
"""Maximum number of rows shown of a constant."""

_SIGNS = {"add": "+", "sub": "-", "mul": "*", "div": "/", "floordiv": "//", "mod": "%", "pow": "**"}
_SIGNS |= {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">=", "and": "and", "or": "or"}


class Explained(str):
    """A multi-line text that displays verbatim at a prompt and in a notebook.

    >>> Explained("r0 := Table t" + chr(10) + "r1 := Distinct[r0]")
    r0 := Table t
    r1 := Distinct[r0]
    """

    def __repr__(self) -> str:
        return str(self)

    def __str__(self) -> str:
        return str.__str__(self)

    def _repr_html_(self) -> str:
        return preformatted(str(self))


def preformatted(text: str) -> str:
    """Preformatted text for a notebook. Jupyter styles `pre` like prose by default.

    >>> preformatted("a < b")
    '<pre style="font-family:monospace">a &lt; b</pre>'
    """
    return f'<pre style="font-family:monospace">{html.escape(text)}</pre>'


def explain(node: Node, names: Names | None = None, labels: Mapping[Node, str] | None = None) -> str:
    """The plan as text; `labels` are the names of tables.

    >>> from everview.types import INT
    >>> print(explain(Threshold(Table(0, (INT,)), "distinct"), labels={Table(0, (INT,)): "t"}))
    r0 := Table t (c0 int)
    r1 := Distinct[r0]
    """
    return "\n".join(Explainer(node, names or {}, labels or {}).lines([node]))


def numbered(node: Node) -> dict[Node, str]:
    """The numbers that `explain` assigns to the nodes of a plan.

    >>> from everview.types import INT
    >>> numbered(Threshold(Table(0, (INT,)), "distinct"))[Table(0, (INT,))]
    'r0'
    """
    explainer = Explainer(node, {}, {})
    for _ in explainer.lines([node]):
        pass
    return explainer.shown


def describe(e: expr.Expr, names: Sequence[str]) -> str:
    """One expression as text, with these column names.

    >>> from everview.types import BOOL, INT
    >>> describe(expr.Call(BOOL, "gt", (expr.ColumnRef(INT, 0), expr.Literal(INT, 3))), ["x"])
    'x > 3'
    """
    with room_for((e,)):
        return _described(e, names)


def _described(e: expr.Expr, names: Sequence[str]) -> str:
    match e:
        case expr.ColumnRef():
            return names[e.index]
        case expr.Literal():
            return "NULL" if e.value is None else str(e.value) if e.type.kind == "decimal" else repr(e.value)
        case expr.Udf():
            return f"{_name(e.function)}({', '.join([_described(a, names) for a in e.args])})"
        case expr.Call(op=op, args=args) if op in _SIGNS:
            return f" {_SIGNS[op]} ".join([_bracketed(a, names) for a in args])
        case expr.Call(op="case", args=args):
            pairs = zip(args[:-1:2], args[1::2], strict=True)
            branches = " ".join([f"when {_described(c, names)} then {_described(v, names)}" for c, v in pairs])
            return f"case {branches} else {_described(args[-1], names)} end"
        case expr.Call():
            kind = f"cast_{e.type.optional(False)!r}" if e.op == "cast_decimal" else e.op
            return f"{kind}({', '.join([_described(a, names) for a in e.args])})"
    raise TypeError(f"not an expression: {e!r}")


def _bracketed(e: expr.Expr, names: Sequence[str]) -> str:
    text = _described(e, names)
    return f"({text})" if isinstance(e, expr.Call) and e.op in _SIGNS else text


def _name(function: Any) -> str:
    return str(getattr(function, "__name__", None) or repr(function))


class Explainer:
    """Numbers nodes in display order.

    Loop-invariant parts of a body are shown before the loop, where they are computed. A node is therefore shown at its
    *level*: the depth of the deepest loop variable it reads.
    """

    def __init__(self, node: Node, names: Names, labels: Mapping[Node, str]) -> None:
        self.known = names
        self.labels = labels
        self.free = free_variables_below(node)
        self.shown: dict[Node, str] = {}
        self.columns: dict[Node, list[str]] = {}
        self.texts: dict[Node, str] = {}
        self.numbers = itertools.count()

    def lines(self, roots: Sequence[Node], level: int = 0) -> Iterator[str]:
        """Lines for everything below the roots that belongs to the level and was not shown yet."""
        for node in postorder(*roots, skip=self.shown):
            if node in self.shown or max((depth for depth, _ in self.free[id(node)]), default=0) > level:
                continue
            if isinstance(node, Loop):
                yield from self.loop(node, level)
                continue
            self.columns[node] = self.names(node)
            title, detail = _title(node), self.detail(node)
            text = f"{title}{self.inputs(node)}{detail}"
            self.texts[node] = f"{title}{detail}"
            self.shown[node] = f"r{next(self.numbers)}"
            yield f"{'  ' * level}{self.shown[node]} := {text}"

    def loop(self, loop: Loop, level: int) -> Iterator[str]:
        """The loop's line, then its body, which is forgotten afterwards: another loop's variable may be equal."""
        starts = ", ".join("nothing" if i is None else self.shown[i] for i in loop.initials)
        number = f"r{next(self.numbers)}"
        yield f"{'  ' * level}{number} := Loop from {starts}{self.limits(loop)}"
        before = dict(self.shown)
        yield from self.lines(loop.bodies, level + 1)
        yield f"{'  ' * (level + 1)}again with {', '.join(self.shown[b] for b in loop.bodies)}"
        self.shown = {**before, loop: number}

    def limits(self, loop: Loop) -> str:
        text = f", at most {loop.max_rounds} rounds then {loop.at_limit}" if loop.max_rounds is not None else ""
        if loop.priority is not None and loop.initials[0] is not None:
            text += f", {'queued by' if loop.queued else 'priority'} "
            text += describe(loop.priority, self.columns[loop.initials[0]])
        return text

    def inputs(self, node: Node) -> str:
        children = [self.shown[c] for c in node.children()]
        return f"[{', '.join(children)}]" if children else ""

    def keys(self, join: Join) -> Iterator[list[str]]:
        """The key columns of either side, with the side's number, because both often have the same names."""
        sides = ((join.left, join.left_keys), (join.right, join.right_keys))
        for node, keys in sides:
            yield [f"{self.shown[node]}.{self.columns[node][k]}" for k in keys]

    def equal(self, join: MultiJoin) -> Iterator[str]:
        """The columns of a join at once that must be equal, for each variable of several inputs."""
        sides = list(zip(join.inputs, join.variables, strict=True))
        for variable in range(len(join.types)):
            places = [(n, of.index(variable)) for n, of in sides if variable in of]
            same = [f"{self.shown[n]}.{self.columns[n][column]}" for n, column in places]
            if len(same) > 1:
                yield " == ".join(same)

    def names(self, node: Node) -> list[str]:
        """Known names, else propagated from the node's inputs, else c0, c1, ..."""
        if node in self.known:
            return list(self.known[node])
        inner = [self.columns[c] for c in node.children() if c in self.columns]
        made_up = self.made_up(node)
        match node:
            case Project():
                return [
                    inner[0][e.index] if isinstance(e, expr.ColumnRef) else made_up[i] for i, e in enumerate(node.exprs)
                ]
            case Join():
                return inner[0] + inner[1]
            case Reduce() | PythonReduce():
                return [inner[0][k] for k in node.keys] + made_up[len(node.keys) :]
            case MultiJoin(variables=variables):
                pairs = [p for of, names in zip(variables, inner, strict=True) for p in zip(of, names, strict=True)]
                found = dict(reversed(pairs))  # of several the first
                return [found.get(variable, name) for variable, name in enumerate(made_up)]
            case Window() | Labelled():
                return inner[0] + made_up[len(inner[0]) :]
            case Table() | Constant() | Variable() | LoopResult() | FlatMap() | Frontier() | StrongLabels():
                return made_up
        return inner[0]

    def made_up(self, node: Node) -> list[str]:
        """Names for columns that have none."""
        return [f"c{i}" for i in range(len(node.types))]

    def detail(self, node: Node) -> str:
        own = self.columns[node]
        match node:
            case Table():
                return f" {self.labels.get(node, node.id)} ({_schema(own, node)})"
            case Constant():
                shown = ", ".join(str(row) for row in node.rows[:MOST_SHOWN])
                more = f", ... ({len(node.rows)} rows)" if len(node.rows) > MOST_SHOWN else ""
                return f" {shown}{more} ({_schema(own, node)})"
            case Variable():
                return f" {node.depth}.{node.index} ({_schema(own, node)})"
            case Project(child=child):
                below = self.columns[child]
                return " " + ", ".join(
                    _output(name, describe(e, below)) for name, e in zip(own, node.exprs, strict=True)
                )
            case Filter(child=child):
                return " " + describe(node.predicate, self.columns[child])
            case FlatMap():
                return f" {_name(node.function)} ({_schema(own, node)})"
            case Join():
                split = f", hot keys of the {node.split} side split over shards" if isinstance(node, HotJoin) else ""
                return ",".join(f" {a} == {b}" for a, b in zip(*self.keys(node), strict=True)) + split
            case MultiJoin(strategy=strategy):
                return f" {strategy}: {', '.join([*self.equal(node), *_tests(node, own)])}"
            case Reduce(child=child):
                below = self.columns[child]
                outputs = own[len(node.keys) :]
                aggregates = ", ".join(
                    _result(n, aggregate_text(a, below)) for n, a in zip(outputs, node.aggregates, strict=True)
                )
                return f"{_by(node.keys, below)}: {aggregates}"
            case TopK(child=child):
                below = self.columns[child]
                order = ", ".join(below[c] + (" desc" if descending else "") for c, descending in node.order)
                offset = f" after {node.offset}" if node.offset else ""
                return f"{_by(node.keys, below)}: {node.limit}{offset} in order {order}"
            case Window(child=child):
                below = self.columns[child]
                order = ", ".join(below[c] + (" desc" if descending else "") for c, descending in node.order)
                outputs = own[len(below) :]
                calls = ", ".join(_result(n, call_text(c, below)) for n, c in zip(outputs, node.calls, strict=True))
                return f"{_by(node.keys, below)}{' order ' + order if order else ''}: {calls}"
            case PythonReduce(child=child):
                return f"{_by(node.keys, self.columns[child])}: {_name(node.function)} ({_schema(own, node)})"
            case LoopResult():
                return f" {node.index}"
            case Frontier() | StrongLabels():
                return f" {node.describe()}"
            case Sent():
                return f" {node.kind}"
            case Labelled():
                return " along a depth-first walk" if node.edges else " as rows come"
            case Disjunction():
                return f" of at most {node.nodes} nodes"
        return ""


def _tests(join: MultiJoin, names: Sequence[str]) -> Iterator[str]:
    """The comparisons of a join at once."""
    for operator, *sides in join.tests:
        a, b = (names[side] if isinstance(side, int) else describe(side, names) for side in sides)
        yield f"{a} {_SIGNS[operator]} {b}"


def _title(node: Node) -> str:
    if isinstance(node, Threshold):
        return "Distinct" if node.kind == "distinct" else "Positive"
    return type(node).__name__


def _schema(names: Sequence[str], node: Node) -> str:
    return ", ".join(f"{n} {t!r}" for n, t in zip(names, node.types, strict=True))


def _output(name: str, text: str) -> str:
    return name if name == text else f"{name}: {text}"


def _result(name: str, text: str) -> str:
    return name if name == text else f"{name} = {text}"


def _by(keys: Sequence[int], names: Sequence[str]) -> str:
    return " by " + ", ".join(names[k] for k in keys) if keys else ""


def aggregate_text(aggregate: Aggregate, names: Sequence[str]) -> str:
    """An aggregate as text, with these column names."""
    return f"{aggregate.kind}({'' if aggregate.column is None else names[aggregate.column]})"


def call_text(call: WindowCall, names: Sequence[str]) -> str:
    """A window function as text, with these column names."""
    numbered = call.kind in ("ntile", "lag", "lead", "nth_value")
    args = [*(names[c] for c in (call.column,) if c is not None), *([str(call.number)] if numbered else [])]
    args += [names[c] for c in (call.default,) if c is not None]
    frame = "" if call.frame in (WHOLE, TO_PEERS) else f" {call.frame}"
    nulls = " ignore nulls" if call.ignore_nulls else ""
    return f"{call.kind}({', '.join(args)}){nulls}{frame}"
