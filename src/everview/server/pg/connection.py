"""The protocol loop of one client.

There are two query protocols. *Simple*: a text with statements, each answered as it is done. *Extended*: Parse, Bind,
Describe, Execute, each answered separately, and Sync, which ends a unit. After an error everything up to the next Sync
is skipped. Responses are buffered until Sync or Flush, or until they are many.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from everview.errors import EverviewError, StoppedError
from everview.server.pg import (
    column_encoder,
    copy_protocol,
    messages,
    pipelined_lookups,
    statement_executor,
    subscribe_statements,
)
from everview.server.pg.answers import ENCODED_ROWS, Answer, Column, RowWriter
from everview.server.pg.client import Client, Portal, Prepared
from everview.server.pg.column_encoder import Columnwise
from everview.server.pg.commands import Command
from everview.server.pg.error_responses import fields_of
from everview.server.pg.formats import reader
from everview.server.pg.lexer import split
from everview.server.pg.messages import (
    Bind,
    Close,
    Describe,
    Execute,
    Message,
    Parse,
    Plain,
    Query,
    check_formats,
    format_of,
)
from everview.server.pg.sqlstates import PgError
from everview.server.pg.wire import Gone
from everview.sql.answers.parameter_values import Given

COLUMNWISE_ROWS = 200
"""Number of rows from which encoding is column by column."""

MOST_PREPARED = 10_000
"""Maximum number of prepared statements and portals per connection."""


class Connection:
    """The conversation with one client that has logged in."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.wire = client.wire
        self.skipping = False
        """whether messages are skipped, up to the next Sync"""

    async def serve(self) -> None:
        """Serve until the client ends it."""
        while True:
            self.wire.at_once = None if self.skipping else self._at_once
            try:
                message = await self.wire.message()
            except PgError as error:  # what follows cannot be told apart any more
                self._failed(error, "FATAL")
                self.wire.flush()
                return
            finally:
                self.wire.at_once = None
            if message == messages.TERMINATE:
                return
            await self._answer(message)

    def _at_once(self, data: bytes | bytearray, at: int) -> tuple[int, bytes] | None:
        if len(data) - at < 5 or data[at] != pipelined_lookups.BIND:
            return None
        return pipelined_lookups.answer(self.client, data, at)

    async def _answer(self, message: Message) -> None:
        client = self.client
        client.stop.clear()
        if isinstance(message, Query):
            self.skipping = False
            await self._simple(message.text)
            return
        if message == messages.SYNC:
            await self._sync()
            return
        if message == messages.FLUSH:
            await self.wire.drained()
            return
        if (
            self.skipping
            or isinstance(message, (messages.CopyData, messages.CopyFail))
            or message == messages.COPY_DONE
        ):
            return  # what is left of a COPY that has failed is passed over
        text, start = "", 0
        try:
            if isinstance(message, Parse):
                text = message.text
            await self._extended(message)
        except Gone:
            raise
        except Exception as error:
            if isinstance(message, Execute) and message.portal in client.portals:
                command = client.portals[message.portal].prepared.command
                text, start = command.text, command.start
            self._failed(error, text=text, start=start)
            self.skipping = True
            if client.inside:
                client.failed = True

    # simple

    async def _simple(self, text: str) -> None:
        client = self.client
        client.said, client.active = text, True
        piece_text, start = "", 0
        try:
            pieces = split(text)
            if not pieces:
                self.wire.put(messages.EMPTY_QUERY)
            if len(pieces) > 1 and not client.inside:
                client.begin(explicit=False)
            for piece in pieces:
                piece_text, start = piece.text, piece.start
                command = Command.of(piece, client.database)
                client.check_open(command)
                await self._one(command)
            if client.inside and not client.explicit:
                await client.commit()
        except Gone:
            raise
        except Exception as error:
            self._failed(error, text=piece_text, start=start)
            if client.explicit:
                client.failed = True
            elif client.inside:
                client.rollback()
        await self._ready()

    async def _one(self, command: Command) -> None:
        """Do one statement of a simple query, and send its answer."""
        client = self.client
        if command.first == "SUBSCRIBE":
            await subscribe_statements.stream(client, command, describe=True)
            return
        found = Prepared(command, command.text, Given({}), (), None)
        answer = await statement_executor.executed(client, found, found.given)
        if answer.columns is not None:
            self.wire.put(messages.row_description([c.field() for c in answer.columns]))
            await self._rows(answer, (), 0)
        self._complete(answer)

    # extended

    async def _extended(self, message: Message) -> None:
        client = self.client
        match message:
            case Parse():
                await self._parse(message)
            case Bind():
                self._bind(message)
            case Describe():
                await self._describe(message)
            case Execute():
                await self._execute(message)
            case Close(kind, name):
                if kind == "S":
                    client.prepared.pop(name, None)
                else:
                    client.portals.pop(name, None)
                self.wire.put(messages.CLOSE_COMPLETE)
            case Plain() | _:
                raise messages.violation("this message is not expected here")

    async def _parse(self, message: Parse) -> None:
        client = self.client
        pieces = split(message.text)
        if len(pieces) > 1:
            raise PgError("E_SYNTAX", "42601", "one statement is prepared, not several", "prepare them one by one")
        if message.name and message.name in client.prepared:
            what = f"prepared statement {message.name} already exists"
            raise PgError("E_DUPLICATE", "42P05", what, "close it first")
        if len(client.prepared) >= MOST_PREPARED:
            raise PgError("E_SIZE", "53400", f"{MOST_PREPARED:,} statements are already prepared", "close some")
        command = Command.of(pieces[0], client.database) if pieces else Command("")
        client.check_open(command)
        if command.words:
            found = await statement_executor.prepared(client, command, message.types)
        else:
            found = Prepared(command, "", Given({}), (), None)
        client.prepared[message.name] = found
        self.wire.put(messages.PARSE_COMPLETE)

    def _bind(self, message: Bind) -> None:
        client = self.client
        found = self._statement(message.statement)
        client.check_open(found.command)
        count = len(found.oids)
        if len(message.values) != count:
            raise PgError("E_MESSAGE", "08P01", f"{len(message.values)} values for {count} parameters", "give one each")
        check_formats(message.formats, count)
        check_formats(message.results, len(found.columns or ()))
        if message.portal and message.portal in client.portals:
            raise PgError("E_DUPLICATE", "42P03", f"portal {message.portal} already exists", "close it first")
        if len(client.portals) >= MOST_PREPARED:
            raise PgError("E_SIZE", "53400", f"{MOST_PREPARED:,} portals are already open", "close some")
        given = Given(found.given.known, self._values(message, found))
        client.portals[message.portal] = Portal(found, given, message.results)
        self.wire.put(messages.BIND_COMPLETE)

    def _values(self, message: Bind, found: Prepared) -> dict[str, object]:
        zone, types = self.client.settings.zone, found.given.types_of(len(found.oids))
        values: dict[str, object] = {}
        for i, (data, oid, declared) in enumerate(zip(message.values, found.oids, types, strict=True)):
            if data is None:
                values[str(i + 1)] = None
                continue
            binary = bool(format_of(message.formats, i))
            try:
                values[str(i + 1)] = reader(oid, declared, binary, zone)(data)
            except PgError as error:
                error.message = f"${i + 1}: {error.message}"
                raise
        return values

    async def _describe(self, message: Describe) -> None:
        if message.kind == "S":
            found = self._statement(message.name)
            self.wire.put(messages.parameter_description(found.oids))
            self._columns(found.columns, ())
            return
        if message.name in self.client.cursors:  # what DECLARE makes is a portal, too
            self._columns(self.client.cursors[message.name].answer.columns, ())
            return
        portal = self._portal(message.name)
        self._columns(portal.prepared.columns, portal.formats)

    def _columns(self, columns: Sequence[Column] | None, formats: Sequence[int]) -> None:
        if columns is None:
            self.wire.put(messages.NO_DATA)
        else:
            self.wire.put(messages.row_description([c.field() for c in columns], formats))

    async def _execute(self, message: Execute) -> None:
        client = self.client
        portal = self._portal(message.portal)
        command = portal.prepared.command
        client.check_open(command)
        client.said, client.active = command.text, True
        if not command.words:
            self.wire.put(messages.EMPTY_QUERY)
            return
        if command.first == "SUBSCRIBE":
            await subscribe_statements.stream(
                client, command, describe=False, formats=portal.formats, most=message.limit
            )
            return
        if portal.answer is None:
            together = command.changing and not client.inside and self.wire.peek() != b"S"
            if together:  # more comes before the Sync: all of it is one transaction
                client.begin(explicit=False)
            portal.answer = await statement_executor.executed(client, portal.prepared, portal.given)
        answer = portal.answer
        if answer.columns is not None:
            await self._rows(answer, portal.formats, message.limit)
            if answer.at < answer.count:
                self.wire.put(messages.PORTAL_SUSPENDED)
                return
        self._complete(answer)

    async def _sync(self) -> None:
        client = self.client
        self.skipping = False
        if client.inside and not client.explicit:
            try:
                await client.commit()
            except EverviewError as error:
                self._failed(error)
        if not client.explicit:
            client.portals.clear()
        await self._ready()

    def _statement(self, name: str) -> Prepared:
        if name not in self.client.prepared:
            what = f"there is no prepared statement {name}" if name else "there is no unnamed prepared statement"
            raise PgError("E_NAME", "26000", what, "prepare it first")
        return self.client.prepared[name]

    def _portal(self, name: str) -> Portal:
        if name not in self.client.portals:
            raise PgError(
                "E_NAME", "34000", f"there is no portal {name!r}", "bind it first; a transaction's end closes it"
            )
        return self.client.portals[name]

    # answers

    async def _rows(self, answer: Answer, formats: Sequence[int], limit: int) -> None:
        last = answer.count if limit <= 0 else min(answer.count, answer.at + limit)
        write, piece = self._writer(answer, formats, last - answer.at)
        while answer.at < last:
            stop = min(answer.at + piece, last)
            self.wire.put(write(answer.at, stop))
            answer.at = stop
            if stop < last:
                await self.wire.drained()
                await asyncio.sleep(0)
                if self.client.stop.is_set():
                    raise StoppedError("E_CANCELLED", "the statement was cancelled while its rows were sent", "")

    def _writer(self, answer: Answer, formats: Sequence[int], count: int) -> tuple[Callable[[int, int], bytes], int]:
        """A function from places to messages, and how many rows it takes at a time."""
        assert answer.columns is not None
        zone = self.client.settings.zone
        if count >= COLUMNWISE_ROWS and answer.coded is not None and answer.columns:
            codec, codes = answer.coded
            encode = Columnwise(answer.columns, formats, zone, codec)
            return lambda start, stop: encode(codes[:, start:stop]), column_encoder.ENCODED_COLUMN_ROWS
        write = RowWriter(answer.columns, formats, zone)
        return lambda start, stop: write(answer.take(start, stop)), ENCODED_ROWS

    def _complete(self, answer: Answer) -> None:
        self.wire.put(messages.command_complete(answer.tag) if answer.tag else messages.EMPTY_QUERY)

    async def _ready(self) -> None:
        self.client.active = False
        for name, value in self.client.settings.news():
            self.wire.put(messages.parameter_status(name, value))
        self.wire.put(messages.ready(self.client.status))
        await self.wire.drained()

    def _failed(self, error: Exception, severity: str = "ERROR", text: str = "", start: int = 0) -> None:
        if isinstance(error, copy_protocol.Ended):  # the client was told already
            return
        self.wire.put(messages.error_response(fields_of(error, severity, text, start)))
