"""Implements `Collection.join`: splits the condition into keys and residual, and determines the result's columns.

Equalities between the sides become keys, the rest of the condition is the residual; `everview.plan.joins` builds every
kind of join from those. This module also decides which columns the result has, and which collection each belongs to.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from everview.errors import PlanError, did_you_mean
from everview.expr import functions, nodes
from everview.expr.resolve import Scope, predicate
from everview.language.collection import Collection, Column, Output, columns_of, common_owner, project, scope_of
from everview.language.relation import relation_of
from everview.plan import joins
from everview.plan.nodes import Filter, Node


def join(left: Collection, right: Collection, on: Any, how: joins.How) -> Collection:
    """See `Collection.join`."""
    _check_how(how, on)
    if isinstance(on, str) or (isinstance(on, list | tuple) and all(isinstance(n, str) for n in on)):
        return _join_using(left, right, [on] if isinstance(on, str) else list(on), how)
    return _join_on(left, right, on, how)


def _check_how(how: str, on: Any) -> None:
    allowed = ("inner", "left", "right", "full", "semi", "anti", "cross")
    if how not in allowed:
        raise PlanError("E_JOIN", f"there is no {how!r} join", did_you_mean(str(how), allowed))
    if (on is None) != (how == "cross"):
        message = "a cross join takes no condition" if how == "cross" else f"the {how} join needs a condition"
        raise PlanError("E_JOIN", message, 'on=c.x == d.y, on="key", or how="cross" for every pair')


def _both_sides(left: Collection, right: Collection) -> tuple[Column, ...]:
    """Columns of a join; one that both sides inherited stays with the side that is the collection itself, if any."""
    itself = {relation_of(left).number: 0, relation_of(right).number: 1} if left is not right else {}
    return tuple(
        replace(c, origins=tuple(o for o in c.origins if itself.get(o[0], side) == side))
        for side, columns in enumerate((relation_of(left).columns, relation_of(right).columns))
        for c in columns
    )


def _join_on(left: Collection, right: Collection, on: Any, how: joins.How) -> Collection:
    owner = common_owner(left, right)
    columns = _both_sides(left, right)
    left_node, right_node = relation_of(left).node, relation_of(right).node
    condition = joins.Condition((), ())
    if on is not None:
        whole = predicate([on], Scope(columns, f"the join of {left!r} and {right!r}"))
        condition, right_only = _split(whole, len(relation_of(left).columns), how)
        right_node = right_node if right_only is None else Filter(right_node, right_only)
    node = joins.join(left_node, right_node, condition, how)
    kept = columns[: len(node.types)]
    typed = [replace(c, type=t) for c, t in zip(kept, node.types, strict=True)]
    return Collection(node, typed, owner, parents=(left, right))


def _split(whole: nodes.Expr, width: int, how: joins.How) -> tuple[joins.Condition, nodes.Expr | None]:
    """Split a join's condition into keys and residual, and what can be filtered out of the right side first."""
    left_keys: list[nodes.Expr] = []
    right_keys: list[nodes.Expr] = []
    rest: list[nodes.Expr] = []
    right_only: list[nodes.Expr] = []
    for part in functions.conjuncts(whole):
        sides = [_side(a, width) for a in part.children()] if isinstance(part, nodes.Call) and part.op == "eq" else []
        if sorted(sides) == ["left", "right"]:
            a, b = part.children() if sides[0] == "left" else reversed(part.children())
            left_keys.append(joins.canonical(a))
            right_keys.append(joins.canonical(_shift(b, -width)))
        elif _side(part, width) == "right" and how in {"left", "semi", "anti"}:
            right_only.append(_shift(part, -width))
        else:
            rest.append(part)
    residual = functions.conjunction(rest) if rest else None
    return (
        joins.Condition(tuple(left_keys), tuple(right_keys), residual),
        functions.conjunction(right_only) if right_only else None,
    )


def _side(expr: nodes.Expr, width: int) -> str:
    sides = {"left" if i < width else "right" for i in expr.columns()}
    return sides.pop() if len(sides) == 1 else "both" if sides else "neither"


def _shift(expr: nodes.Expr, by: int) -> nodes.Expr:
    refs = (e for e in expr.walk() if isinstance(e, nodes.ColumnRef))
    return expr.remap({e.index: nodes.ColumnRef(e.type, e.index + by) for e in refs})


def _join_using(left: Collection, right: Collection, names: list[str], how: joins.How) -> Collection:
    """A join on common columns; each appears once: from the side that always exists, or the first that is not NULL."""
    owner = common_owner(left, right)
    if not names:
        raise PlanError("E_JOIN", "the join has an empty list of columns", 'name at least one, or how="cross"')
    left_at = [scope_of(left).named(n).index for n in names]
    right_at = [scope_of(right).named(n).index for n in names]
    pairs = [_key_pair(left, right, a, b) for a, b in zip(left_at, right_at, strict=True)]
    condition = joins.Condition(tuple(a for a, _ in pairs), tuple(b for _, b in pairs))
    node = joins.join(relation_of(left).node, relation_of(right).node, condition, how)
    if how in {"semi", "anti"}:
        return left._derive(node, relation_of(left).columns, right)
    outputs = _merged_columns(left, right, node, dict(zip(left_at, right_at, strict=True)), how)
    return Collection(project(node, [o.expr for o in outputs]), columns_of(outputs), owner, parents=(left, right))


def _key_pair(left: Collection, right: Collection, a: int, b: int) -> tuple[nodes.Expr, nodes.Expr]:
    try:
        equal = functions.call("eq", scope_of(left).at(a), scope_of(right).at(b))
    except PlanError:
        one, other = relation_of(left).columns[a], relation_of(right).columns[b]
        name, kinds = one.name, (one.type, other.type)
        raise PlanError(
            "E_TYPE",
            f"the join's column {name!r} is {kinds[0]!r} on one side and {kinds[1]!r} on the other",
            "cast one of them first",
        ) from None
    first, second = equal.children()
    return joins.canonical(first), joins.canonical(second)


def _merged_columns(
    left: Collection, right: Collection, node: Node, merged: dict[int, int], how: joins.How
) -> list[Output]:
    columns = _both_sides(left, right)
    width = len(relation_of(left).columns)
    refs = joins.refs(node.types)
    outputs = []
    for i, c in enumerate(columns):
        if i < width and i in merged:
            j = width + merged[i]
            mine = {
                "inner": c.origins + columns[j].origins,
                "left": c.origins,
                "right": columns[j].origins,
                "full": (),
            }[how]
            value = {
                "right": refs[j],
                "full": functions.call("coalesce", refs[i], refs[j]) if how == "full" else refs[i],
            }.get(how, refs[i])
            outputs.append(Output(c.name, value, mine))
        elif i < width or i - width not in merged.values():
            outputs.append(Output(c.name, refs[i], c.origins))
    return outputs
