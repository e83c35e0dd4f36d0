"""An outer join of which only the kept side is read, and that doubles none of its rows, is that side.

    SELECT o.id FROM orders o LEFT JOIN customers c ON o.customer = c.id        SELECT o.id FROM orders o

Reports often join every table there is, and each asks for a few columns. A left join has every row of its left side at
least once; it has it at most once if what is joined on identifies a row of the right side. (An inner join may also
lose rows, so it goes only with a foreign key; constraints can be dropped while a view lives, so that is not done.)

A left join is a union of pairs, and of rows without a partner beside NULLs (`everview.language.joining`).
"""

from __future__ import annotations

from collections.abc import Container

from everview.expr.nodes import ColumnRef, Expr, Literal
from everview.plan import nodes as plan
from everview.plan.keys import unique_columns
from everview.plan.rewrites.walking import everywhere, never_fails


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
    """
    return everywhere(node, lambda n: _changed(n, arranged), arranged)


def _changed(node: plan.Node, arranged: Container[plan.Node]) -> plan.Node:
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
    """The left side of a left join that doubles none of its rows, and what its columns become."""
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
    """What a projection that only chooses columns is of, and which."""
    if isinstance(node, plan.Project):
        return node.child, [e.index if isinstance(e, ColumnRef) else None for e in node.exprs]
    return node, list(range(len(node.types)))


def _without_partner(node: plan.Node, pairs: plan.Join) -> bool:
    """Whether a node is the left side of a join less those of its rows that have a partner."""
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
