"""Plans as the current user may see them, for EXPLAIN.

A plan contains the plans of the views that it reads, and the tables that policies ask, down to the tables that nobody
has granted. So it is cut: a view of somebody else's is one step with its columns, a table without a right to it has
neither a name nor columns, and columns that are not granted have no names. Plans of one's own views go on to what these
read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from everview.language.collection import Collection, known_names
from everview.language.relation import relation_of
from everview.plan import nodes as plan
from everview.plan.explain import explain
from everview.plan.substitute import substituted

if TYPE_CHECKING:
    from everview.session.core import Core
    from everview.session.view import View

HIDDEN = "(hidden)"


def lines(core: Core, collection: Collection) -> list[str]:
    """The steps of a plan."""
    if core.access.acting() is None:
        return collection.explain().split("\n")
    node, (names, labels) = relation_of(collection).node, known_names(collection)
    shown = substituted(node, _cut(core, node, names, labels))
    return explain(shown, names, labels).split("\n")


def of_view(core: Core, view: View) -> Collection:
    """What to explain of a view: its plan, for its owner; for others it is one step."""
    if core.access.owns("relation", relation_of(view).label):
        found: Collection = relation_of(view).source
        return found
    return view


def _cut(
    core: Core, node: plan.Node, names: dict[plan.Node, tuple[str, ...]], labels: dict[plan.Node, str]
) -> dict[plan.Node, plan.Node]:
    """What stands for views and tables of others; their names are added, and those of hidden columns go."""
    inside, access = set(node.walk()), core.access
    places: dict[plan.Node, plan.Node] = {}
    for label, one in (*core.catalog.views.items(), *core.catalog.tables.items()):
        relation = relation_of(one)
        if relation.node not in inside:
            continue
        is_table = label in core.catalog.tables
        if not is_table and access.owns("relation", label):
            continue
        shown = frozenset[str]() if not access.sees("relation", label) else access.shown(label)
        own = [c.name for c in relation.columns]
        told = tuple(n if shown is None or n in shown else f"c{i}" for i, n in enumerate(own))
        if is_table and shown is None:
            continue
        if is_table and shown:
            names[relation.node], labels[relation.node] = told, label
            continue
        place = plan.Table(-1 - len(places), relation.node.types)
        places[relation.node] = place
        names[place], labels[place] = told, label if shown is None or shown else HIDDEN
    return places
