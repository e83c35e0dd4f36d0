"""Messages to subscribers: JSON texts, or for Arrow, envelopes (`everview.wire.envelopes`).

    {"type": "snapshot", "id": 1, "time": 7, "rows": [[1, "5", "Graz"]]}           contents: count, then the values
    {"type": "snapshot", "id": 1, "time": 7, "rows": [...], "reset": "history"}      replaces earlier contents
    {"type": "changes", "id": 1, "from": 7, "to": 9, "rows": [[-1, "5", "Graz"]]}  signed counts
    {"type": "end", "id": 1, "error": {...}}                                       the relation was dropped
    {"type": "commit", "from": 7, "to": 9}                                         all of the above hold at 9

All frames of one commit are one message, a list, which a client applies atomically. The rows of a chunk are encoded
once for all recipients, and a message with a single relation is put into its WebSocket frame once (`framed`).
"""

from __future__ import annotations

import pyarrow as pa

from everview.server.chunks import Chunk
from everview.server.http.json_values import dumped, rows_shown
from everview.server.subscription import Commit, Frame
from everview.wire.envelopes import packed
from everview.wire.error_records import told
from everview.wire.values import rows_written


def framed(commit: Commit) -> bytes:
    """A commit as a text message in a WebSocket frame; one with a single relation is shared by all recipients."""
    first = commit.frames[0] if len(commit.frames) == 1 else None
    if first is None or first.chunk is None:
        return text_frame(message(commit))
    name = f"{first.id} {first.kind} {first.reset} {commit.start} {commit.time}"
    found = first.chunk.encoded.get(name)
    if found is None:
        found = text_frame(message(commit))
        if len(first.chunk.encoded) <= VARIANTS:
            first.chunk.encoded[name] = found
    return found


VARIANTS = 8
"""Number of cached messages per chunk; its rows are encoded once for any others."""


_TEXT = 0x81
"""The first byte of an unfragmented text frame (RFC 6455, 5.2)."""


def text_frame(message: bytes) -> bytes:
    """A text message as a server's WebSocket frame, which has no mask.

    >>> text_frame(b"Hello")
    b'\\x81\\x05Hello'
    """
    size = len(message)
    if size < 126:
        return bytes((_TEXT, size)) + message
    if size < 1 << 16:
        return bytes((_TEXT, 126)) + size.to_bytes(2, "big") + message
    return bytes((_TEXT, 127)) + size.to_bytes(8, "big") + message


def message(commit: Commit) -> bytes:
    """A commit as a text message."""
    parts = [_frame(commit, frame) for frame in commit.frames]
    return b"[" + b",".join([*parts, dumped(_end(commit))]) + b"]"


def envelope(commit: Commit) -> bytes:
    """A commit as a binary message: the same frames, with the numbers of the attached tables for rows."""
    heads: list[dict[str, object]] = []
    tables: list[pa.Table] = []
    for frame in commit.frames:
        head = _head(commit, frame)
        if frame.chunk is not None:
            head["table"] = len(tables)
            tables.append(frame.chunk.to_arrow())
        heads.append(head)
    return packed({"frames": [*heads, _end(commit)]}, tables)


def exact(commit: Commit) -> bytes:
    """A commit as a text message with exact Python values (`everview.wire.values`)."""
    parts = []
    for frame in commit.frames:
        head = dumped(_head(commit, frame))
        parts.append(head if frame.chunk is None else head[:-1] + b"," + _exact_rows(frame.chunk) + b"}")
    return b"[" + b",".join([*parts, dumped(_end(commit))]) + b"]"


def _exact_rows(chunk: Chunk) -> bytes:
    found = chunk.encoded.get("exact")
    if found is None:
        said = dumped({"rows": rows_written(chunk.rows), "diffs": chunk.diffs.tolist()})
        found = chunk.encoded["exact"] = said[1:-1]
    return found


def _end(commit: Commit) -> dict[str, object]:
    return {"type": "commit", "from": commit.start, "to": commit.time}


def _head(commit: Commit, frame: Frame) -> dict[str, object]:
    head: dict[str, object] = {"type": frame.kind, "id": frame.id}
    if frame.kind == "snapshot":
        head["time"] = commit.time
        if frame.reset:
            head["reset"] = frame.reset
    elif frame.kind == "changes":
        assert frame.chunk is not None  # one that goes on with a token is told from where
        head |= {"from": min(frame.chunk.start, commit.start) if commit.start >= 0 else frame.chunk.start}
        head |= {"to": commit.time}
    elif frame.error is not None:
        head["error"] = told(frame.error)
    return head


def _frame(commit: Commit, frame: Frame) -> bytes:
    head = dumped(_head(commit, frame))
    if frame.chunk is None:
        return head
    return head[:-1] + b',"rows":' + rows_of(frame.chunk) + b"}"


def rows_of(chunk: Chunk) -> bytes:
    """The rows of a chunk as JSON, each with its count in front; encoded once."""
    found = chunk.encoded.get("json")
    if found is None:
        rows = rows_shown(chunk.types, chunk.rows)
        signed = [[diff, *row] for row, diff in zip(rows, chunk.diffs.tolist(), strict=True)]
        found = chunk.encoded["json"] = dumped(signed)
    return found
