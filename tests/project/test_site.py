"""The pages of the web site: all there, and linked to each other. `make site` builds them, strictly."""

from __future__ import annotations

import re
import runpy
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]


def collected(folder: Path) -> Path:
    script: dict[str, Any] = runpy.run_path(str(ROOT / "docs" / "make_site.py"))
    script["collect"].__globals__["PAGES"] = folder
    script["collect"]()
    return folder


def test_links_of_the_site_lead_to_its_pages(tmp_path: Path) -> None:
    pages = list(collected(tmp_path).rglob("*.md"))
    assert len(pages) > 40
    for page in pages:
        text = re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.M | re.S)
        for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", text):
            assert "://" in target or (page.parent / target).exists(), f"{page.name} links to {target}"


def test_every_page_is_in_the_navigation() -> None:
    navigation = (ROOT / "docs" / "mkdocs.yml").read_text().partition("nav:")[2]
    named = set(re.findall(r"[\w-]+\.md", navigation))
    assert {page.name for page in (ROOT / "docs").glob("*.md")} - named == set()
    assert {"readme.md", "changelog.md", "results.md"} <= named
