"""Cursors: DECLARE, FETCH, MOVE and CLOSE.

A query's rows are computed when the cursor is declared, all as of that time; FETCH returns them piece by piece, in any
direction. A cursor for SUBSCRIBE has no end: FETCH returns what has arrived meanwhile, or waits (WITH (timeout =
'1s')): see `subscribe_statements`.
"""

from __future__ import annotations

import re

from everview.codes.digits import whole_number
from everview.errors import did_you_mean
from everview.server.pg.answers import Answer, Column
from everview.server.pg.client import Client, Cursor
from everview.server.pg.commands import Command, Reader
from everview.server.pg.lexer import Piece
from everview.server.pg.sqlstates import PgError
from everview.server.pg.subscribe_statements import Live, open_live

EVERY = 1 << 62
"""More rows than there can be: FETCH ALL."""

_DIRECTIONS = ("NEXT", "PRIOR", "FIRST", "LAST", "ABSOLUTE", "RELATIVE", "FORWARD", "BACKWARD", "ALL")


async def declare(client: Client, command: Command) -> Answer | None:
    """DECLARE name [BINARY] [INSENSITIVE] [[NO] SCROLL] CURSOR [WITH | WITHOUT HOLD] FOR query | SUBSCRIBE ..."""
    from everview.server.pg import statement_executor  # which imports this

    words = Reader(command, 1)
    name = words.name("a cursor")
    while not words.next_is("CURSOR"):
        if not any(words.next_is(*w) for w in (("INSENSITIVE",), ("ASENSITIVE",), ("NO", "SCROLL"), ("SCROLL",))):
            if words.next_is("BINARY"):
                raise words.error("BINARY cursors are not supported", "ask for binary values when fetching")
            raise words.error("CURSOR is missing here", "DECLARE name CURSOR FOR SELECT ...")
    held = words.next_is("WITH", "HOLD")
    if not held:
        words.next_is("WITHOUT", "HOLD")
    words.need("FOR")
    if not held and not client.explicit:
        raise PgError("E_TRANSACTION", "25P01", "DECLARE CURSOR needs a transaction", "BEGIN one, or say WITH HOLD")
    if name in client.cursors:
        raise PgError("E_NAME", "42P03", f"cursor {name} already exists", "CLOSE it first")
    start = words.take("a query").start
    inner = Command.of(Piece(command.text[start:], command.start + start))
    if inner.first == "SUBSCRIBE":
        live = await open_live(client, inner)
        client.cursors[name] = Cursor(live, held, live.close)
        return Answer("DECLARE CURSOR")
    if inner.first not in ("SELECT", "WITH", "VALUES", "TABLE", "("):
        raise words.error("a cursor is for a query or SUBSCRIBE")
    found = await statement_executor.prepared(client, inner)
    answer = await statement_executor.executed(client, found, found.given)
    client.cursors[name] = Cursor(answer, held)
    return Answer("DECLARE CURSOR")


def _cursor(client: Client, name: str) -> Cursor:
    if name not in client.cursors:
        hint = did_you_mean(name, client.cursors)
        raise PgError("E_NAME", "34000", f"there is no cursor {name}", hint)
    return client.cursors[name]


