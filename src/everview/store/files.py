"""Storage backends: a small set of operations on a directory, local, in an object store, or on any other PyArrow
filesystem.

Everything above needs only this: files appear atomically under their final name (`write`), a name can be claimed by one
writer only (`create`), a file is replaced only if unchanged (`swap`), files are read or mapped, listed and deleted.

On a local filesystem `create` is a hard link, which fails if the name is taken, and files and folders are synced before
a name counts. On object stores it is a conditional put (`everview.store.objects`), on HDFS a rename that refuses a
taken name (`everview.store.hdfs`). Elsewhere only PyArrow's operations are available: files appear by renaming, and
claiming a name is a check before that. Two writers that claim one name at the same instant may then both succeed
(`exclusive` is False); the owner file (`everview.store.owner`) keeps them apart.
"""

from __future__ import annotations

import errno
import hashlib
import os
import re
import secrets
import time
from abc import ABC, abstractmethod
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import fs

from everview.errors import InputError, StoreError
from everview.store.disk import DISK, Disk

FULL = {errno.ENOSPC, errno.EFBIG, errno.EDQUOT}
"""Error numbers for a lack of space."""

TEMPORARY = re.compile(r"\..+\.\d+\.[0-9a-f]{8}")
"""Names of files that a local writer has not finished; other hidden files are foreign."""


class Files(ABC):
    """The files of one directory tree; names are relative and have at most one folder."""

    root: str
    exclusive = False
    """Whether `create` and `swap` let only one of several concurrent writers succeed."""
    disk: Disk = DISK
    """The disk of a local directory."""

    @abstractmethod
    def read(self, name: str) -> bytes:
        """The whole file; FileNotFoundError if there is none."""

    @abstractmethod
    def map(self, name: str) -> pa.Buffer:
        """The whole file, mapped into memory if possible."""

    @abstractmethod
    def write(self, name: str, data: Any, *, lasting: bool = True) -> None:
        """Create or replace a file atomically. One that is not lasting may be gone after a crash of the machine."""

    @abstractmethod
    def create(self, name: str, data: Any) -> bool:
        """Create a file if the name is free; return whether it was."""

    def tagged(self, name: str) -> tuple[bytes, str]:
        """The whole file, and a tag that changes with its contents."""
        data = self.read(name)
        return data, hashlib.sha256(data).hexdigest()

    def swap(self, name: str, data: bytes, tag: str | None) -> str | None:
        """Replace the file that has this tag (None: create it, if absent); return the new tag, or None if the tag
        differs."""
        try:
            seen = self.tagged(name)[1]
        except FileNotFoundError:
            seen = None
        if seen != tag:
            return None
        self.write(name, data)
        return hashlib.sha256(data).hexdigest()

    @abstractmethod
    def exists(self, name: str) -> bool:
        """Whether there is such a file."""

    @abstractmethod
    def ages(self, folder: str) -> dict[str, float]:
        """Names of a folder's finished files, with their ages in seconds."""

    @abstractmethod
    def delete(self, name: str) -> None:
        """Remove a file; a missing one is fine."""

    def delete_temporaries(self, folder: str) -> None:  # noqa: B027 (most kinds leave nothing)
        """Remove files left by writers that died; only the owner can know that they are dead."""

    def settle(self, folders: Iterable[str]) -> None:  # noqa: B027 (elsewhere a name that is seen stays)
        """Make safe what is visible here: its writer may have been killed before doing so."""

    def list(self, folder: str) -> list[str]:
        """Names of a folder's finished files, in order."""
        return sorted(self.ages(folder))

    def where(self, name: str) -> str:
        """The file's full path, for messages."""
        return f"{self.root}/{name}"

    @property
    def local(self) -> Path | None:
        """The directory, if it is a local one."""
        return None

    def near(self, name: str) -> Path | None:
        """A local file with the same contents, if possible, to be mapped (`store.local_cache`)."""
        return None if self.local is None else self.local / name


def no_room(where: str, error: OSError) -> StoreError:
    """Return the error for a write that failed for lack of space."""
    if error.errno in FULL:
        return StoreError("E_DISK", f"no room to write {where}: {error.strerror}", "free some space and try again")
    return StoreError("E_DISK", f"cannot write {where}: {error.strerror or error}", "check path and permissions")


