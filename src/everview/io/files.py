"""Files as a source: one file, or a directory that grows.

Every file has its own mark, `file/<name>`: its read position, and its size when it was read completely. Files must be
complete when they appear: write them elsewhere (or under a name that begins with `_` or `.`) and rename them into
place. A file that changes after it was read is an error, because old and new data cannot be distinguished; text files
that are appended to can be followed with `tail=True`, which reads whole lines only.

The same object describes a place to write to: see `everview.io.file_sink`.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass
from typing import Any, Literal

import pyarrow as pa

from everview.errors import EverviewError, InputError
from everview.io.formats import Format, Piece
from everview.io.listing import Found, Place
from everview.io.source import Bad, Chunk, Source, Wanted
from everview.io.validation import choice_option, flag_option


@dataclass
class _Read:
    """The read position of a file."""

    at: int
    size: int
    done: bool

    def text(self) -> str:
        return json.dumps([self.at, self.size, int(self.done)])

    @staticmethod
    def of(text: str) -> _Read:
        at, size, done = json.loads(text)
        return _Read(at, size, bool(done))


class _Reading:
    """A file being read, one piece ahead: the last piece must be marked as such."""

    def __init__(self, file: Found, at: int, pieces: Iterator[Piece]) -> None:
        self.file = file
        self.at = at
        self._pieces = pieces
        self.next_piece = self._pull()

    def _pull(self) -> Piece | None:
        try:
            return next(self._pieces, None)
        except (pa.ArrowInvalid, OSError) as error:
            broken = _unreadable(self.file, error)
            self._pieces = iter(())
            return Piece([], self.at, [Bad(self.file.path, f"[{broken.code}] {broken.message}", "")])

    def take(self) -> Piece | None:
        """The next piece; then `next_piece` is the one after it."""
        piece = self.next_piece
        if piece is not None:
            self.at = piece.at
            self.next_piece = self._pull()
        return piece


class Files(Source):
    """Files of one format at a path: a source for `db.source`, a sink for `view.write_to`. Made by
    `everview.io.csv`, `json`, `parquet` and `arrow`.

    >>> import everview as ev
    >>> isinstance(ev.io.csv("orders/*.csv"), ev.io.Files)
    True
    """

    def __init__(
        self,
        path: str | os.PathLike[str] | Place,
        format: Format,
        *,
        tail: bool = False,
        order: Literal["modified", "name"] = "modified",
    ) -> None:
        if not isinstance(format, Format):
            raise InputError("E_FORMAT", f"{format!r} is not a format", "use ev.io.csv(path), ev.io.json(path), ...")
        if flag_option("tail", tail) and not format.text:
            raise InputError(
                "E_OPTION", f"{format.suffix[1:]} files cannot be followed", "tail=True is for csv and json"
            )
        choice_option("order", order, ("modified", "name"))
        self.place = path if isinstance(path, Place) else Place(path)
        self.format = format
        self._tail = tail
        self._order = order
        self._read: dict[str, _Read] = {}
        self._safe: set[str] = set()  # files that were read completely and committed
        self._gone: Set[str] = frozenset()  # those whose marks can be deleted
        self._wanted: Wanted | None = None
        self._snapshots = False
        self._seen = ""
        self._waiting: list[Found] = []
        self._reading: _Reading | None = None

    def describe(self) -> str:
        return f"{self.format.suffix[1:]} {self.place.given}"

    def __repr__(self) -> str:
        return f"everview.io.{self.format.suffix[1:]}({self.place.given!r})"

    def schema(self) -> pa.Schema:
        self.place.check()
        for file in self.place.files(self._order):
            try:
                found = self.format.schema(self.place.opener(file))
            except (pa.ArrowInvalid, OSError) as error:
                raise _unreadable(file, error) from None
            if len(found.names):
                return found
        raise InputError(
            "E_SCHEMA",
            f"there is nothing yet in {self.place.given!r} to tell the columns from",
            'give schema={"column": type, ...}',
        )

    def open(self, marks: Mapping[str, str], wanted: Wanted | None, snapshots: bool) -> None:
        self.place.check()
        self._read = {name[5:]: _Read.of(text) for name, text in marks.items() if name.startswith("file/")}
        self._safe = {name for name, read in self._read.items() if read.done}
        self._gone = frozenset()
        self._seen = marks.get("seen", "")
        self._wanted = wanted
        self._snapshots = snapshots
        self._waiting, self._reading = [], None

    # growing

    def poll(self, limit: int | None) -> Chunk | None:
        if self._snapshots:
            return self._snapshot()
        listed = False
        while True:
            if self._reading is None:
                if not self._waiting and not listed:
                    self._waiting = [f for f in self.place.files(self._order) if self._has_more(f)]
                    self._gone = self.place.let_go(self._safe)
                    listed = True
                if not self._waiting:
                    return None
                self._reading = self._begin(self._waiting.pop(0), limit)
            chunk = self._next(self._reading)
            if chunk is not None:
                return chunk

    def _has_more(self, file: Found) -> bool:
        read = self._read.get(file.name)
        if read is None or (not read.done and not self._tail) or (self._tail and file.size > read.size):
            return True
        if file.size == read.size:
            return False
        raise InputError(
            "E_SOURCE_CHANGED",
            f"{file.path} was read when it had {read.size} bytes and has {file.size} now",
            'write new records to new files, follow text files that grow with tail=True, or use mode="snapshot"',
        )

    def _begin(self, file: Found, limit: int | None) -> _Reading:
        at = self._read[file.name].at if file.name in self._read else 0
        open = self.place.opener(file)
        return _Reading(file, at, self.format.pieces(open, file.path, at, limit, self._wanted, not self._tail))

    def _next(self, reading: _Reading) -> Chunk | None:
        """The file's next piece; None if there is nothing (more) in it."""
        file, piece = reading.file, reading.take()
        last = reading.next_piece is None
        if last:
            self._reading = None
        at = reading.at if piece is None else piece.at
        read = self._read[file.name] = _Read(at, file.size if last else 0, last and not self._tail)
        if piece is None:
            return None
        where = f"{file.path} up to {'byte' if self.format.text else 'row'} {at}"
        marks = {f"file/{name}": "" for name in self._gone}
        return Chunk(where, piece.rows, marks | {f"file/{file.name}": read.text()}, piece.bad)

    def committed(self, chunk: Chunk) -> None:
        for name, text in chunk.marks.items():
            if name.startswith("file/") and text and _Read.of(text).done:
                self._safe.add(name[5:])
            elif name.startswith("file/") and not text:
                self._safe.discard(name[5:])
                self._read.pop(name[5:], None)

    # snapshots

    def _snapshot(self) -> Chunk | None:
        files = self.place.files(self._order)
        seen = json.dumps([[f.name, f.size, f.modified] for f in files])
        if not files or seen == self._seen:
            return None
        pieces: list[Piece] = []
        for file in files:
            try:
                pieces += self.format.pieces(self.place.opener(file), file.path, 0, None, self._wanted, True)
            except (pa.ArrowInvalid, OSError) as error:
                raise _unreadable(file, error) from None
        self._seen = seen
        bad = [b for piece in pieces for b in piece.bad]
        return Chunk(self.place.given, _together([p.rows for p in pieces]), {"seen": seen}, bad, snapshot=True)


def _together(parts: list[pa.Table | list[Any]]) -> pa.Table | list[Any]:
    """All pieces as one table, or as rows if some piece is rows."""
    if parts and all(isinstance(part, pa.Table) for part in parts):
        return pa.concat_tables(parts, promote_options="default")
    return [row for part in parts for row in (part.to_pylist() if isinstance(part, pa.Table) else part)]


def _unreadable(file: Found, error: Exception) -> EverviewError:
    return InputError(
        "E_FILE",
        f"{file.path} cannot be read: {str(error).splitlines()[0] if str(error) else type(error).__name__}",
        "is it complete, and of this format? write files elsewhere and rename them into place",
    )
