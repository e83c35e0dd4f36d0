"""Another number of shards for a store: every list of batches is split anew.

A row belongs to the shard of its first column's hash (`everview.kernels.exchange`); rows of operators that must see all
rows together are on the first shard. Which operators those are the dataflow knows, so it is told. Splitting keeps rows
in order, so the pieces are batches as they are. The new lists come into being with one commit: whoever dies on the way
leaves the store as it was.
"""

from __future__ import annotations

from collections.abc import Container, Iterator

import numpy as np

from everview.errors import InputError
from everview.kernels import exchange
from everview.store.batches import Image
from everview.store.manifest import Place, Ref
from everview.store.store import Store


def reshard(store: Store, shards: int, on_one: Container[int] = ()) -> None:
    """Rewrite a store's lists for `shards` shards; operators in `on_one` have all their rows on the first.

    >>> import tempfile
    >>> with Store(tempfile.mkdtemp(), shards=2) as store:
    ...     refs = [store.put(Image.of(np.array([row]), 1, 1)) for row in ([1, 3, 5], [2, 4])]
    ...     _ = store.commit(1, adds=[(0, 0, refs[0]), (0, 1, refs[1])])
    ...     reshard(store, 1)
    ...     [store.get(r).columns().tolist() for r in store.manifest.lists[0, 0]], store.manifest.shards
    ([[[1, 3, 5]], [[2, 4]]], 1)
    """
    present = store.manifest.shards
    if shards < 1 or present < 1:
        raise InputError(
            "E_SHARDS",
            f"{store.files.root} cannot be changed from {present} to {shards} shards",
            "a store of an embedded session has none; a sharded one has at least one",
        )
    lists: dict[Place, list[Ref]] = {place: [] for place in store.manifest.lists}
    for (operator, _), refs in store.manifest.lists.items():
        for ref in refs:
            for shard, part in split(store.get(ref), shards, operator in on_one):
                lists.setdefault((operator, shard), []).append(store.put(part))
    store.commit(store.manifest.time, replaces=lists, shards=shards)
    store.checkpoint()


def split(image: Image, shards: int, together: bool) -> Iterator[tuple[int, Image]]:
    """The pieces of a batch by shard; `together`: all of it on the first."""
    if together or image.cols == 0:
        yield 0, image
        return
    owner = np.empty(image.rows, dtype=np.int64)
    exchange.shard_of(image.columns()[0].copy(), shards, owner)  # kernels take no read-only arrays
    for shard in np.unique(owner).tolist():
        places = np.flatnonzero(owner == shard)
        yield shard, image if len(places) == image.rows else image.take(places)
