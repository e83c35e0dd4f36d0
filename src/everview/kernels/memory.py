"""Raw int64 memory: the only place where memory is allocated, accessed and freed.

Kernels work on blocks of int64 words only. A block is identified by its address (an int64), created by `alloc` and
destroyed by `free`. Two words before every block hold a magic number and its size in words, so a *debug build* can
check each access:

    address-16: BLOCK_MAGIC     address-8: size in words     address: word 0, word 1, ...

`EVERVIEW_DEBUG=1` selects that build. There, a read outside its block (or of a freed block) returns 0, a write outside
is dropped, and the first such fault is recorded in `cell`; the executor checks the cell after every operator and stops
the step with an internal error that names the operator. The normal build compiles `ld`/`st` to single machine
instructions. Hazard: pass *block* addresses around, never addresses into the middle of a block, or the debug build
cannot find the header.

If there is no memory, `alloc` and `grow` do not return: the call is exited (see `early_exit`) and raises an exception.
Its allocations must be found again. Blocks of CELL_TRACK_FROM words or more are therefore *tracked*: four more words
before them link them into a global list and identify the call that created them. Small blocks are not, because that
would cost a step of a few microseconds a tenth of its time; the exceptions are those that a kernel allocates for work
on large ones (`alloc_with`), or for a second thread, whose work is always large. The same blocks are counted
(CELL_TRACKED_WORDS), and may be limited (CELL_LIMIT, in words; 0: no limit). Tests set CELL_TRACK_FROM to 0, and
CELL_FAIL_IN to make the n-th allocation fail.

Blocks that grow for the lifetime of a session (`reserve_lasting`, `zeros_lasting`) are *mapped* separately when they
are large: the system then moves them by remapping, without copying, and their pages are allocated on first use.
Doubling a gigabyte took half a second before, in the middle of a step of microseconds.
"""

from __future__ import annotations

import ctypes
import os
import sys
from typing import Any

import numpy as np
from llvmlite import ir

from everview.kernels.build.native import COMPILING, DEBUG, POINTER, WORD, external, inner, primitive, shared
from everview.kernels.early_exit import leave, record, shared_words
from everview.kernels.guarded_calls import (
    CELL_CALLS,
    CELL_ERRORS,
    CELL_FAIL_IN,
    CELL_FAILED_KEY,
    CELL_FAULT_ADDRESS,
    CELL_FAULT_INDEX,
    CELL_FAULT_SIZE,
    CELL_FAULTS,
    CELL_FIRST,
    CELL_KEY,
    CELL_LIMIT,
    CELL_LIVE_BLOCKS,
    CELL_LIVE_WORDS,
    CELL_LOCK,
    CELL_TRACK_FROM,
    CELL_TRACKED_WORDS,
    CELL_WANTED,
    CELL_WORDS,
    HALF,
    JUMP_NUMBER,
    NO_MEMORY,
    TOO_LARGE,
)

BLOCK_MAGIC = 0x45564D454D4F5259  # "EVMEMORY"
BLOCK_TRACKED = 0x4556545241434B44  # "EVTRACKD"
BLOCK_DEAD = 0x4445414444454144

BLOCK_MAPPED, BLOCK_BORN, BLOCK_FOLLOWING, BLOCK_PREVIOUS, BLOCK_TRACKED_HEAD = -3, -4, -5, -6, 6
"""Words of a tracked block: the bytes that are mapped for it (0: it is malloc's), the number of the call it was born in
(0: whoever fails, it stays), its neighbours.
"""

MAPPED_FROM = 1 << 20 if sys.platform == "linux" else 2**60
"""Words from which lasting blocks are mapped."""

TOO_MANY_WORDS = 2**57  # words that nobody can have
EVER = 2**62  # for `alloc_with`: whatever else is allocated is large


