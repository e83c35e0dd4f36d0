"""Another number of shards for a store: every list of batches is split anew.

Where a row belongs the dataflow knows (`everview.dataflow.partitioning`), so it is asked, for each operator: usually to
the shard of its first column's hash, but some rows must be together on one shard, and some are on several. Splitting
keeps rows in order, so the pieces are batches as they are. The new lists come into being with one commit: whoever dies
on the way leaves the store as it was.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Protocol

import numpy as np

from everview.errors import InputError
from everview.store.batches import Image
from everview.store.manifest import Place, Ref
from everview.store.store import Store


class Spread(Protocol):
    """Where rows belong, given as a matrix with a row for each column."""

    def parts(self, columns: np.ndarray, shards: int) -> Iterator[tuple[int, np.ndarray]]:
        """The shards that some rows belong to, and the places of those rows."""

    def once(self, columns: np.ndarray, shards: int, shard: int) -> np.ndarray:
        """The places of those of a shard's rows that are not copies of other shards' rows."""


def reshard(store: Store, shards: int, spreads: Mapping[int, Spread]) -> None:
    """Rewrite a store's lists for `shards` shards; `spreads` says where an operator's rows belong.

    >>> import tempfile
    >>> from everview.dataflow.partitioning import HASH_BY_FIRST
    >>> with Store(tempfile.mkdtemp(), shards=2) as store:
    ...     refs = [store.put(Image.of(np.array([row]), 1, 1)) for row in ([1, 3, 5], [2, 4])]
    ...     _ = store.commit(1, adds=[(0, 0, refs[0]), (0, 1, refs[1])])
    ...     reshard(store, 1, {0: HASH_BY_FIRST})
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
    for (operator, before), refs in store.manifest.lists.items():
        for ref in refs:
            image = store.get(ref)
            own = take(image, spreads[operator].once(image.columns(), present, before))
            for shard, part in split(own, shards, spreads[operator]):
                lists.setdefault((operator, shard), []).append(store.put(part))
    store.commit(store.manifest.time, replaces=lists, shards=shards)
    store.checkpoint()


def split(image: Image, shards: int, spread: Spread) -> Iterator[tuple[int, Image]]:
    """The pieces of a batch by shard."""
    if image.rows:
        for shard, places in spread.parts(image.columns(), shards):
            yield shard, take(image, places)


def take(image: Image, places: np.ndarray) -> Image:
    """Some of a batch's rows, in ascending order: the batch itself if they are all."""
    return image if len(places) == image.rows else image.take(places)
