"""Moves a directory between runtimes: an embedded dataflow becomes shards for Spark, and vice versa.

Both runtimes store the same things: tables, views, dictionary, marks, and the batches of every operator. They differ in
the number of parts per operator, and in a few operators. A directory is moved by building the other dataflow from the
catalog and giving every operator the batches of its counterpart (`everview.dataflow.operator_matching`): nothing is
computed and no history is lost. The exceptions are views with an operator that has no counterpart: joins of many inputs
at once, for which shards keep copies of rows (`everview.dataflow.partitioning`), and whatever needs a global index
(joins without an equality, windows over all rows). Those are computed, and their history begins anew.

All of it is one commit. A crash before it leaves the directory as it was; after it, the move is complete.

Hazard: one process does it in its own memory, which must hold what an embedded session holds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from contextlib import suppress
from dataclasses import replace
from typing import Any, Protocol

import numpy as np

from everview.codes.interner import Interner
from everview.dataflow import saved_state, superstep
from everview.dataflow.builder import Builder
from everview.dataflow.commands import Commands, built_again, is_as_built, read_command
from everview.dataflow.dataflow import Dataflow
from everview.dataflow.operator_matching import OperatorMatching
from everview.dataflow.operators import Arrangement, Operator
from everview.dataflow.replica import Added, Command, Keep, MakeTable, Replica
from everview.dataflow.superstep import Inputs, NoOtherShards, Shard
from everview.errors import InternalError, StoreError
from everview.plan.serialisation import Functions
from everview.recovery.outdated_shards import StoredTables, compute_views, numbers_of_tables
from everview.runtime.base import RemoteRows, RemoteTarget
from everview.runtime.embedded import EmbeddedRuntime
from everview.runtime.sharded import Commit, OnShards, ShardedRuntime, ShardStep
from everview.session.core import Core
from everview.session.names import entries as catalog_entries
from everview.session.names.catalog import Unkept
from everview.session.names.entries import Entry
from everview.session.names.entry_compaction import compacted
from everview.store import Image, Manifest, Ref, Store
from everview.store.logs import read_log
from everview.store.manifest import BUILT, DECLARED, Place
from everview.store.reshard import split


class StateLost(Exception):
    """An operator's counterpart was dropped, and its state with it."""


class Migration:
    """A dataflow under construction, at the current time, that takes over another's state."""

    def __init__(self, dataflow: Dataflow, builder: Builder, counterparts: OperatorMatching, origin: Origin) -> None:
        self._dataflow = dataflow
        self._builder = builder
        self._counterparts = counterparts
        self._origin = origin
        self._unfilled: list[Operator] = []

    def settle(self, compute: Callable[[], None]) -> None:
        """After building something: take over the state of its counterparts if it has them, else compute it."""
        new = set(self._dataflow.new())
        if not new:
            return
        piece, made = next(reversed(self._builder.pieces.items()))
        if new == set(made) and self._counterparts.find(piece, made):
            self._unfilled += made
            self._dataflow.installed()
            return
        if any(self._lost(o) for o in self._dataflow.needed(new)):
            raise StateLost
        self.fill()
        compute()

    def _lost(self, operator: Operator) -> bool:
        found = self._counterparts.of.get(operator)
        return found is not None and found.freed

    def leftovers(self) -> bool:
        """Whether there are operators whose counterparts were dropped."""
        return any(self._lost(o) for o in saved_state.live(self._dataflow))

    def fill(self) -> None:
        """Give operators without state their counterparts' batches."""
        for operator in self._unfilled:
            trace = None if operator.freed else saved_state.state_of(operator)
            other = self._counterparts.of[operator]
            if trace is not None and not other.freed:
                if trace.scope.is_root:
                    saved_state.restore_since(trace, self._origin.since(other))
                for image in self._origin.images(other):
                    saved_state.put_back(trace, image, self._dataflow.time)
        self._unfilled.clear()

    def holding(self) -> Iterator[tuple[Operator, int | None, Iterable[Image]]]:
        """All stateful operators: (operator, start of its history, batches), wherever they are."""
        unfilled = set(self._unfilled)
        for operator in saved_state.live(self._dataflow):
            trace = saved_state.state_of(operator)
            if trace is not None and operator not in unfilled:
                yield operator, saved_state.since(trace), saved_state.images(trace)
            elif trace is not None:
                other = self._counterparts.of[operator]
                yield operator, self._origin.since(other) if trace.scope.is_root else None, self._origin.images(other)


