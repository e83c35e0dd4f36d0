"""Batches outside the kernels: as images in memory, as bytes in a record, as mappable Arrow files.

An `Image` has the contents of a kernel batch (`everview.kernels.trace.batch`): sorted columns, times and diffs, all
int64, one after the other in one run of words. A time or diff shared by all rows is a number instead of a column, so a
freshly loaded table takes half the space.

In a file the columns are Arrow's: c0, c1, ..., then `time`, then diff0, diff1, ... unless constant; the constants are
in the schema's metadata. Uncompressed int64 columns without nulls are contiguous in an Arrow IPC file, so a mapped file
holds exactly the words of a batch, and any Arrow reader can inspect it.

>>> image = Image.of(np.array([[1, 2], [7, 5]]), 3, np.array([[1, -1]]))
>>> image.time, image.diff, image.body.tolist()
(3, None, [1, 2, 7, 5, 1, -1])
>>> from_bytes(to_bytes(image), "a record").columns().tolist()
[[1, 2], [7, 5]]
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from everview.errors import StoreError
from everview.store.files import Files
from everview.store.records import damaged

Words = npt.NDArray[np.int64]

FORMAT = "1"
_HEAD = struct.Struct("<qqqqqqq")  # rows, cols, diffs, has a constant time, it, has a constant diff, it


@dataclass(frozen=True)
class Image:
    """A batch as words: `body` is its columns, then times unless `time` is shared by all rows, then diffs unless `diff`
    is."""

    rows: int
    cols: int
    diffs: int
    time: int | None
    diff: int | None
    body: Words

    def __post_init__(self) -> None:
        words = self.rows * (self.cols + (self.time is None) + (self.diffs if self.diff is None else 0))
        assert self.body.shape == (words,), (self.body.shape, words)

    @classmethod
    def of(cls, columns: Words, times: Words | int, diffs: Words | int) -> Image:
        """From columns (one per row of a matrix), times and diffs (a matrix too), each a number if all are equal."""
        cols, rows = columns.shape
        parts = [columns.reshape(-1)]
        if not isinstance(times, int):
            parts.append(times)
        if not isinstance(diffs, int):
            parts.append(diffs.reshape(-1))
        return cls(
            rows,
            cols,
            1 if isinstance(diffs, int) else len(diffs),
            times if isinstance(times, int) else None,
            diffs if isinstance(diffs, int) else None,
            np.concatenate(parts),
        )

    def columns(self) -> Words:
        """The columns as the rows of a matrix."""
        return self.body[: self.cols * self.rows].reshape(self.cols, self.rows)

    def times(self) -> Words:
        """Each row's time."""
        if self.time is not None:
            return np.full(self.rows, self.time, dtype=np.int64)
        start = self.cols * self.rows
        return self.body[start : start + self.rows]

    def weights(self) -> Words:
        """Each row's diffs, one kind of diff per row of a matrix."""
        if self.diff is not None:
            return np.full((self.diffs, self.rows), self.diff, dtype=np.int64)
        return self.body[len(self.body) - self.diffs * self.rows :].reshape(self.diffs, self.rows)

    def take(self, places: Words) -> Image:
        """Some of the rows, in the given order."""
        return Image.of(
            self.columns()[:, places],
            self.times()[places] if self.time is None else self.time,
            self.weights()[:, places] if self.diff is None else self.diff,
        )

    @property
    def nbytes(self) -> int:
        return self.body.nbytes

    def between(self, start: int, end: int) -> Image:
        """The rows from `start` to `end`, copied."""
        return Image.of(
            self.columns()[:, start:end],
            self.times()[start:end] if self.time is None else self.time,
            self.weights()[:, start:end] if self.diff is None else self.diff,
        )

    def _named(self) -> dict[str, Words]:
        found = {f"c{i}": column for i, column in enumerate(self.columns())}
        if self.time is None:
            found["time"] = self.times()
        if self.diff is None:
            found |= {f"diff{i}": column for i, column in enumerate(self.weights())}
        return found


# as bytes


def to_bytes(image: Image) -> bytes:
    """The image as bytes, for a record."""
    head = _HEAD.pack(
        image.rows,
        image.cols,
        image.diffs,
        image.time is not None,
        image.time or 0,
        image.diff is not None,
        image.diff or 0,
    )
    return head + np.ascontiguousarray(image.body, dtype="<i8").tobytes()


