"""Encoding of messages between driver and tasks: a small header and raw bytes; decoding executes nothing.

    "EVM1" | length of the header | number of parts | sizes of the parts | header, as JSON | part | part | ...

Numbers are little-endian and 32-bit, except for the 64-bit sizes. Header and parts are padded to multiples of 8 bytes,
so that words in them can be used in place. There is no checksum here: `channel` authenticates messages.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Sequence
from typing import Any

import numpy as np

from everview.errors import InternalError

MAGIC = b"EVM1"
_HEAD = struct.Struct("<4sII4x")
_FILL = bytes(8)
_encode = json.JSONEncoder(separators=(",", ":")).encode

Header = dict[str, Any]
Buffer = bytes | bytearray | memoryview


def pack(header: Header, parts: Sequence[Buffer] = ()) -> list[Buffer]:
    """A message as buffers, which are not copied; their concatenation is the message.

    >>> header, parts = unpack(b"".join(pack({"agenda": 3}, [b"abc", b""])))
    >>> header, [bytes(part) for part in parts]
    ({'agenda': 3}, [b'abc', b''])
    """
    text = _encode(header).encode()
    text += b" " * (-len(text) % 8)
    sizes = struct.pack(f"<{len(parts)}Q", *map(len, parts))
    pieces: list[Buffer] = [_HEAD.pack(MAGIC, len(text), len(parts)) + sizes + text]
    for part in parts:
        pieces.append(part)
        if len(part) % 8:
            pieces.append(_FILL[: -len(part) % 8])
    return pieces


def unpack(data: Buffer) -> tuple[Header, list[memoryview]]:
    """Header and parts of a message; parts are views of it."""
    view = memoryview(data)
    try:
        magic, length, count = _HEAD.unpack_from(view)
        sizes = struct.unpack_from(f"<{count}Q", view, _HEAD.size) if 8 * count <= len(view) else ()
        at = _HEAD.size + 8 * count + length
        if magic != MAGIC or len(sizes) != count or at + sum(_filled(size) for size in sizes) != len(view):
            raise ValueError(magic)
        header: Header = json.loads(bytes(view[at - length : at]))
    except (struct.error, ValueError):
        raise InternalError("E_PEER", "a message makes no sense", "report this") from None
    parts = []
    for size in sizes:
        parts.append(view[at : at + size])
        at += _filled(size)
    return header, parts


def _filled(size: int) -> int:
    return size + -size % 8


def bytes_of(words: np.ndarray) -> memoryview:
    """The bytes of an array, without a copy if it is contiguous."""
    return np.ascontiguousarray(words).reshape(-1).view(np.uint8).data


def words_in(part: memoryview) -> np.ndarray:
    """A part as words, without a copy; kernels may write to them if the message is writable."""
    return np.frombuffer(part, dtype=np.int64)
