"""Follows a directory that Spark jobs write: `everview.connect("directory", read_only=True)`; it needs no Spark."""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Set
from typing import Any, NoReturn

import numpy as np

from everview.codes.interner import Interner
from everview.dataflow.dataflow import Dataflow
from everview.dataflow.replica import Added, Command, Replica
from everview.dataflow.superstep import Inputs
from everview.errors import InputError
from everview.plan.serialisation import Functions
from everview.plan.trust import NOBODY, Trust
from everview.recovery.stored_shards import StoredShards, all_contents_of, measure_of
from everview.runtime.base import RemoteRows, RemoteTarget, Resharder
from everview.runtime.sharded import ShardedRuntime, ShardStep
from everview.session.core import Core
from everview.session.names.catalog import Unkept
from everview.store import Store


def follow_shards(
    store: Store, *, history: int = 1000, merge_effort: int = 4, threads: int | None = 1, trust: Trust = NOBODY
) -> Core:
    """A session that reads the commits of a sharded directory."""
    replica = Replica(Interner(), merge_effort)
    runtime = ShardedRuntime(replica, ReadOnlyCluster(store, replica))
    core = Core(runtime, history=history, trust=trust)
    built = Functions(trust=trust)
    core.catalog.entry_log = Unkept()
    core.catalog.functions = Functions(travel=True, like=built)
    shards = StoredShards(store, runtime, core, built)
    try:
        shards.load()
    except BaseException:
        core.closed = True
        runtime.dataflow.close()
        raise
    runtime.backing = FollowedShards(store, shards)
    return core


class FollowedShards:
    """The storage of a read-only session of shards."""

    read_only = True

    def __init__(self, store: Store, shards: StoredShards) -> None:
        self.store: Store | None = store
        self._store = store
        self._shards = shards

    def check_writable(self, what: str) -> None:
        """Refuse: it is read-only."""
        _refuse(self._store)

    def checkpoint(self) -> None:
        _refuse(self._store)

    def refresh(self) -> None:
        """Catch up with the writer."""
        for commit in self._store.refresh():
            self._shards.take(commit)

    def close(self) -> None:
        self._store.close()

    def abandon(self) -> None:
        self._store.close()


class ReadOnlyCluster:
    """The shards of a read-only directory."""

    in_process = False

    def __init__(self, store: Store, replica: Replica) -> None:
        self._store = store
        self._replica = replica
        self.shards = store.manifest.shards

    def build(self, command: Command, inputs: Inputs, wanted: Set[int]) -> NoReturn:
        _refuse(self._store)

    def step(self, step: ShardStep, wanted: Set[int]) -> NoReturn:
        _refuse(self._store)

    def undo(self) -> None:
        """Nothing is computed here."""

    def suppose(self, step: ShardStep, wanted: Set[int]) -> list[Added]:
        raise InputError(
            "E_READ_ONLY",
            f"{self._store.files.root} is open for reading only, without the shards that would run the step",
            "ask what_if in the session that writes there",
        )

    def contents(self, operators: set[int]) -> Iterable[Added]:
        return all_contents_of(self._store, operators)

    def dataflows(self) -> Sequence[Dataflow]:
        return ()

    def measure(self) -> np.ndarray:
        return measure_of(self._store.manifest, len(self._replica.dataflow.numbered))

    def encode_remote(self, target: RemoteTarget, rows: Any) -> RemoteRows | None:
        return None

    def resharding(self, shards: int) -> Resharder | None:
        _refuse(self._store)

    def where(self) -> str:
        return "where the writer has them"

    def close(self) -> None:
        pass


def _refuse(store: Store) -> NoReturn:
    raise InputError("E_READ_ONLY", f"{store.files.root} is open for reading only", "change it where it is written")
