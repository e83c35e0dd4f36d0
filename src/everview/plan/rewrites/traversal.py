"""Shared by rewrites: traversals, whether an expression can fail, and the constants that a condition asks for."""

from __future__ import annotations

from collections.abc import Callable, Container, Generator

from everview.expr.functions import FUNCTIONS
from everview.expr.nodes import Call, ColumnRef, Expr, Literal
from everview.plan import nodes as plan
from everview.plan.check import free_variables, readers
from everview.plan.deep_recursion import drive
from everview.plan.frontier import Frontier
from everview.plan.loop_ways import NotMonotone, disjuncts
from everview.plan.monotone import recognised
from everview.plan.substitute import over_inputs
from everview.types import DataType


def everywhere(
    root: plan.Node, change: Callable[[plan.Node], plan.Node], arranged: Container[plan.Node] = ()
) -> plan.Node:
    """A plan with every node rewritten bottom-up; what is `arranged` is unchanged.

    >>> from everview.types import INT
    >>> table = plan.Table(0, (INT,))
    >>> twice = plan.Negate(plan.Negate(table))
    >>> everywhere(twice, lambda n: table if n == twice else n) == table
    True
    """

    def step(one: plan.Node) -> Generator[plan.Node, plan.Node, plan.Node]:
        if one in arranged:
            return one
        made: dict[int, plan.Node] = {}
        for child in one.children():
            made[id(child)] = yield child
        return change(over_inputs(one, lambda child: made[id(child)]))

    return drive(step, root, {})


def filtered_recursions(
    root: plan.Node, change: Callable[[plan.Filter, Frontier], plan.Node | None], arranged: Container[plan.Node]
) -> plan.Node:
    """A plan with conditions on monotone recursions rewritten; None: not this one. A recursion that somebody else reads
    or keeps, or that is part of another one, is unchanged.
    """
    read = readers(root)

    def changed(node: plan.Node) -> plan.Node:
        if not isinstance(node, plan.Filter) or not isinstance(node.child, plan.LoopResult):
            return node
        result = node.child
        if result in arranged or read.get(result, 1) > 1 or free_variables(result):
            return node
        try:
            found = recognised(result, arranged)
        except NotMonotone:
            return node
        made = change(node, found)
        return node if made is None else made

    return everywhere(root, changed, arranged)


def tables(root: plan.Node) -> set[plan.Node]:
    """The tables that a plan refers to."""
    return {node for node in root.walk() if isinstance(node, plan.Table)}


def never_fails(expr: Expr) -> bool:
    """Whether an expression has a value for every row, without calling Python.

    >>> from everview.expr.functions import call
    >>> from everview.types import INT
    >>> x = ColumnRef(INT, 0)
    >>> never_fails(call("lt", x, Literal(INT, 3))), never_fails(call("lt", call("add", x, x), Literal(INT, 3)))
    (True, False)
    """
    return all(
        isinstance(e, ColumnRef | Literal) or (isinstance(e, Call) and e.op in FUNCTIONS and not FUNCTIONS[e.op].fails)
        for e in expr.walk()
    )


def values_given(condition: Expr, column: int, kind: DataType) -> list[Literal] | None:
    """The constants of which a column must equal one by a condition; None if it says no such thing.

    >>> from everview.expr.functions import call
    >>> from everview.types import INT
    >>> x, three, five = ColumnRef(INT, 0), Literal(INT, 3), Literal(INT, 5)
    >>> either = call("or", call("eq", x, three), call("eq", five, x))
    >>> values_given(either, 0, INT) == [three, five], values_given(either, 1, INT)
    (True, None)
    """
    cases = [_value_given(case, column, kind) for case in disjuncts(condition)]
    values = [case for case in cases if case is not None]
    return list(dict.fromkeys(values)) if len(values) == len(cases) else None


def _value_given(condition: Expr, column: int, kind: DataType) -> Literal | None:
    if not isinstance(condition, Call) or condition.op != "eq" or kind.kind == "float":
        return None
    for a, b in (condition.args, tuple(reversed(condition.args))):
        if isinstance(a, ColumnRef) and a.index == column and isinstance(b, Literal) and b.value is not None:
            return b if b.type.optional() == kind.optional() else None
    return None


def empty(types: plan.Types) -> plan.Constant:
    """No rows at all."""
    return plan.Constant((), types)


def is_empty(node: plan.Node) -> bool:
    """Whether a plan is known to have no rows."""
    return isinstance(node, plan.Constant) and not node.rows
