"""The dictionary between texts, bytes and tuples, and their 64-bit ids.

**Ids depend on the value alone.** An id is a hash of the value's bytes, seeded with its kind ("a" and b"a" differ), so
independent machines assign the same id. If a hash belongs to another value (or is the code of NULL), the next salt is
used. Only then do ids depend on the order of arrival: among a hundred million values the probability that this ever
happens is 0.03 %. `load` detects dictionaries that disagree for that reason and refuses them; it never confuses two
values.

**A tuple's bytes** are two words per item: its type (kind, and scale of a decimal; 0 for NULL) and its code. A text
inside a tuple is itself interned, so tuples have a fixed width, nest, and are self-describing.

**The store** (arrays and kernels in `hashing`) is append-only. One writer at a time appends under a lock and then
publishes a new `_Snapshot`; readers take the snapshot once and need no lock. Python dictionaries beside it make single
values fast; they are caches, bounded by `CACHED` entries.

**Stored values.** A process need not hold values that are in its directory. `rest_on` gives the interner `runs`
(`everview.codes.runs`), sorted pieces in mapped files, and empties the store, which then holds only newer values. A
value in neither is new. If its hash belongs to another value of a run, that one is first copied into the store, so the
salt rule holds as if everything were in memory.

Hazard: without runs, values are never removed while a process has the dictionary. A stream of ever new texts grows it
without bound; see `nbytes`. In a directory, unused values are removed when it is opened
(`everview.store.dictionary_gc`).
"""

from __future__ import annotations

import itertools
import sys
import threading
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from everview.codes import hashing
from everview.codes.buffers import (
    NO_BYTES,
    frozen,
    integers,
    items,
    longer,
    null_mask,
    numbers_of,
    utf8,
    validity,
    validity_buffer,
)
from everview.codes.runs import Run, slots_in
from everview.codes.scalars import DECODERS, ENCODERS, counted, kind_of, shown, wrong_type
from everview.codes.sharing import SHARED_ROWS, each, ranges
from everview.errors import InputError, InternalError
from everview.types import NULL, DataType

Words = npt.NDArray[np.int64]
Bytes = npt.NDArray[np.uint8]

CACHED = 1 << 20
"""Maximum number of entries of each Python dictionary beside the store."""

FIRST_ROWS = 1024
"""Of a long column, this many values are added before threads look for the others: a column with few different values
has them all by then."""

SCALE = 6
"""Scale of a decimal in a tuple without a declared type."""

TAGS: dict[str, int] = {
    "int": 1, "float": 2, "bool": 3, "str": 4, "bytes": 5, "date": 6, "timestamp": 7, "decimal": 8, "tuple": 9,
    "timestamptz": 10, "time": 11, "enum": 12, "numeric": 13, "interval": 14, "uuid": 15, "json": 16, "array": 17,
    "struct": 18, "map": 19, "char": 20,
}  # fmt: skip
"""Tags of the kinds, in tuples and as seeds of ids. Part of the stored format: never change one."""

KINDS = {tag: kind for kind, tag in TAGS.items()}
_SHORT_TEXT = 2**31 - 1
_EVERY: Words = np.zeros(0, dtype=np.int64)
"""In place of a list of places: all of them."""

NO_ENTRIES = pa.Table.from_batches(
    [], pa.schema([("kind", pa.uint8()), ("id", pa.int64()), ("value", pa.large_binary())])
)
"""What an interner exports that has nothing new."""


class _Snapshot(NamedTuple):
    """What readers see: arrays that hold at least `size` entries."""

    heap: Bytes
    starts: Words
    ids: Words
    kinds: Bytes
    table: Words
    size: int
    used: int
    base: int = 0
    """number of preceding entries, which are in runs"""
    runs: tuple[Run, ...] = ()


class Remembered(dict[int, Any]):
    """A cache from ids to values that loads what it lacks and is emptied when full: the oldest entries are rarely the
    ones needed now.

    >>> squares = Remembered(lambda n: n * n, most=2)
    >>> squares[3], squares[4], len(squares), squares[NULL]
    (9, 16, 2, None)
    """

    def __init__(self, read: Callable[[int], Any], most: int = CACHED) -> None:
        super().__init__({NULL: None})
        self._read = read
        self._most = most

    def __missing__(self, wanted: int) -> Any:
        if wanted == NULL:  # another thread is emptying it
            return None
        value = self._read(wanted)
        if len(self) >= self._most:
            self.clear()
            self[NULL] = None
        self[wanted] = value
        return value


