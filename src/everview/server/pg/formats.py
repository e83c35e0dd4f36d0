"""Values on the wire: in text and binary format, out and in, for every type.

Texts are PostgreSQL's (`everview.expr.text_conversion`), with two differences of the wire: a bool is `t` or `f`, and a
timestamptz is in the connection's time zone. Binary formats are those of PostgreSQL's send and receive functions:
big-endian numbers, days and microseconds since 2000, numerics in base 10,000.

`writer(type, binary)` returns a function from values to bytes, `reader(oid, type, binary)` one from bytes to values.
Input is untrusted: invalid values are refused with 22P02 (text) or 22P03 (binary).
"""

from __future__ import annotations

import datetime as dt
import struct
import uuid
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any

from everview.codes import intervals, jsons
from everview.codes.immutable import FrozenDict, FrozenList
from everview.codes.intervals import Interval
from everview.errors import EverviewError
from everview.expr.moment_texts import in_zone, parse_moment, zone_of
from everview.expr.text_conversion import aware, moment_text, of_text, plain_text, text_of
from everview.server.pg.oids import TYPES, oid_of
from everview.server.pg.sqlstates import PgError
from everview.types import DataType

Writer = Callable[[Any], bytes]
Reader = Callable[[bytes], Any]

DAY_2000 = dt.date(2000, 1, 1).toordinal()
MOMENT_2000 = dt.datetime(2000, 1, 1)
AWARE_2000 = dt.datetime(2000, 1, 1, tzinfo=dt.UTC)
MICROSECOND = dt.timedelta(microseconds=1)

_LONG, _INT, _SHORT, _DOUBLE, _FLOAT = (struct.Struct(f">{c}") for c in "qihdf")
_NUMERIC = struct.Struct(">HhHH")
_INTERVAL = struct.Struct(">qii")

TRUE, FALSE = b"t", b"f"


def writer(declared: DataType, binary: bool, zone: str = "UTC") -> Writer:
    """A function from values that are not NULL to bytes.

    >>> from everview.types import INT, decimal
    >>> writer(INT, False)(42), writer(INT, True)(42), writer(decimal(2), True)(Decimal("1.50")).hex()
    (b'42', b'\\x00\\x00\\x00\\x00\\x00\\x00\\x00*', '000200000000000200011388')
    """
    return _binary_writer(declared) if binary else _text_writer(declared, zone)


# ---- text, out


def _text_writer(declared: DataType, zone: str) -> Writer:
    match declared.kind:
        case "int":
            return lambda value: b"%d" % value
        case "bool":
            return lambda value: TRUE if value else FALSE
        case "str" | "enum" | "char":
            return str.encode
        case "timestamp":
            return lambda value: plain_text(value).encode()
        case "timestamptz":
            return _moments(zone)
        case "tuple":
            texts = [_text_writer(item, zone) for item in declared.items]
            return lambda value: b"(" + b",".join(_quoted(t, v) for t, v in zip(texts, value, strict=True)) + b")"
        case "map":
            return lambda value: jsons.canonical(_as_json(value)).encode()
        case "array" if declared.items[0].kind == "timestamptz":
            item = _moments(zone)
            return lambda value: b"{" + b",".join(b"NULL" if v is None else b'"%b"' % item(v) for v in value) + b"}"
    text = text_of(declared)
    return lambda value: text(value).encode()


def _moments(zone: str) -> Writer:
    there = zone_of(zone)
    return lambda value: moment_text(aware(value).astimezone(there)).encode()


def _quoted(text: Writer, value: Any) -> bytes:
    if value is None:
        return b""
    said = text(value)
    if said and not any(c in said for c in b' \t\n(),"\\'):
        return said
    return b'"' + said.replace(b"\\", b"\\\\").replace(b'"', b'""') + b'"'


def _as_json(value: Any) -> Any:
    """A value as JSON has it: what it has no form for is a text."""
    if isinstance(value, dict):
        return FrozenDict({str(k): _as_json(v) for k, v in value.items()})
    if isinstance(value, (list, tuple)):
        return FrozenList(map(_as_json, value))
    if value is None or isinstance(value, (bool, int, float, str, Decimal)):
        return value
    return str(value)


# ---- binary, out


