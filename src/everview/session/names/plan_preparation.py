"""Rewrites collections into the form that is installed.

The rewritten plan is stored with the view, so that a reopened directory builds the same operators. The view's meaning
stays the plan as written (`Relation.meaning`), by which it is recognised.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from everview.errors import PlanError
from everview.expr.resolve import Column
from everview.language.collection import Collection
from everview.language.relation import relation_of
from everview.plan.multiway import Choice
from everview.plan.nodes import Node
from everview.plan.provenance import COLUMN, Kind, Provenance, wanted, with_provenance
from everview.plan.rewrites import OF_LOOPS, WRITTEN, rewritten_plan
from everview.session import doors
from everview.types import INT

if TYPE_CHECKING:
    from everview.session.core import Core


def rewritten(core: Core, collection: Collection, plan: Choice | None) -> tuple[Collection, Choice | None]:
    """The collection to install, and how its joins will be maintained."""
    if plan != "verbatim":
        collection = _simplified(core, collection, plan)
    if plan == "best":
        return doors.best_plan(core, collection), "binary"
    return collection, plan


def _simplified(core: Core, collection: Collection, choice: Choice | None) -> Collection:
    names = [name for name in WRITTEN if name not in OF_LOOPS or choice != "rounds"]
    node = rewritten_plan(relation_of(collection).node, core.runtime.builder.installed, names)
    return collection if node == relation_of(collection).node else by_another_plan(collection, node)


def provenanced(collection: Collection, provenance: Provenance | Kind) -> Collection:
    """The collection with an additional provenance column; each distinct row once."""
    asked = wanted(provenance)
    if any(c.name == COLUMN for c in relation_of(collection).columns):
        raise PlanError("E_NAME", f"the collection already has a column {COLUMN!r}", "rename it: .rename(...)")
    return collection._derive(
        with_provenance(relation_of(collection).node, asked), (*relation_of(collection).columns, Column(COLUMN, INT))
    )


def by_another_plan(collection: Collection, node: Node) -> Collection:
    """The same collection by another plan, with its meaning unchanged."""
    relation = relation_of(collection)
    found = collection._derive(node, relation.columns)
    relation_of(found).meaning = relation.meaning or relation.node
    relation_of(found).take_after(relation)
    return found