class Origin(Protocol):
    """The location of operators' state."""

    def images(self, operator: Operator) -> Iterable[Image]:
        """An operator's batches."""

    def since(self, operator: Operator) -> int:
        """The start of the history of an operator outside loops."""


class _InTraces:
    """In its own traces."""

    def images(self, operator: Operator) -> Iterable[Image]:
        trace = saved_state.state_of(operator)
        return () if trace is None else saved_state.images(trace)

    def since(self, operator: Operator) -> int:
        assert operator.trace is not None
        return operator.trace.since


class _InLists:
    """In a store's lists, of whatever shards."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._sinces = store.manifest.sinces
        self._refs: dict[int, list[Ref]] = {}
        for (operator, _), refs in sorted(store.manifest.lists.items(), key=lambda item: item[0]):
            self._refs.setdefault(operator, []).extend(refs)

    def images(self, operator: Operator) -> Iterable[Image]:
        return (self._store.get(ref) for ref in self._refs.get(operator.number, ()))

    def since(self, operator: Operator) -> int:
        return self._sinces.get(operator.number, 0)


# ------------------------------------------------------------------------------- from shards


class TakenOver:
    """New operators take over their state from another dataflow, or compute it where they cannot."""

    def __init__(self, migration: Migration) -> None:
        self._migration = migration

    def settle(self, dataflow: Dataflow) -> None:
        self._migration.settle(dataflow.install)

    def present(self, rows: Sequence[tuple[int, ...]]) -> Sequence[tuple[int, ...]]:
        return ()


def from_shards(core: Core, runtime: EmbeddedRuntime, store: Store, manifest: Manifest) -> None:
    """Fill an empty embedded session with the state of shards."""
    replica = Replica(runtime.interner, 1)
    built = Functions(trust=core.catalog.trust)
    where = store.files.root
    commands = [read_command(data, built) for data in manifest.built]
    found = built_again(replica, commands)
    declared = Functions(travel=True, like=built)
    entries = [catalog_entries.decode(data, where, declared) for data in manifest.declared]
    declared.require(where)
    if not is_as_built(found, manifest.fingerprints):
        numbers = numbers_of_tables(manifest, commands, replica)
        replica.close()
        living = [entry for entry, _ in compacted((entry, b"") for entry in entries)]
        compute_views(core, runtime, store, living, StoredTables(store, manifest, numbers, runtime))
        return
    try:
        _take_over(core, runtime, store, entries, OperatorMatching(replica.builder.pieces))
    except StateLost:
        begin_again(core, runtime)
        _take_over(core, runtime, store, entries, OperatorMatching(replica.builder.pieces, strict=True))
    replica.close()


def begin_again(core: Core, runtime: EmbeddedRuntime) -> None:
    """Reset: no names, no operators."""
    core.catalog.clear()
    core.clock.agenda.remove(lambda follower: True)
    runtime.begin_again()


def _take_over(
    core: Core, runtime: EmbeddedRuntime, store: Store, entries: Iterable[Entry], counterparts: OperatorMatching
) -> None:
    runtime.dataflow.time = store.manifest.time
    migration = Migration(runtime.dataflow, runtime.builder, counterparts, _InLists(store))
    with runtime.filling(TakenOver(migration)):
        for entry in entries:
            core.definitions.replay.perform(entry)
        if migration.leftovers():  # shards drop unread operators whenever they are opened
            core.definitions.replay.perform(catalog_entries.Collected())
        if migration.leftovers():
            raise StateLost
        migration.fill()


# ------------------------------------------------------------------------------- to shards


def is_embedded(store: Store) -> bool:
    """Whether the directory is an embedded session's."""
    if store.manifest.is_sharded:
        return False
    log = read_log(store.files, store.manifest.version, bound=store.bound)
    return bool(store.manifest.commands) or next(log, None) is not None


class Embedded(Protocol):
    """What is needed of the session whose directory is moved."""

    core: Core
    runtime: EmbeddedRuntime

    def living_entries(self) -> list[tuple[Entry, bytes]]:
        """What made its dataflow."""

    def new_dictionary(self) -> dict[str, Any]:
        """What to commit of its dictionary."""


