"""Turns filters on row numbers into top-k: `row_number() OVER (PARTITION BY k ORDER BY t DESC) = 1` is the last row of
each k.

A window recomputes every changed partition as a whole. If only its first rows are read, and the window only computes
row numbers, it is enough to maintain those first rows, which a `TopK` does from a sorted index; they are numbered
afterwards.
"""

from __future__ import annotations

from everview.expr.nodes import Call, ColumnRef, Expr, Literal
from everview.plan import joins
from everview.plan.nodes import Filter, Node, Project, TopK
from everview.plan.windows import Window


def first_rows(node: Filter) -> Node:
    """The same rows; if the filter keeps the first of every partition, only those are numbered."""
    bounds = [b for b in map(_bound, _parts(node.predicate)) if b is not None]
    for column, most in bounds:
        made = _limited(node.child, column, most)
        if made is not None:
            return Filter(made, node.predicate)
    return node


def _parts(expr: Expr) -> list[Expr]:
    if isinstance(expr, Call) and expr.op == "and":
        return [p for a in expr.args for p in _parts(a)]
    return [expr]


def _bound(expr: Expr) -> tuple[int, int] | None:
    """The column that has an upper bound, and that bound."""
    if not isinstance(expr, Call) or expr.op not in ("eq", "le", "lt", "ge", "gt"):
        return None
    column, number, op = expr.args[0], expr.args[1], expr.op
    if isinstance(column, Literal):
        column, number, op = number, column, {"ge": "le", "gt": "lt", "le": "ge", "lt": "gt"}.get(op, op)
    if not isinstance(column, ColumnRef) or not isinstance(number, Literal) or not isinstance(number.value, int):
        return None
    if op in ("ge", "gt") or (op == "eq" and number.value != 1):
        return None
    return column.index, number.value - (op == "lt")


def _limited(node: Node, column: int, most: int) -> Node | None:
    """The plan with only the first rows numbered, if the column is a row number."""
    if isinstance(node, Filter):
        return None  # it would see fewer rows
    if isinstance(node, Project):
        expr = node.exprs[column]
        below = _limited(node.child, expr.index, most) if isinstance(expr, ColumnRef) else None
        return None if below is None else Project(below, node.exprs)
    if not isinstance(node, Window) or any(c.kind != "row_number" for c in node.calls):
        return None
    if column < len(node.child.types) or most < 1:
        return None
    first = TopK(node.child, node.keys, node.order, most)
    if most > 1:
        return Window(first, node.keys, node.order, node.calls)
    ones = (Literal(c.type, 1) for c in node.calls)
    return Project(first, (*joins.refs(first.types), *ones))
