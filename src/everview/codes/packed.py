"""Serialisation of values that do not fit 64 bits: numerics, intervals, uuids, JSON, arrays, structs and maps are
interned as texts.

`packer(type)` returns a function from Python values to texts, `unpacker(type)` its inverse. Within *one* type equal
values have equal texts, so that equal ids mean equal values. A text contains its whole value (a text inside an array is
not interned separately), so a dictionary of such texts needs no other.

The text is JSON: numbers, dates and times as their codes, a list for an array or struct, a list of pairs sorted by key
for a map, a text for everything else. JSON values are their own text (`everview.codes.jsons`).

>>> from everview.types import INT, STR, array, mapping
>>> packer(array(INT))([1, None]), unpacker(mapping(STR, INT))(packer(mapping(STR, INT))({"b": 1, "a": 2}))
('[1,null]', {'a': 2, 'b': 1})
"""

from __future__ import annotations

import base64
import datetime as dt
import json
import uuid
from collections.abc import Callable, Mapping
from decimal import Context, Decimal, Inexact, InvalidOperation
from typing import Any

import numpy as np

from everview.codes import intervals, jsons
from everview.codes.immutable import FrozenDict, FrozenList
from everview.codes.intervals import Interval
from everview.codes.scalars import DECODERS, ENCODERS, article, counted, decimal_code, shown, wrong_type
from everview.errors import InputError
from everview.types import FREE, MOST_DIGITS, DataType, bounds

Pack = Callable[[Any], Any]

_written = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode
_EXACT = Context(prec=200)
_UNROUNDED = Context(prec=2 * MOST_DIGITS, traps=[Inexact])
_ONE = Decimal(1)


def packer(declared: DataType) -> Callable[[Any], str]:
    """A function from a value of the type to its text; for a bad value it raises an `InputError` without row or
    column."""
    pack = _packer(declared)
    if declared.kind == "json":
        return pack
    return lambda value: _written(pack(value))


def unpacker(declared: DataType) -> Callable[[str], Any]:
    """A function from a text to the value."""
    unpack = _unpacker(declared)
    if declared.kind == "json":
        return unpack
    return lambda text: unpack(json.loads(text))


# values to JSON


def _packer(declared: DataType) -> Pack:
    if declared.kind == "float":
        return lambda value: ENCODERS["float"](value + 0.0 if isinstance(value, float) else value, 0)  # -0.0 is 0.0
    if declared.kind in ENCODERS or declared.kind == "enum":
        return scalar_encoder(declared)
    if declared.kind in _COMPOSITE:
        return _COMPOSITE[declared.kind](declared)
    if declared.kind not in _PACK:
        raise InputError("E_TYPE", f"{declared!r} is not allowed inside an array, struct or map", "use a struct")
    pack = _PACK[declared.kind]
    return lambda value: pack(value, declared)


def scalar_encoder(declared: DataType) -> Callable[[Any], int]:
    """An encoder that checks the range of small ints and the labels of enums."""
    if declared.kind == "enum":
        return _enum_encoder(declared)
    encode, scale = ENCODERS[declared.kind], declared.scale
    if declared.kind == "decimal" and declared.width:
        return _decimal_encoder(declared)
    if declared.kind != "int" or not declared.width:
        return lambda value: encode(value, scale)
    low, high = bounds(declared.width)

    def small(value: Any) -> int:
        code = encode(value, scale)
        if not low <= code <= high:
            problem = f"{shown(value)} does not fit {declared.optional(False)!r}"
            raise InputError("E_RANGE", problem, f"it goes from {low} to {high}")
        return code

    return small


def _decimal_encoder(declared: DataType) -> Callable[[Any], int]:
    limit, digits = 10**declared.width, declared.width - declared.scale

    def encode(value: Any) -> int:
        code = decimal_code(value, declared.scale)
        if not -limit < code < limit:
            problem = f"{shown(value)} does not fit {declared.optional(False)!r}"
            raise InputError("E_RANGE", problem, f"it has {counted(digits, 'digit')} before the point")
        return code

    return encode


