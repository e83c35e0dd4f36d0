"""The archive: the machine code of all kernels in one file, and how it is loaded.

    line of JSON: names and sizes of the parts; then the parts, object files as LLVM wrote them, one after the other

`library` loads the kernels for these sources, this build and this machine: the shared library shipped with the package
(see `linker`), else the archive. If there is neither, the archive is built first (`everview.warm`, in a separate
process: about a minute). All parts are linked together, so they find each other by symbol in any order; external
symbols are in `OUTSIDE`.

Hazard: LLVM terminates the process if a symbol is missing. The compiling process therefore checks that there are no
others.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    pass

OUTSIDE = {
    "libc": (
        "malloc realloc free memmove memcpy memset sqrt exp exp2 fmod log log10 log2 pow "
        "_setjmp longjmp pthread_getspecific pthread_setspecific"
        + (" mmap mremap munmap" if sys.platform == "linux" else "")
    ).split(),
    "python": (
        "PyThread_acquire_lock PyThread_release_lock PyEval_SaveThread PyEval_RestoreThread PyLong_AsLongLong "
        "PyLong_FromLongLong PyErr_Occurred PyErr_BadArgument PyErr_SetObject PyObject_GetBuffer PyBuffer_Release"
    ).split(),
}
"""External functions that kernels may call."""

CELL = "everview_cell"
"""Symbol of the words that all kernels of a process share; see `leaving`."""

ATTEMPT = "everview_attempt"
"""Symbol of the function that calls another one and survives its exit; see `leaving`."""


def symbol_of(function: Callable[..., Any]) -> str:
    """The name under which a compiled function is found.

    >>> symbol_of(read)
    'everview_archive_read'
    """
    return f"everview_{function.__module__.rpartition('.')[2]}_{function.__name__}"


def write(path: Path, parts: Iterable[tuple[str, bytes]]) -> None:
    """Write an archive atomically."""
    parts = list(parts)
    head = json.dumps([[name, len(content)] for name, content in parts]).encode() + b"\n"
    descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=path.name)
    with os.fdopen(descriptor, "wb") as file:
        file.write(head + b"".join(content for _, content in parts))
    os.chmod(temporary, 0o644)
    os.replace(temporary, path)


def read(path: Path) -> list[tuple[str, bytes]]:
    """Read the parts of an archive; a damaged one is an error with a remedy."""
    try:
        with path.open("rb") as file:
            parts = [(name, file.read(size), size) for name, size in json.loads(file.readline())]
    except ValueError:
        parts = [("", b"", 1)]
    if any(len(content) != size for _, content, size in parts):
        from everview.errors import InternalError

        raise InternalError("E_KERNELS", f"the kernels in {path} are damaged: delete that file and start again")
    return [(name, content) for name, content, _ in parts]


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
    """Build the archive of this process's build, unless it exists, in another process, which reports progress on
    stderr.
    """
    import subprocess
    import sys
    from importlib.util import find_spec

    from everview.errors import InternalError
    from everview.kernels.build.cache import PACKAGE, build_mode

    environment = {**os.environ, "EVERVIEW_COMPILING": "1"}
    environment["PYTHONPATH"] = os.pathsep.join([str(PACKAGE.parent), os.environ.get("PYTHONPATH", "")])
    with _alone(path):
        if path.exists():
            return
        if find_spec("numba") is None:
            what = f"this package has no compiled kernels for this machine ({build_mode()} build), nor a compiler"
            raise InternalError("E_KERNELS", what, "pip install 'everview[compile]': kernels are then compiled once")
        command = [sys.executable, "-m", "everview.warm"]
        done = subprocess.run(command, env=environment, stdout=_terminal(), check=False)
    if done.returncode:
        raise InternalError("E_KERNELS", "the kernels could not be compiled: run `python -m everview.warm` to see why")


def _terminal() -> Any:
    """Standard error, for another process; None, the default, where it is no file: in a notebook, say."""
    import sys

    try:
        sys.stderr.fileno()
    except (AttributeError, OSError, ValueError):
        return None
    return sys.stderr