class LocalFiles(Files):
    """Files under a local directory."""

    exclusive = True

    def __init__(self, path: Path, disk: Disk = DISK) -> None:
        self.path = path.absolute()
        self.root = str(self.path)
        self.disk = disk

    @property
    def local(self) -> Path | None:
        return self.path

    def read(self, name: str) -> bytes:
        return self.disk.read(self.path / name)

    def map(self, name: str) -> pa.Buffer:
        return self.disk.map(self.path / name)

    def write(self, name: str, data: Any, *, lasting: bool = True) -> None:
        temporary = self._temporary(name, data, lasting)
        try:
            self.disk.replace(temporary, self.path / name)
        except OSError as error:
            self.disk.unlink(temporary)
            raise no_room(self.where(name), error) from error
        if lasting:
            self.disk.sync_folder((self.path / name).parent)

    def create(self, name: str, data: Any) -> bool:
        temporary = self._temporary(name, data)
        try:
            self.disk.link(temporary, self.path / name)
        except FileExistsError:
            return False
        except OSError as error:
            raise no_room(self.where(name), error) from error
        finally:
            self.disk.unlink(temporary)
        self.disk.sync_folder((self.path / name).parent)
        return True

    def _temporary(self, name: str, data: Any, lasting: bool = True) -> Path:
        """A finished and (if it must last) synced file beside the final one."""
        target = self.path / name
        temporary = target.parent / f".{target.name}.{os.getpid()}.{secrets.token_hex(4)}"
        try:
            self.disk.folder(target.parent)
            self.disk.make(temporary, data if isinstance(data, list) else [data], sync=lasting)
        except OSError as error:
            with suppress(OSError):
                self.disk.unlink(temporary)
            raise no_room(self.where(name), error) from error
        return temporary

    def exists(self, name: str) -> bool:
        return self.disk.exists(self.path / name)

    def ages(self, folder: str) -> dict[str, float]:
        now = time.time()
        return {n: now - at for n, at in self.disk.names(self.path / folder).items() if not n.startswith(".")}

    def list(self, folder: str) -> list[str]:
        return sorted(n for n in self.disk.listed(self.path / folder) if not n.startswith("."))

    def delete(self, name: str) -> None:
        self.disk.unlink(self.path / name)

    def settle(self, folders: Iterable[str]) -> None:
        self.disk.sync_above(self.path)
        for path in (self.path, *(self.path / folder for folder in folders)):
            if self.disk.is_folder(path):
                self.disk.sync_folder(path)

    def delete_temporaries(self, folder: str) -> None:
        for name in self.disk.names(self.path / folder):
            if TEMPORARY.fullmatch(name):
                self.disk.unlink(self.path / folder / name)


OBJECT_STORES = ("s3", "gcs", "abfs")
"""PyArrow's names of filesystems whose renaming is a copy and a deletion."""


class RemoteFiles(Files):
    """Files under a path of a PyArrow filesystem; `uri` is for other processes."""

    def __init__(self, filesystem: fs.FileSystem, path: str, uri: str | None = None) -> None:
        if filesystem.type_name in OBJECT_STORES:
            raise InputError(
                "E_TARGET",
                f"PyArrow's {filesystem.type_name} filesystem cannot claim a name for one writer",
                "give the place as a URI (s3://bucket/path), which is opened in another way",
            )
        self.filesystem = filesystem
        self._path = path.rstrip("/")
        self.root = self._path if uri is None else uri.rstrip("/")

    def _at(self, name: str) -> str:
        return f"{self._path}/{name}" if self._path else name

    def read(self, name: str) -> bytes:
        with self.filesystem.open_input_stream(self._at(name)) as source:
            data: bytes = source.read()
            return data

    def map(self, name: str) -> pa.Buffer:
        with self.filesystem.open_input_file(self._at(name)) as source:
            return source.read_buffer()

    def write(self, name: str, data: Any, *, lasting: bool = True) -> None:
        temporary = f"{name}.{secrets.token_hex(4)}.part"
        try:
            if folder := os.path.dirname(self._at(name)):
                self.filesystem.create_dir(folder, recursive=True)
            with self.filesystem.open_output_stream(self._at(temporary)) as sink:
                for part in data if isinstance(data, list) else [data]:
                    sink.write(part)
            self.filesystem.move(self._at(temporary), self._at(name))
        except OSError as error:
            raise no_room(self.where(name), error) from error

    def create(self, name: str, data: Any) -> bool:
        if self.exists(name):
            return False
        self.write(name, data)
        return True

    def exists(self, name: str) -> bool:
        return bool(self.filesystem.get_file_info(self._at(name)).type == fs.FileType.File)

    def ages(self, folder: str) -> dict[str, float]:
        selector = fs.FileSelector(self._at(folder), allow_not_found=True)
        now = time.time()
        return {
            info.base_name: now - (info.mtime_ns or 0) / 1e9
            for info in self.filesystem.get_file_info(selector)
            if info.type == fs.FileType.File and not info.base_name.endswith(".part")
        }

    def delete(self, name: str) -> None:
        if self.exists(name):
            self.filesystem.delete_file(self._at(name))


def joined(data: Any) -> bytes:
    """Data that may come in parts, concatenated."""
    return b"".join(bytes(part) for part in data) if isinstance(data, list) else bytes(data)


def sync_folder(path: Path) -> None:
    """Make a folder's names durable."""
    DISK.sync_folder(path)
