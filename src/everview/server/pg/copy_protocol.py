"""COPY between a table or query and the client: FROM STDIN and TO STDOUT.

COPY FROM parses rows as they arrive, in helper threads, down to the table's codes, and passes all of them to the
session when the client is done: all rows are inserted in one transaction, or none. Receiving, parsing and encoding
overlap; only staging arrays is left for the end. COPY TO sends each row as a message. COPY to and from files is the
session's (`everview.sql.dml.copy_files`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from everview.codes.codec import Codec
from everview.errors import InputError, StoppedError, did_you_mean
from everview.language.relation import relation_of
from everview.server.pg import messages, subscribe_statements
from everview.server.pg.answers import ENCODED_ROWS, Answer
from everview.server.pg.client import Client, Prepared
from everview.server.pg.commands import Command, Reader
from everview.server.pg.copy_forms import Form, RowsOut, cut, ending, read
from everview.server.pg.lexer import Piece
from everview.server.pg.messages import CopyData, CopyFail
from everview.server.pg.sqlstates import PgError
from everview.sql.answers.parameter_values import Given
from everview.sql.dml import omitted_columns
from everview.sql.scalar.names import spelled
from everview.types import DataType

if TYPE_CHECKING:
    from everview.session.table import Table
    from everview.sql.statements import Statements

MOST_BYTES = 4 << 30
"""Maximum size of one COPY in bytes."""

PART = 1 << 20
"""Bytes parsed at a time."""

AHEAD = 2
"""Maximum number of parts being parsed concurrently."""


class Ended(Exception):
    """The conversation was ended in the middle of COPY, and the client knows."""


@dataclass
class _Copy:
    """A COPY statement."""

    name: str
    columns: list[str]
    query: Command | None
    into: bool
    form: Form


async def copy(client: Client, command: Command) -> Answer | None:
    """Do a COPY from or to the client; None if it is about a file."""
    wanted = _read(command)
    if wanted is None:
        return None
    if wanted.into:
        return await _copied_in(client, wanted)
    if wanted.query is not None and wanted.query.first == "SUBSCRIBE":
        return await subscribe_statements.copied(client, wanted.query, wanted.form)
    return await _copied_out(client, wanted)


# reading the statement


def _read(command: Command) -> _Copy | None:
    words = Reader(command, 1)
    words.next_is("BINARY")
    query: Command | None = None
    name, columns = "", []
    inside = words.brackets()
    if inside is not None:
        start, stop = inside[0] + 1, inside[1] - 1
        query = Command.of(Piece(command.text[start:stop], command.start + start))
    else:
        name = words.name("a table, or a query in brackets")
        if words.next_is("("):
            columns = [words.name("a column")]
            while words.next_is(","):
                columns.append(words.name("a column"))
            words.need(")")
    into = words.next_is("FROM")
    if not into:
        words.need("TO")
    if not words.next_is("STDIN") and not words.next_is("STDOUT"):
        return None
    if into and query is not None:
        raise words.error("rows cannot be copied into a query", "COPY table FROM STDIN")
    form = _form(words)
    if command.words[1].upper == "BINARY":
        form = replace(form, kind="binary")
    return _Copy(name, columns, query, into, form)


_OPTIONS = ("FORMAT", "DELIMITER", "NULL", "HEADER", "QUOTE", "ESCAPE", "ENCODING", "FORCE_QUOTE", "FREEZE")


def _form(words: Reader) -> Form:
    """[WITH] (FORMAT csv, ...) or, as of old, [WITH] CSV HEADER DELIMITER ';'"""
    given: dict[str, str] = {}
    words.next_is("WITH")
    listed = words.next_is("(")
    while words.more() and not (listed and words.next_is(")")):
        _option(words, given, listed)
        if listed:
            words.next_is(",")
    words.end()
    kind = given.get("FORMAT", "text").lower()
    if kind not in ("text", "csv", "binary"):
        raise PgError("E_FORMAT", "22023", f"COPY has no format {kind}", "there are text, csv and binary")
    csv = kind == "csv"
    quote = given.get("QUOTE", '"')
    form = Form(
        kind,
        given.get("DELIMITER", "," if csv else "\t"),
        given.get("NULL", "" if csv else "\\N"),
        given.get("HEADER", "false").lower() not in ("false", "off", "0"),
        quote,
        given.get("ESCAPE", quote),
        "FORCE_QUOTE" in given,
    )
    if len(form.delimiter.encode()) != 1 or len(form.quote.encode()) != 1 or len(form.escape.encode()) != 1:
        raise PgError("E_OPTION", "0A000", "DELIMITER, QUOTE and ESCAPE are one letter of ASCII", "choose another")
    if form.delimiter in form.null and form.null:
        raise PgError("E_OPTION", "22023", "the text for NULL contains the delimiter", "choose another")
    return form


def _option(words: Reader, given: dict[str, str], listed: bool) -> None:
    word = words.take("an option")
    name = word.upper
    if not listed and name in ("CSV", "BINARY", "TEXT"):
        given["FORMAT"] = name
        return
    if name == "FORCE" and not listed:
        words.need("QUOTE")
        name = "FORCE_QUOTE"
    if name not in _OPTIONS:
        words.at -= 1
        raise words.error(f"COPY has no option {word.text}", did_you_mean(name, _OPTIONS))
    words.next_is("AS")
    if name == "FORCE_QUOTE":
        given[name] = "*"
        if words.brackets() is None:
            words.take("* or columns")
    elif name in ("HEADER", "FREEZE"):
        bare = not listed or not words.more() or words.words[words.at].upper in (",", ")")
        given[name] = "true" if bare else words.take("true or false").text
    else:
        given[name] = words.take("a value").text
    if name == "ENCODING" and given[name].upper().replace("-", "") != "UTF8":
        raise PgError("E_OPTION", "0A000", f"texts are UTF-8, not {given[name]}", "convert them first")


# in


async def _copied_in(client: Client, wanted: _Copy) -> Answer:
    into = await client.run(lambda s: client.work.inside(s, lambda sql: _into(sql, wanted)))
    wire, parts = client.wire, _Parts(into, wanted.form, client.settings.zone)
    wire.put(messages.copy_response(b"G", wanted.form.binary, len(into.types)))
    await wire.drained()
    try:
        await _received(client, wanted, parts)
        found = await parts.all()
    finally:
        parts.abandon()
    taken = await client.run(lambda s: client.work.load(s, lambda sql: _loaded(sql, wanted, into, found)))
    return Answer(f"COPY {taken}")


async def _received(client: Client, wanted: _Copy, parts: _Parts) -> None:
    """Take what the client sends, and have it read."""
    wire, kept, size, over = client.wire, bytearray(), 0, False
    while True:
        try:
            message = await wire.message()
        except PgError as error:
            raise PgError("E_MESSAGE", "08P01", error.message, error.hint) from None
        if message in (messages.SYNC, messages.FLUSH):
            continue
        if isinstance(message, CopyFail):
            raise PgError("E_CANCELLED", "57014", f"COPY was ended by the client: {message.reason}", "")
        if message == messages.COPY_DONE:
            break
        if not isinstance(message, CopyData):
            raise messages.violation("COPY is under way; this message is not expected")
        size += len(message.data)
        if not over:
            kept += message.data
        if size > MOST_BYTES:
            raise PgError("E_SIZE", "54000", f"one COPY takes at most {MOST_BYTES:,} bytes", "copy in several parts")
        if client.stop.is_set():
            raise StoppedError("E_CANCELLED", "COPY was cancelled", "")
        whole = cut(wanted.form, bytes(kept)) if len(kept) >= PART else 0
        if whole:
            part = bytes(kept[:whole])
            await parts.add(part)
            over = ending(part) is not None
            del kept[: None if over else whole]
    await parts.add(bytes(kept))


@dataclass(frozen=True)
class _Into:
    """What rows are copied into, as it was when COPY began."""

    types: list[DataType]
    codec: Codec | None
    """the table's; None if defaults are to be filled in, which takes the session"""
    at: list[int]

    def alike(self, other: _Into) -> bool:
        """Whether rows that were read for one can be put into the other. A table that is made in this transaction is
        another one for each of its statements.
        """
        a, b = self.codec, other.codec
        same = (a.types, a.names, id(a.interner)) == (b.types, b.names, id(b.interner)) if a and b else a is b
        return same and (self.types, self.at) == (other.types, other.at)


