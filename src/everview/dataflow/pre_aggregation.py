"""Pre-aggregation on shards of what they send each other (`everview.plan.pre_aggregation`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from everview.dataflow.operators import Arrange, Arrangement, Reduce, columns
from everview.dataflow.partitioning import WHERE_MADE
from everview.dataflow.streams import Flow
from everview.kernels.reduce import context as reduction_k
from everview.plan.pre_aggregation import Sent

if TYPE_CHECKING:
    from everview.dataflow.builder import Builder

KINDS = {
    "distinct": reduction_k.KIND_DISTINCT,
    "min": reduction_k.KIND_MINIMUM,
    "max": reduction_k.KIND_MAXIMUM,
}


def sent(builder: Builder, node: Sent) -> Flow:
    """An arrangement and a reduction on each shard, of its own output."""
    flow = builder.flow(node.child)
    scope = builder.scope(node.child)
    width = len(node.types)
    own = Arrange(builder.dataflow, scope, width, label="made here", partitioning=WHERE_MADE)
    own.listen(flow)
    order = tuple(range(width))
    keys = width if node.kind == "distinct" else width - 1
    operator = Reduce(builder.dataflow, scope, keys, width, f"{node.kind} of what is made here")
    operator.bind(Arrangement(own, order), KINDS[node.kind])
    return columns(operator, node.types, order)
