"""Temporary rows as columns of codes.

A column is an array of codes or, after a filter or a join, such an array indirectly through row numbers. Columns of one
origin share the row numbers, so a join of wide rows creates one array per side, and values are fetched only when read.

`weights` are the multiplicities; None: all 1. Rows may occur several times, and rows whose weights cancel may still be
present: `everview.once.row_groups.consolidated` adds them up where it matters.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Words = npt.NDArray[np.int64]

HEAVIEST = 2**28
"""Weights below this can be multiplied by half a value, and by each other once, without overflow checks."""


class Elsewhere(Exception):
    """Raised if the dataflow must evaluate the query."""


@dataclass(frozen=True, slots=True)
class Column:
    """Codes, in row order, or to be fetched by row numbers (`places`)."""

    base: Words
    places: Words | None = None

    def words(self) -> Words:
        """The codes in row order."""
        return self.base if self.places is None else self.base[self.places]


@dataclass(frozen=True, slots=True)
class Rows:
    """Some columns of a bag of rows, by their numbers."""

    count: int
    columns: Mapping[int, Column]
    weights: Words | None = None

    def words(self, column: int) -> Words:
        """The codes of a column."""
        return self.columns[column].words()

    def take(self, places: Words) -> Rows:
        """The rows with these numbers.

        >>> rows = Rows(3, {0: Column(np.array([7, 8, 9]))})
        >>> rows.take(np.array([2, 0])).words(0).tolist()
        [9, 7]
        """
        composed: dict[int, Words] = {}
        weights = None if self.weights is None else self.weights[places]
        return Rows(len(places), {n: _seen(c, places, composed) for n, c in self.columns.items()}, weights)

    def only(self, columns: Iterable[int]) -> Rows:
        """Only these columns."""
        return Rows(self.count, {c: self.columns[c] for c in columns}, self.weights)

    def moved(self, by: int) -> Mapping[int, Column]:
        """The columns under other numbers."""
        return {number + by: column for number, column in self.columns.items()}

    def negated(self) -> Rows:
        """The rows with opposite weights."""
        weights = np.full(self.count, -1, dtype=np.int64) if self.weights is None else -self.weights
        return Rows(self.count, self.columns, weights)

    def is_plain(self) -> bool:
        """Whether all weights are positive."""
        return self.weights is None or not len(self.weights) or bool(self.weights.min() > 0)

    def size(self) -> int:
        """Maximum number of words that these rows hold."""
        held = {id(a): a.size for c in self.columns.values() for a in (c.base, c.places) if a is not None}
        return sum(held.values()) + (0 if self.weights is None else self.weights.size)


def _seen(column: Column, places: Words, composed: dict[int, Words]) -> Column:
    """A column through row numbers; columns that shared theirs before share them after."""
    if column.places is None:
        return Column(column.base, places)
    found = composed.get(id(column.places))
    if found is None:
        found = composed[id(column.places)] = column.places[places]
    return Column(column.base, found)


def settled(rows: Rows, columns: Iterable[int]) -> Rows:
    """The rows with some columns fetched, because they are read repeatedly."""
    fetched = {c: Column(rows.words(c)) for c in columns}
    return Rows(rows.count, {**rows.columns, **fetched}, rows.weights)


def together(parts: list[Rows], columns: Iterable[int]) -> Rows:
    """All rows of all parts."""
    if len(parts) == 1:
        return parts[0].only(columns)
    weights = None
    if any(p.weights is not None for p in parts):
        weights = np.concatenate([weights_of(p) for p in parts])
    found = {c: Column(np.concatenate([p.words(c) for p in parts])) for c in columns}
    return Rows(sum(p.count for p in parts), found, weights)


def weights_of(rows: Rows) -> Words:
    """The multiplicities of all rows."""
    return np.ones(rows.count, dtype=np.int64) if rows.weights is None else rows.weights


def times(left: Words | None, right: Words | None) -> Words | None:
    """The weights of pairs."""
    if left is None or right is None:
        return right if left is None else left
    product: Words = left * right
    check_weights(product)
    return product


def check_weights(weights: Words) -> None:
    """Leave multiplicities that are too large to multiply to the dataflow, which checks each product."""
    if len(weights) and (int(weights.max()) >= HEAVIEST or int(weights.min()) <= -HEAVIEST):
        raise Elsewhere("multiplicities are large")
