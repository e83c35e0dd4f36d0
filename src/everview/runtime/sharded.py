"""The sharded runtime: the dataflow runs in shards, on a cluster.

This process keeps a *replica*: the same operators as every shard, never run, whose traces are filled with what the
shards add. Only traces that somebody reads are filled, from their beginning when they are first read (`sync`) and with
every step from then on. All of reading (snapshots, history, lookups, subscriptions) then works as in the embedded
runtime.

A `Cluster` runs steps on the shards. `LocalCluster` has them all in this process.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import wraps
from typing import Any, NamedTuple, Protocol, TypeVar

import numpy as np

from everview.codes.interner import Interner
from everview.dataflow import superstep
from everview.dataflow.dataflow import Dataflow
from everview.dataflow.extend import Extend
from everview.dataflow.operators import Arrangement, Operator
from everview.dataflow.partitioning import shares
from everview.dataflow.replica import Added, Command, Install, Keep, MakeTable, Replica, Swap
from everview.dataflow.superstep import Inputs, NoOtherShards, Shard
from everview.errors import ClosedError, EverviewError
from everview.kernels.trace import image
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
from everview.store.offsets import change_offsets


@dataclass(frozen=True)
class ShardStep:
    """What goes into a step on shards."""

    inputs: Inputs
    """rows for the batchers of tables, by shard"""
    epochs: int
    offsets: Mapping[str, str] = field(default_factory=dict)
    """committed with the step"""
    remote: tuple[RemoteRows, ...] = ()
    """rows that the shards fetch themselves"""


class Cluster(Protocol):
    """Where the shards are."""

    shards: int

    def build(self, command: Command, inputs: Inputs, wanted: Set[int]) -> list[Added]:
        """Apply a command on all shards, new operators are brought up to date; gives what each shard added, at least
        to the operators that are wanted.
        """

    def step(self, step: ShardStep, wanted: Set[int]) -> list[Added]:
        """Run and commit a step on all shards, all or nothing; gives what each shard added, at least to the operators
        that are wanted.
        """

    def suppose(self, step: ShardStep, wanted: Set[int]) -> list[Added]:
        """Run a step on all shards and undo it; gives what each shard would have added to the operators wanted."""

    def contents(self, operators: set[int]) -> Iterable[Added]:
        """All that some operators' traces hold now."""

    def dataflows(self) -> Sequence[Dataflow]:
        """Those of the shards that are in this process."""

    def measure(self) -> np.ndarray:
        """Batches, updates and bytes held for each operator number, over all shards."""

    def resharding(self, shards: int) -> Resharder | None:
        """The way to another number of shards; None where it cannot be changed."""

    def encode_remote(self, target: RemoteTarget, rows: Any) -> RemoteRows | None:
        """Encode rows that are not in this process where they are; None if that cannot be done."""

    def where(self) -> str:
        """Where steps run, and why there, for people."""

    def close(self) -> None:
        """Give everything back."""


class Sent(NamedTuple):
    """What shards sent each other: rows by the number of the operator they were for, and bytes in all."""

    rows: dict[int, int]
    bytes: int


class LocalCluster:
    """All shards in this process."""

    def __init__(self, interner: Interner, shards: int, merge_effort: int = 4) -> None:
        self.shards = shards
        self._shards = [Shard(Replica(interner, merge_effort), n, shards) for n in range(shards)]

    def build(self, command: Command, inputs: Inputs, wanted: Set[int]) -> list[Added]:
        for shard in self._shards:
            shard.replica.build(command)
        return [] if isinstance(command, Keep) else self.step(ShardStep(inputs, 0), wanted)

    def step(self, step: ShardStep, wanted: Set[int]) -> list[Added]:
        superstep.run(self._shards, NoOtherShards(), step.inputs, step.epochs)
        return [shard.finish(step.epochs) for shard in self._shards]

    def suppose(self, step: ShardStep, wanted: Set[int]) -> list[Added]:
        superstep.run(self._shards, NoOtherShards(), step.inputs, step.epochs)
        try:
            return [shard.would_add(wanted, step.epochs) for shard in self._shards]
        finally:
            for shard in self._shards:
                shard.abort(installing=False)

    def contents(self, operators: set[int]) -> Iterable[Added]:
        for shard in self._shards:
            yield from shard.replica.contents(operators)

    def dataflows(self) -> Sequence[Dataflow]:
        return [shard.dataflow for shard in self._shards]

    def sent(self) -> Sent:
        """What shards sent each other so far."""
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


