"""A line per kernel module while it compiles, so that nobody stares at a silent terminal.

Kernels have explicit signatures and are compiled while their module is imported: the time a module takes to import *is*
its compile time (or, from the cache, its load time). `install` puts a finder in front of Python's own that times the
imports of modules that use Numba, nested imports subtracted, and says so on stderr.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import ModuleType

from everview.kernels.cache import PACKAGE, kernel_sources

_QUIET_SECONDS = 0.2


def kernel_modules() -> list[str]:
    """Dotted names of the modules that hold compiled functions, in import order.

    >>> "everview.kernels.memory" in kernel_modules()
    True
    """
    return [_dotted(path) for path in kernel_sources() if b"numba" in path.read_bytes()]


def _dotted(path: Path) -> str:
    return ".".join(("everview", *path.relative_to(PACKAGE).with_suffix("").parts))


class _Timed(Loader):
    """Loads like `inner` and reports how long the module's own code took."""

    nested: list[float] = []  # noqa: RUF012 - one stack for all: imports nest across modules

    def __init__(self, inner: Loader, report: _Report) -> None:
        self.inner = inner
        self.report = report

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self.inner.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        self.nested.append(0.0)
        start = time.perf_counter()
        self.inner.exec_module(module)
        spent = time.perf_counter() - start
        own = spent - self.nested.pop()
        if self.nested:
            self.nested[-1] += spent
        self.report.say(module.__name__, own)


class _Report:
    def __init__(self, total: int) -> None:
        self.total = total
        self.done = 0

    def say(self, name: str, seconds: float) -> None:
        self.done += 1
        if seconds >= _QUIET_SECONDS:
            print(f"  kernels {self.done:2d} of {self.total}: {name} {seconds:.1f} s", file=sys.stderr, flush=True)


class _Finder(MetaPathFinder):
    def __init__(self) -> None:
        self.names = set(kernel_modules())
        self.report = _Report(len(self.names))

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname not in self.names:
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is not None and spec.loader is not None:
            spec.loader = _Timed(spec.loader, self.report)
        return spec


def install() -> None:
    """Report imports of kernel modules from now on; once is enough."""
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder())
