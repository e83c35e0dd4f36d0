"""Keeps state beyond the session's memory limit in mapped files: `connect(memory="2GB")`.

Between steps, when the batches of all traces together exceed half of the limit, the largest are written to files and
read from there. The system caches their pages while it has room and reclaims them when needed. Each file is unlinked as
soon as it is created, so nothing remains when the process ends in any way. Still in memory are each batch's index of
buckets (two bytes a row) and the working set of a step.

Traces keep the sizes of their batches geometric by merging. Batches in files are merged here, two neighbours at a time
and in pieces (`everview.store.chunked_merge`), so a merge takes a few times the memory of a piece.

A running step may use the rest of the memory, and no more (`everview.dataflow.kernel_interrupts`). If that is not
enough, it is undone, everything possible is written to files, and it is retried once; then it fails with E_MEMORY. The
allocator counts large blocks only, so a step of a few thousand rows is never refused by itself.

Hazards: installing a view over existing data is also one step, and may need the memory of all its state. The dictionary
of strings stays in memory and is not counted; nor are the arrays created by reads.
"""

from __future__ import annotations

import mmap
import os
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from weakref import WeakKeyDictionary

import numpy as np

from everview.dataflow import kernel_interrupts, saved_state
from everview.dataflow.batch_merge import TraceShape
from everview.dataflow.dataflow import Dataflow
from everview.dataflow.operators import Trace
from everview.errors import MemoryLimitError, out_of_memory
from everview.kernels import structures
from everview.kernels.build.native import DEBUG
from everview.kernels.trace import image as image_k
from everview.kernels.trace import spill as k
from everview.kernels.trace import trace as trace_k
from everview.kernels.trace.batch import BATCH_DATA, BATCH_ROWS
from everview.store.batches import Image, Words
from everview.store.chunked_merge import cut

SMALLEST = 1 << 11
"""Minimum size in words of a batch in a file."""

MERGE_FRACTION = 24
"""A piece of a merge is this fraction of the memory limit; merging uses about six times as much."""

LARGEST_PIECE = 1 << 24
"""Maximum size of a piece in bytes, whatever the memory limit."""


@dataclass(frozen=True)
class Mapped:
    """A batch in a file: its image, and the mapping that contains it."""

    image: Image
    map: mmap.mmap