def _enum_encoder(declared: DataType) -> Callable[[Any], int]:
    places = {label: i for i, label in enumerate(declared.names)}

    def encode(value: Any) -> int:
        if not isinstance(value, str):
            raise wrong_type(value, "a label", f"the labels are {', '.join(map(repr, declared.names))}")
        if value not in places:
            hint = f"the labels are {', '.join(map(repr, declared.names))}"
            raise InputError("E_TYPE", f"{shown(value)} is not {article(repr(declared.optional(False)))}", hint)
        return places[value]

    return encode


def _pack_text(value: Any, declared: DataType) -> str:
    if not isinstance(value, str):
        raise wrong_type(value, "a str", "convert it with str(...)")
    return trimmed(value, declared) if declared.kind == "char" else str(value)


def trimmed(value: str, declared: DataType) -> str:
    """A char(n) as stored: without trailing blanks."""
    kept = value.rstrip(" ")
    if declared.width and len(kept) > declared.width:
        problem = f"{shown(value)} has {counted(len(kept), 'letter')}, not {declared.width}"
        raise InputError("E_RANGE", problem, f"cut it: CAST(x AS char({declared.width}))")
    return kept


def cut_blanks(value: str, declared: DataType) -> str:
    """A varchar(n) as stored: surplus blanks at the end are cut, and nothing else, as in PostgreSQL."""
    width = declared.width
    if len(value) <= width:
        return value
    if value[width:].strip(" "):
        problem = (
            f"{shown(value)} has {counted(len(value), 'letter')}, and {declared.optional(False)!r} has room for {width}"
        )
        raise InputError("E_RANGE", problem, f"cut it: CAST(x AS varchar({width}))")
    return value[:width]


def _pack_bytes(value: Any, declared: DataType) -> str:
    if not isinstance(value, (bytes, bytearray)):
        raise wrong_type(value, "bytes", "write bytes(...)")
    return base64.b64encode(bytes(value)).decode()


def _pack_uuid(value: Any, declared: DataType) -> str:
    if isinstance(value, uuid.UUID):
        return str(value)
    if isinstance(value, (str, bytes)):
        try:
            return str(uuid.UUID(value) if isinstance(value, str) else uuid.UUID(bytes=value))
        except ValueError:
            raise InputError("E_TYPE", f"{shown(value)} is not a uuid", "write uuid.UUID(...)") from None
    raise wrong_type(value, "a UUID", "write uuid.UUID(...)")


def _pack_interval(value: Any, declared: DataType) -> list[int]:
    if isinstance(value, dt.timedelta):
        value = intervals.of_timedelta(value)
    elif isinstance(value, np.timedelta64):
        value = Interval(microseconds=int(value.astype("timedelta64[us]").astype(np.int64)))
    elif type(value).__name__ == "MonthDayNano":  # Arrow's
        if value.nanoseconds % 1000:
            raise InputError("E_RANGE", f"{shown(value)} has nanoseconds", "round it to microseconds")
        value = Interval(value.months, value.days, value.nanoseconds // 1000)
    if not isinstance(value, Interval):
        raise wrong_type(value, "an interval", "write datetime.timedelta(...) or everview.Interval(months=1)")
    if not intervals.in_range(value):
        raise InputError("E_RANGE", f"{shown(value)} is too long for an interval", "292,000 years are the most")
    return [value.months, value.days, value.microseconds]


def _pack_numeric(value: Any, declared: DataType) -> str:
    if declared.scale == FREE:
        return format(trimmed_number(_read(value) if isinstance(value, str) else _number(value)), "f")
    return str(numeric_code(value, declared))


def trimmed_number(value: Decimal) -> Decimal:
    """A number of free scale without trailing zeros, if it has at most 38 digits before and after the point.

    >>> trimmed_number(Decimal("1.50")), trimmed_number(Decimal("1e3"))
    (Decimal('1.5'), Decimal('1000'))
    """
    if not value:
        return Decimal(0)
    if value.adjusted() >= MOST_DIGITS:
        problem = f"{shown(value)} needs more than {MOST_DIGITS} digits before the point"
        raise InputError("E_RANGE", problem, "use double")
    try:
        reduced = value.normalize(_UNROUNDED)
    except Inexact:
        raise _too_fine(value, DataType("numeric", scale=MOST_DIGITS)) from None
    exponent = reduced.as_tuple().exponent
    assert isinstance(exponent, int)
    if exponent < -MOST_DIGITS:
        raise _too_fine(value, DataType("numeric", scale=MOST_DIGITS))
    return reduced if exponent <= 0 else reduced.quantize(_ONE, context=_EXACT)


def _read(text: str) -> Decimal:
    """Parse a number from its text, which is how Arrow represents one without a scale."""
    try:
        return _number(Decimal(text.strip()))
    except InvalidOperation:
        raise InputError("E_TYPE", f"{shown(text)} is not a number", "write Decimal('1.25')") from None


def _number(value: Any) -> Decimal:
    """The given number, if it is exact."""
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, (Decimal, int, np.integer)):
        hint = "write Decimal(str(x))" if isinstance(value, (float, np.floating)) else "write Decimal('1.25')"
        raise wrong_type(value, "a Decimal", hint)
    number = value if isinstance(value, Decimal) else Decimal(int(value))
    if not number.is_finite():
        raise InputError("E_RANGE", f"{shown(value)} is not a number", "numerics have no NaN and no infinity")
    return number


