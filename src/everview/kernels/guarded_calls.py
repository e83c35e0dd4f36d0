"""The words that kernels share in a process, and calls that can survive a kernel's early exit.

The words of the *cell* belong to all kernels: the allocator's state (see `memory`), and what an early exit needs (see
`early_exit`, which explains records and codes). `guarded` generates the code around a call; it is used by the bridges,
and by the one function behind `early_exit.attempt`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir

from everview.kernels.build.archive import CELL

WORD = ir.IntType(64)
HALF = ir.IntType(32)
POINTER = ir.IntType(8).as_pointer()

(
    CELL_FAULTS,
    CELL_FAULT_ADDRESS,
    CELL_FAULT_INDEX,
    CELL_FAULT_SIZE,
    CELL_LIVE_BLOCKS,
    CELL_LIVE_WORDS,
    CELL_TRACK_FROM,
    CELL_FAIL_IN,
    CELL_LIMIT,
    CELL_TRACKED_WORDS,
    CELL_WANTED,
    CELL_LOCK,
    CELL_FIRST,
    CELL_CALLS,
    CELL_KEY,
    CELL_FAILED_KEY,
    CELL_ERRORS,
) = range(17)
"""The words that all kernels of a process share; those up to CELL_WANTED are explained in `memory`.

CELL_LOCK guards CELL_FIRST, the list of tracked blocks, and CELL_CALLS, the numbers given to calls. CELL_KEY and
CELL_FAILED_KEY are keys of thread-specific storage: of the record, and of the number of the last call that failed. Two
words for each code, from CELL_ERRORS + 2 * code on, are the type and the arguments of the exception that it becomes.
"""

NO_MEMORY, TOO_LARGE = 1, 2
"""Why a kernel exited early; 0: it did not."""

CELL_WORDS = CELL_ERRORS + 2 * 3

GIVE_BACK_SYMBOL = "everview_memory_give_back"
"""Symbol of `memory.give_back`."""

JUMP_WORDS = 64  # more than any platform's jmp_buf takes
JUMP_NUMBER = JUMP_WORDS  # word of a record with the number of the call; 0: none was needed yet

_RECORD = ir.ArrayType(WORD, JUMP_WORDS + 2)


def external(builder: Any, name: str, result: Any, *parameters: Any) -> Any:
    """A function of that name from outside the module under construction, for primitives."""
    known = builder.module.globals.get(name)
    return known or ir.Function(builder.module, ir.FunctionType(result, parameters), name)


def shared_word(builder: Any, index: int, further: Any = None) -> Any:
    """Pointer to a word of the cell, `further` words behind `index`."""
    cell = builder.module.globals.get(CELL) or ir.GlobalVariable(builder.module, ir.ArrayType(WORD, CELL_WORDS), CELL)
    at: Any = ir.Constant(WORD, index)
    if further is not None:
        at = builder.add(at, further)
    return builder.gep(cell, [ir.Constant(WORD, 0), at])


def _key(builder: Any) -> Any:
    return builder.trunc(builder.load(shared_word(builder, CELL_KEY)), HALF)


def guarded(builder: Any, call: Callable[[], Any], number: Any) -> tuple[Any, Any, Any]:
    """Call what may exit early: (code, its result if the code is 0, the number of the call).

    Hazard: between the first and the second return of setjmp only memory may change here, so everything goes through
    `alloca`s.
    """
    with builder.goto_entry_block():
        record = builder.alloca(_RECORD)
        record.align = 16
        answer = builder.alloca(WORD)
    zero = ir.Constant(WORD, 0)
    place = builder.bitcast(record, POINTER)
    counted = builder.gep(record, [zero, ir.Constant(WORD, JUMP_NUMBER)])
    before = builder.call(external(builder, "pthread_getspecific", POINTER, HALF), [_key(builder)])
    builder.store(number, counted)
    builder.store(zero, answer)
    register = external(builder, "pthread_setspecific", HALF, HALF, POINTER)
    builder.call(register, [_key(builder), place])
    setjmp = external(builder, "_setjmp", HALF, POINTER)
    setjmp.attributes.add("returns_twice")
    code = builder.call(setjmp, [place])
    with builder.if_then(builder.icmp_signed("==", code, ir.Constant(HALF, 0))):
        builder.store(call(), answer)
    builder.call(register, [_key(builder), before])
    return builder.sext(code, WORD), builder.load(answer), builder.load(counted)
