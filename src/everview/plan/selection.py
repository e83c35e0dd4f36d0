"""Aggregate selection: a loop of which only the best rows are read keeps only those.

    path(X, Y, C) :- link(X, Y, C).        path(X, Z, C + D) :- link(X, Y, C), path(Y, Z, D).
    cheapest: of all paths from X to Z those with the least cost

In a graph with cycles there are infinitely many paths, which nobody needs: only the least cost for each X and Z is
read, and the paths that have it. A path that is not the best of its group can be dropped at once, before anything is
derived from it: whatever it leads to is worse than what the best leads to. The loop's body is therefore followed by "of
every group the rows with the least value", ties included. Deletions are handled because the group's other rows stay in
the operator's input. (liu-2016 §3.6, without its listing, which emits rows that are best twice.)

Several aggregates of one loop are one selection: rows that are best for *any* of them stay. Separate loops would be
wrong for a row that needs the best of one to be found by the other.

Correctness: the loop must be the distinct rows of a union of starts and linear rules. For each aggregate (*keys*,
*value*, least or largest):

- a rule's keys depend on keys and on what is joined; its value is the value, plus something of the keys and of what is
  joined: what was worse stays worse, strictly, so every best row comes from best rows;
- conditions and join keys read keys only, or let a better value pass whenever a worse one does (`value < 9`);
- numbers are exact: with rounding, a worse row might end up as good;
- all readers read the loop through one of the aggregates, or joined with one on its keys and value.

NULL is unordered, so rows with NULL among keys or value all stay. What is not recognised is not changed.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

from everview.expr.functions import conjuncts
from everview.expr.nodes import Call, ColumnRef, Expr, Literal
from everview.plan import nodes as plan
from everview.plan.check import free_variables, postorder
from everview.plan.monotone import LoopDecision
from everview.plan.substitute import substituted
from everview.types import BOOL

EXACT = frozenset({"int", "decimal"})
"""Kinds of values whose sums are exact."""

PASSING = {"min": frozenset({"lt", "le"}), "max": frozenset({"gt", "ge"})}
"""Comparisons of a value with a constant that a better value passes whenever a worse one does."""

_TURNED = {"lt": "gt", "le": "ge", "gt": "lt", "ge": "le"}


class Best(NamedTuple):
    """What is read of a loop: the least or largest value for each key."""

    keys: tuple[int, ...]
    value: int
    kind: str


class _No(Exception):
    """Raised if more than the best rows of a loop are read."""


def selected(node: plan.Node, installed: Container[plan.Node] = ()) -> tuple[plan.Node, list[LoopDecision]]:
    """The same rows, with loops that keep only what is read of them; and what was done with each.

    >>> from everview.types import INT
    >>> link, path = plan.Table(0, (INT, INT, INT)), plan.Variable(1, 0, (INT, INT, INT))
    >>> column = [ColumnRef(INT, c) for c in range(6)]
    >>> longer = (column[0], column[4], Call(INT, "add", (column[2], column[5])))
    >>> body = plan.Threshold(plan.Union((link, plan.Project(plan.Join(link, path, (1,), (0,)), longer))), "distinct")
    >>> paths = plan.LoopResult(plan.Loop(1, (None,), (body,)), 0)
    >>> found, why = selected(plan.Reduce(paths, (0, 1), (plan.Aggregate("min", 2, INT),)))
    >>> str(why[0])
    'loop: only the best rows, because nothing else of it is read than min by 2 columns'
    """
    new: dict[plan.Node, plan.Node] = {n: n for n in _reached(node, installed) if n in installed}  # unchanged
    decisions = []
    found = readings(node, installed)
    for loop, bests in found.items():
        new[plan.LoopResult(loop, 0)] = plan.LoopResult(narrowed(loop, bests), 0)
        read = " and ".join(f"{b.kind} by {len(b.keys)} columns" for b in bests)
        decisions.append(LoopDecision("only the best rows", f"nothing else of it is read than {read}"))
    return (substituted(node, new) if found else node), decisions


def readings(node: plan.Node, installed: Container[plan.Node] = ()) -> dict[plan.Loop, tuple[Best, ...]]:
    """The loops of a plan of which only the best rows are read, and which those are."""
    nodes = _reached(node, installed)
    own = postorder(node, skip=installed)
    results = {n for n in own if isinstance(n, plan.LoopResult) and not free_variables(n)}
    found: dict[plan.Loop, tuple[Best, ...]] = {}
    for result in results:
        try:
            bests = _readings(result, node, nodes)
            _check(result.loop, bests)
        except _No:
            continue
        found[result.loop] = bests
    return found


def _reached(node: plan.Node, installed: Container[plan.Node]) -> list[plan.Node]:
    """The nodes of a plan down to installed ones; of these, aggregates with everything they project, because others may
    be joined with them. Nodes follow their inputs.
    """
    nodes = list(postorder(node, skip=installed))
    edge = [c for n in nodes for c in n.children() if c in installed]
    more: list[plan.Node] = []
    for each in dict.fromkeys(edge):
        chain: list[plan.Node] = [each]
        while isinstance(chain[-1], plan.Project | plan.Filter | plan.Reduce):
            chain.append(chain[-1].child)
        more += reversed(chain)
    return list(dict.fromkeys([*more, *nodes]))


def narrowed(loop: plan.Loop, bests: tuple[Best, ...]) -> plan.Loop:
    """The loop restricted to rows that are best in some way."""
    (body,) = loop.bodies
    assert isinstance(body, plan.Threshold)
    width = len(body.types)
    best = bests[0]
    whole = (*best.keys, best.value)
    if len(bests) == 1 and sorted(whole) == list(range(width)):
        least: plan.Node = plan.Reduce(body.child, best.keys, (_aggregate(best, body.types),))
        if whole != tuple(range(width)):
            least = plan.Project(least, tuple(ColumnRef(t, whole.index(c)) for c, t in enumerate(body.types)))
        return replace(loop, bodies=(least,))
    columns = tuple(ColumnRef(t, c) for c, t in enumerate(body.types))
    parts: list[plan.Node] = []
    for best in bests:
        least = plan.Reduce(body, best.keys, (_aggregate(best, body.types),))
        on = (*best.keys, best.value)
        parts.append(plan.Project(plan.Join(body, least, on, tuple(range(len(on)))), columns))
        parts += [plan.Filter(body, Call(BOOL, "is_null", (columns[c],))) for c in on if body.types[c].nullable]
    return replace(loop, bodies=(plan.Threshold(plan.Union(tuple(parts)), "distinct"),))


def _aggregate(best: Best, types: plan.Types) -> plan.Aggregate:
    kind: plan.AggregateKind = "min" if best.kind == "min" else "max"
    return plan.Aggregate(kind, best.value, types[best.value])


# readers of a loop


def _readings(result: plan.LoopResult, root: plan.Node, nodes: list[plan.Node]) -> tuple[Best, ...]:
    """All reads of a loop."""
    if root == result:
        raise _No
    views: dict[plan.Node, _View] = {result: _View(tuple(range(len(result.types))))}
    for node in nodes:
        if isinstance(node, plan.Project) and node.child in views:
            places = [e.index for e in node.exprs if isinstance(e, ColumnRef)]
            if len(places) == len(node.exprs):
                below = views[node.child]
                views[node] = replace(below, places=tuple(below.places[c] for c in places))
        elif isinstance(node, plan.Filter) and node.child in views:
            views[node] = views[node.child].filtered(node.predicate.columns())
    bests: dict[plan.Node, tuple[Best, ...]] = {}
    for node in nodes:
        if isinstance(node, plan.Reduce) and node.child in views:
            bests[node] = tuple(_best(node, a, views[node.child]) for a in node.aggregates)
    for node in nodes:
        reads = any(child in views for child in node.children()) and node not in views and node not in bests
        if reads and not (isinstance(node, plan.Join) and _joined_back(node, views, bests)):
            raise _No
    if root in views or not bests:
        raise _No
    return tuple(dict.fromkeys(best for found in bests.values() for best in found))


@dataclass(frozen=True)
class _View:
    """Rows of a loop as seen by a reader: the origin of each column, and the columns that were filtered by."""

    places: tuple[int, ...]
    by: frozenset[int] = frozenset()

    def filtered(self, columns: set[int]) -> _View:
        return replace(self, by=self.by | {self.places[c] for c in columns})


def _best(node: plan.Reduce, aggregate: plan.Aggregate, view: _View) -> Best:
    """What an aggregate reads; groups are complete, or filtered out completely."""
    keys = tuple(sorted({view.places[k] for k in node.keys}))
    if aggregate.kind not in ("min", "max") or aggregate.column is None or not view.by <= set(keys):
        raise _No
    return Best(keys, view.places[aggregate.column], aggregate.kind)


def _joined_back(
    join: plan.Join, views: Mapping[plan.Node, _View], bests: Mapping[plan.Node, tuple[Best, ...]]
) -> bool:
    """Whether a loop's rows are joined with one of its aggregates, on keys and value."""
    left, right = (join.left, join.left_keys), (join.right, join.right_keys)
    for (rows, rows_keys), (other, other_keys) in ((left, right), (right, left)):
        if rows not in views or other in views:
            continue
        found = _aggregate_below(other, bests)
        if found is None:
            return False
        reduce, columns = found
        assert isinstance(reduce, plan.Reduce)
        pairs = {(views[rows].places[a], columns[b]) for a, b in zip(rows_keys, other_keys, strict=True)}
        below = views[reduce.child].places
        keys = {(below[k], i) for i, k in enumerate(reduce.keys)}
        values = ((best.value, len(reduce.keys) + i) for i, best in enumerate(bests[reduce]))
        return keys <= pairs and any(value in pairs for value in values)
    return False