class _Parts:
    """Pieces of what comes, read one beside the other and told in their order."""

    def __init__(self, into: _Into, form: Form, zone: str) -> None:
        self._into, self._form, self._zone = into, form, zone
        self._tasks: list[asyncio.Task[Any]] = []
        self._line = 1

    async def add(self, part: bytes) -> None:
        """Have a piece read; waits if several are, and tells what was wrong with earlier ones."""
        self._tasks.append(asyncio.create_task(asyncio.to_thread(self._read, part, self._line)))
        self._line += part.count(b"\n")
        if len(self._tasks) > AHEAD:
            await self._tasks[-1 - AHEAD]

    async def all(self) -> list[Any]:
        """What all of them were; the first mistake of all if there is any."""
        return [await task for task in self._tasks]

    def abandon(self) -> None:
        """Nobody asks for what is still being read."""
        for task in self._tasks:
            task.add_done_callback(lambda done: done.cancelled() or done.exception())

    def _read(self, part: bytes, line: int) -> Any:
        into = self._into
        rows = read(self._form, part, into.types, line, self._zone)
        return rows if into.codec is None or not len(rows) else _codes(into.codec, into.at, rows)


def _table(sql: Statements, wanted: _Copy) -> Table:
    exact = sql.spelled(wanted.name)
    if exact in sql.session.views:
        raise PgError("E_TABLE", "42809", f"{exact} is a view and cannot be changed", "copy into a table")
    if exact not in sql.session.tables:
        hint = did_you_mean(wanted.name, sql.session.tables)
        raise InputError("E_TABLE", f"there is no table {wanted.name}", hint)
    sql.core.access.may("INSERT", "relation", exact)
    return sql.core.catalog.tables[exact]


