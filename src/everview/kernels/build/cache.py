"""The location of the compiled kernels between processes.

    <base>/everview-kernels/<hash of all kernel sources>-<normal|debug>/<hash of the machine>.kernels

One archive holds all kernels, and its directory name contains a hash: after any change of a source the next process
looks into an empty directory; after reverting it, the old one is found again. (Numba's own cache only considers the
file that defines a function: a kernel that calls a function of another file, as all of ours do, would silently use the
old callee.) The machine is part of the key, too: processor, operating system, LLVM and Python.

The base is `.cache/` in a source checkout, the platform's user cache directory otherwise, or `EVERVIEW_CACHE_DIR` if
set. If it cannot be written (a service without a home), a private directory in the system's temporary one serves all
processes of the user. Nothing in it depends on the path of the sources: clones of one commit can share a base, and a
directory can be copied to another machine of the same kind or into an image.

A wheel ships its kernels as a shared library for a named processor (`cpus`), in `everview/everview-kernels/<hash of all
kernel sources>-normal/`.
"""

from __future__ import annotations

import contextlib
import os
import platform
import re
import shutil
import stat
import sys
import tempfile
import time
from functools import cache
from hashlib import blake2b
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[2]
FOLDER = "everview-kernels"

_MADE_HERE = re.compile(r"[0-9a-f]{16}-(normal|debug)")
SHARED = ".so"
"""How the name of a shared library of kernels ends, on every system."""

_NOT_COMPILED = {
    *("archive.py", "cache.py", "cpus.py", "libraries.py", "linker.py"),
    *("loader.py", "no_compiler.py", "object_cache.py", "progress.py"),
}
"""Files of `kernels.build` that no kernel depends on. Elsewhere files may have the same names."""
_KEEP = 3
_IN_USE_SECONDS = 3600.0


def kernel_sources() -> list[Path]:
    """The files that determine compiled kernels, in a fixed order.

    All of `everview.kernels` counts (constants are baked into machine code), elsewhere only files with kernels.
    """
    found = [p for p in (PACKAGE / "kernels").rglob("*.py") if p.parent.name != "build" or p.name not in _NOT_COMPILED]
    found += [p for p in (PACKAGE / "codes").glob("*.py") if b"kernels.build.native" in p.read_bytes()]
    return [*sorted(found), PACKAGE / "types.py"]


def kernel_modules() -> list[str]:
    """Dotted names of the modules that may hold kernels.

    >>> "everview.kernels.memory" in kernel_modules()
    True
    """
    return [".".join(("everview", *p.relative_to(PACKAGE).with_suffix("").parts)) for p in kernel_sources()]


def source_hash() -> str:
    """Hash of names and contents of all kernel sources: equal in every clone of the same commit.

    >>> len(source_hash())
    16
    """
    digest = blake2b(digest_size=8)
    for path in kernel_sources():
        content = path.read_bytes()
        digest.update(f"{path.relative_to(PACKAGE).as_posix()}:{len(content)}:".encode())
        digest.update(content)
    return digest.hexdigest()


def machine_hash() -> str:
    """Hash of everything else that compiled code depends on. Without a compiler there is nothing to find: any name will
    do."""
    try:
        import llvmlite
        from llvmlite import binding
    except ImportError:
        return "none"

    parts = (
        binding.get_process_triple(),
        binding.get_host_cpu_name(),
        binding.get_host_cpu_features().flatten(),
        llvmlite.__version__,
        platform.python_implementation(),
        sys.version.split()[0],
    )
    return blake2b("|".join(parts).encode(), digest_size=8).hexdigest()


def build_mode() -> str:
    """`debug` if EVERVIEW_DEBUG asks for the bounds-checked build, else `normal`."""
    return "normal" if os.environ.get("EVERVIEW_DEBUG", "0") in ("", "0") else "debug"


def base_directory() -> Path:
    """The directory under which cache directories are made."""
    given = os.environ.get("EVERVIEW_CACHE_DIR")
    if given:
        return Path(given)
    root = PACKAGE.parent.parent
    if PACKAGE.parent.name == "src" and (root / "pyproject.toml").is_file():
        return root / ".cache"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches"
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA", str(Path.home() / "AppData" / "Local")))
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")


@cache
def archive_path() -> Path:
    """The shipped shared library, if it is for these sources, this build and this machine. Otherwise the path of their
    archive; its directory exists.

    If the base cannot be written, there is one place per machine and user, which is reported when something is compiled
    into it.
    """
    version = f"{source_hash()}-{build_mode()}"
    shipped = shipped_path(version)
    if shipped is not None:
        return shipped
    name = f"{machine_hash()}.kernels"
    try:
        directory = base_directory() / FOLDER / version
        directory.mkdir(parents=True, exist_ok=True)
        os.utime(directory)  # "last used", for remove_stale
    except (OSError, RuntimeError) as error:  # RuntimeError: there is no home at all
        if not isinstance(error, OSError) or not (directory / name).exists():  # one that only its owner may change, say
            return _elsewhere(version, name)
    return directory / name


def shipped_path(version: str) -> Path | None:
    """The best shared library of this package that this machine can run."""
    folder = PACKAGE / FOLDER / version
    if not folder.is_dir():
        return None
    from everview.kernels.build.cpus import runnable

    found = (folder / f"{name}{SHARED}" for name in runnable())
    return next((path for path in found if path.exists()), None)


def _elsewhere(version: str, name: str) -> Path:
    """The fallback location for compiled kernels. Child processes learn it from the environment."""
    base = user_temporary()
    directory = base / FOLDER / version
    directory.mkdir(parents=True, exist_ok=True)
    os.environ["EVERVIEW_CACHE_DIR"] = str(base)
    if not (directory / name).exists():
        print(
            f"everview: the usual cache directory cannot be written; compiled kernels are kept in {directory} "
            "(EVERVIEW_CACHE_DIR names a better place)",
            file=sys.stderr,
        )
    return directory / name


def user_temporary() -> Path:
    """A private directory of this user in the system's temporary one, since code is loaded from it. If its name is
    taken by somebody else, one of this process.
    """
    path = Path(tempfile.gettempdir()) / f"everview-cache-{os.getuid() if hasattr(os, 'getuid') else os.getlogin()}"
    with contextlib.suppress(OSError):
        path.mkdir(mode=0o700, exist_ok=True)
        found = path.lstat()
        if stat.S_ISDIR(found.st_mode) and (not hasattr(os, "getuid") or _only_mine(found)):
            return path
    return Path(tempfile.mkdtemp(prefix="everview-cache-"))


def _only_mine(found: os.stat_result) -> bool:
    return found.st_uid == os.getuid() and not found.st_mode & 0o022


def remove_stale(current: Path) -> list[Path]:
    """Delete siblings of `current` created here for the same build, except the newest and any used within the hour."""
    removed = []
    siblings = [p for p in current.parent.glob("*-" + current.name.rpartition("-")[2]) if _MADE_HERE.fullmatch(p.name)]
    with contextlib.suppress(OSError):  # another process may be tidying up too
        by_age = sorted(siblings, key=lambda p: p.stat().st_mtime, reverse=True)
        for path in by_age[_KEEP:]:
            if path != current and time.time() - path.stat().st_mtime > _IN_USE_SECONDS:
                shutil.rmtree(path, ignore_errors=True)
                removed.append(path)
    return removed
