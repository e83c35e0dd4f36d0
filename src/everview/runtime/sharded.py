"""The sharded runtime: the dataflow runs in shards, on a cluster.

This process keeps a *replica*: the same operators as every shard, never run, whose traces are filled with what the
shards add. Only traces that are read are filled: completely when they are first read (`sync`), and with every step from
then on. All reads (snapshots, history, look-ups, subscriptions) then work as in the embedded runtime.

A `Cluster` runs steps on the shards. `LocalCluster` has them all in this process.

Every operation has two phases. Shards first *compute* what a step or a new view adds; this can be discarded on all of
them at any moment (`Cluster.undo`). Then it is *committed*, and the replica follows; this is never interrupted
(`everview.uninterruptible`). After an interrupted call, `settle` waits for a commit in progress and discards what was
not committed, so that the shards agree with each other and with the replica.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol, TypeVar

import numpy as np

from everview import cancellation
from everview.dataflow import shield, superstep
from everview.dataflow.dataflow import Dataflow
from everview.dataflow.extend import Extend
from everview.dataflow.operators import Arrangement, Operator
from everview.dataflow.partitioning import HASH_BY_FIRST, batches_by_first, shares
from everview.dataflow.replica import Added, Command, Install, Keep, MakeTable, Replica, Swap
from everview.dataflow.superstep import Inputs, NoOtherShards, Shard
from everview.errors import ClosedError, InternalError
from everview.kernels.trace import image
from everview.language.relation import relation_of
from everview.plan import nodes as plan
from everview.plan.multiway import Choice
from everview.runtime.backing import Backing, InMemory
from everview.runtime.base import (
    COMMITTED,
    ChangeSet,
    Measure,
    RemoteRows,
    RemoteTarget,
    Resharder,
    StepOutcome,
    columns_of,
)
from everview.runtime.captures import Captures, Supposed
from everview.runtime.row_samples import RowSamples
from everview.store.offsets import change_offsets
from everview.uninterruptible import Uninterruptible


@dataclass(frozen=True)
class ShardStep:
    """The input of a step on shards."""

    inputs: Inputs
    """rows for the batchers of tables, by shard"""
    epochs: int
    offsets: Mapping[str, str] = field(default_factory=dict)
    """committed with the step"""
    remote: tuple[RemoteRows, ...] = ()
    """rows that the shards fetch themselves"""


Commit = Callable[[], list[Added]]
"""Commits what was computed; returns what each shard added, at least to the wanted operators."""

T = TypeVar("T")


class Cluster(Protocol):
    """The set of shards."""

    shards: int
    in_process: bool
    """whether they compute in this process, where they must not be interrupted"""

    def build(self, command: Command, inputs: Inputs, wanted: Set[int]) -> Commit:
        """Apply a command on all shards and bring new operators up to date, without committing."""

    def step(self, step: ShardStep, wanted: Set[int]) -> Commit:
        """Run a step on all shards, all or nothing, without committing."""

    def suppose(self, step: ShardStep, wanted: Set[int]) -> list[Added]:
        """Run a step on all shards and undo it; return what each shard would have added to the wanted operators."""

    def undo(self) -> None:
        """Discard everything computed, wholly or in part, and not committed; idempotent."""

    def contents(self, operators: set[int]) -> Iterable[Added]:
        """The current contents of some operators' traces."""

    def dataflows(self) -> Sequence[Dataflow]:
        """The dataflows of the shards in this process."""

    def measure(self) -> np.ndarray:
        """Batches, updates and bytes by operator number, over all shards."""

    def resharding(self, shards: int) -> Resharder | None:
        """The move to another number of shards; None if it is fixed."""

    def encode_remote(self, target: RemoteTarget, rows: Any) -> RemoteRows | None:
        """Encode remote rows where they are; None if that is not possible."""

    def where(self) -> str:
        """Where steps run and why, for display."""

    def close(self) -> None:
        """Release everything."""


