"""Compile every kernel now and keep it: `python -m everview.warm [--debug]`.

Kernels have explicit signatures, so importing a module compiles what it holds (or loads it from the cache of
`everview.kernels.cache`). This walks all modules that use Numba, says how long each took, checks the compiled entry
points that modules list in `KERNELS`, and marks the cache as complete. The debug build differs at import time, so
`--debug` runs a second interpreter.
"""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
import time
from typing import Any

from everview.kernels import cache, progress


def entry_points(module: Any) -> list[tuple[str, Any]]:
    """What a module lists as compiled: pairs of a name and a Numba dispatcher or cfunc."""
    return list(getattr(module, "KERNELS", ()))


def is_compiled(kernel: Any) -> bool:
    """Whether a dispatcher has a compiled signature, or a cfunc its address."""
    return bool(getattr(kernel, "signatures", None) or getattr(kernel, "address", None))


def warm() -> int:
    """Import every kernel module of this build; gives the number of modules."""
    directory = cache.configure()
    names = progress.kernel_modules()
    late: list[str] = []
    for name in names:
        module = importlib.import_module(name)
        late += [f"{name}.{label}" for label, kernel in entry_points(module) if not is_compiled(kernel)]
    (directory / cache.COMPLETE).touch()
    seconds = time.process_time()  # of the whole process: `import everview` itself compiles before this module runs
    print(f"  {len(names)} kernel modules ready, {seconds:.1f} s CPU ({cache.build_mode()} build, {directory})")
    if late:
        print(f"  compiled only when first used (no explicit signature): {', '.join(late)}")
    return len(names)


def main(arguments: list[str]) -> int:
    """Warm the build of this process; with `--debug` the bounds-checked build instead, in a new interpreter."""
    if "--debug" in arguments and cache.build_mode() != "debug":
        environment = {**os.environ, "EVERVIEW_DEBUG": "1"}
        return subprocess.run([sys.executable, "-m", "everview.warm"], env=environment, check=False).returncode
    warm()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
