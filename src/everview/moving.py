"""A directory changes hands: what an embedded session left becomes shards for Spark, and what Spark left becomes one
dataflow again.

Both runtimes keep the same things in a store: tables, views, dictionary, marks, and the batches of every operator. They
differ in how many parts each operator's rows are in, and in a few operators. So a directory is moved by building the
other dataflow from the catalogue and giving every operator the batches of its counterpart
(`everview.dataflow.counterparts`): nothing is computed and no history is lost, but for views of which an operator has
no counterpart: joins of many inputs at once, for which shards keep copies of rows (`everview.dataflow.spread`), and
whatever needs an index with all rows in one place (joins without an equality, windows over all rows). Those are
computed, and their history begins anew.

All of it is one commit. Whoever dies before it leaves the directory as it was, whoever dies after it has moved it.

Hazard: it is done by one process in its own memory, which must hold what an embedded session holds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from contextlib import suppress
from typing import TYPE_CHECKING, Protocol

import numpy as np

from everview import journal
from everview.catalogue import Catalogued
from everview.dataflow import lockstep, saved
from everview.dataflow.builder import Builder
from everview.dataflow.counterparts import Counterparts
from everview.dataflow.graph import Graph
from everview.dataflow.lockstep import Alone, Inputs, Shard
from everview.dataflow.operators import Arrangement, Operator
from everview.dataflow.replica import Added, Command, Keep, Replica
from everview.errors import StoreError
from everview.journal import Entry
from everview.plan import nodes as plan
from everview.plan.frozen import Functions
from everview.sharded import Cluster, ShardedSession
from everview.spark.job import Commands, rebuild
from everview.store import Image, Manifest, Ref, Store
from everview.store.logs import read_log
from everview.store.manifest import BUILT, DECLARED, Place
from everview.store.reshard import split

if TYPE_CHECKING:
    from everview.durable import DurableSession, Stored


class Spoiled(Exception):
    """An operator's counterpart was dropped, and its state with it."""


class Move:
    """A dataflow under construction, at the present time, that takes over another's state."""

    def __init__(self, graph: Graph, builder: Builder, counterparts: Counterparts, origin: Origin) -> None:
        self._graph = graph
        self._builder = builder
        self._counterparts = counterparts
        self._origin = origin
        self._unfilled: list[Operator] = []

    def settle(self, compute: Callable[[], None]) -> None:
        """Something was built: if it has counterparts it will get their state, else it is computed now."""
        new = set(self._graph.new())
        if not new:
            return
        piece, made = next(reversed(self._builder.pieces.items()))
        if new == set(made) and self._counterparts.find(piece, made):
            self._unfilled += made
            self._graph.installed()
            return
        if any(self._spoiled(o) for o in self._graph.needed(new)):
            raise Spoiled
        self.fill()
        compute()

    def _spoiled(self, operator: Operator) -> bool:
        found = self._counterparts.of.get(operator)
        return found is not None and found.freed

    def leftovers(self) -> bool:
        """Whether there are operators whose counterparts were let go."""
        return any(self._spoiled(o) for o in saved.live(self._graph))

    def fill(self) -> None:
        """Give operators their counterparts' batches: those that have none yet."""
        for operator in self._unfilled:
            trace = None if operator.freed else saved.state_of(operator)
            other = self._counterparts.of[operator]
            if trace is not None and not other.freed:
                if trace.scope.is_root:
                    saved.restore_since(trace, self._origin.since(other))
                for image in self._origin.images(other):
                    saved.put_back(trace, image, self._graph.time)
        self._unfilled.clear()

    def holding(self) -> Iterator[tuple[Operator, int | None, Iterable[Image]]]:
        """All that holds state: (operator, since when it knows history, batches), wherever it is yet."""
        unfilled = set(self._unfilled)
        for operator in saved.live(self._graph):
            trace = saved.state_of(operator)
            if trace is not None and operator not in unfilled:
                yield operator, saved.since(trace), saved.images(trace)
            elif trace is not None:
                other = self._counterparts.of[operator]
                yield operator, self._origin.since(other) if trace.scope.is_root else None, self._origin.images(other)


class Origin(Protocol):
    """Where the state of a dataflow's operators is."""

    def images(self, operator: Operator) -> Iterable[Image]:
        """An operator's batches."""

    def since(self, operator: Operator) -> int:
        """Since when an operator outside loops knows history."""


class _InTraces:
    """In its own traces."""

    def images(self, operator: Operator) -> Iterable[Image]:
        trace = saved.state_of(operator)
        return () if trace is None else saved.images(trace)

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


def from_shards(session: Stored, manifest: Manifest) -> None:
    """Fill an empty embedded session with what shards left."""
    where = session._store.files.root
    replica = Replica(session._interner, 1)
    built = Functions(trust=session._trust)
    rebuild(replica, manifest, built, where)
    declared = Functions(travel=True, like=built)
    entries = [journal.decode(d[1:], where, declared) for d in manifest.commands if d[:1] == DECLARED]
    declared.require(where)
    try:
        _take_over(session, entries, Counterparts(replica.builder.pieces))
    except Spoiled:
        session._start_again()
        _take_over(session, entries, Counterparts(replica.builder.pieces, strict=True))
    replica.close()


