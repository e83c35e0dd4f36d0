"""Merges of any size in bounded memory, a piece at a time.

Batches are sorted, so a row splits each of them in two, and the parts before the split can be merged separately. `cut`
yields such pieces of about equal size, from mapped files; the merged pieces follow each other, and a `Spool` keeps them
on disk, column by column, until they are written as one batch. A merge takes a few times the memory of a piece,
whatever its size.

>>> a, b = (Image.of(np.array([column]), 1, 1) for column in ([1, 2, 3, 9], [2, 4]))
>>> [[part.columns()[0].tolist() for part in piece] for piece in cut([a, b], 24)]
[[[1, 2], [2]], [[3, 9], [4]]]
"""

from __future__ import annotations

import mmap
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

import numpy as np

from everview.store.batches import Image, Words, write_columns
from everview.store.files import Files

SAMPLES = 16
"""Rows sampled per piece."""


def cut(images: Sequence[Image], size: int) -> Iterator[list[Image]]:
    """Batches of one list in pieces of about `size` bytes: the rows of a piece are before those of the next."""
    count = max(1, -(-sum(image.nbytes for image in images) // size))
    ends = [[place(image, row) for image in images] for row in _parting(images, count)]
    starts = [0] * len(images)
    for stops in [*ends, [image.rows for image in images]]:
        piece = [i.between(s, e) for i, s, e in zip(images, starts, stops, strict=True) if e > s]
        if piece:
            yield piece
        starts = stops


def _parting(images: Sequence[Image], count: int) -> list[Words]:
    """Rows that split all rows into `count` pieces of about equal size, in order: from a sample of every batch, because
    their ranges may be disjoint.
    """
    every = max(1, sum(image.rows for image in images) // (SAMPLES * count))
    sample = np.concatenate([image.columns()[:, every // 2 :: every] for image in images], axis=1)
    ordered = sample[:, np.lexsort(sample[::-1])] if len(sample) else sample
    total = ordered.shape[1]
    return [ordered[:, number * total // count] for number in range(1, count) if total]


def place(image: Image, row: Words) -> int:
    """The first row of a batch that is not before a given one.

    >>> place(Image.of(np.array([[1, 1, 1, 2], [5, 7, 7, 0]]), 1, 1), np.array([1, 7]))
    1
    """
    low, high = 0, image.rows
    for column, value in zip(image.columns(), row.tolist(), strict=True):
        below, above = (int(np.searchsorted(column[low:high], value, side)) for side in ("left", "right"))
        low, high = low + below, low + above
    return low


class Spool:
    """Consecutive batches on disk, to be written as one."""

    def __init__(self, folder: Path | None, cols: int, diffs: int) -> None:
        """`folder` is for temporary files; None: the system's."""
        self.rows = 0
        self._cols, self._diffs = cols, diffs
        self._time: int | None = None
        self._diff: int | None = None
        self._open = ExitStack()
        new = (tempfile.TemporaryFile(dir=folder) for _ in range(cols + 1 + diffs))  # noqa: SIM115 (closed at the end)
        self._files = [self._open.enter_context(file) for file in new]

    def __enter__(self) -> Spool:
        return self

    def __exit__(self, *exc: object) -> None:
        self._open.close()

    def append(self, image: Image) -> None:
        """Append a batch whose rows follow the existing ones."""
        for file, column in zip(self._files, [*image.columns(), image.times(), *image.weights()], strict=True):
            file.write(column.data)
        self._time = image.time if image.time == self._time or not self.rows else None
        self._diff = image.diff if image.diff == self._diff or not self.rows else None
        self.rows += image.rows

    def write(self, files: Files, name: str) -> tuple[int, int]:
        """Write everything as one batch file; return its size in bytes and its crc32."""
        about = {"rows": self.rows, "cols": self._cols, "diffs": self._diffs, "time": self._time, "diff": self._diff}
        names = [f"c{i}" for i in range(self._cols)] + ["time"] + [f"diff{i}" for i in range(self._diffs)]
        columns = dict(zip(names, self._files, strict=True))
        if self._time is not None:
            del columns["time"]
        if self._diff is not None:
            columns = {n: f for n, f in columns.items() if not n.startswith("diff")}
        named = {}
        for column, file in columns.items():
            file.flush()
            named[column] = np.frombuffer(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ), dtype=np.int64)
        return write_columns(files, name, about, named)
