"""Encodes whole columns (Arrow arrays, NumPy arrays, Python lists) without a Python call per row.

Each column takes a vectorised path that accepts exactly what `values.encoder` accepts. If the path refuses, the values
are encoded one by one to find the first bad one, so that error messages are the same on every path.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from everview.codes import jsons
from everview.codes.buffers import null_mask, numbers_of, validity_buffer
from everview.codes.interner import Interner, Words, item_tag
from everview.codes.scalars import (
    DIGITS,
    FIRST_DAY,
    FIRST_MICROSECOND,
    FLIP,
    LAST_DAY,
    LAST_MICROSECOND,
    NAN_CODE,
    UNIX_DAY,
    counted,
    shown,
    time_value,
    timestamp_code,
    timestamptz_value,
)
from everview.codes.type_declarations import arrow_field, arrow_type
from everview.codes.values import decoder, encoder, null_refused, read_by_type, reserved_code
from everview.errors import InputError
from everview.types import FREE, INTERNED, NULL, PACKED, DataType, bounds

CACHED_ROWS = 256
"""Up to this many texts are looked up one by one in the interner's cache, which is faster for repeated values."""

Mask = npt.NDArray[np.bool_]
_REFUSED = (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, OverflowError, UnicodeError, InputError)
_DAY_ZERO, _TIME_ZERO = dt.date(1970, 1, 1), dt.datetime(1970, 1, 1)


class BadValue(InputError):
    """A bad value in a column, with its row number."""

    def __init__(self, row: int, error: InputError) -> None:
        super().__init__(error.code, error.message, error.hint)
        self.row = row


def floats_to_codes(numbers: npt.NDArray[np.float64]) -> Words:
    """Order-preserving codes of floats.

    >>> floats_to_codes(np.array([-0.0, 0.0])).tolist()
    [-1, 0]
    """
    bits = np.ascontiguousarray(numbers).view(np.int64)
    codes = bits ^ ((bits >> 63) & FLIP)
    codes[np.isnan(numbers)] = NAN_CODE
    return codes


def codes_to_floats(codes: Words) -> npt.NDArray[np.float64]:
    """
    >>> codes_to_floats(np.array([-1, 0])).tolist()
    [-0.0, 0.0]
    """
    return (codes ^ ((codes >> 63) & FLIP)).view(np.float64)


# values to codes


def encode_column(values: Any, declared: DataType, interner: Interner) -> Words:
    """Encode a column given as an Arrow array, a NumPy array or a sequence of Python values.

    >>> encode_column(np.array([1, 2]), DataType("int"), Interner()).tolist()
    [1, 2]
    """
    if isinstance(values, np.ndarray):
        values = values.tolist() if values.dtype.kind in "OUS" else _arrow_of_numpy(values)
    if isinstance(values, (pa.Array, pa.ChunkedArray)):
        return encode_arrow(values, declared, interner)
    return encode_list(values, declared, interner)


def encode_arrow(values: pa.Array | pa.ChunkedArray, declared: DataType, interner: Interner) -> Words:
    """Encode an Arrow array."""
    array = _one_array(values)
    if pa.types.is_dictionary(array.type) and (declared.kind not in ("str", "bytes") or array.dictionary.null_count):
        array = array.dictionary_decode()
    null = None
    if array.null_count:
        null = null_mask(array)
        if not declared.nullable:
            raise BadValue(int(null.argmax()), null_refused(declared))
    codes = _without(_arrow_codes(array, declared, interner), null)
    _check_reserved(codes, null, declared, interner)
    return codes


def encode_list(values: Sequence[Any], declared: DataType, interner: Interner) -> Words:
    """Encode a sequence of Python values."""
    kinds = {*map(type, values)}
    has_null = type(None) in kinds
    kinds.discard(type(None))
    quick = _LISTS.get(declared.kind)
    if quick is None or not kinds <= quick[0] or (has_null and not declared.nullable):
        return _one_by_one(values, declared, interner)
    null = np.array([value is None for value in values], dtype=np.bool_) if has_null else None
    try:
        codes = quick[1](values, declared, interner, null)
    except _REFUSED:
        return _one_by_one(values, declared, interner)
    if declared.kind in ("int", "decimal") and declared.width:
        wide = _beyond(codes, declared)
        if (wide if null is None else wide & ~null).any():
            return _one_by_one(values, declared, interner)
    _check_reserved(codes, null, declared, interner)
    return codes


