"""The source interface: delivers records in chunks, and can resume from a position.

A source never stores its own position. Each chunk carries *marks*, small texts that record how far the source has been
read, and the pipeline commits them in the same transaction as the chunk's rows. After a crash the marks are therefore
exactly as old as the data: nothing is read twice, nothing is lost. In return, a source must be able to resume from its
marks (`open`): files are re-read from an offset, a Python iterable is skipped through, a Spark stream replays its last
batch under the same number.

A record that cannot become a row is not an exception but a `Bad` in its chunk: whether it stops the pipeline or goes to
the dead letters is decided by the pipeline.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from everview.io.validation import answered, lacks
from everview.types import DataType

Wanted = Mapping[str, DataType]
"""Columns to deliver, with their types."""


@dataclass(frozen=True)
class Bad:
    """A record that could not become a row: its location, the reason, and its text.

    >>> Bad("orders.csv, line 3", "'x' is not a number", "x,pear").reason
    "'x' is not a number"
    """

    place: str
    reason: str
    record: str


class Distant(ABC):
    """Rows that are not in this process yet: a Spark DataFrame's."""

    @property
    @abstractmethod
    def large(self) -> bool:
        """Whether there may be too many to bring here."""

    @abstractmethod
    def fetch(self) -> pa.Table:
        """Bring them here."""


@dataclass
class Chunk:
    """Some records of a source, and the marks after them.

    >>> Chunk("orders.csv", [(1, "pear")], {"line": "2"}).marks
    {'line': '2'}
    """

    place: str
    """Their origin, for errors: a file and offset, a batch number"""
    rows: pa.Table | list[Any] | Distant
    """An Arrow table, or rows as dicts or tuples, or rows still to be fetched"""
    marks: dict[str, str]
    """Names within the source, and values, committed with the rows"""
    bad: list[Bad] = field(default_factory=list)
    snapshot: bool = False
    """Whether the rows are the complete contents, not an addition"""


def checked(who: str, chunk: Any) -> Chunk | None:
    """Check a chunk of a user-defined source."""
    found: Chunk | None = answered(who, "poll", chunk, (Chunk, type(None)), "a Chunk, or None if there is nothing")
    if found is None:
        return None
    parts: tuple[tuple[str, Any, Any], ...] = (
        ("place", str, "a text"),
        ("rows", (pa.Table, list, Distant), "an Arrow table or a list of rows"),
        ("marks", dict, "texts by name"),
        ("bad", list, "a list of Bad"),
        ("snapshot", bool, "True or False"),
    )
    for name, kinds, wanted in parts:
        answered(who, f"poll().{name}", getattr(found, name), kinds, wanted)
    for text in (*found.marks, *found.marks.values()):
        answered(who, "poll().marks", text, str, "texts by name")
    for record in found.bad:
        answered(who, "poll().bad", record, Bad, "a list of Bad")
    return found


def here(rows: pa.Table | list[Any] | Distant) -> pa.Table | list[Any]:
    """Rows in this process."""
    return rows.fetch() if isinstance(rows, Distant) else rows


class Source:
    """Where a table's rows come from. Made by `everview.io.csv`, `json`, `parquet`, `arrow`, `rows`, or from a Spark
    DataFrame; subclass it for others.

    >>> import everview as ev, pyarrow as pa
    >>> class Counter(ev.io.Source):
    ...     "Numbers from 0 to 4; its mark is the next one."
    ...     def schema(self):
    ...         return pa.schema({"n": pa.int64()})
    ...     def open(self, marks, wanted, snapshots):
    ...         self.next = int(marks.get("next", 0))
    ...     def poll(self, limit):
    ...         if self.next == 5:
    ...             return None
    ...         self.next += 1
    ...         return ev.io.Chunk("counter", [(self.next - 1,)], {"next": str(self.next)})
    >>> db = ev.connect()
    >>> numbers = db.source("numbers", Counter())
    >>> _ = db.run(until="caught_up")
    >>> sorted(numbers.rows())
    [(0,), (1,), (2,), (3,), (4,)]
    """

    by_rows = True
    """Whether chunks can be limited to a number of rows"""
    dropped = 0
    """Number of late records that the source itself dropped"""

    def schema(self) -> pa.Schema:
        """Its columns, as far as they are known without reading everything."""
        raise lacks(self, "schema", "E_SCHEMA", 'give schema={"column": type, ...}, or define it')

    def open(self, marks: Mapping[str, str], wanted: Wanted | None, snapshots: bool) -> None:
        """Resume after these marks (from chunks; none: from the start), delivering these columns with these types
        (None: records as they are). With `snapshots`, every chunk must be the whole contents.
        """
        raise lacks(self, "open", "E_SOURCE")

    def poll(self, limit: int | None) -> Chunk | None:
        """The next records, at most `limit` of them; None if there are none at the moment."""
        raise lacks(self, "poll", "E_SOURCE")

    def committed(self, chunk: Chunk) -> None:
        """Called when the chunk is committed."""

    def failed(self, error: BaseException) -> None:
        """Called when the last chunk could not be committed; `open` is called before the next poll."""

    @property
    def caught_up(self) -> bool:
        """After a poll that returned nothing: whether everything has been read."""
        return True

    def bind(self, name: str, directory: str | None) -> None:
        """Attach to the table of this name; the directory is for files that must be kept (None: nothing is durable)."""

    def start(self, follow: bool, wake: Callable[[], None]) -> None:
        """Begin a run, which follows the source as it grows, or only catches up. `wake`, from any thread, requests a
        poll.
        """

    def stop(self) -> None:
        """End the run."""

    def describe(self) -> str:
        """A short description for progress lines and errors."""
        return type(self).__name__
