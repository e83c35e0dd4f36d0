"""What a session installs and frees: tables and views as operators of its dataflow.

A table is an index of its rows; a view is an index of its plan's, built on whatever is there already. Nothing counts
its users: what is dropped only loses its name, and then every operator goes that no table and no view can be reached
from (`_collect`). Sessions that write down what they are made of, or run elsewhere, override the steps here.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from everview.clock import HIDDEN
from everview.dataflow.operators import Arrangement, Operator
from everview.errors import InputError, PlanError
from everview.expr.resolve import Column
from everview.inspecting import Inspecting
from everview.kernels import make
from everview.plan import nodes
from everview.plan.multiway import Choice
from everview.snapshot import keep_snapshots
from everview.table import Table
from everview.turns import reads
from everview.view import View

QUERY = "(query)"
"""The name a SELECT has while it is installed."""


class Installing(Inspecting):
    """The part of a session that makes what has a name, and drops it."""

    # names

    def _new_name(self, name: str) -> None:
        if not isinstance(name, str) or not name:
            raise InputError("E_NAME", f"{name!r} is no name", "give a non-empty string")
        if name.startswith(HIDDEN):
            raise InputError("E_NAME", f"names that begin with {HIDDEN} are not yours to give", "choose another")
        if name in self._tables or name in self._views:
            raise InputError("E_NAME", f"the name {name!r} is taken", "choose another, or drop it first")

    def _check_tables(self, node: nodes.Node) -> None:
        for table in node.walk():
            if isinstance(table, nodes.Table) and table.id not in self._builder.tables:
                raise PlanError(
                    "E_DROPPED", "the collection reads a table that was dropped", "build it from existing tables"
                )

    def _table_of(self, node: nodes.Table) -> Table:
        return next(t for t in self._tables.values() if t._node == node)

    # tables

    def _make_table(
        self,
        name: str,
        columns: Sequence[Column],
        key: tuple[int, ...],
        order: tuple[int, ...],
        rows: Sequence[tuple[int, ...]] = (),
    ) -> Table:
        """A table by a new name; `rows` (codes) are in it from the beginning."""
        node = nodes.Table(self._node_ids, tuple(c.type for c in columns), key)
        self._node_ids += 1
        table = Table(self, name, columns, node, key)  # type: ignore[arg-type]
        table._arrangement = self._add_table(node, order, name, self._history, rows)
        self._tables[name] = table
        return table

    @reads
    def _hidden_table(
        self, name: str, columns: Sequence[Column], order: Iterable[int], rows: np.ndarray, origin: Table
    ) -> Table:
        """A table that belongs to views, with rows that are there from the present time on."""
        self._catch_up()
        full = f"{HIDDEN}{name}"
        while full in self._tables:
            full += "'"
        present = [tuple(row) for row in rows.T.tolist()]
        table = self._make_table(full, columns, (), tuple(order), present)
        table._origin = origin
        return table

    @reads
    def _own_table(self, name: str, columns: Sequence[Column]) -> Table:
        """A table of the system's own, by all its columns; one that is there already is found again."""
        self._alive()
        self._catch_up()
        if name not in self._tables:
            order = tuple(range(len(columns)))
            self._make_table(name, columns, order, order)
        return self._tables[name]

    def _add_table(
        self, node: nodes.Table, order: tuple[int, ...], name: str, history: int, rows: Sequence[tuple[int, ...]] = ()
    ) -> Arrangement:
        """Make a base table's index; `rows` (codes) are in it from the beginning."""
        try:
            arrangement = self._builder.add_table(node, order, name)
            self._graph.keep_history(arrangement, history)
            if rows:
                words = [w for row in rows for w in (*(row[c] for c in order), self._graph.time, 1)]
                make.push_rows(arrangement.operator.inbox, np.array(words, dtype=np.int64), len(rows))
            self._install_new()
        except BaseException:
            self._forget_new()
            raise
        return arrangement

    # views

    def _install(
        self, node: nodes.Node, keys: tuple[int, ...], history: int = 0, choice: Choice | None = None
    ) -> Arrangement:
        """An arrangement of a node by some columns, up to date from now on."""
        try:
            pruned, decided = self._builder.planned(node, choice)
            arrangement = self._builder.stored(node, pruned, keys)
            self._install_new()
        except BaseException:
            self._forget_new()
            raise
        self._graph.keep_history(arrangement, history)
        self._builder.decided.setdefault(node, decided)
        return arrangement

    def _forget_new(self) -> None:
        """An installation failed: nothing of it stays."""
        gone = self._graph.unfinished()
        self._graph.forget_new()
        self._builder.forget(gone)

    def _install_new(self) -> None:
        """Bring new operators up to date with the present."""
        self._graph.install()

    @reads
    def _index(self, view: View, keys: tuple[int, ...]) -> Arrangement:
        """A further arrangement of a view, for lookups by other columns."""
        view._alive()
        arrangement = self._install(view._node, keys, choice=view._plan)
        view._more.append(arrangement)
        return arrangement

    # dropping

    @reads
    def _drop_view(self, view: View) -> None:
        view._alive()
        self._catch_up()
        for arrangement in (view._arrangement, *view._more):
            keep_snapshots(arrangement.trace)
        view._dropped = True
        del self._views[view._name]
        if view in self._listening:
            self._listening.remove(view)
        for table in self._tables.values():
            table._views.discard(view._name)
        self._collect()

    @reads
    def _drop_table(self, table: Table, cascade: bool) -> None:
        table._alive()
        self._catch_up()
        if table._views and not cascade:
            raise PlanError(
                "E_IN_USE",
                f"table {table._label!r} is read by {', '.join(sorted(table._views))}",
                "drop those views first, or use drop(cascade=True)",
            )
        for name in sorted(table._views):
            self._views[name].drop()
        keep_snapshots(table._arrangement.trace)
        table._dropped = True
        del self._tables[table._label]
        for hidden in [t for t in self._tables.values() if t._origin is table]:
            del self._tables[hidden._label]
        self._clock.forget(table)
        self._collect()

    def _settle(self) -> None:
        """Also free what was being installed or dropped: whatever no name leads to."""
        super()._settle()
        if QUERY in self._views:
            self._views.pop(QUERY)._dropped = True
        self._listening = [v for v in self._listening if not v._dropped]
        for table in self._tables.values():
            table._views &= self._views.keys()
        self._builder.forget_freed()
        self._collect()

    def _collect(self) -> None:
        """Free the operators that no table and no view needs."""
        for table in self._clock.unused():
            self._clock.forget(table)
            del self._tables[table._label]
        roots: list[Operator] = [t._arrangement.operator for t in self._tables.values()]
        for view in self._views.values():
            roots.append(view._arrangement.operator)
            roots.extend(a.operator for a in view._more)
        roots.extend(a.operator for a in self._clock.indexes())
        self._keep_only(roots)

    def _keep_only(self, roots: list[Operator]) -> None:
        self._builder.forget(self._graph.collect(roots))
