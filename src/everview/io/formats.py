"""File formats: how CSV, JSON, Parquet and Arrow files are read from a position, and written.

Text formats are read in blocks of whole records (`everview.io.blocks`) with byte positions; Parquet and Arrow files are
read in record batches with row positions. Everything in a text format is initially text: the fast path converts a block
column by column. A block with bad data is processed record by record, so that one bad record costs one dead letter and
not a file.
"""

from __future__ import annotations

import csv
import datetime as dt
import io
import json
import sys
from abc import ABC, abstractmethod
from base64 import b64encode
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Any
from uuid import UUID

import pyarrow as pa
import pyarrow.csv
import pyarrow.ipc
import pyarrow.json
import pyarrow.parquet

from everview.codes.intervals import Interval
from everview.codes.scalars import shown
from everview.codes.type_declarations import arrow_field, data_type
from everview.errors import EverviewError, InputError
from everview.expr.python_function_types import NEW
from everview.expr.text_conversion import text_of
from everview.io.blocks import BLOCK, blocks, record_ends
from everview.io.source import Bad, Wanted
from everview.io.text_values import convert, value_of_text, values_of_json
from everview.io.validation import sign_option
from everview.store.folder_names import encodable
from everview.types import STR, DataType

Open = Callable[[], Any]
"""Opens a file for reading, at its start"""

PIECE_ROWS = 1 << 17
"""Default number of rows per piece of a binary format."""

_READ_AS_TEXT = ("date", "timestamp", "decimal", "bytes", "tuple")
"""Kinds that have no JSON representation."""


@dataclass
class Piece:
    """Some records of a file and the position after them."""

    rows: pa.Table | list[Any]
    at: int
    bad: list[Bad] = field(default_factory=list)


class Format(ABC):
    """One file format, with its options."""

    suffix: str
    text = False
    """Whether a position is in bytes, so that a growing file can be followed"""

    @abstractmethod
    def schema(self, open: Open) -> pa.Schema:
        """The columns of a file."""

    @abstractmethod
    def pieces(
        self, open: Open, place: str, at: int, limit: int | None, wanted: Wanted | None, whole: bool
    ) -> Iterator[Piece]:
        """The records after a position, converted to the wanted types (None: as they are)."""

    @abstractmethod
    def write(self, table: pa.Table, file: Any) -> None:
        """Write a whole file."""


# CSV

DELIMITERS = ",;\t|"
"""The delimiters that are detected."""


