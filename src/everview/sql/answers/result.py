"""The result of a statement: rows with column names, sorted if requested."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cmp_to_key
from typing import TYPE_CHECKING, Any

import numpy as np

from everview.cancellation import poll
from everview.codes.codec import Codec
from everview.codes.packed import order_key
from everview.session.names.arguments import check_count
from everview.session.reads import rendering
from everview.types import DataType

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl
    import pyarrow as pa

Row = tuple[Any, ...]

LONGEST = 1_000_000
"""Maximum number of characters of a value that are printed."""


class Result:
    """Rows of a SELECT, SHOW or EXPLAIN; a copy, unaffected by later changes.

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

    def to_arrow(self, start: int = 0, stop: int | None = None) -> pa.Table:
        """As an Arrow table: all rows, or those from one position up to another."""
        check_count("start", start, 0)
        if stop is not None:
            check_count("stop", stop, 0)
        return self._codec.to_arrow(self._codes[:, start:stop])

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
        return "\n".join(rendering.lines(self.columns, self._codec.types, self.rows(), widest=LONGEST))

    def _repr_html_(self) -> str:
        rows = self.rows()
        more = rendering.left_out(rendering.DEFAULT_ROWS, len(rows))
        note = rendering.counted(len(rows))
        return rendering.page(
            self.columns, self._codec.types, rows[: rendering.DEFAULT_ROWS], f"{more}; {note}" if more else note
        )


def coded(result: Result) -> tuple[Codec, np.ndarray]:
    """The rows as codes, column by column, and their types: for callers that need no values."""
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
