"""A local cache of a remote store's batches, so that they can be mapped like local ones.

A batch file never changes, so a copy is valid for as long as it exists, and for every process of the machine. Mapped
pages belong to the page cache, not to the process: state in a bucket takes no more memory in workers than state in a
directory.

Copies are in a folder of `EVERVIEW_CACHE_DIR`, else of the directory that Spark gives its workers, which ends with the
application, else of the system's temporary one. The folder is private to the user and starts empty after a reboot
(copies are not synced). When they exceed `EVERVIEW_CACHE_BYTES`, by default 16 GB but not more than half of the free
space, the least recently used are deleted; existing mappings stay valid. Without any space, files are read into memory.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa

from everview.store.files import Files, joined
from everview.store.owner import boot_id

LIMIT = 16 << 30


def with_copies(files: Files) -> Files:
    """The files, with local copies of batches if they are remote.

    >>> from everview.store.locations import open_files
    >>> str(with_copies(open_files("/tmp/state")).near("batches/1.arrow"))
    '/tmp/state/batches/1.arrow'
    """
    return files if files.local is not None or isinstance(files, LocalCache) else LocalCache(files)


class LocalCache(Files):
    """Remote files with local copies of the batches among them."""

    def __init__(self, files: Files) -> None:
        self._files = files
        self.root = files.root
        self.exclusive = files.exclusive
        local = os.environ.get("SPARK_LOCAL_DIRS", "").split(",")[0]
        home = os.environ.get("EVERVIEW_CACHE_DIR") or local or tempfile.gettempdir()
        self._limit = int(os.environ.get("EVERVIEW_CACHE_BYTES") or LIMIT)
        self._home = Path(home) / f"everview-copies-{os.getuid()}" / (boot_id() or "boot")
        self._folder = self._home / hashlib.sha256(self.root.encode()).hexdigest()[:24]

    def near(self, name: str) -> Path | None:
        if not name.endswith(".arrow"):  # everything else is read once
            return None
        path = self._path(name)
        try:
            os.utime(path)
        except OSError:
            return self._keep(name, self._files.map(name))
        return path

    def _path(self, name: str) -> Path:
        return self._folder / name.replace("/", "-")

    def _keep(self, name: str, data: Any) -> Path | None:
        """Create a copy; None if there is no space for it, or no private folder."""
        path = self._path(name)
        temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            if self._home.parent.stat().st_uid != os.getuid():
                return None
            temporary.write_bytes(data)
            temporary.replace(path)
        except OSError:
            with suppress(OSError):
                temporary.unlink(missing_ok=True)
            return None
        self._make_room()
        return path

    def _make_room(self) -> None:
        """Delete the least recently used copies, until the rest fits."""
        found = []
        for path in self._home.glob("*/*"):
            with suppress(FileNotFoundError):
                about = path.stat()
                found.append((about.st_mtime, about.st_size, path))
        taken = sum(size for _, size, _ in found)
        left = taken - min(self._limit, (taken + shutil.disk_usage(self._home).free) // 2)
        for _, size, path in sorted(found):
            if left <= 0:
                return
            path.unlink(missing_ok=True)
            left -= size

    # as the files themselves

    def map(self, name: str) -> pa.Buffer:
        path = self.near(name)
        if path is not None:
            with suppress(FileNotFoundError), pa.memory_map(str(path), "rb") as source:
                return source.read_buffer()
        return self._files.map(name)

    def write(self, name: str, data: Any, *, lasting: bool = True) -> None:
        whole = joined(data)
        self._files.write(name, whole, lasting=lasting)
        if name.endswith(".arrow"):
            self._keep(name, whole)

    def delete(self, name: str) -> None:
        self._files.delete(name)
        if name.endswith(".arrow"):
            self._path(name).unlink(missing_ok=True)

    def read(self, name: str) -> bytes:
        return self._files.read(name)

    def create(self, name: str, data: Any) -> bool:
        return self._files.create(name, data)

    def tagged(self, name: str) -> tuple[bytes, str]:
        return self._files.tagged(name)

    def swap(self, name: str, data: bytes, tag: str | None) -> str | None:
        return self._files.swap(name, data, tag)

    def exists(self, name: str) -> bool:
        return self._files.exists(name)

    def ages(self, folder: str) -> dict[str, float]:
        return self._files.ages(folder)

    def delete_temporaries(self, folder: str) -> None:
        self._files.delete_temporaries(folder)
