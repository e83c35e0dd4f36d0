"""Parses texts of CSV fields and JSON strings as a column's type.

Whole columns go through Arrow's casts. Only when a cast fails are the values tried one by one, to find the bad ones. A
timestamp may carry a zone offset or none (then it is UTC); numbers may have blanks around them.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from everview.codes.arrays import arrow_of_values
from everview.codes.scalars import article, shown
from everview.codes.type_declarations import arrow_type
from everview.errors import InputError
from everview.expr.python_function_types import NEW
from everview.expr.text_conversion import of_text
from everview.types import DataType

_UTC = pa.timestamp("us", "UTC")


def convert(texts: pa.Array | pa.ChunkedArray, declared: DataType) -> pa.Array | pa.ChunkedArray:
    """A column of texts as its type; `pa.ArrowInvalid` if some text does not fit.

    >>> convert(pa.array(["1", " 2", None]), DataType("int", nullable=True)).to_pylist()
    [1, 2, None]
    """
    if declared.kind == "str":
        return texts if declared.nullable else pc.fill_null(texts, "")
    if declared.kind == "bytes":
        return pa.array([None if t is None else base64.b64decode(t, validate=True) for t in texts.to_pylist()])
    if declared.kind == "tuple":
        raise pa.ArrowInvalid(f"text is no {declared!r}")
    if declared.kind in NEW:
        return _read(texts.to_pylist(), declared)
    trimmed = pc.utf8_trim_whitespace(texts)
    if declared.kind != "timestamp":
        return pc.cast(trimmed, arrow_type(declared))
    try:
        return pc.cast(trimmed, pa.timestamp("us"))
    except pa.ArrowInvalid:
        return pc.cast(trimmed, _UTC)


def _read(texts: list[str | None], declared: DataType) -> pa.Array:
    """Parse texts like quoted SQL literals; ValueError if one does not fit."""
    try:
        read = of_text(declared)
        return arrow_of_values([None if text is None else read(text) for text in texts], declared)
    except ArithmeticError as error:
        raise ValueError(str(error)) from None


def value_of_text(text: str | None, declared: DataType) -> Any:
    """One text as a Python value of the type; an `InputError` if it does not fit.

    >>> value_of_text("2024-02-30", DataType("date"))
    Traceback (most recent call last):
    everview.errors.InputError: [E_TYPE] '2024-02-30' is not a date
    """
    try:
        if declared.kind == "tuple" and text is not None:
            return value_of_json(json.loads(text), declared)
        return convert(pa.array([text], pa.string()), declared)[0].as_py()
    except (pa.ArrowInvalid, ValueError, ArithmeticError):
        raise InputError("E_TYPE", f"{shown(text)} is not {article(repr(declared.optional(False)))}") from None


def value_of_json(value: Any, declared: DataType) -> Any:
    """Convert a JSON value to the type: texts of dates, times, decimals and bytes are parsed, objects and lists in a
    text column become their JSON text, numbers in a decimal column are exact.

    >>> value_of_json("2024-02-03", DataType("date")), value_of_json([1], DataType("str"))
    (datetime.date(2024, 2, 3), '[1]')
    """
    if value is None:
        return None
    if declared.kind in ("date", "timestamp", "decimal", "bytes") and isinstance(value, str):
        return value_of_text(value, declared)
    if declared.kind in ("timestamptz", "time", "interval", "uuid", "numeric") and isinstance(value, str):
        return value_of_text(value, declared)
    if declared.kind == "array" and isinstance(value, list):
        return [value_of_json(v, declared.items[0]) for v in value]
    if declared.kind == "struct" and isinstance(value, dict):
        items = dict(zip(declared.names, declared.items, strict=True))
        return {k: value_of_json(v, items[k]) if k in items else v for k, v in value.items()}
    if declared.kind == "map" and isinstance(value, dict):
        key, item = declared.items
        return {value_of_text(k, key) if key.kind != "str" else k: value_of_json(v, item) for k, v in value.items()}
    if declared.kind in ("decimal", "numeric") and isinstance(value, (int, float)) and not isinstance(value, bool):
        return Decimal(str(value))
    if declared.kind == "str" and isinstance(value, (dict, list)):
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    if declared.kind == "tuple" and isinstance(value, dict):
        value = list(value.values())
    if declared.kind == "tuple" and isinstance(value, list) and len(value) == len(declared.items):
        return tuple(value_of_json(v, t) for v, t in zip(value, declared.items, strict=True))
    return value


def values_of_json(record: Mapping[str, Any], columns: Mapping[str, DataType]) -> dict[str, Any]:
    """A record's values as the columns' types; a missing field is NULL. Errors name the column.

    >>> values_of_json({"day": "2024-02-03", "more": 1}, {"day": DataType("date"), "n": DataType("int", nullable=True)})
    {'day': datetime.date(2024, 2, 3), 'n': None}
    """
    row = {}
    for name, declared in columns.items():
        try:
            row[name] = value_of_json(record.get(name), declared)
        except InputError as error:
            raise InputError(error.code, f"column {name!r}: {error.message}") from None
    return row