def _one_by_one(
    values: Sequence[Any], declared: DataType, interner: Interner, rows: Sequence[int] | None = None
) -> Words:
    """The slow path, which also finds the first bad value."""
    encode = encoder(declared, interner)
    codes = np.empty(len(values), dtype=np.int64)
    for row, value in enumerate(values):
        try:
            codes[row] = encode(value)
        except InputError as error:
            raise BadValue(row if rows is None else rows[row], error) from None
    return codes


def _check_reserved(codes: Words, null: Mask | None, declared: DataType, interner: Interner) -> None:
    if not declared.nullable or declared.kind in INTERNED:
        return
    taken = codes == NULL if null is None else (codes == NULL) & ~null
    if taken.any():
        value = decoder(declared.optional(False), interner)(NULL)
        raise BadValue(int(taken.argmax()), reserved_code(value))


def _filled(values: Sequence[Any], null: Mask | None, filler: Any) -> Sequence[Any]:
    return values if null is None else [filler if value is None else value for value in values]


def _without(codes: Words, null: Mask | None) -> Words:
    """The codes, with NULL in place of the filler."""
    if null is not None:
        codes[null] = NULL
    return codes


def _within(codes: Words, low: int, high: int) -> bool:
    """Whether all codes, including those in place of NULL, are in a range. Needs no mask, so it is asked first."""
    return not len(codes) or (low <= int(codes.min()) and int(codes.max()) <= high)


def _beyond(codes: Words, declared: DataType) -> Mask:
    """Which codes are out of the range of a small int, or of a decimal with few digits."""
    most = 10**declared.width - 1 if declared.kind == "decimal" else 0
    low, high = (-most, most) if most else bounds(declared.width)
    beyond: Mask = (codes < low) | (codes > high)
    return beyond


def _list_ints(values: Sequence[Any], declared: DataType, interner: Interner, null: Mask | None) -> Words:
    return np.array(_filled(values, null, NULL), dtype=np.int64)


def _list_floats(values: Sequence[Any], declared: DataType, interner: Interner, null: Mask | None) -> Words:
    return _without(floats_to_codes(np.array(_filled(values, null, 0.0), dtype=np.float64)), null)


def _list_dates(values: Sequence[Any], declared: DataType, interner: Interner, null: Mask | None) -> Words:
    days = [value.toordinal() for value in _filled(values, null, _DAY_ZERO)]
    return _without(np.array(days, dtype=np.int64) - UNIX_DAY, null)


def _list_timestamps(values: Sequence[Any], declared: DataType, interner: Interner, null: Mask | None) -> Words:
    return _without(np.array([*map(timestamp_code, _filled(values, null, _TIME_ZERO))], dtype=np.int64), null)


def _list_texts(values: Sequence[Any], declared: DataType, interner: Interner, null: Mask | None) -> Words:
    if declared.width and any(len(value) > declared.width for value in values if value is not None):
        raise OverflowError  # one by one: trailing blanks are cut
    return interner.encode(values, declared)


def _list_tuples(values: Sequence[Any], declared: DataType, interner: Interner, null: Mask | None) -> Words:
    present = values if null is None else [value for value in values if value is not None]
    if {*map(len, present)} - {len(declared.items)}:
        raise OverflowError
    columns = [[row[i] for row in present] for i in range(len(declared.items))]
    parts = [encode_list(part, item, interner) for part, item in zip(columns, declared.items, strict=True)]
    mask = np.zeros(len(values), dtype=np.bool_) if null is None else null
    codes = np.full((len(parts), len(values)), NULL, dtype=np.int64)
    for i, part in enumerate(parts):
        codes[i, ~mask] = part
    return _tuple_ids(codes, declared, interner, mask)


def _tuple_ids(codes: Words, declared: DataType, interner: Interner, null: Mask) -> Words:
    return interner.encode_tuples(
        [item_tag(item) for item in declared.items], [item.nullable for item in declared.items], codes, null
    )


