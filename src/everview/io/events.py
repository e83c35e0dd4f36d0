"""Encodes the events of a change feed, and computes what they leave under each key.

Most feeds have a column with the operation and are read column by column. Debezium's records are envelopes with a row
before and a row after, read one by one.

The work is the same in this process and in Spark tasks (`everview.spark.rows.encode`), where events are sent as columns
of codes with three more columns: the operation, the commit, and its timestamp.

>>> rows = np.array([[1, 1, 2, 3, 4], [10, 11, 20, 0, 0]])  # key and value of five events, in order
>>> old = np.array([[3], [30]])
>>> [part.tolist() for part in applied(rows, np.array([1, 1, 1, -1, -1]), old, 1)]
[[[1, 2], [11, 20]], [[3], [30]], [[4], [0]]]
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from everview.codes.values import encode_value
from everview.errors import InputError
from everview.io import changes
from everview.io.record_encoder import Codes, RecordEncoder, columns_of_rows, reason_of, text_of
from everview.io.source import Bad
from everview.session.changes.current_rows import records

UNKNOWN = np.iinfo(np.int64).min
"""Stands for an unknown commit or timestamp in encoded events."""

EXTRA = 3
"""Columns sent along with the codes."""


class Told(NamedTuple):
    """Events: rows' codes as columns, signed counts, and versions and timestamps of commits if all have them."""

    codes: np.ndarray
    counts: np.ndarray
    commits: np.ndarray | None = None
    stamps: np.ndarray | None = None
    cleared: bool = False
    """whether the table was emptied before them"""

    def in_order(self) -> Told:
        """The same in the order of application."""
        order = changes.in_commit_order(self.counts, self.commits, self.stamps)
        return Told(self.codes[:, order], self.counts[order])

    def packed(self, columns: Sequence[int]) -> np.ndarray:
        """As one matrix of words, with the codes in this column order."""
        more = [self.counts, *(self._words(part) for part in (self.commits, self.stamps))]
        return np.concatenate([self.codes[list(columns)], np.stack(more)])

    def _words(self, values: np.ndarray | None) -> np.ndarray:
        return np.full(len(self.counts), UNKNOWN) if values is None else values.astype(np.int64)

    @staticmethod
    def unpacked(words: np.ndarray) -> Told:
        """From such a matrix, or several side by side."""
        counts, *when = words[-EXTRA:]
        commits, stamps = (None if (part == UNKNOWN).any() else part for part in when)
        return Told(words[:-EXTRA], counts, commits, stamps)


def told(fitting: RecordEncoder, shape: changes.Envelope, rows: Any, place: str, bad: list[Bad]) -> Told:
    """The events in records; those that do not fit are added to `bad`."""
    if shape.shape == "debezium":
        return _enveloped(fitting, rows.to_pylist() if isinstance(rows, pa.Table) else rows, place, bad)
    return _in_columns(fitting, shape, rows, place, bad)


def _enveloped(fitting: RecordEncoder, records: Iterable[Any], place: str, bad: list[Bad]) -> Told:
    """The events in Debezium's records, read one by one; events before the table was emptied are dropped."""
    events: list[tuple[Codes, int]] = []
    cleared = False
    for record in records:
        try:
            found = changes.debezium(record, fitting.columns, bool(fitting.key))
            coded = [(_code(fitting, row, sign), sign) for row, sign in found if row is not None]
        except (InputError, ValueError) as error:
            bad.append(Bad(place, reason_of(error), text_of(record)))
            continue
        if len(coded) < len(found):
            events, cleared = [], True
        if len(coded) == 2 and _same_key(fitting.key, coded[0][0], coded[1][0]):
            del coded[0]  # an update: the row after it replaces the row before it
        events += coded
    codes = columns_of_rows([row for row, _ in events], len(fitting.columns))
    return Told(codes, np.array([sign for _, sign in events], dtype=np.int64), cleared=cleared)


def _same_key(key: Sequence[int], one: Codes, other: Codes) -> bool:
    return bool(key) and all(one[c] == other[c] for c in key)


def _code(fitting: RecordEncoder, row: dict[str, Any], sign: int) -> Codes:
    """Encode a row. For a deletion a database may send the key alone, which is all that is needed."""
    codec = fitting.codec
    if sign > 0 or not fitting.key:
        return codec.encode_row(row)
    coded = {c: encode_value(codec.types[c], row[codec.names[c]], codec.interner) for c in fitting.key}
    return tuple(coded.get(c, 0) for c in range(len(codec.names)))


