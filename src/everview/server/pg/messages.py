"""Messages of PostgreSQL's frontend/backend protocol: bytes to values and back, without I/O.

A message is a letter, the length of what follows (itself included), and a body. Before a connection is open there is no
letter: `startup` reads those. All client messages are read by `decode`, which refuses truncated, oversized or invalid
ones (E_MESSAGE), and never trusts a count: all are compared with the available bytes.

>>> decode(b"P", b"s1\\0SELECT $1\\0" + struct.pack(">hI", 1, 20))
Parse(name='s1', text='SELECT $1', types=(20,))
>>> ready(b"I")
b'Z\\x00\\x00\\x00\\x05I'
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from everview.server.pg.sqlstates import PgError

LONGEST = 64 * 1024 * 1024
"""Maximum size of a message in bytes."""

LONGEST_EARLY = 10_000
"""Maximum size in bytes of a message before authentication."""

_INT = struct.Struct(">i")
_SHORT = struct.Struct(">h")


# what a client sends


@dataclass(frozen=True, slots=True)
class Query:
    """Statements to be run at once."""

    text: str


@dataclass(frozen=True, slots=True)
class Parse:
    """Prepare a statement; a type that is 0 is to be found out."""

    name: str
    text: str
    types: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Bind:
    """Give values to a prepared statement's parameters; the outcome is a portal."""

    portal: str
    statement: str
    formats: tuple[int, ...]
    values: tuple[bytes | None, ...]
    results: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Describe:
    """Ask what a statement (S) or portal (P) gives."""

    kind: str
    name: str


@dataclass(frozen=True, slots=True)
class Execute:
    """Run a portal, up to a number of rows (0: all)."""

    portal: str
    limit: int


@dataclass(frozen=True, slots=True)
class Close:
    """Forget a statement (S) or portal (P)."""

    kind: str
    name: str


@dataclass(frozen=True, slots=True)
class CopyData:
    """A piece of what is copied in."""

    data: bytes


@dataclass(frozen=True, slots=True)
class CopyFail:
    """What is copied in ends here, and is to be forgotten."""

    reason: str


@dataclass(frozen=True, slots=True)
class Password:
    """An answer to a question about who it is, in whatever form was asked for."""

    data: bytes


@dataclass(frozen=True, slots=True)
class Plain:
    """A message without a body: Sync, Flush, Terminate, CopyDone."""

    kind: str


Message = Query | Parse | Bind | Describe | Execute | Close | CopyData | CopyFail | Password | Plain

SYNC, FLUSH, TERMINATE, COPY_DONE = Plain("S"), Plain("H"), Plain("X"), Plain("c")


def violation(what: str) -> PgError:
    """The error for bytes that are no message."""
    return PgError("E_MESSAGE", "08P01", what, "this port speaks PostgreSQL's protocol; is the client another one?")


class _Body:
    """A message's body, read from the front."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0

    def text(self) -> str:
        end = self.data.find(b"\0", self.at)
        if end < 0:
            raise violation("a text in a message does not end")
        start, self.at = self.at, end + 1
        try:
            return self.data[start:end].decode()
        except UnicodeDecodeError:
            raise PgError("E_MESSAGE", "22021", "a text in a message is not UTF-8", "set client_encoding") from None

    def byte(self) -> str:
        return self.taken(1).decode("latin-1")

    def short(self) -> int:
        return int(_SHORT.unpack(self.taken(2))[0])

    def long(self) -> int:
        return int(_INT.unpack(self.taken(4))[0])

    def taken(self, size: int) -> bytes:
        if size < 0 or self.at + size > len(self.data):
            raise violation("a message is shorter than it says")
        self.at += size
        return self.data[self.at - size : self.at]

    def shorts(self) -> tuple[int, ...]:
        count = self.count(2)
        return struct.unpack(f">{count}h", self.taken(2 * count))

    def oids(self) -> tuple[int, ...]:
        count = self.count(4)
        return struct.unpack(f">{count}I", self.taken(4 * count))

    def values(self) -> tuple[bytes | None, ...]:
        count = self.count(4)
        found: list[bytes | None] = []
        for _ in range(count):
            size = self.long()
            if size < -1:
                raise violation("a value has a negative length")
            found.append(None if size == -1 else self.taken(size))
        return tuple(found)

    def count(self, each: int) -> int:
        """How many things of a size follow, which must have room."""
        count = self.short() & 0xFFFF
        if self.at + count * each > len(self.data):
            raise violation("a message is shorter than it says")
        return count

    def rest(self) -> bytes:
        start, self.at = self.at, len(self.data)
        return self.data[start:]

    def end(self) -> None:
        if self.at != len(self.data):
            raise violation("a message is longer than it says")


def decode(kind: bytes, data: bytes) -> Message:
    """What a client's message says."""
    body = _Body(data)
    found: Message
    match kind:
        case b"Q":
            found = Query(body.text())
        case b"P":
            found = Parse(body.text(), body.text(), body.oids())
        case b"B":
            found = Bind(body.text(), body.text(), body.shorts(), body.values(), body.shorts())
        case b"D":
            found = Describe(_kind(body), body.text())
        case b"E":
            found = Execute(body.text(), body.long())
        case b"C":
            found = Close(_kind(body), body.text())
        case b"d":
            found = CopyData(body.rest())
        case b"f":
            found = CopyFail(body.text())
        case b"p":
            found = Password(body.rest())
        case b"S" | b"H" | b"X" | b"c":
            found = Plain(kind.decode())
        case b"F":
            raise PgError("E_UNSUPPORTED", "0A000", "function calls are not supported", "SELECT the function")
        case _:
            raise violation(f"there is no message {kind!r}")
    body.end()
    return found