_LISTS: dict[str, tuple[set[type], Callable[[Sequence[Any], DataType, Interner, Mask | None], Words]]] = {
    "int": ({int}, _list_ints),
    "bool": ({bool}, _list_ints),
    "float": ({float, int}, _list_floats),
    "str": ({str}, _list_texts),
    "bytes": ({bytes}, _list_texts),
    "date": ({dt.date}, _list_dates),
    "timestamp": ({dt.datetime}, _list_timestamps),
    "tuple": ({tuple}, _list_tuples),
}
"""Kind to the Python types its fast path accepts, and the path."""


# Arrow to codes: results are undefined where the array is null


def _arrow_codes(array: pa.Array, declared: DataType, interner: Interner) -> Words:
    if pa.types.is_null(array.type):
        return np.full(len(array), NULL, dtype=np.int64)
    accepts, road = _ARROW[declared.kind]
    source = array.type.value_type if pa.types.is_dictionary(array.type) else array.type
    if not any(accept(source) for accept in accepts):
        hint = f"cast the column to {arrow_type(declared)}, or declare its type differently"
        raise InputError("E_TYPE", f"an Arrow column of {source} cannot become {declared!r}", hint)
    try:
        return road(array, declared, interner)
    except InputError:
        raise
    except _REFUSED as refusal:
        raise _explained(array, declared, interner, refusal) from None


def _explained(array: pa.Array, declared: DataType, interner: Interner, refusal: Exception) -> InputError:
    """The error for the first value that made Arrow refuse."""
    encode = encoder(declared, interner)
    for row, value in enumerate(array):
        try:
            encode(value.as_py())
        except InputError as error:
            return BadValue(row, error)
        except (ValueError, OverflowError):  # Python has no such value
            problem = f"{getattr(value, 'value', 'the value')} (as {array.type}) does not fit {declared!r}"
            return BadValue(row, InputError("E_RANGE", problem, f"cast the column to {arrow_type(declared)} first"))
    return InputError("E_TYPE", f"Arrow cannot convert the column to {declared!r}: {refusal}", "")


def _cast(array: pa.Array, to: pa.DataType, *, safe: bool = True) -> pa.Array:
    """Cast an array. Arrow's own cast costs as much as a thousand numbers even when there is nothing to do."""
    return array if array.type == to else array.cast(to, safe=safe)


def _arrow_ints(array: pa.Array, declared: DataType, interner: Interner) -> Words:
    codes: Words = np.array(numbers_of(_cast(array, pa.int64()), np.int64))
    if declared.width and not _within(codes, *bounds(declared.width)):
        wrong = _beyond(codes, declared)
        if array.null_count:
            wrong &= ~null_mask(array)
        if wrong.any():
            raise OverflowError
    return codes


def _arrow_clock(array: pa.Array, declared: DataType, interner: Interner) -> Words:
    return np.array(numbers_of(_cast(array, pa.time64("us")), np.int64))


def _arrow_values(array: pa.Array, declared: DataType, interner: Interner) -> Words:
    """Encode by way of Python values; a text is parsed like a quoted SQL literal."""
    values = array.to_pylist()
    if declared.kind == "json" and not pa.types.is_nested(array.type):
        values = [None if v is None else _json_of(v, row) for row, v in enumerate(values)]
    codes = np.full(len(values), NULL, dtype=np.int64)
    present = [row for row, value in enumerate(values) if value is not None]
    codes[present] = _one_by_one([values[row] for row in present], declared, interner, present)
    return codes


def _json_of(text: Any, row: int) -> Any:
    try:
        return jsons.parsed(text) if isinstance(text, str) else text
    except ValueError as error:
        raise BadValue(row, InputError("E_TYPE", f"{shown(text)} is not valid JSON: {error}")) from None


def _arrow_floats(array: pa.Array, declared: DataType, interner: Interner) -> Words:
    # a safe Arrow cast refuses ints beyond 2**53, Python rounds them
    return floats_to_codes(numbers_of(_cast(array, pa.float64(), safe=False), np.float64))


def _arrow_bools(array: pa.Array, declared: DataType, interner: Interner) -> Words:
    return np.array(numbers_of(array.cast(pa.int8()), np.int8), dtype=np.int64)


def _arrow_dates(array: pa.Array, declared: DataType, interner: Interner) -> Words:
    codes = numbers_of(_cast(array, pa.date32()), np.int32).astype(np.int64)
    return _in_years(codes, array, FIRST_DAY, LAST_DAY)