def _positions(table: Table, columns: Sequence[str]) -> list[int]:
    have = [c.name for c in relation_of(table).columns]
    found = []
    for column in columns or have:
        exact = spelled(column, have)
        if exact not in have:
            raise InputError(
                "E_COLUMN", f"{relation_of(table).label} has no column {column}", did_you_mean(column, have)
            )
        if have.index(exact) in found:
            raise InputError("E_DUPLICATE", f"the column {exact} is named twice", "name it once")
        found.append(have.index(exact))
    return found


def _into(sql: Statements, wanted: _Copy) -> _Into:
    table = _table(sql, wanted)
    at = _positions(table, wanted.columns)
    for i, column in enumerate(relation_of(table).columns):
        if i not in at and not column.type.nullable and column.name not in sql.core.defaults.of(table):
            raise InputError(
                "E_NULL", f"{relation_of(table).label}.{column.name} cannot be NULL and is not listed", "list it"
            )
    completed = len(at) < len(relation_of(table).columns) and bool(sql.core.defaults.of(table))
    types = [relation_of(table).codec.types[i] for i in at]
    return _Into(types, None if completed else relation_of(table).codec, at)


def _loaded(sql: Statements, wanted: _Copy, into: _Into, found: Sequence[Any]) -> int:
    """Insert what was read; in the connection's transaction, or one of its own."""
    table = _table(sql, wanted)
    now = _into(sql, wanted)
    if not into.alike(now):
        what = f"{relation_of(table).label} was altered while rows came"
        raise PgError("E_SERIALIZE", "40001", what, "copy them again")
    parts = [rows if into.codec else _completed(sql, table, into.at, rows) for rows in found if len(rows)]
    if not parts:
        return 0
    codes = parts[0] if len(parts) == 1 else np.ascontiguousarray(np.concatenate(parts, axis=1))
    if relation_of(table).key:
        sql.core.by_key.insert(table, codes)
    else:
        sql.core.transactions.stage(table, codes, 1)
    return int(codes.shape[1])


def _completed(sql: Statements, table: Table, at: Sequence[int], rows: Any) -> np.ndarray:
    """Rows with the defaults of columns that are not listed."""
    if isinstance(rows, pa.Table):
        codec = Codec(
            [relation_of(table).codec.types[i] for i in at],
            [relation_of(table).columns[i].name for i in at],
            sql.core.interner,
        )
        rows = codec.decode_rows(codec.encode(rows.rename_columns(list(codec.names))))
    return relation_of(table).codec.encode(omitted_columns.completed(sql, table, at, rows))


def _codes(codec: Codec, at: Sequence[int], rows: Any) -> np.ndarray:
    names = list(codec.names)
    if isinstance(rows, pa.Table):
        columns = {i: rows.column(k) for k, i in enumerate(at)}
        filled = [columns.get(i, pa.nulls(rows.num_rows)) for i in range(len(names))]
        return codec.encode(pa.table(filled, names=names))
    if list(at) != list(range(len(names))):
        places = {i: k for k, i in enumerate(at)}
        rows = [tuple(row[places[i]] if i in places else None for i in range(len(names))) for row in rows]
    return codec.encode(rows)


# out


async def _copied_out(client: Client, wanted: _Copy) -> Answer:
    from everview.server.pg import statement_executor  # which imports this

    query = wanted.query
    if query is None:
        listed = ", ".join(_quoted(c) for c in wanted.columns) or "*"
        query = Command.of(Piece(f"SELECT {listed} FROM {'.'.join(_quoted(p) for p in wanted.name.split('.'))}", 0))
    found = Prepared(query, query.text, Given({}), (), None)
    answer = await statement_executor.executed(client, found, found.given)
    if answer.columns is None:
        raise PgError("E_SYNTAX", "42601", "COPY TO STDOUT needs a statement that returns rows", "add RETURNING")
    wire, out = client.wire, RowsOut(wanted.form, answer.columns, client.settings.zone)
    wire.put(messages.copy_response(b"H", wanted.form.binary, len(answer.columns)))
    if head := out.head():
        wire.put(messages.copy_data(head))
    for start in range(0, answer.count, ENCODED_ROWS):
        rows = answer.take(start, min(start + ENCODED_ROWS, answer.count))
        wire.put(b"".join(map(messages.copy_data, out.rows(rows))))
        await wire.drained()
        await asyncio.sleep(0)
        if client.stop.is_set():
            raise StoppedError("E_CANCELLED", "COPY was cancelled", "")
    if tail := out.tail():
        wire.put(messages.copy_data(tail))
    wire.put(messages.COPY_END)
    return Answer(f"COPY {answer.count}")


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