def _in_columns(fitting: RecordEncoder, shape: changes.Envelope, rows: Any, place: str, bad: list[Bad]) -> Told:
    """The events in records with an operation column."""
    if isinstance(rows, pa.Table):
        said = rows[shape.column].to_pylist()
        when: dict[str, Any] = {name: rows[name] for name in shape.ordering if name in rows.column_names}
        rows = rows.drop_columns([c for c in shape.extra if c in rows.column_names])
    else:
        said = [row.get(shape.column) for row in rows]
        when = {name: [row.get(name) for row in rows] for name in shape.ordering}
        rows = [{k: v for k, v in row.items() if k not in shape.extra} for row in rows]
    counts, refused = changes.signs(shape, said, keyed=bool(fitting.key))
    if refused:
        shown = rows.to_pylist() if isinstance(rows, pa.Table) else rows
        bad.extend(Bad(place, why, text_of({**shown[i], shape.column: said[i]})) for i, why in refused.items())
    codes, kept = fitting.encode(rows, place, bad)
    good = counts[kept] != 0
    kept = kept[good]
    known = {name: _comparable(values, kept) for name, values in when.items()}
    return Told(codes[:, good], counts[kept], known.get(changes.VERSION), known.get(changes.STAMP))


def _comparable(values: Any, kept: np.ndarray) -> np.ndarray | None:
    """Some of a column's values; None if one of them is missing."""
    if not isinstance(values, pa.ChunkedArray):
        picked = [values[i] for i in kept]
        return None if any(v is None for v in picked) else np.array(picked)
    column = values.take(pa.array(kept))
    if column.null_count:
        return None
    if pa.types.is_timestamp(column.type):
        column = column.cast(pa.timestamp("us", column.type.tz), safe=False)
    return np.asarray(column.cast(pa.int64()).to_numpy())


class Applied(NamedTuple):
    """The effect of events on rows under keys, as columns: rows added, rows removed, and deletions of missing keys."""

    new: np.ndarray
    gone: np.ndarray
    missing: np.ndarray


_EMPTY, _AS_BEFORE = -1, -2


def applied(rows: np.ndarray, counts: np.ndarray, old: np.ndarray, width: int, unordered: bool = False) -> Applied:
    """The effect of events, in order, on the stored rows `old` under their keys, the first `width` columns of both.

    An inserted row replaces its key's row. A deletion removes its key's row, whatever else it contains. The row before
    an update (`changes.BEFORE`) is removed if it is still there. If the two cannot be distinguished (`unordered`), a
    deletion of a row that was just replaced refers to the old one.
    """
    there = old.shape[1]
    keys = records(np.ascontiguousarray(np.concatenate([old[:width], rows[:width]], axis=1)))
    groups = np.unique(keys, return_inverse=True)[1].ravel()
    size, of = int(groups.max(initial=-1)) + 1, groups[there:]
    stood = np.full(size, -1)
    stood[groups[:there]] = np.arange(there)
    last = np.full(size, -1)
    np.maximum.at(last, of, np.arange(len(of)))
    told, took = np.bincount(of, minlength=size), np.bincount(of[counts < 0], minlength=size)
    ends = np.where(told == 0, _AS_BEFORE, np.where(took == 0, last, _EMPTY))
    single = (told == 1) & (took == 1)
    single &= counts[np.maximum(last, 0)] != changes.BEFORE if len(counts) else False
    missing = last[single & (stood < 0)].tolist()
    for group, events in _by_group(of, (took > 0) & ~single).items():
        ends[group] = _one_by_one(
            rows, counts, events, old[:, stood[group]] if stood[group] >= 0 else None, unordered, missing
        )
    came = np.flatnonzero(ends >= 0)
    same = came[stood[came] >= 0]
    ends[same[(rows[:, ends[same]] == old[:, stood[same]]).all(axis=0)]] = _AS_BEFORE
    gone = stood[(ends != _AS_BEFORE) & (stood >= 0)]
    return Applied(rows[:, np.sort(ends[ends >= 0])], old[:, gone], rows[:, sorted(missing)])


def _by_group(of: np.ndarray, wanted: np.ndarray) -> dict[int, list[int]]:
    """The events of some groups, in order."""
    found: dict[int, list[int]] = {}
    for event in np.flatnonzero(wanted[of]).tolist():
        found.setdefault(int(of[event]), []).append(event)
    return found


def _one_by_one(
    rows: np.ndarray, counts: np.ndarray, events: list[int], old: np.ndarray | None, unordered: bool, missing: list[int]
) -> int:
    """The event whose row remains under a key; deletions of missing keys are added to `missing`."""
    stands: list[int] | None = None if old is None else old.tolist()
    end = _EMPTY if old is None else _AS_BEFORE
    replaced: list[list[int]] = []
    for event in events:
        row, before = rows[:, event].tolist(), counts[event] == changes.BEFORE
        if counts[event] > 0:
            if stands is not None and stands != row:
                replaced.append(stands)
            stands, end = row, event
        elif stands is None:
            if not before:
                missing.append(event)
        elif row == stands or not (before or (unordered and row in replaced)):
            stands, end = None, _EMPTY
    return end
