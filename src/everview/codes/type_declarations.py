"""Declared types: parsing the type of a column, and conversion to and from Arrow types.

>>> from typing import Optional
>>> [data_type(t) for t in (int, Optional[str], "decimal(2)?", tuple[int, str], pa.date32())]
[int, str?, decimal(2)?, tuple(int, str), date]
"""

from __future__ import annotations

import datetime as dt
import decimal
import re
import types
import typing
import uuid
from typing import Any

import pyarrow as pa

from everview.codes.digits import whole_number
from everview.codes.intervals import Interval
from everview.codes.limits import INTEGER
from everview.codes.scalars import DIGITS, shown
from everview.errors import InputError, did_you_mean
from everview.types import FREE, MOST_DIGITS, DataType, array, char, enum, mapping, numeric, small_int, struct, varchar
from everview.types import decimal as decimal_type

_DEFAULT_SCALE = 6

_PYTHON: dict[type, DataType] = {
    int: DataType("int"),
    float: DataType("float"),
    bool: DataType("bool"),
    str: DataType("str"),
    bytes: DataType("bytes"),
    dt.date: DataType("date"),
    dt.datetime: DataType("timestamp"),
    decimal.Decimal: DataType("decimal", scale=_DEFAULT_SCALE),
    dt.time: DataType("time"),
    dt.timedelta: DataType("interval"),
    Interval: DataType("interval"),
    uuid.UUID: DataType("uuid"),
}

_NAMES: dict[str, DataType] = {
    **{declared.kind: declared for declared in _PYTHON.values()},
    "datetime": DataType("timestamp"),
    "timestamptz": DataType("timestamptz"),
    "json": DataType("json"),
    "numeric": numeric(FREE),
    **{repr(small_int(bits)): small_int(bits) for bits in (8, 16, 32, -8, -16, -32)},
    "Decimal": DataType("decimal", scale=_DEFAULT_SCALE),
    "integer": INTEGER,
}

_ELSEWHERE: dict[str, str] = {
    **dict.fromkeys(("text", "string", "varchar", "utf8", "object"), "str"),
    **dict.fromkeys(("bigint", "long", "int64"), "int"),
    **dict.fromkeys(("double", "real", "float64", "double precision"), "float"),
    "boolean": "bool",
    "binary": "bytes",
}
"""Type names of SQL, Spark and pandas, with ours; only used in hints, because their sizes may matter."""


def data_type(declared: Any) -> DataType:
    """The column type for a Python annotation, a name, an Arrow type, or a `DataType`.

    >>> data_type(int | None)
    int?
    >>> data_type("tuple(int, str?)")
    tuple(int, str?)
    """
    if isinstance(declared, DataType):
        return declared
    if isinstance(declared, str):
        return _from_name(declared)
    if isinstance(declared, pa.Field):
        return _from_arrow(declared.type).optional(declared.nullable)
    if isinstance(declared, pa.DataType):
        return _from_arrow(declared)
    origin = typing.get_origin(declared)
    if origin is typing.Union or origin is types.UnionType:
        return _from_union(declared)
    if origin is tuple:
        items = typing.get_args(declared)
        if Ellipsis in items:
            raise _unknown(declared, "a tuple has a fixed number of items: write tuple[int, int]")
        return DataType("tuple", items=tuple(data_type(item) for item in items if item != ()))
    if origin is list and typing.get_args(declared):
        return array(data_type(typing.get_args(declared)[0]))
    if origin is dict and len(typing.get_args(declared)) == 2:
        return mapping(*map(data_type, typing.get_args(declared)))
    if isinstance(declared, tuple):
        return DataType("tuple", items=tuple(map(data_type, declared)))
    known = _PYTHON.get(declared) if isinstance(declared, type) else None
    if known is None:
        raise _unknown(declared)
    return known


