"""Hash joins, with a hash table of the smaller side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from everview.kernels.once import hash_join as kernel
from everview.once.row_groups import addresses, close_together
from everview.once.rows import Elsewhere, Rows, Words, settled, times

MOST_PAIRS = 1 << 26
"""Number of pairs from which a join is left to the dataflow, which produces them piece by piece."""


@dataclass(frozen=True)
class Keys:
    """The columns by which rows are matched."""

    columns: Sequence[Words]
    nullable: Words

    @staticmethod
    def of(rows: Rows, keys: Sequence[int], nullable: Sequence[bool]) -> Keys:
        """Some columns of rows."""
        return Keys([np.ascontiguousarray(rows.words(k)) for k in keys], np.array([*nullable, False], dtype=np.int64))

    @property
    def rows(self) -> int:
        return len(self.columns[0])


class Table:
    """A hash table of rows by their keys."""

    def __init__(self, keys: Keys) -> None:
        self.keys = keys
        close = close_together(keys.columns[0]) if len(keys.columns) == 1 else None
        self.dense = close is not None
        self.base, slots = close if close is not None else (0, 1 << max(2 * keys.rows - 1, 1).bit_length())
        self.heads = np.full(slots, -1, dtype=np.int64)
        self.chain = np.empty(keys.rows, dtype=np.int64)
        self.at = addresses(keys.columns)
        kernel.build(self.at, keys.nullable, int(self.dense), self.base, self.heads, self.chain)

    def first(self, mine: Keys) -> tuple[Words, int]:
        """For each probe row a row here with the same keys, or -1; and the total number of pairs."""
        found = np.empty(mine.rows, dtype=np.int64)
        pairs = kernel.probe(
            addresses(mine.columns), mine.nullable, self.at, int(self.dense), self.base, self.heads, self.chain, found
        )
        return found, int(pairs)

    def pairs(self, mine: Keys) -> tuple[Words, Words]:
        """All pairs: numbers of probe rows, and of rows here."""
        first, count = self.first(mine)
        if count > MOST_PAIRS:
            raise Elsewhere("there are very many pairs")
        matched = np.flatnonzero(first >= 0)
        if len(matched) == count:
            return matched, first[matched]
        left, right = np.empty(count, dtype=np.int64), np.empty(count, dtype=np.int64)
        kernel.pairs(addresses(mine.columns), self.at, self.chain, first, left, right)
        return left, right


def joined(left: Rows, right: Rows, left_keys: Sequence[int], right_keys: Sequence[int], null: Sequence[bool]) -> Rows:
    """All pairs of rows with equal keys; the right's columns are numbered as given."""
    if not left.count or not right.count:
        some, other = np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64)
    elif not left_keys:
        some, other = _all_pairs(left.count, right.count)
    else:
        left, right = settled(left, left_keys), settled(right, right_keys)
        mine, others = Keys.of(left, left_keys, null), Keys.of(right, right_keys, null)
        if others.rows <= mine.rows:
            some, other = Table(others).pairs(mine)
        else:
            other, some = Table(mine).pairs(others)
    one, two = left.take(some), right.take(other)
    return Rows(len(some), {**one.columns, **two.columns}, times(one.weights, two.weights))


def _all_pairs(left: int, right: int) -> tuple[Words, Words]:
    if left * right > MOST_PAIRS:
        raise Elsewhere("there are very many pairs")
    return np.repeat(np.arange(left), right), np.tile(np.arange(right), left)


def matched(
    left: Rows, right: Rows, left_keys: Sequence[int], right_keys: Sequence[int], null: Sequence[bool], there: bool
) -> Rows:
    """The left rows that have a match on the right, or that have none."""
    if not left.count:
        return left
    if not right.count:
        return left.take(np.empty(0, dtype=np.int64)) if there else left
    if not left_keys:
        return left if there else left.take(np.empty(0, dtype=np.int64))
    left = settled(left, left_keys)
    first, _ = Table(Keys.of(right, right_keys, null)).first(Keys.of(left, left_keys, null))
    return left.take(np.flatnonzero(first >= 0 if there else first < 0))
