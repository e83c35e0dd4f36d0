"""Creating and dropping views.

A view is an index of its plan's rows, built on existing operators where possible. Dropping removes its name; operators
that nothing else needs are freed afterwards (`Definitions.free_unused`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from everview.errors import InputError, LoopError, PlanError
from everview.language.collection import Collection, check_names, common_owner
from everview.language.relation import relation_of
from everview.plan import nodes
from everview.plan.check import check_closed
from everview.plan.digest import digest
from everview.plan.multiway import Choice, check_choice
from everview.session.changes.turns import reads
from everview.session.inspect import error_operators
from everview.session.names.arguments import check_count, names_of, places_of
from everview.session.names.constraint_rules import Rule
from everview.session.names.entries import ViewDropped, ViewMade
from everview.session.names.overview import TRANSIENT
from everview.session.names.plan_preparation import rewritten
from everview.session.reads.snapshot import keep_snapshots
from everview.session.relations import KeptRelation, ViewRelation
from everview.session.table import Table
from everview.session.view import View

if TYPE_CHECKING:
    from everview.session.core import Core
    from everview.session.names.definitions import Definitions


class Views:
    """Creates and drops the views of a session."""

    def __init__(self, core: Core, definitions: Definitions) -> None:
        self._core = core
        self._catalog = core.catalog
        self._definitions = definitions

    @reads
    def make(
        self,
        name: str,
        collection: Collection,
        index_by: str | Sequence[str] | None = None,
        history: int | None = None,
        plan: Choice | None = None,
        rule: Rule | None = None,
    ) -> View:
        """Implements `Session.view`; `rule` is the constraint that a hidden view enforces."""
        core, catalog = self._core, self._catalog
        core.changing()
        transient = isinstance(name, str) and name.startswith(TRANSIENT)
        if not transient:
            core.transactions.refuse_supposed("views cannot be made")
        if core.access.redeclares(name) and name in catalog.views:
            return self._same(catalog.views[name], collection, index_by)
        if not transient:
            core.runtime.backing.check_writable(f"view {name!r} cannot be made")
            core.access.may_create(name)
        if isinstance(collection, Collection) and common_owner(collection) is core:
            collection, plan = rewritten(core, collection, plan)
        view = self.declare(name, collection, index_by, history, plan, rule)
        if not transient:
            kept, source = relation_of(view), relation_of(collection)
            names = tuple(c.name for c in kept.columns)
            meaning = digest(source.meaning or source.node)
            made = (kept.node, names, kept.index, history, kept.installed_at, plan, meaning)
            rules = () if catalog.entry_log is None else _rules_in(kept)
            entry = ViewMade(name, *made, source.plan_why, source.calls, rules, source.text)
            with self._definitions.noting(view, entry):
                pass
            core.access.made("relation", name, source.bound, self._read_by(collection))
        return view

    def _read_by(self, collection: Collection) -> list[str]:
        """The tables and views that a collection is built from, by name."""
        found: dict[str, None] = {}
        seen: set[int] = set()
        left = [collection]
        while left:
            relation = relation_of(left.pop())
            if relation.number in seen:
                continue
            seen.add(relation.number)
            if isinstance(relation, KeptRelation):
                found[relation.label] = None
            else:
                left += relation.parents
        return list(found)

    def declare(
        self,
        name: str,
        collection: Collection,
        index_by: str | Sequence[str] | None,
        history: int | None,
        plan: Choice | None,
        rule: Rule | None = None,
    ) -> View:
        core = self._core
        if rule is None:
            self._catalog.check_new(name)
        check_choice(plan)
        if history is not None:
            check_count("history", history, 0)
        self._check_collection(collection)
        index = places_of("index_by", index_by, [c.name for c in relation_of(collection).columns])
        core.transactions.catch_up()
        kept = core.history if history is None else history
        try:
            arrangement = self._definitions.install(relation_of(collection).node, index, kept, plan)
        except LoopError as error:
            error.message = f"view {name!r}: {error.message}"
            raise
        view = View(core, name, collection, relation_of(collection).node, arrangement)
        relation_of(view).index = index
        relation_of(view).plan = plan
        relation_of(view).history = history
        relation_of(view).rule = rule
        relation_of(view).fallible = error_operators(core.runtime.dataflow, arrangement.operator)
        self._catalog.views[name] = view
        for node in relation_of(collection).node.walk():
            if isinstance(node, nodes.Table):
                table: Table | None = self._catalog.table_of(node)
                while table is not None:
                    relation_of(table).views.add(name)
                    if (partner := relation_of(table).partner) is not None:
                        relation_of(partner).views.add(name)
                    table = relation_of(table).origin
        return view

    def _check_collection(self, collection: Any) -> None:
        if not isinstance(collection, Collection):
            hint = "build one from db.table(...)"
            if type(collection).__name__ == "Grouping":
                hint = "say what to compute of each group: .agg(total=col.amount.sum()), or .top(1, by=...)"
            elif isinstance(collection, str):
                hint = 'a view of SQL is made by SQL: db.sql("CREATE VIEW name AS SELECT ...")'
            raise InputError("E_TYPE", f"db.view needs a collection, got {type(collection).__name__}", hint)
        if common_owner(collection) is not self._core:
            raise PlanError(
                "E_SESSION", "the collection belongs to another session", "build it from this session's tables"
            )
        check_names(collection)
        check_closed(relation_of(collection).node)
        for node in relation_of(collection).node.walk():
            if isinstance(node, nodes.Table) and node.id not in self._core.runtime.builder.tables:
                raise PlanError(
                    "E_DROPPED", "the collection reads a table that was dropped", "build it from existing tables"
                )

    def _same(self, view: View, collection: Collection, index_by: str | Sequence[str] | None) -> View:
        """A view found on opening, if its definition matches."""
        relation = relation_of(view)
        names = [c.name for c in relation.columns]
        wanted = list(names_of("index_by", index_by))
        if (
            not isinstance(collection, Collection)
            or [c.name for c in relation_of(collection).columns] != names
            or wanted != [names[i] for i in relation.index]
            or not self._catalog.defines(view, collection)
        ):
            raise PlanError(
                "E_NAME",
                f"view {relation.label!r} exists with another definition",
                f"use it as it is with db[{relation.label!r}], drop it first, or choose another name",
            )
        self._catalog.redeclarable.discard(relation.label)
        self._catalog.give(relation_of(collection).node)
        return view

    @reads
    def drop(self, view: View) -> None:
        """Drop a view."""
        relation = relation_of(view)
        core = self._core
        view._alive()
        core.transactions.catch_up()
        self._catalog.redeclarable.discard(relation.label)
        if relation.label.startswith(TRANSIENT):
            self.remove(view)
            self._definitions.collect()
        else:
            core.access.may_own("relation", relation.label)
            core.access.refuse_read(relation.label, itself=False)
            core.transactions.refuse_supposed("views cannot be dropped")
            core.runtime.backing.check_writable(f"view {relation.label!r} cannot be dropped")
            self._catalog.note(ViewDropped(relation.label))
            self.remove(view)
            self._definitions.free_unused()

    def remove(self, view: View) -> None:
        """Remove a view; `free_unused` frees what only it needed."""
        relation = relation_of(view)
        for arrangement in relation.arrangements:
            keep_snapshots(arrangement.trace)
        self._definitions.remarks.forget(relation.label)
        self._core.access.forget("relation", relation.label)
        relation.dropped = True
        del self._catalog.views[relation.label]
        self._core.subscriptions.forget(view)
        for table in self._catalog.tables.values():
            relation_of(table).views.discard(relation.label)


def _rules_in(relation: ViewRelation) -> tuple[str, ...]:
    """The rules that parts of a view's plan come from, as stored."""
    if not relation.rules:
        return ()
    parts = {digest(node) for node in relation.node.walk()}
    known = {part: text for told in relation.rules for part, text in told().items()}
    return tuple(f"{part} {text}" for part, text in known.items() if part in parts)
