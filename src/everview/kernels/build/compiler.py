"""The declarations of `everview.kernels.build.native` in the compiling process: Numba turns kernels into object
files.

Only `everview.warm` starts such a process. It imports every kernel module; each declaration leaves its object file in
`PARTS`, and nothing is ever run. Numba can therefore stop half way (`_Unlinked`): functions that are only linked into
others are neither optimised separately nor compiled to machine code.

A kernel is compiled by Numba as an internal function with a C wrapper. Numba's functions return a status beside their
result; kernels never raise, so the wrapper ignores it. An entry gets a second wrapper, its *bridge*: a function with
CPython's `METH_FASTCALL` convention that converts Python's arguments into words, releases the GIL, calls the kernel,
and converts the result into a Python int. Kernels that may allocate can exit from the middle (`leaving`): their bridges
handle that and raise.
"""

from __future__ import annotations

import inspect
import os
import re
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import numba
from llvmlite import ir
from numba import njit, types
from numba.core import sigutils
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Flags, compile_extra, compile_internal
from numba.core.compiler_lock import global_compiler_lock
from numba.core.registry import cpu_target
from numba.extending import intrinsic

from everview.kernels.build import cache
from everview.kernels.build.archive import ATTEMPT, CELL, OUTSIDE, symbol_of
from everview.kernels.build.cache import build_mode, kernel_sources
from everview.kernels.build.native import POINTER, SIZES, WORD, external
from everview.kernels.build.object_cache import Parts
from everview.kernels.guarded_calls import (
    CELL_ERRORS,
    CELL_FAILED_KEY,
    CELL_WORDS,
    GIVE_BACK_SYMBOL,
    HALF,
    guarded,
    shared_word,
)

PARTS: list[tuple[str, bytes]] = []
"""Compiled kernels so far: symbol and object file."""

TOTAL = sum(len(re.findall(rb"^@(?:entry|operator|shared|task)\b", p.read_bytes(), re.M)) for p in kernel_sources())
"""Number of kernels to compile."""

OBJECT_FILES = Parts(
    cache.base_directory() / cache.FOLDER / "parts",
    cache.PACKAGE,
    kernel_sources(),
    "|".join((cache.machine_hash(), build_mode(), numba.__version__, os.environ.get("EVERVIEW_COMPILE_FOR", ""))),
)
"""Object files of earlier compilations."""

HARMLESS = (CELL, "everview_memory__free_tracked")
"""What kernels that never exit early may use."""

NOT_OURS = {name for names in OUTSIDE.values() for name in names}

_BUFFER = ir.LiteralStructType([POINTER, POINTER, WORD, WORD, HALF, HALF, *[POINTER] * 5])
_BUF, _ITEM, _NDIM, _FORMAT, _SHAPE = 0, 3, 5, 6, 7  # fields of CPython's Py_buffer
_WRITABLE, _PLAIN = 1, 0x4 | 0x8 | 0x10 | 0x20  # PyBUF_WRITABLE; PyBUF_FORMAT and C_CONTIGUOUS


class _Unlinked(JITCodeLibrary):  # type: ignore[misc]
    """A code library that is linked into others and never becomes machine code itself."""

    kernel = False
    """Whether this is the last station: what is linked into it is optimised there, and only there."""

    def _optimize_final_module(self) -> None:
        if self.kernel:
            super()._optimize_final_module()

    def _finalize_final_module(self) -> None:
        self._finalized = True

    def get_pointer_to_function(self, name: str) -> int:
        """No address: nothing is run in this process."""
        self._ensure_finalized()
        return 0


_context = cpu_target.target_context
_typing = cpu_target.typing_context
_typing.refresh()
_context.refresh()
_codegen = _context.codegen()
_codegen._library_class = _Unlinked
_codegen.set_env = lambda name, env: None


def inner(function: Callable[..., Any]) -> Any:
    """Compiled into each kernel that calls it."""
    options = {"nogil": True, "error_model": "numpy", "no_cpython_wrapper": True, "no_cfunc_wrapper": True}
    return njit(**options)(function)


_compiled: WeakKeyDictionary[Any, dict[Any, Any]] = WeakKeyDictionary()  # code library -> what it holds already