def to_shards(directory: Embedded, store: Store, shards: int) -> None:
    """Commit the state of an embedded session as shards."""
    entries = [entry for entry, _ in directory.living_entries()]
    directory.core.catalog.require_functions()
    pieces = directory.runtime.builder.pieces
    try:
        _write_shards(directory, store, entries, shards, OperatorMatching(pieces))
    except StateLost:
        _write_shards(directory, store, entries, shards, OperatorMatching(pieces, strict=True))
    with suppress(OSError, StoreError):  # the move is done: both can happen later
        store.checkpoint()
        store.collect()


def _write_shards(
    directory: Embedded, store: Store, entries: list[Entry], shards: int, counterparts: OperatorMatching
) -> None:
    origin, functions = directory.runtime, Functions(travel=True)
    built = Commands(Functions(travel=True, like=functions))
    cluster = _OneShard(origin, counterparts, built)
    replica = Replica(Interner(), origin.dataflow.merge_effort)
    replica.dataflow.time = origin.dataflow.time
    runtime = ShardedRuntime(replica, cluster)
    core = Core(runtime, history=directory.core.history)
    core.catalog.entry_log = Unkept()
    try:
        with runtime.building(WithoutRows(runtime)):
            for entry in entries:
                core.definitions.replay.perform(entry)
        if cluster.migration.leftovers():
            raise StateLost
        lists, sinces = _split_up(cluster.migration, store, shards, origin.dataflow.time)
        known = Functions(travel=True, like=functions)
        store.commit(
            origin.dataflow.time,
            replaces={place: lists.get(place, []) for place in {*store.manifest.lists, *lists}},
            commands=(
                *(BUILT + data for data in built.encoded),
                *(DECLARED + catalog_entries.encode(entry, known) for entry in entries),
            ),
            history=True,
            sinces=sinces,
            marks=origin.offsets,
            fingerprints=cluster.described,
            shards=shards,
            **directory.new_dictionary(),
        )
    finally:
        core.close()


def _split_up(
    migration: Migration, store: Store, shards: int, time: int
) -> tuple[dict[Place, list[Ref]], dict[int, int]]:
    """All state in the store, each batch split by shard; and the start of each operator's history."""
    lists: dict[Place, list[Ref]] = {}
    sinces: dict[int, int] = {}
    for operator, since, images in migration.holding():
        assert operator.trace is not None
        for image in images:
            for shard, part in split(image, shards, operator.partitioning):
                ref = saved_state.tally_of(operator.trace, part, time).on(store.put(part))
                lists.setdefault((operator.number, shard), []).append(ref)
        if since is not None:
            sinces[operator.number] = since
    return lists, sinces


class WithoutRows(OnShards):
    """What is built has its rows already."""

    def table(self, command: MakeTable) -> Arrangement:
        return super().table(replace(command, rows=()))


class _OneShard:
    """The only shard of a session that is being built."""

    shards = 1
    in_process = False

    def __init__(self, origin: EmbeddedRuntime, counterparts: OperatorMatching, commands: Commands) -> None:
        self._commands = commands
        self.described: tuple[str, ...] = ("",)
        replica = Replica(origin.interner, origin.dataflow.merge_effort)
        replica.dataflow.time = origin.dataflow.time
        self._shard = Shard(replica, 0, 1)
        self.migration = Migration(replica.dataflow, replica.builder, counterparts, _InTraces())

    def build(self, command: Command, inputs: Inputs, wanted: Set[int]) -> Commit:
        self._commands.append(command)
        self._shard.replica.build(command)
        if not isinstance(command, Keep):
            self.described = self._shard.replica.described()
            self.migration.settle(self._compute)
        return list

    def _compute(self) -> None:
        superstep.run([self._shard], NoOtherShards(), {}, 0)
        self._shard.finish(0)

    def step(self, step: ShardStep, wanted: Set[int]) -> Commit:
        raise InternalError("E_INTERNAL", "a session that is being moved runs no steps")

    def undo(self) -> None:
        """A failure here fails the whole move."""

    def suppose(self, step: ShardStep, wanted: Set[int]) -> list[Added]:
        raise InternalError("E_INTERNAL", "a session that is being moved supposes nothing")

    def contents(self, operators: set[int]) -> Iterable[Added]:
        return ()

    def dataflows(self) -> Sequence[Dataflow]:
        return ()

    def measure(self) -> np.ndarray:
        return self._shard.replica.measure()

    def resharding(self, shards: int) -> None:
        return None

    def encode_remote(self, target: RemoteTarget, rows: Any) -> RemoteRows | None:
        return None

    def where(self) -> str:
        return "in this process"

    def close(self) -> None:
        self._shard.replica.close()
