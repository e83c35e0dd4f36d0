"""Keeping lists of batches short: the last batches of a list are merged into one while the older is not much larger, so
every row is rewritten a logarithmic number of times, and opening and catching up stay cheap. Usually that waits until
they are LONG; but what was inserted and deleted again must not stay for good, so after a while two will do.

Small merges are done at once and become part of the store with a commit of their own. Larger ones run beside the steps,
one at a time, in a thread of the driver, or from `TASK_BYTES` on in a Spark task, where the memory is; the first step
after one is ready commits it. Merged batches hold what their parts held at every time that can still be read, so nobody
has to know: a worker that has mapped the parts keeps them until they are too many (`host`). A merge reads its parts
where they lie and works on a piece at a time (`everview.store.pieces`), so it takes the same memory whatever its size.

Hazard: a task of its own may take the worker that holds the shards' state in memory, and the next step has to load it
in another. That is why only large merges are tasks. Ending the worker that merged, so that not two hold the state, was
measured: a seventh less memory, but a load of 20M rows took 1.5 times as long.
"""

from __future__ import annotations

import pickle
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from everview.dataflow import saved
from everview.dataflow.operators import Trace
from everview.dataflow.replica import Replica
from everview.kernels import make
from everview.kernels import trace as trace_k
from everview.spark.host import give_back, in_a_worker, read_image, share_memory
from everview.spark.tasks import drain
from everview.store.batches import Image, to_bytes, write_batch
from everview.store.files import Files, open_files
from everview.store.manifest import Place, Ref
from everview.store.pieces import Spool, cut
from everview.store.store import BATCHES, Store

LONG = 8
"""Batches of similar sizes in one list that are merged."""

SETTLED = 16
"""Versions after which two neighbours of similar sizes are merged: rows of theirs may cancel."""

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
    shape: tuple[int, int, int, int, int]
    """columns, diffs, what is kept, since when, history"""

    @classmethod
    def of(cls, place: Place, refs: Iterable[Ref], trace: Trace, name: str, time: int) -> Request:
        """A request for batches of a trace."""
        fields = (trace_k.T_DIFFS, trace_k.T_KEEP, trace_k.T_SINCE, trace_k.HISTORY)
        diffs, keep, since, history = (int(make.peek(trace.address, f)) for f in fields)
        return cls(place, tuple(refs), name, time, (trace.cols, diffs, keep, since, history))

    @property
    def size(self) -> int:
        """Bytes to read."""
        return sum(ref.size for ref in self.refs)

    def run(self, files: Files) -> Ref | None:
        """The batches as one, with times advanced as the trace advances them; none if they cancel."""
        name = f"{BATCHES}/{self.name}"
        if self.size > PIECE_BYTES:
            folder = None if files.local is None else files.local / BATCHES
            with Spool(folder, self.shape[0], self.shape[1]) as spool:
                for one in self._pieces(files):
                    spool.append(one)
                if not spool.rows:
                    return None
                size, crc = spool.write(files, name)
                return Ref(spool.rows, size, self.name, crc)
        for one in self._pieces(files):  # there is but one
            if one.nbytes <= INLINE_BYTES:
                data = to_bytes(one)
                return Ref(one.rows, len(data), inline=data)
            size, crc = write_batch(files, name, one)
            return Ref(one.rows, size, self.name, crc)
        return None

    def _pieces(self, files: Files) -> Iterator[Image]:
        """What the merge gives, piece by piece; what it reads is mapped only meanwhile."""
        for piece in cut([read_image(files, ref)[0] for ref in self.refs], PIECE_BYTES):
            one = self._merged(piece)
            if one is not None:
                yield one

    def _merged(self, images: Iterable[Image]) -> Image | None:
        """Batches of the trace as one, in memory."""
        cols, diffs, keep, since, history = self.shape
        scratch = make.make_trace(cols, diffs, keep, since, 1, 0)
        make.poke(scratch, trace_k.HISTORY, history)
        try:
            for image in images:
                saved.append(scratch, image, self.time)
            make.compact_trace(scratch)
            return next(saved.images_at(scratch), None)
        finally:
            make.drop_trace(scratch)


class Merger:
    """Merges the lists of one store; `context` is Spark's."""

    def __init__(self, context: Any, store: Store, skeleton: Replica) -> None:
        self._context = context
        self._store = store
        self._skeleton = skeleton
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="everview merges")
        self._running: dict[Place, tuple[Request, Future[Ref | None]]] = {}
        self._failed = False

    def tidy(self, places: Iterable[Place]) -> dict[Place, list[Ref]]:
        """Lists to put in the place of others, from merges that are ready; starts those that have become due."""
        changed: dict[Place, list[Ref]] = {}
        for done, one in self._ready():
            self._put(changed, done, one)
        for place in places:
            request = None if place in self._running or place in changed else self._due(place)
            if request is None:
                continue
            if request.size <= AT_ONCE_BYTES:
                self._put(changed, request, request.run(self._store.files))
            else:
                self._running[place] = request, self._pool.submit(self._run, request)
        return changed

    @property
    def busy(self) -> bool:
        """Whether a merge runs, or is ready and not committed."""
        return bool(self._running)

    def _due(self, place: Place) -> Request | None:
        """The merge that a list needs now."""
        refs = self._store.manifest.lists[place]
        version, time = self._store.manifest.version, self._store.manifest.time
        chosen = _alike(refs) or _settled(refs, version)
        if not chosen:
            return None
        owner = self._skeleton.graph.numbered[place[0]]
        assert owner is not None and owner.trace is not None
        name = f"{version:020d}-{place[1]}-{place[0]}-merged.arrow"
        return Request.of(place, chosen, owner.trace, name, time)

    def _run(self, request: Request) -> Ref | None:
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
    return refs[keep:] if len(refs) - keep >= LONG else ()


def _settled(refs: Sequence[Ref], version: int) -> Sequence[Ref]:
    """The first two neighbours in files that have been there for a while, the older not much larger; none if there are
    none.
    """
    for older, newer in pairwise(refs):
        if older.file and newer.file and older.size <= 2 * newer.size and version - _made(newer) >= SETTLED:
            return older, newer
    return ()


def _made(ref: Ref) -> int:
    """The version for which a file was made, by its name; 0 if that does not say.

    >>> _made(Ref(1, 8, "00000000000000000042-0-7-merged.arrow")), _made(Ref(1, 8, "4af3.arrow"))
    (42, 0)
    """
    version = ref.file.split("-")[0]
    return int(version) if len(version) == 20 and version.isdigit() else 0


def _task(root: str, request: Request) -> Callable[[Iterable[Any]], Iterator[bytes]]:
    def task(partition: Iterable[Any]) -> Iterator[bytes]:
        drain(partition)
        if in_a_worker():
            share_memory()
        found = request.run(open_files(root))
        give_back()
        yield pickle.dumps(found)

    return task
