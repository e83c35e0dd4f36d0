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

Current figures, as ratios where there is something to compare with; in brackets: times as fast. All were measured on
one shared machine with two cores, so trust ratios more than seconds. Written by `make docs` from `figures/*.json`; do
not edit by hand. [HISTORY.md](HISTORY.md) has every measurement as it was made, with its conclusions.
"""


def results() -> str:
    """The whole page."""
    found = [json.loads(path.read_text()) for path in sorted((HERE / "figures").glob("*.json"))]
    return "\n".join([INTRODUCTION, *(line for one in found for line in _section(one))])


def _section(found: dict[str, Any]) -> Iterator[str]:
    yield f"## {found['title']}\n"
    yield f"{found['question']}\n"
    yield f"| {' | '.join(found['columns'])} |"
    yield f"|{'---|' * len(found['columns'])}"
    for row in found["rows"]:
        yield f"| {' | '.join(_cell(value) for value in row)} |"
    yield f"\n{found['reading']}\n"
    yield f"*{found['date']}, commit {found['commit']}, `{found['script']}`, load average {found['load_average']}.*\n"


def _cell(value: Any) -> str:
    if isinstance(value, int | float):
        return f"{value:,}"
    return "" if value is None else str(value)


if __name__ == "__main__":
    PAGE.write_text(results())
    print(f"wrote {PAGE}")
