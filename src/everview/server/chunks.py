"""Chunks: the consolidated changes of a view between two times, shared by all subscribers.

A chunk has its rows in three forms: as codes, which can be added to those of other chunks; as Python rows or as an
Arrow table, decoded once; and as encoded by protocols. It is immutable.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from everview.session.changes.batch import Row, with_times
from everview.session.reads.snapshot import remaining

if TYPE_CHECKING:
    from everview.types import DataType


@dataclass(eq=False)
class Chunk:
    """Rows with their signed counts, of the times after `start` up to `stop`; or contents at `stop`."""

    start: int
    stop: int
    names: tuple[str, ...]
    types: tuple[DataType, ...]
    codes: np.ndarray
    diffs: np.ndarray
    rows: list[Row]
    columns: pa.Table | None = None
    """instead of the rows, if the feed is one of Arrow tables"""
    encoded: dict[str, bytes] = field(default_factory=dict)
    """encodings by protocol name: each encodes it once for all"""

    def __len__(self) -> int:
        return len(self.diffs)

    @property
    def cells(self) -> int:
        """The number of values."""
        return len(self.diffs) * (len(self.names) + 1)

    def signed(self) -> list[tuple[Row, int]]:
        """[(row, diff), ...]"""
        return list(zip(self.rows, self.diffs.tolist(), strict=True))

    def to_arrow(self) -> pa.Table:
        """The rows with columns `_time`, the last of its times, and `_diff`."""
        assert self.columns is not None
        return with_times(self.columns, np.full(len(self.diffs), self.stop), self.diffs)


def summed(chunks: list[Chunk]) -> Chunk:
    """Consecutive chunks merged into one, without rows that cancel."""
    codes = np.concatenate([c.codes for c in chunks], axis=1)
    kept, diffs = remaining(codes, np.concatenate([c.diffs for c in chunks]))
    first, last = chunks[0], chunks[-1]
    picked, columns = [], None
    if first.columns is None:
        rows = [row for chunk in chunks for row in chunk.rows]
        picked = [rows[i] for i in kept.tolist()]
    else:
        columns = pa.concat_tables([c.columns for c in chunks]).take(pa.array(kept))
    return Chunk(first.start, last.stop, first.names, first.types, codes[:, kept], diffs, picked, columns)
