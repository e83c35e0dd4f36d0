"""Constraints: each is a hidden view that must stay empty (docs/design/2026-11-17-constraints-are-guarded-views.md)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from everview.errors import ConstraintError
from everview.language.relation import relation_of
from everview.plan import nodes
from everview.session.changes.constraints import guard
from everview.session.changes.turns import reads
from everview.session.clock.follower import RESERVED_PREFIX
from everview.session.names.constraint_rules import Rule
from everview.session.names.entries import ConstraintMade, ViewDropped

if TYPE_CHECKING:
    from everview.session.core import Core
    from everview.session.names.definitions import Definitions


class ConstraintViews:
    """Creates and drops the guarded views of constraints."""

    def __init__(self, core: Core, definitions: Definitions) -> None:
        self._core = core
        self._catalog = core.catalog
        self._definitions = definitions

    @reads
    def add(self, rule: Rule, child: nodes.Node) -> None:
        """Add a constraint; the existing rows must satisfy it."""
        core, catalog = self._core, self._catalog
        core.changing()
        core.access.may_own("relation", rule.table)
        core.transactions.refuse_supposed("constraints cannot be made")
        core.runtime.backing.check_writable(f"constraint {rule.name!r} cannot be made")
        core.transactions.catch_up()
        number = 0
        while (name := f"{RESERVED_PREFIX}constraint {number}") in catalog.views:
            number += 1
        collection = self._definitions.collection_of(
            guard(rule, name, child), [f"c{i}" for i in range(len(child.types))]
        )
        try:
            view = self._definitions.views.declare(name, collection, None, 0, None, rule)
        except ConstraintError as error:
            raise core.constraints.explained(error, (), rule, child.types) from None
        names = tuple(c.name for c in relation_of(view).columns)
        made = ConstraintMade(name, relation_of(view).node, names, (), 0, relation_of(view).installed_at, rule=rule)
        with self._definitions.noting(view, made):
            pass
        core.constraints.noticed()

    @reads
    def drop(self, rule: Rule) -> None:
        """Drop a constraint and its index."""
        core, view = self._core, self._core.constraints.view_of(rule)
        core.changing()
        core.access.may_own("relation", rule.table)
        core.transactions.refuse_supposed("constraints cannot be dropped")
        core.runtime.backing.check_writable(f"constraint {rule.name!r} cannot be dropped")
        core.transactions.catch_up()
        self._catalog.note(ViewDropped(relation_of(view).label))
        self._definitions.views.remove(view)
        self._definitions.free_unused()
        if rule.name in self._catalog.indexes():
            self._definitions.indexes.drop(rule.name)
        self._core.constraints.noticed()
