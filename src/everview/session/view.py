"""Views: installed collections, kept up to date until dropped."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, overload

from everview.dataflow.batch_arrays import batch_arrays
from everview.dataflow.builder import Decided
from everview.dataflow.operators import Arrangement
from everview.errors import ClosedError, RowErrors
from everview.expr.evaluate import ERRORS
from everview.kernels.trace import read
from everview.kernels.trace.trace import NO_SINCE
from everview.language.collection import Collection
from everview.language.relation import relation_of
from everview.plan.explain import Explained
from everview.plan.multiway import ASKED
from everview.plan.nodes import Node
from everview.plan.rewrites import Simplification
from everview.session import doors
from everview.session.changes.turns import reads
from everview.session.inspect import arrangements, explain, failed_row
from everview.session.reads import concurrent_reads, keyed
from everview.session.reads.contents import Row
from everview.session.reads.rendering import Stats
from everview.session.reads.snapshot import Snapshot, check_time, first_columns, read_key, search
from everview.session.reads.subscribable import Subscribable
from everview.session.relations import ViewRelation

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from everview.codes.durations import Duration
    from everview.io.outlet import Outlet
    from everview.session.core import Core
    from everview.why.absence import WhyNot
    from everview.why.derivation import Derivation, Witnesses
    from everview.why.expression import Expression
    from everview.why.probability import Probability


class View(Subscribable):
    """An installed collection; created by `db.view`. It is a collection too: build more on top of it.

    >>> import everview as ev
    >>> from everview import col
    >>> db = ev.connect()
    >>> sales = db.table("sales", {"shop": str, "amount": int})
    >>> total = db.view("total", sales.group_by("shop").agg(amount=col.amount.sum()))
    >>> sales.insert([("north", 5), ("south", 2), ("north", 1)])
    >>> sorted(total.rows())
    [('north', 6), ('south', 2)]
    >>> sales.delete([("north", 5)])
    >>> sorted(total.changes(since=1))
    [(('north', 1), 2, 1), (('north', 6), 2, -1)]
    >>> total.lookup("south")
    [('south', 2)]
    """

    _relation: ViewRelation

    def __init__(self, core: Core, name: str, source: Collection, node: Node, arrangement: Arrangement) -> None:
        self._core = core
        self._relation = ViewRelation(core, name, source, node, arrangement)

    def _alive(self) -> None:
        if self._relation.dropped:
            raise ClosedError(
                "E_DROPPED", f"view {self._relation.label!r} was dropped", "install it again with db.view"
            )
        self._core.alive()

    # contents

    @reads
    def _read(self, time: int) -> Snapshot:
        self._alive()
        self._core.transactions.catch_up()
        if self._relation.fallible:
            self._refuse_errors(time)
        return Snapshot(self._core, self._relation.arrangement, self._relation.codec, time)

    def _now_beside(self) -> Snapshot | None:
        """The same while another thread's step runs."""
        if self._relation.dropped or concurrent_reads.has_failed(self._relation.fallible):
            return None
        return concurrent_reads.present(self._core, self._relation.arrangement, self._relation.codec)

    @concurrent_reads.beside(_now_beside)
    @reads
    def _now(self) -> Snapshot:
        """The current contents."""
        self._alive()
        self._core.transactions.catch_up()
        if (supposed := self._core.transactions.supposed()) is not None:
            return supposed.contents(self)
        return self._read(self._core.runtime.dataflow.time)

    def counts(self) -> dict[Row, int]:
        """Each distinct row with its multiplicity."""
        return self._now().counts()

    def as_of(self, time: int) -> Snapshot:
        """The contents at an earlier time (kept readable while the result lives)."""
        check_time("as_of", time)
        return self._read(time)

    def _lookup_beside(self, key: Any) -> list[Row] | None:
        """The same while another thread's step runs."""
        columns = self._relation.index or first_columns(self._relation.codec, key)
        arrangement = keyed.arrangement_by(self._relation, columns)
        if self._relation.dropped or arrangement is None or concurrent_reads.has_failed(self._relation.fallible):
            return None
        return concurrent_reads.looked_up(self._core, arrangement, self._relation.codec, columns, key)

    def lookup(self, key: Any) -> list[Row]:
        """Rows with this key: of the `index_by` columns if the view has any, else of the first column(s)."""
        found = keyed.looked_up(self._core, self._relation, self._relation.index, key)
        return self._lookup(key) if found is None else found

    @concurrent_reads.beside(_lookup_beside)
    @reads
    def _lookup(self, key: Any) -> list[Row]:
        """The same without a prepared reader."""
        self._alive()
        self._core.transactions.catch_up()
        if self._relation.fallible:
            self._refuse_errors()
        columns = self._relation.index or first_columns(self._relation.codec, key)
        arrangement = keyed.arrangement_by(self._relation, columns)
        if arrangement is None:
            if self._core.transactions.supposed() is not None:
                return search(self._now(), columns, key)
            arrangement = self._core.definitions.indexes.make(self, columns)
        return read_key(self._core, arrangement, self._relation.codec, columns, key)

    @reads
    def errors(self) -> list[tuple[str, int]]:
        """[(error, number of rows), ...] now; empty when all is well."""
        self._alive()
        self._core.transactions.catch_up()
        return self._errors_now()

    def _errors_now(self) -> list[tuple[str, int]]:
        supposed = self._core.transactions.supposed()
        return self._errors_at(self._core.time) if supposed is None else supposed.errors_now(self)

    def _errors_at(self, time: int) -> list[tuple[str, int]]:
        found: list[tuple[str, int]] = []
        self._core.runtime.sync(*self._relation.fallible)
        for operator in self._relation.fallible:
            assert operator.trace is not None
            batch = read.collect(operator.trace.address, NO_SINCE, max(time, operator.trace.stored_since), 0)
            if not batch:  # nothing has failed
                continue
            columns, _, counts = batch_arrays(batch, 1)
            read.release(batch)
            found.extend((ERRORS[code], n) for code, n in zip(columns[0].tolist(), counts.tolist(), strict=True))
        return found

    def _complete_beside(self, time: int | None = None) -> bool | None:
        """Whether nothing has failed, for a guest of a step; None if finding out takes a turn."""
        return (
            True
            if time is None and not self._relation.dropped and not concurrent_reads.has_failed(self._relation.fallible)
            else None
        )

    @concurrent_reads.beside(_complete_beside)
    @reads
    def _refuse_errors(self, time: int | None = None) -> None:
        """Raise if the contents, now or at a time, lack rows that could not be computed."""
        self._alive()
        self._core.transactions.catch_up()
        now = self._core.time
        found = self._errors_now() if time is None else self._errors_at(min(time, now))
        if found:
            what = ", ".join(f"{text} ({n})" for text, n in found)
            when = "" if time is None or time == now else f" at time {time}"
            rows = (failed_row(self._core, o, now if time is None else min(time, now)) for o in self._relation.fallible)
            row = next((r for r in rows if r is not None), None) if self._core.access.acting() is None else None
            if row is not None:
                what += f", for example for {row[1]!r} of table {row[0]!r}"
            raise RowErrors(
                "E_ROWS",
                f"view {self._relation.label!r} holds rows that could not be computed{when}: {what}",
                "correct or delete their inputs, or guard the expression with when(...); errors() lists them",
            )

    # elsewhere

    def write_to(
        self, sink: Any, *, mode: Literal["changes", "snapshot"] = "changes", every: Duration | None = None
    ) -> Outlet:
        """Keep a sink up to date: files (`everview.io.parquet("out/sales")`), a function, or another of `everview.io`.

        `mode="changes"` writes the changes of each time exactly once, even across restarts of a durable session, with
        columns `_time` and `_diff`; the current contents come first. `mode="snapshot"` keeps a copy of the contents,
        rewritten at most at the interval `every`.

        >>> import everview as ev, tempfile, pathlib
        >>> db = ev.connect()
        >>> t = db.table("t", {"x": int})
        >>> v = db.view("v", t.distinct())
        >>> out = pathlib.Path(tempfile.mkdtemp()) / "v.csv"
        >>> outlet = v.write_to(ev.io.csv(out), mode="snapshot")
        >>> t.insert([(1,), (1,)])
        >>> out.read_text().split()
        ['"x"', '1']
        """
        self._alive()
        return doors.outlet(self, self._core, sink, mode, every)

    def to_spark(self, spark: SparkSession | None = None, *, changes: bool = False) -> DataFrame:
        """The current contents as a Spark DataFrame; timestamps are instants (UTC). With `changes`, a streaming
        DataFrame of the current contents and every change from now on, with columns `_time` and `_diff`; this requires
        a durable session.

        `spark` defaults to the session's own, or the active one.

        >>> revenue.to_spark().createOrReplaceTempView("revenue")  # doctest: +SKIP
        >>> revenue.to_spark(changes=True).writeStream.format("console").start()  # doctest: +SKIP
        """
        self._alive()
        return doors.to_spark(self, self._core, spark, changes)

    # introspection

    @reads
    def explain(self) -> str:
        """The plan, how joins of several inputs are maintained and why, and the arrangements with their sizes and
        numbers of readers.
        """
        self._alive()
        kept = explain(self._core, self)
        return Explained(f"{self._relation.source.explain()}\n{kept}")

    @reads
    def replan(self, plan: str = "best") -> int:
        """Maintain the view's joins by another plan from now on: "best" (the cheapest for the current rows), "binary",
        "delta", "wco", or "written" (as when it was created). The view's contents, history, subscribers, sinks and
        readers are unaffected. A join that other views share changes for all of them. Returns how many joins have a
        different plan than before.

        >>> import everview as ev
        >>> db = ev.connect()
        >>> a, b, c = (db.table(name, {"x": int, "y": int}) for name in "abc")
        >>> for table in (a, b, c):
        ...     table.insert([(1, 1), (1, 2), (2, 1)])
        >>> paths = db.view("paths", a.join(b, a.y == b.x).join(c, b.y == c.x).select(x=a.x, y=c.y))
        >>> before, time = sorted(paths.rows()), db.time
        >>> paths.replan("delta"), sorted(paths.rows()) == before, db.time == time
        (1, True, True)
        """
        self._alive()
        return doors.replan(self._core, self, plan)

    def _said(self, decision: Decided) -> Decided:
        """A decision together with its reason."""
        why = relation_of(self._relation.source).plan_why
        if isinstance(decision, Simplification) or not why or decision.why != ASKED:
            return decision
        return replace(decision, why=why)

    @overload
    def why(self, row: Any, *, all: None = None, time: int | None = None) -> Derivation: ...

    @overload
    def why(self, row: Any, *, all: int, time: int | None = None) -> Witnesses: ...

    @reads
    def why(self, row: Any, *, all: int | None = None, time: int | None = None) -> Derivation | Witnesses:
        """Explain why a row is here: a `Derivation`, whose `children` are rows that it follows from, down to rows of
        tables.

        Rows found by a loop are explained by rows found earlier, so nothing explains itself. For an aggregate, some of
        its rows are shown. Everything is looked up on request: nothing is stored, and time does not advance. `all=k`
        returns up to k explanations (`Witnesses`), none of which contains another. `time` selects an earlier time, as
        far as history reaches.

        >>> import everview as ev
        >>> from everview import col
        >>> db = ev.connect()
        >>> sales = db.table("sales", {"shop": str, "amount": int})
        >>> best = db.view("best", sales.group_by("shop").agg(most=col.amount.max()))
        >>> sales.insert([("north", 5), ("north", 7), ("south", 2)])
        >>> print(best.why(("north", 7)))
        best('north', 7)  Reduce by shop: most = max(amount); 1 of 2 rows shown
        └─ sales('north', 7)
        """
        return doors.why(self, row, all, time)

    @reads
    def why_not(self, row: Any, *, time: int | None = None) -> WhyNot:
        """Explain why a row is not here: for each way in which it could be derived, what is missing. Values may be left
        open with None or `...`.

        >>> import everview as ev
        >>> from everview import col
        >>> db = ev.connect()
        >>> sales = db.table("sales", {"shop": str, "amount": int})
        >>> large = db.view("large", sales.filter(col.amount > 4))
        >>> sales.insert([("north", 3)])
        >>> print(large.why_not(("north", None)))
        large('north', _) is not there:
        - Filter amount > 4 is not true for ('north', 3)
        >>> large.why_not(("south", 9)).missing()
        [('sales', ('south', 9))]
        """
        return doors.why_not(self, row, time)

    def trust(self, row: Any, *, without: Any) -> bool:
        """Whether a row would still be here without some rows of tables. `without` names a table, or several, all of
        whose rows are excluded (`without="feed"`); or it maps tables to rows, or to a function of a row.

        It is exact for every view: if no derivation shows that the row holds, `db.what_if` decides.

        >>> import everview as ev
        >>> db = ev.connect()
        >>> edge = db.table("edge", {"src": str, "dst": str, "source": str})
        >>> rules = db.datalog('reach("a"). reach(Y) :- reach(X), edge(X, Y, _).')
        >>> edge.insert([("a", "b", "map"), ("b", "c", "map"), ("a", "c", "rumour"), ("c", "d", "rumour")])
        >>> rules.reach.trust(("c",), without={"edge": lambda row: row[2] == "rumour"})
        True
        >>> rules.reach.trust(("d",), without={"edge": [("c", "d", "rumour")]})
        False
        """
        return doors.trust(self, row, without)

    @reads
    def probability(self, row: Any, chances: Any, *, nodes: int = 100_000) -> Probability:
        """The probability of a row if rows of tables may be missing, independently of each other. `chances` gives the
        probability of each table's rows: as one number, by row, or as a function of a row. Tables that are not named
        are certain.

        The result is exact while the decision diagrams of all derivations have at most `nodes` nodes; beyond that it
        has bounds (`Probability.exact`, `.lower`, `.upper`). Only monotone views have probabilities: those that never
        gain a row when a table loses one (E_MONOTONE).

        >>> import everview as ev
        >>> db = ev.connect()
        >>> edge = db.table("edge", {"src": str, "dst": str})
        >>> rules = db.datalog('reach("a"). reach(Y) :- reach(X), edge(X, Y).')
        >>> edge.insert([("a", "b"), ("b", "c"), ("a", "c"), ("c", "a")])
        >>> float(rules.reach.probability(("c",), {"edge": 0.5}))
        0.625
        >>> print(rules.reach.probability(("c",), {"edge": {("a", "c"): 0.9, ("b", "c"): 0.5}}))
        0.95
        """
        return doors.probability(self, row, chances, nodes)

    @reads
    def provenance(self, row: Any) -> Expression:
        """The provenance expression of a row, in a view created with `provenance=`: which table rows it derives from,
        and in which worlds it would still be there. The row is given with or without its provenance.

        >>> import everview as ev
        >>> db = ev.connect()
        >>> edge = db.table("edge", {"src": str, "dst": str})
        >>> two = edge.join(edge.rename(dst="src", to="dst"), on="dst").select("src", "to").distinct()
        >>> hops = db.view("hops", two, provenance="bdd")
        >>> edge.insert([("a", "b"), ("b", "d"), ("a", "c"), ("c", "d")])
        >>> print(hops.provenance(("a", "d")))
        (edge('a', 'b') & edge('b', 'd')) | (edge('a', 'c') & edge('c', 'd'))
        >>> hops.provenance(("a", "d")).probability({"edge": 0.5})
        0.4375
        """
        self._alive()
        self._core.transactions.catch_up()
        return doors.provenance(self, row)

    @reads
    def provenances(self) -> dict[Row, Expression]:
        """All rows of a view created with `provenance=`, without that column, and their expressions."""
        self._alive()
        self._core.transactions.catch_up()
        return dict(doors.provenances(self))

    @reads
    def stats(self) -> dict[str, Any]:
        """Rows, time, and the arrangements in use: rows, bytes, batches, readers."""
        self._alive()
        self._core.transactions.catch_up()
        held = arrangements(self._core, self._relation.arrangement.operator)
        present = Snapshot(
            self._core, self._relation.arrangement, self._relation.codec, self._core.runtime.dataflow.time
        )
        return Stats(
            {
                "name": self._relation.label,
                "time": self._core.time,
                "rows": int(present._contents()[1].sum()),
                "bytes": sum(a["bytes"] for a in held),
                "arrangements": held,
            }
        )

    @reads
    def drop(self) -> None:
        """Drop the view and free what nothing else needs."""
        self._alive()
        self._core.changing()
        self._core.definitions.views.drop(self)
