"""Keeping lists of batches short, and free of what is gone.

The last batches of a list are merged into one while the older is not much larger and they are MERGED_BATCHES, so every
row is rewritten a logarithmic number of times, and opening and catching up stay cheap. The first ones, whose times
nobody tells apart any more, are merged when more than half of their rows would go (`everview.store.garbage`), also if
there is but one. All lists are looked at for that now and then: one that no step changes any more may have outlived its
history. The dictionary's pieces, one for each step that brought new words, are merged as the last batches of a list
are.

Small merges are done at once and become part of the store with a commit of their own. Larger ones run beside the steps,
one at a time, in a thread of the driver, or from `TASK_BYTES` on in a Spark task, where the memory is; the first step
after one is ready commits it. Merged batches hold what their parts held at every time that can still be read, so nobody
has to know: a worker that has mapped the parts keeps them until they are too many (`host`). A merge reads its parts
where they lie and works on a piece at a time (`everview.store.chunked_merge`), so it takes the same memory whatever its
size.

Hazard: a task of its own may take the worker that holds the shards' state in memory, and the next step has to load it
in another. That is why only large merges are tasks. Ending the worker that merged, so that not two hold the state, was
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
from everview.dataflow.merging import TraceShape
from everview.dataflow.operators import Trace
from everview.dataflow.replica import Replica
from everview.spark.workers.state import in_a_worker, share_memory
from everview.spark.workers.tasks import drain
from everview.store import garbage
from everview.store.batches import Image, to_bytes, write_batch
from everview.store.chunked_merge import Spool, cut
from everview.store.files import Files
from everview.store.garbage import Tally
from everview.store.locations import open_files
from everview.store.manifest import Place, Ref
from everview.store.mapped import read_image
from everview.store.nearby import with_copies
from everview.store.store import BATCHES, Store
from everview.store.stored_dictionary import FILE_ENTRIES, merged

MERGED_BATCHES = 8
"""Batches of similar sizes in one list that are merged."""

LOOK_EVERY = 16
"""Versions after which all lists are looked at for rows that are gone, and epochs for which they are left alone anyway:
what a load of many steps writes is merged soon enough.
"""

AT_ONCE_BYTES = 1 << 20
"""Size up to which a merge is done between two steps."""

TASK_BYTES = 1 << 26
"""Size from which a merge is a Spark task."""

PIECE_BYTES = 1 << 24
"""Size from which batches are merged a piece at a time, and of the pieces: a merge takes about six times as much."""

INLINE_BYTES = 1 << 19
"""Size up to which a batch stays inside the commit."""


@dataclass(frozen=True)
class Request:
    """Batches of one list to merge, and what is to be known of their trace; can travel."""

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
        """The batches as one, with times advanced as the trace advances them; none if they cancel."""
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
        """What the merge gives, piece by piece; what it reads is mapped only meanwhile."""
        for piece in cut([read_image(files, ref)[0] for ref in self.refs], PIECE_BYTES):
            one = self.shape.merged(piece, self.time)
            if one is not None:
                yield one


class Merger:
    """Merges the lists of one store; `context` is Spark's."""

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
        """Lists to put in the place of others, from merges that are ready; starts those that have become due."""
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
        """What a commit has to say to make one piece of the dictionary's last ones, if they are many and alike."""
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
        """Whether a merge runs, or is ready and not committed."""
        return bool(self._running)

    def _due(self, places: Iterable[Place], but: Container[Place]) -> Iterator[Request]:
        """The merges that lists need now: those of some places are looked at whether they are long, all now and then
        whether they are wasteful; a list that is being merged then, when it is done.
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
        """Finished merges; one that failed is tried again when it is due again, and the first such is told."""
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
        """One batch (or none) in the place of a request's, unless they are no longer in their list."""
        refs = list(self._store.manifest.lists.get(request.place, ()))
        count = len(request.refs)
        at = next((i for i in range(len(refs) - count + 1) if tuple(refs[i : i + count]) == request.refs), None)
        if at is not None:
            changed[request.place] = refs[:at] + ([] if one is None else [one]) + refs[at + count :]

    def close(self) -> None:
        """Wait for the merge that runs; what it wrote and nobody committed is deleted with other leftovers."""
        self._pool.shutdown(wait=True, cancel_futures=True)


def _alike(refs: Sequence[Ref]) -> Sequence[Ref]:
    """The last batches, from the first on that is not much larger than all after it; none if they are few."""
    keep = len(refs) - 1
    size = refs[-1].size
    while keep > 0 and refs[keep - 1].size <= 2 * size:
        keep -= 1
        size += refs[keep].size
    return refs[keep:] if len(refs) - keep >= MERGED_BATCHES else ()


def _settled(trace: Trace, time: int) -> int:
    """The time up to which a merge makes one of all times (in loops: of all epochs), and a little has passed since."""
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
