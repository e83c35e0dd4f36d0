"""Plans with optimised joins: implements `plan="best"` and EXPLAIN ALTERNATIVES.

A session has one optimiser, created on first use (a fifth of a second); a query is a problem that is added, solved and
removed. The choice is written into the plan itself. A durable session, which builds its views before their rows are
restored, therefore builds the same operators again; the view's meaning stays what was written (`Relation.meaning`).

Joins inside loops are not changed: their sizes are not known in advance.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Sequence
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from everview.language.collection import Collection, known_names
from everview.language.relation import relation_of
from everview.optimiser.observed_problem import problem_of
from everview.optimiser.plan_builder import rebuilt
from everview.optimiser.problem import MOST_RELATIONS, Problem
from everview.optimiser.rules import Best, Optimiser
from everview.plan import nodes as plan
from everview.plan.deep_recursion import drive
from everview.plan.multiway import NaturalJoin, natural_joins
from everview.plan.substitute import over_inputs
from everview.session.names.estimates import estimates
from everview.session.names.plan_preparation import by_another_plan

if TYPE_CHECKING:
    from collections.abc import Mapping

    from everview.session.core import Core

WHY = "the optimiser chose it from the rows there were"

_optimisers: WeakKeyDictionary[Core, Optimiser] = WeakKeyDictionary()


def optimiser_of(core: Core) -> Optimiser:
    """The session's optimiser."""
    if core not in _optimisers:
        _optimisers[core] = Optimiser()  # garbage-collected with the session, and then its own session is abandoned
    return _optimisers[core]


def best_plan(core: Core, collection: Collection) -> Collection:
    """The same collection with its joins as is cheapest now."""
    chosen: dict[plan.Node, tuple[Best, Problem]] = {}
    trees: dict[plan.Node, NaturalJoin] = {}
    for node, join, problem in problems(core, collection):
        optimiser = optimiser_of(core)
        number = optimiser.add(problem)
        chosen[node], trees[node] = (optimiser.best(number), problem), join
        optimiser.remove(number)
    if not chosen:
        return collection

    def step(node: plan.Node) -> Generator[plan.Node, plan.Node, plan.Node]:
        made: dict[int, plan.Node] = {}
        for child in trees[node].tree.leaves if node in trees else node.children():
            made[id(child)] = yield child
        if node not in trees:
            return over_inputs(node, lambda child: made[id(child)])
        trees[node].tree.leaves = [made[id(leaf)] for leaf in trees[node].tree.leaves]
        return rebuilt(trees[node], node.types, *chosen[node])

    found = by_another_plan(collection, drive(step, relation_of(collection).node, {}))
    relation_of(found).plan_why = WHY
    return found


def problems(core: Core, collection: Collection) -> list[tuple[plan.Node, NaturalJoin, Problem]]:
    """The joins of three inputs or more outside loops, with their statistics."""
    return with_problems(core, collection, natural_joins(relation_of(collection).node, core.runtime.builder.installed))


def with_problems(
    core: Core, collection: Collection, joins: Iterable[tuple[plan.Node, NaturalJoin]]
) -> list[tuple[plan.Node, NaturalJoin, Problem]]:
    """Joins of a collection that have a table of plans, with their statistics."""
    builder = core.runtime.builder
    sizes, labels = estimates(core), known_names(collection)[1]
    sizes.known = observed_rows(core)

    def arranged(node: plan.Node) -> list[tuple[int, ...]]:
        return [kept.order for kept in builder.arrangements.get((node, ()), [])]

    found = []
    for node, join in joins:
        if len(join.tree.leaves) <= MOST_RELATIONS and _is_whole(join):
            names = _distinct([_name(leaf, labels) for leaf in join.tree.leaves])
            found.append((node, join, problem_of(join, names, sizes, arranged, core.statistics.changes_of)))
    return found


def observed_rows(core: Core) -> Callable[[plan.Node], float | None]:
    """The rows of parts of plans that some arrangement holds."""
    measure = core.runtime.measure()

    def rows(node: plan.Node) -> float | None:
        held = core.statistics.held(node)
        return None if held is None else float(measure(held.operator)[1])

    return rows


def _is_whole(join: NaturalJoin) -> bool:
    """Whether the inputs are connected by variables; then there is an order without cross products."""
    sets = [{v for v in of if v >= 0} for of in join.of_leaf]
    reached, waiting = set(sets[0]), sets[1:]
    while linked := [s for s in waiting if s & reached]:
        reached |= set().union(*linked)
        waiting = [s for s in waiting if s not in linked]
    return not waiting


def _name(leaf: plan.Node, labels: Mapping[plan.Node, str]) -> str:
    """The table or view that an input derives from, if it is only one."""
    below = leaf
    while below not in labels and len(below.children()) == 1:
        below = below.children()[0]
    return labels.get(below, "a part of the query")


def _distinct(names: Sequence[str]) -> list[str]:
    """Names, with duplicates numbered.

    >>> _distinct(["edge", "edge", "node", "edge"])
    ['edge', 'edge 2', 'node', 'edge 3']
    """
    return [f"{n} {names[: i + 1].count(n)}" if n in names[:i] else n for i, n in enumerate(names)]