def _aggregate_below(
    node: plan.Node, bests: Mapping[plan.Node, tuple[Best, ...]]
) -> tuple[plan.Node, list[int | None]] | None:
    """The aggregate that a plan projects, and the selected columns."""
    columns: list[int | None] = list(range(len(node.types)))
    while isinstance(node, plan.Project):
        exprs = node.exprs
        columns = [None if c is None else _place(exprs[c]) for c in columns]
        node = node.child
    return (node, columns) if node in bests else None


def _place(expr: Expr) -> int | None:
    return expr.index if isinstance(expr, ColumnRef) else None


# the loop's rules


@dataclass(frozen=True)
class _Made:
    """A column in terms of the loop's variable: the columns that it depends on, and, if it is one of them plus
    something, which one, and what the rest depends on.
    """

    of: frozenset[int]
    base: int | None = None
    rest: frozenset[int] = frozenset()


NOTHING = _Made(frozenset())


def _check(loop: plan.Loop, bests: tuple[Best, ...]) -> None:
    """Whether only best rows lead to best rows."""
    if len(loop.bodies) != 1 or loop.priority is not None or loop.max_rounds is not None or loop.queued:
        raise _No
    (body,), (initial,) = loop.bodies, loop.initials
    if not isinstance(body, plan.Threshold) or body.kind != "distinct":
        raise _No
    inputs = list(_inputs(body.child))
    if initial is not None and initial not in inputs:
        raise _No
    for best in bests:
        if body.types[best.value].kind not in EXACT or best.value in best.keys:
            raise _No
    ways = [i for i in inputs if (loop.depth, 0) in free_variables(i)]
    if not ways:
        raise _No
    for way in ways:
        columns, read = _way(way, loop.depth)
        for best in bests:
            _check_way(best, columns, read)