@dataclass
class Csv(Format):
    """Comma-separated values, by default with a header line. An empty field is NULL, a quoted empty one is the empty
    text. By default each file's delimiter is detected from its first line, which does not change while it grows.
    """

    delimiter: str | None = None
    quote: str = '"'
    header: bool | Sequence[str] = True
    null: str = ""
    skip: bool = False
    """whether there is a header line although the names are given"""
    _told: bool = field(default=False, compare=False, repr=False)
    suffix = ".csv"
    text = True

    def __post_init__(self) -> None:
        if self.delimiter is not None:
            sign_option("delimiter", self.delimiter)
        sign_option("quote", self.quote)
        if self.delimiter == self.quote:
            raise InputError("E_OPTION", f"delimiter and quote are both {self.quote!r}", "give two signs")
        if not isinstance(self.null, str) or not encodable(self.null):
            raise InputError("E_OPTION", f"null={self.null!r} is not a string", 'say what stands for NULL: null="NA"')
        if not isinstance(self.header, bool):
            self.header = _header(self.header)

    def _settled(self, open: Open) -> Csv:
        """The same with a delimiter; one other than a comma is reported once."""
        if self.delimiter is not None:
            return self
        found = told_delimiter(next(blocks(open(), 0, limit=1, quote=ord(self.quote)), (b"", 0))[0], self.quote)
        if found != "," and not self._told:
            self._told = True
            print(
                f"everview: the first line of a CSV file has no commas, so {found!r} is taken as the separator "
                f"(give delimiter={found!r} to be explicit)",
                file=sys.stderr,
            )
        return replace(self, delimiter=found)

    def schema(self, open: Open) -> pa.Schema:
        return self._settled(open)._schema(open)

    def _schema(self, open: Open) -> pa.Schema:
        names, start = self._names(open)
        data, _ = next(blocks(_at(open, start), start, quote=ord(self.quote)), (b"", start))
        if not data:
            return pa.schema([(name, pa.string()) for name in names])
        options = pa.csv.ConvertOptions(strings_can_be_null=True, quoted_strings_can_be_null=False)
        return self._parse(_readable(data), names, options, []).schema

    def pieces(
        self, open: Open, place: str, at: int, limit: int | None, wanted: Wanted | None, whole: bool
    ) -> Iterator[Piece]:
        yield from self._settled(open)._pieces(open, place, at, limit, wanted, whole)

    def _pieces(
        self, open: Open, place: str, at: int, limit: int | None, wanted: Wanted | None, whole: bool
    ) -> Iterator[Piece]:
        names, start = self._names(open)
        at = max(at, start)
        for data, end in blocks(_at(open, at), at, limit=limit, quote=ord(self.quote), whole=whole):
            bad: list[Bad] = []
            where = f"{place}, byte {at}"
            table = self._texts(data, names, bad, where)
            yield Piece(_typed(table, wanted or {}, bad, where), end, bad)
            at = end

    def _names(self, open: Open) -> tuple[list[str], int]:
        """Names of the columns, and the offset of the first record."""
        if not isinstance(self.header, bool) and not self.skip:
            return list(self.header), 0
        line, end = next(blocks(open(), 0, limit=1, quote=ord(self.quote)), (b"", 0))
        if not isinstance(self.header, bool):
            return list(self.header), end
        text = io.StringIO(line.decode("utf-8-sig", "replace"))
        fields = next(csv.reader(text, delimiter=self.delimiter or ",", quotechar=self.quote), [])
        return (fields, end) if self.header else ([f"c{i}" for i in range(len(fields))], 0)

    def _texts(self, data: bytes, names: list[str], bad: list[Bad], where: str) -> pa.Table:
        """A block as columns of texts."""
        options = pa.csv.ConvertOptions(
            column_types={name: pa.string() for name in names},
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
            null_values=[self.null],
        )
        wrong: list[Any] = []
        try:
            data.decode()  # see _readable
            table = self._parse(data, names, options, wrong)
        except (pa.ArrowInvalid, UnicodeDecodeError):
            return self._one_by_one(data, names, options, bad, where)
        bad.extend(self._miscounted(row, where) for row in wrong)
        return table

    def _parse(self, data: bytes, names: list[str], options: Any, wrong: list[Any]) -> pa.Table:
        def skip(row: Any) -> str:
            wrong.append(row)
            return "skip"

        return pa.csv.read_csv(
            pa.BufferReader(data),
            read_options=pa.csv.ReadOptions(
                column_names=names, use_threads=False, block_size=max(len(data) + 1, BLOCK)
            ),
            parse_options=pa.csv.ParseOptions(
                delimiter=self.delimiter or ",",
                quote_char=self.quote,
                newlines_in_values=True,
                invalid_row_handler=skip,
                ignore_empty_lines=len(names) > 1,  # in a single column an empty line is NULL
            ),
            convert_options=options,
        )

    def _one_by_one(self, data: bytes, names: list[str], options: Any, bad: list[Bad], where: str) -> pa.Table:
        """A block that Arrow refuses, record by record."""
        tables = []
        start = 0
        ends = [*record_ends(data, ord(self.quote)).tolist(), len(data)]
        for end in ends:
            record, start = data[start:end], end
            wrong: list[Any] = []
            try:
                if record.strip():
                    self._parse(_readable(record), names, options, wrong)  # miscounted fields, whatever is in them
                if record.strip() and not wrong:
                    tables.append(self._parse(record, names, options, wrong))
            except pa.ArrowInvalid as error:
                bad.append(
                    Bad(where, f"[E_RECORD] {str(error).splitlines()[0]}", record.decode("utf-8", "backslashreplace"))
                )
            bad.extend(self._miscounted(row, where) for row in wrong)
        empty = pa.schema([(name, pa.string()) for name in names]).empty_table()
        return pa.concat_tables([empty, *tables])

    def _miscounted(self, row: Any, where: str) -> Bad:
        return Bad(where, f"[E_WIDTH] {row.actual_columns} fields, not {row.expected_columns}", row.text)

    def write(self, table: pa.Table, file: Any) -> None:
        if self.null or self.quote != '"':
            self._write_lines(_plain(table), file)
            return
        options = pa.csv.WriteOptions(
            include_header=self.header is True, delimiter=self.delimiter or ",", quoting_style="needed"
        )
        pa.csv.write_csv(_plain(table), file, write_options=options)

    def _write_lines(self, table: pa.Table, file: Any) -> None:
        """Write what Arrow's writer has no options for: another quote character, a text for NULL."""
        columns = [column.cast(pa.string()).to_pylist() for column in table.columns]
        if self.header is True:
            file.write(self._line(table.column_names))
        for start in range(0, table.num_rows, PIECE_ROWS):
            rows = zip(*(column[start : start + PIECE_ROWS] for column in columns), strict=True)
            file.write(b"".join(map(self._line, rows)))

    def _line(self, fields: Sequence[str | None]) -> bytes:
        """A record as text; what would be read as NULL, or as several fields, is quoted."""
        delimiter, quote = self.delimiter or ",", self.quote
        special = (delimiter, quote, "\n", "\r")
        texts = (
            self.null
            if text is None
            else f"{quote}{text.replace(quote, quote * 2)}{quote}"
            if text in ("", self.null) or any(sign in text for sign in special)
            else text
            for text in fields
        )
        return (delimiter.join(texts) + "\n").encode()


