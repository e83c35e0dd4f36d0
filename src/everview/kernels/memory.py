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
from numba import njit, types
from numba.extending import intrinsic

DEBUG = os.environ.get("EVERVIEW_DEBUG", "0") not in ("", "0")
MAGIC = 0x45564D454D4F5259  # "EVMEMORY"
DEAD = 0x4445414444454144

_I64 = ir.IntType(64)
_I8P = ir.IntType(8).as_pointer()

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

OPTIONS: dict[str, Any] = {"cache": True, "nogil": True, "boundscheck": False, "error_model": "numpy"}
"""Options of every kernel that Python calls: cached on disk, running without the GIL, C-like arithmetic."""

INNER: dict[str, Any] = {**OPTIONS, "cache": False, "no_cpython_wrapper": True, "no_cfunc_wrapper": True}
"""Options of functions that only kernels call: no wrappers, no cache entry of their own."""

FAULTS, FAULT_ADDRESS, FAULT_INDEX, FAULT_SIZE, LIVE_BLOCKS, LIVE_WORDS = range(6)
cell = np.zeros(8, dtype=np.int64)
"""Debug build: faults so far, address, index and size of the first, blocks and words alive."""


def _word(builder: Any, address: Any, index: Any) -> Any:
    return builder.gep(builder.inttoptr(address, _I64.as_pointer()), [index])


@intrinsic  # type: ignore[misc]
def raw_load(typingctx: Any, address: Any, index: Any) -> Any:
    """Load word `index` of the block at `address`, unchecked."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.load(_word(builder, args[0], args[1]))

    return types.int64(types.int64, types.int64), codegen


@intrinsic  # type: ignore[misc]
def raw_store(typingctx: Any, address: Any, index: Any, value: Any) -> Any:
    """Store `value` into word `index` of the block at `address`, unchecked."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        builder.store(args[2], _word(builder, args[0], args[1]))
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, types.int64), codegen


@intrinsic  # type: ignore[misc]
def add_atomically(typingctx: Any, address: Any, index: Any, value: Any) -> Any:
    """Add to a word that two threads may change at once; what was there before."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.atomic_rmw("add", _word(builder, args[0], args[1]), args[2], "seq_cst")

    return types.int64(types.int64, types.int64, types.int64), codegen


@intrinsic  # type: ignore[misc]
def call_pointer(typingctx: Any, function: Any, argument: Any) -> Any:
    """Call the compiled operator at address `function` with one int64 argument."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        shape = ir.FunctionType(_I64, [_I64])
        return builder.call(builder.inttoptr(args[0], shape.as_pointer()), [args[1]])

    return types.int64(types.int64, types.int64), codegen


@intrinsic  # type: ignore[misc]
def float_of_bits(typingctx: Any, bits: Any) -> Any:
    """The float64 whose bit pattern is the int64 `bits`."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.bitcast(args[0], ir.DoubleType())

    return types.float64(types.int64), codegen


@intrinsic  # type: ignore[misc]
def bits_of_float(typingctx: Any, number: Any) -> Any:
    """The bit pattern of a float64 as an int64."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.bitcast(args[0], _I64)

    return types.int64(types.float64), codegen


@intrinsic  # type: ignore[misc]
def _c_malloc(typingctx: Any, size: Any) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        from numba.core import cgutils

        function = cgutils.get_or_insert_function(builder.module, ir.FunctionType(_I8P, [_I64]), "malloc")
        return builder.ptrtoint(builder.call(function, [args[0]]), _I64)

    return types.int64(types.int64), codegen


@intrinsic  # type: ignore[misc]
def _c_realloc(typingctx: Any, address: Any, size: Any) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        from numba.core import cgutils

        function = cgutils.get_or_insert_function(builder.module, ir.FunctionType(_I8P, [_I8P, _I64]), "realloc")
        return builder.ptrtoint(builder.call(function, [builder.inttoptr(args[0], _I8P), args[1]]), _I64)

    return types.int64(types.int64, types.int64), codegen


@intrinsic  # type: ignore[misc]
def _c_free(typingctx: Any, address: Any) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        from numba.core import cgutils

        function = cgutils.get_or_insert_function(builder.module, ir.FunctionType(ir.VoidType(), [_I8P]), "free")
        builder.call(function, [builder.inttoptr(args[0], _I8P)])
        return context.get_dummy_value()

    return types.void(types.int64), codegen


