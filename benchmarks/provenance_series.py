"""The figures of liu-2016 §3.7 as series: the methods of `provenance.py` while one thing grows.

    by_ratio     a quarter to all of the links come (LI-F12)
    by_deleted   an eighth to half of them go, one by one (LI-F13)
    by_sensors   a quarter to all of the triggered sensors of a grid come (LI-F14)
    by_links     networks of more and more links, sparse and dense (LI-F15)
    by_nodes     4 to 24 logical nodes (LI-F16)

A measurement that passes its budget of decision nodes, or `--limit` CPU seconds for its insertions or its deletions, is
*not finished*. What is larger in the same series is then not tried, and is not finished either (`tried` is false). As
in the thesis, dense networks have up to 800 links; other figures are of a network of 90, because deletions of all pairs
by models in Python take long; the budget is 400,000 nodes, not minutes. With --plot a chart is drawn for each figure,
with a gap for what did not finish.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import plot
from provenance import METHODS, Pair, measure, transit_stub
from provenance_region import region

COMPARED = ("dred", "relative", "eager", "lazy", "ours", "frugal", "column_lazy")
RATIOS = (0.25, 0.5, 0.75, 1.0)
SIZES = ((2, 3), (3, 4), (4, 5), (5, 7))
"""Stubs of each transit node, and nodes of each stub."""

NODES = (4, 8, 12, 16, 24)

Found = dict[str, Any]


class Series:
    """Measurements of one method while something grows; after the first that is not finished none is tried."""

    def __init__(self, method: str, options: argparse.Namespace) -> None:
        self.method = method
        self.options = options
        self.finished = True

    def measure(self, at: float, links: list[Pair], gone: list[Pair], nodes: int = 12) -> Found:
        """One of them; `at` is what grows."""
        if not self.finished:
            return {"method": self.method, "at": at, "finished": False, "tried": False}
        found = measure(self.method, nodes, links, gone, self.options.budget, self.options.limit)
        self.finished = found["finished"]
        if self.finished and found["rows"]:
            found["bytes_per_row"] = round(found["state_bytes"] / found["rows"], 1)
        print(f"{self.method} {at}: {found}", file=sys.stderr, flush=True)
        return {"at": at, **found}


def series(options: argparse.Namespace) -> dict[str, list[Found]]:
    """All figures."""
    links = transit_stub(1, 3, 0.3) if options.quick else transit_stub(2, 4, 0.3)
    order = list(links)
    random.Random(11).shuffle(order)
    ratios, nodes, sizes = (RATIOS, NODES, SIZES) if not options.quick else (RATIOS[-1:], NODES[:1], ((1, 3),))
    found: dict[str, list[Found]] = {name: [] for name in ("by_ratio", "by_deleted", "by_nodes", "by_links")}
    for method in COMPARED:
        one = Series(method, options)
        found["by_ratio"] += [one.measure(r, links[: int(r * len(links))], []) for r in ratios]
        one = Series(method, options)
        found["by_deleted"] += [one.measure(r / 2, links, order[: int(r / 2 * len(links))]) for r in ratios]
        one = Series(method, options)
        found["by_nodes"] += [one.measure(n, links, order[: len(links) // 5], n) for n in nodes]
        for density, extra in (("sparse", 0.1), ("dense", 0.9)):
            one = Series(method, options)
            networks = [transit_stub(stubs, per, extra) for stubs, per in sizes]
            found["by_links"] += [{"density": density, **one.measure(len(n), n, [])} for n in networks]
    side = 5 if options.quick else 9
    found["by_sensors"] = [
        {"at": r, **f} for r in ratios for f in region(side, options.budget, METHODS, r, options.limit)
    ]
    return found


CHARTS = (
    ("by_ratio", "insert_bytes", "figure 12: bytes sent by insertions", ""),
    ("by_ratio", "insert_s", "figure 12: seconds of insertions", ""),
    ("by_deleted", "delete_bytes", "figure 13: bytes sent by deletions", ""),
    ("by_deleted", "delete_s", "figure 13: seconds of deletions", ""),
    ("by_sensors", "insert_bytes", "figure 14: bytes sent while sensors are triggered", ""),
    ("by_links", "insert_s", "figure 15: seconds of insertions, sparse", "sparse"),
    ("by_links", "insert_s", "figure 15: seconds of insertions, dense", "dense"),
    ("by_nodes", "bytes_per_row", "figure 16: bytes of state for each row", ""),
    ("by_nodes", "delete_bytes", "figure 16: bytes sent by deletions", ""),
)
WHAT_GROWS = {
    "by_ratio": "part of the links",
    "by_deleted": "part of the links that goes",
    "by_sensors": "part of the sensors",
    "by_links": "links",
    "by_nodes": "logical nodes",
}


def draw(folder: Path, report: dict[str, list[Found]]) -> None:
    """A chart for each figure; seconds are drawn as microseconds, because the axis begins at one."""
    for name, what, title, density in CHARTS:
        rows = [r for r in report[name] if not density or r["density"] == density]
        scale, unit = (1e6, "microseconds") if what.endswith("_s") else (1.0, what.replace("_", " "))
        lines = {m: [scale * r.get(what, 0.0) for r in rows if r["method"] == m] for m in _methods(rows)}
        grows = f"{WHAT_GROWS[name]}: {', '.join(f'{at:g}' for at in dict.fromkeys(r['at'] for r in rows))}"
        suffix = f"-{density}" if density else ""
        plot.line_chart(folder / f"provenance-{name}-{what}{suffix}.svg", title, grows, unit, lines)


def _methods(rows: Iterable[Found]) -> list[str]:
    return list(dict.fromkeys(r["method"] for r in rows))


def main() -> None:
    """Print JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--budget", type=int, default=400_000, help="nodes of decision diagrams")
    parser.add_argument("--limit", type=float, default=60.0, help="CPU seconds for a method's insertions or deletions")
    parser.add_argument("--plot", help="a directory for SVG files")
    parser.add_argument("--quick", action="store_true", help="tiny networks, for tests")
    options = parser.parse_args()
    report = series(options)
    if options.plot:
        draw(Path(options.plot), report)
    print(json.dumps({"benchmark": "provenance_series", "quick": options.quick, **report}))


if __name__ == "__main__":
    main()
