"""What a source is: something that hands out its records in chunks, and can be told where to go on.

A source never keeps its own position. Each chunk carries *marks*, small texts that say how far the source has been read
once this chunk is in, and the pipeline commits them in the very transaction that holds the chunk's rows. So after a
crash the marks are exactly as old as the data: nothing is read twice, nothing is lost. The price is that a source must
be able to go on from its marks (`open`): files are re-read from an offset, a Python iterable is skipped through, a
Spark stream replays its last batch under the same number.

A record that cannot be made into a row is not an exception but a `Bad` in its chunk: whether it stops the pipeline or
goes to the dead letters is the pipeline's choice, not the source's.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from everview.io.checks import answered, lacks
from everview.types import DataType

Wanted = Mapping[str, DataType]
"""Columns to deliver, with their types."""


@dataclass(frozen=True)
class Bad:
    """A record that could not become a row: where it was found, why it was rejected, and its text.

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
        """Whether there may be so many that they had better not come here."""

    @abstractmethod
    def fetch(self) -> pa.Table:
        """Bring them here."""


@dataclass
class Chunk:
    """Some records of a source and the marks that say they were taken.

    >>> Chunk("orders.csv", [(1, "pear")], {"line": "2"}).marks
    {'line': '2'}
    """

    place: str
    """Where they come from, for errors: a file and offset, a batch number"""
    rows: pa.Table | list[Any] | Distant
    """An Arrow table, or rows as dicts or tuples, or rows still to be fetched"""
    marks: dict[str, str]
    """Names below the source's own, and values, to be committed with the rows"""
    bad: list[Bad] = field(default_factory=list)
    snapshot: bool = False
    """Whether the rows are everything there is, not an addition"""


def checked(who: str, chunk: Any) -> Chunk | None:
    """A chunk of somebody's own source, if it is one."""
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
    """Records so far that the source itself left out because they came too late"""

    def schema(self) -> pa.Schema:
        """The columns it has, as far as they can be told without reading everything."""
        raise lacks(self, "schema", "E_SCHEMA", 'give schema={"column": type, ...}, or define it')

    def open(self, marks: Mapping[str, str], wanted: Wanted | None, snapshots: bool) -> None:
        """Go on after these marks (as chunks gave them; none: from the start), delivering these columns with these
        types (None: records as they are). With `snapshots`, every chunk is to be the whole contents.
        """
        raise lacks(self, "open", "E_SOURCE")

    def poll(self, limit: int | None) -> Chunk | None:
        """The next records, at most `limit` of them; None if there are none at the moment."""
        raise lacks(self, "poll", "E_SOURCE")

    def committed(self, chunk: Chunk) -> None:
        """The chunk is safe."""

    def failed(self, error: BaseException) -> None:
        """The chunk that was polled last could not be taken; `open` is called before the next poll."""

    @property
    def caught_up(self) -> bool:
        """After a poll that gave nothing: whether that means that everything there was has been read."""
        return True

    def bind(self, name: str, directory: str | None) -> None:
        """Belong to the table of this name; what has to be kept on disk goes to the directory (None: nothing lasts)."""

    def start(self, follow: bool, wake: Callable[[], None]) -> None:
        """A run begins: one that follows the source as it grows, or only catches up. `wake`, from any thread, says
        that polling is worth while.
        """

    def stop(self) -> None:
        """The run ends."""

    def describe(self) -> str:
        """A few words for progress lines and errors."""
        return type(self).__name__
