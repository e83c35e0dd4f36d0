"""The kernel cache: one directory per content of the sources and build, found again by every process."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from everview.errors import InternalError
from everview.kernels import structures
from everview.kernels.build import archive, cache, cpus, libraries, linker
from everview.kernels.build.object_cache import Parts
from tests.effort import calls

LOAD_ALONE = """
import importlib.util, sys
spec = importlib.util.spec_from_file_location("cache", sys.argv[1])
cache = importlib.util.module_from_spec(spec)
spec.loader.exec_module(cache)
print(cache.archive_path())
"""


def chosen(**environment: str) -> Path:
    """The archive a fresh process looks for.

    The module is loaded without its package: `import everview` would compile every kernel into the new directory.
    """
    kept = {k: v for k, v in os.environ.items() if k not in ("EVERVIEW_CACHE_DIR", "EVERVIEW_DEBUG")}
    done = subprocess.run(
        [sys.executable, "-c", LOAD_ALONE, str(cache.__file__)],
        env={**kept, **environment},
        capture_output=True,
        check=True,
        text=True,
    )
    return Path(done.stdout.strip())


def test_build_modes_are_apart(tmp_path: Path) -> None:
    normal = chosen(EVERVIEW_CACHE_DIR=str(tmp_path))
    assert normal.parent.parent == tmp_path / cache.FOLDER
    debug = chosen(EVERVIEW_CACHE_DIR=str(tmp_path), EVERVIEW_DEBUG="1")
    assert debug.name == normal.name
    assert debug.parent.name == normal.parent.name.replace("normal", "debug")


def test_unwritable_base_falls_back_to_a_temporary_directory(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.touch()
    assert chosen(EVERVIEW_CACHE_DIR=str(blocked)).parent.is_dir()


def test_an_archive_gives_back_its_parts(tmp_path: Path) -> None:
    parts = [("one", b"\n\x00code"), ("two", b"")]
    archive.write(tmp_path / "a.kernels", parts)
    assert archive.read(tmp_path / "a.kernels") == parts
    assert [p.name for p in tmp_path.iterdir()] == ["a.kernels"]


@pytest.mark.parametrize("damage", [lambda content: content[:-1], lambda content: b"\x00" + content])
def test_a_damaged_archive_is_an_error_with_a_hint(tmp_path: Path, damage: Callable[[bytes], bytes]) -> None:
    path = tmp_path / "a.kernels"
    archive.write(path, [("one", b"code")])
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(InternalError, match="delete that file"):
        archive.read(path)


def test_of_several_that_find_no_kernels_one_compiles(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, compiled = tmp_path / "a.kernels", []

    def run(command: list[str], **options: Any) -> subprocess.CompletedProcess[str]:
        compiled.append(options["env"]["EVERVIEW_COMPILING"])
        time.sleep(0.2)
        archive.write(path, [])
        return subprocess.CompletedProcess(command, 0)

    monkeypatch.setattr(subprocess, "run", run)
    waiting = [threading.Thread(target=archive.have_made, args=(path,)) for _ in range(4)]
    for thread in waiting:
        thread.start()
    for thread in waiting:
        thread.join()
    assert compiled == ["1"]


def test_a_failed_compilation_is_an_error_with_a_hint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subprocess, "run", lambda command, **_: subprocess.CompletedProcess(command, 1))
    with pytest.raises(InternalError, match=r"run `python -m everview.warm` to see why"):
        archive.have_made(tmp_path / "a.kernels")


def test_a_missing_kernel_is_an_error_with_a_hint() -> None:
    with pytest.raises(InternalError, match=r"everview_nowhere_nothing is not in .*delete that file"):
        libraries.library().address("everview_nowhere_nothing")


def test_a_process_that_runs_kernels_does_not_import_numba() -> None:
    program = """
import everview as ev, sys
db = ev.connect()
t = db.table("t", {"name": str, "n": int})
v = db.view("v", t.group_by("name").agg(n=ev.col.n.sum()))
t.insert([("a", 1), ("a", 2)])
assert v.rows() == [("a", 3)]
assert "numba" not in sys.modules and "scipy" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", program], check=True)


