"""The catalogue: everything that made a session's dataflow, in order, as entries that can be written and done again.

A dataflow is the result of its history: tables made, views installed and dropped, indexes added for lookups. Doing the
same again gives the same operators in the same order, so their state can be put back without computing anything, and
other processes can follow. `Catalogued` is a session that keeps such a history, the entries of `everview.journal`, in
whatever it has.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from everview.clock import HIDDEN, Aging, Clock, Expiring, Follower, Latest, Passing, Term
from everview.codes.declare import data_type
from everview.collection import Collection
from everview.dataflow.operators import Arrangement
from everview.errors import EverviewError, InputError, PlanError, StoreError
from everview.expr.nodes import Expr
from everview.expr.resolve import Column
from everview.journal import (
    Collected,
    Entry,
    FollowerMade,
    IndexMade,
    TableDropped,
    TableMade,
    ViewDropped,
    ViewMade,
    encode,
    surviving,
)
from everview.plan import nodes as plan
from everview.plan.digest import digest
from everview.plan.frozen import Functions, canonical, functions_of
from everview.plan.multiway import Choice
from everview.plan.trust import NOBODY, Trust
from everview.session import Session
from everview.table import Table
from everview.turns import reads
from everview.view import View

TRANSIENT = "("
"""How the names of views begin that only live for the length of a query."""


class NotedClock(Clock):
    """A clock whose followers are in the catalogue."""

    session: Catalogued

    def add(self, follower: Follower) -> None:
        entry = _described(follower, self.read())
        same = [f for f in self.followers if f.table is follower.table and type(f) is type(follower) and f.owner]
        if any(_described(f, entry.now) == entry for f in same):
            return  # a table that is declared again
        super().add(follower)
        try:
            self.session._note(entry)
        except BaseException:
            self.followers.remove(follower)
            if follower.own is not None:
                del self.session._tables[follower.own._label]
            with self.session._quietly():
                self.session._collect()
            raise

    def remake(self, entry: FollowerMade) -> None:
        """Make a follower as it was made once, when the clock showed what it showed then."""
        before = self.manual, self.now
        self.manual, self.now = True, entry.now
        try:
            super().add(_follower(self.session, entry))
        finally:
            self.manual, self.now = before[0], max(before[1], self.now)

    def resume(self, now: int) -> None:
        """Go on at a moment at which everything that was due had been done: what is there says what is due later."""
        self.now = max(self.now, now)
        for follower in self.followers:
            follower.seen = max(follower.seen, now)
            follower.resume(follower.seen)


def _described(follower: Follower, now: int) -> FollowerMade:
    table = follower.table
    exprs: tuple[Expr, ...] = ()
    sides: tuple[Any, ...] = ()
    partition: tuple[int, ...] = ()
    size, kind = 0, type(follower).__name__
    if isinstance(follower, Expiring):
        exprs = (follower.until,)
    elif isinstance(follower, Passing):
        exprs, sides = tuple(t.expr for t in follower.tests), tuple(t.side for t in follower.tests)
    elif isinstance(follower, Latest):
        size, partition = follower.size, follower.partition
    elif isinstance(follower, Aging):
        size = follower.size
        kind += " table" if follower.owner else ""
    own = -1 if follower.own is None else follower.own._id
    return FollowerMade(kind, table._label, plan.Project(table._node, exprs), sides, size, partition, own, now)


def _follower(session: Session, entry: FollowerMade) -> Follower:
    table = session._tables[entry.table]
    assert isinstance(entry.node, plan.Project)
    if entry.kind == "Expiring":
        return Expiring(session, table, entry.node.exprs[0])
    if entry.kind == "Passing":
        terms = (Term(expr, side) for expr, side in zip(entry.node.exprs, entry.sides, strict=True))
        return Passing(session, table, tuple(terms))
    if entry.kind == "Latest":
        return Latest(session, table, entry.size, entry.partition)
    return Aging(session, table, entry.size, owner=entry.owner)


class Catalogued(Session):
    """A session that notes what makes its dataflow: `_keep` is called with each entry, when it has been done.

    What a session finds when it is opened may be declared again, by a program that is run again: `db.table` and
    `db.view` then give what is there, if it is the same.
    """

    def __init__(self, *, trust: Trust = NOBODY, **options: Any) -> None:
        self._trust = trust
        self._plan_functions = Functions(trust=trust)
        self._entries: list[tuple[Entry, bytes]] = []
        """all there were, each with its record"""
        self._quiet = False
        super().__init__(**options)
        self._clock: NotedClock = NotedClock(self)

    def _keep(self, entry: bytes) -> None:
        """Make an entry durable, or raise."""
        raise NotImplementedError

    def _note(self, entry: Entry) -> None:
        if self._quiet:
            return
        known = len(self._plan_functions)
        try:
            data = encode(entry, self._plan_functions)
            self._keep(data)
        except BaseException:
            self._plan_functions.go_back(known)
            raise
        self._entries.append((entry, data))

    @contextmanager
    def _quietly(self) -> Iterator[None]:
        """What is done inside is part of something else that is noted, or was noted long ago."""
        before, self._quiet = self._quiet, True
        try:
            yield
        finally:
            self._quiet = before

    # doing it again

    def _perform(self, entry: Entry, data: bytes = b"") -> None:
        """Do what an entry says that was read (from `data`)."""
        try:
            self._do(entry)
        except (LookupError, StopIteration, AssertionError, TypeError, ValueError) as error:
            raise StoreError(
                "E_DAMAGED",
                f"{self._trust.where}: its catalogue contradicts itself at {type(entry).__name__}: {error!r}",
                "restore the directory from a copy",
            ) from error
        self._entries.append((entry, data))

    def _do(self, entry: Entry) -> None:
        with self._quietly():
            if isinstance(entry, TableMade) and entry.name.startswith(HIDDEN):
                self._node_ids = entry.id
                self._own_table(entry.name, [Column(name, declared) for name, declared in entry.columns])
            elif isinstance(entry, TableMade):
                self._node_ids = entry.id
                self.table(entry.name, dict(entry.columns), [entry.columns[i][0] for i in entry.key])
            elif isinstance(entry, FollowerMade):
                self._node_ids = entry.id if entry.id >= 0 else self._node_ids
                self._clock.remake(entry)
            elif isinstance(entry, Collected):
                self._collect()
            elif isinstance(entry, ViewMade):
                index = [entry.columns[i] for i in entry.index]
                source = self._collection_of(entry.node, entry.columns)
                source._plan_why = entry.why
                view = self.view(entry.name, source, index_by=index, history=entry.history, plan=entry.plan)
                view._installed_at = entry.time
            elif isinstance(entry, IndexMade):
                self._index(self._views[entry.view], entry.keys)
            elif isinstance(entry, ViewDropped):
                self._views[entry.name].drop()
            else:
                self._tables[entry.name].drop(cascade=True)

    def _collection_of(self, node: plan.Node, names: Iterable[str]) -> Collection:
        """A collection for a plan; the tables and views in it lend their names to `explain`."""
        below = set(node.walk())
        parents: list[Collection] = [*self._tables.values(), *self._views.values()]
        columns = [Column(name, declared) for name, declared in zip(names, node.types, strict=True)]
        return Collection(node, columns, self, parents=[p for p in parents if p._node in below])

    # tables

    @reads
    def table(
        self,
        name: str,
        schema: Mapping[str, Any],
        key: str | Sequence[str] | None = None,
        *,
        ttl: dt.timedelta | None = None,
    ) -> Table:
        size = None if ttl is None else ttl // dt.timedelta(microseconds=1)
        if not self._quiet and name in self._again and name in self._tables:
            return self._same_table(self._tables[name], schema, key, size)
        table = super().table(name, schema, key)
        columns = tuple((c.name, c.type) for c in table._columns)
        with self._or_drop(table):
            self._note(TableMade(name, columns, table._key, table._id))
            if size is not None:
                self._clock.add(Aging(self, table, size, owner=True))
        return table

    def _same_table(
        self, table: Table, schema: Mapping[str, Any], key: str | Sequence[str] | None, ttl: int | None
    ) -> Table:
        """A table that was found when the session was opened, if it is declared as it was."""
        self._alive()
        have = [(c.name, c.type) for c in table._columns]
        lives = [f.size for f in self._clock.followers if isinstance(f, Aging) and f.owner and f.table is table]
        keys = [key] if isinstance(key, str) else list(key or ())
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
        self._again.discard(table._label)
        return table

    @reads
    def _own_table(self, name: str, columns: Sequence[Column]) -> Table:
        known = name in self._tables
        table = super()._own_table(name, columns)
        if not known:
            with self._or_drop(table):
                self._note(TableMade(name, tuple((c.name, c.type) for c in columns), table._key, table._id))
        return table

    @reads
    def _drop_table(self, table: Table, cascade: bool) -> None:
        self._catch_up()
        if cascade or not table._views:
            self._note(TableDropped(table._label))
        views = set(table._views)
        with self._quietly():
            super()._drop_table(table, cascade)
        self._again -= {table._label, *views}

    # views

    def _install(
        self, node: plan.Node, keys: tuple[int, ...], history: int = 0, choice: Choice | None = None
    ) -> Arrangement:
        """Functions with the same code are one: they are when the catalogue is read, and must build the same then."""
        return super()._install(canonical(node, self._plan_functions), keys, history, choice)

    @reads
    def view(
        self,
        name: str,
        collection: Collection,
        *,
        index_by: str | Sequence[str] | None = None,
        history: int | None = None,
        plan: Choice | None = None,
    ) -> View:
        if not self._quiet and name in self._again and name in self._views:
            return self._same_view(self._views[name], collection, index_by)
        view = super().view(name, collection, index_by=index_by, history=history, plan=plan)
        if not name.startswith(TRANSIENT):
            names = tuple(c.name for c in view._columns)
            with self._or_drop(view):
                time, meaning = view._installed_at, digest(collection._meaning or collection._node)
                why = collection._plan_why
                self._note(ViewMade(name, view._node, names, view._index, history, time, plan, meaning, why))
        return view

    def _same_view(self, view: View, collection: Collection, index_by: str | Sequence[str] | None) -> View:
        """A view that was found when the session was opened, if it is defined as it was."""
        self._alive()
        names = [c.name for c in view._columns]
        wanted = [index_by] if isinstance(index_by, str) else list(index_by or ())
        if (
            not isinstance(collection, Collection)
            or [c.name for c in collection._columns] != names
            or wanted != [names[i] for i in view._index]
            or not self._means(view, collection)
        ):
            raise PlanError(
                "E_NAME",
                f"view {view._name!r} exists with another definition",
                f"use it as it is with db[{view._name!r}], drop it first, or choose another name",
            )
        self._again.discard(view._name)
        for each in collection._node.walk():
            for function in functions_of(each):
                self._plan_functions.give(function)
        return view

    def _require_functions(self) -> None:
        self._plan_functions.require(self._trust.where)

    def function(self, name: str, function: Any, returns: Any = None) -> None:
        super().function(name, function, returns)
        self._plan_functions.give(self._functions[name.lower()].function)

    def _means(self, view: View, collection: Collection) -> bool:
        """Whether a collection is what a view was defined as."""
        made = [e for e, _ in self._entries if isinstance(e, ViewMade) and e.name == view._name]
        meaning = digest(collection._meaning or collection._node)
        if len(made[-1].meaning) == len(meaning):
            return made[-1].meaning == meaning
        return digest(view._node) in (meaning, digest(collection._node))  # digests were longer once

    @reads
    def _index(self, view: View, keys: tuple[int, ...]) -> Arrangement:
        arrangement = super()._index(view, keys)
        if not view._name.startswith(TRANSIENT):
            try:
                self._note(IndexMade(view._name, keys))
            except BaseException:
                view._more.remove(arrangement)
                self._collect()
                raise
        return arrangement

    @reads
    def _drop_view(self, view: View) -> None:
        self._catch_up()
        self._again.discard(view._name)
        if view._name.startswith(TRANSIENT):
            super()._drop_view(view)
        else:
            self._note(ViewDropped(view._name))
            with self._quietly():
                super()._drop_view(view)

    def _collect(self) -> None:
        followers = len(self._clock.followers)
        super()._collect()
        if len(self._clock.followers) < followers:  # else it follows from what is noted
            self._note(Collected())

    def _settle(self) -> None:
        """What is not noted was not made, and what is noted as dropped is dropped."""
        self._quiet = False
        noted = [entry for entry, _ in surviving(self._entries)]
        views = {entry.name for entry in noted if isinstance(entry, ViewMade)}
        tables = {entry.name for entry in noted if isinstance(entry, TableMade)}
        for name in [n for n in self._views if n not in views and not n.startswith(TRANSIENT)]:
            self._views.pop(name)._dropped = True
        for name in [n for n in self._tables if n not in tables and not n.startswith(HIDDEN)]:
            table = self._tables.pop(name)
            table._dropped = True
            self._clock.forget(table)
        super()._settle()

    @contextmanager
    def _or_drop(self, made: Table | View) -> Iterator[None]:
        """What cannot be noted is taken back."""
        try:
            yield
        except BaseException as error:
            with self._quietly():
                if isinstance(made, View):
                    made.drop()
                else:
                    self._drop_table(made, False)
            if isinstance(error, EverviewError) and isinstance(made, View):
                error.message = f"view {made._name!r}: {error.message}"
            raise