def _keep_memory() -> None:
    """Let freed blocks be reused instead of returning them to the system: fresh pages cost more than the work on
    them.

    Up to an eighth of the machine's memory may stay unused in the process. Huge pages would not help: the kernel clears
    them too, and on virtual machines that return free memory to their host that is slower still.
    """
    libc = ctypes.CDLL(None)
    if hasattr(libc, "mallopt"):
        eighth = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 8
        keep = min(max(eighth, 64 << 20), 2**31 - 1)
        libc.mallopt(-3, keep)  # M_MMAP_THRESHOLD: only larger blocks are mapped one by one
        libc.mallopt(-1, keep)  # M_TRIM_THRESHOLD: this much may stay unused at the top of the heap


_keep_memory()


def _cell_words() -> Any:
    from everview.kernels.build.libraries import library

    words = ctypes.c_int64 * CELL_WORDS
    return words() if COMPILING else words.from_address(library().cell())


cell = np.frombuffer(_cell_words(), dtype=np.int64)
"""The words that all kernels share; see the module and `guarded_calls`."""

TRACKED_FROM = 4096
"""Words from which blocks are tracked."""


def _new_key() -> int:
    key = ctypes.c_uint32()
    ctypes.CDLL(None).pthread_key_create(ctypes.byref(key), None)
    return key.value


def _set_up() -> None:
    """Initialise the cell; the exceptions for kernel failures are created once and live as long as the process."""
    from everview.errors import out_of_memory, overflow

    cell[CELL_TRACK_FROM] = TRACKED_FROM
    cell[CELL_KEY], cell[CELL_FAILED_KEY] = _new_key(), _new_key()
    for code, error in ((NO_MEMORY, out_of_memory()), (TOO_LARGE, overflow())):
        _KEPT.append((type(error), error.args))
        cell[CELL_ERRORS + 2 * code : CELL_ERRORS + 2 * code + 2] = [id(part) for part in _KEPT[-1]]
    if hasattr(os, "register_at_fork"):  # another thread may have held the lock
        os.register_at_fork(after_in_child=lambda: cell.__setitem__(CELL_LOCK, 0))


_KEPT: list[Any] = []
if not COMPILING:
    _set_up()


def _word(builder: Any, address: Any, index: Any) -> Any:
    return builder.gep(builder.inttoptr(address, WORD.as_pointer()), [index])


@primitive("int64(int64, int64)")
def raw_load(builder: Any, address: Any, index: Any) -> Any:
    """Load word `index` of the block at `address`, unchecked."""
    return builder.load(_word(builder, address, index))


@primitive("void(int64, int64, int64)")
def raw_store(builder: Any, address: Any, index: Any, value: Any) -> None:
    """Store `value` into word `index` of the block at `address`, unchecked."""
    builder.store(value, _word(builder, address, index))


@primitive("void(int64, int64)")
def prefetch(builder: Any, address: Any, index: Any) -> None:
    """Ask for the cache line of word `index` of the block at `address`; harmless whatever the address is."""
    kind = ir.FunctionType(ir.VoidType(), [POINTER, HALF, HALF, HALF])
    function = builder.module.declare_intrinsic("llvm.prefetch", [POINTER], kind)
    place = builder.bitcast(_word(builder, address, index), POINTER)
    builder.call(function, [place, *(ir.Constant(HALF, number) for number in (0, 3, 1))])  # read; keep near; data


@primitive("int64(int64, int64, int64)")
def add_atomically(builder: Any, address: Any, index: Any, value: Any) -> Any:
    """Add to a word that two threads may change at once; what was there before."""
    return builder.atomic_rmw("add", _word(builder, address, index), value, "seq_cst")


@primitive("int64(int64, int64, int64)")
def _exchange(builder: Any, address: Any, index: Any, value: Any) -> Any:
    """Set a word that two threads may change at once; what was there before."""
    return builder.atomic_rmw("xchg", _word(builder, address, index), value, "seq_cst")


@primitive("int64(int64, int64)")
def call_pointer(builder: Any, function: Any, argument: Any) -> Any:
    """Call the compiled operator at address `function` with one int64 argument."""
    return builder.call(builder.inttoptr(function, ir.FunctionType(WORD, [WORD]).as_pointer()), [argument])


@primitive("float64(int64)")
def float_of_bits(builder: Any, bits: Any) -> Any:
    """The float64 whose bit pattern is the int64 `bits`."""
    return builder.bitcast(bits, ir.DoubleType())


