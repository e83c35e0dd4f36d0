"""A change feed's events as codes, and what they leave under each key.

Most feeds have a column that says what happened to the rest of the record; they are read column by column. Debezium's
records are envelopes with a row before and a row after, read one by one.

The work is the same wherever it is done: in this process, or in Spark's tasks (`everview.spark.rows.encode`), where
events travel as columns of codes with three columns more: what happened, in which commit, and when.

>>> rows = np.array([[1, 1, 2, 3], [10, 11, 20, 30]])  # key and value of four events, in order
>>> [part.tolist() for part in outcome(rows, np.array([1, 1, 1, -1]), 1)]
[[[1, 2], [11, 20]], [[1, 2]], [[3], [30]]]
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from everview.codes.values import encode_value
from everview.errors import InputError
from everview.io import changes
from everview.io.fitting import Codes, Fitting, columns_of_rows, reason_of, text_of
from everview.io.source import Bad
from everview.session.current_rows import last_of_each, records

UNKNOWN = np.iinfo(np.int64).min
"""Stands for a commit or timestamp that is not told, where events travel."""

EXTRA = 3
"""Columns that travel with the codes."""


class Told(NamedTuple):
    """Events: rows' codes as columns, signed counts, and versions and timestamps of commits where all have them."""

    codes: np.ndarray
    counts: np.ndarray
    commits: np.ndarray | None = None
    stamps: np.ndarray | None = None
    cleared: bool = False
    """whether the table was emptied before them"""

    def in_order(self) -> Told:
        """The same in the order in which they are to be applied."""
        order = changes.in_commit_order(self.counts, self.commits, self.stamps)
        return Told(self.codes[:, order], self.counts[order])

    def packed(self, columns: Sequence[int]) -> np.ndarray:
        """As one matrix of words, the codes in this order of columns."""
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


def told(fitting: Fitting, shape: changes.Envelope, rows: Any, place: str, bad: list[Bad]) -> Told:
    """The events in records; those that do not fit are added to `bad`."""
    if shape.shape == "debezium":
        return _enveloped(fitting, rows.to_pylist() if isinstance(rows, pa.Table) else rows, place, bad)
    return _in_columns(fitting, shape, rows, place, bad)


def _enveloped(fitting: Fitting, records: Iterable[Any], place: str, bad: list[Bad]) -> Told:
    """The events in Debezium's records, which are read one by one; what came before the table was emptied is
    forgotten.
    """
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
        events += coded
    codes = columns_of_rows([row for row, _ in events], len(fitting.columns))
    return Told(codes, np.array([sign for _, sign in events], dtype=np.int64), cleared=cleared)


def _code(fitting: Fitting, row: dict[str, Any], sign: int) -> Codes:
    """Codes of a row. Of one that goes, a database may send the key alone, and the key is all that is needed."""
    codec = fitting.codec
    if sign > 0 or not fitting.key:
        return codec.encode_row(row)
    coded = {c: encode_value(codec.types[c], row[codec.names[c]], codec.interner) for c in fitting.key}
    return tuple(coded.get(c, 0) for c in range(len(codec.names)))


def _in_columns(fitting: Fitting, shape: changes.Envelope, rows: Any, place: str, bad: list[Bad]) -> Told:
    """The events in records that have a column for what happened."""
    if isinstance(rows, pa.Table):
        said = rows[shape.column].to_pylist()
        when: dict[str, Any] = {name: rows[name] for name in shape.ordering if name in rows.column_names}
        rows = rows.drop_columns([c for c in shape.extra if c in rows.column_names])
    else:
        said = [row.get(shape.column) for row in rows]
        when = {name: [row.get(name) for row in rows] for name in shape.ordering}
        rows = [{k: v for k, v in row.items() if k not in shape.extra} for row in rows]
    counts, refused = changes.signs(shape, said)
    if refused:
        shown = rows.to_pylist() if isinstance(rows, pa.Table) else rows
        bad.extend(Bad(place, why, text_of({**shown[i], shape.column: said[i]})) for i, why in refused.items())
    codes, kept = fitting.encode(rows, place, bad)
    good = counts[kept] != 0
    kept = kept[good]
    known = {name: _comparable(values, kept) for name, values in when.items()}
    return Told(codes[:, good], counts[kept], known.get(changes.VERSION), known.get(changes.STAMP))


def _comparable(values: Any, kept: np.ndarray) -> np.ndarray | None:
    """Some of a column's values; None if one of them is not told."""
    if not isinstance(values, pa.ChunkedArray):
        picked = [values[i] for i in kept]
        return None if any(v is None for v in picked) else np.array(picked)
    column = values.take(pa.array(kept))
    if column.null_count:
        return None
    if pa.types.is_timestamp(column.type):
        column = column.cast(pa.timestamp("us", column.type.tz), safe=False)
    return np.asarray(column.cast(pa.int64()).to_numpy())


def outcome(
    rows: np.ndarray, counts: np.ndarray, width: int, exact: bool = True
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """What events, in order, leave under keys, which are the rows' first `width` columns: the rows that stand there
    then, the keys whose former row goes in any case, and rows that go if they stand under keys that got no other.

    The last row that came under a key stands, unless that very row was taken away after it. So where any came, nothing
    that was there before matters. If rows that go are not told `exact`ly, but by their keys, the last event decides.
    """
    if not exact:
        last = last_of_each(rows[:width])
        return rows[:, last[counts[last] > 0]], rows[:width, last], rows[:, :0]
    groups = np.unique(records(rows[:width]), return_inverse=True)[1].ravel()
    last = np.full(rows.shape[1], -1)  # the last event of each group that brings a row
    came, went = np.flatnonzero(counts > 0), np.flatnonzero(counts < 0)
    np.maximum.at(last, groups[came], came)
    before = last[groups[went]]
    undone = went[(before >= 0) & (went > before)]
    undone = undone[(rows[:, undone] == rows[:, last[groups[undone]]]).all(axis=0)]
    settled = rows[:width, last[last >= 0]]
    last[groups[undone]] = -1
    return rows[:, last[last >= 0]], settled, rows[:, went[before < 0]]
