"""ALTER: a table gets other columns or another key; tables, views and their columns get other names.

Plans know tables by a number and columns by their places, so a name is only what the catalogue says, and views that
read what is renamed go on as they are.

A table with other columns is another table, with another number. Its rows are computed from the old one's by a
projection, and the views that read it are installed again over a projection that puts the columns where they were
(`everview.session.names.surviving.standing_for`). All of that is built first, beside what is there. Then *one* entry is
noted, which says all of it; then tables and views are pointed at what was built, which cannot fail. So whatever
happens, the catalogue and its directory hold the table as it was or as it is to be. Whoever does the entry again (after
a crash, in another process that follows) builds the same.

Hazards: what was built again has no history from before, so that earlier times cannot be read any more. Collections
that were made in Python from the table as it was read a table that is gone (E_DROPPED).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from everview.codes.codec import Codec
from everview.codes.repeating import repeated
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
from everview.session.names.entries import ColumnsRenamed, Renamed, TableAltered
from everview.session.names.rules import with_names
from everview.session.names.surviving import places, standing_for
from everview.session.reads.followed import Followed
from everview.session.reads.snapshot import keep_snapshots, read_codes
from everview.session.relations import Index
from everview.types import NULL, unlimited

if TYPE_CHECKING:
    from everview.session.core import Core
    from everview.session.table import Table
    from everview.session.view import View

Words = np.ndarray


class Altering:
    """Alters and renames what has a name in a session."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._catalog = core.catalog
        self._finish: tuple[TableAltered, Callable[[], None]] | None = None
        """what is left to do for an entry that may have been noted"""

    # people's calls

    def rename(self, old: str, new: str) -> None:
        """Give a table or view another name."""
        self._begin(f"{old!r} cannot be renamed")
        self._core.access.may_own("relation", old)
        self._core.access.may_create(new)
        self._catalog.check_new(new)
        self._refuse_pipelines(old)
        entry = Renamed(old, new)
        self._catalog.note(entry, then=lambda: self._rename(entry))

    def rename_columns(self, name: str, columns: tuple[str, ...]) -> None:
        """Give the columns of a table or view other names."""
        self._begin(f"columns of {name!r} cannot be renamed")
        self._core.access.may_own("relation", name)
        self._core.access.refuse_policies(name)
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
        """Give a table other columns, whose values `node` gives over what it is, or another key; the views `gone` go
        with that, in the same entry.
        """
        relation = relation_of(table)
        core, catalog = self._core, self._catalog
        self._begin(f"table {relation.label!r} cannot be altered")
        for one in (relation.label, *gone):
            core.access.may_own("relation", one)
        core.access.refuse_grants(relation.label, [c.name for c in columns])
        self._refuse_pipelines(relation.label)
        self._refuse_followers(table, gone)
        if gone and core.clock.agenda.of(table):  # a table cannot be altered while views of it follow the clock
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
            if not catalog.has_noted(entry):  # else it will be done when the session is settled
                self._finish = None
                core.definitions.free_unused()
            raise
        finish()
        self._finish = None
        core.definitions.free_unused()

    def without_history(self, table: Table) -> list[str]:
        """What will have no earlier times if a table becomes another: it, and the views that read it."""
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

    # doing it again

    def do(self, entry: TableAltered | Renamed | ColumnsRenamed) -> None:
        """Do what an entry says."""
        if isinstance(entry, Renamed):
            self._rename(entry)
        elif isinstance(entry, ColumnsRenamed):
            self._rename_columns(entry)
        else:
            table = self._catalog.tables[entry.name]
            self._built(table, entry, self._rows(table, entry))()
            self._core.definitions.free_unused()

    def settle(self) -> None:
        """After a turn that was cut off: what was noted is done."""
        if self._finish is not None:
            entry, finish = self._finish
            if self._catalog.entry_log is None or any(e is entry for e, _ in self._catalog.entries):
                finish()
            self._finish = None

    # what must not be

    def _begin(self, what: str) -> None:
        self._core.changing()
        self._core.runtime.backing.check_writable(what)
        self._core.transactions.catch_up()

    def _refuse_pipelines(self, name: str) -> None:
        """Sources and sinks know tables and views, and how far they are, by name and columns."""
        feeds = getattr(self._core.attached.get("pipeline"), "feeds", {})
        marks = (f"source/{name}/", f"sink/{name}/")
        if name in feeds or any(offset.startswith(marks) for offset in self._core.runtime.offsets):
            raise InputError(
                "E_IN_USE",
                f"a source or sink belongs to {name!r}, and knows it by its name and columns",
                "make a view of it that has the names and columns you want",
            )

    def _refuse_followers(self, table: Table, gone: Sequence[str] = ()) -> None:
        """What follows the clock keeps tables of its own, which have columns like the table's; unless it goes."""
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
                what = f"column {column.name} of {relation_of(table).label} is read by {', '.join(users)}"
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
        types = tuple(c.type for c in relation_of(found).columns)
        relation_of(found).codec = Codec(types, entry.columns, self._core.interner)
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
        """The rows that the altered table has."""
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
            if declared.kind == "str" and declared.width:  # the new column's own rule
                Codec((declared,), (name,), self._core.interner).encode([(text,) for text in self._texts(codes)])
        keys = rows[list(entry.key)] if entry.key else rows[:0]
        if entry.key and len(last_of_each(keys)) < rows.shape[1]:
            node = nodes.Table(entry.id, tuple(unlimited(t) for _, t in entry.columns), entry.key)
            shown = type(table)(
                self._core, relation_of(table).label, [Column(n, t) for n, t in entry.columns], node, entry.key
            )
            raise key_twice(shown, keys)

    def _texts(self, codes: Words) -> list[Any]:
        """The different texts of a column."""
        interner = self._core.interner
        return [interner.value(int(code)) for code in np.unique(codes)]

    def _built(self, table: Table, entry: TableAltered, rows: Words) -> Callable[[], None]:
        """Build the altered table and the views over it; gives what then makes them the ones that are meant."""
        relation = relation_of(table)
        core, catalog, runtime = self._core, self._catalog, self._core.runtime
        columns = [Column(name, declared) for name, declared in entry.columns]
        node = nodes.Table(entry.id, tuple(unlimited(c.type) for c in columns), entry.key)
        catalog.next_id = max(catalog.next_id, entry.id + 1)
        order = nodes.keys_first(entry.key, len(columns))
        present = [tuple(row) for row in rows.T.tolist()]
        made = runtime.add_table(node, order, entry.label, core.history, present)
        plans, moved = standing_for(entry), places(entry)
        kept = [i for i in relation.more if all(k in moved for k in i.keys)]
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
            relation.columns = tuple(_own(table, c, i) for i, c in enumerate(columns))
            relation.codec = Codec(tuple(c.type for c in columns), tuple(c.name for c in columns), core.interner)
            relation.stored_as, relation.more = entry.label, more
            relation.installed_at = core.time
            self._point(table, made)
            catalog.redeclarable.discard(relation.label)
            for again in views:
                again()

        return finish

    def _index(self, node: nodes.Node, index: Index) -> Index:
        return Index(index.keys, self._core.definitions.install(node, index.keys), index.name)

    def _view(self, view: View, node: nodes.Node) -> Callable[[], None]:
        """Build a view over another plan; gives what then makes it that."""
        relation = relation_of(view)
        core = self._core
        asked = relation.history
        history = core.history if asked is None else asked
        arrangement = core.definitions.install(node, relation.index, history, relation.plan)
        more = [
            Index(i.keys, core.definitions.install(node, i.keys, choice=relation.plan), i.name) for i in relation.more
        ]
        source = core.definitions.collection_of(node, [c.name for c in relation.columns])
        relation_of(source).take_after(relation_of(relation.source))

        def again() -> None:
            keep_snapshots(relation.arrangement.trace)
            relation.node, relation.source, relation.more = node, source, more
            relation.fallible = error_operators(core.runtime.dataflow, arrangement.operator)
            relation.installed_at = core.time
            self._point(view, arrangement)

        return again

    def _point(self, what: Followed, arrangement: Arrangement) -> None:
        """Have a table or view read its contents elsewhere, and its subscribers told of those."""
        relation_of(what).arrangement = arrangement
        self._catalog.rearranged += 1
        self._catalog.changed()
        if relation_of(what).subscribers:
            self._core.subscriptions.watch(what)

    def _forget_columns(self, table: Table, kept: dict[str, str]) -> None:
        """Comments on columns that go, go with them; others are about the column by its new name."""
        for there in (self._catalog.comments, self._catalog.defaults):
            said = {
                c: there.pop((relation_of(table).label, c)) for n, c in [*there] if n == relation_of(table).label and c
            }
            there.update({(relation_of(table).label, new): said[old] for new, old in kept.items() if old in said})


def plan_of(table: Table) -> nodes.Table:
    """A table's node, by which plans know it."""
    assert isinstance(relation_of(table).node, nodes.Table)
    return relation_of(table).node


def _named(column: Column, name: str) -> Column:
    return Column(name, column.type, column.origins)


def _own(table: Table, column: Column, place: int) -> Column:
    return Column(column.name, column.type, ((relation_of(table).number, place),))
