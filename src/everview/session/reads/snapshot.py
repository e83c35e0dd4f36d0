"""Reads an arrangement's contents at one time, as Python rows, Arrow, pandas or polars."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np

from everview.codes.codec import Codec
from everview.codes.multiplicity import repeated
from everview.codes.values import encode_value
from everview.dataflow.batch_arrays import batch_arrays
from everview.dataflow.operators import Arrangement, Trace
from everview.errors import CompactedError, EverviewError, InputError, RowErrors
from everview.kernels import structures
from everview.kernels.expressions.scalars import MINUS_ZERO
from everview.kernels.trace import read
from everview.kernels.trace.trace import NO_SINCE
from everview.runtime.base import Runtime
from everview.session.changes.turns import reads
from everview.session.reads import rendering
from everview.types import DataType

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl
    import pyarrow as pa

    from everview.session.core import Core


class Snapshot:
    """The contents of a view or table at one time. The time stays readable while the snapshot lives, even if the view
    is dropped.

    >>> import everview as ev
    >>> db = ev.connect()
    >>> t = db.table("t", {"x": int})
    >>> v = db.view("v", t.distinct())
    >>> t.insert([(1,)]); t.insert([(2,)])
    >>> v.as_of(1).rows(), len(v.as_of(2))
    ([(1,)], 2)
    """

    def __init__(self, core: Core, arrangement: Arrangement, codec: Codec, time: int) -> None:
        """Call it in a turn: another thread's step could otherwise make the time unreadable before it is held."""
        self._core = core
        self._arrangement = arrangement
        self._codec = codec
        self.time = time
        self.now: dt.datetime | None = core.clock.at(time)
        """the clock's reading then: TTLs, windows and now() are applied up to this moment. None if nothing follows the
        clock, or this session did not observe that time
        """
        self._copy: tuple[np.ndarray, np.ndarray] | None = None
        self._lost: EverviewError | None = None
        core.runtime.sync(arrangement.operator)
        check_readable(core, arrangement, time)
        self._held = True
        arrangement.trace.hold(time)
        arrangement.trace.snapshots.add(self)

    @classmethod
    def copied(
        cls, core: Core, arrangement: Arrangement, codec: Codec, time: int, contents: tuple[np.ndarray, np.ndarray]
    ) -> Snapshot:
        """A snapshot of copied contents: columns in the collection's order, and multiplicities. It holds no trace."""
        made = cls.__new__(cls)
        made._core, made._arrangement, made._codec, made.time = core, arrangement, codec, time
        made.now = core.clock.at(time)
        made._copy, made._lost, made._held = contents, None, False
        return made

    def __del__(self) -> None:
        if getattr(self, "_held", False):  # runs in any thread, possibly in the middle of anything
            self._core.released.append((self._arrangement.trace, self.time))

    def _contents(self) -> tuple[np.ndarray, np.ndarray]:
        """(columns in the collection's order, multiplicities)."""
        copy = self._copy
        if copy is not None and not self._core.closed:
            return copy
        return self._collected()

    @reads
    def _collected(self) -> tuple[np.ndarray, np.ndarray]:
        self._core.alive()
        if self._lost is not None:
            raise self._lost
        if self._copy is not None:
            return self._copy
        batch = read.collect(self._arrangement.trace.address, NO_SINCE, self.time, 0)
        columns, _, counts = batch_arrays(batch, self._arrangement.cols)
        read.release(batch)
        return in_order(columns, self._arrangement.order), counts

    def _repeated(self) -> np.ndarray:
        columns, counts = self._contents()
        _refuse_negative(counts)
        return repeated(columns, counts)

    def __len__(self) -> int:
        counts = self._contents()[1]
        _refuse_negative(counts)
        return int(counts.sum())

    def rows(self) -> list[tuple[Any, ...]]:
        """Rows as tuples, repeated by multiplicity, in no particular order."""
        return self._codec.decode_rows(self._repeated())

    def counts(self) -> dict[tuple[Any, ...], int]:
        """Each distinct row with its multiplicity."""
        columns, counts = self._contents()
        return dict(zip(self._codec.decode_rows(columns), counts.tolist(), strict=True))

    def to_arrow(self) -> pa.Table:
        """As an Arrow table."""
        return self._codec.to_arrow(self._repeated())

    def to_pandas(self) -> pd.DataFrame:
        """As a pandas frame."""
        frame: pd.DataFrame = self._codec.to_pandas(self._repeated())
        return frame

    def to_polars(self) -> pl.DataFrame:
        """As a polars frame."""
        frame: pl.DataFrame = self._codec.to_polars(self._repeated())
        return frame

    def head(self, n: int = 5) -> list[tuple[Any, ...]]:
        """Some rows, at most n."""
        check_rows("head", n)
        columns, counts = self._contents()
        _refuse_negative(counts)
        rows = self._codec.decode_rows(np.ascontiguousarray(columns[:, :n]))
        return [row for row, times in zip(rows, counts[:n].tolist(), strict=True) for _ in range(min(times, n))][:n]

    def _display(self, n: int = rendering.DEFAULT_ROWS) -> tuple[list[tuple[Any, ...]], str]:
        """At most n rows for display, and a note about the others. If none is omitted, they are sorted."""
        rows, total = self.head(n), len(self)
        return rows if len(rows) < total else rendering.in_order(rows), rendering.left_out(len(rows), total)

    def text(self, n: int = rendering.DEFAULT_ROWS) -> str:
        """The columns and at most n rows, as a text table."""
        rows, more = self._display(n)
        lines = rendering.lines(self._codec.names, self._codec.types, rows, with_types=True)
        return "\n".join([*lines, more] if more else lines)

    def __str__(self) -> str:
        return f"{rendering.counted(len(self))} at time {self.time}\n{self.text()}"

    def _repr_html_(self) -> str:
        rows, more = self._display()
        note = f"{rendering.counted(len(self))} at time {self.time}"
        return rendering.page(self._codec.names, self._codec.types, rows, f"{more}; {note}" if more else note)


