"""Columns of a recursion that have one value in all of its rows: left out of it, and added to its result.

    path(src, dst)    the rows with src = 3, or a path and an edge after it
                      every path has src = 3: what is computed is reached(dst), and the result is (3, dst)

Once a condition is tested where a recursion starts (`everview.plan.narrowed_loops`), all rows agree in its column, and
carrying it along costs a column in every row, every comparison and every index. Without it, this is reachability from
one node, which trees keep without asking for whom.

A column is constant if a test or a literal says so where rows enter the recursion, and the body passes it on. This is
shown by induction: if the variable's rows have the value, so have the body's (`_Induction`).
"""

from __future__ import annotations

from collections.abc import Container, Generator
from dataclasses import dataclass, replace

from everview.expr.functions import conjuncts
from everview.expr.nodes import Call, ColumnRef, Expr, Literal
from everview.plan import nodes as plan
from everview.plan.check import free_variables
from everview.plan.deep_recursion import drive
from everview.plan.rewrites.traversal import everywhere
from everview.plan.substitute import over_inputs
from everview.types import DataType

KINDS = ("int", "str", "bool", "date")
"""Types of which equal values are the same value; 0.0 and -0.0 are not."""

MOST_NODES = 200
"""Maximum number of nodes of a body, which is walked recursively."""


def without_constant_columns(node: plan.Node, arranged: Container[plan.Node] = ()) -> plan.Node:
    """The same rows, by recursions without columns that are constant.

    >>> from everview.expr.functions import call
    >>> from everview.types import INT
    >>> edge, path = plan.Table(0, (INT, INT)), plan.Variable(1, 0, (INT, INT))
    >>> further = plan.Project(plan.Join(path, edge, (1,), (0,)), (ColumnRef(INT, 0), ColumnRef(INT, 3)))
    >>> from_three = plan.Filter(edge, call("eq", ColumnRef(INT, 0), Literal(INT, 3)))
    >>> body = plan.Threshold(plan.Union((from_three, further)), "distinct")
    >>> found = without_constant_columns(plan.LoopResult(plan.Loop(1, (None,), (body,)), 0))
    >>> found.exprs == (Literal(INT, 3), ColumnRef(INT, 0)), len(found.child.types)
    (True, 1)
    """
    return everywhere(node, _changed, arranged)


def _changed(node: plan.Node) -> plan.Node:
    if not isinstance(node, plan.LoopResult) or type(node.loop) is not plan.Loop:
        return node
    loop = node.loop
    if len(loop.bodies) != 1 or loop.priority is not None or loop.queued or loop.max_rounds is not None:
        return node
    if sum(1 for _ in loop.bodies[0].walk()) > MOST_NODES:
        return node
    for column in range(len(node.types)):
        value = _Induction(loop.depth, column).value_in(loop)
        if value is not None and len(node.types) > 1:
            return _changed_below(_without(node, column, value))
    return node


def _changed_below(made: plan.Project) -> plan.Node:
    """There may be another one."""
    below = _changed(made.child)
    return made if below is made.child else replace(made, child=below)


@dataclass(frozen=True)
class Same:
    """The value that the variable's column has, whatever it is."""


SAME = Same()


@dataclass(frozen=True)
class _Induction:
    """The value of a column of a loop, supposing that the variable's column has one."""

    depth: int
    column: int

    def value_in(self, loop: plan.Loop) -> Literal | None:
        """The value of the column in all rows; None if it is not known to have one."""
        found = [self.value(part, self.column) for part in (loop.bodies[0], loop.initials[0]) if part is not None]
        value = _agreed(found)
        return value if isinstance(value, Literal) else None

    def value(self, node: plan.Node, column: int) -> Literal | Same | None:
        """The value of a column of a node."""
        if isinstance(node, plan.Variable):
            return SAME if (node.depth, node.index, column) == (self.depth, 0, self.column) else None
        if isinstance(node, plan.Filter):
            tested = [v for c in conjuncts(node.predicate) if (v := _tested(c, column, node.types[column])) is not None]
            return tested[0] if tested else self.value(node.child, column)
        if isinstance(node, plan.Project):
            expr = node.exprs[column]
            if isinstance(expr, Literal):
                return expr if expr.value is not None and expr.type.kind in KINDS else None
            return self.value(node.child, expr.index) if isinstance(expr, ColumnRef) else None
        if isinstance(node, plan.Union):
            return _agreed([self.value(child, column) for child in node.inputs])
        if isinstance(node, plan.Threshold):
            return self.value(node.child, column)
        if isinstance(node, plan.Reduce) and column < len(node.keys):
            return self.value(node.child, node.keys[column])
        return self._joined(node, column) if isinstance(node, plan.Join) else None

    def _joined(self, node: plan.Join, column: int) -> Literal | Same | None:
        """Of its own side, or of the column of the other one that it equals."""
        width = len(node.left.types)
        keys = list(zip(node.left_keys, node.right_keys, strict=True))
        places = [(node.left, column)] if column < width else [(node.right, column - width)]
        places += [(node.right, b) for a, b in keys if a == column]
        places += [(node.left, a) for a, b in keys if b == column - width]
        return next((v for side, c in places if (v := self.value(side, c)) is not None), None)


