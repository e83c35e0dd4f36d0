"""Forgetting words: dictionary entries that no row of a store has any more.

A session only ever adds to its dictionary (`everview.codes.interner`): codes are everywhere, in rows on their way, in
compiled programs, in other processes, and a word that was forgotten too early would be a row that cannot be read. When
a store is opened for writing there is nobody yet. All that is needed then are the words whose codes stand in its
batches; words of definitions come back when they are built. So that is when the others are forgotten, if the dictionary
has become much larger than what was needed the last time somebody looked. Any number in a batch that equals a code
counts as that word, whatever the column is; a tuple needs the words in it.

Hazards: a session that runs for ever forgets nothing until it is opened again. And workers of Spark outlive sessions:
the mark `FORGOTTEN` tells them that what they know is no longer what is stored (`everview.spark.workers.state`).
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
"""The mark that says at which version words were forgotten last, and how many were left."""

UNUSED_ENTRIES = 1 << 16
"""Entries of a dictionary beyond twice those that were needed, from which it is looked at in any case."""

FEW_ENTRIES = 1 << 12
"""The same where the state is small, so that looking costs next to nothing."""

ROWS_PER_ENTRY = 4
"""Rows of the state that may be read to find one unused entry."""

LOOKUP_ENTRIES = 1 << 20
"""Numbers that are looked up at once."""


def version_of(manifest: Manifest) -> int:
    """The version at which words were forgotten last; 0: never."""
    return _mark(manifest)[0]


def due(manifest: Manifest) -> bool:
    """Whether it may be worth while to look for words that nobody needs."""
    return bool(manifest.dictionary) and sum(ref.rows for ref in manifest.dictionary) > 2 * _mark(manifest)[
        1
    ] + _spared(manifest)


def _spared(manifest: Manifest) -> int:
    """How many unused entries are let be. Looking for them reads all rows, so the fewer rows, the fewer entries: else
    a small state whose names are ever new would carry 65,000 dead ones, which are more than all the rest of it.
    """
    rows = sum(ref.rows for refs in manifest.lists.values() for ref in refs)
    return min(UNUSED_ENTRIES, max(FEW_ENTRIES, rows // ROWS_PER_ENTRY))


def _mark(manifest: Manifest) -> tuple[int, int]:
    version, _, left = manifest.marks.get(FORGOTTEN, "0 0").partition(" ")
    return int(version), int(left)


def forget(store: Store) -> None:
    """Write a dictionary of just the words that a store's batches need, as a version of its own. All that the store
    has must be in its batches: its log must be empty.

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
    """Whether words get their ids without those that are left out: one whose hash another had would get that hash."""
    try:
        Interner().load(words)
    except InputError:
        return False
    return True


class _Needed:
    """Which entries of a dictionary are needed."""

    def __init__(self, words: pa.Table) -> None:
        self._words = words
        ids = numbers_of(_whole(words["id"]), np.int64)
        self._order = np.argsort(ids)
        self._ids = ids[self._order]
        self.marked = np.zeros(len(ids), dtype=np.bool_)

    def mark(self, columns: Iterable[np.ndarray]) -> None:
        """Whatever is a code in these columns is needed."""
        if not len(self._ids):
            return
        for column in columns:
            for start in range(0, len(column), LOOKUP_ENTRIES):
                part = column[start : start + LOOKUP_ENTRIES]
                places = np.minimum(np.searchsorted(self._ids, part), len(self._ids) - 1)
                self.marked[self._order[places[self._ids[places] == part]]] = True

    def mark_inside_tuples(self) -> None:
        """What stands in a needed tuple is needed, at any depth."""
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
