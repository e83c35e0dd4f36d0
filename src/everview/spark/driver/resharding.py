"""Another number of shards while a session runs: nobody who reads or writes waits for the state to be split.

The batches of the store are split beside the steps, by tasks if they are large; the session goes on with its shards. In
a turn between two steps the few batches that came meanwhile are split, too, and one commit makes the store one of so
many shards. Tasks begin anew, and map the shards that are theirs. Those who follow the directory see a version like
any other.

Hazard: for as long as it takes, the store holds the state twice.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from everview.spark.driver.merging import TASK_BYTES
from everview.spark.workers.tasks import split_batches
from everview.store.manifest import Ref
from everview.store.reshard import Request, Resharding, Spread
from everview.store.store import Store


class Cluster(Protocol):
    """What is needed of the session's shards on Spark."""

    spark: Any

    def spreads(self) -> Mapping[int, Spread]:
        """Where the rows of each operator belong."""

    def give_slots(self) -> None:
        """Somebody needs slots."""

    def reshard(self, commit: Callable[[], None]) -> None:
        """Take the store's new number of shards over."""


class LiveResharding:
    """The way of a running session to another number of shards."""

    def __init__(self, cluster: Cluster, store: Store, shards: int) -> None:
        self._cluster = cluster
        self._store = store
        self._way = Resharding(store, shards, self._split)

    def prepare(self) -> None:
        """Split what there is; steps go on."""
        self._way.prepare(self._cluster.spreads())

    def take_over(self) -> None:
        """Between two steps: have so many shards from now on."""
        self._cluster.reshard(lambda: self._way.commit(self._cluster.spreads()))

    def give_up(self) -> None:
        """Leave everything as it was."""
        self._way.give_up()

    def _split(self, requests: Sequence[Request]) -> list[list[tuple[int, Ref]]]:
        """Split batches: here if they are small, else in tasks, so that the state does not pass through the driver."""
        if not requests or sum(request.ref.size for request in requests) < TASK_BYTES:
            return [request.run(self._store.files) for request in requests]
        self._cluster.give_slots()
        context = self._cluster.spark.sparkContext
        tasks = min(len(requests), 4 * context.defaultParallelism)
        split = functools.partial(split_batches, self._store.files.root)
        found = context.parallelize([*enumerate(requests)], tasks).mapPartitions(split).collect()
        return [parts for _, parts in sorted(found, key=lambda each: int(each[0]))]
