"""The kernel cache: one directory per content of the sources and build, found again by every process."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from everview.kernels import cache, progress

LOAD_ALONE = """
import importlib.util, sys
spec = importlib.util.spec_from_file_location("cache", sys.argv[1])
cache = importlib.util.module_from_spec(spec)
spec.loader.exec_module(cache)
print(cache.configure())
import numba
print(numba.config.CACHE_DIR)
"""


def configured(**environment: str) -> Path:
    """The directory a fresh process chooses, as Numba sees it.

    The module is loaded without its package: `import everview` would compile every kernel into the new directory.
    """
    kept = {k: v for k, v in os.environ.items() if k not in ("NUMBA_CACHE_DIR", "EVERVIEW_DEBUG", "EVERVIEW_PROGRESS")}
    done = subprocess.run(
        [sys.executable, "-c", LOAD_ALONE, str(cache.__file__)],
        env={**kept, **environment},
        capture_output=True,
        check=True,
        text=True,
    )
    chosen, numba = done.stdout.split()
    assert chosen == numba
    return Path(chosen)


def test_build_modes_are_apart_and_a_child_does_not_nest(tmp_path: Path) -> None:
    normal = configured(NUMBA_CACHE_DIR=str(tmp_path))
    assert normal.parent == tmp_path / cache.FOLDER
    assert configured(NUMBA_CACHE_DIR=str(normal)) == normal
    debug = configured(NUMBA_CACHE_DIR=str(normal), EVERVIEW_DEBUG="1")
    assert debug.parent == normal.parent
    assert debug.name == normal.name.replace("normal", "debug")


def test_unwritable_base_falls_back_to_a_temporary_directory(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.touch()
    assert configured(NUMBA_CACHE_DIR=str(blocked)).is_dir()


def test_hash_follows_content(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "everview"
    for folder in ("kernels", "codes", "dataflow"):
        (package / folder).mkdir(parents=True)
    kernel, plain = package / "kernels" / "memory.py", package / "codes" / "declare.py"
    kernel.write_text("ONE = 1\n")
    plain.write_text("nothing compiled here\n")
    (package / "types.py").write_text("NULL = 0\n")
    monkeypatch.setattr(cache, "PACKAGE", package)
    first = cache.source_hash()

    plain.write_text("still nothing\n")
    os.utime(kernel, (0, 0))
    assert cache.source_hash() == first, "files without compiled code and modification times do not count"

    kernel.write_text("ONE = 2\n")
    assert cache.source_hash() != first
    kernel.write_text("ONE = 1\n")
    assert cache.source_hash() == first


def test_hash_is_fast() -> None:
    started = time.process_time()
    for _ in range(10):
        cache.source_hash()
    assert (time.process_time() - started) / 10 < 0.02, "about 1 ms when quiet; 20 allows for a busy machine"


def test_stale_directories_go_and_nothing_else(tmp_path: Path) -> None:
    folder = tmp_path / cache.FOLDER
    old = [folder / f"{n:016x}-normal" for n in range(6)]
    strangers = [folder / "0123456789abcdef-debug", folder / "notes-normal", folder / "mine"]
    for age, path in enumerate([*old, *strangers]):
        path.mkdir(parents=True)
        os.utime(path, (1000.0 * (age + 1),) * 2)
    removed = cache.remove_stale(old[0])
    assert set(removed) == {old[1], old[2]}, "three newest and the current one stay"
    assert all(path.exists() for path in [old[0], *old[3:], *strangers])


def test_directories_in_use_stay(tmp_path: Path) -> None:
    paths = [tmp_path / cache.FOLDER / f"{n:016x}-normal" for n in range(6)]
    for path in paths:
        path.mkdir(parents=True)
    assert cache.remove_stale(paths[0]) == []


def test_kernel_modules_are_listed_by_dotted_name() -> None:
    names = progress.kernel_modules()
    assert "everview.kernels.memory" in names
    assert "everview.kernels.cache" not in names
