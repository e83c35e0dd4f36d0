"""Copies columns whose values are their own codes.

An int is its own code, so a column of 64-bit ints does not need the casts, masks and checks of `arrays`, which cost
more than a thousand numbers do. Other columns, and those that may hold values to be refused, are left to `arrays`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from everview.codes.interner import Words
from everview.types import NULL, DataType, bounds

_INT64 = np.dtype(np.int64)


def copied(values: Any, declared: DataType, into: Words) -> bool:
    """Copy the column into `into`, which has its length, if its values are codes; return whether they are.

    >>> from everview.types import INT
    >>> codes = np.empty(2, dtype=np.int64)
    >>> copied(pa.array([1, 2]), INT, codes), codes.tolist()
    (True, [1, 2])
    >>> copied(pa.array([1, None]), INT, codes), copied([1, 2], INT, codes)
    (False, False)
    """
    if declared.kind != "int":
        return False
    if type(values) is np.ndarray:
        if values.dtype != _INT64 or values.ndim != 1:
            return False
        into[:] = values
    else:
        if type(values) is pa.ChunkedArray and values.num_chunks == 1:
            values = values.chunk(0)
        if type(values) is not pa.Int64Array or values.null_count or not len(values):
            return False
        into[:] = np.frombuffer(values.buffers()[1], _INT64, len(values), 8 * values.offset)
    if declared.width:
        low, high = bounds(declared.width)
        return not len(into) or (low <= int(into.min()) and int(into.max()) <= high)
    return not (declared.nullable and bool((into == NULL).any()))
