"""Write benchmarks/RESULTS.md, one page of current figures as ratios, from benchmarks/figures/*.json: `make docs`.

Each file is one measurement: its question, date, commit, script, the machine's load, and rows. Nothing is computed here
but the page. Measurements as they were made, with what was concluded then, are in HISTORY.md.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
PAGE = HERE / "RESULTS.md"
INTRODUCTION = """\
# Results

Current ratios, where there is something to compare with; in brackets: times as fast. One shared machine, two cores. \
Written by `make docs` from `figures/*.json`. [HISTORY.md](HISTORY.md) has every measurement, with its conclusions."""


def results() -> str:
    """The whole page."""
    found = [json.loads(path.read_text()) for path in sorted((HERE / "figures").glob("*.json"))]
    return "\n".join([INTRODUCTION, *(line for one in found for line in _section(one))]) + "\n"


def _section(found: dict[str, Any]) -> Iterator[str]:
    yield f"\n## {found['title']}"
    yield f"{found['question']}\n"
    yield f"| {' | '.join(found['columns'])} |"
    yield f"|{'---|' * len(found['columns'])}"
    for row in found["rows"]:
        yield f"| {' | '.join(_cell(value) for value in row)} |"
    made = f"*{found['date']}, commit {found['commit']}, `{found['script']}`, load average {found['load_average']}.*"
    yield f"\n{found['reading']} {made}"


def _cell(value: Any) -> str:
    if isinstance(value, int | float):
        return f"{value:,}"
    return "" if value is None else str(value)


if __name__ == "__main__":
    PAGE.write_text(results())
    print(f"wrote {PAGE}")
