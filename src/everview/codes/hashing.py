"""Kernels of the interner: one hash of bytes, and an open-addressing table from ids to slots.

The hash is of the wyhash family: 16 bytes per step through one 64 x 64 -> 128 bit multiplication, whose halves and
operands are folded together by xor (`mix`), so that no operand can silence the other. It depends on the bytes and the
seed alone: every process on every (little-endian) machine gets the same number.

The interner's *store* is five arrays that grow at the end and never change what was written:

    heap     uint8   the bytes of all values, one after the other
    starts   int64   value s is heap[starts[s] : starts[s + 1]]
    ids      int64   the id of value s
    kinds    uint8   what value s is (str, bytes, tuple)
    table    int64   pairs (id, s + 1), linear probing, a power of two of them, never more than half full

Hazard: kernels read heap and payload through addresses (8 bytes at a time), so `starts` must be right; nothing checks.
Readers may run while one writer appends: a reader carries the number of entries that were published when it started
and takes an entry of a later slot for a stranger. Entries are never moved or removed within a table.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic

from everview.kernels import memory
from everview.types import NULL

_I64 = ir.IntType(64)
_I128 = ir.IntType(128)

# odd 64-bit constants with balanced bits, as signed numbers
_S0 = -0x5F89E29B87429BD9
_S1 = -0x1775A4E6D78B2A3B
_S2 = 0x589965CC75374CC3

BLOCK = 64
"""Values whose memory is asked for ahead of their turn."""

OPTIONS = memory.OPTIONS | {"boundscheck": memory.DEBUG}
"""Array accesses are checked in the debug build; those through addresses are not."""

COUNT, USED = 0, 1
"""Words of the store's state: entries, bytes of the heap in use."""

MASKED_SALTS = 2
"""How many salts a mask (forced collisions in tests) applies to; later ones use all 64 bits, so a search ends."""


def _loader(width: int) -> Any:
    @intrinsic  # type: ignore[misc]
    def load(typingctx: Any, address: Any, offset: Any) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            pointer = builder.inttoptr(builder.add(args[0], args[1]), ir.IntType(width).as_pointer())
            word = builder.load(pointer, align=1)
            return builder.zext(word, _I64) if width < 64 else word

        return types.int64(types.int64, types.int64), codegen

    return load


def _storer(width: int) -> Any:
    @intrinsic  # type: ignore[misc]
    def store(typingctx: Any, address: Any, offset: Any, word: Any) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            pointer = builder.inttoptr(builder.add(args[0], args[1]), ir.IntType(width).as_pointer())
            builder.store(builder.trunc(args[2], ir.IntType(width)) if width < 64 else args[2], pointer, align=1)
            return context.get_dummy_value()

        return types.void(types.int64, types.int64, types.int64), codegen

    return store


_store8, _store64 = _storer(8), _storer(64)
_load8, _load32, _load64 = _loader(8), _loader(32), _loader(64)


@intrinsic  # type: ignore[misc]
def _mix(typingctx: Any, left: Any, right: Any) -> Any:
    """Fold the 128-bit product of two words, and the words, into one word."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        product = builder.mul(builder.zext(args[0], _I128), builder.zext(args[1], _I128))
        low = builder.xor(args[0], builder.trunc(product, _I64))
        high = builder.xor(args[1], builder.trunc(builder.lshr(product, ir.Constant(_I128, 64)), _I64))
        return builder.xor(low, high)

    return types.int64(types.int64, types.int64), codegen


@intrinsic  # type: ignore[misc]
def _prefetch(typingctx: Any, address: Any) -> Any:
    """Ask for the cache line of `address`; harmless whatever the address is."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        pointer = ir.IntType(8).as_pointer()
        shape = ir.FunctionType(ir.VoidType(), [pointer, *[ir.IntType(32)] * 3])
        function = cgutils.get_or_insert_function(builder.module, shape, "llvm.prefetch.p0")
        read, keep, data = (ir.Constant(ir.IntType(32), number) for number in (0, 3, 1))
        builder.call(function, [builder.inttoptr(args[0], pointer), read, keep, data])
        return context.get_dummy_value()

    return types.void(types.int64), codegen


@njit("int64(int64, int64, int64)", **OPTIONS)
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


@njit(**OPTIONS)
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


@njit(**OPTIONS)
def _home(table, wanted):
    """Where the search for an id begins: ids are uniform (but for masked salts), a multiplication spreads them all."""
    return ((wanted * 0x1E3779B97F4A7C15) >> 20) & ((table.size >> 1) - 1)


@njit(**OPTIONS)
def _probe(table, wanted):
    """Position of the pair of id `wanted`, or of the empty pair where it belongs."""
    mask = (table.size >> 1) - 1
    at = _home(table, wanted)
    while table[2 * at + 1] != 0 and table[2 * at] != wanted:
        at = (at + 1) & mask
    return 2 * at


@njit(**OPTIONS)
def _fetch(wanted, low, high, starts, table):
    """Ask for the memory that look-ups of a block of ids will touch.

    A look-up waits for memory several times (table, start, bytes); so a whole block waits together.
    """
    for i in range(low, high):
        _prefetch(table.ctypes.data + 16 * _home(table, wanted[i]))
    for i in range(low, high):
        _prefetch(starts.ctypes.data + 8 * _guess(table, wanted[i]))


