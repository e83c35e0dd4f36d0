"""Creating and dropping tables: users' own, the hidden ones of views, and system tables.

A table is an index of its rows. A table found on opening a directory may be declared again by the program, which gets
it if the declaration matches. Dropping a table also drops the views that read it.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from everview.codes.limits import in_plans
from everview.codes.type_declarations import data_type
from everview.errors import InputError, PlanError
from everview.expr.resolve import Column
from everview.language.relation import relation_of
from everview.plan import nodes
from everview.session.changes.turns import reads
from everview.session.clock.follower import RESERVED_PREFIX
from everview.session.clock.follower_entries import described
from everview.session.clock.lifetimes import ArrivalTTL
from everview.session.names.alter import plan_of
from everview.session.names.arguments import names_of, places_of
from everview.session.names.entries import TableDropped, TableMade
from everview.session.names.overview import TRANSIENT
from everview.session.reads.snapshot import keep_snapshots
from everview.session.relations import declared_columns
from everview.session.table import Table

if TYPE_CHECKING:
    from everview.session.core import Core
    from everview.session.names.definitions import Definitions


class Tables:
    """Creates and drops the tables of a session."""

    def __init__(self, core: Core, definitions: Definitions) -> None:
        self._core = core
        self._catalog = core.catalog
        self._definitions = definitions

    @reads
    def make(
        self, name: str, schema: Mapping[str, Any], key: str | Sequence[str] | None, ttl: dt.timedelta | None
    ) -> Table:
        """Implements `Session.table`."""
        core, catalog = self._core, self._catalog
        core.changing()
        core.transactions.refuse_supposed("tables cannot be made")
        if ttl is not None and not isinstance(ttl, dt.timedelta):
            raise InputError("E_TYPE", f"ttl={ttl!r}", 'give how long rows live: "10 minutes", or a timedelta')
        if not isinstance(schema, Mapping):
            raise InputError("E_SCHEMA", f"table {name!r}: {schema!r} does not say columns", 'give {"column": type}')
        size = None if ttl is None else ttl // dt.timedelta(microseconds=1)
        if core.access.redeclares(name) and name in catalog.tables:
            return self._same(catalog.tables[name], schema, key, size)
        core.runtime.backing.check_writable(f"table {name!r} cannot be made")
        core.access.may_create(name)
        table = self.declare(name, schema, key)
        label = "" if relation_of(table).stored_as == name else relation_of(table).stored_as
        columns = declared_columns(relation_of(table))
        with self._definitions.noting(
            table, TableMade(name, columns, relation_of(table).key, relation_of(table).id, label)
        ) as entries:
            if size is not None:
                follower = ArrivalTTL(core, table, size, owner=True)
                entries.append(described(follower, core.clock.read()))
                core.clock.add(follower)
        core.access.made("relation", name)
        return table

    def declare(self, name: str, schema: Mapping[str, Any], key: str | Sequence[str] | None, label: str = "") -> Table:
        self._catalog.check_new(name)
        if not schema:
            raise InputError("E_SCHEMA", f"table {name!r} has no columns", 'give a schema: {"column": type}')
        for column in schema:
            if not isinstance(column, str) or not column:
                raise InputError(
                    "E_NAME", f"table {name!r}: {column!r} is not a column name", "give a non-empty string"
                )
        columns = [Column(n, data_type(t)) for n, t in schema.items()]
        at = places_of(f"the key of table {name!r}", key, list(schema))
        if not label and any(relation_of(t).stored_as == name for t in self._catalog.tables.values()):
            label = f"{RESERVED_PREFIX}{self._catalog.next_id} {name}"  # a renamed table is stored under that name
        return self._build(name, columns, at, nodes.keys_first(at, len(columns)), label=label)

    def _build(
        self,
        name: str,
        columns: Sequence[Column],
        key: tuple[int, ...],
        order: tuple[int, ...],
        rows: Sequence[tuple[int, ...]] = (),
        label: str = "",
    ) -> Table:
        """Create a table with initial `rows` (codes). `label` is the name of its operator if it differs."""
        core, catalog = self._core, self._catalog
        node = nodes.Table(catalog.next_id, tuple(in_plans(c.type) for c in columns), key)
        catalog.next_id += 1
        table = Table(core, name, columns, node, key)
        relation_of(table).stored_as = label or name
        relation_of(table).arrangement = core.runtime.add_table(
            node, order, relation_of(table).stored_as, core.history, rows
        )
        catalog.tables[name] = table
        return table

    def copy(self, name: str, table: Table) -> Table:
        """An empty copy of another session's table, readable by the same plans."""
        self._catalog.next_id = relation_of(table).id
        return self._build(
            name,
            [Column(n, t) for n, t in declared_columns(relation_of(table))],
            relation_of(table).key,
            relation_of(table).arrangement.order,
        )

    @reads
    def hidden(
        self, name: str, columns: Sequence[Column], order: Iterable[int], rows: np.ndarray, origin: Table | None
    ) -> Table:
        """A table that belongs to views, with rows present from the current time on."""
        core = self._core
        core.transactions.catch_up()
        full = f"{RESERVED_PREFIX}{name}"
        while full in self._catalog.tables:
            full += "'"
        present = [tuple(row) for row in rows.T.tolist()]
        table = self._build(full, columns, (), tuple(order), present)
        relation_of(table).origin = origin
        return table

    @reads
    def system(self, name: str, columns: Sequence[Column]) -> Table:
        """A system table indexed by all its columns; an existing one is returned."""
        self._core.alive()
        self._core.transactions.catch_up()
        found = self._catalog.tables.get(name)
        if found is None:
            self._core.transactions.refuse_supposed("tables cannot be made")
            found = self.make_system_table(name, columns)
            with self._definitions.noting(
                found,
                TableMade(
                    name, tuple((c.name, c.type) for c in columns), relation_of(found).key, relation_of(found).id
                ),
            ):
                pass
        return found

    def make_system_table(self, name: str, columns: Sequence[Column]) -> Table:
        order = tuple(range(len(columns)))
        return self._build(name, columns, order, order)

    def _same(self, table: Table, schema: Mapping[str, Any], key: str | Sequence[str] | None, ttl: int | None) -> Table:
        """A table found on opening, if its declaration matches."""
        relation = relation_of(table)
        have = declared_columns(relation)
        followers = self._core.clock.followers
        lives = [f.size for f in followers if isinstance(f, ArrivalTTL) and f.owner and f.table is table]
        keys = list(names_of(f"the key of table {relation.label!r}", key))
        if (
            tuple((n, data_type(t)) for n, t in schema.items())
            not in (
                have,
                tuple((c.name, c.type) for c in relation.columns),
            )
            or keys != [have[i][0] for i in relation.key]
            or lives != ([] if ttl is None else [ttl])
        ):
            shown = ", ".join(f"{n} {t!r}" for n, t in have)
            keyed = f", key {', '.join(have[i][0] for i in relation.key)}" if relation.key else ""
            keyed += "".join(f", ttl {life / 1e6:g} s" for life in lives)
            raise InputError(
                "E_SCHEMA",
                f"table {relation.label!r} exists with other columns, another key or ttl: ({shown}{keyed})",
                f"use it as it is with db[{relation.label!r}], drop it first, or choose another name",
            )
        self._catalog.redeclarable.discard(relation.label)
        return table

    @reads
    def drop(self, table: Table, cascade: bool) -> None:
        """Drop a table."""
        relation = relation_of(table)
        core = self._core
        table._alive()
        core.transactions.refuse_supposed("tables cannot be dropped")
        core.transactions.catch_up()
        core.runtime.backing.check_writable(f"table {relation.label!r} cannot be dropped")
        core.access.may_own("relation", relation.label)
        gone = [n for n in relation.views if not n.startswith((TRANSIENT, RESERVED_PREFIX))] if cascade else []
        core.access.may_take_along(gone)
        for name in (relation.label, *gone):
            core.access.refuse_read(name, itself=False)
        users = self.users_of(table)
        if users and not cascade:
            raise PlanError(
                "E_IN_USE",
                f"table {relation.label!r} is read by {core.access.named(users)}",
                "drop those first, or use drop(cascade=True)",
            )
        self._catalog.note(TableDropped(relation.label))
        self._catalog.redeclarable -= {relation.label, *relation.views}
        self.remove(table)

    def users_of(self, table: Table) -> list[str]:
        """The readers of a table, except its own constraints; constraints of other tables by name."""
        found: list[str] = []
        for name in sorted(relation_of(table).views):
            rule = relation_of(self._catalog.views[name]).rule
            if rule is None:
                found.append(name)
            elif rule.table != relation_of(table).label:
                found.append(f"{rule.table} (constraint {rule.name})")
        return found

    def remove(self, table: Table) -> None:
        """Remove a table and the views that read it."""
        relation = relation_of(table)
        tables = self._catalog.tables
        for name in sorted(relation.views):
            self._definitions.views.remove(self._catalog.views[name])
        for arrangement in relation.arrangements:
            keep_snapshots(arrangement.trace)
        relation.dropped = True
        self._definitions.remarks.forget(relation.label)
        self._core.access.forget("relation", relation.label)
        for name in [n for n, s in self._catalog.sequences.items() if s.owner[:1] == (relation.label,)]:
            del self._catalog.sequences[name]
            self._core.access.forget("sequence", name)
        self._core.constraints.noticed()
        del tables[relation.label]
        self._core.subscriptions.forget(table)
        for hidden in [t for t in tables.values() if relation_of(t).origin is table]:
            del tables[relation_of(hidden).label]
        self._core.clock.forget(table)
        self._core.runtime.builder.forget_plans_of(plan_of(table))
        self._definitions.free_unused()
