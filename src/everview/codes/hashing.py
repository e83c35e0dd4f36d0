"""Kernels of the interner: one hash of bytes, and an open-addressing table from ids to slots.

The hash is of the wyhash family: 16 bytes per step through one 64 x 64 -> 128 bit multiplication. Its halves and
operands are folded together by xor (`mix`), so that no operand can cancel the other. It depends on the bytes and the
seed alone: all processes on all (little-endian) machines compute the same number.

The interner's *store* is five append-only arrays:

    heap     uint8   the bytes of all values, one after the other
    starts   int64   value s is heap[starts[s] : starts[s + 1]]
    ids      int64   the id of value s
    kinds    uint8   what value s is (str, bytes, tuple)
    table    int64   pairs (id, s + 1), linear probing, a power of two of them, never more than half full

Hazard: kernels read heap and payload through addresses (8 bytes at a time), so `starts` must be correct; nothing checks
it. Readers may run while one writer appends: a reader carries the number of entries published when it started and
ignores entries of later slots. Entries are never moved or removed within a table.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir

from everview.kernels.build.native import DEBUG, WORD, entry, inner, primitive
from everview.kernels.memory import prefetch, raw_load, raw_store
from everview.types import NULL

if DEBUG:
    from everview.kernels.memory import fault

_WIDE = ir.IntType(128)

# odd 64-bit constants with balanced bits, as signed numbers
_S0 = -0x5F89E29B87429BD9
_S1 = -0x1775A4E6D78B2A3B
_S2 = 0x589965CC75374CC3

BLOCK = 64
"""Values prefetched as a block."""

COUNT, USED = 0, 1
"""Words of the store's state: entries, bytes of the heap in use."""

MASKED_SALTS = 2
"""How many salts a mask (forced collisions in tests) applies to; later ones use all 64 bits, so a search ends."""


def _loader(width: int) -> Any:
    @primitive("int64(int64, int64)")
    def load(builder: Any, address: Any, offset: Any) -> Any:
        pointer = builder.inttoptr(builder.add(address, offset), ir.IntType(width).as_pointer())
        word = builder.load(pointer, align=1)
        return builder.zext(word, WORD) if width < 64 else word

    return load


def _storer(width: int) -> Any:
    @primitive("void(int64, int64, int64)")
    def store(builder: Any, address: Any, offset: Any, word: Any) -> None:
        pointer = builder.inttoptr(builder.add(address, offset), ir.IntType(width).as_pointer())
        builder.store(builder.trunc(word, ir.IntType(width)) if width < 64 else word, pointer, align=1)

    return store


_store8, _store64 = _storer(8), _storer(64)
_load8, _load32, _load64 = _loader(8), _loader(32), _loader(64)


@primitive("int64(int64, int64)")
def _mix(builder: Any, left: Any, right: Any) -> Any:
    """Fold the 128-bit product of two words, and the words, into one word."""
    product = builder.mul(builder.zext(left, _WIDE), builder.zext(right, _WIDE))
    low = builder.xor(left, builder.trunc(product, WORD))
    high = builder.xor(right, builder.trunc(builder.lshr(product, ir.Constant(_WIDE, 64)), WORD))
    return builder.xor(low, high)


@inner
def _inside(array, n, i):
    """Whether i is a valid index of an array of n items; always true in the normal build."""
    if DEBUG:  # alone, so that Numba leaves the rest out of the normal build
        inside = 0 <= i < n
        if not inside:
            fault(array, i, n)
        return inside
    return True


@inner
def _word(array, n, i):
    """Item i of an array of n words."""
    return raw_load(array, i) if _inside(array, n, i) else 0


@inner
def _set_word(array, n, i, value):
    if _inside(array, n, i):
        raw_store(array, i, value)


@inner
def _byte(array, n, i):
    """Item i of an array of n bytes."""
    return _load8(array, i) if _inside(array, n, i) else 0


