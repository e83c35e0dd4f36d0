"""Loaded kernels: from a symbol to an address, and to a Python callable.

    Archived   object files compiled here, linked by LLVM on loading: needs llvmlite
    Shared     a shipped shared library, loaded by the operating system

Both hold the same code. Building a shared library needs a linker, which is not always installed; LLVM brings its own.
"""

from __future__ import annotations

import contextlib
import ctypes
from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

from everview.kernels.build import cache as place
from everview.kernels.build.archive import ATTEMPT, CELL, OUTSIDE, have_made, read

METH_FASTCALL = 0x80


class _Method(ctypes.Structure):
    _fields_ = (
        ("name", ctypes.c_char_p),
        ("function", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    )


class Library(ABC):
    """The kernels of a file, linked into this process."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._kept: list[Any] = []

    @abstractmethod
    def _find(self, symbol: str) -> int:
        """Address of a symbol; 0 if it is not there."""

    @abstractmethod
    def addresses(self) -> dict[str, int]:
        """Where each kernel lies, for profilers."""

    def address(self, symbol: str) -> int:
        """Address of a kernel, or of the cell."""
        found = self._find(symbol)
        if not found:
            from everview.errors import InternalError

            raise InternalError("E_KERNELS", f"{symbol} is not in {self.path}: delete that file and start again")
        return found

    def callable(self, symbol: str, name: str, doc: str) -> Callable[..., Any]:
        """A kernel as a Python callable, through its bridge."""
        self.address(symbol)
        method = _Method(name.encode(), self._find(f"{symbol}_python"), METH_FASTCALL, doc.encode())
        self._kept.append(method)
        make = ctypes.pythonapi.PyCFunction_NewEx
        make.restype = ctypes.py_object
        make.argtypes = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)
        function: Callable[..., Any] = make(ctypes.addressof(method), None, None)
        return function

    def cell(self) -> int:
        """Address of the words that all kernels share."""
        return self.address(CELL)


class Archived(Library):
    """The object files of an archive, linked by LLVM."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        from llvmlite import binding as llvm

        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
        machine = llvm.Target.from_default_triple().create_target_machine(jit=True, codemodel="jitdefault")
        _offer_outside(llvm.add_symbol)
        self._engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), machine)
        self._symbols = set()
        for name, content in read(path):
            self._engine.add_object_file(llvm.ObjectFileRef.from_data(content))
            self._symbols.add(name)
        self._engine.finalize_object()

    def _find(self, symbol: str) -> int:
        if symbol.removesuffix("_python") not in self._symbols:  # LLVM would end the process
            return 0
        if symbol == CELL:
            return int(self._engine.get_global_value_address(CELL))
        return int(self._engine.get_function_address(symbol))

    def addresses(self) -> dict[str, int]:
        return {name: self.address(name) for name in self._symbols if name not in (CELL, ATTEMPT)}


def _offer_outside(offer: Callable[[str, int], None]) -> None:
    libc = ctypes.CDLL(None)
    for holder, names in ((libc, OUTSIDE["libc"]), (ctypes.pythonapi, OUTSIDE["python"])):
        for name in names:
            with contextlib.suppress(AttributeError):  # found by LLVM itself, where it is not in these
                address = ctypes.cast(getattr(holder, name), ctypes.c_void_p).value
                offer(name, address or 0)


class Shared(Library):
    """A shared library, loaded by the operating system."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self._found: dict[str, int] = {}
        try:
            self._loaded = ctypes.PyDLL(str(path))
        except OSError as error:
            from everview.errors import InternalError

            hint = "install everview again; `everview doctor` shows what was found"
            raise InternalError("E_KERNELS", f"the kernels in {path} cannot be loaded: {error}", hint) from error

    def _find(self, symbol: str) -> int:
        if symbol not in self._found:
            try:
                self._found[symbol] = ctypes.addressof(ctypes.c_char.in_dll(self._loaded, symbol))
            except ValueError:
                return 0
        return self._found[symbol]

    def addresses(self) -> dict[str, int]:
        """Those asked for so far; profilers find all of them in the file."""
        return {name: at for name, at in self._found.items() if name.startswith("everview_") and name != CELL}


@cache
def library() -> Library:
    """The kernels of these sources, compiled first if necessary."""
    path = place.archive_path()
    if path.suffix == place.SHARED:
        return Shared(path)
    if not path.exists():
        have_made(path)
    return Archived(path)