Method = TypeVar("Method", bound=Callable[..., Any])


def whole(method: Method) -> Method:
    """Mark what changes shards and replica one after the other: if it is cut off in the middle they do not agree any
    more. Our own errors, and signals, which come to the main thread where it is safe, leave them as they were.
    """

    @wraps(method)
    def call(self: ShardedRuntime, *arguments: Any, **named: Any) -> Any:
        outer, self.cut_off = self.cut_off, True
        try:
            answer = method(self, *arguments, **named)
        except BaseException as error:
            self.cut_off = outer or not _safe(error)
            raise
        self.cut_off = outer or (isinstance(answer, StepOutcome) and not _safe(answer.error))
        return answer

    return call  # type: ignore[return-value]


def _safe(error: BaseException | None) -> bool:
    return error is None or isinstance(error, EverviewError) or threading.current_thread() is threading.main_thread()


class Build(Protocol):
    """How what is declared becomes operators."""

    def table(self, command: MakeTable) -> Arrangement:
        """The index of a base table."""

    def view(self, command: Install) -> Arrangement:
        """An arrangement of a plan."""

    def swap(self, command: Swap) -> None:
        """Have a join by another plan."""

    def keep(self, command: Keep) -> None:
        """Drop what nothing needs."""


class OnShards:
    """It is built on all shards."""

    def __init__(self, runtime: ShardedRuntime) -> None:
        self._runtime = runtime

    def table(self, command: MakeTable) -> Arrangement:
        return self._runtime.build(command)

    def view(self, command: Install) -> Arrangement:
        return self._runtime.build(command)

    def swap(self, command: Swap) -> None:
        self._runtime.swap_on_shards(command)

    def keep(self, command: Keep) -> None:
        self._runtime.cluster.build(command, {}, frozenset())
        self._runtime.replica.build(command)


