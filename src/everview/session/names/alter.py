"""ALTER: changing the columns or key of a table; renaming tables, views and columns.

Plans refer to tables by number and to columns by position, so names exist only in the catalog. Views that read a
renamed object are unaffected.

A table with other columns is a new table with a new number. Its rows are computed from the old ones by a projection,
and the views that read it are installed again over a projection that restores the old column positions
(`everview.session.names.entry_compaction.standing_for`). All of this is built first, beside the existing objects. Then
*one* entry that describes it is noted, and then tables and views are switched to the new operators, which cannot fail.
The catalog and its directory therefore always hold the table either as it was or as altered. Replaying the entry (after
a crash, or in a follower) builds the same.

Hazards: rebuilt objects have no earlier history, so earlier times cannot be read any more. Collections built in Python
from the old table read a table that no longer exists (E_DROPPED).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from everview.codes.arrays import decode_list
from everview.codes.codec import Codec
from everview.codes.limits import in_plans
from everview.codes.multiplicity import repeated
from everview.dataflow.operators import Arrangement
from everview.errors import InputError, PlanError
from everview.expr.evaluate import ERRORS, evaluate
from everview.expr.resolve import Column
from everview.language.relation import relation_of
from everview.plan import nodes
from everview.plan.prune import columns_read
from everview.plan.substitute import substituted
from everview.session.changes.current_rows import last_of_each
from everview.session.changes.keys import key_twice
from everview.session.clock.follower import RESERVED_PREFIX
from everview.session.inspect import error_operators
from everview.session.names.constraint_rules import with_names
from everview.session.names.entries import ColumnsRenamed, Renamed, TableAltered
from everview.session.names.entry_compaction import places, standing_for
from everview.session.reads.snapshot import keep_snapshots, read_codes
from everview.session.reads.subscribable import Subscribable
from everview.session.relations import Index, seen
from everview.types import NULL, DataType

if TYPE_CHECKING:
    from everview.session.core import Core
    from everview.session.table import Table
    from everview.session.view import View

Words = np.ndarray


class Altering:
    """Alters and renames the named objects of a session."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._catalog = core.catalog
        self._finish: tuple[TableAltered, Callable[[], None]] | None = None
        """the rest of an operation whose entry may have been noted"""

    # public operations

    def rename(self, old: str, new: str) -> None:
        """Rename a table or view."""
        self._begin(f"{old!r} cannot be renamed")
        self._core.access.may_own("relation", old)
        self._core.access.refuse_read(old)
        self._core.access.may_create(new)
        self._catalog.check_new(new)
        self._refuse_pipelines(old)
        entry = Renamed(old, new)
        self._catalog.note(entry, then=lambda: self._rename(entry))
        self._core.access.rename_sights(old, new)

    def rename_columns(self, name: str, columns: tuple[str, ...]) -> None:
        """Rename the columns of a table or view."""
        self._begin(f"columns of {name!r} cannot be renamed")
        self._core.access.may_own("relation", name)
        self._core.access.refuse_policies(name)
        self._core.access.refuse_read(name)
        self._refuse_pipelines(name)
        if name in self._catalog.tables:
            self._refuse_followers(self._catalog.tables[name])
        entry = ColumnsRenamed(name, columns)
        self._catalog.note(entry, then=lambda: self._rename_columns(entry))

    def alter(
        self,
        table: Table,
        node: nodes.Project,
        columns: list[Column],
        key: tuple[int, ...],
        gone: Sequence[str] = (),
    ) -> None:
        """Replace the columns of a table, computed by `node` from the old ones, or its key; the views `gone` are
        dropped in the same entry.
        """
        relation = relation_of(table)
        core, catalog = self._core, self._catalog
        self._begin(f"table {relation.label!r} cannot be altered")
        core.access.may_own("relation", relation.label)
        core.access.may_take_along(gone)
        core.access.refuse_grants(relation.label, [c.name for c in columns])
        before, after = {c.name for c in relation.columns}, {c.name for c in columns}
        if not before <= after:
            core.access.refuse_read(relation.label)
        core.access.refuse_new(relation.label, sorted(after - before))
        self._refuse_pipelines(relation.label)
        self._refuse_followers(table, gone)
        if gone and core.clock.agenda.of(table):  # a table cannot be altered while its views have clock followers
            for name in gone:
                catalog.views[name].drop()
            gone = ()
        number = catalog.next_id
        entry = TableAltered(
            relation.label,
            node,
            tuple((c.name, c.type) for c in columns),
            key,
            number,
            f"{RESERVED_PREFIX}{number} {relation.label}",
            tuple(gone),
        )
        self._check_views(table, entry)
        rows = self._rows(table, entry, check=True)
        try:
            finish = self._built(table, entry, rows)
        except BaseException:
            core.definitions.free_unused()
            raise
        self._finish = entry, finish
        try:
            catalog.note(entry)
        except BaseException:
            if not catalog.has_noted(entry):  # otherwise settling the session does it
                self._finish = None
                core.definitions.free_unused()
            raise
        finish()
        self._finish = None
        core.definitions.free_unused()

    def without_history(self, table: Table) -> list[str]:
        """What loses its earlier times when a table is altered: the table and the views that read it."""
        core = self._core
        found: list[tuple[Table | View, int | None]] = [(table, None)]
        views = sorted(self._catalog.views.items())
        found += [
            (v, relation_of(v).history)
            for n, v in views
            if n in relation_of(table).views and relation_of(v).rule is None
        ]
        return [
            relation_of(each).label
            for each, history in found
            if relation_of(each).installed_at < core.time and (core.history if history is None else history)
        ]

    def readers(self, table: Table, column: int) -> list[str]:
        """The views that read a column of a table."""
        views = [self._catalog.views[name] for name in sorted(relation_of(table).views)]
        return [relation_of(v).label for v in views if column in columns_read(relation_of(v).node, plan_of(table))]

    # replay

    def do(self, entry: TableAltered | Renamed | ColumnsRenamed) -> None:
        """Perform an entry."""
        if isinstance(entry, Renamed):
            self._rename(entry)
        elif isinstance(entry, ColumnsRenamed):
            self._rename_columns(entry)
        else:
            table = self._catalog.tables[entry.name]
            self._built(table, entry, self._rows(table, entry))()
            self._core.definitions.free_unused()

    def settle(self) -> None:
        """After an interrupted turn: complete what was noted."""
        if self._finish is not None:
            entry, finish = self._finish
            if self._catalog.entry_log is None or any(e is entry for e, _ in self._catalog.entries):
                finish()
            self._finish = None

    # checks

    def _begin(self, what: str) -> None:
        self._core.changing()
        self._core.transactions.refuse_supposed("tables and views are not altered")
        self._core.runtime.backing.check_writable(what)
        self._core.transactions.catch_up()

    def _refuse_pipelines(self, name: str) -> None:
        """Refuse if sources or sinks are attached: they identify tables, views and their progress by name and
        columns."""
        feeds = getattr(self._core.attached.get("pipeline"), "feeds", {})
        marks = (f"source/{name}/", f"sink/{name}/")
        if name in feeds or any(offset.startswith(marks) for offset in self._core.runtime.offsets):
            raise InputError(
                "E_IN_USE",
                f"a source or sink belongs to {name!r}, and knows it by its name and columns",
                "make a view of it that has the names and columns you want",
            )

    def _refuse_followers(self, table: Table, gone: Sequence[str] = ()) -> None:
        """Refuse if there are clock followers, whose own tables have the same columns; unless they are dropped."""
        looked_at = any(getattr(f, "other", None) is table for f in self._core.clock.followers)
        if looked_at or any(
            f.owner or not relation_of(f.mirror).views <= {*gone} for f in self._core.clock.agenda.of(table)
        ):
            raise InputError(
                "E_IN_USE",
                f"table {relation_of(table).label!r} has a time to live, or views that follow the clock",
                "drop those views first; a table with a time to live must be made anew",
            )

    def _check_views(self, table: Table, entry: TableAltered) -> None:
        self._refuse_followers(table)
        moved = places(entry)
        for i, column in enumerate(relation_of(table).columns):
            users = [n for n in self.readers(table, i) if n not in entry.gone] if i not in moved else []
            if users:
                what = f"column {column.name} of {relation_of(table).label} is read by {self._core.access.named(users)}"
                raise PlanError("E_IN_USE", what, "drop those first")

    # names

    def _rename(self, entry: Renamed) -> None:
        catalog = self._catalog
        for there in (catalog.tables, catalog.views):
            if entry.old in there:
                items = [(entry.new if name == entry.old else name, found) for name, found in there.items()]
                there.clear()
                there.update(items)  # type: ignore[arg-type]
                relation_of(there[entry.new]).label = entry.new
        if entry.new in catalog.views:
            relation_of(catalog.views[entry.new]).label = entry.new
        for table in catalog.tables.values():
            if entry.old in relation_of(table).views:
                relation_of(table).views = {entry.new if n == entry.old else n for n in relation_of(table).views}
        catalog.redeclarable.discard(entry.old)
        for said in (catalog.comments, catalog.defaults):
            for name, column in [about for about in said if about[0] == entry.old]:
                said[entry.new, column] = said.pop((name, column))
        for view in self._core.constraints.all():
            rule = relation_of(view).rule
            assert rule is not None
            relation_of(view).rule = rule.renamed(entry.old, entry.new)
        for name, made in list(catalog.sequences.items()):
            if made.owner[:1] == (entry.old,):
                catalog.sequences[name] = replace(made, owner=(entry.new, made.owner[1]))
        self._core.access.renamed(entry.old, entry.new)

    def _rename_columns(self, entry: ColumnsRenamed) -> None:
        catalog = self._catalog
        found: Table | View = catalog.tables.get(entry.name) or catalog.views[entry.name]
        before = [c.name for c in relation_of(found).columns]
        relation_of(found).columns = tuple(
            _named(c, n) for c, n in zip(relation_of(found).columns, entry.columns, strict=True)
        )
        relation_of(found).codec = Codec(relation_of(found).codec.types, entry.columns, self._core.interner)
        catalog.changed()
        named = dict(zip(before, entry.columns, strict=True))
        for there in (catalog.comments, catalog.defaults):
            said = {c: there.pop((entry.name, c)) for n, c in [*there] if n == entry.name and c}
            there.update({(entry.name, named[old]): text for old, text in said.items()})
        for about in [a for a in catalog.defaults if a[0] == entry.name]:
            catalog.defaults[about] = with_names(catalog.defaults[about], named)
        for view in self._core.constraints.all():
            rule = relation_of(view).rule
            assert rule is not None
            relation_of(view).rule = rule.with_columns(entry.name, named)
        for name, made in list(catalog.sequences.items()):
            if made.owner[:1] == (entry.name,):
                catalog.sequences[name] = replace(made, owner=(entry.name, named[made.owner[1]]))

    # columns

    def _rows(self, table: Table, entry: TableAltered, check: bool = False) -> Words:
        """The rows of the altered table."""
        runtime = self._core.runtime
        columns, counts = read_codes(runtime, relation_of(table).arrangement, (), runtime.dataflow.time)
        assert isinstance(entry.node, nodes.Project)
        found = evaluate(entry.node.exprs, None, columns, self._core.interner)
        if check and len(found.kept) < columns.shape[1]:
            failed = int(np.flatnonzero(found.errors)[0])
            row = relation_of(table).codec.decode_rows(np.ascontiguousarray(columns[:, failed : failed + 1]))[0]
            what = f"{ERRORS[int(found.errors[failed])]}, for the row {row!r}"
            raise InputError(
                "E_ROWS", f"table {relation_of(table).label!r}: {what}", "correct or delete such rows first"
            )
        rows = np.ascontiguousarray(repeated(found.codes, counts[found.kept]))
        if check:
            self._check_rows(table, entry, rows)
        return rows

    def _check_rows(self, table: Table, entry: TableAltered, rows: Words) -> None:
        for (name, declared), codes in zip(entry.columns, rows, strict=True):
            if not declared.nullable and (codes == NULL).any():
                raise InputError(
                    "E_NULL",
                    f"column {name} of {relation_of(table).label} would be NULL in some rows",
                    "give them values first",
                )
            if declared != in_plans(declared):  # the new column's own rule
                Codec((declared,), (name,), self._core.interner).encode([(v,) for v in self._values(codes, declared)])
        keys = rows[list(entry.key)] if entry.key else rows[:0]
        if entry.key and len(last_of_each(keys)) < rows.shape[1]:
            node = nodes.Table(entry.id, tuple(in_plans(t) for _, t in entry.columns), entry.key)
            shown = type(table)(
                self._core, relation_of(table).label, [Column(n, t) for n, t in entry.columns], node, entry.key
            )
            raise key_twice(shown, keys)

    def _values(self, codes: Words, declared: DataType) -> list[Any]:
        """The distinct values of a column."""
        return decode_list(np.unique(codes), in_plans(declared), self._core.interner)

    def _built(self, table: Table, entry: TableAltered, rows: Words) -> Callable[[], None]:
        """Build the altered table and the views over it; return a function that switches to them."""
        relation = relation_of(table)
        core, catalog, runtime = self._core, self._catalog, self._core.runtime
        columns = [Column(name, declared) for name, declared in entry.columns]
        node = nodes.Table(entry.id, tuple(in_plans(c.type) for c in columns), entry.key)
        catalog.next_id = max(catalog.next_id, entry.id + 1)
        order = nodes.keys_first(entry.key, len(columns))
        present = [tuple(row) for row in rows.T.tolist()]
        made = runtime.add_table(node, order, entry.label, core.history, present)
        plans, moved = standing_for(entry), places(entry)
        kept = [i for i in relation.extra_indexes if all(k in moved for k in i.keys)]
        more = [self._index(node, Index(tuple(moved[k] for k in i.keys), i.arrangement, i.name)) for i in kept]
        staying = [v for n, v in catalog.views.items() if n in relation.views and n not in entry.gone]
        views = [self._view(v, substituted(relation_of(v).node, plans)) for v in staying]

        def finish() -> None:
            for name in entry.gone:
                if name in catalog.views:
                    catalog.redeclarable.discard(name)
                    core.definitions.views.remove(catalog.views[name])
            keep_snapshots(relation.arrangement.trace)
            self._forget_columns(table, {columns[new].name: relation.columns[old].name for old, new in moved.items()})
            runtime.builder.forget_plans_of(plan_of(table))
            relation.node, relation.id, relation.key = node, entry.id, entry.key
            relation.columns = tuple(_own(table, seen(c), i) for i, c in enumerate(columns))
            relation.codec = Codec(tuple(c.type for c in columns), tuple(c.name for c in columns), core.interner)
            relation.stored_as, relation.extra_indexes = entry.label, more
            relation.installed_at = core.time
            self._point(table, made)
            catalog.redeclarable.discard(relation.label)
            for again in views:
                again()

        return finish

    def _index(self, node: nodes.Node, index: Index) -> Index:
        return Index(index.keys, self._core.definitions.install(node, index.keys), index.name)

    def _view(self, view: View, node: nodes.Node) -> Callable[[], None]:
        """Build a view over another plan; return a function that switches to it."""
        relation = relation_of(view)
        core = self._core
        asked = relation.history
        history = core.history if asked is None else asked
        arrangement = core.definitions.install(node, relation.index, history, relation.plan)
        more = [
            Index(i.keys, core.definitions.install(node, i.keys, choice=relation.plan), i.name)
            for i in relation.extra_indexes
        ]
        source = core.definitions.collection_of(node, [c.name for c in relation.columns])
        relation_of(source).take_after(relation_of(relation.source))

        def again() -> None:
            keep_snapshots(relation.arrangement.trace)
            relation.node, relation.source, relation.extra_indexes = node, source, more
            relation.fallible = error_operators(core.runtime.dataflow, arrangement.operator)
            relation.installed_at = core.time
            self._point(view, arrangement)

        return again

    def _point(self, what: Subscribable, arrangement: Arrangement) -> None:
        """Switch a table or view, and its subscriptions, to other operators."""
        relation_of(what).arrangement = arrangement
        self._catalog.rearranged += 1
        self._catalog.changed()
        if relation_of(what).subscribers:
            self._core.subscriptions.watch(what)

    def _forget_columns(self, table: Table, kept: dict[str, str]) -> None:
        """Drop the comments of dropped columns; move others to the new names."""
        for there in (self._catalog.comments, self._catalog.defaults):
            said = {
                c: there.pop((relation_of(table).label, c)) for n, c in [*there] if n == relation_of(table).label and c
            }
            there.update({(relation_of(table).label, new): said[old] for new, old in kept.items() if old in said})


def plan_of(table: Table) -> nodes.Table:
    """A table's plan node."""
    assert isinstance(relation_of(table).node, nodes.Table)
    return relation_of(table).node


def _named(column: Column, name: str) -> Column:
    return Column(name, column.type, column.origins)


def _own(table: Table, column: Column, place: int) -> Column:
    return Column(column.name, column.type, ((relation_of(table).number, place),))