def _readable(data: bytes) -> bytes:
    """Valid UTF-8 only: for a row with the wrong number of fields and invalid characters Arrow only writes to standard
    error."""
    return data.decode("utf-8", "replace").encode()


def _header(given: Any) -> list[str]:
    """Names of columns, as they were given for the header."""
    if not isinstance(given, list | tuple) or not given or not all(isinstance(n, str) and n for n in given):
        raise InputError("E_OPTION", f"header={given!r} names no columns", 'give True, False or ["name", ...]')
    if len(set(given)) < len(given):
        raise InputError("E_OPTION", f"header={given!r} names a column twice", "give each its own name")
    return list(given)


def told_delimiter(line: bytes, quote: str = '"') -> str:
    """Detect the delimiter of a CSV file from its first line: a comma if there is one outside quotes, else whichever of
    the others gives most fields.

    >>> [told_delimiter(line) for line in (b"a;b", b"a,b;c", b'"a,b"|c', b"a")]
    [';', ',', '|', ',']
    """
    outside = "".join(line.decode("utf-8", "replace").split(quote)[::2])
    return "," if "," in outside else max(DELIMITERS, key=outside.count)


def _typed(table: pa.Table, wanted: Wanted, bad: list[Bad], where: str) -> pa.Table:
    """Columns of texts as the wanted types; rows with a text that does not fit become bad records."""
    refused: dict[int, str] = {}
    columns: dict[str, Any] = {}
    for name in table.column_names:
        column, declared = table[name], wanted.get(name, STR.optional())
        try:
            columns[name] = convert(column, declared)
        except (pa.ArrowInvalid, ValueError):
            columns[name] = _each(column.to_pylist(), name, declared, refused)
    if not refused:
        return pa.table(columns)
    texts = table.to_pylist()
    bad.extend(Bad(where, reason, json.dumps(texts[i], ensure_ascii=False)) for i, reason in sorted(refused.items()))
    good = pa.array([i for i in range(table.num_rows) if i not in refused], pa.int64())
    return pa.table(columns).take(good)


def _each(texts: list[str | None], name: str, declared: DataType, refused: dict[int, str]) -> pa.Array:
    values = []
    for i, text in enumerate(texts):
        try:
            values.append(value_of_text(text, declared))
        except InputError as error:
            refused.setdefault(i, f"[{error.code}] column {name!r}: {error.message}")
            values.append(None)
    return pa.array(values, arrow_field(name, declared).type)


