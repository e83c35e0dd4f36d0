"""Ranks and communities: loops with a fixed number of rounds.

These need not have a fixed point, or reach it late, so the number of rounds is a parameter. Arithmetic is on integers:
adding and removing the same change restores exactly the previous state, which floats would not.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

from everview.errors import PlanError
from everview.expr.language import col, count
from everview.graph.labels import labelled
from everview.graph.paths import whole_number
from everview.language.collection import Collection

if TYPE_CHECKING:
    from everview.graph.graph import Graph

FINEST = 10_000
"""Damping is a fraction with at most this denominator: 0.85 is 17/20."""


def pagerank(g: Graph, rounds: int | None, damping: float, sources: Collection | None, unit: int) -> Collection:
    """See `Graph.pagerank`.

    Without a number of rounds, ranks start at what every node keeps. From there they only grow (rounding is monotone)
    and stay below a bound, so they converge.

    Parts are rounded to the nearest unit. Rounding down would lose half a unit on average, and the loss on the way to a
    node accumulates: with a unit of 100 and five edges to a node, an eighth of all rank.
    """
    if rounds is not None:
        whole_number(rounds, "the number of rounds", 1)
    whole_number(unit, "the unit", 1)
    number = isinstance(damping, int | float) and not isinstance(damping, bool)
    if not number or not 0 <= damping <= 1 or (rounds is None and damping == 1):
        hint = "give a number from 0 to 1; 0.85 is usual" if rounds else "ranks settle if it is less than 1"
        raise PlanError("E_RANGE", f"damping is {damping!r}", hint)
    part = Fraction(str(damping)).limit_denominator(FINEST)
    passed, of = part.numerator, part.denominator
    kept = (2 * unit * (of - passed) + of) // (2 * of)
    ranked = g.nodes if sources is None else g.nodes_of(sources, "sources")
    start = ranked.select(node=col.node, rank=unit)
    base = ranked.select(node=col.node, rank=kept)
    e = g.edges
    fan = e.group_by(node=e[g.src]).agg(out=count())

    def spread(x: Collection) -> Collection:
        shared = x.join(fan, x.node == fan.node)
        nearest = (x.rank * (2 * passed) + fan.out * of) // (fan.out * (2 * of))
        share = shared.select(node=x.node, rank=nearest)
        given = g.hop(share, rank=share.rank)
        return given.union_all(base).group_by("node").agg(rank=col.rank.sum())

    def spread_lean(x: Collection) -> Collection:
        """The same over edges that carry their source's out-degree: one join, which need not be arranged."""
        nearest = (x.rank * (2 * passed) + shared.out * of) // (shared.out * (2 * of))
        given = x.join(shared, x.node == shared.src).select(node=shared.dst, rank=nearest)
        return given.union_all(base).group_by("node").agg(rank=col.rank.sum())

    if g.lean is not None and rounds is not None:
        shared = e.join(fan, e[g.src] == fan.node).select(src=e[g.src], dst=e[g.dst], out=fan.out)
        return g.iterate(start, spread_lean, max_rounds=rounds, at_limit="stop")

    if rounds is None:
        return base.iterate(spread)
    return g.iterate(start, spread, max_rounds=rounds, at_limit="stop")


def label_propagation(g: Graph, rounds: int) -> Collection:
    """See `Graph.label_propagation`."""
    whole_number(rounds, "the number of rounds", 1)
    start = labelled(g, g.nodes)
    next_to = g.neighbours

    def vote(x: Collection) -> Collection:
        heard = x.join(next_to, x.node == next_to.node).select(node=next_to.other, label=x.label)
        votes = heard.union_all(x).group_by("node", "label").agg(votes=count())
        return votes.group_by("node").top(1, by=[col.votes.desc(), col.label]).select("node", "label")

    return g.by_name(g.iterate(start, vote, max_rounds=rounds, at_limit="stop"), "community")
