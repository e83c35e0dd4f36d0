"""Provenance as a column: rewrites a monotone plan so that every row carries the expression of its derivations.

The *provenance* of a row of a view is a Boolean expression over rows of tables. It is true in exactly those worlds
(subsets of the tables' rows) in which the row exists (liu-2016, section 3.3). A monotone plan (`everview.plan.worlds`)
is rewritten node by node into one with an additional column:

    table           each row has its own variable (`Labelled`)
    constants       true
    select, where   unchanged
    join            both: AND
    union           all rows of both
    distinct        of equal rows, one of them: OR (`Disjunction`)
    loop            its variables have the column, its bodies are rewritten, and end with a distinct

Kind "bdd" keeps the whole expression. It can be large: for reachability in a dense graph it is exponential. An
expression therefore has a budget of nodes. One that would exceed it is *too large*, and so is everything derived from
it, until the rows are read: then the row is an error, or has its lazy provenance, as configured (`beyond`).

Kind "lazy" keeps one derivation for each row, the first: with the fewest loop rounds, then the least code. It is a
conjunction, always small, and is replaced by the next when one of its rows is deleted. An additional column holds the
rounds, which makes the choice well-founded: a derivation is chosen from rows with fewer rounds.

Hazard: expressions that are too large must stay so in a loop. What grows can become smaller again (x or not x), so that
a row would be too large in every second round and the loop would never end. A loop's body is therefore given its own
rows that are too large (`_Rewriting.loop`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

from everview.errors import PlanError
from everview.expr import nodes as expr
from everview.plan import nodes as plan
from everview.plan.deep_recursion import drive
from everview.plan.worlds import offence
from everview.types import BOOL, INT

Kind = Literal["lazy", "bdd"]
Beyond = Literal["error", "lazy"]
Order = Literal["depth-first", "arrival"]

TRUE, TOO_LARGE = 1, 2
"""Codes of the true expression, and of one that is too large (`kernels.provenance.nodes`)."""

MOST_NODES = 1000
"""Default node budget of an expression."""

MOST_TABLES = 1 << 19
"""Maximum number of tables with variables: each has its own range of labels (`kernels.provenance.labels`)."""

COLUMN = "provenance"
"""The name of the column."""


@dataclass(frozen=True)
class Provenance:
    """Provenance options: the kind, the node budget of an expression, the treatment of rows that exceed it, and the
    order of variables. The order is that of a depth-first walk if a table's first two columns have the same type and
    may be edges, otherwise the order of arrival.

    >>> Provenance("bdd", nodes=50, beyond="lazy")
    Provenance(kind='bdd', nodes=50, beyond='lazy', order='depth-first')
    """

    kind: Kind
    nodes: int = MOST_NODES
    beyond: Beyond = "error"
    order: Order = "depth-first"


@dataclass(frozen=True, eq=False)
class Labelled(plan.Node):
    """Each distinct row with its label, the position of its variable in the global order; `edges`: along a depth-first
    walk of the edges in the first two columns, else in order of arrival.
    """

    child: plan.Node
    edges: bool

    @cached_property
    def types(self) -> plan.Types:
        return (*self.child.types, INT)


@dataclass(frozen=True, eq=False)
class Disjunction(plan.Node):
    """Merges rows that are equal except for the last column, with the disjunction of their expressions, which may have
    `nodes` nodes.
    """

    child: plan.Node
    nodes: int

    @cached_property
    def types(self) -> plan.Types:
        return self.child.types


def wanted(provenance: Provenance | Kind) -> Provenance:
    """The options, checked."""
    found = Provenance(provenance) if isinstance(provenance, str) else provenance
    if not isinstance(found, Provenance) or found.kind not in ("lazy", "bdd"):
        raise PlanError(
            "E_PROVENANCE",
            f"provenance={provenance!r} is not a kind of provenance",
            'give "lazy" (one derivation for each row), "bdd" (all of them), or everview.Provenance(...)',
        )
    if not isinstance(found.nodes, int) or isinstance(found.nodes, bool) or not 1 <= found.nodes <= 10**7:
        raise PlanError(
            "E_PROVENANCE", f"nodes={found.nodes!r} is not a valid budget", "give a number of nodes, at least 1"
        )
    if found.beyond not in ("error", "lazy"):
        raise PlanError("E_PROVENANCE", f"beyond={found.beyond!r}", 'rows beyond the budget become "error" or "lazy"')
    if found.order not in ("depth-first", "arrival"):
        raise PlanError("E_PROVENANCE", f"order={found.order!r}", 'variables are in order "depth-first" or "arrival"')
    return found


def with_provenance(node: plan.Node, provenance: Provenance) -> plan.Node:
    """The plan with an additional column; each distinct row once."""
    if kept_in(node):
        raise refused("it reads a view that has provenance itself")
    if found := offence(node):
        raise refused(found)
    if provenance.kind == "lazy":
        return _checked(_Lazy(provenance).all_of(node))
    full = _Full(provenance).all_of(node)
    if provenance.beyond == "error":
        return _checked(full)
    return _either(full, _Lazy(provenance).all_of(node))


def kept_in(node: plan.Node) -> bool:
    """Whether a plan keeps provenance."""
    return Labelled in node.kinds


def labels_in(node: plan.Node) -> list[Labelled]:
    """The tables whose rows are variables of a plan's expressions."""
    return list(dict.fromkeys(each for each in node.walk() if isinstance(each, Labelled)))


