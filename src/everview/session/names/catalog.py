"""The catalog: tables and views by name, and everything that made the dataflow, in order, as entries.

A dataflow is the result of its history: tables made, views installed and dropped, indexes added for lookups. Entries
(`everview.session.names.entries`) can be written and done again (`Definitions.perform`), here or elsewhere. A session
that keeps them has a `EntryLog`; one in memory has none and keeps no entries.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

from everview.errors import InputError
from everview.language.collection import Collection
from everview.language.relation import relation_of
from everview.plan import nodes as plan
from everview.plan.digest import digest
from everview.plan.frozen import Functions, canonical, functions_of
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
from everview.session.names.overview import TRANSIENT, Named, Overview
from everview.session.names.surviving import surviving
from everview.unbroken import Unbroken

if TYPE_CHECKING:
    from everview.session.relations import Index
    from everview.session.table import Table
    from everview.session.view import View

QUERY = "(query)"
"""The name a SELECT has while it is installed."""


class EntryLog(Protocol):
    """Where entries are kept."""

    def keep(self, entries: Sequence[bytes]) -> None:
        """Make entries durable, all of them, or raise."""

    def noted(self) -> None:
        """The catalog knows them, too."""


class Unkept:
    """For a session that follows another's catalog: what is made here besides matters here alone."""

    def keep(self, entries: Sequence[bytes]) -> None:
        pass

    def noted(self) -> None:
        pass


class Catalog:
    """What has a name in a session."""

    def __init__(self, trust: Trust = NOBODY) -> None:
        self.unbroken = Unbroken()
        """where entries are written and known: both, or neither"""
        self._overview: Overview | None = None
        self.tables: dict[str, Table] = Named(self.changed)
        self.views: dict[str, View] = Named(self.changed)
        self.rearranged = 0
        """how often a table or view was given other arrangements than it was made with"""
        self.next_id = 0
        """of the next table's plan node"""
        self.redeclarable: set[str] = set()
        """tables and views that were found when the session was opened: they may be declared once more"""
        self.sql_functions: dict[str, FunctionMade] = {}
        """functions written in SQL, by lower-case name"""
        self.comments: dict[tuple[str, str], str] = {}
        """what people say about tables and views, and about their columns ("" for the whole)"""
        self.defaults: dict[tuple[str, str], str] = {}
        """where columns' values come from that are not given (`everview.session.changes.defaults`)"""
        self.sequences: dict[str, SequenceMade] = {}
        self.entry_log: EntryLog | None = None
        self.entries: list[tuple[Entry, bytes]] = []
        """all there were, each with its record, if they are kept"""
        self._held: list[bytes] | None = None
        """records of what is being noted together"""
        self.trust = trust
        """what a directory may run"""
        self.functions = Functions(trust=trust)
        """the Python functions that entries use"""

    @property
    def overview(self) -> Overview:
        """All tables and views at once."""
        found = self._overview
        if found is None:
            found = self._overview = Overview(self)
        return found

    def changed(self) -> None:
        """A table or view came or went, or has other operators: what was said of all of them holds no longer."""
        self._overview = None

    def check_new(self, name: str) -> None:
        """Refuse a name that cannot be given to anything new."""
        if not isinstance(name, str) or not name:
            raise InputError("E_NAME", f"{name!r} is not a name", "give a non-empty string")
        if name.startswith(RESERVED_PREFIX):
            raise InputError("E_NAME", f"names starting with {RESERVED_PREFIX!r} are reserved", "choose another")
        if name in self.tables or name in self.views:
            raise InputError("E_NAME", f"the name {name!r} is taken", "choose another, or drop it first")

    def indexes(self) -> dict[str, tuple[Table | View, Index]]:
        """The indexes that have names, and what they are of."""
        every: list[Table | View] = [*self.tables.values(), *self.views.values()]
        return {index.name: (one, index) for one in every for index in relation_of(one).more if index.name}

    def table_of(self, node: plan.Table) -> Table:
        """The table that a plan node reads."""
        return next(t for t in self.tables.values() if relation_of(t).node == node)

    def clear(self) -> None:
        """Nothing has a name any more, and nothing ever had."""
        self.tables.clear()
        self.views.clear()
        self.sql_functions.clear()
        self.comments.clear()
        self.defaults.clear()
        self.sequences.clear()
        self.entries.clear()

    # entries

    def note(self, *entries: Entry, then: Callable[[], None] | None = None) -> None:
        """Something was done: keep that, and do what follows from it in the books; nothing of it is cut off. An
        exception of another thread may come out of it although all is done (`has_noted`).
        """
        if self.entry_log is not None or then is not None:
            self.unbroken.run(lambda: self._note(entries, then))

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
        """Whether an entry was kept, though an exception came out of that."""
        self.unbroken.wait()
        return any(each is entry for each, _ in reversed(self.entries))

    @contextmanager
    def together(self) -> Iterator[None]:
        """What is noted inside is kept as one record at the end: all of it, or nothing."""
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
        """Views that a turn which was cut off has left: a query's, and those that no entry says were made."""
        found = [self.views[QUERY]] if QUERY in self.views else []
        if self.entry_log is not None:
            noted = {e.name for e, _ in surviving(self.entries) if isinstance(e, ViewMade)}
            found += [v for n, v in self.views.items() if n not in noted and not n.startswith(TRANSIENT)]
        return found

    def unnoted_tables(self) -> list[Table]:
        """Tables that no entry says were made."""
        if self.entry_log is None:
            return []
        noted = {e.name for e, _ in surviving(self.entries) if isinstance(e, TableMade)}
        return [t for n, t in self.tables.items() if n not in noted and not n.startswith(RESERVED_PREFIX)]

    def unnoted_indexes(self) -> list[tuple[Table | View, Index]]:
        """Indexes by a name that no entry says were made, or an entry says were dropped."""
        if self.entry_log is None:
            return []
        noted = {e.name for e, _ in surviving(self.entries) if isinstance(e, IndexMade)}
        return [found for name, found in self.indexes().items() if name not in noted]

    def give(self, node: plan.Node) -> None:
        """A program declares a view again: its functions are those that the directory misses."""
        for each in node.walk():
            for function in functions_of(each):
                self.functions.give(function)

    def require_functions(self) -> None:
        """Refuse to go on without the functions that views use."""
        if self.entry_log is not None:
            self.functions.require(self.trust.where)

    def canonical(self, node: plan.Node) -> plan.Node:
        """Functions with the same code are one where entries are kept: they are when these are read, and must build the
        same then.
        """
        return node if self.entry_log is None else canonical(node, self.functions)

    def defines(self, view: View, collection: Collection) -> bool:
        """Whether a collection is what a view was defined as."""
        changes = (Renamed, ColumnsRenamed, TableAltered)
        entries = surviving(self.entries) if any(isinstance(e, changes) for e, _ in self.entries) else self.entries
        made = [e for e, _ in entries if isinstance(e, ViewMade) and e.name == relation_of(view).label]
        meaning = digest(relation_of(collection).meaning or relation_of(collection).node)
        if len(made[-1].meaning) == len(meaning):
            return made[-1].meaning == meaning
        known = meaning, digest(relation_of(collection).node)
        return digest(relation_of(view).node) in known  # digests were longer once