# JSON


@dataclass
class Json(Format):
    """One JSON object per line."""

    suffix = ".json"
    text = True

    def schema(self, open: Open) -> pa.Schema:
        data, _ = next(blocks(open(), 0), (b"", 0))
        if not data.strip():
            return pa.schema([])
        try:
            options = pa.json.ReadOptions(use_threads=False, block_size=max(len(data) + 1, BLOCK))
            return pa.json.read_json(pa.BufferReader(data), read_options=options).schema
        except pa.ArrowInvalid as error:
            raise InputError(
                "E_SCHEMA",
                f"the columns cannot be inferred from the first records: {str(error).splitlines()[0]}",
                'give schema={"column": type, ...}; the file must hold one JSON object per line',
            ) from None

    def pieces(
        self, open: Open, place: str, at: int, limit: int | None, wanted: Wanted | None, whole: bool
    ) -> Iterator[Piece]:
        for data, end in blocks(_at(open, at), at, limit=limit, whole=whole):
            bad: list[Bad] = []
            where = f"{place}, byte {at}"
            table = None if wanted is None else self._quick(data, wanted)
            yield Piece(self._objects(data, wanted, bad, where) if table is None else table, end, bad)
            at = end

    def _quick(self, data: bytes, wanted: Wanted) -> pa.Table | None:
        """Parse a block with Arrow's reader; None if anything in it needs a closer look."""
        if any(t.kind in NEW for t in wanted.values()):
            return None
        schema = pa.schema(
            [
                pa.field(name, pa.string()) if t.kind in _READ_AS_TEXT else arrow_field(name, t.optional())
                for name, t in wanted.items()
            ]
        )
        try:
            table = pa.json.read_json(
                pa.BufferReader(data),
                read_options=pa.json.ReadOptions(use_threads=False, block_size=max(len(data) + 1, BLOCK)),
                parse_options=pa.json.ParseOptions(explicit_schema=schema, unexpected_field_behavior="infer"),
            )
            for i, (name, declared) in enumerate(wanted.items()):
                if declared.kind in _READ_AS_TEXT:
                    table = table.set_column(i, name, convert(table[name], declared))
        except (pa.ArrowInvalid, ValueError):
            return None
        return table

    def _objects(self, data: bytes, wanted: Wanted | None, bad: list[Bad], where: str) -> list[Any]:
        """A block line by line."""
        rows = []
        for line in data.split(b"\n"):
            if not line.strip():
                continue
            try:
                record = json.loads(line)
                if not isinstance(record, dict):
                    raise InputError("E_RECORD", f"{shown(record)} is not a JSON object")
                rows.append(record if wanted is None else _fitted(record, wanted))
            except (ValueError, EverviewError) as error:
                reason = (
                    f"[{error.code}] {error.message}" if isinstance(error, EverviewError) else f"[E_RECORD] {error}"
                )
                bad.append(Bad(where, reason, line.decode("utf-8", "backslashreplace")))
        return rows

    def write(self, table: pa.Table, file: Any) -> None:
        texts = [f.name for f in table.schema if (f.metadata or {}).get(b"everview") == b"json"]
        for batch in without_intervals(table).to_batches(max_chunksize=PIECE_ROWS):
            rows = batch.to_pylist()
            for row in rows if texts else ():
                row.update({name: json.loads(row[name]) for name in texts if row[name] is not None})
            lines = [json.dumps(row, ensure_ascii=False, default=json_text) for row in rows]
            file.write(("\n".join(lines) + "\n").encode() if lines else b"")


def _fitted(record: Mapping[str, Any], wanted: Wanted) -> dict[str, Any]:
    """A record's values as the wanted types; a missing field is NULL, an unwanted one is kept."""
    others = {name: value for name, value in record.items() if name not in wanted}
    return others | values_of_json(record, wanted)


def json_text(value: Any) -> Any:
    """Values that JSON lacks, as texts that `value_of_json` parses."""
    if isinstance(value, (dt.date, dt.datetime, dt.time)):
        return value.isoformat()
    if isinstance(value, bytes):
        return b64encode(value).decode()
    if isinstance(value, (Decimal, UUID)):
        return str(value)
    raise TypeError(f"{type(value).__name__} has no JSON form")


