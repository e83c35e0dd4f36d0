"""Rows as columns of codes, for as long as a question takes.

A column is an array of codes or, after a filter or a join, such an array seen through row numbers. Columns that came
from one place share the row numbers, so a join of wide rows makes one array for each side, and values are
fetched only when somebody reads them.

`weights` says how often each row counts; None: once. Rows may be there several times, and rows with weights that come
to nothing together may still be here: `everview.once.grouping.consolidated` adds them up, for whoever minds.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Words = npt.NDArray[np.int64]

HEAVIEST = 2**28
"""Weights below can be multiplied by half a value, and by each other once, without looking."""


class Elsewhere(Exception):
    """The question is not for here: the dataflow answers it."""


@dataclass(frozen=True, slots=True)
class Column:
    """Codes, in the order of rows, or to be fetched by row numbers (`places`)."""

    base: Words
    places: Words | None = None

    def words(self) -> Words:
        """The codes in the order of rows."""
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
        """Whether all weights are positive: every row is there."""
        return self.weights is None or not len(self.weights) or bool(self.weights.min() > 0)

    def size(self) -> int:
        """Words that these rows hold, at most."""
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
    """The rows with some columns fetched: they will be read again and again."""
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
    """How often each row counts."""
    return np.ones(rows.count, dtype=np.int64) if rows.weights is None else rows.weights


def times(left: Words | None, right: Words | None) -> Words | None:
    """The weights of pairs."""
    if left is None or right is None:
        return right if left is None else left
    product: Words = left * right
    check_weights(product)
    return product


def check_weights(weights: Words) -> None:
    """Leave multiplicities that are too large to be multiplied to the dataflow, which looks at each product."""
    if len(weights) and (int(weights.max()) >= HEAVIEST or int(weights.min()) <= -HEAVIEST):
        raise Elsewhere("multiplicities are large")
