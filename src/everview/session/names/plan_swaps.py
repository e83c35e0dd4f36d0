"""Replaces the plan of a join while views read it: the rows stay the same, and readers are not affected."""

from __future__ import annotations

from typing import TYPE_CHECKING

from everview.language.relation import relation_of
from everview.plan import nodes
from everview.session.changes.turns import reads
from everview.session.inspect import error_operators
from everview.session.names.entries import PlanChanged

if TYPE_CHECKING:
    from everview.session.core import Core
    from everview.session.names.definitions import Definitions


class PlanSwaps:
    """Replaces the plans of joins, and notes it."""

    def __init__(self, core: Core, definitions: Definitions) -> None:
        self._core = core
        self._catalog = core.catalog
        self._definitions = definitions

    @reads
    def replan(self, join: nodes.Node, target: nodes.Node, why: str) -> None:
        """Build a join by another plan for all its readers."""
        core = self._core
        core.changing()
        core.transactions.refuse_supposed("plans cannot be changed")
        core.runtime.backing.check_writable("a plan cannot be changed")
        core.transactions.catch_up()
        target = self._catalog.canonical(target)
        before = core.runtime.builder.chosen.get(join, join)
        if target == before:
            return
        change = PlanChanged(nodes.Union((join, target)), why, core.runtime.dataflow.time)
        self.swap(join, target)
        try:
            self._catalog.note(change)
        except BaseException:
            if not self._catalog.has_noted(change):
                self.swap(join, before)
            raise
        core.plans.note(change)

    def swap(self, join: nodes.Node, target: nodes.Node) -> None:
        core = self._core
        core.runtime.swap(join, target)
        self._definitions.free_unused()
        for view in self._catalog.views.values():
            relation_of(view).fallible = error_operators(core.runtime.dataflow, relation_of(view).arrangement.operator)
        self._catalog.changed()