class Sent(NamedTuple):
    """Traffic between shards: rows by the number of the receiving operator, and total bytes."""

    rows: dict[int, int]
    bytes: int


class LocalCluster:
    """All shards in this process, built like the driver's replica and compared with it after every build."""

    in_process = True

    def __init__(self, driver_replica: Replica, shards: int) -> None:
        self.shards = shards
        self._driver_replica = driver_replica
        dataflow = driver_replica.dataflow
        made = (Replica(dataflow.interner, dataflow.merge_effort) for _ in range(shards))
        self._shards = [Shard(replica, number, shards) for number, replica in enumerate(made)]

    def build(self, command: Command, inputs: Inputs, wanted: Set[int]) -> Commit:
        if isinstance(command, Keep):
            return lambda: self._drop(command)
        for shard in self._shards:
            shard.replica.build(command)
        self._compare()
        return self._computed(ShardStep(inputs, 0))

    def _drop(self, command: Keep) -> list[Added]:
        for shard in self._shards:
            shard.replica.build(command)
        return []

    def _compare(self) -> None:
        """Rows are addressed to operators by number: shards with different operators would misread each other's
        rows."""
        wanted = self._driver_replica.fingerprint()
        for shard in self._shards:
            if shard.replica.fingerprint() != wanted:
                raise InternalError(
                    "E_INTERNAL",
                    f"shard {shard.number} has built other operators than the session",
                    "nothing was changed; please report this, with the statement",
                )

    def step(self, step: ShardStep, wanted: Set[int]) -> Commit:
        known = [o is None for o in self._driver_replica.dataflow.numbered]
        if any([o is None for o in shard.dataflow.numbered] != known for shard in self._shards):
            self._compare()
        return self._computed(step)

    def _computed(self, step: ShardStep) -> Commit:
        superstep.run(self._shards, NoOtherShards(), step.inputs, step.epochs)
        added = [shard.packed(step.epochs) for shard in self._shards]

        def commit() -> list[Added]:
            for shard in self._shards:
                shard.commit(step.epochs)
            return added

        return commit

    def suppose(self, step: ShardStep, wanted: Set[int]) -> list[Added]:
        superstep.run(self._shards, NoOtherShards(), step.inputs, step.epochs)
        return [shard.would_add(wanted, step.epochs) for shard in self._shards]

    def undo(self) -> None:
        for shard in self._shards:
            shard.abort(installing=True)

    def contents(self, operators: set[int]) -> Iterable[Added]:
        for shard in self._shards:
            yield from shard.replica.contents(operators)

    def dataflows(self) -> Sequence[Dataflow]:
        return [shard.dataflow for shard in self._shards]

    def sent(self) -> Sent:
        """Traffic between shards so far."""
        rows: Counter[int] = Counter()
        for shard in self._shards:
            rows.update(shard.rows_sent)
        return Sent(dict(rows), 8 * sum(shard.words_sent for shard in self._shards))

    def measure(self) -> np.ndarray:
        return sum((shard.replica.measure() for shard in self._shards[1:]), self._shards[0].replica.measure())

    def encode_remote(self, target: RemoteTarget, rows: Any) -> RemoteRows | None:
        return None

    def where(self) -> str:
        return "in this process"

    def resharding(self, shards: int) -> Resharder | None:
        return None

    def close(self) -> None:
        for shard in self._shards:
            shard.replica.close()


class Build(Protocol):
    """How declarations become operators."""

    def table(self, command: MakeTable) -> Arrangement:
        """The index of a base table."""

    def view(self, command: Install) -> Arrangement:
        """An arrangement of a plan."""

    def swap(self, command: Swap) -> None:
        """Build a join by another plan."""

    def keep(self, command: Keep) -> None:
        """Drop what nothing needs."""


