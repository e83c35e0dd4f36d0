"""One telling of the story of money, small and without Spark, for all tests that look at it."""

from __future__ import annotations

import io
import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from everview.demo.money import story


@dataclass(frozen=True)
class Renderer:
    """What a telling said, and left behind."""

    home: Path
    page: Path
    said: str

    @property
    def data(self) -> dict[str, Any]:
        """What the page holds."""
        found = re.search(r'<script id="data" type="application/json">(.*?)</script>', self.page.read_text(), re.DOTALL)
        assert found
        data: dict[str, Any] = json.loads(found[1])
        return data


@pytest.fixture(scope="session")
def telling(tmp_path_factory: pytest.TempPathFactory) -> Renderer:
    """The fast story, in lines of 80 columns."""
    home = tmp_path_factory.mktemp("money")
    said = io.StringIO()
    page = story.run(fast=True, spark=False, keep=home, console=Console(file=said, width=80))
    return Renderer(home, page, said.getvalue())
