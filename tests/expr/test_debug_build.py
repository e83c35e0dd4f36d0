"""The bounds-checked build runs the same tests of the machine."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from everview.kernels.build.native import DEBUG

HERE = Path(__file__).parent


@pytest.mark.slow
@pytest.mark.skipif(DEBUG, reason="this is the debug build already")
def test_the_machine_stays_inside_its_registers() -> None:
    files = [HERE / "test_laziness.py", HERE / "test_functions.py", HERE / "test_random_trees.py"]
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *map(str, files)]
    done = subprocess.run(
        command, cwd=HERE.parents[1], env={**os.environ, "EVERVIEW_DEBUG": "1"}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout[-3000:]
