"""Text files in blocks of whole records.

A position in a text file is a byte offset at the end of a record, so reading resumes there without looking at earlier
data, and a file that is being appended to can be followed. A record ends at a line break outside quotes: quotes come in
pairs (RFC 4180 doubles a quote to escape it), so a line break with an even number of quotes since the last record's end
is outside.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

BLOCK = 1 << 22
"""Bytes read at a time."""

NEWLINE = 10


def record_ends(data: bytes, quote: int | None) -> npt.NDArray[np.intp]:
    """Offsets just after the line breaks that end records.

    >>> record_ends(b'a,"x' + b'\\n' + b'y"' + b'\\n' + b'b', ord('"')).tolist()
    [8]
    """
    array = np.frombuffer(data, dtype=np.uint8)
    ends = np.flatnonzero(array == NEWLINE)
    if quote is not None and quote in data:
        quotes = np.flatnonzero(array == quote)
        ends = ends[np.searchsorted(quotes, ends) % 2 == 0]
    return ends + 1


def blocks(
    file: Any, at: int, *, limit: int | None = None, quote: int | None = None, whole: bool = True
) -> Iterator[tuple[bytes, int]]:
    """(bytes of whole records, offset after them), from a file positioned at offset `at`.

    At most `limit` records each. What follows the last line break counts as a record if the file is `whole`; if it is
    still growing, it waits.
    """
    rest = b""
    while True:
        read = file.read(BLOCK)
        data = rest + read
        ends = record_ends(data, quote)
        start = 0
        while len(ends):
            taken = len(ends) if limit is None else min(limit, len(ends))
            end = int(ends[taken - 1])
            at += end - start
            yield data[start:end], at
            start, ends = end, ends[taken:]
        rest = data[start:]
        if not read:
            break
    if rest and whole:
        yield rest, at + len(rest)
