"""Runs: stored dictionary entries, sorted by id and read in place.

An `Interner` grows with every new value, but need not hold values that are in a directory. A *run* is a piece of the
stored dictionary: a table of kind, id and value sorted by id, whose columns are used directly from the mapped file. It
only uses page cache, which is reclaimable and shared by all processes of a machine. An id is found by binary search;
since ids are hashes, the sorted look-ups of a batch walk through a run once.

A piece written by a session without runs is in order of arrival: `Run.of` sorts a copy of it, which takes memory until
the pieces are merged.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from everview.codes import hashing
from everview.codes.buffers import integers

Words = npt.NDArray[np.int64]
Bytes = npt.NDArray[np.uint8]

SORTED = {b"everview.sorted": b"id"}
"""The schema metadata of a sorted piece."""


class Run(NamedTuple):
    """One sorted piece: the arrays of `hashing`'s store without its table, read-only."""

    ids: Words
    kinds: Bytes
    starts: Words
    heap: Bytes
    table: pa.Table
    """owner of the arrays"""

    @classmethod
    def of(cls, table: pa.Table) -> Run:
        """The run of a stored piece.

        >>> table = pa.table({"kind": pa.array([4, 4], pa.uint8()), "id": [9, 3], "value": [b"pear", b"fig"]})
        >>> run = Run.of(table)
        >>> run.ids.tolist(), run.slots(np.array([3, 9, 5])).tolist(), bytes(run.heap)
        ([3, 9], [0, 1, -1], b'figpear')
        """
        known = table.schema.metadata or {}
        if any(known.get(key) != value for key, value in SORTED.items()):
            table = sorted_by_id(table)
        table = table.combine_chunks()
        if not len(table):
            words, octets = np.zeros(1, dtype=np.int64), np.empty(0, dtype=np.uint8)
            return cls(words[:0], octets, words, octets, table)
        kinds, ids, values = (table[name].chunk(0) for name in ("kind", "id", "value"))
        values = values.cast(pa.large_binary())
        starts = _numbers(values.buffers()[1], np.int64)[values.offset : values.offset + len(values) + 1]
        return cls(
            _numbers(ids.buffers()[1], np.int64)[ids.offset : ids.offset + len(ids)],
            _numbers(kinds.buffers()[1], np.uint8)[kinds.offset : kinds.offset + len(kinds)],
            starts,
            _numbers(values.buffers()[2], np.uint8),
            pa.Table.from_arrays(
                [kinds, ids, values], schema=table.schema.set(2, pa.field("value", pa.large_binary()))
            ),
        )

    def slots(self, wanted: Words) -> Words:
        """The slot of each id; -1 if absent. Sorted ids are found fastest."""
        if not len(self.ids):
            return np.full(len(wanted), -1, dtype=np.int64)
        places = np.searchsorted(self.ids, wanted)
        places[places == len(self.ids)] = 0
        return np.where(self.ids[places] == wanted, places, -1)

    def same(self, kind: int, payload: Bytes, spans: Words, slots: Words) -> npt.NDArray[np.bool_]:
        """Which of some values equal those in their slots."""
        out = np.empty(len(slots), dtype=np.int64)
        hashing.compare(kind, payload, spans, slots, self.kinds, self.heap, self.starts.view(np.uint8), out)
        same: npt.NDArray[np.bool_] = out != 0
        return same

    def sizes(self, slots: Words) -> Words:
        """The sizes in bytes of the values in some slots; 0 for slot -1."""
        sizes: Words = np.where(slots < 0, 0, self.starts[slots + 1] - self.starts[slots])
        return sizes


def sorted_by_id(table: pa.Table) -> pa.Table:
    """A dictionary's piece sorted by id, and marked as such."""
    table = table.combine_chunks()
    order = np.argsort(np.concatenate([np.empty(0, dtype=np.int64), *map(_ids, table["id"].chunks)]), kind="stable")
    return table.take(integers(order)).replace_schema_metadata(SORTED)


def slots_in(runs: Sequence[Run], wanted: Words) -> tuple[Words, Words]:
    """For each id the number of the run that contains it, and its slot there; -1 for unknown ids."""
    order = np.argsort(wanted, kind="stable")
    ids = wanted[order]
    which = np.full(len(ids), -1, dtype=np.int64)
    slots = np.full(len(ids), -1, dtype=np.int64)
    missing = np.arange(len(ids))
    for number, run in enumerate(runs):
        found = run.slots(ids[missing])
        here = found >= 0
        which[missing[here]], slots[missing[here]] = number, found[here]
        missing = missing[~here]
        if not len(missing):
            break
    at_last = np.empty_like(order)
    at_last[order] = np.arange(len(order))
    return which[at_last], slots[at_last]


def _ids(chunk: pa.Array) -> Words:
    return _numbers(chunk.buffers()[1], np.int64)[chunk.offset : chunk.offset + len(chunk)]


def _numbers(buffer: pa.Buffer | None, dtype: npt.DTypeLike) -> npt.NDArray[Any]:
    found: npt.NDArray[Any] = np.frombuffer(buffer or b"", dtype=dtype)
    found.flags.writeable = False
    return found