@primitive("int64(float64)")
def bits_of_float(builder: Any, number: Any) -> Any:
    """The bit pattern of a float64 as an int64."""
    return builder.bitcast(number, WORD)


@primitive("int64(int64)")
def _c_malloc(builder: Any, size: Any) -> Any:
    return builder.ptrtoint(builder.call(external(builder, "malloc", POINTER, WORD), [size]), WORD)


@primitive("int64(int64, int64)")
def _c_realloc(builder: Any, address: Any, size: Any) -> Any:
    function = external(builder, "realloc", POINTER, POINTER, WORD)
    return builder.ptrtoint(builder.call(function, [builder.inttoptr(address, POINTER), size]), WORD)


@primitive("void(int64)")
def _c_free(builder: Any, address: Any) -> None:
    builder.call(external(builder, "free", ir.VoidType(), POINTER), [builder.inttoptr(address, POINTER)])


def _int(number: int, bits: int = 64) -> Any:
    return ir.Constant(ir.IntType(bits), number)


@primitive("int64(int64)")
def _c_map(builder: Any, size: Any) -> Any:
    """So many bytes of zeros, mapped; -1 if there are none. Readable, writable; private, of no file."""
    if sys.platform != "linux":
        return _int(-1)
    small = ir.IntType(32)
    function = external(builder, "mmap", POINTER, POINTER, WORD, small, small, small, WORD)
    arguments = [builder.inttoptr(_int(0), POINTER), size, _int(3, 32), _int(0x22, 32), _int(-1, 32), _int(0)]
    return builder.ptrtoint(builder.call(function, arguments), WORD)


@primitive("int64(int64, int64, int64)")
def _c_remap(builder: Any, address: Any, old: Any, new: Any) -> Any:
    """Give a mapping another size, wherever it must go for that; -1 if there is no room."""
    if sys.platform != "linux":
        return _int(-1)
    function = external(builder, "mremap", POINTER, POINTER, WORD, WORD, ir.IntType(32))
    return builder.ptrtoint(builder.call(function, [builder.inttoptr(address, POINTER), old, new, _int(1, 32)]), WORD)


@primitive("void(int64, int64)")
def _c_unmap(builder: Any, address: Any, size: Any) -> None:
    if sys.platform == "linux":
        function = external(builder, "munmap", ir.IntType(32), POINTER, WORD)
        builder.call(function, [builder.inttoptr(address, POINTER), size])


@primitive("void(int64, int64, int64)")
def raw_copy(builder: Any, target: Any, source: Any, words: Any) -> None:
    """memmove `words` words from address `source` to address `target`, unchecked."""
    function = external(builder, "memmove", POINTER, POINTER, POINTER, WORD)
    places = [builder.inttoptr(address, POINTER) for address in (target, source)]
    builder.call(function, [*places, builder.shl(words, ir.Constant(WORD, 3))])


@inner
def copy_words(target, at, source, start, words):
    """Copy `words` words from block `source` (from word `start`) to block `target` (from word `at`)."""
    if DEBUG:
        for i in range(words):
            st(target, at + i, ld(source, start + i))
    else:
        raw_copy(target + 8 * at, source + 8 * start, words)


@inner
def _lock():
    c = shared_words()
    while _exchange(c, CELL_LOCK, 1) != 0:
        pass


@inner
def _unlock():
    _exchange(shared_words(), CELL_LOCK, 0)


@shared
def no_memory(words):
    """There is no memory for so many words: exit. Returns 0 if no frame is prepared."""
    raw_store(shared_words(), CELL_WANTED, words)
    leave(NO_MEMORY)
    return 0


@inner
def new_number():
    """A number for a call, or for a part of one that may fail alone."""
    return add_atomically(shared_words(), CELL_CALLS, 1) + 1


@shared
def call_number():
    """The number of the call that this thread is in; 0 outside of all calls that can fail."""
    r = record()
    if r == 0:
        return 0
    if raw_load(r, JUMP_NUMBER) == 0:
        raw_store(r, JUMP_NUMBER, new_number())
    return raw_load(r, JUMP_NUMBER)


