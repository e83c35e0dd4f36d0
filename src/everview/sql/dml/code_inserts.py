"""INSERT ... SELECT without decoding: the answer of a query is codes, and so are the rows of a table.

Usually the rows of a statement become Python values, which defaults, conflicts and RETURNING need, and are encoded
again. For a query into all columns of a table without a key none of these applies, so its codes are staged as they are,
as CREATE TABLE AS does. What encoding would check is checked here on whole columns: NULLs, and the ranges of ints. If
something might be wrong, the answer is no, and the statement goes through values, which name the row and column.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from everview.types import NULL, DataType, bounds

Words = npt.NDArray[np.int64]


def fit(codes: Words, given: tuple[DataType, ...], declared: tuple[DataType, ...]) -> bool:
    """Whether a query's codes of types `given` can be stored as they are in columns of types `declared`.

    >>> from everview.types import INT, small_int
    >>> fit(np.array([[1, 300]]), (INT,), (INT,)), fit(np.array([[1, 300]]), (INT,), (small_int(-8),))
    (True, False)
    """
    return all(map(_fits, codes, given, declared))


def _fits(codes: Words, given: DataType, declared: DataType) -> bool:
    if declared.kind == "str" and declared.width:
        return False  # texts are not looked at here
    null = codes == NULL
    if null.any() and not (given.nullable and declared.nullable):
        return False
    if declared.kind != "int" or not declared.width:
        return True
    low, high = bounds(declared.width)
    return bool(((codes >= low) & (codes <= high) | null).all())
