"""Linear plan nodes as dataflow: project, filter, negate, union, flat-map, and constants.

A linear node's output for a change depends on that change alone. Such a node has no state and needs no operator: it
transforms the branches of a flow, and kernels evaluate the expressions where those branches end. Expressions that need
Python are the exception and get an operator of their own. So do flows that would grow without bound: a chain of
thousands of filters and projections would become one expression as deep, and unions of filters of unions double their
branches each time (`_relayed`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from everview.dataflow import python_operators
from everview.dataflow.operators import Arrange, Arrangement, PythonMap, columns
from everview.dataflow.partitioning import ANYWHERE, SINGLE_SHARD
from everview.dataflow.streams import Flow, deepest, united
from everview.errors import PlanError
from everview.expr.lower import lower
from everview.expr.nodes import Expr
from everview.plan import nodes as plan
from everview.plan.check import free_variables
from everview.plan.joins import refs
from everview.types import DataType

if TYPE_CHECKING:
    from everview.dataflow.builder import Builder


DEEPEST = 50
"""Maximum call depth in the program of a branch."""

MOST_BRANCHES = 64
"""Maximum number of branches of a nested union."""


def table(builder: Builder, node: plan.Table) -> Flow:
    """Tables exist before the plans that read them (`Builder.add_table`), or were dropped."""
    raise PlanError("E_DROPPED", "a table of this plan was dropped", "build the collection anew from existing tables")


def constant(builder: Builder, node: plan.Constant) -> Flow:
    """Constant rows, created with the operator; with several shards, on one."""
    cols = len(node.types)
    operator = Arrange(builder.dataflow, builder.dataflow.root, cols, label="constant", partitioning=SINGLE_SHARD)
    rows = [
        [builder.dataflow.encode_literal(t, value) for t, value in zip(node.types, row, strict=True)]
        for row in node.rows
    ]
    builder.dataflow.begin_with(operator, np.array(rows, dtype=np.int64).reshape(len(rows), cols))
    builder.arrangements[builder.key(node)] = [Arrangement(operator, tuple(range(cols)))]
    return columns(operator, node.types, tuple(range(cols)))


def project(builder: Builder, node: plan.Project) -> Flow:
    """Replace the columns of each row."""
    return _linear(builder, node.child, node.exprs, None)


def filtered(builder: Builder, node: plan.Filter) -> Flow:
    """Rows for which the predicate is true."""
    return _linear(builder, node.child, None, node.predicate)


def _linear(builder: Builder, child: plan.Node, exprs: tuple[Expr, ...] | None, predicate: Expr | None) -> Flow:
    flow = builder.flow(child)
    wanted = exprs if exprs is not None else refs(child.types)
    if lower(wanted, predicate, len(child.types), builder.dataflow.encode_literal) is None:
        run = python_operators.expressions(wanted, predicate, builder.dataflow.interner)
        return _python(builder, child, tuple(e.type for e in wanted), run, "expressions")
    own = deepest(wanted, predicate)
    if any(b.depth > 1 and b.depth + own > max(DEEPEST, own + 1) for b in flow):
        flow = _relayed(builder, child)
    result = []
    for branch in flow:
        moved = branch if predicate is None else branch.filter(predicate)
        result.append(moved if exprs is None else moved.project(exprs))
    return tuple(result)


def _relayed(builder: Builder, node: plan.Node) -> Flow:
    """The node's rows through an operator of its own that only forwards them."""
    flow = builder.flow(node)
    if len(flow) == 1 and flow[0].depth <= 1 and flow[0].predicate is None:
        return flow
    with builder.making(node):
        operator = Arrange(
            builder.dataflow, builder.scope(node), len(node.types), stateless=True, label="relay", partitioning=ANYWHERE
        )
        operator.fed = node, tuple(range(len(node.types)))
        operator.listen(flow)
    found = columns(operator, node.types, tuple(range(len(node.types))))
    builder.flows[builder.key(node)] = found
    return found


def _python(
    builder: Builder, child: plan.Node, types: tuple[DataType, ...], run: Callable[..., Any], label: str
) -> Flow:
    flow = builder.flow(child)  # first: operators run in order of creation
    operator = PythonMap(builder.dataflow, builder.scope(child), len(child.types), len(types), run, label)
    operator.fed = child, tuple(range(len(child.types)))
    operator.listen(flow)
    return columns(operator, types, tuple(range(len(types))))


def flat_map(builder: Builder, node: plan.FlatMap) -> Flow:
    """Map each row to the rows that a Python function returns."""
    run = python_operators.flat_map(node.function, node.child.types, node.columns, builder.dataflow.interner)
    label = getattr(node.function, "__name__", "flat_map")
    return _python(builder, node.child, node.columns, run, label)


def negate(builder: Builder, node: plan.Negate) -> Flow:
    """Negate all multiplicities."""
    return tuple(b.negate() for b in builder.flow(node.child))


def guarded(builder: Builder, node: plan.Guard) -> Flow:
    """The rows unchanged: their arrangement checks them."""
    return builder.flow(node.child)


def union(builder: Builder, node: plan.Union) -> Flow:
    """All branches of all inputs; in a prioritised loop, initial rows enter by priority."""
    entered: dict[plan.Node, Flow] = {}
    for depth, _ in free_variables(node):
        entered.update(builder.enclosing[depth].entered)
    flow = united(entered.get(i) or builder.flow(i) for i in node.inputs)
    if len(flow) <= max(MOST_BRANCHES, len(node.inputs)):
        return flow
    large = [i for i in node.inputs if i not in entered and len(builder.flow(i)) > 1]
    relayed = {i: _relayed(builder, i) for i in large}
    return united(entered.get(i) or relayed.get(i) or builder.flow(i) for i in node.inputs)
