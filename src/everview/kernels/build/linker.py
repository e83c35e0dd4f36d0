"""Links object files into the shared library that a wheel ships.

The library refers to the C library and to Python by bare names without listing them as needed, like extension modules
do with Python: the loading process has both. It is therefore independent of the versions on the machine that linked it.
Kernels call each other directly (`-Bsymbolic`); missing symbols are detected on loading (`-z now`).

Hazard: object files must be position-independent (`everview.warm` compiles them so), unlike those of an archive.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterable
from pathlib import Path

from everview.errors import InternalError

OPTIONS = "-shared -Bsymbolic --strip-debug -z now -z relro -z noexecstack --hash-style=gnu --build-id=none".split()


def link(path: Path, parts: Iterable[tuple[str, bytes]]) -> None:
    """Link object files into a shared library, atomically."""
    linker = os.environ.get("LD") or shutil.which("ld") or shutil.which("ld.lld")
    if not linker:
        hint = "install binutils or lld, or name one in LD"
        raise InternalError("E_KERNELS", "a shared library of kernels needs a linker, and there is none", hint)
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=path.parent) as folder:
        objects = []
        for number, (_, content) in enumerate(parts):
            objects.append(Path(folder, f"{number}.o"))
            objects[-1].write_bytes(content)
        made = Path(folder, path.name)
        done = subprocess.run([linker, *OPTIONS, "-o", made, *objects], capture_output=True, text=True, check=False)
        if done.returncode:
            raise InternalError("E_KERNELS", f"{linker} could not link the kernels: {done.stderr.strip()[-2000:]}")
        made.chmod(0o755)
        os.replace(made, path)
