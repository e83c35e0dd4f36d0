"""A store's dictionary read in place: its files as runs, for processes that hold few of its entries.

Large files are runs of their own (`everview.codes.runs`), mapped for as long as they are part of the dictionary. Small
ones, one for every step that added strings, are copied together into one run. Spark's driver merges them into larger
ones (`Merger.tidy_dictionary`), so there are few.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pyarrow as pa

from everview.codes.runs import Run, sorted_by_id
from everview.store.manifest import Ref

RESIDENT_ENTRIES = 1 << 18
"""Maximum number of entries that a process holds in memory; with more it uses the store's."""

FILE_ENTRIES = 1 << 20
"""Entries of the largest merged file; merging takes the memory of one."""

SMALL_ENTRIES = 1 << 15
"""Number of entries below which a file is copied rather than mapped."""


class StoredDictionary:
    """Runs of a dictionary's files."""

    def __init__(self, read: Callable[[Ref], pa.Table]) -> None:
        self._read = read
        self._mapped: dict[str, Run] = {}

    def runs(self, pieces: Sequence[Ref]) -> tuple[Run, ...]:
        """The runs of all files; unused ones are released."""
        large = {ref.file: ref for ref in pieces if ref.file and ref.rows >= SMALL_ENTRIES}
        self._mapped = {
            name: self._mapped[name] if name in self._mapped else Run.of(self._read(ref)) for name, ref in large.items()
        }
        small = [self._read(ref) for ref in pieces if ref.file not in large]
        return (*self._mapped.values(), *((Run.of(joined(small)),) if small else ()))


def joined(pieces: Sequence[pa.Table]) -> pa.Table:
    """Pieces concatenated into one table without an order.

    >>> one = pa.table({"id": [2]}).replace_schema_metadata({b"everview.sorted": b"id"})
    >>> joined([one, pa.table({"id": [1]})]).schema.metadata
    """
    return pa.concat_tables([piece.replace_schema_metadata() for piece in pieces])


def merged(pieces: Sequence[pa.Table]) -> pa.Table:
    """Several pieces merged into a sorted one."""
    return sorted_by_id(joined(pieces))
