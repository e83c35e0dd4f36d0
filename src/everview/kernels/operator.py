"""How compiled functions find each other.

An *operator* is compiled once to `int64 operator(int64 context)` and called by its address. It answers 0 (done) or
one of the codes below.

A *shared* function is compiled once and called by symbol from every kernel that uses it. Numba would otherwise
compile and optimise a copy of it into each of them: sorting alone would be there five times. Hazard: the symbol must
be bound before a kernel that uses it is loaded, which import order gives for free.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from llvmlite import binding, ir
from numba import cfunc, types
from numba.core import cgutils
from numba.extending import intrinsic

CALL_PYTHON = 1
"""The instruction needs the Python driver before the program can go on."""

REFUSED = 2
"""The step's input is not acceptable: a row was deleted that is not there."""

OPERATORS: dict[str, Any] = {}
"""Every compiled operator by name."""


def operator(function: Callable[[int], int]) -> Any:
    """Compile a function of a context's address as an operator."""
    compiled = cfunc(types.int64(types.int64), cache=True, nopython=True)(function)
    OPERATORS[function.__name__] = compiled
    return compiled


def shared(function: Callable[..., int]) -> Any:
    """Compile a function of int64s to an int64 once; kernels call it by symbol."""
    names = list(inspect.signature(function).parameters)
    symbol = f"everview_{function.__module__.rsplit('.', 1)[-1]}_{function.__name__}"
    compiled = cfunc(types.int64(*[types.int64] * len(names)), cache=True, nopython=True)(function)
    binding.add_symbol(symbol, compiled.address)
    OPERATORS[function.__name__] = compiled

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        word = ir.IntType(64)
        shape = ir.FunctionType(word, [word] * len(names))
        return builder.call(cgutils.get_or_insert_function(builder.module, shape, symbol), args)

    # intrinsics are typed by their Python signature, so one with the right number of parameters is made
    scope: dict[str, Any] = {"signature": types.int64(*[types.int64] * len(names)), "codegen": codegen}
    exec(f"def call(typingctx, {', '.join(names)}):\n    return signature, codegen", scope)
    call = scope["call"]
    call.__doc__ = function.__doc__
    call.__name__ = function.__name__
    return intrinsic(call)