def arrow_type(declared: DataType) -> pa.DataType:
    """The Arrow type of a column; a tuple is a struct with fields `f0`, `f1`, ...

    >>> arrow_type(DataType("decimal", scale=2))
    Decimal128Type(decimal128(18, 2))
    """
    if declared.kind == "decimal":
        return pa.decimal128(DIGITS, declared.scale)
    if declared.kind == "numeric" and declared.scale == FREE:
        return pa.string()  # others have no decimals of so many digits
    if declared.kind == "numeric":
        return pa.decimal128(declared.width or MOST_DIGITS, declared.scale)
    if declared.kind == "array":
        return pa.list_(arrow_type(declared.items[0]))
    if declared.kind == "map":
        return pa.map_(*map(arrow_type, declared.items))
    if declared.kind == "struct":
        return pa.struct([arrow_field(n, t) for n, t in zip(declared.names, declared.items, strict=True)])
    if declared.width and declared.kind == "int":
        return _SMALL[declared.width]
    if declared.kind == "tuple":
        return pa.struct([arrow_field(f"f{i}", item) for i, item in enumerate(declared.items)])
    return _ARROW[declared.kind]


def arrow_field(name: str, declared: DataType) -> pa.Field:
    """The Arrow field of a column.

    >>> arrow_field("x", DataType("int"))
    pyarrow.Field<x: int64 not null>
    """
    said = {b"everview": b"json"} if declared.kind == "json" else None  # Arrow represents it as text
    return pa.field(name, arrow_type(declared), nullable=declared.nullable, metadata=said)