@inner
def hash_bytes(address, size, seed):
    """Hash `size` bytes at `address`."""
    state = _mix(seed ^ _S0, _S1)
    a = 0
    b = 0
    if size > 16:
        i = 0
        while size - i > 16:
            state = _mix(_load64(address, i) ^ _S1, _load64(address, i + 8) ^ state)
            i += 16
        a = _load64(address, size - 16)
        b = _load64(address, size - 8)
    elif size >= 8:
        a = _load64(address, 0)
        b = _load64(address, size - 8)
    elif size >= 4:
        a = _load32(address, 0)
        b = _load32(address, size - 4)
    elif size > 0:
        a = (_load8(address, 0) << 16) | (_load8(address, size >> 1) << 8) | _load8(address, size - 1)
    return _mix(_S2 ^ size, _mix(a ^ _S1, b ^ state))


@inner
def _same(left, right, size):
    i = 0
    while size - i >= 8:
        if _load64(left, i) != _load64(right, i):
            return False
        i += 8
    while i < size:
        if _load8(left, i) != _load8(right, i):
            return False
        i += 1
    return True


@inner
def _home(pairs, wanted):
    """Where the search for an id begins: ids are uniform (but for masked salts), a multiplication spreads them all."""
    return ((wanted * 0x1E3779B97F4A7C15) >> 20) & (pairs - 1)


@inner
def _probe(table, words, wanted):
    """Position of the pair of id `wanted`, or of the empty pair where it belongs."""
    pairs = words >> 1
    at = _home(pairs, wanted)
    while _word(table, words, 2 * at + 1) != 0 and _word(table, words, 2 * at) != wanted:
        at = (at + 1) & (pairs - 1)
    return 2 * at


@inner
def _fetch(wanted, low, high, starts, table, words):
    """Prefetch the memory that look-ups of a block of ids will touch.

    A look-up misses the cache several times (table, start, bytes); prefetching a whole block overlaps the misses.
    """
    for i in range(low, high):
        prefetch(table, 2 * _home(words >> 1, raw_load(wanted, i)))
    for i in range(low, high):
        prefetch(starts, _guess(table, words, raw_load(wanted, i)))


@inner
def _guess(table, words, wanted):
    """The slot where the search for an id begins, mostly the right one; 0 if there is none."""
    return max(_word(table, words, 2 * _home(words >> 1, wanted) + 1) - 1, 0)


@inner
def _copy(target, source, size):
    i = 0
    while size - i >= 8:
        _store64(target, i, _load64(source, i))
        i += 8
    while i < size:
        _store8(target, i, _load8(source, i))
        i += 1


@inner
def _hash_block(kind, mask, payload, spans, n_spans, out, low, high):
    """Write the first hashes of values low .. high into `out`."""
    for i in range(low, high):
        at = _word(spans, n_spans, i)
        raw_store(out, i, hash_bytes(payload + at, _word(spans, n_spans, i + 1) - at, kind) & mask)


@inner
def _fetch_bytes(wanted, low, high, heap, starts, n_starts, table, words):
    """Prefetch the bytes that values low .. high will be compared with, too."""
    _fetch(wanted, low, high, starts, table, words)
    for i in range(low, high):
        prefetch(heap + _word(starts, n_starts, _guess(table, words, raw_load(wanted, i))), 0)


@inner
def _is_null(valid, n_valid, bit):
    return n_valid > 0 and (_byte(valid, n_valid, bit >> 3) >> (bit & 7)) & 1 == 0


@inner
def _holds(slot, kind, address, size, heap, starts, n_starts, kinds, n_kinds):
    """Whether a slot's value is this one."""
    begin = _word(starts, n_starts, slot)
    equal = _byte(kinds, n_kinds, slot) == kind and _word(starts, n_starts, slot + 1) - begin == size
    return equal and _same(heap + begin, address, size)


