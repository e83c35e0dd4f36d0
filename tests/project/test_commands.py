"""The command line, and the promises of README and CI that a reader would try first."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from typer.testing import CliRunner

from everview.cli import app, diagnosis
from everview.errors import InternalError

ROOT = Path(__file__).resolve().parents[2]


def test_help_lists_the_commands() -> None:
    result = CliRunner().invoke(app, ["--help"])
    assert result.exit_code == 0
    for command in ("demo", "run", "doctor", "bench"):
        assert command in result.output
    assert result.output.index("  demo ") < result.output.index("  sql ") < result.output.index("  doctor ")
    assert "..." not in result.output.split("Commands:")[1]  # each command's line says what it does, uncut


def test_doctor_names_the_kernel_cache() -> None:
    result = CliRunner().invoke(app, ["doctor"])
    assert result.exit_code == 0, result.output
    assert "everview-kernels" in result.output


def test_missing_kernels_are_a_message_and_faults_of_ours_a_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(code: str) -> None:
        raise InternalError(code, "no kernels", "pip install 'everview[compile]'")

    monkeypatch.setattr(diagnosis, "examine", lambda show: fail("E_KERNELS"))
    result = CliRunner().invoke(app, ["doctor"])
    assert result.exit_code == 1 and "[E_KERNELS] no kernels" in result.output
    monkeypatch.setattr(diagnosis, "examine", lambda show: fail("E_INTERNAL"))
    assert isinstance(CliRunner().invoke(app, ["doctor"]).exception, InternalError)


def test_commands_of_pages_are_make_targets() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    named = set(re.findall(r"`?make ([a-z-]+)", (ROOT / "README.md").read_text()))
    assert {"demo", "test"} <= named <= targets
    for page in (ROOT / "docs").glob("*.md"):
        assert set(re.findall(r"(?:^|`)make ([a-z-]+)", page.read_text(), re.MULTILINE)) <= targets, page.name


def test_ci_runs_the_readmes_test_command() -> None:
    script = ROOT / ".ci" / "run"
    assert os.access(script, os.X_OK)
    assert "make test" in script.read_text()
    subprocess.run(["bash", "-n", str(script)], check=True)


def test_links_in_pages_lead_somewhere() -> None:
    for page in [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]:
        for target in re.findall(r"\]\(([^)#]+)[^)]*\)", page.read_text()):
            if not target.startswith("https://"):  # what lies elsewhere is not ours to keep
                assert (page.parent / target).exists(), f"{page.name} links to {target}"


@pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")
def test_a_python_that_does_not_run_is_not_replaced_by_another() -> None:
    done = subprocess.run(
        ["make", "-n", "lint", "PYTHON=python3.00"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode != 0 and "python3.00 does not run" in done.stderr
    assert ".venv" not in done.stdout


@pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")
def test_a_directory_that_the_debug_build_does_not_find_is_an_error() -> None:
    script = re.search(r"@(for d in \$\(DEBUG_TESTS\).*)", (ROOT / "Makefile").read_text())
    assert script is not None
    for names, code in (("tests/oracle", 0), ("tests/oracle tests/none", 1)):
        command = script[1].replace("$(DEBUG_TESTS)", names).replace("$$", "$")
        assert subprocess.run(["bash", "-c", command], cwd=ROOT, capture_output=True, check=False).returncode == code


def test_the_bounds_checked_build_runs_every_directory_that_reaches_kernels() -> None:
    """Left out are tests that start processes of their own (benchmarks, the wheel) and those that read the tree."""
    listed = re.search(r"DEBUG_TESTS \?= (.*?[^\\])\n", (ROOT / "Makefile").read_text(), re.DOTALL)
    assert listed is not None
    there = {f"tests/{path.name}" for path in (ROOT / "tests").iterdir() if any(path.rglob("test_*.py"))}
    assert set(listed[1].replace("\\", " ").split()) == there - {"tests/bench", "tests/package", "tests/project"}
