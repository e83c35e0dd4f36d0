"""Reductions as dataflow: distinct, aggregates, top-k, windows, and functions of whole groups.

A reduction reads an arrangement by its key columns and maintains an arrangement of its output, which others share. How
a group's output is computed differs. Distinct and extremes scan the group's rows in order. Counts and sums are carried
in the differences themselves, so that a group's rows need not be stored at all. What has no kernel (orders of strings,
window functions, Python) is computed by the driver. An aggregation of several kinds is one reduction for each kind,
joined.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from everview.dataflow import joins, python_operators
from everview.dataflow.operators import Arrange, Arrangement, Reduce, columns
from everview.dataflow.streams import Flow, Route, reordered
from everview.dataflow.windows import sums_may_not_fit, windows
from everview.expr.nodes import Call, ColumnRef, Expr, Literal
from everview.kernels.expressions.scalars import ERROR_OVERFLOW
from everview.kernels.operators import stream as stream_k
from everview.kernels.reduce import context as reduction_k
from everview.plan import nodes as plan
from everview.plan import prefixes
from everview.plan.check import free_variables
from everview.plan.windows import Window
from everview.types import BOOL, INT, INTERNED, DataType

if TYPE_CHECKING:
    from everview.dataflow.builder import Builder


def threshold(builder: Builder, node: plan.Threshold) -> Flow:
    """Each row once (distinct), or rows with positive multiplicity (positive)."""
    early_output = builder.early_outputs.get(builder.key(node))
    source = builder.arrange(node.child, () if early_output is None else early_output.order, now=True)
    kind = reduction_k.KIND_DISTINCT if node.kind == "distinct" else reduction_k.KIND_POSITIVE
    return _reduction(builder, node, source, len(node.types), source.order, kind, label=node.kind)


def reduce(builder: Builder, node: plan.Reduce) -> Flow:
    """Aggregates by key: one reduction for each kind, joined on the key."""
    parts = kinds(node)
    if len(parts) == 1:
        return _one_kind(builder, node)
    keys = len(node.keys)
    pairs = tuple((i, i) for i in range(keys))
    joined: plan.Node = parts[0]
    flow = builder.flow(joined)
    where = {aggregate: keys + i for i, aggregate in enumerate(parts[0].aggregates)}
    for part in parts[1:]:
        flow = joins.on_pairs(builder, joined, part, pairs)
        joined = plan.Join(joined, part, tuple(range(keys)), tuple(range(keys)))
        builder.flows[builder.key(joined)] = flow
        start = len(joined.types) - len(part.aggregates)
        where.update({aggregate: start + i for i, aggregate in enumerate(part.aggregates)})
    exprs = [ColumnRef(t, i) for i, t in enumerate(node.types[:keys])]
    exprs += [ColumnRef(a.type, where[a]) for a in node.aggregates]
    return tuple(b.project(tuple(exprs)) for b in flow)


def _one_kind(builder: Builder, node: plan.Reduce) -> Flow:
    kind = node.aggregates[0].kind
    if kind == "count_distinct":
        return _count_distinct(builder, node)
    if kind in ("min", "max"):
        return _extreme(builder, node)
    return _accumulate(builder, node)


def _count_distinct(builder: Builder, node: plan.Reduce) -> Flow:
    aggregate = node.aggregates[0]
    assert aggregate.column is not None
    narrow = _narrow(node.child, (*node.keys, aggregate.column))
    keys = tuple(range(len(node.keys)))
    count = plan.Aggregate("count", len(keys), aggregate.type)
    return builder.flow(plan.Reduce(plan.Threshold(narrow, "distinct"), keys, (count,)))


def _extreme(builder: Builder, node: plan.Reduce) -> Flow:
    aggregate = node.aggregates[0]
    assert aggregate.column is not None
    keys = tuple(range(len(node.keys)))
    narrow = _narrow(node.child, (*node.keys, aggregate.column))
    source = builder.arrange(narrow, keys, gather=not keys, now=True)
    label = f"{aggregate.kind} by {list(node.keys)}"
    if node.child.types[aggregate.column].kind in INTERNED:
        run = python_operators.extreme(aggregate.kind == "min", narrow.types, len(keys), builder.dataflow.interner)
        kind = reduction_k.KIND_PYTHON
    else:
        run = None
        kind = reduction_k.KIND_MINIMUM if aggregate.kind == "min" else reduction_k.KIND_MAXIMUM
    return _reduction(builder, node, source, len(keys), tuple(range(len(node.types))), kind, label=label, run=run)


def _accumulate(builder: Builder, node: plan.Reduce) -> Flow:
    # a count of what is never NULL reads no value; only columns that accumulators read may follow the keys
    values = [a.column for a in node.aggregates if a.column is not None]
    values = [c for c in dict.fromkeys(values) if node.child.types[c].nullable or _summed(node, c)]
    keys = len(node.keys)
    accumulators: list[tuple[int, int]] = [(stream_k.ACC_ONE, -1)]
    spec: list[int] = []
    for aggregate in node.aggregates:
        column = keys + values.index(aggregate.column) if aggregate.column in values else -1
        declared = None if aggregate.column is None else node.child.types[aggregate.column]
        spec += _accumulators(aggregate, column, declared, accumulators)
    source = _totals(builder, node, values, tuple(accumulators))
    label = f"{', '.join(a.kind for a in node.aggregates)} by {list(node.keys)}"
    order = tuple(range(len(node.types)))
    flow = _reduction(builder, node, source, keys, order, reduction_k.KIND_ACCUMULATE, spec, label=label)
    if any(kind in _FALLIBLE for kind in spec[::3]):
        _note_faults(builder, node, source, spec, label)
    return flow


def _totals(
    builder: Builder, node: plan.Reduce, values: Sequence[int], accumulators: tuple[tuple[int, int], ...]
) -> Arrangement:
    """The groups of a reduction, with what it adds up in their differences; `values` are the columns it reads."""
    flow = builder.flow(node.child)
    read = (*node.keys, *values)
    scope = builder.scope(node.child)
    label = f"totals by {list(node.keys)}"
    operator = Arrange(builder.dataflow, scope, len(node.keys), diffs=len(accumulators), label=label)
    operator.fed = node.child, read
    operator.listen(reordered(flow, read), Route(accumulators=accumulators))
    return Arrangement(operator, tuple(range(len(node.keys))))


_FALLIBLE = (reduction_k.SPEC_SUM_INT, reduction_k.SPEC_SUM_FLOAT, reduction_k.SPEC_AVG_FLOAT)
"""Aggregates whose values may overflow."""


def _note_faults(builder: Builder, node: plan.Reduce, source: Arrangement, spec: list[int], label: str) -> None:
    """Collect the groups whose sums overflow, which the reduction omits, among its errors."""
    sums = builder.arrangements[builder.key(node)][-1].operator
    assert isinstance(sums, Reduce)
    keys = len(node.keys)
    faults = Reduce(builder.dataflow, source.operator.scope, keys, keys, f"out of range: {label}")
    faults.bind(source, reduction_k.KIND_FAULTS, spec, watched=sums)
    groups = columns(faults, node.types[:keys], tuple(range(keys)))
    sums.error_batcher()
    assert sums.errors is not None
    sums.errors.listen(tuple(branch.project((Literal(INT, ERROR_OVERFLOW),)) for branch in groups))


def enough(builder: Builder, node: plan.Project) -> Flow | None:
    """The groups with at least so many members, if that is what a node in a loop asks for; else None.

    In a loop, counts change with every round although few groups come or go. A reduction that outputs the groups alone
    is silent about the others, and its output is the arrangement that joins read.
    """
    members = _members(node)
    if members is None or not free_variables(node):
        return None
    counted, least = members
    keys = len(counted.keys)
    source = _totals(builder, counted, (), ((stream_k.ACC_ONE, -1),))
    label = f"with {least} or more by {list(counted.keys)}"
    return _reduction(builder, node, source, keys, tuple(range(keys)), reduction_k.KIND_ENOUGH, [least], label=label)


def _members(node: plan.Project) -> tuple[plan.Reduce, int] | None:
    """The reduction that counts, and the least count, if the node is the keys of the groups that have so many.

    >>> from everview.types import INT
    >>> count = plan.Reduce(plan.Table(0, (INT, INT)), (1,), (plan.Aggregate("count", None, INT),))
    >>> many = plan.Filter(count, Call(BOOL, "gt", (ColumnRef(INT, 1), Literal(INT, 4))))
    >>> found, least = _members(plan.Project(many, (ColumnRef(INT, 0),)))
    >>> found is count, least
    (True, 5)
    """
    asked = node.child
    if not isinstance(asked, plan.Filter) or not isinstance(asked.child, plan.Reduce):
        return None
    counted = asked.child
    keys = tuple(ColumnRef(t, i) for i, t in enumerate(counted.types[: len(counted.keys)]))
    if not keys or node.exprs != keys or [(a.kind, a.column) for a in counted.aggregates] != [("count", None)]:
        return None
    match asked.predicate:
        case Call(op="ge" | "gt" as op, args=(ColumnRef(index=read), Literal(value=int(least)))) if read == len(keys):
            return counted, max(least + (op == "gt"), 1)
    return None


def top(builder: Builder, node: plan.TopK) -> Flow:
    """The first rows of each group in an order: that of the arrangement, or by Python for strings."""
    if any(node.child.types[c].kind in INTERNED for c, _ in node.order):
        fewer = prefixes.candidates(node)
        if fewer is not None:
            node = replace(node, child=fewer)
        run = python_operators.top(node, builder.dataflow.interner)
        return _python(builder, node, run, len(node.types), f"top {node.limit}")
    sort_keys = tuple(_sort_key(ColumnRef(node.child.types[c], c), down) for c, down in node.order)
    rest = [c for c in range(len(node.types)) if c not in node.keys]
    exprs = [ColumnRef(node.child.types[c], c) for c in (*node.keys, *rest)]
    keys = len(node.keys)
    ordered = plan.Project(node.child, (*exprs[:keys], *sort_keys, *exprs[keys:]))
    source = builder.arrange(ordered, tuple(range(keys + len(sort_keys))), gather=not keys, now=True)
    label = f"top {node.limit} by {list(node.keys)}"
    spec = [node.offset, node.limit]
    key = _TopOutput(ordered, keys, node.limit, node.offset)
    flow = _reduction(builder, key, source, keys, source.order, reduction_k.KIND_TOP, spec, label=label)
    place = {c: i for i, c in enumerate(node.keys)} | {c: keys + len(sort_keys) + i for i, c in enumerate(rest)}
    return tuple(b.project(tuple(ColumnRef(t, place[c]) for c, t in enumerate(node.types))) for b in flow)


def python(builder: Builder, node: plan.PythonReduce) -> Flow:
    """Groups reduced by a Python function."""
    run = python_operators.reduction(node, builder.dataflow.interner)
    label = getattr(node.function, "__name__", "reduce")
    return _python(builder, node, run, len(node.types), label)


def window(builder: Builder, node: Window) -> Flow:
    """Window functions over each row's group."""
    child = len(node.child.types)
    order = plan.keys_first(node.keys, child)
    narrow = _narrow(node.child, order)
    source = builder.arrange(narrow, tuple(range(len(node.keys))), gather=not node.keys, now=True, plain=True)
    fallible = sums_may_not_fit(node)
    output = _FlaggedWindow(node) if fallible else node
    order = (*order, *range(child, len(output.types)))
    run = windows(node, builder.dataflow.interner)
    label = f"window by {list(node.keys)}"
    keys = len(node.keys)
    flow = _reduction(builder, output, source, keys, order, reduction_k.KIND_PYTHON, label=label, run=run)
    return _without_faults(builder, node, output, flow) if fallible else flow


