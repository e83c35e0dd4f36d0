"""Sessions on Spark: `everview.connect(spark, state="directory")`.

The driver has the catalogue, the skeleton of the dataflow and the store; the work is done by tasks (`cluster`). A
directory holds two kinds of commands: what people declared (tables, views: see `everview.catalogue`) and, one by one,
what was built for it on the shards. The latter give operators their numbers, so opening builds them first, and then
finds in them what was declared.

`StoredShards` is the part that needs no Spark: it is also what `everview.connect(directory, read_only=True)` reads such
a directory with.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterable, Sequence, Set
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import numpy as np

from everview import journal
from everview.catalogue import Catalogued
from everview.clock import Expiring
from everview.codes.interner import Interner
from everview.dataflow import saved
from everview.dataflow.lockstep import Inputs
from everview.dataflow.operators import Arrangement, Operator
from everview.dataflow.replica import Added, Command, Install, MakeTable, Replica
from everview.durable import NOW, DurableSession
from everview.errors import InputError, StoreError
from everview.io.fitting import Fitting
from everview.marks import change_marks
from everview.moving import is_embedded, to_shards
from everview.plan import nodes as plan
from everview.plan.frozen import Functions
from everview.plan.multiway import Choice
from everview.plan.trust import NOBODY, Trust
from everview.sharded import Cluster, ShardedSession
from everview.spark import cluster
from everview.spark.cluster import SparkCluster, contents_of, measure_of
from everview.spark.coded import FOLDER as CODED
from everview.spark.coded import Absent, Coded, in_table_order
from everview.spark.coding import Target, code
from everview.spark.frames import FrameRows
from everview.spark.interrupts import put_off
from everview.spark.job import check_built, read_command, rebuild
from everview.spark.local import on_this_machine
from everview.store import Store, words
from everview.store.manifest import BUILT, DECLARED
from everview.store.reshard import Spread, reshard
from everview.table import Table
from everview.transacting import Change, Work, not_there
from everview.turns import reads

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class StoredShards(Catalogued, ShardedSession):
    """A session whose shards' state is in a directory."""

    def __init__(self, store: Store, *, trust: Trust = NOBODY, **options: Any) -> None:
        self._store = store
        self._loading = False
        self._built_functions = Functions(trust=trust)
        super().__init__(trust=trust, **options)
        self._plan_functions = self._more_functions()

    def _more_functions(self) -> Functions:
        """For another catalogue: what was built and what was declared must find the same functions again."""
        return Functions(travel=True, like=self._built_functions)

    # opening

    def _load(self) -> None:
        """Become what the directory says."""
        manifest = self._store.manifest
        for ref in manifest.dictionary:
            self._interner.load(self._store.get_dictionary(ref))
        self._stored_words = len(self._interner)  # what is built may bring others
        rebuild(self._skeleton, manifest, self._built_functions, self._store.files.root, self._follow)
        self._graph.time = manifest.time
        declared = [data[1:] for data in manifest.commands if data[:1] == DECLARED]
        entries = [(journal.decode(data, self._store.files.root, self._plan_functions), data) for data in declared]
        with self._loaded():
            for entry, data in journal.surviving(entries):  # the operators of what was dropped are gone
                self._perform(entry, data)
        self._marks = dict(manifest.marks)
        self._again = {*self._tables, *self._views}

    def _follow(self, command: Command) -> None:
        """Build operators whose state is in the directory."""
        self._skeleton.load([command])
        for number, since in self._store.manifest.sinces.items():
            operator = self._graph.numbered[number] if number < len(self._graph.numbered) else None
            if operator is not None and operator.trace is not None and operator.scope.is_root:
                saved.set_since(operator.trace, since)

    def _loaded(self) -> Any:
        return _Flag(self)

    def _add_table(
        self, node: plan.Table, order: tuple[int, ...], name: str, history: int, rows: Sequence[tuple[int, ...]] = ()
    ) -> Arrangement:
        if not self._loading:
            return super()._add_table(node, order, name, history, rows)
        return self._builder.tables[node.id]

    def _install(
        self, node: plan.Node, keys: tuple[int, ...], history: int = 0, choice: Choice | None = None
    ) -> Arrangement:
        if not self._loading:
            return super()._install(node, keys, history, choice)
        built = len(self._graph.numbered)
        arrangement = self._builder.stored(node, self._builder.planned(node, choice)[0], keys)
        if len(self._graph.numbered) != built:
            raise StoreError(
                "E_VERSION",
                f"{self._store.files.root} was written by another version of Everview: a view would be built anew",
                "open it with that version, or load its tables into a new directory",
            )
        return arrangement

    def _keep_only(self, roots: list[Operator]) -> None:
        if not self._loading:
            super()._keep_only(roots)