class SpillFiles:
    """The files of one dataflow's batches."""

    def __init__(self, memory: int, folder: Path | None) -> None:
        """`memory`: bytes for batches and steps together; `folder`: for the files (None: the system's)."""
        self.memory = memory
        self._folder = folder
        self._files: WeakKeyDictionary[Trace, dict[int, Mapped]] = WeakKeyDictionary()
        """by the addresses of their columns: they must live as long as the trace"""

    @property
    def spilled(self) -> int:
        """Bytes currently in files."""
        return sum(file.image.nbytes for files in self._files.values() for file in files.values())

    @contextmanager
    def limited(self, dataflow: Dataflow) -> Iterator[None]:
        """Run a step inside with the remaining memory; unlimited if batches use it all and cannot be moved."""
        own = self.own_words(dataflow)
        if 8 * own > self.memory:
            self.make_room(dataflow, self.memory // 4)
            own = self.own_words(dataflow)
            if 8 * own > self.memory:
                raise out_of_memory("indexes")
        others = kernel_interrupts.held() - own  # other sessions of the process use memory, too
        before, most = dataflow.most_words, max(others, 0) + self.memory // 8
        dataflow.most_words = min(before, most) if before else most
        try:
            yield
        finally:
            dataflow.most_words = before

    def tidy(self, dataflow: Dataflow) -> None:
        """After a step: move batches into files if they use too much."""
        if 16 * kernel_interrupts.held() > self.memory and 16 * self.own_words(dataflow) > self.memory:
            self.make_room(dataflow, self.memory // 4)

    @staticmethod
    def _owned(traces: Sequence[Trace]) -> Words:
        """For each trace, the words of memory used by its batches."""
        found = np.zeros((len(traces), 2), dtype=np.int64)
        image_k.owned(np.array([t.address for t in traces], dtype=np.int64), found.reshape(-1))
        return found[:, 1]

    def own_words(self, dataflow: Dataflow) -> int:
        """Words of memory used by all batches, without those in files."""
        return int(self._owned(_traces(dataflow)).sum())

    def make_room(self, dataflow: Dataflow, wanted: int = 0) -> None:
        """Move the largest batches into files until at most `wanted` bytes are held, as far as possible."""
        traces = _traces(dataflow)
        owned = self._owned(traces)
        held = 8 * int(owned.sum())
        for number in np.argsort(-owned).tolist():
            if held <= wanted or owned[number] < SMALLEST:
                return
            try:
                self._move(traces[number])
                self._merge_neighbours(traces[number], dataflow.time)
            except (OSError, MemoryError):  # no space on disk, or for a merge: what cannot be moved stays, for now
                dataflow.abort()  # no step is running: it only frees what a kernel has leaked
                return
            held -= 8 * int(owned[number])

    def _move(self, trace: Trace) -> None:
        k.finish_merges(trace.address)
        for number in range(structures.peek(trace.address, trace_k.TRACE_COUNT)):
            if k.in_own_memory(trace.address, number) >= SMALLEST:
                map, words = self._new_file(int(image_k.stored_words(trace.address, number)))
                image_k.write_stored(trace.address, number, words)
                self._lay(trace, number, 1, Mapped(saved_state.image_of(words), map))

    def images(self, trace: Trace) -> Iterator[Image]:
        """The batches of a trace; those in files in place."""
        files = self._files.get(trace, {})
        for number, (address, _) in enumerate(self._batches(trace)):
            if address in files:
                yield files[address].image
            else:
                words = np.empty(image_k.stored_words(trace.address, number), dtype=np.int64)
                image_k.write_stored(trace.address, number, words)
                yield saved_state.image_of(words)

    def adopt(self, trace: Trace, image: Image, map: mmap.mmap, time: int) -> None:
        """Append a batch that is already in a file, which must be mapped privately."""
        if DEBUG:  # it is copied there
            saved_state.put_back(trace, image, time)
            return
        self._files.setdefault(trace, {})[int(image.body.ctypes.data)] = Mapped(image, map)
        image_k.adopt(trace.address, image.body.ctypes.data, saved_state.header(image), time)

    def _new_file(self, words: int) -> tuple[mmap.mmap, Words]:
        with tempfile.TemporaryFile(dir=self._folder) as file:
            if hasattr(os, "posix_fallocate"):  # a full disk must fail here: later it would be a signal
                os.posix_fallocate(file.fileno(), 0, 8 * words)
            else:
                file.truncate(8 * words)
            map = mmap.mmap(file.fileno(), 8 * words)
        return map, np.frombuffer(map, dtype=np.int64)

    def _lay(self, trace: Trace, first: int, count: int, file: Mapped | None) -> None:
        files = self._files.setdefault(trace, {})
        if file is None:
            k.lay(trace.address, first, count, 0, np.zeros(1, dtype=np.int64))
        else:
            address = int(file.image.body.ctypes.data)
            files[address] = file
            k.lay(trace.address, first, count, address, saved_state.header(file.image))
        here = {address for address, _ in self._batches(trace)}
        for address in [a for a in files if a not in here]:
            del files[address]

    def _batches(self, trace: Trace) -> list[tuple[int, int]]:
        """The addresses of the columns of each batch of a trace, and its number of rows."""
        table = structures.peek(trace.address, trace_k.TRACE_TABLE)
        batches = [structures.peek(table, i) for i in range(structures.peek(trace.address, trace_k.TRACE_COUNT))]
        return [(structures.peek(batch, BATCH_DATA), structures.peek(batch, BATCH_ROWS)) for batch in batches]

    # merging

    def _merge_neighbours(self, trace: Trace, time: int) -> None:
        """Keep the sizes of batches in files geometric."""
        files = self._files.get(trace, {})
        number = len(self._batches(trace)) - 2
        while number >= 0:
            here = self._batches(trace)
            (one, rows), (other, more) = here[number], here[number + 1]
            if one in files and other in files and rows <= 2 * more:
                self._merge(trace, number, 2, time)
                number = min(number + 1, len(self._batches(trace)) - 1)
            number -= 1

    def compact(self, trace: Trace, time: int) -> bool:
        """Merge all batches into one, like `Trace.compact`, if any are in files; return whether there were."""
        if not self._files.get(trace):
            return False
        k.finish_merges(trace.address)
        while (number := self._first_own(trace)) is not None:
            map, words = self._new_file(int(image_k.stored_words(trace.address, number)))
            image_k.write_stored(trace.address, number, words)
            self._lay(trace, number, 1, Mapped(saved_state.image_of(words), map))
        self._merge(trace, 0, len(self._batches(trace)), time)
        return True

    def _first_own(self, trace: Trace) -> int | None:
        files = self._files[trace]
        return next((n for n, (address, _) in enumerate(self._batches(trace)) if address not in files), None)

    def _merge(self, trace: Trace, first: int, count: int, time: int) -> None:
        """Merge neighbouring batches in files, a piece at a time."""
        files = self._files[trace]
        images = [files[address].image for address, _ in self._batches(trace)[first : first + count]]
        shape = TraceShape.of(trace)
        size = min(max(self.memory // MERGE_FRACTION, 8 * SMALLEST), LARGEST_PIECE)
        pieces = (one for piece in cut(images, size) if (one := shape.merged(piece, time)) is not None)
        self._lay(trace, first, count, self._written(pieces, sum(i.rows for i in images), shape))

    def _written(self, pieces: Iterable[Image], most: int, shape: TraceShape) -> Mapped | None:
        """Consecutive batches, of at most this many rows, as one in a file."""
        width = shape.cols + 1 + shape.diffs
        map, words = self._new_file(width * most)
        room = words.reshape(width, most)
        rows = 0
        times: set[int | None] = set()
        diffs: set[int | None] = set()
        for piece in pieces:
            end = rows + piece.rows
            room[: shape.cols, rows:end] = piece.columns()
            room[shape.cols, rows:end] = piece.times()
            room[shape.cols + 1 :, rows:end] = piece.weights()
            times.add(piece.time)
            diffs.add(piece.diff)
            rows = end
        if not rows:
            return None
        time, diff = (next(iter(found)) if len(found) == 1 else None for found in (times, diffs))
        kept = [*range(shape.cols), *([shape.cols] if time is None else [])]
        kept += range(shape.cols + 1, width) if diff is None else []
        for place, column in enumerate(kept):  # closer together, from the front
            words[place * rows : (place + 1) * rows] = room[column, :rows]
        return Mapped(Image(rows, shape.cols, shape.diffs, time, diff, words[: len(kept) * rows]), map)


def _traces(dataflow: Dataflow) -> list[Trace]:
    return [t for o in saved_state.live(dataflow) if (t := saved_state.state_of(o)) is not None and t.address]


def refused(error: BaseException, memory: int) -> BaseException:
    """A step's error, in terms of the session's limit."""
    if not isinstance(error, MemoryLimitError):
        return error
    found = MemoryLimitError(
        "E_MEMORY",
        f"{error.message.partition(': there is')[0]}: the step needs more memory than the session's {memory:,} bytes; "
        "nothing was changed",
        "change less at a time, or open the session with more: connect(..., memory=...)",
    )
    found.operator = error.operator
    return found
