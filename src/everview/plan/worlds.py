"""Monotonicity: which rows hold in every smaller world.

A *world* is a subset of the tables' rows. A plan is monotone if a smaller world never has more of its rows. Then a row
exists in a world exactly if one of its derivations does, and properties of derivations (which rows they need, how
likely those are) become properties of the row.

Projections, filters, joins, unions, `distinct` and loops of them are monotone. Three more steps are, for an existing
row, outside loops:

    min, max        the least value of a group only disappears with the rows that have it
    not, EXCEPT     what a row must not match, and does not match now, it matches in no smaller world
    constants       are the same in every world

Counts, sums, first rows, window functions and functions of groups are not: a smaller group has a different value.
"""

from __future__ import annotations

from everview.errors import PlanError
from everview.plan import nodes as plan
from everview.plan.check import free_variables

PLAIN = (
    plan.Table,
    plan.Constant,
    plan.Project,
    plan.Filter,
    plan.FlatMap,
    plan.Join,
    plan.MultiJoin,
    plan.Union,
    plan.Threshold,
    plan.Variable,
    plan.LoopResult,
)
"""Steps whose output only grows with their input."""


def refuse(what: str, why: str) -> PlanError:
    """Return the error for a view that is not monotone."""
    return PlanError(
        "E_MONOTONE",
        f"{what}: {why}, so fewer rows of tables could bring rows",
        "ask about a view below that step; trust and what_if answer for every view",
    )


def offence(node: plan.Node) -> str:
    """Why a plan is not monotone, taken by itself; empty if it is."""
    for each in node.walk():
        if isinstance(each, plan.Loop):
            found = _loop(each)
            if found:
                return found
        elif isinstance(each, plan.Negate):
            return "it takes rows away that others would give"
        elif not isinstance(each, PLAIN):
            return f"a {type(each).__name__} depends on all rows of a group"
    return ""


def _loop(loop: plan.Loop) -> str:
    if loop.at_limit == "stop" and loop.max_rounds is not None:
        return "a loop that is stopped after some rounds has no fixed point"
    for initial, body in zip(loop.initials, loop.bodies, strict=True):
        if initial is not None and not _includes(body, initial):
            return "a loop whose body leaves out what it began with may keep rows alive by themselves"
    return ""


def _includes(body: plan.Node, initial: plan.Node) -> bool:
    """Whether a body contains all initial rows of its loop."""
    if body == initial:
        return True
    if isinstance(body, plan.Threshold):
        return _includes(body.child, initial)
    return isinstance(body, plan.Union) and any(_includes(i, initial) for i in body.inputs)


def negation_is_fixed(node: plan.Negate) -> bool:
    """Whether what a negation removes can only shrink in smaller worlds, and is the same in every round."""
    return not free_variables(node) and not offence(node.child)
