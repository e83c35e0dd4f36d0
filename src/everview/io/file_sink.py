"""Files as a sink: one file per time, or one file with the contents.

`mode="changes"` fills a directory with files `changes-<time>`: the inserted and deleted rows, with columns `_time` and
`_diff`. The name carries the time, so the position is the highest name. A file appears atomically: it is written under
a hidden name, synced and renamed. Nothing is ever rewritten. Such a directory can be read back with `db.source(...,
mode="changes")`, by this session's next view or by another's.

`mode="snapshot"` keeps one file with the current contents: the path itself if it has a file suffix (`out/sales.csv`),
replaced by a rename, else `contents-<time>` in the directory.

A small file `_everview.json` identifies the owner of the directory, because times of different sessions do not compare.
"""

from __future__ import annotations

import json
import os
import posixpath
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import fs

from everview.errors import InputError
from everview.io.changes import DIFF, TIME
from everview.io.files import Files
from everview.io.listing import Place
from everview.io.sink import Sink, SinkMode
from everview.io.validation import reaching
from everview.session.changes.batch import Batch
from everview.store.files import sync_folder
from everview.types import INT, DataType

OWNER = "_everview.json"
WHOLE_PUTS = ("s3", "gcs", "abfs")
"""Filesystems where a file appears when it is closed, and renaming is a copy."""


class FileSink(Sink):
    """The files of one view."""

    def __init__(self, files: Files) -> None:
        self._files = files
        self._place = files.place
        if self._place.pattern is not None:
            raise InputError("E_SINK", f"cannot write to a pattern: {self._place.given!r}", "give a directory")
        self._suffix = files.format.suffix
        self._single = False
        self._columns: dict[str, DataType] = {}

    def describe(self) -> str:
        return self._files.describe()

    # ownership and position

    def open(self, identity: str, columns: dict[str, DataType], mode: SinkMode) -> int | None:
        with reaching(
            f"{self._place.given} cannot be written", "E_SINK", "give a directory that is empty or does not exist"
        ):
            return self._open(identity, columns, mode)

    def _open(self, identity: str, columns: dict[str, DataType], mode: SinkMode) -> int | None:
        self._columns = columns
        self._single = mode == "snapshot" and self._place.given.endswith(self._suffix)
        if self._single:
            return None
        self._own({"view": identity, "mode": mode, "columns": {n: repr(t) for n, t in columns.items()}})
        for name in self._names():
            if name.startswith("_tmp-"):
                self._place.filesystem.delete_file(self._path(name))
        return max((time for time, _ in self._parts()), default=None)

    def _own(self, owner: dict[str, Any]) -> None:
        """Take an empty directory; refuse one with another owner."""
        files, root = self._place.filesystem, self._place.root
        files.create_dir(root)
        names = self._names()
        if OWNER in names:
            with files.open_input_file(self._path(OWNER)) as file:
                found = json.loads(file.read())
            if found == owner:
                return
            what = next(k for k in ("view", "mode", "columns") if found.get(k) != owner[k])
            raise InputError(
                "E_SINK",
                f"{self._place.given} was written "
                + {
                    "view": "by another session or view",
                    "mode": f"with mode={found.get('mode')!r}",
                    "columns": f"with other columns: {found.get('columns')}",
                }[what],
                "give another directory, or empty this one to start over",
            )
        if any(not name.startswith(("_", ".")) for name in names):
            raise InputError(
                "E_SINK", f"{self._place.given} holds files that Everview did not write", "give an empty directory"
            )
        self._publish(OWNER, lambda file: file.write(json.dumps(owner).encode()))

    def _names(self) -> list[str]:
        return [f.base_name for f in self._place.filesystem.get_file_info(fs.FileSelector(self._place.root))]

    def _parts(self) -> list[tuple[int, str]]:
        pattern = re.compile(rf"(?:changes|contents)-(\d{{20}}){re.escape(self._suffix)}")
        return sorted((int(m[1]), name) for name in self._names() if (m := pattern.fullmatch(name)))

    # writing

    def write(self, batch: Batch) -> None:
        self._publish(f"changes-{batch.time:020d}{self._suffix}", self._writer(_what_goes_first(batch.to_arrow())))

    def replace(self, rows: pa.Table, time: int) -> None:
        if self._single:
            self._publish(posixpath.basename(self._place.root), self._writer(rows))
            return
        old = self._parts()
        self._publish(f"contents-{time:020d}{self._suffix}", self._writer(rows))
        for written, name in old:
            if written != time:
                self._place.filesystem.delete_file(self._path(name))

    def _writer(self, table: pa.Table) -> Callable[[Any], Any]:
        return lambda file: self._files.format.write(table, file)

    def _path(self, name: str) -> str:
        return posixpath.join(posixpath.dirname(self._place.root) if self._single else self._place.root, name)

    def _publish(self, name: str, write: Callable[[Any], Any]) -> None:
        """Publish a file atomically under its name."""
        with reaching(
            f"{self._path(name)} cannot be written", "E_SINK", "see to the disk and its permissions; it is tried again"
        ):
            self._put(name, write)

    def _put(self, name: str, write: Callable[[Any], Any]) -> None:
        put_whole(self._place, self._path(name), write)

    # reading back

    def held(self) -> pa.Table:
        wanted = {**self._columns, TIME: INT, DIFF: INT}
        reader = Files(self._place, self._files.format, order="name")
        reader.open({}, wanted, snapshots=True)
        chunk = reader.poll(None)
        if chunk is None:
            return pa.table({name: pa.array([], pa.int64()) for name in wanted})
        return chunk.rows if isinstance(chunk.rows, pa.Table) else pa.Table.from_pylist(chunk.rows)


def _what_goes_first(changes: pa.Table) -> pa.Table:
    """Deletions before insertions, for readers that apply them by key in small batches."""
    return changes.take(np.argsort(changes[DIFF].to_numpy() > 0, kind="stable"))


def put_whole(place: Place, path: str, write: Callable[[Any], Any]) -> None:
    """Publish a file atomically: write it under another name, sync and rename it. A pipe or a device (/dev/null) is
    written to directly: a rename would replace it by a file.
    """
    files, hidden = place.filesystem, posixpath.join(posixpath.dirname(path), f"_tmp-{posixpath.basename(path)}")
    files.create_dir(posixpath.dirname(path))
    if not place.local:
        direct = files.type_name.startswith(WHOLE_PUTS)
        with files.open_output_stream(path if direct else hidden) as file:
            write(file)
        if not direct:
            files.move(hidden, path)
        return
    if os.path.exists(path) and not os.path.isfile(path):
        with open(path, "wb") as file:
            write(file)
        return
    with open(hidden, "wb") as file:
        write(file)
        file.flush()
        os.fsync(file.fileno())
    os.replace(hidden, path)
    sync_folder(Path(posixpath.dirname(path)))


def write_whole(files: Files, table: pa.Table) -> None:
    """Write a table into the single file."""
    place = files.place
    if place.pattern is not None:
        raise InputError("E_SINK", f"cannot write to a pattern: {place.given!r}", "give the name of a file")
    with reaching(f"{place.given} cannot be written", "E_SINK", "see to the disk and its permissions"):
        put_whole(place, place.root, lambda file: files.format.write(table, file))
