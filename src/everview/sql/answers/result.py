"""The answer to a statement: rows with column names, in order if the query asked for one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cmp_to_key
from typing import TYPE_CHECKING, Any

import numpy as np

from everview.codes.codec import Codec
from everview.codes.packed import order_key
from everview.session.reads import shown
from everview.stopping import poll
from everview.types import DataType

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl
    import pyarrow as pa

Row = tuple[Any, ...]

LONGEST = 1_000_000
"""Letters of a value that are printed: plans and texts are not cut."""


class Result:
    """Rows that a SELECT, SHOW or EXPLAIN gives; a copy, which later changes do not touch.

    >>> import everview as ev
    >>> db = ev.connect()
    >>> _ = db.sql("CREATE TABLE t (x int, y text); INSERT INTO t VALUES (1, 'one'), (2, 'two')")
    >>> answer = db.sql("SELECT y, x FROM t ORDER BY x DESC")
    >>> answer.columns, answer.rows()
    (['y', 'x'], [('two', 2), ('one', 1)])
    """

    def __init__(self, codec: Codec, codes: np.ndarray) -> None:
        self._codec = codec
        self._codes = codes

    @property
    def columns(self) -> list[str]:
        """Names of the columns."""
        return list(self._codec.names)

    @property
    def types(self) -> list[DataType]:
        """Types of the columns."""
        return list(self._codec.types)

    def rows(self) -> list[Row]:
        """The rows as tuples."""
        return self._codec.decode_rows(self._codes)

    def to_arrow(self) -> pa.Table:
        """As an Arrow table."""
        return self._codec.to_arrow(self._codes)

    def to_pandas(self) -> pd.DataFrame:
        """As a pandas frame."""
        frame: pd.DataFrame = self._codec.to_pandas(self._codes)
        return frame

    def to_polars(self) -> pl.DataFrame:
        """As a polars frame."""
        frame: pl.DataFrame = self._codec.to_polars(self._codes)
        return frame

    def __len__(self) -> int:
        return int(self._codes.shape[1])

    def __iter__(self) -> Iterator[Row]:
        return iter(self.rows())

    def __repr__(self) -> str:
        return f"Result({', '.join(self.columns)}: {len(self)} rows)"

    def __str__(self) -> str:
        return "\n".join(shown.lines(self.columns, self._codec.types, self.rows(), widest=LONGEST))

    def _repr_html_(self) -> str:
        rows = self.rows()
        more = shown.left_out(shown.ROWS, len(rows))
        note = shown.counted(len(rows))
        return shown.page(self.columns, self._codec.types, rows[: shown.ROWS], f"{more}; {note}" if more else note)


def coded(result: Result) -> tuple[Codec, np.ndarray]:
    """The rows as codes, column by column, and what they are codes of: for whoever needs no values."""
    return result._codec, result._codes


def in_order(
    rows: Sequence[Row], order: Sequence[tuple[int, bool]], types: Sequence[DataType] | None = None
) -> list[int]:
    """Numbers of the rows in an order of (column, descending), NULLs last.

    >>> in_order([(1, "a"), (None, "b"), (2, "c")], [(0, True)])
    [2, 0, 1]
    """

    keys = {c: order_key(types[c]) if types is not None else None for c, _ in order}

    def compare(a: int, b: int) -> int:
        poll()
        for column, down in order:
            x, y = rows[a][column], rows[b][column]
            key = keys[column]
            if key is not None and x is not None and y is not None:
                x, y = key(x), key(y)
            if x == y or (x is None and y is None):
                continue
            if x is None or y is None:
                return 1 if x is None else -1
            if x != x or y != y:  # NaN is larger than everything
                less = y != y and x == x
                if (x != x) == (y != y):
                    continue
            else:
                less = x < y
            return -1 if less != down else 1
        return 0

    return sorted(range(len(rows)), key=cmp_to_key(compare))
