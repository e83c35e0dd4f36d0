"""How compiled functions are declared, and what represents them in Python.

Kernels are written in Python, compiled by Numba once, during set-up, and stored as machine code (`archive`). A process
that uses Everview loads that code and never imports Numba: it starts in half the time and with half the memory. The
decorators here therefore have two implementations. In the compiling process (`COMPILING`, see `compiler`) they pass
the function to Numba; everywhere else (`loader`) they look up the compiled function by name, and functions that only
other kernels call stay plain Python functions that are never called.

    entry      called from Python, without the GIL; declares which of its arguments are arrays
    operator   called by the executor, through its address, with one context
    shared     called by kernels, by its symbol; compiled once instead of into each of its callers
    task       handed to a second thread by kernels: `name()` is its address
    inner      compiled into each kernel that calls it
    fused      the same for tiny functions: compiled as part of its caller, for the types it is called with
    primitive  a few machine instructions, written with an LLVM builder

All of them take and return int64 words only, so that every kernel is a plain C function. An array argument of an
`entry` becomes its address and its sizes:

    int    one word
    words  int64[n], writable: address, n
    matrix int64[rows, columns], writable: address, rows, columns
    bytes  uint8[n], writable: address, n
    text   uint8[n], only read: address, n

A `brief` entry keeps the GIL. One that never `allocates` cannot fail and is called a little faster. If none of its
allocations can be in use after a failure, it is not `lasting`, and that memory is freed at once; for the others
`executor.abort` does it, which knows what is in use.

Hazards: kernels must not raise (how they fail: `leaving`), nor use Numba's runtime (arrays, lists, tuples that outlive
a line): the compiling process refuses such code. Symbols are `everview_<module>_<function>`, so names must be unique
within a module.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from everview.kernels.guarded_calls import POINTER, WORD, external

COMPILING = os.environ.get("EVERVIEW_COMPILING", "") == "1"
"""Whether this process compiles kernels; it cannot run them."""

DEBUG = os.environ.get("EVERVIEW_DEBUG", "0") not in ("", "0")
"""Whether kernels are those of the bounds-checked build."""

CALL_PYTHON = 1
"""Return value of an operator: the driver must do something in Python before the program can continue."""

REFUSED = 2
"""Return value of an operator: the step's input is rejected, because an absent row was deleted."""

AGAIN = 3
"""Return value of an operator: it has used its time slice and must be called again."""

SIZES = {"int": 0, "words": 1, "matrix": 2, "bytes": 1, "text": 1}
"""Kinds of arguments of an entry, and how many sizes follow the address."""

if TYPE_CHECKING or not COMPILING:
    from everview.kernels.build.loader import entry, fused, inner, operator, primitive, shared, task
else:
    from everview.kernels.build.compiler import entry, fused, inner, operator, primitive, shared, task

__all__ = ["POINTER", "WORD", "entry", "external", "fused", "inner", "operator", "primitive", "shared", "task"]
