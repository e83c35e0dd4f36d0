"""Compaction: keeping lists of batches short and free of dead rows.

The last batches of a list are merged into one while the older is not much larger and they are MERGED_BATCHES. So every
row is rewritten a logarithmic number of times, and opening and catching up stay cheap. The first batches, whose times
no reader distinguishes any more, are merged when more than half of their rows would vanish (`everview.store.garbage`),
even if there is only one. All lists are checked for this periodically, because a list that no step changes may have
outlived its history. The dictionary grows by one piece per step with new entries; its pieces are merged like batches.

Small merges run synchronously and are committed separately. Larger ones run in the background, one at a time, in a
driver thread, or from `TASK_BYTES` on in a Spark task, where the memory is; the next step commits the result. A merged
batch has the contents of its parts at every readable time, so readers need not be notified: a worker that has mapped
the parts keeps them until they are too many (`workers.state`). A merge reads its parts in place and proceeds in chunks
(`everview.store.chunked_merge`), so its memory use does not depend on its size.

Hazard: a merge task may occupy the worker that holds the shards' state, and the next step then loads it in another.
That is why only large merges are tasks. Ending the worker after its merge, so that not two hold the state, was
measured: a seventh less memory, but a load of 20M rows took 1.5 times as long.
"""

from __future__ import annotations

import pickle
import warnings
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from everview.dataflow.allocator import give_back
from everview.dataflow.batch_merge import TraceShape
from everview.dataflow.operators import Trace
from everview.dataflow.replica import Replica
from everview.spark.workers.state import in_a_worker, share_memory
from everview.spark.workers.tasks import drain
from everview.store import garbage
from everview.store.batches import Image, to_bytes, write_batch
from everview.store.chunked_merge import Spool, cut
from everview.store.files import Files
from everview.store.garbage import Tally
from everview.store.local_cache import with_copies
from everview.store.locations import open_files
from everview.store.manifest import Place, Ref
from everview.store.mapped import read_image
from everview.store.store import BATCHES, Store
from everview.store.stored_dictionary import FILE_ENTRIES, merged

MERGED_BATCHES = 8
"""Number of batches of similar size in one list that triggers a merge."""

LOOK_EVERY = 16
"""Versions between checks of all lists for dead rows, and minimum age of a list in epochs: what a bulk load writes is
merged soon anyway.
"""

AT_ONCE_BYTES = 1 << 20
"""Size up to which a merge runs synchronously, between two steps."""

TASK_BYTES = 1 << 26
"""Size from which a merge is a Spark task."""

PIECE_BYTES = 1 << 24
"""Size from which batches are merged in chunks, and of the chunks; a merge needs about six times as much."""

INLINE_BYTES = 1 << 19
"""Size up to which a batch stays inside the commit."""


@dataclass(frozen=True)
class Request:
    """Batches of one list to merge, and the properties of their trace; picklable."""

    place: Place
    refs: tuple[Ref, ...]
    name: str
    time: int
    shape: TraceShape

    @classmethod
    def of(cls, place: Place, refs: Iterable[Ref], trace: Trace, name: str, time: int) -> Request:
        """A request for batches of a trace."""
        return cls(place, tuple(refs), name, time, TraceShape.of(trace))

    @property
    def size(self) -> int:
        """Bytes to read."""
        return sum(ref.size for ref in self.refs)

    @property
    def _until(self) -> int:
        """The latest time of any row."""
        return max(self.time if ref.until < 0 else ref.until for ref in self.refs)

    def _tally(self, image: Image) -> Tally:
        return garbage.of(image, self._until, apart=self.shape.keep != -1)

    def run(self, files: Files) -> Ref | None:
        """The merged batch, with times advanced as in the trace; none if all rows cancel."""
        name = f"{BATCHES}/{self.name}"
        if self.size > PIECE_BYTES:
            folder = None if files.local is None else files.local / BATCHES
            with Spool(folder, self.shape.cols, self.shape.diffs) as spool:
                found = Tally(self._until, 0, 0)
                for one in self._pieces(files):
                    spool.append(one)
                    found += self._tally(one)
                if not spool.rows:
                    return None
                size, crc = spool.write(files, name)
                return found.on(Ref(spool.rows, size, self.name, crc))
        for one in self._pieces(files):  # there is but one
            if one.nbytes <= INLINE_BYTES:
                data = to_bytes(one)
                return self._tally(one).on(Ref(one.rows, len(data), inline=data))
            size, crc = write_batch(files, name, one)
            return self._tally(one).on(Ref(one.rows, size, self.name, crc))
        return None

    def _pieces(self, files: Files) -> Iterator[Image]:
        """The result of the merge in chunks; its inputs are mapped only meanwhile."""
        for piece in cut([read_image(files, ref)[0] for ref in self.refs], PIECE_BYTES):
            one = self.shape.merged(piece, self.time)
            if one is not None:
                yield one