@dataclass(frozen=True, eq=False)
class _FlaggedWindow(plan.Node):
    """The output of a window with sums: its rows, and whether a sum overflows. Identifies it for sharing."""

    node: Window

    @property
    def types(self) -> plan.Types:
        return (*self.node.types, BOOL)


def _without_faults(builder: Builder, node: Window, output: plan.Node, flow: Flow) -> Flow:
    """The rows whose sums fit, without the flag; the others are collected among the window's errors."""
    operator = builder.arrangements[builder.key(output)][-1].operator
    flag = ColumnRef(BOOL, len(node.types))
    operator.error_batcher()
    assert operator.errors is not None
    operator.errors.listen(tuple(b.filter(flag).project((Literal(INT, ERROR_OVERFLOW),)) for b in flow))
    kept = tuple(ColumnRef(t, i) for i, t in enumerate(node.types))
    return tuple(b.filter(Call(BOOL, "not", (flag,))).project(kept) for b in flow)


def _python(
    builder: Builder, node: plan.TopK | plan.PythonReduce, run: Callable[..., Any], cols: int, label: str
) -> Flow:
    """Group in key order with `run` computing the output; `run` takes and returns the key columns first."""
    keys = node.keys
    order = plan.keys_first(keys, len(node.child.types))
    narrow = _narrow(node.child, order)
    source = builder.arrange(narrow, tuple(range(len(keys))), gather=not keys, now=True, plain=True)
    if not isinstance(node, plan.TopK):
        order = tuple(range(cols))
    return _reduction(builder, node, source, len(keys), order, reduction_k.KIND_PYTHON, label=label, run=run)


