"""Lists the files of a path: one file, everything in a directory, or a pattern, on any filesystem that PyArrow
supports.

Names that begin with `_` or `.`, or end in `.tmp`, `.crc` or `.inprogress`, are private or unfinished and are skipped,
as in Spark.
"""

from __future__ import annotations

import fnmatch
import os
import posixpath
from collections.abc import Iterator, Set
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from pyarrow import fs

from everview.errors import InputError
from everview.io.validation import path_of, reaching

UNFINISHED = (".tmp", ".crc", ".inprogress")
COMPRESSED = (".gz", ".bz2", ".zst", ".lz4", ".br")
_WILD = ("*", "?", "[")


_folder: ContextVar[str] = ContextVar("folder", default="")


@contextmanager
def paths_in(folder: str | os.PathLike[str]) -> Iterator[None]:
    """Resolve relative paths inside against this folder: that of the pipeline file, wherever it is run from. The paths
    are kept as written, so a pipeline that moves recognises its sinks.

    >>> with paths_in("/srv/shop"):
    ...     Place("in/orders").root
    '/srv/shop/in/orders'
    """
    token = _folder.set(os.path.abspath(folder))
    try:
        yield
    finally:
        _folder.reset(token)


def folder() -> str | None:
    """The folder that relative paths are resolved against, if set."""
    return _folder.get() or None


@dataclass(frozen=True)
class Found:
    """A file: its name below the listed place, its full path, size and modification time."""

    name: str
    path: str
    size: int
    modified: int


class Place:
    """A path, directory, pattern or URI.

    >>> Place("data/*.csv").root.endswith("/data")
    True
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.given = path_of(path)
        text = self.given
        if "://" in text:
            wild = next((i for i, c in enumerate(text) if c in _WILD), None)
            base = text if wild is None else text[: text.rindex("/", 0, wild)]
            with reaching(f"{self.given!r} cannot be reached", hint="write a path, or a URI like s3://bucket/folder"):
                self.filesystem, root = fs.FileSystem.from_uri(base)
            path_text = root + text[len(base) :]
        else:
            self.filesystem, path_text = fs.LocalFileSystem(), os.path.abspath(os.path.join(_folder.get(), text))
        parts = path_text.split("/")
        at = next((i for i, part in enumerate(parts) if any(c in part for c in _WILD)), None)
        self.root = path_text if at is None else "/".join(parts[:at])
        self.pattern = None if at is None else "/".join(parts[at:])

    @property
    def local(self) -> bool:
        """Whether it is on the local filesystem."""
        return isinstance(self.filesystem, fs.LocalFileSystem)

    def files(self, order: str = "modified") -> list[Found]:
        """The current files, oldest first (or by name)."""
        with reaching(f"{self.given!r} cannot be listed"):
            return self._files(order)

    def _files(self, order: str) -> list[Found]:
        info = self.filesystem.get_file_info(self.root)
        if info.type == fs.FileType.File:
            return [Found(posixpath.basename(self.root), self.root, info.size, info.mtime_ns or 0)]
        if info.type == fs.FileType.NotFound:
            return []
        listed = self.filesystem.get_file_info(fs.FileSelector(self.root, recursive=True))
        found = [
            Found(name, f.path, f.size, f.mtime_ns or 0)
            for f in listed
            if f.type == fs.FileType.File and self._taken(name := posixpath.relpath(f.path, self.root))
        ]
        return sorted(found, key=lambda f: (f.modified, f.name) if order == "modified" else (0, f.name))

    def let_go(self, names: Set[str]) -> Set[str]:
        """Called when files were read for good; returns which of them were deleted. A place with others' files keeps
        them."""
        return frozenset()

    def _taken(self, name: str) -> bool:
        if name.endswith(UNFINISHED) or any(part.startswith(("_", ".")) for part in name.split("/")):
            return False
        return self.pattern is None or fnmatch.fnmatchcase(name, self.pattern)

    def check(self) -> None:
        """Refuse a place that does not exist: a misspelt path would be waited for forever."""
        with reaching(f"{self.given!r} cannot be looked at"):
            kind = self.filesystem.get_file_info(self.root).type
        if kind == fs.FileType.NotFound:
            raise InputError(
                "E_FILE",
                f"there is no file or directory {self.given!r}",
                "check the path; a directory that files will arrive in must exist, but may be empty",
            )

    def opener(self, file: Found) -> Any:
        """A function that opens one of the files."""
        if file.name.endswith(COMPRESSED):
            return lambda: self.filesystem.open_input_stream(file.path)
        return lambda: self.filesystem.open_input_file(file.path)
