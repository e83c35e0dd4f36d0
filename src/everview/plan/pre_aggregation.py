"""Pre-aggregation on shards: the input of a reduction is first reduced where it is produced.

With several shards, every derivation of a row is sent to the shard that owns the row, where `distinct` counts them. The
producing shard can count them itself, send the row when its own count leaves zero, and retract it when the count
returns to zero: this is MinShip of liu-2016 (section 3.4) without expressions. For min and max a shard sends only its
own best, which combines MinShip and aggregate selection.

    distinct(sum of all)  =  distinct(sum of each shard's distinct)
    min of all            =  min of each shard's min

Both hold as long as no shard's own counts are negative, that is, a derivation is retracted where it was produced. This
is the case, because rows of equal keys are joined on one shard. Negation can make counts negative, so nothing below one
is changed.

It costs memory on the sender for each row, so it is opt-in (`plan="frugal"`). Shards count the rows that they send for
each operator (`everview.dataflow.superstep.Shard.rows_sent`).

Hazard: a shard's counts are valid for one number of shards only (`everview.dataflow.partitioning.WHERE_MADE`). A store
with such a view cannot be resharded.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from everview.expr.nodes import ColumnRef
from everview.plan import nodes as plan
from everview.plan.deep_recursion import Staged, settled
from everview.plan.substitute import over_inputs
from everview.types import INTERNED


@dataclass(frozen=True, eq=False)
class Sent(plan.Node):
    """The rows as other shards need them: each once, or for min and max, whose value is the last column, the best of
    each group. Only the same reduction may read it.
    """

    child: plan.Node
    kind: Literal["distinct", "min", "max"]

    @cached_property
    def types(self) -> plan.Types:
        return self.child.types


def pre_aggregated(node: plan.Node) -> plan.Node:
    """The plan with pre-aggregated reductions.

    >>> from everview.plan.explain import explain
    >>> from everview.types import INT
    >>> print(explain(pre_aggregated(plan.Threshold(plan.Table(0, (INT,)), "distinct"))))
    r0 := Table 0 (c0 int)
    r1 := Sent[r0] distinct
    r2 := Distinct[r1]
    """
    done: dict[int, plan.Node] = {}
    kept: list[plan.Node] = []  # so that the ids in `done` stay theirs

    def rewritten(one: plan.Node) -> plan.Node:
        if id(one) not in done:
            kept.append(one)
            done[id(one)] = staged(one)
        return done[id(one)]

    staged = Staged(lambda one: settled(_reduced(over_inputs(one, rewritten))), lambda one: id(one) in done)
    return rewritten(node)


def _reduced(node: plan.Node) -> plan.Node:
    if isinstance(node, plan.Threshold) and node.kind == "distinct" and _is_positive(node.child):
        return plan.Threshold(Sent(node.child, "distinct"), "distinct")
    if isinstance(node, plan.Reduce) and len(node.aggregates) == 1 and node.keys and _is_positive(node.child):
        (aggregate,) = node.aggregates
        column = aggregate.column
        if aggregate.kind in ("min", "max") and column is not None and node.child.types[column].kind not in INTERNED:
            columns = (*node.keys, column)
            narrow = plan.Project(node.child, tuple(ColumnRef(node.child.types[c], c) for c in columns))
            keys = tuple(range(len(node.keys)))
            best = plan.Aggregate(aggregate.kind, len(keys), aggregate.type)
            return plan.Reduce(Sent(narrow, "min" if aggregate.kind == "min" else "max"), keys, (best,))
    return node


def _is_positive(node: plan.Node) -> bool:
    """Whether nothing below is negated, and it is not pre-aggregated already."""
    return not isinstance(node, Sent) and not any(isinstance(each, plan.Negate) for each in node.walk())