@inner
def _link(address):
    c = shared_words()
    first = raw_load(c, CELL_FIRST)
    raw_store(address, BLOCK_PREVIOUS, 0)
    raw_store(address, BLOCK_FOLLOWING, first)
    if first != 0:
        raw_store(first, BLOCK_PREVIOUS, address)
    raw_store(c, CELL_FIRST, address)
    raw_store(c, CELL_TRACKED_WORDS, raw_load(c, CELL_TRACKED_WORDS) + raw_load(address, -1))


@inner
def _unlink(address):
    c = shared_words()
    before = raw_load(address, BLOCK_PREVIOUS)
    after = raw_load(address, BLOCK_FOLLOWING)
    if before != 0:
        raw_store(before, BLOCK_FOLLOWING, after)
    else:
        raw_store(c, CELL_FIRST, after)
    if after != 0:
        raw_store(after, BLOCK_PREVIOUS, before)
    raw_store(c, CELL_TRACKED_WORDS, raw_load(c, CELL_TRACKED_WORDS) - raw_load(address, -1))


@inner
def _allowed(words):
    """Whether so many words may be allocated: within the limit, and not the allocation that should fail."""
    c = shared_words()
    if words < 0 or words > TOO_MANY_WORDS:
        return False
    count = raw_load(c, CELL_FAIL_IN)
    if count > 0:
        raw_store(c, CELL_FAIL_IN, count - 1)
        if count == 1:
            return False
    limit = raw_load(c, CELL_LIMIT)
    return limit == 0 or raw_load(c, CELL_TRACKED_WORDS) + words <= limit


@inner
def _entered(start, words, number, mapped):
    """The block that begins with its head at a place, in the list of all."""
    address = start + 8 * BLOCK_TRACKED_HEAD
    raw_store(address, BLOCK_BORN, number)
    raw_store(address, BLOCK_MAPPED, mapped)
    raw_store(address, -2, BLOCK_TRACKED)
    raw_store(address, -1, words)
    _lock()
    _link(address)
    _unlock()
    return address


@shared
def _alloc_tracked(words):
    number = call_number()
    start = 0
    if _allowed(words):
        start = _c_malloc((words + BLOCK_TRACKED_HEAD) * 8)
    if start == 0:
        return no_memory(words)
    return _entered(start, words, number, 0)


@shared
def _free_tracked(address):
    _lock()
    _unlink(address)
    _unlock()
    raw_store(address, -2, BLOCK_DEAD)
    mapped = raw_load(address, BLOCK_MAPPED)
    if mapped != 0:
        _c_unmap(address - 8 * BLOCK_TRACKED_HEAD, mapped)
    else:
        _c_free(address - 8 * BLOCK_TRACKED_HEAD)
    return 0


@inner
def _alloc(words, size):
    if size >= raw_load(shared_words(), CELL_TRACK_FROM):
        return _alloc_tracked(words)
    start = _c_malloc((words + 2) * 8)
    if start == 0:
        return no_memory(words)
    raw_store(start, 0, BLOCK_MAGIC)
    raw_store(start, 1, words)
    return start + 16


@inner
def _free(address):
    if raw_load(address, -2) == BLOCK_TRACKED:
        _free_tracked(address)
    else:
        raw_store(address, -2, BLOCK_DEAD)
        _c_free(address - 16)


