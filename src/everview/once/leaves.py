"""The committed batches of an arrangement as columns, read in place.

Hazard: the arrays are views of kernel memory, valid only while the session's turn lasts or the batches are pinned.
Nothing here may outlive the query; results are copies.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import astuple, dataclass
from typing import Any

import numpy as np

from everview.kernels.once import columns as kernel
from everview.kernels.once import consolidation
from everview.once.rows import Column, Rows, Words, check_weights

_FIRST_ROOM = 16


class _Window:
    """Words at an address, exposed to NumPy."""

    def __init__(self, address: int, words: int) -> None:
        self.__array_interface__: dict[str, Any] = {
            "data": (address, True),
            "shape": (words,),
            "typestr": "<i8",
            "version": 3,
        }


def window(address: int, words: int) -> Words:
    """Words at an address as a read-only array."""
    return np.asarray(_Window(address, words))


@dataclass(frozen=True, slots=True)
class Batch:
    """The location of a committed batch."""

    rows: int
    cap: int
    data: int
    times: int
    diffs: int
    address: int

    def column(self, number: int) -> Words:
        """The codes of a column, in the arrangement's order."""
        return window(self.data + 8 * number * self.cap, self.rows)

    def weights(self) -> Words | None:
        """The multiplicities; None if all are 1."""
        return None if self.diffs < 0 else window(self.data + 8 * self.diffs, self.rows)

    def moments(self) -> Words | int:
        """The times; one if all are the same."""
        if self.times < 0:
            return int(window(self.data + 8 * (-1 - self.times), 1)[0])
        return window(self.data + 8 * self.times, self.rows)


def batches(trace: int) -> list[Batch]:
    """The committed batches of a trace, largest first."""
    room = _FIRST_ROOM
    while True:
        words = np.empty(room * kernel.FOUND_WORDS, dtype=np.int64)
        found = int(kernel.batches_of(trace, words))
        if found <= room:
            return [Batch(*row) for row in words.reshape(room, kernel.FOUND_WORDS)[:found].tolist()]
        room = found


def scanned(listed: list[Batch], order: tuple[int, ...], wanted: Collection[int], time: int) -> Rows:
    """The wanted columns of all rows present at a time; `order` gives the position of each column in the batches. If
    there were deletions, the weights of equal rows are added up here, while they are adjacent.
    """
    listed = [batch for batch in listed if batch.rows]
    if any(_takes_back(batch) for batch in listed):
        return _merged(listed, order, wanted, time)
    parts = [part for batch in listed if (part := _part(batch, order, wanted, time)).count]
    if not parts:
        return Rows(0, {c: Column(np.empty(0, dtype=np.int64)) for c in wanted})
    if len(parts) == 1:
        return parts[0]
    weights = None
    if any(p.weights is not None for p in parts):
        weights = np.concatenate([np.ones(p.count, np.int64) if p.weights is None else p.weights for p in parts])
    columns = {c: Column(np.concatenate([p.words(c) for p in parts])) for c in wanted}
    return Rows(sum(p.count for p in parts), columns, weights)


def _takes_back(batch: Batch) -> bool:
    weights = batch.weights()
    return weights is not None and int(weights.min()) < 0


def _merged(listed: list[Batch], order: tuple[int, ...], wanted: Collection[int], time: int) -> Rows:
    for batch in listed:
        if (weights := batch.weights()) is not None:
            check_weights(weights)
    found = np.array([astuple(batch) for batch in listed], dtype=np.int64)
    room = int(found[:, kernel.FOUND_ROWS].sum())
    places, totals = np.empty(room, dtype=np.int64), np.empty(room, dtype=np.int64)
    heads = np.zeros(len(listed), dtype=np.int64)
    count = int(consolidation.merged(found.reshape(-1), len(listed), len(order), time, heads, places, totals))
    places, totals = places[:count], totals[:count]
    check_weights(totals)
    return Rows(count, _fetched(listed, order, wanted, places), None if bool((totals == 1).all()) else totals)


def _fetched(listed: list[Batch], order: tuple[int, ...], wanted: Collection[int], places: Words) -> dict[int, Column]:
    """Columns of some rows of several batches, numbered one batch after the other. Only those rows are copied: batches
    may hold many more, of the past.
    """
    if len(listed) == 1:
        return {c: Column(listed[0].column(order.index(c)), places) for c in wanted}
    given = np.array([astuple(batch) for batch in listed], dtype=np.int64).reshape(-1)
    found = {c: np.empty(len(places), dtype=np.int64) for c in wanted}
    for c, words in found.items():
        consolidation.gathered(given, len(listed), order.index(c), places, len(places), words)
    return {c: Column(words) for c, words in found.items()}


def _part(batch: Batch, order: tuple[int, ...], wanted: Collection[int], time: int) -> Rows:
    weights = batch.weights()
    if weights is not None:
        check_weights(weights)
    rows = Rows(batch.rows, {c: Column(batch.column(order.index(c))) for c in wanted}, weights)
    moments = batch.moments()
    if isinstance(moments, int):
        return rows if moments <= time else rows.take(np.empty(0, dtype=np.int64))
    early = moments <= time
    return rows if early.all() else rows.take(np.flatnonzero(early))
