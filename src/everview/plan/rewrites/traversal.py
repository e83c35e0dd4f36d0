"""Shared by rewrites: a traversal, and whether an expression can fail."""

from __future__ import annotations

from collections.abc import Callable, Container, Generator

from everview.expr.functions import FUNCTIONS
from everview.expr.nodes import Call, ColumnRef, Expr, Literal
from everview.plan import nodes as plan
from everview.plan.deep_recursion import drive
from everview.plan.substitute import over_inputs


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


def empty(types: plan.Types) -> plan.Constant:
    """No rows at all."""
    return plan.Constant((), types)


def is_empty(node: plan.Node) -> bool:
    """Whether a plan is known to have no rows."""
    return isinstance(node, plan.Constant) and not node.rows
