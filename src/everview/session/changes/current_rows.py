"""The rows of a table under some keys, as seen by the current transaction: for upserts, conflicts and clearing.

Keys are looked up one by one, in one call. For very many keys it is cheaper to scan the whole index: a look-up costs
about as much as reading `READ_PER_KEY` rows in order. Staged rows are added to the stored ones. All data is columns of
codes.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from everview.codes.multiplicity import repeated
from everview.dataflow.batch_arrays import batch_arrays
from everview.dataflow.operators import Arrangement
from everview.kernels import structures
from everview.kernels.trace import read
from everview.kernels.trace.key_lookup import under_keys
from everview.kernels.trace.trace import NO_SINCE

READ_PER_KEY = 20
"""Rows that a scan reads in the time of one look-up."""

Counted = tuple[np.ndarray, np.ndarray]
"""Rows as columns, and their multiplicities."""


def current(
    arrangement: Arrangement, time: int, staged: Iterable[Counted], key: tuple[int, ...], keys: np.ndarray | None
) -> np.ndarray:
    """Stored and staged rows under the keys (each a column of `keys`; None: all), repeated by multiplicity."""
    if keys is not None and not keys.size:
        return np.empty((arrangement.cols, 0), dtype=np.int64)
    columns, counts = stored(arrangement, time, key, keys)
    pending = list(staged)
    if pending:
        if keys is not None:
            pending = [_picked(part, key, keys) for part in pending]
        columns, counts = _added_up([(columns, counts), *pending])
    return repeated(columns, counts)


def how_often(arrangement: Arrangement, time: int, row: tuple[int, ...]) -> int:
    """The stored multiplicity of a row."""
    codes = np.array([row[c] for c in arrangement.order], dtype=np.int64)
    return int(read.how_often(arrangement.trace.address, codes, time))


def last_of_each(keys: np.ndarray) -> np.ndarray:
    """Positions of the last occurrence of each key, in order.

    >>> last_of_each(np.array([[3, 1, 3, 2]])).tolist()
    [1, 2, 3]
    """
    if keys.shape[1] == 1:
        return np.zeros(1, dtype=np.int64)
    order = np.lexsort(keys[::-1])  # stable: equal keys stay in order
    return np.sort(order[_ends(keys[:, order])])


def _ends(columns: np.ndarray) -> np.ndarray:
    """For sorted rows: whether each is the last of its group."""
    ends = np.ones(columns.shape[1], dtype=bool)
    ends[:-1] = (columns[:, 1:] != columns[:, :-1]).any(axis=0)
    return ends


def stored(arrangement: Arrangement, time: int, key_columns: tuple[int, ...], keys: np.ndarray | None) -> Counted:
    """The stored rows under the keys, with multiplicities."""
    trace = arrangement.trace
    if keys is None or (keys.shape[1] > 1 and trace.measure()[1] <= READ_PER_KEY * keys.shape[1]):
        everything = _taken(arrangement, read.collect(trace.address, NO_SINCE, time, 0))
        return everything if keys is None else _picked(everything, key_columns, keys)
    return _taken(arrangement, under_keys(trace.address, np.ascontiguousarray(keys), time))


def _under(arrangement: Arrangement, time: int, key: np.ndarray) -> Counted:
    """Stored rows that begin with these codes, in the index's order of columns."""
    block = structures.make_filled(key)
    found = _taken(arrangement, read.collect_key(arrangement.trace.address, block, len(key), time))
    structures.drop_block(block)
    return found


def _taken(arrangement: Arrangement, batch: int) -> Counted:
    """A batch's rows in the table's column order; frees the batch."""
    columns, _, counts = batch_arrays(batch, arrangement.cols)
    read.release(batch)
    back = [arrangement.order.index(c) for c in range(arrangement.cols)]
    return columns[back], counts


def _picked(part: Counted, key: tuple[int, ...], keys: np.ndarray) -> Counted:
    """The rows under the keys."""
    columns, counts = part
    if not columns.shape[1]:
        return part
    here = np.isin(records(columns[list(key)]), records(keys))
    return columns[:, here], counts[here]


def records(columns: np.ndarray) -> np.ndarray:
    """Rows as scalar records that NumPy can compare."""
    if len(columns) == 1:
        return np.asarray(columns[0])
    return np.ascontiguousarray(columns.T).view([("", np.int64)] * len(columns)).ravel()


def _together(parts: list[Counted]) -> Counted:
    return np.concatenate([c for c, _ in parts], axis=1), np.concatenate([n for _, n in parts])


def _added_up(parts: list[Counted]) -> Counted:
    """Consolidate equal rows."""
    columns, counts = _together(parts)
    if not columns.shape[1]:
        return columns, counts
    order = np.lexsort(columns[::-1])
    columns, counts = columns[:, order], counts[order]
    ends = np.flatnonzero(_ends(columns))
    starts = np.concatenate([[0], ends[:-1] + 1])
    return columns[:, ends], np.add.reduceat(counts, starts)
