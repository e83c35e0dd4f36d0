"""Groups of equal rows: numbering, aggregates, and distinct.

Aggregates equal the dataflow's exactly: sums of integers and decimals from the same two words, averages by the same
division, sums of floats rounded once, however many there are.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import numpy as np

from everview.codes.arrays import codes_to_floats, decode_list, floats_to_codes
from everview.codes.interner import Interner
from everview.kernels.once import group_numbers as kernel
from everview.once.rows import Column, Elsewhere, Rows, Words, check_weights, settled
from everview.plan.nodes import Aggregate, Reduce
from everview.types import INTERNED, NULL, DataType

_FIRST_SLOTS, _LARGER = 1 << 11, 1 << 4
_SPARSE = 4
"""Maximum number of slots per row for direct addressing."""

_SMALLEST, _LARGEST = 2.0**-75, 2.0**126
"""Floats between which a sum is exact in the dataflow's digits."""


def addresses(columns: Sequence[Words]) -> Words:
    """The addresses of contiguous columns."""
    return np.array([c.__array_interface__["data"][0] for c in columns] or [0], dtype=np.int64)


def close_together(column: Words) -> tuple[int, int] | None:
    """The least value and the size of the value range, if that is not much larger than the number of rows."""
    if not len(column):
        return None
    least, most = int(column.min()), int(column.max())
    return (least, most - least + 1) if most - least < max(_SPARSE * len(column), 1024) else None


def numbered(columns: Sequence[Words]) -> tuple[Words, Words]:
    """The group of each row, and a row of each group.

    >>> ids, firsts = numbered([np.array([5, 9, 5]), np.array([1, 1, 1])])
    >>> ids.tolist(), firsts.tolist()
    ([0, 1, 0], [0, 1])
    """
    kept = [np.ascontiguousarray(c) for c in columns]
    rows = len(kept[0])
    ids = np.empty(rows, dtype=np.int64)
    dense = close_together(kept[0]) if len(kept) == 1 else None
    if dense is not None:
        base, slots = dense
        firsts = np.empty(min(rows, slots), dtype=np.int64)
        table = np.full(slots, -1, dtype=np.int64)
        groups = int(kernel.number(addresses(kept), 1, base, table, firsts, ids))
        return ids, firsts[:groups]
    slots = _FIRST_SLOTS
    while True:
        firsts = np.empty(min(rows, slots), dtype=np.int64)
        table = np.full(slots, -1, dtype=np.int64)
        groups = int(kernel.number(addresses(kept), 0, 0, table, firsts, ids))
        if groups >= 0:
            return ids, firsts[:groups]
        slots *= _LARGER


def distinct_codes(codes: Words) -> tuple[Words, Words]:
    """Each distinct code once, and the index of each row's code."""
    ids, firsts = numbered([codes])
    return ids, codes[firsts]


def consolidated(rows: Rows, columns: Iterable[int]) -> Rows:
    """Each distinct row once, with its weights added up; rows with total zero are dropped."""
    wanted = list(columns)
    if rows.count == 0:
        return rows.only(wanted)
    rows = settled(rows, wanted)
    if not wanted:
        ids, firsts = np.zeros(rows.count, dtype=np.int64), np.zeros(1, dtype=np.int64)
    else:
        ids, firsts = numbered([rows.words(c) for c in wanted])
    totals = np.zeros(len(firsts), dtype=np.int64)
    weights = 0 if rows.weights is None else int(addresses([np.ascontiguousarray(rows.weights)])[0])
    kernel.counted(ids, 0, weights, 0, totals)
    check_weights(totals)
    found = rows.only(wanted).take(firsts)
    found = Rows(found.count, found.columns, totals)
    return found if totals.all() else found.take(np.flatnonzero(totals))


def present(rows: Rows, columns: Iterable[int]) -> Rows:
    """The rows with positive weights, for operations on sets of rows. Negative multiplicities are left to the
    dataflow.
    """
    if rows.is_plain():
        return rows
    rows = consolidated(rows, columns)
    if not rows.is_plain():
        raise Elsewhere("multiplicities are negative")
    return rows


