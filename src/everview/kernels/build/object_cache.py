"""Cached object files of single kernels, so that an edit recompiles only what it can affect.

    <base>/everview-kernels/parts/<hash>.o

The archive is keyed by all sources together (`cache`), so any edit requires a new archive. But a kernel's machine code
depends only on its own module and its transitive imports: whatever is compiled into it must have been imported. The
name of an object file is a hash of exactly those sources, of the compiler, and of the kernel's symbol; a new archive
reuses the files it finds and compiles the rest. Comments and docstrings do not count, so editing prose recompiles
nothing. Kernels called by symbol (`shared`) are not compiled into their callers, but their modules count too: this
recompiles slightly too much, never too little.

Hazard: imports are parsed from the source text. A kernel module must not be imported by a computed name.
"""

from __future__ import annotations

import ast
import contextlib
import os
import tempfile
from functools import cached_property
from hashlib import blake2b
from pathlib import Path

_SPARE = 8
"""How many times as many object files are kept as the newest archive needs."""


class Parts:
    """The object files of one compiler: `salt` says which, `sources` are those of `cache.kernel_sources`."""

    def __init__(self, folder: Path, package: Path, sources: list[Path], salt: str) -> None:
        self.folder = folder
        self._salt = salt
        self._sources = {_dotted(package, path): path for path in sources}
        self._used: set[Path] = set()

    def find(self, module: str, symbol: str) -> bytes | None:
        """A kernel's object file, if one was kept for the sources as they are."""
        path = self._path(module, symbol)
        try:
            content = path.read_bytes()
            os.utime(path)  # "last used", for `tidy`
        except OSError:
            return None
        self._used.add(path)
        return content

    def keep(self, module: str, symbol: str, content: bytes) -> None:
        """Keep a kernel's object file; where that is not possible it is compiled again next time."""
        path = self._path(module, symbol)
        with contextlib.suppress(OSError):
            self.folder.mkdir(parents=True, exist_ok=True)
            descriptor, temporary = tempfile.mkstemp(dir=self.folder)
            with os.fdopen(descriptor, "wb") as file:
                file.write(content)
            os.replace(temporary, path)
            self._used.add(path)

    def tidy(self) -> None:
        """Delete the object files that were not used for longest."""
        with contextlib.suppress(OSError):  # another process may be tidying up too
            by_age = sorted(self.folder.iterdir(), key=lambda p: p.stat().st_mtime, reverse=True)
            for path in by_age[_SPARE * len(self._used) :]:
                path.unlink()

    def _path(self, module: str, symbol: str) -> Path:
        digest = blake2b(f"{self._salt}|{symbol}|".encode(), digest_size=16)
        for name in sorted(self.sources_of(module)):
            digest.update(f"{name}:{self._hashes[name]}|".encode())
        return self.folder / f"{digest.hexdigest()}.o"

    def sources_of(self, module: str) -> set[str]:
        """The modules whose text decides what a module's kernels do."""
        found, todo = set(self._always), [module]
        while todo:
            name = todo.pop()
            if name in self._sources and name not in found:
                found.add(name)
                todo += self._imports[name]
        return found

    @cached_property
    def _always(self) -> list[str]:
        """How kernels are declared and compiled counts for all of them."""
        return [name for name in self._sources if ".kernels.build." in name]

    @cached_property
    def _hashes(self) -> dict[str, str]:
        return {name: blake2b(code_of(path.read_text()).encode()).hexdigest() for name, path in self._sources.items()}

    @cached_property
    def _imports(self) -> dict[str, set[str]]:
        return {name: _imported(path) for name, path in self._sources.items()}


def code_of(text: str) -> str:
    """A module's syntax tree without comments, docstrings and the layout of its lines.

    >>> code_of('"Words."\\nx = 1  # one') == code_of("x = 1") != code_of("x = 2")
    True
    """
    tree = ast.parse(text)
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if isinstance(body, list):
            node.body = [one for one in body if not _is_text(one)]  # type: ignore[attr-defined]
    return ast.dump(tree)


def _is_text(statement: ast.stmt) -> bool:
    value = statement.value if isinstance(statement, ast.Expr) else None
    return isinstance(value, ast.Constant) and isinstance(value.value, str)


def _dotted(package: Path, path: Path) -> str:
    parts = path.relative_to(package.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _imported(path: Path) -> set[str]:
    """Names that may be modules which a file imports, wherever in it; packages around them too."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_bytes())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= {node.module} | {f"{node.module}.{alias.name}" for alias in node.names}
    return names | {name.rpartition(".")[0] for name in names}