def table_of(node: Labelled) -> plan.Table:
    """The table whose rows are labelled."""
    found = node.child
    while not isinstance(found, plan.Table):
        (found,) = found.children()
    return found


def refused(why: str) -> PlanError:
    """Return the error for a view that cannot have provenance."""
    return PlanError(
        "E_MONOTONE",
        f"provenance cannot be kept: {why}",
        "keep it for a view of select, where, join, union, distinct and loops of them, below that step; "
        "why, trust and what_if answer for every view",
    )


def _and(left: expr.Expr, right: expr.Expr, nodes: int) -> expr.Expr:
    return expr.Call(INT, "provenance_and", (left, right, expr.Literal(INT, nodes)))


def _refs(types: plan.Types, start: int = 0) -> tuple[expr.Expr, ...]:
    return tuple(expr.ColumnRef(t, start + i) for i, t in enumerate(types))


class _Rewriting(ABC):
    """One kind of rewriting; `extra` columns follow those of every node, the expression last."""

    extra: int

    def __init__(self, asked: Provenance) -> None:
        self.nodes = asked.nodes
        self._walk = asked.order == "depth-first"
        self._done: dict[plan.Node, plan.Node] = {}

    def all_of(self, node: plan.Node) -> plan.Node:
        """The plan's distinct rows with their expressions, and nothing else."""
        found = self.distinct(drive(self._rewritten, node, self._done))
        width = len(node.types)
        refs = _refs(found.types)
        return found if self.extra == 1 else plan.Project(found, (*refs[:width], refs[-1]))

    def distinct(self, node: plan.Node) -> plan.Node:
        """Each row once."""
        if isinstance(node, plan.LoopResult):
            return node  # its body is
        if isinstance(node, plan.Project) and isinstance(node.child, Labelled):
            return node
        return self.one_of_equal(node)

    @abstractmethod
    def one_of_equal(self, node: plan.Node) -> plan.Node:
        """One of the rows that are equal except for the extra columns."""

    @abstractmethod
    def beginning(self) -> tuple[expr.Expr, ...]:
        """The columns before the expression, for rows of tables."""

    @abstractmethod
    def joined(self, left: tuple[expr.Expr, ...], right: tuple[expr.Expr, ...]) -> tuple[expr.Expr, ...]:
        """The extra columns of a pair of rows."""

    def again(self, variable: plan.Variable) -> plan.Node:
        """A loop's variable, as seen by the next round."""
        return variable

    def loop(self, body: plan.Node, variable: plan.Variable) -> plan.Node:
        """A loop's body."""
        return self.one_of_equal(body)

    def _rewritten(self, node: plan.Node):  # type: ignore[no-untyped-def]  # a generator of everview.plan.deep_recursion
        width = len(node.types) if not isinstance(node, plan.Loop) else 0
        if isinstance(node, plan.Table):
            if node.id >= MOST_TABLES:
                raise refused(f"the session has made more than {MOST_TABLES:,} tables")
            edges = self._walk and len(node.types) >= 2 and node.types[0] == node.types[1]
            labelled = Labelled(plan.Threshold(node, "distinct"), edges)
            code = expr.Call(INT, "provenance_variable", (expr.ColumnRef(INT, width),))
            return plan.Project(labelled, (*_refs(node.types), *self.beginning(), code))
        if isinstance(node, plan.Constant):
            return plan.Project(node, (*_refs(node.types), *self.beginning(), expr.Literal(INT, TRUE)))
        if isinstance(node, plan.Project):
            child = yield node.child
            return plan.Project(child, (*node.exprs, *_refs(child.types)[-self.extra :]))
        if isinstance(node, plan.Filter):
            return plan.Filter((yield node.child), node.predicate)
        if isinstance(node, plan.Union):
            inputs = []
            for each in node.inputs:
                inputs.append((yield each))
            return plan.Union(tuple(inputs))
        if isinstance(node, plan.Join):
            left = yield node.left
            right = yield node.right
            pairs = plan.Join(left, right, node.left_keys, node.right_keys)
            refs = _refs(pairs.types)
            l, r = refs[: len(left.types)], refs[len(left.types) :]
            both = self.joined(l[-self.extra :], r[-self.extra :])
            return plan.Project(pairs, (*l[: -self.extra], *r[: -self.extra], *both))
        if isinstance(node, plan.Threshold):
            return self.distinct((yield node.child))
        if isinstance(node, plan.Variable):
            return self.again(self._variable(node))
        if isinstance(node, plan.LoopResult):
            return (yield from self._result(node))
        raise refused(_offence(node))

    def _variable(self, node: plan.Variable) -> plan.Variable:
        return replace(node, columns=(*node.columns, *(INT,) * self.extra))

    def _result(self, node: plan.LoopResult):  # type: ignore[no-untyped-def]
        loop = node.loop
        if loop.at_limit == "stop" and loop.max_rounds is not None:
            raise refused("a loop that is stopped after some rounds has no fixed point")
        if loop.queued:
            raise refused("a loop that takes rows out of a queue depends on their order")
        initials: list[plan.Node | None] = []
        for each in loop.initials:
            initials.append(None if each is None else self.distinct((yield each)))
        bodies = []
        for index, each in enumerate(loop.bodies):
            variable = self._variable(plan.Variable(loop.depth, index, each.types))
            bodies.append(self.loop((yield each), variable))
        plain = plan.Loop(
            loop.depth, tuple(initials), tuple(bodies), loop.priority, loop.max_rounds, loop.at_limit, loop.queued
        )
        return replace(node, loop=plain)


