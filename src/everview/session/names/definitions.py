"""Creating and dropping named objects: what all kinds share.

Each kind has its own module: `tables`, `views`, `indexes`, `constraint_views` (constraints), `sql_functions`,
`plan_swaps`, `metadata` (metadata only), `alter`. There is no reference counting: dropping removes a name, and then
every operator that no table or view needs is freed (`collect`).

Each operation has two entry points. The public ones (`tables.make`, `views.drop` ...) check, execute and note an entry
in the catalog; if that fails, they are undone. `replay` performs an entry that was noted before.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from everview.dataflow.operators import Arrangement, Operator
from everview.errors import EverviewError
from everview.expr.resolve import Column
from everview.language.collection import Collection
from everview.language.relation import relation_of
from everview.plan import nodes
from everview.plan.multiway import Choice
from everview.session.changes.turns import reads
from everview.session.clock.follower import Follower
from everview.session.clock.follower_entries import described
from everview.session.names.alter import Altering
from everview.session.names.constraint_views import ConstraintViews
from everview.session.names.entries import Collected, Entry
from everview.session.names.indexes import Indexes
from everview.session.names.metadata import Metadata
from everview.session.names.plan_swaps import PlanSwaps
from everview.session.names.replay import Replay
from everview.session.names.sql_functions import SqlFunctions
from everview.session.names.tables import Tables
from everview.session.names.views import Views
from everview.session.table import Table
from everview.session.view import View

if TYPE_CHECKING:
    from everview.session.core import Core


class Definitions:
    """Creates and drops the named objects of a session, by kind."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._catalog = core.catalog
        self.tables = Tables(core, self)
        self.views = Views(core, self)
        self.indexes = Indexes(core, self)
        self.guards = ConstraintViews(core, self)
        self.functions = SqlFunctions(core, self)
        self.plans = PlanSwaps(core, self)
        self.remarks = Metadata(core, self)
        self.altering = Altering(core)
        self.replay = Replay(core, self)
        self.held: list[Operator] | None = None
        """unused operators that are retained while a change may still be rolled back"""

    def install(
        self, node: nodes.Node, keys: tuple[int, ...], history: int = 0, choice: Choice | None = None
    ) -> Arrangement:
        """Build an arrangement of a plan by some columns and maintain it from now on."""
        return self._core.runtime.install(self._catalog.canonical(node), keys, history, choice)

    @reads
    def follow(self, follower: Follower) -> None:
        """Include a follower in transactions from now on."""
        clock = self._core.clock
        self._core.transactions.refuse_supposed("windows and conditions on now() cannot be made")
        entry = described(follower, clock.read())
        same = [f for f in clock.agenda.of(follower.table) if type(f) is type(follower) and f.owner]
        if any(described(f, entry.now) == entry for f in same):
            return  # a table that is declared again
        clock.add(follower)
        try:
            self._catalog.note(entry)
        except BaseException:
            if self._catalog.has_noted(entry):
                raise
            clock.agenda.remove(lambda f: f is follower)
            if follower.own is not None:
                del self._catalog.tables[relation_of(follower.own).label]
            self.free_unused()
            raise

    def collection_of(self, node: nodes.Node, names: Iterable[str]) -> Collection:
        """A collection for a plan; `explain` shows the names of its tables and views."""
        below = set(node.walk())
        parents: list[Collection] = [*self._catalog.tables.values(), *self._catalog.views.values()]
        columns = [Column(name, declared) for name, declared in zip(names, node.types, strict=True)]
        return Collection(node, columns, self._core, parents=[p for p in parents if relation_of(p).node in below])

    @contextmanager
    def noting(self, made: Table | View, entry: Entry) -> Iterator[list[Entry]]:
        """Note the creation of an object at the end, with related entries; undo it if that fails."""
        entries = [entry]
        try:
            yield entries
            self._catalog.note(*entries)
        except BaseException as error:
            if self._catalog.has_noted(entry):
                raise
            if isinstance(made, View):
                self.views.remove(made)
                self.free_unused()
            else:
                self.tables.remove(made)
            if isinstance(error, EverviewError) and isinstance(made, View):
                error.message = f"view {relation_of(made).label!r}: {error.message}"
            raise

    @reads
    def collect(self) -> None:
        """Free what no table or view needs, noting the clock followers among it."""
        if self.free_unused():
            self._catalog.note(Collected())

    def free_unused(self) -> bool:
        """Free what no table or view needs; return whether clock followers were among it."""
        core, clock = self._core, self._core.clock
        unused = clock.unused() if self.held is None else []
        for table in unused:
            clock.forget(table)
            del self._catalog.tables[relation_of(table).label]
        core.runtime.keep_only([*self.roots(), *(self.held or ())])
        return bool(unused)

    def roots(self) -> list[Operator]:
        """The operators that tables and views are read from."""
        every = (*self._catalog.tables.values(), *self._catalog.views.values())
        found = [arrangement for one in every for arrangement in relation_of(one).arrangements]
        return [arrangement.operator for arrangement in (*found, *self._core.clock.indexes())]

    def settle(self) -> None:
        """After an interrupted turn: free whatever is not reachable by name. What was not noted was not created, and
        what was noted as dropped is dropped.
        """
        core, catalog = self._core, self._catalog
        for view in catalog.unnoted_views():
            del catalog.views[relation_of(view).label]
            relation_of(view).dropped = True
        for table in catalog.unnoted_tables():
            del catalog.tables[relation_of(table).label]
            relation_of(table).dropped = True
            core.clock.forget(table)
        for of, index in catalog.unnoted_indexes():
            self.indexes.remove(of, index)
        self.altering.settle()
        catalog.defaults = {about: text for about, text in catalog.defaults.items() if about[0] in catalog.tables}
        lost = [n for n, s in catalog.sequences.items() if s.owner and s.owner[0] not in catalog.tables]
        for name in lost:
            del catalog.sequences[name]
        core.constraints.noticed()
        core.subscriptions.settle()
        for table in catalog.tables.values():
            relation_of(table).views &= catalog.views.keys()
        core.runtime.builder.forget_freed()
        self.free_unused()
