"""COPY formats: text, CSV and binary.

Text and CSV are parsed by Arrow, column by column, which is many times faster than value by value. What it does not
support (escapes in text, some types, or an invalid value) is parsed again value by value, which also finds the line of
an error.
"""

from __future__ import annotations

import io
import re
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.csv as arrow_csv

from everview.errors import EverviewError
from everview.server.pg.answers import Column
from everview.server.pg.formats import reader
from everview.server.pg.oids import oid_of
from everview.server.pg.sqlstates import PgError
from everview.types import DataType

SIGNATURE = b"PGCOPY\n\xff\r\n\0"
HEADER = SIGNATURE + struct.pack(">ii", 0, 0)
TRAILER = struct.pack(">h", -1)

_ESCAPES = {b"b": b"\b", b"f": b"\f", b"n": b"\n", b"r": b"\r", b"t": b"\t", b"v": b"\v"}
_ESCAPED = re.compile(rb"\\(x[0-9a-fA-F]{1,2}|[0-7]{1,3}|.)", re.DOTALL)
_WRITTEN = re.compile(rb"[\\\b\f\n\r\t\v]")
_MARKS = {v: b"\\" + k for k, v in _ESCAPES.items()} | {b"\\": b"\\\\"}


@dataclass(frozen=True)
class Form:
    """How rows are written."""

    kind: str = "text"
    delimiter: str = "\t"
    null: str = "\\N"
    header: bool = False
    quote: str = '"'
    escape: str = '"'
    force_quote: bool = False

    @property
    def binary(self) -> bool:
        """Whether it is the binary form."""
        return self.kind == "binary"


# ---- out


class RowsOut:
    """Rows of some columns, each as one piece of bytes.

    >>> from everview.server.pg.answers import columns_of
    >>> from everview.types import INT, STR
    >>> out = RowsOut(Form(), columns_of(["x", "y"], [INT, STR]), "UTC")
    >>> list(out.rows([(1, "a" + chr(9)), (2, None)]))
    [b'1\\ta\\\\t\\n', b'2\\t\\\\N\\n']
    """

    def __init__(self, form: Form, columns: Sequence[Column], zone: str) -> None:
        self._form = form
        self._names = [c.name for c in columns]
        self._writers = [c.writer(form.binary, zone) for c in columns]
        self._front = HEADER if form.binary else b""

    def head(self) -> bytes:
        """What comes before the rows. The signature of the binary form has no message of its own: it comes with the
        first row, where psycopg looks for it.
        """
        if self._form.binary or not self._form.header:
            return b""
        return self._line([name.encode() for name in self._names])

    def tail(self) -> bytes:
        """What comes after them."""
        return self._taken_front() + TRAILER if self._form.binary else b""

    def _taken_front(self) -> bytes:
        front, self._front = self._front, b""
        return front

    def rows(self, rows: Sequence[tuple[Any, ...]]) -> Iterator[bytes]:
        """Each row."""
        for row in rows:
            cells = [None if v is None else w(v) for w, v in zip(self._writers, row, strict=True)]
            if self._form.binary:
                parts = [b"\xff\xff\xff\xff" if c is None else struct.pack(">i", len(c)) + c for c in cells]
                yield self._taken_front() + struct.pack(">h", len(cells)) + b"".join(parts)
            else:
                yield self._line(cells)

    def _line(self, cells: Sequence[bytes | None]) -> bytes:
        form = self._form
        written = self._quoted if form.kind == "csv" else self._escaped
        null = form.null.encode()
        return form.delimiter.encode().join(null if c is None else written(c) for c in cells) + b"\n"

    def _escaped(self, cell: bytes) -> bytes:
        found = _WRITTEN.sub(lambda m: _MARKS[m[0]], cell)
        mark = self._form.delimiter.encode()
        return found if mark == b"\t" else found.replace(mark, b"\\" + mark)

    def _quoted(self, cell: bytes) -> bytes:
        form = self._form
        quote, delimiter = form.quote.encode(), form.delimiter.encode()
        plain = cell != form.null.encode() and not any(m in cell for m in (quote, delimiter, b"\n", b"\r"))
        if plain and cell != b"\\." and not form.force_quote:
            return cell
        return quote + cell.replace(quote, form.escape.encode() + quote) + quote


# ---- in

_ARROW = {
    "int": pa.int64(), "float": pa.float64(), "str": pa.string(), "date": pa.date32(), "timestamp": pa.timestamp("us"),
}  # fmt: skip
_BOOLS = (["t", "true", "TRUE", "True"], ["f", "false", "FALSE", "False"])


def cut(form: Form, data: bytes) -> int:
    """Where the last whole row of a piece ends; 0 if there is none, or rows cannot be told apart there."""
    if form.kind == "text":
        return data.rfind(b"\n") + 1
    return 0


_END = re.compile(rb"(?:^|\n)\\\.\r?(?:\n|$)")


def ending(data: bytes) -> re.Match[bytes] | None:
    """The line of \\. that ends the rows, in CSV too, as psql sends it; what follows it is passed over."""
    return _END.search(data) if b"\\." in data else None


def read(form: Form, data: bytes, types: Sequence[DataType], line: int, zone: str) -> pa.Table | list[tuple[Any, ...]]:
    """The rows of some bytes, whose first line is the given one."""
    if form.binary:
        return _binary(data, types)
    if (end := ending(data)) is not None:
        data = data[: end.start() + (data[end.start() : end.start() + 1] == b"\n")]
    if form.header and line == 1:
        data = data[data.find(b"\n") + 1 :] if b"\n" in data else b""
    if not data:
        return []
    if form.kind == "text" and data.count(b"\\") != data.count(b"\\N"):
        return _values(_lines(form, data), types, line, zone)
    return _arrow(form, data, types, line, zone)


