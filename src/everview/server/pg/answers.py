"""Results of statements: columns, rows encoded piece by piece, and command tags.

Rows stay codes until they are sent, a piece at a time, so a result of a million rows needs memory for one piece. Here a
piece is decoded to Python values, which suits a few rows; `everview.server.pg.column_encoder` is for many.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from everview.codes.codec import Codec
from everview.codes.interner import Words
from everview.server.pg.formats import Writer, writer
from everview.server.pg.messages import Field, format_of
from everview.server.pg.oids import TYPES, modifier_of, oid_of, size_of
from everview.sql.answers.result import Result, coded
from everview.types import DataType

ENCODED_ROWS = 2000
"""Rows encoded at a time."""

_NULL = b"\xff\xff\xff\xff"
_INT = struct.Struct(">i")
_OID = struct.Struct(">I")


@dataclass(frozen=True)
class Column:
    """A column of an answer."""

    name: str
    declared: DataType
    oid: int = 0
    """the type reported to clients, if it differs"""

    @property
    def told(self) -> int:
        """The OID of its type."""
        return self.oid or oid_of(self.declared)

    def field(self) -> Field:
        """Its field description."""
        return Field(self.name, self.told, size_of(self.told), modifier_of(self.declared))

    def writer(self, binary: bool, zone: str) -> Writer:
        """A function from its values to bytes."""
        if binary and TYPES[self.told].size == 4 and self.declared.kind == "int" if self.told in TYPES else False:
            return _OID.pack if self.told in (26, 24, 28, 2205, 2206) else _INT.pack
        return writer(self.declared, binary, zone)


def columns_of(names: Sequence[str], types: Sequence[DataType]) -> list[Column]:
    """Columns of names and types."""
    return [Column(name, declared) for name, declared in zip(names, types, strict=True)]


Take = Callable[[int, int], Sequence[tuple[Any, ...]]]
"""Rows from one place to another."""


@dataclass
class Answer:
    """What a statement gives."""

    tag: str
    columns: list[Column] | None = None
    """None if it returns no rows"""
    count: int = 0
    take: Take = lambda start, stop: []
    notices: list[str] = field(default_factory=list)
    at: int = 0
    """how many rows were sent"""
    coded: tuple[Codec, Words] | None = None
    """its rows as codes, if they are ours"""

    @classmethod
    def of_result(cls, result: Result, tag: str) -> Answer:
        """Rows of ours."""
        codec, codes = coded(result)
        columns = columns_of(result.columns, result.types)
        take = lambda start, stop: codec.decode_rows(codes[:, start:stop])  # noqa: E731
        return cls(tag, columns, len(result), take, coded=(codec, codes))

    @classmethod
    def of_rows(cls, columns: list[Column], rows: Sequence[tuple[Any, ...]], tag: str) -> Answer:
        """Rows as they are."""
        return cls(tag, columns, len(rows), lambda start, stop: rows[start:stop])


class RowWriter:
    """Rows of some columns as messages.

    >>> from everview.types import INT, STR
    >>> write = RowWriter(columns_of(["x", "y"], [INT, STR]), (), "UTC")
    >>> write([(1, None)])
    b'D\\x00\\x00\\x00\\x0f\\x00\\x02\\x00\\x00\\x00\\x011\\xff\\xff\\xff\\xff'
    """

    def __init__(self, columns: Sequence[Column], formats: Sequence[int], zone: str) -> None:
        self._writers = [c.writer(bool(format_of(formats, i)), zone) for i, c in enumerate(columns)]
        self._head = struct.Struct(">cih")
        self._width = len(columns)

    def __call__(self, rows: Sequence[tuple[Any, ...]]) -> bytes:
        if not self._width or not rows:
            return self._head.pack(b"D", 6, 0) * len(rows)
        pack, sized = _INT.pack, []
        for write, values in zip(self._writers, zip(*rows, strict=True), strict=True):
            cells = [None if v is None else write(v) for v in values]
            sized.append([_NULL if c is None else pack(len(c)) + c for c in cells])
        head, width = self._head.pack, self._width
        bodies = map(b"".join, zip(*sized, strict=True))
        return b"".join([head(b"D", len(body) + 6, width) + body for body in bodies])