class OnShards:
    """Builds on all shards."""

    def __init__(self, runtime: ShardedRuntime) -> None:
        self._runtime = runtime

    def table(self, command: MakeTable) -> Arrangement:
        return made(self._runtime.build(command))

    def view(self, command: Install) -> Arrangement:
        return made(self._runtime.build(command))

    def swap(self, command: Swap) -> None:
        self._runtime.build(command)

    def keep(self, command: Keep) -> None:
        self._runtime.drop(command)


class ShardedRuntime:
    """A dataflow whose steps run on a cluster of shards."""

    def __init__(self, replica: Replica, cluster: Cluster) -> None:
        self.interner = replica.dataflow.interner
        self.dataflow, self.builder = replica.dataflow, replica.builder
        self.captures = Captures()
        self.offsets: dict[str, str] = {}
        self.backing: Backing = InMemory()
        self.sound = False
        self.cluster = cluster
        self.replica = replica
        self.row_samples = RowSamples()
        self._filled: set[Operator] = set()
        self._uninterruptible = Uninterruptible()
        self._done: StepOutcome | None = None
        """the outcome of the last step, from its commit until it is reported"""
        self.cut_off = False
        """whether a commit failed half-way, so that shards and replica may disagree"""
        self._build: Build = OnShards(self)

    # building

    @contextmanager
    def building(self, build: Build) -> Iterator[None]:
        """Build declarations inside in another way."""
        before, self._build = self._build, build
        try:
            yield
        finally:
            self._build = before

    def add_table(
        self, node: plan.Table, order: tuple[int, ...], name: str, history: int, rows: Sequence[tuple[int, ...]] = ()
    ) -> Arrangement:
        return self._build.table(MakeTable(node, order, name, history, tuple(rows)))

    def install(
        self, node: plan.Node, keys: tuple[int, ...], history: int = 0, choice: Choice | None = None
    ) -> Arrangement:
        return self._build.view(Install(node, keys, history, choice, self.row_samples.hot(node, self.cluster.shards)))

    def swap(self, join: plan.Node, target: plan.Node) -> None:
        self._build.swap(Swap(join, target))

    def keep_only(self, roots: list[Operator]) -> None:
        self._build.keep(Keep(tuple(sorted({o.number for o in roots}))))

    def drop(self, command: Keep) -> None:
        """Drop operators on all shards, and here."""
        commit = self._computed(lambda: self.cluster.build(command, {}, frozenset()))

        def follow(added: list[Added]) -> None:
            self.replica.build(command)
            self._filled &= {o for o in self.dataflow.numbered if o is not None}
            self.captures.forget_freed()

        self._commit(commit, follow)

    def build(self, command: MakeTable | Install | Swap) -> Arrangement | None:
        """Build something on all shards, and here."""
        try:
            arrangement, inputs = self._uninterruptible.run(lambda: self._built(command))
            commit = self._computed(lambda: self.cluster.build(command, inputs, self._followed()))
            self._commit(commit, self._installed)
        except BaseException:
            self._undo()
            raise
        return arrangement

    def _built(self, command: MakeTable | Install | Swap) -> tuple[Arrangement | None, Inputs]:
        """Build it here, and determine what goes to which shard."""
        arrangement = self.replica.build(command)
        inputs: Inputs = {}
        if isinstance(command, MakeTable) and command.rows:
            rows = np.array(command.rows, dtype=np.int64).T
            self._distribute(made(arrangement), rows, max(self.dataflow.time, 1), 1, inputs)
        return arrangement, inputs

    def _installed(self, added: list[Added]) -> None:
        self.dataflow.installed()
        self.fill(self._filled, added)

    # computing and committing

    def _computed(self, compute: Callable[[], T]) -> T:
        """Let the shards compute something."""
        if self.cut_off:
            raise _closed()

        def work() -> T:
            with self._serving():
                return compute()

        return self._uninterruptible.run(work, _hear) if self.cluster.in_process else work()

    def _commit(self, commit: Commit, follow: Callable[[list[Added]], None]) -> None:
        """Commit something and apply it here: both, uninterruptibly, or neither."""
        if self.cut_off:
            raise _closed()

        def work() -> None:
            added = commit()
            self.cut_off = True
            follow(added)
            self.cut_off = False

        self._uninterruptible.run(work)

    def _undo(self) -> None:
        """Discard what was computed and not committed."""
        if self.cluster.in_process:
            self._uninterruptible.run(self.cluster.undo)
        else:
            self.cluster.undo()
        self._uninterruptible.run(self.builder.forget_new)

    def settle(self) -> StepOutcome:
        """Finish a commit in progress; discard everything else on all shards."""
        self._uninterruptible.wait()
        if self.cut_off:
            raise _closed()
        self.dataflow.serving = 0
        self._undo()
        return self._take_done() or COMMITTED

    # steps

    def step(self, transactions: list[ChangeSet]) -> StepOutcome:
        self._done = None
        try:
            step = self._shard_step(transactions)
            commit = self._computed(lambda: self.cluster.step(step, self._followed()))
            self._commit(commit, lambda added: self._committed(step, added))
        except BaseException as error:
            self._uninterruptible.wait()
            done = self._take_done()
            if done is None:
                self._undo()
                return StepOutcome(False, error)
            done.error = error
            return done
        return self._take_done() or COMMITTED

    def _take_done(self) -> StepOutcome | None:
        done, self._done = self._done, None
        return done

    def _committed(self, step: ShardStep, added: list[Added]) -> None:
        self.dataflow.time += step.epochs
        change_offsets(self.offsets, step.offsets)
        self._done = StepOutcome(True)
        self._done.changes = self.caught_up(added).changes

    def suppose(self, changes: ChangeSet, wanted: Callable[[], Collection[Operator]]) -> Supposed:
        try:
            step, numbers = self._shard_step([changes]), {o.number for o in wanted()}
            added = self._computed(lambda: self.cluster.suppose(step, numbers))
        except BaseException:
            self._undo()
            raise
        return Supposed.of_shards(a.packed for a in added)

    def _shard_step(self, transactions: list[ChangeSet]) -> ShardStep:
        inputs: Inputs = {}
        offsets: dict[str, str] = {}
        remote: list[RemoteRows] = []
        for offset, changes in enumerate(transactions, 1):
            offsets.update(changes.offsets)
            for table, rows, diff in changes:
                if isinstance(rows, RemoteRows):
                    remote.append(rows)
                    if diff > 0 and rows.samples:
                        self.row_samples.note(relation_of(table).id, np.concatenate(rows.samples, axis=1), rows.rows)
                elif (columns := columns_of(rows)).size:
                    self._distribute(relation_of(table).arrangement, columns, self.dataflow.time + offset, diff, inputs)
        return ShardStep(inputs, len(transactions), offsets, tuple(remote))

    def caught_up(self, added: Iterable[Added]) -> StepOutcome:
        """Apply what the shards have committed to the traces that are read here."""
        self.fill(self._filled, added)
        return StepOutcome(True, None, self.captures.take()) if self.captures.watched else COMMITTED

    @contextmanager
    def _serving(self) -> Iterator[None]:
        """Mark that shards run: user functions in this process run in this thread."""
        self.dataflow.serving = threading.get_ident()
        try:
            yield
        finally:
            self.dataflow.serving = 0

    def _followed(self) -> Set[int]:
        """Operators whose traces are kept up to date here."""
        return {o.number for o in self._filled}

    def _distribute(self, arrangement: Arrangement, columns: np.ndarray, time: int, diff: int, inputs: Inputs) -> None:
        """Add rows of a table to the inputs of their shards."""
        operator = arrangement.operator
        operator.changes += columns.shape[1]
        ordered = columns[list(arrangement.order)]
        if diff > 0 and (purpose := operator.purpose) is not None and isinstance(purpose.node, plan.Table):
            self.row_samples.note(purpose.node.id, columns)
        for shard, rows in _batches(operator, ordered, time, diff, self.cluster.shards):
            inputs.setdefault(shard, []).append((operator.number, rows))

    def dataflows(self) -> tuple[Sequence[Dataflow], Sequence[Dataflow]]:
        return self.cluster.dataflows(), [self.dataflow]

    def measure(self) -> Measure:
        measures = self.cluster.measure().tolist()
        return lambda o: tuple(measures[o.number])

    def changes(self) -> Callable[[Operator], int]:
        shards = self.cluster.dataflows()
        for shard in shards:
            shard.count_changes()
        if not shards:  # in other processes: those of tables, which were sent from here
            return lambda o: o.changes
        return lambda o: sum(found.changes for s in shards if (found := s.numbered[o.number]) is not None)

    def where(self) -> str:
        return self.cluster.where()

    def describe(self, joined: Extend) -> list[str]:
        sides = shares(joined.node.variables, self.cluster.shards)
        grid = " by ".join(f"{cells} for v{v}" for v, cells in sides) or "one for all"
        return [f"  cells of a grid on {self.cluster.shards} shards: {grid}"]

    def resharding(self, shards: int) -> Resharder | None:
        return self.cluster.resharding(shards)

    # reading

    def sync(self, *operators: Operator) -> None:
        new = {o for o in operators if o not in self._filled}

        def follow(nothing: list[Added]) -> None:
            self.fill(new, self.cluster.contents({o.number for o in new}))
            self._filled |= new

        if new:
            self._commit(list, follow)

    def fill(self, operators: set[Operator], added: Iterable[Added]) -> None:
        """Append the results of the shards to the replica's traces of some operators."""
        if not operators:
            return
        traces = np.zeros(len(self.dataflow.numbered), dtype=np.int64)
        for operator in operators:
            assert operator.trace is not None
            traces[operator.number] = operator.trace.address
        for change in added:
            image.unpack(traces, change.packed, self.dataflow.time)
            for number, words in change.large.items():
                if traces[number]:
                    image.unpack(traces, np.concatenate([[number], words]), self.dataflow.time)

    def encode_remote(self, target: RemoteTarget, rows: Any) -> RemoteRows | None:
        return self.cluster.encode_remote(target, rows)

    def close(self) -> None:
        self._uninterruptible.wait()
        self.cluster.close()
        self.backing.close()
        self.dataflow.close()

    def abandon(self) -> None:
        self._uninterruptible.wait()
        self.cluster.close()
        self.backing.abandon()
        self.dataflow.close()


