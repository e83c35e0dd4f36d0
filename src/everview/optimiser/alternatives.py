"""EXPLAIN ALTERNATIVES: the possible plans of a join, their costs, and when the second would become the first.

A line is the cheapest plan among those with the same last step. What would have to change is found by experiment: the
rows of one relation are halved and doubled in the optimiser's tables until another plan is the best.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from everview.language.collection import Collection
from everview.optimiser.best_plans import optimiser_of, problems
from everview.optimiser.problem import TOP, UNIT, Problem
from everview.optimiser.rules import Optimiser
from everview.optimiser.space import And, Or

if TYPE_CHECKING:
    from everview.session.core import Core

MOST_SHOWN = 5
"""Maximum number of plans shown per join."""

MOST_DOUBLINGS = 10
"""How far statistics are varied to see whether another plan wins: a thousand times more, or fewer."""


def alternatives(core: Core, collection: Collection) -> list[str]:
    """Lines about every join of three inputs or more."""
    lines = []
    for _, _, problem in problems(core, collection):
        optimiser = optimiser_of(core)
        number = optimiser.add(problem)
        lines += _lines(optimiser, number, problem)
        optimiser.remove(number)
    return lines or ["no join of three inputs or more outside loops: there is nothing to choose"]


def _lines(optimiser: Optimiser, number: int, problem: Problem) -> list[str]:
    ranked = _ranked(optimiser, number)
    names = ", ".join(relation.name for relation in problem.relations)
    lines = [f"join of {len(problem.relations)} inputs ({names}), {len(ranked)} plans by their last step:"]
    for place, (cost, way) in enumerate(ranked[:MOST_SHOWN]):
        relative = f"{cost / max(ranked[0][0], 1):.1f} times as dear" if place else "the cheapest"
        lines.append(f"  {place + 1}. cost {cost}, {relative}: {_shown(optimiser, number, problem, way)}")
    if len(ranked) > 1:
        lines += _what_would_change(optimiser, number, problem, ranked)
    return lines


def _ranked(optimiser: Optimiser, number: int) -> list[tuple[int, And]]:
    """The alternatives for the whole join, cheapest first."""
    ways = optimiser.last_steps(number)
    return sorted(((cost, way) for way, cost in ways.items()), key=lambda found: (found[0], found[1].rank))


def _shown(optimiser: Optimiser, number: int, problem: Problem, way: And) -> str:
    """A plan as text: brackets are joins, followed by what is arranged for them."""
    if way.operator in ("delta", "wco"):
        return f"{way.operator}, all at once"
    kept: list[str] = []

    def shown(goal: Or, way: And) -> str:
        if way.operator in ("scan", "index"):
            return problem.relations[goal.relations.bit_length() - 1].name
        if way.operator == "arrange":
            below = Or(goal.relations, 0)
            name = shown(below, optimiser.chosen(number, below))
            kept.append(name)
            return name
        return f"({' join '.join(shown(g, optimiser.chosen(number, g)) for g in way.needs(problem))})"

    text = shown(way.goal, way)
    return text + (f", new indexes of {', '.join(kept)}" if kept else ", no new index")


def _what_would_change(optimiser: Optimiser, number: int, problem: Problem, ranked: list[tuple[int, And]]) -> list[str]:
    """For every relation, the number of rows at which another plan would be the best."""
    first, found = ranked[0][1], []
    for r, relation in enumerate(problem.relations):
        for sign, share in ((1, "{} times the rows"), (-1, "1/{} of the rows")):
            for doublings in range(1, MOST_DOUBLINGS + 1):
                rows = relation.rows + sign * doublings * UNIT
                if not 0 <= rows <= TOP:
                    break
                optimiser.observe(number, rows={r: rows}, changes={r: rows})
                cost, way = _ranked(optimiser, number)[0]
                if way != first:
                    plan = _shown(optimiser, number, problem, way)
                    found.append(f"  with {share.format(2**doublings)} of {relation.name}: {plan}, cost {cost}")
                    break
        optimiser.observe(number, rows={r: relation.rows}, changes={r: relation.changes})
    most = 2**MOST_DOUBLINGS
    return found or [f"  no other is the best with up to {most} times the rows of any input, or 1/{most} of them"]
