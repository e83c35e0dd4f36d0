"""Pipelined look-ups, answered where the bytes arrive.

A driver that has prepared a look-up (`everview.server.pg.key_lookups`) sends Bind, Describe, Execute and Sync together,
and waits. Processing these message by message costs several times as much as reading the index: a task is woken,
objects are created, a portal is kept that is never used again. While a connection waits for its client, arriving bytes
are therefore inspected first: if they are exactly these messages, the response is composed and sent at once.

Drivers repeat the same bytes except for the values. The bytes before and after the values are cached (`Shape`), with
converters from values to index codes, and from codes to response bytes: nothing is decoded a second time. A key of one
row is then answered in some ten microseconds, half of them the kernel's and the sockets'.

Anything else takes the general path, which also reports errors: another order of messages, a named portal, a
transaction, an invalid value, a step in progress.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from everview.codes.codec import Codec
from everview.codes.values import decoder
from everview.errors import EverviewError
from everview.server.pg import messages
from everview.server.pg.answers import ENCODED_ROWS, Column, RowWriter
from everview.server.pg.client import Client, Prepared
from everview.server.pg.connection_work import READ_COMMITTED
from everview.server.pg.formats import Reader, reader
from everview.server.pg.key_lookups import Quick
from everview.server.pg.messages import Bind, format_of
from everview.types import NULL

BIND = ord("B")
_EXECUTE_SYNC = b"E\0\0\0\x09\0\0\0\0\0" + b"S\0\0\0\4"
_DESCRIBE_PORTAL = b"D\0\0\0\6P\0"
_DESCRIBED = _DESCRIBE_PORTAL + _EXECUTE_SYNC
_IDLE = messages.ready(b"I")
_SIZE = struct.Struct(">i")
_ROW = struct.Struct(">ih")
_NO_VALUE = _SIZE.pack(-1)

MOST_SHAPES = 8
"""Maximum number of shapes per connection; libpq's drivers need one for each size of a number."""

Cell = Callable[[int], bytes]
"""From a code to a value as a row has it, with its size in front."""


@dataclass(frozen=True)
class Way:
    """How a prepared look-up is read and answered in some formats."""

    quick: Quick
    readers: tuple[tuple[int, Reader], ...]
    """in the order of the index: which value of Bind, and how it is read"""
    write: RowWriter
    description: bytes
    coded: tuple[tuple[int, Callable[[bytes | bytearray], int]], ...]
    """the same readers, to codes of the index"""
    cells: tuple[tuple[int, Cell], ...]
    """for each column of the answer: where its code is in a row of the index, and what it becomes"""


@dataclass(frozen=True)
class Shape:
    """The bytes around the values of a Bind that was answered before."""

    prepared: Prepared
    statement: str
    way: Way
    zone: str
    head: bytes
    """what a Bind says before its values"""
    tail: bytes
    """what it says after them, and the messages that follow it"""
    results: int
    """how much of the tail is the Bind's own"""
    front: bytes
    """what the answer says before its rows"""


def answer(client: Client, data: bytes | bytearray, at: int) -> tuple[int, bytes] | None:
    """The response to the messages at an offset of the buffer, and their length; None if it is not a look-up, or
    incomplete.
    """
    if client.inside or client.failed:
        return None
    for shape in client.shapes:
        if data.startswith(shape.head, at + 5):
            found = _again(client, shape, data, at)
            if found is not None:
                return found
    return _first(client, data, at)


def _again(client: Client, shape: Shape, data: bytes | bytearray, at: int) -> tuple[int, bytes] | None:
    """The answer to a Bind of a known shape; None if it is not quite that."""
    way, place = shape.way, at + 5 + len(shape.head)
    values, end = [], len(data)
    for _ in way.coded:
        if place + 4 > end:
            return None
        (size,) = _SIZE.unpack_from(data, place)
        place += 4 + size
        if size < 0 or place > end:
            return None
        values.append(data[place - size : place])
    if not data.startswith(shape.tail, place) or _SIZE.unpack_from(data, at + 1)[0] != place + shape.results - at - 1:
        return None
    known = client.prepared.get(shape.statement)
    if known is not shape.prepared or known.quick is not way.quick or client.settings.zone != shape.zone:
        client.shapes.remove(shape)
        return None
    if client.work.isolation != READ_COMMITTED:
        return None
    quick = way.quick
    try:
        codes = quick.few([code(values[which]) for which, code in way.coded], client.who, client.settings.path_text)
    except EverviewError:
        return None  # the long way says what is wrong
    if codes is None or client.settings.news():
        return None
    width = quick.arrangement.cols + 1
    if len(codes) == width and codes[-1] == 1:  # a key's only row
        body = b"".join([cell(codes[where]) for where, cell in way.cells])
        answer = b"%bD%b%b%b" % (shape.front, _ROW.pack(len(body) + 6, len(way.cells)), body, _ONE)
        return place + len(shape.tail) - at, answer
    rows, count = [], 0
    for begin in range(0, len(codes), width):
        body = b"".join([cell(codes[begin + where]) for where, cell in way.cells])
        rows.append((b"D" + _ROW.pack(len(body) + 6, len(way.cells)) + body) * codes[begin + width - 1])
        count += codes[begin + width - 1]
    done = _ONE if count == 1 else messages.command_complete(f"SELECT {count}") + _IDLE
    return place + len(shape.tail) - at, shape.front + b"".join(rows) + done