@entry(
    "int", "int", "text", "words", "text", "int", "int", "int", "words", "words",
    "bytes", "words", "bytes", "words", "int",
)  # fmt: skip
def find(
    kind, mask, payload, _payload, spans, n_spans, valid, n_valid, first_bit, start, end, out, _out, missing, n_missing,
    heap, _heap, starts, n_starts, kinds, n_kinds, table, words, count,
):  # fmt: skip
    """Write the ids of values start .. end into `out`, for those that are in the first `count` slots. The places of the
    others are written to `missing`, from place `start` on, and their first hashes to `out`; returns how many they are.
    """
    ready = start
    strangers = 0
    for i in range(start, end):
        if i == ready:
            ready = min(i + BLOCK, end)
            _hash_block(kind, mask, payload, spans, n_spans, out, i, ready)
            _fetch_bytes(out, i, ready, heap, starts, n_starts, table, words)
        if _is_null(valid, n_valid, first_bit + i):
            raw_store(out, i, NULL)
            continue
        at = _word(spans, n_spans, i)
        slot = _word(table, words, _probe(table, words, raw_load(out, i)) + 1) - 1
        size = _word(spans, n_spans, i + 1) - at
        known = 0 <= slot < count and raw_load(out, i) != NULL
        if not (known and _holds(slot, kind, payload + at, size, heap, starts, n_starts, kinds, n_kinds)):
            _set_word(missing, n_missing, start + strangers, i)
            strangers += 1
    return strangers


@inner
def _place(places, n_places, k):
    """The k-th place, or k if there is no list of them."""
    return _word(places, n_places, k) if n_places > 0 else k


@entry(
    "int", "int", "text", "words", "text", "int", "int", "words", "words",
    "bytes", "words", "words", "bytes", "words", "words",
)  # fmt: skip
def intern(
    kind, mask, payload, _payload, spans, n_spans, valid, n_valid, first_bit, start, places, n_places, out, n_out,
    heap, n_heap, starts, n_starts, ids, n_ids, kinds, n_kinds, table, words, state, _state,
):  # fmt: skip
    """Write the ids of values `start`.. into `out`, adding new values to the store; the value where room ran out.

    Value i is payload[spans[i] : spans[i + 1]]; it is NULL if `valid` is not empty and bit first_bit + i is 0. If there
    are `places`, only the values there are meant, and their first hashes are in `out`.
    """
    n = n_places if n_places > 0 else n_out
    ready = start
    count = raw_load(state, COUNT)
    used = raw_load(state, USED)
    room = min(n_ids, n_starts - 1, words >> 2)
    for k in range(start, n):
        if k == ready:
            ready = min(k + BLOCK, n)
            if n_places == 0:
                _hash_block(kind, mask, payload, spans, n_spans, out, k, ready)
                _fetch_bytes(out, k, ready, heap, starts, n_starts, table, words)
            else:
                for j in range(k, ready):
                    prefetch(table, 2 * _home(words >> 1, raw_load(out, _word(places, n_places, j))))
        i = _place(places, n_places, k)
        if _is_null(valid, n_valid, first_bit + i):
            raw_store(out, i, NULL)
            continue
        address = payload + _word(spans, n_spans, i)
        size = _word(spans, n_spans, i + 1) - _word(spans, n_spans, i)
        wanted = raw_load(out, i)
        salt = 0
        while True:
            if salt > 0:
                wanted = hash_bytes(address, size, kind + (salt << 8))
                if salt < MASKED_SALTS:
                    wanted &= mask
            salt += 1
            if wanted == NULL:
                continue
            at = _probe(table, words, wanted)
            slot = _word(table, words, at + 1) - 1
            if slot < 0:
                if count >= room or used + size > n_heap:
                    raw_store(state, COUNT, count)
                    raw_store(state, USED, used)
                    return k
                _copy(heap + used, address, size)
                used += size
                _set_word(ids, n_ids, count, wanted)
                _store8(kinds, count, kind)
                count += 1
                _set_word(starts, n_starts, count, used)
                _set_word(table, words, at, wanted)
                _set_word(table, words, at + 1, count)
                break
            if _holds(slot, kind, address, size, heap, starts, n_starts, kinds, n_kinds):
                break
        raw_store(out, i, wanted)
    raw_store(state, COUNT, count)
    raw_store(state, USED, used)
    return n