class _Full(_Rewriting):
    """With the whole expression."""

    extra = 1

    def one_of_equal(self, node: plan.Node) -> plan.Node:
        return node if isinstance(node, Disjunction) else Disjunction(node, self.nodes)

    def beginning(self) -> tuple[expr.Expr, ...]:
        return ()

    def joined(self, left: tuple[expr.Expr, ...], right: tuple[expr.Expr, ...]) -> tuple[expr.Expr, ...]:
        return (_and(left[0], right[0], self.nodes),)

    def loop(self, body: plan.Node, variable: plan.Variable) -> plan.Node:
        inside = body.child if isinstance(body, Disjunction) else body
        large = expr.Call(BOOL, "eq", (_refs(variable.types)[-1], expr.Literal(INT, TOO_LARGE)))
        return Disjunction(plan.Union((inside, plan.Filter(variable, large))), self.nodes)


class _Lazy(_Rewriting):
    """With the rounds of the first derivation, and its expression."""

    extra = 2

    def one_of_equal(self, node: plan.Node) -> plan.Node:
        keys = len(node.types) - 2
        order = ((keys, False), (keys + 1, False))
        found = plan.TopK(node, tuple(range(keys)), order, 1)
        return node if isinstance(node, plan.TopK) and node == replace(found, child=node.child) else found

    def beginning(self) -> tuple[expr.Expr, ...]:
        return (expr.Literal(INT, 0),)

    def joined(self, left: tuple[expr.Expr, ...], right: tuple[expr.Expr, ...]) -> tuple[expr.Expr, ...]:
        return expr.Call(INT, "greatest", (left[0], right[0])), _and(left[1], right[1], self.nodes)

    def again(self, variable: plan.Variable) -> plan.Node:
        *own, rounds, code = _refs(variable.types)
        return plan.Project(variable, (*own, expr.Call(INT, "add", (rounds, expr.Literal(INT, 1))), code))


def _checked(node: plan.Node) -> plan.Node:
    """The rows; one whose expression is too large is an error."""
    *own, code = _refs(node.types)
    return plan.Project(node, (*own, expr.Call(INT, "provenance_checked", (code,))))


def _either(full: plan.Node, lazy: plan.Node) -> plan.Node:
    """The rows of both with the full expressions, except for those that are too large."""
    *own, code = _refs(full.types)
    fits = expr.Call(BOOL, "ne", (code, expr.Literal(INT, TOO_LARGE)))
    ranked = plan.Union(
        (
            plan.Project(plan.Filter(full, fits), (*own, expr.Literal(INT, 0), code)),
            plan.Project(lazy, (*own, expr.Literal(INT, 1), code)),
        )
    )
    keys = len(own)
    first = plan.TopK(ranked, tuple(range(keys)), ((keys, False), (keys + 1, False)), 1)
    refs = _refs(first.types)
    return _checked(plan.Project(first, (*refs[:keys], refs[-1])))


def _offence(node: plan.Node) -> str:
    """Why a node has no rewritten form."""
    if isinstance(node, plan.Negate):
        return "it takes rows away that others would give"
    if isinstance(node, (plan.Reduce, plan.TopK, plan.PythonReduce)):
        return "aggregates, first rows and functions of groups depend on all rows of a group"
    if isinstance(node, plan.FlatMap):
        return "a Python function makes several rows of one"
    return f"a {type(node).__name__} is not monotone"