def _arrow_timestamps(array: pa.Array, declared: DataType, interner: Interner) -> Words:
    codes = numbers_of(_cast(array, pa.timestamp("us", tz=array.type.tz)), np.int64).copy()
    return _in_years(codes, array, FIRST_MICROSECOND, LAST_MICROSECOND)


def _in_years(codes: Words, array: pa.Array, first: int, last: int) -> Words:
    if _within(codes, first, last):
        return codes
    outside = (codes < first) | (codes > last)
    if array.null_count:
        outside &= ~null_mask(array)
    if outside.any():
        row = int(outside.argmax())
        problem = f"{int(codes[row])} (as {array.type}) is outside the years 1 to 9999"
        raise BadValue(row, InputError("E_RANGE", problem, "a date must be one that Python can hold"))
    return codes


def _arrow_decimals(array: pa.Array, declared: DataType, interner: Interner) -> Words:
    if not pa.types.is_decimal128(array.type) or array.type.scale != declared.scale:  # its words are the same otherwise
        array = array.cast(pa.decimal128(38, declared.scale))
    words = numbers_of(array, np.int64, 2)
    codes: Words = np.array(words[0::2])
    high = words[1::2]
    limit = 10 ** (declared.width or DIGITS)
    if _within(codes, 1 - limit, limit - 1) and np.array_equal(codes >> 63, high):
        return codes
    wide = (codes >> 63 != high) | (codes >= limit) | (codes <= -limit)
    if array.null_count:
        wide &= ~null_mask(array)
    if wide.any():
        raise OverflowError
    return codes


def _arrow_texts(array: pa.Array, declared: DataType, interner: Interner) -> Words:
    if declared.width and declared.kind == "str":
        texts = array.dictionary if pa.types.is_dictionary(array.type) else array
        if (pc.max(pc.utf8_length(texts)).as_py() or 0) > declared.width:
            return _arrow_values(array, declared, interner)
    return interner.encode(array, declared)


def _arrow_tuples(array: pa.Array, declared: DataType, interner: Interner) -> Words:
    if array.type.num_fields != len(declared.items):
        problem = f"an Arrow struct of {counted(array.type.num_fields, 'field')} cannot become {declared!r}"
        raise InputError("E_WIDTH", problem, f"the tuple has {counted(len(declared.items), 'item')}")
    null = null_mask(array)
    present = array.drop_null() if array.null_count else array
    codes = np.full((len(declared.items), len(array)), NULL, dtype=np.int64)
    rows = np.flatnonzero(~null)
    for i, (part, item) in enumerate(zip(present.flatten(), declared.items, strict=True)):
        try:
            codes[i, rows] = encode_arrow(part, item, interner)
        except BadValue as error:
            raise BadValue(int(rows[error.row]), error) from None
    return _tuple_ids(codes, declared, interner, null)


def _is_list(kind: pa.DataType) -> bool:
    tests = (pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list)
    return any(test(kind) for test in tests)


_INT, _DEC = pa.types.is_integer, pa.types.is_decimal
_TEXT = (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)
_BYTES = (
    pa.types.is_binary, pa.types.is_large_binary, pa.types.is_binary_view, pa.types.is_fixed_size_binary,
)  # fmt: skip
_ARROW: dict[str, tuple[tuple[Any, ...], Callable[[pa.Array, DataType, Interner], Words]]] = {
    "int": ((_INT,), _arrow_ints),
    "float": ((pa.types.is_floating, _INT), _arrow_floats),
    "bool": ((pa.types.is_boolean,), _arrow_bools),
    "date": ((pa.types.is_date,), _arrow_dates),
    "timestamp": ((pa.types.is_timestamp,), _arrow_timestamps),
    "decimal": ((_DEC, _INT), _arrow_decimals),
    "str": (_TEXT, _arrow_texts),
    "bytes": (_BYTES, _arrow_texts),
    "tuple": ((pa.types.is_struct,), _arrow_tuples),
    "timestamptz": ((pa.types.is_timestamp,), _arrow_timestamps),
    "time": ((pa.types.is_time,), _arrow_clock),
    "char": (_TEXT, _arrow_values),
    "enum": (_TEXT, _arrow_values),
    "uuid": ((*_TEXT, *_BYTES), _arrow_values),
    "interval": ((pa.types.is_interval, pa.types.is_duration), _arrow_values),
    "numeric": ((_DEC, _INT, *_TEXT), _arrow_values),
    "array": ((_is_list,), _arrow_values),
    "struct": ((pa.types.is_struct,), _arrow_values),
    "map": ((pa.types.is_map,), _arrow_values),
    "json": (_TEXT, _arrow_values),
}
"""Kind to the Arrow types it accepts, and the path."""


