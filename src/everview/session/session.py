"""Sessions: tables, views and time.

Each transaction has one time. Its changes are staged while it is open and passed to the runtime when it ends, in one
*step* that brings every view up to date or, if anything fails, changes nothing. `with db.batch():` lets several
transactions, each with its own time, share one step: the same results at every time for less work.

`Session` is the public interface of `everview.session.core`.
"""

from __future__ import annotations

import datetime as dt
import html
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, overload

from everview.codes import durations
from everview.errors import ClosedError, InputError, did_you_mean
from everview.expr.language import UserFunction, declared
from everview.language.collection import Collection
from everview.plan.multiway import Choice
from everview.plan.provenance import Provenance
from everview.runtime.base import Resharder
from everview.session import doors, inspect
from everview.session.budget import Budget, budget
from everview.session.changes.blocks import Together, Transaction
from everview.session.changes.turns import reads, writes
from everview.session.clock.clock import moment_of
from everview.session.clock.follower import RESERVED_PREFIX
from everview.session.core import Core
from everview.session.limits import Limits, cancel, size_of
from everview.session.memory import Memory, memory
from everview.session.names.arguments import check_count
from everview.session.names.overview import TRANSIENT
from everview.session.names.plan_preparation import provenanced
from everview.session.reads import rendering
from everview.session.reads.what_if import WhatIf
from everview.session.table import Table
from everview.session.view import View

if TYPE_CHECKING:
    from everview.codes.durations import Duration
    from everview.datalog import Rules
    from everview.io.pipeline import Run
    from everview.recovery.verification import Difference
    from everview.sql.answers.prepared import Prepared
    from everview.system.observer import System


