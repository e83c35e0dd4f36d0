"""Sessions: tables, views and time in one explicit place.

A transaction is one time. Its rows are staged while it runs and handed to the dataflow when it ends, in one *step*
that brings every view up to date or, if anything fails, changes nothing. `with db.batch():` lets several
transactions, each with its own time, share one step: the same answers at every time for less work.
"""

from __future__ import annotations

import datetime as dt
import os
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Literal, overload

import numpy as np

from everview.clock import HIDDEN, Aging, Clock
from everview.codes.declare import data_type
from everview.codes.interner import Interner
from everview.collection import Collection, check_names, common_session
from everview.dataflow.builder import Builder
from everview.dataflow.extend import Extend
from everview.dataflow.graph import ABSENT_HINT, Graph, batch_arrays
from everview.dataflow.operators import Arrange, Arrangement, Operator, Reduce
from everview.dataflow.scopes import MAX_EPOCHS
from everview.errors import ClosedError, InputError, PlanError, did_you_mean
from everview.expr.language import UserFunction, declared
from everview.expr.resolve import Column
from everview.kernels import make, read
from everview.kernels.trace import CAPTURE, NO_SINCE
from everview.plan import nodes
from everview.plan.check import check_closed
from everview.plan.multiway import Choice, check_choice, rewrite
from everview.plan.prune import prune
from everview.table import Table
from everview.view import Batch, View

if TYPE_CHECKING:
    from everview.datalog import Rules
    from everview.io.durations import Duration
    from everview.io.pipeline import Run
    from everview.sql.prepared import Prepared

BULK = 256
"""Rows from which an insert is sorted straight into a batch."""

Change = tuple[Table, "np.ndarray | list[tuple[int, ...]]", int]
"""(table, rows' codes as columns or as tuples, +1 or -1)"""


class Work(list[Change]):
    """What one transaction changes, and the marks that are committed with it."""

    __slots__ = ("marks",)

    def __init__(self, changes: Iterable[Change] = ()) -> None:
        super().__init__(changes)
        self.marks: dict[str, str] = {}


