"""Sessions whose dataflow runs in shards: what the Spark runtime and its tests share.

The session keeps a *skeleton*: the same operators as every shard, never run, whose traces are filled with what the
shards say they added. Only traces that somebody reads are filled, from their beginning when they are first read
(`_sync`) and with every step from then on; all of reading (snapshots, history, lookups, subscriptions) then works as
in an embedded session.

A `Cluster` runs steps on the shards. `LocalCluster` has them all in this process.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from contextlib import contextmanager
from typing import Any, Protocol

import numpy as np

from everview.codes.interner import Interner
from everview.dataflow import lockstep
from everview.dataflow.builder import Builder
from everview.dataflow.extend import Extend
from everview.dataflow.graph import Graph
from everview.dataflow.lockstep import Alone, Inputs, Shard
from everview.dataflow.operators import Arrangement, Operator
from everview.dataflow.replica import Added, Command, Install, Keep, MakeTable, Replica
from everview.dataflow.spread import shares
from everview.kernels import image
from everview.plan import nodes as plan
from everview.plan.multiway import Choice
from everview.session import Session
from everview.transacting import Work
from everview.turns import reads


class Cluster(Protocol):
    """Where the shards are."""

    shards: int

    def build(self, command: Command, inputs: Inputs, wanted: Set[int]) -> list[Added]:
        """Apply a command on all shards, new operators are brought up to date; gives what each shard added, at least
        to the operators that are wanted.
        """

    def step(self, inputs: Inputs, epochs: int, wanted: Set[int]) -> list[Added]:
        """Run and commit a step on all shards, all or nothing; gives what each shard added, at least to the operators
        that are wanted.
        """

    def contents(self, operators: set[int]) -> Iterable[Added]:
        """All that some operators' traces hold now."""

    def measure(self) -> np.ndarray:
        """Batches, updates and bytes held for each operator number, over all shards."""

    def close(self) -> None:
        """Give everything back."""


class LocalCluster:
    """All shards in this process."""

    def __init__(self, interner: Interner, shards: int, merge_effort: int = 4) -> None:
        self.shards = shards
        self._shards = [Shard(Replica(interner, merge_effort), n, shards) for n in range(shards)]

    def build(self, command: Command, inputs: Inputs, wanted: Set[int]) -> list[Added]:
        for shard in self._shards:
            shard.replica.build(command)
        return [] if isinstance(command, Keep) else self.step(inputs, 0, wanted)

    def step(self, inputs: Inputs, epochs: int, wanted: Set[int]) -> list[Added]:
        lockstep.run(self._shards, Alone(), inputs, epochs)
        return [shard.finish(epochs) for shard in self._shards]

    def contents(self, operators: set[int]) -> Iterable[Added]:
        for shard in self._shards:
            yield from shard.replica.contents(operators)

    def measure(self) -> np.ndarray:
        return sum((shard.replica.measure() for shard in self._shards[1:]), self._shards[0].replica.measure())

    def close(self) -> None:
        for shard in self._shards:
            shard.replica.close()