@entry("int", "int", "text", "words", "words")
def hash_all(kind, mask, payload, _payload, spans, n_spans, out, n):
    """Write the first hash of every value, the id of most, into `out`."""
    _hash_block(kind, mask, payload, spans, n_spans, out, 0, n)
    return 0


@entry("int", "text", "words", "words", "text", "text", "text", "words")
def compare(
    kind, payload, _payload, spans, n_spans, slots, n, kinds, n_kinds, heap, _heap, starts, b_starts, same, n_same
):
    """Whether each value is the one in its slot of a run (`everview.codes.runs`); not if the slot is -1."""
    n_starts = b_starts >> 3
    for i in range(n):
        slot = raw_load(slots, i)
        found = 0
        if slot >= 0:
            at = _word(spans, n_spans, i)
            size = _word(spans, n_spans, i + 1) - at
            if _holds(slot, kind, payload + at, size, heap, starts, n_starts, kinds, n_kinds):
                found = 1
        _set_word(same, n_same, i, found)
    return 0


@entry("words", "text", "text", "words", "bytes")
def gather_at(slots, n, heap, _heap, starts, b_starts, spans, n_spans, out, _out):
    """Copy the bytes of a run's values `slots` to where they belong in `out`; those of slot -1 are not ours."""
    n_starts = b_starts >> 3
    for i in range(n):
        slot = raw_load(slots, i)
        if slot >= 0:
            begin = _word(starts, n_starts, slot)
            _copy(out + _word(spans, n_spans, i), heap + begin, _word(starts, n_starts, slot + 1) - begin)
    return 0


@entry("words", "words", "int")
def fill_table(table, words, ids, n_ids, count):
    """Enter the first `count` ids into an empty table."""
    for slot in range(count):
        wanted = _word(ids, n_ids, slot)
        at = _probe(table, words, wanted)
        _set_word(table, words, at, wanted)
        _set_word(table, words, at + 1, slot + 1)
    return 0


@entry("words", "int", "bytes", "words", "words", "int", "words", "words")
def locate(wanted, n, kind, kinds, n_kinds, starts, n_starts, table, words, count, slots, n_slots, spans, n_spans):
    """Slots (-1 for NULL) and running sizes of wanted ids; the first position whose id is not known, else -1.

    Only entries of `kind` count as known, of any kind if it is 0.
    """
    total = 0
    _set_word(spans, n_spans, 0, 0)
    for i in range(n):
        if i % BLOCK == 0:
            _fetch(wanted, i, min(i + BLOCK, n), starts, table, words)
        slot = -1
        code = raw_load(wanted, i)
        if code != NULL:
            slot = _word(table, words, _probe(table, words, code) + 1) - 1
            if slot < 0 or slot >= count or (kind != 0 and _byte(kinds, n_kinds, slot) != kind):
                return i
            total += _word(starts, n_starts, slot + 1) - _word(starts, n_starts, slot)
        _set_word(slots, n_slots, i, slot)
        _set_word(spans, n_spans, i + 1, total)
    return -1


@entry("int", "words", "int", allocates=False, brief=True)
def slot_of(code, table, words, count):
    """The slot of an id; -1 if it is not known."""
    slot = _word(table, words, _probe(table, words, code) + 1) - 1
    if slot >= count:
        return -1
    return slot


@entry("words", "bytes", "words", "bytes")
def gather(slots, n, heap, _heap, starts, n_starts, out, _out):
    """Copy the bytes of values `slots` one after the other into `out`."""
    at = out
    for i in range(n):
        if i % BLOCK == 0:
            for j in range(i, min(i + BLOCK, n)):
                prefetch(starts, raw_load(slots, j))
            for j in range(i, min(i + BLOCK, n)):
                prefetch(heap + _word(starts, n_starts, max(raw_load(slots, j), 0)), 0)
        slot = raw_load(slots, i)
        if slot >= 0:
            begin = _word(starts, n_starts, slot)
            size = _word(starts, n_starts, slot + 1) - begin
            _copy(at, heap + begin, size)
            at += size
    return 0
