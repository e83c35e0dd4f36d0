"""Compile every kernel now and keep it: `python -m everview.warm [--debug]`.

Set-up calls this, so that nobody's first query waits for a compiler; a process that finds no compiled kernels calls it
too. The work is done in a process of its own, because Numba is told there to do only half of what others
expect of it (`everview.kernels.build.compiling`). A failed or interrupted compilation leaves nothing behind.
"""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
import time

from everview.kernels.build import archive, cache


def _compile_here() -> None:
    from everview.kernels.build.compiling import PARTS

    for name in cache.kernel_modules():
        importlib.import_module(name)
    path = cache.archive_path()
    archive.write(path, PARTS)
    cache.remove_stale(path.parent)
    print(f"  {len(PARTS)} kernels ready, {time.process_time():.1f} s CPU, {path}", flush=True)


def main(arguments: list[str]) -> int:
    """Compile this build, which importing Everview has done already; with `--debug` the bounds-checked one."""
    if os.environ.get("EVERVIEW_COMPILING") == "1":
        _compile_here()
    elif "--debug" in arguments and cache.build_mode() != "debug":
        environment = {**os.environ, "EVERVIEW_DEBUG": "1"}
        return subprocess.run([sys.executable, "-m", "everview.warm"], env=environment, check=False).returncode
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
