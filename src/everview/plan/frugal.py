"""Sending less between shards: what a reduction is given is reduced first where it is made.

With several shards, every derivation of a row travels to the shard that the row belongs to, where `distinct` counts
them. The shard that makes derivations can count them itself, and send the row when its own count leaves zero, and take
it back when the count comes to zero again: that is MinShip of liu-2016 (section 3.4) without expressions. For min and
max a shard sends its own best and no others, which is MinShip and aggregate selection in one.

    distinct(sum of all)  =  distinct(sum of each shard's distinct)
    min of all            =  min of each shard's min

Both hold as long as no shard's own counts are negative: a derivation is taken back where it was made. So it is, because
rows of equal keys are joined on one shard. Negation can make counts negative, so nothing below one is touched.

It costs memory on the sender for each row, so it is done where it is asked for (`plan="frugal"`). Shards count the rows
that they send for each operator (`everview.dataflow.superstep.Shard.rows_sent`).

Hazard: what a shard has counted belongs to that number of shards (`everview.dataflow.partitioning.WHERE_MADE`). A store
with such a view cannot be given another number of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from everview.expr.nodes import ColumnRef
from everview.plan import nodes as plan
from everview.plan.deep import Staged, settled
from everview.plan.substitute import over_inputs
from everview.types import INTERNED


@dataclass(frozen=True, eq=False)
class Sent(plan.Node):
    """The rows as other shards need them: each once, or for min and max, whose value is the last column, the best of
    each group. Only what reduces them in the same way may read it.
    """

    child: plan.Node
    kind: Literal["distinct", "min", "max"]

    @cached_property
    def types(self) -> plan.Types:
        return self.child.types


def frugal(node: plan.Node) -> plan.Node:
    """The plan with reductions that send less.

    >>> from everview.plan.explain import explain
    >>> from everview.types import INT
    >>> print(explain(frugal(plan.Threshold(plan.Table(0, (INT,)), "distinct"))))
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
    """Whether no rows are taken away below, and it is not done already."""
    return not isinstance(node, Sent) and not any(isinstance(each, plan.Negate) for each in node.walk())
