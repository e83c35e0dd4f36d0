"""Which rows hold in every smaller world: where taking rows of tables away never brings a row.

A *world* is what the tables could hold: some of the rows that they do. A plan is monotone if a smaller world never has
more of its rows. Then a row is there in a world exactly if one of its derivations is, and what can be said of
derivations (which rows they need, how likely those are) can be said of the row.

Projections, filters, joins, unions, `distinct` and loops of them are monotone. Three more steps are, for a row that is
there now, where they stand outside of loops:

    min, max        the least value of a group can only go with the rows that have it
    not, EXCEPT     what a row must not meet, and does not meet now, it meets in no smaller world
    constants       are the same in every world

Counts, sums, first rows, window functions and functions of groups are not: a smaller group has another number.
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
"""Steps of which more rows make more rows."""


def refuse(what: str, why: str) -> PlanError:
    """The error of a view of whose rows nothing can be said."""
    return PlanError(
        "E_MONOTONE",
        f"{what}: {why}, so fewer rows of tables could bring rows",
        "ask about a view below that step; trust and what_if answer for every view",
    )


def offence(node: plan.Node) -> str:
    """Why a plan is not monotone, taken by itself; nothing if it is."""
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
    """Whether a body has all rows of what its loop begins with."""
    if body == initial:
        return True
    if isinstance(body, plan.Threshold):
        return _includes(body.child, initial)
    return isinstance(body, plan.Union) and any(_includes(i, initial) for i in body.inputs)


def negation_is_fixed(node: plan.Negate) -> bool:
    """Whether what a negation takes away can only become less in smaller worlds, and is the same in every round."""
    return not free_variables(node) and not offence(node.child)