@njit(**OPTIONS)
def _guess(table, wanted):
    """The slot where the search for an id begins, mostly the right one; 0 if there is none."""
    return max(table[2 * _home(table, wanted) + 1] - 1, 0)


@njit(**OPTIONS)
def _copy(target, source, size):
    i = 0
    while size - i >= 8:
        _store64(target, i, _load64(source, i))
        i += 8
    while i < size:
        _store8(target, i, _load8(source, i))
        i += 1


_READ = types.Array(types.uint8, 1, "C", readonly=True)


@njit(
    types.int64(
        types.int64, types.int64, _READ, types.int64[::1], _READ, types.int64, types.int64, types.int64[::1],
        types.uint8[::1], types.int64[::1], types.int64[::1], types.uint8[::1], types.int64[::1], types.int64[::1],
    ),
    **OPTIONS,
)  # fmt: skip
def intern(kind, mask, payload, spans, valid, first_bit, start, out, heap, starts, ids, kinds, table, state):
    """Write the ids of values `start`.. into `out`, adding new values to the store; the value where room ran out.

    Value i is payload[spans[i] : spans[i + 1]]; it is NULL if `valid` is not empty and bit first_bit + i is 0.
    """
    source = payload.ctypes.data
    target = heap.ctypes.data
    ready = start
    count = state[0]
    used = state[1]
    room = min(ids.size, starts.size - 1, table.size >> 2)
    for i in range(start, out.size):
        if i == ready:
            ready = min(i + BLOCK, out.size)
            for j in range(i, ready):
                out[j] = hash_bytes(source + spans[j], spans[j + 1] - spans[j], kind) & mask
            _fetch(out, i, ready, starts, table)
            for j in range(i, ready):
                _prefetch(target + starts[_guess(table, out[j])])
        if valid.size > 0:
            bit = first_bit + i
            if (valid[bit >> 3] >> (bit & 7)) & 1 == 0:
                out[i] = NULL
                continue
        address = source + spans[i]
        size = spans[i + 1] - spans[i]
        salt = 0
        while True:
            wanted = out[i]
            if salt > 0:
                wanted = hash_bytes(address, size, kind + (salt << 8))
                if salt < MASKED_SALTS:
                    wanted &= mask
            salt += 1
            if wanted == NULL:
                continue
            at = _probe(table, wanted)
            slot = table[at + 1] - 1
            if slot < 0:
                if count >= room or used + size > heap.size:
                    state[0] = count
                    state[1] = used
                    return i
                _copy(target + used, address, size)
                used += size
                ids[count] = wanted
                kinds[count] = kind
                count += 1
                starts[count] = used
                table[at] = wanted
                table[at + 1] = count
                break
            equal = kinds[slot] == kind and starts[slot + 1] - starts[slot] == size
            if equal and _same(target + starts[slot], address, size):
                break
        out[i] = wanted
    state[0] = count
    state[1] = used
    return out.size


@njit(types.void(types.int64[::1], types.int64[::1], types.int64), **OPTIONS)
def fill_table(table, ids, count):
    """Enter the first `count` ids into an empty table."""
    for slot in range(count):
        at = _probe(table, ids[slot])
        table[at] = ids[slot]
        table[at + 1] = slot + 1


@njit(
    types.int64(
        types.int64[::1], types.int64, types.uint8[::1], types.int64[::1], types.int64[::1], types.int64,
        types.int64[::1], types.int64[::1],
    ),
    **OPTIONS,
)  # fmt: skip
def locate(wanted, kind, kinds, starts, table, count, slots, spans):
    """Slots (-1 for NULL) and running sizes of wanted ids; the first position whose id is not known, else -1.

    Only entries of `kind` count as known, of any kind if it is 0.
    """
    total = 0
    spans[0] = 0
    for i in range(wanted.size):
        if i % BLOCK == 0:
            _fetch(wanted, i, min(i + BLOCK, wanted.size), starts, table)
        slot = -1
        if wanted[i] != NULL:
            slot = table[_probe(table, wanted[i]) + 1] - 1
            if slot < 0 or slot >= count or (kind != 0 and kinds[slot] != kind):
                return i
            total += starts[slot + 1] - starts[slot]
        slots[i] = slot
        spans[i + 1] = total
    return -1


@njit(types.void(types.int64[::1], types.uint8[::1], types.int64[::1], types.uint8[::1]), **OPTIONS)
def gather(slots, heap, starts, out):
    """Copy the bytes of values `slots` one after the other into `out`."""
    at = out.ctypes.data
    base = heap.ctypes.data
    for i in range(slots.size):
        if i % BLOCK == 0:
            for j in range(i, min(i + BLOCK, slots.size)):
                _prefetch(starts.ctypes.data + 8 * slots[j])
            for j in range(i, min(i + BLOCK, slots.size)):
                _prefetch(base + starts[max(slots[j], 0)])
        slot = slots[i]
        if slot >= 0:
            size = starts[slot + 1] - starts[slot]
            _copy(at, base + starts[slot], size)
            at += size
