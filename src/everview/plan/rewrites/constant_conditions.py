"""Constant conditions, and what is empty because of them.

    WHERE true AND x > 2            WHERE x > 2
    WHERE 1 = 2                     nothing
    t LEFT JOIN u ... WHERE u.x=3   the part padded with NULL is empty, so it is an inner join

NULL as a condition is never true. What depends on something empty is empty: joins with it, aggregates of it. Constant
expressions are folded when SQL is parsed, since texts need the session's dictionary; comparisons of them also here,
because pushing conditions below projections creates more.
"""

from __future__ import annotations

import operator
from collections.abc import Container

from everview.expr.functions import conjunction, conjuncts
from everview.expr.nodes import Call, Expr, Literal
from everview.plan import nodes as plan
from everview.plan.rewrites.traversal import empty, everywhere, is_empty, never_fails
from everview.plan.windows import Window
from everview.types import BOOL

TRUE, FALSE = Literal(BOOL, True), Literal(BOOL, False)

STRICT = frozenset({"eq", "ne", "lt", "le", "gt", "ge"})
"""Comparisons, which are NULL if one side is."""


def without_constants(node: plan.Node, arranged: Container[plan.Node] = ()) -> plan.Node:
    """The same rows without constant conditions and without empty parts.

    >>> from everview.expr.nodes import ColumnRef
    >>> from everview.types import INT
    >>> t, u = plan.Table(0, (INT,)), plan.Table(1, (INT,))
    >>> without_constants(plan.Union((plan.Filter(t, FALSE), plan.Filter(u, TRUE)))) == u
    True
    """
    return everywhere(node, _changed, arranged)


def _changed(node: plan.Node) -> plan.Node:
    if isinstance(node, plan.Filter):
        parts = [p for p in (folded(c) for c in conjuncts(node.predicate)) if not _is(p, TRUE)]
        if any(isinstance(p, Literal) for p in parts):  # false or NULL
            return empty(node.types)
        if is_empty(node.child) or not parts:
            return node.child
        return node if parts == conjuncts(node.predicate) else plan.Filter(node.child, conjunction(parts))
    if isinstance(node, plan.Union):
        left = [i for i in node.inputs if not is_empty(i)]
        if not left:
            return empty(node.types)
        if len(left) == 1 and left[0].types == node.types:
            return left[0]
        fits = plan.Union(tuple(left)).types == node.types
        return plan.Union(tuple(left)) if fits and len(left) < len(node.inputs) else node
    alone = plan.Project | plan.Negate | plan.Threshold | plan.Reduce | plan.TopK | Window
    if isinstance(node, alone) and is_empty(node.child):
        return empty(node.types)
    if isinstance(node, plan.Join) and (is_empty(node.left) or is_empty(node.right)):
        return empty(node.types)
    return node


def folded(expr: Expr) -> Expr:
    """A Boolean expression without constants in it.

    >>> from everview.expr.nodes import ColumnRef
    >>> x = ColumnRef(BOOL, 0)
    >>> folded(Call(BOOL, "or", (x, TRUE))) == TRUE, folded(Call(BOOL, "and", (TRUE, x))) == x
    (True, True)
    """
    if not isinstance(expr, Call):
        return expr
    if expr.op in ("and", "or") and len(expr.args) == 2:
        return _joined(expr, *[folded(a) for a in expr.args])
    if expr.op == "not":
        a = folded(expr.args[0])
        if isinstance(a, Literal):
            return a if a.value is None else FALSE if a.value else TRUE
        return expr if a == expr.args[0] else Call(expr.type, "not", (a,))
    if expr.op in STRICT and any(isinstance(a, Literal) and a.value is None for a in expr.args):
        others = [a for a in expr.args if not isinstance(a, Literal)]
        return Literal(BOOL.optional(), None) if not any(isinstance(a, Call) for a in others) else expr
    if expr.op in STRICT and all(isinstance(a, Literal) for a in expr.args):
        return _compared(expr)
    if expr.op in ("is_null", "is_not_null") and isinstance(expr.args[0], Literal):
        return TRUE if (expr.args[0].value is None) == (expr.op == "is_null") else FALSE
    return expr


def _compared(expr: Call) -> Expr:
    """A comparison of two constants, which results from pushing conditions below a projection of constants. Texts have
    their own order, and floats are compared by the VM.

    >>> from everview.types import INT
    >>> folded(Call(BOOL, "lt", (Literal(INT, 1), Literal(INT, 2)))) == TRUE
    True
    """
    a, b = expr.args
    assert isinstance(a, Literal) and isinstance(b, Literal)
    kinds = {a.type.kind, b.type.kind}
    if len(kinds) > 1 or not (kinds <= {"int", "bool"} or (kinds == {"str"} and expr.op in ("eq", "ne"))):
        return expr
    return TRUE if getattr(operator, expr.op)(a.value, b.value) else FALSE


def _joined(expr: Call, a: Expr, b: Expr) -> Expr:
    decides, passes = (FALSE, TRUE) if expr.op == "and" else (TRUE, FALSE)
    if _is(a, decides) or (_is(b, decides) and not isinstance(a, Call)):
        return decides  # the left side may fail, and is evaluated first
    if _is(b, decides) and isinstance(a, Call):
        return decides if never_fails(a) else expr
    if _is(a, passes):
        return b
    if _is(b, passes):
        return a
    return expr if (a, b) == expr.args else Call(expr.type, expr.op, (a, b))


def _is(expr: Expr, constant: Literal) -> bool:
    return isinstance(expr, Literal) and expr.value is not None and bool(expr.value) == constant.value
