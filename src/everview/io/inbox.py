"""Inboxes: where other programs deliver records for a table of a state that they may not write themselves.

An inbox is a folder `inbox/<table>` of the state, on any storage. A writer first writes Arrow files under names of its
own, in any number in parallel, and then one small file `batch-<number>` that lists them. Only the latter counts, and
its name is claimed (`Files.create`): a batch that is delivered again finds it taken, and its files are discarded. This
requires no renaming, which object stores lack, and no copying.

The number is that of a batch of a stream, prefixed by the stream's identity: two streams may feed one table, and one
that restarts with another checkpoint is a different stream. The table's session deletes what it has read, except for
each stream's last batch, which may be delivered again, and which provides the columns.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterable, Set
from contextlib import suppress
from typing import Any

import pyarrow as pa

from everview.io.listing import Found, Place
from everview.io.validation import path_of, reaching, text_option
from everview.store.files import Files
from everview.store.folder_names import folder_of
from everview.store.locations import open_files

INBOX = "inbox"
BATCH = "batch-"
PART = "part-"

FILE_BYTES = 1 << 26
"""Maximum size of a file, which the writer holds in memory."""


class Inbox(Place):
    """A table's inbox as a place of files: those of complete batches, ordered by batch name.

    >>> import tempfile
    >>> box = Inbox(tempfile.mkdtemp(), "t")
    >>> box.deliver("7", box.write(pa.table({"x": [1]}).to_batches()))
    True
    >>> box.deliver("7", box.write(pa.table({"x": [1]}).to_batches()))  # the same again
    False
    >>> [pa.ipc.open_file(box.opener(f)()).read_all()["x"].to_pylist() for f in box.files()]
    [[1]]
    """

    def __init__(self, state: str, table: str) -> None:
        folder = folder_of(text_option("table", table, '"sale"'))
        self.given = f"{path_of(state).rstrip('/')}/{INBOX}/{folder}"
        with reaching(f"the inbox {self.given!r} cannot be opened"):
            self._store: Files = open_files(self.given)
        self._batches: dict[str, list[str]] = {}  # those read so far: they do not change

    # delivering

    def write(self, batches: Iterable[pa.RecordBatch]) -> list[str]:
        """Write some records; return the names of their files."""
        names, held = [], []
        for batch in batches:
            held.append(batch)
            if sum(b.nbytes for b in held) >= FILE_BYTES:
                names.append(self._write(held))
                held = []
        return [*names, self._write(held)] if held else names

    def _write(self, batches: list[pa.RecordBatch]) -> str:
        sink = pa.BufferOutputStream()
        with pa.ipc.new_file(sink, batches[0].schema) as writer:
            for batch in batches:
                writer.write_batch(batch)
        name = f"{PART}{uuid.uuid4().hex}.arrow"
        self._store.write(name, sink.getvalue())
        return name

    def deliver(self, number: str, names: list[str]) -> bool:
        """Deliver a batch of written files; return whether it was new."""
        if not names or self._store.create(f"{BATCH}{number}.json", json.dumps(names).encode()):
            return True
        self.discard(names)
        return False

    def discard(self, names: Iterable[str]) -> None:
        """Delete written files."""
        for name in names:
            self._store.delete(name)

    # taking

    def check(self) -> None:
        """An inbox may be empty and then does not exist."""

    def files(self, order: str = "name") -> list[Found]:
        with reaching(f"the inbox {self.given!r} cannot be read"):
            names = [name for name in self._store.list("") if name.startswith(BATCH)]
            for name in names:
                if name not in self._batches:
                    self._batches[name] = json.loads(self._store.read(name))
        return [Found(part, self._store.where(part), 0, 0) for name in names for part in self._batches[name]]

    def let_go(self, names: Set[str]) -> Set[str]:
        last = {batch.rpartition("-")[0]: batch for batch in sorted(self._batches)}
        for batch, parts in list(self._batches.items()):
            if batch not in last.values() and names >= set(parts):
                with suppress(OSError):  # it stays, and is tried again
                    self.discard([*parts, batch])  # the batch last: if interrupted, it is repeated
                    del self._batches[batch]
        there = {part for parts in self._batches.values() for part in parts}
        return {name for name in names if name not in there}

    def opener(self, file: Found) -> Callable[[], Any]:
        return lambda: pa.BufferReader(self._store.map(file.name))
