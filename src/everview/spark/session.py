"""Sessions on Spark: `everview.connect(spark, state="directory")`.

The driver has the catalog, a replica of the dataflow and the store; tasks do the work (`driver.cluster`).
"""

from __future__ import annotations

import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from everview.codes.interner import Interner
from everview.dataflow.commands import rebuild
from everview.dataflow.replica import Replica
from everview.errors import StoreError
from everview.plan.serialisation import Functions
from everview.plan.trust import NOBODY, Trust
from everview.recovery.directory import Directory
from everview.recovery.migration import is_embedded, to_shards
from everview.recovery.stored_shards import StoredShards
from everview.runtime.sharded import ShardedRuntime
from everview.session.core import Core
from everview.session.names import entries as catalog_entries
from everview.session.names.hot_joins import follow_hot_keys
from everview.session.session import Session
from everview.spark.driver import cluster
from everview.spark.driver.cluster import SparkCluster
from everview.spark.local import on_this_machine
from everview.spark.rows.encoded import FOLDER as CODED
from everview.store import Store, dictionary_gc
from everview.store.manifest import BUILT, DECLARED
from everview.store.reshard import RowPartitioning, reshard

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def spark_session(
    spark: SparkSession,
    state: str,
    *,
    shards: int | None = None,
    alone_rows: int | None = None,
    alone_bytes: int | None = None,
    linger: float | None = None,
    forget: float | None = None,
    history: int = 1000,
    merge_effort: int = 4,
    trust: Trust = NOBODY,
) -> Session:
    """A session whose steps are Spark jobs and whose state is a directory."""
    if on_this_machine(spark.sparkContext.master or ""):
        spark.sparkContext.pythonExec = sys.executable  # workers on this machine need what this process has
    default = max(2, min(64, spark.sparkContext.defaultParallelism))
    options: dict[str, Any] = {"history": history, "merge_effort": merge_effort, "trust": trust}
    _take_over(state, shards or default, shards, **options)
    try:
        store, core, found = _opened(spark, state, shards or default, shards, **options)
    except StoreError as error:
        if error.code != "E_VERSION":
            raise
        _take_over(state, shards or default, shards, anew=True, **options)
        store, core, found = _opened(spark, state, shards or default, shards, **options)
    try:
        for name in store.files.list(CODED):
            store.files.delete(f"{CODED}/{name}")
        if alone_rows is not None:
            found.placing.alone_rows = alone_rows
        if alone_bytes is not None:
            found.placing.alone_bytes = alone_bytes
        if forget is not None:
            found.forget = forget
        if linger is not None:
            found.linger(linger)
        core.definitions.collect()  # what was built and then never declared
        session = Session(core)
        core.clock.catch_up()
    except BaseException:
        store.close()
        raise
    return session


def _take_over(state: str, default: int, shards: int | None, *, anew: bool = False, **options: Any) -> None:
    """Split the state of an embedded session into shards; `anew`: that of shards, too, by way of an embedded one."""
    with Store(state) as store:
        embedded = anew or is_embedded(store)
        wanted = shards or store.manifest.shards or default
    if embedded:
        with Store(state) as store:
            directory = Directory(store, "normal", **options)
            try:
                to_shards(directory, store, wanted)
            finally:
                directory.let_go()


def _opened(
    spark: SparkSession, state: str, default: int, shards: int | None, *, trust: Trust, **options: Any
) -> tuple[Store, Core, SparkCluster]:
    """Open the store, and the session in it."""
    store = Store(state, shards=default)
    try:
        _prepare(store, shards, trust)
        return store, *_open(spark, store, trust=trust, **options)
    except BaseException:
        store.close()
        raise


def _prepare(store: Store, shards: int | None, trust: Trust) -> None:
    """Bring the store into the requested form before anything is read."""
    with suppress(OSError, StoreError):  # what the last driver left: on a full disk, that is the room to go on
        store.collect(grace=cluster.COLLECT_GRACE)
    if store.manifest.version == 0:
        store.commit(0, shards=store.manifest.shards)  # the next session may have another default
    elif shards is not None and store.manifest.shards != shards:
        reshard(store, shards, _partitionings(store, trust))
    if dictionary_gc.due(store.manifest):
        with suppress(OSError, StoreError):  # no room: another time
            dictionary_gc.forget(store)


def _open(
    spark: SparkSession, store: Store, history: int, merge_effort: int, trust: Trust
) -> tuple[Core, SparkCluster]:
    """Open the session in the store."""
    built = Functions(trust=trust)
    replica = Replica(Interner(), merge_effort)
    found = SparkCluster(spark, store, replica.dataflow.interner, replica, Functions(travel=True, like=built))
    runtime = ShardedRuntime(replica, found)
    core = Core(runtime, history=history, trust=trust)
    try:
        # what was built and what was declared must find the same functions again
        core.catalog.functions = Functions(travel=True, like=built)
        core.catalog.entry_log = found
        stored = StoredShards(store, runtime, core, built)
        stored.load(found.follow)
        built.require(store.files.root)  # workers would run them
        core.catalog.require_functions()
        if built.old or core.catalog.functions.old:
            _write_anew(store, core, found, Functions(travel=True, like=built))
        found.knows(stored.words)
        core.clock.resume()
        runtime.backing = Committed(store)
        follow_hot_keys(core, runtime)
    except BaseException:
        core.closed = True
        found.close()
        runtime.dataflow.close()
        raise
    return core, found


def _write_anew(store: Store, core: Core, found: SparkCluster, known: Functions) -> None:
    """Rewrite a catalog of an older format."""
    catalog = core.catalog
    catalog.entries = [(entry, catalog_entries.encode(entry, known)) for entry, _ in catalog.entries]
    catalog.functions = known
    store.commit(
        store.manifest.time,
        commands=(*(BUILT + data for data in found.encoded), *(DECLARED + data for _, data in catalog.entries)),
        history=True,
        sinces=store.manifest.sinces,
    )
    found.passed()
    store.checkpoint()
    store.collect(grace=cluster.COLLECT_GRACE)


class Committed:
    """Backing of a session on Spark: a store in which every step is one commit."""

    read_only = False

    def __init__(self, store: Store) -> None:
        self.store: Store | None = store
        self._store = store

    def check_writable(self, what: str) -> None:
        pass

    def checkpoint(self) -> None:
        """Nothing to do: all state is in files."""

    def refresh(self) -> None:
        """Nothing to do: there is no other writer."""

    def close(self) -> None:
        self._store.close()

    def abandon(self) -> None:
        self._store.close()


def _partitionings(store: Store, trust: Trust) -> dict[int, RowPartitioning]:
    """The partitioning of each operator."""
    replica = Replica(Interner(), 1)
    rebuild(replica, store.manifest.built, Functions(trust=trust), store.manifest.fingerprints, store.files.root)
    found: dict[int, RowPartitioning] = {o.number: o.partitioning for o in replica.dataflow.numbered if o is not None}
    replica.close()
    return found
