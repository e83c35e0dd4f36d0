"""The changes of one time, as delivered to subscribers and sinks."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from everview.codes.codec import Codec

Row = tuple[Any, ...]


class Batch:
    """The changes of a view at one complete time. Rows are decoded on first access.

    >>> import everview as ev
    >>> db = ev.connect()
    >>> t = db.table("t", {"x": int})
    >>> v = db.view("v", t.distinct())
    >>> stop = v.subscribe(lambda batch: print(batch.time, batch.rows(), batch.to_arrow().column_names))
    >>> t.insert([(1,), (1,)])
    1 [((1,), 1)] ['x', '_time', '_diff']
    """

    def __init__(self, time: int, codec: Codec, columns: np.ndarray, diffs: np.ndarray) -> None:
        self.time = time
        self._codec = codec
        self._columns = columns
        self._diffs = diffs

    def rows(self) -> list[tuple[Row, int]]:
        """[(row, diff), ...]: diff is positive for inserted rows and negative for deleted ones."""
        return list(zip(self._codec.decode_rows(self._columns), self._diffs.tolist(), strict=True))

    def to_arrow(self) -> pa.Table:
        """The rows as an Arrow table, with the time and the signed counts in columns `_time` and `_diff`."""
        return with_times(self._codec.to_arrow(self._columns), np.full(len(self._diffs), self.time), self._diffs)

    def __len__(self) -> int:
        return len(self._diffs)

    def __bool__(self) -> bool:
        return True

    def __repr__(self) -> str:
        return f"Batch(time={self.time}, rows={self.rows()!r})"


def with_times(rows: pa.Table, times: np.ndarray, diffs: np.ndarray) -> pa.Table:
    """Rows with columns `_time` and `_diff`, the layout of change feeds."""
    number = {"type": pa.int64(), "nullable": False}
    return rows.append_column(pa.field("_time", **number), pa.array(times)).append_column(
        pa.field("_diff", **number), pa.array(diffs)
    )
