"""Look-ups whose messages come together: answered where the bytes arrive.

A driver that has prepared a look-up (`everview.server.pg.quick`) sends Bind, Describe, Execute and Sync in one go, and
waits. Going through the conversation message by message costs several times what reading the index does: a task is
woken, objects are made, a portal is kept that nobody uses again. So while a connection waits for its client, what
arrives is looked at first: if it is exactly these messages, their answer is put together and sent at once.

Whatever is not quite that takes the long way, which also finds the mistakes: another order of messages, a portal with
a name, a transaction, a value that cannot be read, a step under way.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from everview.errors import EverviewError
from everview.server.pg import messages
from everview.server.pg.answers import PIECE, RowWriter
from everview.server.pg.client import Client, Prepared
from everview.server.pg.formats import Reader, reader
from everview.server.pg.messages import Bind, format_of
from everview.server.pg.quick import Quick
from everview.server.pg.work import READ_COMMITTED

BIND = ord("B")
_EXECUTE_SYNC = b"E\0\0\0\x09\0\0\0\0\0" + b"S\0\0\0\4"
_DESCRIBE_PORTAL = b"D\0\0\0\6P\0"
_DESCRIBED = _DESCRIBE_PORTAL + _EXECUTE_SYNC
_IDLE = messages.ready(b"I")


@dataclass(frozen=True)
class Way:
    """How a prepared look-up is read and answered in some formats."""

    quick: Quick
    readers: tuple[tuple[int, Reader], ...]
    """in the order of the index: which value of Bind, and how it is read"""
    write: RowWriter
    description: bytes


def answer(client: Client, data: bytearray, at: int) -> tuple[int, bytes] | None:
    """What the messages that stand at a place of the buffer ask, and how many bytes they are; None if it is not a
    look-up, or its messages are not all there.
    """
    size = int.from_bytes(data[at + 1 : at + 5])
    end = at + 1 + size
    if not 4 <= size <= client.wire.longest or client.inside or client.failed:
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
    done = messages.command_complete(f"SELECT {count}")
    return end + len(_DESCRIBED if described else _EXECUTE_SYNC) - at, head + body + done + _IDLE


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
    codes = way.quick.found(values, client.who)
    if codes is None or codes.shape[1] > PIECE:
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
    return Way(quick, tuple(readers), RowWriter(columns, results, zone), fields)