def fused(result: str) -> Callable[[Callable[..., Any]], Any]:
    """Compiled as part of its caller, for the types it is called with; a fraction of the cost of `inner`."""
    _, given = sigutils.normalize_signature(f"{result}()")

    def decorate(function: Callable[..., Any]) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            library = context.active_code_library
            done = _compiled.setdefault(library, {})
            key = (function, signature)
            if key not in done:
                done[key] = compile_internal(
                    _typing, context, library, function, signature.args, signature.return_type, _flags(), {}
                ).fndesc
            return context.call_internal(builder, done[key], signature, args)

        def typing(typingctx: Any, *args: Any) -> Any:
            return given(*map(types.unliteral, args)), codegen

        context_first = inspect.Parameter("typingctx", inspect.Parameter.POSITIONAL_OR_KEYWORD)
        shape = inspect.signature(function)
        typing.__signature__ = shape.replace(parameters=[context_first, *shape.parameters.values()])  # type: ignore[attr-defined]
        return intrinsic(typing)

    return decorate


def primitive(signature: str) -> Callable[[Callable[..., Any]], Any]:
    """A few machine instructions, made by the decorated function from a builder and its arguments."""
    args, result = sigutils.normalize_signature(signature)

    def decorate(function: Callable[..., Any]) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            value = function(builder, *args)
            return context.get_dummy_value() if value is None else value

        return _intrinsic(function, list(inspect.signature(function).parameters)[1:], result(*args), codegen)

    return decorate


def shared(function: Callable[..., int]) -> Any:
    """Called by kernels, by its symbol."""
    symbol = _compile(function)
    names = list(inspect.signature(function).parameters)

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.call(external(builder, symbol, WORD, *[WORD] * len(args)), args)

    return _intrinsic(function, names, types.int64(*[types.int64] * len(names)), codegen)


def task(function: Callable[[int], int]) -> Any:
    """Handed to a second thread by kernels: `name()` is its address."""
    symbol = _compile(function)

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.ptrtoint(external(builder, symbol, WORD, WORD), WORD)

    return _intrinsic(function, [], types.int64(), codegen)


def operator(function: Callable[[int], int]) -> Any:
    """Called by the executor, through its address, with one context."""
    _compile(function)
    return function


def entry(
    *kinds: str, brief: bool = False, allocates: bool = True, lasting: bool = True
) -> Callable[[Callable[..., Any]], Any]:
    """Called from Python; one kind for each argument, see `native`."""

    def decorate(function: Callable[..., Any]) -> Any:
        expected = sum(1 + SIZES[kind] for kind in kinds)
        if expected != len(inspect.signature(function).parameters):
            raise TypeError(f"{function.__qualname__} must take {expected} words for ({', '.join(kinds)})")
        _compile(function, _Manner(kinds, brief, allocates, lasting))
        return function

    return decorate


def _intrinsic(function: Callable[..., Any], names: Sequence[str], signature: Any, codegen: Any) -> Any:
    # intrinsics are typed by their Python signature, so one with the right number of parameters is made
    scope: dict[str, Any] = {"signature": signature, "codegen": codegen}
    exec(f"def call(typingctx, {', '.join(names)}):\n    return signature, codegen", scope)
    call = scope["call"]
    call.__name__, call.__doc__ = function.__name__, function.__doc__
    return intrinsic(call)


def _flags() -> Flags:
    flags = Flags()
    flags.error_model = "numpy"
    flags.no_compile = flags.no_cpython_wrapper = flags.no_cfunc_wrapper = True
    return flags


class _Manner(NamedTuple):
    """How an entry is called; see `native`."""

    kinds: Sequence[str]
    brief: bool
    allocates: bool
    lasting: bool


@global_compiler_lock
def _compile(function: Callable[..., Any], manner: _Manner | None = None) -> str:
    """Add a kernel's object file to `PARTS`: a cached one, or compiled now; return its symbol."""
    symbol = symbol_of(function)
    kept = OBJECT_FILES.find(function.__module__, symbol)
    if kept is not None:
        PARTS.append((symbol, kept))
        _say(function.__module__)
        return symbol
    words = [types.int64] * len(inspect.signature(function).parameters)
    library = _codegen.create_library(symbol)
    library.kernel = True
    body = compile_extra(_typing, _context, function, words, types.int64, _flags(), {}, library=library).fndesc
    module = library.create_ir_module(f"{symbol}_faces")
    face = _face(module, symbol, body, words)
    if manner is not None:
        _bridge(module, symbol, face, manner)
    library.add_ir_module(module)
    library.get_function(body.llvm_func_name).linkage = "internal"
    library.finalize()
    _check(symbol, library._final_module, may_leave=manner is None or manner.allocates)
    content = _codegen._tm.emit_object(library._final_module)
    OBJECT_FILES.keep(function.__module__, symbol, content)
    PARTS.append((symbol, content))
    _say(function.__module__)
    return symbol


