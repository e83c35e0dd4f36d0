"""Replans an existing view: which of its joins can be maintained differently, and how.

A view's joins are those of the plan it was built from, which may differ from what was written: loops keep less, joins
were combined. Each is optimised separately. The result is passed to the session (`Definitions.replan`), which swaps the
operators in one step (`everview.dataflow.plan_swap`) and records it, so a reopened directory has the plan it was closed
with.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from everview.errors import PlanError, did_you_mean
from everview.language.relation import relation_of
from everview.optimiser.best_plans import optimiser_of, with_problems
from everview.optimiser.plan_builder import rebuilt
from everview.optimiser.problem import Problem
from everview.optimiser.rules import Best
from everview.plan import nodes as plan
from everview.plan.multiway import AtOnce, NaturalJoin, natural_joins

if TYPE_CHECKING:
    from everview.session.core import Core
    from everview.session.view import View

PLANS = ("best", "binary", "delta", "wco", "written")
"""The arguments of `View.replan`."""


class LivingJoin(NamedTuple):
    """A join of a view, by the node that identifies it."""

    node: plan.Node
    join: NaturalJoin
    problem: Problem

    def by(self, best: Best) -> plan.Node:
        """The join by the optimiser's plan."""
        return rebuilt(self.join, self.node.types, best, self.problem)

    def at_once(self, strategy: AtOnce) -> plan.Node:
        """The join at once."""
        return self.join.multi_join(self.join.tree.leaves, self.node.types, strategy)


def living_joins(core: Core, view: View) -> list[LivingJoin]:
    """The joins of three inputs or more that a view was built from, outside loops; not those of views that it reads."""
    builder = core.runtime.builder
    own = core.catalog.canonical(relation_of(view).node)
    built = builder.built.get(own, own)
    found = natural_joins(built, builder.installed - {own, built}, unfold=True)
    return [LivingJoin(*each) for each in with_problems(core, relation_of(view).source, found)]


def replan(core: Core, view: View, wanted: str) -> int:
    """Maintain the joins of a view by another plan; return how many changed."""
    core.access.may_own("relation", relation_of(view).label)
    if wanted not in PLANS:
        raise PlanError("E_PLAN", f"there is no plan {wanted!r} for an existing view", did_you_mean(wanted, PLANS))
    chosen, changed = core.runtime.builder.chosen, 0
    for living in living_joins(core, view):
        target = _TARGETS[wanted](core, living)
        if target != chosen.get(living.node, living.node):
            core.definitions.plans.replan(living.node, target, f"view.replan({wanted!r}) asked for it")
            changed += 1
    return changed


def cheapest(core: Core, problem: Problem) -> Best:
    """The cheapest plan of a problem, computed once."""
    optimiser = optimiser_of(core)
    number = optimiser.add(problem)
    try:
        return optimiser.best(number)
    finally:
        optimiser.remove(number)


def _binary(core: Core, living: LivingJoin) -> plan.Node:
    return living.by(cheapest(core, replace(living.problem, pipelines={})))


_TARGETS: dict[str, Callable[[Core, LivingJoin], plan.Node]] = {
    "best": lambda core, living: living.by(cheapest(core, living.problem)),
    "binary": _binary,
    "delta": lambda core, living: living.at_once("delta"),
    "wco": lambda core, living: living.at_once("wco"),
    "written": lambda core, living: living.node,
}