def distinct(rows: Rows, columns: Iterable[int]) -> Rows:
    """Each present row once."""
    wanted = list(columns)
    rows = present(rows, wanted)
    if rows.count == 0:
        return Rows(0, rows.only(wanted).columns)
    if not wanted:
        return Rows(1, {})
    rows = settled(rows, wanted)
    _, firsts = numbered([rows.words(c) for c in wanted])
    found = rows.only(wanted).take(firsts)
    return Rows(found.count, found.columns)


def reduced(node: Reduce, rows: Rows, wanted: Iterable[int], interner: Interner) -> Rows:
    """One row per group: keys, then aggregates; of these the wanted columns."""
    read = {*node.keys, *(a.column for a in node.aggregates if a.column is not None)}
    if any(a.kind in ("min", "max", "count_distinct") for a in node.aggregates):
        rows = present(rows, sorted(read))
    if rows.count == 0:
        return Rows(0, {c: Column(np.empty(0, dtype=np.int64)) for c in wanted})
    rows = settled(rows, read)
    if node.keys:
        ids, firsts = numbered([rows.words(k) for k in node.keys])
    else:
        ids, firsts = np.zeros(rows.count, dtype=np.int64), np.zeros(1, dtype=np.int64)
    groups = _Groups(rows, ids, len(firsts), interner)
    members = groups.members()
    found: dict[int, Column] = {}
    for number in wanted:
        if number < len(node.keys):
            found[number] = Column(rows.words(node.keys[number])[firsts])
        else:
            aggregate = node.aggregates[number - len(node.keys)]
            declared = None if aggregate.column is None else node.child.types[aggregate.column]
            found[number] = Column(groups.value(aggregate, declared))
    answer = Rows(len(firsts), found)
    return answer if bool((members > 0).all()) else answer.take(np.flatnonzero(members > 0))


