"""Removes the provenance column from the plan of a view.

`everview.plan.provenance` rewrites a monotone plan node by node; this is the inverse, so that `why` and `why_not` work
for such views as for all others. A directory stores the rewritten plan only.

    labelled tables      the table's distinct rows
    AND after joins      the join alone
    OR, first of equal   distinct
    loops                without the column, and without the rows that are kept because they are too large

Hazard: it recognises the shapes that the rewriting produces and no others. A plan on top of such a view reads codes of
expressions as numbers: it has no plain form, and the result is None.
"""

from __future__ import annotations

from dataclasses import replace

from everview.expr import nodes as expr
from everview.plan import nodes as plan
from everview.plan.deep_recursion import drive
from everview.plan.provenance import TOO_LARGE, Disjunction, Labelled


def without_provenance(node: plan.Node) -> plan.Node | None:
    """The plan without its last column, which is provenance; None if it is not.

    >>> from everview.plan.provenance import Provenance, with_provenance
    >>> from everview.types import INT
    >>> table = plan.Table(0, (INT, INT))
    >>> for kind in ("bdd", "lazy"):
    ...     print(without_provenance(with_provenance(table, Provenance(kind))) == plan.Threshold(table, "distinct"))
    True
    True
    """
    if not (isinstance(node, plan.Project) and _calls(node.exprs[-1], "provenance_checked")):
        return None
    inside = node.child
    if isinstance(inside, plan.Project) and isinstance(inside.child, plan.TopK):
        ranked = inside.child.child
        if isinstance(ranked, plan.Union) and _is_rank(ranked.inputs[0]):  # full expressions, and lazy ones beyond
            fits = ranked.inputs[0].children()[0]
            inside = fits.children()[0]
    lazy = isinstance(inside, plan.Project) and not _is_rewritten(inside, len(node.types))
    stripped = inside.child if lazy and isinstance(inside, plan.Project) else inside
    found: plan.Node = drive(_Stripping(2 if lazy else 1).stripped, stripped, {})
    return found


def _is_rank(node: plan.Node) -> bool:
    """Whether a plan is that of full expressions before lazy ones."""
    return isinstance(node, plan.Project) and isinstance(node.child, plan.Filter)


def _is_rewritten(node: plan.Project, width: int) -> bool:
    """Whether a projection is one of the plan's own, with full expressions; otherwise it drops the rounds, an
    additional column of lazy ones.
    """
    return isinstance(node.child, Labelled | plan.Constant) or len(node.child.types) == width


def _calls(e: expr.Expr, op: str) -> bool:
    return isinstance(e, expr.Call) and e.op == op


class _Stripping:
    """Removes the `extra` columns that follow those of every node."""

    def __init__(self, extra: int) -> None:
        self.extra = extra

    def stripped(self, node: plan.Node):  # type: ignore[no-untyped-def]  # a generator of everview.plan.deep_recursion
        extra = self.extra
        if isinstance(node, plan.Project):
            child = node.child
            if isinstance(child, plan.Constant):
                return child
            if isinstance(child, Labelled):
                return child.child
            if isinstance(child, plan.Join) and _calls(node.exprs[-1], "provenance_and"):
                left = yield child.left
                right = yield child.right
                return plan.Join(left, right, child.left_keys, child.right_keys)
            below = yield child
            exprs = node.exprs[:-extra]
            if isinstance(below, plan.Variable) and _is_identity(exprs, below):
                return below
            return plan.Project(below, exprs)
        if isinstance(node, plan.Filter):
            return plan.Filter((yield node.child), node.predicate)
        if isinstance(node, plan.Union):
            inputs = []
            for each in node.inputs:
                if not _keeps_large(each):
                    inputs.append((yield each))
            return inputs[0] if len(inputs) == 1 else plan.Union(tuple(inputs))
        if isinstance(node, Disjunction | plan.TopK):
            return plan.Threshold((yield node.child), "distinct")
        if isinstance(node, plan.Variable):
            return replace(node, columns=node.columns[:-extra])
        assert isinstance(node, plan.LoopResult)
        return (yield from self._result(node))

    def _result(self, node: plan.LoopResult):  # type: ignore[no-untyped-def]
        initials: list[plan.Node | None] = []
        for each in node.loop.initials:
            initials.append(None if each is None else (yield each))
        bodies = []
        for body in node.loop.bodies:
            bodies.append((yield body))
        return replace(node, loop=replace(node.loop, initials=tuple(initials), bodies=tuple(bodies)))


def _is_identity(exprs: tuple[expr.Expr, ...], node: plan.Node) -> bool:
    places = [e.index if isinstance(e, expr.ColumnRef) else None for e in exprs]
    return places == list(range(len(node.types)))


def _keeps_large(node: plan.Node) -> bool:
    """Whether a plan is a loop's own rows that are too large."""
    if not (isinstance(node, plan.Filter) and isinstance(node.child, plan.Variable)):
        return False
    test = node.predicate
    if not (isinstance(test, expr.Call) and test.op == "eq"):
        return False
    column, value = test.args
    last = isinstance(column, expr.ColumnRef) and column.index == len(node.child.types) - 1
    return last and isinstance(value, expr.Literal) and value.value == TOO_LARGE
