"""Resharding: splits every list of batches of a store for another number of shards.

The dataflow determines where a row belongs (`everview.dataflow.partitioning`), per operator: usually by its first
column's hash, but some rows must be together on one shard, and some are on several. Splitting keeps rows in order, so
the parts are batches as they are. The new lists take effect with one commit: a crash leaves the store as it was, and
readers of an older version are unaffected.

A store in use is split in two passes (`Resharding`): batches never change, so nearly all of them can be split while
steps continue, and only newer ones have to be split during a pause.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from everview.errors import InputError
from everview.store.batches import Image, from_bytes, open_batch
from everview.store.files import Files
from everview.store.manifest import Manifest, Place, Ref
from everview.store.pins import Pin
from everview.store.store import BATCHES, LOG, Store, put_batch


class RowPartitioning(Protocol):
    """The placement of rows, given as a matrix with a row for each column."""

    def parts(self, columns: np.ndarray, shards: int) -> Iterator[tuple[int, np.ndarray]]:
        """The shards that some rows belong to, and the positions of those rows."""

    def once(self, columns: np.ndarray, shards: int, shard: int) -> np.ndarray:
        """The positions of a shard's rows that are not copies of other shards' rows."""


@dataclass(frozen=True)
class Request:
    """Split one batch, from the list of one of `present` shards, for `shards` of them."""

    ref: Ref
    partitioning: RowPartitioning
    shard: int
    present: int
    shards: int

    def run(self, files: Files) -> list[tuple[int, Ref]]:
        """Write the parts: (shard, batch)."""
        ref = self.ref
        if ref.inline is not None:
            image = from_bytes(ref.inline, files.where(LOG))
        else:
            image = open_batch(files, f"{BATCHES}/{ref.file}", ref.crc)
        own = take(image, self.partitioning.once(image.columns(), self.present, self.shard))
        return [(shard, put_batch(files, part)) for shard, part in split(own, self.shards, self.partitioning)]


Run = Callable[[Sequence[Request]], list[list[tuple[int, Ref]]]]
"""Runs requests, anywhere."""


class Resharding:
    """Resharding of a store in use: existing batches are split in the background (`prepare`), newer ones during a pause
    (`commit`).
    """

    def __init__(self, store: Store, shards: int, run: Run | None = None) -> None:
        present = store.manifest.shards
        if shards < 1 or present < 1:
            raise InputError(
                "E_SHARDS",
                f"{store.files.root} cannot be changed from {present} to {shards} shards",
                "a store of an embedded session has none; a sharded one has at least one",
            )
        self.shards = shards
        self._store = store
        self._run: Run = run or self._run_here
        self._parts: dict[tuple[int, int, Ref], list[tuple[int, Ref]]] = {}

    def prepare(self, partitionings: Mapping[int, RowPartitioning]) -> None:
        """Split the store's current batches; others may commit meanwhile."""
        pin = Pin(self._store.files, self._store.manifest.version)  # batches merged away in between are still read
        try:
            self._split(self._store.manifest, partitionings)
        finally:
            pin.release()

    def commit(self, partitionings: Mapping[int, RowPartitioning]) -> None:
        """Commit the new number of shards."""
        store = self._store
        self._split(store.manifest, partitionings)
        lists: dict[Place, list[Ref]] = {place: [] for place in store.manifest.lists}
        for (operator, before), refs in store.manifest.lists.items():
            for ref in refs:
                for shard, part in self._parts[operator, before, ref]:
                    lists.setdefault((operator, shard), []).append(part)
        store.commit(store.manifest.time, replaces=lists, shards=self.shards)
        self.give_up()
        store.checkpoint()

    def give_up(self) -> None:
        """Release parts that are in no version."""
        self._store.spared -= self._files(self._parts.values())
        self._parts.clear()

    def _split(self, manifest: Manifest, partitionings: Mapping[int, RowPartitioning]) -> None:
        lists = manifest.lists.items()
        wanted = [(o, s, ref) for (o, s), refs in lists for ref in refs if (o, s, ref) not in self._parts]
        requests = [Request(ref, partitionings[o], s, manifest.shards, self.shards) for o, s, ref in wanted]
        for place, parts in zip(wanted, self._run(requests), strict=True):
            self._parts[place] = parts
            self._store.spared |= self._files([parts])

    def _run_here(self, requests: Sequence[Request]) -> list[list[tuple[int, Ref]]]:
        return [request.run(self._store.files) for request in requests]

    @staticmethod
    def _files(found: Iterable[list[tuple[int, Ref]]]) -> set[str]:
        return {ref.file for parts in found for _, ref in parts if ref.file}


def reshard(store: Store, shards: int, partitionings: Mapping[int, RowPartitioning]) -> None:
    """Rewrite a store's lists for `shards` shards; `partitionings` has the placement of an operator's rows.

    >>> import tempfile
    >>> from everview.dataflow.partitioning import HASH_BY_FIRST
    >>> with Store(tempfile.mkdtemp(), shards=2) as store:
    ...     refs = [store.put(Image.of(np.array([row]), 1, 1)) for row in ([1, 3, 5], [2, 4])]
    ...     _ = store.commit(1, adds=[(0, 0, refs[0]), (0, 1, refs[1])])
    ...     reshard(store, 1, {0: HASH_BY_FIRST})
    ...     [store.get(r).columns().tolist() for r in store.manifest.lists[0, 0]], store.manifest.shards
    ([[[1, 3, 5]], [[2, 4]]], 1)
    """
    Resharding(store, shards).commit(partitionings)


def split(image: Image, shards: int, partitioning: RowPartitioning) -> Iterator[tuple[int, Image]]:
    """The pieces of a batch by shard."""
    if image.rows:
        for shard, places in partitioning.parts(image.columns(), shards):
            yield shard, take(image, places)


def take(image: Image, places: np.ndarray) -> Image:
    """Some of a batch's rows, in ascending order: the batch itself if they are all."""
    return image if len(places) == image.rows else image.take(places)
