"""Conversion between Arrow buffers and the arrays that kernels take."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from everview.codes.scalars import shown
from everview.errors import InputError

Bytes = npt.NDArray[np.uint8]

NO_BYTES: Bytes = np.zeros(0, dtype=np.uint8)
NO_BYTES.flags.writeable = False


def utf8(text: str) -> bytes:
    """Encode text as UTF-8, refusing lone surrogates.

    >>> utf8("é")
    b'\\xc3\\xa9'
    """
    try:
        return text.encode()
    except UnicodeEncodeError:
        hint = "it holds half of a surrogate pair; decode the source with errors='replace'"
        raise InputError("E_TYPE", f"{shown(text)} is not valid Unicode text", hint) from None


def items(buffer: pa.Buffer | None, dtype: Any) -> npt.NDArray[Any]:
    """The items of an Arrow buffer, without a copy. One that somebody has sent may be some bytes longer than its items:
    that is valid, and NumPy refuses it.

    >>> items(pa.py_buffer(bytes(19)), np.int64)
    array([0, 0])
    """
    if buffer is None:
        return np.empty(0, dtype=dtype)
    return np.frombuffer(buffer, dtype=dtype, count=buffer.size // np.dtype(dtype).itemsize)


def numbers_of(array: pa.Array, dtype: Any, per_value: int = 1) -> npt.NDArray[Any]:
    """The values of a fixed-width Arrow array, without a copy; undefined where it is null.

    `Array.to_numpy` would import pandas (0.5 s).

    >>> numbers_of(pa.array([1, 2, 3]).slice(1), np.int64)
    array([2, 3])
    """
    data = items(array.buffers()[1], dtype)
    return data[array.offset * per_value : (array.offset + len(array)) * per_value]


def integers(numbers: npt.NDArray[np.int64]) -> pa.Array:
    """An Arrow array of numbers, without a copy; `pa.array` would import pandas (0.5 s).

    >>> integers(np.array([3, 4])).to_pylist()
    [3, 4]
    """
    return pa.Array.from_buffers(pa.int64(), len(numbers), [None, pa.py_buffer(numbers)])


def null_mask(array: pa.Array) -> npt.NDArray[np.bool_]:
    """A mask of the null values of an Arrow array.

    >>> null_mask(pa.array([1, None]))
    array([False,  True])
    """
    bitmap = array.buffers()[0]
    if bitmap is None:
        return np.full(len(array), array.null_count > 0)
    bits = np.unpackbits(np.frombuffer(bitmap, dtype=np.uint8), bitorder="little")
    missing: npt.NDArray[np.bool_] = bits[array.offset : array.offset + len(array)] == 0
    return missing


def validity_buffer(valid: npt.NDArray[np.bool_]) -> pa.Buffer | None:
    """Arrow's validity bitmap; None if there are no nulls."""
    return None if valid.all() else pa.py_buffer(np.packbits(valid, bitorder="little"))


def validity(values: pa.Array) -> tuple[Bytes, int]:
    """An Arrow array's bitmap and its first bit; an empty array if nothing is null."""
    if not values.null_count:
        return NO_BYTES, 0
    return frozen(values.buffers()[0]), values.offset


def frozen(data: Any) -> Bytes:
    """Bytes as kernels take them: a read-only array."""
    if data is None:
        return NO_BYTES
    array = np.frombuffer(data, dtype=np.uint8)
    array.flags.writeable = False
    return array


def longer(array: Any, used: int, size: int) -> Any:
    longer = np.empty(size, dtype=array.dtype)
    longer[:used] = array[:used]
    return longer
