"""Further arrangements of tables and views, for look-ups by other columns, and CREATE INDEX."""

from __future__ import annotations

from typing import TYPE_CHECKING

from everview.dataflow.operators import Arrangement
from everview.language.relation import relation_of
from everview.session.changes.turns import reads
from everview.session.names.entries import IndexDropped, IndexMade
from everview.session.names.overview import TRANSIENT
from everview.session.reads.snapshot import keep_snapshots
from everview.session.relations import Index
from everview.session.table import Table
from everview.session.view import View

if TYPE_CHECKING:
    from everview.session.core import Core
    from everview.session.names.definitions import Definitions


class Indexes:
    """Creates and drops further indexes of tables and views."""

    def __init__(self, core: Core, definitions: Definitions) -> None:
        self._core = core
        self._catalog = core.catalog
        self._definitions = definitions

    @reads
    def make(self, of: Table | View, keys: tuple[int, ...], name: str = "") -> Arrangement:
        """Add an arrangement of a view (or table) for look-ups by other columns."""
        of._alive()
        if name:
            self._core.access.may_grow(relation_of(of).label)
            self._core.changing()
            self._core.transactions.refuse_supposed("indexes cannot be made")
            self._core.runtime.backing.check_writable(f"index {name!r} cannot be made")
            self._core.transactions.catch_up()
        index = self.build(of, keys, name)
        if not relation_of(of).label.startswith(TRANSIENT):
            entry = IndexMade(relation_of(of).label, keys, name)
            try:
                self._catalog.note(entry)
            except BaseException:
                if not self._catalog.has_noted(entry):
                    relation_of(of).extra_indexes.remove(index)
                    self._definitions.collect()
                raise
        return index.arrangement

    def build(self, of: Table | View, keys: tuple[int, ...], name: str = "") -> Index:
        choice = relation_of(of).plan if isinstance(of, View) else None
        index = Index(keys, self._definitions.install(relation_of(of).node, keys, choice=choice), name)
        relation_of(of).extra_indexes.append(index)
        return index

    @reads
    def drop(self, name: str) -> None:
        """Drop a named index."""
        self._core.access.may_own("relation", relation_of(self._catalog.indexes()[name][0]).label)
        self._core.changing()
        self._core.transactions.refuse_supposed("indexes cannot be dropped")
        self._core.runtime.backing.check_writable(f"index {name!r} cannot be dropped")
        self._core.transactions.catch_up()
        self._catalog.note(IndexDropped(name), then=lambda: self.forget(name))
        self._definitions.free_unused()

    def forget(self, name: str) -> None:
        self.remove(*self._catalog.indexes()[name])

    @staticmethod
    def remove(of: Table | View, index: Index) -> None:
        keep_snapshots(index.arrangement.trace)
        relation_of(of).extra_indexes.remove(index)