class ShardedSession(Session):
    """A session whose steps run on a cluster of shards."""

    def __init__(self, *, history: int = 1000, merge_effort: int = 4, threads: int = 1) -> None:
        """`threads` has no effect: shards are what runs side by side here."""
        super().__init__(history=history, merge_effort=merge_effort)
        self._cluster = self._make_cluster(merge_effort)
        self._filled: set[Operator] = set()

    def _make_cluster(self, merge_effort: int) -> Cluster:
        raise NotImplementedError

    def _dataflow(self, merge_effort: int) -> tuple[Graph, Builder]:
        self._skeleton = Replica(self._interner, merge_effort)
        return self._skeleton.graph, self._skeleton.builder

    @reads
    def close(self) -> None:
        if not self._closed:
            self._changing()
            self._cluster.close()
            super().close()

    def _settle(self) -> None:
        """What shards do they undo themselves; what is raised in this thread by another one is not made good here."""

    # building

    def _add_table(
        self, node: plan.Table, order: tuple[int, ...], name: str, history: int, rows: Sequence[tuple[int, ...]] = ()
    ) -> Arrangement:
        return self._build(MakeTable(node, order, name, history, tuple(rows)))

    def _install(
        self, node: plan.Node, keys: tuple[int, ...], history: int = 0, choice: Choice | None = None
    ) -> Arrangement:
        return self._build(Install(node, keys, history, choice))

    def _build(self, command: MakeTable | Install) -> Arrangement:
        arrangement = self._skeleton.build(command)
        assert arrangement is not None
        try:
            inputs: Inputs = {}
            if isinstance(command, MakeTable) and command.rows:
                rows = np.array(command.rows, dtype=np.int64).T
                self._distribute(arrangement, rows, max(self._graph.time, 1), 1, inputs)
            with self._serving():
                added = self._cluster.build(command, inputs, self._followed())
        except BaseException:
            self._skeleton.forget_new()
            raise
        self._graph.installed()
        self._fill(self._filled, added)
        return arrangement

    def _keep_only(self, roots: list[Operator]) -> None:
        command = Keep(tuple(sorted({o.number for o in roots})))
        self._cluster.build(command, {}, frozenset())
        self._skeleton.build(command)
        self._filled &= {o for o in self._graph.numbered if o is not None}

    # steps

    def _run(self, transactions: list[Work]) -> None:
        inputs: Inputs = {}
        for offset, changes in enumerate(transactions):
            for table, rows, diff in changes:
                columns = rows if isinstance(rows, np.ndarray) else np.array(rows, dtype=np.int64).T
                if columns.size:
                    self._distribute(table._arrangement, columns, self._graph.time + 1 + offset, diff, inputs)
        with self._serving():
            added = self._cluster.step(inputs, len(transactions), self._followed())
        self._graph.time += len(transactions)
        self._fill(self._filled, added)

    @contextmanager
    def _serving(self) -> Iterator[None]:
        """The shards run: if users' functions run in this process, they do so in this thread."""
        self._graph.serving = threading.get_ident()
        try:
            yield
        finally:
            self._graph.serving = 0

    def _followed(self) -> Set[int]:
        """Operators whose traces the driver keeps up to date."""
        return {o.number for o in self._filled}

    def _distribute(self, arrangement: Arrangement, columns: np.ndarray, time: int, diff: int, inputs: Inputs) -> None:
        """Add rows of a table to the inputs of the shards they belong to."""
        operator = arrangement.operator
        ordered = columns[list(arrangement.order)]
        for shard, here in operator.spread.parts(ordered, self._cluster.shards):
            inputs.setdefault(shard, []).append((operator.number, inbox_rows(ordered[:, here], time, diff)))

    def _measure(self) -> Callable[[Operator], tuple[int, int, int]]:
        measures = self._cluster.measure().tolist()
        return lambda o: tuple(measures[o.number])

    def _grid(self, joined: Extend) -> list[str]:
        sides = shares(joined.node.variables, self._cluster.shards)
        grid = " by ".join(f"{cells} for v{v}" for v, cells in sides) or "one for all"
        return [f"  cells of a grid on {self._cluster.shards} shards: {grid}"]

    # reading

    def _sync(self, *operators: Operator) -> None:
        new = {o for o in operators if o not in self._filled}
        if new:
            with self._lock:
                self._fill(new, self._cluster.contents({o.number for o in new}))
                self._filled |= new

    def _fill(self, operators: set[Operator], added: Iterable[Added]) -> None:
        """Append what the shards say to the skeleton's traces of some operators."""
        if not operators:
            return
        traces = np.zeros(len(self._graph.numbered), dtype=np.int64)
        for operator in operators:
            assert operator.trace is not None
            traces[operator.number] = operator.trace.address
        for change in added:
            image.unpack(traces, change.packed, self._graph.time)
            for number, words in change.large.items():
                if traces[number]:
                    image.unpack(traces, np.concatenate([[number], words]), self._graph.time)


def inbox_rows(columns: Sequence[np.ndarray] | np.ndarray, time: int, diff: int | np.ndarray) -> np.ndarray:
    """Rows as inboxes take them: columns, time and diff of one row after the other."""
    rows = np.empty((len(columns[0]), len(columns) + 2), dtype=np.int64)
    for place, column in enumerate(columns):
        rows[:, place] = column
    rows[:, -2], rows[:, -1] = time, diff
    return rows.ravel()


class LocalShardedSession(ShardedSession):
    """All shards in this process: how the tests check that sharding changes no answer.

    >>> with LocalShardedSession(shards=3) as db:
    ...     t = db.table("t", {"k": int, "v": int})
    ...     v = db.view("v", t.group_by("k").agg(s=t.v.sum()))
    ...     t.insert([(k % 4, k) for k in range(8)])
    ...     sorted(v.rows())
    [(0, 4), (1, 6), (2, 8), (3, 10)]
    """

    def __init__(self, *, shards: int = 2, **options: Any) -> None:
        self._shard_count = shards
        super().__init__(**options)

    def _make_cluster(self, merge_effort: int) -> Cluster:
        return LocalCluster(self._interner, self._shard_count, merge_effort)