_ARROW: dict[str, pa.DataType] = {
    "int": pa.int64(),
    "float": pa.float64(),
    "bool": pa.bool_(),
    "str": pa.string(),
    "bytes": pa.binary(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us"),
    "timestamptz": pa.timestamp("us", "UTC"),
    "time": pa.time64("us"),
    "interval": pa.month_day_nano_interval(),
    "uuid": pa.string(),
    "json": pa.string(),
    "char": pa.string(),
    "enum": pa.dictionary(pa.int32(), pa.string()),
}

_SMALL: dict[int, pa.DataType] = {
    8: pa.int8(), 16: pa.int16(), 32: pa.int32(), -8: pa.uint8(), -16: pa.uint16(), -32: pa.uint32(),
}  # fmt: skip


def _unknown(declared: Any, hint: str = "") -> InputError:
    hint = hint or (
        "use int, float, bool, str, bytes, datetime.date, time, datetime or timedelta, decimal.Decimal, uuid.UUID, "
        "tuple[...], list[...], dict[...], 'timestamptz', 'json', 'numeric(38, 10)', or X | None of these"
    )
    return InputError("E_TYPE", f"{shown(declared)} is not a column type", hint)


def _from_union(declared: Any) -> DataType:
    members = [member for member in typing.get_args(declared) if member is not type(None)]
    if len(members) != 1:
        raise _unknown(declared, "a column has one type; only X | None is allowed")
    return data_type(members[0]).optional()


def _from_name(name: str) -> DataType:
    text = name.strip()
    if text.endswith("?"):
        return _from_name(text[:-1]).optional()
    scaled = re.fullmatch(r"[dD]ecimal\(\s*(\d+)\s*\)", text)
    if scaled:
        return _decimal(whole_number(scaled[1]))
    if text.startswith("tuple(") and text.endswith(")"):
        return DataType("tuple", items=tuple(map(_from_name, _split(text[6:-1]))))
    found = _compound(text)
    if found is not None:
        return found
    if text not in _NAMES:
        meant = _ELSEWHERE.get(text.lower().split("(")[0])
        hint = f"did you mean {meant!r}?" if meant else did_you_mean(text, [*_NAMES, "decimal(2)", "tuple(int, str)"])
        raise _unknown(name, hint)
    return _NAMES[text]


def _compound(text: str) -> DataType | None:
    """Parse array(int), map(str, int), struct(x int, y str), enum('a', 'b'), numeric(38, 10), char(3); None for
    others."""
    head, bracket, rest = text.partition("(")
    if not bracket or not rest.endswith(")"):
        return None
    inside = [part.strip() for part in _split(rest[:-1])]
    match head, len(inside):
        case "array", 1:
            return array(_from_name(inside[0]))
        case "map", 2:
            return mapping(_from_name(inside[0]), _from_name(inside[1]))
        case "char", 1 if inside[0].isdecimal():
            return char(whole_number(inside[0]))
        case "varchar", 1 if inside[0].isdecimal() and whole_number(inside[0]) > 0:
            return varchar(whole_number(inside[0]))
        case "numeric" | "decimal", 2 if inside[0].isdecimal() and inside[1].isdecimal():
            return checked_numeric(whole_number(inside[0]), whole_number(inside[1]))
        case "struct", _ if inside and all(len(p.split(None, 1)) == 2 for p in inside):
            pairs = [part.split(None, 1) for part in inside]
            return struct(tuple(n for n, _ in pairs), tuple(_from_name(t) for _, t in pairs))
        case "enum", _ if inside and all(len(p) > 1 and p[0] == p[-1] == "'" for p in inside):
            return enum(*(p[1:-1] for p in inside))
    return None


def checked_numeric(digits: int, scale: int) -> DataType:
    """A decimal, stored in 64 bits if its digits fit, else a numeric.

    >>> checked_numeric(15, 2), checked_numeric(30, 2)
    (decimal(15, 2), numeric(30, 2))
    """
    if not 1 <= digits <= MOST_DIGITS or not 0 <= scale <= digits:
        hint = f"it has up to {MOST_DIGITS} digits, and no more of them after the point"
        raise InputError("E_TYPE", f"there is no numeric({digits}, {scale})", hint)
    return decimal_type(scale, digits) if digits <= DIGITS else numeric(scale, digits)


def _split(text: str) -> list[str]:
    """Split at commas outside parentheses."""
    parts, depth = [""], 0
    for letter in text:
        depth += (letter == "(") - (letter == ")")
        if letter == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += letter
    return [part for part in parts if part.strip()]


def _decimal(scale: int) -> DataType:
    if not 0 <= scale <= DIGITS:
        raise InputError("E_TYPE", f"a decimal cannot have scale {scale}", f"scales go from 0 to {DIGITS}")
    return DataType("decimal", scale=scale)


def _from_arrow(declared: pa.DataType) -> DataType:
    kinds = pa.types
    if kinds.is_dictionary(declared):
        return _from_arrow(declared.value_type)
    if kinds.is_decimal(declared):
        if declared.precision <= DIGITS:
            return _decimal(declared.scale)
        if declared.precision > MOST_DIGITS:
            return numeric(FREE)
        return checked_numeric(declared.precision, declared.scale)
    if kinds.is_list(declared) or kinds.is_large_list(declared) or kinds.is_fixed_size_list(declared):
        return array(_inside(declared.value_type, declared))
    if kinds.is_map(declared):
        return mapping(_inside(declared.key_type, declared), _inside(declared.item_type, declared))
    if kinds.is_struct(declared):
        return DataType("tuple", items=tuple(data_type(field) for field in declared))
    for test, kind in _ARROW_TESTS:
        if test(declared):
            return _NAMES[kind]
    raise _unknown(declared)


def _inside(part: pa.DataType, whole: pa.DataType) -> DataType:
    """The element type of lists and maps; a tuple is refused, and a struct must be declared as such."""
    found = _from_arrow(part)
    if found.kind == "tuple":
        raise _unknown(whole, "declare it: 'array(struct(x int, y str))'")
    return found


_ARROW_TESTS: tuple[tuple[Any, str], ...] = (
    (pa.types.is_integer, "int"),
    (pa.types.is_floating, "float"),
    (pa.types.is_boolean, "bool"),
    (lambda t: pa.types.is_string(t) or pa.types.is_large_string(t) or pa.types.is_string_view(t), "str"),
    (lambda t: pa.types.is_binary(t) or pa.types.is_large_binary(t) or pa.types.is_binary_view(t), "bytes"),
    (pa.types.is_fixed_size_binary, "bytes"),
    (pa.types.is_date, "date"),
    (pa.types.is_timestamp, "timestamp"),
    (pa.types.is_time, "time"),
    (pa.types.is_interval, "interval"),
    (pa.types.is_duration, "interval"),
)