def _spreads(store: Store, trust: Trust) -> dict[int, Spread]:
    """Where the rows of each operator belong."""
    replica = Replica(Interner(), 1)
    rebuild(replica, store.manifest, Functions(trust=trust), store.files.root)
    found: dict[int, Spread] = {o.number: o.spread for o in replica.graph.numbered if o is not None}
    replica.close()
    return found


class _Flag:
    """What is done inside was done before: it is only found again."""

    def __init__(self, session: StoredShards) -> None:
        self._session = session

    def __enter__(self) -> None:
        self._session._loading = True

    def __exit__(self, *exc: object) -> None:
        self._session._loading = False


class SparkBackedSession(StoredShards):
    """A session whose steps are Spark jobs and whose state is a directory; made by `everview.connect(spark, ...)`."""

    def __init__(
        self,
        spark: SparkSession,
        state: str,
        *,
        shards: int | None = None,
        alone_rows: int | None = None,
        linger: float | None = None,
        forget: float | None = None,
        **options: Any,
    ) -> None:
        self._closed = True  # until it is open
        self._spark = spark
        if on_this_machine(spark.sparkContext.master or ""):
            spark.sparkContext.pythonExec = sys.executable  # workers on this machine need what this process has
        usual = max(2, min(64, spark.sparkContext.defaultParallelism))
        with Store(state) as store:
            embedded = is_embedded(store)
            wanted = shards or store.manifest.shards or usual
        if embedded:
            to_shards(DurableSession(state, **options), wanted)
        store = Store(state, shards=shards or usual)
        try:
            with suppress(OSError, StoreError):  # what the last driver left: on a full disk, that is the room to go on
                store.collect(grace=cluster.COLLECT_GRACE)
            if store.manifest.version == 0:
                store.commit(0, shards=store.manifest.shards)  # whoever opens it next may have another default
            elif shards is not None and store.manifest.shards != shards:
                reshard(store, shards, _spreads(store, options.get("trust", NOBODY)))
            if words.due(store.manifest):
                with suppress(OSError, StoreError):  # no room: another time
                    words.forget(store)
            super().__init__(store, **options)
            self._load()
            self._built_functions.require(store.files.root)  # workers would run them
            self._plan_functions.require(store.files.root)
            self._write_anew()
            self._cluster.knows(self._stored_words)
            self._clock.resume(int(self._marks.get(NOW, 0)))
            for name in store.files.list(CODED):
                store.files.delete(f"{CODED}/{name}")
            if alone_rows is not None:
                self._cluster.alone_rows = alone_rows
            if forget is not None:
                self._cluster.forget = forget
            if linger is not None:
                self._cluster.linger(linger)
            self._collect()  # what was built and then never declared
        except BaseException:
            store.close()
            raise

    _cluster: SparkCluster

    def _write_anew(self) -> None:
        """A catalogue that was written otherwise is written as it is today."""
        if not self._built_functions.old and not self._plan_functions.old:
            return
        known = self._more_functions()
        self._entries = [(entry, journal.encode(entry, known)) for entry, _ in self._entries]
        self._plan_functions = known
        built = (BUILT + data for data in self._cluster.encoded)
        store = self._store
        store.commit(
            store.manifest.time,
            commands=(*built, *(DECLARED + data for _, data in self._entries)),
            history=True,
            sinces=store.manifest.sinces,
        )
        self._cluster.passed()
        store.checkpoint()
        store.collect(grace=cluster.COLLECT_GRACE)

    def _make_cluster(self, merge_effort: int) -> Cluster:
        return SparkCluster(self._spark, self._store, self._interner, self._skeleton, self._more_functions())

    def _follow(self, command: Command) -> None:
        super()._follow(command)
        self._cluster.follow(command)

    def _build(self, command: MakeTable | Install) -> Arrangement:
        with put_off():
            return super()._build(command)

    def _keep_only(self, roots: list[Operator]) -> None:
        with put_off():
            super()._keep_only(roots)

    def _keep(self, entry: bytes) -> None:
        with put_off():
            self._store.commit(self._graph.time, commands=(DECLARED + entry,))
            self._cluster.passed()

    def _run(self, transactions: list[Work]) -> None:
        if self._clock.followers:
            transactions[-1].marks[NOW] = str(self._clock.now)
        marks = {name: value for work in transactions for name, value in work.marks.items()}
        self._cluster.notes = {"marks": marks} if marks else {}
        coded = [rows for work in transactions for _, rows, _ in work if isinstance(rows, Coded)]  # never in a batch
        self._cluster.coded = tuple(rows.at(self._graph.time + 1) for rows in coded)
        try:
            with put_off():
                super()._run([Work(c for c in work if not isinstance(c[1], Coded)) for work in transactions])
        finally:
            self._cluster.notes, self._cluster.coded = {}, ()

    def _absent(self, changes: Iterable[Change], error: InputError) -> InputError:
        if isinstance(error, Absent):
            table = next(t for t in self._tables.values() if t._id == error.table)
            row = in_table_order(next(iter(error.rows)), table._arrangement.order)
            error.message = not_there(table, row).message
            return error
        return super()._absent([c for c in changes if not isinstance(c[1], Coded)], error)

    def _code_there(self, table: Table, rows: Any, fitting: Fitting, place: str, how: str) -> Coded | None:
        """Some of the clock's followers want to see every row; so does a batch, in which more may happen to the
        table.
        """
        followers = [f for f in self._clock.followers if f.table is table]
        if not isinstance(rows, FrameRows) or self._queued is not None or not all(f.takes(how) for f in followers):
            return None
        until = next((f.until for f in followers if isinstance(f, Expiring)), None)
        now = self._clock.settle() if followers else 0
        target = Target(self._store.files, table._id, table._arrangement, table._key, self._cluster.shards, until, now)
        return code(rows.frame, fitting, place, how, target)

    def _commit_timed(self, changes: Work) -> None:
        """Rows that were coded elsewhere were compared with the clock then: it is that moment still."""
        moments = [rows.now for _, rows, _ in changes if isinstance(rows, Coded) and rows.now]
        if moments:
            self._clock.target = max(moments)
        try:
            super()._commit_timed(changes)
        finally:
            if moments:
                self._clock.target = None

    def __del__(self) -> None:
        if not getattr(self, "_closed", True) and threading.main_thread().is_alive():
            self.close()


