"""Another number of shards for the state in a directory.

Every list of batches is rewritten: rows go to the shard of their first column, as everywhere. Rows that are all kept on
one shard (totals without keys) or stay where they were made (errors) go to the first. The result is one new version:
whoever is interrupted finds the old one.
"""

from __future__ import annotations

import numpy as np

from everview.codes.interner import Interner
from everview.dataflow.operators import BY_FIRST
from everview.dataflow.replica import Replica
from everview.kernels import exchange
from everview.plan.frozen import Functions
from everview.spark.job import BUILT, read_command
from everview.store import Store
from everview.store.batches import Image
from everview.store.manifest import Place, Ref


def reshard(store: Store, shards: int) -> None:
    """Commit a version of the store with its state in `shards` shards."""
    replica = Replica(Interner(), 1)
    functions = Functions()
    for data in store.manifest.commands:
        if data[:1] == BUILT:
            replica.load([read_command(data[1:], functions)])
    lists: dict[Place, list[Ref]] = {place: [] for place in store.manifest.lists}
    for (number, _), refs in sorted(store.manifest.lists.items()):
        operator = replica.graph.numbered[number]
        for ref in refs:
            image = store.get(ref)
            by_first = operator is not None and operator.spread == BY_FIRST
            for shard, part in _parts(image, shards if by_first else 1):
                lists.setdefault((number, shard), []).append(store.put(part))
    replica.close()
    store.commit(store.manifest.time, replaces=lists, shards=shards)
    store.checkpoint()


def _parts(image: Image, shards: int) -> list[tuple[int, Image]]:
    if shards == 1:
        return [(0, image)]
    owner = np.empty(image.rows, dtype=np.int64)
    exchange.shard_of(np.array(image.columns()[0]), shards, owner)
    return [(shard, image.take(np.flatnonzero(owner == shard))) for shard in np.unique(owner).tolist()]
