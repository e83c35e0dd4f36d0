"""Batches of kernels as arrays."""

from __future__ import annotations

import numpy as np

from everview.kernels import structures


def batch_arrays(batch: int, cols: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A batch's (columns, times, diffs) as arrays."""
    rows = structures.batch_rows(batch)
    columns = np.empty((cols, rows), dtype=np.int64)
    times = np.empty(rows, dtype=np.int64)
    diffs = np.empty(rows, dtype=np.int64)
    if rows:
        structures.batch_contents(batch, columns, times, diffs)
    return columns, times, diffs