def _plain(table: pa.Table) -> pa.Table:
    """The table with columns that CSV cannot represent as texts."""
    for i, column in enumerate(table.schema):
        if pa.types.is_struct(column.type):
            texts = [None if v is None else json.dumps([*v.values()], default=json_text) for v in table[i].to_pylist()]
            table = table.set_column(i, column.name, pa.array(texts, pa.string()))
        elif pa.types.is_binary(column.type):
            texts = [None if v is None else b64encode(v).decode() for v in table[i].to_pylist()]
            table = table.set_column(i, column.name, pa.array(texts, pa.string()))
        elif pa.types.is_nested(column.type):
            text = text_of(data_type(column))
            texts = [None if v is None else text(v) for v in table[i].to_pylist()]
            table = table.set_column(i, column.name, pa.array(texts, pa.string()))
    return without_intervals(table)


def without_intervals(table: pa.Table) -> pa.Table:
    """The table with intervals as texts: only Arrow files support such values."""
    for i, column in enumerate(table.schema):
        if pa.types.is_interval(column.type):
            texts = [None if v is None else str(Interval(v[0], v[1], v[2] // 1000)) for v in table[i].to_pylist()]
            table = table.set_column(i, column.name, pa.array(texts, pa.string()))
    return table


def _at(open: Open, at: int) -> Any:
    """The file at an offset; compressed streams cannot seek and are read through."""
    file = open()
    if file.seekable():
        file.seek(at)
        return file
    while at and (read := file.read(min(at, BLOCK))):
        at -= len(read)
    return file


# Parquet and Arrow


@dataclass
class Parquet(Format):
    """Apache Parquet."""

    suffix = ".parquet"

    def schema(self, open: Open) -> pa.Schema:
        return pa.parquet.ParquetFile(open()).schema_arrow

    def pieces(
        self, open: Open, place: str, at: int, limit: int | None, wanted: Wanted | None, whole: bool
    ) -> Iterator[Piece]:
        parquet = pa.parquet.ParquetFile(open())
        first = 0
        groups: list[int] = []
        for i in range(parquet.num_row_groups):  # whole row groups before the position are skipped
            rows = parquet.metadata.row_group(i).num_rows
            if groups or first + rows > at:
                groups.append(i)
            else:
                first += rows
        batches = parquet.iter_batches(batch_size=limit or PIECE_ROWS, row_groups=groups)
        yield from _rows_after(batches, at - first, at, limit)

    def write(self, table: pa.Table, file: Any) -> None:
        pa.parquet.write_table(without_intervals(table), file)


@dataclass
class Arrow(Format):
    """Arrow IPC: files and streams."""

    suffix = ".arrow"

    def _batches(self, open: Open) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
        file = open()
        magic = file.read(6)
        file.seek(0)
        if magic == b"ARROW1":
            reader = pa.ipc.open_file(file)
            return reader.schema, (reader.get_batch(i) for i in range(reader.num_record_batches))
        stream = pa.ipc.open_stream(file)
        return stream.schema, iter(stream)

    def schema(self, open: Open) -> pa.Schema:
        return self._batches(open)[0]

    def pieces(
        self, open: Open, place: str, at: int, limit: int | None, wanted: Wanted | None, whole: bool
    ) -> Iterator[Piece]:
        yield from _rows_after(self._batches(open)[1], at, at, limit)

    def write(self, table: pa.Table, file: Any) -> None:
        with pa.ipc.new_file(file, table.schema) as writer:
            writer.write_table(table)


def _rows_after(batches: Iterator[pa.RecordBatch], skip: int, at: int, limit: int | None) -> Iterator[Piece]:
    for batch in batches:
        rest = batch.slice(min(skip, batch.num_rows))
        skip -= batch.num_rows - rest.num_rows
        step = limit or max(rest.num_rows, 1)
        for start in range(0, rest.num_rows, step):
            part = rest.slice(start, step)
            at += part.num_rows
            yield Piece(pa.Table.from_batches([part]), at)
