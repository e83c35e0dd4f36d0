"""Splits a join on `a = b OR c = d` into two: one on a = b, one on c = d without the rows of the first.

Without equal columns a join examines every pair of rows. Two indexed joins are nearly always cheaper: they cost the
pairs that they find, and a further index of each side. Pairs that satisfy several cases are only in the first of them,
so there are no duplicates. Each case must contain an equality of columns, and no case may fail.
"""

from __future__ import annotations

from collections.abc import Container

from everview.expr.functions import call, conjunction, conjuncts
from everview.expr.nodes import Call, ColumnRef, Expr, Literal
from everview.plan import nodes as plan
from everview.plan.loop_ways import disjuncts
from everview.plan.rewrites.traversal import everywhere, never_fails
from everview.types import BOOL

MOST_CASES = 6
"""Conditions with more cases are not split: each case is a join."""


def without_either(node: plan.Node, arranged: Container[plan.Node] = ()) -> plan.Node:
    """The same rows without cross joins where OR contains equalities.

    >>> from everview.types import INT
    >>> t, u = plan.Table(0, (INT, INT)), plan.Table(1, (INT, INT))
    >>> a, b, c, d = (ColumnRef(INT, i) for i in range(4))
    >>> found = without_either(plan.Filter(plan.Join(t, u, (), ()), call("or", call("eq", a, c), call("eq", b, d))))
    >>> [(part.left_keys, part.right_keys) for part in (found.inputs[0], found.inputs[1].child)]
    [((0,), (0,)), ((1,), (1,))]
    """
    return everywhere(node, _changed, arranged)


def _changed(node: plan.Node) -> plan.Node:
    if not isinstance(node, plan.Filter):
        return node
    tested: list[Expr] = []
    join: plan.Node = node
    while isinstance(join, plan.Filter):
        tested += conjuncts(join.predicate)
        join = join.child
    if not isinstance(join, plan.Join) or join.left_keys or not all(never_fails(c) for c in tested):
        return node
    width = len(join.left.types)
    if any(_equal(c, width) for c in tested):
        return node  # one pair of equal columns is enough: join ordering finds it
    for either in tested:
        cases = disjuncts(either)
        if 1 < len(cases) <= MOST_CASES and all(any(_equal(c, width) for c in conjuncts(case)) for case in cases):
            return _cases(join, cases, [c for c in tested if c is not either], width)
    return node


def _equal(condition: Expr, width: int) -> tuple[int, int] | None:
    """The columns that a condition equates, one of each side, if compared as a join would."""
    if not isinstance(condition, Call) or condition.op != "eq":
        return None
    a, b = condition.args
    if not isinstance(a, ColumnRef) or not isinstance(b, ColumnRef) or a.type.optional() != b.type.optional():
        return None
    if a.type.kind == "float" or (a.index < width) == (b.index < width):
        return None
    return (a.index, b.index - width) if a.index < width else (b.index, a.index - width)


def _cases(join: plan.Join, cases: list[Expr], others: list[Expr], width: int) -> plan.Node:
    parts: list[plan.Node] = []
    for i, case in enumerate(cases):
        found = [(c, _equal(c, width)) for c in conjuncts(case)]
        keys = [k for _, k in found if k is not None]
        made: plan.Node = plan.Join(join.left, join.right, tuple(a for a, _ in keys), tuple(b for _, b in keys))
        rest = [c for c, k in found if k is None] + others
        rest += [call("not", call("if_null", before, Literal(BOOL, False))) for before in cases[:i]]
        parts.append(plan.Filter(made, conjunction(rest)) if rest else made)
    return plan.Union(tuple(parts))
