"""Kernel modules where the compiler is not installed.

Primitives are written with LLVM's builder, so their modules begin with `from llvmlite import ir`. A process that only
runs kernels imports the same modules but calls no primitive: what its body means is in the machine code already. So
where llvmlite is not installed, a placeholder stands for it while kernel modules are being imported, and at no other
moment: a program's own `import llvmlite` fails there as it should.

Hazard: the placeholder answers everything with itself. Kernel modules may build types and constants from `ir` outside
functions, nothing that is compared or computed with.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from importlib.util import find_spec, spec_from_file_location
from types import ModuleType
from typing import Any

COMPILER = "llvmlite"
NEED_IT = ("everview.kernels.", "everview.codes.hashing")
"""Modules whose import needs it: how their names begin."""


class Nothing:
    """Stands for a builder where nothing is built.

    >>> nothing = Nothing()
    >>> nothing.IntType(64).as_pointer() is nothing
    True
    """

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # what Python itself looks for when it copies or inspects things
            raise AttributeError(name)
        return self

    def __call__(self, *args: Any) -> Any:
        return self


class _Finder(MetaPathFinder):
    """Finds kernel modules, to have them run in the company of the placeholder."""

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        if not name.startswith(NEED_IT):
            return None
        found = PathFinder.find_spec(name, path, target)
        if found is None or not isinstance(found.loader, SourceFileLoader):
            return found
        loader = _Loader(name, found.loader.path)
        inside = found.submodule_search_locations
        return spec_from_file_location(name, found.origin, loader=loader, submodule_search_locations=inside)


class _Loader(SourceFileLoader):
    def exec_module(self, module: ModuleType) -> None:
        with _placed():
            super().exec_module(module)


_lock = threading.Lock()
_users = 0


@contextmanager
def _placed() -> Iterator[None]:
    """While the first of several begins and the last ends: they nest, and threads may import side by side."""
    global _users
    with _lock:
        if not _users:
            sys.modules[COMPILER] = ModuleType(COMPILER)
            sys.modules[COMPILER].ir = Nothing()  # type: ignore[attr-defined]
        _users += 1
    try:
        yield
    finally:
        with _lock:
            _users -= 1
            if not _users:
                del sys.modules[COMPILER]


def do_without() -> None:
    """Let kernel modules be imported where the compiler is not installed. Elsewhere this does nothing."""
    if os.environ.get("EVERVIEW_COMPILING") != "1" and find_spec(COMPILER) is None:
        sys.meta_path.insert(0, _Finder())