def _inputs(node: plan.Node) -> Iterator[plan.Node]:
    if isinstance(node, plan.Union):
        for each in node.inputs:
            yield from _inputs(each)
    else:
        yield node


def _check_way(best: Best, columns: list[_Made], read: list[tuple[frozenset[int], Expr | None, list[_Made]]]) -> None:
    keys = frozenset(best.keys)
    if any(not columns[k].of <= keys for k in best.keys):
        raise _No
    value = columns[best.value]
    if value.base != best.value or not value.rest <= keys:
        raise _No
    for of, condition, below in read:
        if not of <= keys and not (condition is not None and _lets_better_pass(condition, below, best)):
            raise _No


def _lets_better_pass(condition: Expr, below: list[_Made], best: Best) -> bool:
    """Whether a condition compares the value with a constant so that better values pass too."""
    if not isinstance(condition, Call) or len(condition.args) != 2:
        return False
    op, (a, b) = condition.op, condition.args
    if isinstance(a, Literal):
        op, a, b = _TURNED.get(op, op), b, a
    if not isinstance(a, ColumnRef) or not isinstance(b, Literal) or op not in PASSING[best.kind]:
        return False
    made = below[a.index]
    return made.base == best.value and not made.rest


def _way(node: plan.Node, depth: int) -> tuple[list[_Made], list[tuple[frozenset[int], Expr | None, list[_Made]]]]:
    """What a rule's columns are made of, and what its conditions read: (columns, the condition, over what)."""
    if (depth, 0) not in free_variables(node):
        return [NOTHING] * len(node.types), []
    if isinstance(node, plan.Variable):
        return [_Made(frozenset({c}), c) for c in range(len(node.types))], []
    if isinstance(node, plan.Project):
        below, read = _way(node.child, depth)
        return [_expression(e, below) for e in node.exprs], read
    if isinstance(node, plan.Filter):
        below, read = _way(node.child, depth)
        for part in conjuncts(node.predicate):
            read.append((_columns_of(part, below), part, below))
        return below, read
    if isinstance(node, plan.Join):
        sides = (node.left, node.right)
        if sum((depth, 0) in free_variables(side) for side in sides) != 1:
            raise _No
        (left, read), (right, more) = (_way(side, depth) for side in sides)
        keys = [*(left[k] for k in node.left_keys), *(right[k] for k in node.right_keys)]
        return left + right, [*read, *more, *((key.of, None, left) for key in keys)]
    raise _No


def _columns_of(expr: Expr, below: list[_Made]) -> frozenset[int]:
    return frozenset().union(*(below[c].of for c in expr.columns()))


def _expression(expr: Expr, below: list[_Made]) -> _Made:
    if isinstance(expr, ColumnRef):
        return below[expr.index]
    of = _columns_of(expr, below)
    if isinstance(expr, Call) and expr.op in ("add", "sub") and len(expr.args) == 2:
        a, b = (_expression(arg, below) for arg in expr.args)
        if expr.op == "add" and a.base is None:
            a, b = b, a
        if a.base is not None and a.base not in b.of | a.rest:
            return _Made(of, a.base, a.rest | b.of)
    return _Made(of)
