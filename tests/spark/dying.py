"""Drivers that are killed: a part of test programs, by which sinks die `before` or `after` they write, as `die` says,
and a way to run such programs.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

SHORT_LIVED = {"spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}
"""A setting for programs that end before Java's better compiler has paid for itself."""

DYING = """
def dying(write):
    def written(self, batch):
        if die == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        write(self, batch)
        if die == "after":
            os.kill(os.getpid(), signal.SIGKILL)

    return written
"""


def run_program(
    program: str, arguments: Sequence[str], env: Mapping[str, str], cwd: Path, timeout: float
) -> subprocess.CompletedProcess[str]:
    """Run a Python program that may be killed. It writes to files: its JVM and workers live on for a while when it
    dies, and one would wait for them to let go of a pipe.
    """
    command = [sys.executable, "-c", program, *arguments]
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as errors:
        done = subprocess.run(command, stdout=out, stderr=errors, env=dict(env), cwd=cwd, timeout=timeout)
        texts = [(file.seek(0), file.read())[1] for file in (out, errors)]
    return subprocess.CompletedProcess(command, done.returncode, *texts)
