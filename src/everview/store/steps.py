"""Serialises steps for the write-ahead log: the transactions that ran together.

Rows are written as codes, each change with the id of its table's plan node. New dictionary entries since the last
record come first, so that the codes can always be decoded when the log is read in order.
"""

from __future__ import annotations

import functools
import itertools
import json
import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from everview.codes.buffers import numbers_of
from everview.codes.interner import Interner

_HEAD = struct.Struct("<qII")  # last complete time before the step, words in the dictionary, transactions
_WORK = struct.Struct("<II")  # bytes of marks, changes
_CHANGE = struct.Struct("<qqIIB")  # table, diff, rows, columns, whether column by column


@dataclass(frozen=True)
class Transaction:
    """The changes (table, rows' codes as tuples or as a matrix of columns, diff) and marks of one transaction."""

    changes: Sequence[tuple[int, Any, int]] = ()
    marks: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Step:
    """Transactions after `time` that ran together; `words` are the dictionary's new entries."""

    time: int
    transactions: Sequence[Transaction]
    words: pa.Table | None = None


def encode(time: int, transactions: Iterable[Transaction], words: pa.Table | None = None) -> bytes:
    """Encode a step.

    >>> step = Step(4, [Transaction([(0, [(1, 2), (3, 4)], -1)], {"offset": "7"})])
    >>> decode(encode(step.time, step.transactions)) == step
    True
    """
    parts = [b""]
    count = 0
    for transaction in transactions:
        count += 1
        marks = json.dumps(transaction.marks).encode() if transaction.marks else b""
        parts.append(_WORK.pack(len(marks), len(transaction.changes)))
        parts.append(marks)
        for table, rows, diff in transaction.changes:
            if isinstance(rows, list):
                width = len(rows[0]) if rows else 0
                parts.append(_CHANGE.pack(table, diff, len(rows), width, 0))
                parts.append(struct.pack(f"<{len(rows) * width}q", *itertools.chain.from_iterable(rows)))
            else:
                parts.append(_CHANGE.pack(table, diff, rows.shape[1], rows.shape[0], 1))
                parts.append(np.ascontiguousarray(rows, dtype="<i8").tobytes())
    parts[0] = _HEAD.pack(time, 0 if words is None else len(words), count)
    if words is not None:
        parts.insert(1, _encode_words(words))
    return b"".join(parts)


def encode_rows(time: int, table: int, rows: list[tuple[int, ...]], diff: int) -> bytes:
    """The same for one transaction that changes a few rows of one table: the fast path.

    >>> encode_rows(4, 0, [(1, 2)], 1) == encode(4, [Transaction([(0, [(1, 2)], 1)])])
    True
    """
    width = len(rows[0]) if rows else 0
    count = len(rows)
    layout = _layout(count * width)
    codes = rows[0] if count == 1 else itertools.chain.from_iterable(rows)
    return layout.pack(time, 0, 1, 0, 1, table, diff, count, width, 0, *codes)


@functools.lru_cache(64)
def _layout(codes: int) -> struct.Struct:
    return struct.Struct(f"<qIIIIqqIIB{codes}q")


def decode(data: Any) -> Step:
    """Decode a step whose bytes the log has verified."""
    view = memoryview(data)
    time, known, count = _HEAD.unpack_from(view)
    at = _HEAD.size
    words = None
    if known:
        words, at = _decode_words(view, at, known)
    transactions = []
    for _ in range(count):
        size, changes = _WORK.unpack_from(view, at)
        at += _WORK.size
        marks = json.loads(bytes(view[at : at + size])) if size else {}
        at += size
        found: list[tuple[int, Any, int]] = []
        for _ in range(changes):
            table, diff, rows, cols, columnar = _CHANGE.unpack_from(view, at)
            at += _CHANGE.size
            codes = np.frombuffer(view[at : at + 8 * rows * cols], dtype="<i8").astype(np.int64)
            at += codes.nbytes
            if columnar:
                found.append((table, codes.reshape(cols, rows), diff))
            else:
                found.append((table, [tuple(r) for r in codes.reshape(rows, cols).tolist()], diff))
        transactions.append(Transaction(found, marks))
    return Step(time, transactions, words)


def new_words(interner: Interner, since: int) -> pa.Table | None:
    """The dictionary's entries from number `since` on; None if there are none."""
    return interner.export(since) if len(interner) > since else None


def _encode_words(words: pa.Table) -> bytes:
    kinds, ids, values = (words[name].chunk(0) for name in ("kind", "id", "value"))
    offsets = numbers_of_offsets(values)
    payload = np.frombuffer(values.buffers()[2] or b"", dtype=np.uint8)[offsets[0] : offsets[-1]]
    return b"".join(
        [
            numbers_of(kinds, np.uint8).tobytes(),
            numbers_of(ids, np.int64).astype("<i8").tobytes(),
            (offsets - offsets[0]).astype("<i8").tobytes(),
            payload.tobytes(),
        ]
    )


def numbers_of_offsets(values: pa.Array) -> np.ndarray:
    """The offsets of the values in an array of large binaries."""
    return np.frombuffer(values.buffers()[1], dtype=np.int64)[values.offset : values.offset + len(values) + 1]


def _decode_words(view: memoryview, at: int, count: int) -> tuple[pa.Table, int]:
    def take(size: int) -> pa.Buffer:
        nonlocal at
        at += size
        return pa.py_buffer(bytes(view[at - size : at]))

    kinds, ids, offsets = take(count), take(8 * count), take(8 * (count + 1))
    payload = take(int(np.frombuffer(offsets, dtype="<i8")[-1]))
    columns = [
        pa.Array.from_buffers(pa.uint8(), count, [None, kinds]),
        pa.Array.from_buffers(pa.int64(), count, [None, ids]),
        pa.Array.from_buffers(pa.large_binary(), count, [None, offsets, payload]),
    ]
    return pa.Table.from_arrays(columns, names=["kind", "id", "value"]), at