class Session:
    """An embedded database in memory; made by `everview.connect()`.

    >>> import everview as ev
    >>> with ev.connect() as db:
    ...     t = db.table("t", {"x": int})
    ...     with db.transaction():
    ...         t.insert([(1,), (2,)])
    ...         t.delete([(1,)])
    ...     t.rows(), db.time
    ([(2,)], 1)
    """

    def __init__(
        self, *, history: int = 1000, merge_effort: int = 4, threads: int = 1, interner: Interner | None = None
    ) -> None:
        if threads not in (1, 2):
            raise InputError("E_THREADS", f"threads={threads!r}: a session works with one thread or two", "give 1 or 2")
        self._interner = interner or Interner()
        self._graph, self._builder = self._dataflow(merge_effort)
        if threads == 2:
            self._graph.share_work()
        self._history = history
        self._lock = threading.RLock()
        self._tables: dict[str, Table] = {}
        self._views: dict[str, View] = {}
        self._node_ids = 0
        self._closed = False
        self._staged: Work | None = None
        self._queued: list[Work] | None = None
        self._marks: dict[str, str] = {}
        """What was marked in complete transactions: positions of sources and sinks, say"""
        self._listening: list[View] = []
        self._deliveries: deque[Callable[[], Any]] = deque()
        self._delivering = False
        self._again: set[str] = set()
        """Tables and views that were found when the session was opened: they may be declared once more"""
        self._sql: Any = None
        self._functions: dict[str, UserFunction] = {}
        self._clock = Clock(self)
        self._rules: dict[str, Rules] = {}
        self._pipeline: Any = None

    def _dataflow(self, merge_effort: int) -> tuple[Graph, Builder]:
        """An empty dataflow and what builds it."""
        graph = Graph(self._interner, merge_effort)
        return graph, Builder(graph)

    # lifetime

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        """Free everything; the session, its tables and views are unusable afterwards."""
        with self._lock:
            if not self._closed:
                self._closed = True
                self._graph.close()

    def __del__(self) -> None:
        if not getattr(self, "_closed", True):
            self.close()

    def _alive(self) -> None:
        if self._closed:
            raise ClosedError("E_CLOSED", "the session is closed", "open a new one with everview.connect()")

    def __repr__(self) -> str:
        state = "closed" if self._closed else f"time {self.time}"
        return (
            f"Session({state}, tables: {', '.join(self.tables) or 'none'}, views: {', '.join(self._views) or 'none'})"
        )

    @property
    def time(self) -> int:
        """The last complete time: 0 at the start, one more with every transaction."""
        return self._graph.time + (len(self._queued) if self._queued else 0)

    # tables and views

    @property
    def now(self) -> dt.datetime:
        """What the session's clock shows (UTC): the computer's time, or what `advance` was last given."""
        return dt.datetime(1970, 1, 1) + dt.timedelta(microseconds=self._clock.read())

    def advance(self, moment: dt.datetime | None = None) -> None:
        """Move the clock, and with it what TTLs, windows and now() let come and go; as one transaction if there is any.

        Without a moment to the computer's time. After a moment was given the clock stands still between calls.

        >>> import everview as ev, datetime as dt
        >>> db = ev.connect()
        >>> db.advance(dt.datetime(2026, 1, 31, 12, 0))
        >>> seen = db.table("seen", {"who": str}, ttl=dt.timedelta(minutes=5))
        >>> seen.insert([("Ada",)])
        >>> db.advance(dt.datetime(2026, 1, 31, 12, 4)); seen.rows()
        [('Ada',)]
        >>> db.advance(dt.datetime(2026, 1, 31, 12, 5)); seen.rows()
        []
        """
        self._alive()
        with self._lock:
            self._clock.advance(moment)

    def table(
        self,
        name: str,
        schema: Mapping[str, Any],
        key: str | Sequence[str] | None = None,
        *,
        ttl: dt.timedelta | None = None,
    ) -> Table:
        """Make a base table. Types are int, float, bool, str, bytes, date, datetime, Decimal, tuple[...] and Optional
        of them. With a `ttl` rows leave by themselves that long after they came (see `advance`).

        >>> import everview as ev
        >>> ev.connect().table("person", {"id": int, "name": str | None}, key="id")
        Collection(id int, name str?)
        """
        self._alive()
        self._new_name(name)
        if not schema:
            raise InputError("E_SCHEMA", f"table {name!r} has no columns", 'give a schema: {"column": type}')
        columns = [Column(n, data_type(t)) for n, t in schema.items()]
        names = list(schema)
        keys = (key,) if isinstance(key, str) else tuple(key or ())
        for k in keys:
            if k not in names:
                raise InputError("E_COLUMN", f"key column {k!r} is not in the schema", did_you_mean(k, names))
        at = tuple(names.index(k) for k in keys)
        order = (*at, *(i for i in range(len(names)) if i not in at))
        with self._lock:
            node = nodes.Table(self._node_ids, tuple(c.type for c in columns), at)
            self._node_ids += 1
            table = Table(self, name, columns, node, at)
            table._arrangement = self._add_table(node, order, name, self._history)
            self._tables[name] = table
            if ttl is not None:
                self._clock.add(Aging(self, table, ttl // dt.timedelta(microseconds=1), owner=True))
        return table

    def _hidden_table(
        self, name: str, columns: Sequence[Column], order: Iterable[int], rows: np.ndarray, origin: Table
    ) -> Table:
        """A table that belongs to views, with rows that are there from the present time on."""
        with self._lock:
            self._catch_up()
            full = f"{HIDDEN}{name}"
            while full in self._tables:
                full += "'"
            node = nodes.Table(self._node_ids, tuple(c.type for c in columns))
            self._node_ids += 1
            table = Table(self, full, columns, node, ())
            table._origin = origin
            present = [tuple(row) for row in rows.T.tolist()]
            table._arrangement = self._add_table(node, tuple(order), full, self._history, present)
            self._tables[full] = table
            return table

    def view(
        self,
        name: str,
        collection: Collection,
        *,
        index_by: str | Sequence[str] | None = None,
        history: int | None = None,
        plan: Choice | None = None,
    ) -> View:
        """Install a collection: it is computed now and kept up to date until dropped.

        `index_by` names the columns of `lookup`; `history` is how many epochs back `as_of` and `changes` reach. `plan`
        is how joins of several inputs are kept: "binary" (join by join), "delta" (from each change to the others,
        without intermediate state), "wco" (that, one variable at a time: worst-case optimal), or None to choose by
        their shape and the indexes that are there; `explain` shows it. What is kept already, in whatever way, is
        shared.
        """
        self._alive()
        self._new_name(name)
        check_choice(plan)
        if not isinstance(collection, Collection):
            raise InputError(
                "E_TYPE", f"db.view needs a collection, got {type(collection).__name__}", "build one from db.table(...)"
            )
        if common_session(collection) is not self:
            raise PlanError(
                "E_SESSION", "the collection belongs to another session", "build it from this session's tables"
            )
        check_names(collection)
        check_closed(collection._node)
        self._check_tables(collection._node)
        names = [c.name for c in collection._columns]
        wanted = (index_by,) if isinstance(index_by, str) else tuple(index_by or ())
        for column in wanted:
            if column not in names:
                raise InputError("E_COLUMN", f"index_by: no column {column!r}", did_you_mean(column, names))
        index = tuple(names.index(c) for c in wanted)
        with self._lock:
            self._catch_up()
            kept = self._history if history is None else history
            arrangement = self._install(collection._node, index, kept, plan)
            view = View(self, name, collection, collection._node, arrangement)
            view._index = index
            view._plan = plan
            view._fallible = self._error_operators(arrangement.operator)
            self._views[name] = view
            for node in collection._node.walk():
                if isinstance(node, nodes.Table):
                    table: Table | None = self._table_of(node)
                    while table is not None:
                        table._views.add(name)
                        table = table._origin
        return view

    def sql(self, text: str) -> Any:
        """Run SQL: CREATE VIEW gives the View, SELECT a result with rows(); several statements are parted by
        semicolons.

        >>> import everview as ev
        >>> db = ev.connect()
        >>> _ = db.sql("CREATE TABLE sale (shop text, amount int)")
        >>> total = db.sql("CREATE VIEW total AS SELECT shop, sum(amount) AS amount FROM sale GROUP BY shop")
        >>> db.sql("INSERT INTO sale VALUES ('north', 5), ('south', 2), ('north', 1)")
        >>> db.sql("SELECT * FROM total ORDER BY shop").rows()
        [('north', 6), ('south', 2)]
        """
        from everview.sql import execute

        return execute(self, text)

    def datalog(self, text: str, *, plan: Choice | None = None) -> Rules:
        """Install the rules of a Datalog program; its relations are views: `rules.reach`, `db["reach"]`.

        `plan` is how bodies of several relations are joined, see `view`.

        >>> import everview as ev
        >>> db = ev.connect()
        >>> edge = db.table("edge", {"src": int, "dst": int})
        >>> rules = db.datalog('''
        ...     path(X, Y)   :- edge(X, Y).
        ...     path(X, Z)   :- path(X, Y), edge(Y, Z).
        ...     loop(X)      :- path(X, X).
        ...     fanout(X, N) :- edge(X, Y), N = count(Y).
        ... ''')
        >>> edge.insert([(1, 2), (2, 3), (3, 2)])
        >>> sorted(rules.loop.rows()), sorted(rules.fanout.rows())
        ([(2,), (3,)], [(1, 1), (2, 1), (3, 1)])
        """
        from everview.datalog import datalog

        self._alive()
        return datalog(self, text, plan)

    def register(self, text: str, *, plan: Choice | None = None) -> Rules:
        """Check and remember the rules of a Datalog program without building anything; `rules.interest(name)` does.

        >>> import everview as ev
        >>> db = ev.connect()
        >>> edge = db.table("edge", {"src": int, "dst": int})
        >>> rules = db.register("two(X, Z) :- edge(X, Y), edge(Y, Z).")
        >>> rules, db.views
        (Rules(two(x, z)), ())
        """
        from everview.datalog import Rules

        self._alive()
        return Rules(self, text, plan)

    def prepare(self, name: str, text: str, keep: int = 1000) -> Prepared:
        """A query with parameters `$name`, called with their values: one dataflow for all of them.

        >>> import everview as ev
        >>> db = ev.connect()
        >>> edge = db.table("edge", {"src": int, "dst": int})
        >>> edge.insert([(1, 2), (2, 3), (4, 5)])
        >>> reach = db.prepare("reach", '''
        ...     WITH RECURSIVE r(node) AS (SELECT $start::int UNION SELECT dst FROM r JOIN edge ON src = node)
        ...     SELECT node FROM r ORDER BY node''')
        >>> reach(start=1).rows(), reach(start=4).rows()
        ([(1,), (2,), (3,)], [(4,), (5,)])
        """
        from everview.sql.prepared import Prepared

        self._alive()
        return Prepared(self, name, text, keep)

    def function(self, name: str, function: Any, returns: Any = None) -> None:
        """Give SQL a Python function of values, or one made by `udf`; it must depend on its arguments alone.

        >>> import everview as ev
        >>> db = ev.connect()
        >>> db.function("double", lambda x: 2 * x, returns=int)
        >>> db.sql("SELECT double(21) AS x").rows()
        [(42,)]
        """
        if not isinstance(function, UserFunction):
            if returns is None:
                raise InputError("E_TYPE", f"what does {name} return?", "db.function(name, f, returns=float)")
            function = UserFunction(function, declared(returns), False)
        self._functions[name.lower()] = function

    @overload
    def attribute(
        self, name: str, value: Any, *, entity: Any = int, semantics: str = "distinct", sources: Literal[False] = False
    ) -> Table: ...

    @overload
    def attribute(
        self, name: str, value: Any, *, entity: Any = int, semantics: str = "distinct", sources: Literal[True]
    ) -> View: ...

    def attribute(
        self, name: str, value: Any, *, entity: Any = int, semantics: str = "distinct", sources: bool = False
    ) -> Table | View:
        """Declare an attribute of entities, for facts that `transact` asserts and retracts: a table of columns e and v.

        `semantics`: "distinct" (a fact holds or does not), "one" (an entity has one value, the last), "raw" (a bag).
        `sources`: several sources say facts, each its own; the attribute is then a view of what all of them say.

        >>> import everview as ev
        >>> db = ev.connect()
        >>> db.attribute("person/name", str, semantics="one")
        Collection(e int, v str)
        """
        from everview.datalog import attributes

        self._alive()
        return attributes.attribute(self, name, value, entity, semantics, sources)

    def transact(self, changes: Iterable[Any], *, source: str | None = None) -> None:
        """Assert and retract facts in one transaction; `source` is who says so, for attributes with sources.

        A change is (entity, attribute, value), {"id": entity, attribute: value, ...}, or ("retract", entity, attribute,
        value).

        >>> import everview as ev
        >>> db = ev.connect()
        >>> speed = db.attribute("device/speed", int, semantics="one")
        >>> db.transact([(1, ":device/speed", 120), {"id": 2, "device/speed": 90}])
        >>> db.transact([(1, "device/speed", 200), ("retract", 2, "device/speed", 90)])
        >>> speed.rows()
        [(1, 200)]
        """
        from everview.datalog import attributes

        self._alive()
        attributes.transact(self, changes, source)

    def retract_source(self, source: str) -> None:
        """Take back all facts that a source said, in one transaction.

        >>> import everview as ev
        >>> db = ev.connect()
        >>> tag = db.attribute("tag", str, sources=True)
        >>> db.transact([(1, "tag", "red"), (1, "tag", "old")], source="import")
        >>> db.transact([(1, "tag", "red")], source="ann")
        >>> db.retract_source("import")
        >>> tag.rows()
        [(1, 'red')]
        """
        from everview.datalog import attributes

        self._alive()
        attributes.retract_source(self, source)

    def source(
        self,
        name: str,
        source: Any,
        *,
        key: str | Sequence[str] | None = None,
        mode: Literal["append", "upsert", "changes", "snapshot"] | None = None,
        schema: Mapping[str, Any] | None = None,
        bad: Literal["fail", "quarantine"] = "fail",
        change_column: str | None = None,
        max_rows_per_step: int | None = None,
        every: Duration = "10s",
    ) -> Table:
        """Make a table that is fed by a source, when `run` is called: files (`everview.io`), a Spark DataFrame or
        stream, rows. A table of that name that exists, after a restart say, is fed on from where it stood.

        `mode` says what a record is: a row to "append", one that replaces the row with its `key` ("upsert", usual with
        a key), a change ("changes": Delta's and Spark's `_change_type`, Debezium's op, or another `change_column`), or
        one of all rows there are ("snapshot", read again `every` so often and compared with what is known). `schema` is
        told from the source if it is not given. Bad records stop the run, or go to the table `<name>_rejected`
        (`bad="quarantine"`).

        >>> import everview as ev
        >>> db = ev.connect()
        >>> stock = db.source("stock", ev.io.rows([("fig", 3), ("fig", 5)]), schema={"item": str, "n": int}, key="item")
        >>> print(db.run(until="caught_up").time, stock.rows())
        1 [('fig', 5)]
        """
        from everview.io.pipeline import pipeline_of

        self._alive()
        return pipeline_of(self).source(
            name,
            source,
            key=key,
            mode=mode,
            schema=schema,
            bad=bad,
            change_column=change_column,
            max_rows_per_step=max_rows_per_step,
            every=every,
        )

    def run(self, until: str | Duration | None = None, *, progress: bool = False) -> Run:
        """Take what the sources have, one transaction per chunk, until all are caught up (`until="caught_up"`), for a
        duration ("5s"), or until Ctrl-C (None), which ends it cleanly. Says what was done.
        """
        from everview.io.pipeline import pipeline_of

        self._alive()
        return pipeline_of(self).run(until, progress)

    def _add_table(
        self, node: nodes.Table, order: tuple[int, ...], name: str, history: int, rows: Sequence[tuple[int, ...]] = ()
    ) -> Arrangement:
        """Make a base table's index; `rows` (codes) are in it from the beginning."""
        arrangement = self._builder.add_table(node, order, name)
        arrangement.trace.keep_history(history)
        if rows:
            words = [w for row in rows for w in (*(row[c] for c in order), self._graph.time, 1)]
            make.push_rows(arrangement.operator.inbox, np.array(words, dtype=np.int64), len(rows))
        self._install_new()
        return arrangement

    def _install(
        self, node: nodes.Node, keys: tuple[int, ...], history: int = 0, choice: Choice | None = None
    ) -> Arrangement:
        """An arrangement of a node by some columns, up to date from now on."""
        try:
            installed, indexed = self._builder.installed, self._builder.indexed
            pruned = rewrite(prune(node, installed), choice, installed, indexed)
            arrangement = self._builder.stored(node, pruned, keys)
            self._install_new()
        except BaseException:
            gone = set(self._graph._new)
            self._graph.forget_new()
            self._builder.forget(gone)
            raise
        arrangement.trace.keep_history(history)
        return arrangement

    def _install_new(self) -> None:
        """Bring new operators up to date with the present."""
        self._graph.install()

    def _own_table(self, name: str, columns: Sequence[Column]) -> Table:
        """A table of the system's own, by all its columns; one that is there already is found again."""
        with self._lock:
            self._catch_up()
            if name not in self._tables:
                order = tuple(range(len(columns)))
                node = nodes.Table(self._node_ids, tuple(c.type for c in columns), order)
                self._node_ids += 1
                table = Table(self, name, columns, node, order)
                table._arrangement = self._add_table(node, order, name, self._history)
                self._tables[name] = table
            return self._tables[name]

    def _sync(self, *operators: Operator) -> None:
        """Called before the traces of operators are read: here they are always complete."""

    def _index(self, view: View, keys: tuple[int, ...]) -> Arrangement:
        """A further arrangement of a view, for lookups by other columns."""
        with self._lock:
            arrangement = self._install(view._node, keys, choice=view._plan)
            view._more.append(arrangement)
            return arrangement

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

    def __getitem__(self, name: str) -> Table | View:
        """A table or view by name."""
        found = self._tables.get(name) or self._views.get(name)
        if found is None:
            raise InputError(
                "E_NAME", f"no table or view is called {name!r}", did_you_mean(name, [*self._tables, *self._views])
            )
        return found

    def __contains__(self, name: str) -> bool:
        return name in self._tables or name in self._views

    @property
    def tables(self) -> tuple[str, ...]:
        """Names of the tables."""
        return tuple(n for n in self._tables if not n.startswith(HIDDEN))

    @property
    def views(self) -> tuple[str, ...]:
        """Names of the views."""
        return tuple(self._views)

    def _drop_view(self, view: View) -> None:
        with self._lock:
            self._catch_up()
            view._dropped = True
            del self._views[view._name]
            if view in self._listening:
                self._listening.remove(view)
            for table in self._tables.values():
                table._views.discard(view._name)
            self._collect()

    def _drop_table(self, table: Table, cascade: bool) -> None:
        with self._lock:
            self._catch_up()
            if table._views and not cascade:
                raise PlanError(
                    "E_IN_USE",
                    f"table {table._label!r} is read by {', '.join(sorted(table._views))}",
                    "drop those views first, or use drop(cascade=True)",
                )
            for name in sorted(table._views):
                self._views[name].drop()
            table._dropped = True
            del self._tables[table._label]
            for hidden in [t for t in self._tables.values() if t._origin is table]:
                del self._tables[hidden._label]
            self._clock.forget(table)
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

    # transactions

    def transaction(self) -> Transaction:
        """Make all changes inside one transaction, at one time; an exception undoes them. Inside another, it joins it.
        """
        self._alive()
        return Transaction(self)

    @contextmanager
    def batch(self) -> Iterator[None]:
        """Run the transactions inside as one step when the block ends; each keeps its own time.

        >>> import everview as ev
        >>> db = ev.connect()
        >>> t = db.table("t", {"x": int})
        >>> v = db.view("v", t.distinct())
        >>> with db.batch():
        ...     t.insert([(1,)])
        ...     t.insert([(2,)])
        >>> v.changes(since=0)
        [((1,), 1, 1), ((2,), 2, 1)]
        """
        self._alive()
        if self._queued is not None:
            yield
            return
        self._queued = []
        try:
            yield
        finally:
            try:
                self._catch_up()
            finally:
                self._queued = None

    def _stage(self, table: Table, codes: np.ndarray | list[tuple[int, ...]], diff: int) -> None:
        if self._staged is not None:
            self._staged.append((table, codes, diff))
        else:
            self._commit(Work(((table, codes, diff),)))

    def _mark(self, name: str, value: str) -> None:
        """Note a text under a name together with the transaction under way: both are committed or neither is. Outside
        one it is a transaction of its own; `_marks` has those that are complete.

        >>> db = Session()
        >>> with db.transaction():
        ...     db._mark("rows read", "17")
        >>> db._marks, db.time
        ({'rows read': '17'}, 1)
        """
        with self.transaction():
            assert self._staged is not None
            self._staged.marks[name] = value

    def _stage_upsert(self, table: Table, codes: np.ndarray) -> None:
        """Replace rows by key: take away what is there under the new rows' keys, then add the last row of each key."""
        with self._lock, self.transaction():
            key = table._key
            last = {tuple(codes[c, i].item() for c in key): i for i in range(codes.shape[1])}
            old = self._present(table, list(last))
            if old:
                self._stage(table, old, -1)
            self._stage(table, np.ascontiguousarray(codes[:, sorted(last.values())]), 1)

    def _stage_clear(self, table: Table) -> None:
        with self._lock, self.transaction():
            rows = self._present(table, None)
            if rows:
                self._stage(table, rows, -1)

    def _present(self, table: Table, keys: list[tuple[int, ...]] | None) -> list[tuple[int, ...]]:
        """Codes of the rows under the given keys (None: all), as the transaction under way sees them, repeated by
        multiplicity.
        """
        arrangement = table._arrangement
        self._sync(arrangement.operator)
        found: dict[tuple[int, ...], int] = {}

        def add(batch: int) -> None:
            columns, _, counts = batch_arrays(batch, arrangement.cols)
            read.release(batch)
            back = [arrangement.order.index(c) for c in range(arrangement.cols)]
            for row, n in zip(columns[back].T.tolist(), counts.tolist(), strict=True):
                found[tuple(row)] = found.get(tuple(row), 0) + n

        trace = arrangement.trace.address
        if keys is None:
            add(read.collect(trace, NO_SINCE, self._graph.time, 0))
        else:
            for key in keys:
                block = make.make_filled(np.array(key, dtype=np.int64))
                add(read.collect_key(trace, block, len(key), self._graph.time))
                make.drop_block(block)
        wanted = None if keys is None else set(keys)
        pending = [c for changes in self._queued or [] for c in changes] + (self._staged or [])
        for other, rows, diff in pending:
            if other is table:
                for row in _tuples(rows):
                    if wanted is None or tuple(row[c] for c in table._key) in wanted:
                        found[row] = found.get(row, 0) + diff
        return [row for row, n in found.items() for _ in range(n)]

    def _commit(self, changes: Work) -> None:
        with self._lock:
            if self._closed:
                self._alive()
            if self._clock.followers:
                self._commit_timed(changes)
            elif self._queued is not None:
                self._queue(changes)
                return
            else:
                self._step([changes])
        if self._deliveries:
            self._deliver()

    def _commit_nothing(self) -> None:
        """A transaction of which nothing is known but that time has passed."""
        self._commit(Work())

    def _commit_timed(self, changes: Work) -> None:
        """Run a transaction with what it and the time that passed mean for the clock's followers.

        They look at what is there, so even in a batch it is a step of its own.
        """
        self._catch_up()
        undo = self._clock.extend(changes)
        try:
            self._step([changes])
        except BaseException:
            undo()
            raise

    def _step(self, transactions: list[Work]) -> None:
        """Run transactions, one time each, as one step; all or none of them."""
        try:
            self._run(transactions)
        except InputError as error:
            if error.code == "E_ABSENT":
                raise self._absent([c for changes in transactions for c in changes], error) from None
            raise
        for changes in transactions:
            if changes.marks:
                self._marks.update(changes.marks)
        if self._listening:
            self._take_batches()

    def _run(self, transactions: list[Work]) -> None:
        """Bring the dataflow up to date: what another runtime does differently."""
        try:
            for offset, changes in enumerate(transactions):
                _hand_over(changes, self._graph.time + 1 + offset)
        except BaseException:
            self._graph.abort()
            raise
        self._graph.run(len(transactions))

    def _absent(self, changes: Iterable[Change], error: InputError) -> InputError:
        """Say which row was deleted without being there."""
        for table, rows, diff in changes:
            if diff < 0:
                for row in _tuples(rows):
                    have = sum(1 for r in self._present_row(table, row))
                    net = sum(d * sum(r == row for r in _tuples(other)) for t, other, d in changes if t is table)
                    if have + net < 0:
                        shown = table._codec.decode_row(row)
                        return InputError(
                            "E_ABSENT",
                            f"table {table._label!r}: cannot delete {shown!r}, which is not there",
                            error.hint,
                        )
        return error

    def _present_row(self, table: Table, row: tuple[int, ...]) -> list[tuple[int, ...]]:
        arrangement = table._arrangement
        self._sync(arrangement.operator)
        block = make.make_filled(np.array([row[c] for c in arrangement.order], dtype=np.int64))
        batch = read.collect_key(arrangement.trace.address, block, len(row), self._graph.time)
        make.drop_block(block)
        _, _, counts = batch_arrays(batch, arrangement.cols)
        read.release(batch)
        return [row] * int(counts.sum())

    def _queue(self, changes: Work) -> None:
        """Accept a transaction for the step that ends the batch."""
        assert self._queued is not None
        for table, rows, diff in changes:
            if diff < 0:
                self._check_queued(table, rows, changes)
        self._queued.append(changes)
        if len(self._queued) == MAX_EPOCHS:
            self._catch_up()

    def _check_queued(self, table: Table, rows: np.ndarray | list[tuple[int, ...]], changes: list[Change]) -> None:
        assert self._queued is not None
        queued: dict[tuple[int, ...], int] = {}
        for batch in (*self._queued, changes):
            for other, codes, diff in batch:
                if other is table:
                    for row in _tuples(codes):
                        queued[row] = queued.get(row, 0) + diff
        for row in _tuples(rows):
            if queued[row] < 0 and len(self._present_row(table, row)) + queued[row] < 0:
                shown = table._codec.decode_row(row)
                raise InputError(
                    "E_ABSENT",
                    f"table {table._label!r}: cannot delete {shown!r}, which is not there",
                    ABSENT_HINT,
                )

    def _catch_up(self) -> None:
        """Run the transactions that a batch has accepted so far."""
        if not self._queued:
            return
        with self._lock:
            queued, self._queued = self._queued, []
            self._step(queued)
        if self._deliveries:
            self._deliver()

    # subscribers

    def _capture(self, arrangement: Arrangement) -> int:
        """Have each step's change of an arrangement kept for subscribers."""
        with self._lock:
            self._sync(arrangement.operator)
            block = make.peek(arrangement.trace.address, CAPTURE)
            if block == 0:
                block = arrangement.operator.block([0])
                make.poke(arrangement.trace.address, CAPTURE, block)
            self._listening = [
                v for v in self._views.values() if v._arrangement.trace is arrangement.trace or v in self._listening
            ]
            return int(block)

    def _take_batches(self) -> None:
        captured = set()
        for view in self._listening:
            for batch in view._batches():
                for function in list(view._subscribers):
                    self._deliveries.append(_call(function, batch))
            captured.add(make.peek(view._arrangement.trace.address, CAPTURE))
        for block in captured:
            read.release(make.peek(block, 0))
            make.poke(block, 0, 0)

    def _deliver(self) -> None:
        """Call subscribers; what they change themselves is delivered after what came before it."""
        if self._delivering:
            return
        self._delivering = True
        failure: BaseException | None = None
        try:
            while self._deliveries:
                try:
                    self._deliveries.popleft()()
                except Exception as error:
                    failure = failure or error
        finally:
            self._delivering = False
        if failure is not None:
            raise failure

    # about itself

    def _upstream(self, operator: Operator) -> list[Operator]:
        """Everything an operator depends on, itself included, in program order."""
        seen: set[Operator] = set()
        todo = [operator]
        while todo:
            found = todo.pop()
            if found not in seen:
                seen.add(found)
                todo.extend(found.inputs)
        return [o for o in self._graph.operators() if o in seen]

    def _error_operators(self, operator: Operator) -> list[Operator]:
        return [o.errors for o in self._upstream(operator) if o.errors is not None]

    def _arrangements(self, operator: Operator | None = None) -> list[dict[str, Any]]:
        """Measures of every arrangement (that an operator depends on)."""
        operators = self._graph.operators() if operator is None else self._upstream(operator)
        readers: dict[Operator, int] = {}
        for other in self._graph.operators():
            for source in set(other.inputs):
                readers[source] = readers.get(source, 0) + 1
        for view in self._views.values():
            source = view._arrangement.operator
            readers[source] = readers.get(source, 0) + 1
        views: dict[Operator, list[str]] = {}
        for view in self._views.values():
            for o in self._upstream(view._arrangement.operator):
                views.setdefault(o, []).append(view._name)
        found = []
        measured = self._measure()
        for o in operators:
            if o.trace is not None and not o.trace.stateless:
                batches, updates, size = measured(o)
                kind = "reduce" if isinstance(o, Reduce) else "arrange" if isinstance(o, Arrange) else o.kind
                found.append(
                    {
                        "name": o.describe(),
                        "kind": kind,
                        "scope": o.scope.label,
                        "updates": updates,
                        "bytes": size,
                        "batches": batches,
                        "readers": readers.get(o, 0),
                        "views": views.get(o, []),
                    }
                )
        return found

    def _measure(self) -> Callable[[Operator], tuple[int, int, int]]:
        """Gives (batches, updates, bytes) of the state an operator holds."""
        return lambda o: (0, 0, 0) if o.trace is None else o.trace.measure()

    def stats(self) -> dict[str, Any]:
        """Time, bytes, and every arrangement held: updates, bytes, batches, how many operators and views read it, and
        which views depend on it.
        """
        self._alive()
        self._catch_up()
        with self._lock:
            arrangements = self._arrangements()
            operators = self._graph.operators()
        return {
            "time": self.time,
            "tables": len(self._tables),
            "views": len(self._views),
            "operators": len(operators),
            "bytes": sum(a["bytes"] for a in arrangements) + self._interner.nbytes,
            "arrangements": arrangements,
        }

    def _explain(self, operator: Operator) -> str:
        lines = [line for o in self._upstream(operator) if isinstance(o, Extend) for line in o.explain()]
        lines.append("arrangements:")
        mine = [v._name for v in self._views.values() if v._arrangement.operator is operator]
        for a in self._arrangements(operator):
            others = [name for name in a["views"] if name not in mine]
            shared = f", shared by {a['readers']} readers" if a["readers"] > 1 else ""
            shared += f", also for {', '.join(others)}" if others else ""
            lines.append(f"  {a['name']} ({a['scope']}): {a['updates']} updates, {a['bytes']} bytes{shared}")
        return "\n".join(lines)


class Transaction:
    """A transaction under way; see `Session.transaction`."""

    __slots__ = ("_outer", "_session")

    def __init__(self, session: Session) -> None:
        self._session = session
        self._outer = session._staged is not None

    def __enter__(self) -> Transaction:
        if not self._outer:
            self._session._staged = Work()
        return self

    def __exit__(self, kind: object, error: object, traceback: object) -> None:
        if self._outer:
            return
        changes, self._session._staged = self._session._staged, None
        if kind is None:
            self._session._commit(Work() if changes is None else changes)


def _tuples(rows: np.ndarray | list[tuple[int, ...]]) -> list[tuple[int, ...]]:
    return rows if isinstance(rows, list) else [tuple(r) for r in rows.T.tolist()]


def _hand_over(changes: list[Change], time: int) -> None:
    """Put a transaction's rows into the tables' inboxes."""
    few: dict[Arrangement, list[int]] = {}
    for table, rows, diff in changes:
        arrangement = table._arrangement
        if isinstance(rows, list):
            words = few.setdefault(arrangement, [])
            for row in rows:
                words += row if arrangement.plain else [row[c] for c in arrangement.order]
                words.append(time)
                words.append(diff)
        else:
            _hand_over_columns(arrangement, rows, time, diff)
    for arrangement, words in few.items():
        make.push_rows(
            arrangement.operator.inbox, np.array(words, dtype=np.int64), len(words) // (arrangement.cols + 2)
        )


def _hand_over_columns(arrangement: Arrangement, rows: np.ndarray, time: int, diff: int) -> None:
    operator = arrangement.operator
    columns = rows if arrangement.plain else np.ascontiguousarray(rows[list(arrangement.order)])
    if diff == 1 and columns.shape[1] >= BULK and isinstance(operator, Arrange) and not operator.has_preset():
        make.preset_columns(operator.context, columns, time)
    else:
        make.push_columns(operator.inbox, columns, time, diff)


def _call(function: Callable[[Batch], Any], batch: Batch) -> Callable[[], Any]:
    return lambda: function(batch)


def connect(
    target: Any = None, *, history: int = 1000, merge_effort: int = 4, threads: int = 1, **options: Any
) -> Session:
    """Open a session: `everview.connect()` is embedded and in memory, `everview.connect("directory")` durable.

    `history` is how many epochs back views can be read; `merge_effort` how eagerly indexes are merged (1 lazy, 4
    usual, 64 eager). With `threads=2` a second thread takes half of the work wherever a step has tens of thousands of
    rows to sort, join or reduce: bulk loads end sooner, small changes stay as they are.

    A directory takes `sync` ("normal": what was acknowledged survives the death of the process, "full": that of the
    machine too) and `read_only` (attach to what another process writes; `db.refresh()` catches up).
    With a SparkSession, steps are Spark jobs: it takes `state`, the directory, and `shards`.

    >>> import everview as ev
    >>> ev.connect()
    Session(time 0, tables: none, views: none)
    """
    if target is None and not options:
        return Session(history=history, merge_effort=merge_effort, threads=threads)
    if isinstance(target, (str, os.PathLike)):
        from everview.durable import open_directory

        return open_directory(target, history=history, merge_effort=merge_effort, threads=threads, **options)
    if hasattr(target, "sparkContext"):
        from everview.spark.session import SparkBackedSession

        if not options.get("state"):
            raise InputError("E_OPTION", "a session on Spark needs a directory", 'connect(spark, state="directory")')
        return SparkBackedSession(target, history=history, merge_effort=merge_effort, **options)
    raise InputError(
        "E_TARGET",
        f"cannot connect to {target!r}" + (f" with {', '.join(options)}" if options else ""),
        "call everview.connect() for a session in memory, everview.connect(directory) for a durable one",
    )
