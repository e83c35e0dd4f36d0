"""Where an operator's rows are when a dataflow has several shards.

    HASH_BY_FIRST    rows with equal first columns together, on the shard that the column's hash says
    SINGLE_SHARD     all on the first shard
    ANYWHERE         wherever their inputs were
    WHERE_MADE       the same, and it matters where: what a shard counts of what it made itself
    EVERYWHERE       each shard has those that it needs, and may have all
    HyperCube        what a join of many inputs reads: in copies, so that all rows of a result meet on one shard
    HotKeys          by first column, but for a few keys: of one side of a join split, of the other side in copies

**HyperCube.** A join binds variables, and each of its inputs has some of them. The shards are thought of as a grid with
a side for each variable, so a result belongs to the cell that the hashes of its values say, and only to that. A row of
an input knows some of the coordinates; it goes to every cell that has these (Afrati and Ullman, 2010, call it "shares",
others a hypercube). Then each cell joins what it has, with the operator that one process would use, and every result is
found in exactly one cell, once.

How long the sides are (`shares`) decides how many copies there are: for the triangle (a, b), (b, c), (a, c) on four
shards 2 by 2 by 1, so rows (a, b) are in one cell and the others in two; for a star, whose inputs share one variable,
that side is as long as there are shards, and nothing is copied.

**HotKeys.** All pairs of a key that very many rows have would be made on one shard. For such keys the rows of one side
are split over all shards, by all of their columns, and the rows of the other side are on every shard: each pair is
found where the split row is, once (`everview.plan.hot` says which keys, and which side).

Hazard: whoever reads rows in cells, or of hot keys, sees copies. Only joins may (`everview.dataflow.joins`), and who
puts rows on another number of shards, counting each `once`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import prod

import numpy as np

from everview.errors import InputError
from everview.kernels.run import exchange
from everview.plan.spelled import spelled

Variables = tuple[int, ...]


@dataclass(frozen=True, repr=False)
class Partitioning:
    """One of the ways without copies."""

    label: str

    __repr__ = spelled  # fingerprints are made of it

    def __str__(self) -> str:
        return self.label

    def parts(self, columns: np.ndarray, shards: int) -> Iterator[tuple[int, np.ndarray]]:
        """The shards that some rows (a matrix with a row for each column) belong to, and the places of those rows."""
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
        """The places of those of a shard's rows that are not copies of other shards' rows."""
        return np.arange(columns.shape[1])


HASH_BY_FIRST, SINGLE_SHARD, ANYWHERE, WHERE_MADE, EVERYWHERE = (
    Partitioning("by first column"),
    Partitioning("on one shard"),
    Partitioning("anywhere"),
    Partitioning("where it is made"),
    Partitioning("on all shards"),
)


@dataclass(frozen=True, repr=False)
class HyperCube:
    """In the cells of a grid: see the module.

    `inputs` are the variables of the columns of each of the join's inputs, `columns` those of the rows' (-1: none).

    >>> rows = np.array([[1, 2, 3], [1, 1, 1]])
    >>> wedge = HyperCube(((0, 1), (1, 2), (0, 2)), (1, 2))
    >>> [(shard, places.tolist()) for shard, places in wedge.parts(rows, 4)]
    [(0, [1]), (1, [1]), (2, [0, 2]), (3, [0, 2])]
    >>> [wedge.once(rows[:, places], 4, shard).tolist() for shard, places in wedge.parts(rows, 4)]
    [[0], [], [0, 1], []]
    """

    inputs: tuple[Variables, ...]
    columns: Variables

    __repr__ = spelled

    def __str__(self) -> str:
        return f"in cells of {self.inputs} by {self.columns}"

    def parts(self, columns: np.ndarray, shards: int) -> Iterator[tuple[int, np.ndarray]]:
        """The shards that some rows belong to, and the places of those rows."""
        first, free = self._first(columns, shards)
        for cell in np.flatnonzero(np.bincount(first, minlength=1)).tolist():
            places = np.flatnonzero(first == cell)
            for further in free:
                yield cell + further, places

    def once(self, columns: np.ndarray, shards: int, shard: int) -> np.ndarray:
        """The places of those of a shard's rows that are not copies of other shards' rows."""
        first, _ = self._first(columns, shards)
        return np.flatnonzero(first == shard)

    def _first(self, columns: np.ndarray, shards: int) -> tuple[np.ndarray, list[int]]:
        """The first cell of each row, and how far from it the others are."""
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
    """By first column, but for `keys` (codes): their rows are `copied` to all shards, or split: see the module.

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

    __repr__ = spelled

    def __str__(self) -> str:
        return f"by first column, {', '.join(map(str, self.keys))} {'on all shards' if self.copied else 'split'}"

    def parts(self, columns: np.ndarray, shards: int) -> Iterator[tuple[int, np.ndarray]]:
        """The shards that some rows belong to, and the places of those rows."""
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
        """The places of those of a shard's rows that are not copies of other shards' rows."""
        return np.flatnonzero(self._owners(columns, shards)[0] == shard)

    def _owners(self, columns: np.ndarray, shards: int) -> tuple[np.ndarray, np.ndarray]:
        """The shard of each row, of copies the first, and whether its key is hot."""
        hot = np.isin(columns[0], self.keys)
        mixed = columns[0].copy()
        if not self.copied:
            for column in columns[1:]:
                mixed[hot] = mixed[hot] * 1_000_003 ^ column[hot]
        return _hashed(mixed, shards), hot


@lru_cache(maxsize=256)
def shares(inputs: tuple[Variables, ...], shards: int) -> tuple[tuple[int, int], ...]:
    """How long each side of a join's grid is: (variable, cells), only sides longer than one.

    The fullest grid is not always the best: what counts is how much a cell gets if all inputs are alike, then how many
    copies there are. Sides are only made of variables that inputs share, if any are shared.

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
    """All grids of at most so many cells.

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
