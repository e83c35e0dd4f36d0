"""How compiled functions are declared, and what stands for them in Python.

Kernels are written in Python, compiled by Numba once, during set-up, and kept as machine code (`archive`). A process
that uses Everview loads that code and never imports Numba: it starts in half the time and with half the memory.
So the decorators here have two meanings. In the process that compiles (`COMPILING`, see `compiling`) they hand the
function to Numba; everywhere else (`loading`) they find the compiled function by its name, and what only
other kernels call stays the plain function it was written as, never to be called.

    entry      called from Python, without the GIL; says which of its arguments are arrays
    operator   called by the executor, through its address, with one context
    shared     called by kernels, by its symbol; compiled once instead of into each of its callers
    task       handed to a second thread by kernels: `name()` is its address
    inner      compiled into each kernel that calls it
    fused      the same for tiny functions: compiled as part of its caller, for the types it is called with
    primitive  a few machine instructions, written with an LLVM builder

All of them take and give int64 words only, so that every kernel is a plain C function. An array argument of
an `entry` arrives as its address and its sizes:

    int    one word
    words  int64[n], writable: address, n
    matrix int64[rows, columns], writable: address, rows, columns
    bytes  uint8[n], writable: address, n
    text   uint8[n], only read: address, n

An entry that is `brief` keeps the GIL. One that never `allocates` cannot fail and is called a little faster. If nothing
of what it allocated can be in use after it failed, it is not `lasting`, and that memory is given back at once; for
the others `executor.abort` does it, which knows what is in use.

Hazards: kernels must not raise (how they fail: `leaving`), nor use anything of Numba's runtime (arrays, lists, tuples
that outlive a line): the compiling process refuses code that needs it. Symbols are `everview_<module>_<function>`, so a
module's names differ.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from everview.kernels.guarding import POINTER, WORD, external

COMPILING = os.environ.get("EVERVIEW_COMPILING", "") == "1"
"""Whether this process compiles kernels; it cannot run them."""

DEBUG = os.environ.get("EVERVIEW_DEBUG", "0") not in ("", "0")
"""Whether kernels are those of the bounds-checked build."""

CALL_PYTHON = 1
"""Answer of an operator: the driver must do something in Python before the program can go on."""

REFUSED = 2
"""Answer of an operator: the step's input is not acceptable, a row was deleted that is not there."""

AGAIN = 3
"""Answer of an operator: it has worked for a while and is not done; it is called again."""

SIZES = {"int": 0, "words": 1, "matrix": 2, "bytes": 1, "text": 1}
"""Kinds of arguments of an entry, and how many sizes follow the address."""

if TYPE_CHECKING or not COMPILING:
    from everview.kernels.build.loading import entry, fused, inner, operator, primitive, shared, task
else:
    from everview.kernels.build.compiling import entry, fused, inner, operator, primitive, shared, task

__all__ = ["POINTER", "WORD", "entry", "external", "fused", "inner", "operator", "primitive", "shared", "task"]