def _binary_writer(declared: DataType) -> Writer:
    match declared.kind:
        case "int":
            return {8: _LONG, 4: _INT, 2: _SHORT}[TYPES[oid_of(declared)].size].pack
        case "float":
            return _DOUBLE.pack
        case "bool":
            return lambda value: b"\1" if value else b"\0"
        case "str" | "enum" | "char":
            return str.encode
        case "bytes":
            return bytes
        case "date":
            return lambda value: _INT.pack(value.toordinal() - DAY_2000)
        case "timestamp":
            return lambda value: _LONG.pack((value - MOMENT_2000) // MICROSECOND)
        case "timestamptz":
            return lambda value: _LONG.pack((aware(value) - AWARE_2000) // MICROSECOND)
        case "time":
            return lambda value: _LONG.pack(
                ((value.hour * 60 + value.minute) * 60 + value.second) * 1_000_000 + value.microsecond
            )
        case "interval":
            return lambda value: _INTERVAL.pack(value.microseconds, value.days, value.months)
        case "decimal" | "numeric":
            return numeric_bytes
        case "uuid":
            return lambda value: bytes(value.bytes)
        case "json":
            return lambda value: b"\1" + jsons.canonical(value).encode()
        case "map":
            return lambda value: b"\1" + jsons.canonical(_as_json(value)).encode()
        case "array":
            return _array_writer(declared)
    return _record_writer(declared)


def numeric_bytes(value: Decimal) -> bytes:
    """A number as digits in base 10,000, with the place of the first and how many decimal ones follow the point."""
    sign, digits, exponent = value.as_tuple()
    if not isinstance(exponent, int):
        return _NUMERIC.pack(0, 0, 0xC000, 0)
    scale = max(0, -exponent)
    padding = -scale % 4
    rest = int("".join(map(str, digits)) or "0") * 10 ** (max(0, exponent) + padding)
    groups: list[int] = []
    while rest:
        rest, group = divmod(rest, 10_000)
        groups.append(group)
    weight = len(groups) - (scale + padding) // 4 - 1
    groups.reverse()
    while groups and groups[-1] == 0:
        groups.pop()
    head = _NUMERIC.pack(len(groups), weight if groups else 0, 0x4000 if sign else 0, scale)
    return head + struct.pack(f">{len(groups)}H", *groups)


def _array_writer(declared: DataType) -> Writer:
    item, depth = declared.items[0], 1
    while item.kind == "array":
        item, depth = item.items[0], depth + 1
    write, oid = _binary_writer(item), oid_of(item)

    def run(value: Any) -> bytes:
        sizes, flat = [len(value)], list(value)
        for _ in range(depth - 1):
            sizes.append(len(flat[0]) if flat and flat[0] is not None else 0)
            flat = [one for inner in flat for one in inner or ()]
        if not flat:
            return struct.pack(">iiI", 0, 0, oid)
        parts = [struct.pack(">iiI", depth, None in flat, oid), *(struct.pack(">ii", n, 1) for n in sizes)]
        return b"".join([*parts, *_lengths(write, flat)])

    return run


def _lengths(write: Writer, values: Sequence[Any]) -> list[bytes]:
    parts = []
    for value in values:
        if value is None:
            parts.append(b"\xff\xff\xff\xff")
        else:
            data = write(value)
            parts.append(_INT.pack(len(data)) + data)
    return parts


def _record_writer(declared: DataType) -> Writer:
    writers = [(oid_of(item), _binary_writer(item)) for item in declared.items]

    def run(value: Any) -> bytes:
        parts = [_INT.pack(len(writers))]
        for (oid, write), one in zip(writers, value.values() if isinstance(value, dict) else value, strict=True):
            parts += [struct.pack(">I", oid), *_lengths(write, [one])]
        return b"".join(parts)

    return run


# ---- in


def reader(oid: int, declared: DataType, binary: bool, zone: str = "UTC") -> Reader:
    """A function from bytes to values, of a type that a client was told, or has said.

    >>> from everview.types import INT
    >>> reader(23, INT, True)(b"\\0\\0\\0\\7"), reader(20, INT, False)(b"7")
    (7, 7)
    """
    read = _binary_reader(oid, declared) if binary else _text_reader(declared, zone)

    def run(data: bytes) -> Any:
        try:
            return read(data)
        except (ValueError, ArithmeticError, IndexError, KeyError, struct.error, EverviewError) as error:
            name = TYPES[oid].words if oid in TYPES else repr(declared)
            shown = f"{len(data)} bytes" if binary else repr(data[:60].decode(errors="replace"))
            state = "22P03" if binary else "22P02"
            what = f"{shown} cannot be read as {name}"
            raise PgError("E_TYPE", state, what, getattr(error, "hint", "")) from None

    return run


def _text_reader(declared: DataType, zone: str) -> Reader:
    if declared.kind == "timestamptz":
        return lambda data: _placed(parse_moment(data.decode()), zone)
    if declared.kind == "map":
        raise PgError("E_UNSUPPORTED", "0A000", "a map cannot be given as a value", "give arrays or JSON")
    read = of_text(declared)
    return lambda data: read(data.decode())


def _placed(moment: dt.datetime, zone: str) -> dt.datetime:
    return aware(moment if moment.tzinfo is not None else in_zone(moment, zone))


def _binary_reader(oid: int, declared: DataType) -> Reader:
    match declared.kind:
        case "int":
            return _int
        case "float":
            return lambda data: float((_FLOAT if len(data) == 4 else _DOUBLE).unpack(data)[0])
        case "bool":
            return lambda data: {b"\0": False, b"\1": True}[data]
        case "str" | "enum" | "char":
            read = of_text(declared)
            return lambda data: read(data.decode())
        case "bytes":
            return bytes
        case "date":
            return lambda data: dt.date.fromordinal(_INT.unpack(data)[0] + DAY_2000)
        case "timestamp":
            return lambda data: MOMENT_2000 + _LONG.unpack(data)[0] * MICROSECOND
        case "timestamptz":
            return lambda data: AWARE_2000 + _LONG.unpack(data)[0] * MICROSECOND
        case "time":
            return lambda data: (MOMENT_2000 + _LONG.unpack(data)[0] * MICROSECOND).time()
        case "interval":
            return _interval
        case "decimal" | "numeric":
            return _number if oid in (0, 1700) else _int
        case "uuid":
            return lambda data: uuid.UUID(bytes=data)
        case "json":
            return lambda data: jsons.parsed((data[1:] if oid == 3802 and data[:1] == b"\1" else data).decode())
        case "array":
            return _array_reader(declared)
    raise PgError("E_UNSUPPORTED", "0A000", f"a {declared.kind} cannot be given in binary form", "give it as text")


def _int(data: bytes) -> int:
    return int({8: _LONG, 4: _INT, 2: _SHORT}[len(data)].unpack(data)[0])


def _interval(data: bytes) -> Interval:
    microseconds, days, months = _INTERVAL.unpack(data)
    found = Interval(months, days, microseconds)
    if not intervals.in_range(found):
        raise ValueError("too long")
    return found


def _number(data: bytes) -> Decimal:
    """
    >>> _number(numeric_bytes(Decimal("-12345.0670"))), _number(numeric_bytes(Decimal("1e20")))
    (Decimal('-12345.0670'), Decimal('100000000000000000000'))
    """
    count, weight, sign, scale = _NUMERIC.unpack_from(data)
    groups = struct.unpack(f">{count}H", data[8:])
    if sign not in (0, 0x4000) or any(g > 9999 for g in groups) or count > 5000 or abs(weight) > 5000:
        raise ValueError("this number has no value here")
    number = 0
    for group in groups:
        number = number * 10_000 + group
    exponent = (weight - count + 1) * 4
    value = Decimal(number).scaleb(exponent) if number else Decimal(0)
    if -value.as_tuple().exponent != scale:  # type: ignore[operator]
        value = value.quantize(Decimal(1).scaleb(-scale))
    return -value if sign else value


def _array_reader(declared: DataType) -> Reader:
    item = declared.items[0]

    def run(data: bytes) -> FrozenList:
        dimensions, _, oid = struct.unpack_from(">iiI", data)
        if dimensions not in (0, 1):
            raise ValueError("give arrays of several dimensions as text")
        if dimensions == 0:
            return FrozenList()
        count = _INT.unpack_from(data, 12)[0]
        read, at = _binary_reader(oid, item), 20
        found: list[Any] = []
        for _ in range(count):
            size = _INT.unpack_from(data, at)[0]
            at += 4
            if size == -1:
                found.append(None)
                continue
            if size < 0 or at + size > len(data):
                raise ValueError("cut off")
            found.append(read(data[at : at + size]))
            at += size
        if at != len(data):
            raise ValueError("too long")
        return FrozenList(found)

    return run