class Interner:
    """Stable 64-bit ids of texts, bytes and tuples.

    >>> interner = Interner()
    >>> interner.id("pear") == Interner().id("pear"), interner.id("pear") == interner.id(b"pear")
    (True, False)
    >>> interner.value(interner.id(("pear", 1, None)))
    ('pear', 1, None)
    >>> interner.decode(interner.encode(["pear", None, "fig"])).to_pylist()
    ['pear', None, 'fig']
    """

    def __init__(self, *, hash_bits: int = 64) -> None:
        """`hash_bits` below 64 makes collisions likely, for tests."""
        self._mask = -1 if hash_bits == 64 else (1 << hash_bits) - 1
        self._lock = threading.Lock()
        self.threads = 1
        """number of threads that share the encoding of long columns"""
        self._state = np.zeros(2, dtype=np.int64)
        self._one_span, self._one_id = np.zeros(2, dtype=np.int64), np.zeros(1, dtype=np.int64)
        self._snapshot = _empty()
        self.known_texts: dict[str, int] = {}
        self.known_bytes: dict[bytes, int] = {}
        self._known_packed: dict[tuple[str, str], int] = {}
        self.unpacked: dict[DataType, Remembered] = {}
        """Unpacked values, by their type."""
        self.values = Remembered(self._read)

    def __len__(self) -> int:
        """The number of entries so far, including those moved to runs but not runs from elsewhere."""
        return self._snapshot.base + self._snapshot.size

    @property
    def resident(self) -> int:
        """Entries held in memory."""
        return self._snapshot.size

    @property
    def nbytes(self) -> int:
        """Bytes held: the store's arrays, and an estimate for the caches of single values."""
        arrays = sum(array.nbytes for array in self._snapshot[:5])
        caches: list[dict[Any, Any]] = [self.known_texts, self.known_bytes, self._known_packed, self.values]
        caches += self.unpacked.values()
        return arrays + sum(sys.getsizeof(cache) + 90 * len(cache) for cache in caches)

    # single values

    def id(self, value: str | bytes | tuple[Any, ...]) -> int:
        """The id of one value; a tuple's item types are inferred (see `tuple_id` for declared types)."""
        kind = kind_of(value)
        if kind == "str":
            return self.text_id(str(value))
        if kind == "bytes":
            return self.bytes_id(bytes(value))  # type: ignore[arg-type]
        if kind == "tuple":
            return self._tuple(value)  # type: ignore[arg-type]
        raise wrong_type(value, "a str, bytes or tuple")

    def text_id(self, text: str) -> int:
        """The id of one text."""
        known = self.known_texts.get(text)
        if known is None:
            known = self._add_one(TAGS["str"], utf8(text))
            if len(self.known_texts) >= CACHED:
                self.known_texts.clear()
            self.known_texts[text] = known
        return known

    def bytes_id(self, data: bytes) -> int:
        """The id of one bytes object."""
        known = self.known_bytes.get(data)
        if known is None:
            known = self._add_one(TAGS["bytes"], data)
            if len(self.known_bytes) >= CACHED:
                self.known_bytes.clear()
            self.known_bytes[data] = known
        return known

    def packed_id(self, kind: str, text: str) -> int:
        """The id of a value stored in serialised form (see `everview.codes.packed`)."""
        known = self._known_packed.get((kind, text))
        if known is None:
            known = self._add_one(TAGS[kind], utf8(text))
            if len(self._known_packed) >= CACHED:
                self._known_packed.clear()
            self._known_packed[kind, text] = known
        return known

    def tuple_id(self, tags: Sequence[int], codes: Sequence[int]) -> int:
        """The id of the tuple whose items have these tags (see `item_tag`, 0 for NULL) and codes."""
        words = np.array([*zip(tags, codes, strict=True)], dtype="<i8")
        return self._add_one(TAGS["tuple"], words.tobytes())

    def value(self, wanted: int) -> Any:
        """The value of an id; None for the code of NULL."""
        return self.values[wanted]

    # batches

    def encode(self, values: Any, kind: str | DataType = "str") -> Words:
        """Encode an Arrow array (or chunked array, or list) of texts or bytes; nulls become NULL's code.

        >>> interner = Interner()
        >>> interner.encode(pa.array([b"a", b"a"]), "bytes").tolist() == [interner.id(b"a")] * 2
        True
        """
        name = kind.kind if isinstance(kind, DataType) else kind
        if name not in ("str", "bytes"):
            raise InputError("E_TYPE", f"a column of {name} is not a column of texts", "use a Codec for other columns")
        wide = pa.large_string() if name == "str" else pa.large_binary()
        if not isinstance(values, (pa.Array, pa.ChunkedArray)):
            return self._encode_list(values, name)
        if isinstance(values, pa.ChunkedArray):
            parts = [self.encode(chunk, name) for chunk in values.chunks]
            return np.concatenate(parts) if parts else np.empty(0, dtype=np.int64)
        if pa.types.is_dictionary(values.type):
            return self._encode_dictionary(values, name)
        narrow = pa.types.is_string(values.type) if name == "str" else pa.types.is_binary(values.type)
        if not narrow and values.type != wide:
            values = values.cast(wide)
        _, spans, payload = values.buffers()
        offsets = items(spans, np.int32 if narrow else np.int64)
        offsets = offsets if len(offsets) else np.zeros(1, dtype=np.int64)  # there need be none for no texts
        offsets = offsets[values.offset : values.offset + len(values) + 1].astype(np.int64)
        return self._add(TAGS[name], frozen(payload), offsets, *validity(values), len(values))

    def encode_packed(self, kind: str, texts: Sequence[str]) -> Words:
        """The ids of values stored in serialised form, all at once (see `packed_id`).

        >>> interner = Interner()
        >>> interner.encode_packed("numeric", ['"1"', '"2.5"']).tolist() == [
        ...     interner.packed_id("numeric", text) for text in ('"1"', '"2.5"')
        ... ]
        True
        """
        parts = [*map(utf8, texts)]
        spans = np.zeros(len(parts) + 1, dtype=np.int64)
        np.cumsum([*map(len, parts)], out=spans[1:])
        return self._add(TAGS[kind], np.frombuffer(b"".join(parts), dtype=np.uint8), spans, NO_BYTES, 0, len(parts))

    def decode(self, ids: Words, kind: str | DataType = "str") -> pa.Array:
        """Decode ids of one kind into an Arrow array (string or binary; the large variant beyond 2 GB)."""
        name = kind.kind if isinstance(kind, DataType) else kind
        payload, spans, slots = self.payloads(ids, name)
        short = payload.size <= _SHORT_TEXT
        offsets = spans.astype(np.int32) if short else spans
        arrow = {
            ("str", True): pa.string(), ("str", False): pa.large_string(),
            ("bytes", True): pa.binary(), ("bytes", False): pa.large_binary(),
        }[name, short]  # fmt: skip
        valid = validity_buffer(slots >= 0)
        return pa.Array.from_buffers(arrow, len(slots), [valid, pa.py_buffer(offsets), pa.py_buffer(payload)])

    def encode_tuples(
        self, tags: Sequence[int], nullable: Sequence[bool], codes: Words, null: npt.NDArray[np.bool_]
    ) -> Words:
        """Encode n tuples, given their items' tags, which items may be NULL, codes (items, n), and which tuples are
        NULL."""
        count = codes.shape[1]
        words = np.empty((count, len(tags), 2), dtype="<i8")
        missing = (codes.T == NULL) & np.array(nullable, dtype=np.bool_)
        words[:, :, 0] = np.where(missing, 0, np.array(tags, dtype=np.int64))
        words[:, :, 1] = codes.T
        spans = np.arange(count + 1, dtype=np.int64) * (16 * len(tags))
        valid = NO_BYTES
        if null.any():
            valid = np.packbits(~null, bitorder="little")
        return self._add(TAGS["tuple"], frozen(words.reshape(-1).view(np.uint8)), spans, frozen(valid), 0, count)

    def decode_tuples(self, ids: Words, width: int) -> tuple[Words, npt.NDArray[np.bool_]]:
        """The items' codes (width, n) of tuples with `width` items, and which tuples are NULL."""
        payload, spans, slots = self.payloads(ids, "tuple")
        null = slots < 0
        widths = np.diff(spans)[~null] // 16
        if (widths != width).any():
            raise InputError(
                "E_WIDTH", f"a tuple has {counted(int(widths[widths != width][0]), 'item')}, not {width}", ""
            )
        codes = np.full((width, len(slots)), NULL, dtype=np.int64)
        codes[:, ~null] = payload.view("<i8").reshape(-1, width, 2)[:, :, 1].T if width else 0
        return codes, null

    def payloads(self, ids: Words, kind: str | None) -> tuple[Bytes, Words, Words]:
        """The bytes of values of one kind: concatenated, with the bounds of each, and its slot (-1 for NULL)."""
        wanted = np.ascontiguousarray(ids, dtype=np.int64)
        store = self._snapshot
        slots = np.empty(wanted.size, dtype=np.int64)
        spans = np.empty(wanted.size + 1, dtype=np.int64)
        stranger = hashing.locate(
            wanted, TAGS[kind] if kind else 0, store.kinds, store.starts, store.table, store.size, slots, spans
        )
        if stranger >= 0 and store.runs:
            return _payloads_at_rest(store, wanted, kind)
        if stranger >= 0:
            raise _unknown(int(wanted[stranger]), kind)
        out = np.empty(int(spans[-1]), dtype=np.uint8)
        hashing.gather(slots, store.heap, store.starts, out)
        return out, spans, slots

    # shipping

    def export(self, since: int = 0) -> pa.Table:
        """Entries from number `since` on (the `len` of an earlier export) as a table of kind, id and value.

        >>> interner, other = Interner(), Interner()
        >>> wanted = interner.id(("fig", 2.5))
        >>> other.load(interner.export())
        >>> other.value(wanted)
        ('fig', 2.5)
        """
        store = self._snapshot
        if since < store.base:
            raise InternalError("E_INTERNAL", f"entry {since} of the dictionary is at rest", "report this")
        since -= store.base
        if since == store.size:
            return NO_ENTRIES
        starts = store.starts[since : store.size + 1] - store.starts[since]
        heap = store.heap[store.starts[since] : store.used]
        buffers = [None, pa.py_buffer(starts), pa.py_buffer(heap)]
        values = pa.Array.from_buffers(pa.large_binary(), store.size - since, buffers)
        ids, kinds = pa.py_buffer(store.ids[since : store.size]), pa.py_buffer(store.kinds[since : store.size])
        columns = [
            pa.Array.from_buffers(pa.uint8(), len(values), [None, kinds]),
            pa.Array.from_buffers(pa.int64(), len(values), [None, ids]),
            values,
        ]
        return pa.Table.from_arrays(columns, names=["kind", "id", "value"])

    def load(self, table: pa.Table) -> None:
        """Add entries exported by another interner: all of them, or none if one disagrees with an entry here."""
        kinds = np.concatenate([NO_BYTES, *(numbers_of(part, np.uint8) for part in table["kind"].chunks)])
        if np.count_nonzero(kinds[1:] != kinds[:-1]) > len(TAGS):  # sorted by id: kinds are mixed
            table = table.take(integers(np.argsort(kinds, kind="stable")))
            kinds = np.sort(kinds)
        cuts = [0, *(np.flatnonzero(kinds[1:] != kinds[:-1]) + 1).tolist(), len(kinds)]
        with self._lock:
            before = self._snapshot
            runs = ((low, high) for low, high in itertools.pairwise(cuts) if low < high)
            if not all(self._load_run(int(kinds[low]), table.slice(low, high - low)) for low, high in runs):
                self._go_back(before)
                self._load_in_turns(kinds.tolist(), table, before)

    def _load_run(self, kind: int, run: pa.Table) -> bool:
        """Add entries of one kind; return whether all got their ids."""
        values = pa.concat_arrays(run["value"].cast(pa.large_binary()).chunks)
        _, spans, payload = values.buffers()
        offsets = np.frombuffer(spans, dtype=np.int64)[values.offset : values.offset + len(values) + 1].copy()
        given = numbers_of(pa.concat_arrays(run["id"].chunks), np.int64)
        return np.array_equal(self._add_locked(kind, frozen(payload), offsets, NO_BYTES, 0, len(values)), given)

    def _load_in_turns(self, kinds: list[int], table: pa.Table, before: _Snapshot) -> None:
        """Add entries that are not in their original order: each once the owners of its hashes are present. Needed only
        after hash collisions, so it works value by value. If an entry's turn never comes, revert to `before`.
        """
        entries = [*zip(kinds, table["id"].to_pylist(), table["value"].to_pylist(), strict=True)]
        tried = len(entries) + 1
        while entries and len(entries) < tried:
            tried, entries = len(entries), [entry for entry in entries if not self._load_one(*entry)]
        if not entries:
            return
        kind, given, value = entries[0]
        got = self._one(kind, value)
        self._go_back(before)
        text = shown(value.decode() if kind == TAGS["str"] else value)
        raise InputError(
            "E_CONFLICT",
            f"the value {text} has id {given} in the loaded dictionary and {got} here",
            "two values share a hash, or the table is damaged: re-encode from the values instead of the ids",
        )

    def _load_one(self, kind: int, given: int, value: bytes) -> bool:
        here = self._snapshot
        if self._one(kind, value) == given:
            return True
        self._go_back(here)
        return False

    def _one(self, kind: int, value: bytes) -> int:
        """Add one value, with the arrays that are there for it: creating them would take half of the time."""
        self._mend()
        self._one_span[1] = len(value)
        if self._snapshot.runs:
            data = np.frombuffer(value, dtype=np.uint8)
            return int(self._add_to_runs(kind, data, self._one_span, NO_BYTES, 0, 1)[0])
        return self._add_here(kind, value, self._one_span, NO_BYTES, 0, self._one_id).item()

    def rest_on(self, runs: Sequence[Run], until: int) -> None:
        """Look values up in these runs, which contain all entries before number `until`, and do not hold those in
        memory.

        >>> interner = Interner()
        >>> fig = interner.id("fig")
        >>> interner.rest_on([Run.of(interner.export())], len(interner))
        >>> interner.resident, len(interner), interner.id("fig") == fig, interner.resident, interner.value(fig)
        (0, 1, True, 0, 'fig')
        """
        with self._lock:
            store = self._snapshot
            if until == store.base + store.size:
                self._state[:] = 0, 0
                store = _empty()._replace(base=until)
            self._snapshot = store._replace(runs=tuple(runs))
            for cache in (self.known_texts, self.known_bytes, self._known_packed, self.unpacked, self.values):
                cache.clear()
            self.values[NULL] = None

    # the store

    def _add_one(self, kind: int, payload: bytes) -> int:
        with self._lock:
            return self._one(kind, payload)

    def _add(self, kind: int, payload: Bytes, spans: Words, valid: Bytes, first_bit: int, count: int) -> Words:
        if self.threads > 1 and count >= SHARED_ROWS and not self._snapshot.runs:
            return self._add_shared(kind, payload, spans, valid, first_bit, count)
        with self._lock:
            return self._add_locked(kind, payload, spans, valid, first_bit, count)

    def _add_shared(self, kind: int, payload: Bytes, spans: Words, valid: Bytes, first_bit: int, count: int) -> Words:
        """Let threads look for the values, and add those that are not there. They are added in the order in which they
        come, so the store is the same with any number of threads.
        """
        out, missing = np.empty(count, dtype=np.int64), np.empty(count, dtype=np.int64)
        with self._lock:
            out[:FIRST_ROWS] = self._add_locked(kind, payload, spans[: FIRST_ROWS + 1], valid, first_bit, FIRST_ROWS)
        store, parts = self._snapshot, ranges(count - FIRST_ROWS, self.threads)
        found = [0] * len(parts)

        def look(number: int) -> None:
            start, end = (FIRST_ROWS + place for place in parts[number])
            found[number] = hashing.find(
                kind, self._mask, payload, spans, valid, first_bit, start, end, out, missing,
                store.heap, store.starts, store.kinds, store.table, store.size,
            )  # fmt: skip

        each(len(parts), self.threads, look)
        starts = [FIRST_ROWS + start for start, _ in parts]
        places = np.concatenate([missing[s : s + n] for s, n in zip(starts, found, strict=True)])
        if not len(places):
            return out
        with self._lock:
            if self._snapshot.runs:  # since then
                return self._add_locked(kind, payload, spans, valid, first_bit, count)
            self._mend()
            return self._add_here(kind, payload, spans, valid, first_bit, out, places)

    def _add_locked(self, kind: int, payload: Bytes, spans: Words, valid: Bytes, first_bit: int, count: int) -> Words:
        self._mend()
        if self._snapshot.runs:
            return self._add_to_runs(kind, payload, spans, valid, first_bit, count)
        return self._add_here(kind, payload, spans, valid, first_bit, np.empty(count, dtype=np.int64))

    def _mend(self) -> None:
        """Roll back again, if a rollback was itself interrupted."""
        if self._state[hashing.COUNT] != self._snapshot.size:
            self._go_back(self._snapshot)

    def _add_here(
        self,
        kind: int,
        payload: Bytes | bytes,
        spans: Words,
        valid: Bytes,
        first_bit: int,
        out: Words,
        places: Words = _EVERY,
    ) -> Words:
        """Add values (all, or those at some places, whose hashes are in `out`) to the store, whatever the runs have."""
        try:
            store = self._fill(kind, payload, spans, valid, first_bit, out, places)
            size, used = self._state.tolist()
            if size != self._snapshot.size:
                self._snapshot = _Snapshot(*store[:5], size, used, *store[7:])  # `_replace` takes three times as long
        except BaseException:  # no memory, or Ctrl-C: what was added was not published
            self._go_back(self._snapshot)
            raise
        return out

    def _add_to_runs(self, kind: int, payload: Bytes, spans: Words, valid: Bytes, first_bit: int, count: int) -> Words:
        """Add the values that no run has."""
        runs, before = self._snapshot.runs, self._snapshot
        out = np.empty(count, dtype=np.int64)
        hashing.hash_all(kind, self._mask, payload, spans, out)
        wanted = np.ones(count, dtype=np.bool_)
        if len(valid):
            wanted = np.unpackbits(valid, bitorder="little")[first_bit : first_bit + count] != 0
        out[~wanted] = NULL
        which, slots = slots_in(runs, out)
        for number in np.unique(which[which >= 0]).tolist():
            wanted &= ~runs[number].same(kind, payload, spans, np.where(which == number, slots, -1))
        places = np.flatnonzero(wanted)
        if not len(places):
            return out
        fresh, their_spans = _picked(payload, spans, places)
        others = {(int(which[i]), int(slots[i])) for i in places[which[places] >= 0]}
        while True:
            self._bring(others)
            got = self._add_here(kind, fresh, their_spans, NO_BYTES, 0, np.empty(len(places), dtype=np.int64))
            more = self._other_owners(kind, fresh, their_spans, got, np.flatnonzero(got != out[places]))
            if more <= others:
                out[places] = got
                return out
            self._go_back(before)
            others |= more

    def _other_owners(self, kind: int, payload: Bytes, spans: Words, ids: Words, places: Words) -> set[tuple[int, int]]:
        """The entries of runs that own the ids some other values got under a salt."""
        if not len(places):
            return set()
        which, slots = slots_in(self._snapshot.runs, ids[places])
        data, cuts = _picked(payload, spans, places)
        found = set()
        for number in np.unique(which[which >= 0]).tolist():
            here = np.where(which == number, slots, -1)
            same = self._snapshot.runs[number].same(kind, data, cuts, here)
            found |= {(number, int(slot)) for slot in here[(here >= 0) & ~same]}
        return found

    def _bring(self, entries: set[tuple[int, int]]) -> None:
        """Copy entries of runs into the store, under their ids, so that these count as taken."""
        for number, slot in entries:
            run, store = self._snapshot.runs[number], self._snapshot
            data = run.heap[run.starts[slot] : run.starts[slot + 1]]
            if run.ids[slot] in store.ids[: store.size]:
                continue
            store = self._grown(store, len(data))
            store.heap[store.used : store.used + len(data)] = data
            store.ids[store.size], store.kinds[store.size] = run.ids[slot], run.kinds[slot]
            store.starts[store.size + 1] = store.used + len(data)
            table = np.zeros_like(store.table)
            hashing.fill_table(table, store.ids, store.size + 1)
            self._state[:] = store.size + 1, store.used + len(data)
            self._snapshot = store._replace(table=table, size=store.size + 1, used=store.used + len(data))

    def _fill(
        self, kind: int, payload: Bytes | bytes, spans: Words, valid: Bytes, first_bit: int, out: Words, places: Words
    ) -> _Snapshot:
        """Run the kernel until all ids are in `out`, growing the store whenever it is full."""
        store, done, values = self._snapshot, 0, places.size or out.size
        while True:
            done = hashing.intern(
                kind, self._mask, payload, spans, valid, first_bit, done, places, out,
                store.heap, store.starts, store.ids, store.kinds, store.table, self._state,
            )  # fmt: skip
            if done == values:
                return store
            full = int(places[done]) if places.size else done
            added = int(self._state[hashing.COUNT]) - self._snapshot.size
            store = self._grown(store, int(spans[full + 1] - spans[full]), added * (values - done) // max(done, 1))

    def _grown(self, store: _Snapshot, needed: int, more: int = 0) -> _Snapshot:
        """Copies of the full arrays, with room for a value of `needed` bytes: at twice the size, or up to eight times
        if about `more` values are to come, because entering all ids into a new table is most of the work.
        """
        count, used = int(self._state[hashing.COUNT]), int(self._state[hashing.USED])
        times = min(max((count + more) // max(count, 1), 1), 4)
        if used + needed > store.heap.size:
            store = store._replace(heap=longer(store.heap, used, 2 * max(store.heap.size, used + needed) * times))
        if count >= store.ids.size:
            size = 2 * store.ids.size
            while size < 8 * store.ids.size and size < count + more:
                size *= 2
            table = np.zeros(4 * size, dtype=np.int64)
            ids = longer(store.ids, count, size)
            hashing.fill_table(table, ids, count)
            starts, kinds = longer(store.starts, count + 1, size + 1), longer(store.kinds, count, size)
            store = store._replace(ids=ids, starts=starts, kinds=kinds, table=table)
        return store

    def _go_back(self, before: _Snapshot) -> None:
        """Remove the entries after `before`, whose ids have not been published."""
        table = np.zeros_like(before.table)
        hashing.fill_table(table, before.ids, before.size)
        self._snapshot = before._replace(table=table)
        self._state[:] = before.size, before.used

    def _encode_dictionary(self, values: pa.DictionaryArray, kind: str) -> Words:
        ids = np.append(self.encode(values.dictionary, kind), NULL)
        places = numbers_of(values.indices.cast(pa.int64()), np.int64)
        return ids[np.where(null_mask(values.indices), len(ids) - 1, places) if values.null_count else places]

    def _encode_list(self, values: Sequence[Any], kind: str) -> Words:
        """Encode a list; avoids `pa.array`, which would import pandas (0.5 s)."""
        valid = NO_BYTES
        if None in values:
            valid = np.packbits([value is not None for value in values], bitorder="little")
            values = [("" if kind == "str" else b"") if value is None else value for value in values]
        if kind == "bytes":
            payload, sizes = b"".join(values), map(len, values)
        else:
            text = "".join(values)
            payload, sizes = utf8(text), map(len, values if text.isascii() else map(str.encode, values))
        spans = np.zeros(len(values) + 1, dtype=np.int64)
        np.cumsum([*sizes], out=spans[1:])
        return self._add(TAGS[kind], frozen(payload), spans, frozen(valid), 0, len(values))

    def _tuple(self, items: tuple[Any, ...]) -> int:
        """The id of a tuple with inferred item types."""
        pairs = [self._item(item) for item in items]
        return self.tuple_id([tag for tag, _ in pairs], [code for _, code in pairs])

    def _item(self, item: Any) -> tuple[int, int]:
        if item is None:
            return 0, NULL
        kind = kind_of(item)
        if kind is None:
            raise wrong_type(item, "a value that a tuple can hold")
        if kind in ENCODERS:
            scale = SCALE if kind == "decimal" else 0
            return item_tag(DataType(kind, scale=scale)), ENCODERS[kind](item, scale)
        return TAGS[kind], self.id(item)

    def _read(self, wanted: int) -> Any:
        """Read the value of an id from the store."""
        store = self._snapshot
        slot = hashing.slot_of(wanted, store.table, store.size)
        if slot >= 0:
            kind, data = KINDS[store.kinds[slot]], store.heap[store.starts[slot] : store.starts[slot + 1]].tobytes()
        else:
            payload, _, slots = self.payloads(np.array([wanted], dtype=np.int64), None)
            kind, data = KINDS[self._kind(wanted, int(slots[0]))], payload.tobytes()
        return self._read_tuple(data) if kind == "tuple" else data if kind == "bytes" else data.decode()

    def _kind(self, wanted: int, slot: int) -> int:
        store = self._snapshot
        if slot < store.size and store.ids[slot] == wanted:
            return int(store.kinds[slot])
        which, slots = slots_in(store.runs, np.array([wanted], dtype=np.int64))
        return int(store.runs[which[0]].kinds[slots[0]])

    def _read_tuple(self, data: bytes) -> tuple[Any, ...]:
        return tuple(self._read_item(tag, code) for tag, code in np.frombuffer(data, "<i8").reshape(-1, 2).tolist())

    def _read_item(self, tag: int, code: int) -> Any:
        if tag == 0:
            return None
        kind = KINDS[tag & 255]
        return DECODERS[kind](code, tag >> 8) if kind in DECODERS else self.values[code]


def _empty() -> _Snapshot:
    starts = np.zeros(257, dtype=np.int64)
    ids, kinds = np.empty(256, dtype=np.int64), np.empty(256, dtype=np.uint8)
    return _Snapshot(np.empty(4096, dtype=np.uint8), starts, ids, kinds, np.zeros(2 * 512, dtype=np.int64), 0, 0)


def _picked(payload: Bytes, spans: Words, places: Words) -> tuple[Bytes, Words]:
    """The bytes of some values, concatenated, with the bounds of each."""
    cuts = np.zeros(len(places) + 1, dtype=np.int64)
    np.cumsum(spans[places + 1] - spans[places], out=cuts[1:])
    out = np.empty(int(cuts[-1]), dtype=np.uint8)
    hashing.gather_at(places, payload, frozen(spans), cuts, out)
    return frozen(out), cuts


def _payloads_at_rest(store: _Snapshot, wanted: Words, kind: str | None) -> tuple[Bytes, Words, Words]:
    """Implements `Interner.payloads` when runs have some of the values."""
    which, slots = slots_in(store.runs, wanted)
    here = np.flatnonzero((which < 0) & (wanted != NULL))
    found, spans = np.empty(len(here), dtype=np.int64), np.empty(len(here) + 1, dtype=np.int64)
    stranger = hashing.locate(
        wanted[here], TAGS[kind] if kind else 0, store.kinds, store.starts, store.table, store.size, found, spans
    )
    if stranger >= 0:
        raise _unknown(int(wanted[here[stranger]]), kind)
    sizes = np.zeros(len(wanted), dtype=np.int64)
    sizes[here] = np.diff(spans)
    mine = np.full(len(wanted), -1, dtype=np.int64)
    mine[here] = found
    parts = [(store.heap, store.starts, mine)]
    for number in np.unique(which[which >= 0]).tolist():
        run, there = store.runs[number], np.where(which == number, slots, -1)
        other = np.flatnonzero((there >= 0) & (run.kinds[there] != TAGS[kind])) if kind else here[:0]
        if len(other):
            raise _unknown(int(wanted[other[0]]), kind)
        sizes += run.sizes(there)
        parts.append((run.heap, run.starts, there))
    spans = np.zeros(len(wanted) + 1, dtype=np.int64)
    np.cumsum(sizes, out=spans[1:])
    out = np.empty(int(spans[-1]), dtype=np.uint8)
    for heap, starts, there in parts:
        hashing.gather_at(there, heap, frozen(starts), spans, out)
    return out, spans, np.where(which >= 0, slots, mine)


def item_tag(declared: DataType) -> int:
    """The tag of a tuple's item of this type, if it is not NULL.

    >>> item_tag(DataType("int")), item_tag(DataType("decimal", scale=2))
    (1, 520)
    """
    return TAGS[declared.kind] | (declared.scale << 8)


def _unknown(wanted: int, kind: str | None) -> InputError:
    hint = "ids come from the interner that made them, or from a dictionary loaded from it"
    return InputError("E_CODE", f"no {kind or 'value'} has id {wanted}", hint)