class ShardedRuntime:
    """A dataflow whose steps run on a cluster of shards."""

    def __init__(self, replica: Replica, cluster: Cluster) -> None:
        self.interner = replica.dataflow.interner
        self.dataflow, self.builder = replica.dataflow, replica.builder
        self.captures = Captures()
        self.offsets: dict[str, str] = {}
        self.backing: Backing = InMemory()
        self.cluster = cluster
        self.replica = replica
        self._filled: set[Operator] = set()
        self.cut_off = False  # whether shards and replica may not agree any more
        self._build: Build = OnShards(self)

    # building

    @contextmanager
    def building(self, build: Build) -> Iterator[None]:
        """What is declared inside is built in another way."""
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
        return self._build.view(Install(node, keys, history, choice))

    def swap(self, join: plan.Node, target: plan.Node) -> None:
        self._build.swap(Swap(join, target))

    @whole
    def swap_on_shards(self, command: Swap) -> None:
        """Have a join by another plan on all shards, and here."""
        self.replica.build(command)
        try:
            with self._serving():
                added = self.cluster.build(command, {}, self._followed())
        except BaseException:
            self.builder.forget_new()
            raise
        self.dataflow.installed()
        self.fill(self._filled, added)

    @whole
    def keep_only(self, roots: list[Operator]) -> None:
        self._build.keep(Keep(tuple(sorted({o.number for o in roots}))))
        self._filled &= {o for o in self.dataflow.numbered if o is not None}
        self.captures.forget_freed()

    @whole
    def build(self, command: MakeTable | Install) -> Arrangement:
        """Build something on all shards, and here."""
        arrangement = self.replica.build(command)
        assert arrangement is not None
        try:
            inputs: Inputs = {}
            if isinstance(command, MakeTable) and command.rows:
                rows = np.array(command.rows, dtype=np.int64).T
                self._distribute(arrangement, rows, max(self.dataflow.time, 1), 1, inputs)
            with self._serving():
                added = self.cluster.build(command, inputs, self._followed())
        except BaseException:
            self.builder.forget_new()
            raise
        self.dataflow.installed()
        self.fill(self._filled, added)
        return arrangement

    # steps

    @whole
    def step(self, transactions: list[ChangeSet]) -> StepOutcome:
        try:
            step = self._shard_step(transactions)
            with self._serving():
                added = self.cluster.step(step, self._followed())
        except BaseException as error:
            return StepOutcome(False, error)
        self.dataflow.time += len(transactions)
        change_offsets(self.offsets, step.offsets)
        return self.caught_up(added)

    @whole
    def suppose(self, changes: ChangeSet, wanted: Collection[Operator]) -> StepOutcome:
        try:
            step = self._shard_step([changes])
            with self._serving():
                added = self.cluster.suppose(step, {o.number for o in wanted})
        except BaseException as error:
            return StepOutcome(False, error)
        return StepOutcome(False, None, Supposed([a.packed for a in added], wanted))

    def _shard_step(self, transactions: list[ChangeSet]) -> ShardStep:
        inputs: Inputs = {}
        offsets: dict[str, str] = {}
        remote: list[RemoteRows] = []
        for offset, changes in enumerate(transactions, 1):
            offsets.update(changes.offsets)
            for table, rows, diff in changes:
                if isinstance(rows, RemoteRows):
                    remote.append(rows)
                elif (columns := columns_of(rows)).size:
                    self._distribute(table._arrangement, columns, self.dataflow.time + offset, diff, inputs)
        return ShardStep(inputs, len(transactions), offsets, tuple(remote))

    def caught_up(self, added: Iterable[Added]) -> StepOutcome:
        """The shards have committed something: take over what is read here."""
        self.fill(self._filled, added)
        return StepOutcome(True, None, self.captures.take()) if self.captures.watched else COMMITTED

    @contextmanager
    def _serving(self) -> Iterator[None]:
        """The shards run: if users' functions run in this process, they do so in this thread."""
        self.dataflow.serving = threading.get_ident()
        try:
            yield
        finally:
            self.dataflow.serving = 0

    def _followed(self) -> Set[int]:
        """Operators whose traces are kept up to date here."""
        return {o.number for o in self._filled}

    def _distribute(self, arrangement: Arrangement, columns: np.ndarray, time: int, diff: int, inputs: Inputs) -> None:
        """Add rows of a table to the inputs of the shards they belong to."""
        operator = arrangement.operator
        operator.changes += columns.shape[1]
        ordered = columns[list(arrangement.order)]
        for shard, here in operator.spread.parts(ordered, self.cluster.shards):
            inputs.setdefault(shard, []).append((operator.number, batcher_rows(ordered[:, here], time, diff)))

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

    @whole
    def sync(self, *operators: Operator) -> None:
        new = {o for o in operators if o not in self._filled}
        if new:
            self.fill(new, self.cluster.contents({o.number for o in new}))
            self._filled |= new

    def fill(self, operators: set[Operator], added: Iterable[Added]) -> None:
        """Append what the shards say to the replica's traces of some operators."""
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

    def settle(self) -> None:
        """What shards do they undo themselves, but not what another thread's exception has left half done."""
        if self.cut_off:
            raise ClosedError(
                "E_CLOSED",
                "an exception that another thread raised in this one cut a change of the shards off, and the session "
                "is closed",
                "open its directory again: everything that was acknowledged is there",
            )

    def encode_remote(self, target: RemoteTarget, rows: Any) -> RemoteRows | None:
        return self.cluster.encode_remote(target, rows)

    def close(self) -> None:
        self.cluster.close()
        self.backing.close()
        self.dataflow.close()

    def abandon(self) -> None:
        self.cluster.close()
        self.backing.abandon()
        self.dataflow.close()


def batcher_rows(columns: Sequence[np.ndarray] | np.ndarray, time: int, diff: int | np.ndarray) -> np.ndarray:
    """Rows as batchers take them: columns, time and diff of one row after the other."""
    rows = np.empty((len(columns[0]), len(columns) + 2), dtype=np.int64)
    for place, column in enumerate(columns):
        rows[:, place] = column
    rows[:, -2], rows[:, -1] = time, diff
    return rows.ravel()