_ONE = messages.command_complete("SELECT 1") + _IDLE


def _first(client: Client, data: bytes | bytearray, at: int) -> tuple[int, bytes] | None:
    """The answer to a Bind that is decoded, and remembered."""
    size = int.from_bytes(data[at + 1 : at + 5])
    end = at + 1 + size
    if not 4 <= size <= client.wire.longest:
        return None
    described = data.startswith(_DESCRIBED, end)
    if not described and not data.startswith(_EXECUTE_SYNC, end):
        return None
    try:
        bind = messages.decode(b"B", bytes(data[at + 5 : end]))
        assert isinstance(bind, Bind)
        rows = _rows(client, bind)
    except EverviewError:
        return None  # the long way says what is wrong
    if rows is None or client.settings.news():
        return None
    way, count, body = rows
    head = messages.BIND_COMPLETE + (way.description if described else b"")
    rest = _DESCRIBED if described else _EXECUTE_SYNC
    _remember(client, bind, way, bytes(data[at + 5 : end]), rest, head)
    done = messages.command_complete(f"SELECT {count}")
    return end + len(rest) - at, head + body + done + _IDLE


def _remember(client: Client, bind: Bind, way: Way, body: bytes, rest: bytes, front: bytes) -> None:
    """Know the shape of a Bind again."""
    behind = 2 + 2 * len(bind.results)
    between = sum(4 + len(value or b"") for value in bind.values)
    if sorted(which for which, _ in way.readers) != [*range(len(bind.values))]:
        return  # a value is used twice, or not at all
    tail = body[len(body) - behind :] + rest
    shape = Shape(client.prepared[bind.statement], bind.statement, way, client.settings.zone,
                  body[: len(body) - behind - between], tail, behind, front)  # fmt: skip
    client.shapes.insert(0, shape)
    del client.shapes[MOST_SHAPES:]


def _rows(client: Client, bind: Bind) -> tuple[Way, int, bytes] | None:
    found = client.prepared.get(bind.statement)
    if bind.portal or found is None or found.quick is None or client.work.isolation != READ_COMMITTED:
        return None
    way = _way(client, found, found.quick, bind)
    if way is None:
        return None
    values = []
    for place, read in way.readers:
        value = bind.values[place]
        if value is None:
            return None
        values.append(read(value))
    codes = way.quick.found(values, client.who, client.settings.path_text)
    if codes is None or codes.shape[1] > ENCODED_ROWS:
        return None
    return way, codes.shape[1], way.write(way.quick.result.decode_rows(codes))


def _way(client: Client, found: Prepared, quick: Quick, bind: Bind) -> Way | None:
    """Made once for the formats that a driver uses."""
    if len(bind.values) != len(found.oids):
        return None
    key = bind.formats, bind.results, client.settings.zone
    if key not in found.ways:
        found.ways[key] = _made(found, quick, *key)
    way: Way = found.ways[key]
    return way


def _made(found: Prepared, quick: Quick, formats: Sequence[int], results: Sequence[int], zone: str) -> Way:
    columns, count = found.columns or [], len(found.oids)
    messages.check_formats(formats, count)
    messages.check_formats(results, len(columns))
    types = found.given.types_of(count)
    readers = []
    for name, _ in quick.encoders:
        place = int(name) - 1
        readers.append((place, reader(found.oids[place], types[place], bool(format_of(formats, place)), zone)))
    fields = messages.row_description([c.field() for c in columns], results)
    cells = [_cell(c, quick.result, i, bool(format_of(results, i)), zone) for i, c in enumerate(columns)]
    places = [quick.arrangement.order.index(o) for o in quick.outputs]
    coded = []
    for (place, read), (_, encode) in zip(readers, quick.encoders, strict=True):
        plain = types[place].kind == "int" and format_of(formats, place)
        coded.append((place, _number if plain else _composed(read, encode)))
    write = RowWriter(columns, results, zone)
    return Way(quick, tuple(readers), write, fields, tuple(coded), (*zip(places, cells, strict=True),))


def _number(data: bytes | bytearray) -> int:
    """A number in binary form is its own code, whatever its size; but for the one that is NULL's."""
    if len(data) not in (8, 4, 2):
        raise messages.violation("a number of a size that there is not")
    code = int.from_bytes(data, signed=True)
    if code == NULL:
        raise messages.violation("a number that is not a key here")
    return code


def _composed(read: Reader, encode: Callable[[Any], int]) -> Callable[[bytes | bytearray], int]:
    return lambda data: encode(read(bytes(data)))


def _cell(column: Column, codec: Codec, place: int, binary: bool, zone: str) -> Cell:
    """How codes of a column become values of a row."""
    declared, interner = codec.types[place], codec.interner
    decode: Callable[[int], Any] = decoder(declared, interner)
    write = column.writer(binary, zone)
    pack = _SIZE.pack

    def cell(code: int) -> bytes:
        value = None if code == NULL and declared.nullable else decode(code)
        if value is None:
            return _NO_VALUE
        data = write(value)
        return pack(len(data)) + data

    return cell
