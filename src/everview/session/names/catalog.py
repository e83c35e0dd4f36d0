"""The catalog: tables and views by name, and the log of entries that built the dataflow.

A dataflow is the result of its history: tables created, views installed and dropped, indexes added for look-ups.
Entries (`everview.session.names.entries`) can be serialised and performed again (`Definitions.perform`), here or
elsewhere. A durable session has an `EntryLog`; one in memory keeps no entries.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

from everview.errors import InputError
from everview.language.collection import Collection
from everview.language.relation import relation_of
from everview.plan import nodes as plan
from everview.plan.digest import digest
from everview.plan.serialisation import Functions, canonical, functions_of
from everview.plan.trust import NOBODY, Trust
from everview.session.clock.follower import RESERVED_PREFIX
from everview.session.names.entries import (
    ColumnsRenamed,
    Entry,
    FunctionMade,
    IndexMade,
    Renamed,
    SequenceMade,
    TableAltered,
    TableMade,
    ViewMade,
    encode,
)
from everview.session.names.entry_compaction import compacted
from everview.session.names.overview import TRANSIENT, Named, Overview
from everview.uninterruptible import Uninterruptible

if TYPE_CHECKING:
    from everview.session.relations import Index
    from everview.session.table import Table
    from everview.session.view import View

QUERY = "(query)"
"""The name of a SELECT while it is installed."""


class EntryLog(Protocol):
    """Durable storage for entries."""

    def keep(self, entries: Sequence[bytes]) -> None:
        """Make all the entries durable, or raise."""

    def noted(self) -> None:
        """Called once the catalog contains them as well."""


class Unkept:
    """For a follower of another session's catalog: local definitions are not stored."""

    def keep(self, entries: Sequence[bytes]) -> None:
        pass

    def noted(self) -> None:
        pass