def made(arrangement: Arrangement | None) -> Arrangement:
    """What a table or view was built as."""
    assert arrangement is not None
    return arrangement


def _hear() -> None:
    """Raise pending interrupts of the calling thread."""
    shield.hear()
    cancellation.poll()


def _closed() -> ClosedError:
    return ClosedError(
        "E_CLOSED",
        "what the shards have committed could not be taken over, and the session is closed",
        "open its directory again: everything that was acknowledged is there",
    )


def _batches(
    operator: Operator, columns: np.ndarray, time: int, diff: int, shards: int
) -> Iterator[tuple[int, np.ndarray]]:
    """Rows in the batcher's format for each shard that gets some."""
    partitioning = operator.partitioning
    if partitioning == HASH_BY_FIRST and len(columns):
        yield from batches_by_first(columns, time, diff, shards)
        return
    for shard, here in partitioning.parts(columns, shards):
        yield shard, batcher_rows(columns[:, here], time, diff)


def batcher_rows(columns: Sequence[np.ndarray] | np.ndarray, time: int, diff: int | np.ndarray) -> np.ndarray:
    """Rows in the batcher's format: columns, time and diff of one row after the other."""
    rows = np.empty((len(columns[0]), len(columns) + 2), dtype=np.int64)
    for place, column in enumerate(columns):
        rows[:, place] = column
    rows[:, -2], rows[:, -1] = time, diff
    return rows.ravel()
