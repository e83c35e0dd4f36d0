"""Making and dropping what has a name: tables, views, their indexes, and what follows the clock.

A table is an index of its rows; a view is an index of its plan's, built on whatever is there already. Nothing counts
its users: what is dropped only loses its name, and then every operator that no table and no view needs is freed
(`collect`).

Each thing can be done in two ways. People's calls (`table`, `view`, `drop_view` ...) check, do and note an entry in the
catalog; what cannot be noted is undone. `perform` does what an entry says that was noted before. A program that is run
again may declare again what was found when the session was opened, and gets it, if it is the same.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from everview.codes.declare import data_type
from everview.dataflow.operators import Arrangement, Operator
from everview.errors import ConstraintError, EverviewError, InputError, LoopError, PlanError, StoreError, did_you_mean
from everview.expr.resolve import Column
from everview.language.collection import Collection, check_names, common_owner
from everview.plan import nodes
from everview.plan.check import check_closed
from everview.plan.digest import digest
from everview.plan.multiway import Choice, check_choice
from everview.session.changes.constraints import guard
from everview.session.changes.turns import reads
from everview.session.clock.follower_entries import described, follower_of
from everview.session.clock.temporal import RESERVED_PREFIX, ArrivalTTL, Follower
from everview.session.inspect import error_operators
from everview.session.names.altering import Altering, plan_of
from everview.session.names.catalog import TRANSIENT
from everview.session.names.entries import (
    AccessSet,
    Collected,
    ColumnsRenamed,
    Commented,
    ConstraintMade,
    DefaultSet,
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
    TableDropped,
    TableMade,
    TypeDropped,
    TypeMade,
    ViewDropped,
    ViewMade,
)
from everview.session.names.rewriting import rewritten
from everview.session.names.rules import Rule
from everview.session.reads.followed import Index
from everview.session.reads.snapshot import keep_snapshots
from everview.session.table import Table
from everview.session.view import View

if TYPE_CHECKING:
    from everview.session.core import Core

Said = TypeMade | TypeDropped | Commented | SequenceMade | SequenceDropped | AccessSet
"""Entries that only say something, and build nothing"""


class Definitions:
    """Makes and drops what has a name in a session."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._catalog = core.catalog
        self.altering = Altering(core)

    # tables

    @reads
    def table(
        self, name: str, schema: Mapping[str, Any], key: str | Sequence[str] | None, ttl: dt.timedelta | None
    ) -> Table:
        """See `Session.table`."""
        core, catalog = self._core, self._catalog
        core.changing()
        core.transactions.refuse_supposed("tables cannot be made")
        if ttl is not None and not isinstance(ttl, dt.timedelta):
            raise InputError("E_TYPE", f"ttl={ttl!r}", "give how long rows live, as a timedelta")
        if not isinstance(schema, Mapping):
            raise InputError("E_SCHEMA", f"table {name!r}: {schema!r} does not say columns", 'give {"column": type}')
        size = None if ttl is None else ttl // dt.timedelta(microseconds=1)
        if isinstance(name, str) and name in catalog.redeclarable and name in catalog.tables:
            return self._same_table(catalog.tables[name], schema, key, size)
        core.runtime.backing.check_writable(f"table {name!r} cannot be made")
        core.access.may_create(name)
        table = self._new_table(name, schema, key)
        label = "" if table._stored_as == name else table._stored_as
        columns = tuple((c.name, c.type) for c in table._columns)
        with self._noting(table, TableMade(name, columns, table._key, table._id, label)) as entries:
            if size is not None:
                follower = ArrivalTTL(core, table, size, owner=True)
                entries.append(described(follower, core.clock.read()))
                core.clock.add(follower)
        core.access.made("relation", name)
        return table

    def _new_table(
        self, name: str, schema: Mapping[str, Any], key: str | Sequence[str] | None, label: str = ""
    ) -> Table:
        self._catalog.check_new(name)
        if not schema:
            raise InputError("E_SCHEMA", f"table {name!r} has no columns", 'give a schema: {"column": type}')
        for column in schema:
            if not isinstance(column, str) or not column:
                raise InputError(
                    "E_NAME", f"table {name!r}: {column!r} is not a column name", "give a non-empty string"
                )
        columns = [Column(n, data_type(t)) for n, t in schema.items()]
        at = _places(f"the key of table {name!r}", key, list(schema))
        if not label and any(t._stored_as == name for t in self._catalog.tables.values()):
            label = f"{RESERVED_PREFIX}{self._catalog.next_id} {name}"  # one that was renamed is stored by that name
        return self._make_table(name, columns, at, nodes.keys_first(at, len(columns)), label=label)

    def _make_table(
        self,
        name: str,
        columns: Sequence[Column],
        key: tuple[int, ...],
        order: tuple[int, ...],
        rows: Sequence[tuple[int, ...]] = (),
        label: str = "",
    ) -> Table:
        """A table by a new name; `rows` (codes) are in it from the beginning. `label`: what its operator is called, if
        not so, too.
        """
        core, catalog = self._core, self._catalog
        node = nodes.Table(catalog.next_id, tuple(c.type for c in columns), key)
        catalog.next_id += 1
        table = Table(core, name, columns, node, key)
        table._stored_as = label or name
        table._arrangement = core.runtime.add_table(node, order, table._stored_as, core.history, rows)
        catalog.tables[name] = table
        return table

    def copy_table(self, name: str, table: Table) -> Table:
        """An empty table like another session's, which the same plans can read."""
        self._catalog.next_id = table._id
        return self._make_table(name, table._columns, table._key, table._arrangement.order)

    @reads
    def hidden_table(
        self, name: str, columns: Sequence[Column], order: Iterable[int], rows: np.ndarray, origin: Table | None
    ) -> Table:
        """A table that belongs to views, with rows that are there from the present time on."""
        core = self._core
        core.transactions.catch_up()
        full = f"{RESERVED_PREFIX}{name}"
        while full in self._catalog.tables:
            full += "'"
        present = [tuple(row) for row in rows.T.tolist()]
        table = self._make_table(full, columns, (), tuple(order), present)
        table._origin = origin
        return table

    @reads
    def system_table(self, name: str, columns: Sequence[Column]) -> Table:
        """A table of the system's own, by all its columns; one that is there already is found again."""
        self._core.alive()
        self._core.transactions.catch_up()
        found = self._catalog.tables.get(name)
        if found is None:
            self._core.transactions.refuse_supposed("tables cannot be made")
            found = self._make_system_table(name, columns)
            with self._noting(found, TableMade(name, tuple((c.name, c.type) for c in columns), found._key, found._id)):
                pass
        return found

    def _make_system_table(self, name: str, columns: Sequence[Column]) -> Table:
        order = tuple(range(len(columns)))
        return self._make_table(name, columns, order, order)

    def _same_table(
        self, table: Table, schema: Mapping[str, Any], key: str | Sequence[str] | None, ttl: int | None
    ) -> Table:
        """A table that was found when the session was opened, if it is declared as it was."""
        have = [(c.name, c.type) for c in table._columns]
        followers = self._core.clock.followers
        lives = [f.size for f in followers if isinstance(f, ArrivalTTL) and f.owner and f.table is table]
        keys = list(_names(f"the key of table {table._label!r}", key))
        if (
            [(n, data_type(t)) for n, t in schema.items()] != have
            or keys != [have[i][0] for i in table._key]
            or lives != ([] if ttl is None else [ttl])
        ):
            shown = ", ".join(f"{n} {t!r}" for n, t in have)
            keyed = f", key {', '.join(have[i][0] for i in table._key)}" if table._key else ""
            keyed += "".join(f", ttl {life / 1e6:g} s" for life in lives)
            raise InputError(
                "E_SCHEMA",
                f"table {table._label!r} exists with other columns, another key or ttl: ({shown}{keyed})",
                f"use it as it is with db[{table._label!r}], drop it first, or choose another name",
            )
        self._catalog.redeclarable.discard(table._label)
        return table

    # what follows the clock

    @reads
    def follow(self, follower: Follower) -> None:
        """Let a follower take part in transactions from now on."""
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
                del self._catalog.tables[follower.own._label]
            self.free_unused()
            raise

    # views

    @reads
    def view(
        self,
        name: str,
        collection: Collection,
        index_by: str | Sequence[str] | None = None,
        history: int | None = None,
        plan: Choice | None = None,
        rule: Rule | None = None,
    ) -> View:
        """See `Session.view`; a `rule` is what the hidden view of a constraint guards."""
        core, catalog = self._core, self._catalog
        core.changing()
        transient = isinstance(name, str) and name.startswith(TRANSIENT)
        if not transient:
            core.transactions.refuse_supposed("views cannot be made")
        if isinstance(name, str) and name in catalog.redeclarable and name in catalog.views:
            return self._same_view(catalog.views[name], collection, index_by)
        if not transient:
            core.runtime.backing.check_writable(f"view {name!r} cannot be made")
            core.access.may_create(name)
        if isinstance(collection, Collection) and common_owner(collection) is core:
            collection, plan = rewritten(core, collection, plan)
        view = self._new_view(name, collection, index_by, history, plan, rule)
        if not transient:
            names = tuple(c.name for c in view._columns)
            meaning, why = digest(collection._meaning or collection._node), collection._plan_why
            made = view._node, names, view._index, history, view._installed_at, plan, meaning, why, collection._calls
            with self._noting(view, ViewMade(name, *made)):
                pass
            core.access.made("relation", name, collection._bound)
        return view

    def _new_view(
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
        index = _places("index_by", index_by, [c.name for c in collection._columns])
        core.transactions.catch_up()
        kept = core.history if history is None else history
        try:
            arrangement = self.install(collection._node, index, kept, plan)
        except LoopError as error:
            error.message = f"view {name!r}: {error.message}"
            raise
        view = View(core, name, collection, collection._node, arrangement)
        view._index = index
        view._plan = plan
        view._history = history
        view._rule = rule
        view._fallible = error_operators(core.runtime.dataflow, arrangement.operator)
        self._catalog.views[name] = view
        for node in collection._node.walk():
            if isinstance(node, nodes.Table):
                table: Table | None = self._catalog.table_of(node)
                while table is not None:
                    table._views.add(name)
                    if table._partner is not None:
                        table._partner._views.add(name)
                    table = table._origin
        return view

    # constraints

    @reads
    def add_constraint(self, rule: Rule, child: nodes.Node) -> None:
        """Keep a constraint from now on; what is there must obey it."""
        core, catalog = self._core, self._catalog
        core.changing()
        core.access.may_own("relation", rule.table)
        core.transactions.refuse_supposed("constraints cannot be made")
        core.runtime.backing.check_writable(f"constraint {rule.name!r} cannot be made")
        core.transactions.catch_up()
        number = 0
        while (name := f"{RESERVED_PREFIX}constraint {number}") in catalog.views:
            number += 1
        collection = self.collection_of(guard(rule, name, child), [f"c{i}" for i in range(len(child.types))])
        try:
            view = self._new_view(name, collection, None, 0, None, rule)
        except ConstraintError as error:
            raise core.constraints.explained(error, (), rule, child.types) from None
        names = tuple(c.name for c in view._columns)
        made = ConstraintMade(name, view._node, names, (), 0, view._installed_at, rule=rule)
        with self._noting(view, made):
            pass
        core.constraints.noticed()

    @reads
    def drop_constraint(self, rule: Rule) -> None:
        """Stop keeping a constraint, and its index."""
        core, view = self._core, self._core.constraints.view_of(rule)
        core.changing()
        core.access.may_own("relation", rule.table)
        core.transactions.refuse_supposed("constraints cannot be dropped")
        core.runtime.backing.check_writable(f"constraint {rule.name!r} cannot be dropped")
        core.transactions.catch_up()
        self._catalog.note(ViewDropped(view._name))
        self.remove_view(view)
        self.free_unused()
        if rule.name in self._catalog.indexes():
            self.drop_index(rule.name)
        self._core.constraints.noticed()

    def _check_collection(self, collection: Any) -> None:
        if not isinstance(collection, Collection):
            hint = "build one from db.table(...)"
            if type(collection).__name__ == "Grouping":
                hint = "say what to compute of each group: .agg(total=col.amount.sum()), or .top(1, by=...)"
            raise InputError("E_TYPE", f"db.view needs a collection, got {type(collection).__name__}", hint)
        if common_owner(collection) is not self._core:
            raise PlanError(
                "E_SESSION", "the collection belongs to another session", "build it from this session's tables"
            )
        check_names(collection)
        check_closed(collection._node)
        for node in collection._node.walk():
            if isinstance(node, nodes.Table) and node.id not in self._core.runtime.builder.tables:
                raise PlanError(
                    "E_DROPPED", "the collection reads a table that was dropped", "build it from existing tables"
                )

    def install(
        self, node: nodes.Node, keys: tuple[int, ...], history: int = 0, choice: Choice | None = None
    ) -> Arrangement:
        """An arrangement of a plan by some columns, up to date from now on."""
        return self._core.runtime.install(self._catalog.canonical(node), keys, history, choice)

    @reads
    def index(self, of: Table | View, keys: tuple[int, ...], name: str = "") -> Arrangement:
        """A further arrangement of a view (or table), for look-ups by other columns."""
        of._alive()
        if name:
            self._core.access.may_own("relation", of._label)
            self._core.changing()
            self._core.runtime.backing.check_writable(f"index {name!r} cannot be made")
            self._core.transactions.catch_up()
        index = self._make_index(of, keys, name)
        if not of._label.startswith(TRANSIENT):
            entry = IndexMade(of._label, keys, name)
            try:
                self._catalog.note(entry)
            except BaseException:
                if not self._catalog.has_noted(entry):
                    of._more.remove(index)
                    self.collect()
                raise
        return index.arrangement

    def _make_index(self, of: Table | View, keys: tuple[int, ...], name: str = "") -> Index:
        choice = of._plan if isinstance(of, View) else None
        index = Index(keys, self.install(of._node, keys, choice=choice), name)
        of._more.append(index)
        return index

    @reads
    def drop_index(self, name: str) -> None:
        """Stop keeping an index that has a name."""
        self._core.access.may_own("relation", self._catalog.indexes()[name][0]._label)
        self._core.changing()
        self._core.runtime.backing.check_writable(f"index {name!r} cannot be dropped")
        self._core.transactions.catch_up()
        self._catalog.note(IndexDropped(name), then=lambda: self._forget_index(name))
        self.free_unused()

    def _forget_index(self, name: str) -> None:
        self._forget(*self._catalog.indexes()[name])

    @staticmethod
    def _forget(of: Table | View, index: Index) -> None:
        keep_snapshots(index.arrangement.trace)
        of._more.remove(index)

    def _same_view(self, view: View, collection: Collection, index_by: str | Sequence[str] | None) -> View:
        """A view that was found when the session was opened, if it is defined as it was."""
        names = [c.name for c in view._columns]
        wanted = list(_names("index_by", index_by))
        if (
            not isinstance(collection, Collection)
            or [c.name for c in collection._columns] != names
            or wanted != [names[i] for i in view._index]
            or not self._catalog.defines(view, collection)
        ):
            raise PlanError(
                "E_NAME",
                f"view {view._name!r} exists with another definition",
                f"use it as it is with db[{view._name!r}], drop it first, or choose another name",
            )
        self._catalog.redeclarable.discard(view._name)
        self._catalog.give(collection._node)
        return view

    # plans

    @reads
    def replan(self, join: nodes.Node, target: nodes.Node, why: str) -> None:
        """Have a join, wherever it is read, by another plan: the same rows, and nobody notices."""
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
        self._swap(join, target)
        try:
            self._catalog.note(change)
        except BaseException:
            if not self._catalog.has_noted(change):
                self._swap(join, before)
            raise
        core.plans.note(change)

    def _swap(self, join: nodes.Node, target: nodes.Node) -> None:
        core = self._core
        core.runtime.swap(join, target)
        self.free_unused()
        for view in self._catalog.views.values():
            view._fallible = error_operators(core.runtime.dataflow, view._arrangement.operator)

    # dropping

    @reads
    def drop_view(self, view: View) -> None:
        """Stop keeping a view."""
        core = self._core
        view._alive()
        core.transactions.catch_up()
        self._catalog.redeclarable.discard(view._name)
        if view._name.startswith(TRANSIENT):
            self.remove_view(view)
            self.collect()
        else:
            core.access.may_own("relation", view._name)
            core.transactions.refuse_supposed("views cannot be dropped")
            core.runtime.backing.check_writable(f"view {view._name!r} cannot be dropped")
            self._catalog.note(ViewDropped(view._name))
            self.remove_view(view)
            self.free_unused()

    # names for types, comments, defaults and sequences

    @reads
    def say(self, entry: Said) -> None:
        """Keep a name for a type, a comment, a default, a sequence, a role, or the rights to something."""
        if isinstance(entry, Commented):
            self._core.access.may_own("relation", entry.name)
        elif isinstance(entry, SequenceMade) and entry.owner:
            self._core.access.may_own("relation", entry.owner[0])
        elif isinstance(entry, (TypeMade, TypeDropped, SequenceMade, SequenceDropped)):
            self._core.access.may_manage("make or drop types and sequences")
        self._core.changing()
        self._core.runtime.backing.check_writable("this cannot be said")
        self._catalog.note(entry, then=lambda: self._said(entry))

    def _said(self, entry: Said) -> None:
        if isinstance(entry, AccessSet):
            self._core.access.said(entry)
        elif isinstance(entry, TypeMade):
            self._core.types[entry.name] = entry.type
        elif isinstance(entry, TypeDropped):
            self._core.types.pop(entry.name, None)
        elif isinstance(entry, SequenceMade):
            self._catalog.sequences[entry.name] = entry
        elif isinstance(entry, SequenceDropped):
            self._catalog.sequences.pop(entry.name, None)
        else:
            said = self._catalog.defaults if isinstance(entry, DefaultSet) else self._catalog.comments
            said[entry.name, entry.column] = entry.text
            if not entry.text:
                del said[entry.name, entry.column]

    def _forget_comments(self, name: str) -> None:
        for said in (self._catalog.comments, self._catalog.defaults):
            for about in [a for a in said if a[0] == name]:
                del said[about]

    # functions written in SQL

    @reads
    def add_function(self, made: FunctionMade) -> None:
        """Keep a function written in SQL, in the place of one of that name."""
        self._core.transactions.refuse_supposed("functions cannot be made")
        self._core.runtime.backing.check_writable(f"function {made.name!r} cannot be made")
        if made.name in self._catalog.sql_functions:
            self._core.access.may_own("function", made.name)
        self._core.access.may_create(made.name)
        if made.name in self._catalog.sql_functions:
            self._forget_function(made.name)
        self._catalog.note(made, then=lambda: self._catalog.sql_functions.update({made.name: made}))
        self._core.access.made("function", made.name)

    @reads
    def drop_function(self, name: str) -> None:
        """Stop keeping a function, and the views that call it."""
        self._core.transactions.refuse_supposed("functions cannot be dropped")
        self._core.runtime.backing.check_writable(f"function {name!r} cannot be dropped")
        self._core.access.may_own("function", name)
        for user in self.users_of(name):
            if user in self._catalog.views:
                self.drop_view(self._catalog.views[user])
            elif user in self._catalog.sql_functions:
                self.drop_function(user)
        if name in self._catalog.sql_functions:
            self._forget_function(name)

    def _forget_function(self, name: str) -> None:
        functions = self._catalog.sql_functions
        self._catalog.note(FunctionDropped(name), then=lambda: functions.__delitem__(name))
        self._core.access.forget("function", name)

    def users_of(self, function: str) -> list[str]:
        """Views that call a function written in SQL, and functions whose text has its name."""
        views = [name for name, view in self._catalog.views.items() if function in view._source._calls]
        word = re.compile(rf"\b{re.escape(function)}\s*\(", re.IGNORECASE)
        others = [f.name for f in self._catalog.sql_functions.values() if f.name != function and word.search(f.body)]
        return sorted([*views, *others])

    def remove_view(self, view: View) -> None:
        """A view goes; what only it needed is freed by `free_unused`."""
        for arrangement in (view._arrangement, *(index.arrangement for index in view._more)):
            keep_snapshots(arrangement.trace)
        self._forget_comments(view._name)
        self._core.access.forget("relation", view._name)
        view._dropped = True
        del self._catalog.views[view._name]
        self._core.subscriptions.forget(view)
        for table in self._catalog.tables.values():
            table._views.discard(view._name)

    @reads
    def drop_table(self, table: Table, cascade: bool) -> None:
        """Stop keeping a table."""
        core = self._core
        table._alive()
        core.transactions.refuse_supposed("tables cannot be dropped")
        core.transactions.catch_up()
        core.runtime.backing.check_writable(f"table {table._label!r} cannot be dropped")
        for name in (table._label, *(table._views if cascade else ())):
            if not name.startswith((TRANSIENT, RESERVED_PREFIX)):
                core.access.may_own("relation", name)
        users = self.users_of_table(table)
        if users and not cascade:
            raise PlanError(
                "E_IN_USE",
                f"table {table._label!r} is read by {', '.join(users)}",
                "drop those first, or use drop(cascade=True)",
            )
        self._catalog.note(TableDropped(table._label))
        self._catalog.redeclarable -= {table._label, *table._views}
        self._remove_table(table)

    def users_of_table(self, table: Table) -> list[str]:
        """What reads a table, but for its own constraints; those of other tables by their names."""
        found: list[str] = []
        for name in sorted(table._views):
            rule = self._catalog.views[name]._rule
            if rule is None:
                found.append(name)
            elif rule.table != table._label:
                found.append(f"{rule.table} (constraint {rule.name})")
        return found

    def _remove_table(self, table: Table) -> None:
        """A table goes, with the views that read it."""
        tables = self._catalog.tables
        for name in sorted(table._views):
            self.remove_view(self._catalog.views[name])
        for arrangement in (table._arrangement, *(index.arrangement for index in table._more)):
            keep_snapshots(arrangement.trace)
        table._dropped = True
        self._forget_comments(table._label)
        self._core.access.forget("relation", table._label)
        for name in [n for n, s in self._catalog.sequences.items() if s.owner[:1] == (table._label,)]:
            del self._catalog.sequences[name]
        self._core.constraints.noticed()
        del tables[table._label]
        self._core.subscriptions.forget(table)
        for hidden in [t for t in tables.values() if t._origin is table]:
            del tables[hidden._label]
        self._core.clock.forget(table)
        self._core.runtime.builder.forget_plans_of(plan_of(table))
        self.free_unused()

    @reads
    def collect(self) -> None:
        """Free what no table and no view needs; that followers of the clock went with it is noted."""
        if self.free_unused():
            self._catalog.note(Collected())

    def free_unused(self) -> bool:
        """Free what no table and no view needs; whether followers of the clock were among it."""
        core, clock = self._core, self._core.clock
        unused = clock.unused()
        for table in unused:
            clock.forget(table)
            del self._catalog.tables[table._label]
        roots: list[Operator] = [t._arrangement.operator for t in self._catalog.tables.values()]
        roots.extend(i.arrangement.operator for t in self._catalog.tables.values() for i in t._more)
        for view in self._catalog.views.values():
            roots.append(view._arrangement.operator)
            roots.extend(index.arrangement.operator for index in view._more)
        roots.extend(a.operator for a in clock.indexes())
        core.runtime.keep_only(roots)
        return bool(unused)

    def settle(self) -> None:
        """After a turn that was cut off: free what was being made or dropped, whatever no name leads to. What is not
        noted was not made, and what is noted as dropped is dropped.
        """
        core, catalog = self._core, self._catalog
        for view in catalog.unnoted_views():
            del catalog.views[view._name]
            view._dropped = True
        for table in catalog.unnoted_tables():
            del catalog.tables[table._label]
            table._dropped = True
            core.clock.forget(table)
        for of, index in catalog.unnoted_indexes():
            self._forget(of, index)
        self.altering.settle()
        catalog.defaults = {about: text for about, text in catalog.defaults.items() if about[0] in catalog.tables}
        lost = [n for n, s in catalog.sequences.items() if s.owner and s.owner[0] not in catalog.tables]
        for name in lost:
            del catalog.sequences[name]
        core.constraints.noticed()
        core.subscriptions.settle()
        for table in catalog.tables.values():
            table._views &= catalog.views.keys()
        core.runtime.builder.forget_freed()
        self.free_unused()

    @contextmanager
    def _noting(self, made: Table | View, entry: Entry) -> Iterator[list[Entry]]:
        """Note at the end that something was made, with other entries that belong to it; what cannot be noted is taken
        back.
        """
        entries = [entry]
        try:
            yield entries
            self._catalog.note(*entries)
        except BaseException as error:
            if self._catalog.has_noted(entry):
                raise
            if isinstance(made, View):
                self.remove_view(made)
                self.free_unused()
            else:
                self._remove_table(made)
            if isinstance(error, EverviewError) and isinstance(made, View):
                error.message = f"view {made._name!r}: {error.message}"
            raise

    # doing it again

    @reads
    def perform(self, entry: Entry, data: bytes = b"") -> None:
        """Do what an entry says that was read (from `data`)."""
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
        catalog.next_id = max(catalog.next_id, following)  # an altered table has a higher id than those after it

    def _do_one(self, entry: Entry) -> None:
        core, catalog = self._core, self._catalog
        if isinstance(entry, TableMade):
            catalog.next_id = entry.id
            if entry.name.startswith(RESERVED_PREFIX):
                self._make_system_table(entry.name, [Column(name, declared) for name, declared in entry.columns])
            else:
                key = [entry.columns[i][0] for i in entry.key]
                self._new_table(entry.name, dict(entry.columns), key, entry.label or entry.name)
        elif isinstance(entry, FollowerMade):
            catalog.next_id = entry.id if entry.id >= 0 else catalog.next_id
            with core.clock.showing(entry.now):
                core.clock.add(follower_of(core, entry))
        elif isinstance(entry, Collected):
            self.free_unused()
        elif isinstance(entry, ViewMade):
            self._perform_view(entry)
        elif isinstance(entry, PlanChanged):
            self._swap(entry.join, entry.target)
            core.plans.note(entry)
        elif isinstance(entry, IndexMade):
            of = catalog.views.get(entry.view) or catalog.tables[entry.view]
            self._make_index(of, entry.keys, entry.name)
        elif isinstance(entry, IndexDropped):
            self._forget_index(entry.name)
            self.free_unused()
        elif isinstance(entry, (TypeMade, TypeDropped, Commented, SequenceMade, SequenceDropped, AccessSet)):
            self._said(entry)
        elif isinstance(entry, (TableAltered, Renamed, ColumnsRenamed)):
            self.altering.do(entry)
        elif isinstance(entry, FunctionMade):
            catalog.sql_functions[entry.name] = entry
        elif isinstance(entry, FunctionDropped):
            del catalog.sql_functions[entry.name]
            core.access.forget("function", entry.name)
        elif isinstance(entry, ViewDropped):
            self.remove_view(catalog.views[entry.name])
            self._core.constraints.noticed()
            self.free_unused()
        else:
            self._remove_table(catalog.tables[entry.name])

    def _perform_view(self, entry: ViewMade) -> None:
        source = self.collection_of(entry.node, entry.columns)
        source._plan_why = entry.why
        source._calls = entry.calls
        rule = entry.rule if isinstance(entry, ConstraintMade) else None
        index = [entry.columns[i] for i in entry.index]
        view = self._new_view(entry.name, source, index, entry.history, entry.plan, rule)
        view._installed_at = entry.time
        self._core.constraints.noticed()

    def collection_of(self, node: nodes.Node, names: Iterable[str]) -> Collection:
        """A collection for a plan; the tables and views in it lend their names to `explain`."""
        below = set(node.walk())
        parents: list[Collection] = [*self._catalog.tables.values(), *self._catalog.views.values()]
        columns = [Column(name, declared) for name, declared in zip(names, node.types, strict=True)]
        return Collection(node, columns, self._core, parents=[p for p in parents if p._node in below])


def check_count(what: str, number: Any, least: int) -> None:
    """Refuse an option that is not a whole number, or too small.

    >>> check_count("history", -1, 0)
    Traceback (most recent call last):
        ...
    everview.errors.InputError: [E_RANGE] history=-1
      hint: give a whole number, 0 or more
    """
    if not isinstance(number, int) or isinstance(number, bool) or number < least:
        raise InputError("E_RANGE", f"{what}={number!r}", f"give a whole number, {least} or more")


def _names(what: str, given: Any) -> tuple[str, ...]:
    """One name or several, as a tuple."""
    names = (given,) if isinstance(given, str) else () if given is None else given
    if not isinstance(names, Sequence) or isinstance(names, bytes) or not all(isinstance(n, str) for n in names):
        raise InputError("E_TYPE", f"{what}: {given!r} names no columns", 'give "name" or ["name", ...]')
    return tuple(names)


def _places(what: str, given: str | Sequence[str] | None, names: list[str]) -> tuple[int, ...]:
    """Where the given columns are, each once."""
    columns = _names(what, given)
    for column in columns:
        if column not in names:
            raise InputError("E_COLUMN", f"{what}: there is no column {column!r}", did_you_mean(column, names))
        if columns.count(column) > 1:
            raise InputError("E_DUPLICATE", f"{what}: {column!r} is there twice", "name it once")
    return tuple(names.index(c) for c in columns)