def _reduction(
    builder: Builder,
    node: plan.Node,
    source: Arrangement,
    keys: int,
    order: tuple[int, ...],
    kind: int,
    spec: list[int] | None = None,
    *,
    label: str,
    run: Callable[..., Any] | None = None,
) -> Flow:
    """A reduction whose output columns are the node's in `order`; its output arrangement can be shared."""
    early_output = builder.early_outputs.pop(builder.key(node), None)
    if early_output is not None:
        operator = early_output.operator
        assert isinstance(operator, Reduce) and early_output.order == order
        operator.label = label
    else:
        operator = Reduce(builder.dataflow, source.operator.scope, keys, len(order), label)
    operator.bind(source, kind, spec, run)
    builder.arrangements.setdefault(builder.key(node), []).append(Arrangement(operator, order))
    return columns(operator, node.types, order)


@dataclass(frozen=True, eq=False)
class _TopOutput(plan.Node):
    """The output of a top-k reduction in its arrangement's order. Identifies it for sharing."""

    child: plan.Node
    keys: int
    limit: int
    offset: int

    @property
    def types(self) -> plan.Types:
        return self.child.types


def _narrow(node: plan.Node, wanted: tuple[int, ...]) -> plan.Node:
    """The node with only these columns, in this order; itself if it has exactly those."""
    if wanted == tuple(range(len(node.types))):
        return node
    return plan.Project(node, tuple(ColumnRef(node.types[c], c) for c in wanted))


