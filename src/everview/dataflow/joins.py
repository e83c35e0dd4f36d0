"""Joins as dataflow: of two inputs by `Join`, of several at once by `Extend`.

A join reads arrangements of its inputs and has no state of its own. Building one therefore mostly means finding
existing arrangements, or choosing an order of key columns that has some. A join runs in the innermost scope of its
inputs; an input from outside that loop has to *activate* the loop when it changes.
"""

from __future__ import annotations

from itertools import permutations
from typing import TYPE_CHECKING

from everview.dataflow.extend import Extend, Part, Pipeline, levels, serving
from everview.dataflow.operators import Arrangement, Join, columns
from everview.dataflow.partitioning import HotKeys, HyperCube
from everview.dataflow.scopes import deeper
from everview.dataflow.streams import Branch, Flow
from everview.expr.functions import conjunction
from everview.expr.nodes import Call, ColumnRef, Expr
from everview.plan import nodes as plan
from everview.plan.hot_keys import HotJoin
from everview.types import BOOL

if TYPE_CHECKING:
    from everview.dataflow.builder import Builder

Pairs = tuple[tuple[int, int], ...]
"""Equal columns: (of the left, of the right)."""


def join(builder: Builder, node: plan.Join) -> Flow:
    """An inner join; NULL equals nothing. A column with two partners is a key once and compared the second time."""
    left, right, residual = _null_safe(node), node.right, []
    pairs: list[tuple[int, int]] = []
    for l, r in zip(node.left_keys, node.right_keys, strict=True):
        if any(l == a or r == b for a, b in pairs):
            residual.append((l, r))
        else:
            pairs.append((l, r))
    hot = node if isinstance(node, HotJoin) and builder.dataflow.sharded else None
    flow = on_pairs(builder, left, right, tuple(pairs), hot)
    if residual:
        width = len(node.left.types)
        equal = [
            Call(BOOL, "eq", (ColumnRef(node.types[l], l), ColumnRef(node.types[width + r], width + r)))
            for l, r in residual
        ]
        flow = tuple(b.filter(conjunction(equal, "and")) for b in flow)
    return flow


def on_pairs(builder: Builder, left: plan.Node, right: plan.Node, pairs: Pairs, hot: HotJoin | None = None) -> Flow:
    """Inner join on pairs of columns; equal codes match, including NULLs. `hot`: some values of the first pair are
    placed differently from the others.
    """
    if hot is not None:
        l = builder.arrange_hot(left, tuple(a for a, _ in pairs), HotKeys(hot.hot, copied=hot.split == "right"))
        r = builder.arrange_hot(right, tuple(b for _, b in pairs), HotKeys(hot.hot, copied=hot.split == "left"))
    else:
        pairs = _best_order(builder, left, right, pairs)
        l = builder.arrange(left, tuple(a for a, _ in pairs), gather=not pairs)
        r = builder.arrange(right, tuple(b for _, b in pairs), gather=not pairs)
    scope = deeper(l.operator.scope, r.operator.scope)
    for side in (l, r):
        builder.activate(side, scope)
    operator = Join(builder.dataflow, l, r, len(pairs), scope)
    exprs: list[Expr] = [ColumnRef(t, l.order.index(c)) for c, t in enumerate(left.types)]
    for c, t in enumerate(right.types):
        at = r.order.index(c)
        exprs.append(ColumnRef(t, at if at < len(pairs) else l.cols + at - len(pairs)))
    return (Branch(operator, scope, tuple(exprs)),)


def _best_order(builder: Builder, left: plan.Node, right: plan.Node, pairs: Pairs) -> Pairs:
    """The order of key columns best served by existing arrangements."""
    if not 1 < len(pairs) <= 4:
        return pairs

    def score(order: Pairs) -> int:
        l = any(a.serves(tuple(x for x, _ in order)) for a in builder.existing(left))
        r = any(a.serves(tuple(y for _, y in order)) for a in builder.existing(right))
        return int(l) + int(r)

    builder.flow(left)
    builder.flow(right)
    return max(permutations(pairs), key=score)


def multiway(builder: Builder, node: plan.MultiJoin) -> Flow:
    """A join of several inputs: a pipeline from each of them through the others."""
    for i in node.inputs:
        builder.flow(i)
    plans = [levels(node, i) for i in range(len(node.inputs))]
    parts = [[tuple(_part(builder, node, p) for p in level.parts) for level in plan] for plan in plans]
    sources = [_source(builder, node, i) for i in range(len(node.inputs))]
    pipelines = [
        Pipeline(source, tuple(zip(plan, arranged, strict=True)))
        for source, plan, arranged in zip(sources, plans, parts, strict=True)
    ]
    used = [*sources, *(a for arranged in parts for level in arranged for a in level)]
    scope = builder.dataflow.root
    for arrangement in used:
        scope = deeper(scope, arrangement.operator.scope)
    for arrangement in used:
        builder.activate(arrangement, scope)
    operator = Extend(builder.dataflow, scope, node, pipelines)
    return columns(operator, node.types, tuple(range(len(node.types))))


def _part(builder: Builder, node: plan.MultiJoin, part: Part) -> Arrangement:
    """An arrangement with the part's bound columns first, in any order, then its new ones."""
    found = serving(_existing(builder, node, part.input), part)
    return found or _arranged(builder, node, part.input, (*part.bound, *part.new))


def _source(builder: Builder, node: plan.MultiJoin, i: int) -> Arrangement:
    """The arrangement whose changes are an input's. An existing one is preferred, because in the installing step an
    input's rows must be new to all of its arrangements, or old to all.
    """
    existing = _existing(builder, node, i)
    return next((a for a in existing if a.operator.old), existing[0] if existing else _arranged(builder, node, i, ()))


def _existing(builder: Builder, node: plan.MultiJoin, i: int) -> list[Arrangement]:
    """The arrangements of an input that the join can read: on shards, those in its cells."""
    if builder.dataflow.sharded:
        return builder.in_cells.get((builder.key(node.inputs[i]), _cells(node, i)), [])
    return builder.existing(node.inputs[i])


def _arranged(builder: Builder, node: plan.MultiJoin, i: int, keys: tuple[int, ...]) -> Arrangement:
    """Add an arrangement of an input."""
    if builder.dataflow.sharded:
        return builder.arrange_in_cells(node.inputs[i], keys, _cells(node, i))
    return builder.arrange(node.inputs[i], keys)


def _cells(node: plan.MultiJoin, i: int) -> HyperCube:
    return HyperCube(node.variables, node.variables[i])


def _null_safe(node: plan.Join) -> plan.Node:
    """The left side without rows that have a NULL key, if both sides could have one: NULL equals nothing."""
    tests: list[Expr] = []
    for l, r in zip(node.left_keys, node.right_keys, strict=True):
        if node.left.types[l].nullable and node.right.types[r].nullable:
            tests.append(Call(BOOL, "is_not_null", (ColumnRef(node.left.types[l], l),)))
    return plan.Filter(node.left, conjunction(tests, "and")) if tests else node.left