class _Groups:
    """The rows of some groups, and what is known of each."""

    def __init__(self, rows: Rows, ids: Words, count: int, interner: Interner) -> None:
        self.rows = rows
        self.ids = ids
        self.count = count
        self.interner = interner
        self._weights = None if rows.weights is None else np.ascontiguousarray(rows.weights)
        self._weights_at = 0 if self._weights is None else int(addresses([self._weights])[0])
        self._members: Words | None = None
        self._totals: dict[int, tuple[Words, Words, Words]] = {}

    def members(self) -> Words:
        """The size of each group."""
        if self._members is None:
            self._members = np.zeros(self.count, dtype=np.int64)
            kernel.counted(self.ids, 0, self._weights_at, 0, self._members)
        return self._members

    def value(self, aggregate: Aggregate, declared: DataType | None) -> Words:
        """An aggregate of each group."""
        if declared is None or aggregate.column is None:
            return self.members()
        column = self.rows.words(aggregate.column)
        if aggregate.kind == "count":
            return self._counted(column) if declared.nullable else self.members()
        if aggregate.kind in ("min", "max"):
            return self._extreme(column, declared, aggregate.kind == "max")
        if aggregate.kind == "count_distinct":
            return self._different(column)
        if declared.kind == "float":
            return self._floats(column, declared, aggregate.kind == "avg")
        return self._integers(aggregate, declared, column)

    def _counted(self, column: Words) -> Words:
        found = np.zeros(self.count, dtype=np.int64)
        kernel.counted(self.ids, int(addresses([column])[0]), self._weights_at, 1, found)
        return found

    def _integers(self, aggregate: Aggregate, declared: DataType, column: Words) -> Words:
        if declared.kind not in ("int", "decimal") or aggregate.column is None:
            raise Elsewhere(f"{declared!r} is added up elsewhere")
        known = self._totals.get(aggregate.column)
        if known is None:
            count, low, high = (np.zeros(self.count, dtype=np.int64) for _ in range(3))
            at = int(addresses([column])[0])
            kernel.total(self.ids, at, self._weights_at, int(declared.nullable), count, low, high)
            known = self._totals[aggregate.column] = (count, low & 0xFFFFFFFF, high + (low >> 32))
        count, low, high = known
        if aggregate.kind == "avg":
            unit = 1.0
            for _ in range(declared.scale):
                unit *= 10.0
            with np.errstate(all="ignore"):
                exact = (high.astype(np.float64) * 4294967296.0 + low.astype(np.float64)) / unit
                return np.where(count == 0, NULL, floats_to_codes(exact / count.astype(np.float64)))
        value: Words = (high << 32) | low
        there = count != 0
        beyond = (high < -(2**31)) | (high >= 2**31) | (declared.nullable & (value == NULL))
        if bool((beyond & there & (self.members() > 0)).any()):
            raise Elsewhere("a sum is out of range")
        return np.where(there, value, NULL)

    def _floats(self, column: Words, declared: DataType, average: bool) -> Words:
        """Sums rounded once; what the dataflow's digits cannot represent exactly is left to it."""
        there = column != NULL if declared.nullable else np.ones(len(column), dtype=np.bool_)
        ids, codes = self.ids[there], column[there]
        numbers = codes_to_floats(codes)
        size = np.abs(numbers)
        with np.errstate(invalid="ignore"):
            exact = (size == 0) | ((size > _SMALLEST) & (size < _LARGEST))
        if not bool(exact.all()):
            raise Elsewhere("floats are very large or very small")
        if self._weights is not None:
            weights = self._weights[there]
            if len(weights) and (int(weights.min()) < 0 or int(weights.sum()) > 4 * len(weights) + 1000):
                raise Elsewhere("floats are there very often, or less than not at all")
            ids, numbers = np.repeat(ids, weights), np.repeat(numbers, weights)
        order = np.argsort(ids, kind="stable")
        numbers = numbers[order]
        counts = np.bincount(ids, minlength=self.count)
        ends = np.cumsum(counts)
        sums = np.zeros(self.count, dtype=np.float64)
        for group, (end, n) in enumerate(zip(ends.tolist(), counts.tolist(), strict=True)):
            sums[group] = math.fsum(numbers[end - n : end].tolist()) + 0.0
        if average:
            with np.errstate(all="ignore"):
                sums = sums / counts
        return np.where(counts == 0, NULL, floats_to_codes(sums))

    def _extreme(self, column: Words, declared: DataType, largest: bool) -> Words:
        found = np.full(self.count, NULL, dtype=np.int64)
        if declared.kind in INTERNED:
            ranks, codes = ranked(column, declared, self.interner)
            kernel.extreme(self.ids, int(addresses([ranks])[0]), int(declared.nullable), int(largest), found)
            there = found != NULL
            found[there] = codes[found[there]]
            return found
        kernel.extreme(self.ids, int(addresses([column])[0]), int(declared.nullable), int(largest), found)
        return found

    def _different(self, column: Words) -> Words:
        _, firsts = numbered([self.ids, column])
        return np.bincount(self.ids[firsts][column[firsts] != NULL], minlength=self.count).astype(np.int64)


def ranked(column: Words, declared: DataType, interner: Interner) -> tuple[Words, Words]:
    """Texts as numbers that sort like them (NULL stays NULL), and the codes of the numbers."""
    if declared.kind not in ("str", "bytes"):
        raise Elsewhere(f"{declared!r} has an order of its own")
    ids, codes = distinct_codes(column)
    values = decode_list(codes, declared.optional(), interner)
    known = [i for i, value in enumerate(values) if value is not None]
    known.sort(key=values.__getitem__)
    rank = np.full(len(codes), NULL, dtype=np.int64)
    rank[known] = np.arange(len(known))
    return np.ascontiguousarray(rank[ids]), codes[known]
