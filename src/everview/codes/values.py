"""Codes of single values of a declared type: scalars, texts and tuples, with NULL.

`encoder` and `decoder` are created once per column and called per value. Rows take faster paths where possible (see
`codec`); these functions define what those paths accept, and produce the error messages.

>>> from everview.codes.interner import Interner
>>> interner = Interner()
>>> encode_value(DataType("float"), 2, interner) == encode_value(DataType("float"), 2.0, interner)
True
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from everview.codes import packed
from everview.codes.interner import CACHED, Interner, Remembered, item_tag
from everview.codes.scalars import DECODERS, counted, shown, wrong_type
from everview.errors import InputError
from everview.types import INTERNED, NULL, PACKED, DataType

Encode = Callable[[Any], int]
Decode = Callable[[int], Any]


def encode_value(declared: DataType, value: Any, interner: Interner) -> int:
    """Encode one value."""
    return encoder(declared, interner)(value)


def decode_value(declared: DataType, code: int, interner: Interner) -> Any:
    """Decode one code.

    >>> decode_value(DataType("bool"), 1, Interner())
    True
    """
    return decoder(declared, interner)(code)


def encoder(declared: DataType, interner: Interner) -> Encode:
    """A function from values of the type to codes; for a bad value it raises an `InputError` without row or column.

    >>> encoder(DataType("int", nullable=True), Interner())(None) == NULL
    True
    """
    plain = _plain_encoder(declared, interner)
    reserved = declared.nullable and declared.kind not in INTERNED

    def encode(value: Any) -> int:
        if is_null(value):
            if not declared.nullable:
                raise null_refused(declared)
            return NULL
        code = plain(value)
        if code == NULL and reserved:
            raise reserved_code(value)
        return code

    return encode


def decoder(declared: DataType, interner: Interner) -> Decode:
    """A function from codes to values of the type."""
    if declared.kind in PACKED or declared.kind == "char":
        return _unpacked(declared, interner)
    if declared.kind == "tuple" and read_by_type(declared):
        return _items_read(declared, interner)
    if declared.kind in INTERNED:
        return interner.value
    if declared.kind == "enum":
        labels = declared.names
        return lambda code: None if code == NULL else labels[code]
    plain, scale = DECODERS[declared.kind], declared.scale
    if declared.nullable:
        return lambda code: None if code == NULL else plain(code, scale)
    return lambda code: plain(code, scale)


def read_by_type(declared: DataType) -> bool:
    """Whether decoding requires the declared type: a tuple records the kinds of its items, but not how they are packed.

    >>> [read_by_type(DataType("tuple", items=(DataType(kind),))) for kind in ("json", "date")]
    [True, False]
    """
    if declared.kind == "tuple":
        return any(map(read_by_type, declared.items))
    return declared.kind in PACKED or declared.kind in ("char", "enum")


def _items_read(declared: DataType, interner: Interner) -> Decode:
    """Decode tuples, item by item."""
    items = [decoder(item, interner) for item in declared.items]

    def decode(code: int) -> Any:
        parts, null = interner.decode_tuples(np.array([code], dtype=np.int64), len(items))
        return None if null[0] else tuple(f(int(part[0])) for f, part in zip(items, parts, strict=True))

    return decode


def _unpack_from(declared: DataType, interner: Interner) -> Callable[[int], Any]:
    """A function that reads the value of an id: its text, unpacked; a CHAR padded with blanks."""
    texts, width = interner.values, declared.width
    if declared.kind == "char":
        return lambda code: texts[code].ljust(width)
    unpack = packed.unpacker(declared)
    return lambda code: unpack(texts[code])


def _unpacked(declared: DataType, interner: Interner) -> Decode:
    known = interner.unpacked.get(declared.optional(False))
    if known is None:
        known = interner.unpacked[declared.optional(False)] = Remembered(_unpack_from(declared, interner), CACHED // 16)
    return known.__getitem__


def is_null(value: Any) -> bool:
    """Whether a value represents NULL: None, or pandas' missing values.

    >>> is_null(None), is_null(0)
    (True, False)
    """
    return value is None or type(value).__name__ in ("NAType", "NaTType")


def null_refused(declared: DataType) -> InputError:
    """Return the error for NULL in a column without NULLs."""
    hint = f"declare it nullable, e.g. '{declared!r}?' or Optional[...], or leave the row out"
    return InputError("E_NULL", f"NULL is not allowed in {declared!r}", hint)


def reserved_code(value: Any) -> InputError:
    """Return the error for the one value whose code means NULL."""
    hint = "this one value stands for NULL in nullable columns; declare the column without NULLs to store it"
    return InputError("E_RANGE", f"{shown(value)} is reserved", hint)


def _plain_encoder(declared: DataType, interner: Interner) -> Encode:
    if declared.kind == "str" and declared.width:
        return lambda value: _text(interner, packed.cut_blanks(value, declared) if isinstance(value, str) else value)
    if declared.kind == "str":
        return functools.partial(_text, interner)
    if declared.kind == "bytes":
        return functools.partial(_bytes, interner)
    if declared.kind == "tuple":
        return _tuple_encoder(declared, interner)
    if declared.kind in PACKED:
        pack = packed.packer(declared)
        return lambda value: interner.packed_id(declared.kind, pack(value))
    if declared.kind == "char":
        return lambda value: _text(interner, packed.trimmed(value, declared) if isinstance(value, str) else value)
    return packed.scalar_encoder(declared)


def _text(interner: Interner, value: Any) -> int:
    if not isinstance(value, str):
        raise wrong_type(value, "a str", "convert it with str(...), or declare the column's type differently")
    return interner.text_id(str(value))


def _bytes(interner: Interner, value: Any) -> int:
    if not isinstance(value, (bytes, bytearray)):
        hint = "encode it, e.g. with .encode()" if isinstance(value, str) else "write bytes(...)"
        raise wrong_type(value, "bytes", hint)
    return interner.bytes_id(bytes(value))


def _tuple_encoder(declared: DataType, interner: Interner) -> Encode:
    items = [encoder(item, interner) for item in declared.items]
    tags = [item_tag(item) for item in declared.items]

    def encode(value: Any) -> int:
        if not isinstance(value, (tuple, list)):
            raise wrong_type(value, f"a {declared.optional(False)!r}", "write a tuple")
        if len(value) != len(items):
            raise InputError(
                "E_WIDTH",
                f"{shown(value)} has {counted(len(value), 'item')}, not {len(items)}",
                f"the type is {declared!r}",
            )
        codes = [item(part) for item, part in zip(items, value, strict=True)]
        present = [0 if is_null(part) else tag for tag, part in zip(tags, value, strict=True)]
        return interner.tuple_id(present, codes)

    return encode


def with_one_nan(row: tuple[Any, ...]) -> tuple[Any, ...]:
    """The row with a NaN that equals every other, so that rows can be compared as values.

    >>> rows = [(1, float("nan")), (1, float("nan"))]
    >>> rows[0] == rows[1], with_one_nan(rows[0]) == with_one_nan(rows[1])
    (False, True)
    """
    for value in row:
        if value.__class__ is float and value != value:
            return tuple([math.nan if v.__class__ is float and v != v else v for v in row])
    return row
