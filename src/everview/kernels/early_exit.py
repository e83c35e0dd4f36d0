"""Exiting a kernel from the middle: out of memory, or a multiplicity overflow.

Kernels are deeply nested when that happens, and none of them checks the results of its callees. They therefore exit
like C code, by `longjmp`, to a prepared frame: the bridge between Python and an entry, which raises, or `attempt`,
which returns a code to its caller. Preparing costs some nanoseconds per call from Python, and the kernels themselves
nothing.

    record    on the stack of the prepared frame: the registers that longjmp restores, and a number for the call
    thread    each thread finds its innermost record through a key of its thread-specific storage

Nothing is cleaned up on the way. Instead two invariants must hold wherever a kernel may exit, which is at every
`alloc`:

- What outlives the call (traces, batchers, scopes, contexts) points only to live blocks, and a step can be undone from
  there. So: allocate first, then free what is replaced; record a new block before anything else can fail.
- Blocks that only the kernel's own variables knew are lost. Large ones are found again by the number of the call that
  allocated them (see `memory`), small ones are a leak: some kilobytes per failure.

Threads: a task on a helper exits to an `attempt` of its own, never to another thread's stack (see `thread`).
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir

from everview.kernels.build.archive import ATTEMPT
from everview.kernels.build.native import POINTER, WORD, external, inner, primitive
from everview.kernels.guarded_calls import CELL_FAILED_KEY, CELL_KEY, HALF, shared_word


def _of_thread(builder: Any, which: int) -> Any:
    """A word of thread-specific storage."""
    key = builder.trunc(builder.load(shared_word(builder, which)), HALF)
    return builder.ptrtoint(builder.call(external(builder, "pthread_getspecific", POINTER, HALF), [key]), WORD)


@primitive("int64()")
def shared_words(builder: Any) -> Any:
    """Address of the words that all kernels share."""
    return builder.ptrtoint(shared_word(builder, 0), WORD)


@primitive("int64()")
def record(builder: Any) -> Any:
    """The record of the prepared frame on this thread; 0 if there is none."""
    return _of_thread(builder, CELL_KEY)


@primitive("int64()")
def last_failed(builder: Any) -> Any:
    """The number of the call that failed last on this thread."""
    return _of_thread(builder, CELL_FAILED_KEY)


@primitive("void(int64, int64)")
def _jump(builder: Any, to: Any, code: Any) -> None:
    function = external(builder, "longjmp", ir.VoidType(), POINTER, HALF)
    builder.call(function, [builder.inttoptr(to, POINTER), builder.trunc(code, HALF)])


@primitive("int64(int64, int64, int64)")
def attempt(builder: Any, function: Any, argument: Any, number: Any) -> Any:
    """Call the task at address `function`; 0, or its exit code. `number` is that of the call that it is part of."""
    return builder.call(external(builder, ATTEMPT, WORD, WORD, WORD, WORD), [function, argument, number])


@inner
def leave(code):
    """Exit with a code. Returns only if no frame is prepared, which bridges prevent."""
    to = record()
    if to != 0:
        _jump(to, code)
