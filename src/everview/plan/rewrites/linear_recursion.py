"""Conditions on the near end of paths that are made of paths: the recursion grows by edges, from there.

    path(src, dst)   edges, or a path and a path after it         all pairs, of which
    WHERE src = 3                                                 only those from 3 are needed

`narrowed` does not apply: the second path starts where the first ends, which may be anywhere. But a path and a path
after it is a path and edges after it (`everview.plan.monotone`), and in this form the near end stays the same in every
round. So the recursion is written that way, and starts from the rows that meet the condition. What a condition may not
see is that of `narrowed`: it must not be able to fail.
"""

from __future__ import annotations

from collections.abc import Container

from everview.expr.functions import call, conjunction, conjuncts
from everview.expr.nodes import ColumnRef, Expr, Literal
from everview.plan import nodes as plan
from everview.plan.frontier import Frontier, Rule
from everview.plan.narrowed_loops import is_total, unchanged
from everview.plan.rewrites.traversal import filtered_recursions


def with_linear_recursions(node: plan.Node, arranged: Container[plan.Node] = ()) -> plan.Node:
    """The same rows, with paths that grow by edges if the condition on them can then be tested where they start.

    >>> from everview.types import INT
    >>> edge, path = plan.Table(0, (INT, INT)), plan.Variable(1, 0, (INT, INT))
    >>> further = plan.Project(plan.Join(path, path, (1,), (0,)), (ColumnRef(INT, 0), ColumnRef(INT, 3)))
    >>> body = plan.Threshold(plan.Union((edge, further)), "distinct")
    >>> paths = plan.LoopResult(plan.Loop(1, (None,), (body,)), 0)
    >>> from_three = call("eq", ColumnRef(INT, 0), Literal(INT, 3))
    >>> found = with_linear_recursions(plan.Filter(paths, from_three))
    >>> type(found).__name__, plan.Filter(edge, from_three) in found.walk()
    ('LoopResult', True)
    """
    return filtered_recursions(node, _changed, arranged)


def _changed(node: plan.Filter, found: Frontier) -> plan.Node | None:
    assert isinstance(node.child, plan.LoopResult)
    kept = set(found.question) - unchanged(node.child.loop)
    tested = conjuncts(node.predicate)
    inside = [c for c in tested if c.columns() and c.columns() <= set(found.question) and is_total(c)]
    if not any(c.columns() & kept for c in inside) or not _is_plain(found):
        return None
    made = _from(found, plan.Filter(found.start, conjunction(inside)))
    others = [c for c in tested if c not in inside]
    return plan.Filter(made, conjunction(others)) if others else made


def _is_plain(found: Frontier) -> bool:
    """Whether its rules are no more than `_further` writes."""
    if found.lean or found.state is not None:
        return False
    return all(r.along in ("same", "add") and r.most_in is None and r.most_out is None for r in found.rules)


def _from(found: Frontier, start: plan.Node) -> plan.Node:
    """The recursion from these rows."""
    variable, value = plan.Variable(1, 0, found.types), found.value
    union = plan.Union((_typed(start, found.types), *(_further(found, rule, variable) for rule in found.rules)))
    if value is None:
        return plan.LoopResult(plan.Loop(1, (None,), (plan.Threshold(union, "distinct"),)), 0)
    order = [*(c for c in range(len(found.types)) if c != value), value]
    kind: plan.AggregateKind = "max" if found.largest else "min"
    best = plan.Reduce(union, tuple(order[:-1]), (plan.Aggregate(kind, value, found.types[value]),))
    body = plan.Project(best, tuple(ColumnRef(t, order.index(c)) for c, t in enumerate(found.types)))
    return plan.LoopResult(plan.Loop(1, (None,), (body,)), 0)


def _further(found: Frontier, rule: Rule, variable: plan.Variable) -> plan.Node:
    """What a rule makes of the recursion's rows."""
    edges, width = found.edges[rule.edges], len(found.types)
    outputs: list[Expr] = [ColumnRef(t, c) for c, t in enumerate(found.types)]
    outputs[found.node] = ColumnRef(edges.types[rule.far], width + rule.far)
    if rule.along == "add" and found.value is not None:
        own = outputs[found.value]
        weight = None if rule.weight is None else ColumnRef(edges.types[rule.weight], width + rule.weight)
        outputs[found.value] = call("add", own, Literal(own.type, rule.constant) if weight is None else weight)
    joined = plan.Join(variable, edges, (found.node,), (rule.near,))
    return _typed(plan.Project(joined, tuple(outputs)), found.types)


def _typed(node: plan.Node, types: plan.Types) -> plan.Node:
    """The node with columns of these types: some may be NULL in one part of a union only."""
    return node if node.types == types else plan.Project(node, tuple(ColumnRef(t, c) for c, t in enumerate(types)))