class Catalog:
    """The named objects of a session."""

    def __init__(self, trust: Trust = NOBODY) -> None:
        self.uninterruptible = Uninterruptible()
        """runs writing and recording of entries as one uninterruptible unit"""
        self._overview: Overview | None = None
        self.version = 0
        """changes with every definition"""
        self.meaning = 0
        """changes with those that statements can name: what was bound before may mean something else now"""
        self._nameless = threading.local()
        self.tables: dict[str, Table] = Named(self.changed)
        self.views: dict[str, View] = Named(self.changed)
        self.rearranged = 0
        """how often tables or views were switched to other arrangements"""
        self.next_id = 0
        """of the next table's plan node"""
        self.redeclarable: set[str] = set()
        """tables and views found on opening, which the program may declare again"""
        self.sql_functions: dict[str, FunctionMade] = {}
        """functions written in SQL, by lower-case name"""
        self.comments: dict[tuple[str, str], str] = {}
        """comments on tables, views and columns ("" for the whole)"""
        self.defaults: dict[tuple[str, str], str] = {}
        """the rules for missing values (`everview.session.changes.defaults`)"""
        self.sequences: dict[str, SequenceMade] = {}
        self.entry_log: EntryLog | None = None
        self.entries: list[tuple[Entry, bytes]] = []
        """all entries with their records, if they are kept"""
        self._held: list[bytes] | None = None
        """records of entries that are noted together"""
        self.trust = trust
        """what a directory may run"""
        self.functions = Functions(trust=trust)
        """Python functions used by entries"""

    @property
    def overview(self) -> Overview:
        """All tables and views at once."""
        found = self._overview
        if found is None:
            found = self._overview = Overview(self)
        return found

    def changed(self) -> None:
        """Invalidate caches after a table or view was created, dropped or rebuilt."""
        self._overview = None
        self._count()

    def _count(self) -> None:
        self.version += 1
        self.meaning += not getattr(self._nameless, "inside", False)

    @contextmanager
    def nameless(self) -> Iterator[None]:
        """What this thread creates or drops inside has a name that no statement uses."""
        before = getattr(self._nameless, "inside", False)
        self._nameless.inside = True
        try:
            yield
        finally:
            self._nameless.inside = before

    def check_new(self, name: str) -> None:
        """Refuse a name that a new object cannot have."""
        if not isinstance(name, str) or not name:
            raise InputError("E_NAME", f"{name!r} is not a name", "give a non-empty string")
        if name.startswith(RESERVED_PREFIX):
            raise InputError("E_NAME", f"names starting with {RESERVED_PREFIX!r} are reserved", "choose another")
        if name in self.tables or name in self.views:
            raise InputError("E_NAME", f"the name {name!r} is taken", "choose another, or drop it first")

    def indexes(self) -> dict[str, tuple[Table | View, Index]]:
        """The named indexes, and the tables and views they belong to."""
        every: list[Table | View] = [*self.tables.values(), *self.views.values()]
        return {index.name: (one, index) for one in every for index in relation_of(one).extra_indexes if index.name}

    def table_of(self, node: plan.Table) -> Table:
        """The table that a plan node reads."""
        return next(t for t in self.tables.values() if relation_of(t).node == node)

    def clear(self) -> None:
        """Remove everything, including the log of entries."""
        self.tables.clear()
        self.views.clear()
        self.sql_functions.clear()
        self.comments.clear()
        self.defaults.clear()
        self.sequences.clear()
        self.entries.clear()

    # entries

    def note(self, *entries: Entry, then: Callable[[], None] | None = None) -> None:
        """Write an entry and update the catalog, uninterruptibly. An asynchronous exception may still propagate
        although everything is done (`has_noted`).
        """
        self._count()
        if self.entry_log is not None or then is not None:
            self.uninterruptible.run(lambda: self._note(entries, then))

    def _note(self, entries: tuple[Entry, ...], then: Callable[[], None] | None) -> None:
        if self.entry_log is not None:
            known = len(self.functions)
            try:
                written = [encode(entry, self.functions) for entry in entries]
                if self._held is None:
                    self.entry_log.keep(written)
                else:
                    self._held += written
            except BaseException:
                self.functions.go_back(known)
                raise
            self.entries.extend(zip(entries, written, strict=True))
            if self._held is None:
                self.entry_log.noted()
        if then is not None:
            then()

    def has_noted(self, entry: Entry) -> bool:
        """Whether an entry was kept although an exception propagated."""
        self.uninterruptible.wait()
        return any(each is entry for each, _ in reversed(self.entries))

    @contextmanager
    def together(self) -> Iterator[None]:
        """Keep everything noted inside as one record at the end: all of it or nothing."""
        if self.entry_log is None or self._held is not None:
            yield
            return
        held: list[bytes] = []
        self._held, before, known = held, len(self.entries), len(self.functions)
        try:
            yield
            if held:
                self.entry_log.keep(held)
                self.entry_log.noted()
        except BaseException:
            del self.entries[before:]
            self.functions.go_back(known)
            raise
        finally:
            self._held = None

    def unnoted_views(self) -> list[View]:
        """Views left by an interrupted turn: those of queries, and those without an entry."""
        found = [self.views[QUERY]] if QUERY in self.views else []
        if self.entry_log is not None:
            noted = {e.name for e, _ in compacted(self.entries) if isinstance(e, ViewMade)}
            found += [v for n, v in self.views.items() if n not in noted and not n.startswith(TRANSIENT)]
        return found

    def unnoted_tables(self) -> list[Table]:
        """Tables without an entry."""
        if self.entry_log is None:
            return []
        noted = {e.name for e, _ in compacted(self.entries) if isinstance(e, TableMade)}
        return [t for n, t in self.tables.items() if n not in noted and not n.startswith(RESERVED_PREFIX)]

    def unnoted_indexes(self) -> list[tuple[Table | View, Index]]:
        """Named indexes without an entry, or with an entry that drops them."""
        if self.entry_log is None:
            return []
        noted = {e.name for e, _ in compacted(self.entries) if isinstance(e, IndexMade)}
        return [found for name, found in self.indexes().items() if name not in noted]

    def give(self, node: plan.Node) -> None:
        """Take over the functions of a view that the program declares again and the directory lacks."""
        for each in node.walk():
            for function in functions_of(each):
                self.functions.give(function)

    def require_functions(self) -> None:
        """Refuse to continue without the functions that views use."""
        if self.entry_log is not None:
            self.functions.require(self.trust.where)

    def canonical(self, node: plan.Node) -> plan.Node:
        """If entries are kept, map functions with the same code to one: reading the entries does the same and must
        build the same plan.
        """
        return node if self.entry_log is None else canonical(node, self.functions)

    def defines(self, view: View, collection: Collection) -> bool:
        """Whether a collection equals a view's definition."""
        changes = (Renamed, ColumnsRenamed, TableAltered)
        entries = compacted(self.entries) if any(isinstance(e, changes) for e, _ in self.entries) else self.entries
        made = [e for e, _ in entries if isinstance(e, ViewMade) and e.name == relation_of(view).label]
        meaning = digest(relation_of(collection).meaning or relation_of(collection).node)
        if len(made[-1].meaning) == len(meaning):
            return made[-1].meaning == meaning
        known = meaning, digest(relation_of(collection).node)
        return digest(relation_of(view).node) in known  # earlier versions wrote longer digests
