"""Encodes records: maps a source's columns to its table's, and sets aside what does not fit.

The work is the same in this process and in a Spark task (`everview.spark.rows.encode`). It is done column by column,
unless a chunk contains bad data: then its records are examined one by one to separate the good from the bad.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import numpy as np
import pyarrow as pa

from everview.codes.codec import Codec
from everview.codes.type_declarations import arrow_field
from everview.errors import EverviewError, InputError, did_you_mean
from everview.io.changes import Envelope
from everview.io.source import Bad
from everview.io.text_values import convert, value_of_json
from everview.types import DataType

Codes = tuple[int, ...]


class RecordEncoder:
    """How records become rows of one table.

    >>> from everview.codes.interner import Interner
    >>> from everview.types import INT
    >>> fitting = RecordEncoder("t", Codec((INT,), ("x",), Interner()), exact=True)
    >>> bad = []
    >>> codes, kept = fitting.encode([{"x": 7}, {"y": 7}], "here", bad)
    >>> codes.tolist(), kept.tolist(), [b.reason for b in bad]
    ([[7]], [0], ["[E_COLUMN] there is no column 'y' in table 't'"])
    """

    def __init__(
        self, label: str, codec: Codec, *, exact: bool, shape: Envelope | None = None, key: tuple[int, ...] = ()
    ) -> None:
        """`exact`: columns that the table lacks are refused, because its columns were inferred from the source.
        `shape`: the change feed format, if it is one (`everview.io.events`). `key`: the columns of the table's key.
        """
        self.label = label
        self.shape = shape
        self.key = key
        self.codec = codec
        self.exact = exact
        self.columns: dict[str, DataType] = dict(zip(codec.names, codec.types, strict=True))

    def encode(self, rows: pa.Table | list[Any], place: str, bad: list[Bad]) -> tuple[np.ndarray, np.ndarray]:
        """Codes of the rows that fit, and their positions among the given; the others are added to `bad`."""
        try:
            codes = self.codec.encode(self._fitted(rows))
            return codes, np.arange(codes.shape[1])
        except InputError:
            pass
        good: list[Codes] = []
        kept: list[int] = []
        for i, row in enumerate(self._one_by_one(rows)):
            try:
                good.append(self.codec.encode_row(self._fitted_row(row)))
                kept.append(i)
            except InputError as error:
                bad.append(Bad(place, reason_of(error), text_of(row)))
        return columns_of_rows(good, len(self.columns)), np.array(kept, dtype=np.intp)

    def _fitted(self, rows: pa.Table | list[Any]) -> pa.Table | list[Any]:
        """Map a table's columns to ours: nullable ones may be missing, others only if they were not requested."""
        if not isinstance(rows, pa.Table):
            return rows
        extra = [n for n in rows.column_names if n not in self.columns]
        if extra and self.exact:
            raise self._unknown(extra[0])
        arrays = {}
        for name, declared in self.columns.items():
            if name in rows.column_names:
                arrays[name] = _read(rows[name], declared)
            elif declared.nullable:
                arrays[name] = pa.nulls(rows.num_rows, arrow_field(name, declared).type)
        return pa.table(arrays) if arrays else rows

    def _one_by_one(self, rows: pa.Table | list[Any]) -> list[Any]:
        """The records one by one; JSON text in a column is parsed, as it is for whole columns."""
        if not isinstance(rows, pa.Table):
            return rows
        found: list[Any] = rows.to_pylist()
        for name in (n for n, t in self.columns.items() if t.kind == "json" and n in rows.column_names):
            for record in found:
                with suppress(ValueError, TypeError):
                    record[name] = json.loads(record[name])
        return found

    def _fitted_row(self, row: Any) -> Any:
        if not isinstance(row, Mapping):
            return row
        for name in row:
            if name not in self.columns and self.exact and row[name] is not None:
                raise self._unknown(name)
        return {
            name: value_of_json(row.get(name), declared)
            for name, declared in self.columns.items()
            if name in row or declared.nullable
        }

    def _unknown(self, name: str) -> InputError:
        hint = did_you_mean(name, self.columns)
        return InputError("E_COLUMN", f"there is no column {name!r} in table {self.label!r}", hint)


def _read(values: pa.ChunkedArray, declared: DataType) -> pa.ChunkedArray | pa.Array:
    """Parse a column of a file; intervals are texts in most formats."""
    if declared.kind != "interval" or not pa.types.is_string(values.type):
        return values
    try:
        return convert(values, declared)
    except ValueError:
        return values  # the bad one is found later


def columns_of_rows(rows: list[Codes], width: int) -> np.ndarray:
    """Rows of codes as columns."""
    return np.ascontiguousarray(np.array(rows, dtype=np.int64).reshape(len(rows), width).T)


def reason_of(error: Exception) -> str:
    """Why a record was refused, in a line."""
    return f"[{error.code}] {error.message}" if isinstance(error, EverviewError) else f"[E_RECORD] {error}"


def text_of(record: Any) -> str:
    """A record as readable text."""
    return json.dumps(record, ensure_ascii=False, default=str)
