"""Replays catalog entries when a directory is opened or followed, or a shard is rebuilt."""

from __future__ import annotations

from typing import TYPE_CHECKING

from everview.errors import StoreError
from everview.expr.resolve import Column
from everview.language.relation import relation_of
from everview.session.changes.turns import reads
from everview.session.clock.follower import RESERVED_PREFIX
from everview.session.clock.follower_entries import follower_of
from everview.session.names.entries import (
    AccessSet,
    Collected,
    ColumnsRenamed,
    Commented,
    ConstraintMade,
    Entry,
    FollowerMade,
    FunctionDropped,
    FunctionMade,
    IndexDropped,
    IndexMade,
    PlanChanged,
    Renamed,
    SequenceDropped,
    SequenceMade,
    TableAltered,
    TableMade,
    TypeDropped,
    TypeMade,
    ViewDropped,
    ViewMade,
)

if TYPE_CHECKING:
    from everview.session.core import Core
    from everview.session.names.definitions import Definitions


class Replay:
    """Performs entries that were noted before."""

    def __init__(self, core: Core, definitions: Definitions) -> None:
        self._core = core
        self._catalog = core.catalog
        self._definitions = definitions

    @reads
    def perform(self, entry: Entry, data: bytes = b"") -> None:
        """Perform an entry that was read (from `data`)."""
        try:
            self._do(entry)
        except (LookupError, StopIteration, AssertionError, TypeError, ValueError) as error:
            raise StoreError(
                "E_DAMAGED",
                f"{self._catalog.trust.where}: its catalog contradicts itself at {type(entry).__name__}: {error!r}",
                "restore the directory from a copy",
            ) from error
        self._catalog.entries.append((entry, data))

    def _do(self, entry: Entry) -> None:
        catalog = self._catalog
        following = catalog.next_id
        self._do_one(entry)
        catalog.next_id = max(catalog.next_id, following)  # an altered table has a higher id than later ones

    def _do_one(self, entry: Entry) -> None:
        core, catalog, definitions = self._core, self._catalog, self._definitions
        if isinstance(entry, TableMade):
            catalog.next_id = entry.id
            if entry.name.startswith(RESERVED_PREFIX):
                definitions.tables.make_system_table(
                    entry.name, [Column(name, declared) for name, declared in entry.columns]
                )
            else:
                key = [entry.columns[i][0] for i in entry.key]
                definitions.tables.declare(entry.name, dict(entry.columns), key, entry.label or entry.name)
        elif isinstance(entry, FollowerMade):
            catalog.next_id = entry.id if entry.id >= 0 else catalog.next_id
            with core.clock.showing(entry.now):
                core.clock.add(follower_of(core, entry))
        elif isinstance(entry, Collected):
            self._definitions.free_unused()
        elif isinstance(entry, ViewMade):
            self._perform_view(entry)
        elif isinstance(entry, PlanChanged):
            definitions.plans.swap(entry.join, entry.target)
            core.plans.note(entry)
        elif isinstance(entry, IndexMade):
            of = catalog.views.get(entry.view) or catalog.tables[entry.view]
            definitions.indexes.build(of, entry.keys, entry.name)
        elif isinstance(entry, IndexDropped):
            definitions.indexes.forget(entry.name)
            self._definitions.free_unused()
        elif isinstance(entry, (TypeMade, TypeDropped, Commented, SequenceMade, SequenceDropped, AccessSet)):
            definitions.remarks.keep(entry)
        elif isinstance(entry, (TableAltered, Renamed, ColumnsRenamed)):
            definitions.altering.do(entry)
        elif isinstance(entry, FunctionMade):
            catalog.sql_functions[entry.name] = entry
        elif isinstance(entry, FunctionDropped):
            del catalog.sql_functions[entry.name]
            core.access.forget("function", entry.name)
        elif isinstance(entry, ViewDropped):
            definitions.views.remove(catalog.views[entry.name])
            self._core.constraints.noticed()
            self._definitions.free_unused()
        else:
            definitions.tables.remove(catalog.tables[entry.name])

    def _perform_view(self, entry: ViewMade) -> None:
        source = self._definitions.collection_of(entry.node, entry.columns)
        relation_of(source).plan_why = entry.why
        relation_of(source).calls = entry.calls
        relation_of(source).text = entry.text
        if entry.rules:
            texts = {part: text for part, _, text in (kept.partition(" ") for kept in entry.rules)}
            relation_of(source).rules = (lambda: texts,)
        rule = entry.rule if isinstance(entry, ConstraintMade) else None
        index = [entry.columns[i] for i in entry.index]
        view = self._definitions.views.declare(entry.name, source, index, entry.history, entry.plan, rule)
        relation_of(view).installed_at = entry.time
        self._core.constraints.noticed()
