"""Large results as Arrow, sent piece by piece.

A result of a million rows encoded as one body is copied half a dozen times on its way to the socket, and each copy is
fresh memory that the system has to provide. Here pieces of some ten thousand rows are
decoded and encoded in a thread, while the piece before is on its way. The memory is used again, the client can begin to
read at once, and a client that reads slowly holds up nobody.

An Arrow stream is a schema, record batches and an end mark, so each piece is a batch of its own. Columns whose Arrow
type depends on their values (enums have a dictionary) cannot be cut; such results are sent whole.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

from everview.types import DataType

if TYPE_CHECKING:
    from everview.sql.answers.result import Result

ROWS_PER_PIECE = 32_768
"""Also the number of rows from which on a result is cut."""

PLAIN = frozenset(
    {"int", "float", "bool", "str", "bytes", "date", "timestamp", "timestamptz", "time", "decimal", "uuid", "json"}
)
"""Kinds of columns whose Arrow type is known without looking at values."""

END = b"\xff\xff\xff\xff\0\0\0\0"
"""The end mark of an Arrow stream."""


def can_be_cut(types: list[DataType], rows: int) -> bool:
    """Whether a result is sent in pieces.

    >>> can_be_cut([DataType("int")], 10), can_be_cut([DataType("int")], 1_000_000)
    (False, True)
    """
    return rows > ROWS_PER_PIECE and all(t.kind in PLAIN for t in types)


async def pieces(result: Result) -> AsyncIterator[bytes | memoryview]:
    """A result as an Arrow stream; the next piece is made while the last one is sent."""
    starts = range(0, len(result), ROWS_PER_PIECE)
    coming = asyncio.ensure_future(asyncio.to_thread(_encoded, result, 0))
    try:
        for start in starts:
            piece = await coming
            if start + ROWS_PER_PIECE < len(result):
                coming = asyncio.ensure_future(asyncio.to_thread(_encoded, result, start + ROWS_PER_PIECE))
            for part in piece:
                yield part
    finally:
        coming.cancel()
    yield END


def _encoded(result: Result, start: int) -> list[memoryview]:
    """A piece; the first one begins with the schema."""
    table = result.to_arrow(start, start + ROWS_PER_PIECE)
    messages = [batch.serialize() for batch in table.to_batches()]
    if start == 0:
        messages.insert(0, table.schema.serialize())
    return [memoryview(m) for m in messages]