if DEBUG:

    @inner
    def fault(address, index, size):
        c = shared_words()
        if raw_load(c, CELL_FAULTS) == 0:
            raw_store(c, CELL_FAULT_ADDRESS, address)
            raw_store(c, CELL_FAULT_INDEX, index)
            raw_store(c, CELL_FAULT_SIZE, size)
        raw_store(c, CELL_FAULTS, raw_load(c, CELL_FAULTS) + 1)

    @inner
    def _inside(address, index):
        if address < 4096:
            fault(address, index, -1)
            return False
        magic = raw_load(address, -2)
        if magic != BLOCK_MAGIC and magic != BLOCK_TRACKED:
            fault(address, index, -2)
            return False
        size = raw_load(address, -1)
        if index < 0 or index >= size:
            fault(address, index, size)
            return False
        return True

    @inner
    def ld(address, index):
        """Word `index` of the block at `address`; checked."""
        if _inside(address, index):
            return raw_load(address, index)
        return 0

    @inner
    def st(address, index, value):
        """Set word `index` of the block at `address`; checked."""
        if _inside(address, index):
            raw_store(address, index, value)

    @inner
    def alloc_with(words, size):
        """A new block of `words` words; see below."""
        block = _alloc(words, size)
        if block == 0:
            return 0
        for i in range(words):
            raw_store(block, i, -6510615555426900571)  # 0xa5a5...: uninitialised reads show
        c = shared_words()
        add_atomically(c, CELL_LIVE_BLOCKS, 1)
        add_atomically(c, CELL_LIVE_WORDS, words)
        return block

    @inner
    def free(address):
        """Give a block back; 0 is ignored, anything else that is no live block is a fault."""
        if address != 0 and _inside(address, 0 if raw_load(address, -1) > 0 else -1):
            c = shared_words()
            add_atomically(c, CELL_LIVE_BLOCKS, -1)
            add_atomically(c, CELL_LIVE_WORDS, -raw_load(address, -1))
            _free(address)

    @inner
    def grow(address, words, used):
        """A block of `words` words that holds the first `used` words of `address`, which is freed."""
        new = alloc_with(words, words)
        if new != 0 and address != 0:
            copy_words(new, 0, address, 0, used)
            free(address)
        return new

    grow_lasting = grow

else:
    ld = raw_load
    st = raw_store

    @inner
    def alloc_with(words, size):
        """A new block of `words` words for work on one of `size` words: it is tracked if that is, so that it can be
        recovered if allocating the other fails.
        """
        return _alloc(words, size)

    @inner
    def free(address):
        """Give a block back; 0 is ignored."""
        if address != 0:
            _free(address)

    @inner
    def _pages(words):
        """The bytes that are mapped for a block."""
        return ((words + BLOCK_TRACKED_HEAD) * 8 + 4095) & ~4095

    @shared
    def _map_zeros(words):
        number = call_number()
        start = -1
        if _allowed(words):
            start = _c_map(_pages(words))
        if start == -1:
            return no_memory(words)
        return _entered(start, words, number, _pages(words))

    @shared
    def _grow_mapped(address, words, used):
        mapped = raw_load(address, BLOCK_MAPPED) if raw_load(address, -2) == BLOCK_TRACKED else 0
        if mapped == 0:
            new = _map_zeros(words)
            raw_copy(new, address, used)
            _free(address)
            return new
        if not _allowed(words):
            return no_memory(words)
        _lock()
        _unlink(address)
        _unlock()
        start = _c_remap(address - 8 * BLOCK_TRACKED_HEAD, mapped, _pages(words))
        if start != -1:
            return _entered(start, words, call_number(), _pages(words))
        _lock()
        _link(address)
        _unlock()
        return no_memory(words)

    @inner
    def grow_lasting(address, words, used):
        """`grow` for a block that lives as long as a session; see the module."""
        if words < MAPPED_FROM:
            return grow(address, words, used)
        if address == 0:
            return _map_zeros(words)
        return _grow_mapped(address, words, used)

    @shared
    def _grow_tracked(address, words, used):
        if raw_load(address, -2) != BLOCK_TRACKED:
            new = _alloc_tracked(words)
            raw_copy(new, address, used)
            _free(address)
            return new
        if raw_load(address, BLOCK_MAPPED) != 0:
            return _grow_mapped(address, words, used)
        if not _allowed(words):
            return no_memory(words)
        _lock()
        _unlink(address)
        _unlock()
        start = _c_realloc(address - 8 * BLOCK_TRACKED_HEAD, (words + BLOCK_TRACKED_HEAD) * 8)
        if start != 0:
            address = start + 8 * BLOCK_TRACKED_HEAD
            raw_store(address, -1, words)
            raw_store(address, BLOCK_BORN, call_number())
        _lock()
        _link(address)
        _unlock()
        return address if start != 0 else no_memory(words)

    @inner
    def grow(address, words, used):
        """A block of `words` words that holds the first `used` words of `address`, which is freed."""
        if address == 0:
            return alloc_with(words, words)
        if words >= raw_load(shared_words(), CELL_TRACK_FROM):
            return _grow_tracked(address, words, used)
        if raw_load(address, -2) == BLOCK_TRACKED:
            new = alloc_with(words, words)
            raw_copy(new, address, used)
            _free(address)
            return new
        start = _c_realloc(address - 16, (words + 2) * 8)
        if start == 0:
            return no_memory(words)
        raw_store(start, 1, words)
        return start + 16