def from_bytes(data: Any, where: str) -> Image:
    """An image from its bytes."""
    view = memoryview(data)
    if len(view) < _HEAD.size:
        raise damaged(where, 0, "a batch is cut off")
    rows, cols, diffs, timed, time, weighed, diff = _HEAD.unpack_from(view)
    if (len(view) - _HEAD.size) % 8:
        raise damaged(where, 0, "a batch does not have the size it says")
    body = np.frombuffer(view[_HEAD.size :], dtype="<i8")
    try:
        return Image(rows, cols, diffs, time if timed else None, diff if weighed else None, body)
    except AssertionError:
        raise damaged(where, 0, "a batch does not have the size it says") from None


# as Arrow files


def write_batch(files: Files, name: str, image: Image) -> tuple[int, int]:
    """Write an image as an Arrow file, without copying; return its size in bytes and its crc32."""
    about = {"rows": image.rows, "cols": image.cols, "diffs": image.diffs, "time": image.time, "diff": image.diff}
    return write_columns(files, name, about, image._named())


def write_columns(
    files: Files, name: str, about: Mapping[str, int | None], named: Mapping[str, Words]
) -> tuple[int, int]:
    """Write the Arrow file of an image whose columns need not be contiguous; return its size and its crc32."""
    parts = _arrow_parts(about, named)
    files.write(name, parts)
    crc = 0
    for part in parts:
        crc = zlib.crc32(part, crc)
    return sum(map(len, parts)), crc


def to_arrow(image: Image) -> pa.Buffer:
    """The bytes of the image's Arrow file."""
    about = {"rows": image.rows, "cols": image.cols, "diffs": image.diffs, "time": image.time, "diff": image.diff}
    return pa.py_buffer(b"".join(_arrow_parts(about, image._named())))


def _arrow_parts(about: Mapping[str, int | None], named: Mapping[str, Words]) -> list[Any]:
    """The bytes of an Arrow file in pieces, including the columns themselves, without copying."""
    known = {"everview": FORMAT} | {k: str(v) for k, v in about.items() if v is not None}
    schema = pa.schema([pa.field(n, pa.int64(), nullable=False) for n in named], known)
    sink = _Pieces()
    with pa.ipc.new_file(sink, schema) as writer:
        if named:  # Arrow has no batch of rows without columns
            arrays = [pa.Array.from_buffers(pa.int64(), len(c), [None, pa.py_buffer(c)]) for c in named.values()]
            writer.write_batch(pa.RecordBatch.from_arrays(arrays, schema=schema))
    return sink.pieces


class _Pieces:
    """Collects what is written to a file, piece by piece."""

    closed = False

    def __init__(self) -> None:
        self.pieces: list[Any] = []

    def write(self, data: Any) -> int:
        self.pieces.append(data)
        return len(data)

    def flush(self) -> None:
        pass

    def close(self) -> None:
        pass


def open_batch(files: Files, name: str, crc: int | None = None) -> Image:
    """The image in an Arrow file, mapped if the filesystem is local; with `crc`, the whole file is checked."""
    where = files.where(name)
    try:
        data = files.map(name)
    except FileNotFoundError:
        raise StoreError("E_DAMAGED", f"{where} is missing", "restore the file from a copy") from None
    if crc is not None and zlib.crc32(data) != crc:
        raise damaged(where, 0, "its checksum is not the one that was committed")
    return from_arrow(data, where)


def from_arrow(data: pa.Buffer, where: str) -> Image:
    """The image in the bytes of an Arrow file; not copied."""
    try:
        reader = pa.ipc.open_file(pa.BufferReader(data))
        about = {k.decode(): v.decode() for k, v in (reader.schema.metadata or {}).items()}
        if about.pop("everview", None) != FORMAT:
            raise damaged(where, 0, "it is not a batch, or of a version to come")
        known = {k: int(v) for k, v in about.items()}
        batch = reader.get_batch(0) if reader.num_record_batches else None
        body = np.zeros(0, dtype=np.int64) if batch is None else _body(batch)
        return Image(known["rows"], known["cols"], known["diffs"], known.get("time"), known.get("diff"), body)
    except (pa.ArrowInvalid, OSError, KeyError, AssertionError) as error:
        raise damaged(where, 0, f"it cannot be read ({error})") from error


def _body(batch: pa.RecordBatch) -> Words:
    """All columns as one run of words: a view of the file's bytes, where they are contiguous."""
    columns = [np.frombuffer(c.buffers()[1], dtype=np.int64)[c.offset : c.offset + len(c)] for c in batch.columns]
    rows = batch.num_rows
    first = columns[0]
    address = first.__array_interface__["data"][0]
    together = all(c.__array_interface__["data"][0] == address + 8 * rows * i for i, c in enumerate(columns))
    if not together:  # another writer's padding
        return np.concatenate(columns)
    whole = pa.foreign_buffer(address, 8 * rows * len(columns), base=batch)
    return np.frombuffer(whole, dtype=np.int64)