class Session:
    """A database of tables and views that stay up to date; created by `everview.connect()`.

    >>> import everview as ev
    >>> with ev.connect() as db:
    ...     t = db.table("t", {"x": int})
    ...     with db.transaction():
    ...         t.insert([(1,), (2,)])
    ...         t.delete([(1,)])
    ...     t.rows(), db.time
    ([(2,)], 1)
    """

    def __init__(self, core: Core) -> None:
        self._core = core
        core.session = self

    # lifetime

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        """Free everything; the session, its tables and views are unusable afterwards. Calls in progress in other
        threads end first; waiting ones fail with E_CLOSED. A durable session writes a checkpoint if its log is long,
        and unlocks the directory.
        """
        try:
            self._close()
        except ClosedError:
            if not self._core.closed:  # a session that had to be abandoned is closed already
                raise

    @reads
    def _close(self) -> None:
        self._core.close()

    def __repr__(self) -> str:
        state = "closed" if self._core.closed else f"time {self.time}"
        tables, views = ", ".join(self.tables), ", ".join(self.views)
        return f"Session({state}, tables: {tables or 'none'}, views: {views or 'none'})"

    def _repr_html_(self) -> str:
        if self._core.closed:
            return f"<p>{html.escape(repr(self))}</p>"
        named = [("table", n, self[n].schema()) for n in self.tables]
        named += [("view", n, self[n].schema()) for n in self.views]
        return rendering.session_page(named, self.time)

    @reads
    def checkpoint(self) -> None:
        """Write all state into files and begin a new log, so that opening is fast. Happens automatically when the log
        is long. A session in memory has nothing to write.
        """
        core = self._core
        core.alive()
        core.transactions.catch_up()
        core.runtime.backing.checkpoint()

    @reads
    def refresh(self) -> int:
        """Catch up with the process that writes the directory of this read-only session (`read_only=True`); returns the
        time reached. Subscribers are called for the times in between.
        """
        core = self._core
        core.alive()
        core.runtime.backing.refresh()
        return self.time

    def reshard(self, shards: int) -> None:
        """Redistribute a session on Spark over another number of shards, while others read and write. State is split in
        the background; the switch itself is a short pause between two steps. For a while the directory holds the state
        twice. Opening the directory with `shards=` does the same before anything else.
        """
        self._core.alive()
        way = self._core.runtime.resharding(shards)
        if way is None:
            hint = "open the directory on Spark: everview.connect(spark, state=...)"
            raise InputError("E_SHARDS", "this session has no shards that could be more or fewer", hint)
        try:
            way.prepare()
            self._take_over(way)
        except BaseException:
            way.give_up()
            raise

    @writes
    def _take_over(self, way: Resharder) -> None:
        self._core.transactions.catch_up()
        way.take_over()

    # the clock

    @property
    def now(self) -> dt.datetime:
        """The session's clock (UTC): the system time, or what `advance` was last given."""
        return moment_of(self._core.clock.read())

    @writes
    def advance(self, moment: dt.datetime | None = None) -> None:
        """Move the clock, applying TTLs, windows and now() up to that moment, as one transaction if anything changes.

        Without a moment, return to the system time. After a moment was given, the clock stands still between calls. A
        directory stores the clock with each transaction; a move that changes nothing is stored with the next one.

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
        self._core.alive()
        self._core.clock.advance(moment)

    # tables and views

    def table(
        self,
        name: str,
        schema: Any,
        key: str | Sequence[str] | None = None,
        *,
        ttl: dt.timedelta | str | None = None,
    ) -> Table:
        """Create a base table. `schema` maps column names to types: int, float, bool, str, bytes, date, datetime,
        Decimal, tuple[...] and Optional of them. Alternatively it is initial data: a pandas or polars frame, an Arrow
        table, a dict of columns, a list of dicts. With a `ttl` ("10 minutes", a timedelta) rows are deleted that long
        after they were inserted (see `advance`).

        >>> import everview as ev
        >>> db = ev.connect()
        >>> db.table("person", {"id": int, "name": str | None}, key="id")
        Collection(id int, name str?)
        >>> db.table("city", [{"name": "Graz", "people": 300_000}, {"name": "Linz", "people": 210_000}]).count()
        2
        """
        if isinstance(ttl, str):
            ttl = dt.timedelta(seconds=durations.seconds(ttl))
        if _is_data(schema):
            self._core.alive()
            return doors.table_of(self._core, name, schema, key, ttl)
        return self._table(name, schema, key, ttl)

    @reads
    def _table(self, name: str, schema: Any, key: Any, ttl: dt.timedelta | None) -> Table:
        return self._core.definitions.tables.make(name, schema, key, ttl)

    def read(
        self,
        source: Any,
        name: str | None = None,
        *,
        key: str | Sequence[str] | None = None,
        schema: Mapping[str, Any] | None = None,
    ) -> Table:
        """Read a file, or anything that `source` accepts, once, into a table of that name; rows are replaced by `key`.
        To keep reading new data, use `source`.

        >>> import everview as ev, pathlib, tempfile
        >>> path = pathlib.Path(tempfile.mkdtemp()) / "fruit.csv"
        >>> _ = path.write_text("name,pieces" + chr(10) + "fig,12" + chr(10) + "pear,3" + chr(10))
        >>> db = ev.connect()
        >>> print(db.read(path))
        table fruit: 2 rows at time 1
        name  pieces
        str?    int?
        ----  ------
        fig       12
        pear       3
        """
        self._core.alive()
        return doors.read(self._core, source, name, key, schema)

    @reads
    def view(
        self,
        name: str,
        collection: Collection,
        *,
        index_by: str | Sequence[str] | None = None,
        history: int | None = None,
        plan: Choice | None = None,
        provenance: Provenance | Literal["lazy", "bdd"] | None = None,
    ) -> View:
        """Install a collection: it is computed now and kept up to date until dropped.

        `index_by` names the columns of `lookup`; `history` is how many epochs back `as_of` and `changes` reach. `plan`
        chooses how joins of several inputs are maintained. "binary" joins two at a time; "delta" goes from each change
        to the other inputs, without intermediate state; "wco" does so one variable at a time (worst-case optimal);
        "best" is the cheapest for the current rows and indexes (docs/optimiser.md). The default, None, chooses by shape
        and existing indexes. Four further plans: "frugal" pre-aggregates rows on shards before sending them
        (docs/spark.md), "rounds" keeps loops as written even where trees would do, "whole" maintains distances of
        pairs by whole searches (docs/graph.md), and "verbatim" rewrites nothing. `explain` shows the plan. State that
        other views already maintain is shared.

        `provenance` adds a column that records which table rows each row is derived from (docs/provenance.md): "lazy"
        by its first derivation, "bdd" by all of them, as a Boolean expression; see `Provenance` for more options. Only
        for views of select, where, join, union, distinct and loops of them (E_MONOTONE). `View.provenance` reads it.
        """
        if provenance is not None and isinstance(collection, Collection):
            collection = provenanced(collection, provenance)
        return self._core.definitions.views.make(name, collection, index_by, history, plan)

    # transactions

    @property
    def time(self) -> int:
        """The last complete time: 0 at the start, incremented by every transaction."""
        return self._core.time

    def transaction(self) -> Transaction:
        """Make all changes inside at one time; an exception undoes them. A nested transaction joins the outer one: an
        exception undoes the changes made inside, and the rest is committed with the outer one.

        A transaction belongs to the thread that began it. Other threads can read meanwhile; their changes wait.

        >>> import everview as ev
        >>> db = ev.connect()
        >>> t = db.table("t", {"x": int})
        >>> with db.transaction():
        ...     t.insert([(1,)])
        ...     try:
        ...         with db.transaction():
        ...             t.insert([(2,)])
        ...             raise ValueError
        ...     except ValueError:
        ...         t.insert([(3,)])
        >>> sorted(t.rows()), db.time
        ([(1,), (3,)], 1)
        """
        core = self._core
        if core.closed:
            core.alive()
        return Transaction(core)

    def batch(self) -> Together:
        """Run the transactions inside as one step when the block ends; each keeps its own time.

        They are acknowledged when the block ends, even if it ends with an exception. If one of them fails in the step,
        none is committed. A read inside the block, from any thread, first runs what was accepted so far.

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
        self._core.alive()
        return Together(self._core)

    def adapt(self, on: bool = True, **options: Any) -> None:
        """Let the plans of this session's joins adapt to the workload from now on; `adapt(False)` freezes them.
        `connect(adaptive=True)` does the same. Views created with an explicit `plan=` keep it.

        Options with their defaults: `every=1.0`, seconds of processor time between checks of the statistics;
        `margin=1.5`, how many times cheaper another plan must be; `ahead=60`, the seconds over which it must be;
        `trial=100`, transactions for which both plans are measured (0: trust the model); `worse=1.0`, a plan that takes
        more than this many times as long is undone. See docs/optimiser.md.

        >>> import everview as ev
        >>> db = ev.connect()
        >>> db.adapt(every=5, margin=2)
        >>> db.adapt(False)
        """
        self._core.alive()
        if not isinstance(on, bool):
            raise InputError("E_TYPE", f"adapt({on!r}): plans follow or they do not", "give True or False")
        doors.adapt(self._core, on, options)

    def what_if(
        self,
        *,
        delete: Mapping[str, Any] | None = None,
        insert: Mapping[str, Any] | None = None,
        upsert: Mapping[str, Any] | None = None,
    ) -> WhatIf:
        """Make hypothetical changes: inside `with db.what_if() as w:`, change tables in any way, by SQL too, and read
        them and all views as they would be; `w.changes(name)` is what would change. When the block ends nothing has
        happened. In one line, rows are given by table: `db.what_if(delete={"edge": [(1, 2)]}).changes("reach")`; that
        is computed on first use, for all views at once.

        It runs a step and undoes it, so it is exact for every view and costs what the step would. A change that would
        fail fails here, on the first read or at the end of the block. Meanwhile other threads see the true state, and
        their changes wait, as for a transaction. Nothing is logged, no subscriber is called, and time does not advance.
        Tables and views cannot be created or dropped inside, and `what_if` blocks cannot be nested (E_WHAT_IF).

        >>> import everview as ev
        >>> db = ev.connect()
        >>> sale = db.table("sale", {"shop": str, "amount": int})
        >>> total = db.sql("CREATE VIEW total AS SELECT shop, sum(amount) AS amount FROM sale GROUP BY shop")
        >>> sale.insert([("north", 5), ("south", 2)])
        >>> with db.what_if() as w:
        ...     db.sql("UPDATE sale SET amount = 7 WHERE shop = 'south'")
        ...     total.lookup("south"), sorted(w.changes("total"))
        ([('south', 7)], [(('south', 2), -1), (('south', 7), 1)])
        >>> total.lookup("south"), db.time
        ([('south', 2)], 1)
        """
        return WhatIf(self._core, delete, insert, upsert)

    # limits

    def limits(self, *, seconds: Duration | None = None, memory: int | str | None = None) -> Limits:
        """Limit each call that this thread makes inside: its duration, once it has its turn, and the memory growth of
        its step. A call that exceeds them fails with E_TIMEOUT (`StoppedError`) or E_MEMORY (`MemoryLimitError`) and
        changes nothing; the session remains usable. User functions run in a helper thread, so that one that sleeps
        blocks nobody.

        >>> import everview as ev
        >>> db = ev.connect()
        >>> t = db.table("t", {"x": int})
        >>> t.insert({"x": range(100_000)})
        >>> try:
        ...     with db.limits(seconds=0.2, memory="200MB"):
        ...         db.sql("SELECT count(*) FROM t AS a CROSS JOIN t AS b WHERE a.x + b.x > 7").rows()
        ... except ev.StoppedError as error:
        ...     error.code
        'E_TIMEOUT'
        >>> try:
        ...     with db.limits(seconds=60, memory="50MB"):
        ...         db.sql("SELECT a.x, b.x FROM t AS a CROSS JOIN t AS b").rows()
        ... except ev.MemoryLimitError as error:
        ...     error.code
        'E_MEMORY'
        """
        self._core.alive()
        return Limits(
            self._core,
            None if seconds is None else durations.seconds(seconds),
            None if memory is None else size_of(memory),
        )

    @reads
    def budget(self, memory: int | str | None = None) -> Budget:
        """Limit the memory that all queries of graphs made with `memory="lean"` use together; without a size, return
        the current usage. (A graph with its own budget is not included.)

        Beyond the limit, recomputable state is dropped: first that of vertices with few edges, and as little as
        possible. Results stay exact but get slower. When nothing is left to drop, a transaction that adds a query fails
        with E_BUDGET (`MemoryLimitError`); the others continue. The limit belongs to the session: set it again after
        opening a directory.

        >>> import everview as ev
        >>> from everview.graph import Graph
        >>> db = ev.connect()
        >>> road, trip = db.table("road", {"src": int, "dst": int}), db.table("trip", {"a": int, "b": int})
        >>> far = db.view("far", Graph(road, memory="lean").distance(trip))
        >>> found = db.budget("100MB")
        >>> road.insert([(1, 2), (2, 3)])
        >>> trip.insert([(1, 3)])
        >>> far.rows(), db.budget().limit, db.budget().used < 100_000
        ([(1, 3, 2)], 100000000, True)
        """
        return budget(self._core, None if memory is None else size_of(memory))

    @property
    def system(self) -> System:
        """The session's objects, state and activity as relations of a separate session: `ev.views`, `ev.operators`,
        `ev.arrangements`, `ev.steps`, ... In SQL they are read as `ev.NAME`.

        >>> import everview as ev
        >>> db = ev.connect()
        >>> _ = db.table("t", {"x": int})
        >>> db.sql("SELECT name, updates FROM ev.tables").rows(), db.time
        ([('t', 0)], 0)
        """
        self._core.alive()
        return doors.system(self._core)

    def cancel(self) -> bool:
        """Cancel the call in progress in another thread: it fails there with E_CANCELLED (`StoppedError`) and changes
        nothing; the session remains usable. Returns False if there is none. A call that completes before it notices
        stays complete.

        >>> import everview as ev
        >>> ev.connect().cancel()
        False
        """
        return cancel(self._core)

    # languages

    def sql(self, text: str, *values: Any, **named: Any) -> Any:
        """Run SQL: CREATE VIEW returns the View, SELECT a result with rows(); several statements are separated by
        semicolons. For a query with parameters, use `prepare`.

        >>> import everview as ev
        >>> db = ev.connect()
        >>> _ = db.sql("CREATE TABLE sale (shop text, amount int)")
        >>> total = db.sql("CREATE VIEW total AS SELECT shop, sum(amount) AS amount FROM sale GROUP BY shop")
        >>> db.sql("INSERT INTO sale VALUES ('north', 5), ('south', 2), ('north', 1)")
        >>> db.sql("SELECT * FROM total ORDER BY shop").rows()
        [('north', 6), ('south', 2)]
        """
        if not isinstance(text, str):
            raise InputError("E_TYPE", f"{text!r} is not SQL", "give the text of a statement")
        if values or named:
            given = ", ".join([*(f"{v!r}" for v in values), *(f"{n}={v!r}" for n, v in named.items())])
            raise InputError(
                "E_PARAMETER",
                f"db.sql takes a text and nothing else, not {given}",
                'name the parameters ($x) and prepare the query: find = db.prepare("find", "SELECT ... $x"); find(x=1)',
            )
        return doors.sql(self, text)

    @writes
    def datalog(self, text: str, *, plan: Choice | None = None) -> Rules:
        """Install the rules of a Datalog program; its relations are views: `rules.reach`, `db["reach"]`.

        `plan` is how rule bodies of several relations are joined, see `view`.

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
        self._core.alive()
        return doors.datalog(self, text, plan)

    @reads
    def register(self, text: str, *, plan: Choice | None = None) -> Rules:
        """Check and store the rules of a Datalog program without building anything; `rules.interest(name)` builds a
        relation.

        >>> import everview as ev
        >>> db = ev.connect()
        >>> edge = db.table("edge", {"src": int, "dst": int})
        >>> rules = db.register("two(X, Z) :- edge(X, Y), edge(Y, Z).")
        >>> rules, db.views
        (Rules(two(x, z)), ())
        """
        self._core.alive()
        return doors.register(self, text, plan)

    @writes
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
        self._core.alive()
        if not isinstance(name, str) or not name or not isinstance(text, str):
            raise InputError("E_TYPE", f"prepare({name!r}, {text!r})", "give a name and the text of a query")
        check_count("keep", keep, 0)
        return doors.prepare(self, name, text, keep)

    def function(self, name: str, function: Any, returns: Any = None) -> None:
        """Make a Python function of values, or one made by `udf`, callable from SQL; it must depend on its arguments
        alone.

        >>> import everview as ev
        >>> db = ev.connect()
        >>> db.function("double", lambda x: 2 * x, returns=int)
        >>> db.sql("SELECT double(21) AS x").rows()
        [(42,)]
        """
        if not isinstance(name, str) or not name:
            raise InputError("E_NAME", f"{name!r} is not a name", "give a non-empty string")
        if not isinstance(function, UserFunction):
            if returns is None:
                raise InputError("E_TYPE", f"what does {name} return?", "db.function(name, f, returns=float)")
            function = UserFunction(function, declared(returns), False)
        self._core.functions[name.lower()] = function
        self._core.catalog.functions.give(function.function)
        self._core.catalog.changed()  # statements that call it mean something else now

    # facts

    @overload
    def attribute(
        self, name: str, value: Any, *, entity: Any = int, semantics: str = "distinct", sources: Literal[False] = False
    ) -> Table: ...

    @overload
    def attribute(
        self, name: str, value: Any, *, entity: Any = int, semantics: str = "distinct", sources: Literal[True]
    ) -> View: ...

    @writes
    def attribute(
        self, name: str, value: Any, *, entity: Any = int, semantics: str = "distinct", sources: bool = False
    ) -> Table | View:
        """Declare an attribute of entities, for facts that `transact` asserts and retracts: a table of columns e and v.

        `semantics`: "distinct" (a fact holds or does not), "one" (an entity has one value, the last), "raw" (a bag).
        `sources`: several sources assert facts independently; the attribute is then a view of the union of all of them.

        >>> import everview as ev
        >>> db = ev.connect()
        >>> db.attribute("person/name", str, semantics="one")
        Collection(e int, v str)
        """
        self._core.alive()
        return doors.attribute(self, name, value, entity, semantics, sources)

    @writes
    def transact(self, changes: Iterable[Any], *, source: str | None = None) -> None:
        """Assert and retract facts in one transaction; `source` is the asserting source, for attributes with sources.

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
        self._core.alive()
        doors.transact(self, changes, source)

    @writes
    def retract_source(self, source: str) -> None:
        """Retract all facts asserted by a source, in one transaction.

        >>> import everview as ev
        >>> db = ev.connect()
        >>> tag = db.attribute("tag", str, sources=True)
        >>> db.transact([(1, "tag", "red"), (1, "tag", "old")], source="import")
        >>> db.transact([(1, "tag", "red")], source="ann")
        >>> db.retract_source("import")
        >>> tag.rows()
        [(1, 'red')]
        """
        self._core.alive()
        doors.retract_source(self, source)

    # pipelines

    def source(
        self,
        name: str,
        source: Any,
        *,
        key: str | Sequence[str] | None = None,
        mode: Literal["append", "upsert", "changes", "snapshot"] | None = None,
        schema: Mapping[str, Any] | None = None,
        bad: Literal["fail", "quarantine"] = "fail",
        missing: Literal["count", "reject"] = "count",
        change_column: str | None = None,
        max_rows_per_step: int | None = None,
        every: Duration = "10s",
    ) -> Table:
        """Create a table that is fed by a source when `run` is called: files (`everview.io`), a Spark DataFrame or
        stream, rows. An existing table of that name, after a restart say, continues from where it stopped.

        `mode` says what a record is: a row to "append"; one that replaces the row with its `key` ("upsert", the default
        with a key); a change ("changes": Delta's and Spark's `_change_type`, Debezium's op, or another
        `change_column`); or one row of a complete copy ("snapshot", read again at the interval `every` and compared
        with the previous contents). `schema` is inferred from the source by default. Bad records stop the run, or go to
        the table `<name>_rejected` (`bad="quarantine"`). A deletion of a missing key is counted (`Run.missing`), or is
        a bad record, too (`missing="reject"`).

        >>> import everview as ev
        >>> db = ev.connect()
        >>> stock = db.source("stock", ev.io.rows([("fig", 3), ("fig", 5)]), schema={"item": str, "n": int}, key="item")
        >>> print(db.run(until="caught_up").time, stock.rows())
        1 [('fig', 5)]
        """
        self._core.alive()
        return doors.pipeline(self._core).source(
            name,
            source,
            key=key,
            mode=mode,
            schema=schema,
            bad=bad,
            missing=missing,
            change_column=change_column,
            max_rows_per_step=max_rows_per_step,
            every=every,
        )

    def run(self, until: str | Duration | None = None, *, progress: bool | None = None) -> Run:
        """Read from the sources, one transaction per chunk, until all are caught up (`until="caught_up"`), for a
        duration ("5s"), or until Ctrl-C (None), which ends it cleanly. Returns a summary. `progress` shows a progress
        line; by default only in notebooks.
        """
        self._core.alive()
        self._core.transactions.refuse_supposed("sources cannot be read")
        return doors.pipeline(self._core).run(until, progress)

    # introspection

    @reads
    def stats(self) -> dict[str, Any]:
        """Time, where steps run, bytes, and every arrangement: updates, bytes, batches, how many operators and views
        read it, and which views depend on it. In a directory also the size of its log ("log_records", "log_bytes") and
        the seconds spent writing it ("log_seconds"); with `sync="full"` these are mostly the wait for the disk.
        """
        return inspect.stats(self._core)

    @reads
    def memory(self) -> Memory:
        """Memory usage by owner: "total" bytes; "arrangements", each with its size, its readers, and the tables and
        views that it is "for"; "holders", those tables and views, each with its "share" of shared state and what would
        be "freed" if it were dropped. Further keys: "dictionary" (of texts), "history" (what only earlier times need),
        "provenance" (expression nodes that views keep), "working" (scratch space), "copies", and "files" (state that
        did not fit into memory, not in the total). "step" is the peak memory growth of the last step, sampled between
        its operators. Process totals are "resident", "peak" and "unused". Prints as tables.

        >>> import everview as ev
        >>> db = ev.connect()
        >>> t = db.table("t", {"k": int, "x": int})
        >>> v = db.view("v", t.group_by("k").agg(s=t.x.sum()))
        >>> w = db.view("w", t.filter(t.x > 3).select("k").distinct())
        >>> t.insert([(i % 100, i) for i in range(10_000)])
        >>> found = db.memory()
        >>> sorted((h["name"], h["kind"]) for h in found["holders"])
        [('t', 'table'), ('v', 'view'), ('w', 'view')]
        >>> sum(h["share"] for h in found["holders"]) / sum(a["bytes"] for a in found["arrangements"]) > 0.999
        True
        """
        return memory(self._core)

    @reads
    def check(self) -> list[Difference]:
        """Recompute every view from the tables and compare: returns the rows of views that differ, none if all is well.
        It costs as much as computing everything once.

        >>> import everview as ev
        >>> db = ev.connect()
        >>> t = db.table("t", {"x": int})
        >>> v = db.view("v", t.distinct())
        >>> db.check()
        []
        """
        self._core.alive()
        return doors.check(self._core)

    def __getitem__(self, name: str) -> Any:
        """A table or view by name. (Which of the two is known only at run time, so type checkers must accept both
        `db["t"].insert(...)` and `db["v"].as_of(3)`.)
        """
        catalog = self._core.catalog
        found = (catalog.tables.get(name) or catalog.views.get(name)) if isinstance(name, str) else None
        if found is None:
            raise InputError(
                "E_NAME", f"no table or view is called {name!r}", did_you_mean(name, [*self.tables, *self.views])
            )
        return found

    def __contains__(self, name: object) -> bool:
        catalog = self._core.catalog
        there = isinstance(name, str) and (name in catalog.tables or name in catalog.views)
        return there and bool(self._core.access.visible([name]))  # type: ignore[list-item]

    @property
    def tables(self) -> tuple[str, ...]:
        """Names of the tables."""
        names = (n for n in list(self._core.catalog.tables) if not n.startswith(RESERVED_PREFIX))
        return tuple(self._core.access.visible(names))

    @property
    def views(self) -> tuple[str, ...]:
        """Names of the views."""
        names = [n for n in list(self._core.catalog.views) if not n.startswith((RESERVED_PREFIX, TRANSIENT))]
        return tuple(self._core.access.visible(names))


def _is_data(schema: Any) -> bool:
    """Whether the schema argument is data: anything but names with types."""
    if isinstance(schema, Mapping):
        return any(isinstance(v, list) or (hasattr(v, "tolist") and not isinstance(v, type)) for v in schema.values())
    return True