class Merger:
    """Merges the lists of one store; `context` is the SparkContext."""

    def __init__(self, context: Any, store: Store, driver_replica: Replica) -> None:
        self._context = context
        self._store = store
        self._driver_replica = driver_replica
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="everview merges")
        self._running: dict[Place, tuple[Request, Future[Ref | None]]] = {}
        self._failed = False
        self._looked = store.manifest.version  # of the last look at all lists
        self._unseen: set[Place] = set()  # lists that were being merged at the last look

    def tidy(self, places: Iterable[Place]) -> dict[Place, list[Ref]]:
        """Replacements of lists by finished merges; starts merges that have become due."""
        changed: dict[Place, list[Ref]] = {}
        for done, one in self._ready():
            self._put(changed, done, one)
        for request in self._due(places, {*changed, *self._running}):
            place = request.place
            if request.size <= AT_ONCE_BYTES:
                self._put(changed, request, request.run(self._store.files))
            else:
                self._running[place] = request, self._pool.submit(self._merge, request)
        return changed

    def tidy_dictionary(self) -> dict[str, Any]:
        """The commit entry that merges the dictionary's last pieces, if they are many and of similar size."""
        pieces = self._store.manifest.dictionary
        whole = max((n for n, ref in enumerate(pieces, 1) if ref.rows > FILE_ENTRIES // 2), default=0)
        last = _alike(pieces[whole:]) if len(pieces) > whole else ()
        if not last:
            return {}
        while sum(ref.rows for ref in last) > FILE_ENTRIES:
            last = last[1:]  # at least two are left, none being larger than half
        one = self._store.put_dictionary(merged([self._store.get_dictionary(ref) for ref in last]))
        pa.default_memory_pool().release_unused()  # so much is not needed again soon
        return {"dictionary": (*pieces[: len(pieces) - len(last)], one), "whole_dictionary": True}

    @property
    def busy(self) -> bool:
        """Whether a merge is running, or finished and not committed."""
        return bool(self._running)

    def _due(self, places: Iterable[Place], but: Container[Place]) -> Iterator[Request]:
        """The merges that are due. Lists at the given places are checked for length; all lists are periodically checked
        for dead rows, except while they are being merged.
        """
        manifest = self._store.manifest
        look = manifest.version // LOOK_EVERY > self._looked // LOOK_EVERY
        self._looked = manifest.version
        changed = set(places)
        if look:
            self._unseen = set(manifest.lists)
        for place in sorted({*changed, *self._unseen} & manifest.lists.keys()):
            if place in but:
                continue
            refs = manifest.lists[place]
            owner = self._driver_replica.dataflow.numbered[place[0]]
            assert owner is not None and owner.trace is not None
            chosen = _alike(refs) if place in changed else ()
            if place in self._unseen and not chosen:
                self._unseen.remove(place)
                chosen = garbage.wasteful(refs, _settled(owner.trace, manifest.time))
            if chosen:
                name = f"{manifest.version:020d}-{place[1]}-{place[0]}-merged.arrow"
                yield Request.of(place, chosen, owner.trace, name, manifest.time)

    def _merge(self, request: Request) -> Ref | None:
        if request.size < TASK_BYTES:
            return request.run(self._store.files)
        found = self._context.parallelize([0], 1).mapPartitions(_task(self._store.files.root, request)).collect()
        ref: Ref | None = pickle.loads(found[0])
        return ref

    def _ready(self) -> Iterator[tuple[Request, Ref | None]]:
        """Finished merges. A failed one is retried when it is due again; the first failure is reported."""
        for place, (request, future) in list(self._running.items()):
            if future.done():
                del self._running[place]
                if future.exception() is None:
                    yield request, future.result()
                elif not self._failed:
                    self._failed = True
                    why = str(future.exception()).strip().split("\n")[-1]
                    told = f"a merge of {len(request.refs)} batches failed, and is tried again later: {why}"
                    warnings.warn(told, stacklevel=2)

    def _put(self, changed: dict[Place, list[Ref]], request: Request, one: Ref | None) -> None:
        """One batch (or none) in place of those of a request, unless they have left their list."""
        refs = list(self._store.manifest.lists.get(request.place, ()))
        count = len(request.refs)
        at = next((i for i in range(len(refs) - count + 1) if tuple(refs[i : i + count]) == request.refs), None)
        if at is not None:
            changed[request.place] = refs[:at] + ([] if one is None else [one]) + refs[at + count :]

    def close(self) -> None:
        """Wait for the running merge; uncommitted output is deleted with other leftovers."""
        self._pool.shutdown(wait=True, cancel_futures=True)


def _alike(refs: Sequence[Ref]) -> Sequence[Ref]:
    """The last batches of similar size; empty if there are few."""
    keep = len(refs) - 1
    size = refs[-1].size
    while keep > 0 and refs[keep - 1].size <= 2 * size:
        keep -= 1
        size += refs[keep].size
    return refs[keep:] if len(refs) - keep >= MERGED_BATCHES else ()


def _settled(trace: Trace, time: int) -> int:
    """The time up to which a merge collapses times (in loops: epochs), plus a margin."""
    if not trace.scope.is_root:
        return time - LOOK_EVERY
    return min(max(trace.since, time - trace.history), time - LOOK_EVERY)


def _task(root: str, request: Request) -> Callable[[Iterable[Any]], Iterator[bytes]]:
    def task(partition: Iterable[Any]) -> Iterator[bytes]:
        drain(partition)
        if in_a_worker():
            share_memory()
        found = request.run(with_copies(open_files(root)))
        give_back()
        yield pickle.dumps(found)

    return task
