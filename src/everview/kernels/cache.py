"""Where compiled kernels are kept between processes.

Numba caches each function by the content of *its own* file. A kernel that calls a function of another file (all of
ours do) is not recompiled when that other file changes: it goes on running the old callee, silently. So the whole
cache directory carries a version:

    <base>/everview-kernels/<hash of all kernel sources>-<normal|debug>/

Change any source and the next process starts an empty directory; change it back and the old one is found again. The
base is `.cache/` in a source checkout, the platform's user cache directory otherwise, or `NUMBA_CACHE_DIR` where
somebody set it. Numba itself adds CPU, Numba and Python version to its keys.

Hazards: the setting is Numba's own and so holds for the whole process: a user's cached functions that are decorated
after `import everview` land in the same place (and are found there again). The variable is inherited by child
processes, which is wanted (Spark workers), and is why `base_directory` recognises a directory this module made and
does not nest a second in it.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import sys
import tempfile
import time
from functools import cache
from hashlib import blake2b
from pathlib import Path

PACKAGE = Path(__file__).resolve().parent.parent
FOLDER = "everview-kernels"
COMPLETE = "complete"
"""Name of the file `everview.warm` leaves in a cache that holds every kernel."""

_MADE_HERE = re.compile(r"[0-9a-f]{16}-(normal|debug)")
_NOT_COMPILED = {"cache.py", "progress.py"}
_KEEP = 3
_IN_USE_SECONDS = 3600.0


def kernel_sources() -> list[Path]:
    """The files whose content decides what compiled kernels do, in a fixed order.

    All of `everview.kernels` counts (constants are baked into machine code), elsewhere only files that use Numba.
    """
    found = [p for p in (PACKAGE / "kernels").glob("*.py") if p.name not in _NOT_COMPILED]
    for folder in ("codes", "dataflow"):
        found += [p for p in (PACKAGE / folder).rglob("*.py") if b"numba" in p.read_bytes()]
    return [*sorted(found), PACKAGE / "types.py"]


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


def build_mode() -> str:
    """`debug` if EVERVIEW_DEBUG asks for the bounds-checked build, else `normal`."""
    return "normal" if os.environ.get("EVERVIEW_DEBUG", "0") in ("", "0") else "debug"


def base_directory() -> Path:
    """The directory under which cache directories are made."""
    given = os.environ.get("NUMBA_CACHE_DIR")
    if given:
        path = Path(given)
        ours = path.parent.name == FOLDER and _MADE_HERE.fullmatch(path.name)
        return path.parent.parent if ours else path
    root = PACKAGE.parent.parent
    if PACKAGE.parent.name == "src" and (root / "pyproject.toml").is_file():
        return root / ".cache"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches"
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA", str(Path.home() / "AppData" / "Local")))
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")


@cache
def configure() -> Path:
    """Point Numba at the cache directory of these sources and this build; call before the first kernel is defined.

    Calling it again changes nothing. Where the base cannot be written, a temporary directory serves this process.
    """
    directory = base_directory() / FOLDER / f"{source_hash()}-{build_mode()}"
    try:
        directory.mkdir(parents=True, exist_ok=True)
        os.utime(directory)  # "last used", for remove_stale
    except OSError:
        directory = Path(tempfile.mkdtemp(prefix=f"{FOLDER}-"))
    if os.environ.get("NUMBA_CACHE_DIR") != str(directory):
        os.environ["NUMBA_CACHE_DIR"] = str(directory)
        if "numba" in sys.modules:  # it read the variable when it was imported
            sys.modules["numba"].config.CACHE_DIR = str(directory)
        remove_stale(directory)
    _show_progress(cold=not (directory / COMPLETE).exists())
    return directory


def remove_stale(current: Path) -> list[Path]:
    """Delete siblings of `current` made here for the same build, but not the newest nor any used within the hour."""
    removed = []
    siblings = [p for p in current.parent.glob("*-" + current.name.rpartition("-")[2]) if _MADE_HERE.fullmatch(p.name)]
    with contextlib.suppress(OSError):  # another process may be tidying up too
        by_age = sorted(siblings, key=lambda p: p.stat().st_mtime, reverse=True)
        for path in by_age[_KEEP:]:
            if path != current and time.time() - path.stat().st_mtime > _IN_USE_SECONDS:
                shutil.rmtree(path, ignore_errors=True)
                removed.append(path)
    return removed


def _show_progress(cold: bool) -> None:
    wanted = os.environ.get("EVERVIEW_PROGRESS", "0") not in ("", "0")
    if wanted or (cold and sys.stderr is not None and sys.stderr.isatty()):
        from everview.kernels import progress

        progress.install()