def kinds(node: plan.Reduce) -> list[plan.Reduce]:
    """Split a reduction by how its aggregates are maintained: totals together, each extreme and distinct count
    separately."""
    totals = tuple(a for a in node.aggregates if a.kind in ("count", "sum", "avg"))
    singles = [a for a in dict.fromkeys(node.aggregates) if a.kind not in ("count", "sum", "avg")]
    parts = [plan.Reduce(node.child, node.keys, totals)] if totals else []
    return parts + [plan.Reduce(node.child, node.keys, (a,)) for a in singles]


def _summed(node: plan.Reduce, column: int) -> bool:
    """Whether an aggregate other than a count reads the column."""
    return any(a.column == column and a.kind != "count" for a in node.aggregates)


def _accumulators(
    aggregate: plan.Aggregate, column: int, declared: DataType | None, accumulators: list[tuple[int, int]]
) -> list[int]:
    """The kernel specification of one aggregate; appends the accumulators it needs."""
    if aggregate.kind == "count":
        if declared is None or not declared.nullable:
            return [reduction_k.SPEC_COUNT, 0, 0]
        accumulators.append((stream_k.ACC_NOT_NULL, column))
        return [reduction_k.SPEC_COUNT, len(accumulators) - 1, 0]
    assert declared is not None
    first = len(accumulators)
    accumulators.append((stream_k.ACC_NOT_NULL, column))
    if declared.kind == "float":
        accumulators.extend((stream_k.ACC_FLOAT + k, column) for k in range(stream_k.FLOAT_WORDS))
        return [reduction_k.SPEC_SUM_FLOAT if aggregate.kind == "sum" else reduction_k.SPEC_AVG_FLOAT, first, 0]
    accumulators.extend(((stream_k.ACC_LOW, column), (stream_k.ACC_HIGH, column)))
    if aggregate.kind == "sum":
        return [reduction_k.SPEC_SUM_INT, first, int(declared.nullable)]
    return [reduction_k.SPEC_AVG_INT, first, declared.scale]


def _sort_key(column: ColumnRef, descending: bool) -> Expr:
    """A code that sorts like the column, NULLs last."""
    raw: Expr = ColumnRef(INT.optional(column.type.nullable), column.index)
    if descending:
        raw = Call(raw.type, "sub", (Literal(INT, -1), raw))
    if column.type.nullable:
        raw = Call(INT, "coalesce", (raw, Literal(INT, 2**63 - 1)))
    return raw