def numeric_code(value: Any, declared: DataType) -> int:
    """The number times 10**scale, if it has no more digits than the type.

    >>> numeric_code(Decimal("1.5"), DataType("numeric", scale=2))
    150
    """
    number = _number(value)
    digits = declared.width or MOST_DIGITS
    if number and number.adjusted() + declared.scale >= digits:
        problem = f"{shown(value)} needs more than {digits} digits at scale {declared.scale}"
        raise InputError("E_RANGE", problem, "declare more digits, or a smaller scale")
    if number and number.adjusted() < -declared.scale:
        raise _too_fine(value, declared)
    top, bottom = number.as_integer_ratio()
    if top * 10**declared.scale % bottom:
        raise _too_fine(value, declared)
    return int(top * 10**declared.scale // bottom)


def _too_fine(value: object, declared: DataType) -> InputError:
    problem = f"{shown(value)} has more than {counted(declared.scale, 'digit')} after the point"
    return InputError("E_RANGE", problem, "round it, or declare a larger scale")


def _pack_json(value: Any, declared: DataType) -> str:
    try:
        return jsons.canonical(jsons.checked(value))
    except (TypeError, ValueError, RecursionError) as error:
        hint = "JSON is made of dict, list, str, int, float, bool and None"
        raise InputError("E_TYPE", f"{shown(value)} is not valid JSON: {error}", hint) from None


_PACK: dict[str, Callable[[Any, DataType], Any]] = {
    "str": _pack_text,
    "char": _pack_text,
    "bytes": _pack_bytes,
    "uuid": _pack_uuid,
    "interval": _pack_interval,
    "numeric": _pack_numeric,
    "json": _pack_json,
}


def _array_packer(declared: DataType) -> Pack:
    pack = _optional(declared.items[0])

    def run(value: Any) -> list[Any]:
        if isinstance(value, np.ndarray):
            value = value.tolist()
        if not isinstance(value, (list, tuple)):
            raise wrong_type(value, f"an {declared.optional(False)!r}", "write a list")
        return [pack(item) for item in value]

    return run


def _struct_packer(declared: DataType) -> Pack:
    packs = [_optional(item) for item in declared.items]

    def run(value: Any) -> list[Any]:
        if isinstance(value, Mapping):
            extra = [name for name in value if name not in declared.names]
            if extra:
                hint = f"its fields are {', '.join(declared.names)}"
                raise InputError("E_COLUMN", f"{shown(value)} has a field {extra[0]!r} that the struct has not", hint)
            value = [value.get(name) for name in declared.names]
        if not isinstance(value, (list, tuple)):
            raise wrong_type(value, f"a {declared.optional(False)!r}", "write a dict")
        if len(value) != len(packs):
            problem = f"{shown(value)} has {counted(len(value), 'field')}, not {len(packs)}"
            raise InputError("E_WIDTH", problem, f"the type is {declared!r}")
        return [pack(item) for pack, item in zip(packs, value, strict=True)]

    return run


def _map_packer(declared: DataType) -> Pack:
    pack_key, pack_value = _packer(declared.items[0]), _optional(declared.items[1])

    def run(value: Any) -> list[Any]:
        pairs = value.items() if isinstance(value, Mapping) else value
        if not isinstance(value, (Mapping, list, tuple)) or any(len(p) != 2 for p in pairs):
            raise wrong_type(value, f"a {declared.optional(False)!r}", "write a dict")
        if any(k is None for k, _ in pairs):
            raise InputError("E_NULL", f"a key of {shown(value)} is NULL", "keys of a map cannot be NULL")
        found = {json.dumps(key): [key, pack_value(item)] for key, item in ((pack_key(k), v) for k, v in pairs)}
        return [found[key] for key in sorted(found)]

    return run


def _optional(declared: DataType) -> Pack:
    pack = _packer(declared)
    return lambda value: None if value is None or type(value).__name__ in ("NAType", "NaTType") else pack(value)


_COMPOSITE: dict[str, Callable[[DataType], Pack]] = {
    "array": _array_packer,
    "struct": _struct_packer,
    "map": _map_packer,
}


# and back


def _unpacker(declared: DataType) -> Pack:
    scale = declared.scale
    if declared.kind == "enum":
        return declared.names.__getitem__
    if declared.kind in DECODERS:
        decode = DECODERS[declared.kind]
        return lambda code: decode(code, scale)
    match declared.kind:
        case "str":
            return str
        case "char":
            return lambda text: text.ljust(declared.width)
        case "bytes":
            return base64.b64decode
        case "uuid":
            return uuid.UUID
        case "interval":
            return lambda parts: Interval(*parts)
        case "numeric" if scale == FREE:
            return Decimal
        case "numeric":
            return lambda text: numeric_value(int(text), scale)
        case "json":
            return jsons.parsed
        case "array":
            item = _optional_unpacker(declared.items[0])
            return lambda items: FrozenList(map(item, items))
        case "struct":
            items = [_optional_unpacker(t) for t in declared.items]
            return lambda values: FrozenDict({n: f(v) for n, f, v in zip(declared.names, items, values, strict=True)})
    key, value = _unpacker(declared.items[0]), _optional_unpacker(declared.items[1])
    return lambda pairs: FrozenDict({key(k): value(v) for k, v in pairs})


def numeric_value(code: int, scale: int) -> Decimal:
    """
    >>> numeric_value(-150, 2)
    Decimal('-1.50')
    """
    return Decimal(code).scaleb(-scale, _EXACT)


def _optional_unpacker(declared: DataType) -> Pack:
    unpack = _unpacker(declared)
    return lambda value: None if value is None else unpack(value)


# order


def order_key(declared: DataType) -> Callable[[Any], Any] | None:
    """A sort key for values of the type; None if their natural order is right.

    NULLs inside come last, as in PostgreSQL.

    >>> from everview.types import INT, array
    >>> sorted([[2], [1, None], [1, 5], [1]], key=order_key(array(INT)))
    [[1], [1, 5], [1, None], [2]]
    """
    match declared.kind:
        case "json":
            return jsons.order_key
        case "enum":
            return declared.names.index
        case "array":
            item = _null_last(declared.items[0])
            return lambda value: [item(v) for v in value]
        case "struct":
            items = [_null_last(t) for t in declared.items]
            return lambda value: [f(v) for f, v in zip(items, value.values(), strict=True)]
        case "map":
            first, second = _null_last(declared.items[0]), _null_last(declared.items[1])
            return lambda value: [(first(k), second(v)) for k, v in value.items()]
        case "char":
            return lambda value: value.rstrip(" ")
    return None


def _null_last(declared: DataType) -> Callable[[Any], Any]:
    key = order_key(declared)
    if declared.kind == "float":  # NaN is larger than everything
        return lambda value: (1,) if value is None else (0, value != value, value)
    if key is None:
        return lambda value: (1,) if value is None else (0, value)
    known = key
    return lambda value: (1,) if value is None else (0, known(value))
