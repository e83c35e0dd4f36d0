"""Raw int64 memory: the one place where addresses are made, read, written and given back.

Kernels know nothing but blocks of int64 words. A block is named by its address (an int64), is born in `alloc`
and dies in `free`. Two words in front of every block hold a magic number and its size in words, so a *debug
build* can check each access:

    address-16: MAGIC     address-8: size in words     address: word 0, word 1, ...

`EVERVIEW_DEBUG=1` selects that build. There, a read outside its block (or of a block that was freed) gives 0, a
write outside is dropped, and the first such fault is recorded in `cell`; the executor looks at the cell
after every operator and stops the step with an internal error naming the operator. The normal build compiles
`ld`/`st` to single machine instructions. Hazard: pass *block* addresses around, never addresses into the middle
of a block, or the debug build cannot find the header.
"""

from __future__ import annotations

import ctypes
import os
from typing import Any

import numpy as np
from llvmlite import ir

from everview.kernels.native import COMPILING, DEBUG, POINTER, WORD, external, inner, primitive

MAGIC = 0x45564D454D4F5259  # "EVMEMORY"
DEAD = 0x4445414444454144


def _keep_memory() -> None:
    """Let freed blocks be used again instead of going back to the system: fresh pages cost more than the work on them.

    Up to an eighth of the machine's memory may stay unused in the process. Huge pages would be no way out: the kernel
    clears them too, and on virtual machines that give free memory back to their host that is slower still.
    """
    libc = ctypes.CDLL(None)
    if hasattr(libc, "mallopt"):
        eighth = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 8
        keep = min(max(eighth, 64 << 20), 2**31 - 1)
        libc.mallopt(-3, keep)  # M_MMAP_THRESHOLD: only larger blocks are mapped one by one
        libc.mallopt(-1, keep)  # M_TRIM_THRESHOLD: this much may stay unused at the top of the heap


_keep_memory()

FAULTS, FAULT_ADDRESS, FAULT_INDEX, FAULT_SIZE, LIVE_BLOCKS, LIVE_WORDS = range(6)


def _cell_words() -> Any:
    from everview.kernels.archive import library

    words = ctypes.c_int64 * 8
    return words.from_address(library().cell()) if DEBUG and not COMPILING else words()


cell = np.frombuffer(_cell_words(), dtype=np.int64)
"""Debug build: faults so far, address, index and size of the first, blocks and words alive."""


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


@primitive("int64(int64, int64, int64)")
def add_atomically(builder: Any, address: Any, index: Any, value: Any) -> Any:
    """Add to a word that two threads may change at once; what was there before."""
    return builder.atomic_rmw("add", _word(builder, address, index), value, "seq_cst")


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


if DEBUG:
    from everview.kernels.archive import CELL

    @primitive("int64()")
    def _cell(builder: Any) -> Any:
        words = builder.module.globals.get(CELL) or ir.GlobalVariable(builder.module, ir.ArrayType(WORD, 8), CELL)
        return builder.ptrtoint(words, WORD)

    @inner
    def fault(address, index, size):
        c = _cell()
        if raw_load(c, 0) == 0:
            raw_store(c, 1, address)
            raw_store(c, 2, index)
            raw_store(c, 3, size)
        raw_store(c, 0, raw_load(c, 0) + 1)

    @inner
    def _inside(address, index):
        if address < 4096:
            fault(address, index, -1)
            return False
        if raw_load(address, -2) != MAGIC:
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
    def alloc(words):
        """A new block of `words` words filled with rubbish; 0 if there is no memory."""
        block = _c_malloc((words + 2) * 8)
        if block == 0:
            return 0
        raw_store(block, 0, MAGIC)
        raw_store(block, 1, words)
        for i in range(words):
            raw_store(block, i + 2, -6510615555426900571)  # 0xa5a5...: uninitialised reads show
        c = _cell()
        add_atomically(c, 4, 1)
        add_atomically(c, 5, words)
        return block + 16

    @inner
    def free(address):
        """Give a block back; 0 is ignored, anything else that is no live block is a fault."""
        if address != 0 and _inside(address, 0 if raw_load(address, -1) > 0 else -1):
            c = _cell()
            add_atomically(c, 4, -1)
            add_atomically(c, 5, -raw_load(address, -1))
            raw_store(address, -2, DEAD)
            _c_free(address - 16)

    @inner
    def grow(address, words, used):
        """A block of `words` words that holds the first `used` words of `address`, which is freed."""
        new = alloc(words)
        if new != 0 and address != 0:
            copy_words(new, 0, address, 0, used)
            free(address)
        return new

else:

    ld = raw_load
    st = raw_store

    @inner
    def alloc(words):
        """A new block of `words` words filled with rubbish; 0 if there is no memory."""
        block = _c_malloc((words + 2) * 8)
        if block == 0:
            return 0
        raw_store(block, 0, MAGIC)
        raw_store(block, 1, words)
        return block + 16

    @inner
    def free(address):
        """Give a block back; 0 is ignored."""
        if address != 0:
            raw_store(address, -2, DEAD)
            _c_free(address - 16)

    @inner
    def grow(address, words, used):
        """A block of `words` words that holds the first `used` words of `address`, which is freed."""
        if address == 0:
            return alloc(words)
        block = _c_realloc(address - 16, (words + 2) * 8)
        if block == 0:
            return 0
        raw_store(block, 1, words)
        return block + 16


@inner
def faults():
    """Bad accesses so far (debug build; otherwise always 0)."""
    if DEBUG:
        return raw_load(_cell(), 0)
    return 0


@inner
def size_of(address):
    """Size in words of a block."""
    return raw_load(address, -1)


@inner
def zeros(words):
    """A new block of zeros; 0 if there is no memory."""
    block = alloc(words)
    if block != 0:
        for i in range(words):
            st(block, i, 0)
    return block
