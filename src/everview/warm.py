"""Compile all kernels and store them: `python -m everview.warm [--debug]`.

Installation runs this so that no first query waits for the compiler; a process that finds no compiled kernels runs it
too. Compilation happens in a separate process, because it configures Numba in ways that other code would not expect
(`everview.kernels.build.compiler`). A failed or interrupted compilation leaves nothing behind.

`python -m everview.warm --into FOLDER [--cpu NAME]` builds what a wheel ships: a shared library of kernels for a named
processor (`everview.kernels.build.cpus`) instead of this machine's own.
"""

from __future__ import annotations

import argparse
import importlib
import os
import platform
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from everview.kernels.build import archive, cache, cpus, libraries

FOR_CPU, INTO = "EVERVIEW_COMPILE_FOR", "EVERVIEW_COMPILE_INTO"
"""Environment variables that pass `--cpu` and `--into` to the compiling process."""


def _compile_here() -> None:
    cpu = os.environ.get(FOR_CPU)
    if cpu:
        _compile_for(cpus.IN_LLVM.get(cpu, cpu))
    from everview.kernels.build import native  # noqa: F401, I001  # first: it and `compiler` know each other
    from everview.kernels.build import compiler
    from everview.kernels.build.progress import Progress

    print(f"compiling Everview's kernels ({cpu or 'this machine'}, {cache.build_mode()} build): once", flush=True)
    begun = time.monotonic()
    progress = Progress(compiler.TOTAL)
    compiler._say = lambda module: progress.tell(len(compiler.PARTS) - 2)  # two modules are not kernels
    for name in cache.kernel_modules():
        importlib.import_module(name)
    path = _keep(compiler.PARTS, cpu)
    compiler.OBJECT_FILES.tidy()
    seconds = f"{time.monotonic() - begun:.0f} s, {time.process_time():.1f} s of them CPU"
    print(f"  {len(compiler.PARTS)} kernels ready, {seconds}, {path}", flush=True)


def _keep(parts: list[tuple[str, bytes]], cpu: str | None) -> Path:
    if cpu:
        from everview.kernels.build.linker import link

        path = _library_in(Path(os.environ[INTO]), cpu)
        link(path, parts)
        return path
    path = cache.archive_path()
    archive.write(path, parts)
    cache.remove_stale(path.parent)
    return path


def _library_in(folder: Path, cpu: str) -> Path:
    return folder / f"{cache.source_hash()}-{cache.build_mode()}" / f"{cpu}{cache.SHARED}"


def _compile_for(name: str) -> None:
    """Configure Numba for a named processor, and for object files that can be linked into a shared library."""
    from numba.core.codegen import JITCPUCodegen

    def options(self: Any, options: dict[str, Any]) -> None:
        options.update(cpu=name, features="", reloc="pic", codemodel="default")

    JITCPUCodegen._customize_tm_options = options


def main(arguments: list[str]) -> int:
    """Compile this build, or the requested one, unless it exists."""
    if os.environ.get("EVERVIEW_COMPILING") == "1":
        _compile_here()
        return 0
    parser = argparse.ArgumentParser(prog="python -m everview.warm", description="Compile every kernel now.")
    parser.add_argument("--debug", action="store_true", help="the bounds-checked build")
    parser.add_argument("--into", help="make a shared library for wheels in this folder")
    usual = cpus.BASELINES.get(platform.machine(), "generic")
    parser.add_argument("--cpu", default=usual, help="the processor that the shared library is for (%(default)s)")
    chosen = parser.parse_args(arguments)
    environment = {**os.environ, **({"EVERVIEW_DEBUG": "1"} if chosen.debug else {})}
    if chosen.into:
        if _library_in(Path(chosen.into), chosen.cpu).exists():
            return 0
        environment |= {"EVERVIEW_COMPILING": "1", FOR_CPU: chosen.cpu, INTO: os.path.abspath(chosen.into)}
    elif not chosen.debug or cache.build_mode() == "debug":
        libraries.library()
        return 0
    return subprocess.run([sys.executable, "-m", "everview.warm"], env=environment, check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
