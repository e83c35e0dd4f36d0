"""Join conditions: splits them into keys, residual tests on pairs, and filters on one side.

`a.x = b.y AND (a.z < b.z OR a.z IS NULL)` joins on x and y and tests the rest. Nested ANDs are flattened, and common
parts of all branches of an OR are factored out, so that they can be keys, too.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from sqlglot import exp

from everview.expr.functions import conjunction
from everview.expr.nodes import Call, ColumnRef, Expr
from everview.plan import joins
from everview.plan.nodes import Filter, Node


def outer_join(left: Node, right: Node, conditions: Iterable[Expr], how: str) -> Node:
    """An outer join at its position, on conditions over both sides' columns."""
    condition, right_only = split(conditions, len(left.types), how)
    if right_only:
        right = Filter(right, conjunction(right_only))
    return joins.join(left, right, condition, how)  # type: ignore[arg-type]


def split(conditions: Iterable[Expr], width: int, how: str) -> tuple[joins.Condition, list[Expr]]:
    """Split conditions over two sides into keys and residual, and those that can filter the right side first."""
    left_keys: list[Expr] = []
    right_keys: list[Expr] = []
    rest: list[Expr] = []
    right_only: list[Expr] = []
    for part in (p for c in conditions for p in parts(c)):
        pair = _key_pair(part, width)
        if pair is not None:
            left_keys.append(joins.canonical(pair[0]))
            right_keys.append(joins.canonical(shifted(pair[1], -width)))
        elif part.columns() and min(part.columns()) >= width and how in {"left", "semi", "anti"}:
            right_only.append(shifted(part, -width))
        else:
            rest.append(part)
    residual = conjunction(rest) if rest else None
    return joins.Condition(tuple(left_keys), tuple(right_keys), residual), right_only


def _key_pair(part: Expr, width: int) -> tuple[Expr, Expr] | None:
    """The left's and the right's side of an equality between them."""
    if not isinstance(part, Call) or part.op != "eq":
        return None
    a, b = part.args
    for left, right in ((a, b), (b, a)):
        if left.columns() and right.columns() and max(left.columns()) < width <= min(right.columns()):
            return left, right
    return None


def parts(expr: Expr) -> Iterator[Expr]:
    """The conjuncts of a condition, with common parts of OR branches factored out."""
    if isinstance(expr, Call) and expr.op == "and":
        for part in expr.args:
            yield from parts(part)
        return
    if isinstance(expr, Call) and expr.op == "or":
        sides = [list(parts(b)) for b in branches(expr)]
        common = [p for p in sides[0] if all(p in other for other in sides[1:])]
        if common:
            yield from common
            rests = [[p for p in b if p not in common] for b in sides]
            if all(rests):
                yield conjunction([conjunction(r) for r in rests], "or")
            return
    yield expr


def branches(expr: Expr) -> Iterator[Expr]:
    """The disjuncts of a condition."""
    if isinstance(expr, Call) and expr.op == "or":
        for branch in expr.args:
            yield from branches(branch)
    else:
        yield expr


def shifted(expr: Expr, by: int) -> Expr:
    """The expression with columns shifted by `by`."""
    refs = [e for e in expr.walk() if isinstance(e, ColumnRef)]
    return expr.remap({e.index: ColumnRef(e.type, e.index + by) for e in refs})


def moved(expr: Expr, place: dict[int, int]) -> Expr:
    """The expression over moved columns."""
    refs = [e for e in expr.walk() if isinstance(e, ColumnRef)]
    return expr.remap({e.index: ColumnRef(e.type, place[e.index]) for e in refs})


def conjuncts(node: exp.Expr | None) -> list[exp.Expr]:
    """The parts of a condition that must all hold."""
    found: list[exp.Expr] = []
    todo = [node] if node is not None else []
    while todo:  # iterative: there may be thousands
        part = todo.pop()
        inner = part.unnest() if isinstance(part, exp.Paren) else part
        if isinstance(inner, exp.And):
            todo += [inner.expression, inner.this]
        else:
            found.append(part)
    return found