@intrinsic  # type: ignore[misc]
def raw_copy(typingctx: Any, target: Any, source: Any, words: Any) -> Any:
    """memmove `words` words from address `source` to address `target`, unchecked."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        from numba.core import cgutils

        function = cgutils.get_or_insert_function(
            builder.module, ir.FunctionType(_I8P, [_I8P, _I8P, _I64]), "memmove"
        )
        size = builder.shl(args[2], ir.Constant(_I64, 3))
        builder.call(function, [builder.inttoptr(args[0], _I8P), builder.inttoptr(args[1], _I8P), size])
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, types.int64), codegen


@njit(**INNER)
def copy_words(target, at, source, start, words):
    """Copy `words` words from block `source` (from word `start`) to block `target` (from word `at`)."""
    if DEBUG:
        for i in range(words):
            st(target, at + i, ld(source, start + i))
    else:
        raw_copy(target + 8 * at, source + 8 * start, words)


if DEBUG:
    from llvmlite import binding as _llvm
    from numba import cfunc

    _CELL_ADDRESS = cell.ctypes.data

    @cfunc(types.int64())
    def _cell_of_this_process():
        return _CELL_ADDRESS

    # cached kernels must not bake in an address of one process: they call a symbol that is bound at start-up
    _llvm.add_symbol("everview_debug_cell", _cell_of_this_process.address)

    @intrinsic  # type: ignore[misc]
    def _cell(typingctx: Any) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            from numba.core import cgutils

            shape = ir.FunctionType(_I64, [])
            return builder.call(cgutils.get_or_insert_function(builder.module, shape, "everview_debug_cell"), [])

        return types.int64(), codegen

    @njit(**INNER)
    def _fault(address, index, size):
        c = _cell()
        if raw_load(c, 0) == 0:
            raw_store(c, 1, address)
            raw_store(c, 2, index)
            raw_store(c, 3, size)
        raw_store(c, 0, raw_load(c, 0) + 1)

    @njit(**INNER)
    def _inside(address, index):
        if address < 4096:
            _fault(address, index, -1)
            return False
        if raw_load(address, -2) != MAGIC:
            _fault(address, index, -2)
            return False
        size = raw_load(address, -1)
        if index < 0 or index >= size:
            _fault(address, index, size)
            return False
        return True

    @njit(**INNER)
    def ld(address, index):
        """Word `index` of the block at `address`; checked."""
        if _inside(address, index):
            return raw_load(address, index)
        return 0

    @njit(**INNER)
    def st(address, index, value):
        """Set word `index` of the block at `address`; checked."""
        if _inside(address, index):
            raw_store(address, index, value)

    @njit(**INNER)
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

    @njit(**INNER)
    def free(address):
        """Give a block back; 0 is ignored, anything else that is no live block is a fault."""
        if address != 0 and _inside(address, 0 if raw_load(address, -1) > 0 else -1):
            c = _cell()
            add_atomically(c, 4, -1)
            add_atomically(c, 5, -raw_load(address, -1))
            raw_store(address, -2, DEAD)
            _c_free(address - 16)

    @njit(**INNER)
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

    @njit(**INNER)
    def alloc(words):
        """A new block of `words` words filled with rubbish; 0 if there is no memory."""
        block = _c_malloc((words + 2) * 8)
        if block == 0:
            return 0
        raw_store(block, 0, MAGIC)
        raw_store(block, 1, words)
        return block + 16

    @njit(**INNER)
    def free(address):
        """Give a block back; 0 is ignored."""
        if address != 0:
            raw_store(address, -2, DEAD)
            _c_free(address - 16)

    @njit(**INNER)
    def grow(address, words, used):
        """A block of `words` words that holds the first `used` words of `address`, which is freed."""
        if address == 0:
            return alloc(words)
        block = _c_realloc(address - 16, (words + 2) * 8)
        if block == 0:
            return 0
        raw_store(block, 1, words)
        return block + 16


@njit(**INNER)
def faults():
    """Bad accesses so far (debug build; otherwise always 0)."""
    if DEBUG:
        return raw_load(_cell(), 0)
    return 0


@njit(**INNER)
def size_of(address):
    """Size in words of a block."""
    return raw_load(address, -1)


@njit(**INNER)
def zeros(words):
    """A new block of zeros; 0 if there is no memory."""
    block = alloc(words)
    if block != 0:
        for i in range(words):
            st(block, i, 0)
    return block
