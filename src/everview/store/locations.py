"""Selects the storage backend of a location: a local path, a URI, or an open filesystem."""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow as pa
from pyarrow import fs

from everview.errors import InputError
from everview.store import hdfs, objects
from everview.store.files import Files, LocalFiles, RemoteFiles
from everview.store.folder_names import is_path


def open_files(location: str | os.PathLike[str] | Files, filesystem: fs.FileSystem | None = None) -> Files:
    """The files at a local path, at a URI (s3://..., webhdfs://...), or of a given filesystem.

    >>> import tempfile
    >>> files = open_files(tempfile.mkdtemp())
    >>> files.create("log/1", b"one"), files.create("log/1", b"two"), files.read("log/1")
    (True, False, b'one')
    """
    if isinstance(location, Files):
        return location
    text = os.fspath(location)
    if not is_path(text):
        raise InputError("E_TARGET", f"{text!r} is not a path", "give the path of a directory, or a URI")
    if filesystem is not None:
        return RemoteFiles(filesystem, text)
    if "://" in text:
        scheme = text.split("://")[0].lower()
        if scheme in objects.SCHEMES:
            return objects.ObjectFiles(text)
        if scheme in hdfs.SCHEMES:
            return hdfs.HdfsFiles(text)
        if scheme in ("hdfs", "viewfs"):
            raise InputError(
                "E_TARGET",
                f"{text!r}: HDFS is reached through WebHDFS here",
                "give webhdfs://namenode:9870/path, with the name node's HTTP port",
            )
        try:
            found, path = fs.FileSystem.from_uri(text)
        except (pa.ArrowInvalid, OSError) as error:
            raise InputError("E_TARGET", f"cannot open {text!r}: {error}", "give a local path or a URI") from None
        return LocalFiles(Path(path)) if isinstance(found, fs.LocalFileSystem) else RemoteFiles(found, path, text)
    return LocalFiles(Path(text))