def _one_array(values: pa.Array | pa.ChunkedArray) -> pa.Array:
    if isinstance(values, pa.ChunkedArray):
        values = values.chunk(0) if values.num_chunks == 1 else values.combine_chunks()
    if isinstance(values, pa.ChunkedArray):  # texts of more than 2 GB cannot be combined
        wide = pa.large_string() if pa.types.is_string(values.type) else pa.large_binary()
        values = values.cast(wide).combine_chunks()
    return values.storage if isinstance(values, pa.ExtensionArray) else values


def _arrow_of_numpy(values: npt.NDArray[Any]) -> pa.Array:
    """An Arrow array of NumPy values; avoids `pa.array`, which would import pandas (0.5 s)."""
    values = np.ascontiguousarray(values, dtype=values.dtype.newbyteorder("="))
    if values.dtype.kind == "M":
        return _arrow_of_times(values)
    try:
        arrow = pa.from_numpy_dtype(values.dtype)
    except pa.ArrowNotImplementedError:
        raise InputError("E_TYPE", f"a NumPy array of {values.dtype} is not a column", "convert it first") from None
    data = np.packbits(values, bitorder="little") if values.dtype.kind == "b" else values
    return pa.Array.from_buffers(arrow, len(values), [None, pa.py_buffer(data)])


def _arrow_of_times(values: npt.NDArray[Any]) -> pa.Array:
    valid = [validity_buffer(~np.isnat(values))]
    unit = np.datetime_data(values.dtype)[0]
    if unit == "D":
        days = np.clip(values.view(np.int64), -(2**31), 2**31 - 1).astype(np.int32)
        return pa.Array.from_buffers(pa.date32(), len(values), [*valid, pa.py_buffer(days)])
    unit = unit if unit in ("s", "ms", "us", "ns") else "us"
    ticks = pa.py_buffer(values.astype(f"datetime64[{unit}]").view(np.int64))
    return pa.Array.from_buffers(pa.timestamp(unit), len(values), [*valid, ticks])


# codes to values


def decode_arrow(codes: Words, declared: DataType, interner: Interner) -> pa.Array:
    """Decode a column into an Arrow array.

    >>> decode_arrow(np.array([1, NULL]), DataType("bool", nullable=True), Interner()).to_pylist()
    [True, None]
    """
    if declared.kind in ("str", "bytes"):
        return interner.decode(codes, declared)
    if declared.kind == "tuple":
        return _decode_tuples(codes, declared, interner)
    if declared.kind in PACKED or declared.kind in ("char", "enum"):
        return _decode_values(codes, declared, interner)
    valid = validity_buffer(codes != NULL) if declared.nullable else None
    small = declared.width and declared.kind == "int"
    data = pa.py_buffer(_narrow(codes, declared) if small else _FIXED[declared.kind](codes))
    return pa.Array.from_buffers(arrow_type(declared), len(codes), [valid, data])


def _narrow(codes: Words, declared: DataType) -> npt.NDArray[Any]:
    return codes.astype(arrow_type(declared).to_pandas_dtype())


def _decode_values(codes: Words, declared: DataType, interner: Interner) -> pa.Array:
    """Decode by way of Python values."""
    target = arrow_type(declared)
    values = decode_list(codes, declared.optional(), interner)
    if declared.kind == "enum":
        return pa.array(values, pa.string()).dictionary_encode().cast(target)
    return arrow_of_values(values, declared)


def arrow_of_values(values: Sequence[Any], declared: DataType) -> pa.Array:
    """An Arrow array of Python values of a type without a fast path.

    >>> arrow_of_values([{"a": 1}, None], DataType("json", nullable=True)).to_pylist()
    ['{"a": 1}', None]
    """
    return pa.array([_for_arrow(value, declared) for value in values], arrow_type(declared))