@inner
def alloc(words):
    """A new, uninitialised block of `words` words; exits if there is no memory."""
    return alloc_with(words, words)


@inner
def faults():
    """Bad accesses so far (debug build; otherwise always 0)."""
    if DEBUG:
        return raw_load(shared_words(), CELL_FAULTS)
    return 0


@inner
def keep(address):
    """Mark a block as in use after the call that allocated it has failed; see `take_lost`."""
    if address != 0 and raw_load(address, -2) == BLOCK_TRACKED:
        raw_store(address, BLOCK_BORN, 0)


@inner
def adopt(address):
    """Let a block that an earlier call allocated belong to this one, which is going to free it, or fails."""
    if raw_load(address, -2) == BLOCK_TRACKED:
        raw_store(address, BLOCK_BORN, call_number())


@inner
def take_lost(number):
    """Take the tracked blocks that a call allocated out of the global list: the first one, the others by
    BLOCK_FOLLOWING. Those in use must then be marked by `keep`; `drop_lost` frees the others.
    """
    lost = 0
    _lock()
    block = raw_load(shared_words(), CELL_FIRST)
    while block != 0:
        after = raw_load(block, BLOCK_FOLLOWING)
        if raw_load(block, BLOCK_BORN) == number:
            _unlink(block)
            raw_store(block, BLOCK_FOLLOWING, lost)
            lost = block
        block = after
    _unlock()
    return lost


@inner
def drop_lost(lost):
    """Free the blocks from `take_lost` that were not marked."""
    while lost != 0:
        after = raw_load(lost, BLOCK_FOLLOWING)
        kept = raw_load(lost, BLOCK_BORN) == 0
        _lock()
        _link(lost)
        _unlock()
        if not kept:
            free(lost)
        lost = after


@shared
def give_back(number):
    """Free all tracked blocks of a failed call, none of which is in use."""
    if number != 0:
        drop_lost(take_lost(number))
    return 0


@inner
def size_of(address):
    """Size in words of a block."""
    return raw_load(address, -1)


@inner
def reserve(ctx, field, count_field, width, rows):
    """Make room for `rows` more rows of `width` words in a growing block of a context: word 0 is its size, the rows
    begin at word 1, and the context has their number.
    """
    block = ld(ctx, field)
    used = ld(ctx, count_field)
    size = 0 if block == 0 else ld(block, 0)
    if 1 + (used + rows) * width > size:
        more = max(2 * size, 1 + (used + rows) * width, 256)
        block = grow(block, more, 0 if block == 0 else 1 + used * width)
        st(block, 0, more)
        st(ctx, field, block)
    return block


@inner
def reserve_lasting(ctx, field, count_field, width, rows):
    """`reserve` in a block that is there for as long as a session lives: it grows by a quarter when it is large."""
    block = ld(ctx, field)
    used = ld(ctx, count_field)
    size = 0 if block == 0 else ld(block, 0)
    if 1 + (used + rows) * width > size:
        more = 2 * size if size < MAPPED_FROM else size + (size >> 2)
        more = max(more, 1 + (used + rows) * width, 256)
        block = grow_lasting(block, more, 0 if block == 0 else 1 + used * width)
        st(block, 0, more)
        st(ctx, field, block)
    return block


@inner
def zeros(words):
    """A new block of zeros."""
    block = alloc(words)
    for i in range(words):
        st(block, i, 0)
    return block


if DEBUG:
    zeros_lasting = zeros
else:

    @inner
    def zeros_lasting(words):
        """A new block of zeros that is there for as long as a session lives."""
        return zeros(words) if words < MAPPED_FROM else _map_zeros(words)
