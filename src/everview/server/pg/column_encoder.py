"""Encodes many rows as messages, column by column.

A row is a message: a letter, a length, the number of values, and each value's length and bytes. Encoding a million rows
of three columns value by value takes seconds, nearly all of it in Python. Here a column of codes is encoded as a whole:
numbers, dates and times in binary form by NumPy, texts straight from the dictionary by Arrow. Parts with a fixed size
(headers, lengths, numbers) are combined in one array; Arrow's `binary_join_element_wise` joins it with the variable
ones. Only types without such a form are encoded value by value (`everview.server.pg.formats`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from everview.codes.arrays import decode_arrow, decode_list
from everview.codes.buffers import null_mask, numbers_of
from everview.codes.codec import Codec
from everview.codes.interner import Interner, Words
from everview.server.pg.answers import Column
from everview.server.pg.messages import format_of
from everview.server.pg.oids import TYPES
from everview.types import NULL

ENCODED_COLUMN_ROWS = 8192
"""Rows encoded at a time."""

_BYTES = pa.large_binary()
_DAYS = 10_957
"""from 1970 to 2000"""
_MICROSECONDS = _DAYS * 86_400_000_000


class Fixed(NamedTuple):
    """Values that are all of one size."""

    data: np.ndarray
    """a row of bytes for each"""
    nulls: np.ndarray | None


class Varied(NamedTuple):
    """Values of any size."""

    data: pa.Array
    """their bytes; none where there is a NULL"""
    sizes: np.ndarray
    """-1 where there is a NULL"""


class Columnwise:
    """Rows of some columns as messages, from codes.

    >>> from everview.server.pg.answers import columns_of
    >>> from everview.types import INT, STR
    >>> codec = Codec((INT, STR.optional()), ("x", "y"), Interner())
    >>> write = Columnwise(columns_of(codec.names, codec.types), (), "UTC", codec)
    >>> write(codec.encode([(1, None)]))
    b'D\\x00\\x00\\x00\\x0f\\x00\\x02\\x00\\x00\\x00\\x011\\xff\\xff\\xff\\xff'
    """

    def __init__(self, columns: Sequence[Column], formats: Sequence[int], zone: str, codec: Codec) -> None:
        self._columns = [(column, bool(format_of(formats, i))) for i, column in enumerate(columns)]
        self._zone = zone
        self._interner = codec.interner

    def __call__(self, codes: Words) -> bytes:
        count = codes.shape[1]
        cells = [
            _cells(part, column, binary, self._zone, self._interner)
            for part, (column, binary) in zip(codes, self._columns, strict=True)
        ]
        cells = [_without_nulls(c) if isinstance(c, Fixed) and c.nulls is not None else c for c in cells]
        sizes = np.full(count, 6 + 4 * len(cells), dtype=np.int64)
        for c in cells:
            sizes += c.data.shape[1] if isinstance(c, Fixed) else np.maximum(c.sizes, 0)
        side = _Side(count)
        side.fixed(_repeated(b"D", count), _big(sizes, ">i4"), _repeated(len(cells).to_bytes(2), count))
        for c in cells:
            if isinstance(c, Fixed):
                side.fixed(_repeated(c.data.shape[1].to_bytes(4), count), c.data)
            else:
                side.fixed(_big(c.sizes, ">i4"))
                side.varied(c.data)
        return side.joined()


class _Side:
    """Parts that stand side by side in every row."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._fixed: list[np.ndarray] = []
        self._parts: list[pa.Array] = []

    def fixed(self, *data: np.ndarray) -> None:
        self._fixed += data

    def varied(self, data: pa.Array) -> None:
        self._flush()
        self._parts.append(data)

    def joined(self) -> bytes:
        if not self._parts:
            return np.hstack(self._fixed).tobytes()
        self._flush()
        found = pc.binary_join_element_wise(*self._parts, _NOTHING)
        return bytes(memoryview(found.buffers()[2])[: numbers_of(_offsets(found), np.int64)[-1]])

    def _flush(self) -> None:
        if self._fixed:
            data = np.hstack(self._fixed)
            self._parts.append(_array(np.arange(self._count + 1) * data.shape[1], data))
            self._fixed = []


def _offsets(array: pa.Array) -> pa.Array:
    """Where each value ends, as an array of its own."""
    return pa.Array.from_buffers(pa.int64(), len(array) + 1, [None, array.buffers()[1]], offset=array.offset)


