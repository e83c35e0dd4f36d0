"""Records: a JSON header and binary parts, each with a checksum, as one run of bytes.

    "EVR1" | length of the header | crc32 of the header | header | part | part | ...

all numbers little-endian 32-bit. The header has the length and crc32 of each part, so a torn or changed file is
detected, never misread. Nothing in it is code: reading a record runs nothing.
"""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Sequence
from typing import Any

from everview.errors import StoreError

MAGIC = b"EVR1"
_HEAD = struct.Struct("<4sII")

Header = dict[str, Any]


def encode(header: Header, parts: Sequence[bytes | memoryview] = ()) -> bytes:
    """Encode a record.

    >>> header, parts = decode(encode({"time": 3}, [b"abc"]), "a record")
    >>> header["time"], bytes(parts[0])
    (3, b'abc')
    """
    sizes = [[len(memoryview(p).cast("B")), zlib.crc32(p)] for p in parts]
    text = json.dumps({**header, "parts": sizes}, separators=(",", ":")).encode()
    return b"".join([_HEAD.pack(MAGIC, len(text), zlib.crc32(text)), text, *parts])


def decode(data: Any, where: str) -> tuple[Header, list[memoryview]]:
    """Decode and check a record; `where` names it in errors.

    >>> decode(encode({"time": 3})[:-1], "log/1")
    Traceback (most recent call last):
    everview.errors.StoreError: [E_TORN] log/1 is cut off at byte 12
      hint: restore the file from a copy; nothing was changed
    """
    view = memoryview(data).cast("B")
    if len(view) < _HEAD.size:
        raise torn(where, 0)
    magic, length, crc = _HEAD.unpack_from(view)
    if magic != MAGIC:
        raise damaged(where, 0, "it does not begin as a record does")
    text = view[_HEAD.size : _HEAD.size + length]
    if len(text) != length:
        raise torn(where, _HEAD.size)
    if zlib.crc32(text) != crc:
        raise damaged(where, _HEAD.size, "the header is not what was written")
    header: Header = json.loads(bytes(text))
    at, parts = _HEAD.size + length, []
    for size, crc in header.pop("parts"):
        part = view[at : at + size]
        if len(part) != size:
            raise torn(where, at)
        if zlib.crc32(part) != crc:
            raise damaged(where, at, "a part is not what was written")
        parts.append(part)
        at += size
    return header, parts


def torn(where: str, at: int) -> StoreError:
    """Return the error for truncated bytes: the writer did not finish, or somebody cut them."""
    return StoreError("E_TORN", f"{where} is cut off at byte {at}", "restore the file from a copy; nothing was changed")


def damaged(where: str, at: int, what: str) -> StoreError:
    """Return the error for bytes that are not what was written."""
    return StoreError(
        "E_DAMAGED",
        f"{where} is damaged at byte {at}: {what}",
        "restore the file from a copy; nothing was changed",
    )