def _kind(body: _Body) -> str:
    kind = body.byte()
    if kind not in ("S", "P"):
        raise violation(f"neither a statement nor a portal is meant by {kind!r}")
    return kind


# what a server sends


class Field(NamedTuple):
    """A column of an answer, as clients are told of it."""

    name: str
    oid: int
    size: int = -1
    modifier: int = -1
    table: int = 0
    column: int = 0


def message(kind: bytes, body: bytes = b"") -> bytes:
    """A message of a kind."""
    return kind + _INT.pack(len(body) + 4) + body


def _zero(text: str) -> bytes:
    return text.replace("\0", "").encode(errors="replace") + b"\0"


AUTHENTICATED = message(b"R", _INT.pack(0))
CLEARTEXT = message(b"R", _INT.pack(3))
PARSE_COMPLETE = message(b"1")
BIND_COMPLETE = message(b"2")
CLOSE_COMPLETE = message(b"3")
NO_DATA = message(b"n")
EMPTY_QUERY = message(b"I")
PORTAL_SUSPENDED = message(b"s")
COPY_END = message(b"c")


def sasl(mechanisms: Sequence[str]) -> bytes:
    """Ask the client to choose how it shows who it is."""
    return message(b"R", _INT.pack(10) + b"".join(_zero(m) for m in mechanisms) + b"\0")


def sasl_continue(data: bytes) -> bytes:
    """The next part of a conversation about who the client is."""
    return message(b"R", _INT.pack(11) + data)


def sasl_final(data: bytes) -> bytes:
    """The last part of it."""
    return message(b"R", _INT.pack(12) + data)


def parameter_status(name: str, value: str) -> bytes:
    """A setting that clients want to know of."""
    return message(b"S", _zero(name) + _zero(value))


def backend_key(process: int, key: bytes) -> bytes:
    """What a client has to say to cancel."""
    return message(b"K", _INT.pack(process) + key)


def negotiate(minor: int, unknown: Sequence[str]) -> bytes:
    """The newest minor version there is, and options that are not known."""
    return message(b"v", struct.pack(">ii", minor, len(unknown)) + b"".join(_zero(u) for u in unknown))


def ready(status: bytes) -> bytes:
    """The server waits: idle (I), in a transaction (T), or in one that has failed (E)."""
    return message(b"Z", status)


def row_description(fields: Sequence[Field], formats: Sequence[int] = ()) -> bytes:
    """The columns of an answer."""
    parts = [_SHORT.pack(len(fields))]
    for i, f in enumerate(fields):
        form = format_of(formats, i)
        parts.append(
            _zero(f.name) + struct.pack(">IhIhih", f.table, f.column, f.oid & 0xFFFFFFFF, f.size, f.modifier, form)
        )
    return message(b"T", b"".join(parts))


def format_of(formats: Sequence[int], i: int) -> int:
    """The format of a column or parameter: none given means text, one given is for all."""
    if not formats:
        return 0
    return formats[0] if len(formats) == 1 else formats[i]


def check_formats(formats: Sequence[int], count: int) -> None:
    """Refuse formats that are none, or not one for each of some values."""
    if any(f not in (0, 1) for f in formats):
        raise violation("a format is 0 (text) or 1 (binary)")
    if len(formats) not in (0, 1, count):
        raise violation(f"{len(formats)} formats for {count} values")


def parameter_description(oids: Sequence[int]) -> bytes:
    """Types of a statement's parameters."""
    return message(b"t", struct.pack(f">H{len(oids)}I", len(oids), *oids))


def command_complete(tag: str) -> bytes:
    """A statement is done."""
    return message(b"C", _zero(tag))


def error_response(fields: Mapping[str, str], kind: bytes = b"E") -> bytes:
    """Something went wrong."""
    return message(kind, b"".join(k.encode() + _zero(v) for k, v in fields.items() if v) + b"\0")


def notice_response(fields: Mapping[str, str]) -> bytes:
    """Something that the client's user may want to know."""
    return error_response(fields, b"N")


def copy_response(kind: bytes, binary: bool, columns: int) -> bytes:
    """Rows are copied in (G) or out (H) from now on."""
    return message(kind, struct.pack(f">bh{columns}h", binary, columns, *[int(binary)] * columns))


def copy_data(data: bytes) -> bytes:
    """A piece of what is copied out."""
    return message(b"d", data)


def data_row(values: Iterable[bytes | None]) -> bytes:
    """A row whose values are in their formats already."""
    parts = [b"\xff\xff\xff\xff" if v is None else _INT.pack(len(v)) + v for v in values]
    body = b"".join(parts)
    return b"D" + struct.pack(">ih", len(body) + 6, len(parts)) + body
