"""Window functions over whole columns of codes, for all touched partitions of a step at once.

The kernel passes the rows of every touched partition (see `everview.kernels.reduce.python`). They are sorted once, by
partition and then by the window's order. From then on partitions, peer groups and frames are intervals of row numbers,
and every function is arithmetic on arrays:

    row_number, rank, lag ...   row numbers and the bounds of partitions and peers
    count, sum, avg             differences of running totals (of integers: exact, modulo 2**64)
    array_agg, object_agg       the values of each frame, one by one
    min, max                    a sparse table of extremes of 1, 2, 4, ... consecutive rows; a frame is two of them
    EXCLUDE                     a frame is two or three intervals, whose counts and sums are added up
    IGNORE NULLS                the row numbers of non-NULL values, and how many of them precede each row

A sum that does not fit in 64 bits is an error of its row. Windows with such sums have an additional flag column, by
which their readers separate the rows (`everview.dataflow.reductions`).

Running totals of floats would lose small numbers next to distant large ones. Short frames are therefore added up row by
row, and long ones from their partition's start or end if they touch it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow.compute as pc

from everview.codes.arrays import codes_to_floats, decode_list, floats_to_codes
from everview.codes.interner import Interner
from everview.codes.packed import order_key
from everview.codes.values import encoder
from everview.plan.nodes import keys_first
from everview.plan.windows import Frame, Window, WindowCall
from everview.types import INTERNED, NULL, DataType

Words = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]

Pieces = list[tuple[Words, Words]]
"""Start and end (exclusive) of each interval of each row's frame."""

SHORT = 64
"""Float frames of up to this many rows on average are added up row by row."""

SORTED_BY_ARROW = 100
"""Number of texts from which Arrow sorts them; Python is faster for a few."""

LOWEST, HIGHEST = -(2**63), 2**63 - 1


def windows(node: Window, interner: Interner) -> Callable[[Words], Words]:
    """The reduction of a window: kernel requests in, answers out."""
    child = node.child.types
    order = keys_first(node.keys, len(child))
    place = {c: i for i, c in enumerate(order)}
    fallible = sums_may_not_fit(node)

    def answer(requests: Words) -> Words:
        heads = requests[:, 0] == 0
        group = np.cumsum(heads) - 1
        present = np.flatnonzero(requests[:, 0] > 0)
        rows = np.repeat(present, requests[present, 0])
        values = requests[rows, 2:]
        columns = {c: values[:, place[c]] for c in range(len(child))}
        partitions = Partitions(node, columns, group[rows], interner)
        sorted_ = partitions.sorting
        width = 2 + len(node.types) + fallible
        made = np.zeros((int(heads.sum()) + len(rows), width), dtype=np.int64)
        starts = np.searchsorted(group[rows], np.arange(int(heads.sum())))
        at_head = starts + np.arange(len(starts))
        made[at_head, 1 : 2 + len(node.keys)] = requests[heads, 1 : 2 + len(node.keys)]
        at_row = np.arange(len(rows)) + partitions.group + 1
        made[at_row, 0] = 1
        made[at_row, 1] = requests[rows[sorted_], 1]
        made[at_row, 2 : 2 + len(child)] = values[sorted_]
        for i, call in enumerate(node.calls):
            made[at_row, 2 + len(child) + i] = partitions.call(call)
        if fallible:
            made[at_row, -1] = partitions.misfits
        return made

    return answer


def sums_may_not_fit(node: Window) -> bool:
    """Whether a window has integer sums, which may overflow 64 bits."""
    types = node.child.types
    return any(c.kind == "sum" and c.column is not None and types[c.column].kind != "float" for c in node.calls)