class _Fetch:
    """How many rows of which cursor, in which direction."""

    def __init__(self, client: Client, command: Command) -> None:
        words = Reader(command, 1)
        self.direction, self.count = "FORWARD", 1
        self._direction(words)
        if not words.next_is("FROM"):
            words.next_is("IN")
        self.name = words.name("a cursor")
        self.timeout = _timeout(words)
        words.end()
        self.cursor = _cursor(client, self.name)

    def _direction(self, words: Reader) -> None:
        said = next((d for d in _DIRECTIONS if words.next_is(d)), None)
        number = self._number(words)
        if said in (None, "FORWARD", "BACKWARD") and number is None and said is not None and words.next_is("ALL"):
            number = EVERY
        match said:
            case None:
                self.count = 1 if number is None else number
            case "ALL":
                self.count = EVERY
            case "PRIOR":
                self.direction = "BACKWARD"
            case "FIRST" | "LAST" | "NEXT":
                self.direction = "FORWARD" if said == "NEXT" else said
            case _:
                self.direction = said
                self.count = 1 if number is None else number
        if self.count < 0 and self.direction in ("FORWARD", "BACKWARD"):  # the other way round
            self.direction = "BACKWARD" if self.direction == "FORWARD" else "FORWARD"
            self.count = -self.count

    @staticmethod
    def _number(words: Reader) -> int | None:
        sign = -1 if words.next_is("-") else 1
        if words.more() and words.words[words.at].kind == "number" and words.words[words.at].text.isdecimal():
            return sign * whole_number(words.take("a number").text)
        return None

    def window(self) -> tuple[int, int, int]:
        """Rows from one place to another, and where the cursor stands afterwards (rows before it)."""
        answer = self.cursor.answer
        at, total = answer.at, answer.count
        match self.direction:
            case "FIRST":
                return 0, min(1, total), min(1, total)
            case "LAST":
                return max(total - 1, 0), total, total
            case "ABSOLUTE" | "RELATIVE":
                place = self.count + (at if self.direction == "RELATIVE" else 0 if self.count >= 0 else total + 1)
                inside = 1 <= place <= total
                return (place - 1, place, place) if inside else (0, 0, 0 if place < 1 else total + 1)
            case "BACKWARD":
                if not self.count:
                    return 0, 0, at
                size = self.count
                stop = max(min(at, total + 1) - 1, 0)
                start = max(stop - size, 0)
                return start, stop, start + 1 if stop - start == size and size else 0
        stop = min(at + self.count, total)
        start = min(at, stop)
        return start, stop, stop if stop - start == self.count else total + 1


def _timeout(words: Reader) -> float | None:
    """WITH (timeout = '1s')"""
    if not words.next_is("WITH"):
        return None
    words.need("(")
    words.need("TIMEOUT")
    words.next_is("=")
    text = words.take("a duration").text
    words.need(")")
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*(ms|milliseconds?|s|sec|seconds?|m|min|minutes?|)\s*", text.lower())
    if found is None:
        raise words.error(f"{text!r} is not a duration", "WITH (timeout = '1s')")
    unit = 0.001 if found[2].startswith("ms") or found[2].startswith("milli") else 60 if found[2][:1] == "m" else 1
    return float(found[1]) * unit


def columns(client: Client, command: Command) -> list[Column] | None:
    """The columns that FETCH will give."""
    return _Fetch(client, command).cursor.answer.columns


async def fetch(client: Client, command: Command) -> Answer | None:
    """FETCH [direction] [FROM | IN] name [WITH (timeout = '1s')]"""
    wanted = _Fetch(client, command)
    answer = wanted.cursor.answer
    if isinstance(answer, Live):
        if wanted.direction != "FORWARD":
            raise PgError("E_UNSUPPORTED", "55000", "what was fetched of SUBSCRIBE is gone", "FETCH forward")
        rows = await answer.fetched(wanted.count, wanted.timeout)
        assert answer.columns is not None
        return Answer.of_rows(answer.columns, rows, f"FETCH {len(rows)}")
    start, stop, answer.at = wanted.window()
    rows = list(answer.take(start, stop))
    if wanted.direction == "BACKWARD":
        rows.reverse()
    assert answer.columns is not None
    return Answer.of_rows(answer.columns, rows, f"FETCH {len(rows)}")


async def move(client: Client, command: Command) -> Answer | None:
    """MOVE [direction] [FROM | IN] name"""
    wanted = _Fetch(client, command)
    if isinstance(wanted.cursor.answer, Live):
        raise PgError("E_UNSUPPORTED", "0A000", "MOVE is not for SUBSCRIBE", "FETCH")
    start, stop, wanted.cursor.answer.at = wanted.window()
    return Answer(f"MOVE {stop - start}")


async def close(client: Client, command: Command) -> Answer | None:
    """CLOSE name | ALL"""
    words = Reader(command, 1)
    if words.next_is("ALL"):
        close_all(client)
        return Answer("CLOSE CURSOR ALL")
    name = words.name("a cursor")
    words.end()
    _cursor(client, name).close()
    del client.cursors[name]
    return Answer("CLOSE CURSOR")


def close_all(client: Client) -> None:
    """Close all cursors."""
    for cursor in client.cursors.values():
        cursor.close()
    client.cursors.clear()
