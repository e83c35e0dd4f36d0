"""The archive: the machine code of all kernels in one file, and its way into a process.

    line of JSON: names and sizes of the parts; then the parts, object files as LLVM wrote them, one after the other

`library` loads the archive that belongs to these sources, this build and this machine, and if there is none, has it
made first (`everview.warm`, in a process of its own: about a minute). All parts go to one linker together, so they
find each other by symbol whatever their order; what they need from outside is in `OUTSIDE`.

Hazard: LLVM ends the process when a symbol is missing. So the compiling process checks that there are no others.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import tempfile
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

from llvmlite import binding as llvm

OUTSIDE = {
    "libc": (
        "malloc realloc free memmove memcpy memset sqrt exp exp2 fmod log log10 log2 pow "
        "_setjmp longjmp pthread_getspecific pthread_setspecific"
    ).split(),
    "python": (
        "PyThread_acquire_lock PyThread_release_lock PyEval_SaveThread PyEval_RestoreThread PyLong_AsLongLong "
        "PyLong_FromLongLong PyErr_Occurred PyErr_BadArgument PyErr_SetObject PyObject_GetBuffer PyBuffer_Release"
    ).split(),
}
"""What kernels may call that is not ours."""

CELL = "everview_cell"
"""Symbol of the words that all kernels of a process share; see `leaving`."""

ATTEMPT = "everview_attempt"
"""Symbol of the function that calls another one and survives its leaving; see `leaving`."""

METH_FASTCALL = 0x80


class _Method(ctypes.Structure):
    _fields_ = (
        ("name", ctypes.c_char_p),
        ("function", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    )


def symbol_of(function: Callable[..., Any]) -> str:
    """The name under which a compiled function is found.

    >>> symbol_of(read)
    'everview_archive_read'
    """
    return f"everview_{function.__module__.rpartition('.')[2]}_{function.__name__}"


def write(path: Path, parts: Iterable[tuple[str, bytes]]) -> None:
    """Write an archive; it appears whole or not at all."""
    parts = list(parts)
    head = json.dumps([[name, len(content)] for name, content in parts]).encode() + b"\n"
    descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=path.name)
    with os.fdopen(descriptor, "wb") as file:
        file.write(head + b"".join(content for _, content in parts))
    os.chmod(temporary, 0o644)
    os.replace(temporary, path)


def read(path: Path) -> list[tuple[str, bytes]]:
    """The parts of an archive; a damaged one is an error that says what to do."""
    try:
        with path.open("rb") as file:
            parts = [(name, file.read(size), size) for name, size in json.loads(file.readline())]
    except ValueError:
        parts = [("", b"", 1)]
    if any(len(content) != size for _, content, size in parts):
        from everview.errors import InternalError

        raise InternalError("E_KERNELS", f"the kernels in {path} are damaged: delete that file and start again")
    return [(name, content) for name, content, _ in parts]


class Library:
    """The kernels of an archive, linked into this process."""

    def __init__(self, path: Path) -> None:
        self.path = path
        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
        machine = llvm.Target.from_default_triple().create_target_machine(jit=True, codemodel="jitdefault")
        _offer_outside()
        self._engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), machine)
        self._symbols = set()
        for name, content in read(path):
            self._engine.add_object_file(llvm.ObjectFileRef.from_data(content))
            self._symbols.add(name)
        self._engine.finalize_object()
        self._kept: list[Any] = []

    def address(self, symbol: str) -> int:
        """Address of a kernel."""
        if symbol not in self._symbols:  # LLVM would end the process
            from everview.errors import InternalError

            raise InternalError("E_KERNELS", f"{symbol} is not in {self.path}: delete that file and start again")
        return int(self._engine.get_function_address(symbol))

    def addresses(self) -> dict[str, int]:
        """Where each kernel lies, for profilers."""
        return {name: self.address(name) for name in self._symbols if name not in (CELL, ATTEMPT)}

    def callable(self, symbol: str, name: str, doc: str) -> Callable[..., Any]:
        """A kernel as a function of Python's own kind, through its bridge."""
        self.address(symbol)
        bridge = self._engine.get_function_address(f"{symbol}_python")
        method = _Method(name.encode(), bridge, METH_FASTCALL, doc.encode())
        self._kept.append(method)
        make = ctypes.pythonapi.PyCFunction_NewEx
        make.restype = ctypes.py_object
        make.argtypes = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)
        function: Callable[..., Any] = make(ctypes.addressof(method), None, None)
        return function

    def cell(self) -> int:
        """Address of the words that all kernels share."""
        return int(self._engine.get_global_value_address(CELL))


def _offer_outside() -> None:
    libc = ctypes.CDLL(None)
    for holder, names in ((libc, OUTSIDE["libc"]), (ctypes.pythonapi, OUTSIDE["python"])):
        for name in names:
            with contextlib.suppress(AttributeError):  # found by LLVM itself, where it is not in these
                address = ctypes.cast(getattr(holder, name), ctypes.c_void_p).value
                llvm.add_symbol(name, address)


@contextlib.contextmanager
def _alone(path: Path) -> Iterator[None]:
    """One process at a time: a cluster's workers that start together wait for one compilation."""
    try:
        import fcntl
    except ImportError:  # Windows: they all compile, and the last one's archive stays
        yield
        return
    with path.with_suffix(".lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def have_made(path: Path) -> None:
    """Have the archive of this process's build made, unless it is there: by another process, which tells its progress
    to stderr.
    """
    import subprocess
    import sys

    from everview.errors import InternalError
    from everview.kernels.build.cache import PACKAGE

    environment = {**os.environ, "EVERVIEW_COMPILING": "1"}
    environment["PYTHONPATH"] = os.pathsep.join([str(PACKAGE.parent), os.environ.get("PYTHONPATH", "")])
    with _alone(path):
        if path.exists():
            return
        done = subprocess.run([sys.executable, "-m", "everview.warm"], env=environment, stdout=sys.stderr, check=False)
    if done.returncode:
        raise InternalError("E_KERNELS", "the kernels could not be compiled: run `python -m everview.warm` to see why")


@cache
def library() -> Library:
    """The kernels of these sources, compiled first if they are not yet."""
    from everview.kernels.build import cache as place

    path = place.archive_path()
    if not path.exists():
        have_made(path)
    return Library(path)