class Partitions:
    """Sorted rows of some partitions: the bounds of each row's partition and peers, and the functions over them."""

    def __init__(self, node: Window, columns: dict[int, Words], group: Words, interner: Interner) -> None:
        self.types = node.child.types
        self.interner = interner
        sort_keys = [k for c, down in node.order for k in self._sort_key(columns[c], self.types[c], down)]
        ties = [columns[c] for c in sorted(columns) if c not in node.keys]
        self.sorting = np.lexsort([*reversed(ties), *reversed(sort_keys), group])
        self.columns = {c: codes[self.sorting] for c, codes in columns.items()}
        self.group = group[self.sorting]
        self.order = node.order
        n = self.n = len(group)
        self.positions = np.arange(n)
        first = _changes([self.group], n)
        self.start, self.end = _bounds(first, n)
        peers = first | _changes([k[self.sorting] for k in sort_keys], n)
        self.peer_start, self.peer_end = _bounds(peers, n)
        self.peer_number = np.cumsum(peers) - 1
        self.peer_starts = np.append(np.flatnonzero(peers), n)
        self.misfits: Flags = np.zeros(n, dtype=np.bool_)
        """rows with a sum that overflows"""

    def _sort_key(self, codes: Words, declared: DataType, down: bool) -> list[Words]:
        """Numbers that sort like the values, NULLs last."""
        null = _null(codes, declared)
        if declared.kind in INTERNED:
            keys = _ranks(codes, declared, self.interner)[0]
        else:
            keys = codes.copy()
        keys = np.where(null, 0, ~keys if down else keys)
        return [null.astype(np.int64), keys] if null.any() else [keys]

    def call(self, call: WindowCall) -> Words:
        """The codes of one function for all rows."""
        made: Words = getattr(self, f"_{call.kind}")(call)
        return made

    # ------------------------------------------------------------------------------ by place alone

    def _row_number(self, call: WindowCall) -> Words:
        return self.positions - self.start + 1

    def _rank(self, call: WindowCall) -> Words:
        return self.peer_start - self.start + 1

    def _dense_rank(self, call: WindowCall) -> Words:
        return self.peer_number - self.peer_number[self.start] + 1 if self.n else self.positions

    def _percent_rank(self, call: WindowCall) -> Words:
        others = self.end - self.start - 1
        return floats_to_codes(np.where(others > 0, (self.peer_start - self.start) / np.maximum(others, 1), 0.0))

    def _cume_dist(self, call: WindowCall) -> Words:
        return floats_to_codes((self.peer_end - self.start) / np.maximum(self.end - self.start, 1))

    def _ntile(self, call: WindowCall) -> Words:
        """Parts of equal size, the first ones a row larger."""
        size, rest = np.divmod(self.end - self.start, call.number)
        at = self.positions - self.start
        large = (size + 1) * rest
        later = rest + (at - large) // np.maximum(size, 1)
        part: Words = np.where(at < large, at // (size + 1), later) + 1
        return part

    # -------------------------------------------------------------------------------- another row's value

    def _lag(self, call: WindowCall) -> Words:
        return self._offset(call, -call.number)

    def _lead(self, call: WindowCall) -> Words:
        return self._offset(call, call.number)

    def _offset(self, call: WindowCall, by: int) -> Words:
        assert call.column is not None
        default = self.columns[call.default] if call.default is not None else np.full(self.n, NULL)
        if not self.n:
            return default
        if call.ignore_nulls and by:
            there, outside = self._known_away(call.column, by)
        else:
            there = self.positions + by
            outside = (there < self.start) | (there >= self.end)
        return np.where(outside, default, self.columns[call.column][np.where(outside, 0, there)])

    def _known_away(self, column: int, by: int) -> tuple[Words, Flags]:
        """The row at an offset that counts only non-NULL values; and where there is none."""
        known = ~self.null(column)
        places, before = np.flatnonzero(known), _totals(known)
        number = before[self.positions] + by if by < 0 else before[self.positions + 1] + by - 1
        outside = (number < before[self.start]) | (number >= before[self.end])
        if not len(places):
            return self.positions, outside
        return places[np.clip(number, 0, len(places) - 1)], outside

    def _first_value(self, call: WindowCall) -> Words:
        return self._nth(call, np.ones(self.n, dtype=np.int64))

    def _last_value(self, call: WindowCall) -> Words:
        assert call.column is not None
        if call.ignore_nulls:
            return self._nth(call, self._known(call.column, self.pieces(call.frame)))
        return self._nth(call, _added(high - low for low, high in self.pieces(call.frame)))

    def _nth_value(self, call: WindowCall) -> Words:
        return self._nth(call, np.full(self.n, call.number))

    def _nth(self, call: WindowCall, number: Words) -> Words:
        """The n-th value of each frame, from 1; with `ignore_nulls` counting only non-NULL ones."""
        assert call.column is not None
        counted = ~self.null(call.column) if call.ignore_nulls else np.ones(self.n, dtype=np.bool_)
        places, before = np.flatnonzero(counted), _totals(counted)
        there, found = np.zeros(self.n, dtype=np.int64), np.zeros(self.n, dtype=np.bool_)
        left = number
        for low, high in self.pieces(call.frame):
            here = ~found & (left >= 1) & (left <= before[high] - before[low])
            there = np.where(here, before[low] + left - 1, there)
            found |= here
            left = np.where(found, left, left - (before[high] - before[low]))
        if not len(places):
            return np.full(self.n, NULL)
        return np.where(found, self.columns[call.column][places[np.where(found, there, 0)]], NULL)

    # ----------------------------------------------------------------------------------------- aggregates

    def _count(self, call: WindowCall) -> Words:
        pieces = self.pieces(call.frame)
        return _added(high - low for low, high in pieces) if call.column is None else self._known(call.column, pieces)

    def _known(self, column: int, pieces: Pieces) -> Words:
        """The number of non-NULL values of each frame."""
        totals = _totals(~self.null(column))
        known: Words = _added(totals[high] - totals[low] for low, high in pieces)
        return known

    def null(self, column: int) -> Flags:
        """A mask of a column's NULLs."""
        return _null(self.columns[column], self.types[column])

    def _sum(self, call: WindowCall) -> Words:
        assert call.column is not None
        pieces = self.pieces(call.frame)
        known = self._known(call.column, pieces)
        if self.types[call.column].kind == "float":
            made = floats_to_codes(self._float_sums(call.column, pieces))
        else:
            made, _, misfits = self._int_sums(call.column, pieces)
            misfits |= (made == NULL) & call.type.nullable  # a number that would read as NULL
            self.misfits |= misfits
            made = np.where(misfits, 0, made)
        return np.where(known > 0, made, NULL)

    def _avg(self, call: WindowCall) -> Words:
        assert call.column is not None
        pieces = self.pieces(call.frame)
        known = self._known(call.column, pieces)
        declared = self.types[call.column]
        if declared.kind == "float":
            sums = self._float_sums(call.column, pieces)
        else:
            exact, about, misfits = self._int_sums(call.column, pieces)
            sums = np.where(misfits, about, exact).astype(np.float64) / 10.0**declared.scale
        return np.where(known > 0, floats_to_codes(sums / np.maximum(known, 1)), NULL)

    def _int_sums(self, column: int, pieces: Pieces) -> tuple[Words, Any, Flags]:
        """The sums modulo 2**64, their approximate values, and which of them overflow: there the two differ widely."""
        values = np.where(self.null(column), 0, self.columns[column])
        totals, rounded = _totals(values), _totals(values.astype(np.longdouble))
        sums = _added(totals[high] - totals[low] for low, high in pieces)
        about = _added(rounded[high] - rounded[low] for low, high in pieces)
        return sums, about, np.abs(about - sums) > 2.0**63

    def _float_sums(self, column: int, pieces: Pieces) -> Floats:
        sums: Floats = _added(self._piece_sums(column, low, high) for low, high in pieces)
        return sums

    def _piece_sums(self, column: int, low: Words, high: Words) -> Floats:
        codes = self.columns[column]
        values = np.where(self.null(column), 0.0, codes_to_floats(codes))
        finite = np.isfinite(values)
        sums = self._finite_sums(np.where(finite, values, 0.0), low, high)
        if finite.all():
            return sums
        nan, up, down = ((t := _totals(f))[high] - t[low] for f in (np.isnan(values), values > 1e308, values < -1e308))
        sums = np.where(up > 0, np.inf, np.where(down > 0, -np.inf, sums))
        return np.where((nan > 0) | ((up > 0) & (down > 0)), np.nan, sums)

    def _finite_sums(self, values: Floats, low: Words, high: Words) -> Floats:
        if not self.n:
            return values
        if int((high - low).sum()) <= SHORT * self.n:
            return _one_by_one(values, low, high)
        if np.array_equal(low, self.start):
            running = _running(values, self.start)
            return np.where(high > low, running[np.maximum(high - 1, 0)], 0.0)
        if np.array_equal(high, self.end):
            running = _running(values[::-1], (self.n - self.end)[::-1])[::-1]
            return np.where(high > low, running[np.minimum(low, self.n - 1)], 0.0)
        totals = _totals(values.astype(np.longdouble))
        sums: Floats = (totals[high] - totals[low]).astype(np.float64)
        return sums

    def _array_agg(self, call: WindowCall) -> Words:
        return self._listed(call, list)

    def _object_agg(self, call: WindowCall) -> Words:
        """The column holds pairs of a key and a value; the last of a key wins."""
        return self._listed(call, dict)

    def _listed(self, call: WindowCall, whole: Callable[[list[Any]], Any]) -> Words:
        """The values of each frame in one; equal frames, as of peers, are made once. NULL if there are none."""
        assert call.column is not None
        counted = np.ones(self.n, dtype=np.bool_) if call.default is None else self.columns[call.default] == 1
        places, before = np.flatnonzero(counted), _totals(counted)
        values = decode_list(self.columns[call.column][places], self.types[call.column].optional(), self.interner)
        encode = encoder(call.type, self.interner)
        bounds = np.array([before[edge] for piece in self.pieces(call.frame) for edge in piece], dtype=np.int64)
        known: dict[tuple[int, ...], int] = {}
        made = np.empty(self.n, dtype=np.int64)
        for i, frame in enumerate(map(tuple, bounds.T.tolist())):
            if frame not in known:
                found = [v for low, high in zip(frame[::2], frame[1::2], strict=True) for v in values[low:high]]
                known[frame] = encode(whole(found) if found else None)
            made[i] = known[frame]
        return made

    def _min(self, call: WindowCall) -> Words:
        return self._extreme(call, np.minimum, HIGHEST)

    def _max(self, call: WindowCall) -> Words:
        return self._extreme(call, np.maximum, LOWEST)

    def _extreme(self, call: WindowCall, better: Callable[..., Any], worst: int) -> Words:
        assert call.column is not None
        pieces = self.pieces(call.frame)
        codes, declared = self.columns[call.column], self.types[call.column]
        known = self._known(call.column, pieces)
        back = None
        if declared.kind in INTERNED:
            ranks, back = _ranks(codes, declared, self.interner)
            keys = np.where(self.null(call.column), worst, ranks)
        else:
            keys = np.where(self.null(call.column), worst, codes)
        best = np.full(self.n, worst)
        for low, high in pieces:
            best = np.where(high > low, better(best, _extremes(keys, low, high, better)), best)
        if back is not None:
            best = back[np.where(known > 0, best, 0)] if len(back) else best
        return np.where(known > 0, best, NULL)

    # --------------------------------------------------------------------------------------------- frames

    def pieces(self, frame: Frame) -> Pieces:
        """The intervals of each row's frame, in order: one, or what EXCLUDE leaves of it."""
        low, high = self.frame(frame)
        if frame.exclude == "no others":
            return [(low, high)]
        by_row = frame.exclude == "current row"
        first, behind = (self.positions, self.positions + 1) if by_row else (self.peer_start, self.peer_end)
        before, after = (low, np.clip(first, low, high)), (np.clip(behind, low, high), high)
        if frame.exclude != "ties":
            return [before, after]
        return [before, (np.clip(self.positions, low, high), np.clip(self.positions + 1, low, high)), after]

    def frame(self, frame: Frame) -> tuple[Words, Words]:
        """Start and end (exclusive) of each row's frame."""
        low = self.start if frame.start is None else self._bound(frame, frame.start, last=False)
        high = self.end if frame.end is None else self._bound(frame, frame.end, last=True)
        low = np.clip(low, self.start, self.end)
        return low, np.clip(high, low, self.end)

    def _bound(self, frame: Frame, offset: int | float, last: bool) -> Words:
        if frame.unit == "rows":
            return self.positions + self._steps(offset) + last
        if offset == 0:
            return self.peer_end if last else self.peer_start
        if frame.unit == "groups":
            return self._group_bound(self._steps(offset), last)
        return self._range_bound(offset, last)

    def _steps(self, offset: int | float) -> int:
        """An offset in rows or groups, cut to as many as there are: sums with it stay within 64 bits."""
        return max(-self.n, min(int(offset), self.n))

    def _group_bound(self, offset: int, last: bool) -> Words:
        if not self.n:
            return self.positions
        number = self.peer_number + offset + last
        first, beyond = self.peer_number[self.start], self.peer_number[self.end - 1] + 1
        bound: Words = self.peer_starts[np.clip(number, first, beyond)]
        return bound

    def _range_bound(self, offset: int | float, last: bool) -> Words:
        """The first row whose value is at (or, for the end, beyond) the row's value moved by the offset."""
        (column, down) = self.order[-1]
        codes, declared = self.columns[column], self.types[column]
        null = self.null(column)
        if declared.kind == "float":
            values: Any = codes_to_floats(np.where(null, 0, codes))
        else:
            values = np.where(null, 0, codes)
        values = -values if down else values
        # NULLs are peers of each other and out of reach of all others; they are at one end of the partition
        nulls = _totals(null)
        known_start = self.start + np.where(null[self.start], nulls[self.end] - nulls[self.start], 0) if self.n else 0
        known_end = self.end - np.where(null[self.end - 1], nulls[self.end] - nulls[self.start], 0) if self.n else 0
        by = offset if declared.kind == "float" else max(-HIGHEST, min(int(offset), HIGHEST))
        moved = values + by
        found = _bisect(values, moved, known_start, known_end, after=last)
        if declared.kind != "float":  # beyond 64 bits there is no value
            beyond = (moved < values) if by > 0 else (moved > values)
            found = np.where(beyond, known_end if by > 0 else known_start, found)
        return np.where(null, self.peer_end if last else self.peer_start, found)


def _null(codes: Words, declared: DataType) -> Flags:
    return codes == NULL if declared.nullable else np.zeros(len(codes), dtype=np.bool_)


def _changes(columns: list[Words], n: int) -> Flags:
    """Where a row differs from its predecessor; true for the first."""
    changed = np.zeros(n, dtype=np.bool_)
    changed[:1] = True
    for column in columns:
        changed[1:] |= column[1:] != column[:-1]
    return changed


def _bounds(first: Flags, n: int) -> tuple[Words, Words]:
    """For each row the start and end (exclusive) of its interval."""
    starts = np.flatnonzero(first)
    number = np.cumsum(first) - 1
    ends = np.append(starts[1:], n)
    return starts[number], ends[number]


def _totals(values: Any) -> Any:
    """Running totals with a leading zero."""
    kind = np.int64 if values.dtype == np.bool_ else values.dtype
    totals = np.zeros(len(values) + 1, dtype=kind)
    np.cumsum(values, out=totals[1:])
    return totals


def _added(arrays: Iterable[Any]) -> Any:
    return functools.reduce(np.add, arrays)


def _running(values: Floats, start: Words) -> Floats:
    """Running totals that restart with each partition."""
    made = np.empty_like(values)
    bounds = np.append(np.flatnonzero(_changes([start], len(values))), len(values))
    for a, b in zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True):
        np.cumsum(values[a:b], out=made[a:b])
    return made


