"""Garbage collection of the dictionary: removes entries that no row of a store uses any more.

A session only adds to its dictionary (`everview.codes.interner`): codes are everywhere, in rows in transit, in compiled
programs, in other processes, and an entry removed too early would make a row unreadable. When a store is opened for
writing there are no such users yet. All that is needed then are the entries whose codes are in its batches; those of
definitions come back when they are built. The others are removed at that moment, if the dictionary has become much
larger than what was needed at the last collection. Any number in a batch that equals a code counts as a use, whatever
the column is; a tuple uses its items.

Hazards: a session that runs forever removes nothing until it is reopened. And Spark workers outlive sessions: the mark
`FORGOTTEN` tells them that their entries may be outdated (`everview.spark.workers.state`).
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pyarrow as pa

from everview.codes.buffers import numbers_of
from everview.codes.interner import TAGS, Interner
from everview.errors import InputError
from everview.store.manifest import Manifest
from everview.store.steps import numbers_of_offsets
from everview.store.store import Store
from everview.store.stored_dictionary import joined

FORGOTTEN = "everview.forgotten"
"""The mark that records the version of the last collection, and how many entries were left."""

UNUSED_ENTRIES = 1 << 16
"""Number of entries beyond twice those needed, from which a collection always runs."""

FEW_ENTRIES = 1 << 12
"""The same for small states, where a collection costs next to nothing."""

ROWS_PER_ENTRY = 4
"""Rows of the state that may be read to find one unused entry."""

LOOKUP_ENTRIES = 1 << 20
"""Numbers looked up at once."""


def version_of(manifest: Manifest) -> int:
    """The version of the last collection; 0: never."""
    return _mark(manifest)[0]


def due(manifest: Manifest) -> bool:
    """Whether a collection may be worthwhile."""
    return bool(manifest.dictionary) and sum(ref.rows for ref in manifest.dictionary) > 2 * _mark(manifest)[
        1
    ] + _spared(manifest)


def _spared(manifest: Manifest) -> int:
    """How many unused entries are tolerated. A collection reads all rows, so fewer rows mean fewer entries: otherwise a
    small state with ever new names would carry 65,000 unused ones, more than all the rest of it.
    """
    rows = sum(ref.rows for refs in manifest.lists.values() for ref in refs)
    return min(UNUSED_ENTRIES, max(FEW_ENTRIES, rows // ROWS_PER_ENTRY))


def _mark(manifest: Manifest) -> tuple[int, int]:
    version, _, left = manifest.marks.get(FORGOTTEN, "0 0").partition(" ")
    return int(version), int(left)


def forget(store: Store) -> None:
    """Write a dictionary of only the entries that a store's batches use, as a version of its own. All the store's data
    must be in its batches: its log must be empty.

    >>> import tempfile
    >>> from everview.store.batches import Image
    >>> interner = Interner()
    >>> codes = interner.encode(["pear", "fig"])
    >>> with Store(tempfile.mkdtemp()) as store:
    ...     batch = store.put(Image.of(codes[:1].reshape(1, 1), 1, 1))
    ...     _ = store.commit(1, adds=[(0, 0, batch)], dictionary=(store.put_dictionary(interner.export()),))
    ...     forget(store)
    ...     [store.get_dictionary(ref)["value"].to_pylist() for ref in store.manifest.dictionary]
    [[b'pear']]
    """
    manifest = store.manifest
    words = joined([store.get_dictionary(ref) for ref in manifest.dictionary]).combine_chunks()
    needed = _Needed(words)
    for refs in manifest.lists.values():
        for ref in refs:
            needed.mark(store.get(ref).columns())
    needed.mark_inside_tuples()
    kept = words.filter(pa.array(needed.marked))
    if not _stands_alone(kept):
        return
    dictionary = (store.put_dictionary(kept),) if len(kept) else ()
    mark = {FORGOTTEN: f"{manifest.version + 1} {len(kept)}"}
    store.commit(manifest.time, dictionary=dictionary, whole_dictionary=True, marks=mark)
    store.checkpoint()
    store.collect(grace=0.0)


def _stands_alone(words: pa.Table) -> bool:
    """Whether the ids of the remaining entries do not depend on removed ones: an entry displaced by a hash collision
    would get another id."""
    try:
        Interner().load(words)
    except InputError:
        return False
    return True


class _Needed:
    """Which entries of a dictionary are used."""

    def __init__(self, words: pa.Table) -> None:
        self._words = words
        ids = numbers_of(_whole(words["id"]), np.int64)
        self._order = np.argsort(ids)
        self._ids = ids[self._order]
        self.marked = np.zeros(len(ids), dtype=np.bool_)

    def mark(self, columns: Iterable[np.ndarray]) -> None:
        """Mark every code in these columns as used."""
        if not len(self._ids):
            return
        for column in columns:
            for start in range(0, len(column), LOOKUP_ENTRIES):
                part = column[start : start + LOOKUP_ENTRIES]
                places = np.minimum(np.searchsorted(self._ids, part), len(self._ids) - 1)
                self.marked[self._order[places[self._ids[places] == part]]] = True

    def mark_inside_tuples(self) -> None:
        """Mark the items of used tuples, at any depth."""
        tuples = numbers_of(_whole(self._words["kind"]), np.uint8) == TAGS["tuple"]
        values = _whole(self._words["value"])
        offsets = numbers_of_offsets(values)
        data = np.frombuffer(values.buffers()[2] or b"", dtype=np.uint8)
        seen = np.zeros_like(self.marked)
        while len(fresh := np.flatnonzero(self.marked & tuples & ~seen)):
            seen[fresh] = True
            self.mark(data[offsets[i] : offsets[i + 1]].view("<i8") for i in fresh.tolist())


def _whole(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks == 1 else pa.concat_arrays(column.chunks)