_said: list[str] = []


def _say(module: str) -> None:
    """Print a line per module, as progress."""
    if not _said:
        print(f"compiling Everview's kernels ({build_mode()} build): once, a minute or so", flush=True)
    if module not in _said:
        _said.append(module)
        print(f"  {len(PARTS):3d} of {TOTAL}, {time.process_time():3.0f} s: {module}", flush=True)


def _face(module: ir.Module, symbol: str, body: Any, words: Sequence[Any]) -> ir.Function:
    """The kernel's C wrapper, a function of words."""
    shape = _context.call_conv.get_function_type(body.restype, body.argtypes)
    callee = ir.Function(module, shape, body.llvm_func_name)
    face = ir.Function(module, ir.FunctionType(WORD, [WORD] * len(words)), symbol)
    builder = ir.IRBuilder(face.append_basic_block())
    _, result = _context.call_conv.call_function(builder, callee, body.restype, body.argtypes, face.args)
    builder.ret(result)
    return face


def _check(symbol: str, module: Any, *, may_leave: bool) -> None:
    """Refuse code with unresolved symbols, on which LLVM would terminate the loading process. Also refuse code that may
    exit early if its bridge does not handle that.
    """
    declared = [f.name for f in module.functions if f.is_declaration]
    declared += [g.name for g in module.global_variables if g.is_declaration]
    strange = [n for n in declared if n not in NOT_OURS and not n.startswith(("llvm.", "everview_"))]
    if strange:
        raise TypeError(
            f"{symbol} needs {', '.join(strange)}, which kernels cannot have: see everview.kernels.build.native"
        )
    others = [n for n in declared if n.startswith("everview_") and n not in HARMLESS]
    if not may_leave and others:
        raise TypeError(f"{symbol} calls {', '.join(others)}, so it may allocate: do not declare that it does not")


class _Bridge:
    """Builds the function that CPython calls: `PyObject *bridge(PyObject *self, PyObject **args, Py_ssize_t n)`."""

    def __init__(self, module: ir.Module, symbol: str) -> None:
        shape = ir.FunctionType(POINTER, [POINTER, POINTER.as_pointer(), WORD])
        self.function = ir.Function(module, shape, f"{symbol}_python")
        self.builder = ir.IRBuilder(self.function.append_basic_block())
        self.buffers: list[Any] = []

    def call(self, name: str, result: Any, *args: Any) -> Any:
        return self.builder.call(external(self.builder, name, result, *(a.type for a in args)), args)

    def give_up_if(self, failed: Any, complain: bool = True) -> None:
        """Return with an exception: our own, or the one that is already set."""
        with self.builder.if_then(failed, likely=False):
            if complain:
                self.call("PyErr_BadArgument", HALF)
            self.release()
            self.builder.ret(ir.Constant(POINTER, None))

    def raise_if_left(self, code: Any, number: Any, *, lasting: bool) -> None:
        """Raise the exception of a nonzero code. The call's allocations are recorded for `abort`, or freed at once if
        none of them can be in use.
        """
        b = self.builder
        with b.if_then(b.icmp_signed("!=", code, ir.Constant(WORD, 0)), likely=False):
            if lasting:
                key = b.trunc(b.load(shared_word(b, CELL_FAILED_KEY)), HALF)
                self.call("pthread_setspecific", HALF, key, b.inttoptr(number, POINTER))
            else:
                self.call(GIVE_BACK_SYMBOL, WORD, number)
            at = b.shl(code, ir.Constant(WORD, 1))
            kind, args = (b.inttoptr(b.load(shared_word(b, CELL_ERRORS + k, at)), POINTER) for k in range(2))
            self.call("PyErr_SetObject", ir.VoidType(), kind, args)
            self.release()
            b.ret(ir.Constant(POINTER, None))

    def release(self) -> None:
        """Release the arrays acquired so far."""
        for buffer in self.buffers:
            self.call("PyBuffer_Release", ir.VoidType(), self.builder.bitcast(buffer, POINTER))

    def word(self, argument: Any) -> Any:
        """An int as a word."""
        value = self.call("PyLong_AsLongLong", WORD, argument)
        with self.builder.if_then(self.builder.icmp_signed("==", value, ir.Constant(WORD, -1)), likely=False):
            error = self.call("PyErr_Occurred", POINTER)
            self.give_up_if(self.builder.icmp_unsigned("!=", error, ir.Constant(POINTER, None)), complain=False)
        return value

    def array(self, argument: Any, kind: str) -> list[Any]:
        """An array as its address and sizes."""
        b = self.builder
        with b.goto_entry_block():
            buffer = b.alloca(_BUFFER)
        flags = ir.Constant(HALF, _PLAIN if kind == "text" else _PLAIN | _WRITABLE)
        answer = self.call("PyObject_GetBuffer", HALF, argument, b.bitcast(buffer, POINTER), flags)
        self.give_up_if(b.icmp_signed("!=", answer, ir.Constant(HALF, 0)), complain=False)
        self.buffers.append(buffer)
        size, formats = (1, "B") if kind in ("bytes", "text") else (8, "lq")
        wrong = b.icmp_signed("!=", self._field(buffer, _ITEM), ir.Constant(WORD, size))
        wrong = b.or_(wrong, b.icmp_signed("!=", self._field(buffer, _NDIM), ir.Constant(HALF, SIZES[kind])))
        letter = b.load(self._field(buffer, _FORMAT))
        known = [b.icmp_signed("==", letter, ir.Constant(ir.IntType(8), ord(f))) for f in formats]
        right = known[0] if len(known) == 1 else b.or_(*known)
        self.give_up_if(b.or_(wrong, b.not_(right)))
        shape = b.bitcast(self._field(buffer, _SHAPE), WORD.as_pointer())
        sizes = [b.load(b.gep(shape, [ir.Constant(WORD, i)])) for i in range(SIZES[kind])]
        return [b.ptrtoint(self._field(buffer, _BUF), WORD), *sizes]

    def _field(self, buffer: Any, number: int) -> Any:
        place = [ir.Constant(HALF, 0), ir.Constant(HALF, number)]
        return self.builder.load(self.builder.gep(buffer, place))