def _arrow(form: Form, data: bytes, types: Sequence[DataType], line: int, zone: str) -> Any:
    names = [str(i) for i in range(len(types))]
    wanted = {
        n: _ARROW.get(t.kind, pa.bool_() if t.kind == "bool" else pa.string())
        for n, t in zip(names, types, strict=True)
    }
    simple = all(t.kind in _ARROW or t.kind == "bool" for t in types)
    try:
        table = _csv(form, data, names, wanted)
    except pa.ArrowInvalid as error:
        try:
            table = _csv(form, data, names, dict.fromkeys(names, pa.string()))
        except pa.ArrowInvalid:
            raise _bad(line, _width(error, len(types))) from None
        simple = False
    if simple:
        return table
    columns = [table.column(n).to_pylist() for n in names]
    strings = [wanted[n] == pa.string() or table.schema.field(n).type == pa.string() for n in names]
    return _values(zip(*columns, strict=True), types, line + form.header, zone, strings)


def _csv(form: Form, data: bytes, names: list[str], wanted: dict[str, pa.DataType]) -> pa.Table:
    csv = form.kind == "csv"
    same = form.escape == form.quote
    return arrow_csv.read_csv(
        io.BytesIO(data),
        read_options=arrow_csv.ReadOptions(column_names=names, use_threads=False, block_size=1 << 24),
        parse_options=arrow_csv.ParseOptions(
            delimiter=form.delimiter,
            quote_char=form.quote if csv else False,
            double_quote=csv and same,
            escape_char=form.escape if csv and not same else False,
            newlines_in_values=csv,
            ignore_empty_lines=False,
        ),
        convert_options=arrow_csv.ConvertOptions(
            column_types=wanted,
            null_values=[form.null],
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
            true_values=_BOOLS[0],
            false_values=_BOOLS[1],
        ),
    )


def _width(error: Exception, columns: int) -> str:
    found = re.search(r"Row #(\d+): Expected \d+ columns, got (\d+)", str(error))
    if found:
        return f"{found[2]} values for {columns} columns, in row {found[1]}"
    return str(error).split(":", 1)[-1].strip()[:200]


def _lines(form: Form, data: bytes) -> Iterator[list[str | None]]:
    """Rows of the text form, with escapes."""
    mark, null = form.delimiter.encode(), form.null.encode()
    text = data[:-1] if data.endswith(b"\n") else data
    for row in re.split(rb"\r?\n", text):
        cells = re.split(rb"((?:[^\\" + re.escape(mark) + rb"]|\\.)*)" + re.escape(mark), row, flags=re.DOTALL)
        found = [*cells[1::2], cells[-1]]
        yield [None if c == null else _plain(c) for c in found]


def _plain(cell: bytes) -> str:
    def one(m: re.Match[bytes]) -> bytes:
        said = m[1]
        if said in _ESCAPES:
            return _ESCAPES[said]
        if said[:1] == b"x" and len(said) > 1:
            return bytes([int(said[1:], 16)])
        return bytes([int(said, 8) & 255]) if said.isdigit() else said

    return _ESCAPED.sub(one, cell).decode()


def _values(
    rows: Any, types: Sequence[DataType], line: int, zone: str, strings: Sequence[bool] | None = None
) -> list[tuple[Any, ...]]:
    """Rows of texts as values."""
    readers = [reader(oid_of(t), t, False, zone) for t in types]
    found = []
    for number, row in enumerate(rows, line):
        if len(row) != len(types):
            raise _bad(number, f"{len(row)} values for {len(types)} columns")
        try:
            found.append(
                tuple(
                    v if v is None or (strings is not None and not strings[i]) else readers[i](v.encode())
                    for i, v in enumerate(row)
                )
            )
        except EverviewError as error:
            raise _bad(number, error.message) from None
    return found


def _binary(data: bytes, types: Sequence[DataType]) -> list[tuple[Any, ...]]:
    if not data.startswith(SIGNATURE) or len(data) < 19:
        raise _bad(1, "this is not COPY's binary form")
    flags, extra = struct.unpack_from(">ii", data, 11)
    if flags & 0xFFFF0000 or extra < 0:
        raise _bad(1, "this binary form is not known")
    readers = [reader(oid_of(t), t, True) for t in types]
    at = 19 + extra
    rows: list[tuple[Any, ...]] = []
    try:
        while True:
            width = struct.unpack_from(">h", data, at)[0]
            at += 2
            if width == -1:
                return rows
            if width != len(types):
                raise _bad(len(rows) + 1, f"{width} values for {len(types)} columns")
            row: list[Any] = []
            for read_one in readers:
                size = struct.unpack_from(">i", data, at)[0]
                at += 4
                if size == -1:
                    row.append(None)
                    continue
                if size < 0 or at + size > len(data):
                    raise struct.error
                row.append(read_one(data[at : at + size]))
                at += size
            rows.append(tuple(row))
    except struct.error:
        raise _bad(len(rows) + 1, "the rows are cut off") from None


def _bad(line: int, what: str) -> PgError:
    return PgError("E_RECORD", "22P04", f"COPY, line {line}: {what}", "nothing was copied: correct the record")
