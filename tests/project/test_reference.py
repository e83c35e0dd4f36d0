"""Pages that are written by scripts are what the scripts would write, and complete."""

from __future__ import annotations

import importlib
import re
import runpy
from pathlib import Path

import everview

ROOT = Path(__file__).resolve().parents[2]


def test_reference_is_up_to_date() -> None:
    script = runpy.run_path(str(Path(__file__).resolve().parents[2] / "docs" / "make_reference.py"))
    assert script["PAGE"].read_text() == script["reference"](), "run `make docs`"


def test_the_reference_has_every_public_name_of_every_part() -> None:
    page = (ROOT / "docs" / "reference.md").read_text()
    parts = {part: importlib.import_module(f"everview.{part}") for part in ("io", "graph", "notebook", "spark")}
    names = [*everview.__all__, *(f"{part}.{name}" for part, module in parts.items() for name in module.__all__)]
    assert len(names) > 50
    assert [name for name in names if f"## `{name}" not in page] == []


def test_results_are_one_page_made_from_figures() -> None:
    script = runpy.run_path(str(ROOT / "benchmarks" / "make_results.py"))
    page = script["PAGE"].read_text()
    assert page == script["results"](), "run `make docs`"
    assert len(page.splitlines()) <= 120


def test_ratios_in_the_readme_are_those_of_the_results() -> None:
    readme = (ROOT / "README.md").read_text()
    figures = readme[readme.index("## How fast") : readme.index("## How it works")]
    results = (ROOT / "benchmarks" / "RESULTS.md").read_text()
    quoted = [number for bold in re.findall(r"\*\*([^*]+)\*\*", figures) for number in re.findall(r"[\d.,]*\d", bold)]
    assert len(quoted) >= 8
    assert [number for number in quoted if number not in results] == []
