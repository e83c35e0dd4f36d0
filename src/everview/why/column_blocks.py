"""Bags as lazily gathered columns.

A *block* is a bag whose rows may occur several times: columns of codes, and counts. Its columns may be in the batches
of a trace, or in arrays of a computation, with the block selecting rows of them. A filter of a wide table therefore
selects row numbers, a join selects pairs of them, and only columns that are compared, computed with or shown are ever
gathered.

Hazard: columns of traces are read in place, without a copy. That is safe in a turn, between steps.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterable, Mapping, Sequence
from heapq import nsmallest
from typing import Protocol

import numpy as np
import numpy.typing as npt

from everview.dataflow.operators import Arrangement
from everview.kernels import structures
from everview.kernels.trace import batch as batch_k
from everview.kernels.trace import trace as trace_k

Row = tuple[int, ...]
Bag = dict[Row, int]
Bound = Mapping[int, int]
"""Columns whose codes are known."""

Words = npt.NDArray[np.int64]


class Columns(Protocol):
    """The location of columns."""

    def column(self, place: int) -> Words:
        """One of them."""


class Arrays:
    """Columns that are arrays."""

    def __init__(self, arrays: Sequence[Words] | Words) -> None:
        self._arrays = arrays

    def column(self, place: int) -> Words:
        return self._arrays[place]


class Part:
    """Some rows of a set of columns: those with these numbers, or all."""

    def __init__(self, columns: Columns, rows: Words | None = None) -> None:
        self.columns = columns
        self.rows = rows

    def at(self, chosen: Words) -> Part:
        """Some of the rows."""
        return Part(self.columns, chosen if self.rows is None else self.rows[chosen])


class Block:
    """Columns of codes, and the multiplicity of each row. A column is one of a part: (part, position)."""

    def __init__(self, parts: Sequence[Part], places: Sequence[tuple[int, int]], counts: Words) -> None:
        self._parts = parts
        self._places = places
        self._gathered: dict[int, Words] = {}
        self.counts = counts

    @classmethod
    def of(cls, arrays: Sequence[Words] | Words, counts: Words) -> Block:
        """A block of arrays."""
        return cls([Part(Arrays(arrays))], [(0, c) for c in range(len(arrays))], counts)

    @classmethod
    def of_bag(cls, bag: Bag, width: int) -> Block:
        """A bag as a block."""
        columns = np.array(list(bag), dtype=np.int64).reshape(len(bag), width).T
        return cls.of(np.ascontiguousarray(columns), np.fromiter(bag.values(), np.int64, len(bag)))

    def __len__(self) -> int:
        return len(self.counts)

    def column(self, c: int) -> Words:
        """One column."""
        found = self._gathered.get(c)
        if found is None:
            number, place = self._places[c]
            part = self._parts[number]
            found = part.columns.column(place)
            found = self._gathered[c] = found if part.rows is None else found[part.rows]
        return found

    def matrix(self, columns: Iterable[int]) -> Words:
        """Some columns as the rows of a matrix."""
        chosen = list(columns)
        found = np.empty((len(chosen), len(self)), dtype=np.int64)
        for i, c in enumerate(chosen):
            found[i] = self.column(c)
        return found

    def choose(self, columns: Iterable[int]) -> Block:
        """The same rows with other columns."""
        return Block(self._parts, [self._places[c] for c in columns], self.counts)

    def where(self, kept: npt.NDArray[np.bool_] | Words) -> Block:
        """Some of the rows."""
        rows = np.flatnonzero(kept) if kept.dtype == np.bool_ else kept.astype(np.int64, copy=False)
        if len(rows) == len(self) and kept.dtype == np.bool_:
            return self
        return Block([p.at(rows) for p in self._parts], self._places, self.counts[rows])

    def known(self, bound: Bound) -> Block:
        """The rows that agree with what is known."""
        if not bound or not len(self):
            return self
        kept = np.ones(len(self), dtype=np.bool_)
        for column, code in bound.items():
            kept &= self.column(column) == code
        return self.where(kept)

    def beside(self, other: Block, counts: Words) -> Block:
        """The columns of two blocks with as many rows, side by side."""
        far = len(self._parts)
        places = [*self._places, *((far + number, place) for number, place in other._places)]
        return Block([*self._parts, *other._parts], places, counts)

    def negated(self) -> Block:
        """The same rows, negated."""
        return Block(self._parts, self._places, -self.counts)

    def least(self, number: int) -> Bag | None:
        """The rows with the least codes, up to this number; None if that takes a full scan."""
        some = self
        for c in range(len(self._places)):
            if len(some) <= 8 * number:
                break
            codes = some.column(c)
            last = np.partition(codes, 4 * number)[4 * number]
            some = some.where(codes <= last)
            if int(codes.min()) < last:
                break
        if len(some) > len(self) // 2 and len(some) > 64 * number:
            return None
        found = some.bag()
        whole = len(some) == len(self)
        return {row: found[row] for row in nsmallest(number, found)} if whole or len(found) >= number else None

    def bag(self) -> Bag:
        """The consolidated rows."""
        width = len(self._places)
        if not len(self):
            return {}
        columns = [self.column(c).tolist() for c in range(width)]
        rows: list[Row] = list(zip(*columns, strict=True)) if width else [()] * len(self)
        counts: list[int] = self.counts.tolist()
        found: Bag = dict(zip(rows, counts, strict=True))
        if len(found) < len(rows):  # some rows occur twice
            found.clear()
            for row, n in zip(rows, counts, strict=True):
                found[row] = found.get(row, 0) + n
        return found if all(found.values()) else {row: n for row, n in found.items() if n}


def nothing(width: int) -> Block:
    """No rows."""
    return Block.of(np.empty((width, 0), dtype=np.int64), np.empty(0, dtype=np.int64))


def stacked(blocks: Sequence[Block], width: int) -> Block:
    """The rows of several blocks, one after the other."""
    blocks = [b for b in blocks if len(b)]
    if len(blocks) < 2:
        return blocks[0] if blocks else nothing(width)
    columns = [np.concatenate([b.column(c) for b in blocks]) for c in range(width)]
    return Block.of(columns, np.concatenate([b.counts for b in blocks]))


class Stored:
    """All updates of an arrangement up to a time, in place, in the collection's column order. They are not
    consolidated, which would require sorting.
    """

    def __init__(self, arrangement: Arrangement, time: int) -> None:
        self.width = arrangement.cols
        self._at = {c: place for place, c in enumerate(arrangement.order)}
        trace = arrangement.trace.address
        table = structures.peek(trace, trace_k.TRACE_TABLE)
        self._batches = [_Batch(structures.peek(table, b)) for b in range(structures.peek(trace, trace_k.TRACE_COUNT))]
        self._batches = [b for b in self._batches if b.rows]
        self._upto = time
        self._joined: dict[int, Words] = {}

    def column(self, c: int) -> Words:
        """One column, of all updates."""
        found = self._joined.get(c)
        if found is None:
            parts = [b.column(self._at[c]) for b in self._batches]
            found = self._joined[c] = parts[0] if len(parts) == 1 else _joined(parts)
        return found

    def block(self) -> Block:
        """All rows."""
        known = [b.known(self._upto) for b in self._batches]
        counts = _joined([b.diffs() for b in self._batches])
        rows = None if all(k is None for k in known) else np.flatnonzero(_joined_masks(known, self._batches))
        part = Part(self, rows)
        return Block([part], [(0, c) for c in range(self.width)], counts if rows is None else counts[rows])

    def where(self, c: int, code: int) -> Block:
        """The rows with a code in a column, batch by batch, without reading anything else."""
        found = []
        for batch in self._batches:
            rows = np.flatnonzero(batch.column(self._at[c]) == code)
            known = batch.known(self._upto)
            rows = rows if known is None else rows[known[rows]]
            if len(rows):
                columns = [batch.column(self._at[k])[rows] for k in range(self.width)]
                found.append(Block.of(columns, batch.diffs(rows)))
        return stacked(found, self.width)


class _Batch:
    """The columns of a batch where they lie."""

    def __init__(self, batch: int) -> None:
        self._batch = batch
        self._data = structures.peek(batch, batch_k.BATCH_DATA)
        self._cap = structures.peek(batch, batch_k.BATCH_CAP)
        self.rows = structures.batch_rows(batch)

    def _words(self, word: int, number: int) -> Words:
        kind = ctypes.c_int64 * number
        return np.ctypeslib.as_array(kind.from_address(self._data + 8 * word))

    def column(self, place: int) -> Words:
        return self._words(place * self._cap, self.rows)

    def known(self, upto: int) -> npt.NDArray[np.bool_] | None:
        """Which rows have that time or an earlier one; None: all."""
        every = structures.peek(self._batch, batch_k.BATCH_TIME_MASK) != 0
        times = self._words(structures.peek(self._batch, batch_k.BATCH_TIME_AT), self.rows if every else 1)
        if int(times.max()) <= upto:
            return None
        return times <= upto if every else np.zeros(self.rows, dtype=np.bool_)

    def diffs(self, rows: Words | None = None) -> Words:
        at = structures.peek(self._batch, batch_k.BATCH_DIFF_AT)
        number = self.rows if rows is None else len(rows)
        if structures.peek(self._batch, batch_k.BATCH_DIFF_MASK) == 0:
            return np.full(number, self._words(at, 1)[0])
        found = self._words(at, self.rows)
        return found if rows is None else found[rows]


def _joined(parts: Sequence[Words]) -> Words:
    return np.concatenate([np.empty(0, dtype=np.int64), *parts])


def _joined_masks(known: Sequence[npt.NDArray[np.bool_] | None], batches: Sequence[_Batch]) -> npt.NDArray[np.bool_]:
    masks = [np.ones(b.rows, dtype=np.bool_) if k is None else k for k, b in zip(known, batches, strict=True)]
    return np.concatenate(masks)