def _for_arrow(value: Any, declared: DataType) -> Any:
    """Convert a value to what Arrow accepts."""
    if value is None:
        return None
    match declared.kind:
        case "json":
            return jsons.canonical(value)
        case "uuid":
            return str(value)
        case "numeric" if declared.scale == FREE:
            return format(value, "f")
        case "interval":
            return pa.MonthDayNano([value.months, value.days, value.microseconds * 1000])
        case "array":
            return [_for_arrow(v, declared.items[0]) for v in value]
        case "struct":
            return {n: _for_arrow(v, t) for (n, v), t in zip(value.items(), declared.items, strict=True)}
        case "map":
            return [(_for_arrow(k, declared.items[0]), _for_arrow(v, declared.items[1])) for k, v in value.items()]
    return value


def decode_list(codes: Words, declared: DataType, interner: Interner) -> list[Any]:
    """Decode a column into Python values.

    >>> decode_list(np.array([0, 1]), DataType("date"), Interner())
    [datetime.date(1970, 1, 1), datetime.date(1970, 1, 2)]
    """
    if declared.kind in PACKED or declared.kind in ("char", "enum"):
        return [*map(decoder(declared, interner), codes.tolist())]
    if declared.kind == "tuple" and read_by_type(declared):
        return _tuple_list(codes, declared, interner)
    if declared.kind in INTERNED and len(codes) <= CACHED_ROWS:
        return [*map(interner.values.__getitem__, codes.tolist())]
    if declared.kind in ("str", "bytes"):
        values: list[Any] = interner.decode(codes, declared).to_pylist()
        return values
    if declared.kind == "tuple":
        return _tuple_list(codes, declared, interner)
    if declared.kind == "decimal":
        return [*map(decoder(declared, interner), codes.tolist())]
    null = codes == NULL
    if not declared.nullable or not null.any():
        return _PYTHON[declared.kind](codes)
    return _spread(_PYTHON[declared.kind](codes[~null]), null)


def _spread(present: list[Any], null: Mask) -> list[Any]:
    """The values, with None where `null` is set."""
    following = iter(present)
    return [None if missing else next(following) for missing in null.tolist()]


def _tuple_list(codes: Words, declared: DataType, interner: Interner) -> list[Any]:
    parts, null = interner.decode_tuples(codes, len(declared.items))
    if not declared.items:
        return _spread([()] * int((~null).sum()), null)
    columns = [decode_list(part[~null], item, interner) for part, item in zip(parts, declared.items, strict=True)]
    return _spread([*zip(*columns, strict=True)], null)


def _decode_tuples(codes: Words, declared: DataType, interner: Interner) -> pa.Array:
    parts, null = interner.decode_tuples(codes, len(declared.items))
    arrays = [
        decode_arrow(part, item.optional(item.nullable or declared.nullable), interner)
        for part, item in zip(parts, declared.items, strict=True)
    ]
    fields = [arrow_field(f"f{i}", item) for i, item in enumerate(declared.items)]
    valid = validity_buffer(~null)
    return pa.Array.from_buffers(pa.struct(fields), len(codes), [valid], children=arrays)


def _decimal_words(codes: Words) -> Words:
    words = np.empty(2 * len(codes), dtype=np.int64)
    words[0::2], words[1::2] = codes, codes >> 63
    return words


_FIXED: dict[str, Callable[[Words], Any]] = {
    "int": np.copy,
    "float": codes_to_floats,
    "bool": lambda codes: np.packbits(codes == 1, bitorder="little"),
    "date": lambda codes: codes.astype(np.int32),
    "timestamp": np.copy,
    "timestamptz": np.copy,
    "time": np.copy,
    "decimal": _decimal_words,
}
"""Kind to a function from codes to the data buffer of its Arrow array."""

_PYTHON: dict[str, Callable[[Words], list[Any]]] = {
    "int": lambda codes: codes.tolist(),
    "float": lambda codes: codes_to_floats(codes).tolist(),
    "bool": lambda codes: (codes != 0).tolist(),
    "date": lambda codes: codes.astype("datetime64[D]").tolist(),
    "timestamp": lambda codes: codes.astype("datetime64[us]").tolist(),
    "timestamptz": lambda codes: [*map(timestamptz_value, codes.tolist())],
    "time": lambda codes: [*map(time_value, codes.tolist())],
}
"""Kind to a function from codes to Python values."""
