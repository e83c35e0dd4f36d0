"""A message with tables: the length of its JSON (4 bytes), the JSON, then Arrow streams, whose lengths are in it."""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from everview.errors import InputError
from everview.wire.values import parsed

KIND = "application/vnd.everview"
"""The media type of such messages."""

ARROW = "application/vnd.apache.arrow.stream"
"""That of an Arrow stream alone."""

_LENGTH = struct.Struct("<I")


def packed(head: Mapping[str, Any], tables: Sequence[pa.Table] = ()) -> bytes:
    """A message as bytes.

    >>> head, tables = unpacked(packed({"time": 3}, [pa.table({"x": [1, 2]})]))
    >>> head, tables[0].to_pydict()
    ({'time': 3}, {'x': [1, 2]})
    """
    parts = [arrow_stream(table) for table in tables]
    text = json.dumps({**head, "parts": [len(p) for p in parts]} if parts else head, separators=(",", ":")).encode()
    return b"".join([_LENGTH.pack(len(text)), text, *parts])


def unpacked(data: bytes) -> tuple[dict[str, Any], list[pa.Table]]:
    """Parse a message."""
    if len(data) < _LENGTH.size or len(data) < _LENGTH.size + (size := _LENGTH.unpack_from(data)[0]):
        raise _cut_off()
    head = parsed(data[_LENGTH.size : _LENGTH.size + size])
    if not isinstance(head, dict):
        raise InputError("E_MESSAGE", "a message must be a JSON object", "see docs/server.md for what is understood")
    at, tables = _LENGTH.size + size, []
    lengths = head.pop("parts", [])
    if not isinstance(lengths, list) or not all(isinstance(n, int) and n >= 0 for n in lengths):
        raise _cut_off()
    for length in lengths:
        if at + length > len(data):
            raise _cut_off()
        tables.append(arrow_table(memoryview(data)[at : at + length]))
        at += length
    return head, tables


def arrow_stream(table: pa.Table) -> bytes:
    """A table as an Arrow stream."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    found: bytes = sink.getvalue().to_pybytes()
    return found


def arrow_table(data: bytes | memoryview) -> pa.Table:
    """The table in an Arrow stream."""
    try:
        table = pa.ipc.open_stream(pa.py_buffer(data)).read_all()
        table.validate(full=True)  # untrusted lengths and offsets
    except (pa.ArrowException, OSError, ValueError) as error:
        raise InputError("E_FORMAT", f"this is not an Arrow stream: {error}", "send an Arrow IPC stream") from None
    return table


def _cut_off() -> InputError:
    return InputError("E_MESSAGE", "a message is cut off", "send it again, whole")
