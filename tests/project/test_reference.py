"""The reference page says what the docstrings say."""

from __future__ import annotations

import runpy
from pathlib import Path


def test_reference_is_up_to_date() -> None:
    script = runpy.run_path(str(Path(__file__).resolve().parents[2] / "docs" / "make_reference.py"))
    assert script["PAGE"].read_text() == script["reference"](), "run `make docs`"