def _one_by_one(values: Floats, low: Words, high: Words) -> Floats:
    """The sum of each frame separately."""
    padded = np.append(values, 0.0)
    pairs = np.stack([low, high], axis=1).ravel()
    sums: Floats = np.add.reduceat(padded, pairs)[::2]
    return np.where(high > low, sums, 0.0)


def _extremes(keys: Words, low: Words, high: Words, better: Callable[..., Any]) -> Words:
    """The best of each frame: of the two power-of-two intervals at its start and end."""
    n = len(keys)
    length = np.maximum(high - low, 1)
    level = np.floor(np.log2(length)).astype(np.int64)
    table, made = keys, np.zeros(n, dtype=np.int64)
    for k in range(int(level.max(initial=0)) + 1):
        if k:
            half = 1 << (k - 1)
            table = table.copy()
            table[: n - half] = better(table[: n - half], table[half:])
        mine = np.flatnonzero((level == k) & (high > low))
        made[mine] = better(table[low[mine]], table[high[mine] - (1 << k)])
    return made


def _bisect(values: Any, targets: Any, low: Any, high: Any, after: bool) -> Words:
    """In each row's own interval, the first position whose value is not less than (after: greater than) its target."""
    low, high = np.array(low, dtype=np.int64), np.array(high, dtype=np.int64)
    while (low < high).any():
        middle = (low + high) // 2
        there = values[np.minimum(middle, len(values) - 1)]
        right = (there <= targets) if after else (there < targets)
        right &= low < high
        low, high = np.where(right, middle + 1, low), np.where(right | (low >= high), high, middle)
    found: Words = low
    return found


def _ranks(codes: Words, declared: DataType, interner: Interner) -> tuple[Words, Words]:
    """Numbers that sort like the values of interned codes, and the code of each number; NULL has any."""
    distinct, back = np.unique(codes, return_inverse=True)
    real = distinct[distinct != NULL]
    sorting = _sorted_like_values(real, declared, interner)
    rank_of = np.zeros(len(distinct), dtype=np.int64)
    ranks = np.empty(len(real), dtype=np.int64)
    ranks[sorting] = np.arange(len(real))
    rank_of[distinct != NULL] = ranks
    return rank_of[back], real[sorting]


def _sorted_like_values(codes: Words, declared: DataType, interner: Interner) -> Any:
    """The positions of codes in the order of their values."""
    if declared.kind == "str" and len(codes) > SORTED_BY_ARROW:
        texts = interner.decode(codes, declared.optional(False))
        return pc.array_sort_indices(texts).to_numpy()  # by bytes, which is code point order
    values = decode_list(codes, declared.optional(False), interner)
    key = order_key(declared)
    values = values if key is None else [key(value) for value in values]
    return sorted(range(len(values)), key=values.__getitem__)
