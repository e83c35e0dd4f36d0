"""The smallest label that comes to a node along edges: the loop behind every kind of component.

Each node starts with a label of its own and takes the smallest it hears of. The loop is prioritized: a label enters
by its number of bits, so that labels likely to win have spread before the others start, and most nodes never hear of a
label that loses. That changes the cost, by an order of magnitude, not the answer.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from everview.collection import Collection
from everview.expr.language import col

if TYPE_CHECKING:
    from everview.graph.graph import Graph

Move = Callable[[Collection], Collection]


def labelled(g: Graph, nodes: Collection) -> Collection:
    """(node, label): every node with its own order key."""
    return nodes.select(node=col.node, label=g.order_key(col.node))


def smallest(g: Graph, start: Collection, *moves: Move) -> Collection:
    """(node, label): the smallest label of `start` that comes to each node by any of the moves, its own included.

    A move takes (node, label) rows to the nodes next to them. `start` must have each node once, or the loop costs an
    index more (see `everview.plan.keys`).
    """

    def spread(label: Collection) -> Collection:
        first, *others = (move(label) for move in moves)
        return first.union_all(*others, start).group_by("node").agg(label=col.label.min())

    return start.iterate(spread, priority=g.priority(col.label))


def along(edges: Collection, near: str = "src", far: str = "dst") -> Move:
    """The move along a collection of edges."""
    return lambda x: x.join(edges, x.node == edges[near]).select(node=edges[far], label=x.label)