def _array(offsets: np.ndarray, data: np.ndarray) -> pa.Array:
    buffers = [None, pa.py_buffer(offsets.astype(np.int64)), pa.py_buffer(np.ascontiguousarray(data))]
    return pa.Array.from_buffers(_BYTES, len(offsets) - 1, buffers)


_NOTHING = _array(np.zeros(2), np.empty(0, dtype=np.uint8))[0]
"""No bytes. `pa.scalar` and `pa.array` import pandas if it is installed: half a second in which nobody is served.
Nothing here uses them.
"""


def _repeated(data: bytes, count: int) -> np.ndarray:
    return np.broadcast_to(np.frombuffer(data, dtype=np.uint8), (count, len(data)))


def _big(values: np.ndarray, form: str) -> np.ndarray:
    """Numbers as bytes, the largest first."""
    return np.ascontiguousarray(values.astype(form)).view(np.uint8).reshape(len(values), -1)


def _without_nulls(cells: Fixed) -> Varied:
    """The same as values of two sizes."""
    assert cells.nulls is not None
    sizes = np.where(cells.nulls, 0, cells.data.shape[1])
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    return Varied(_array(offsets, cells.data[~cells.nulls]), np.where(cells.nulls, -1, sizes))


def _cells(codes: Words, column: Column, binary: bool, zone: str, interner: Interner) -> Fixed | Varied:
    kind = column.declared.kind
    missing = codes == NULL if column.declared.nullable else None
    nulls = missing if missing is not None and missing.any() else None
    if kind in ("str", "bytes") and (binary or kind == "str"):
        return _varied(interner.decode(codes, column.declared))
    if kind == "bool":
        return Fixed((codes == 1).astype(np.uint8)[:, None] if binary else _letters(codes == 1), nulls)
    if binary and kind in _NUMBERS:
        return Fixed(_NUMBERS[kind](codes, column, interner), nulls)
    if kind == "int" and not binary:
        valid = None if nulls is None else pa.py_buffer(np.packbits(~nulls, bitorder="little"))
        numbers = pa.Array.from_buffers(pa.int64(), len(codes), [valid, pa.py_buffer(np.ascontiguousarray(codes))])
        return _varied(pc.cast(numbers, pa.large_string()))
    if kind == "date" and not binary:
        return _varied(pc.cast(decode_arrow(codes, column.declared, interner), pa.large_string()))
    write = column.writer(binary, zone)
    found = [None if v is None else write(v) for v in decode_list(codes, column.declared, interner)]
    sizes = np.array([-1 if v is None else len(v) for v in found], dtype=np.int64)
    offsets = np.concatenate([[0], np.cumsum(np.maximum(sizes, 0))])
    return Varied(_array(offsets, np.frombuffer(b"".join(v or b"" for v in found), dtype=np.uint8)), sizes)


def _varied(array: pa.Array) -> Varied:
    array = array.cast(_BYTES)
    sizes = np.diff(numbers_of(_offsets(array), np.int64))
    if array.null_count:
        sizes = np.where(null_mask(array), -1, sizes)
        array = pc.fill_null(array, _NOTHING)
    return Varied(array, sizes)


def _letters(truths: np.ndarray) -> np.ndarray:
    return np.where(truths, ord("t"), ord("f")).astype(np.uint8)[:, None]


def _ints(codes: Words, column: Column, interner: Interner) -> np.ndarray:
    return _big(codes, f">i{TYPES[column.told].size}")


def _by_arrow(dtype: Any, form: str, epoch: int = 0) -> Any:
    """A writer of what Arrow has as numbers since an epoch of its own."""

    def run(codes: Words, column: Column, interner: Interner) -> np.ndarray:
        return _big(numbers_of(decode_arrow(codes, column.declared, interner), dtype) - epoch, form)

    return run


_NUMBERS = {
    "int": _ints,
    "float": _by_arrow(np.float64, ">f8"),
    "date": _by_arrow(np.int32, ">i4", _DAYS),
    "timestamp": _by_arrow(np.int64, ">i8", _MICROSECONDS),
    "timestamptz": _by_arrow(np.int64, ">i8", _MICROSECONDS),
    "time": _by_arrow(np.int64, ">i8"),
}
"""Binary forms that are numbers."""