def _take_over(session: Stored, entries: Iterable[Entry], counterparts: Counterparts) -> None:
    session._graph.time = session._store.manifest.time
    session._move = move = Move(session._graph, session._builder, counterparts, _InLists(session._store))
    session._loading = True
    try:
        for entry in entries:
            session._perform(entry)
        if move.leftovers():  # shards let go of what no view reads whenever they are opened
            session._perform(journal.Collected())
        if move.leftovers():
            raise Spoiled
        move.fill()
    finally:
        session._loading = False
        session._move = None


# ------------------------------------------------------------------------------- to shards


def is_embedded(store: Store) -> bool:
    """Whether an embedded session left something here."""
    if store.manifest.is_sharded:
        return False
    log = read_log(store.files, store.manifest.version, bound=store.bound)
    return bool(store.manifest.commands) or next(log, None) is not None


def to_shards(session: DurableSession, shards: int) -> None:
    """Commit what an embedded session holds as so many shards; the session is closed."""
    entries = [entry for entry, _ in session._living_entries()]
    try:
        session._plan_functions.require(session._store.files.root)
        try:
            _write_shards(session, entries, shards, Counterparts(session._builder.pieces))
        except Spoiled:
            _write_shards(session, entries, shards, Counterparts(session._builder.pieces, strict=True))
        with suppress(OSError, StoreError):  # it has moved: both can be done later
            session._store.checkpoint()
            session._store.collect()
    finally:
        session._let_go()


def _write_shards(session: DurableSession, entries: list[Entry], shards: int, counterparts: Counterparts) -> None:
    store = session._store
    with _Settling(session, counterparts) as new:
        for entry in entries:
            new._perform(entry)
        move = new._cluster.move
        if move.leftovers():
            raise Spoiled
        lists: dict[Place, list[Ref]] = {}
        sinces: dict[int, int] = {}
        for operator, since, images in move.holding():
            assert operator.trace is not None
            for image in images:
                for shard, part in split(image, shards, operator.spread):
                    ref = saved.tally_of(operator.trace, part, session._graph.time).on(store.put(part))
                    lists.setdefault((operator.number, shard), []).append(ref)
            if since is not None:
                sinces[operator.number] = since
        known = Functions(travel=True, like=new.functions)
        store.commit(
            session._graph.time,
            replaces={place: lists.get(place, []) for place in {*store.manifest.lists, *lists}},
            commands=(*new.built(), *(DECLARED + journal.encode(entry, known) for entry in entries)),
            history=True,
            sinces=sinces,
            marks=session._marks,
            fingerprints=(new._cluster.fingerprint,),
            shards=shards,
            **session._new_dictionary(),
        )


class _Settling(Catalogued, ShardedSession):
    """A session that builds shards for another's state."""

    _cluster: _OneShard

    def __init__(self, origin: DurableSession, counterparts: Counterparts) -> None:
        self._origin = origin
        self._counterparts = counterparts
        self.functions = Functions(travel=True)
        self._commands = Commands(Functions(travel=True, like=self.functions))
        super().__init__(history=origin._history, merge_effort=origin._graph.merge_effort)
        self._graph.time = origin._graph.time

    def __enter__(self) -> _Settling:
        return self

    def built(self) -> Iterator[bytes]:
        """The commands that build the shards."""
        return (BUILT + data for data in self._commands.encoded)

    def _make_cluster(self, merge_effort: int) -> Cluster:
        return _OneShard(self._origin, self._counterparts, self._commands)

    def _add_table(
        self, node: plan.Table, order: tuple[int, ...], name: str, history: int, rows: Sequence[tuple[int, ...]] = ()
    ) -> Arrangement:
        return super()._add_table(node, order, name, history)  # its rows are there already


class _OneShard:
    """The only shard of a session that is being built."""

    shards = 1

    def __init__(self, origin: DurableSession, counterparts: Counterparts, commands: Commands) -> None:
        self._commands = commands
        self.fingerprint = ""
        replica = Replica(origin._interner, origin._graph.merge_effort)
        replica.graph.time = origin._graph.time
        self._shard = Shard(replica, 0, 1)
        self.move = Move(replica.graph, replica.builder, counterparts, _InTraces())

    def build(self, command: Command, inputs: Inputs, wanted: Set[int]) -> list[Added]:
        self._commands.append(command)
        self._shard.replica.build(command)
        if not isinstance(command, Keep):
            self.fingerprint = self._shard.replica.fingerprint()
            self.move.settle(self._compute)
        return []

    def _compute(self) -> None:
        lockstep.run([self._shard], Alone(), {}, 0)
        self._shard.finish(0)

    def step(self, inputs: Inputs, epochs: int, wanted: Set[int]) -> list[Added]:
        raise NotImplementedError

    def contents(self, operators: set[int]) -> Iterable[Added]:
        return ()

    def measure(self) -> np.ndarray:
        return self._shard.replica.measure()

    def close(self) -> None:
        self._shard.replica.close()