def keep_snapshots(trace: Trace) -> None:
    """Before a trace is freed, copy what its snapshots show. If that fails (no memory, say), they keep the error
    instead, because dropping must not fail.
    """
    for snapshot in list(trace.snapshots):
        try:
            snapshot._copy = snapshot._contents()
        except EverviewError as error:
            snapshot._lost = error


def _refuse_negative(counts: np.ndarray) -> None:
    if len(counts) and counts.min() < 0:
        raise RowErrors(
            "E_NEGATIVE", "some rows have negative multiplicity", "read counts(), or apply threshold() or distinct()"
        )


def check_time(where: str, time: Any) -> None:
    """Refuse an invalid time."""
    if not isinstance(time, int | np.integer) or isinstance(time, bool):
        raise InputError("E_TYPE", f"{where}: {time!r} is not a time", "times are whole numbers: db.time is the last")


def check_rows(where: str, n: Any) -> None:
    """Refuse an invalid number of rows."""
    if not isinstance(n, int | np.integer) or isinstance(n, bool) or n < 0:
        raise InputError("E_TYPE", f"{where}: {n!r} is not a number of rows", "give a whole number, 0 or more")


def first_columns(codec: Codec, key: Any) -> tuple[int, ...]:
    """The first columns, as many as a key has values."""
    width = len(key) if isinstance(key, tuple) else 1
    if not 1 <= width <= len(codec.names):
        raise InputError("E_KEY", f"{key!r} has {width} values", f"the columns are {', '.join(codec.names)}")
    return tuple(range(width))


def in_order(columns: np.ndarray, order: tuple[int, ...]) -> np.ndarray:
    """An arrangement's columns in the collection's order."""
    if order == tuple(range(len(order))):
        return columns
    result = np.empty_like(columns)
    for i, c in enumerate(order):
        result[c] = columns[i]
    return result


