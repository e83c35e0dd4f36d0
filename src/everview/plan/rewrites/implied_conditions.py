"""Conditions that a join implies: what holds of a key column on one side is tested on the other side, too.

    (SELECT * FROM t WHERE k = 3) AS x JOIN u ON x.k = u.k        u is read WHERE k = 3
    t JOIN u ON t.k = u.k JOIN v ON u.k = v.k WHERE t.k = 3       so are u and v
    t WHERE k = 3 AND NOT EXISTS (... FROM u WHERE u.k = t.k)     so is u

A row of the other side that fails the condition has no partner, so it is not looked up and its index need not hold it.
A table whose own order begins with the join columns is left alone: that index exists, and nothing is cheaper.
`filter_pushdown` does the same for a condition *above* a join; here it stands below one of the sides, which is where
subqueries, semi-joins and earlier joins leave it. A recursion on the other side then starts from the constant
(`everview.plan.narrowed_loops`).

What holds of a node's rows is read off its plan: conditions of filters, constant columns, both sides of joins. Only
comparisons with constants are carried over: `k IS NOT NULL` and `k <> 3` would leave nearly everything.
"""

from __future__ import annotations

from collections.abc import Container, Generator, Iterable, Mapping
from dataclasses import replace

from everview.expr.functions import call, conjuncts
from everview.expr.nodes import Call, ColumnRef, Expr, Literal
from everview.plan import nodes as plan
from everview.plan.deep_recursion import of_node
from everview.plan.rewrites.filter_pushdown import Pushing
from everview.plan.rewrites.traversal import everywhere
from everview.types import DataType

COMPARISONS = frozenset({"eq", "lt", "le", "gt", "ge"})

MOST_CONDITIONS = 16
"""Maximum number of conditions remembered of one node: joins of many inputs collect those of all of them."""

MOST_DEPTH = 40
"""Maximum depth of a condition: `IN` of a hundred values stays where it is."""

MOST_NODES = 2000
"""Plans with more nodes are left alone: programs create them, and conditions would be carried along all of them."""


def with_implied_conditions(node: plan.Node, arranged: Container[plan.Node] = ()) -> plan.Node:
    """The same rows with conditions on join columns tested on both sides.

    >>> from everview.types import INT
    >>> t, u = plan.Table(0, (INT, INT)), plan.Table(1, (INT, INT))
    >>> x = call("eq", ColumnRef(INT, 0), Literal(INT, 3))
    >>> found = with_implied_conditions(plan.Join(plan.Filter(t, x), u, (0,), (1,)))
    >>> found.right == plan.Filter(u, call("eq", ColumnRef(INT, 1), Literal(INT, 3)))
    True
    """
    if sum(1 for _ in node.walk()) > MOST_NODES:
        return node
    pushing = Pushing.in_plan(node, arranged)
    return everywhere(node, lambda n: _both_sides(n, pushing) if isinstance(n, plan.Join) else n, arranged)


def _both_sides(join: plan.Join, pushing: Pushing) -> plan.Join:
    keys = list(zip(join.left_keys, join.right_keys, strict=True))
    right = _tested(join.right, keys, join.left, pushing)
    left = _tested(join.left, [(b, a) for a, b in keys], join.right, pushing)
    return join if left is join.left and right is join.right else replace(join, left=left, right=right)


def _tested(side: plan.Node, keys: list[tuple[int, int]], other: plan.Node, pushing: Pushing) -> plan.Node:
    """A side with what the other one's rows, whose keys come first in the pairs, are known to meet."""
    if _is_in_order(side, {b for _, b in keys}):
        return side
    places = {a: ColumnRef(side.types[b], b) for a, b in keys if _same(other.types[a], side.types[b])}
    there = holding(side)
    implied = [_of(c, places) for c in holding(other) if c.columns() <= places.keys()]
    new = [c for c in implied if c not in there]
    return pushing.below(side, new, 0) if new and pushing.may_change(side) else side


def _is_in_order(side: plan.Node, keys: set[int]) -> bool:
    """Whether a table's own rows are in an order that begins with these columns."""
    if not isinstance(side, plan.Table):
        return False
    return set(plan.keys_first(side.key, len(side.types))[: len(keys)]) == keys


def _same(a: DataType, b: DataType) -> bool:
    return a.optional() == b.optional()


def _of(condition: Expr, places: Mapping[int, Expr]) -> Expr:
    """A condition of other columns, which may be nullable."""
    if isinstance(condition, ColumnRef):
        return places[condition.index]
    if isinstance(condition, Call):
        return call(condition.op, *(_of(a, places) for a in condition.args))
    return condition


@of_node
def holding(node: plan.Node) -> Generator[plan.Node, tuple[Expr, ...], tuple[Expr, ...]]:
    """Conditions that all rows of a node are known to meet: comparisons with constants.

    >>> from everview.types import INT
    >>> t = plan.Table(0, (INT, INT))
    >>> x = plan.Filter(t, call("lt", ColumnRef(INT, 1), Literal(INT, 3)))
    >>> holding(plan.Join(t, plan.Project(x, (ColumnRef(INT, 1),)), (0,), (0,))) == (
    ...     call("lt", ColumnRef(INT, 2), Literal(INT, 3)),
    ... )
    True
    """
    found: list[Expr] = []
    if isinstance(node, plan.Filter):
        same = {c: c for c in range(len(node.types))}
        found = _renamed(filter(_compares, conjuncts(node.predicate)), same, node)  # as `call` would make them
        found += yield node.child
    elif isinstance(node, plan.Threshold | plan.Negate | plan.TopK):
        found += yield node.child
    elif isinstance(node, plan.Project):
        found = [_equals(i, e) for i, e in enumerate(node.exprs) if isinstance(e, Literal) and e.value is not None]
        found += _renamed((yield node.child), {e.index: i for i, e in _columns(node.exprs)}, node)
    elif isinstance(node, plan.Reduce):
        found = _renamed((yield node.child), {k: i for i, k in enumerate(node.keys)}, node)
    elif isinstance(node, plan.Union) and node.inputs:
        found += yield node.inputs[0]
        for part in node.inputs[1:]:
            there = yield part
            found = [c for c in found if c in there]
    elif isinstance(node, plan.Join):
        width = len(node.left.types)
        found += yield node.left
        found += _renamed((yield node.right), {c: width + c for c in range(len(node.right.types))}, node)
    return tuple(dict.fromkeys(found))[:MOST_CONDITIONS]


def _renamed(conditions: Iterable[Expr], places: Mapping[int, int], node: plan.Node) -> list[Expr]:
    """Those of the conditions whose columns a node has, of its columns."""
    refs = {old: ColumnRef(node.types[new], new) for old, new in places.items()}
    return [_of(c, refs) for c in conditions if c.columns() <= refs.keys()]


def _columns(exprs: Iterable[Expr]) -> list[tuple[int, ColumnRef]]:
    return [(i, e) for i, e in enumerate(exprs) if isinstance(e, ColumnRef)]


def _equals(column: int, constant: Literal) -> Expr:
    return call("eq", ColumnRef(constant.type, column), constant)


def _compares(condition: Expr) -> bool:
    """Whether a condition is made of comparisons of columns with constants."""
    if not isinstance(condition, Call) or condition.depth > MOST_DEPTH:
        return False
    if condition.op in ("and", "or"):
        return all(_compares(a) for a in condition.args)
    if condition.op not in COMPARISONS:
        return False
    a, b = condition.args
    pairs = ((a, b), (b, a))
    return any(isinstance(x, ColumnRef) and isinstance(y, Literal) and y.value is not None for x, y in pairs)