def _agreed(values: list[Literal | Same | None]) -> Literal | Same | None:
    """The value that all have; SAME agrees with any."""
    if any(v is None for v in values):
        return None
    said = {(v.type.optional(), v.value): v for v in values if isinstance(v, Literal)}
    if len(said) > 1:
        return None
    return next(iter(said.values()), SAME)


def _tested(condition: Expr, column: int, declared: DataType) -> Literal | None:
    """The constant that a condition says a column equals."""
    if not isinstance(condition, Call) or condition.op != "eq" or declared.kind not in KINDS:
        return None
    for a, b in (condition.args, tuple(reversed(condition.args))):
        if isinstance(a, ColumnRef) and a.index == column and isinstance(b, Literal) and b.value is not None:
            return b if b.type.optional() == declared.optional() else None
    return None


def _without(node: plan.LoopResult, column: int, value: Literal) -> plan.Project:
    """The loop without one of its columns, which is added to its result."""
    loop, types = node.loop, node.types
    kept = [c for c in range(len(types)) if c != column]
    whole = _with_value(plan.Variable(loop.depth, 0, tuple(types[c] for c in kept)), column, types[column], value)
    body = _with_variable(loop.bodies[0], loop.depth, whole)
    initial = loop.initials[0]
    narrow = replace(
        loop, initials=(None if initial is None else _dropped(initial, kept),), bodies=(_dropped(body, kept),)
    )
    return _with_value(plan.LoopResult(narrow, 0), column, types[column], value)


def _with_variable(body: plan.Node, depth: int, new: plan.Node) -> plan.Node:
    """A body with its variable replaced. Loops that do not read it are left alone: their variables may have the same
    depth.
    """

    def step(one: plan.Node) -> Generator[plan.Node, plan.Node, plan.Node]:
        if isinstance(one, plan.Variable) and one.depth == depth:
            return new
        if (depth, 0) not in free_variables(one):
            return one
        made: dict[int, plan.Node] = {}
        for child in one.children():
            made[id(child)] = yield child
        return over_inputs(one, lambda child: made[id(child)])

    return drive(step, body, {})


def _with_value(node: plan.Node, column: int, declared: DataType, value: Literal) -> plan.Project:
    """A node with one column more."""
    exprs: list[Expr] = [ColumnRef(t, i) for i, t in enumerate(node.types)]
    exprs.insert(column, Literal(declared, value.value))
    return plan.Project(node, tuple(exprs))


def _dropped(node: plan.Node, kept: list[int]) -> plan.Node:
    """A node with some of its columns; the others are the same in all rows."""
    if isinstance(node, plan.Threshold):
        return replace(node, child=_dropped(node.child, kept))
    if isinstance(node, plan.Union):
        return plan.Union(tuple(_dropped(child, kept) for child in node.inputs))
    if isinstance(node, plan.Project):
        return _dropped_below(replace(node, exprs=tuple(node.exprs[c] for c in kept)), node.exprs, kept)
    if isinstance(node, plan.Reduce):
        keys = tuple(k for i, k in enumerate(node.keys) if i in kept)
        if keys and len(kept) == len(keys) + len(node.aggregates):
            return replace(node, keys=keys)
    return plan.Project(node, tuple(ColumnRef(node.types[c], c) for c in kept))


def _dropped_below(made: plan.Project, before: tuple[Expr, ...], kept: list[int]) -> plan.Project:
    """A projection without a column that an aggregate below it only has for that: one key less."""
    gone = {e.index for c, e in enumerate(before) if c not in kept and isinstance(e, ColumnRef)}
    below, read = made.child, {c for e in made.exprs for c in e.columns()}
    if not isinstance(below, plan.Reduce | plan.Project) or gone & read or not gone:
        return made
    left = [c for c in range(len(below.types)) if c not in gone]
    places = {c: ColumnRef(below.types[c], i) for i, c in enumerate(left)}
    return plan.Project(_dropped(below, left), tuple(e.remap(places) for e in made.exprs))
