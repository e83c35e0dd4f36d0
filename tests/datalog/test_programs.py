"""Every program in a text file gives what it says, and what the evaluator from scratch says."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.datalog.harness import run

FILES = sorted(Path(__file__).parent.glob("*.dl"))


@pytest.mark.parametrize("plan", [None, "delta", "wco"])
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_program(path: Path, plan: str | None) -> None:
    run(path, plan)
