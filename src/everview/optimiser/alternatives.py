"""EXPLAIN ALTERNATIVES: the possible plans of a join, their costs, and when the second would become the first.

A line is the cheapest plan among those with the same last step. What would have to change is found by experiment: the
rows of one relation are halved and doubled in the optimiser's tables until another plan is the best, and until the
second is. Of an existing view the current plan is shown, too: what it has built is there and costs nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from everview.language.collection import Collection
from everview.optimiser.best_plans import optimiser_of, problems
from everview.optimiser.current_cost import PresentPlan
from everview.optimiser.model import Model
from everview.optimiser.problem import TOP, UNIT, Problem
from everview.optimiser.replanning import LivingJoin, living_joins
from everview.optimiser.rules import Optimiser
from everview.optimiser.space import And, Or

if TYPE_CHECKING:
    from everview.session.core import Core
    from everview.session.view import View

MOST_SHOWN = 5
"""Maximum number of plans shown per join."""

MOST_DOUBLINGS = 10
"""How far statistics are varied to see whether another plan wins: a thousand times more, or fewer."""


NOTHING = "no join of three inputs or more outside loops: there is nothing to choose"


def alternatives(core: Core, collection: Collection) -> list[str]:
    """Lines about every join of three inputs or more that a view of a collection would have."""
    lines = [line for _, _, problem in problems(core, collection) for line in _lines(core, problem)]
    return lines or [NOTHING]


def alternatives_of_view(core: Core, view: View) -> list[str]:
    """Lines about every join of three inputs or more of an existing view, and how each is maintained now."""
    lines = [line for join in living_joins(core, view) for line in _lines(core, join.problem, _now(core, join))]
    return lines or [NOTHING]


def _lines(core: Core, problem: Problem, *now: str) -> list[str]:
    optimiser = optimiser_of(core)
    number = optimiser.add(problem)
    ranked = _ranked(optimiser, number)
    names = ", ".join(relation.name for relation in problem.relations)
    lines = [f"join of {len(problem.relations)} inputs ({names}), {len(ranked)} plans by their last step:", *now]
    for place, (cost, way) in enumerate(ranked[:MOST_SHOWN]):
        relative = _times_as_dear(cost, ranked[0][0]) if place else "the cheapest"
        lines.append(f"  {place + 1}. cost {cost}, {relative}: {_shown(optimiser, number, problem, way)}")
    if len(ranked) > 1:
        lines += _what_would_change(optimiser, number, problem, ranked)
    optimiser.remove(number)
    return lines


def _times_as_dear(cost: int, least: int) -> str:
    times = cost / max(least, 1)
    return f"{times:.{2 if times < 10 else 0}f} times as dear"


def _now(core: Core, living: LivingJoin) -> str:
    """The plan that a join has, and what it costs to keep it."""
    target, problem = core.runtime.builder.chosen.get(living.node, living.node), living.problem
    present = PresentPlan(target, living.join.tree.leaves)
    parts = {1 << r: relation.name for r, relation in enumerate(problem.relations)}
    for left, right, _, _ in reversed(present.joins):
        parts[left | right] = f"({parts[left]} join {parts[right]})"
    text = parts[max(parts)] if present.strategy is None else f"{present.strategy}, all at once"
    return f"  now: cost {present.cost(Model(problem))}, nothing to build: {text}"


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
    """For every relation, the number of rows at which another plan would be the best, and at which the second is."""
    (_, first), (_, second), *_ = ranked
    found, for_second = [], []
    for r, relation in enumerate(problem.relations):
        for sign, share in ((1, "{} times the rows"), (-1, "1/{} of the rows")):
            other: And | None = None
            for doublings in range(1, MOST_DOUBLINGS + 1):
                rows = relation.rows + sign * doublings * UNIT
                if not 0 <= rows <= TOP:
                    break
                optimiser.observe(number, rows={r: rows}, changes={r: rows})
                cost, way = _ranked(optimiser, number)[0]
                said = f"{share.format(2**doublings)} of {relation.name}"
                if way != first and other is None:
                    other = way
                    found.append(f"  with {said}: {_shown(optimiser, number, problem, way)}, cost {cost}")
                if way == second:
                    for_second.append(said)
                    break
        optimiser.observe(number, rows={r: relation.rows}, changes={r: relation.changes})
    most = 2**MOST_DOUBLINGS
    reach = f"up to {most} times the rows of any input, or 1/{most} of them"
    if not found:
        return [f"  no other is the best with {reach}"]
    wins = f"with {', or '.join(for_second)}" if for_second else f"never, with {reach}"
    return [*found, f"  the second is the cheapest {wins}"]