def test_kernels_refuse_what_is_not_theirs() -> None:
    with pytest.raises(TypeError):
        structures.peek(1)
    with pytest.raises(TypeError):
        structures.peek("1", 2)
    with pytest.raises(TypeError):
        structures.make_filled(np.zeros(3))
    with pytest.raises(TypeError):
        structures.make_filled(np.zeros((3, 3), dtype=np.int64))
    with pytest.raises((ValueError, BufferError)):
        structures.make_filled(np.zeros(6, dtype=np.int64)[::2])
    fixed = np.zeros(3, dtype=np.int64)
    fixed.flags.writeable = False
    with pytest.raises((ValueError, BufferError)):
        structures.make_filled(fixed)
    with pytest.raises(OverflowError):
        structures.peek(2**63, 0)


COMPILE_ALONE = f"""
import sys, types
package = types.ModuleType("everview")  # without its __init__: no other kernels
package.__path__ = [{str(cache.PACKAGE)!r}]
sys.modules["everview"] = package
import bad
"""


@pytest.mark.parametrize(
    ("body", "kinds", "complaint"),
    [
        ("return len([i for i in range(n)])", '"int"', "NRT"),
        ("return n", '"words"', "must take 2 words"),
    ],
)
def test_kernels_that_could_not_run_are_refused(tmp_path: Path, body: str, kinds: str, complaint: str) -> None:
    source = f"from everview.kernels.build.native import entry\n@entry({kinds})\ndef bad(n):\n    {body}\n"
    (tmp_path / "bad.py").write_text(source)
    environment = {**os.environ, "EVERVIEW_COMPILING": "1", "PYTHONPATH": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", COMPILE_ALONE], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode != 0
    assert complaint in done.stderr


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


def test_hashing_the_sources_parses_none_of_them() -> None:
    """Every process does it when it starts: about a hundred calls a file, most of them of paths (Python 3.12: 400)."""
    assert calls(cache.source_hash) < 500 * len(cache.kernel_sources())


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
    names = cache.kernel_modules()
    assert "everview.kernels.memory" in names
    assert "everview.kernels.build.cache" not in names


def test_every_file_with_kernels_decides_what_kernels_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also one with the name of a file of `kernels.build`, whose edits were passed over: old machine code stayed."""
    declared = re.compile(rb"^@(?:entry|operator|shared|task|inner|fused|primitive)\b", re.M)
    files = {p for p in (cache.PACKAGE / "kernels").rglob("*.py") if declared.search(p.read_bytes())}
    assert cache.PACKAGE / "kernels" / "run" / "executor.py" in files
    assert files <= set(cache.kernel_sources())
    namesake = tmp_path / "kernels" / "frontier" / "loader.py"
    namesake.parent.mkdir(parents=True)
    namesake.write_text("@inner\ndef load(): ...\n")
    monkeypatch.setattr(cache, "PACKAGE", tmp_path)
    assert namesake in cache.kernel_sources()


def test_importing_the_package_loads_no_kernels() -> None:
    program = """
import sys, everview as ev
from everview import Interval, InputError, col, connect, count, decimal, fixpoint, udf, when
assert not [name for name in sys.modules if name.startswith(("everview.kernels.memory", "everview.session.session"))]
connect()
assert "everview.kernels.memory" in sys.modules
assert not {"sqlglot", "lark", "typer", "rich"} & set(sys.modules)
"""
    subprocess.run([sys.executable, "-c", program], check=True)


def test_kernel_modules_are_imported_where_the_compiler_is_not_installed() -> None:
    program = """
import sys
class Hidden:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("llvmlite", "numba"):
            raise ModuleNotFoundError(name)
import importlib.util
real = importlib.util.find_spec
importlib.util.find_spec = lambda name, *rest: None if name == "llvmlite" else real(name, *rest)
import everview
from everview.kernels import early_exit, guarded_calls
assert type(guarded_calls.WORD).__name__ == "Nothing", guarded_calls.WORD
assert "llvmlite" not in sys.modules
sys.meta_path.insert(1, Hidden())
try:
    import llvmlite
except ImportError:
    sys.exit(0)
sys.exit("found a placeholder")
"""
    subprocess.run([sys.executable, "-c", program], check=True)


def test_a_shared_library_is_linked_and_loaded(tmp_path: Path) -> None:
    source = "int everview_demo_one(void) { return 1; }\nint everview_demo_one_python(void) { return 1; }\n"
    (tmp_path / "one.c").write_text(source)
    compiler = shutil.which("cc") or pytest.skip("there is no C compiler to make an object file with")
    subprocess.run([compiler, "-fPIC", "-c", "one.c"], cwd=tmp_path, check=True)
    linker.link(tmp_path / "made" / "one.so", [("one", (tmp_path / "one.o").read_bytes())])
    assert [p.name for p in (tmp_path / "made").iterdir()] == ["one.so"]
    loaded = libraries.Shared(tmp_path / "made" / "one.so")
    assert loaded.address("everview_demo_one")
    assert set(loaded.addresses()) == {"everview_demo_one"}
    with pytest.raises(InternalError, match=r"everview_demo_two is not in .*one\.so"):
        loaded.address("everview_demo_two")


def test_what_cannot_be_linked_or_loaded_is_an_error_with_a_hint(tmp_path: Path, monkeypatch: Any) -> None:
    with pytest.raises(InternalError, match="could not link"):
        linker.link(tmp_path / "bad.so", [("bad", b"no object file")])
    (tmp_path / "bad.so").write_bytes(b"no library")
    with pytest.raises(InternalError, match=r"cannot be loaded(.|\n)*install everview again"):
        libraries.Shared(tmp_path / "bad.so")
    monkeypatch.setattr(shutil, "which", lambda name: None)
    monkeypatch.delenv("LD", raising=False)
    with pytest.raises(InternalError, match="needs a linker"):
        linker.link(tmp_path / "none.so", [])


def test_the_best_shipped_library_that_runs_here_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / cache.FOLDER / "version"
    folder.mkdir(parents=True)
    monkeypatch.setattr(cache, "PACKAGE", tmp_path)
    monkeypatch.setattr(cpus, "runnable", lambda: ("fast", "plain"))
    assert cache.shipped_path("version") is None
    for name, expected in [("other", None), ("plain", "plain.so"), ("fast", "fast.so")]:
        (folder / f"{name}.so").touch()
        found = cache.shipped_path("version")
        assert (found and found.name) == expected


def test_levels_of_processors(tmp_path: Path) -> None:
    listed = tmp_path / "cpuinfo"
    listed.write_text(
        f"processor : 0\nflags\t\t: {' '.join(cpus.LEVELS['x86-64-v2'])}\n\nprocessor : 1\nflags : avx2\n"
    )
    flags = cpus._flags(listed)
    assert cpus.LEVELS["x86-64-v2"] <= flags
    assert not cpus.LEVELS["x86-64-v3"] <= flags
    assert cpus._flags(tmp_path / "none") == frozenset()


def test_without_a_compiler_it_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(InternalError, match=r"pip install 'everview\[compile\]'"):
        archive.have_made(tmp_path / "a.kernels")


def a_package(folder: Path, **modules: str) -> Parts:
    """Object files of a package with these modules, as a new process would find them."""
    package = folder / "everview"
    (package / "kernels").mkdir(parents=True, exist_ok=True)
    for name, text in modules.items():
        (package / "kernels" / f"{name}.py").write_text(text)
    return Parts(folder / "parts", package, sorted((package / "kernels").glob("*.py")), "a compiler")


def test_an_edit_compiles_what_it_can_have_changed(tmp_path: Path) -> None:
    sources = {"low": "X = 1", "high": "def f():\n    from everview.kernels.low import X", "apart": "import math"}
    before = a_package(tmp_path, **sources)
    for name in sources:
        before.keep(f"everview.kernels.{name}", "symbol", name.encode())

    def found(parts: Parts) -> dict[str, bytes | None]:
        return {name: parts.find(f"everview.kernels.{name}", "symbol") for name in sources}

    assert found(a_package(tmp_path)) == {"low": b"low", "high": b"high", "apart": b"apart"}
    assert found(a_package(tmp_path, low='"""Prose."""\nX = 1  # one'))["low"] == b"low"
    assert found(a_package(tmp_path, high="Y = 2")) == {"low": b"low", "high": None, "apart": b"apart"}
    assert found(a_package(tmp_path, **sources | {"low": "X = 2"})) == {"low": None, "high": None, "apart": b"apart"}
    assert found(a_package(tmp_path, **sources)) == {"low": b"low", "high": b"high", "apart": b"apart"}


def test_object_files_that_nobody_uses_are_deleted(tmp_path: Path) -> None:
    parts = a_package(tmp_path, low="X = 1")
    for k in range(20):
        parts.keep("everview.kernels.low", f"symbol{k}", b"old")
    later = a_package(tmp_path)
    assert later.find("everview.kernels.low", "symbol7") == b"old"
    later.tidy()
    assert len(list((tmp_path / "parts").iterdir())) == 8
    assert later.find("everview.kernels.low", "symbol7") == b"old"
