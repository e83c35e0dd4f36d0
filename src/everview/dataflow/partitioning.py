"""The placement of an operator's rows on shards.

    HASH_BY_FIRST    rows with equal first columns together, by the column's hash
    SINGLE_SHARD     all on the first shard
    ANYWHERE         wherever their inputs are
    WHERE_MADE       the same, and the place matters: a shard's counts of its own output
    EVERYWHERE       each shard has those that it needs, possibly all
    HyperCube        inputs of a multiway join: copied, so that all rows of a result meet on one shard
    HotKeys          by first column, except a few keys: split on one side of a join, copied on the other

**HyperCube.** A join binds variables, and each of its inputs has some of them. The shards form a grid with a side for
each variable; a result belongs to exactly one cell, given by the hashes of its values. A row of an input determines
some of the coordinates and is sent to every cell that has these (the "shares" of Afrati and Ullman, 2010, also called a
hypercube). Each cell then joins its rows with the operator of the embedded case, and every result is found exactly
once, in one cell.

The lengths of the sides (`shares`) determine the number of copies. For the triangle (a, b), (b, c), (a, c) on four
shards they are 2 by 2 by 1: rows (a, b) are in one cell, the others in two. For a star, whose inputs share one
variable, that side has one cell per shard, and nothing is copied.

**HotKeys.** All pairs of a very frequent key would be produced on one shard. For such keys the rows of one side are
split over all shards, by all of their columns, and the rows of the other side are on every shard. Each pair is found
once, where the split row is (`everview.plan.hot_keys` chooses the keys and the side).

Hazard: readers of rows in cells, or of hot keys, see copies. Only joins may read them (`everview.dataflow.joins`), and
resharding, which counts each row `once`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from math import prod

import numpy as np

from everview.errors import InputError
from everview.kernels.run import exchange
from everview.plan.stable_repr import stable_repr

Variables = tuple[int, ...]


@dataclass(frozen=True, repr=False)
class Partitioning:
    """One of the placements without copies."""

    label: str

    __repr__ = stable_repr  # fingerprints depend on it

    def __str__(self) -> str:
        return self.label

    def parts(self, columns: np.ndarray, shards: int) -> Iterator[tuple[int, np.ndarray]]:
        """The shards that some rows (a matrix with a row for each column) belong to, and the positions of those
        rows."""
        if self == WHERE_MADE:
            raise InputError(
                "E_SHARDS",
                "a view with plan='frugal' counts on each shard what is made there: the shards cannot be others",
                "drop that view, change the number of shards, and make it again",
            )
        if self == EVERYWHERE:
            for shard in range(shards):
                yield shard, np.arange(columns.shape[1])
            return
        if self != HASH_BY_FIRST or not len(columns):
            yield 0, np.arange(columns.shape[1])
            return
        owner = _hashed(columns[0], shards)
        for shard in np.flatnonzero(np.bincount(owner, minlength=1)).tolist():
            yield shard, np.flatnonzero(owner == shard)

    def once(self, columns: np.ndarray, shards: int, shard: int) -> np.ndarray:
        """The positions of a shard's rows that are not copies of other shards' rows."""
        return np.arange(columns.shape[1])


HASH_BY_FIRST, SINGLE_SHARD, ANYWHERE, WHERE_MADE, EVERYWHERE = (
    Partitioning("by first column"),
    Partitioning("on one shard"),
    Partitioning("anywhere"),
    Partitioning("where it is made"),
    Partitioning("on all shards"),
)


def batches_by_first(columns: np.ndarray, time: int, diff: int, shards: int) -> list[tuple[int, np.ndarray]]:
    """Rows (a matrix with a row for each column) by first column, for each shard that gets some, as its batcher takes
    them: columns, time and diff of one row after the other. One pass over the rows, in compiled code.

    >>> [(shard, rows.tolist()) for shard, rows in batches_by_first(np.array([[1, 2, 3], [4, 5, 6]]), 9, 1, 2)]
    [(0, [2, 5, 9, 1]), (1, [1, 4, 9, 1, 3, 6, 9, 1])]
    """
    width, rows = columns.shape
    words = np.array(columns).reshape(-1)  # a copy: kernels take no read-only arrays
    counts = np.zeros(shards, dtype=np.int64)
    exchange.count_parts(words, width, counts)
    ends = (np.cumsum(counts) * (width + 2)).tolist()
    starts = np.array([0, *ends[:-1]], dtype=np.int64)
    out = np.empty(rows * (width + 2), dtype=np.int64)
    exchange.part(words, width, time, diff, starts, out)
    return [(shard, out[low:high]) for shard, (low, high) in enumerate(pairwise([0, *ends])) if low < high]


@dataclass(frozen=True, repr=False)
class HyperCube:
    """In the cells of a grid: see the module.

    `inputs` are the variables of the columns of each of the join's inputs, `columns` those of the rows (-1: none).

    >>> rows = np.array([[1, 2, 3], [1, 1, 1]])
    >>> wedge = HyperCube(((0, 1), (1, 2), (0, 2)), (1, 2))
    >>> [(shard, places.tolist()) for shard, places in wedge.parts(rows, 4)]
    [(0, [1]), (1, [1]), (2, [0, 2]), (3, [0, 2])]
    >>> [wedge.once(rows[:, places], 4, shard).tolist() for shard, places in wedge.parts(rows, 4)]
    [[0], [], [0, 1], []]
    """

    inputs: tuple[Variables, ...]
    columns: Variables

    __repr__ = stable_repr

    def __str__(self) -> str:
        return f"in cells of {self.inputs} by {self.columns}"

    def parts(self, columns: np.ndarray, shards: int) -> Iterator[tuple[int, np.ndarray]]:
        """The shards that some rows belong to, and the positions of those rows."""
        first, free = self._first(columns, shards)
        for cell in np.flatnonzero(np.bincount(first, minlength=1)).tolist():
            places = np.flatnonzero(first == cell)
            for further in free:
                yield cell + further, places

    def once(self, columns: np.ndarray, shards: int, shard: int) -> np.ndarray:
        """The positions of a shard's rows that are not copies of other shards' rows."""
        first, _ = self._first(columns, shards)
        return np.flatnonzero(first == shard)

    def _first(self, columns: np.ndarray, shards: int) -> tuple[np.ndarray, list[int]]:
        """The first cell of each row, and the distances from it to the others."""
        first, free, stride = np.zeros(columns.shape[1], dtype=np.int64), [0], 1
        for variable, share in shares(self.inputs, shards):
            if variable in self.columns:
                first += stride * _hashed(columns[self.columns.index(variable)], share)
            else:
                free = [at + stride * i for at in free for i in range(share)]
            stride *= share
        return first, sorted(free)


@dataclass(frozen=True, repr=False)
class HotKeys:
    """By first column, except for `keys` (codes): their rows are `copied` to all shards, or split: see the module.

    >>> rows = np.array([[7, 7, 7, 7, 1, 2], [1, 2, 3, 4, 5, 6]])
    >>> split, copied = HotKeys((7,), copied=False), HotKeys((7,), copied=True)
    >>> [(shard, places.tolist()) for shard, places in split.parts(rows, 2)]
    [(0, [0, 1, 2, 5]), (1, [3, 4])]
    >>> some = rows[:, 3:]
    >>> [(shard, places.tolist()) for shard, places in copied.parts(some, 2)]
    [(0, [0, 2]), (1, [0, 1])]
    >>> [copied.once(some[:, places], 2, shard).tolist() for shard, places in copied.parts(some, 2)]
    [[1], [0, 1]]
    """

    keys: tuple[int, ...]
    copied: bool

    __repr__ = stable_repr

    def __str__(self) -> str:
        return f"by first column, {', '.join(map(str, self.keys))} {'on all shards' if self.copied else 'split'}"

    def parts(self, columns: np.ndarray, shards: int) -> Iterator[tuple[int, np.ndarray]]:
        """The shards that some rows belong to, and the positions of those rows."""
        owner, hot = self._owners(columns, shards)
        if self.copied:
            for shard in range(shards):
                places = np.flatnonzero(hot | (owner == shard))
                if len(places):
                    yield shard, places
            return
        for shard in np.flatnonzero(np.bincount(owner, minlength=1)).tolist():
            yield shard, np.flatnonzero(owner == shard)

    def once(self, columns: np.ndarray, shards: int, shard: int) -> np.ndarray:
        """The positions of a shard's rows that are not copies of other shards' rows."""
        return np.flatnonzero(self._owners(columns, shards)[0] == shard)

    def _owners(self, columns: np.ndarray, shards: int) -> tuple[np.ndarray, np.ndarray]:
        """The shard of each row (the first, for copies), and whether its key is hot."""
        hot = np.isin(columns[0], self.keys)
        mixed = columns[0].copy()
        if not self.copied:
            for column in columns[1:]:
                mixed[hot] = mixed[hot] * 1_000_003 ^ column[hot]
        return _hashed(mixed, shards), hot


@lru_cache(maxsize=256)
def shares(inputs: tuple[Variables, ...], shards: int) -> tuple[tuple[int, int], ...]:
    """The lengths of the sides of a join's grid: (variable, cells), only sides longer than one.

    The largest grid is not always the best: the criteria are how much a cell receives if all inputs have the same size,
    then the number of copies. Only variables shared by inputs get sides, if any are shared.

    >>> triangle, star = ((0, 1), (1, 2), (0, 2)), ((0, 1), (0, 2), (0, 3))
    >>> shares(triangle, 4), shares(triangle, 8), shares(triangle, 5), shares(star, 6), shares(star, 1)
    (((0, 2), (1, 2)), ((0, 2), (1, 2), (2, 2)), ((0, 2), (1, 2)), ((0, 6),), ())
    """
    every = sorted({v for of in inputs for v in of if v >= 0})
    shared = [v for v in every if sum(v in of for of in inputs) > 1] or every

    def cost(sides: Sequence[int]) -> tuple[float, int, tuple[int, ...]]:
        side = dict(zip(shared, sides, strict=True))
        held = [prod(side.get(v, 1) for v in of) for of in inputs]
        cells = prod(sides)
        return sum(1 / n for n in held), sum(cells // n for n in held), tuple(-s for s in sides)

    best = min(_grids(len(shared), shards), key=cost)
    return tuple((v, side) for v, side in zip(shared, best, strict=True) if side > 1)


def _grids(sides: int, cells: int) -> Iterator[tuple[int, ...]]:
    """All grids with at most this many cells.

    >>> list(_grids(2, 3))
    [(1, 1), (1, 2), (1, 3), (2, 1), (3, 1)]
    """
    if sides == 0:
        yield ()
        return
    for side in range(1, cells + 1):
        for rest in _grids(sides - 1, cells // side):
            yield side, *rest


def _hashed(column: np.ndarray, sides: int) -> np.ndarray:
    out = np.empty(len(column), dtype=np.int64)
    exchange.shard_of(np.array(column), sides, out)  # a copy: kernels take no read-only arrays
    return out