def consolidated(columns: np.ndarray, diffs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Add up equal rows (columns of an array) and drop those whose multiplicity is zero.

    >>> rows, diffs = consolidated(np.array([[1, 2, 1, 2]]), np.array([1, 1, 1, -1]))
    >>> rows.tolist(), diffs.tolist()
    ([[1]], [2])
    """
    kept, totals = remaining(columns, diffs)
    return np.ascontiguousarray(columns[:, kept]), totals


def remaining(columns: np.ndarray, diffs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The positions of distinct rows with a nonzero total multiplicity, and these totals.

    >>> places, totals = remaining(np.array([[1, 2, 1, 2]]), np.array([1, 1, 1, -1]))
    >>> places.tolist(), totals.tolist()
    ([0], [2])
    """
    if not len(diffs):
        return np.empty(0, dtype=np.int64), diffs
    order = np.lexsort(columns[::-1])
    ordered, counts = columns[:, order], diffs[order]
    first = np.ones(len(diffs), dtype=np.bool_)
    first[1:] = (ordered[:, 1:] != ordered[:, :-1]).any(axis=0)
    starts = np.flatnonzero(first)
    totals = np.add.reduceat(counts, starts)
    kept = totals != 0
    return order[starts[kept]], totals[kept]


def check_readable(core: Core, arrangement: Arrangement, time: int) -> None:
    """Refuse future times and compacted ones."""
    if time > core.time:
        raise InputError(
            "E_FUTURE", f"time {time} has not come yet; it is {core.time} now", "read at db.time or before"
        )
    since = arrangement.trace.since
    if time < since:
        raise CompactedError(
            "E_COMPACTED",
            f"time {time} is no longer readable: history starts at {since}",
            "keep more history with ev.connect(history=...) or db.view(..., history=...)",
        )


def read_key(
    core: Core, arrangement: Arrangement, codec: Codec, columns: tuple[int, ...], key: Any
) -> list[tuple[Any, ...]]:
    """Rows whose `columns`, the first of the arrangement, equal the key."""
    core.alive()
    return keyed_rows(arrangement, codec, columns, key, lambda start: present_codes(core, arrangement, start))


def keyed_rows(
    arrangement: Arrangement,
    codec: Codec,
    columns: tuple[int, ...],
    key: Any,
    found_by: Callable[[tuple[int, ...]], tuple[np.ndarray, np.ndarray]],
) -> list[tuple[Any, ...]]:
    """The same; `found_by` returns the codes of the rows with a prefix, and their multiplicities."""
    wanted = _key_codes(codec, columns, key)
    equals = [wanted[columns.index(c)] for c in arrangement.order[: len(columns)]]
    parts = [found_by(start) for start in product(*equals)]
    found, counts = parts[0] if len(parts) == 1 else map(np.hstack, zip(*parts, strict=True))
    _refuse_negative(counts)
    rows = codec.decode_rows(found)
    return [row for row, n in zip(rows, counts.tolist(), strict=True) for _ in range(n)]


def search(snapshot: Snapshot, columns: tuple[int, ...], key: Any) -> list[tuple[Any, ...]]:
    """The same by a scan, if there is no index by these columns and none can be created."""
    rows = snapshot._repeated()
    mine = np.ones(rows.shape[1], dtype=np.bool_)
    for column, codes in zip(columns, _key_codes(snapshot._codec, columns, key), strict=True):
        mine &= np.isin(rows[column], codes)
    return snapshot._codec.decode_rows(np.ascontiguousarray(rows[:, mine]))


def _key_codes(codec: Codec, columns: tuple[int, ...], key: Any) -> list[tuple[int, ...]]:
    """The possible codes of each column."""
    values = key if isinstance(key, tuple) else (key,)
    if len(values) != len(columns):
        names = ", ".join(codec.names[c] for c in columns)
        raise InputError(
            "E_KEY", f"the key is ({names}), got {len(values)} value(s): {key!r}", "give one value per column"
        )
    types = [codec.types[c] for c in columns]
    return [_equals(t, encode_value(t, v, codec.interner)) for t, v in zip(types, values, strict=True)]


def _equals(declared: DataType, code: int) -> tuple[int, ...]:
    """The codes of all values equal to the one with this code: 0.0 and -0.0 have distinct codes."""
    return (0, MINUS_ZERO) if declared.kind == "float" and code in (0, MINUS_ZERO) else (code,)


def present_codes(core: Core, arrangement: Arrangement, start: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray]:
    """The same now, as seen by this thread: inside a `what_if`, with its changes."""
    found = read_codes(core.runtime, arrangement, start, core.time)
    supposed = core.transactions.supposed()
    return found if supposed is None else supposed.added_to(arrangement, start, *found)


def read_codes(
    runtime: Runtime, arrangement: Arrangement, start: tuple[int, ...], time: int
) -> tuple[np.ndarray, np.ndarray]:
    """Rows that begin with these codes in the arrangement's order (none: all rows), as columns of codes in the
    collection's order, with multiplicities.
    """
    runtime.sync(arrangement.operator)
    trace = arrangement.trace.address
    if not start:
        batch = read.collect(trace, NO_SINCE, time, 0)
    else:
        block = structures.make_filled(np.array(start, dtype=np.int64))
        batch = read.collect_key(trace, block, len(start), time)
        structures.drop_block(block)
    columns, _, counts = batch_arrays(batch, arrangement.cols)
    read.release(batch)
    return in_order(columns, arrangement.order), counts