class ShardReader(StoredShards):
    """A session that reads a directory which Spark jobs write: `everview.connect(directory, read_only=True)`."""

    def __init__(self, store: Store, **options: Any) -> None:
        self._closed = True
        try:
            super().__init__(store, **options)
            self._load()
        except BaseException:
            store.close()
            raise

    def _make_cluster(self, merge_effort: int) -> Cluster:
        return _Shelf(self)

    def _keep(self, entry: bytes) -> None:
        raise _read_only(self._store)

    @reads
    def refresh(self) -> int:
        """Catch up with the writer; gives the time that was reached."""
        self._alive()
        commits = self._store.refresh()
        for commit in commits:
            self._take(commit)
        if self._listening:
            self._take_batches()
        return self.time

    def _take(self, commit: Any) -> None:
        if commit.history:  # it has changed hands
            raise self._store.stale()
        for ref in () if commit.whole_dictionary else commit.dictionary:  # else it brings the same in fewer pieces
            self._interner.load(self._store.get_dictionary(ref))
        for data in commit.commands:
            if data[:1] == BUILT:
                self._follow(read_command(data[1:], self._built_functions))
                check_built(self._skeleton.fingerprint(), commit.fingerprints, self._store.files.root)
            else:
                with self._loaded():
                    where = self._store.files.root
                    self._perform(journal.decode(data[1:], where, self._plan_functions), data[1:])
        self._graph.time = commit.time
        self._fill(self._filled, contents_of(self._store, commit.adds))
        change_marks(self._marks, commit.marks)


class _Shelf:
    """The shards of a directory that is only read."""

    def __init__(self, session: ShardReader) -> None:
        self._session = session
        self.shards = session._store.manifest.shards

    def build(self, command: Command, inputs: Inputs, wanted: Set[int]) -> list[Added]:
        raise _read_only(self._session._store)

    def step(self, inputs: Inputs, epochs: int, wanted: Set[int]) -> list[Added]:
        raise _read_only(self._session._store)

    def contents(self, operators: set[int]) -> Iterable[Added]:
        store = self._session._store
        lists = ((o, s, ref) for (o, s), refs in store.manifest.lists.items() if o in operators for ref in refs)
        return contents_of(store, lists)

    def measure(self) -> np.ndarray:
        return measure_of(self._session._store.manifest, len(self._session._graph.numbered))

    def close(self) -> None:
        self._session._store.close()


def _read_only(store: Store) -> InputError:
    return InputError("E_READ_ONLY", f"{store.files.root} is open for reading only", "change it where it is written")
