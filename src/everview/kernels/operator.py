"""How compiled functions find each other.

An *operator* is compiled once to `int64 operator(int64 context)` and called by its address. It answers 0 (done) or
one of the codes below.

A *shared* function is compiled once and called by symbol from every kernel that uses it. Numba would otherwise
compile and optimise a copy of it into each of them: sorting alone would be there five times. Hazard: the symbol must
be bound before a kernel that uses it is loaded, which import order gives for free.

A *task* is an operator that other kernels hand to a second thread (`team`): they need its address, not a call.
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
    symbol = _bind(function, len(names))

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.call(_declared(builder, symbol, len(names)), args)

    # intrinsics are typed by their Python signature, so one with the right number of parameters is made
    scope: dict[str, Any] = {"signature": types.int64(*[types.int64] * len(names)), "codegen": codegen}
    exec(f"def call(typingctx, {', '.join(names)}):\n    return signature, codegen", scope)
    return _named(scope["call"], function)


def task(function: Callable[[int], int]) -> Any:
    """Compile a function of one int64; in kernels, `name()` is its address."""
    symbol = _bind(function, 1)

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.ptrtoint(_declared(builder, symbol, 1), ir.IntType(64))

    def address(typingctx: Any) -> Any:
        return types.int64(), codegen

    return _named(address, function)


def _bind(function: Callable[..., int], parameters: int) -> str:
    symbol = f"everview_{function.__module__.rsplit('.', 1)[-1]}_{function.__name__}"
    compiled = cfunc(types.int64(*[types.int64] * parameters), cache=True, nopython=True)(function)
    binding.add_symbol(symbol, compiled.address)
    OPERATORS[function.__name__] = compiled
    return symbol


def _declared(builder: Any, symbol: str, parameters: int) -> Any:
    word = ir.IntType(64)
    return cgutils.get_or_insert_function(builder.module, ir.FunctionType(word, [word] * parameters), symbol)


def _named(call: Any, function: Callable[..., int]) -> Any:
    call.__doc__ = function.__doc__
    call.__name__ = function.__name__
    return intrinsic(call)
