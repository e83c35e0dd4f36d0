"""Imports kernel modules where the compiler is not installed.

Primitives are written with LLVM's builder, so their modules begin with `from llvmlite import ir`. A process that only
runs kernels imports the same modules but calls no primitive: their bodies are already in the machine code. Where
llvmlite is not installed, a placeholder stands for it while kernel modules are being imported, and only then: a
program's own `import llvmlite` fails as it should.

Hazard: every attribute of the placeholder is the placeholder. Outside functions, kernel modules may build types and
constants from `ir`, but must not compare or compute with them.
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
"""Prefixes of the modules whose import needs it."""


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
    """Install the placeholder from the first of nested imports to the last; threads may import concurrently."""
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
    """Allow importing kernel modules without the compiler. A no-op if it is installed."""
    if os.environ.get("EVERVIEW_COMPILING") != "1" and find_spec(COMPILER) is None:
        sys.meta_path.insert(0, _Finder())