def _bridge(module: ir.Module, symbol: str, face: ir.Function, manner: _Manner) -> None:
    kinds, brief = manner.kinds, manner.brief
    face.attributes.add("noinline")
    bridge = _Bridge(module, symbol)
    builder, (_, args, count) = bridge.builder, bridge.function.args
    bridge.give_up_if(builder.icmp_signed("!=", count, ir.Constant(WORD, len(kinds))))
    words: list[Any] = []
    for i, kind in enumerate(kinds):
        argument = builder.load(builder.gep(args, [ir.Constant(WORD, i)]))
        words += [bridge.word(argument)] if kind == "int" else bridge.array(argument, kind)
    if not brief:
        thread = bridge.call("PyEval_SaveThread", POINTER)
    if manner.allocates:
        code, answer, number = guarded(builder, lambda: builder.call(face, words), ir.Constant(WORD, 0))
    else:
        code, answer, number = None, builder.call(face, words), None
    if not brief:
        bridge.call("PyEval_RestoreThread", ir.VoidType(), thread)
    if code is not None:
        bridge.raise_if_left(code, number, lasting=manner.lasting)
    bridge.release()
    builder.ret(bridge.call("PyLong_FromLongLong", POINTER, answer))


@global_compiler_lock
def _make_cell() -> None:
    """The words of `archive.CELL`."""
    module = _codegen._create_empty_module(CELL)
    cell = ir.GlobalVariable(module, ir.ArrayType(WORD, CELL_WORDS), CELL)
    cell.initializer = ir.Constant(cell.value_type, [0] * CELL_WORDS)
    library = _codegen.create_library(CELL)
    library.add_ir_module(module)
    library.finalize()
    PARTS.append((CELL, _codegen._tm.emit_object(library._final_module)))


@global_compiler_lock
def _make_attempt() -> None:
    """The function of `archive.ATTEMPT`."""
    module = _codegen._create_empty_module(ATTEMPT)
    function = ir.Function(module, ir.FunctionType(WORD, [WORD] * 3), ATTEMPT)
    builder = ir.IRBuilder(function.append_basic_block())
    called, argument, number = function.args
    callee = builder.inttoptr(called, ir.FunctionType(WORD, [WORD]).as_pointer())
    code, _, _ = guarded(builder, lambda: builder.call(callee, [argument]), number)
    builder.ret(code)
    library = _codegen.create_library(ATTEMPT)
    library.add_ir_module(module)
    library.finalize()
    PARTS.append((ATTEMPT, _codegen._tm.emit_object(library._final_module)))


_make_cell()
_make_attempt()
