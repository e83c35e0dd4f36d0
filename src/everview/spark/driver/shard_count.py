"""Changing the number of shards of a running session, without blocking readers or writers.

The batches of the store are split in the background, by tasks if they are large, while the session keeps its shards. In
a turn between two steps the few batches that arrived meanwhile are split, and one commit switches the store to the new
number. New tasks start and map their shards. Followers of the directory see an ordinary version.

Hazard: until the switch, the store holds the state twice.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from everview.spark.driver.compaction import TASK_BYTES
from everview.spark.workers.tasks import split_batches
from everview.store.manifest import Ref
from everview.store.reshard import Request, Resharding, RowPartitioning
from everview.store.store import Store


class Cluster(Protocol):
    """What resharding needs of the session's cluster."""

    spark: Any

    def partitionings(self) -> Mapping[int, RowPartitioning]:
        """The partitioning of each operator."""

    def give_slots(self) -> None:
        """Release slots for the splitting tasks."""

    def reshard(self, commit: Callable[[], None]) -> None:
        """Adopt the store's new number of shards."""


class LiveResharding:
    """Moves a running session to another number of shards."""

    def __init__(self, cluster: Cluster, store: Store, shards: int) -> None:
        self._cluster = cluster
        self._store = store
        self._way = Resharding(store, shards, self._split)

    def prepare(self) -> None:
        """Split the existing batches while steps go on."""
        self._way.prepare(self._cluster.partitionings())

    def take_over(self) -> None:
        """Switch to the new shards, between two steps."""
        self._cluster.reshard(lambda: self._way.commit(self._cluster.partitionings()))

    def give_up(self) -> None:
        """Leave everything as it was."""
        self._way.give_up()

    def _split(self, requests: Sequence[Request]) -> list[list[tuple[int, Ref]]]:
        """Split batches: locally if they are small, otherwise in tasks, so that the state does not pass through the
        driver.
        """
        if not requests or sum(request.ref.size for request in requests) < TASK_BYTES:
            return [request.run(self._store.files) for request in requests]
        self._cluster.give_slots()
        context = self._cluster.spark.sparkContext
        tasks = min(len(requests), 4 * context.defaultParallelism)
        split = functools.partial(split_batches, self._store.files.root)
        found = context.parallelize([*enumerate(requests)], tasks).mapPartitions(split).collect()
        return [parts for _, parts in sorted(found, key=lambda each: int(each[0]))]
