"""Removes outer joins of which only the preserved side is read, and that do not duplicate its rows.

    SELECT o.id FROM orders o LEFT JOIN customers c ON o.customer = c.id        SELECT o.id FROM orders o

Reports often join every table and read a few columns. A left join has every row of its left side at least once, and at
most once if the join columns are a key of the right side. (An inner join may also lose rows, so removing it would
require a foreign key; constraints can be dropped while a view lives, so that is not done.)

A left join is a union of the matching pairs and of unmatched rows padded with NULLs (`everview.language.join`).
"""

from __future__ import annotations

from collections.abc import Container
from dataclasses import replace

from everview.expr.nodes import ColumnRef, Expr, Literal
from everview.plan import nodes as plan
from everview.plan.keys import unique_columns
from everview.plan.rewrites.traversal import everywhere, never_fails


def without_unread_joins(node: plan.Node, arranged: Container[plan.Node] = ()) -> plan.Node:
    """The same rows without left joins that add nothing to what is read.

    >>> from everview.types import INT
    >>> t, u = plan.Table(0, (INT, INT)), plan.Table(1, (INT, INT), key=(0,))
    >>> x, y = ColumnRef(INT, 0), ColumnRef(INT, 1)
    >>> partners = plan.Threshold(plan.Project(u, (x,)), "distinct")
    >>> found = plan.Project(plan.Join(t, partners, (1,), (0,)), (x, y))
    >>> alone = plan.Project(plan.Union((t, plan.Negate(found))), (x, y, *(Literal(INT.optional(), None),) * 2))
    >>> left_join = plan.Union((plan.Join(t, u, (1,), (0,)), alone))
    >>> without_unread_joins(plan.Project(left_join, (x,))) == plan.Project(t, (x,))
    True
    >>> count = plan.Reduce(left_join, (1,), (plan.Aggregate("count", None, INT),))
    >>> without_unread_joins(count) == plan.Reduce(t, (1,), count.aggregates)
    True
    """
    return everywhere(node, lambda n: _changed(n, arranged), arranged)


def _changed(node: plan.Node, arranged: Container[plan.Node]) -> plan.Node:
    return _aggregate(node, arranged) if isinstance(node, plan.Reduce) else _projection(node, arranged)


def _aggregate(node: plan.Reduce, arranged: Container[plan.Node]) -> plan.Reduce:
    """An aggregate of the left side alone, if it reads nothing else: how often each row occurs stays the same."""
    read = [*node.keys, *(a.column for a in node.aggregates if a.column is not None)]
    while node.child not in arranged and (kept := _kept_side(node.child)) is not None:
        side, own = kept
        if any(c >= len(own) for c in read):
            break
        node = replace(node, child=side)
    return node


def _projection(node: plan.Node, arranged: Container[plan.Node]) -> plan.Node:
    while isinstance(node, plan.Project) and node.child not in arranged:
        kept = _kept_side(node.child)
        if kept is None:
            break
        side, exprs = kept
        if any(c >= len(exprs) for e in node.exprs for c in e.columns()):
            break
        below = dict(enumerate(exprs))
        node = plan.Project(side, tuple(e.remap(below) for e in node.exprs))
        if isinstance(side, plan.Project) and all(never_fails(e) for e in side.exprs):
            node = plan.Project(side.child, tuple(e.remap(dict(enumerate(side.exprs))) for e in node.exprs))
    return node


def _kept_side(node: plan.Node) -> tuple[plan.Node, tuple[Expr, ...]] | None:
    """The left side of a left join that does not duplicate its rows, and the mapping of its columns."""
    if not isinstance(node, plan.Union) or len(node.inputs) != 2:
        return None
    pairs, alone = node.inputs
    pairs, outputs = _columns_of(pairs)
    if not isinstance(pairs, plan.Join) or not pairs.left_keys or not isinstance(alone, plan.Project):
        return None
    width = len(pairs.left.types)
    own = tuple(ColumnRef(t, i) for i, t in enumerate(pairs.left.types))
    if outputs[:width] != list(range(width)) or alone.exprs[:width] != own:
        return None
    if not all(isinstance(e, Literal) and e.value is None for e in alone.exprs[width:]):
        return None
    if not any(key <= set(pairs.right_keys) for key in unique_columns(pairs.right)):
        return None
    return (pairs.left, own) if _without_partner(alone.child, pairs) else None


def _columns_of(node: plan.Node) -> tuple[plan.Node, list[int | None]]:
    """The input and columns of a projection that only selects columns."""
    if isinstance(node, plan.Project):
        return node.child, [e.index if isinstance(e, ColumnRef) else None for e in node.exprs]
    return node, list(range(len(node.types)))


def _without_partner(node: plan.Node, pairs: plan.Join) -> bool:
    """Whether a node is the left side of a join without its matched rows."""
    if not isinstance(node, plan.Union) or len(node.inputs) != 2:
        return False
    whole, less = node.inputs
    if whole != pairs.left or not isinstance(less, plan.Negate):
        return False
    found, outputs = _columns_of(less.child)
    if not isinstance(found, plan.Join) or found.left != pairs.left or found.left_keys != pairs.left_keys:
        return False
    if outputs[: len(pairs.left.types)] != list(range(len(pairs.left.types))) or len(outputs) != len(pairs.left.types):
        return False
    partners = found.right
    if not isinstance(partners, plan.Threshold) or partners.kind != "distinct":
        return False
    side, columns = _columns_of(partners.child)
    return side == pairs.right and tuple(columns[k] for k in found.right_keys) == pairs.right_keys
