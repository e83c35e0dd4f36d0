"""Every error code of the sources is explained, and nothing else is."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

from everview.error_codes import CODES, SECTIONS

ROOT = Path(__file__).resolve().parents[2]
NO_CODES = {"E_DEMO"}
"""Names in examples."""


def raised() -> set[str]:
    """Everything in the sources that looks like a code, but for the explanations themselves."""
    files = [p for p in (ROOT / "src" / "everview").rglob("*.py") if p.name != "error_codes.py"]
    return set(re.findall(r"\bE_[A-Z][A-Z_]*[A-Z]\b", "\n".join(p.read_text() for p in files))) - NO_CODES


def test_every_code_is_explained() -> None:
    assert raised() - set(CODES) == set(), "explain them in everview/error_codes.py and run `make docs`"


def test_no_code_is_explained_that_is_never_raised() -> None:
    assert set(CODES) - raised() == set()


def test_a_code_is_explained_once_and_in_whole_sentences() -> None:
    assert sum(map(len, SECTIONS.values())) == len(CODES)
    short = [code for code, meaning in CODES.items() if any(not t or t[-1] not in ".`'!" for t in meaning)]
    assert short == []


def test_the_page_is_up_to_date() -> None:
    script = runpy.run_path(str(ROOT / "docs" / "make_errors.py"))
    assert script["PAGE"].read_text() == script["errors"](), "run `make docs`"
